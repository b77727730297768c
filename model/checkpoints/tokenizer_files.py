"""Finds the tokenizer that lies beside a model's weights, with its chat templates. Nothing here knows a model."""

from __future__ import annotations

from pathlib import Path

from model.checkpoints.chat_files import templates_beside
from model.checkpoints.sentencepiece_file import read_model
from model.checkpoints.tiktoken_file import is_tiktoken, read_tiktoken
from model.tokenizer import Tokenizer

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
    if (folder / JSON).is_file():
        return Tokenizer.from_file(folder / JSON)
    for name in MODELS:
        if (folder / name).is_file():
            return read_tiktoken(folder / name) if is_tiktoken(folder / name) else read_model(folder / name)
    ranks = sorted(folder.glob("*.tiktoken"))
    return read_tiktoken(ranks[0]) if ranks else None
