"""The File menu, and the menu of a panel's heading: what they offer, and what becomes of it.

What is exported and how sessions are kept is for others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QMenu, QWidget

from ropewalk.app.files.session_file import SUFFIX
from ropewalk.app.survey_folders import holds_surveys
from ropewalk.views import keys
from ropewalk.views.files.run_files import RunFiles
from ropewalk.views.files.session_files import SessionFiles
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.views.files.export_dialog import ExportDialog
    from ropewalk.views.files.exporter import Exporter
    from ropewalk.views.window.panel_window import PanelWindow


class FileMenu(QObject):
    """What the window offers to do with files.

    Parameters
    ----------
    window
        Whose menu it is.
    menu
        That of the checkpoint, which is filled anew whenever it is shown; what is to be done with files comes after it.
    """

    def __init__(self, window: PanelWindow, menu: QMenu) -> None:
        super().__init__(window)
        self.window, self.menu = window, menu
        self.recent = QMenu("Recent sessions", window)  # one for good: clearing a menu does not delete those in it
        self.sessions = SessionFiles(window)
        self.sessions.failed.connect(self._show_failure)
        self.sessions.finished.connect(window.status.show_message)
        self.runs = RunFiles(window)
        self.runs.failed.connect(self._show_failure)
        self.runs.finished.connect(window.status.show_message)
        window.export_wanted.connect(self._export_around)
        window.attach_wanted.connect(self.runs.attach)
        menu.aboutToShow.connect(self._fill)  # after the bar, which was connected before
        for name, card in window.cards.items():
            card.handle.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            card.handle.customContextMenuRequested.connect(partial(self._offer_panel, name))

    @cached_property
    def exporter(self) -> Exporter:
        """What exports are made by; what it needs is loaded at the first one, for it would make every start longer."""
        from ropewalk.views.files.exporter import Exporter

        made = Exporter(self.window)
        made.failed.connect(self._show_failure)
        made.saved.connect(lambda path: self.window.status.show_message(f"Saved {Path(path).name}"))
        return made

    def verbs(self) -> dict[str, Callable[[], object]]:
        """A function for each action of the group File."""
        return {
            "open_session": self.sessions.ask,
            "save_session": self.sessions.save,
            "save_session_as": self.sessions.save_as,
            "save_run": self.runs.save_as,
            "attach": self.runs.attach,
            "export": self.export,
            "copy_picture": lambda: self.exporter.copy(self.exporter.target()),
        }

    def begin(self, file: str = "") -> None:
        """Do what a start does: open a session, a trace or a survey where one was named, else what was open last."""
        opening = self.window.session.opening
        if file and holds_surveys(file):
            opening.begin()
            self.window.open_survey(file)
            return
        if file.endswith(SUFFIX):
            self.sessions.open(file, otherwise=opening.begin)
        else:
            opening.begin(file or None)

    def export(self, name: str = "") -> ExportDialog:
        """Show the Export dialog, with a panel chosen where one is named."""
        from ropewalk.views.files.export_dialog import ExportDialog

        dialog = ExportDialog(self.window, self.exporter)
        if name:
            dialog.choose(name)
        dialog.open()
        return dialog

    def _export_around(self, picture: QWidget) -> None:
        """Show the dialog for the panel that a picture is in."""
        self.export(next(name for name, panel in self.window.panels.items() if panel.isAncestorOf(picture)))

    def close_down(self) -> None:
        """End what is going on, and keep what nobody saved."""
        if "exporter" in self.__dict__:
            self.exporter.close_down()
        self.sessions.keep()

    def _show_failure(self, sentence: str) -> None:
        self.window.failure.show_message(sentence, "")

    def _fill(self) -> None:
        menu, verbs = self.menu, self.verbs()
        menu.addSection("File")
        self._entry(menu, "open_session", verbs["open_session"])
        recent = self.recent
        recent.clear()
        menu.addMenu(recent)
        for path in self.sessions.recent():
            entry = recent.addAction(Path(path).name.replace("&", "&&"))
            entry.setToolTip(wording.tooltip(path))
            entry.triggered.connect(partial(self._open, path))
        if self.sessions.last.exists():
            recent.addSeparator()
            last = recent.addAction("What was open last and not saved")
            last.triggered.connect(partial(self._open, str(self.sessions.last)))
        recent.setEnabled(not recent.isEmpty())
        lacks = self.window.session.attaching.origin is not None
        for name in ("save_session", "save_session_as", "save_run", *(("attach",) if lacks else ())):
            self._entry(menu, name, verbs[name])
        menu.addSeparator()
        for name, verb in (("open_survey", self.window.choose_survey), ("run_survey", self.window.run_survey)):
            self._entry(menu, name, verb)
        menu.addSeparator()
        for name in ("export", "copy_picture"):
            self._entry(menu, name, verbs[name])

    def _entry(self, menu: QMenu, name: str, verb: Callable[[], object]) -> None:
        action = keys.action(name)
        entry = menu.addAction(f"{action.text}\t{keys.written(action.keys)}")
        entry.triggered.connect(lambda _=False: verb())

    def _open(self, path: str) -> None:
        self.sessions.open(path)

    def _offer_panel(self, name: str, at: QPoint) -> None:
        """The menu of a panel's heading."""
        menu = self.panel_menu(name)
        menu.popup(self.window.cards[name].handle.mapToGlobal(at))

    def panel_menu(self, name: str) -> QMenu:
        """What can be done with a panel as a picture; gone when it is closed."""
        menu = QMenu(self.window)
        menu.aboutToHide.connect(menu.deleteLater)
        card = self.window.cards[name]
        float_out = "Back in its place" if card.is_floating else "A window of its own"
        menu.addAction(float_out).triggered.connect(lambda: self.window.stage.toggle_floating(card))
        menu.addSeparator()
        menu.addAction("Export…").triggered.connect(lambda: self.export(name))
        menu.addAction("Copy picture").triggered.connect(lambda: self.exporter.copy(name))
        menu.addAction("Copy picture of the window").triggered.connect(lambda: self.exporter.copy(""))
        return menu
