"""A decoded token on its way from the candidates to its place among the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ropewalk.app.session.step_clock import ARRIVES
from ropewalk.views.panels.panel_card import PanelCard
from ropewalk.views.style import ink, theme

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.views.panels.next_token import NextTokenPanel
    from ropewalk.views.panels.tokens import TokensPanel

BESIDE: Final = 6
"""Grid units from which a token comes that was not among the candidates in sight."""


class TokenFlight(QWidget):
    """The token while it is on its way; hidden else.

    Parameters
    ----------
    cards
        Where the tokens and the candidates are.
    stage
        What it flies over.
    """

    def __init__(self, session: Session, cards: Mapping[str, PanelCard], stage: QWidget) -> None:
        super().__init__(stage)
        self._session, self._cards, self._stage = session, cards, stage
        self._clock = session.timeline.clock
        self._lines: dict[int, QRectF] = {}
        """Where the candidates were written when the step began, by their ids."""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        self._clock.started.connect(self._look_where_it_begins)
        self._clock.ticked.connect(self._follow)

    def _look_where_it_begins(self) -> None:
        self._lines = {}
        card, run = self._cards["next_token"], self._session.run
        if not card.isVisible() or run is None or self._session.selection.now.query != run.length - 1:
            return
        view = cast("NextTokenPanel", card.panel).candidates
        for row, candidate in enumerate(view.shown()):
            self._lines.setdefault(candidate.token.id, self._placed(view, view.text_of(row)))

    def _placed(self, view: QWidget, box: QRectF) -> QRectF:
        """A part of a view, as the stage sees it."""
        return QRectF(view.mapTo(self._stage, box.topLeft().toPoint()), box.size())

    def _follow(self) -> None:
        """Be where the token is at this moment."""
        run, card = self._session.run, self._cards["tokens"]
        come, row = self._clock.come(ARRIVES), self._clock.row
        strip = cast("TokensPanel", card.panel).strip if card.is_made else None
        if strip is None or run is None or come == 1 or row >= run.length or not card.isVisible() or card.is_floating:
            self.hide()
            return
        end = self._placed(strip, strip.box_of(row))
        start = self._lines.get(run.tokens[row].id, end.translated(theme.current().grid(BESIDE), 0))
        if not strip.visibleRegion().contains(strip.box_of(row).toRect().center()):
            self.hide()
            return
        corner = start.topLeft() + (end.topLeft() - start.topLeft()) * come
        rise = theme.current().grid(4) * come * (1 - come)  # it goes in a bow
        size = start.size() + (end.size() - start.size()) * come
        self.setGeometry(QRectF(corner - QPointF(0, rise), size).toAlignedRect())
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the token as it stands among the others, in the colour of the query that it becomes."""
        run = self._session.run
        if run is None or self._clock.row >= len(run.tokens):
            return
        look, box = theme.current(), QRectF(QRect(0, 0, self.width(), self.height())).adjusted(1, 1, -1, -1)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(look.query, look.grid(0.25)))
        painter.setBrush(look.panel)
        painter.drawRoundedRect(box, look.grid(0.5), look.grid(0.5))
        text = theme.drawable(run.tokens[self._clock.row].text, "formula")
        font = look.font("number" if look.projector else "formula")
        ink.draw_text(painter, box, text, font, look.text, ink.CENTRE, Qt.TextElideMode.ElideMiddle)
        painter.end()
