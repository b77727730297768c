"""What a teacher does in front of a class: one panel alone, a blank screen, a spotlight, notes, the step as a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, QPoint, QRect
from PySide6.QtGui import QGuiApplication, QScreen
from PySide6.QtWidgets import QMainWindow, QWidget

from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.panel_card import PanelCard
from ropewalk.views.stage.stage import Stage
from ropewalk.views.window.blank_screen import BlankScreen
from ropewalk.views.window.full_panel import FullPanel
from ropewalk.views.window.panel_walk import PanelWalk
from ropewalk.views.window.spotlight import Spotlight
from ropewalk.views.window.step_line import StepLine

if TYPE_CHECKING:
    from ropewalk.views.lesson.panel import LessonPanel
    from ropewalk.views.panels.rope import RopePanel
    from ropewalk.views.window.presenter import Cue, Presenter


class Classroom(QObject):
    """The teacher's tools of one window.

    Parameters
    ----------
    window, stage, cards
        The window, its stage, and its panels by name.
    bars
        What stands around the stage.
    pause
        Stops the decoding that is played.
    """

    def __init__(
        self,
        window: QMainWindow,
        stage: Stage,
        cards: Mapping[str, PanelCard],
        bars: tuple[QWidget, ...],
        pause: Callable[[], object],
    ) -> None:
        super().__init__(window)
        self._window, self._stage, self._cards, self._pause = window, stage, cards, pause
        self.line = StepLine(window)
        window.addToolBarBreak()
        window.addToolBar(self.line)
        self.line.hide()
        self.walk = PanelWalk(window, cards)
        self.full = FullPanel(window, stage, (*bars, self.line))
        self.spotlight = Spotlight(window, self._panel_at)
        self.blank_screen = BlankScreen(window)
        self.presenter: Presenter | None = None
        cards["lesson"].when_made(self._follow)
        self.blank_screen.drawn.connect(self._on_blank)

    @property
    def _lesson(self) -> LessonPanel:
        return cast("LessonPanel", self._cards["lesson"].panel)

    def _follow(self, panel: Panel) -> None:
        """Let the large line walk the lesson, and follow its steps."""
        lesson = cast("LessonPanel", panel)
        self.line.forward.connect(lesson.forward)
        self.line.back.connect(lesson.back)
        self.line.leave.connect(lesson.leave)
        lesson.step_shown.connect(self._on_step)

    def verbs(self) -> dict[str, Callable[[], object]]:
        """What the keys of this file's tools do."""
        return {
            "panel_after": self.walk.forward,
            "panel_before": self.walk.back,
            "lesson_on": self.forward,
            "lesson_back": self.back,
            "lesson_leave": self._leave_lesson,
            "float_panel": lambda: self._stage.toggle_floating(self._cards[self.panel_in_focus()]),
            "full_panel": lambda: self.full.toggle(self.panel_in_focus()),
            "blank": self.blank_screen.toggle,
            "spotlight": lambda: self.spotlight.toggle("circle"),
            "spotlight_panel": lambda: self.spotlight.toggle("panel"),
            "notes": self.toggle_notes,
        }

    def dismiss(self) -> bool:
        """Take away what covers the panels; says whether anything did."""
        return self.blank_screen.lift() or self.spotlight.put_out() or self.full.leave()

    def panel_in_focus(self) -> str:
        """The panel that a person means: that with the focus, what the step is about, or what the workspace is."""
        if self.walk.current in self.walk.seen():
            return self.walk.current
        filled = self._lesson.filled if self._cards["lesson"].is_made else None
        return filled.scene.panels[0] if filled is not None else self._stage.first

    # The lesson ---------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        """Go one step on; what was blank or alone gives way to the step."""
        self._make_way()
        self._lesson.forward()

    def back(self) -> None:
        """Go one step back."""
        self._make_way()
        self._lesson.back()

    def _leave_lesson(self) -> None:
        self._lesson.leave()

    def _make_way(self) -> None:
        self.blank_screen.lift()
        self.full.leave()

    def show_notes(self, shown: bool) -> None:
        """Open the notes where there is a second screen, which they would not cover the stage on; or close them."""
        if shown != (self.presenter is not None) and (not shown or self._second_screen() is not None):
            self.toggle_notes()

    def _second_screen(self) -> QScreen | None:
        from ropewalk.views.window.presenter import spare_screen

        return spare_screen(QGuiApplication.screens(), self._window.screen())

    def toggle_notes(self) -> None:
        """Open the notes, on the second screen where there is one, or close them."""
        if self.presenter is not None:
            self.presenter.close()
            return
        from ropewalk.views.window.presenter import Presenter

        presenter = self.presenter = Presenter()
        presenter.forward.connect(self.forward)
        presenter.back.connect(self.back)
        presenter.blank.connect(self.blank_screen.toggle)
        presenter.closed.connect(self._on_notes_closed)
        presenter.show_cue(self._cue())
        presenter.show_blank(self.blank_screen.is_down)
        presenter.open_on(self._second_screen())

    def _on_notes_closed(self) -> None:
        presenter, self.presenter = self.presenter, None
        if presenter is not None:
            presenter.deleteLater()

    def _on_step(self) -> None:
        cue = self._cue()
        self.line.show_step(cue.step, cue.count, cue.look_at or cue.title)
        if self.presenter is not None:
            self.presenter.show_cue(cue)

    def _cue(self) -> Cue:
        """What the step that is on tells the teacher."""
        from ropewalk.views.window.presenter import Cue

        lesson = self._lesson.lesson if self._cards["lesson"].is_made else None
        if lesson is None:
            return Cue()
        step, filled = self._lesson.player.step, self._lesson.filled
        following = self._lesson.player.title_of(step + 1)
        name = f"{lesson.number}  {lesson.title}"
        if filled is None:
            return Cue(name, step, len(lesson.steps), after=following)
        return Cue(name, step, len(lesson.steps), filled.title, filled.look_at, filled.notes, filled.text, following)

    def _on_blank(self, is_blank: bool) -> None:
        """A pause stops what moves."""
        if is_blank:
            self._pause()
            if self._cards["rope"].is_made:
                cast("RopePanel", self._cards["rope"].panel).pause()
        if self.presenter is not None:
            self.presenter.show_blank(is_blank)

    # How it works -------------------------------------------------------------------------------------------------

    def theme_changed(self) -> None:
        """Take the sizes and colours of the theme in use."""
        self.line.theme_changed()
        if self.presenter is not None:
            self.presenter.theme_changed()

    def close_down(self) -> None:
        """Take everything away; the window closes."""
        self.walk.close_down()
        self.spotlight.put_out()
        self.blank_screen.lift()
        self.full.leave()
        if self.presenter is not None:
            self.presenter.close()

    def _panel_at(self, point: QPoint) -> QRect:
        for card in self._cards.values():
            if card.on_screen and not card.is_floating:
                box = QRect(card.mapTo(self._window, QPoint(0, 0)), card.size())
                if box.contains(point):
                    return box
        return QRect()
