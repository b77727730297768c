"""What is asked of whoever encodes, writes and reads files: plain records, so that another process can be asked.

Each is served by a function in ``app.files.serving``. A request that writes is answered with the path of the file,
which is whole or not there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ropewalk.app.files.frames import Frames
from ropewalk.app.files.provenance import Provenance
from ropewalk.app.files.session_file import SavedSession
from ropewalk.model.readings.records import HeadNumbers, LogitLens, TokenText


@dataclass(frozen=True)
class EncodePng:
    """Write the one frame as a PNG, with ``dots`` in a metre."""

    path: Path
    frames: Frames
    dots: int
    about: Provenance


@dataclass(frozen=True)
class SvgPart:
    """Where a widget is in a drawing: its upper left corner, and (x, y, width, height) of what can be seen of it.

    ``seen`` is None where it paints nowhere else by itself.
    """

    x: int
    y: int
    seen: tuple[int, int, int, int] | None


@dataclass(frozen=True)
class FinishSvg:
    """Put right what Qt has drawn: answered with the whole file as ``bytes``.

    Attributes
    ----------
    drawn
        Qt's SVG, in which a mark stands before what each part painted; every text says how wide it is.
    parts
        The widgets by the numbers of their marks.
    fallbacks
        (family, families) pairs: what a reader takes that does not have a font.
    """

    drawn: str
    width: int
    height: int
    parts: tuple[SvgPart, ...]
    fallbacks: tuple[tuple[str, str], ...]
    about: Provenance


@dataclass(frozen=True)
class WriteSvg:
    """Write what Qt has drawn, put right."""

    path: Path
    drawing: FinishSvg


@dataclass(frozen=True)
class WriteBytes:
    """Write what is finished already."""

    path: Path
    data: bytes


@dataclass(frozen=True)
class EncodeAnimation:
    """Encode frames in a format of ``app.files.animation``, by its name."""

    path: Path
    kind: str
    frames: Frames
    about: Provenance


@dataclass(frozen=True, eq=False)
class WriteNumbers:
    """Write a rectangle of a head, or rows of the logit lens, in a format of ``app.files.numbers_file``, by its name.

    ``tokens`` are those of all rows of the run.
    """

    path: Path
    kind: str
    numbers: HeadNumbers | LogitLens
    tokens: Sequence[TokenText]
    about: Provenance


@dataclass(frozen=True)
class SaveSession:
    """Write a session file."""

    path: Path
    saved: SavedSession


@dataclass(frozen=True)
class FindCheckpoint:
    """Say at which of these places something is, and hash it: answered with a :class:`Found`.

    None is the bundled checkpoint. Places are of the machine that is asked, so they are text here. ``adapter`` is the
    folder of an adapter that is hashed with it, empty for none.
    """

    places: tuple[str | None, ...]
    adapter: str = ""


@dataclass(frozen=True)
class Found:
    """The first of some places where something is, by its full path, and a hash over the checkpoint there.

    None and empty for nowhere.
    """

    place: str | None
    fingerprint: str


@dataclass(frozen=True)
class ReadSession:
    """Read a session file, which may be a stranger's: answered with a ``SavedSession``."""

    path: Path


@dataclass(frozen=True)
class ReadLesson:
    """Read a lesson file, which may be a stranger's: answered with a ``Lesson``."""

    path: Path


@dataclass(frozen=True)
class ReadShelf:
    """Read the lessons that Ropewalk has, each a part: answered with ``tuple[Problem, ...]`` for the others."""


Writing: TypeAlias = EncodePng | WriteSvg | WriteBytes | EncodeAnimation | WriteNumbers
Request: TypeAlias = Writing | FinishSvg | SaveSession | FindCheckpoint | ReadSession | ReadLesson | ReadShelf
