"""Finds the tokenizer that lies beside a model's weights, with its chat templates."""

from __future__ import annotations

from pathlib import Path

from ropewalk.model.checkpoints.damage import check_is_data
from ropewalk.model.checkpoints.tokenizers import tekken, vocab_and_merges
from ropewalk.model.checkpoints.tokenizers.chat_templates import templates_beside
from ropewalk.model.checkpoints.tokenizers.sentencepiece import read_model
from ropewalk.model.checkpoints.tokenizers.tiktoken import is_tiktoken, read_tiktoken
from ropewalk.model.errors import CheckpointError, TokenizerError
from ropewalk.model.tokens.tokenizer import Tokenizer

JSON = "tokenizer.json"
MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
"""SentencePiece's names; the first may also be tiktoken's format, in Meta's folders."""


def tokenizer_beside(*folders: Path) -> Tokenizer | None:
    """The tokenizer in the first folder that has one."""
    for folder in folders:
        tokenizer = _tokenizer_in(folder)
        if tokenizer is not None:
            tokenizer.chats = templates_beside(folder)
            return tokenizer
    return None


def _tokenizer_in(folder: Path) -> Tokenizer | None:
    names = [name for name in (JSON, *MODELS, tekken.NAME) if (folder / name).is_file()]
    found = [*(folder / name for name in names), *sorted(folder.glob("*.tiktoken"))]
    if (folder / vocab_and_merges.VOCABULARY).is_file() and (folder / vocab_and_merges.MERGES).is_file():
        found.append(folder / vocab_and_merges.VOCABULARY)
    if not found:
        return None
    path = found[0]
    try:
        check_is_data(path)
        if path.name == JSON:
            return Tokenizer.from_file(path)
        if path.name == tekken.NAME:
            return tekken.read_tekken(path)
        if path.name == vocab_and_merges.VOCABULARY:
            return vocab_and_merges.read_vocab_and_merges(folder)
        return read_tiktoken(path) if is_tiktoken(path) else read_model(path)
    except CheckpointError as error:  # ids can still be typed
        raise TokenizerError(error.sentence, error.details) from error
