"""Hugging Face folders and bare weight files: ``config.json`` with safetensors or torch files, whole or in shards.

A ``config.json`` without weights is a checkpoint of shapes only.
"""

from __future__ import annotations

from pathlib import Path

from ropewalk.model.checkpoints.config_file import read_json
from ropewalk.model.checkpoints.formats import safetensors_files, torch_files
from ropewalk.model.checkpoints.formats.magic import kind_of
from ropewalk.model.checkpoints.source import Format, Source, TensorFile
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import Options

CONFIG = "config.json"
WEIGHT_SUFFIXES = (".safetensors", *torch_files.SUFFIXES, ".gguf", ".h5", ".msgpack", ".onnx")


def is_folder(path: Path) -> bool:
    """A folder with a config."""
    return path.is_dir() and (path / CONFIG).is_file()


def open_folder(path: Path, options: Options) -> Source:
    """Describe a folder."""
    files = _files(path)
    notes = () if files is not None else ("There are no weights here: shapes only.",)
    return _source(path, path / CONFIG, files, notes)


def is_bare_file(path: Path) -> bool:
    """A weight file beside a config."""
    return kind_of(path) in ("safetensors", "torch") and (path.parent / CONFIG).is_file()


def open_bare_file(path: Path, options: Options) -> Source:
    """Describe a weight file by the config beside it."""
    single = safetensors_files if kind_of(path) == "safetensors" else torch_files
    return _source(path, path.parent / CONFIG, single.open_single(path))


def is_config(path: Path) -> bool:
    """A config alone."""
    return path.is_file() and path.suffix == ".json"


def open_config(path: Path, options: Options) -> Source:
    """Describe shapes only."""
    return _source(path, path, None, ("Only the config was opened: shapes only.",))


def _source(path: Path, config: Path, files: TensorFile | None, notes: tuple[str, ...] = ()) -> Source:
    folder = config.parent
    name = path.stem if path.is_file() and path.name != CONFIG else folder.resolve().name
    return Source(
        path,
        name,
        read_json(config),
        files,
        config_name=config.name,
        tokenizer=lambda: tokenizer_beside(folder),
        notes=notes,
    )


def _files(path: Path) -> TensorFile | None:
    """The weights of a folder, safetensors first; None where there is no weight file at all."""
    file: TensorFile
    for module in (safetensors_files, torch_files):
        if (path / module.INDEX).is_file():
            file = module.open_sharded(path / module.INDEX)
            return file
        if (path / module.SINGLE).is_file():
            file = module.open_single(path / module.SINGLE)
            return file
    found = sorted(file.name for file in path.iterdir() if file.suffix in WEIGHT_SUFFIXES)
    if not found:
        return None
    if len(found) == 1 and Path(found[0]).suffix == ".safetensors":
        return safetensors_files.open_single(path / found[0])
    if safetensors_files.SHARD.fullmatch(found[0]):
        kind = safetensors_files.INDEX if found[0].endswith(".safetensors") else torch_files.INDEX
        raise CheckpointError(f"{path.name} holds the shard {found[0]} but no {kind}; download the index too.")
    raise CheckpointError(
        f"{path.name} holds {found[0]}, but none of the names that a checkpoint folder has "
        f"({safetensors_files.SINGLE}, {torch_files.SINGLE}, or shards with an index); open the file itself."
    )


FORMATS = (
    Format("Hugging Face folder", is_folder, open_folder),
    Format("weight file beside a config.json", is_bare_file, open_bare_file),
    Format("config.json alone", is_config, open_config),
)
