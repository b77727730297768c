"""One step of the walk through a block: its matrices in colour, growing out of one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QHelpEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QRegion,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from ropewalk.model.ledger.walk import Equation, WalkStep
from ropewalk.model.readings.records import Floats, TokenText, WalkAxis, WalkMatrix, WalkReading
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.block_layout import Measures, Picture, Place, arranged, measures
from ropewalk.views.plots.maps.levels import Levels, in_cell
from ropewalk.views.style import ink, motion, theme, wording
from ropewalk.views.style.theme import Table

MOVING: Final = 0.4
"""The share of a flow in which operands move into their places; in the rest the result grows."""
COUNTED: Final = 64
"""Numbers up to which a result grows one by one; a larger one grows column by column."""
ROBUST: Final = 0.99
"""The share of the numbers of a large matrix that its colours tell apart."""
MOST_TERMS: Final = 9
"""Lines in which the sum is written out that a number is."""
LARGE: Final = 256
"""Numbers from which on few large ones would take the colour from all others."""


@dataclass(frozen=True)
class Spot:
    """A cell of one of the matrices, in its own rows and columns as they are drawn."""

    key: str
    row: int
    column: int


@dataclass(frozen=True)
class Marked:
    """What is selected: token and key by their rows of the run, and a feature of the result."""

    query: int = 0
    key: int = 0
    feature: int = 0


@dataclass(eq=False)
class _Kept:
    """What is worked out once for a reading, a theme and a size."""

    pixels: dict[tuple[str, int, int], Table] = field(default_factory=dict)
    texts: dict[str, list[list[str]]] = field(default_factory=dict)
    levels: dict[str, Levels] = field(default_factory=dict)


class BlockView(QWidget):
    """The matrices of a step.

    Signals
    -------
    spot_clicked(spot), spot_pointed(spot)
        A cell is clicked or pointed at; None where there is none.
    moved(across, down)
        An arrow key goes to the next cell of the result.
    flowed
        A flow has come to its end.
    """

    spot_clicked = Signal(object)
    spot_pointed = Signal(object)
    moved = Signal(int, int)
    flowed = Signal()

    INTERVAL = 16
    """Milliseconds between two frames."""
    DURATION = 1100
    """Milliseconds of a whole flow."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.reading: WalkReading | None = None
        self.step: WalkStep | None = None
        self.tokens: Sequence[TokenText] = ()
        self.width_of_head = 1
        self.marked = Marked()
        self.pointed: Spot | None = None
        self.picture = Picture()
        self.progress = 1.0
        """How far the flow into this step is, 1 when it stands."""
        self._origins: dict[str, QRectF] = {}
        self._kept = _Kept()
        self.timer = QTimer(self)
        self.timer.setInterval(self.INTERVAL)
        self.timer.timeout.connect(lambda: self.advance(self.INTERVAL))
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("The matrices of this step; arrow keys select a row and a column")

    # What is shown ------------------------------------------------------------------------------------------------

    def show_reading(self, reading: WalkReading, tokens: Sequence[TokenText], width_of_head: int) -> None:
        """Take the matrices of another block, head or query; the step is shown next."""
        self.reading, self.tokens, self.width_of_head = reading, tokens, width_of_head
        self._kept = _Kept()
        if not {place.key for place in self.picture.places} <= reading.matrices.keys():  # another kind of block
            self.picture = Picture()
        self._origins = {key: box for key, box in self._origins.items() if key in reading.matrices}

    def show_step(self, step: WalkStep, *, flows: bool) -> None:
        """Show a step; where things move, let it flow out of what is shown now."""
        self._origins = {place.key: self.box_now(place) for place in self.picture.places}
        self.step, self.pointed = step, None
        self._kept.levels.clear()
        self._kept.pixels.clear()
        self.lay_out()
        if flows and not motion.reduced() and self.isVisible():
            self.progress = 0.0
            self.timer.start()
        else:
            self._stand()
        self.update()

    def mark(self, marked: Marked) -> None:
        """Mark another row and column."""
        if marked != self.marked:
            self.marked = marked
            self.update()

    def theme_changed(self) -> None:
        """Colour and arrange anew."""
        self._kept = _Kept()
        self.lay_out()

    def advance(self, milliseconds: int) -> None:
        """Let the flow go on for so long."""
        self.progress = min(self.progress + milliseconds / self.DURATION, 1.0)
        if self.progress == 1.0:
            self._stand()
            self.flowed.emit()
        self.update()

    def _stand(self) -> None:
        self.timer.stop()
        self.progress, self._origins = 1.0, {}

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop where the flow ends."""
        self._stand()
        super().hideEvent(event)

    def lay_out(self) -> None:
        """Place the matrices in the room that there is."""
        if self.reading is None or self.step is None:
            return
        half = 0.4 * ink.line_height(theme.current().font("label"))  # of the token beside a low last row
        area = QRectF(self.rect()).adjusted(2, 2, -2, -half)
        self.picture = arranged(self.step.equations, self.reading.matrices, area, self._measures())
        self._kept.pixels.clear()
        self.update()

    def _measures(self) -> tuple[Measures, Measures]:
        assert self.reading is not None
        assert self.step is not None
        look, font = theme.current(), theme.current().font("label")
        names = {key: self.caption(key) for key in self.reading.matrices}
        signs = {sign for equation in self.step.equations for sign in equation.signs}
        rows = range(*self.reading.rows)
        labels = [ink.text_width(font, self._token(row)) for row in (rows if len(rows) < LARGE else rows[:1])]
        label = min(max(labels, default=0.0), 7.0 * look.size("label")) + look.grid(1)
        return measures(names, signs, label)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange anew; a flow ends at once, since what it moves between is elsewhere now."""
        super().resizeEvent(event)
        self._stand()
        self.lay_out()

    def sizeHint(self) -> QSize:
        """As much as there is."""
        return QSize(400, 300)

    def minimumSizeHint(self) -> QSize:
        """Little."""
        return QSize(160, 120)

    # What it can say ----------------------------------------------------------------------------------------------

    @property
    def equation(self) -> Equation | None:
        """The first equation of the step, which the marks are about."""
        return self.step.equations[0] if self.step is not None and self.step.equations else None

    @property
    def focus(self) -> Spot | None:
        """The cell of the result that is explained: the one that is pointed at there, else the selected one."""
        if self.reading is None:
            return None
        key = "x" if self.equation is None else self.equation.result
        if self.pointed is not None and self.pointed.key == key:
            return self.pointed
        return self.spot_of(key)

    def spot_of(self, key: str) -> Spot:
        """The selected cell of a matrix."""
        assert self.reading is not None
        matrix = self.reading.matrices[key]
        wanted = {"token": self.marked.query, "key": self.marked.key}
        row = wanted.get(matrix.axes[0], self.marked.feature) - matrix.rows[0]
        column = wanted.get(matrix.axes[1], self.marked.feature)
        if matrix.axes[1] == "heads":
            head = self.reading.kv_head if matrix.kind in ("key", "value") and key != "z_all" else self.reading.head
            column = head * self.width_of_head + self.marked.feature % self.width_of_head
        column -= matrix.columns[0]
        height, width = matrix.values.shape
        down, across = self._block(matrix)
        return Spot(key, min(max(row, 0) // down, height - 1), min(max(column, 0) // across, width - 1))

    def value(self, spot: Spot) -> float:
        """The number of a cell."""
        assert self.reading is not None
        return float(self.reading.matrices[spot.key].values[spot.row, spot.column])

    def caption(self, key: str) -> tuple[str, str]:
        """The name of a matrix, and its shape or what of it is shown."""
        assert self.reading is not None
        matrix = self.reading.matrices[key]
        rows, columns = matrix.rows[1] - matrix.rows[0], matrix.columns[1] - matrix.columns[0]
        name, shape = matrix.name, f"{rows} × {columns}"
        if rows == columns == 1:
            return name, ""
        if key in ("q", "k", "v") or key[1:] in ("_turned", "_normed"):
            name += f" of head {self.reading.head if key[0] == 'q' else self.reading.kv_head}"
        elif matrix.shape[1] != columns:
            head = matrix.columns[0] // self.width_of_head
            name += f" of head {head}"
        return name, shape

    def description(self, spot: Spot) -> str:
        """A cell in words, with its number."""
        assert self.reading is not None
        matrix = self.reading.matrices[spot.key]
        down, across = self._block(matrix)
        row = self._counted(matrix, 0, matrix.rows[0] + spot.row * down, down)
        column = self._counted(matrix, 1, matrix.columns[0] + spot.column * across, across)
        where = ", ".join(part for part in (row, column) if part)
        if matrix.hidden is not None and matrix.hidden[spot.row, spot.column]:
            return f"{matrix.name}: {where}: masked"
        number = wording.number(self.value(spot), 4)
        text = f"{matrix.name}: {where} = {number}" if where else f"{matrix.name} = {number}"
        return text if down == across == 1 else f"{text}, the furthest from 0 of {down} × {across}"

    def _counted(self, matrix: WalkMatrix, axis: int, number: int, block: int) -> str:
        what: WalkAxis = matrix.axes[axis]
        if what == "one":
            return ""
        if what == "expert":
            return matrix.names[number] if matrix.names else f"expert {number}"
        if what in ("token", "key"):
            return f"{'token' if what == 'token' else 'key'} {number} {self._token(number)}"
        name = "plane" if what == "plane" else "feature"
        text = f"{name} {number}" if block == 1 else f"{name}s {number} … {number + block - 1}"
        return f"{text} (head {number // self.width_of_head})" if what == "heads" else text

    def _token(self, row: int) -> str:
        return self.tokens[row].text if row < len(self.tokens) else ""

    @staticmethod
    def _block(matrix: WalkMatrix) -> tuple[int, int]:
        """Rows and columns that one pixel stands for."""
        height, width = matrix.values.shape
        down, across = matrix.rows[1] - matrix.rows[0], matrix.columns[1] - matrix.columns[0]
        return math.ceil(down / height), math.ceil(across / width)

    def terms(self, spot: Spot, most: int) -> tuple[list[tuple[float, float]], int]:
        """The products that a cell of a product is the sum of, the largest of many, and how many there are.

        None of a matrix that is reduced: its numbers are not those that are multiplied.
        """
        equation = self.equation
        if self.reading is None or equation is None or equation.form != "product":
            return [], 0
        matrices = [self.reading.matrices[key] for key in equation.operands[:2]]
        if any(self._block(one) != (1, 1) for one in matrices):
            return [], 0
        row, column = matrices[0].values[spot.row], matrices[1].values[:, spot.column]
        order = np.argsort(-np.abs(row * column), kind="stable")[:most] if len(row) > most else np.arange(len(row))
        return [(float(row[one]), float(column[one])) for one in order], len(row)

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the step as far as it has flowed."""
        if self.reading is None or self.step is None:
            return
        painter = QPainter(self)
        grown = self.grown
        fade = min(self.progress / MOVING, 1.0)
        focus = self._front() or self.focus
        painter.setOpacity(fade)
        for box, sign in self.picture.signs:
            self._paint_sign(painter, box, sign)
        # what moves is over what waits for it, and what grows over what it grows from
        for place in sorted(self.picture.places, key=lambda one: self._depth(one, grown)):
            if place.slot < 0:
                self._paint_result(painter, place, grown, fade)
            else:
                painter.setOpacity(1.0 if self._origin(place.key) is not None else fade)
                self._paint_matrix(painter, place, self.box_now(place), 1.0)
        painter.setOpacity(1.0)
        flies = self.equation is not None and self.equation.signs == ("→",)
        if focus is not None and (grown == 1 or (grown > 0 and not flies) or not self.step.equations):
            self._paint_marks(painter, focus)
            if self.picture.corner.isValid():
                self._paint_corner(painter, focus)
        painter.end()

    def _depth(self, place: Place, grown: float) -> int:
        if place.slot < 0:
            return 3 if grown else 0
        return 1 if self._origin(place.key) is None else 2

    @property
    def grown(self) -> float:
        """How much of the result is there."""
        return max((self.progress - MOVING) / (1 - MOVING), 0.0)

    def _origin(self, key: str) -> QRectF | None:
        """Where a matrix was in the step before, itself or as another view of it."""
        assert self.reading is not None
        matrices = self.reading.matrices
        others = [matrices[key].of, *(one for one in self._origins if matrices[one].of == key)]
        return next((self._origins[one] for one in (key, *others) if one in self._origins), None)

    def box_now(self, place: Place) -> QRectF:
        """Where a matrix is on its way to its place."""
        origin = None if self.progress == 1.0 or self.reading is None else self._origin(place.key)
        if origin is None:
            return place.box
        share = _eased(min(self.progress / MOVING, 1.0))
        return _between(origin, place.box, share)

    def _paint_result(self, painter: QPainter, place: Place, grown: float, fade: float) -> None:
        """What comes of the operands: cut out of one, put into it, or grown cell by cell."""
        assert self.step is not None
        painter.setOpacity(fade)
        if self.step.equations and self.step.equations[place.equation].signs == ("→",):
            source = next(p for p in self.picture.places if p.equation == place.equation and p.slot == 0)
            if self._band(place.key) is None:  # one head of many
                band = self.band_box(source.key, source.box)
                painter.setOpacity(1.0 if grown else 0.0)
                self._paint_matrix(painter, place, _between(band, place.box, _eased(grown)), 1.0)
            else:
                painter.setOpacity(grown)
                self._paint_matrix(painter, place, place.box, 1.0)
                painter.setOpacity(1.0)
                if 0 < grown < 1:
                    target = self.band_box(place.key, place.box)
                    self._paint_cells(painter, source.key, _between(source.box, target, _eased(grown)), 1.0)
            return
        self._paint_matrix(painter, place, place.box, grown if self.step.equations else 1.0)

    def _paint_matrix(self, painter: QPainter, place: Place, box: QRectF, shown: float) -> None:
        """A caption, the cells that are there, a frame, the heads, and the tokens of the rows."""
        look = theme.current()
        assert self.reading is not None
        matrix = self.reading.matrices[place.key]
        self._paint_cells(painter, place.key, box, shown)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(look.line, 1))
        painter.drawRect(box)
        self._paint_heads(painter, place.key, box)
        if place.caption.isValid():
            caption = place.caption.translated(box.topLeft() - place.box.topLeft())
            name, shape = self.caption(place.key)
            font, width = look.font("label"), ink.text_width(look.font("label"), name)
            bold = QFont(font)
            bold.setWeight(QFont.Weight.DemiBold)
            colour = ink.kind_colour(matrix.kind, look) if matrix.kind != "mask" else look.faint
            ink.draw_text(painter, caption, name, bold, colour)
            if caption.width() - width > ink.text_width(font, shape):
                ink.draw_text(painter, caption.adjusted(width + 8, 0, 8, 0), shape, font, look.faint)
        if place.labelled:
            self._paint_tokens(painter, matrix, box)
        if matrix.axes == ("feature", "key"):
            self._paint_keys(painter, box, matrix)

    def _paint_cells(self, painter: QPainter, key: str, box: QRectF, shown: float) -> None:
        if shown <= 0 or box.width() < 1 or box.height() < 1:
            return
        assert self.reading is not None
        matrix = self.reading.matrices[key]
        height, width = matrix.values.shape
        painter.save()
        if shown < 1.0:
            painter.setClipRegion(self.revealed(box, height, width, shown))
        ink.draw_cells(painter, box, self._pixels(key, box))
        if matrix.hidden is not None:
            self._paint_hidden(painter, matrix, box)
        if size := self.number_size(key, box):
            self._paint_numbers(painter, key, box, size)
        painter.restore()

    def revealed(self, box: QRectF, height: int, width: int, shown: float) -> QRegion:
        """The part of a result that has grown."""
        if height * width > COUNTED:
            return QRegion(QRectF(box.x(), box.y(), box.width() * shown, box.height()).toAlignedRect())
        count = int(shown * height * width)
        row, column = divmod(count, width)
        down, across = box.height() / height, box.width() / width
        parts = QRectF(0, 0, box.width(), row * down), QRectF(0, row * down, column * across, down)
        region = QRegion()
        for part in parts:
            if part.width() and part.height():
                region = region.united(part.translated(box.topLeft()).toAlignedRect())
        return region

    def _front(self) -> Spot | None:
        """The cell that grows now; None when nothing does."""
        if not 0 < self.grown < 1 or self.reading is None or self.equation is None or self.equation.signs == ("→",):
            return None
        key = self.equation.result
        height, width = self.reading.matrices[key].values.shape
        if height * width <= COUNTED:
            return Spot(key, *divmod(min(int(self.grown * height * width), height * width - 1), width))
        return Spot(key, self.spot_of(key).row, min(int(self.grown * width), width - 1))

    # Colours and numbers ------------------------------------------------------------------------------------------

    def _levels(self, key: str) -> Levels:
        """What the ends of the colours of a matrix mean: one scale for all that is added up."""
        known = self._kept.levels.get(key)
        if known is None:
            assert self.reading is not None
            alike = [key]
            for equation in () if self.step is None else self.step.equations:
                keys = [*equation.operands, equation.result]
                if (
                    "+" in equation.signs
                    and equation.form == "each"
                    and "residual" in ((self.step and self.step.key) or "")
                ):
                    alike = [one for one in keys if self.reading.matrices[one].axes[1] == "feature"]
            values = np.concatenate([self.reading.matrices[one].values.ravel() for one in alike if one])
            sizes = np.abs(values[np.isfinite(values)])
            high = float(sizes.max(initial=0.0))
            if sizes.size >= LARGE:
                high = float(np.quantile(sizes, ROBUST)) or high
            known = Levels(0.0, 1.0) if key == "weights" else Levels(-(high or 1.0), high or 1.0, "diverging")
            self._kept.levels[key] = known
        return known

    def _pixels(self, key: str, box: QRectF) -> Table:
        """The colours of a matrix, no finer than its box."""
        assert self.reading is not None
        matrix = self.reading.matrices[key]
        down, across = max(round(box.height()), 1), max(round(box.width()), 1)
        height, width = (min(size, room) for size, room in zip(matrix.values.shape, (down, across), strict=True))
        known = self._kept.pixels.get((key, height, width))
        if known is None:
            known = self._kept.pixels[key, height, width] = self._coloured(key, _coarser(matrix.values, height, width))
        return known

    def _coloured(self, key: str, values: Floats) -> Table:
        look, levels = theme.current(), self._levels(key)
        assert self.reading is not None
        if values.size == 1 or key == "seen":  # no map
            ground = look.field if values.size == 1 else ink.mixed(look.panel, look.text, 0.3)
            pixels = np.empty((*values.shape, 4), np.uint8)
            pixels[:] = (ground.red(), ground.green(), ground.blue(), 255)
            return pixels
        found: Table = levels.table()[levels.indices(values)]
        hidden = self.reading.matrices[key].hidden
        if hidden is not None and hidden.shape == values.shape:  # else it shines through between hatched rows
            found[hidden] = (look.masked_ground.red(), look.masked_ground.green(), look.masked_ground.blue(), 255)
        found[np.isnan(values)] = (look.undefined.red(), look.undefined.green(), look.undefined.blue(), 255)
        return found

    def _paint_hidden(self, painter: QPainter, matrix: WalkMatrix, box: QRectF) -> None:
        look, hidden = theme.current(), matrix.hidden
        assert hidden is not None
        height, width = hidden.shape
        down, across = box.height() / height, box.width() / width
        hatch = QBrush(look.masked, Qt.BrushStyle.BDiagPattern)
        for row in np.flatnonzero(hidden.any(1)).tolist():
            edges = np.flatnonzero(np.diff(np.concatenate(([False], hidden[row], [False])).astype(np.int8)))
            for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                part = QRectF(box.x() + start * across, box.y() + row * down, (stop - start) * across, down)
                painter.fillRect(part, look.masked_ground)
                painter.fillRect(part, hatch)

    def _texts(self, key: str) -> list[list[str]]:
        """The numbers of a matrix as they stand in its cells."""
        texts = self._kept.texts.get(key)
        if texts is None:
            assert self.reading is not None
            values = self.reading.matrices[key].values.tolist()
            texts = self._kept.texts[key] = [[in_cell(value) for value in row] for row in values]
        return texts

    def number_size(self, key: str, box: QRectF) -> int:
        """How large the numbers of a matrix are written in their cells; 0 where they would not all fit."""
        assert self.reading is not None
        height, width = self.reading.matrices[key].values.shape
        down, across, least = box.height() / height, box.width() / width, theme.current().size("number")
        if across < 2.8 * least or down < 1.3 * least:  # before thousands of numbers are written
            return 0
        longest = max(len(text) for row in self._texts(key) for text in row)
        size = min(int((across - 6) / (0.62 * longest)), int(down * 0.5), round(2.5 * least))
        return size if size >= 0.85 * least else 0

    def _paint_numbers(self, painter: QPainter, key: str, box: QRectF, size: int) -> None:
        """Write the numbers into their cells."""
        assert self.reading is not None
        look, matrix, texts = theme.current(), self.reading.matrices[key], self._texts(key)
        height, width = matrix.values.shape
        down, across = box.height() / height, box.width() / width
        font = look.font("number")
        font.setPixelSize(size)
        colours = self._pixels(key, box)
        for row, line in enumerate(texts):
            for column, text in enumerate(line):
                if matrix.hidden is None or not matrix.hidden[row, column]:
                    cell = QRectF(box.x() + column * across, box.y() + row * down, across, down)
                    ground = QColor(*colours[row, column, :3].tolist())
                    ink.draw_text(painter, cell, text, font, look.ink_on(ground), ink.CENTRE)

    # Around the cells ---------------------------------------------------------------------------------------------

    def _paint_sign(self, painter: QPainter, box: QRectF, sign: str) -> None:
        look = theme.current()
        ink.draw_text(painter, box, sign, look.font("title"), look.faint, ink.CENTRE)

    def _paint_tokens(self, painter: QPainter, matrix: WalkMatrix, box: QRectF) -> None:
        """The tokens of the rows; where they do not fit, that of the query alone."""
        look = theme.current()
        line, down = ink.line_height(look.font("label")), box.height() / matrix.values.shape[0]
        for row in range(*matrix.rows):
            is_query = row == self.marked.query
            if is_query or down >= 0.85 * line:
                top = box.y() + (row - matrix.rows[0] + 0.5) * down - line / 2
                place = QRectF(0, top, box.x() - 6, line)
                colour = look.query if is_query else look.faint
                ink.draw_text(painter, place, self._token(row), look.font("label"), colour, ink.RIGHT)

    def _paint_keys(self, painter: QPainter, box: QRectF, matrix: WalkMatrix) -> None:
        """The tokens of the columns, as many as do not touch the selected one or each other."""
        look, font = theme.current(), theme.current().font("label")
        line, across = ink.line_height(font), box.width() / matrix.values.shape[1]
        block, taken = self._block(matrix)[1], list[QRectF]()
        keys = sorted(range(0, matrix.columns[1], block), key=lambda key: key // block != self.marked.key // block)
        for key in keys:
            text = self._token(key)
            width, middle = ink.text_width(font, text) + 4, box.x() + (key // block + 0.5) * across
            place = QRectF(middle - width / 2, box.y() - line - 1, width, line)
            if not any(place.intersects(other) for other in taken):
                taken.append(place)
                chosen = key // block == self.marked.key // block
                ink.draw_text(painter, place, text, font, look.key if chosen else look.faint, ink.CENTRE)

    def _band(self, key: str) -> tuple[int, int, bool] | None:
        """The rows (True) or columns of the selected head in a matrix of all heads."""
        assert self.reading is not None
        matrix = self.reading.matrices[key]
        if "heads" not in matrix.axes or matrix.shape[matrix.axes.index("heads")] <= self.width_of_head:
            return None
        is_kv = key[:3] in ("w_k", "w_v") or key in ("k_all", "v_all")
        head, width = self.reading.kv_head if is_kv else self.reading.head, self.width_of_head
        by_rows = matrix.axes[0] == "heads"
        first = head * width - (matrix.rows if by_rows else matrix.columns)[0]
        return first, first + width, by_rows

    def band_box(self, key: str, box: QRectF) -> QRectF:
        """Where the selected head is in a matrix of all heads; all of any other."""
        band = self._band(key)
        if band is None or self.reading is None:
            return box
        first, stop, by_rows = band
        matrix = self.reading.matrices[key]
        if by_rows:
            cell = box.height() / (matrix.rows[1] - matrix.rows[0])
            return QRectF(box.x(), box.y() + first * cell, box.width(), (stop - first) * cell)
        cell = box.width() / (matrix.columns[1] - matrix.columns[0])
        return QRectF(box.x() + first * cell, box.y(), (stop - first) * cell, box.height())

    def _paint_heads(self, painter: QPainter, key: str, box: QRectF) -> None:
        """Lines between the heads of a matrix of all, and a frame around the selected one."""
        assert self.reading is not None
        band, matrix, look = self._band(key), self.reading.matrices[key], theme.current()
        if band is None:
            return
        total = matrix.rows[1] - matrix.rows[0] if band[2] else matrix.columns[1] - matrix.columns[0]
        painter.setPen(QPen(look.panel, 1))
        for at in range(self.width_of_head, total, self.width_of_head):
            if band[2]:
                y = round(box.y() + box.height() * at / total)
                painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            else:
                x = round(box.x() + box.width() * at / total)
                painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))
        if total > self.width_of_head:
            colour = ink.kind_colour(matrix.kind, look)
            _frame(painter, self.band_box(key, box), colour, 2)

    def _paint_marks(self, painter: QPainter, focus: Spot) -> None:
        """The row and the column that a number comes from, and the number."""
        assert self.reading is not None
        look, equation = theme.current(), self.equation
        for place in self.picture.places:
            matrix = self.reading.matrices[place.key]
            box = self.box_now(place)
            height, width = matrix.values.shape
            down, across = box.height() / height, box.width() / width
            product = equation is not None and equation.form == "product"
            if product and place.slot in (1, 2) and place.key != focus.key:
                column = QRectF(box.x() + focus.column * across, box.y(), across, box.height())
                _frame(painter, column, look.key if matrix.axes[1] == "key" else look.accent, 2)
            elif matrix.axes[0] == "token":
                row = min(focus.row, height - 1)
                _frame(painter, QRectF(box.x(), box.y() + row * down, box.width(), down), look.query, 2)
            if place.key == focus.key or (not product and place.equation == 0 and width == self._columns(focus.key)):
                row = min(focus.row, height - 1)
                cell = QRectF(box.x() + focus.column * across, box.y() + row * down, across, down)
                grown = max(cell.width(), 5.0), max(cell.height(), 5.0)
                centre = cell.center()
                cell = QRectF(centre.x() - grown[0] / 2, centre.y() - grown[1] / 2, *grown)
                _frame(painter, cell, look.accent, 3 if place.slot < 0 else 2)
            if matrix.axes == ("token", "one"):
                self._paint_number(painter, place, min(focus.row, height - 1))

    def _columns(self, key: str) -> int:
        assert self.reading is not None
        return len(self.reading.matrices[key].values[0])

    def _paint_number(self, painter: QPainter, place: Place, row: int) -> None:
        """Write the number of one row over its column, where the cells are too low for numbers."""
        look, font = theme.current(), theme.current().font("number")
        line, down = ink.line_height(font), place.box.height() / max(self._rows(place.key), 1)
        if self.number_size(place.key, place.box):
            return
        text = in_cell(self.value(Spot(place.key, row, 0)))
        middle = place.box.y() + (row + 0.5) * down
        box = QRectF(0, 0, ink.text_width(font, text) + 8, line)
        box.moveCenter(QPointF(place.box.center().x(), min(middle, self.height() - line / 2 - 1)))
        painter.fillRect(box, look.panel)
        painter.setPen(QPen(look.query, 1))
        painter.drawRect(box)
        ink.draw_text(painter, box, text, font, look.text, ink.CENTRE)

    def _rows(self, key: str) -> int:
        assert self.reading is not None
        return len(self.reading.matrices[key].values)

    def _paint_corner(self, painter: QPainter, focus: Spot) -> None:
        """In the corner that a product leaves free: the sum that the marked number is, in large type."""
        look, corner = theme.current(), self.picture.corner.adjusted(0, 0, -theme.current().grid(3), 0)
        number, line = look.font("number"), ink.line_height(look.font("number"))
        large = look.font("formula")
        large.setPixelSize(2 * look.size("formula"))
        high = ink.line_height(large)
        if corner.height() < high + 3 * line or corner.width() < 11 * look.size("number"):
            return
        rows = min(int((corner.height() - high - line) / line), MOST_TERMS)
        terms, count = self.terms(focus, rows)
        terms = terms if count <= rows else terms[: rows - 1]
        texts = [f"{'  ' if place == 0 else '+ '}{in_cell(a)} · {in_cell(b)}" for place, (a, b) in enumerate(terms)]
        if count > len(terms):
            texts.append(f"+ {count - len(terms)} smaller")
        bias = self.equation.operands[2:] if self.equation is not None else ()
        texts += [f"+ {in_cell(self.value(Spot(key, 0, focus.column)))} (b)" for key in bias]
        height = (len(texts)) * line + high + line / 2
        y = corner.y() + (corner.height() - height) / 2
        for text in texts:
            ink.draw_text(painter, QRectF(corner.x(), y, corner.width(), line), text, number, look.faint, ink.RIGHT)
            y += line
        value = f"= {wording.number(self.value(focus))}"
        ink.draw_text(
            painter, QRectF(corner.x(), y + line / 2, corner.width(), high), value, large, look.text, ink.RIGHT
        )

    # Hands --------------------------------------------------------------------------------------------------------

    def spot_at(self, point: QPointF) -> Spot | None:
        """The cell under a point."""
        if self.reading is None:
            return None
        for place in self.picture.places:
            if place.box.contains(point):
                height, width = self.reading.matrices[place.key].values.shape
                row = int((point.y() - place.box.y()) / place.box.height() * height)
                column = int((point.x() - place.box.x()) / place.box.width() * width)
                return Spot(place.key, min(row, height - 1), min(column, width - 1))
        return None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Explain the cell under the pointer."""
        self.point_at(self.spot_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Explain the selected cell again."""
        self.point_at(None)

    def point_at(self, spot: Spot | None) -> None:
        """Explain a cell, or the selected one again."""
        if spot != self.pointed:
            self.pointed = spot
            self.spot_pointed.emit(spot)
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select what is clicked."""
        spot = self.spot_at(event.position())
        if spot is not None and event.button() == Qt.MouseButton.LeftButton:
            self.spot_clicked.emit(spot)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go to the cell beside the selected one."""
        step = arrow_keys.step_of(event)
        if step is None:
            super().keyPressEvent(event)
        else:
            self.moved.emit(*step)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and answer for tooltips."""
        if arrow_keys.kept(event):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            spot = self.spot_at(QPointF(event.pos()))
            text = "" if spot is None else self.description(spot)
            QToolTip.showText(event.globalPos(), wording.tooltip(text), self)
            return True
        return super().event(event)


def _coarser(values: Floats, height: int, width: int) -> Floats:
    """The number furthest from 0 under each of fewer pixels."""
    rows, columns = values.shape
    if (rows, columns) == (height, width):
        return values
    down, across = (np.arange(size) * count // size for size, count in ((height, rows), (width, columns)))
    high = np.maximum.reduceat(np.maximum.reduceat(values, down, 0), across, 1)
    low = np.minimum.reduceat(np.minimum.reduceat(values, down, 0), across, 1)
    return np.where(high >= -low, high, low)


def _eased(share: float) -> float:
    return share * share * (3 - 2 * share)


def _between(one: QRectF, other: QRectF, share: float) -> QRectF:
    def mixed(a: float, b: float) -> float:
        return a + (b - a) * share

    return QRectF(
        mixed(one.x(), other.x()),
        mixed(one.y(), other.y()),
        mixed(one.width(), other.width()),
        mixed(one.height(), other.height()),
    )


def _frame(painter: QPainter, box: QRectF, colour: QColor, width: int) -> None:
    """A frame that is seen on any colour: a line, and one of the ground's around it."""
    around = box.adjusted(-0.5, -0.5, 0.5, 0.5)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for one, size in ((theme.current().panel, width + 2), (colour, width)):
        pen = QPen(one, size)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        painter.drawRect(around)
