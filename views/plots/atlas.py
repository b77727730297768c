"""The atlas: every head's thumbnail in one painted picture, with what is written under it and which head is marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygon,
    QResizeEvent,
)
from PySide6.QtWidgets import QScrollArea, QToolTip, QWidget

from ropewalk.model.readings.records import AtlasPart, Doubles, Floats, HeadAtlas
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.atlas_plan import Metrics, Place, Plan, Planner
from ropewalk.views.style import highlight, ink, theme, wording

LAYER_ORDER = "layer order"
Order = Literal["largest", "smallest", "farthest"]
"""Which values come first: those farthest from 0 where they are changes."""


class AtlasView(QWidget):
    """The painted atlas. It knows the picture and which head is marked, nothing of the session."""

    head_clicked = Signal(int, int)
    menu_wanted = Signal(int, int, QPoint)
    """The right button or the Menu key was pressed on a head, and where on the screen."""
    head_silenced = Signal(int, int)
    """A click, or Enter on the selected head, while :attr:`silencing`."""
    head_pointed = Signal(int, int)
    """Layer and head under the pointer, −1 and −1 where there is none."""
    painted = Signal()
    """All that there is has been painted into the picture."""

    HEADS_AT_ONCE = 32
    """Thumbnails that are painted in one turn of the event loop."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plan = Plan()
        self.atlas: HeadAtlas | None = None
        self.group = 1
        self.score = ""
        self.sorted_by = LAYER_ORDER
        self.order: Order = "largest"
        self.least = 0.0
        """Heads are left out of the sorted ones whose value is not that far; 0 leaves none out."""
        self.pinned: frozenset[tuple[int, int]] = frozenset()
        self.noted: frozenset[tuple[int, int]] = frozenset()
        self.selected = (0, 0)
        self.pointed = (-1, -1)
        self.highlighted: frozenset[tuple[int, int]] = frozenset()
        self.silencing = False
        self.silent: frozenset[tuple[int, int]] = frozenset()
        """Heads that give nothing: they are greyed and crossed out."""
        self.room = QSize(1, 1)
        self._picture = QPixmap()
        self._plan_made_for: tuple[object, ...] = ()
        self._picture_made_for: tuple[object, ...] = ()
        self._painted: Floats = np.zeros((0, 0, 0, 0), np.float32)
        """The thumbnails that the picture shows."""
        self._waiting: list[int] = []
        """Layers that are still to be painted into it."""
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.setInterval(0)
        self._next.timeout.connect(self._paint_some)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Thumbnails of all heads; arrow keys select")

    # Content ------------------------------------------------------------------------------------------------------

    def show_atlas(self, atlas: HeadAtlas, group: int) -> None:
        """Take new thumbnails and scores; ``group`` query heads share a kv head."""
        self.atlas, self.group = atlas, group
        self.lay_out()

    def take_scores(self, atlas: HeadAtlas) -> None:
        """Take other scores of the same thumbnails."""
        self.atlas = atlas

    def begin(self, layers: int, heads: int, side: int, group: int, *, keep: bool = False) -> None:
        """Take thumbnails that are still to come, [layers, heads, side, side].

        Until then they are empty, or with ``keep`` those of the same run one step earlier.
        """
        shape = (layers, heads, side, side)
        if keep and self.atlas is not None and self.atlas.thumbnails.shape == shape:
            self.atlas = replace(self.atlas, thumbnails=self.atlas.thumbnails.copy())
        else:
            self.show_atlas(HeadAtlas(np.full(shape, np.nan, np.float32), "exact", {}, {}), group)

    def show_part(self, part: AtlasPart) -> None:
        """Paint one layer that is ready, and nothing else."""
        if self.atlas is None or self._picture.isNull():
            return
        self.atlas.thumbnails[part.layer] = part.thumbnails
        self._paint_layer(part.layer)

    def layers_in(self, area: QRect) -> tuple[int, ...]:
        """The layers of which a thumbnail lies in a part of the atlas."""
        return tuple(dict.fromkeys(place.layer for place in self.plan.places if place.square.intersects(area)))

    def choose(self, score: str, sorted_by: str, order: Order = "largest", least: float = 0.0) -> None:
        """Write one score under the heads, and sort by one or by layer, those that reach ``least``."""
        self.score, self.sorted_by, self.order, self.least = score, sorted_by, order, least
        self.lay_out()

    def mark_kept(self, pinned: frozenset[tuple[int, int]], noted: frozenset[tuple[int, int]]) -> None:
        """Mark the heads that are on the board, and those that have a note."""
        self.pinned, self.noted = pinned, noted
        self.update()

    def fit(self, room: QSize) -> None:
        """Arrange anew in a width and height."""
        if room != self.room:
            self.room = room
            self.lay_out()

    def mark(self, layer: int, head: int) -> None:
        """Outline the selected head; only the two squares that change are painted."""
        if (layer, head) != self.selected:
            self._repaint_square(*self.selected)
            self.selected = (layer, head)
            self._repaint_square(layer, head)
        self.setAccessibleDescription(self.description(layer, head))

    def point(self, layer: int, head: int) -> None:
        """Outline the head under the pointer, wherever the pointer is."""
        if (layer, head) != self.pointed:
            self._repaint_square(*self.pointed)
            self.pointed = (layer, head)
            self._repaint_square(layer, head)

    def highlight(self, heads: frozenset[tuple[int, int]]) -> None:
        """Ring these heads."""
        self.highlighted = heads
        self.update()

    def silence(self, heads: frozenset[tuple[int, int]]) -> None:
        """Cross these heads out, and no others."""
        if heads != self.silent:
            self.silent = heads
            self.setAccessibleDescription(self.description(*self.selected))
            self.update()

    def score_of(self, layer: int, head: int) -> float:
        """Return the chosen score of a head, NaN where it is not defined."""
        if self.atlas is None or self.score not in self.atlas.scores:
            return float("nan")
        values = self.atlas.scores[self.score]
        inside = 0 <= layer < values.shape[0] and 0 <= head < values.shape[1]
        return float(values[layer, head]) if inside else float("nan")

    def description(self, layer: int, head: int) -> str:
        """Name a head, its kv head and its score."""
        value = self.score_of(layer, head)
        text = f"{wording.head_name(layer, head)} · kv{head // self.group}"
        text += " · silenced" if (layer, head) in self.silent else ""
        if not self.score or np.isnan(value):
            return text
        title = self.score if self.atlas is None else self.atlas.titles.get(self.score, self.score)
        return f"{text} · {title} {self._written(value, wording.number(value))}"

    def _written(self, value: float, text: str) -> str:
        """A value with its sign, where it is a change."""
        return f"+{text}" if self.order == "farthest" and value > 0 else text

    # Arrangement --------------------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """Decide where each thumbnail goes, and paint them all into one picture."""
        if self.atlas is None:
            return
        self._make_plan(self.atlas)
        self._make_picture(self.atlas)
        self._paint_what_differs(self.atlas)
        self.update()

    def _make_plan(self, atlas: HeadAtlas) -> None:
        """Find a new plan where anything that it depends on has changed."""
        layers, heads = atlas.thumbnails.shape[:2]
        values, metrics = atlas.scores.get(self.sorted_by), self._metrics(layers, heads)
        unordered = values is None or bool(np.isnan(values).all())
        order = [] if values is None or unordered else sorted_heads(values, self.order, self.least)
        made_for = (layers, heads, self.group, self.room.width(), self.room.height(), metrics, unordered, tuple(order))
        if made_for == self._plan_made_for:
            return
        self._plan_made_for = made_for
        planner = Planner(layers, heads, self.group, self.room, metrics)
        if unordered:
            self.plan = planner.in_layers()
        else:
            font, name = theme.current().font("label"), wording.head_name(layers - 1, heads - 1)
            beside, under = (round(ink.text_width(font, text)) + 6 for text in (f"{name}0.00", name))
            self.plan = planner.in_order(order, beside, under)
        self.setFixedSize(self.plan.size.expandedTo(self.room))

    def _metrics(self, layers: int, heads: int) -> Metrics:
        look = theme.current()
        line = round(ink.line_height(look.font("label")))
        kv, layer, head = (
            round(ink.text_width(look.font("label"), name))
            for name in (f"kv{heads // self.group - 1}", f"L{layers - 1}", str(heads - 1))
        )
        gutter = max(layer, head) + look.grid(1)
        return Metrics(
            gap=look.grid(0.375),
            group_gap=look.grid(1),
            label=line + 1 + _apart(),
            label_width=round(ink.text_width(look.font("label"), "0.00")) + 2,
            gutter=gutter,
            header=2 * line + 4,
            brackets=kv + look.grid(1),
        )

    def _make_picture(self, atlas: HeadAtlas) -> None:
        """Begin a new picture, with every thumbnail empty, where the old one has another plan, theme or size."""
        look, ratio = theme.current(), self.devicePixelRatioF()
        made_for = (self._plan_made_for, id(look), ratio, self.width(), self.height(), atlas.thumbnails.shape)
        if made_for == self._picture_made_for:
            return
        self._picture_made_for = made_for
        self._picture = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        self._picture.setDevicePixelRatio(ratio)
        self._picture.fill(look.panel)
        painter = QPainter(self._picture)
        for place in self.plan.places:
            painter.fillRect(place.square, look.masked_ground)
        painter.end()
        self._painted = np.full_like(atlas.thumbnails, np.nan)

    def _paint_what_differs(self, atlas: HeadAtlas) -> None:
        """Paint the layers whose thumbnails are not those of the picture; those in sight first, and not all at once."""
        new, old = (np.ascontiguousarray(a, np.float32).view(np.uint32) for a in (atlas.thumbnails, self._painted))
        seen = self.layers_in(self.visibleRegion().boundingRect())
        layers = dict.fromkeys((*seen, *range(len(new))))
        self._waiting = [layer for layer in layers if not np.array_equal(new[layer], old[layer])]
        self._paint_some()

    def _paint_some(self) -> None:
        """Paint as many layers as one turn of the event loop has time for."""
        if self.atlas is None:
            return
        count = max(self.HEADS_AT_ONCE // self.atlas.thumbnails.shape[1], 1)
        now, self._waiting = self._waiting[:count], self._waiting[count:]
        for layer in now:
            self._paint_layer(layer)
        if self._waiting:
            self._next.start()
        else:
            self.painted.emit()

    def _paint_layer(self, layer: int) -> None:
        """Paint the thumbnails of one layer into the picture that later repaints copy from."""
        assert self.atlas is not None
        painter = QPainter(self._picture)
        ratio, look = self._picture.devicePixelRatio(), theme.current()
        side = max(round(self.plan.side * ratio), 1)
        cells = self._painted[layer] = self.atlas.thumbnails[layer]
        pixels = ink.coloured(ink.resampled(cells, side, side), look.sequential, look.masked_ground)
        for place in self.plan.places:
            if place.layer == layer:
                image = ink.to_image(pixels[place.head])
                image.setDevicePixelRatio(ratio)
                painter.drawImage(place.square.topLeft(), image)
                self.update(self._with_label(place))
        painter.end()

    @property
    def is_painted(self) -> bool:
        """Whether all thumbnails there are have been painted."""
        return not self._waiting

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Copy the part of the picture that is dirty, then the labels and marks that touch it."""
        if self.atlas is None:
            return
        painter = QPainter(self)
        dirty = event.rect()
        if ink.leaves_the_screen(painter, self):
            self._paint_thumbnails(painter, self.atlas)
        else:
            ratio = self._picture.devicePixelRatio()
            source = QRectF(dirty.x() * ratio, dirty.y() * ratio, dirty.width() * ratio, dirty.height() * ratio)
            painter.drawPixmap(QRectF(dirty), self._picture, source)
        for place in self.plan.places:
            if self._with_label(place).intersects(dirty):
                self._paint_score(painter, place)
        if self.plan.arrangement != "sorted":
            self._paint_groups(painter)
            self._paint_layers(painter)
        self._paint_marks(painter)
        painter.end()

    def _paint_score(self, painter: QPainter, place: Place) -> None:
        look = theme.current()
        value = self.score_of(place.layer, place.head)
        square = place.square
        if not self.plan.lines:
            if not np.isnan(value):
                width = square.width() * min(abs(value), 1.0)
                ink.draw_bar(painter, QRectF(square.left(), square.bottom() + 2, width, 2), look.faint)
            return
        text = "–" if np.isnan(value) else self._written(value, f"{value:.2f}".replace("-", wording.MINUS))
        box = QRectF(
            square.left() - 4, square.bottom() + 1 + _apart(), square.width() + 8, ink.line_height(look.font("label"))
        )
        chosen = (place.layer, place.head) == self.selected
        colour = look.text if chosen else look.faint
        if self.plan.arrangement != "sorted":
            ink.draw_text(painter, box, text, look.font("label"), colour, ink.CENTRE)
            return
        inner = box.adjusted(4 - self.plan.inset, 0, self.plan.inset - 4, 0)
        stacked = self.plan.lines == 2
        name = wording.head_name(place.layer, place.head)
        ink.draw_text(painter, inner, name, look.font("label"), look.text, ink.CENTRE if stacked else ink.LEFT)
        below = inner.translated(0, box.height()) if stacked else inner
        ink.draw_text(painter, below, text, look.font("label"), colour, ink.CENTRE if stacked else ink.RIGHT)

    def _paint_thumbnails(self, painter: QPainter, atlas: HeadAtlas) -> None:
        """Draw every cell of every thumbnail, where the picture that is copied on screen would be too coarse."""
        look = theme.current()
        for place in self.plan.places:
            cells = atlas.thumbnails[place.layer, place.head]
            if max(cells.shape) > place.square.width():  # as on screen: the largest under a pixel is kept
                cells = ink.resampled(cells, place.square.height(), place.square.width())
            ink.draw_cells(painter, QRectF(place.square), ink.coloured(cells, look.sequential, look.masked_ground))

    def _paint_groups(self, painter: QPainter) -> None:
        """Bracket the query heads that read the same kv head."""
        look = theme.current()
        font = look.font("label")
        line = ink.line_height(font)
        assert self.atlas is not None
        heads = self.atlas.thumbnails.shape[1]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        tops = [p.layer for p in self.plan.places if p.head == 0 and p.row == 0]  # the first layer of every block
        if self.plan.arrangement == "heads down":
            tops = tops[:1]
        for layer, kv in ((layer, kv) for layer in tops for kv in range(heads // self.group)):
            first, last = self.plan.of(layer, kv * self.group), self.plan.of(layer, (kv + 1) * self.group - 1)
            if first is None or last is None:
                continue
            a, b = first.square, last.square
            painter.setPen(QPen(look.key, 2))
            if self.plan.arrangement == "heads across":
                painter.drawLine(a.left(), round(line) + 1, b.right(), round(line) + 1)
                box = QRectF(a.left(), 0, b.right() - a.left() + 1, line)
                ink.draw_text(painter, box, f"kv{kv}", font, look.key, ink.CENTRE)
            else:
                x = round(ink.text_width(font, f"kv{heads // self.group - 1}")) + 5
                painter.drawLine(x, a.top(), x, b.bottom())
                box = QRectF(0, a.top(), x - 4, b.bottom() - a.top() + 1)
                ink.draw_text(painter, box, f"kv{kv}", font, look.key)

    def _paint_layers(self, painter: QPainter) -> None:
        """Number the layers and, where there is room, the heads."""
        look = theme.current()
        font = look.font("label")
        line = ink.line_height(font)
        step = max(1, -(-round(ink.text_width(font, "00") + 4) // (self.plan.side + 1)))
        across = self.plan.arrangement == "heads across"
        for place in self.plan.places:
            square = place.square
            number = place.head if across else place.layer
            if place.row == 0 and number % step == 0:
                name = str(number) if step > 1 or self.plan.side < 24 else f"{'H' if across else 'L'}{number}"
                width = ink.text_width(font, name) + 1
                box = QRectF(square.center().x() - width / 2, square.top() - line - 1, width, line)
                ink.draw_text(painter, box, name, font, look.faint, ink.CENTRE)
            begins = place.head == 0 if across else place.layer == 0
            if begins and (place.row == 0 or self.plan.side >= line * 0.8):
                name = f"L{place.layer}" if across else str(place.head)
                width = ink.text_width(font, name) + 1
                box = QRectF(square.left() - 5 - width, square.center().y() - line / 2, width, line)
                ink.draw_text(painter, box, name, font, look.faint, ink.RIGHT)

    def _paint_marks(self, painter: QPainter) -> None:
        look = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for place in self.plan.places:
            if (place.layer, place.head) in self.silent:
                self._cross_out(painter, place.square)
            if (place.layer, place.head) in self.highlighted:
                highlight.ring(painter, QRectF(place.square))
            self._paint_kept(painter, place)
        for (layer, head), colour, width in ((self.pointed, look.faint, 1), (self.selected, look.accent, 2)):
            marked = self.plan.of(layer, head)
            if marked is not None:
                painter.setPen(QPen(colour, width))
                painter.drawRect(marked.square.adjusted(-1, -1, width - 1, width - 1))
        if self.hasFocus():
            marked = self.plan.of(*self.selected)
            if marked is not None:
                painter.setPen(QPen(look.accent, 1, Qt.PenStyle.DotLine))
                painter.drawRect(marked.square.adjusted(-3, -3, 3, 3))

    def _paint_kept(self, painter: QPainter, place: Place) -> None:
        """Mark a pinned head and one with a note in the upper right corner, where no weights are."""
        at, look, side = (place.layer, place.head), theme.current(), theme.current().grid(1)
        corner = QRect(place.square.right() - side + 1, place.square.top(), side, side)
        painter.setPen(Qt.PenStyle.NoPen)
        if at in self.noted:
            painter.setBrush(look.text)
            painter.drawPolygon(QPolygon([corner.topLeft(), corner.topRight(), corner.bottomRight()]))
        if at in self.pinned:
            painter.fillRect(corner.translated(-side - 2, 0).adjusted(0, 1, -1, 0), look.accent)
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def _cross_out(self, painter: QPainter, square: QRect) -> None:
        look = theme.current()
        painter.fillRect(square, ink.faded(look.panel, 0.7))
        painter.setPen(QPen(look.bad, 2))
        for one, other in ((square.topLeft(), square.bottomRight()), (square.topRight(), square.bottomLeft())):
            painter.drawLine(one, other)

    def _with_label(self, place: Place) -> QRect:
        under = max(self.plan.lines, 1) * round(ink.line_height(theme.current().font("label")))
        beside = 5 + self.plan.inset
        return place.square.adjusted(-beside, -5, beside, 8 + _apart() + under)

    def _repaint_square(self, layer: int, head: int) -> None:
        place = self.plan.of(layer, head)
        if place is not None:
            self.update(self._with_label(place))

    # Hands --------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Announce the head under a left click."""
        place = self.plan.at(event.position().toPoint())
        if place is not None and event.button() == Qt.MouseButton.LeftButton:
            (self.head_silenced if self.silencing else self.head_clicked).emit(place.layer, place.head)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of the head under the pointer, or of the selected one."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        place = self.plan.of(*self.selected) if by_key else self.plan.at(event.pos())
        if place is not None:
            where = self.mapToGlobal(place.square.center()) if by_key else event.globalPos()
            self.menu_wanted.emit(place.layer, place.head, where)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Announce the head under the pointer."""
        place = self.plan.at(event.position().toPoint())
        self.head_pointed.emit(*((-1, -1) if place is None else (place.layer, place.head)))

    def leaveEvent(self, event: QEvent) -> None:
        """Announce that the pointer is gone."""
        self.head_pointed.emit(-1, -1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move to the neighbour that an arrow names; Enter is a click on the selected head, while silencing."""
        if self.silencing and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.head_silenced.emit(*self.selected)
            return
        place = self.plan.of(*self.selected)
        step = arrow_keys.step_of(event)
        if step is None or place is None:
            super().keyPressEvent(event)
            return
        target = self.plan.beside(place, *step)
        if target is not None:
            self.head_clicked.emit(target.layer, target.head)

    def event(self, event: QEvent) -> bool:
        """Keep arrows from the window's shortcuts while focused, and answer for tooltips."""
        if arrow_keys.kept(event):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            place = self.plan.at(event.pos())
            text = "" if place is None else self.description(place.layer, place.head)
            QToolTip.showText(event.globalPos(), wording.tooltip(text), self)
            return True
        return super().event(event)


class AtlasScroll(QScrollArea):
    """A scroll area that tells its content how much room there is."""

    def __init__(self, view: AtlasView) -> None:
        super().__init__()
        self.view = view
        self.setWidget(view)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFocusProxy(view)
        self.viewport().setAutoFillBackground(False)
        view.setAutoFillBackground(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Pass the new room on; a bar's width is kept free so that it never makes the content move."""
        super().resizeEvent(event)
        self.view.fit(self.viewport().size())


def sorted_heads(values: Doubles, order: Order, least: float = 0.0) -> list[tuple[int, int]]:
    """Return (layer, head) pairs, best score first and undefined ones last.

    With a ``least``, those are left out that do not reach it, or that are larger where the smallest come first.
    """
    flat = np.abs(values.ravel()) if order == "farthest" else values.ravel()
    places = np.argsort(flat if order == "smallest" else -flat, kind="stable")  # NaN sorts last
    if least:
        places = places[flat[places] <= least if order == "smallest" else flat[places] >= least]
    return [(int(i) // values.shape[1], int(i) % values.shape[1]) for i in places]


def _apart() -> int:
    """Pixels between a thumbnail and what is written under it, beside one: a ring around the thumbnail stands there."""
    return theme.current().grid(0.375)
