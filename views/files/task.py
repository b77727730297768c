"""Something that takes many turns of the event loop on the GUI thread: shown with its progress, ended by Cancel.

A task is a generator. It yields a :class:`Progress` to let the window live on for a turn, or a function to wait
until that says yes, which may raise where it never will.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from PySide6.QtCore import QObject, QTimer

from ropewalk.app.jobs import JobProgress, unexpected
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

Turn: TypeAlias = "Callable[[], bool] | Progress"
Turns: TypeAlias = Generator[Turn, None, Any]

ENGINE_ENDED = "Nothing was exported: the engine has ended meanwhile; start it again."


class Task(QObject):
    """One at a time: a newer task ends the one before.

    Parameters
    ----------
    session
        Whose progress line and Cancel are used, and whose failures end it.
    """

    POLL_MS = 10
    """How often it looks whether what it waits for is there."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._turns: Turns | None = None
        self._waiting: Callable[[], bool] | None = None
        self._point = Progress(0, 0, "")
        self._done: Callable[[Any], None] = _ignore
        self._failed: Callable[[str], None] = _ignore
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._turn)
        session.cancelled.connect(self.stop)
        session.failed.connect(self._on_trouble)
        session.recovery.engine_ended.connect(self._on_engine_ended)

    @property
    def busy(self) -> bool:
        """Whether one is being run."""
        return self._turns is not None

    def run(self, turns: Turns, done: Callable[[Any], None], failed: Callable[[str], None]) -> None:
        """Begin; ``done`` hears what the generator returns, ``failed`` a sentence. Neither hears of a Cancel."""
        self.stop()
        self._turns, self._done, self._failed = turns, done, failed
        self._point = Progress(0, 0, "")
        self._timer.start(0)

    def stop(self) -> None:
        """End it where it is; what it had changed on screen it puts back."""
        turns, self._turns, self._waiting = self._turns, None, None
        self._timer.stop()
        if turns is not None:
            turns.close()
            self._session.progress_changed.emit(None)

    def _turn(self) -> None:
        if self._turns is None:
            return
        try:
            if self._waiting is not None and not self._waiting():
                self._timer.start(self.POLL_MS)
                return
            self._waiting = None
            turn = next(self._turns)
        except StopIteration as end:
            self._end(self._done, end.value)
            return
        except RopewalkError as error:
            self._end(self._failed, error.sentence)
            return
        except Exception as error:  # noqa: BLE001 - a person waits for a file and is owed a sentence
            self._end(self._failed, unexpected(self._point.what, error).sentence)
            return
        if self._turns is None:
            return  # the turn itself ended it
        if isinstance(turn, Progress):
            self._point = turn
        else:
            self._waiting = turn
        p = self._point
        self._session.progress_changed.emit(JobProgress(p.what, p.done, p.total, cancellable=True))
        self._timer.start(0)

    def _end(self, answer: Callable[[Any], None], what: Any) -> None:
        if self._turns is not None:
            self._turns.close()  # where it was the waiting that failed
        self._turns = self._waiting = None
        self._session.progress_changed.emit(None)
        answer(what)

    def _on_trouble(self, sentence: str, details: str) -> None:
        """What was waited for will not come."""
        if self.busy:
            failed = self._failed
            self.stop()
            failed(sentence)

    def _on_engine_ended(self, sentence: str, details: str) -> None:
        self._on_trouble(ENGINE_ENDED, "")


def _ignore(what: Any) -> None:
    """Nobody waits for it."""
