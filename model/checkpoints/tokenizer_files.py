"""Finds the tokenizer that lies beside a model's weights, with its chat templates. Nothing here knows a model."""

from __future__ import annotations

from pathlib import Path

from model.checkpoints.chat_files import templates_beside
from model.checkpoints.spm_codec import read_model
from model.tokenizer import Tokenizer

JSON = "tokenizer.json"
SENTENCEPIECE = "tokenizer.model"


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
    if (folder / SENTENCEPIECE).is_file():
        return read_model(folder / SENTENCEPIECE)
    return None
