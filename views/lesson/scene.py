"""Brings on screen what the window owns of a lesson's scene: its panels, switches, marks, and what is set going."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QAbstractButton, QMainWindow, QWidget

from ropewalk.app.session.selection import Hover
from ropewalk.views.panels.panel_dock import PanelDock
from ropewalk.views.style import motion, theme

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Scene
    from ropewalk.app.session.session import Session
    from ropewalk.model.ledger.ledger import ShapeLedger
    from ropewalk.views.panels.ledger import LedgerPanel
    from ropewalk.views.panels.rope import RopePanel
    from ropewalk.views.panels.tokens import TokensPanel

HEIGHTS: Final[Mapping[str, int]] = {"why": 3, "cache": 4, "rope": 7}
"""Shares of the height; a panel that is not named takes 5."""

LINES: Final = frozenset({"tokens", "why"})
"""Panels that are a few lines of text, and gain nothing by more room."""

FIRST: Final = 2
"""What the first panel that a step names takes more, unless it is a few lines."""

SHARE: Final = 38
"""Per cent of the width that the lesson takes."""

NEED_NO_RUN: Final = frozenset({"ledger"})
"""Panels that can show a config alone; beside it the others would show the run of another model."""


SWITCHES: Final[Mapping[str, tuple[str, str]]] = {
    "scores.log": ("scores", "log_scale"),
    "scores.skip_first": ("scores", "skip_first"),
    "scores.one": ("scores", "one"),
    "ledger.all_columns": ("ledger", "all_columns"),
}
"""The switches that a step may turn on: each one's panel, and what that calls it."""


class LessonScenes(QObject):
    """The window during a lesson.

    Parameters
    ----------
    window, docks
        The window and its panels by name.
    bars
        What is hidden while a projector shows a lesson.
    line
        What is shown in their place.

    Attributes
    ----------
    scene
        What is on screen; None when no lesson is open.
    """

    def __init__(
        self, window: QMainWindow, docks: Mapping[str, PanelDock], bars: tuple[QWidget, ...], line: QWidget
    ) -> None:
        super().__init__(window)
        self.scene: Scene | None = None
        self._window, self._docks, self._bars, self._line = window, docks, bars, line
        self._lesson = docks["lesson"]
        self._shown: tuple[str, ...] = ()
        self._before: dict[str, bool] = {}
        self._turns = False
        docks["rope"].when_made(lambda rope: rope.drawn.connect(self._turn))

    @property
    def _rope(self) -> RopePanel:
        return cast("RopePanel", self._docks["rope"].panel)

    @property
    def _ledger(self) -> LedgerPanel:
        return cast("LedgerPanel", self._docks["ledger"].panel)

    @property
    def _session(self) -> Session:
        return self._rope.session

    def switch(self, name: str) -> QAbstractButton:
        """One of :data:`SWITCHES`."""
        panel, button = SWITCHES[name]
        return cast("QAbstractButton", getattr(self._docks[panel].panel, button))

    def show(self, scene: Scene, ledger: ShapeLedger | None = None) -> None:
        """Bring a whole scene on screen; ``ledger`` is that of a config alone, where the scene has no run."""
        if self.scene is None:
            self._before = {name: self.switch(name).isChecked() for name in SWITCHES}
        panels = scene.panels if ledger is None else tuple(name for name in scene.panels if name in NEED_NO_RUN)
        changed = self.scene is None or self._shown != panels
        self.scene, self._shown = scene, panels
        if changed:
            self.arrange()
        self._ledger.show_outline(ledger)
        for name in SWITCHES:
            self.switch(name).setChecked(name in scene.toggles)
        self._session.selection.point_at(Hover())
        self._highlight(scene)
        self._set_going(scene)

    def leave(self) -> None:
        """Put the switches back as they were, and take the marks off; the window brings its own layout back."""
        self._turns = False
        self._rope.put_back()
        self._session.selection.point_at(Hover())
        self._ledger.show_outline(None)
        for name, was_on in self._before.items():
            self.switch(name).setChecked(was_on)
        for dock in self._docks.values():
            if dock.is_made:
                dock.panel.highlight({})
        self.scene, self._shown, self._before = None, (), {}
        self._show_bars(False)

    def arrange(self) -> None:
        """Show the lesson and the panels of the step, and hide the others."""
        if self.scene is None:
            return
        window = self._window
        self._show_bars(theme.current().projector)
        beside = [self._docks[name] for name in self._docks if name in self._shown]
        for dock in self._docks.values():
            if dock is self._lesson or dock in beside:
                dock.make_panel()
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
        layout = window.layout()
        if layout is not None:
            layout.activate()
        self._share_out()
        QTimer.singleShot(0, self._share_out_again)

    def _share_out_again(self) -> None:
        """A panel that got less may by now have hidden what took the room, and lines have broken anew."""
        self._share_out()
        QTimer.singleShot(0, self._share_out)

    def _share_out(self) -> None:
        """Share out the width and the height."""
        window, beside = self._window, [dock for name, dock in self._docks.items() if name in self._shown]
        if self.scene is None or not beside or not all(dock.isVisible() for dock in beside):
            return
        left = window.width() * SHARE // 100
        window.resizeDocks([self._lesson, beside[0]], [left, window.width() - left], Qt.Orientation.Horizontal)
        window.resizeDocks(beside, self._heights(beside), Qt.Orientation.Vertical)

    def _heights(self, docks: list[PanelDock]) -> list[int]:
        """Tokens take the lines they need, the others share the rest; the first named is what the step is about."""
        tall = next((name for name in self._shown if name not in LINES), "")
        lines = {dock: self._lines(dock) for dock in docks if dock.name == "tokens"}
        rest = sum(dock.height() for dock in docks) - sum(lines.values())
        shares = {
            dock: HEIGHTS.get(dock.name, 5) + (FIRST if dock.name == tall else 0) for dock in docks if dock not in lines
        }
        return [lines.get(dock) or rest * shares[dock] // sum(shares.values()) for dock in docks]

    def _lines(self, dock: PanelDock) -> int:
        """Height at which all tokens are in sight, up to a quarter of the window."""
        panel = cast("TokensPanel", dock.panel)
        around = dock.height() - panel.area.viewport().height()
        return min(around + panel.strip.minimumHeight(), self._window.height() // 4)

    def _show_bars(self, on_projector: bool) -> None:
        """On a projector the large line of the step stands where the bars are otherwise."""
        self._line.setVisible(on_projector)
        for bar in self._bars:
            bar.setVisible(not on_projector)

    def _highlight(self, scene: Scene) -> None:
        """Mark every place that the step names, in its panel."""
        for name, dock in self._docks.items():
            named = [highlight for highlight in scene.highlights if highlight.panel == name]
            if named or dock.is_made:
                dock.panel.highlight({highlight.what: frozenset(highlight.places) for highlight in named})

    def _set_going(self, scene: Scene) -> None:
        self._rope.pause()
        if scene.play == "decode":
            self._session.timeline.step() if motion.reduced() else self._session.timeline.play()
        self._turns = scene.play == "rotation"
        self._turn()

    def _turn(self) -> None:
        """Set the rotation going once the planes of the scene are drawn."""
        if self._turns and self._rope.settled and self._rope.reading is not None:
            self._turns = False
            self._rope.put_back()
            self._rope.toggle()
