"""A random layer: rows of attention with the scale and without it, for two ways to draw weights, side by side.

The numbers come from the model; nothing is computed here.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QPushButton, QSpinBox, QVBoxLayout, QWidget

from ropewalk.model.engine.questions import AskRandomLayers
from ropewalk.model.readings.records import RandomLayer
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.style import theme, wording
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
    """Four maps of weights, side by side where there is room, else with the scale left and without it right."""

    WIDE = 52
    """Widths of a letter from which on all four stand side by side."""
    HIGH = 13
    """Lines of type that a map is high at least."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layers: tuple[RandomLayer, ...] = ()
        self.maps = tuple(Heatmap() for _ in range(4))
        self.words = tuple(plain_label("", "label") for _ in self.maps)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        for place, heatmap in enumerate(self.maps):
            heatmap.form.row_labels = heatmap.form.column_labels = False
            heatmap.set_levels(Levels(0.0, 1.0))
            heatmap.setAccessibleName(f"Weights of a random layer, map {place + 1}")
            heatmap.pointed.connect(partial(self._say, place))
        self.setAccessibleName("Weights of a random layer, with the scale and without it")
        self.fit()

    def show_layers(self, layers: tuple[RandomLayer, ...]) -> None:
        """Draw other readings."""
        self.layers = layers
        self.setAccessibleDescription("; ".join(f"{caption(one)}: {numbers_text(one)}" for one in layers))
        for place, (heatmap, layer) in enumerate(zip(self.maps, layers, strict=True)):
            rows = len(layer.weights)
            heatmap.title = caption(layer)
            heatmap.setAccessibleName(caption(layer))
            heatmap.set_data(layer.weights, np.tril(np.ones((rows, rows), np.bool_)), (0, rows), (0, rows))
            heatmap.arrange()
            self._say(place)

    def fit(self) -> None:
        """Arrange for the width and the type in use."""
        columns = 4 if self.width() >= self.WIDE * theme.current().size("label") else 2
        for place, (heatmap, words) in enumerate(zip(self.maps, self.words, strict=True)):
            row, column = divmod(place, columns)
            heatmap.setMinimumHeight(self.HIGH * theme.current().size("label"))
            heatmap.theme_changed()
            self._grid.addWidget(heatmap, 2 * row, column)
            self._grid.addWidget(words, 2 * row + 1, column)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange anew where another number of columns fits."""
        super().resizeEvent(event)
        self.fit()

    def _say(self, place: int, query: int = -1, key: int = -1) -> None:
        """Write what the rows come to, or the weight that is pointed at."""
        text = numbers_text(self.layers[place]).replace(", ", "\n")
        if query >= 0 and not self.maps[place].is_masked(query, key):
            text = f"query {query} → key {key}\nweight {wording.number(self.maps[place].value(query, key))}\n"
        self.words[place].setText(text)


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
        box.setToolTip(f"{name} of the random layer; it is drawn anew with every change.")
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
