"""The pinned run (A), that later ones are compared with.

One that another engine has is made again in the engine of the run on screen. Comparing is the engine's; showing both
is the window's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import Ended
from ropewalk.app.session.state import again
from ropewalk.model.engine.urgency import Urgency

if TYPE_CHECKING:
    from ropewalk.app.engine.engines import Engines
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.state import Scenes, SessionState
    from ropewalk.model.engine.interface import RunHandle
    from ropewalk.model.engine.requests import Failure
    from ropewalk.model.readings.records import Run


class Baseline(QObject):
    """A run that stays.

    Signals
    -------
    changed(run)
        The pinned :class:`Run`, or None.
    """

    changed = Signal(object)

    def __init__(
        self, session: SessionContext, engines: Engines, scenes: Scenes, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engines = engines
        self._scenes = scenes
        self._handle: RunHandle | None = None
        self._kept: SessionState | None = None

    @property
    def run(self) -> Run | None:
        """The run that others are compared with, None when none is pinned."""
        return None if self._handle is None else self._handle.run

    @property
    def handle(self) -> RunHandle | None:
        """The pinned run as a handle."""
        return self._handle

    @property
    def kept(self) -> SessionState | None:
        """The pinned run as a handle, with what was changed in it."""
        return self._kept if self._handle is not None else None

    @property
    def shares_engine(self) -> bool:
        """Whether one engine has the pinned run and the one on screen, so that they can be compared."""
        here = self._session.handle
        if self._handle is None or here is None:
            return False
        return bool(self._handle.trace.connection is here.trace.connection)

    def pin(self) -> None:
        """Keep the run on screen, to compare later runs with."""
        self._set(self._session.handle)
        self._kept = self._scenes.keep()

    def restore(self, kept: SessionState | None) -> None:
        """Pin a run that is not on screen, such as one that a session file brought back."""
        self._set(None if kept is None else kept.handle)
        self._kept = kept

    def unpin(self) -> None:
        """Compare no longer, and keep nothing of the run: an engine that has nothing else may go."""
        self._kept = None
        self._set(None)

    # For the session ----------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Make the pinned run again in the engine of the run on screen, so that both can be compared."""
        kept, handle = self.kept, self._session.handle
        if kept is None or handle is None or self.shares_engine or self._session.jobs.has("baseline"):
            return
        remote, run_id = self._engines.remote(handle.trace.connection), self._session.next_run_id()

        def arrived(back: SessionState) -> None:
            self.restore(back)
            self.follow()  # another run may be on screen by now

        self._session.submit(
            "baseline",
            Urgency.REFINEMENT,
            lambda engine: again(remote, kept, run_id),
            arrived,
            self._on_lost,
            what="Bringing the pinned run over",
        )

    # How it works -------------------------------------------------------------------------------------------------

    def _on_lost(self, failure: Failure) -> None:
        """Compare no longer with a run that cannot be made there, as when its checkpoint is on another machine."""
        if not isinstance(failure, Ended):
            self.unpin()
        self._session.fail(failure)

    def _set(self, handle: RunHandle | None) -> None:
        self._session.jobs.cancel("baseline")
        self._handle = None if handle is None else replace(handle, baseline=None)
        self.changed.emit(self.run)
