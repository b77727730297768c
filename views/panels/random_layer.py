"""A random layer: rows of attention with the scale and without it, for two ways to draw weights, side by side.

The numbers come from the model; nothing is computed here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QPushButton, QSpinBox, QVBoxLayout, QWidget

from ropewalk.model.engine.questions import AskRandomLayers
from ropewalk.model.readings.records import RandomLayer
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.flow import flowing, scrolled

NAMES: Final = {"normal": "N(0, 1/D)", "library": "nn.Linear, U(±1/√D)"}
"""How each way of drawing is called."""


def caption(layer: RandomLayer) -> str:
    """Name a picture."""
    return f"{NAMES[layer.init]}, {'÷ √Dh' if layer.scaled else 'no scale'}"


def numbers_text(layer: RandomLayer) -> str:
    """Write what a picture's rows come to."""
    n = wording.number
    return f"entropy {n(layer.entropy)} nats, largest weight {n(layer.largest)}, scores ± {n(layer.spread)}"


def reason(layers: tuple[RandomLayer, ...]) -> str:
    """Say how far the rows were sharpened, and why the two ways of drawing differ."""
    n = wording.number
    normal, raw, library, library_raw = layers
    return (
        f"An even row would have {n(normal.even)} nats on average. Without the scale N(0, 1/D) falls to "
        f"{n(raw.entropy)} and nn.Linear's own weights only to {n(library_raw.entropy)}: U(±1/√D) has variance 1/(3D), "
        f"a third of 1/D, so a feature of q or k spreads by {n(library.features)} instead of {n(normal.features)}, "
        f"and q·k, a sum of products, by {n(library_raw.spread)} instead of {n(raw.spread)}: a third as much."
    )


class LayersView(QWidget):
    """Four pictures of weights, side by side where there is room, else with the scale left and without it right."""

    WIDE = 52
    """Widths of a letter from which on all four stand side by side."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layers: tuple[RandomLayer, ...] = ()
        self.setAccessibleName("Weights of a random layer, with the scale and without it")

    def show_layers(self, layers: tuple[RandomLayer, ...]) -> None:
        """Draw other readings."""
        self.layers = layers
        self.setAccessibleDescription("; ".join(f"{caption(one)}: {numbers_text(one)}" for one in layers))
        self.fit()

    def fit(self) -> None:
        """Take the height that the pictures and their lines need."""
        self.setMinimumHeight(self.sizeHint().height())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Two rows of pictures that can be seen, with their lines."""
        rows = 4 // self._columns()
        return QSize(240, round(rows * (12 * theme.GRID + self._lines() * self._line() + theme.GRID)))

    def box_of(self, place: int) -> QRectF:
        """Where a reading is drawn, its lines included."""
        columns = self._columns()
        row, column = divmod(place, columns)
        width, height = self.width() / columns, self.height() * columns / 4
        return QRectF(column * width, row * height, width - theme.GRID, height - theme.GRID)

    def picture_of(self, place: int) -> QRectF:
        """The square with the weights."""
        box = self.box_of(place)
        side = max(min(box.width(), box.height() - self._lines() * self._line() - 2), 1)
        return QRectF(box.left(), box.top(), side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the pictures and their lines."""
        look = theme.current()
        painter = QPainter(self)
        for place, layer in enumerate(self.layers):
            square = self.picture_of(place)
            side, rows = max(round(square.width()), 1), layer.weights.shape[0]
            at = np.arange(side) * rows // side
            pixels = ink.coloured(layer.weights[np.ix_(at, at)], look.sequential, look.undefined)
            later = at[None, :] > at[:, None]
            pixels[later] = (look.masked_ground.red(), look.masked_ground.green(), look.masked_ground.blue(), 255)
            painter.drawImage(QPointF(square.left(), square.top()), ink.to_image(pixels))
            box = self.box_of(place)
            lines = (caption(layer), *numbers_text(layer).split(", "))
            for number, text in enumerate(lines):
                top = square.bottom() + 2 + number * self._line()
                colour = look.text if number < 2 else look.faint
                ink.draw_text(painter, QRectF(box.left(), top, box.width(), self._line()), text, self._font(), colour)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange anew where another number of columns fits."""
        super().resizeEvent(event)
        self.setMinimumHeight(self.sizeHint().height())

    def _columns(self) -> int:
        return 4 if self.width() >= self.WIDE * theme.current().size("label") else 2

    def _font(self) -> QFont:
        return theme.current().font("label")

    def _line(self) -> float:
        return ink.line_height(self._font())

    def _lines(self) -> int:
        return 4


class RandomLayerPage(QWidget):
    """The layer's sizes, a button to draw again, and what came of it."""

    wanted = Signal(object)
    """Other sizes or another seed; carries the question."""

    SIZES: Final = (
        ("B", "Sequences", 2, 64),
        ("T", "Tokens", 16, 256),
        ("D", "Width", 128, 2048),
        ("H", "Heads", 4, 64),
    )

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.seed = 0
        self.boxes: dict[str, QSpinBox] = {}
        controls: list[QWidget] = []
        for letter, name, value, most in self.SIZES:
            label, box = plain_label(letter, "label"), self._box(name, value, most)
            label.setBuddy(box)
            self.boxes[letter] = box
            controls += [label, box]
        self.again = QPushButton("Draw again")
        self.again.setToolTip("Draw other random numbers.")
        self.again.clicked.connect(self._draw_again)
        self.view = LayersView()
        self.words = plain_label("", "label")
        self.words.setWordWrap(True)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 4, 0)
        column.addWidget(flowing(*controls, self.again))
        column.addWidget(self.words)
        column.addWidget(self.view, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scrolled(inside))
        self._fit_boxes()

    @property
    def question(self) -> AskRandomLayers:
        """What is asked for now."""
        b, t, d, h = (self.boxes[letter].value() for letter, *_ in self.SIZES)
        return AskRandomLayers(b, t, d, h, self.seed)

    def show_layers(self, layers: tuple[RandomLayer, ...]) -> None:
        """Draw what was asked for."""
        self.view.show_layers(layers)
        self.words.setText(reason(layers))

    def theme_changed(self) -> None:
        """Fit to the type."""
        self._fit_boxes()
        self.view.fit()

    def _box(self, name: str, value: int, most: int) -> QSpinBox:
        box = QSpinBox()
        box.setRange(1, most)
        box.setValue(value)
        box.setKeyboardTracking(False)
        box.setAccessibleName(f"{name} of the random layer")
        box.valueChanged.connect(self._ask)
        return box

    def _fit_boxes(self) -> None:
        for box in self.boxes.values():
            box.setFixedWidth(5 * theme.current().size("body"))

    def _draw_again(self) -> None:
        self.seed += 1
        self._ask()

    def _ask(self) -> None:
        self.wanted.emit(self.question)
