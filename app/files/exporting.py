"""Exported files: written as jobs, each whole or not there at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ropewalk.app.files.numbers_file import NumberFormat
from ropewalk.app.files.provenance import Provenance
from ropewalk.app.session.session import Session
from ropewalk.model.engine.interface import RunHandle
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import HeadNumbers
from ropewalk.model.whole_file import whole_file


def write(path: Path, data: bytes) -> None:
    """Write a file.

    Raises
    ------
    RopewalkError
        When it cannot be written; the one that was there stays.
    """
    try:
        with whole_file(path) as part:
            part.write_bytes(data)
    except OSError as error:
        raise RopewalkError(f"{path.name} could not be written to {path.parent}: {error.strerror or error}.") from error


def written_steps(path: Path, make: Callable[[], bytes]) -> Steps[Path]:
    """Make the bytes of a file and write them."""
    yield Progress(0, 2, f"Writing {path.name}")
    data = make()
    yield Progress(1, 2, f"Writing {path.name}")
    write(path, data)
    return path


def export_bytes(
    session: Session, path: Path, make: Callable[[], bytes], done: Callable[[Path], None], failed: Callable[[str], None]
) -> None:
    """Write a file beside the computing; ``failed`` hears a sentence."""
    session.exports.make(f"file {path}", written_steps(path, make), done, failed, what=f"Writing {path.name}")


def export_numbers(
    session: Session,
    path: Path,
    kind: NumberFormat,
    queries: tuple[int, int],
    keys: tuple[int, int],
    about: Provenance,
    done: Callable[[Path], None],
    failed: Callable[[str], None],
) -> None:
    """Read a rectangle of the selected head, half-open ranges of rows, and write it."""
    handle, now = session.handle, session.selection.now
    if handle is None:
        failed("There are no numbers to save yet; run a prompt first.")
        return
    tokens = handle.run.tokens[: handle.run.length]

    def arrived(numbers: HeadNumbers) -> None:
        export_bytes(session, path, partial(kind.write, numbers, tokens, about), done, failed)

    session.work(
        f"numbers {path}",
        lambda engine: engine.numbers(handle, now.layer, now.head, queries, keys),
        arrived,
        failed,
        what="Reading numbers",
    )


def export_trace(session: Session, path: Path, done: Callable[[Path], None], failed: Callable[[str], None]) -> None:
    """Write the rows in view as a trace file."""
    handle: RunHandle | None = session.handle
    if handle is None:
        failed("There is no run to save yet; run a prompt first.")
        return
    session.work(
        f"trace {path}", lambda engine: engine.save_steps(handle, path), done, failed, what="Writing the trace"
    )
