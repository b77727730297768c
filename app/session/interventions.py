"""What is changed in the model of the run on screen, and what is offered where a prompt does not fit.

What an intervention does is the model's; who chooses one is the window's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from PySide6.QtCore import QObject, Signal

from ropewalk.model.decoder.interventions import AblateHeads, Intervention, RopeScaling
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency

if TYPE_CHECKING:
    from ropewalk.app.session.consistency import ConsistencyChecks
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.timeline import Timeline
    from ropewalk.model.engine.interface import RunHandle
    from ropewalk.model.readings.records import Sampling
    from ropewalk.model.tokens.prompt import Prompt

Head: TypeAlias = tuple[int, int]
"""A layer and a head of it."""


class Interventions(QObject):
    """What is changed in a run.

    Signals
    -------
    changed(interventions)
        What is changed in the run on screen; a tuple of ``model.decoder.interventions``.
    asked(interventions)
        What is changed in the run that has just been begun with :meth:`apply`.
    offered(interventions)
        After a refusal: interventions, any of which :meth:`accept` would do what was refused with.
    """

    changed = Signal(object)
    asked = Signal(object)
    offered = Signal(object)

    def __init__(
        self, session: SessionContext, timeline: Timeline, consistency: ConsistencyChecks, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._timeline = timeline
        self._consistency = consistency
        self._now: tuple[Intervention, ...] = ()
        self._wanted: tuple[Intervention, ...] = ()
        self._refused: Prompt | None = None
        self._fitting: Prompt | None = None
        """The newest prompt that ran without its positions being stretched."""

    @property
    def now(self) -> tuple[Intervention, ...]:
        """What is changed in the model in the run on screen."""
        return self._now

    @property
    def wanted(self) -> tuple[Intervention, ...]:
        """What is changed in the model once the run that is under way is there."""
        return self._wanted if self._session.jobs.has("run") else self._now

    def apply(self, interventions: Sequence[Intervention]) -> None:
        """Run the prompt and the tokens decoded after it again, with these things changed in the model.

        What was on screen stays when an intervention is refused.
        """
        session = self._session
        handle, model_handle = session.handle, session.model_handle
        if handle is None or model_handle is None:
            session.fail(Failure("There is nothing to experiment on yet; run a prompt first."))
            return
        if handle.model_handle is not model_handle:  # what is on screen is another model's, and on its way out
            session.run_prompt(session.prompt, interventions)
            return
        wanted = self.want(interventions)
        self._timeline.leave()
        session.jobs.cancel("check")
        run, run_id = handle.run, session.next_run_id()
        decoded = [token.id for token in run.tokens[run.prefill : run.length]]
        drawn, now = self._timeline.drawn[: run.steps], session.selection.now
        session.submit(
            "run",
            Urgency.PREFILL,
            lambda engine: engine.run(
                model_handle, handle.prompt, run_id, (now.layer, now.head), interventions=wanted, decoded=decoded
            ),
            lambda after: self._on_applied(after, wanted, drawn),
            lambda failure: self._on_failed(failure, wanted),
            what="Running the prompt again",
        )
        self.asked.emit(wanted)

    def silence(self, heads: Iterable[Head]) -> None:
        """Run again with these heads giving zero, every other one itself again; other changes stay."""
        self.apply(silencing(self.wanted, heads))

    def accept(self, scaling: RopeScaling) -> None:
        """Do what was refused for its length with RoPE stretched, from now on until that is taken out."""
        wanted = (*without_scaling(self._now), scaling)
        refused, self._refused = self._refused, None
        if refused is None:
            self.apply(wanted)
        else:
            self._session.run_prompt(refused, wanted)

    # For the session ----------------------------------------------------------------------------------------------

    def want(self, interventions: Iterable[Intervention]) -> tuple[Intervention, ...]:
        """Begin a run with these."""
        self._wanted = tuple(interventions)
        return self._wanted

    def arrived(self, interventions: tuple[Intervention, ...]) -> None:
        """Have the run that was begun with these on screen."""
        handle = self._session.handle
        if handle is not None and without_scaling(interventions) == interventions:
            self._fitting = handle.prompt
        if interventions != self._now:
            self._now = interventions
            self.changed.emit(interventions)

    def offer(self, interventions: tuple[Intervention, ...], refused: Prompt | None) -> None:
        """Offer what a refused prompt could be run with; None where the run on screen was to be gone on with."""
        self._refused = refused
        self.offered.emit(interventions)

    def forget_prompts(self) -> None:
        """Another model has other limits."""
        self._refused = self._fitting = None

    # How it works -------------------------------------------------------------------------------------------------

    def _on_applied(
        self, handle: RunHandle, interventions: tuple[Intervention, ...], drawn: tuple[Sampling, ...]
    ) -> None:
        self._timeline.drawn = drawn
        self._consistency.forget()
        self._session.show_run(handle)
        self.arrived(interventions)

    def _on_failed(self, failure: Failure, wanted: tuple[Intervention, ...]) -> None:
        """Stay with what is on screen; where only a stretch had room for the prompt, go back to one from before."""
        unstretched = without_scaling(wanted) == wanted and without_scaling(self._now) != self._now
        if not (failure.offers and unstretched and self._fitting is not None):
            self._session.fail(failure)
            return
        self._session.run_prompt(
            self._fitting,
            wanted,
            "Without the RoPE scaling the prompt is too long for this model, so the last one that fits was run again.",
        )


def silent_heads(interventions: Sequence[Intervention]) -> frozenset[Head]:
    """The heads that give zero, as (layer, head)."""
    return frozenset((one.layer, head) for one in interventions if _silences(one) for head in one.heads)


def silencing(interventions: Sequence[Intervention], heads: Iterable[Head]) -> tuple[Intervention, ...]:
    """The same interventions with these heads giving zero, and no others."""
    layers: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        layers.setdefault(layer, []).append(head)
    others = tuple(one for one in interventions if not _silences(one))
    return (*others, *(AblateHeads(layer, tuple(some)) for layer, some in layers.items()))


def _silences(intervention: Intervention) -> TypeGuard[AblateHeads]:
    return isinstance(intervention, AblateHeads) and not intervention.means


def without_scaling(interventions: Sequence[Intervention]) -> tuple[Intervention, ...]:
    """Interventions that leave the model the positions it has."""
    return tuple(one for one in interventions if not isinstance(one, RopeScaling))
