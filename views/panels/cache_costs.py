"""What a KV cache costs: bars for other head counts and widths, bytes at every step, and a planner.

The formulas are ``model.decoder.costs``'.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QScrollArea, QSpinBox, QVBoxLayout, QWidget

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, kv_bytes, kv_bytes_at_bits, kv_bytes_visible
from ropewalk.model.readings.records import CacheReading, Run
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.flow import flowing


@dataclass(frozen=True)
class Cost:
    """One bar: how many kv heads, what that is called, and what the cache would take."""

    name: str
    bytes: int
    own: bool


def costs(reading: CacheReading, heads: int, kv_heads: int) -> tuple[Cost, ...]:
    """Return the bytes with one K/V head per query head, as the model has it, and with a single one."""
    kind = {heads: "MHA", 1: "MQA"}.get(kv_heads, "GQA")
    rows = [Cost(f"{kind}, {kv_heads} kv head{'s' if kv_heads > 1 else ''} (here)", reading.bytes_measured, True)]
    if kv_heads != heads:
        rows.insert(0, Cost(f"MHA, {heads} kv heads", reading.bytes_full_heads, False))
    if kv_heads != 1:
        rows.append(Cost("MQA, 1 kv head", reading.bytes_one_head, False))
    return tuple(rows)


class CostsView(QWidget):
    """Bars of what the cache takes, and the sum it comes from."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Cost, ...] = ()
        self.lines: tuple[str, ...] = ()
        self.setAccessibleName("Bytes of the cache")

    def show_costs(self, rows: tuple[Cost, ...], lines: tuple[str, ...]) -> None:
        """Draw bars for ``rows`` and write ``lines`` under them."""
        self.rows, self.lines = rows, lines
        self.setAccessibleDescription("; ".join([*(f"{c.name}: {c.bytes:,} bytes" for c in rows), *lines]))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the width of the longest line and the height of all."""
        look = theme.current()
        label, digits = look.font("label"), look.font("number")
        names = [ink.text_width(label, c.name) + ink.text_width(digits, f"   {_bytes(c)}") for c in self.rows]
        lines = [ink.text_width(label, text) for text in self.lines]
        width = max([*names, *lines, 120])
        return QSize(round(width) + 2, round(len(self.rows) * self._pitch() + len(self.lines) * self._line()))

    def minimumSizeHint(self) -> QSize:
        """Return the size hint: text is never cut."""
        return QSize(self.sizeHint().width(), 0)

    def _line(self) -> float:
        return ink.line_height(theme.current().font("label"))

    def _pitch(self) -> float:
        return self._line() + theme.current().grid(1.25)

    def bar_of(self, row: int) -> QRectF:
        """Return the bar of a row; the widest is as wide as the widget."""
        largest = max(c.bytes for c in self.rows) or 1
        look = theme.current()
        top = row * self._pitch() + self._line()
        return QRectF(0, top, max(self.width() * self.rows[row].bytes / largest, 2), look.grid(0.75))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint names, bytes, bars and lines; lines that do not fit are left out from the end."""
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        label = look.font("label")
        for i, cost in enumerate(self.rows):
            box = QRectF(0, i * self._pitch(), self.width(), self._line())
            colour = look.text if cost.own else look.faint
            ink.draw_text(painter, box, cost.name, label, colour)
            ink.draw_text(painter, box, _bytes(cost), look.font("number"), colour, ink.RIGHT)
            ink.draw_bar(painter, self.bar_of(i), look.accent if cost.own else look.masked)
        top = len(self.rows) * self._pitch()
        for text in self.lines:
            box = QRectF(0, top, self.width(), self._line())
            if box.bottom() > self.height() + 1:
                break
            ink.draw_text(painter, box, text, label, look.faint)
            top += self._line()
        painter.end()


def _bytes(cost: Cost) -> str:
    return wording.byte_size(cost.bytes)


def kind_of(heads: int, kv_heads: int) -> str:
    """What a number of kv heads is called."""
    return {heads: "MHA", 1: "MQA"}.get(kv_heads, "GQA")


def planned(config: ModelConfig, length: int, batch: int, dtype: str) -> tuple[Cost, ...]:
    """What a cache of that length and batch takes, from the config alone: other head counts, then other widths."""
    own = kv_bytes(config, length, dtype, batch)
    kind = kind_of(config.heads, config.kv_heads)
    rows = [Cost(f"{kind}, {config.kv_heads} kv heads, {dtype} (here)", own, True)]
    if config.kv_heads != config.heads:
        full = kv_bytes(config, length, dtype, batch, config.heads)
        rows.append(Cost(f"Hkv = H = {config.heads}, {dtype}", full, False))
    if config.kv_heads != 1:
        rows.append(Cost(f"Hkv = 1, {dtype}", kv_bytes(config, length, dtype, batch, 1), False))
    rows += [Cost(f"{bits} bits a number", kv_bytes_at_bits(config, length, bits, batch), False) for bits in (16, 8, 4)]
    seen = kv_bytes_visible(config, length, dtype, batch)
    if seen != own:
        rows.append(Cost(f"within the windows, {dtype}", seen, False))
    return tuple(rows)


