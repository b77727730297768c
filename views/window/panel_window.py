"""The window of panels: the stage, the bar on top, the line at the bottom, and nothing that computes.

Where things are, and what comes back at the next start. Files and keys are added in ``views.main_window``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QByteArray, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QMainWindow, QToolBar

from ropewalk.model.readings.records import ConsistencyCheck, Run
from ropewalk.views import keys
from ropewalk.views.lesson.scene import LessonScenes
from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.panel_card import PanelCard, Panels
from ropewalk.views.panels.registry import PANELS
from ropewalk.views.plots import loading
from ropewalk.views.stage.stage import Stage
from ropewalk.views.stage.token_flight import TokenFlight
from ropewalk.views.style import motion, theme, wording
from ropewalk.views.style.colour_maps import COLOUR_MAPS
from ropewalk.views.window.classroom import Classroom
from ropewalk.views.window.engine_strip import EngineStrip
from ropewalk.views.window.prompt_bar import PromptBar
from ropewalk.views.window.status import FailureStrip, StatusLine

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson
    from ropewalk.app.session.session import Session
    from ropewalk.app.session.surveys import Visit
    from ropewalk.views.lesson.panel import LessonPanel
    from ropewalk.views.panels.cache import CachePanel
    from ropewalk.views.panels.survey_heads import SurveyHeadsPanel
    from ropewalk.views.plots.menus.map_menu import MapMenu
    from ropewalk.views.plots.menus.plot_menu import PlotMenu
    from ropewalk.views.window.engine_dialog import EngineDialog
    from ropewalk.views.window.open_dialog import OpenDialog
    from ropewalk.views.window.survey_dialog import SurveyDialog
    from ropewalk.views.window.welcome import WelcomeCard

ROUTING: Final = "routing"
DENSE: Final = "This model is dense: it has no experts to show."
"""The panel of models that have experts."""

FRAME: Final = QSize(16, 48)
"""What a window system puts around a window, at most."""


class PanelWindow(QMainWindow):
    """Everything on one screen.

    Parameters
    ----------
    session
        The session whose run is shown; the window closes it when it is closed itself.
    at_once
        Whether the panels in sight are made before the window is shown; else one after the other once it is painted.
    restore
        Whether geometry, workspace, theme and projector mode of the last time come back.

    Signals
    -------
    appeared()
        The window has been painted for the first time; what it begins with is asked of the engine now.
    unfolded()
        What is in sight has been made, where that was left for after the first painting.
    panel_drawn()
        A panel has drawn an answer.
    lesson_walked(is_on)
        A lesson has been opened or closed.
    attach_wanted()
        The run of a trace is to be given its checkpoint.
    export_wanted(part)
        The Export dialog is wanted for the panel that a map or plot is in.
    closing()
        The window is about to close; the panels and the session are still there.

    Attributes
    ----------
    panels
        Those that are made, by name; asking for another one makes it.
    presenting
        Whether the window is on a projector for a class.
    """

    appeared = Signal()
    unfolded = Signal()
    panel_drawn = Signal()
    lesson_walked = Signal(bool)
    closing = Signal()
    attach_wanted = Signal()
    export_wanted = Signal(object)

    def __init__(self, session: Session, *, restore: bool = True, at_once: bool = True) -> None:
        saved = session.settings.now
        theme.wear(saved.theme if restore else theme.current().name, projector=False)  # parts of a window take its type
        if restore and saved.colour_map in COLOUR_MAPS:  # of another version, it may not be
            theme.colour_in(saved.colour_map)
        super().__init__()
        self.session = session
        self._at_once, self._arranged, self._painted = at_once, False, False
        self.presenting = self._projected_before = False
        self._alarms: dict[str, str] = {}
        self._before_lesson = ""
        motion.choose(saved.motion)
        self.setWindowTitle("Ropewalk")
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.bar = PromptBar(session)
        self.cards = {entry.name: PanelCard(entry.name, entry.title, partial(entry.make, session)) for entry in PANELS}
        self.panels = Panels(self.cards)
        self.stage = Stage(self.cards)
        self.setCentralWidget(self.stage)
        self.flight = TokenFlight(session, self.cards, self.stage)
        self._toolbar = self._add_bar()
        self.status = StatusLine(session)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status, 1)
        self.failure = FailureStrip(self)
        self.engine = EngineStrip(session, self)
        bars = (self._toolbar, self.statusBar())
        self.classroom = Classroom(self, self.stage, self.cards, bars, session.timeline.pause)
        self._connect()
        self.lesson_scenes = LessonScenes(self.stage, self.cards, bars, self.classroom.line)
        self.cards["lesson"].when_made(self._welcome_lesson)
        self.welcome: WelcomeCard | None = None
        """What to click, on a first start; None on others, and once it is closed."""
        if restore and not saved.welcomed and not saved.geometry:
            self._show_welcome()
        self._restore(saved.geometry, saved.layout) if restore else self.resize(self._first_size())
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
        self.menu_entries = {name: menu.addAction(card.title) for name, card in self.cards.items()}
        for name, entry in self.menu_entries.items():
            entry.triggered.connect(partial(self.reveal, name, True))
        menu.addSeparator()
        menu.addAction(keys.action("layout").text).triggered.connect(self.reset_layout)
        return toolbar

    def _connect(self) -> None:
        self.session.failed.connect(self.failure.show_message)
        self.session.noticed.connect(self.failure.show_notice)
        self.session.run_changed.connect(self.failure.end_notice)
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
        self.status.changes_wanted.connect(partial(self.reveal, "experiments", True))
        self.session.consistency.check_changed.connect(partial(self._on_consistency_check, "cached"))
        self.session.consistency.branches_changed.connect(partial(self._on_consistency_check, "branches"))
        self.bar.sampling_wanted.connect(lambda: self.reveal("next_token"))
        self.session.interventions.changed.connect(
            self.cards["experiments"].make_panel
        )  # so that it can undo the first
        self.bar.workspace_wanted.connect(self.show_workspace)
        self.bar.prompt_given.connect(partial(self.setFocus, Qt.FocusReason.OtherFocusReason))
        self.stage.changed.connect(lambda: self.bar.tabs.show_current(self.stage.workspace))
        for signal in (self.stage.changed, self.panel_drawn):
            signal.connect(self._place_welcome)
        self.session.run_changed.connect(self._on_run)
        self.session.surveys.visited.connect(self._on_visit)
        self.session.surveys.returned.connect(self._on_return)
        self.stage.changed.connect(self._on_workspace)
        self.cards["survey_heads"].when_made(lambda panel: self._on_survey_panel(cast("SurveyHeadsPanel", panel)))
        self._on_run(None, self.session.run)
        for card in self.cards.values():
            card.when_made(self._welcome)

    def _show_welcome(self) -> None:
        from ropewalk.views.window.welcome import WelcomeCard

        self.welcome = WelcomeCard(self.session, self)
        self.welcome.lesson_wanted.connect(self.start_first_lesson)
        self.welcome.closed.connect(self._on_welcome_closed)

    def _on_welcome_closed(self) -> None:
        self.welcome = None

    def _welcome(self, panel: Panel) -> None:
        """Hear from a panel that has been made."""
        for menu in (self.map_menu, self.plot_menu):
            menu.serve(panel)
            panel.plotted.connect(menu.serve)
        panel.drawn.connect(self.panel_drawn)
        panel.attach_wanted.connect(self.attach_wanted)
        wanted = getattr(panel, "panel_requested", None)
        if wanted is not None:
            wanted.connect(self.reveal)
        noted = getattr(panel, "note_wanted", None)
        if noted is not None:
            noted.connect(self.write_note)

    def _welcome_lesson(self, panel: Panel) -> None:
        lesson = cast("LessonPanel", panel)
        lesson.scene_wanted.connect(self.lesson_scenes.show)
        lesson.scene_wanted.connect(lambda _, ledger: self.status.show_outline(ledger))
        lesson.lesson_opened.connect(self._on_lesson)

    @cached_property
    def map_menu(self) -> MapMenu:
        """The menu of every map, made with the first panel."""
        from ropewalk.views.plots.menus.map_menu import MapMenu

        made = MapMenu(self)
        made.exported.connect(self.export_wanted)
        made.coloured.connect(self.set_colour_map)
        return made

    @cached_property
    def plot_menu(self) -> PlotMenu:
        """The menu of every plot with axes, made with the first panel."""
        from ropewalk.views.plots.menus.plot_menu import PlotMenu

        made = PlotMenu(self)
        made.exported.connect(self.export_wanted)
        return made

    # What a person can ask of the window --------------------------------------------------------------------------

    @property
    def lesson(self) -> LessonPanel:
        """The panel of lessons, which is made when it is first asked for."""
        return cast("LessonPanel", self.panels["lesson"])

    @property
    def open_lesson(self) -> Lesson | None:
        """The lesson that is open."""
        return self.lesson.lesson if self.cards["lesson"].is_made else None

    def reveal(self, name: str, focus: bool = False) -> None:
        """Bring a panel in sight, and the focus into it where that is wanted."""
        if name not in self.cards:
            return
        if name == ROUTING and not self.menu_entries[name].isVisible():
            self.failure.show_message(DENSE, "")
            return
        self._go_on()
        if self.classroom.full.name != name:
            self.classroom.full.leave()
        self.stage.reveal(name)
        if focus:
            self.classroom.walk.enter(name)

    def _go_on(self) -> None:
        """Take away what was said of a panel that is not there, once a person looks at another."""
        if self.failure.sentence.text() == DENSE:
            self.failure.dismiss()

    def show_workspace(self, name: str) -> None:
        """Put a workspace on the stage, in the place of what is there."""
        self._go_on()
        self.classroom.full.leave()
        self.stage.show_workspace(name)

    def start_first_lesson(self) -> None:
        """Open the first lesson of the shelf, once that has been read."""
        self.reveal("lesson")
        if self.lesson.shelf is None:
            self.lesson.shelf_read.connect(self.start_first_lesson, Qt.ConnectionType.SingleShotConnection)
            self.lesson.read_shelf()
        elif lessons := self.lesson.lessons():
            self.lesson.open(lessons[0])

    def focus_prompt(self) -> None:
        """Put the cursor into the prompt."""
        self.bar.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.bar.prompt.selectAll()

    def dismiss(self) -> None:
        """Take away what covers the panels, else stop presenting, else close the message and give the keys back."""
        focused = QApplication.focusWidget()
        if self.classroom.dismiss():
            return
        if self.welcome is not None and self.welcome.isVisible():
            self.welcome.dismiss()
            return
        if not isinstance(focused, keys.TYPED_INTO) and self.session.surveys.come_back():
            return
        if self.presenting and self.failure.isHidden() and not isinstance(focused, keys.TYPED_INTO):
            self.present()
            return
        self.failure.dismiss()
        if focused is not None:
            focused.clearFocus()

    def present(self) -> None:
        """Projector mode on the whole screen, with the notes on a second one where there is one; or all as before."""
        self.presenting = on = not self.presenting
        self.classroom.full.leave()
        if on:
            self._projected_before = theme.current().projector
        self.set_look(projector=on or self._projected_before)
        full = Qt.WindowState.WindowFullScreen
        self.setWindowState(self.windowState() | full if on else self.windowState() & ~full)
        self.classroom.show_notes(on)

    def show_consistency(self) -> None:
        """Bring the consistency checks of the run to the front."""
        self.reveal("cache")
        cast("CachePanel", self.panels["cache"]).turn_to("proof")

    def show_keys(self) -> None:
        """List the keys."""
        from ropewalk.views.window.key_sheet import KeySheet

        KeySheet(self).open()

    def choose_checkpoint(self, path: str = "", at_once: bool = False, adapter: str = "") -> OpenDialog:
        """Show the Open dialog; ``at_once`` opens ``path`` unless it leaves something open.

        ``adapter`` is the folder of a LoRA adapter that is proposed for the path, empty being the built-in model's.
        """
        from ropewalk.views.window.open_dialog import OpenDialog

        at_hand = (one for one in self.findChildren(OpenDialog) if one.isVisible() and not one.opening)
        dialog = next(at_hand, None) or OpenDialog(self.session, self)  # two would take each other's answers
        dialog.open()
        if path or adapter:
            dialog.look_at(path, at_once, adapter)
        return dialog

    def choose_survey(self, *, compare: bool = False) -> QFileDialog:
        """Ask for a survey's folder, or for one that holds a series; to ``compare`` it with the one that is open."""
        surveys = self.session.surveys
        start = "" if surveys.now is None else str(Path(surveys.now.folder).parent)
        dialog = QFileDialog(self, "Compare with a survey" if compare else "Open a survey", start)
        dialog.setObjectName("surveys")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.finished.connect(dialog.deleteLater)
        dialog.fileSelected.connect(surveys.compare if compare else self.open_survey)
        dialog.open()
        return dialog

    def open_survey(self, *folders: str) -> None:
        """Show a survey, or a series of them."""
        self.show_workspace("survey")
        self.session.surveys.open(*folders)

    def run_survey(self) -> SurveyDialog:
        """Ask what is to be surveyed, and run it in a process of its own."""
        from ropewalk.views.window.survey_dialog import SurveyDialog

        dialog = SurveyDialog(self.session, self)
        dialog.begun.connect(lambda: self.show_workspace("survey"))
        dialog.open()
        return dialog

    def _on_visit(self, visit: Visit) -> None:
        """Show an example's text in its head, and say how to come back."""
        layer, head = visit.head
        self.show_workspace("scores")
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        name, text = wording.head_name(layer, head), visit.example.text
        self.failure.show_notice(f"Text {text} of the survey in {name}. Alt+← or Esc goes back to the survey.")

    def _on_return(self) -> None:
        """Show the survey again, as it was left."""
        self.failure.end_notice()
        if self.stage.workspace not in self._surveying:
            self.show_workspace(self._surveying[-1])

    @property
    def _surveying(self) -> tuple[str, ...]:
        """The workspaces that show a survey, a lesson's step last where it does."""
        scene = self.lesson_scenes.scene
        return ("survey",) if scene is None or not scene.survey else ("survey", "lesson")

    def _on_workspace(self) -> None:
        """Whichever way a person goes back to the survey, the run of before is there again."""
        if self.stage.workspace in self._surveying:
            self.session.surveys.come_back()

    def _on_survey_panel(self, panel: SurveyHeadsPanel) -> None:
        panel.open_wanted.connect(self.choose_survey)
        panel.compare_wanted.connect(partial(self.choose_survey, compare=True))
        panel.run_wanted.connect(self.run_survey)

    def choose_engine(self) -> EngineDialog:
        """Ask where the engine is to run."""
        from ropewalk.views.window.engine_dialog import EngineDialog

        dialog = EngineDialog(self.session, self)
        dialog.open()
        return dialog

    def write_note(self, layer: int, head: int) -> None:
        """Ask what is to be remembered of a head."""
        board, name = self.session.board, wording.head_name(layer, head)
        dialog = QInputDialog(self)
        dialog.setObjectName("note")
        dialog.setWindowTitle(f"Note to {name}")
        dialog.setLabelText(f"What to remember of {name}; it is kept in the session. Without a word there is no note.")
        dialog.setOption(QInputDialog.InputDialogOption.UsePlainTextEditForTextInput)
        dialog.setTextValue(board.note_of(layer, head))
        dialog.textValueSelected.connect(partial(board.note, layer, head))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def toggle_theme(self) -> None:
        """Light becomes dark, and the other way."""
        self.set_look("light" if theme.current().name == "dark" else "dark")

    def toggle_projector(self) -> None:
        """Projector mode on or off."""
        self.set_look(projector=not theme.current().projector)

    def set_look(self, name: theme.ThemeName | None = None, projector: bool | None = None) -> None:
        """Put on a theme, projector mode, or both, and remember it."""
        before, alone = theme.current(), self.classroom.full.name
        now = theme.apply(name or before.name, before.projector if projector is None else projector)
        self.dress()
        if alone:
            self._enlarge(alone, True)
        else:
            self._arrange_scene()
        self.stage.arrange()
        self._place_strips()
        self.session.settings.update(theme=now.name, projector=now.projector)

    def set_colour_map(self, name: str) -> None:
        """Draw all numbers without a sign in other colours, and remember them."""
        theme.colour_in(name)
        self.dress()
        self.session.settings.update(colour_map=name)

    def _on_full(self, name: str, alone: bool) -> None:
        """Write larger in a panel that is alone; put the bars of a lesson where they belong when it no longer is."""
        self._enlarge(name, alone)
        if not alone:
            self._arrange_scene()

    def _enlarge(self, name: str, enlarged: bool) -> None:
        theme.enlarge(self.cards[name], enlarged)
        self.cards[name].panel.theme_changed()

    def dress(self) -> None:
        """Let whatever paints itself take the theme in use."""
        for part in (self.bar, self.status, self.failure, self.engine, self.classroom):
            part.theme_changed()
        for panel in self.panels.values():
            panel.theme_changed()

    def reset_layout(self) -> None:
        """Put every panel back in its place, in every workspace."""
        self.classroom.full.leave()
        self.stage.reset()
        self._arrange_scene()

    def _arrange_scene(self) -> None:
        """Put the panels and bars of a lesson's step where they belong now."""
        if self.lesson_scenes.scene is not None:
            self.lesson_scenes.arrange()

    def _on_lesson(self, is_open: bool) -> None:
        """Take the lesson's keys and remember the workspace; give both back when it is closed."""
        self.lesson_walked.emit(is_open)
        if self.welcome is not None:
            self.welcome.dismiss()
        self.classroom.full.leave()
        if is_open:
            self._before_lesson = self._before_lesson or self.stage.workspace
            return
        self.lesson_scenes.leave()
        self.status.show_outline(None)
        self.stage.show_scene(None)
        self.stage.show_workspace(self._before_lesson)
        self._before_lesson = ""
        self.session.surveys.take_back()  # once its panels are out of sight: they would ask for another one

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        """Offer the experts of a model that has some."""
        routed = after is not None and any(after.config.is_moe(layer) for layer in range(after.config.layers))
        self.menu_entries[ROUTING].setVisible(routed)
        self.stage.leave_out(() if routed else (ROUTING,))

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

    def _restore(self, geometry: bytes, layout: bytes) -> None:
        """Bring back the last window, as far as it can be read."""
        if not geometry or not self.restoreGeometry(QByteArray(geometry)):
            self.resize(self._first_size())
        self.stage.bring_back(layout)

    def _first_size(self) -> QSize:
        """As large as all panels want it, or three quarters of a screen that is larger, and never larger than that."""
        room = self.screen().availableGeometry().size()
        return QSize(1600, 960).expandedTo(room * 3 / 4).boundedTo(room - FRAME)

    def setVisible(self, visible: bool) -> None:
        """Before the first show, when the size is known: make the panels that will be in sight, and place them.

        They are made before there is a style sheet: with one, each widget takes twice as long.
        """
        first = visible and not self._arranged
        if first:
            self._arranged = True
            self.stage.resize(self.size())
            if self._at_once:
                self.stage.open()
            theme.dress()
            self.status.theme_changed()  # as high as its buttons, which the style sheet makes lower
        super().setVisible(visible)
        if first:
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Say it when the window is painted for the first time: the panels are painted in the same turn."""
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self._on_painted)

    def _on_painted(self) -> None:
        self.appeared.emit()
        if not self._at_once:
            self._unfold(chain(loading.pieces(), self.stage.opening()))

    def _unfold(self, pieces: Iterator[None]) -> None:
        """Make what is in sight, a piece in a turn of the event loop."""
        for _ in pieces:
            QTimer.singleShot(0, self, partial(self._unfold, pieces))
            return
        self.unfolded.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the message at the bottom."""
        super().resizeEvent(event)
        self._place_strips()

    def _place_strips(self) -> None:
        """One above the other, where both are shown: what the engine says stays at the bottom."""
        self._place_welcome()
        width = self.width() - 2 * theme.GRID
        bottom = self.height() - self.statusBar().height() - theme.GRID
        for strip in (self.engine, self.failure):
            height = strip.wanted_height(width)
            strip.setGeometry(theme.GRID, bottom - height, width, height)
            if not strip.isHidden():
                bottom -= height + theme.GRID

    def _place_welcome(self) -> None:
        """On the stage, above the number that the card says to look at where that is at the bottom."""
        if self.welcome is None:
            return
        room, why = self.stage.geometry(), self.cards["why"]
        top = why.mapTo(self, QPoint()).y()
        if why.isVisible() and top > room.center().y():
            room.setBottom(top - 1)
        self.welcome.place(room)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the window, stop what moves, and wait for the session."""
        self.classroom.close_down()
        self.closing.emit()
        self.stage.put_all_in()  # a window of its own that is left would keep the program alive
        self.session.settings.update(geometry=self.saveGeometry().data(), layout=self.stage.kept())
        for panel in self.panels.values():
            panel.close_down()
        self.session.close()
        super().closeEvent(event)
