"""Keeps a session in a ``.ropewalk`` file and brings one back: as jobs, and on screen only when all of it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.app.files.session_file import (
    SavedCheckpoint,
    SavedPromptOptions,
    SavedRun,
    SavedSession,
    SavedView,
    SessionFileError,
    read_session,
    write_session,
)
from ropewalk.app.session.selection import Selection
from ropewalk.app.session.session import Session
from ropewalk.app.session.state import SessionState
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.resources import resource

BUNDLED = resource("bundled")
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
    baseline, sampling = session.baseline.kept, session.timeline.sampling

    def work() -> Steps[SavedSession]:
        saved = yield from saved_steps(state, baseline, sampling, view, path)
        write_session(saved, path)
        return saved

    session.exports.make("session", work(), done, failed, what=f"Saving {path.name}")


def open_session(
    session: Session, path: Path, done: Callable[[SavedSession], None], failed: Callable[[str], None]
) -> None:
    """Bring a session back from a file, as a job; ``failed`` hears a sentence.

    What was open stays until all of it is there, and for good where something of it is missing.
    """

    def arrived(back: Back) -> None:
        session.timeline.set_sampling(back.saved.sampling)
        session.scenes.restore(back.kept)
        session.baseline.restore(back.baseline)
        done(back.saved)

    now = session.model_handle
    session.work("session", lambda engine: back_steps(engine, path, now), arrived, failed, what=f"Opening {path.name}")


# ----------------------------------------------------------------------------------------------------------------------
# Saving


def saved_steps(
    state: SessionState, baseline: SessionState | None, sampling: Sampling, view: SavedView, path: Path
) -> Steps[SavedSession]:
    """What is on screen as plain data, to lie at ``path``."""
    checkpoint = yield from _checkpoint_steps(state.model_handle, path.parent)
    # a run of another model would need that one too
    kept = baseline is not None and baseline.model_handle is state.model_handle
    return SavedSession(
        checkpoint=checkpoint,
        run=_run_of(state),
        baseline=_run_of(baseline) if kept and baseline is not None else None,
        sampling=sampling,
        selection=state.selection,
        view=view,
    )


def _checkpoint_steps(model_handle: ModelHandle, folder: Path) -> Steps[SavedCheckpoint]:
    card = model_handle.card
    fingerprint = yield from fingerprint_steps(Path(card.path))
    bundled, beside = Path(card.path) == BUNDLED, ""
    if not bundled:
        with suppress(ValueError):  # on another drive there is no way from here
            beside = os.path.relpath(card.path, folder.absolute())
    return SavedCheckpoint(
        name=card.name,
        path=None if bundled else str(Path(card.path).absolute()),
        fingerprint=fingerprint,
        device=card.device,
        dtype=card.dtype,
        beside=beside,
        options=model_handle.options,
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


def back_steps(engine: Any, path: Path, now: ModelHandle | None) -> Steps[Back]:
    """Read a session and run it again; ``now`` is the open model, taken where it is the same."""
    yield Progress(0, 1, "Reading the session")
    saved = read_session(path)
    model_handle = yield from _open_steps(engine, saved.checkpoint, path, now)
    at = saved.selection
    kept = yield from _run_steps(engine, model_handle, saved.run, FIRST_ID, at, path)
    baseline = None
    if saved.baseline is not None:
        baseline = yield from _run_steps(engine, model_handle, saved.baseline, FIRST_ID + 1, at, path)
    return Back(saved, kept, baseline)


def _open_steps(engine: Any, wanted: SavedCheckpoint, path: Path, now: ModelHandle | None) -> Steps[ModelHandle]:
    place = _found(wanted, path)
    fingerprint = yield from fingerprint_steps(place)
    if fingerprint != wanted.fingerprint:
        raise SessionFileError(
            f"{path.name} needs {wanted.name} as it was, but the files at {place} have changed since; put the old ones "
            "back, or open the checkpoint and run the prompt anew."
        )
    if now is not None and _is_same(now, wanted, place):
        return now
    model_handle: ModelHandle = yield from engine.open_model(
        None if wanted.path is None else str(place), wanted.device, wanted.dtype, options=dict(wanted.options)
    )
    return model_handle


def _found(wanted: SavedCheckpoint, path: Path) -> Path:
    """Where the checkpoint is now: where it was, or as far from the session file as it was."""
    if wanted.path is None:
        return BUNDLED
    places = [Path(wanted.path)]
    if wanted.beside:
        places.append(path.absolute().parent / wanted.beside)
    for place in places:
        if place.exists():
            return place
    raise SessionFileError(
        f"{path.name} needs {wanted.name}, but there is nothing at {wanted.path}; put it back there."
    )


def _is_same(model_handle: ModelHandle, wanted: SavedCheckpoint, place: Path) -> bool:
    card = model_handle.card
    same_place = bool(card.path) and Path(card.path).absolute() == place.absolute()
    same_options = model_handle.options == wanted.options
    return same_place and same_options and (card.device, card.dtype) == (wanted.device, wanted.dtype)


def _run_steps(
    engine: Any, model_handle: ModelHandle, saved: SavedRun, run_id: int, at: Selection, path: Path
) -> Steps[SessionState]:
    options = saved.prompt_options
    prompt = Prompt(saved.prompt, options.as_ids, options.special, options.chat, options.system)
    handle: RunHandle = yield from engine.run(
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
