"""The window of panels: docks, the bar on top, the line at the bottom, and nothing that computes.

Where things are, and what comes back at the next start. Files and keys are added in ``views.main_window``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QByteArray, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QToolBar

from ropewalk.model.readings.records import ConsistencyCheck
from ropewalk.views import keys
from ropewalk.views.lesson.scene import LessonScenes
from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.panel_dock import PanelDock, Panels
from ropewalk.views.panels.registry import PANELS
from ropewalk.views.plots.map_menu import MapMenu
from ropewalk.views.plots.plot_menu import PlotMenu
from ropewalk.views.style import motion, theme
from ropewalk.views.style.colour_maps import COLOUR_MAPS
from ropewalk.views.window import layouts
from ropewalk.views.window.classroom import Classroom
from ropewalk.views.window.engine_strip import EngineStrip
from ropewalk.views.window.heights import LeastHeight, StripHeight
from ropewalk.views.window.layout_memory import LayoutMemory
from ropewalk.views.window.prompt_bar import PromptBar
from ropewalk.views.window.status import FailureStrip, StatusLine

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson
    from ropewalk.app.session.session import Session
    from ropewalk.views.lesson.panel import LessonPanel
    from ropewalk.views.panels.cache import CachePanel
    from ropewalk.views.window.engine_dialog import EngineDialog
    from ropewalk.views.window.open_dialog import OpenDialog


class PanelWindow(QMainWindow):
    """Everything on one screen.

    Parameters
    ----------
    session
        The session whose run is shown; the window closes it when it is closed itself.
    restore
        Whether geometry, layout, theme and projector mode of the last time come back.

    Signals
    -------
    appeared()
        The window has been painted for the first time. What takes long begins here: torch's import fights with the
        window for the interpreter's lock, and would keep it blank for a third of a second.
    panel_drawn()
        A panel has drawn an answer.
    lesson_walked(is_on)
        A lesson has been opened or closed.
    closing()
        The window is about to close; the panels and the session are still there.

    Attributes
    ----------
    panels
        Those that are made, by name; asking for another one makes it.
    """

    appeared = Signal()
    panel_drawn = Signal()
    lesson_walked = Signal(bool)
    closing = Signal()

    def __init__(self, session: Session, *, restore: bool = True) -> None:
        super().__init__()
        self.session = session
        self._arranged, self._painted = False, False
        self._alarms: dict[str, str] = {}
        self._was_projector = False
        saved = session.settings.now
        motion.choose(saved.motion)
        theme.wear(saved.theme if restore else theme.current().name, projector=False)
        if restore and saved.colour_map in COLOUR_MAPS:  # of another version, it may not be
            theme.colour_in(saved.colour_map)
        self.setWindowTitle("Ropewalk")
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setDockNestingEnabled(True)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, self.tabPosition(Qt.DockWidgetArea.TopDockWidgetArea))
        self.setContentsMargins(theme.GRID, 0, theme.GRID, 0)
        self.docks = {
            entry.name: PanelDock(entry.name, entry.title, partial(entry.make, session), self) for entry in PANELS
        }
        self.panels = Panels(self.docks)
        self.map_menu, self.plot_menu = MapMenu(self), PlotMenu(self)
        self.bar = PromptBar(session)
        self._toolbar = self._add_bar()
        self.status = StatusLine(session)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status, 1)
        self.failure = FailureStrip(self)
        self.engine = EngineStrip(session, self)
        self.layouts = LayoutMemory(self, self.docks)
        self.least_height = LeastHeight(self)
        self.strip_height = StripHeight(self, self.docks["tokens"], session.settings)
        bars = (self._toolbar, self.statusBar())
        self.classroom = Classroom(self, self.docks, bars, session.timeline.pause)
        self._connect()
        self.lesson_scenes = LessonScenes(self, self.docks, bars, self.classroom.line)
        self.docks["lesson"].when_made(self._welcome_lesson)
        self._restored = self._restore(saved.geometry, saved.layout) if restore else False
        if restore and saved.projector:
            self.set_look(projector=True)

    def _add_bar(self) -> QToolBar:
        toolbar = QToolBar("Bar", self)
        toolbar.setObjectName("bar")
        toolbar.setMovable(False)
        toolbar.setFloatable(False)
        toolbar.toggleViewAction().setVisible(False)
        toolbar.addWidget(self.bar)
        self.addToolBar(toolbar)
        menu = self.bar.looks["panels"].menu()
        for name, dock in self.docks.items():
            menu.addAction(dock.toggleViewAction())
            dock.toggleViewAction().triggered.connect(lambda on, name=name: self.reveal(name) if on else None)
        menu.addSeparator()
        menu.addAction(keys.action("layout").text).triggered.connect(self.reset_layout)
        return toolbar

    def _connect(self) -> None:
        self.session.failed.connect(self.failure.show_message)
        self.session.interventions.offered.connect(self.failure.offer)
        self.session.model_changed.connect(self.failure.withdraw)
        self.failure.chosen.connect(self.session.interventions.accept)
        for strip in (self.failure, self.engine):
            strip.resized.connect(self._place_strips)
        self.classroom.full.changed.connect(self._on_full)
        self.bar.theme_wanted.connect(self.toggle_theme)
        self.bar.projector_wanted.connect(self.toggle_projector)
        self.bar.keys_wanted.connect(self.show_keys)
        self.bar.open_wanted.connect(self.choose_checkpoint)
        self.bar.engine_wanted.connect(self.choose_engine)
        self.status.consistency_wanted.connect(self.show_consistency)
        self.session.consistency.check_changed.connect(partial(self._on_consistency_check, "cached"))
        self.session.consistency.branches_changed.connect(partial(self._on_consistency_check, "branches"))
        self.bar.sampling_wanted.connect(lambda: self.reveal("next_token"))
        self.session.interventions.changed.connect(
            self.docks["experiments"].make_panel
        )  # so that it can undo the first
        self.map_menu.coloured.connect(self.set_colour_map)
        for dock in self.docks.values():
            dock.when_made(self._welcome)

    def _welcome(self, panel: Panel) -> None:
        """Hear from a panel that has been made."""
        self.map_menu.serve(panel)
        self.plot_menu.serve(panel)
        panel.drawn.connect(self.panel_drawn)
        wanted = getattr(panel, "panel_requested", None)
        if wanted is not None:
            wanted.connect(self.reveal)

    def _welcome_lesson(self, panel: Panel) -> None:
        lesson = cast("LessonPanel", panel)
        lesson.scene_wanted.connect(self.lesson_scenes.show)
        lesson.lesson_opened.connect(self._on_lesson)

    # What a person can ask of the window --------------------------------------------------------------------------

    @property
    def lesson(self) -> LessonPanel:
        """The panel of lessons, which is made when it is first asked for."""
        return cast("LessonPanel", self.panels["lesson"])

    @property
    def open_lesson(self) -> Lesson | None:
        """The lesson that is open."""
        return self.lesson.lesson if self.docks["lesson"].is_made else None

    def reveal(self, name: str, focus: bool = False) -> None:
        """Bring a panel to the front, and the focus into it where that is wanted."""
        dock = self.docks.get(name)
        if dock is not None:
            dock.make_panel()
            dock.show()
            dock.raise_()
            if focus:
                self.classroom.walk.enter(name)

    def focus_prompt(self) -> None:
        """Put the cursor into the prompt."""
        self.bar.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.bar.prompt.selectAll()

    def dismiss(self) -> None:
        """Take away what covers the panels, else close the message and give the keys back to the window."""
        if self.classroom.dismiss():
            return
        self.failure.dismiss()
        focused = QApplication.focusWidget()
        if focused is not None:
            focused.clearFocus()

    def show_consistency(self) -> None:
        """Bring the consistency checks of the run to the front."""
        self.reveal("cache")
        cast("CachePanel", self.panels["cache"]).turn_to("proof")

    def show_keys(self) -> None:
        """List the keys."""
        from ropewalk.views.window.key_sheet import KeySheet

        KeySheet(self).open()

    def choose_checkpoint(self, path: str = "", at_once: bool = False) -> OpenDialog:
        """Show the Open dialog; ``at_once`` opens ``path`` unless it leaves something open."""
        from ropewalk.views.window.open_dialog import OpenDialog

        at_hand = (one for one in self.findChildren(OpenDialog) if one.isVisible() and not one.opening)
        dialog = next(at_hand, None) or OpenDialog(self.session, self)  # two would take each other's answers
        dialog.open()
        if path:
            dialog.look_at(path, at_once)
        return dialog

    def choose_engine(self) -> EngineDialog:
        """Ask where the engine is to run."""
        from ropewalk.views.window.engine_dialog import EngineDialog

        dialog = EngineDialog(self.session, self)
        dialog.open()
        return dialog

    def toggle_theme(self) -> None:
        """Light becomes dark, and the other way."""
        self.set_look("light" if theme.current().name == "dark" else "dark")

    def toggle_projector(self) -> None:
        """Projector mode on or off."""
        self.set_look(projector=not theme.current().projector)

    def set_look(self, name: theme.ThemeName | None = None, projector: bool | None = None) -> None:
        """Put on a theme, projector mode, or both, and remember it."""
        before, alone = theme.current(), bool(self.classroom.full.name)
        enters = bool(projector) and not before.projector
        leaves = projector is False and before.projector
        if enters:
            behind = self.classroom.full.layout_behind if alone else None
            self.layouts.enter_projector(behind)  # first: all panels in double type would make the window grow
        now = theme.apply(name or before.name, before.projector if projector is None else projector)
        self.dress()
        layouts.keep_rows(self.docks)
        if leaves and not alone:
            self.layouts.leave_projector()
        if self.lesson_scenes.scene is not None and not alone:
            self.lesson_scenes.arrange()
        self._place_strips()
        self.session.settings.update(theme=now.name, projector=now.projector)

    def set_colour_map(self, name: str) -> None:
        """Draw all numbers without a sign in other colours, and remember them."""
        theme.colour_in(name)
        self.dress()
        self.session.settings.update(colour_map=name)

    def dress(self) -> None:
        """Let whatever paints itself take the theme in use."""
        for part in (self.bar, self.status, self.failure, self.engine, self.classroom):
            part.theme_changed()
        for panel in self.panels.values():
            panel.theme_changed()

    def reset_layout(self) -> None:
        """Put every panel back in its first place."""
        self.classroom.full.leave()
        self.strip_height.follow()
        layouts.arrange(self, self.docks, self.size())
        if theme.current().projector:
            layouts.project(self.docks)
        if self.lesson_scenes.scene is not None:
            self.lesson_scenes.arrange()

    def _on_full(self, name: str) -> None:
        """Arrange anew after a panel was alone, where projector mode came or went meanwhile."""
        projector = theme.current().projector
        if name:
            self._was_projector = projector
        elif projector != self._was_projector:
            if projector:
                layouts.project(self.docks)
            else:
                self.layouts.leave_projector()
            if self.lesson_scenes.scene is not None:
                self.lesson_scenes.arrange()

    def _on_lesson(self, is_open: bool) -> None:
        """Take the lesson's keys and keep the layout; give both back when it is closed."""
        self.lesson_walked.emit(is_open)
        self.classroom.full.leave()
        if is_open:
            self.layouts.enter_lesson(theme.current().projector)
            return
        self.lesson_scenes.leave()
        self.layouts.leave_lesson(theme.current().projector)

    def _on_consistency_check(self, kind: str, check: ConsistencyCheck | None) -> None:
        """Raise the alarm when a check failed, and take it down when that check holds again or its run is gone."""
        raised = self._alarms.pop(kind, "")
        if check is not None and check.alarms:
            from ropewalk.views.panels.consistency import alarm

            sentence, details = alarm(check)
            self._alarms[kind] = sentence
            self.failure.show_message(sentence, details)
        elif raised and self.failure.sentence.text() == raised:
            self.failure.dismiss()

    # How it works -------------------------------------------------------------------------------------------------

    def _restore(self, geometry: bytes, layout: bytes) -> bool:
        """Bring back the last window; says whether there was a layout that still fits."""
        if not geometry or not self.restoreGeometry(QByteArray(geometry)):
            self.resize(1600, 960)
        return bool(layout) and self.layouts.put_kept(layout)

    def setVisible(self, visible: bool) -> None:
        """Before the first show, when the size is known: make the panels that will be in sight, and arrange them.

        They are made before there is a style sheet: with one, each widget takes twice as long.
        """
        first = visible and not self._arranged
        if first:
            self._arranged = True
            in_sight = layouts.in_front(self, self.docks) if self._restored else layouts.first_in_sight(self.size())
            for name in in_sight:
                self.docks[name].make_panel()
            theme.dress()
            self.status.theme_changed()  # as high as its buttons, which the style sheet makes lower
            if not self._restored:
                self.reset_layout()
        super().setVisible(visible)
        if first:
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Say it when the window is painted for the first time: the panels are painted in the same turn."""
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self.appeared.emit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the message at the bottom."""
        super().resizeEvent(event)
        self._place_strips()

    def _place_strips(self) -> None:
        """One above the other, where both are shown: what the engine says stays at the bottom."""
        width = self.width() - 2 * theme.GRID
        bottom = self.height() - self.statusBar().height() - theme.GRID
        for strip in (self.engine, self.failure):
            height = strip.wanted_height(width)
            strip.setGeometry(theme.GRID, bottom - height, width, height)
            if not strip.isHidden():
                bottom -= height + theme.GRID

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the window, stop what moves, and wait for the session."""
        self.classroom.close_down()
        self.closing.emit()
        layout = self.layouts.to_keep(theme.current().projector)
        self.session.settings.update(geometry=self.saveGeometry().data(), layout=layout)
        for panel in self.panels.values():
            panel.close_down()
        self.session.close()
        super().closeEvent(event)
