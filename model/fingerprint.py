"""Tells whether a checkpoint is still the one it was: a hash over its files, small ones whole, large ones in samples.

No torch, no weights are loaded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import Progress, Steps

ENDINGS: Final = frozenset({".safetensors", ".bin", ".pth", ".pt", ".gguf", ".json", ".model", ".jinja", ".txt"})
"""Of the files in a folder that make a checkpoint what it is."""
WHOLE: Final = 8 << 20
"""Bytes up to which all of a file is read."""
SAMPLES: Final = 64
SAMPLE: Final = 16 << 10
"""Bytes of a sample; of a larger file ``SAMPLES`` are read, its first and last bytes among them."""


def fingerprint_steps(path: Path, adapter: str = "") -> Steps[str]:
    """Hash a checkpoint, pausing between its files; where an adapter is merged into it, its files are told as well.

    Raises
    ------
    CheckpointError
        When it is not there or cannot be read.
    """
    if adapter:
        own = yield from fingerprint_steps(path)
        return f"{own}+{(yield from fingerprint_steps(Path(adapter)))}"
    try:
        files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.suffix in ENDINGS and p.is_file())
        digest = hashlib.sha256()
        for done, file in enumerate(files):
            yield Progress(done, len(files), "Looking at the checkpoint's files")
            name = "" if path.is_file() else file.name  # a single file may be renamed
            digest.update(f"{name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
            _add(digest, file)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest()


def _add(digest: hashlib._Hash, file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE:
            digest.update(stream.read())
            return
        for sample in range(SAMPLES):
            stream.seek((size - SAMPLE) * sample // (SAMPLES - 1))
            digest.update(stream.read(SAMPLE))
