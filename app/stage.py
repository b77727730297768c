"""What is put on screen in one go: a scene of a lesson, or what was there before it.

It owns what is kept of a moment and how it comes back. What a scene shows is the lesson's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.urgency import Urgency
from model.readings import Sampling

if TYPE_CHECKING:
    from app.door import Engine, Held, Opened
    from app.experiments import Experiments
    from app.proofs import Proofs
    from app.selection import Selection
    from app.session_context import SessionContext
    from app.timeline import Timeline
    from model.experiments import Experiment
    from model.progress import Progress
    from model.prompt import Prompt


@dataclass(frozen=True)
class Kept:
    """What was on screen at a moment. The run is kept by its handle, so that bringing it back computes nothing."""

    opened: Opened
    held: Held
    prompt: Prompt
    drawn: tuple[Sampling, ...]
    experiments: tuple[Experiment, ...]
    selection: Selection


class Stage:
    """Scenes on screen, and what they were put in place of."""

    def __init__(self, session: SessionContext, timeline: Timeline, proofs: Proofs, experiments: Experiments) -> None:
        self._session = session
        self._timeline = timeline
        self._proofs = proofs
        self._experiments = experiments

    def keep(self) -> Kept | None:
        """What is on screen, to be brought back by :meth:`bring_back`; None before the first run."""
        session = self._session
        opened, held = session.opened, session.held
        if opened is None or held is None:
            return None
        drawn, experiments = self._timeline.drawn, self._experiments.now
        return Kept(opened, held, session.prompt, drawn, experiments, session.selection.now)

    def bring_back(self, kept: Kept) -> None:
        """Put a run back on screen as it was: model, prompt, decoded tokens, experiments and selection."""
        session = self._session
        session.drop("open", "run", "check")
        self._timeline.drawn = kept.drawn
        session.swap_model(kept.opened, kept.prompt)
        self._proofs.forget()
        now = kept.selection
        session.show_run(kept.held, layer=now.layer, head=now.head, query=now.query, key=now.key, plane=now.plane)
        self._experiments.arrived(kept.experiments)

    def put(
        self,
        opened: Opened,
        prompt: Prompt,
        *,
        experiments: Sequence[Experiment] = (),
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
        wanted = self._experiments.want(experiments)

        def staged(engine: Engine) -> Generator[Progress, None, Held]:
            held = yield from engine.run(opened, prompt, run_id, (0, 0), experiments=wanted)
            if decoded:
                held = yield from engine.step(held, decoded, Sampling())
            return held

        def show(held: Held) -> None:
            session.swap_model(opened, prompt)
            self._timeline.drawn = (Sampling(),) * decoded
            self._proofs.forget()
            session.show_run(held, **placed(select or {}, held.run.length))
            self._experiments.arrived(wanted)
            if arrived is not None:
                arrived()

        session.submit("run", Urgency.PREFILL, staged, show, session.fail, what="Setting the scene")
        return run_id


def placed(select: Mapping[str, int], rows: int) -> dict[str, int]:
    """Fields of a selection in which a negative query or key counts from the end of ``rows``."""
    return {name: value % rows if value < 0 and name in ("query", "key") else value for name, value in select.items()}
