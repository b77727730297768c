"""Which layout comes back: that of before a lesson, of before projector mode, and the one to remember at the end."""

from __future__ import annotations

import hashlib

from PySide6.QtCore import QByteArray, QTimer
from PySide6.QtWidgets import QMainWindow

from ropewalk.views.window import layouts

VERSION = 1
"""Of a saved layout: raise it when docks are renamed."""

SEAL_BYTES = 32
"""A layout in a file has its SHA-256 in front: Qt ends the process over bytes that it did not write itself."""

PASSES = 2
"""How often a layout is brought back: first the panels learn how small they can be, then the bars around them."""


class LayoutMemory:
    """The layouts behind a lesson and behind projector mode, of which one may lie behind the other."""

    def __init__(self, window: QMainWindow, docks: layouts.Docks) -> None:
        self._window, self._docks = window, docks
        self._ordinary = QByteArray()
        self._coming_back, self._passes = QByteArray(), 0
        self._before_lesson: tuple[QByteArray, bool] | None = None
        """What was on screen before the lesson, and whether that was projector mode's."""

    @property
    def in_lesson(self) -> bool:
        """Whether a lesson arranges the panels."""
        return self._before_lesson is not None

    def now(self) -> QByteArray:
        """The layout on screen."""
        return self._window.saveState(VERSION)

    def put(self, layout: QByteArray) -> bool:
        """Bring a layout on screen; says whether it could be."""
        return bool(self._window.restoreState(layout, VERSION))

    def put_kept(self, kept: bytes) -> bool:
        """Bring a layout on screen that was kept in a file; says whether it could be."""
        seal, layout = kept[:SEAL_BYTES], kept[SEAL_BYTES:]
        return seal == _seal(layout) and self.put(QByteArray(layout))

    def enter_projector(self, behind: QByteArray | None = None) -> None:
        """Keep the ordinary layout, and show what a projector shows.

        Parameters
        ----------
        behind
            The layout behind a panel that is alone on the screen, and stays alone.
        """
        self._coming_back = QByteArray()
        if self._before_lesson is None:
            self._ordinary = self.now() if behind is None else behind
        elif not self._before_lesson[1]:
            self._ordinary = self._before_lesson[0]
        if behind is None:
            layouts.project(self._docks)

    def leave_projector(self) -> None:
        """Bring the ordinary layout back, unless a lesson arranges the panels."""
        if not self.in_lesson:
            self._restore(self._ordinary)

    def enter_lesson(self, projector: bool) -> None:
        """Keep what is on screen; the first of several lessons counts."""
        self._coming_back = QByteArray()
        if self._before_lesson is None:
            self._before_lesson = self.now(), projector

    def leave_lesson(self, projector: bool) -> None:
        """Bring back what was on screen before, as the mode of now shows it."""
        if self._before_lesson is None:
            return
        (before, was), self._before_lesson = self._before_lesson, None
        if projector == was:
            self._restore(before)
        elif projector:
            layouts.place_projected(self._window, self._docks)
        else:
            self._restore(self._ordinary)

    def to_keep(self, projector: bool) -> bytes:
        """The ordinary layout for a file, which :meth:`put_kept` brings back."""
        layout = bytes(self._to_remember(projector).data())
        return _seal(layout) + layout

    def _to_remember(self, projector: bool) -> QByteArray:
        if self._before_lesson is not None and not self._before_lesson[1]:
            return self._before_lesson[0]
        return self._ordinary if projector or self.in_lesson else self.now()

    def _restore(self, layout: QByteArray) -> None:
        """Bring a layout on screen; once more when panels that were hidden know again how small they can be."""
        if not self.put(layout):
            layouts.arrange(self._window, self._docks, self._window.size())
            return
        self._coming_back, self._passes = layout, PASSES
        QTimer.singleShot(0, self._window, self._restore_again)

    def _restore_again(self) -> None:
        if self._coming_back.isEmpty():
            return
        layouts.keep_rows(self._docks)
        self.put(self._coming_back)
        self._passes -= 1
        if self._passes:
            QTimer.singleShot(0, self._window, self._restore_again)
        else:
            self._coming_back = QByteArray()


def _seal(layout: bytes) -> bytes:
    return hashlib.sha256(layout).digest()
