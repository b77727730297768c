"""Exported files: written as jobs, each whole or not there at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ropewalk.app.engine.connection import Calls
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.files.incoming import Incoming
from ropewalk.app.files.numbers_file import NumberFormat, Numbers
from ropewalk.app.files.provenance import Provenance
from ropewalk.app.files.requests import FinishSvg, WriteNumbers, Writing
from ropewalk.app.session.session import Session
from ropewalk.model.engine.interface import RunHandle
from ropewalk.model.engine.questions import AskLens
from ropewalk.model.engine.urgency import Urgency


def export(
    session: Session,
    request: Writing,
    done: Callable[[Path], None],
    failed: Callable[[str], None],
    verb: str = "Writing",
) -> None:
    """Make a file, beside the computing; ``failed`` hears a sentence, and neither hears of a cancel."""
    path = request.path
    session.exports.submit(
        f"file {path}",
        Urgency.PREFILL,
        session.local.ask(request),
        done,
        lambda failure: failed(failure.sentence),
        what=f"{verb} {path.name}",
    )


def finish_drawing(
    session: Session, drawing: FinishSvg, done: Callable[[bytes], None], failed: Callable[[str], None]
) -> None:
    """Put a drawing right that goes to no file; a newer one replaces it."""
    session.exports.submit(
        "drawing",
        Urgency.PREFILL,
        session.local.ask(drawing),
        done,
        lambda failure: failed(failure.sentence),
        what="Copying",
    )


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
    now = session.selection.now
    _export_read(
        session,
        path,
        kind,
        lambda engine, handle: engine.numbers(handle, now.layer, now.head, queries, keys),
        about,
        done,
        failed,
    )


def export_lens(
    session: Session,
    path: Path,
    kind: NumberFormat,
    rows: tuple[int, int],
    about: Provenance,
    done: Callable[[Path], None],
    failed: Callable[[str], None],
) -> None:
    """Read the logit lens at some rows, a half-open range, and write it."""
    _export_read(session, path, kind, lambda engine, handle: engine.answer(handle, AskLens(rows)), about, done, failed)


def _export_read(
    session: Session,
    path: Path,
    kind: NumberFormat,
    read: Callable[[RemoteEngine, RunHandle], Calls[Any]],
    about: Provenance,
    done: Callable[[Path], None],
    failed: Callable[[str], None],
) -> None:
    """Read numbers of the run on screen, and write them."""
    handle: RunHandle | None = session.handle
    if handle is None:
        failed("There are no numbers to save yet; run a prompt first.")
        return
    tokens = handle.run.tokens[: handle.run.length]

    def arrived(numbers: Numbers) -> None:
        export(session, WriteNumbers(path, kind.name, numbers, tokens, about), done, failed)

    session.work(
        f"numbers {path}",
        lambda engine: read(engine, handle),
        arrived,
        failed,
        what="Reading numbers",
        undone=f"{path.name} was not written",
    )


def export_trace(session: Session, path: Path, done: Callable[[Path], None], failed: Callable[[str], None]) -> None:
    """Write the rows in view as a trace file."""
    handle: RunHandle | None = session.handle
    if handle is None:
        failed("There is no run to save yet; run a prompt first.")
        return
    slot, incoming, drawn = f"trace {path}", Incoming(path), session.timeline.drawn

    def work(engine: RemoteEngine) -> Calls[Path]:
        try:
            yield from engine.trace_file(handle, drawn)
            return incoming.finish()
        finally:
            incoming.drop()

    def part_arrived(part: bytes) -> None:
        incoming.add(part)
        if incoming.refusal:  # the rest need not come
            session.forget_work(slot)
            failed(incoming.refusal)

    undone = f"{path.name} was not written"
    session.work(slot, work, done, failed, what="Writing the trace", on_part=part_arrived, undone=undone)
