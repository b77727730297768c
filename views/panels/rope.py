"""Rotary positions: a dial for one plane, circles for all, their shares of the score, and what moving does to it.

The rotation is in ``views.plots.rotation.turning``, beside it the pictures; the page that turns is
``views.panels.turning_page``. Everything else is read.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskPlanes, AskRules, Question
from ropewalk.model.readings.records import Doubles, PlaneReading, RopeRule, Run
from ropewalk.views.panels.legend import Legend
from ropewalk.views.panels.panel import Kept, Mark, Panel, plain_label
from ropewalk.views.panels.turning_page import TurningPage
from ropewalk.views.plots.arrow_keys import ArrowSlider
from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.curves import CurvesPage, SpectrumView
from ropewalk.views.plots.rotation.pairing import PairingView
from ropewalk.views.plots.rotation.turning import Moves, Turned, drift, scores_by_position
from ropewalk.views.style import motion, theme, wording
from ropewalk.views.style.flow import flowing
from ropewalk.views.style.highlight import numbers

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

PARTS = 16
"""The slider counts sixteenths of a position, so that play turns smoothly; a key moves whole positions."""


NOT_FINITE = (
    "This query or this key has numbers that are infinite or none at all (NaN), so there is no angle to draw; choose "
    "another cell, or open the model in float32."
)


class RopePanel(Panel):
    """Shows how rotation turns the selected query and key, plane by plane."""

    name: ClassVar[str] = "rope"
    title: ClassVar[str] = "RoPE"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("line", "query", "query turned by m"),
        Mark("line", "key", "key turned by n"),
        Mark("dash", "faint", "before rotation"),
        Mark("hollow", "faint", "shorter than drawn"),
        Mark("outline", "accent", "selected plane"),
    )
    LEGENDS: ClassVar[dict[str, tuple[Mark, ...]]] = {
        "planes": legend,
        "distance": (
            Mark("line", "text", "these two contents at every distance"),
            Mark("dash", "query", "their distance in the run"),
        ),
        "spectrum": (
            Mark("fill", "accent", "finishes a turn within the context"),
            Mark("hatch", "bad", "never finishes one"),
            Mark("outline", "accent", "selected plane"),
        ),
        "pairing": (
            Mark("line", "faint", "two features that turn together"),
            Mark("fill", "accent", "those of the selected plane"),
        ),
    }
    """What the marks of each page mean."""
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query", "key"})
    marks: ClassVar[frozenset[str]] = frozenset({"plane"})
    reading = Kept[PlaneReading]()
    rules = Kept[tuple[RopeRule, ...]]()

    INTERVAL = 16
    """Milliseconds between two frames while it plays: 60 a second."""
    MOVES: ClassVar[dict[Moves, tuple[str, str]]] = {
        "query": ("move m", "Move the query alone: its hands turn, the score changes"),
        "key": ("move n", "Move the key alone: its hands turn, the score changes"),
        "both": ("shift both", "Move query and key together: everything turns, the score stands still"),
    }
    """What the slider moves: what its button says, and what happens."""
    PAGES = tuple(LEGENDS)
    SPEEDS = (1, 2, 4, 8)
    """Sixteenths of a position in a frame."""
    FAR = 32_000
    """A large shift, at which float32's drift is told."""
    LEAST_DISTANCE = 64
    LOWEST = 83
    """Pixels that a page has at least: an axis and a line of buttons."""
    CURVE_POINTS = 200
    ROOMY, SPARE, LOW = 34, 22, 13
    """Lines of type below which there is no room for what float32 does, for the sum, and for most controls."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._positions: Doubles = np.zeros(0)
        self._curve: Doubles = np.zeros(0)
        self._roomy = False
        self.behind: list[CurvesPage | SpectrumView | PairingView] = []
        """The pages behind the planes that are made."""
        self.moves: Moves = "query"
        """What the slider moves."""
        self.turning = TurningPage()
        self.dial, self.score, self.view = self.turning.dial, self.turning.score, self.turning.view
        self.scroller, self.shares = self.turning.scroller, self.turning.shares
        self.hear(self.view.plane_clicked, self._select)
        self.hear(self.view.plane_pointed, self._point)
        self.hear(self.shares.plane_clicked, self._select)
        self.hear(self.shares.position_chosen, lambda m: self.slider.setValue(round(m * PARTS)))
        self.sum_label = plain_label("", "number")
        self.sum_label.setWordWrap(True)
        self.sum_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.timer = QTimer(self)
        self.timer.setTimerType(Qt.TimerType.PreciseTimer)
        self.timer.setInterval(self.INTERVAL)
        self.timer.timeout.connect(self._advance)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._pages(), 1)
        self.key = Legend()
        self.key.show_marks(self.legend)
        layout.addWidget(self.key)
        layout.addWidget(self.sum_label)
        self.moving = QWidget()
        controls = QVBoxLayout(self.moving)
        controls.setContentsMargins(0, 0, 0, 0)
        controls.setSpacing(4)
        controls.addLayout(self._controls())
        self.ways = self._ways()
        controls.addWidget(self.ways)
        layout.addWidget(self.moving)

    def _pages(self) -> QStackedWidget:
        """What the panel can show; the planes first."""
        self.pages = QStackedWidget()
        self.pages.setMinimumHeight(self.LOWEST)
        self.pages.addWidget(self.turning)
        for _ in self.PAGES[1:]:
            place = QWidget()
            place.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)  # no page moves other panels
            self.pages.addWidget(place)
        self.page_box = QComboBox()
        self.page_box.setAccessibleName("What the RoPE panel shows")
        self.page_box.setToolTip("Turn to another picture of the rotation.")
        self.page_box.addItems(list(self.PAGES))
        self.page_box.currentIndexChanged.connect(self._turn_to)
        self.head_row.addWidget(self.page_box)
        return self.pages

    @cached_property
    def curves(self) -> CurvesPage:
        """The score by distance; made when it is first turned to, as the other two pages behind the planes."""
        page = CurvesPage()
        self._put_in("distance", page)
        self.hear(page.chosen, page.draw, RopePanel.rules)
        return page

    @cached_property
    def spectrum(self) -> SpectrumView:
        """How slowly each plane turns."""
        page = SpectrumView()
        self._put_in("spectrum", page)
        self.hear(page.picked, self._select, RopePanel.rules)
        return page

    @cached_property
    def pairing(self) -> PairingView:
        """Which features turn together."""
        page = PairingView()
        self._put_in("pairing", page)
        self.hear(page.plane_clicked, self._select)
        return page

    def _put_in(self, name: str, page: CurvesPage | SpectrumView | PairingView) -> None:
        """Put a page in its place; Tab comes by it after the box that turns to it."""
        place = self.pages.widget(self.PAGES.index(name))
        assert place is not None
        whole = QVBoxLayout(place)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(page)
        parts: list[QWidget] = [page, *page.findChildren(QWidget)]
        stops = [part for part in parts if part.focusPolicy() & Qt.FocusPolicy.TabFocus.value]
        for before, after in pairwise((self.page_box, *stops)):
            QWidget.setTabOrder(before, after)
        self.behind.append(page)
        self.plotted.emit(place)

    def _ways(self) -> QWidget:
        """What moves; over and over, how fast."""
        self.movers = {moves: self._toggle(text, tip) for moves, (text, tip) in self.MOVES.items()}
        for moves, button in self.movers.items():
            button.clicked.connect(lambda _, moves=moves: self.let_move(moves))
        self.query_alone, self.key_alone, self.both = self.movers.values()
        self.query_alone.setChecked(True)
        self.loop = self._toggle("loop", "Begin again at the end")
        self.speed = QComboBox()
        self.speed.setAccessibleName("Speed")
        self.speed.setToolTip("How fast the hands turn.")
        self.speed.addItems([f"{speed}×" for speed in self.SPEEDS])
        return flowing(*self.movers.values(), self.loop, self.speed)

    def _toggle(self, text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip + ".")
        button.setAccessibleName(tip)
        button.setCheckable(True)
        button.setProperty("toggle", "yes")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _controls(self) -> QHBoxLayout:
        self.play_button = QPushButton("Play")
        self.play_button.setToolTip("Turn the hands: what is chosen below moves through the positions.")
        self.play_button.clicked.connect(self.toggle)
        self.slider = ArrowSlider(Qt.Orientation.Horizontal)
        self.slider.setSingleStep(PARTS)
        self.slider.setPageStep(8 * PARTS)
        self.slider.setAccessibleName("Position of what moves")
        self.slider.setToolTip("Drag, or press an arrow, to turn what is chosen below to another position.")
        self.slider.valueChanged.connect(self._moved)
        self.slider.sliderMoved.connect(lambda value: self.slider.setValue(round(value / PARTS) * PARTS))
        self.position_label = plain_label("", "number")
        self.position_label.setBuddy(self.slider)
        self.back_button = QPushButton("Back")
        self.back_button.setToolTip("Put query and key back where they are in the run.")
        self.back_button.clicked.connect(self.put_back)
        row = QHBoxLayout()
        row.addWidget(self.play_button)
        row.addWidget(self.slider, 1)
        row.addWidget(self.position_label)
        row.addWidget(self.back_button)
        return row

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the planes of the selected cell, unless the layer does not rotate."""
        asked = AskPlanes(selection.layer, selection.head, selection.query, selection.key)
        turns = run.specs[selection.layer].rotary_width > 0
        return asked if turns or self.lacks(asked) else None

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the planes of the run's own position; a moved slider goes back."""
        self.pause()
        finite = reading is None or _is_finite(reading.value)
        self.reading = reading if finite else None
        if reading is None or not finite:
            self.describe(wording.head_name(selection.layer, selection.head))
            self.explain(NOT_FINITE if reading is not None else _why_still(run, selection.layer))
            return
        r: PlaneReading = reading.value
        last = min(max(run.newest - 1, self.LEAST_DISTANCE), run.context_limit - 1)
        self._positions = np.linspace(0, last, min(last + 1, self.CURVE_POINTS))
        self.describe(_subtitle(run, r))
        self._begin(r)
        self._show_page()

    def show_selection(self, selection: Selection) -> None:
        """Mark the selected plane."""
        self.turning.mark(selection.plane)
        for page in self.behind:
            if not isinstance(page, CurvesPage):
                page.mark(selection.plane)

    def show_hover(self, hover: Hover) -> None:
        """Mark the plane under the pointer."""
        self.view.pointed = -1 if hover.plane is None else hover.plane
        self.view.update()

    def show_highlights(self) -> None:
        """Ring the planes that are named."""
        self.view.highlight(numbers(self.highlighted, "planes"))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the room to the planes where there is little of it."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Hide what is of less use than the planes, the least useful first."""
        line = theme.current().size("label")
        self.ways.setVisible(self.height() >= self.LOW * line)
        self.key.setVisible(self.height() >= self.ROOMY * line)
        self.sum_label.setVisible(self.height() >= self.SPARE * line or self.pages.currentIndex() > 0)
        roomy = self.height() >= self.ROOMY * line
        if roomy != self._roomy:
            self._roomy = roomy
            self._show_page()

    @property
    def figure_legend(self) -> tuple[Mark, ...]:
        """The marks of the page in front, unless they are explained in the picture itself."""
        return () if self.key.isVisible() else self._marks

    @property
    def _marks(self) -> tuple[Mark, ...]:
        return self.LEGENDS[self.PAGES[self.pages.currentIndex()]]

    @property
    def figure_caption(self) -> str:
        """Where the query stands is written beside the slider, which is no part of a figure."""
        said = super().figure_caption
        return f"{said} · {self.position_label.text()}" if self.position_label.isVisible() else said

    def theme_changed(self) -> None:
        """Arrange and paint anew."""
        self._make_room()
        for picture in (self.turning, *self.behind):
            picture.theme_changed()

    def close_down(self) -> None:
        """Stop playing."""
        super().close_down()
        self.timer.stop()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop playing when nobody sees it."""
        self.pause()
        super().hideEvent(event)

    # Moving -------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> float:
        """Where what moves is shown; where both do, it is the query."""
        return self.slider.value() / PARTS

    @property
    def turned(self) -> Turned | None:
        """The reading as it is shown."""
        return None if self.reading is None else Turned.moved_to(self.reading, self.moves, self.position)

    def toggle(self) -> None:
        """Play or pause; where things shall not move, go to where the movement ends."""
        if self.timer.isActive():
            self.pause()
        elif self.reading is not None:
            if self.slider.value() == self.slider.maximum():
                self.slider.setValue(self.slider.minimum())
            if motion.reduced():
                self.slider.setValue(self.slider.maximum())
                return
            self.timer.start()
            self.play_button.setText("Pause")

    def pause(self) -> None:
        """Stop where it is."""
        self.timer.stop()
        self.play_button.setText("Play")

    def put_back(self) -> None:
        """Go back to the run's own position."""
        self.pause()
        if self.reading is not None:
            self.slider.setValue(self._own(self.reading) * PARTS)

    def let_move(self, moves: Moves) -> None:
        """Put everything back, and move this from now on."""
        self.pause()
        self.moves = moves
        for name, button in self.movers.items():
            button.setChecked(name == moves)
        if self.reading is not None:
            self._begin(self.reading)

    def begin_anew(self) -> None:
        """Show the run's own position on the dial again, with the query as what moves."""
        self.page_box.setCurrentIndex(0)
        self.let_move("query")

    def _advance(self) -> None:
        if self.reading is None:
            return
        if self.slider.value() < self.slider.maximum():
            self.slider.setValue(self.slider.value() + self.SPEEDS[max(self.speed.currentIndex(), 0)])
        elif self.loop.isChecked():
            self.slider.setValue(self.slider.minimum())
        else:
            self.pause()

    def _moved(self) -> None:
        if self.turned is not None:
            self._show(self.turned)

    def _own(self, r: PlaneReading) -> int:
        """Where what moves is in the run."""
        return r.key_position if self.moves == "key" else r.query_position

    def _begin(self, r: PlaneReading) -> None:
        """Put everything where it is in the run, and let the slider go as far as what moves can."""
        first = (
            max(r.query_position - r.key_position, 0) if self.moves == "both" else 0
        )  # the key stays behind the start
        self._curve = scores_by_position(r, self.moves, self._positions[self._positions >= first])
        self.slider.blockSignals(True)
        self.slider.setRange(first * PARTS, int(self._positions[-1]) * PARTS)
        self.slider.setValue(self._own(r) * PARTS)
        self.slider.blockSignals(False)
        self._moved()

    def _turn_to(self, page: int) -> None:
        self.pause()
        self.pages.setCurrentIndex(page)
        self.moving.setVisible(page == 0)
        self.key.show_marks(self._marks)
        self._make_room()
        self._show_page()

    def _show_page(self) -> None:
        """Bring the page in front up to date; the others cost nothing."""
        self.forget("rules")
        r, page = self.reading, self.PAGES[self.pages.currentIndex()]
        if r is None:
            return
        if page == "planes":
            self._moved()
        elif page == "pairing":
            self.pairing.show_reading(r)
            self.pairing.mark(self.session.selection.now.plane)
            self.sum_label.setText(self.pairing.sentence())
        else:
            self.ask(AskRules(r.layer), self._show_rules, "rules")

    def _show_rules(self, rules: Reading[tuple[RopeRule, ...]]) -> None:
        self.rules = rules
        run, r = rules.run, self.reading
        if r is None:
            return
        limit = run.context_limit
        if self.PAGES[self.pages.currentIndex()] == "spectrum":
            whose = "the stretched" if limit > run.config.max_position else "the model's"
            self.spectrum.show_planes(r, limit, run.length, whose)
            self.spectrum.mark(self.session.selection.now.plane)
            self.sum_label.setText(self.spectrum.sentence())
        else:
            self.curves.show_reading(r, rules.value, len(self._positions) and int(self._positions[-1]), limit)
            self.sum_label.setText(self.curves.sentence())

    def _show(self, turned: Turned) -> None:
        moves = self.moves
        self.turning.show_turned(turned, moves, self._positions[-len(self._curve) :], self._curve)
        self.back_button.setEnabled(turned.moved)
        self.position_label.setText(f"m = {hands.place(turned.position)}, n = {hands.place(turned.key_position)}")
        short = whole = sum_text(turned, tell_run=moves != "both")
        if moves == "both":
            whole += f"; {drift_text(turned, self.FAR)}"
        self.sum_label.setText(whole if self._roomy else short)
        self.sum_label.setToolTip(whole)

    def _select(self, plane: int) -> None:
        self.session.selection.update(plane=plane)

    def _point(self, plane: int) -> None:
        self.session.selection.point_at(Hover() if plane < 0 else Hover(plane=plane))


