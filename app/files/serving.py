"""How each request about files is served: by a function that knows no window, no Qt and no torch.

A function is a computation that pauses. What it cannot pause, such as an encoder, it has tell its progress to the
pulse of the handles. What only one kind of request needs is imported when it is served.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ropewalk.app.files.requests import (
    EncodeAnimation,
    EncodePng,
    FindCheckpoint,
    FinishSvg,
    Found,
    ReadLesson,
    ReadSession,
    ReadShelf,
    SaveSession,
    WriteBytes,
    WriteNumbers,
    WriteSvg,
)
from ropewalk.app.files.session_file import SavedSession, read_session, write_session
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.serving import Handles, Serve
from ropewalk.model.errors import RopewalkError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.limits import limited
from ropewalk.model.progress import Progress, Pulse, Steps, finished
from ropewalk.model.whole_file import whole_file
from ropewalk.resources import resource

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson, Problem


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Give a name to write to; a file that cannot be written is refused in a sentence."""
    try:
        with whole_file(path) as part:
            yield part
    except OSError as error:
        raise RopewalkError(f"{path.name} could not be written to {path.parent}: {error.strerror or error}.") from error


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def encode_png(handles: Handles, request: EncodePng) -> Steps[Path]:
    """Encode a picture."""
    from ropewalk.app.files.png_file import write_png

    yield Progress(0, 1, f"Writing {request.path.name}")
    with _written(request.path) as part:
        write_png(request, part, handles.pulse)
    return request.path


def write_svg(handles: Handles, request: WriteSvg) -> Steps[Path]:
    """Write a drawing."""
    data = yield from finish_svg(handles, request.drawing)
    return (yield from write_bytes(handles, WriteBytes(request.path, data)))


def finish_svg(handles: Handles, request: FinishSvg) -> Steps[bytes]:
    """Put a drawing right."""
    from ropewalk.app.files.svg_file import finished_svg

    yield Progress(0, 2, "Finishing the drawing")
    return finished_svg(request)


def write_bytes(handles: Handles, request: WriteBytes) -> Steps[Path]:
    """Write what is finished."""
    yield Progress(1, 2, f"Writing {request.path.name}")
    with _written(request.path) as part:
        part.write_bytes(request.data)
    return request.path


def encode_animation(handles: Handles, request: EncodeAnimation) -> Steps[Path]:
    """Encode a film."""
    from ropewalk.app.files import animation

    yield Progress(0, len(request.frames.durations), "Encoding")
    kind = next(one for one in animation.FORMATS if one.name == request.kind)
    why = kind.absent()
    if why:
        raise RopewalkError(why)
    with _written(request.path) as part:
        kind.encode(request.frames, request.about, part, handles.pulse)
    return request.path


def write_numbers(handles: Handles, request: WriteNumbers) -> Steps[Path]:
    """Write numbers."""
    from ropewalk.app.files import numbers_file
    from ropewalk.app.files.watched_file import WatchedFile

    what = f"Writing {request.path.name}"
    yield Progress(0, 1, what)
    kind = next(one for one in numbers_file.FORMATS if one.name == request.kind)
    with _written(request.path) as part, WatchedFile(part, handles.pulse, what) as file:
        kind.write(request.numbers, request.tokens, request.about, file)
    return request.path


def save_session(handles: Handles, request: SaveSession) -> Steps[Path]:
    """Write a session file."""
    yield Progress(0, 1, f"Saving {request.path.name}")
    write_session(request.saved, request.path)
    return request.path


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def find_checkpoint(handles: Handles, request: FindCheckpoint) -> Steps[Found]:
    """Look where a checkpoint is, and hash it."""
    for named in request.places:
        place = resource("bundled") if named is None else Path(named).absolute()
        if _exists(place):
            return Found(str(place), (yield from fingerprint_steps(place, request.adapter)))
    return Found(None, "")


def _exists(place: Path) -> bool:
    """Whether there is something; a name that no file can have is nowhere."""
    try:
        return place.exists()
    except (OSError, ValueError):
        return False


def read_session_file(handles: Handles, request: ReadSession) -> Steps[SavedSession]:
    """Read a session file."""
    yield Progress(0, 1, "Reading the session")
    with limited("session", request.path.name):
        return read_session(request.path)


def read_lesson_file(handles: Handles, request: ReadLesson) -> Steps[Lesson]:
    """Read a lesson file."""
    from ropewalk.app.lessons import loading

    yield Progress(0, 1, "Reading the lesson")
    with limited("lesson", request.path.name):
        return loading.load_lesson(request.path)


def read_shelf(handles: Handles, request: ReadShelf) -> Steps[tuple[Problem, ...]]:
    """Read the lessons of Ropewalk, one at a time."""
    from ropewalk.app.lessons.loading import lessons_steps

    return lessons_steps()


SERVED: Final[Mapping[type[Any], Serve]] = {
    EncodePng: encode_png,
    WriteSvg: write_svg,
    FinishSvg: finish_svg,
    WriteBytes: write_bytes,
    EncodeAnimation: encode_animation,
    WriteNumbers: write_numbers,
    SaveSession: save_session,
    FindCheckpoint: find_checkpoint,
    ReadSession: read_session_file,
    ReadLesson: read_lesson_file,
    ReadShelf: read_shelf,
}
"""What serves each kind of request."""


class Here:
    """Answers requests about files in this very process: where a window closes, and can wait for no other."""

    def __init__(self) -> None:
        self.local = self.beside = self

    def ask(self, request: Any) -> Generator[Any, Any, Any]:
        """Answer it without a pause."""
        yield from ()
        return finished(serve(request, lambda point: None))


def serve(request: Any, pulse: Pulse) -> Steps[Any]:
    """Do what is asked, in this process; ``pulse`` hears of what cannot pause.

    Raises
    ------
    RopewalkError
        When it cannot be done; a file that was there before stays.
    """
    return SERVED[type(request)](Handles(_no_engine, pulse), request)


def _no_engine() -> Engine:
    raise RopewalkError("Nothing can be computed here.")
