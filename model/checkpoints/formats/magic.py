"""What a file holds, told from its first bytes: Ollama and the Hugging Face cache name files by their hash."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Literal, TypeAlias

from ropewalk.model.checkpoints.damage import first_bytes
from ropewalk.model.checkpoints.formats.torch_files import DAMAGED, SUFFIXES

Kind: TypeAlias = Literal["gguf", "safetensors", "torch", ""]

ENDINGS: dict[str, Kind] = {".gguf": "gguf", ".safetensors": "safetensors", **dict.fromkeys(SUFFIXES, "torch")}
PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
"""How a pickle begins, which torch files of before version 1.6 are."""


def kind_of(path: Path) -> Kind:
    """What a file holds: by its content where that is clear, else by its ending; empty where it is neither."""
    if not path.is_file():
        return ""
    start = first_bytes(path, 16)
    if start.startswith(b"GGUF"):
        return "gguf"
    if len(start) > 9 and start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] < path.stat().st_size:
        return "safetensors"
    if start.startswith(PICKLES) or (start.startswith(b"PK\x03\x04") and _is_torch_zip(path)):
        return "torch"
    return ENDINGS.get(path.suffix.lower(), "")


def _is_torch_zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (*DAMAGED, OSError):
        return False
