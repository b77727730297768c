"""Tokens as one painted strip: where each stands, how it looks, and the arcs that fan out from the query.

A click picks the query, a shift-click the key.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QScrollArea, QToolTip, QWidget

from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import Bools, Doubles, TokenText
from ropewalk.views.plots import arrow_keys
from ropewalk.views.style import highlight, ink, theme, wording
from ropewalk.views.style.lettering import face

if TYPE_CHECKING:
    pass


class Look(NamedTuple):
    """Where one token stands and what is written on it; a tuple, for thousands of them are made at a time."""

    left: float
    top: float
    width: float
    text: str


class Type(NamedTuple):
    """What every token of a picture is painted with; looked up once for all of them."""

    now: theme.Theme
    font: QFont
    slanted: QFont
    small: QFont
    small_height: float
    radius: float

    @classmethod
    def of(cls, now: theme.Theme) -> Type:
        """The type of a theme."""
        slanted, small = _font(), now.font("label")
        slanted.setItalic(True)
        return cls(now, _font(), slanted, small, face(small).height, now.grid(0.5))


LEAST_ARC = 0.02
"""The least weight that has an arc."""
MOST_ARCS = round(1 / LEAST_ARC)
"""How many weights of a row can be as large, since they add up to 1."""
AT_ONCE = 2048
"""Tokens that are placed in one turn of the event loop; there may be ten thousands."""
BESIDE = 12.0
"""Pixels by which a position may be wider than its token, to either side."""
CHANGEABLE = 8
"""Tokens at the end that one more token may show in another way: bytes that turn out to be a character."""


class TokenStrip(QWidget):
    """The painted tokens, wrapped into lines, or all in one.

    Signals
    -------
    query_picked(position), key_picked(position), pointed(position)
        A click, a shift-click, and the pointer over a token (-1 when it left).
    """

    query_picked = Signal(int)
    key_picked = Signal(int)
    pointed = Signal(int)
    placed = Signal()
    """Every token has its place."""
    room_changed = Signal()
    """Another height can be seen at a time, or another part of a single line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tokens: Sequence[TokenText] = ()
        self._prefill = 0
        self._weights: Doubles = np.zeros(0)
        self._visible: Bools = np.zeros(0, np.bool_)
        self._tints = _tints(self._weights, self._visible)
        self._query = -1
        self._key = -1
        self._hover = (-1, -1)
        self.highlighted: frozenset[int] = frozenset()
        self._looks: list[Look] = []
        self._wrapped = True
        self._room = 0
        """Height that can be seen at a time."""
        self._seen = 0.0, 0.0
        """From where to where a single line can be seen."""
        self._line = 0.0
        """Height of a token."""
        self.above = 0
        """Height above every line in which arcs go from the query to its keys; 0 where there are none."""
        self.weighed = -1
        """The query that the weights are of."""
        self.fanned = 1.0
        """How far the arcs have come from the query."""
        self.arriving = -1
        """A token that is on its way to its place, and not there yet."""
        self._written: dict[str, tuple[str, float]] = {}
        """What is written for a token's text, and how wide a token that is; long texts repeat theirs."""
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.setInterval(0)
        self._next.timeout.connect(self._place_some)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("tokens of the run; arrow keys select the query")

    # What is shown ------------------------------------------------------------------------------------------------

    def set_tokens(self, tokens: Sequence[TokenText], prefill: int) -> None:
        """Show these tokens; those from ``prefill`` on were decoded and stand apart."""
        if (tokens, prefill) == (self._tokens, self._prefill):
            return
        same = _in_common(tokens, self._tokens) if prefill == self._prefill else 0
        self._tokens, self._prefill = tokens, prefill
        if same == 0:
            self.arrange()
            return
        del self._looks[same:]
        self._place_some()

    def set_weights(self, weights: Doubles, visible: Bools, query: int = -1) -> None:
        """Tint the tokens by the weights [S] of a query, and draw its arcs; hidden keys have neither."""
        before, self.weighed = self._tints, query
        self._weights, self._visible, self._tints = weights, visible, _tints(weights, visible)
        differs = np.ones(len(self._tokens), np.bool_)
        both = min(len(before), len(self._tints), len(differs))
        differs[:both] = before[:both] != self._tints[:both]
        seen = self._within(self.visibleRegion().boundingRect())
        for position in seen.start + np.flatnonzero(differs[seen.start : seen.stop]):
            self.update(self.box_of(int(position)).toAlignedRect())
        self._repaint_arcs()

    def set_selection(self, query: int, key: int) -> None:
        """Outline the query in amber and the key in blue."""
        before, self._query, self._key = (self._query, self._key), query, key
        self.setAccessibleDescription(f"{self.describe(query, 'query')}; {self.describe(key, 'key')}")
        self._repaint(place for pair in zip(before, (query, key), strict=True) if pair[0] != pair[1] for place in pair)
        if before[0] != query:
            self._repaint_arcs()

    def set_hover(self, query: int, key: int) -> None:
        """Mark what is pointed at; -1 for none."""
        before, self._hover = self._hover, (query, key)
        self._repaint({*before} ^ {query, key})

    def _repaint(self, positions: Iterable[int]) -> None:
        """Paint some tokens anew, and nothing else."""
        for position in positions:
            if 0 <= position < len(self._looks):
                self.update(self.box_of(position).adjusted(-12, -6, 12, self._small_height() + 4).toAlignedRect())

    def set_highlighted(self, positions: frozenset[int]) -> None:
        """Ring these tokens."""
        if positions != self.highlighted:
            self.highlighted = positions
            self.update()

    def describe(self, position: int, role: str) -> str:
        """Say a token in words, as ``query 8 ·was``."""
        if not 0 <= position < len(self._tokens):
            return f"no {role}"
        return f"{role} {position} {self._tokens[position].inline}"

    def weight_of(self, position: int) -> float | None:
        """The weight that tints a token; None where it is hidden from the query."""
        if position < len(self._weights) and self._visible[position]:
            return float(self._weights[position])
        return None

    def tint(self, position: int) -> QColor:
        """The ground of a token."""
        return _ground(theme.current().name, int(self._tints[position]) if position < len(self._tints) else 0)

    # Arcs ---------------------------------------------------------------------------------------------------------

    def arch(self, height: int) -> None:
        """Leave so much room above every line for arcs from the query; 0 for none."""
        if height != self.above:
            self.above = height
            self.arrange()

    def show_step(self, arriving: int, fanned: float) -> None:
        """Leave the place of a token empty that is on its way, and let the arcs come so far."""
        before, self.arriving = self.arriving, arriving
        self._repaint({before} ^ {arriving})
        if fanned != self.fanned:
            self.fanned = fanned
            self._repaint_arcs()

    @property
    def arcs(self) -> list[int]:
        """The keys to which arcs go: those that the query gives at least :data:`LEAST_ARC` of its weight."""
        if not self.above or self.weighed != self._query or self._query >= len(self._looks):
            return []
        heavy = self._visible & (self._weights >= LEAST_ARC)
        keys = np.flatnonzero(heavy[: len(self._looks)])
        if len(keys) > MOST_ARCS:  # the weights of a damaged file may be anything, and each arc takes its time
            keys = np.sort(keys[np.argsort(-self._weights[keys], kind="stable")[:MOST_ARCS]])
        return [int(key) for key in keys]

    def arc(self, key: int, until: float = 1.0) -> QPainterPath:
        """The arc from the query to a key, or the first part of it."""
        start, end = (QPointF(self.box_of(one).center().x(), self.box_of(one).top() - 1) for one in (self._query, key))
        if key == self._query:  # a loop
            out = self.box_of(key).width() / 2
            start, end = start - QPointF(out / 4, 0), end + QPointF(out / 4, 0)
            first, second = start - QPointF(out, self.above), end + QPointF(out, -self.above)
        else:  # the farther, the higher
            far = min(abs(start.x() - end.x()) / max(self.width() / 2, 1), 1) if start.y() == end.y() else 1.0
            up, along = QPointF(0, self.above * (0.5 + 0.75 * far)), (end - start) * 0.2
            first, second = start + QPointF(along.x(), 0) - up, end - QPointF(along.x(), 0) - up
        return _first_part(start, first, second, end, until)

    def _repaint_arcs(self) -> None:
        if self.above:
            self.update()

    def _paint_arcs(self, painter: QPainter) -> None:
        now = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for key in self.arcs:
            weight = float(self._weights[key])
            pen = QPen(ink.faded(now.key, 0.3 + 0.7 * weight), 1 + now.grid(0.5) * weight)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            painter.setPen(pen)
            painter.drawPath(self.arc(key, self.fanned))

    # Layout -------------------------------------------------------------------------------------------------------

    @property
    def is_wrapped(self) -> bool:
        """Whether tokens that do not fit in one line go on in another one."""
        return self._wrapped

    def wrap(self, wrapped: bool) -> None:
        """Stand in as many lines as it takes, or in one that is as long as it takes."""
        if wrapped != self._wrapped:
            self._wrapped = wrapped
            self.arrange()

    def arrange(self) -> None:
        """Place the tokens in the width there is."""
        self._looks, self._written = [], {}
        self._line = face(_font()).height + theme.current().grid(0.75)
        self._place_some()

    @property
    def is_placed(self) -> bool:
        """Whether every token has its place."""
        return len(self._looks) == len(self._tokens)

    def _place_some(self) -> None:
        """Place as many of the tokens that follow as one turn of the event loop has time for."""
        start = len(self._looks)
        self._place(start, min(start + AT_ONCE, len(self._tokens)))
        last = self._looks[-1].top if self._looks else 0.0
        height = self._wanted_height()
        self.setMinimumHeight(height)
        end = 0 if self._wrapped or not self._looks else self._looks[-1].left + self._looks[-1].width
        self.setMinimumWidth(math.ceil(end) + 1)
        top = self._looks[start].top if start < len(self._looks) else last
        self.update(0, math.floor(top) - 6, self.width(), max(height, self.height()))
        if self.is_placed:
            self._next.stop()
            self.placed.emit()
        else:
            self._next.start()

    def set_room(self, height: int) -> None:
        """Hear how much of the strip can be seen at a time."""
        if height != self._room:
            self._room = height
            self.setMinimumHeight(self._wanted_height())
            self.room_changed.emit()

    def set_seen(self, left: float, right: float) -> None:
        """Hear which part of a single line can be seen: its tokens are drawn whole or not at all."""
        if (left, right) != self._seen:
            self._seen = left, right
            if not self._wrapped:
                self.update()
                self.room_changed.emit()

    @property
    def aside(self) -> int:
        """Width at the ends of a single line for the sign that it goes on."""
        return theme.current().grid(2)

    def _whole(self) -> range:
        """The tokens of a single line that can be seen whole."""
        left, right = self._seen
        left, right = left + self.aside * (left > 0), right - self.aside * (right < self.width())
        first = bisect_left(self._looks, left, key=lambda look: look.left)
        return range(first, bisect_right(self._looks, right, lo=first, key=lambda look: look.left + look.width))

    def _wanted_height(self) -> int:
        """Height of the tokens; of more than can be seen at a time enough to scroll to whole lines at the end."""
        if not self._looks:
            return 0
        last = self._looks[-1].top
        last_line = last - self.above
        height = math.ceil(last + self._line + self._small_height() + 2)
        return height if height <= self._room else max(height, self.scroll_for(last_line, at_end=True) + self._room)

    def _place(self, start: int, stop: int) -> None:
        """Place tokens after the one before ``start``."""
        now, letters, small = theme.current(), face(_font()), face(theme.current().font("label"))
        pad, gap = now.grid(1), now.grid(0.75)
        digit = small.metrics.horizontalAdvance("0")
        room = max(self.width() - 2.0, 1.0) if self._wrapped else math.inf
        apart, pitch = now.grid(2), self._pitch()
        left, top = 1.0, 1.0 + self.above
        if start:
            left, top = self._looks[start - 1].left + self._looks[start - 1].width + gap, self._looks[start - 1].top
        for position in range(start, stop):
            token = self._tokens[position]
            written = self._written.get(token.text)
            if written is None:
                text = theme.drawable(token.text, "formula")
                written = self._written[token.text] = text, letters.metrics.horizontalAdvance(text) + 2 * pad
            text, width = written
            below = f"{position} {theme.drawable(isolated(token.character), 'label')}" if token.character else ""
            width = max(width, (small.metrics.horizontalAdvance(below) if below else digit * len(str(position))) + 4)
            width = min(width, room)
            joined = position > 0 and token.group >= 0 and token.group == self._tokens[position - 1].group
            if position == self._prefill and position > 0:
                left += apart
            elif joined:
                left -= gap - 1
            if left > 1 and left + width > room + 1:
                left, top = 1.0, top + pitch
            self._looks.append(Look(left, top, width, text))
            left += width + gap

    def _small_height(self) -> float:
        """Height of the position under a token."""
        return face(theme.current().font("label")).height

    def line_height(self) -> int:
        """Height of one line of tokens with their positions."""
        now = theme.current()
        return math.ceil(self.above + face(_font()).height + now.grid(0.75) + self._small_height() + 3)

    def height_of(self, lines: int) -> int:
        """Height in which some lines of tokens surely fit: a layout may give a pixel less than it was asked for."""
        return self.line_height() + math.ceil((lines - 1) * self._pitch()) + 2

    @property
    def lines(self) -> int:
        """Lines that the tokens take."""
        return round((self._looks[-1].top - self.above - 1) / self._pitch()) + 1 if self._looks else 0

    @property
    def length(self) -> float:
        """Width of all tokens in one line, or infinite where that is out of the question."""
        if self.lines > 2:
            return math.inf
        gap, apart = theme.current().grid(0.75), theme.current().grid(2)
        return sum(look.width + gap for look in self._looks) + apart * (0 < self._prefill < len(self._looks))

    def out_of_sight(self, scroll: int) -> tuple[int, int]:
        """How many tokens are above and below what is seen at a scroll position; of a single line, before and after."""
        if not self._wrapped:
            whole = self._whole()
            return whole.start, len(self._tokens) - whole.stop
        first = bisect_left(self._looks, scroll + self.above, key=lambda look: math.floor(look.top))
        lowest = scroll + self.above + max(self._room - self.line_height(), 0) + 1
        return first, len(self._tokens) - bisect_right(self._looks, lowest, key=lambda look: math.floor(look.top))

    def scroll_for(self, height: float, at_end: bool = False) -> int:
        """Where to scroll to so that the line nearest to a height is the first in sight, or the last one."""
        pitch = self._pitch()
        before = max(math.floor((self._room - self.line_height()) / pitch), 0) if at_end else 0
        return math.floor(max(round((height - 1) / pitch) - before, 0) * pitch)

    def _pitch(self) -> float:
        """From one line to the next."""
        return self.above + self._line + self._small_height() + theme.current().grid(0.75)

    def box_of(self, position: int) -> QRectF:
        """The rectangle of a token; empty while it has no place yet."""
        if position >= len(self._looks):
            return QRectF()
        look = self._looks[position]
        return QRectF(look.left, look.top, look.width, self._line)

    def token_at(self, point: QPointF) -> int:
        """Return the position of the token under a point, -1 where there is none."""
        under = self._small_height()
        for position in self._within(QRectF(point.x(), point.y() - under, 1, under).toAlignedRect()):
            if self.box_of(position).adjusted(0, 0, 0, under).contains(point):
                return position
        return -1

    def _within(self, area: QRect) -> range:
        """The tokens, or the lines of them, that reach into a part of the strip, their positions included."""
        if self._wrapped:
            start, end = area.top() - self._small_height() - 4 - self._line, area.bottom() + 5.0
            first = bisect_left(self._looks, start, key=lambda look: look.top)
            return range(first, bisect_right(self._looks, end, key=lambda look: look.top))
        start, end = area.left() - BESIDE, area.right() + BESIDE
        first = bisect_right(self._looks, start, key=lambda look: look.left) - 1
        return range(max(first, 0), bisect_right(self._looks, end, key=lambda look: look.left))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap anew."""
        if self._wrapped and event.oldSize().width() != event.size().width():
            self.arrange()

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the tokens that need it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        dirty, kind = event.region(), Type.of(theme.current())
        within = self._within(event.rect())
        whole = within if self._wrapped else self._whole()
        self._paint_arcs(painter)  # behind the tokens, which stay readable
        for position in range(max(within.start, whole.start), min(within.stop, whole.stop)):
            box = self.box_of(position)
            if position != self.arriving and dirty.intersects(
                box.adjusted(-8, -4, 8, kind.small_height).toAlignedRect()
            ):
                self._paint_token(painter, position, box, kind)
        if 0 < self._prefill < len(self._looks):
            self._paint_seam(painter)
        if not self._wrapped:
            self._paint_ends(painter, whole)
        painter.end()

    def _paint_token(self, painter: QPainter, position: int, box: QRectF, kind: Type) -> None:
        now = kind.now
        token, ground = self._tokens[position], self.tint(position)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        painter.drawRoundedRect(box, kind.radius, kind.radius)
        pen = self._outline(position, token)
        if pen is not None:
            painter.setPen(pen)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            inset = pen.widthF() / 2
            painter.drawRoundedRect(box.adjusted(inset, inset, -inset, -inset), kind.radius, kind.radius)
        hidden = self._weights.size and self.weight_of(position) is None
        font = kind.slanted if token.kind == "special" else kind.font
        colour = now.faint if hidden else _readable(now.name, ground.rgb())
        inner = box.adjusted(2, 0, -2, 0)
        text = self._looks[position].text
        ink.draw_text(painter, inner, text, font, colour, ink.CENTRE, Qt.TextElideMode.ElideMiddle)
        self._paint_position(painter, position, box, kind)
        if position in self.highlighted:
            highlight.ring(painter, box.adjusted(1, 1, -1, -1))

    def _outline(self, position: int, token: TokenText) -> QPen | None:
        now = theme.current()
        wide = now.grid(0.25)
        if position == self._query:
            return QPen(now.query, wide)
        if position == self._key:
            return QPen(now.key, wide)
        if position in self._hover:
            return QPen(now.text, 1, Qt.PenStyle.DotLine)
        if token.kind == "bytes":
            return QPen(now.faint, 1, Qt.PenStyle.DashLine)
        if token.kind == "special":
            return QPen(now.faint, 1)
        return None

    def _paint_position(self, painter: QPainter, position: int, box: QRectF, kind: Type) -> None:
        """The position under the token, and the character that a group of byte tokens spells."""
        now = kind.now
        tone = now.query if position == self._query else now.key if position == self._key else now.faint
        character = self._tokens[position].character
        text = f"{position} {theme.drawable(isolated(character), 'label')}" if character else str(position)
        under = QRectF(box.left() - 8, box.bottom(), box.width() + 16, kind.small_height)
        ink.draw_text(painter, under, text, kind.small, tone, ink.CENTRE)

    def _paint_ends(self, painter: QPainter, whole: range) -> None:
        """Say where a single line goes on."""
        (left, right), now = self._seen, theme.current()
        for sign, start, hidden in (
            ("‹", left, whole.start > 0),
            ("›", right - self.aside, whole.stop < len(self._looks)),
        ):
            if hidden:
                ink.draw_text(
                    painter, QRectF(start, 1 + self.above, self.aside, self._line), sign, _font(), now.faint, ink.CENTRE
                )

    def _paint_seam(self, painter: QPainter) -> None:
        """A dotted line between the prompt and what was decoded."""
        now = theme.current()
        box = self.box_of(self._prefill)
        x = max(box.left() - now.grid(1.4), 1.0)
        painter.setPen(QPen(now.faint, 2, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))

    # Input --------------------------------------------------------------------------------------------------------

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Pick the query, or with shift the key."""
        position = self.token_at(event.position())
        if position < 0 or event.button() != Qt.MouseButton.LeftButton:
            return
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.key_picked.emit(position)
        else:
            self.query_picked.emit(position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a token."""
        self.pointed.emit(self.token_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Point at nothing."""
        self.pointed.emit(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pick the token beside the query."""
        step = arrow_keys.step_of(event, arrow_keys.SIDEWAYS)
        if step is None:
            super().keyPressEvent(event)
        elif 0 <= self._query + step[0] < len(self._tokens):
            self.query_picked.emit(self._query + step[0])

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and say the token in a tooltip of plain text."""
        if arrow_keys.kept(event, arrow_keys.SIDEWAYS):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            position = self.token_at(QPointF(event.pos()))
            if position < 0:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), wording.tooltip(self.tip(position)), self)
            return True
        return super().event(event)

    def tip(self, position: int) -> str:
        """Everything about one token, in words."""
        token = self._tokens[position]
        origin = "prompt" if position < self._prefill else "decoded"
        kind = {"text": "", "special": " · special token", "bytes": " · raw bytes"}[token.kind]
        part = f" of {isolated(token.character)}" if token.character else ""
        weight = self.weight_of(position)
        share = "hidden from the query" if weight is None else f"weight {wording.number(weight)}"
        return f"{token.inline}\nposition {position} · id {token.id} · {origin}{kind}{part}\n{share}"


