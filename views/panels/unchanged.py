"""Why the maps of a head are what they were, though the model was changed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from ropewalk.model.decoder.interventions import AblateHeads, AblateMlp, Intervention
from ropewalk.views.style import wording


class WhyUnchanged(QLabel):
    """Stands above maps, and takes no room where there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", "label")
        self.setWordWrap(True)
        self.hide()

    def say(self, why: str) -> None:
        """Show a sentence, or nothing."""
        self.setText(why)
        self.setVisible(bool(why))


def why_unchanged(interventions: Sequence[Intervention], layer: int, head: int) -> str:
    """Say why a head's maps are what they were, where every change of the model comes after them; else nothing."""
    if not interventions or not all(isinstance(one, AblateHeads | AblateMlp) for one in interventions):
        return ""
    of_this = any(isinstance(one, AblateHeads) and one.layer == layer and head in one.heads for one in interventions)
    earlier = any(isinstance(one, AblateHeads | AblateMlp) and one.layer < layer for one in interventions)
    if of_this:
        what = "its scores move only by earlier changes" if earlier else "its scores and weights stay"
        return f"{wording.head_name(layer, head)} is changed after softmax; {what}."
    return "" if earlier else f"The changes come after the scores of layer {layer}; these maps stay."
