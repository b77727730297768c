"""What a KV cache costs: bars for other head counts and widths, bytes at every step, and a planner.

The formulas are ``model.decoder.costs``'.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyqtgraph import mkPen
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QScrollArea, QSpinBox, QVBoxLayout, QWidget

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, kv_bytes, kv_bytes_at_bits, kv_bytes_visible
from ropewalk.model.readings.records import CacheReading, Run
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.plots.charts.plot import Curve, Line, NumberAxis, Plot, Table
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
        self._brief = False
        self.setAccessibleName("Bytes of the cache")

    def shorten(self, brief: bool) -> None:
        """Draw the bars alone, or the sum they come from too."""
        if brief != self._brief:
            self._brief = brief
            self.updateGeometry()
            self.update()

    def show_costs(self, rows: tuple[Cost, ...], lines: tuple[str, ...]) -> None:
        """Draw bars for ``rows`` and write ``lines`` under them."""
        self.rows, self.lines = rows, lines
        self.setAccessibleDescription("; ".join([*(f"{c.name}: {c.bytes:,} bytes" for c in rows), *lines]))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the width of the longest line and the height of all."""
        return self.size_for(self._brief)

    def size_for(self, brief: bool) -> QSize:
        """How much room it takes, with the sum or without."""
        look = theme.current()
        label, digits = look.font("label"), look.font("number")
        names = [ink.text_width(label, c.name) + ink.text_width(digits, f"   {_bytes(c)}") for c in self.rows]
        written = () if brief else self.lines
        width = max([*names, *(ink.text_width(label, text) for text in written), 120])
        return QSize(round(width) + 2, round(len(self.rows) * self._pitch() + len(written) * self._line()))

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
        for text in () if self._brief else self.lines:
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
        for box, name, most, tip in (
            (self.context, "context", 100_000_000, "Positions that the planned cache holds."),
            (self.batch, "batch", 100_000, "Sequences that the planned cache holds."),
        ):
            box.setRange(1, most)
            box.setGroupSeparatorShown(True)
            box.setAccessibleName(f"Planned {name}")
            box.setToolTip(tip)
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


class GrowthView(Plot):
    """Bytes against tokens: lines by formula, a dot for every step whose tensors were measured."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.run: Run | None = None
        self.measured: dict[int, int] = {}
        self.lines: dict[int, Curve] = {}
        self.prefill = Line(movable=False)
        super().__init__(NumberAxis("left", "bytes"), NumberAxis("bottom", "whole"), parent)
        self.add(self.prefill)
        self.bottom.name("tokens in the cache; those of the prompt end at the line")
        self.setAccessibleName("Bytes of the cache at each step, measured and by formula")

    def show_step(self, run: Run, reading: CacheReading) -> None:
        """Remember what was measured at this length; another prefill begins anew."""
        if self.run is None or self.run.run_id != run.run_id:
            self.measured.clear()
            self.point_away()
        self.run = run
        self.measured = {n: size for n, size in self.measured.items() if n <= run.newest}
        self.measured[reading.length] = reading.bytes_measured
        self.setAccessibleDescription(f"{self.sentence()}; {self.in_bits()}")
        self.heading.say(f"{self.sentence()}\n{self.in_bits()}")
        self._draw(run)

    def _draw(self, run: Run) -> None:
        look, last = theme.current(), max(run.newest, run.prefill + 8)
        first = max(run.prefill - 3 * (last - run.prefill), 0)  # near enough to tell steps apart
        for heads in self.lines.keys() | self.heads():
            line = self.lines.get(heads) or self.lines.setdefault(heads, Curve())
            if line.getViewBox() is None:
                self.add(line)
            ends = [first, last] if heads in self.heads() else []
            own = heads == run.config.kv_heads
            pen = mkPen(look.accent if own else look.faint, width=2 if own else 1)
            line.setData(ends, [self.formula(n, heads) for n in ends], pen=pen)
        self.prefill.setPen(mkPen(look.query, style=Qt.PenStyle.DotLine))
        self.prefill.setValue(run.prefill)
        now = [(n, size, look.text if n == run.length else look.accent) for n, size in self.measured.items()]
        self.dots.show_dots(now)
        self.name_ends(
            [
                (
                    self.formula(last, heads),
                    f"Hkv = {heads}, now {wording.byte_size(self.formula(run.length, heads))}",
                    look.accent if heads == run.config.kv_heads else look.faint,
                )
                for heads in self.heads()
            ]
        )
        self.show_range(first, last, 0, 1.1 * self.formula(last, run.config.heads))

    def heads(self) -> set[int]:
        """The numbers of kv heads that have a line."""
        return set() if self.run is None else {1, self.run.config.kv_heads, self.run.config.heads}

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        if self.run is not None:
            self._draw(self.run)

    def table(self) -> Table:
        """What is drawn, as columns."""
        return ("tokens", list(self.measured)), ("bytes", list(self.measured.values()))

    def readout(self, at: QPointF) -> str:
        """What the cache takes at a length, for each number of heads."""
        n = max(round(at.x()), 0)
        said = (f"Hkv = {heads} {wording.byte_size(self.formula(n, heads))}" for heads in sorted(self.heads()))
        return f"{wording.counted(n, 'token')}: {' · '.join(said)}" if self.run is not None else ""

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
        return QSize(240, 14 * theme.current().size("label"))
