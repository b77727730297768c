"""The step controls: first, back, step, last, play."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from ropewalk.model.readings.records import Run
from ropewalk.views import keys
from ropewalk.views.panels.panel import offer
from ropewalk.views.style import icons, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

NAMES = ("to_start", "step_back", "step", "to_end", "toggle_play")


class StepBar(QWidget):
    """Buttons that walk the decoder."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.buttons: dict[str, QToolButton] = {}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        verbs: dict[str, Callable[[], None]] = {
            "to_start": session.timeline.to_start,
            "step_back": session.timeline.step_back,
            "step": session.timeline.step,
            "to_end": session.timeline.to_end,
            "toggle_play": session.timeline.toggle_play,
        }
        for name, verb in verbs.items():
            button = tool_button(name)
            button.clicked.connect(verb)
            self.buttons[name] = button
            layout.addWidget(button)
        self.buttons["step"].setText("step")
        self.buttons["step"].setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.buttons["toggle_play"].setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        session.run_changed.connect(self._on_run)
        session.timeline.playing_changed.connect(self._on_playing)
        for signal in (session.recovery.engine_ended, session.recovery.engine_back):
            signal.connect(self._enable)
        self._enable()
        self.theme_changed()

    def theme_changed(self) -> None:
        """Draw the icons in the theme in use."""
        for name, button in self.buttons.items():
            if name != "toggle_play":
                button.setIcon(icons.icon(name))
                button.setIconSize(QSize(icons.side(), icons.side()))
        play = self.buttons["toggle_play"]
        play.setText("pause" if self._session.timeline.playing else "play")
        widest = QFontMetrics(theme.current().font("body")).horizontalAdvance("pause")
        play.setFixedWidth(widest + 2 * theme.GRID + 4)

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        self._enable()

    def _enable(self, *_: object) -> None:
        """Offer what can be done; panels could not read another length without an engine."""
        run = self._session.run
        back, on = run is not None and run.length > run.prefill, run is not None and run.length < run.newest
        can = {"to_start": back, "step_back": back, "to_end": on}
        for name, button in self.buttons.items():
            if name in can or on:  # what was decoded is only looked at
                offer(button, self._session, keys.tip(name), on=can.get(name, True))
            else:
                offer(button, self._session, keys.tip(name), "decode", on=run is not None)

    def _on_playing(self, playing: bool) -> None:
        self.theme_changed()


def tool_button(action: str) -> QToolButton:
    """Make a button of the bar: its tooltip and accessible name come from the table of keys."""
    button = QToolButton()
    button.setToolTip(wording.tooltip(keys.tip(action)))
    button.setAccessibleName(keys.action(action).text)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setAutoRaise(True)
    return button