def sum_text(turned: Turned, *, tell_run: bool = True) -> str:
    """Write the sum of the shares out, the features that do not turn included, and what it is in the run."""
    r = turned.reading
    text = f"Σ of {wording.counted(len(r.shares), 'share')} = {wording.number(float(turned.shares.sum()))}"
    if r.rest:
        text += f", features that do not turn {wording.number(r.rest)}, together"
    text = f"{text} = {wording.number(turned.scaled)}" if r.rest else text
    text += " = scaled score"
    if turned.moved and tell_run:
        text += f" (in the run {wording.number(r.scaled)})"
    return text


def drift_text(turned: Turned, far: int) -> str:
    """Say what float32 makes of moving both, here and at a large shift."""
    here = wording.number(drift(turned.reading, turned.shift), 1)
    there = wording.number(drift(turned.reading, far), 1)
    return f"float32 is off by {here} here and by {there} at a shift of {far:,}"


def _subtitle(run: Run, r: PlaneReading) -> str:
    spec = run.specs[r.layer]
    pairs = (
        "adjacent pairs (2i, 2i+1)"
        if spec.pairing == "adjacent"
        else f"half-split pairs (i, i+{spec.rotary_width // 2})"
    )
    text = f"{wording.head_name(r.layer, r.head)} · query {r.query_position} → key {r.key_position}"
    text += f" · plane i turns by m·θᵢ · {pairs}"
    if spec.rotary_width < spec.head_width:
        text += f" · {spec.rotary_width} of {spec.head_width} features turn"
    if r.factor != 1.0:
        text += f" · stretched by {wording.number(r.factor)}"
    return text + (" · before rotation: approximate (half precision)" if r.approximate else "")


def _is_finite(r: PlaneReading) -> bool:
    numbers = (r.q_before, r.k_before, r.q_after, r.k_after, r.shares, r.scaled)
    return all(bool(np.isfinite(one).all()) for one in numbers)


def _why_still(run: Run, layer: int) -> str:
    if run.config.position == "rotary":
        return f"Layer {layer} does not rotate: this model leaves it without RoPE, so its scores ignore distance."
    how = {"none": "gives no positions at all", "learned": "adds learned positions to the embedding"}
    kind = how.get(run.config.position, "adds sinusoidal positions to the embedding")
    return f"No layer rotates here: this model {kind}."
