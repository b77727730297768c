"""The switch of the prompt bar that puts a prompt into the checkpoint's chat template."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QToolButton, QWidget, QWidgetAction

from ropewalk.model.readings.records import ModelCard, Run
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording

NONE = "This checkpoint has no chat template, so the prompt goes to the model as it is."
USE = "Put the prompt into this checkpoint's chat template, as one turn of a person"
MOST_TYPED = 1 << 22
"""Characters of a system line, as many as of a prompt; Qt would cut a longer one at 32,767 without a word."""
MOST_SHOWN = 600
"""Characters of the rendered text that a tooltip shows."""


class ChatButton(QToolButton):
    """On: the next prompt goes through the template. Its arrow opens the system line and the list of templates."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: tuple[str, ...] = ()
        self._rendered = ""
        self._busy_with_ids = False
        self.setText("chat")
        self.setCheckable(True)
        self.setProperty("toggle", "yes")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.system = QLineEdit()
        self.system.setMaxLength(MOST_TYPED)
        self.system.setPlaceholderText("none")
        self.system.setAccessibleName("System line")
        self.system.setToolTip("What the chat template tells the model before your words; empty is none.")
        self.templates = QActionGroup(self)
        self.setMenu(self._menu())
        self.toggled.connect(self._update_tip)
        self._update_tip()

    def _menu(self) -> QMenu:
        menu = QMenu(self)
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(theme.GRID, theme.GRID, theme.GRID, theme.GRID)
        row.addWidget(plain_label("System line", "label"))
        row.addWidget(self.system, 1)
        holder.setMinimumWidth(40 * theme.GRID)
        entry = QWidgetAction(menu)
        entry.setDefaultWidget(holder)
        menu.addAction(entry)
        self.system.returnPressed.connect(menu.hide)
        return menu

    # What is chosen -----------------------------------------------------------------------------------------------

    @property
    def template(self) -> str:
        """The name of the template that the next prompt goes through, empty for none."""
        if not (self.isEnabled() and self.isChecked()):
            return ""
        chosen = self.templates.checkedAction()
        return self._names[0] if chosen is None else chosen.text()

    @property
    def system_line(self) -> str:
        """What is said before the prompt, empty for nothing."""
        return self.system.text() if self.template else ""

    def choose(self, template: str, system: str) -> None:
        """Switch a template on by its name, or off; a name that the checkpoint does not have is off."""
        self.setChecked(template in self._names)
        self.system.setText(system)
        for action in self.templates.actions():
            action.setChecked(action.text() == template)

    # What is shown ------------------------------------------------------------------------------------------------

    def show_model(self, card: ModelCard | None, as_ids: bool) -> None:
        """Offer the templates of a model; none where ids are typed."""
        names = () if card is None else card.chats
        if names != self._names:
            self._names = names
            self._list()
        if not names:
            self.setChecked(False)
        self._busy_with_ids = as_ids
        self.setEnabled(bool(names) and not as_ids)
        self._update_tip()

    def show_run(self, run: Run | None) -> None:
        """Say what the model was given."""
        self._rendered = "" if run is None else run.rendered
        self._update_tip()

    def _list(self) -> None:
        """List the templates where there are several; one needs no choice."""
        for action in self.templates.actions():
            self.templates.removeAction(action)
            self.menu().removeAction(action)
            action.deleteLater()
        if len(self._names) < 2:
            return
        for name in self._names:
            action = QAction(name, self.menu())
            action.setCheckable(True)
            action.setChecked(name == self._names[0])
            self.templates.addAction(action)
            self.menu().addAction(action)

    def _update_tip(self) -> None:
        tip = USE
        if not self._names:
            tip = NONE
        elif self._busy_with_ids:
            tip = "Ids go to the model as they are; switch them off to use the chat template"
        elif self._rendered:
            shown = self._rendered if len(self._rendered) <= MOST_SHOWN else f"{self._rendered[:MOST_SHOWN]} …"
            tip = f"{USE}. This run's model was given:\n{shown}"
        self.setToolTip(wording.tooltip(tip))
        self.setAccessibleName("chat template")
        self.setAccessibleDescription(tip)
