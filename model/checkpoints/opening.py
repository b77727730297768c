"""From a path to a model that runs: recognise the format, read the config, build on the meta device, load.

Nothing is allocated before names, shapes and config agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from model.checkpoints.families import Family
from model.checkpoints.formats import FORMATS
from model.checkpoints.reading import read_config
from model.checkpoints.source import Source, TensorFile
from model.checkpoints.weights import ProgressCall, load, patterns_of, plan, same_matrix, stored_under
from model.config import ModelConfig
from model.decoder import Decoder
from model.errors import CheckpointError, DeviceError
from model.tokenizer import Tokenizer

BUNDLED = Path(__file__).resolve().parents[2] / "resources" / "bundled"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """An open checkpoint.

    Attributes
    ----------
    model
        The decoder, in evaluation mode, on its device.
    tokenizer
        None where the checkpoint has none; then ids are typed instead of text.
    name, path, family
        What to call it, where it lies, and the entry of the family table that it is.
    parameters, weight_bytes
        Numbers in the model, a tied matrix counted once, and the bytes they take.
    notes
        What was inferred or left out, in sentences.
    """

    model: Decoder
    config: ModelConfig
    tokenizer: Tokenizer | None
    name: str
    path: str
    family: str
    parameters: int
    weight_bytes: int
    notes: tuple[str, ...] = ()


def open_checkpoint(
    path: str | Path | None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    progress: ProgressCall | None = None,
) -> Checkpoint:
    """Open a checkpoint.

    Parameters
    ----------
    path
        A folder or a file; None is the model that comes with Ropewalk.
    device, dtype
        Where the weights go and as what.
    progress
        Called with done, total and what, before each layer; it may raise :class:`~model.errors.Cancelled`.

    Raises
    ------
    CheckpointError
        For a file that cannot be opened: what was found, what was expected, what to do.
    ShapeError, ConfigError
        For weights or fields that contradict each other.
    DeviceError
        For a device or dtype that is not there.
    """
    place, kind = device_of(device), dtype_of(dtype)
    source = describe(BUNDLED if path is None else Path(path))
    files = source.files
    if files is None:
        raise CheckpointError(f"{source.path.name} has no weights.")
    try:
        family, config = read_config(source.config, source.config_name, patterns_of(files.tensors))
        config = _untied_if_different(family, config, files)
        with torch.device("meta"):
            model = Decoder(config)
        placements = plan(files, family.weights, model, source.path.name, family.name)
        load(model, placements, files, device=place, dtype=kind, progress=progress)
    finally:
        files.close()
    model.eval()
    parameters = sum(value.numel() for value in model.parameters())
    return Checkpoint(
        model=model,
        config=config,
        tokenizer=_tokenizer(source),
        name="bundled" if path is None else source.name,
        path=str(source.path),
        family=family.name,
        parameters=parameters,
        weight_bytes=parameters * kind.itemsize,
        notes=source.notes,
    )


def describe(path: Path) -> Source:
    """Recognise the format of a path and read its descriptions, not its tensors."""
    if not path.exists():
        raise CheckpointError(f"There is nothing at {path}; check the path.")
    for format_ in FORMATS:
        if format_.recognises(path):
            return format_.open(path)
    raise CheckpointError(f"{path.name} is not a checkpoint that Ropewalk knows; it opens folders with a config.json.")


def device_of(name: str) -> torch.device:
    """A device by name.

    Raises
    ------
    DeviceError
        When this machine does not have it.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError(f"There is no device named {name!r:.40}; choose cpu, cuda or mps.", str(error)) from error
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, False):
        raise DeviceError(f"The device {name} is not there on this machine; choose {', '.join(available_devices())}.")
    return device


def available_devices() -> tuple[str, ...]:
    """The devices that this machine has."""
    cuda = ("cuda",) if torch.cuda.is_available() else ()
    mps = ("mps",) if torch.backends.mps.is_available() else ()
    return ("cpu", *cuda, *mps)


def dtype_of(name: str) -> torch.dtype:
    """A dtype by name.

    Raises
    ------
    DeviceError
        When it is not one that models run in.
    """
    if name not in DTYPES:
        raise DeviceError(f"The dtype {name!r:.40} is not one that models run in; choose {', '.join(DTYPES)}.")
    return DTYPES[name]


def _untied_if_different(family: Family, config: ModelConfig, files: TensorFile) -> ModelConfig:
    """A config that ties the last matrix, for a file that holds it with other numbers, is taken at the file's word."""
    if not config.tied:
        return config
    head, embed = (stored_under(target, family.weights, files) for target in ("head.weight", "embed.weight"))
    if head is None or embed is None or same_matrix(files, head, embed):
        return config
    return config.changed(tied=False)


def _tokenizer(source: Source) -> Tokenizer | None:
    return Tokenizer.from_file(source.tokenizer[0]) if source.tokenizer else None
