"""The clock of a step: one for everything that moves while a decoded token comes on screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

Part = tuple[float, float]
ARRIVES: Final[Part] = (0.0, 0.45)
"""When in a step the new token goes from the candidates to its place."""
SLIDES: Final[Part] = (0.2, 0.6)
"""When its column slides into the cache."""
MOVES: Final[Part] = (0.4, 0.95)
"""When the bars go to where they stand after it."""
FANS_OUT: Final[Part] = (0.45, 1.0)
"""When the arcs come out of it."""


class StepClock(QObject):
    """How far the newest step has come on screen, from 0, where it began, to 1, where everything stands.

    Whoever moves asks it and keeps no time of its own, so nothing is out of step, and nobody waits for it: whatever is
    done meanwhile ends it first.

    Signals
    -------
    started()
        A step is about to be shown; what is on screen is still that of before.
    ticked()
        Another moment of it; at 1, its end.

    Attributes
    ----------
    moves
        Whether things move at all; where they do not, a step is at its end at once.
    is_stepped
        Whether moments come from :meth:`frame` alone.
    row
        The position of the token that is new.
    """

    started = Signal()
    ticked = Signal()

    LONG = 600
    """Milliseconds of a step that a person takes."""
    INTERVAL = 16
    """Milliseconds between two moments: 60 a second."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.moves: Callable[[], bool] = lambda: False
        self.is_stepped = False
        self.row = -1
        self._at = 1.0
        self._lasts = self.LONG
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(self.INTERVAL)
        self._timer.timeout.connect(self._tick)

    @property
    def is_running(self) -> bool:
        """Whether something is on its way."""
        return self._at < 1

    def start(self, row: int, lasts: int = LONG) -> None:
        """Begin a step to the token at ``row``, which takes so many milliseconds."""
        self.finish()
        if lasts <= 0 or not self.moves():
            return
        self.row, self._lasts = row, lasts
        self.started.emit()
        self._at = 0.0
        self._since.start()
        if not self.is_stepped:
            self._timer.start()

    def frame(self, at: float) -> None:
        """Go to a moment."""
        if self.is_running:
            self._at = min(max(at, 0.0), 1.0)
            if not self.is_running:
                self._timer.stop()
            self.ticked.emit()

    def finish(self) -> None:
        """Be at the end, at once."""
        self.frame(1.0)

    def come(self, part: Part) -> float:
        """How far what moves in a part of the step has come, from 0 to 1; it begins and ends gently."""
        start, end = part
        share = min(max((self._at - start) / (end - start), 0.0), 1.0)
        return share * share * (3 - 2 * share)

    def _tick(self) -> None:
        self.frame(self._since.elapsed() / self._lasts)