def _in_common(some: Sequence[TokenText], others: Sequence[TokenText]) -> int:
    """How many tokens two runs begin with alike, as far as one goes on from the other; else 0."""
    count = min(len(some), len(others))
    for same in range(count, max(count - CHANGEABLE, 0), -1):
        if some[:same] == others[:same]:
            return same
    return 0


def _first_part(start: QPointF, first: QPointF, second: QPointF, end: QPointF, until: float) -> QPainterPath:
    """A cubic curve up to a share of it, by de Casteljau's construction."""

    def between(one: QPointF, other: QPointF) -> QPointF:
        return one + (other - one) * until

    along = between(start, first), between(first, second), between(second, end)
    bent = between(along[0], along[1]), between(along[1], along[2])
    path = QPainterPath(start)
    path.cubicTo(along[0], bent[0], between(*bent))
    return path


TINTS = 100
"""Grounds that are told apart."""


def _tints(weights: Doubles, visible: Bools) -> NDArray[np.intp]:
    """The number of each token's ground [S], 0 for hidden ones: small weights differ as much as large ones."""
    shares = 0.08 + 0.92 * np.clip(np.nan_to_num(weights), 0, 1) ** 0.6
    tints: NDArray[np.intp] = np.where(visible, np.rint(shares * TINTS), 0).astype(np.intp)
    return tints


