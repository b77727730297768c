"""Files and folders of the machine that the engine is on, to choose a checkpoint from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.models.folders import Entry, Folder
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

ENTRY = Qt.ItemDataRole.UserRole
EMPTY = {
    True: "There are no folders in this one; hidden ones are not listed.",
    False: "There are no folders and no files in this one; hidden ones are not listed.",
}
"""What is said of a folder in which there is nothing to choose, where folders are chosen and where files are."""


class FolderDialog(QDialog):
    """Walk through folders and choose one, or a file.

    Parameters
    ----------
    folders
        Whether a folder is to be chosen, and no file.

    Signals
    -------
    chosen(path)
        A path on the engine's machine.
    """

    chosen = Signal(str)

    def __init__(self, session: Session, folders: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.shown: Folder | None = None
        self._folders = folders
        self.setWindowTitle(f"Choose a {'folder' if folders else 'file'} on {session.elsewhere}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.path = QLineEdit()
        self.path.setAccessibleName(f"folder on {session.elsewhere}")
        self.up = QPushButton("Up")
        self.up.setAccessibleName("the folder that this one is in")
        self.home = QPushButton("Home")
        self.entries = QListWidget()
        self.entries.setUniformItemSizes(True)
        self.entries.setAccessibleName("what is in the folder")
        self.notice = plain_label("", "notice")
        self.notice.setWordWrap(True)
        self.choose = QPushButton("Choose")
        self.choose.setProperty("kind", "main")
        self.cancel = QPushButton("Cancel")
        self._arrange()
        self._connect()
        self.go("")

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.setSpacing(theme.GRID)
        row, last = QHBoxLayout(), QHBoxLayout()
        for widget in (self.path, self.up, self.home):
            row.addWidget(widget, 1 if widget is self.path else 0)
        last.addStretch(1)
        for button in (self.cancel, self.choose):
            last.addWidget(button)
        layout.addLayout(row)
        layout.addWidget(self.entries, 1)
        layout.addWidget(self.notice)
        layout.addLayout(last)
        unit = theme.current().grid(1)
        self.resize(QSize(72 * unit, 56 * unit))

    def _connect(self) -> None:
        self.path.returnPressed.connect(lambda: self.go(self.path.text().strip()))
        self.up.clicked.connect(self._on_up)
        self.home.clicked.connect(lambda: self.go(""))
        self.entries.itemActivated.connect(self._on_activated)
        self.entries.currentItemChanged.connect(lambda *_: self._offer())
        self.choose.clicked.connect(self._on_choose)
        self.cancel.clicked.connect(self.reject)
        for button in (self.up, self.home, self.choose, self.cancel):
            button.setAutoDefault(False)

    def go(self, path: str) -> None:
        """Show a folder; an empty path is the home folder."""
        self.notice.setText("Looking …")
        self.session.checkpoints.list_folder(path, self._show, self.notice.setText)

    def _on_up(self) -> None:
        if self.shown is not None:
            self.go(self.shown.parent)

    def _show(self, folder: Folder) -> None:
        self.shown = folder
        self.path.setText(folder.path)
        self.up.setEnabled(bool(folder.parent))
        self.entries.clear()
        for entry in folder.entries:
            if entry.is_folder or not self._folders:
                item = QListWidgetItem(_said(entry), self.entries)
                item.setData(ENTRY, entry)
        empty = "" if self.entries.count() else EMPTY[self._folders]
        more = f"{folder.left_out:,} more are not listed; type the path of what you look for."
        self.notice.setText(more if folder.left_out else empty)
        self._offer()

    def _chosen(self) -> str:
        """What Choose would choose; empty where there is nothing to choose."""
        item = self.entries.currentItem()
        entry: Entry | None = None if item is None else item.data(ENTRY)
        if entry is not None and entry.is_folder == self._folders:
            return entry.path
        return self.shown.path if self.shown is not None and self._folders else ""

    def _offer(self) -> None:
        self.choose.setEnabled(bool(self._chosen()))

    def _on_activated(self, item: QListWidgetItem) -> None:
        """Go into a folder, take a file."""
        entry: Entry = item.data(ENTRY)
        if entry.is_folder:
            self.go(entry.path)
        else:
            self._on_choose()

    def _on_choose(self) -> None:
        path = self._chosen()
        if path:
            self.chosen.emit(path)
            self.accept()

    def done(self, result: int) -> None:
        """Close, and wait for no folder any more."""
        self.session.checkpoints.forget_folder()
        super().done(result)


def _said(entry: Entry) -> str:
    """An entry on its line."""
    size = "/" if entry.is_folder else f"   {wording.byte_size(entry.size)}"
    return f"{entry.name}{size}{'   checkpoint' if entry.is_checkpoint else ''}"
