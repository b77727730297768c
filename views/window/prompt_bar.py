"""The bar on top: checkpoint, device, workspaces and looks; under them the prompt, run, steps and sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.state import is_bundled
from ropewalk.model.readings.records import ModelCard, Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views import keys
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import icons, theme, wording
from ropewalk.views.window.chat_button import ChatButton
from ropewalk.views.window.prompt_field import PromptField
from ropewalk.views.window.step_bar import StepBar, tool_button
from ropewalk.views.window.workspace_tabs import WorkspaceTabs

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
LONGEST_PROMPT = 1 << 22
"""Characters that the field takes; Qt's own limit of 32,767 would cut a longer paste without a word."""
READABLE = 8
"""How much wider than it must be the prompt should be, in heights of its type, before anything is left out for it."""
NAME = 18
"""Characters that the checkpoint's name gets."""
OF_TRACE = "A trace is read where its file lies, in the number format it was made in; attach its checkpoint to choose."
NAMELESS = "model"
"""What stands in its place in a narrow bar; the line at the bottom says which it is."""
SPARED = ("keys", "theme", "panels")
"""What the checkpoint's menu has where the bar has no room for it."""
_LOOKS = ("theme", "projector", "panels", "keys")


class PromptBar(QWidget):
    """The controls on top of the window.

    Signals
    -------
    theme_wanted(), projector_wanted(), keys_wanted(), sampling_wanted()
        The person asked for another theme, for projector mode, for the list of keys, for the sampling controls.
    open_wanted(path, at_once)
        The person asked for the Open dialog, or for a checkpoint, to be opened at once where it leaves nothing open.
    engine_wanted()
        The person asked where the engine is to run.
    workspace_wanted(name)
        The person asked for a workspace.
    prompt_given()
        Enter was pressed in the prompt.
    """

    theme_wanted = Signal()
    projector_wanted = Signal()
    keys_wanted = Signal()
    sampling_wanted = Signal()
    open_wanted = Signal(str, bool)
    engine_wanted = Signal()
    workspace_wanted = Signal(str)
    prompt_given = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.setProperty("bar", "yes")
        self.brand = plain_label("Ropewalk", "title")
        self.checkpoint = _menu_button("Choose a checkpoint")
        self.device = _menu_button("Choose device and number format")
        self.prompt = PromptField()
        self.prompt.setMaxLength(LONGEST_PROMPT)
        self.prompt.setPlaceholderText("Type a sentence and press Enter")
        self.prompt.setAccessibleName("prompt")
        self.prompt.setToolTip(keys.tip("focus_prompt"))
        self.prompt.setText(session.settings.now.prompt)
        self.prompt.setMinimumWidth(100)
        self.ids = _toggle("token numbers", "Type the numbers of tokens (ids), such as 1, 2, 3, instead of text")
        self.special = _toggle("", "")
        self.special.setChecked(True)
        self.chat = ChatButton()
        self.tabs = WorkspaceTabs()
        self._rows = QHBoxLayout(), QHBoxLayout()
        """Where one is, and what is run there."""
        self._wanted: dict[QWidget, bool] = {}
        """What the bar would show if it were wide enough, of the controls that may be left out."""
        self._known = session.prompt
        """The newest prompt that this bar knows of."""
        self.run = QPushButton("Run")
        self.run.setProperty("kind", "main")
        self.run.setToolTip(keys.tip("run"))
        self.run.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.steps = StepBar(session)
        self.sampling = QToolButton()
        self.sampling.setToolTip("Show how the next token is drawn")
        self.sampling.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.looks = {name: tool_button(name) if name != "panels" else _menu_button("Show a panel") for name in _LOOKS}
        self._arrange()
        self._connect()
        self._on_sampling(session.timeline.sampling)
        if session.model is not None:
            self._on_model(session.model)
        self.theme_changed()

    def _arrange(self) -> None:
        rows = QVBoxLayout(self)
        rows.setContentsMargins(theme.GRID, 0, 0, 0)
        rows.setSpacing(theme.GRID // 2)
        for row in self._rows:
            row.setSpacing(theme.GRID)
            rows.addLayout(row)
        where, what = self._rows
        for widget in (self.brand, self.checkpoint, self.device, self.tabs):
            where.addWidget(widget)
        where.addStretch(1)
        looks = QHBoxLayout()
        looks.setSpacing(0)
        for button in self.looks.values():
            looks.addWidget(button)
        where.addLayout(looks)
        for part in (self.special, self.prompt, self.ids, self.chat, self.run, self.steps, self.sampling):
            what.addWidget(part)
        what.setStretchFactor(self.prompt, 1)
        self.prompt.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def _connect(self) -> None:
        self.prompt.returnPressed.connect(self.start)
        self.prompt.returnPressed.connect(self.prompt_given)
        self.tabs.chosen.connect(self.workspace_wanted)
        self.run.clicked.connect(self.start)
        self.ids.toggled.connect(self._fit_prompt)
        self.chat.toggled.connect(self._fit_prompt)
        self.sampling.clicked.connect(self.sampling_wanted)
        self.looks["theme"].clicked.connect(self.theme_wanted)
        self.looks["projector"].clicked.connect(self.projector_wanted)
        self.looks["keys"].clicked.connect(self.keys_wanted)
        self.checkpoint.menu().aboutToShow.connect(self._fill_checkpoints)
        self.device.menu().aboutToShow.connect(self._fill_devices)
        self.session.model_changed.connect(self._on_model)
        self.session.timeline.sampling_changed.connect(self._on_sampling)
        self.session.run_changed.connect(self._on_run)

    # Intent -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run what is typed, as text, in the chat template, or as ids."""
        self._known = self.written_prompt()
        self.session.start(self._known)

    def _follow(self, prompt: Prompt) -> None:
        """Set the switches as a prompt was meant that did not come from this bar, as one of a saved session."""
        meant_otherwise = replace(prompt, text=self._known.text) != self._known
        self._known = prompt
        if meant_otherwise:
            self.ids.setChecked(prompt.as_ids)
            self.special.setChecked(prompt.special)
            self.chat.choose(prompt.chat, prompt.system)

    def written_prompt(self) -> Prompt:
        """What is typed, meant as the switches around it say."""
        return Prompt(
            self.prompt.text(),
            as_ids=self.ids.isChecked(),
            special=self.special.isChecked(),
            chat=self.chat.template,
            system=self.chat.system_line,
        )

    def _fit_prompt(self) -> None:
        """Say what is expected in the field, and offer special tokens only where they can be had."""
        card = self.session.model
        wordless = card is not None and not card.has_tokenizer
        as_ids = wordless or self.ids.isChecked()
        self.ids.setEnabled(not wordless)
        self.ids.setVisible(not theme.current().projector)
        self.prompt.setPlaceholderText("Type ids, such as 1, 2, 3" if as_ids else "Type a sentence and press Enter")
        self.chat.show_model(card, as_ids)
        self._wanted[self.chat] = not theme.current().projector or bool(self.chat.template)
        bos = "" if card is None else card.bos
        crowded = theme.current().projector and bool(self.chat.template)
        self._wanted[self.special] = bool(bos) and not as_ids and not crowded
        self.special.setEnabled(not self.chat.template)
        metrics = QFontMetrics(theme.current().font("body"))
        shown = theme.drawable(bos, "body")
        room = metrics.averageCharWidth() * 9
        self.special.setText(metrics.elidedText(shown, Qt.TextElideMode.ElideMiddle, room).replace("&", "&&"))
        tip = f"Begin with {bos}, as the tokenizer of this model does"
        if self.chat.template:
            tip = "The chat template writes the special tokens itself"
        self.special.setToolTip(wording.tooltip(tip))
        self.special.setAccessibleName(tip)
        self._fit_width()

    def _fill_checkpoints(self) -> None:
        menu = self.checkpoint.menu()
        menu.clear()
        menu.addAction("Built-in model").triggered.connect(lambda: self.session.opening.open(None))
        menu.addAction("Open…").triggered.connect(lambda: self.open_wanted.emit("", False))
        menu.addAction("Engine…").triggered.connect(self.engine_wanted)
        recent = self.session.opened.recent
        if recent:
            menu.addSeparator()
        for path in recent:
            name = wording.opened_as(Path(path).name, self.session.opened.answers.get(path, {}))
            entry = menu.addAction(name.replace("&", "&&"))
            entry.setToolTip(wording.tooltip(path))
            entry.triggered.connect(lambda _=False, path=path: self.open_wanted.emit(path, True))
        for name in SPARED:
            button = self.looks[name]
            if button.isVisibleTo(self):
                continue
            if name == "panels":
                menu.addMenu(button.menu()).setText("Show a panel")
            else:
                menu.addAction(button.toolTip().partition("\n")[0]).triggered.connect(button.click)

    def _fill_devices(self) -> None:
        menu, card = self.device.menu(), self.session.model
        for group in menu.findChildren(QActionGroup):
            group.deleteLater()  # clearing the menu deletes what is in it, but not these
        menu.clear()
        for title, choices, chosen, verb in (
            ("Device", self.session.devices, card.device if card else "", self._open_on),
            ("Number format", tuple(DTYPES), card.dtype if card else "", self._open_as),
        ):
            menu.addSection(title)
            group = QActionGroup(menu)
            for choice in choices:
                entry = QAction(choice, menu)
                entry.setCheckable(True)
                entry.setChecked(choice == chosen)
                entry.triggered.connect(lambda _=False, choice=choice, verb=verb: verb(choice))
                group.addAction(entry)
                menu.addAction(entry)

    def _open_on(self, device: str) -> None:
        self.session.opening.open(self.open_path(), device=device)

    def _open_as(self, dtype: str) -> None:
        self.session.opening.open(self.open_path(), dtype=dtype)

    def open_path(self) -> str | None:
        """What is open, to be opened again; None is the bundled model."""
        card = self.session.model
        return None if card is None or not card.path or is_bundled(card) else card.path

    # What is shown ------------------------------------------------------------------------------------------------

    def theme_changed(self) -> None:
        """Draw icons and widths for the theme in use; projector mode keeps the essential controls."""
        now = theme.current()
        for name, button in self.looks.items():
            button.setIcon(icons.icon(name))
            button.setIconSize(QSize(icons.side(), icons.side()))
        for button in (self.checkpoint, self.device):
            button.setIcon(icons.icon("down"))
        self.device.setVisible(not now.projector)
        self._wanted |= dict.fromkeys((self.brand, self.sampling), not now.projector)
        self._wanted |= dict.fromkeys((self.looks[name] for name in SPARED), True)
        self.steps.theme_changed()
        self._fit_prompt()

    def minimumSizeHint(self) -> QSize:
        """The width in which all that cannot be left out has room."""
        hint = super().minimumSizeHint()
        metrics = self.checkpoint.fontMetrics()
        shorter = metrics.horizontalAdvance(self.checkpoint.text())
        spare = [max(shorter, 0), 0]
        for widget in self._wanted:
            if widget.isVisibleTo(self):
                spare[self._rows[1].indexOf(widget) >= 0] += widget.sizeHint().width()
        least = max(row.minimumSize().width() - left for row, left in zip(self._rows, spare, strict=True))
        return QSize(least + theme.GRID, hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what there is no room for."""
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        """In a narrow bar one thing after the other gives way, what is said elsewhere first, until it fits."""
        for widget, wanted in self._wanted.items():
            widget.setVisible(wanted)
        self.sampling.setText(sampling_text(self.session.timeline.sampling))
        self.checkpoint.setText(self._name())
        (where, what), width = self._rows, self.width() - theme.GRID
        least = self.tabs.minimumSizeHint().width()
        _give_way(where, width - self.tabs.size_of("numbered").width() + least, (self.brand.hide,))
        _give_way(
            where,
            width - self.tabs.size_of("small").width() + least,
            (
                partial(self.checkpoint.setText, NAMELESS),
                *(self.looks[name].hide for name in SPARED),
                partial(self.checkpoint.setText, ""),
            ),
        )
        _give_way(
            what,
            width - READABLE * theme.current().size("body"),
            (
                lambda: self.sampling.setText(sampling_text(self.session.timeline.sampling, short=True)),
                self.sampling.hide,
                self.special.hide,
                self.chat.hide,
            ),
        )

    def _on_model(self, card: ModelCard) -> None:
        name, is_trace = self._opened_name(card), self.session.attaching.origin is not None
        open_now = "\n".join(("Open another checkpoint than:", name, card.path, *card.notes)).strip()
        self.checkpoint.setToolTip(wording.tooltip(open_now))
        self.device.setText(f"{card.device} · {DTYPES.get(card.dtype, card.dtype)}")
        there = f" of {self.session.elsewhere}" if self.session.elsewhere else ""
        self.device.setEnabled(not is_trace)
        self.device.setToolTip(wording.tooltip(OF_TRACE if is_trace else f"Choose device{there} and number format"))
        self._fit_prompt()

    def _opened_name(self, card: ModelCard) -> str:
        """What is open, and how."""
        model_handle, name = self.session.model_handle, wording.model_name(card.name)
        return name if model_handle is None or not model_handle.via else f"{name}, via {model_handle.via}"

    def _name(self) -> str:
        """What the button of the checkpoint says."""
        card = self.session.model
        if card is None:
            return "opening …"
        metrics = QFontMetrics(theme.current().font("body"))
        room = metrics.averageCharWidth() * NAME
        name = wording.model_name(card.name)
        return metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, room).replace("&", "&&")

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        why = self.session.why_not("run")
        self.run.setEnabled(not why)
        self.run.setToolTip(wording.tooltip(why or keys.tip("run")))
        self.chat.show_run(after)
        new = after is not None and (before is None or before.run_id != after.run_id)
        if new:
            self._follow(self.session.prompt)
        if after is not None and new and not self.prompt.hasFocus():
            self.prompt.setText(after.prompt)

    def _on_sampling(self, sampling: Sampling) -> None:
        self._fit_width()


def sampling_text(sampling: Sampling, short: bool = False) -> str:
    """Sampling in few words: ``T 0.8 · top-k 40 · seed 7``, in fewer ``T 0.8``, or ``greedy``."""
    if sampling.temperature == 0:
        return "greedy"
    parts = [f"T {sampling.temperature:g}"]
    if short:
        return parts[0]
    if sampling.top_k:
        parts.append(f"top-k {sampling.top_k}")
    if sampling.top_p < 1:
        parts.append(f"top-p {sampling.top_p:g}")
    return " · ".join([*parts, f"seed {sampling.seed}"])


def _give_way(row: QLayout, width: int, ways: Iterable[Callable[[], object]]) -> None:
    """Leave one thing after the other out of a row until the rest has room."""
    for give_way in ways:
        for part in (row, *row.findChildren(QLayout)):
            part.invalidate()  # Qt does it later, and then for the outermost layout alone
        if row.minimumSize().width() <= width:
            return
        give_way()


def _toggle(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(tip)
    button.setAccessibleName(tip)
    button.setCheckable(True)
    button.setProperty("toggle", "yes")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button


def _menu_button(tip: str) -> QToolButton:
    button = QToolButton()
    button.setToolTip(tip)
    button.setAccessibleName(tip)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    menu = QMenu(button)
    menu.setToolTipsVisible(True)
    button.setMenu(menu)
    return button