@lru_cache(maxsize=4 * TINTS)
def _ground(name: theme.ThemeName, tint: int) -> QColor:
    """The ground of a number in a theme."""
    now = theme.themed(name)
    return ink.mixed(now.panel, now.key, 0.75 * tint / TINTS)


@lru_cache(maxsize=1024)
def _readable(name: theme.ThemeName, ground: int) -> QColor:
    """The colour that can be read on a ground in a theme."""
    return theme.themed(name).ink_on(QColor.fromRgb(ground))


def _font() -> QFont:
    """The type of the tokens; doubled, the smaller one is large enough."""
    now = theme.current()
    return now.font("number" if now.projector else "formula")


class StripArea(QScrollArea):
    """Shows as much of the strip as there is room for, and tells it how much that is."""

    def __init__(self, strip: TokenStrip) -> None:
        super().__init__()
        self._strip = strip
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(strip)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setAutoFillBackground(False)
        strip.setAutoFillBackground(False)

        self.horizontalScrollBar().valueChanged.connect(self._tell_seen)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell the strip."""
        super().resizeEvent(event)
        self._strip.set_room(self.viewport().height())
        self._tell_seen()

    def _tell_seen(self) -> None:
        left = self.horizontalScrollBar().value()
        self._strip.set_seen(left, left + self.viewport().width())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Go along a single line as through several."""
        if self._strip.is_wrapped:
            super().wheelEvent(event)
        else:
            QApplication.sendEvent(self.horizontalScrollBar(), event)
