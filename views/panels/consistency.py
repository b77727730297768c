"""Consistency checks of a run, layer by layer: cached against full logits, and both branches of attention.

An alarm is raised when one fails. The session checks; nothing is computed here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from ropewalk.model.engine.questions import Capability
from ropewalk.model.readings.records import ConsistencyCheck, LayerGap, Run
from ropewalk.views.panels.panel import offer, plain_label
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.flow import flowing, scrolled

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

Kind = Literal["cached", "branches"]
SIDES: Final[dict[Kind, tuple[str, str]]] = {"cached": ("cached", "full"), "branches": ("fused", "explicit")}
"""What is compared with what."""

DECADES = (-10, 2)
"""Powers of ten from the left end of a bar to the right."""


def small(value: float) -> str:
    """Write a difference as ``3e−6``, or in plain figures where it is large."""
    if 0.01 <= value < 1e4:
        return wording.significant(value, 2)
    if value == 0:
        return "0"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("-", wording.MINUS)


def verdict(check: ConsistencyCheck) -> tuple[str, str]:
    """Say in a few words what a check found, and in which tone."""
    one, other = SIDES[check.kind]
    found = small(check.difference)
    if check.holds:
        return f"{one} = {other} {f'within {found}' if check.difference else 'exactly'} ✓", "good"
    if check.explained:
        return f"{one} differs from {other} by {found}, as it must", ""
    begins = check.begins
    where = "" if begins is None else f" from layer {begins.layer} on"
    return f"{one} ≠ {other}{where}: off by {found} ✗", "bad"


def conditions(check: ConsistencyCheck) -> str:
    """Say what was run and what is allowed."""
    if check.kind == "cached":
        ran = f"{check.rows} rows, the last one by a step and by a full pass"
    else:
        ran = (
            f"{check.rows - check.past} rows on a cache of {check.past}, in a batch of two of which one begins with "
            f"{check.padded} rows of padding"
        )
    text = f"{ran}: largest difference of the logits {small(check.difference)}, allowed {small(check.tolerance)}"
    return f"{text}; {check.explained}." if check.explained else f"{text}."


def origin(check: ConsistencyCheck) -> str:
    """Say where a difference begins, or that no layer has one."""
    begins = check.begins
    if begins is not None:
        return (
            f"It begins in layer {begins.layer}: {begins.where} is off by {small(begins.difference)}, where "
            f"{small(check.layer_tolerance)} of the largest number there is allowed."
        )
    if not check.layers:
        return ""
    largest = small(max(gap.difference for gap in check.layers))
    if check.holds:
        return f"No layer is off by more than {largest} of the largest number there."
    return f"No layer is off by more than {largest} of the largest number there, so it begins after the last one."


def alarm(check: ConsistencyCheck) -> tuple[str, str]:
    """The sentence for a check that failed, and its details."""
    one, other = SIDES[check.kind]
    sentence = (
        f"The {one} logits differ from the {other} ones by {small(check.difference)}, but {small(check.tolerance)} is "
        f"allowed. {origin(check)} What is on screen cannot be trusted: run the prompt again."
    )
    return sentence, "\n".join(gap_text(gap) for gap in check.layers)


def gap_text(gap: LayerGap) -> str:
    """One layer in words."""
    return f"layer {gap.layer}: {small(gap.difference)} ({gap.where})"


class GapsView(QWidget):
    """A bar for each layer on a scale of powers of ten, the tolerance as a line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.check: ConsistencyCheck | None = None
        self.setAccessibleName("Difference of each layer")

    def show_check(self, check: ConsistencyCheck | None) -> None:
        """Draw another check's layers."""
        self.check = check
        self.setMinimumHeight(self.sizeHint().height())
        self.setAccessibleDescription("" if check is None else "; ".join(map(gap_text, check.layers)))
        self.update()

    def pitch(self) -> float:
        """Height of one layer."""
        return ink.line_height(theme.current().font("number")) + 2

    def sizeHint(self) -> QSize:
        """A line for each layer."""
        layers = 0 if self.check is None else len(self.check.layers)
        return QSize(200, round(self.pitch() * layers) + 2)

    def bar_of(self, place: int) -> QRectF:
        """The bar of a layer."""
        assert self.check is not None
        left, top = self._left(), place * self.pitch()
        length = self._x(self.check.layers[place].difference) - left
        return QRectF(left, top + self.pitch() / 4, max(length, 1), self.pitch() / 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the names, the bars, the numbers, and the tolerance."""
        check = self.check
        if check is None:
            return
        look, font = theme.current(), theme.current().font("number")
        painter = QPainter(self)
        for place, gap in enumerate(check.layers):
            line = QRectF(0, place * self.pitch(), self.width(), self.pitch())
            wrong = not gap.difference <= check.layer_tolerance
            ink.draw_text(painter, line, f"L{gap.layer}", font, look.bad if wrong else look.faint)
            ink.draw_bar(painter, self.bar_of(place), look.bad if wrong else look.accent)
            words = QRectF(
                self._right() + theme.GRID, line.top(), self.width() - self._right() - theme.GRID, line.height()
            )
            text = f"{small(gap.difference)}  {gap.where}"
            ink.draw_text(painter, words, text, font, look.bad if wrong else look.faint)
        if check.layers:
            x = self._x(check.layer_tolerance)
            painter.setPen(QPen(look.text, 1, Qt.PenStyle.DashLine))
            painter.drawLine(round(x), 0, round(x), round(self.pitch() * len(check.layers)))
        painter.end()

    def _left(self) -> float:
        return ink.text_width(theme.current().font("number"), "L000 ")

    def _right(self) -> float:
        return max(self.width() * 0.45, self._left() + 2 * theme.GRID)

    def _x(self, difference: float) -> float:
        low, high = DECADES
        power = math.log10(difference) if 0 < difference < math.inf else (low if difference == 0 else high)
        share = (min(max(power, low), high) - low) / (high - low)
        return self._left() + share * (self._right() - self._left())


NEEDS: Final[dict[Kind, tuple[Capability, ...]]] = {
    "cached": ("logits", "replay", "unembedding"),
    "branches": ("replay",),
}
"""What a check takes."""


class ConsistencyPage(QWidget):
    """Both checks, each made at the press of a button."""

    BUTTONS: Final[dict[Kind, tuple[str, str]]] = {
        "cached": ("Prove cached = full", "Run the whole text again without a cache, and compare every layer."),
        "branches": (
            "Prove fused = explicit",
            "Run the text through both branches of attention, with padding and a cache, and compare every layer.",
        ),
    }

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.buttons: dict[Kind, QPushButton] = {}
        for kind, (text, tip) in self.BUTTONS.items():
            self.buttons[kind] = self._button(kind, text, tip)
        self.labels = {kind: self._label() for kind in self.BUTTONS}
        self.gaps = {kind: GapsView() for kind in self.BUTTONS}
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 4, 0)
        for kind in self.BUTTONS:
            column.addWidget(self.labels[kind])
            column.addWidget(self.gaps[kind])
        column.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(flowing(*self.buttons.values()))
        layout.addWidget(scrolled(inside, "What the proofs found"), 1)
        session.consistency.check_changed.connect(self._on_cached)  # methods: what is gone hears nothing any more
        session.consistency.branches_changed.connect(self._on_branches)
        session.run_changed.connect(self._on_run)
        self._show("cached", session.consistency.check)
        self._show("branches", session.consistency.branches)

    def theme_changed(self) -> None:
        """Fit the bars to the type."""
        for kind, gaps in self.gaps.items():
            gaps.show_check(gaps.check)
            self._tone(kind)

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        """Say what can be proved of another run."""
        self._show("cached", self.session.consistency.check)
        self._show("branches", self.session.consistency.branches)

    def _on_cached(self, check: ConsistencyCheck | None) -> None:
        self._show("cached", check)

    def _on_branches(self, check: ConsistencyCheck | None) -> None:
        self._show("branches", check)

    def _button(self, kind: Kind, text: str, tip: str) -> QPushButton:
        button = QPushButton(text)
        offer(button, self.session, tip, *NEEDS[kind])
        button.clicked.connect(lambda: self.session.consistency.check_now(kind))
        return button

    def _label(self) -> QLabel:
        label = plain_label("", "label")
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _show(self, kind: Kind, check: ConsistencyCheck | None) -> None:
        self.labels[kind].setText(self._sentence(kind, check))
        self.gaps[kind].show_check(check)
        self.gaps[kind].setVisible(check is not None and bool(check.layers))
        offer(self.buttons[kind], self.session, self.BUTTONS[kind][1], *NEEDS[kind])
        self._tone(kind)

    def _tone(self, kind: Kind) -> None:
        check, label = self.gaps[kind].check, self.labels[kind]
        label.setProperty("tone", "bad" if check is not None and check.alarms else "")
        label.style().unpolish(label)
        label.style().polish(label)

    def _sentence(self, kind: Kind, check: ConsistencyCheck | None) -> str:
        one, other = SIDES[kind]
        if check is not None:
            return f"{verdict(check)[0]}. {conditions(check)} {origin(check)}".strip()
        if why := self.session.why_not(*NEEDS[kind]):
            return f"{one} = {other}: not proved. {why}"
        if kind == "cached" and self.session.run is not None and not self.session.consistency.checks_itself:
            return "cached = full: not proved yet; this run is too large to be proved at every step."
        return f"{one} = {other}: not proved yet."
