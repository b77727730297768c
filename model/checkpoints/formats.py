"""The registry of container formats, the only place that lists them; the first that recognises a path opens it."""

from __future__ import annotations

from model.checkpoints import folder_format, gguf_format, meta_format, minimind_format
from model.checkpoints.source import Format

FORMATS: tuple[Format, ...] = (
    *meta_format.FORMATS,
    *folder_format.FORMATS,
    *gguf_format.FORMATS,
    *minimind_format.FORMATS,
)
