"""One plane as a large dial: the hands of query and key, where they were before rotation, and the angle between."""

from __future__ import annotations

import math
from collections import deque
from itertools import product

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QWidget

from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.turning import Turned, angles_between
from ropewalk.views.style import ink, theme, wording

REACH = 0.86
"""The longer hand, as a share of the radius."""
ARC = 0.3
"""The arc between the hands."""
CONTENT_ARC = 0.2
"""That between the ghosts: the angle of the contents."""
KEY = 1.6
"""How much broader the key's hand is than the query's, which is drawn upon it."""
TICK = 15
"""Degrees from a tick to the next."""
TRAIL = 12
"""Places that a hand leaves a dot at."""
FAR = 1.0
"""Positions beyond which a hand has jumped, and leaves no trail."""
ASIDE = (0, 30, -30, 60, -60, 90, -90, 130, -130, 180)
"""Degrees from outwards that a label may stand aside from its hand."""
GAPS = (0.7, 1.6, 2.8)
"""Lines of type from a hand to its label."""

LETTERED = 16
"""Lines of type from which on the angles are written around the circle."""

Lines = tuple[tuple[int, ...], ...]
"""Which parts of a sentence stand together on a line."""


class Dial(QWidget):
    """The selected plane. The longer hand nearly fills it, the other is to its scale; below stands what they are."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.plane = 0
        self.trail: deque[Turned] = deque(maxlen=TRAIL)
        """Where the hands have just been, the oldest first."""
        self.circle = QRectF()
        self.labels: dict[str, QRectF] = {}
        """Where the hands and ghosts are named, by what they are called."""
        self._line = self._row = 1.0
        self._font = theme.current().font("label")
        self._headed = False
        self._lettered = False
        self._below: dict[int, Lines] = {}
        self.setAccessibleName("The selected plane as a dial")

    def show_turned(self, turned: Turned) -> None:
        """Draw the hands elsewhere; a hand that has turned there leaves a trail, one that jumped none."""
        before, self.turned = self.turned, turned
        if before is None or before.reading is not turned.reading or not turned.moved:
            self.trail.clear()
        else:
            moved = max(abs(turned.position - before.position), abs(turned.shift - before.shift))
            if moved > FAR:
                self.trail.clear()
            elif moved:
                self.trail.append(before)
        self._tell()

    def mark(self, plane: int) -> None:
        """Show another plane."""
        self.plane = plane
        self._tell()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.lay_out()
        self.update()

    def sizeHint(self) -> QSize:
        """A circle and a few lines."""
        return QSize(240, 280)

    def _tell(self) -> None:
        words = self.sentence()
        self.setAccessibleDescription(words)
        self.setToolTip(wording.tooltip(words))
        self.update()

    # In words -----------------------------------------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return self.turned is not None and 0 <= self.plane < len(self.turned.reading.features)

    @property
    def content(self) -> float:
        """The angle from k to q before rotation."""
        assert self.turned is not None
        r, here = self.turned.reading, slice(self.plane, self.plane + 1)
        return float(angles_between(r.q_before[here], r.k_before[here])[0])

    def heading(self) -> tuple[str, str]:
        """Name the plane and its features, and say how fast it turns."""
        assert self.turned is not None
        r, plane = self.turned.reading, self.plane
        first, second = (int(feature) for feature in r.features[plane])
        theta = float(r.query_frequencies[plane])
        turns = f"θ = {wording.significant(theta)} rad = {hands.speed(theta)} a position"
        return f"Plane {plane}: features {first}, {second}", f"{turns} · a turn in {hands.wavelength(theta)} positions"

    def texts(self) -> tuple[tuple[str, ...], ...]:
        """What is written below the circle, each in parts that stay on one line."""
        turned, plane = self.turned, self.plane
        assert turned is not None
        r = turned.reading
        return (
            hands.angle_words(turned, plane, self.content),
            hands.share_words(turned, plane),
            hands.pair_words("q", r.q_before[plane], turned.q_after[plane]),
            hands.pair_words("k", r.k_before[plane], turned.k_after[plane]),
        )

    def names(self) -> tuple[str, str, str, str]:
        """What the hands are called, then the ghosts; shorter where the dial is small."""
        assert self.turned is not None
        if self.circle.width() < 12 * self._line:
            return "q", "k", "", ""
        m, n = hands.place(self.turned.position), hands.place(self.turned.key_position)
        return f"q at m = {m}", f"k at n = {n}", "q before rotation", "k before rotation"

    def sentence(self) -> str:
        """All that is written, in words."""
        if not self._is_there:
            return ""
        return "\n".join((" · ".join(self.heading()), *map("".join, self.texts())))

    # Where everything is ------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange anew."""
        super().resizeEvent(event)
        self.lay_out()

    def lay_out(self) -> None:
        """Give the circle most of the room, then lines below it as long as it stays large."""
        now, width, height = theme.current(), self.width(), self.height()
        line = self._line = ink.line_height(now.font("label"))
        self._headed = height >= 14 * line
        self._lettered = min(width, height) >= LETTERED * line
        top = ink.line_height(now.font("heading")) + line if self._headed else 0.0
        aside, above = (ink.text_width(now.font("label"), "270°") + 4, line) if self._lettered else (1.0, 1.0)

        def side(below: float) -> float:
            return max(min(width - 2 * aside, height - top - 2 * above - below), 1.0)

        for larger in (1.4, 1.2, 1.0):
            self._font = now.font("label")
            self._font.setPixelSize(round(larger * now.size("label")))
            high = self._row = ink.line_height(self._font)
            self._below, taken = {}, 0.0
            for which, parts in enumerate(hands.WIDEST):
                lines = self._flowed(parts)
                more = taken + high * len(lines)
                least = side(0) if larger > 1 else min(0.8 * side(0), 14 * line)
                if lines and side(more) >= least:
                    self._below[which], taken = lines, more
            if len(self._below) == len(hands.WIDEST):
                break
        diameter = side(taken)
        middle = top + above + (height - top - 2 * above - taken) / 2
        self.circle = QRectF((width - diameter) / 2, middle - diameter / 2, diameter, diameter)

    def _flowed(self, parts: tuple[str, ...]) -> Lines:
        """Break a sentence into as few lines as its parts need; none where one of them is too long."""
        lines: list[list[int]] = [[]]
        for place, part in enumerate(parts):
            if ink.text_width(self._font, part.strip()) > self.width():
                return ()
            if ink.text_width(self._font, "".join(parts[i] for i in (*lines[-1], place))) > self.width():
                lines.append([])
            lines[-1].append(place)
        return tuple(map(tuple, lines))

    @property
    def radius(self) -> float:
        """Pixels of the longer hand."""
        return REACH * self.circle.width() / 2

    def hand(self, turned: Turned, name: str) -> tuple[QPointF, bool]:
        """Where a hand or a ghost ends, and whether it is shorter than that."""
        r = turned.reading
        pairs = {"q": turned.q_after, "k": turned.k_after, "q before": r.q_before, "k before": r.k_before}[name]
        whole = float(hands.radii(r)[self.plane])
        return hands.end_of(self.circle.center(), self.radius, pairs[self.plane], whole)

    def _label_box(self, end: QPointF, size: QSizeF, taken: list[QRectF], lines: list[QPointF]) -> QRectF:
        """Beside the end of a hand, rather outwards: upon no other label, and on as little of the hands as can be."""
        way, dot = end - self.circle.center(), 1.5 * self._hand_width
        outwards = math.atan2(-way.y(), way.x())
        above = self._line if self._lettered else 0.0
        room = QRectF(0, self.circle.top() - above, self.width(), self.circle.height() + 2 * above)
        best, least = QRectF(), math.inf
        for gap, aside in product(GAPS, ASIDE):
            x, y = math.cos(outwards + math.radians(aside)), -math.sin(outwards + math.radians(aside))
            out = gap * self._line + abs(x) * size.width() / 2 + abs(y) * size.height() / 2
            box = QRectF(QPointF(), size)
            box.moveCenter(end + QPointF(x, y) * out)
            box.moveLeft(max(min(box.left(), room.right() - size.width()), room.left()))
            box.moveTop(max(min(box.top(), room.bottom() - size.height()), room.top()))
            near = box.adjusted(-dot, -dot, dot, dot)
            worse = 100 * sum(map(box.intersects, taken)) + sum(map(near.contains, lines))
            if worse < least:
                best, least = box, worse
            if worse == 0:
                break
        return best

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint everything."""
        if not self._is_there:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_circle(painter)
        self._paint_before(painter)
        self._paint_trail(painter)
        self._paint_hands(painter)
        self._paint_labels(painter)
        self._paint_texts(painter)
        painter.end()

    def _paint_circle(self, painter: QPainter) -> None:
        now, circle = theme.current(), self.circle
        painter.setBrush(now.field)
        painter.setPen(QPen(now.line, 1.5))
        painter.drawEllipse(circle)
        centre, radius = circle.center(), circle.width() / 2
        for degrees in range(0, 360, TICK):
            x, y = math.cos(math.radians(degrees)), -math.sin(math.radians(degrees))
            inner = radius - (0.06 if degrees % 90 == 0 else 0.03) * radius - 2
            painter.drawLine(centre + QPointF(x, y) * inner, centre + QPointF(x, y) * radius)
        for degrees, box in self._letters().items():
            ink.draw_text(painter, box, f"{degrees}°", now.font("label"), now.faint, ink.CENTRE)

    def _letters(self) -> dict[int, QRectF]:
        """Where angles are written around the circle."""
        if not self._lettered:
            return {}
        font, centre, radius = theme.current().font("label"), self.circle.center(), self.circle.width() / 2
        boxes = {}
        for degrees, (x, y) in zip((0, 90, 180, 270), ((1, 0), (0, -1), (-1, 0), (0, 1)), strict=True):
            width = ink.text_width(font, f"{degrees}°")
            at = centre + QPointF(x * (radius + width / 2 + 3), y * (radius + self._line / 2))
            boxes[degrees] = QRectF(at.x() - width / 2, at.y() - self._line / 2, width, self._line)
        return boxes

    def _paint_before(self, painter: QPainter) -> None:
        """The ghosts, and the angle between them."""
        assert self.turned is not None
        now, r, centre = theme.current(), self.turned.reading, self.circle.center()
        radius = CONTENT_ARC * self.circle.width() / 2
        pen = QPen(now.faint, 1, Qt.PenStyle.DashLine)
        hands.draw_arc(painter, centre, radius, r.k_before[self.plane], self.content, pen)
        width = max(self.radius / 90, 1.2)
        for name, colour in (("k before", now.key), ("q before", now.query)):
            hands.draw_ghost(painter, centre, self.hand(self.turned, name)[0], colour, width)

    def _paint_trail(self, painter: QPainter) -> None:
        now = theme.current()
        painter.setPen(Qt.PenStyle.NoPen)
        size = 0.9 * self._hand_width
        for age, turned in enumerate(reversed(self.trail)):
            for name, colour in (("k", now.key), ("q", now.query)):
                painter.setBrush(ink.faded(colour, 0.55 * (1 - age / TRAIL)))
                painter.drawEllipse(self.hand(turned, name)[0], size, size)

    @property
    def _hand_width(self) -> float:
        return max(self.radius / 42, 2.0)

    def _paint_hands(self, painter: QPainter) -> None:
        turned = self.turned
        assert turned is not None
        now, centre = theme.current(), self.circle.center()
        pen = QPen(now.text, max(self.radius / 90, 1.5))
        start, angle = turned.k_after[self.plane], float(turned.between[self.plane])
        hands.draw_arc(painter, centre, ARC * self.circle.width() / 2, start, angle, pen)
        for name, colour, width in (("k", now.key, KEY), ("q", now.query, 1.0)):
            end, hollow = self.hand(turned, name)
            hands.draw_hand(painter, centre, end, colour, width * self._hand_width, hollow)

    def _paint_labels(self, painter: QPainter) -> None:
        """Name the hands, then the ghosts, and write the angle."""
        turned = self.turned
        assert turned is not None
        now, centre = theme.current(), self.circle.center()
        whose = ("q", "k", "q before", "k before")
        ends = [self.hand(turned, name)[0] for name in whose]
        lines = [centre + (end - centre) * (step / 15) for end in ends for step in range(16)]
        taken = list(self._letters().values())
        taken.append(self._paint_angle(painter, taken, lines))
        self.labels.clear()
        for name, end, text, colour in zip(whose, ends, self.names(), (now.query, now.key) * 2, strict=True):
            if text:
                font = now.font("label" if "before" in name else "heading")
                lettering = QFontMetricsF(font)
                size = QSizeF(lettering.horizontalAdvance(text) + 4, lettering.height())
                box = self._label_box(end, size, taken, lines)
                faint = ink.mixed(now.field, colour, 0.75)
                self._write(painter, box, text, font, faint if "before" in name else colour)
                taken.append(box)
                self.labels[name] = box

    def _paint_angle(self, painter: QPainter, taken: list[QRectF], lines: list[QPointF]) -> QRectF:
        """Write the angle at the middle of its arc, or beside the hands where there is no room between them."""
        turned = self.turned
        assert turned is not None
        now, radius = theme.current(), self.circle.width() / 2
        angle, start = float(turned.between[self.plane]), turned.k_after[self.plane]
        middle = math.atan2(float(start[1]), float(start[0])) + angle / 2
        font = now.font("title")
        font.setPixelSize(max(round(0.13 * radius), now.size("label")))
        lettering, text = QFontMetricsF(font), hands.in_degrees(angle)
        size = QSizeF(lettering.horizontalAdvance(text) + 4, lettering.height())
        at = self.circle.center() + QPointF(math.cos(middle), -math.sin(middle)) * ARC * radius
        box = self._label_box(at, size, taken, lines)
        self._write(painter, box, text, font, now.text)
        return box

    def _write(self, painter: QPainter, box: QRectF, text: str, font: QFont, colour: QColor) -> None:
        """Write what changes with every frame, on a ground of its own."""
        ground = theme.current().field if self.circle.contains(box) else theme.current().panel
        painter.fillRect(box, ink.faded(ground, 0.75))
        painter.setFont(font)
        painter.setPen(colour)
        painter.drawText(box, int(ink.CENTRE | Qt.TextFlag.TextSingleLine), text)

    def _paint_texts(self, painter: QPainter) -> None:
        now, width = theme.current(), self.width()
        if self._headed:
            name, about = self.heading()
            heading, label = now.font("heading"), now.font("label")
            names, abouts = (
                (name, name.partition(":")[0]),
                (about, about.partition(" · ")[0], about.rpartition(" = ")[0]),
            )
            high = ink.line_height(heading)
            name, about = ink.first_fitting(heading, names, width), ink.first_fitting(label, abouts, width)
            ink.draw_text(painter, QRectF(0, 0, width, high), name, heading, now.text)
            ink.draw_text(painter, QRectF(0, high, width, self._line), about, label, now.faint)
        painter.setFont(self._font)
        y = self.height() - self._row * sum(map(len, self._below.values()))
        texts, colours = self.texts(), (now.text, now.text, now.query, now.key)
        for which, lines in self._below.items():
            painter.setPen(colours[which])
            for line in lines:
                said = "".join(texts[which][part] for part in line).strip()
                painter.drawText(QRectF(0, y, width, self._row), int(ink.LEFT | Qt.TextFlag.TextSingleLine), said)
                y += self._row
