"""The command palette: everything that can be done, found by typing words of it, with its key, and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QHeaderView, QLineEdit, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from ropewalk.views.style import theme

PLACE = Qt.ItemDataRole.UserRole


@dataclass(frozen=True)
class Command:
    """Something that can be done: what it is called, where it belongs, its keys as written, and the doing.

    One that is not ``possible`` only says why.
    """

    text: str
    group: str
    keys: str
    run: Callable[[], object]
    possible: bool = True


def score(text: str, typed: str) -> int:
    """How well a text answers to what was typed, 0 for not at all.

    Every word that was typed has to be found: at the start of a word (best), inside one, or letter by letter in order.
    """
    low = text.lower()
    words = low.replace("/", " ").replace(":", " ").split()
    total = 0
    for part in typed.lower().split():
        best = max((_answers(part, word) + (place == 0) for place, word in enumerate(words) if _answers(part, word)),
                   default=int(_in_order(part, low)))  # fmt: skip
        if not best:
            return 0
        total += best
    return total


def _answers(part: str, word: str) -> int:
    return 6 if word.startswith(part) else 4 if part in word else 2 if _in_order(part, word) else 0


def _in_order(part: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in part)


def found(commands: Sequence[Command], typed: str) -> list[Command]:
    """The commands that answer to what was typed, best first; all of them, in their order, for nothing typed."""
    if not typed.strip():
        return list(commands)
    scored = [(2 * score(one.text, typed) or score(f"{one.text} {one.group}", typed), one) for one in commands]
    return [one for points, one in sorted(scored, key=lambda pair: -pair[0]) if points]


class Palette(QDialog):
    """Type, choose with the arrows, press Return.

    Parameters
    ----------
    commands
        Says everything on offer.
    parent
        The window, over whose upper part it stands.
    answers
        Says what can be done with the very text that was typed, which stands first.
    """

    ROWS = 12

    def __init__(
        self,
        commands: Callable[[], Sequence[Command]],
        parent: QWidget,
        answers: Callable[[str], Sequence[Command]] = lambda typed: (),
    ) -> None:
        super().__init__(parent)
        self._offered, self._answers = commands, answers
        self._listed: list[Command] = []
        self.commands = tuple(commands())
        self.chosen: Command | None = None
        self.setWindowTitle("Do something")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.field = QLineEdit()
        self.field.setPlaceholderText("Type what you want to do")
        self.field.setAccessibleName("Search for something to do")
        self.field.textChanged.connect(self.search)
        self.field.returnPressed.connect(self.accept)
        self.field.installEventFilter(self)
        self.list = QTreeWidget()
        self.list.setAccessibleName("What can be done, with its keys")
        self.list.setColumnCount(3)
        self.list.setHeaderHidden(True)
        header = self.list.header()
        header.setStretchLastSection(False)
        for column, mode in enumerate(
            (QHeaderView.ResizeMode.Stretch, *(QHeaderView.ResizeMode.ResizeToContents,) * 2)
        ):
            header.setSectionResizeMode(column, mode)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.itemClicked.connect(self._take)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.addWidget(self.field)
        layout.addWidget(self.list, 1)
        now = theme.current()
        wanted = QSize(46 * now.size("body"), (self.ROWS + 4) * round(1.9 * now.size("body")))
        self.resize(wanted.boundedTo(parent.size() * 0.9))
        self.search("")

    def look_again(self) -> None:
        """List what is on offer by now, and go on with what was typed."""
        place = self.list.currentIndex().row()
        self.commands = tuple(self._offered())
        self.search(self.field.text())
        self._go_to(place)

    def search(self, typed: str) -> None:
        """List what answers to the words."""
        self.list.clear()
        self._listed = [*self._answers(typed), *found(self.commands, typed)]
        for place, one in enumerate(self._listed):
            item = QTreeWidgetItem([one.text, one.group, one.keys])
            item.setTextAlignment(2, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            item.setForeground(1, theme.current().faint)
            item.setFont(2, theme.current().font("number"))
            item.setData(0, PLACE, place)
            item.setData(0, Qt.ItemDataRole.AccessibleTextRole, f"{one.text}, {one.keys or 'no key'}")
            self.list.addTopLevelItem(item)
            item.setFirstColumnSpanned(not one.possible)
        self._go_to(0)

    def _go_to(self, place: int) -> None:
        item = self.list.topLevelItem(min(max(place, 0), self.list.topLevelItemCount() - 1))
        if item is not None:
            self.list.setCurrentItem(item)

    def accept(self) -> None:
        """Close, and do what is chosen with the focus where it was."""
        item = self.list.currentItem()
        if item is None or not self._listed[int(item.data(0, PLACE))].possible:
            return
        self.chosen = self._listed[int(item.data(0, PLACE))]
        super().accept()

    def _take(self, item: QTreeWidgetItem) -> None:
        self.list.setCurrentItem(item)
        self.accept()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the arrows of the field move through the list."""
        moves = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -self.ROWS, Qt.Key.Key_PageDown: self.ROWS}
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in moves:
            self._go_to(self.list.currentIndex().row() + moves[Qt.Key(event.key())])
            return True
        return super().eventFilter(watched, event)
