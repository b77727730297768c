"""Brings on screen what the window owns of a lesson's scene: its panels, switches, marks, and what is set going."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QAbstractButton, QWidget

from ropewalk.app.session.selection import Hover
from ropewalk.model.ledger.walk import STEPS
from ropewalk.views.panels.panel_card import PanelCard
from ropewalk.views.panels.registry import names
from ropewalk.views.stage.tree import Split, column, row
from ropewalk.views.style import motion, theme

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Scene
    from ropewalk.app.session.session import Session
    from ropewalk.model.ledger.ledger import ShapeLedger
    from ropewalk.views.panels.heads import HeadsPanel
    from ropewalk.views.panels.ledger import LedgerPanel
    from ropewalk.views.panels.rope import RopePanel
    from ropewalk.views.panels.training import TrainingPanel
    from ropewalk.views.stage.stage import Stage

HEIGHTS: Final[Mapping[str, int]] = {"tokens": 0, "why": 3, "cache": 4, "rope": 7, "walk": 12}
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
    stage, cards
        Where the panels stand, and the panels by name.
    bars
        What is hidden while a projector shows a lesson.
    line
        What is shown in their place.

    Attributes
    ----------
    scene
        What is on screen; None when no lesson is open.
    """

    def __init__(self, stage: Stage, cards: Mapping[str, PanelCard], bars: tuple[QWidget, ...], line: QWidget) -> None:
        super().__init__(stage)
        self.scene: Scene | None = None
        self._stage, self._cards, self._bars, self._line = stage, cards, bars, line
        self._shown: tuple[str, ...] = ()
        self._before: dict[str, bool] = {}
        self._order = ""
        """How the heads were ordered before the lesson."""
        self._turns = self._grows = False
        cards["rope"].when_made(lambda rope: rope.drawn.connect(self._turn))
        cards["training"].when_made(lambda training: training.drawn.connect(self._grow))

    @property
    def _rope(self) -> RopePanel:
        return cast("RopePanel", self._cards["rope"].panel)

    @property
    def _heads(self) -> HeadsPanel | None:
        """The panel of heads, where it has been made."""
        card = self._cards["heads"]
        return cast("HeadsPanel", card.panel) if card.is_made else None

    @property
    def _ledger(self) -> LedgerPanel:
        return cast("LedgerPanel", self._cards["ledger"].panel)

    @property
    def _session(self) -> Session:
        return self._rope.session

    def switch(self, name: str) -> QAbstractButton:
        """One of :data:`SWITCHES`."""
        panel, button = SWITCHES[name]
        return cast("QAbstractButton", getattr(self._cards[panel].panel, button))

    def show(self, scene: Scene, ledger: ShapeLedger | None = None) -> None:
        """Bring a whole scene on screen; ``ledger`` is that of a config alone, where the scene has no run."""
        if self.scene is None:
            self._before = {name: self.switch(name).isChecked() for name in SWITCHES}
            self._order = "" if self._heads is None else self._heads.sort_box.currentText()
        panels = scene.panels if ledger is None else tuple(name for name in scene.panels if name in NEED_NO_RUN)
        self._survey(scene)  # before its panels ask for one
        changed = self.scene is None or self._shown != panels or self._stage.workspace != "lesson"
        self.scene, self._shown = scene, panels
        if changed:
            self.arrange()
        self._ledger.show_outline(ledger)
        for name in SWITCHES:
            self.switch(name).setChecked(name in scene.toggles)
        if self._heads is not None:
            self._heads.order_by_layer()
        self._session.selection.point_at(Hover())
        if "walk" in panels:
            self._session.walk.put(scene.walk or STEPS[0])
        self._highlight(scene)
        self._set_going(scene)

    def leave(self) -> None:
        """Put the switches back as they were, and take the marks off; the window brings its workspace back."""
        self._turns = self._grows = False
        self._rope.begin_anew()
        self._session.selection.point_at(Hover())
        self._ledger.show_outline(None)
        for name, was_on in self._before.items():
            self.switch(name).setChecked(was_on)
        if self._heads is not None and self._order:
            self._heads.sort_box.setCurrentText(self._order)
        for card in self._cards.values():
            if card.is_made:
                card.panel.highlight({})
        self.scene, self._shown, self._before = None, (), {}
        self._show_bars(False)

    def arrange(self) -> None:
        """Show the lesson and the panels of the step, and hide the others."""
        if self.scene is None:
            return
        self._show_bars(theme.current().projector)
        first = sorted(self._shown, key=LINES.__contains__)
        self._stage.show_scene(_arranged(self._shown), first)

    def _show_bars(self, on_projector: bool) -> None:
        """On a projector the large line of the step stands where the bars are otherwise."""
        self._line.setVisible(on_projector)
        for bar in self._bars:
            bar.setVisible(not on_projector)

    def _survey(self, scene: Scene) -> None:
        """Show a survey that comes along at the statistic and the head that the scene names."""
        if scene.survey:
            place = dict(scene.select)
            head = (place["layer"], place["head"]) if place.keys() >= {"layer", "head"} else None
            self._session.surveys.lend(scene.survey, scene.surveyed, head)

    def _highlight(self, scene: Scene) -> None:
        """Mark every place that the step names, in its panel."""
        for name, card in self._cards.items():
            named = [highlight for highlight in scene.highlights if highlight.panel == name]
            if named or card.is_made:
                card.panel.highlight({highlight.what: frozenset(highlight.places) for highlight in named})

    def _set_going(self, scene: Scene) -> None:
        self._rope.begin_anew()
        if scene.play == "decode":
            self._session.timeline.step() if motion.reduced() else self._session.timeline.play()
        self._turns = scene.play == "rotation"
        self._grows = bool(scene.statistic) or scene.play == "training"
        if self._cards["training"].is_made:
            cast("TrainingPanel", self._cards["training"].panel).film.pause()
        self._turn()
        self._grow()

    def _turn(self) -> None:
        """Set the rotation going once the planes of the scene are drawn: both hands turn, the score stands still."""
        if self._turns and self._rope.settled and self._rope.reading is not None:
            self._turns = False
            self._rope.let_move("both")
            self._rope.toggle()

    def _grow(self) -> None:
        """Show the record of the training as the scene wants it, once it is there; and play it."""
        card, scene = self._cards["training"], self.scene
        if not self._grows or scene is None or not card.is_made:
            return
        panel = cast("TrainingPanel", card.panel)
        if panel.settled and panel.history is not None:
            self._grows = False
            panel.watch(scene.statistic)
            self._session.selection.update(**dict(scene.select))  # a head that the scene names stays
            if scene.checkpoint is not None:
                panel.go(scene.checkpoint)
            if scene.play == "training":
                panel.film.toggle()


def _arranged(shown: tuple[str, ...]) -> Split:
    """The lesson beside the panels of a step: the first named is what the step is about."""
    tall = next((name for name in shown if name not in LINES), "")
    shares = {name: HEIGHTS.get(name, 5) + (FIRST if name == tall else 0) for name in names() if name in shown}
    shares |= {name: 1 for name in shares if not any(shares.values())}
    beside = column(*((share, name) for name, share in shares.items()))
    return row((SHARE, "lesson"), (100 - SHARE, beside))
