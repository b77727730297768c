"""Keeps a session in a ``.ropewalk`` file and brings one back: as jobs, and on screen only when all of it is there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ropewalk.app.engine.connection import Calls
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.files.requests import FindCheckpoint, Found, ReadSession, SaveSession
from ropewalk.app.files.session_file import (
    SavedCheckpoint,
    SavedPromptOptions,
    SavedRun,
    SavedSession,
    SavedView,
    SessionFileError,
)
from ropewalk.app.session.selected import Selection
from ropewalk.app.session.session import Session
from ropewalk.app.session.state import SessionState, is_bundled
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import ADAPTER, Option
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt

FIRST_ID = 1 << 32
"""Run ids of what is brought back count from here, out of the way of those of the session."""


@dataclass(frozen=True, eq=False)
class Back:
    """A session made again, before it is on screen."""

    saved: SavedSession
    kept: SessionState
    baseline: SessionState | None


def save_session(
    session: Session,
    path: Path,
    view: SavedView,
    done: Callable[[SavedSession], None],
    failed: Callable[[str], None],
) -> None:
    """Write what is on screen to a file, as a job; ``failed`` hears a sentence."""
    state = session.scenes.keep()
    if state is None:
        failed("There is nothing to save yet; run a prompt first.")
        return
    card = state.model_handle.card
    if not card.path:
        failed(f"{card.name} exists only in its lesson; leave the lesson, then save what you had open.")
        return
    work = saving(session, described(session, state, view, path.parent), path)
    session.exports.submit(
        "session",
        Urgency.PREFILL,
        work,
        done,
        lambda failure: failed(session.sentence_of(failure, f"{path.name} was not saved")),
        what=f"Saving {path.name}",
    )


def open_session(
    session: Session, path: Path, done: Callable[[SavedSession], None], failed: Callable[[str], None]
) -> None:
    """Bring a session back from a file, as a job; ``failed`` hears a sentence.

    What was open stays until all of it is there, and for good where something of it is missing.
    """

    def arrived(back: Back) -> None:
        session.timeline.set_sampling(back.saved.sampling)
        session.board.restore(back.kept.model_handle.card, back.saved.board)
        session.scenes.restore(back.kept)
        session.baseline.restore(back.baseline)
        done(back.saved)

    now = session.model_handle
    session.work(
        "session",
        lambda engine: bringing_back(session, engine, path, now, session.elsewhere),
        arrived,
        failed,
        what=f"Opening {path.name}",
        undone=f"{path.name} was not opened",
    )


# ----------------------------------------------------------------------------------------------------------------------
# Saving


def described(
    session: Session, state: SessionState, view: SavedView, folder: Path, found: Found | None = None
) -> SavedSession:
    """What is on screen as plain data, to lie in ``folder``.

    The checkpoint's fingerprint is still to be taken, unless it has been ``found``.
    """
    baseline = session.baseline.kept
    # a run of another model would need that one too
    kept = baseline is not None and baseline.model_handle is state.model_handle
    return SavedSession(
        checkpoint=_as_found(_checkpoint_of(state.model_handle, folder, session.elsewhere), found),
        run=_run_of(state),
        baseline=_run_of(baseline) if kept and baseline is not None else None,
        sampling=session.timeline.sampling,
        selection=state.selection,
        view=view,
        board=session.board.of(state.model_handle.card),
    )


class Asked(Protocol):
    """Answers a request about files."""

    def ask(self, request: Any) -> Calls[Any]:
        """Answer it."""


class Asking(Protocol):
    """Who is asked about files: on this machine, and on the engine's."""

    @property
    def local(self) -> Asked:
        """On this machine."""

    @property
    def beside(self) -> Asked:
        """On the engine's."""


def saving(files: Asking, saved: SavedSession, path: Path) -> Calls[SavedSession]:
    """Write what was described, with the fingerprint of its checkpoint."""
    whole = yield from _fingerprinted(files, saved)
    yield from files.local.ask(SaveSession(path, whole))
    return whole


def keeping(files: Asking, saved: SavedSession, path: Path, known: SavedSession | None) -> Calls[None]:
    """The same, unless it is no news beside what is in a file already, or could not be brought back."""
    try:
        whole = yield from _fingerprinted(files, saved)
    except CheckpointError:
        return  # it is gone
    if known is None or _without_view(whole) != _without_view(known):
        yield from files.local.ask(SaveSession(path, whole))


def finding(engine: RemoteEngine, model_handle: ModelHandle) -> Calls[Found]:
    """Ask the engine itself where and what the checkpoint of an open model is."""
    card = model_handle.card
    found: Found = yield engine.connection.asking(
        FindCheckpoint((None if is_bundled(card) else card.path,), _adapter(model_handle.options))
    )
    return found


def _adapter(options: Sequence[tuple[str, Option]]) -> str:
    """The folder of the adapter that a checkpoint was opened with; empty where there was none."""
    return str(dict(options).get(ADAPTER, ""))


def _fingerprinted(files: Asking, saved: SavedSession) -> Calls[SavedSession]:
    checkpoint = saved.checkpoint
    if checkpoint.fingerprint:
        return saved
    found: Found = yield from files.beside.ask(FindCheckpoint((checkpoint.path,), _adapter(checkpoint.options)))
    if found.place is None:
        raise CheckpointError(f"{checkpoint.path} cannot be read: {os.strerror(errno.ENOENT)}.")
    return replace(saved, checkpoint=_as_found(checkpoint, found))


