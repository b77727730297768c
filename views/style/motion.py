"""Whether things move: what the person chose, or what the system says where they chose nothing.

Qt 6.11 has no hint of its own for reduced motion (its accessibility hints know contrast alone); what it passes on is
the length that the system gives to animations.
"""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QStyle

Choice = Literal["system", "reduced", "full"]
CHOICES: Final = get_args(Choice)
EFFECTS: Final = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
)

_in_use: list[Choice] = ["system"]


def system_reduces() -> bool:
    """Whether the system has animations switched off."""
    style = QApplication.style()
    return style is not None and style.styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0


def choose(choice: str) -> Choice:
    """Take a choice into use and return it; what is none counts as ``system``."""
    now = _in_use[0] = cast("Choice", choice) if choice in CHOICES else "system"
    if reduced():
        for effect in EFFECTS:
            QApplication.setEffectEnabled(effect, False)
    return now


def reduced() -> bool:
    """Whether a movement is to be replaced by where it ends."""
    return _in_use[0] == "reduced" or (_in_use[0] == "system" and system_reduces())
