"""Moving pictures as files: a recording of frames on disk, and a table of formats that it is encoded into.

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

from ropewalk.app.files.provenance import Provenance
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.whole_file import whole_file

if TYPE_CHECKING:
    from PIL.Image import Image

Pulse = Callable[[Progress], None]

COLOURS: Final = 255
"""Entries of a GIF's palette that a frame may use."""
RATE: Final = 25
"""Frames a second of a video."""


class Recording:
    """Frames of one size, kept raw in a temporary file: a film of a window has no place in memory.

    A frame of another size than the first is put into its upper left corner.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the recording
        self.size = (0, 0)
        self.durations: list[int] = []
        """Milliseconds that each frame stays."""

    def __len__(self) -> int:
        return len(self.durations)

    def add(self, width: int, height: int, pixels: bytes, milliseconds: int) -> None:
        """Append a frame of [height, width, 4] bytes, red, green, blue and one that is not used."""
        if not self.durations:
            self.size = (width, height)
        if (width, height) != self.size:
            from PIL import Image

            frame = Image.new("RGBX", self.size)
            frame.paste(Image.frombuffer("RGBX", (width, height), pixels), (0, 0))
            pixels = frame.tobytes()
        self._file.write(pixels)
        self.durations.append(milliseconds)

    def raw(self) -> Iterator[bytes]:
        """The frames in order."""
        self._file.seek(0)
        for _ in self.durations:
            yield self._file.read(4 * self.size[0] * self.size[1])

    def frames(self, pulse: Pulse) -> Iterator[Image]:
        """The frames as pictures; ``pulse`` hears of each and may end it."""
        from PIL import Image

        for place, pixels in enumerate(self.raw()):
            pulse(Progress(place, len(self), "Encoding"))
            yield Image.frombuffer("RGBX", self.size, pixels).convert("RGB")

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


@dataclass(frozen=True)
class AnimationFormat:
    """One kind of file.

    Attributes
    ----------
    name, title
        Its suffix, and what a person reads in the list of formats.
    encode
        Writes a recording to a path.
    absent
        Why it cannot be written on this machine, a sentence; empty where it can.
    """

    name: str
    title: str
    encode: Callable[[Recording, Provenance, Path, Pulse], None]
    absent: Callable[[], str]


def encoded_steps(
    recording: Recording, kind: AnimationFormat, about: Provenance, path: Path, pulse: Pulse
) -> Steps[Path]:
    """Encode a recording into a file, whole or not at all; the recording is closed at the end.

    Raises
    ------
    RopewalkError
        When it cannot be encoded or written.
    """
    try:
        yield Progress(0, len(recording), "Encoding")
        why = kind.absent()
        if why:
            raise RopewalkError(why)
        try:
            with whole_file(path) as part:
                kind.encode(recording, about, part, pulse)
        except OSError as error:
            raise RopewalkError(
                f"{path.name} could not be written to {path.parent}: {error.strerror or error}."
            ) from error
        return path
    finally:
        recording.close()


# ----------------------------------------------------------------------------------------------------------------------
# Formats


def encode_gif(recording: Recording, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write a GIF in each frame's most frequent colours; the provenance is its comment."""
    frames = (in_palette(frame) for frame in recording.frames(pulse))
    next(frames).save(
        path,
        format="GIF",
        save_all=True,
        append_images=frames,
        duration=recording.durations,
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


def encode_webp(recording: Recording, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write a WebP without loss; the provenance is its XMP."""
    frames = recording.frames(pulse)
    next(frames).save(
        path,
        format="WEBP",
        save_all=True,
        append_images=frames,
        duration=recording.durations,
        loop=0,
        lossless=True,
        quality=20,  # of a lossless file: how hard to try
        method=1,
        xmp=about.xmp,
    )


def encode_mp4(recording: Recording, about: Provenance, path: Path, pulse: Pulse) -> None:
    """Write an H.264 video by ffmpeg; the provenance is its comment."""
    width, height = recording.size
    command = [
        *(shutil.which("ffmpeg") or "ffmpeg", "-y", "-loglevel", "error"),
        *("-f", "rawvideo", "-pix_fmt", "rgb0", "-s", f"{width}x{height}", "-r", str(RATE), "-i", "-"),
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
            _feed(process, recording, pulse)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            message.seek(0)
            details = message.read().decode("utf-8", "replace").strip()
            last = details.splitlines()[-1] if details else "it gave no reason"
            raise RopewalkError(f"ffmpeg could not make the video: {last.rstrip('.')}.", details)


def _feed(process: subprocess.Popen[bytes], recording: Recording, pulse: Pulse) -> None:
    """Hand the frames over, each as often as its time takes."""
    assert process.stdin is not None
    try:
        for place, pixels in enumerate(recording.raw()):
            pulse(Progress(place, len(recording), "Encoding"))
            for _ in range(max(round(recording.durations[place] * RATE / 1000), 1)):
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
