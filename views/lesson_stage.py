"""Brings on screen what the window owns of a lesson's scene: its panels, switches, marks, and what is set going.

It owns the arrangement during a lesson: the lesson on the left, the panels of the step beside it, nothing else. It
must not know what a step says or asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QAbstractButton, QMainWindow

from app.lesson_plan import Highlight, Scene
from app.selection import Hover
from views.ledger import LedgerPanel
from views.lesson import LessonPanel
from views.panel_dock import PanelDock
from views.rope import RopePanel
from views.scores import ScoresPanel

if TYPE_CHECKING:
    from app.session import Session

HOVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "heads": ("layer", "head"),
    "cells": ("query", "key"),
    "tokens": ("key",),
    "planes": ("plane",),
    "layers": ("layer",),
}
"""What of a highlight lights up in every panel, as if it were pointed at: the fields of its first place."""

HEIGHTS: Final[Mapping[str, int]] = {"tokens": 2, "why": 2, "cache": 3}
"""Shares of the height; a panel that is not named takes 5."""

SHARE = 38
"""Per cent of the width that the lesson takes."""


class LessonStage(QObject):
    """The window during a lesson.

    Attributes
    ----------
    scene
        What is on screen; None when no lesson is open.
    """

    def __init__(self, window: QMainWindow, docks: Mapping[str, PanelDock]) -> None:
        super().__init__(window)
        self.scene: Scene | None = None
        self._window, self._docks = window, docks
        self._lesson = docks[LessonPanel.name]
        self._shown: tuple[str, ...] = ()
        self._scores = cast("ScoresPanel", docks["scores"].panel)
        self._rope = cast("RopePanel", docks["rope"].panel)
        self._ledger = cast("LedgerPanel", docks["ledger"].panel)
        self._turns = False
        self._rope.drawn.connect(self._turn)

    @property
    def _session(self) -> Session:
        return self._rope.session

    def switches(self) -> dict[str, QAbstractButton]:
        """The switches that a step may turn on, by name."""
        return {
            "scores.log": self._scores.log_scale,
            "scores.skip_first": self._scores.skip_first,
            "ledger.all_columns": self._ledger.all_columns,
        }

    def show(self, scene: Scene) -> None:
        """Bring a whole scene on screen."""
        changed = self.scene is None or self._shown != scene.panels
        self.scene = scene
        if changed:
            self.arrange()
        for name, switch in self.switches().items():
            switch.setChecked(name in scene.toggles)
        self._light(scene.highlights)
        self._set_going(scene)

    def leave(self) -> None:
        """Turn everything off again; the window brings its own layout back."""
        self._turns = False
        self._rope.pause()
        self._session.selection.point_at(Hover())
        for switch in self.switches().values():
            switch.setChecked(False)
        self.scene, self._shown = None, ()

    def arrange(self) -> None:
        """Show the lesson and the panels of the step, and hide the others."""
        if self.scene is None:
            return
        self._shown = self.scene.panels
        window = self._window
        beside = [self._docks[name] for name in self._docks if name in self._shown]
        for dock in self._docks.values():
            if dock is self._lesson or dock in beside:
                dock.setFloating(False)
                window.removeDockWidget(dock)
            else:
                dock.hide()
        window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, self._lesson)
        if beside:
            window.splitDockWidget(self._lesson, beside[0], Qt.Orientation.Horizontal)
        for above, below in pairwise(beside):
            window.splitDockWidget(above, below, Qt.Orientation.Vertical)
        for dock in (self._lesson, *beside):
            dock.show()
        if beside:
            left = window.width() * SHARE // 100
            window.resizeDocks([self._lesson, beside[0]], [left, window.width() - left], Qt.Orientation.Horizontal)
            heights = [HEIGHTS.get(dock.panel.name, 5) * 100 for dock in beside]
            window.resizeDocks(beside, heights, Qt.Orientation.Vertical)

    def _light(self, highlights: tuple[Highlight, ...]) -> None:
        """Mark the first place that can be pointed at."""
        for highlight in highlights:
            fields = HOVERS.get(highlight.what, ())
            for place in highlight.places:
                if fields and isinstance(place, tuple):
                    self._session.selection.point_at(Hover(**dict(zip(fields, place, strict=False))))
                    return
        self._session.selection.point_at(Hover())

    def _set_going(self, scene: Scene) -> None:
        self._rope.pause()
        if scene.play == "decode":
            self._session.play()
        self._turns = scene.play == "rotation"
        self._turn()

    def _turn(self) -> None:
        """Set the rotation going once the planes of the scene are drawn."""
        if self._turns and self._rope.settled and self._rope.reading is not None:
            self._turns = False
            self._rope.put_back()
            self._rope.toggle()
