"""The workspaces in the bar: a button each, its number small beside its name."""

from __future__ import annotations

from functools import partial
from typing import Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from ropewalk.views import keys
from ropewalk.views.stage.workspaces import WORKSPACES
from ropewalk.views.style import wording

RAISED: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"


class WorkspaceTabs(QWidget):
    """One button for each workspace, of which one is down; where names do not fit, the others show their numbers alone.

    Signals
    -------
    chosen(name)
        A button was pressed.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.current = WORKSPACES[0].name
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
        """Name every workspace, or the one that is on and the numbers of the others."""
        self._name(short=False)
        layout = self.layout()
        if layout is not None and layout.minimumSize().width() > self.width():
            self._name(short=True)

    def _name(self, short: bool) -> None:
        for workspace in WORKSPACES:
            alone = short and workspace.name != self.current
            text = str(workspace.number) if alone else f"{workspace.title} {RAISED[workspace.number]}"
            self.buttons[workspace.name].setText(text)

    def sizeHint(self) -> QSize:
        """As wide as all names."""
        return self._size(short=False)

    def minimumSizeHint(self) -> QSize:
        """As wide as one name and the numbers."""
        return self._size(short=True)

    def _size(self, short: bool) -> QSize:
        """The size with names or without, whatever is written now."""
        metrics, width, height = self.fontMetrics(), 0, 0
        longest = max((one for one in WORKSPACES), key=lambda one: metrics.horizontalAdvance(one.title))
        for workspace in WORKSPACES:
            button = self.buttons[workspace.name]
            around = button.sizeHint().width() - metrics.horizontalAdvance(button.text())
            named = not short or workspace is longest
            text = f"{workspace.title} {RAISED[workspace.number]}" if named else str(workspace.number)
            width += around + metrics.horizontalAdvance(text)
            height = max(height, button.sizeHint().height())
        return QSize(width, height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take the names that there is room for."""
        super().resizeEvent(event)
        self.fit()
