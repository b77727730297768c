"""Hugging Face folders: ``config.json`` with safetensors, whole or in shards. This file knows no families."""

from __future__ import annotations

from pathlib import Path

from model.checkpoints import safetensors_format
from model.checkpoints.config_file import read_json
from model.checkpoints.source import Format, Source, TensorFile
from model.errors import CheckpointError

CONFIG = "config.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model")


def recognises(path: Path) -> bool:
    """A folder with a config."""
    return path.is_dir() and (path / CONFIG).is_file()


def open_folder(path: Path) -> Source:
    """Describe the folder."""
    config = read_json(path / CONFIG)
    tokenizers = tuple(path / name for name in TOKENIZERS if (path / name).is_file())
    return Source(path, path.resolve().name, config, _files(path), tokenizer=tokenizers)


def _files(path: Path) -> TensorFile:
    if (path / safetensors_format.INDEX).is_file():
        return safetensors_format.open_sharded(path / safetensors_format.INDEX)
    if (path / safetensors_format.SINGLE).is_file():
        return safetensors_format.open_single(path / safetensors_format.SINGLE)
    raise CheckpointError(f"{path.name} has a config.json but no {safetensors_format.SINGLE}; download the weights.")


FORMAT = Format("Hugging Face folder", recognises, open_folder)
