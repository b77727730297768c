"""A series that is gone through or played: a slider over its places, where it stands, and a button that plays it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from ropewalk.views.plots.arrow_keys import ArrowSlider
from ropewalk.views.style import ink, motion, theme


class FilmBar(QWidget):
    """Stands at one place of a series; where things shall not move, playing goes to its end at once.

    Signals
    -------
    moved(place)
        It stands at another place.

    Parameters
    ----------
    what
        What a place is, such as ``Checkpoint``.
    tip
        What the slider goes through.
    """

    moved = Signal(int)

    INTERVAL = 160
    """Milliseconds between two places that are played."""

    def __init__(self, what: str, tip: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: tuple[str, ...] = ()
        self.play_button = QPushButton("Play")
        self.play_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.play_button.clicked.connect(self.toggle)
        self.slider = ArrowSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(what)
        self.slider.setToolTip(tip)
        self.slider.setPageStep(5)
        self.slider.setRange(0, 0)
        self.slider.valueChanged.connect(self._stand)
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setProperty("role", "number")
        self.label.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self.label.hide()
        self.timer = QTimer(self)
        self.timer.setInterval(self.INTERVAL)
        self.timer.timeout.connect(self.advance)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID)
        for widget, stretch in ((self.play_button, 0), (self.slider, 1), (self.label, 0)):
            layout.addWidget(widget, stretch)

    def set_count(self, count: int) -> None:
        """Go through so many places, and stand at the last."""
        self.slider.setMaximum(max(count - 1, 0))
        self.finish()

    def set_names(self, names: Sequence[str]) -> None:
        """Go through places of these names, which stand beside the slider, and stand at the last."""
        self._names = tuple(names)
        self.label.setVisible(bool(names))
        self.set_count(len(names))
        self.theme_changed()
        self._name()

    def theme_changed(self) -> None:
        """Leave room for the longest name, so that the slider is never pushed while it plays."""
        font = theme.current().font("number")
        widest = max((ink.text_width(font, name) for name in self._names), default=0.0)
        self.label.setFixedWidth(round(min(widest, theme.current().grid(24))) + 2)

    @property
    def place(self) -> int:
        """Where it stands."""
        return self.slider.value()

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self.timer.isActive()

    def go(self, place: int) -> None:
        """Stand at another place."""
        self.slider.setValue(place)

    def toggle(self) -> None:
        """Play from the start or go on, or pause; where things shall not move, go to where it ends."""
        if self.is_playing:
            self.pause()
        elif motion.reduced():
            self.finish()
        else:
            if self.place == self.slider.maximum():
                self.go(0)
            self.timer.start()
            self.play_button.setText("Pause")

    def finish(self) -> None:
        """Stand where it ends."""
        self.pause()
        self.go(self.slider.maximum())

    def pause(self) -> None:
        """Stop where it is."""
        self.timer.stop()
        self.play_button.setText("Play")

    def advance(self) -> None:
        """Go to the next place; stop at the last."""
        self.go(self.place + 1)
        if self.place == self.slider.maximum():
            self.pause()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop playing when nobody sees it."""
        self.pause()
        super().hideEvent(event)

    def _stand(self, place: int) -> None:
        self._name()
        self.moved.emit(place)

    def _name(self) -> None:
        name = self._names[self.place] if self.place < len(self._names) else ""
        self.label.setText(name)
        self.label.setToolTip(name)
        self.slider.setAccessibleDescription(name)
