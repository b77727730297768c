"""The workspaces in the bar: a button each, with its name, and beside that its number where there is room."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, get_args

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from ropewalk.views import keys
from ropewalk.views.stage.workspaces import WORKSPACES, Workspace
from ropewalk.views.style import theme, wording

RAISED: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"

Form = Literal["numbered", "named", "small", "smallest", "numbers"]
"""Names with numbers, names, names in small and in still smaller type, and the numbers of all but the one that is on:
the widest first."""
KINDS: Final = {"small": "tight", "smallest": "tightest"}
"""What the style sheet calls buttons in small type."""


class WorkspaceTabs(QWidget):
    """One button for each workspace, of which one is down; they are written as there is room.

    Signals
    -------
    chosen(name)
        A button was pressed.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.current = WORKSPACES[0].name
        self.form: Form = "numbered"
        self.buttons: dict[str, QToolButton] = {}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for workspace in WORKSPACES:
            button = QToolButton()
            button.setCheckable(True)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setAccessibleName(workspace.title)
            button.setToolTip(wording.tooltip(keys.tip(f"workspace_{workspace.name}")))
            button.clicked.connect(partial(self._choose, workspace.name))
            layout.addWidget(button)
            self.buttons[workspace.name] = button
        self.show_current(self.current)

    def _choose(self, name: str) -> None:
        self.show_current(self.current)  # a click on the button that is down leaves it so
        self.chosen.emit(name)

    def show_current(self, name: str) -> None:
        """Press the button of the workspace that is on."""
        self.current = name
        for other, button in self.buttons.items():
            button.setChecked(other == name)
        self.fit()

    def fit(self) -> None:
        """Write the workspaces in the widest form that there is room for."""
        fits = (form for form in get_args(Form) if self.size_of(form).width() <= self.width())
        self._write(next(fits, "numbers"))

    def _write(self, form: Form) -> None:
        kind = KINDS.get(form, "")
        for workspace in WORKSPACES:
            button = self.buttons[workspace.name]
            button.setText(self._text(workspace, form))
            if self.form != form:
                button.setProperty("kind", kind)
                button.style().polish(button)
        self.form = form

    def _text(self, workspace: Workspace, form: Form) -> str:
        if form == "numbers" and workspace.name != self.current:
            return str(workspace.number)
        return f"{workspace.title} {RAISED[workspace.number]}" if form == "numbered" else workspace.title

    def sizeHint(self) -> QSize:
        """As wide as all names with their numbers."""
        return self.size_of("numbered")

    def minimumSizeHint(self) -> QSize:
        """As wide as one name and the numbers."""
        return self.size_of("numbers")

    def size_of(self, form: Form) -> QSize:
        """The size of a form, whatever is written now; of the last one for whichever workspace is on."""
        metrics, around = QFontMetrics(_font(form)), self._around() + 2 * _padding(form)
        width = sum(metrics.horizontalAdvance(self._text(one, form)) + around for one in WORKSPACES)
        if form == "numbers":
            lengths = {one.name: metrics.horizontalAdvance(one.title) for one in WORKSPACES}
            width += max(lengths.values()) - lengths[self.current]
        height = max(button.sizeHint().height() for button in self.buttons.values())
        return QSize(width, height)

    def _around(self) -> int:
        """What Qt leaves beside the text of a button, but for the padding."""
        metrics, buttons = QFontMetrics(_font(self.form)), self.buttons.values()
        around = max(button.sizeHint().width() - metrics.horizontalAdvance(button.text()) for button in buttons)
        return around - 2 * _padding(self.form)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take the names that there is room for."""
        super().resizeEvent(event)
        self.fit()


def _font(form: Form) -> QFont:
    font = theme.current().font("subtitle" if form in KINDS else "body")
    if form == "smallest":
        font.setPixelSize(theme.current().smallest)
    return font


def _padding(form: Form) -> int:
    """What the style sheet has beside the text."""
    return theme.TIGHT if form in KINDS else theme.GRID
