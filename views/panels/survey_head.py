"""How far back the chosen head of a survey looks, and where in a text: its distances and its mean map."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from ropewalk.views.panels.survey_panel import SurveyPanel
from ropewalk.views.plots.survey.distance_bars import DistanceBars
from ropewalk.views.plots.survey.mean_map import MeanMap
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class SurveyHeadPanel(SurveyPanel):
    """One head, over all texts."""

    name: ClassVar[str] = "survey_head"
    title: ClassVar[str] = "Distances"

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.bars, self.map = DistanceBars(), MeanMap()
        self._sides = QBoxLayout(QBoxLayout.Direction.LeftToRight, self.body)
        self._sides.setContentsMargins(0, 0, 0, 0)
        self._sides.setSpacing(theme.GRID)
        self._sides.addWidget(self.bars, 1)
        self._sides.addWidget(self.map, 1)

    def show_read(self) -> None:
        """Name the head, and draw what has come of it."""
        read, now = self.surveys.read, self.surveys.now
        assert now is not None
        name = wording.head_name(*self.surveys.head)
        over = f"mean over {wording.counted(now.texts, 'text')}"
        self.describe(f"{name} · what it looks at, {over} · {wording.model_name(now.name)}")
        for plot in (self.bars, self.map):
            plot.setVisible(read is not None)
        if read is None:
            return
        seen = int(np.flatnonzero(read.share).max(initial=0)) + 1  # no text is as long as what is left out
        ranges = [(int(start), int(end)) for start, end in read.ranges[:seen]]
        self.bars.show_distances("share by distance", ranges, read.share[:seen], read.error[:seen], now.texts)
        self.map.show_map("by place in the text", read.grid, "log")

    def show_choice(self) -> None:
        """Show another head as soon as it has been read; until then the one before stays, with its name."""
        if self.surveys.read is not None:
            self.show_read()

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.bars.theme_changed()
        self.map.theme_changed()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the two side by side where there is room, else one above the other."""
        super().resizeEvent(event)
        wide = self.width() > 1.3 * self.height()
        self._sides.setDirection(QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom)
