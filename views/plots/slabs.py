"""What the KV cache holds: one slab per layer, a column per position, K beside V."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from ropewalk.model.readings.magnitudes import FULL, UNDEFINED
from ropewalk.model.readings.records import Bools, Bytes, CacheReading, TokenText
from ropewalk.views.plots import arrow_keys
from ropewalk.views.style import highlight, ink, theme, wording

Side = Literal["K", "V"]
SIDES: tuple[Side, ...] = ("K", "V")
FINER = 4
"""How many times as many pixels the slabs have in an exported picture."""
LONGEST_NAME = 6
"""Digits of room for a token's name under its column."""
LEAST_SHARE = 5
"""Names take no more than one part in so many of the height."""
LEAST_DIVIDED = 10
"""Pixels of a kv head from which on a line is drawn between it and the next."""
SPLIT = 3
"""Pixels between the columns of the prompt and those that were decoded."""


def magnitude_colours(low: QColor, high: QColor, undefined: QColor) -> Bytes:
    """The RGBA [256, 4] of every magnitude: from one colour straight to another, and one for what is no number."""
    table = ink.ramp(low, high)[np.minimum(np.arange(256) * 255 // FULL, 255)]
    table[UNDEFINED] = _rgba(undefined)
    return table


def capacity(columns: int) -> int:
    """Return for how many columns room is kept: 16, 24, 32, 48, 64 …, so that most steps append without squeezing."""
    room = 16
    while room < columns:
        room = room * 3 // 2 if room & (room - 1) == 0 else room // 3 * 4
    return room


class SlabsView(QWidget):
    """K and V side by side; each layer a slab, each position a column."""

    column_pointed = Signal(int, int)
    """Layer and position, −1 and −1 where there is none."""
    column_clicked = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.reading: CacheReading | None = None
        self.layer = 0
        self.key = 0
        self.pointed = -1
        self.slot: tuple[Side, int, int] | None = None
        self.highlighted: frozenset[int] = frozenset()
        self.names: tuple[str, ...] = ()
        """What the tokens of the columns are called."""
        self._arriving = -1, 1.0
        """A position whose column is on its way, and how far it has come."""
        self._images: dict[Side, QImage] = {}
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Contents of the KV cache by layer and position; arrow keys select")

    def show_cache(self, reading: CacheReading, tokens: Sequence[TokenText] = ()) -> None:
        """Take new contents, and the tokens of its positions, which are written under the columns."""
        self.reading = reading
        self.names = tuple(tokens[at].text for at in range(0, min(reading.length, len(tokens)), reading.stride))
        self.compose()

    def show_step(self, position: int, arrived: float) -> None:
        """Show the column of a new position so far on its way into the free room."""
        if (position, arrived) != self._arriving:
            self._arriving = position, arrived
            for side in SIDES:  # nothing else moves
                block, edges = self.block(side), self.edges(side)
                left = block.left() + math.floor(edges[-2] if self.columns else 0)
                self.update(left, 0, block.right() + 2 - left, self.height())

    def mark(self, layer: int, key: int) -> None:
        """Mark the selected layer and key."""
        if (layer, key) != (self.layer, self.key):
            self.layer, self.key = layer, key
            self.update()

    def highlight(self, layers: frozenset[int]) -> None:
        """Ring the slabs of these layers."""
        self.highlighted = layers
        self.update()

    def point(self, position: int, slot: tuple[Side, int, int] | None = None) -> None:
        """Mark the position under the pointer, and within it a slot: K or V, layer and kv head."""
        if (position, slot) != (self.pointed, self.slot):
            self.pointed, self.slot = position, slot
            self.update()

    # Where things are ---------------------------------------------------------------------------------------------

    @property
    def layers(self) -> int:
        """How many slabs there are."""
        return 0 if self.reading is None else int(self.reading.keys.shape[0])

    @property
    def columns(self) -> int:
        """How many columns are drawn; each stands for ``stride`` positions."""
        return 0 if self.reading is None else int(self.reading.keys.shape[2])

    @property
    def first_decoded(self) -> int:
        """The first column that a decode step appended."""
        return 0 if self.reading is None else min(-(-self.reading.prefill // self.reading.stride), self.columns)

    def column_of(self, position: int) -> int:
        """Return the column that stands for a position."""
        return 0 if self.reading is None else position // self.reading.stride

    def block(self, side: Side) -> QRect:
        """Return the rectangle of all slabs of K or of V."""
        look = theme.current()
        caption = round(ink.line_height(look.font("label"))) + 4
        gutter = round(ink.text_width(look.font("label"), f"L{max(self.layers - 1, 0)}")) + 8
        between = look.grid(1)
        width = (self.width() - gutter - between) // 2
        left = gutter + (0 if side == "K" else width + between)
        below = self._names_height
        return QRect(left, caption, max(width - 2, 1), max(self.height() - caption - below - 2, 1))

    @cached_property
    def _names_height(self) -> int:
        """Height under the slabs in which tokens are written upright; none where that would leave them too little."""
        look = theme.current()
        font = look.font("label")
        longest = max((ink.text_width(font, theme.drawable(name, "label")) for name in self.names), default=0.0)
        height = math.ceil(min(longest, ink.text_width(font, "0" * LONGEST_NAME))) + 4
        return height if self.names and self.height() >= LEAST_SHARE * height else 0

    def slab(self, side: Side, layer: int) -> QRect:
        """Return the rectangle of one layer's slab."""
        block = self.block(side)
        gap = 3 if block.height() >= 12 * self.layers else 1 if block.height() >= 3 * self.layers else 0
        edges = [block.top() + round(i * (block.height() + gap) / max(self.layers, 1)) for i in (layer, layer + 1)]
        return QRect(block.left(), edges[0], block.width(), max(edges[1] - gap - edges[0], 1))

    def edges(self, side: Side) -> NDArray[np.float64]:
        """Return where columns start, in pixels from the left of the block, and where the last one ends."""
        split = SPLIT if 0 < self.first_decoded < self.columns else 0
        width = (self.block(side).width() - split) / capacity(self.columns)
        edges: NDArray[np.float64] = np.arange(self.columns + 1, dtype=np.float64) * width
        edges[self.first_decoded + 1 :] += split
        return edges

    def column_box(self, side: Side, layer: int, column: int) -> QRectF:
        """Return the rectangle of one column of a slab."""
        slab, edges = self.slab(side, layer), self.edges(side)
        start = edges[column] + (SPLIT if column == self.first_decoded and 0 < column < self.columns else 0)
        return QRectF(slab.left() + start, slab.top(), edges[column + 1] - start, slab.height())

    @property
    def named(self) -> list[int]:
        """The columns under which their token is written: as many as have room, the selected key's in any case."""
        if not self._names_height or not self.columns:
            return []
        line = ink.line_height(theme.current().font("label"))
        width = self.block("K").width() / capacity(self.columns)
        every = max(1, int(np.ceil(line * 0.9 / max(width, 0.1))))
        chosen = self.column_of(self.key)
        return [c for c in range(self.columns) if c == chosen or (c % every == 0 and abs(c - chosen) >= every)]

    def moving_box(self, side: Side) -> tuple[QRectF, QRectF] | None:
        """Where the column that is on its way belongs and where it is now, all layers of it; None where none is."""
        position, arrived = self._arriving
        column = self.column_of(position)
        if self.reading is None or arrived == 1 or column != self.columns - 1 or self.reading.length != position + 1:
            return None
        block, home = self.block(side), self.column_box(side, 0, column)
        home = QRectF(home.left(), block.top(), home.width(), block.height())
        away = (block.right() + 1 - home.right()) * (1 - arrived)
        return home, home.translated(away, 0)

    def slot_box(self, side: Side, layer: int, kv_head: int, column: int) -> QRectF:
        """Return the rectangle of what one kv head holds of a column."""
        box = self.column_box(side, layer, column)
        heads = 1 if self.reading is None else int(self.reading.keys.shape[1])
        return QRectF(box.left(), box.top() + box.height() * kv_head / heads, box.width(), box.height() / heads)

    def feature_at(self, point: QPointF) -> tuple[Side, int, int] | None:
        """Return the side, kv head and feature under a point; None outside the slabs."""
        layer, _ = self.at(point)
        if layer < 0 or self.reading is None:
            return None
        side: Side = "K" if self.block("K").contains(point.toPoint()) else "V"
        slab = self.slab(side, layer)
        held = self.reading.keys if side == "K" else self.reading.values
        heads, width = int(held.shape[1]), int(held.shape[3])
        row = int((point.y() - slab.top()) * heads * width / slab.height())
        return side, *divmod(min(row, heads * width - 1), width)

    def at(self, point: QPointF) -> tuple[int, int]:
        """Return the layer and position under a point, −1 and −1 where there is none."""
        for side in SIDES:
            layer = next((i for i in range(self.layers) if self.slab(side, i).contains(point.toPoint())), -1)
            if layer < 0 or self.reading is None:
                continue
            x = point.x() - self.block(side).left()
            column = int(np.searchsorted(self.edges(side), x, side="right")) - 1
            if 0 <= column < self.columns:
                return layer, column * self.reading.stride
        return -1, -1

    def visible(self, layer: int) -> Bools:
        """Say for each column whether the newest query may look at it in a layer, given its window."""
        if self.reading is None:
            return np.zeros(0, dtype=np.bool_)
        window = self.reading.windows[layer] if layer < len(self.reading.windows) else None
        if window is None:
            return np.ones(self.columns, dtype=np.bool_)
        positions = np.arange(self.columns) * self.reading.stride
        return positions >= self.reading.length - window

    # Painting -----------------------------------------------------------------------------------------------------

    def compose(self) -> None:
        """Colour the contents: bright where the magnitude is large, in the colour of keys or of values."""
        self.__dict__.pop("_names_height", None)  # it depends on the size, the theme and the tokens
        if self.reading is None:
            return
        look = theme.current()
        for side, colour in (("K", look.key), ("V", look.value)):
            self._images["K" if side == "K" else "V"] = self._picture(
                "K" if side == "K" else "V", colour, self.devicePixelRatioF()
            )
        self.update()

    def _picture(self, side: Side, colour: QColor, ratio: float) -> QImage:
        look = theme.current()
        block = self.block(side)
        width, height = round(block.width() * ratio), round(block.height() * ratio)
        canvas = np.empty((height, width, 4), dtype=np.uint8)
        canvas[:] = _rgba(look.panel)
        centres = (np.arange(width) + 0.5) / ratio
        column = np.searchsorted(self.edges(side), centres, side="right") - 1
        inside = (column >= 0) & (column < self.columns)
        if 0 < self.first_decoded < self.columns:
            start = self.edges(side)[self.first_decoded]
            inside &= ~((centres >= start) & (centres < start + SPLIT))
        assert self.reading is not None
        contents = self.reading.key_magnitudes if side == "K" else self.reading.value_magnitudes
        seen = magnitude_colours(ink.mixed(look.panel, colour, 0.12), colour, look.undefined)
        unseen = magnitude_colours(look.masked_ground, look.masked, look.undefined)
        free, under = ~inside & (centres > self.edges(side)[-1]), column[inside]
        for layer in range(self.layers):
            slab = self.slab(side, layer)
            top, bottom = (round((y - block.top()) * ratio) for y in (slab.top(), slab.top() + slab.height()))
            rows, hidden = ink.resampled(contents[layer], bottom - top, self.columns), ~self.visible(layer)
            pixels = seen[rows]
            if hidden.any():
                pixels[:, hidden] = unseen[rows[:, hidden]]
            canvas[top:bottom, inside] = pixels[:, under]
            canvas[top:bottom, free] = _rgba(look.field)
        image = ink.to_image(canvas)
        image.setDevicePixelRatio(ratio)
        return image

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the two pictures, their captions and the marks."""
        if self.reading is None:
            return
        painter = QPainter(self)
        for side in SIDES:
            self._paint_captions(painter, side)
            self._paint_slabs(painter, side)
            self._paint_marks(painter, side)
            self._paint_names(painter, side)
        self._paint_layers(painter)
        painter.end()

    def _paint_slabs(self, painter: QPainter, side: Side) -> None:
        image = self._images[side]
        if ink.leaves_the_screen(painter, self):
            look = theme.current()
            image = self._picture(side, look.key if side == "K" else look.value, self.devicePixelRatioF() * FINER)
            painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        block = self.block(side)
        painter.drawImage(QPointF(block.topLeft()), image)
        self._paint_dividers(painter, side)
        moving = self.moving_box(side)
        if moving is None:
            return
        home, now = moving
        ratio, look = image.devicePixelRatio(), theme.current()
        for layer in range(self.layers):
            slab = self.slab(side, layer)
            painter.fillRect(QRectF(home.left(), slab.top(), home.width(), slab.height()), look.field)
        source = home.translated(-block.left(), -block.top())
        source = QRectF(source.topLeft() * ratio, source.size() * ratio)
        painter.setOpacity(self._arriving[1])
        painter.drawImage(now, image, source)
        painter.setOpacity(1)

    def _paint_dividers(self, painter: QPainter, side: Side) -> None:
        """A line between what one kv head holds and the next, where there is room for it."""
        heads = 1 if self.reading is None else int(self.reading.keys.shape[1])
        block, end = self.block(side), self.edges(side)[-1]
        for layer in range(self.layers):
            slab = self.slab(side, layer)
            if slab.height() >= LEAST_DIVIDED * heads:
                for head in range(1, heads):
                    top = round(slab.top() + slab.height() * head / heads)
                    thick = 2 if slab.height() >= 2 * LEAST_DIVIDED * heads else 1
                    painter.fillRect(QRectF(block.left(), top - thick // 2, end, thick), theme.current().panel)

    def _paint_names(self, painter: QPainter, side: Side) -> None:
        """The tokens under their columns, read upwards; the selected key in its colour."""
        look, room = theme.current(), self._names_height - 4
        font, line = look.font("label"), ink.line_height(theme.current().font("label"))
        for column in self.named:
            if column >= len(self.names) or (self.moving_box(side) and column == self.columns - 1):
                continue
            box = self.column_box(side, 0, column)
            colour = look.key if column == self.column_of(self.key) else look.faint
            painter.save()
            painter.translate(box.center().x(), self.block(side).bottom() + 3)
            painter.rotate(-90)
            text = theme.drawable(self.names[column], "label")
            ink.draw_text(painter, QRectF(-room, -line / 2, room, line), text, font, colour, ink.RIGHT)
            painter.restore()

    def _paint_captions(self, painter: QPainter, side: Side) -> None:
        look = theme.current()
        font = look.font("label")
        line = ink.line_height(font)
        block, edges = self.block(side), self.edges(side)
        colour = look.key if side == "K" else look.value
        ink.draw_text(painter, QRectF(block.left(), 0, block.width(), line), side, font, colour)
        if self.first_decoded >= self.columns:
            return
        start = block.left() + edges[self.first_decoded] + SPLIT
        end = block.left() + edges[-1]
        painter.fillRect(QRectF(start, block.top() - 3, end - start, 2), look.text)
        text = (
            f"{self.columns - self.first_decoded} decoded" if self.reading and self.reading.stride == 1 else "decoded"
        )
        first = block.left() + ink.text_width(font, "K") + 8
        if first + ink.text_width(font, text) > block.right():
            text = f"+{self.columns - self.first_decoded}"
        width = ink.text_width(font, text)
        left = min(max(start, first), block.right() - width)
        ink.draw_text(painter, QRectF(left, 0, width, line - 1), text, font, look.text)

    def _paint_layers(self, painter: QPainter) -> None:
        look = theme.current()
        font = look.font("label")
        line = ink.line_height(font)
        step = max(1, int(np.ceil(line * 0.9 / max(self.slab("K", 0).height(), 1))))
        for layer in range(self.layers):
            if layer % step and layer != self.layer:
                continue
            if step > 1 and layer != self.layer and abs(layer - self.layer) < step:
                continue
            slab = self.slab("K", layer)
            box = QRectF(0, slab.center().y() - line / 2 + 0.5, slab.left() - 5, line)
            colour = look.accent if layer == self.layer else look.faint
            ink.draw_text(painter, box, f"L{layer}", font, colour, ink.RIGHT)

    def _paint_marks(self, painter: QPainter, side: Side) -> None:
        look = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        slab = self.slab(side, self.layer) if self.layer < self.layers else QRect()
        painter.fillRect(QRect(slab.left() - 4, slab.top(), 2, slab.height()), look.accent)
        for layer in self.highlighted:
            if layer < self.layers:
                highlight.ring(painter, QRectF(self.slab(side, layer)).adjusted(2, 2, -2, -2))
        block = self.block(side)
        for position, colour in ((self.pointed, look.faint), (self.key, look.text)):
            column = self.column_of(position)
            if position >= 0 and column < self.columns:
                box = self.column_box(side, 0, column)
                painter.setPen(QPen(colour, 1))
                painter.drawRect(QRectF(round(box.left()), block.top() - 1, max(round(box.width()), 2), block.height()))
        if self.slot is not None and self.slot[0] == side and 0 <= self.column_of(self.pointed) < self.columns:
            painter.setPen(QPen(look.accent, 2))
            painter.drawRect(self.slot_box(*self.slot, self.column_of(self.pointed)).adjusted(-1, -1, 1, 1))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Colour anew in the new size."""
        super().resizeEvent(event)
        self.compose()

    # Hands --------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Announce the column under a left click."""
        layer, position = self.at(event.position())
        if layer >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.column_clicked.emit(layer, position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Announce the column under the pointer."""
        self.column_pointed.emit(*self.at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Announce that the pointer is gone."""
        self.column_pointed.emit(-1, -1)

    def number_text(self, layer: int, position: int, side: Side, kv_head: int, feature: int) -> str:
        """Write one number that the cache holds."""
        if self.reading is None:
            return ""
        handle = self.reading.keys if side == "K" else self.reading.values
        number = wording.number(float(handle[layer, kv_head, self.column_of(position), feature]), 4)
        return f"{side} of layer {layer}, kv head {kv_head}, position {position}, feature {feature} = {number}"

    def description(self, layer: int, position: int, feature: tuple[Side, int, int] | None = None) -> str:
        """Say what a column holds, and the number of one of its features."""
        if self.reading is None or layer < 0:
            return ""
        heads, width = int(self.reading.keys.shape[1]), int(self.reading.keys.shape[3])
        other = int(self.reading.values.shape[3])
        held = f"{width} numbers in each of K and V" if width == other else f"{width} numbers in K and {other} in V"
        origin = "decoded" if position >= self.reading.prefill else "from the prompt"
        text = f"layer {layer}, position {position}, {origin}: {heads} kv heads × {held}"
        if feature is not None:
            text += f"\n{self.number_text(layer, position, *feature)}"
        if not self.visible(layer)[self.column_of(position)]:
            text += f"; outside the window of {self.reading.windows[layer]} for the newest query"
        return text

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pick the layer or the position beside the selected one."""
        step = arrow_keys.step_of(event)
        if step is None or self.reading is None:
            super().keyPressEvent(event)
            return
        layer, position = self.layer + step[1], self.key + step[0]
        if 0 <= layer < self.layers and 0 <= position < self.reading.length:
            self.column_clicked.emit(layer, position)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and answer for tooltips."""
        if arrow_keys.kept(event):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            here = QPointF(event.pos())
            text = self.description(*self.at(here), self.feature_at(here))
            QToolTip.showText(event.globalPos(), wording.tooltip(text), self)
            return True
        return super().event(event)


def _rgba(colour: QColor) -> tuple[int, int, int, int]:
    return colour.red(), colour.green(), colour.blue(), 255
