"""Arrow keys that a picture or a slider keeps while it has the focus."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QSlider

ARROWS: Final = {
    int(Qt.Key.Key_Left): (-1, 0),
    int(Qt.Key.Key_Right): (1, 0),
    int(Qt.Key.Key_Up): (0, -1),
    int(Qt.Key.Key_Down): (0, 1),
}
"""How far right and down each arrow goes."""

SIDEWAYS: Final = {key: step for key, step in ARROWS.items() if step[0]}

UP_AND_DOWN: Final = {key: step for key, step in ARROWS.items() if step[1]}

IN_A_LIST: Final = {**UP_AND_DOWN, int(Qt.Key.Key_Home): (0, -1), int(Qt.Key.Key_End): (0, 1)}
"""What moves in a list of rows."""


def step_of(event: QKeyEvent, arrows: dict[int, tuple[int, int]] = ARROWS) -> tuple[int, int] | None:
    """How far a key without modifiers goes, None for a key that is no arrow."""
    return None if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else arrows.get(event.key())


def kept(event: QEvent, arrows: dict[int, tuple[int, int]] = ARROWS) -> bool:
    """Take an arrow from the window's shortcuts; says whether the event was one."""
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    if step_of(event, arrows) is None:
        return False
    event.accept()
    return True


class ArrowSlider(QSlider):
    """A slider that keeps its keys from the window's shortcuts: an arrow moves it, and decodes nothing."""

    KEYS = (*map(Qt.Key, ARROWS), Qt.Key.Key_Home, Qt.Key.Key_End)

    def event(self, event: QEvent) -> bool:
        """Take what a slider understands."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in self.KEYS:
            event.accept()
            return True
        return super().event(event)
