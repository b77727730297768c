"""The run on screen as a trace file, and the checkpoint that the run of one is given, from the window."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox

if TYPE_CHECKING:
    from ropewalk.views.window.panel_window import PanelWindow

KINDS = "Traces (*.safetensors)"
BUNDLED = "bundled"
"""How the names of the model that comes with Ropewalk begin."""
FILES = frozenset({".gguf", ".pth", ".pt", ".bin", ".safetensors"})
"""Endings of checkpoints that are one file."""


class RunFiles(QObject):
    """Asks for files and folders, and says what came of it.

    Signals
    -------
    finished(sentence)
        A file was saved, or a checkpoint attached.
    failed(sentence)
        It could not be.
    """

    finished = Signal(str)
    failed = Signal(str)

    def __init__(self, window: PanelWindow) -> None:
        super().__init__(window)
        self.window = window
        attaching = window.session.attaching
        attaching.confirmation_wanted.connect(self._confirm)
        attaching.attached.connect(lambda card: self.finished.emit(f"Attached {card.name}"))

    def save_as(self) -> None:
        """Ask for a file and write the rows in view to it."""
        if self.window.session.handle is None:
            self.failed.emit("There is no run to save yet; run a prompt first.")
            return
        dialog = self._dialog("Save run as trace", QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(KINDS)
        dialog.setDefaultSuffix("safetensors")
        dialog.fileSelected.connect(self.save_to)
        dialog.open()

    def save_to(self, path: str) -> None:
        """Write the rows in view to a trace file."""
        from ropewalk.app.files.exporting import export_trace

        export_trace(
            self.window.session, Path(path), lambda saved: self.finished.emit(f"Saved {saved.name}"), self.failed.emit
        )

    def attach(self) -> None:
        """Ask for the folder of the checkpoint that the run was made with."""
        session = self.window.session
        origin = session.attaching.origin
        if origin is None:
            session.attaching.attach(None)  # which says why not
            return
        if origin.name.startswith(BUNDLED):  # which is here, wherever it was there
            session.attaching.attach(None)
            return
        if session.elsewhere:
            from ropewalk.views.window.folder_dialog import FolderDialog

            there = FolderDialog(session, True, self.window)
            there.chosen.connect(session.attaching.attach)
            there.open()
            return
        dialog = self._dialog(
            f"Attach {origin.name or 'the checkpoint of this run'}", QFileDialog.AcceptMode.AcceptOpen
        )
        is_file = PurePath(origin.path).suffix.lower() in FILES and not os.path.isdir(origin.path)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile if is_file else QFileDialog.FileMode.Directory)
        if os.path.exists(origin.path):
            dialog.selectFile(origin.path)
        dialog.fileSelected.connect(session.attaching.attach)
        dialog.open()

    def _dialog(self, title: str, mode: QFileDialog.AcceptMode) -> QFileDialog:
        dialog = QFileDialog(self.window, title)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(mode)
        return dialog

    def _confirm(self, sentence: str, path: str | None) -> None:
        """Ask whether a checkpoint that is not known to be the one is meant."""
        asked = QMessageBox(self.window)
        asked.setObjectName("other checkpoint")
        asked.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        asked.setIcon(QMessageBox.Icon.Question)
        asked.setTextFormat(Qt.TextFormat.PlainText)
        asked.setWindowTitle("Another checkpoint")
        asked.setText(sentence)
        take = asked.addButton("Attach it all the same", QMessageBox.ButtonRole.AcceptRole)
        asked.setDefaultButton(asked.addButton(QMessageBox.StandardButton.Cancel))
        take.clicked.connect(partial(self.window.session.attaching.attach, path, confirmed=True))
        asked.open()
