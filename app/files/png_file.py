"""Pixels as a PNG that says where it came from."""

from __future__ import annotations

from pathlib import Path

from ropewalk.app.files.requests import EncodePng
from ropewalk.app.files.watched_file import WatchedFile
from ropewalk.model.progress import Pulse

LONG = 40
"""Characters from which a text is compressed."""


def write_png(request: EncodePng, path: Path, pulse: Pulse) -> None:
    """Write the picture without loss and without an alpha channel; the provenance goes into text chunks."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    frames, about = request.frames, request.about
    (pixels,) = frames.raw()
    image = Image.frombytes("RGB", (frames.width, frames.height), pixels, "raw", "BGRX")
    del pixels
    texts = PngInfo()
    for name, text in (("Title", about.title), *about.lines, ("Description", about.text)):
        texts.add_text(name, text, zip=len(text) >= LONG)  # as international text where Latin-1 has no word for it
    with WatchedFile(path, pulse, f"Encoding {request.path.name}") as file:
        image.save(file, format="PNG", pnginfo=texts, dpi=(request.dots * 0.0254,) * 2)
