"""Moving pictures as files: a table of formats that recorded frames are encoded into.

Pillow is loaded when it is needed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ropewalk.app.files.frames import Frames
from ropewalk.app.files.provenance import Provenance
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress, Pulse

if TYPE_CHECKING:
    from PIL.Image import Image

COLOURS: Final = 255
"""Entries of a GIF's palette that a frame may use."""
RATE: Final = 25
"""Frames a second of a video."""


@dataclass(frozen=True)
class AnimationFormat:
    """One kind of file.

    Attributes
    ----------
    name, title
        Its suffix, and what a person reads in the list of formats.
    encode
        Writes recorded frames to a path.
    absent
        Why it cannot be written on this machine, a sentence; empty where it can.
    """

    name: str
    title: str
    encode: Callable[[Frames, Provenance, Path, Pulse], None]
    absent: Callable[[], str]


def pictures(frames: Frames, pulse: Pulse) -> Iterator[Image]:
    """Recorded frames as pictures; ``pulse`` hears of each and may end it."""
    from PIL import Image

    for place, pixels in enumerate(frames.raw()):
        pulse(Progress(place, len(frames.durations), "Encoding"))
        yield Image.frombytes("RGB", (frames.width, frames.height), pixels, "raw", "BGRX")


# ----------------------------------------------------------------------------------------------------------------------
# Formats


def encode_gif(frames: Frames, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write a GIF in each frame's most frequent colours; the provenance is its comment."""
    shown = (in_palette(frame) for frame in pictures(frames, pulse))
    next(shown).save(
        path,
        format="GIF",
        save_all=True,
        append_images=shown,
        duration=list(frames.durations),
        loop=0,
        comment=about.json.encode("ascii"),
    )


def in_palette(frame: Image) -> Image:
    """A frame in at most 255 colours: the most frequent ones exactly, the rest by the nearest of them."""
    from PIL import Image

    found = frame.getcolors(frame.width * frame.height) or []
    kept = sorted(found, key=lambda entry: -entry[0])[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in kept if isinstance(colour, tuple) for part in colour])
    return frame.quantize(palette=palette, dither=Image.Dither.NONE)


def encode_webp(frames: Frames, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write a WebP without loss; the provenance is its XMP."""
    shown = pictures(frames, pulse)
    next(shown).save(
        path,
        format="WEBP",
        save_all=True,
        append_images=shown,
        duration=list(frames.durations),
        loop=0,
        lossless=True,
        quality=20,  # of a lossless file: how hard to try
        method=1,
        xmp=about.xmp,
    )


def encode_mp4(frames: Frames, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write an H.264 video by ffmpeg; the provenance is its comment."""
    command = [
        *(shutil.which("ffmpeg") or "ffmpeg", "-y", "-loglevel", "error"),
        *("-f", "rawvideo", "-pix_fmt", "bgr0", "-s", f"{frames.width}x{frames.height}", "-r", str(RATE), "-i", "-"),
        *("-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "16"),
        *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-movflags", "+faststart"),
        *("-metadata", f"title={about.title}", "-metadata", f"comment={about.json}"),
        *("-f", "mp4", str(path)),
    ]
    with (
        tempfile.TemporaryFile() as message,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=message, stderr=message) as process,
    ):
        try:
            _feed(process, frames, pulse)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            message.seek(0)
            details = message.read().decode("utf-8", "replace").strip()
            last = details.splitlines()[-1] if details else "it gave no reason"
            raise RopewalkError(f"ffmpeg could not make the video: {last.rstrip('.')}.", details)


def _feed(process: subprocess.Popen[bytes], frames: Frames, pulse: Pulse) -> None:
    """Hand the frames over, each as often as its time takes."""
    assert process.stdin is not None
    try:
        for place, pixels in enumerate(frames.raw()):
            pulse(Progress(place, len(frames.durations), "Encoding"))
            for _ in range(max(round(frames.durations[place] * RATE / 1000), 1)):
                process.stdin.write(pixels)
    except BrokenPipeError:
        pass  # ffmpeg has ended, and says why
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()


def no_webp() -> str:
    """Why there is no WebP."""
    from PIL import features

    return "" if features.check("webp") else "Pillow was built without WebP on this machine; save a GIF instead."


def no_ffmpeg() -> str:
    """Why there is no MP4."""
    if shutil.which("ffmpeg"):
        return ""
    return "An MP4 needs ffmpeg, which is not on this machine's PATH; install it, or save a GIF or WebP instead."


FORMATS: Final = (
    AnimationFormat("gif", "GIF animation", encode_gif, lambda: ""),
    AnimationFormat("webp", "WebP animation, exact colours", encode_webp, no_webp),
    AnimationFormat("mp4", "MP4 video (ffmpeg)", encode_mp4, no_ffmpeg),
)
