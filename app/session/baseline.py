"""The pinned run (A), that later ones are compared with.

Comparing is the engine's; showing both is the window's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.state import Scenes, SessionState
    from ropewalk.model.engine.interface import RunHandle
    from ropewalk.model.readings.records import Run


class Baseline(QObject):
    """A run that stays.

    Signals
    -------
    changed(run)
        The pinned :class:`Run`, or None.
    """

    changed = Signal(object)

    def __init__(self, session: SessionContext, scenes: Scenes, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
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

    def _set(self, handle: RunHandle | None) -> None:
        self._handle = None if handle is None else replace(handle, baseline=None)
        self.changed.emit(self.run)
