"""Where the walk through a block stands: its panel shows the step, the ledger lights its rows, lessons move it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.ledger.walk import STEPS, WalkStep, plan_of


class Walk(QObject):
    """The one place that says which operation of the block is looked at.

    A step is kept by its key, so that it is the same operation in another layer or another model; where that block has
    no such step, it is the one before.

    Parameters
    ----------
    block
        The config of the run on screen and the selected layer; None before there is a run.

    Signals
    -------
    moved
        Another step is on, or somebody has begun or ended to look at the walk.
    """

    moved = Signal()

    def __init__(self, block: Callable[[], tuple[ModelConfig, int] | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._block = block
        self._key = STEPS[0]
        self.in_sight = False
        """Whether the walk is looked at."""

    @property
    def steps(self) -> tuple[WalkStep, ...]:
        """The steps of the selected block; none before there is a run."""
        block = self._block()
        return () if block is None else plan_of(*block)

    @property
    def place(self) -> int:
        """Which of the steps is on."""
        reached = STEPS.index(self._key)
        passed = [place for place, step in enumerate(self.steps) if STEPS.index(step.key) <= reached]
        exact = [place for place, step in enumerate(self.steps) if step.key == self._key]
        return (exact or passed or [0])[-1]

    @property
    def lit(self) -> frozenset[str]:
        """Rows of the ledger that the step is about, while it is looked at."""
        steps = self.steps
        return frozenset(steps[self.place].rows) if steps and self.in_sight else frozenset()

    def go_to(self, place: int) -> None:
        """Go to a step, or to the end that lies in that direction."""
        steps = self.steps
        if steps:
            self.put(steps[min(max(place, 0), len(steps) - 1)].key)

    def put(self, key: str) -> None:
        """Go to the operation of that key, in this block or the next one that is looked at."""
        if key != self._key:
            self._key = key
            self.moved.emit()

    def move(self, by: int) -> None:
        """Go so many steps on, or back."""
        self.go_to(self.place + by)

    def seek(self, row: str) -> bool:
        """Go to the first step that is about a row of the ledger; whether there is one."""
        found = next((step.key for step in self.steps if row in step.rows), "")
        if found:
            self.put(found)
        return bool(found)

    def show(self, in_sight: bool) -> None:
        """Say whether the walk is looked at."""
        if in_sight != self.in_sight:
            self.in_sight = in_sight
            self.moved.emit()