class Planner(QWidget):
    """Any context and batch: what the cache would take."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.run: Run | None = None
        self.context, self.batch = QSpinBox(), QSpinBox()
        labels = []
        for box, name, most in ((self.context, "context", 100_000_000), (self.batch, "batch", 100_000)):
            box.setRange(1, most)
            box.setGroupSeparatorShown(True)
            box.setAccessibleName(f"Planned {name}")
            box.setFixedWidth(9 * theme.current().size("body"))
            box.valueChanged.connect(self._plan)
            label = plain_label(name, "label")
            label.setBuddy(box)
            labels.append(label)
        self.bars = CostsView()
        scroller = QScrollArea()
        scroller.setWidget(self.bars)
        scroller.setWidgetResizable(True)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.viewport().setAutoFillBackground(False)
        self.bars.setAutoFillBackground(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(flowing(labels[0], self.context, labels[1], self.batch))
        layout.addWidget(scroller, 1)

    def show_run(self, run: Run) -> None:
        """Plan for the model of a run; its context length first."""
        fresh = self.run is None or self.run.config != run.config
        self.run = run
        if fresh:
            self.context.setValue(run.config.max_position)
        self._plan()

    def _plan(self) -> None:
        if self.run is None:
            return
        length, batch, dtype = self.context.value(), self.batch.value(), self.run.model.dtype
        rows = planned(self.run.config, length, batch, dtype)
        each = kv_bytes(self.run.config, 1, dtype)
        exact = f"{rows[0].bytes:,} bytes = {format_bytes(rows[0].bytes)}, {each:,} a token and sequence"
        self.bars.show_costs(rows, (exact,))
        self.bars.setMinimumHeight(self.bars.sizeHint().height())


class GrowthView(QWidget):
    """Bytes against tokens: lines by formula, a dot for every step whose tensors were measured."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.run: Run | None = None
        self.measured: dict[int, int] = {}
        self.setAccessibleName("Bytes of the cache at each step, measured and by formula")

    def show_step(self, run: Run, reading: CacheReading) -> None:
        """Remember what was measured at this length; another prefill begins anew."""
        if self.run is None or self.run.run_id != run.run_id:
            self.measured.clear()
        self.run = run
        self.measured = {n: size for n, size in self.measured.items() if n <= run.newest}
        self.measured[reading.length] = reading.bytes_measured
        self.setAccessibleDescription(f"{self.sentence()}; {self.in_bits()}")
        self.update()

    def in_bits(self) -> str:
        """Say what the rows in view would take with fewer bits a number."""
        run = self.run
        if run is None:
            return ""
        sizes = ", ".join(wording.byte_size(kv_bytes_at_bits(run.config, run.length, bits)) for bits in (16, 8, 4))
        return f"in 16, 8 and 4 bits: {sizes}"

    def formula(self, length: int, kv_heads: int | None = None) -> int:
        """Bytes at a length by formula."""
        return 0 if self.run is None else kv_bytes(self.run.config, length, self.run.model.dtype, 1, kv_heads)

    def sentence(self) -> str:
        """Say whether every measured step equals the formula."""
        off = [n for n, size in self.measured.items() if size != self.formula(n)]
        if off:
            return f"At {off[0]} tokens measured {self.measured[off[0]]:,}, by formula {self.formula(off[0]):,}."
        newest = max(self.measured, default=0)
        count = len(self.measured)
        return (
            f"measured = formula at {count} step{'s' if count > 1 else ''}; {self.formula(newest):,} bytes at {newest}"
        )

    def sizeHint(self) -> QSize:
        """A small chart."""
        return QSize(240, 120)

    def plot(self) -> QRectF:
        """Where the lines are."""
        line = ink.line_height(theme.current().font("label"))
        right = ink.text_width(theme.current().font("label"), "Hkv = 00: 000 KB") + theme.GRID
        return QRectF(2, 2.5 * line + 2, self.width() - right - 4, self.height() - 3.5 * line - 8)

    def point(self, length: int, size: int) -> QPointF:
        """Where a length and its bytes are drawn."""
        run, box = self.run, self.plot()
        if run is None:
            return box.bottomLeft()
        first, last = run.prefill, max(run.newest, run.prefill + 8)
        top = self.formula(last, run.config.heads) or 1
        x = box.left() + box.width() * (length - first) / (last - first)
        return QPointF(x, box.bottom() - box.height() * size / top)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the lines, their names and the dots."""
        run = self.run
        if run is None:
            return
        look, box = theme.current(), self.plot()
        label, line = look.font("label"), ink.line_height(look.font("label"))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink.draw_text(painter, QRectF(0, 0, self.width(), line), self.sentence(), label, look.text)
        ink.draw_text(painter, QRectF(0, line, self.width(), line), self.in_bits(), label, look.faint)
        painter.setPen(QPen(look.line, 1))
        painter.drawLine(box.bottomLeft(), box.bottomRight())
        last = max(run.newest, run.prefill + 8)
        taken = self.height() + line
        for heads in sorted({1, run.config.kv_heads, run.config.heads}):
            own = heads == run.config.kv_heads
            colour = look.accent if own else look.faint
            painter.setPen(QPen(colour, 2 if own else 1))
            start, end = (self.point(n, self.formula(n, heads)) for n in (run.prefill, last))
            painter.drawLine(start, end)
            y = min(end.y() - line / 2, taken - line)
            taken = y
            text = f"Hkv = {heads}: {wording.byte_size(self.formula(run.length, heads))}"
            ink.draw_text(
                painter, QRectF(box.right() + 6, y, self.width() - box.right() - 6, line), text, label, colour
            )
        painter.setPen(Qt.PenStyle.NoPen)
        for length, size in self.measured.items():
            painter.setBrush(look.text if length == run.length else look.accent)
            painter.drawEllipse(self.point(length, size), 3.5, 3.5)
        below = QRectF(box.left(), box.bottom() + 4, box.width(), line)
        ink.draw_text(painter, below, str(run.prefill), look.font("number"), look.faint)
        ink.draw_text(painter, below, f"{last} tokens", look.font("number"), look.faint, ink.RIGHT)
        painter.end()
