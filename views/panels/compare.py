"""Compared with A: the selected head's scores and weights, and the next token, less those of a pinned run.

The differences come from the model; positive is more in the run on screen (B) than in the pinned one (A).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskHeadDifference, AskNextTokenDifference, Question
from ropewalk.model.readings.records import HeadDifference, NextTokenDifference, Run, TokenChange
from ropewalk.views.panels.panel import Kept, Panel, plain_label
from ropewalk.views.panels.unchanged import WhyUnchanged, why_unchanged
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels, largest_magnitude, robust
from ropewalk.views.plots.maps.signed import signed_colour
from ropewalk.views.style import ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

Rows = tuple[tuple[int | None, int | None], ...]
WIDEST = 1024
"""Rows that can be compared at once, as in ``model.readings.comparison``."""
SHORT = 5
"""Letters of a token that can be read at least."""
NARROWEST = 32
"""Pixels in which a bar can be told from another one."""
SEEN = 0.0005
"""How far a probability moves at least where its three digits may show it."""
ELSEWHERE = "A was run in another engine, and is run again in this run's before the two can be compared."


def row_labels(rows: Rows, a: Run, b: Run) -> tuple[str, ...]:
    """Name each aligned row by its token; a row that only A has begins with −, one that only B has with +."""
    names = []
    for of_a, of_b in rows:
        if of_b is not None:
            text = theme.drawable(b.tokens[of_b].inline)
            names.append(text if of_a is not None else f"+{text}")
        elif of_a is not None:
            names.append(f"{wording.MINUS}{theme.drawable(a.tokens[of_a].inline)}")
    return tuple(names)


def refusal(a: Run | None, b: Run) -> str:
    """Why two runs cannot be compared; empty where they can."""
    if a is None:
        return "Nothing is pinned yet: “Pin as A” keeps this run, and whatever runs next is compared with it."
    if (a.config.layers, a.config.heads) != (b.config.layers, b.config.heads):
        return (
            f"A has {a.config.layers} layers of {a.config.heads} heads and this run {b.config.layers} of "
            f"{b.config.heads}, so their heads cannot be compared."
        )
    longest = max(a.length, b.length)
    return f"Runs of up to {WIDEST} tokens can be compared, but one of these has {longest}." if longest > WIDEST else ""


class ChangesView(QWidget):
    """One line for each token whose probability moved: the token, a signed bar, before and after."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.changes: tuple[TokenChange, ...] = ()
        self.setAccessibleName("Tokens whose probability moved most")

    def show_changes(self, changes: tuple[TokenChange, ...]) -> None:
        """Draw new lines."""
        self.changes = changes
        self.setAccessibleDescription("; ".join(change_text(change) for change in changes))
        self.update()

    def pitch(self) -> float:
        """Height of one line."""
        return ink.line_height(theme.current().font("number")) + theme.GRID // 2

    def sizeHint(self) -> QSize:
        """Room for two lines: the maps have what is left, and give of it by the panel's stretches."""
        return QSize(200, round(self.pitch() * 2))

    def minimumSizeHint(self) -> QSize:
        """Room for two lines of a short name and the numbers."""
        short = ink.text_width(theme.current().font("number"), "0" * SHORT)
        return QSize(math.ceil(short + self._numbers_width()), round(self.pitch() * 2))

    def bar_of(self, row: int) -> QRectF:
        """The bar of a line: right of the middle for more in B, left for less; none where there is no room for it."""
        left, right = self.name_width() + theme.GRID, self._numbers_width()
        room = max(self.width() - left - right, 0)
        largest = max((abs(c.after - c.before) for c in self.changes), default=0.0) or 1.0
        change = self.changes[row].after - self.changes[row].before
        length = room / 2 * abs(change) / largest
        middle = left + room / 2
        height = theme.current().grid(1)
        top = row * self.pitch() + (self.pitch() - height) / 2
        return QRectF(
            middle if change >= 0 else middle - length, top, max(length, 1) if room >= NARROWEST else 0, height
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the lines that fit."""
        look = theme.current()
        font = look.font("number")
        painter = QPainter(self)
        for row, change in enumerate(self.changes[: max(int(self.height() // self.pitch()), 1)]):
            line = QRectF(0, row * self.pitch(), self.width(), self.pitch())
            name = QRectF(0, line.top(), self.name_width(), line.height())
            ink.draw_text(painter, name, theme.drawable(change.token.text), font, look.text)
            bar = self.bar_of(row)
            if bar.isValid():
                ink.draw_bar(painter, bar, signed_colour(change.after - change.before))
            ink.draw_text(painter, line, f"{change.before:.3f} → {change.after:.3f}", font, look.faint, ink.RIGHT)
        painter.end()

    def name_width(self) -> float:
        """What the names have: as much as the longest needs, and never what the numbers need."""
        font = theme.current().font("number")
        longest = max((ink.text_width(font, theme.drawable(one.token.text)) for one in self.changes), default=0.0)
        widest = ink.text_width(font, "0" * 9)
        return max(min(longest, widest, self.width() - self._numbers_width()), 0.0)

    def _numbers_width(self) -> float:
        return ink.text_width(theme.current().font("number"), "0.000 → 0.000") + theme.GRID


def change_text(change: TokenChange) -> str:
    """Say one change in words."""
    return f"{change.token.inline} {change.before:.3f} → {change.after:.3f}"


def next_text(difference: NextTokenDifference) -> str:
    """Say how far the next-token distribution moved."""
    before, after = difference.top_before.text, difference.top_after.text
    top = f"most probable {after}, as in A" if before == after else f"most probable {before} → {after}"
    forward, backward = (wording.number(kl) for kl in (difference.kl_forward, difference.kl_backward))
    return f"Next token: KL(A‖B) {forward}, KL(B‖A) {backward} nats; {top}"


class ComparePanel(Panel):
    """Pins a run as A and shows what is different now."""

    name: ClassVar[str] = "compare"
    title: ClassVar[str] = "Compare"
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    marks: ClassVar[frozenset[str]] = frozenset({"query", "key"})
    difference = Kept[HeadDifference]()
    next_token = Kept[NextTokenDifference | None]()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.pin_button = QPushButton("Pin as A")
        self.pin_button.setToolTip("Keep this run as A, to compare later ones with it.")
        self.pin_button.clicked.connect(session.baseline.pin)
        self.unpin_button = QPushButton("Unpin")
        self.unpin_button.setToolTip("Compare no longer.")
        self.unpin_button.clicked.connect(session.baseline.unpin)
        self.head_row.addWidget(self.pin_button)
        self.head_row.addWidget(self.unpin_button)
        self.scores, self.weights = Heatmap("scores, B − A"), Heatmap("weights, B − A")
        self.maps = (self.scores, self.weights)
        self.weights.link(self.scores)
        self.unchanged = WhyUnchanged()
        self.sentence = plain_label("", "label")
        self.sentence.setWordWrap(True)
        self.changes = ChangesView()
        pair = QHBoxLayout()
        pair.setSpacing(theme.GRID)
        for heatmap in self.maps:
            self.hear(heatmap.picked, self._pick, ComparePanel.difference)
            self.hear(heatmap.pointed, self._point, ComparePanel.difference)
            pair.addWidget(heatmap, 1)
        maps = QVBoxLayout()
        maps.addWidget(self.unchanged)
        maps.addLayout(pair, 1)
        words = QVBoxLayout()
        words.addWidget(self.sentence)
        words.addWidget(self.changes, 1)
        self._layout = QBoxLayout(QBoxLayout.Direction.TopToBottom, self.body)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addLayout(maps, 3)
        self._layout.addLayout(words, 1)
        self._refused = ""
        session.failed.connect(self._on_failed)
        session.baseline.changed.connect(self._on_baseline)
        self._on_baseline(session.baseline.run)

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the difference, where there is one to have."""
        self._refused = ""
        if self._refusal(run):
            return None
        return AskHeadDifference(selection.layer, selection.head)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the two maps, and ask how the next token moved."""
        baseline = self.session.baseline.run
        why = self._refusal(run)
        self.difference = reading
        if why or reading is None or baseline is None:
            self.describe("")
            self.explain(why)
            return
        difference: HeadDifference = reading.value
        gaps = sum(1 for a, b in difference.rows if a is None or b is None)
        name = wording.head_name(difference.layer, difference.head)
        self.describe(f"{name} · {_sentence(baseline, run)}{f' · {gaps} rows have no partner' if gaps else ''}")
        self.unchanged.say(self._why_unchanged(difference, baseline, run))
        labels = row_labels(difference.rows, baseline, run)
        count = len(difference.rows)
        for heatmap, values in ((self.scores, difference.scores), (self.weights, difference.weights)):
            heatmap.set_labels(labels)
            shown = np.isfinite(values)
            heatmap.set_data(np.where(shown, values, 0).astype(np.float32), shown, (0, count), (0, count))
            largest = largest_magnitude(values)
            heatmap.set_levels(robust(Levels(-largest, largest, "diverging"), values, shown, count))
        if baseline.config.vocabulary == run.config.vocabulary:
            self.ask(AskNextTokenDifference(), self._show_next, "next")
        else:
            self.sentence.setText("The two vocabularies differ, so next tokens are not compared.")
            self.changes.show_changes(())

    def show_selection(self, selection: Selection) -> None:
        """Outline the selected cell where both runs or B have it."""
        place = {b: i for i, (_, b) in enumerate(self._rows) if b is not None}
        for heatmap in self.maps:
            heatmap.set_selection(place.get(selection.query, -1), place.get(selection.key, -1))

    def show_hover(self, hover: Hover) -> None:
        """Draw the crosshair of the cell that is pointed at, here or elsewhere."""
        place = {b: i for i, (_, b) in enumerate(self._rows) if b is not None}
        query = -1 if hover.query is None else place.get(hover.query, -1)
        key = -1 if hover.key is None else place.get(hover.key, -1)
        for heatmap in self.maps:
            heatmap.set_hover(query, key)

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        for heatmap in self.maps:
            heatmap.theme_changed()
        self.changes.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the words beside the maps or under them, whichever leaves the larger maps."""
        super().resizeEvent(event)
        wide = self.width() > 2 * self.height()
        self._layout.setDirection(QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom)

    def _refusal(self, run: Run) -> str:
        """Why there is nothing to see; empty where there is."""
        baseline = self.session.baseline
        return refusal(baseline.run, run) or ("" if baseline.shares_engine else ELSEWHERE)

    def _why_unchanged(self, difference: HeadDifference, a: Run, b: Run) -> str:
        """Why there is no difference to see, where B was changed, and nothing but that."""
        moved = any(np.nan_to_num(values).any() for values in (difference.scores, difference.weights))
        changed = any(spec.interventions for spec in a.specs)
        if moved or changed or a.prompt != b.prompt or a.model.name != b.model.name:
            return ""
        return why_unchanged(self.session.interventions.now, difference.layer, difference.head)

    @property
    def _rows(self) -> Rows:
        return () if self.difference is None else self.difference.rows

    def _show_next(self, reading: Reading[NextTokenDifference | None]) -> None:
        self.next_token, difference = reading, reading.value
        if difference is not None:
            self.sentence.setText(next_text(difference))
            self.changes.show_changes(tuple(one for one in difference.changes if abs(one.after - one.before) >= SEEN))

    def _on_baseline(self, baseline: Run | None) -> None:
        self.difference = self.next_token = None  # what was read is compared with another run
        self.forget("next")
        self.unpin_button.setEnabled(baseline is not None)
        self.refresh()

    def _on_failed(self, sentence: str, details: str) -> None:
        self._refused = sentence

    def _on_settled(self) -> None:
        """Say in the place of the maps why these two could not be compared."""
        unanswered = self.name in self._awaited and not self.session.busy and self.session.engines.gone is None
        super()._on_settled()
        if unanswered and self._refused:
            self.describe("")
            self.explain(self._refused)

    def _pick(self, query: int, key: int) -> None:
        if max(query, key) >= len(self._rows):
            return
        of_query, of_key = self._rows[query][1], self._rows[key][1]
        if of_query is not None and of_key is not None:
            self.session.selection.update(query=of_query, key=of_key)

    def _point(self, query: int, key: int) -> None:
        known = 0 <= query < len(self._rows) and 0 <= key < len(self._rows)
        self.session.selection.point_at(Hover(query=self._rows[query][1], key=self._rows[key][1]) if known else Hover())


def _sentence(a: Run, b: Run) -> str:
    """Say which two runs these are, by what differs."""
    if a is b or a.run_id == b.run_id:
        return "A is this run: change something"
    if a.model.name != b.model.name:
        return f"A: {wording.model_name(a.model.name)}, B: {wording.model_name(b.model.name)}"
    changed = [sorted({label for spec in run.specs for label in spec.interventions}) for run in (a, b)]
    changes = [", ".join(labels) or "unchanged" for labels in changed]
    if a.prompt != b.prompt:
        return f"A: {a.prompt.strip()[:24]}… ({changes[0]}), B: this prompt ({changes[1]})"
    return f"A: {changes[0]}, B: {changes[1]}"
