"""The main window: the window of panels with its files, its keys, and what is dropped on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QDragEnterEvent, QDropEvent

from ropewalk.app.files.session_file import SUFFIX
from ropewalk.app.models.folders import adapter_folder
from ropewalk.app.survey_folders import holds_surveys
from ropewalk.views import keys
from ropewalk.views.files.file_menu import FileMenu
from ropewalk.views.verbs import verbs
from ropewalk.views.window.panel_window import PanelWindow

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


MOST_DROPPED = 1000
"""Paths that are looked at: a series of surveys has no more, and looking holds up the window."""


class MainWindow(PanelWindow):
    """Everything on one screen, and everything that can be done with it.

    Parameters
    ----------
    session, restore, at_once
        As in :class:`PanelWindow`.
    """

    def __init__(self, session: Session, *, restore: bool = True, at_once: bool = True) -> None:
        super().__init__(session, restore=restore, at_once=at_once)
        self.setAcceptDrops(True)
        self.files = FileMenu(self, self.bar.checkpoint.menu())
        self.shortcuts = keys.Shortcuts(self, verbs(self, self.files))
        self.lesson_walked.connect(self.shortcuts.walk)
        self.closing.connect(self.files.close_down)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take a file or a folder of this machine, the folders of a series of surveys, or far too many to look at."""
        many, paths = _dropped(event.mimeData())
        if many or len(paths) == 1 or (paths and all(map(holds_surveys, paths))):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped: surveys, a session, a lesson, or a checkpoint, which has to be where the engine is.

        A LoRA adapter is proposed for the model that is open.
        """
        many, paths = _dropped(event.mimeData())
        is_survey = bool(paths) and all(map(holds_surveys, paths))
        if not (many or is_survey or len(paths) == 1):
            return
        event.acceptProposedAction()
        if many:
            series = f"the folders of a series of surveys, of which there are at most {MOST_DROPPED:,}"
            self.failure.show_message(f"{many:,} files were dropped; drop one, or {series}.", "")
        elif is_survey:
            self.open_survey(*paths)
        elif (path := paths[0]).endswith(SUFFIX):
            self.files.sessions.open(path)
        elif path.endswith(".toml"):
            self.reveal("lesson")
            self.lesson.open_file(path)
        elif there := self.session.elsewhere:
            sentence = f"{Path(path).name} is on this machine, but the engine runs on {there}; copy it there, then open"
            self.failure.show_message(f"{sentence} it by its path.", "")
        elif adapter := adapter_folder(path):
            self.choose_checkpoint(self.bar.open_path() or "", adapter=adapter)
        else:
            self.choose_checkpoint(path, at_once=True)


def _dropped(data: QMimeData) -> tuple[int, list[str]]:
    """The local paths that are being dropped; in their place their number, where that is too many to look at."""
    lines = data.data("text/uri-list").count(b"\n")
    return (lines, []) if lines > MOST_DROPPED else (0, [url.toLocalFile() for url in data.urls()])
