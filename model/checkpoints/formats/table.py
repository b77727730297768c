"""The registry of container formats, the only place that lists them; the first that recognises a path opens it."""

from __future__ import annotations

from ropewalk.model.checkpoints.formats import gguf, hf_folder, meta, minimind
from ropewalk.model.checkpoints.source import Format

FORMATS: tuple[Format, ...] = (
    *meta.FORMATS,
    *hf_folder.FORMATS,
    *gguf.FORMATS,
    *minimind.FORMATS,
)
