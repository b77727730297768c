"""What is put on screen in one go: a scene of a lesson, or what was there before it.

What a scene shows is the lesson's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import ModelCard, Sampling

if TYPE_CHECKING:
    from ropewalk.app.engine.connection import Calls
    from ropewalk.app.engine.remote import RemoteEngine
    from ropewalk.app.session.consistency import ConsistencyChecks
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.interventions import Interventions
    from ropewalk.app.session.selection import Selection
    from ropewalk.app.session.timeline import Timeline
    from ropewalk.model.decoder.interventions import Intervention
    from ropewalk.model.engine.interface import ModelHandle, RunHandle
    from ropewalk.model.tokens.prompt import Prompt


@dataclass(frozen=True)
class SessionState:
    """What was on screen at a moment.

    The run is kept by its handle, so that bringing it back computes nothing, unless the engine that had it is gone.
    """

    model_handle: ModelHandle
    handle: RunHandle
    prompt: Prompt
    drawn: tuple[Sampling, ...]
    interventions: tuple[Intervention, ...]
    selection: Selection


class Scenes:
    """Scenes on screen, and what they were put in place of.

    Parameters
    ----------
    restarts_with
        Starts another engine where there is none, in which something is made again and then restored; False where
        there is one.
    """

    def __init__(
        self,
        session: SessionContext,
        timeline: Timeline,
        consistency: ConsistencyChecks,
        interventions: Interventions,
        restarts_with: Callable[[SessionState], bool],
    ) -> None:
        self._session = session
        self._timeline = timeline
        self._consistency = consistency
        self._interventions = interventions
        self._restarts_with = restarts_with
        self.owed: SessionState | None = None
        """What is to be on screen, but was not made again yet by an engine that lives."""

    def keep(self) -> SessionState | None:
        """What is on screen, to be brought back by :meth:`restore`; None before the first run."""
        session = self._session
        model_handle, handle = session.model_handle, session.handle
        if model_handle is None or handle is None:
            return None
        drawn, interventions = self._timeline.drawn, self._interventions.now
        return SessionState(model_handle, handle, session.prompt, drawn, interventions, session.selection.now)

    def restore(self, kept: SessionState) -> None:
        """Put a run back on screen as it was: model, prompt, decoded tokens, interventions and selection.

        What an engine had that is gone by now is made again first.
        """
        session = self._session
        if kept.handle.trace.connection.gone is not None:
            self.owed = kept
            if self._restarts_with(kept):
                return
            run_id = session.next_run_id()
            session.submit(
                "run",
                Urgency.PREFILL,
                lambda engine: again(engine, kept, run_id),
                self.restore,
                session.fail,
                what="Bringing back what was on screen",
            )
            return
        session.drop("open", "run", "check")
        self._timeline.drawn = kept.drawn
        session.swap_model(kept.model_handle, kept.prompt)
        self._consistency.forget()
        now = kept.selection
        session.show_run(kept.handle, layer=now.layer, head=now.head, query=now.query, key=now.key, plane=now.plane)
        self._interventions.arrived(kept.interventions)

    def put(
        self,
        model_handle: ModelHandle,
        prompt: Prompt,
        *,
        interventions: Sequence[Intervention] = (),
        decoded: int = 0,
        select: Mapping[str, int] | None = None,
        arrived: Callable[[], None] | None = None,
    ) -> int:
        """Put a scene on screen: a model, a prompt, and tokens decoded greedily. Nothing is remembered.

        Parameters
        ----------
        select
            Fields of the selection; a negative query or key counts from the end.
        arrived
            Called when it is on screen.

        Returns
        -------
        int
            The id that its run will have.
        """
        session = self._session
        session.drop("open", "check")
        run_id = session.next_run_id()
        wanted = self._interventions.want(interventions)

        def staged(engine: RemoteEngine) -> Calls[RunHandle]:
            handle = yield from engine.run(model_handle, prompt, run_id, (0, 0), interventions=wanted)
            if decoded:
                handle = yield from engine.step(handle, decoded, Sampling())
            return handle

        def show(handle: RunHandle) -> None:
            session.swap_model(model_handle, prompt)
            self._timeline.drawn = (Sampling(),) * decoded
            self._consistency.forget()
            session.show_run(handle, **placed(select or {}, handle.run.length))
            self._interventions.arrived(wanted)
            if arrived is not None:
                arrived()

        session.submit("run", Urgency.PREFILL, staged, show, session.fail, what="Setting the scene")
        return run_id


def again(
    engine: RemoteEngine, kept: SessionState, run_id: int, model_handle: ModelHandle | None = None
) -> Calls[SessionState]:
    """Make a run again in another engine, where its model is opened first unless it is there already."""
    before, run = kept.model_handle, kept.handle.run
    if model_handle is None and before.checkpoint.connection is engine.connection:
        model_handle = before
    if model_handle is None:
        model_handle = yield from open_again(engine, before)
    at = kept.selection
    decoded = tuple(token.id for token in run.tokens[run.prefill : run.newest])
    if model_handle.origin is not None:  # a trace file, which has the run
        handle = (yield from engine.open_trace(model_handle, run_id, (at.layer, at.head))).handle
    else:
        handle = yield from engine.run(
            model_handle,
            kept.handle.prompt,
            run_id,
            (at.layer, at.head),
            interventions=kept.interventions,
            decoded=decoded,
        )
    handle = replace(handle, run=replace(handle.run, length=run.length))
    return replace(kept, model_handle=model_handle, handle=handle)


def open_again(engine: RemoteEngine, before: ModelHandle) -> Calls[ModelHandle]:
    """Open a model in another engine as it was open."""
    card = before.card
    if before.toy is not None:
        return (yield from engine.open_toy(before.toy, card.name))
    path = None if is_bundled(card) else card.path
    return (yield from engine.open_model(path, card.device, card.dtype, options=dict(before.options)))


def is_bundled(card: ModelCard) -> bool:
    """Whether a model is the bundled one, wherever that lies on the engine's machine."""
    return card.name.startswith("bundled") and PureWindowsPath(card.path).parts[-2:] == ("resources", "bundled")


def placed(select: Mapping[str, int], rows: int) -> dict[str, int]:
    """Fields of a selection in which a negative query or key counts from the end of ``rows``."""
    return {name: value % rows if value < 0 and name in ("query", "key") else value for name, value in select.items()}