def _as_found(checkpoint: SavedCheckpoint, found: Found | None) -> SavedCheckpoint:
    if found is None:
        return checkpoint
    return replace(checkpoint, path=None if checkpoint.path is None else found.place, fingerprint=found.fingerprint)


def _without_view(saved: SavedSession) -> SavedSession:
    """What a person made, apart from how the window looks, what is pointed at, and where the file is."""
    return replace(saved, view=SavedView(), selection=Selection(), checkpoint=replace(saved.checkpoint, beside=""))


def _checkpoint_of(model_handle: ModelHandle, folder: Path, elsewhere: str) -> SavedCheckpoint:
    card = model_handle.card
    bundled, beside = is_bundled(card), ""
    if not bundled and not elsewhere:
        with suppress(ValueError):  # on another drive there is no way from here
            beside = os.path.relpath(card.path, folder.absolute())
    return SavedCheckpoint(
        name=card.name,
        path=None if bundled else card.path,
        fingerprint="",
        device=card.device,
        dtype=card.dtype,
        beside=beside,
        options=model_handle.options,
        host=elsewhere,
    )


def _run_of(kept: SessionState) -> SavedRun:
    run: Run = kept.handle.run
    ids = tuple(token.id for token in run.tokens[: run.newest])
    decoded = ids[run.prefill :]
    prompt = kept.handle.prompt
    return SavedRun(
        prompt=prompt.text,
        prompt_options=SavedPromptOptions(prompt.as_ids, prompt.special, prompt.chat, prompt.system),
        ids=ids[: run.prefill],
        decoded=decoded,
        drawn=kept.drawn,
        length=run.length,
        interventions=kept.interventions,
    )


# ----------------------------------------------------------------------------------------------------------------------
# Bringing back


def bringing_back(
    files: Asking, engine: RemoteEngine, path: Path, now: ModelHandle | None, elsewhere: str = ""
) -> Calls[Back]:
    """Read a session and run it again; ``now`` is the open model, taken where it is the same."""
    saved: SavedSession = yield from files.local.ask(ReadSession(path))
    asked = FindCheckpoint(_places(saved.checkpoint, path, elsewhere), _adapter(saved.checkpoint.options))
    found: Found = yield from files.beside.ask(asked)
    place = _checked(saved.checkpoint, found, path, elsewhere)
    model_handle = yield from _opening(engine, saved.checkpoint, place, now)
    at = saved.selection
    kept = yield from _running(engine, model_handle, saved.run, FIRST_ID, at, path)
    baseline = None
    if saved.baseline is not None:
        baseline = yield from _running(engine, model_handle, saved.baseline, FIRST_ID + 1, at, path)
    return Back(saved, kept, baseline)


def _places(wanted: SavedCheckpoint, path: Path, elsewhere: str) -> tuple[str | None, ...]:
    """Where the checkpoint may be now: where it was, or as far from the session file as it was."""
    beside = wanted.beside and not elsewhere
    return (wanted.path, *((str(path.absolute().parent / wanted.beside),) if beside else ()))


def _checked(wanted: SavedCheckpoint, found: Found, path: Path, elsewhere: str) -> str:
    """Where the checkpoint is, if it is the one that was saved."""
    if found.place is None:
        there, do = f" on {elsewhere}" if elsewhere else "", "put it back there"
        if wanted.host != elsewhere:
            was = wanted.host or "the window's own machine"
            do = f"it was on {was} when the session was saved, so run the engine there, or copy it"
        raise SessionFileError(f"{path.name} needs {wanted.name}, but there is nothing at {wanted.path}{there}; {do}.")
    if found.fingerprint != wanted.fingerprint:
        raise SessionFileError(
            f"{path.name} needs {wanted.name} as it was, but the files at {found.place} have changed since; put the "
            "old ones back, or open the checkpoint and run the prompt anew."
        )
    return found.place


def _opening(engine: RemoteEngine, wanted: SavedCheckpoint, place: str, now: ModelHandle | None) -> Calls[ModelHandle]:
    if now is not None and _is_same(now, wanted, place):
        return now
    model_handle: ModelHandle = yield from engine.open_model(
        None if wanted.path is None else place, wanted.device, wanted.dtype, options=dict(wanted.options)
    )
    return model_handle


def _is_same(model_handle: ModelHandle, wanted: SavedCheckpoint, place: str) -> bool:
    card = model_handle.card
    same_place = bool(card.path) and place in (card.path, str(Path(card.path).absolute()))
    same_options = model_handle.options == wanted.options
    return same_place and same_options and (card.device, card.dtype) == (wanted.device, wanted.dtype)


def _running(
    engine: RemoteEngine, model_handle: ModelHandle, saved: SavedRun, run_id: int, at: Selection, path: Path
) -> Calls[SessionState]:
    options = saved.prompt_options
    prompt = Prompt(saved.prompt, options.as_ids, options.special, options.chat, options.system)
    if model_handle.origin is not None:  # a trace file, which has the run
        handle: RunHandle = (yield from engine.open_trace(model_handle, run_id, (at.layer, at.head))).handle
    else:
        handle = yield from engine.run(
            model_handle, prompt, run_id, (at.layer, at.head), interventions=saved.interventions, decoded=saved.decoded
        )
    ids = tuple(token.id for token in handle.run.tokens[: handle.run.prefill])
    if ids != saved.ids:
        raise SessionFileError(
            f"{path.name} ran its prompt as {len(saved.ids)} tokens, but it now gives {len(ids)} others; the tokenizer "
            "has changed, so run the prompt anew."
        )
    handle = replace(handle, run=replace(handle.run, length=saved.length))
    return SessionState(model_handle, handle, prompt, saved.drawn, saved.interventions, at)
