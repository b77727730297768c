"""What the model expects next: candidates as bars, and the controls that draw and step.

It computes no probability, and it steps nothing itself: the session does.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSpinBox,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.interventions import silencing, silent_heads
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Selection
from ropewalk.app.session.step_clock import MOVES, StepClock
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.questions import AskNextToken, AskNextTokenUnder, Question
from ropewalk.model.readings.records import Candidate, NextTokenReading, Run, Sampling
from ropewalk.views.panels.panel import Kept, Mark, Panel, offer, plain_label
from ropewalk.views.style import highlight, ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class Lines(NamedTuple):
    """The candidates that fit, and the widths of what is written of them: tokens, numbers, numbers with differences."""

    rows: tuple[Candidate, ...]
    text: float
    number: float
    digits: float
    largest: float
    """The probability of the longest bar."""


class CandidatesView(QWidget):
    """One line per candidate: its text, a bar, its probability."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Candidate, ...] = ()
        self.actual: int | None = None
        self.highlighted: frozenset[int] = frozenset()
        self.ghosts: dict[int, float] = {}
        """By the id of a candidate: its probability before, drawn behind its bar with the difference beside it."""
        self.moved = 1.0
        """How far the lines have come from where they stood for the token before."""
        self._lines_of: tuple[Any, ...] | None = None
        """What :meth:`_lines` was found for."""
        self._from: dict[int, tuple[int, Candidate]] = {}
        """Where they stood, by the ids of the candidates."""
        self.setAccessibleName("Candidates for the next token")

    def show_rows(self, rows: tuple[Candidate, ...], actual: int | None, moved: float = 1.0) -> None:
        """Draw candidates; ``actual`` is the id of the token that really follows.

        Where ``moved`` is less than 1, they are on their way from where those are that are shown now.
        """
        self._from = {c.token.id: (line, c) for line, c in enumerate(self.shown())} if moved < 1 else {}
        self.rows, self.actual, self.moved = rows, actual, moved
        self._tell()

    def bring(self, moved: float) -> None:
        """Let the lines have come so far."""
        if moved != self.moved:
            self.moved = moved
            if moved == 1:
                self._from = {}
            self.update()

    def _now(self, line: int, candidate: Candidate) -> tuple[float, float]:
        """On which line a candidate is at this moment, and how long its bar; a new one comes up from below."""
        start, before = self._from.get(candidate.token.id, (len(self._from), candidate))
        if self.moved == 1:
            return line, candidate.probability
        share = before.probability + (candidate.probability - before.probability) * self.moved
        return start + (line - start) * self.moved, share

    def show_ghosts(self, ghosts: dict[int, float]) -> None:
        """Draw probabilities from before behind the bars."""
        if ghosts != self.ghosts:
            self.ghosts = ghosts
            self._tell()

    def _tell(self) -> None:
        description = (
            f"{c.token.inline} {c.probability:.3f} {self.difference(c)}{'' if c.kept else ' left out'}".strip()
            for c in self.rows
        )
        self.setAccessibleDescription("; ".join(description))
        self.update()

    def difference(self, candidate: Candidate) -> str:
        """How a probability has changed from the ghost's, with its sign; empty where there is no ghost."""
        before = self.ghosts.get(candidate.token.id)
        return "" if before is None else f"{candidate.probability - before:+.3f}".replace("-", "−")

    def highlight(self, ranks: frozenset[int]) -> None:
        """Ring the candidates of these ranks; the likeliest has rank 0."""
        self.highlighted = ranks
        self.update()

    def pitch(self) -> float:
        """Return the height of one line."""
        look = theme.current()
        return ink.line_height(look.font("number")) + look.grid(0.5)

    def shown(self) -> tuple[Candidate, ...]:
        """Return the candidates that fit; those that follow or were first before are the last of them if need be."""
        return self._lines().rows

    def _lines(self) -> Lines:
        """What is shown, found once for all that is painted of it."""
        look, of = theme.current(), self._lines_of
        now = (self.rows, self.actual, self.ghosts, look, self.size())
        if of is None or any(one is not other for one, other in zip(of[:4], now[:4], strict=True)) or of[4] != now[4]:
            self._lines_of, rows, font = now, self._fitting(), look.font("number")
            widest = max((ink.text_width(font, theme.drawable(c.token.text)) for c in rows), default=0.0)
            text = min(max(widest + look.grid(1.25) + 2, 60), self.width() * 0.35)
            number = ink.text_width(font, "0.000")
            digits = number + (ink.text_width(font, " −0.000") if self.ghosts else 0)
            largest = max((*(c.probability for c in self.rows), *self.ghosts.values()), default=1.0) or 1.0
            self._lines_found = Lines(rows, text, number, digits, largest)
        return self._lines_found

    @property
    def end(self) -> float:
        """Where a line ends, with room for a ring around it."""
        return self.width() - theme.current().grid(0.75)

    def _fitting(self) -> tuple[Candidate, ...]:
        room = max(int(self.height() // self.pitch()), 1)
        rows = self.rows[:room]
        wanted = (self.actual, self.first_before)
        found = (next((c for c in self.rows if c.token.id == token), None) for token in dict.fromkeys(wanted))
        kept = [c for c in found if c is not None and c not in rows]
        return (*rows[: max(room - len(kept), 0)], *kept)[:room]

    @property
    def first_before(self) -> int | None:
        """The id of the candidate that was the likeliest before."""
        return max(self.ghosts.items(), key=itemgetter(1), default=(None,))[0]

    def bar_of(self, row: int) -> QRectF:
        """Return the bar of the row-th line; the most likely candidate, or ghost of one, fills the room."""
        return self._bar(*self._now(row, self.shown()[row]))

    def ghost_of(self, row: int) -> QRectF | None:
        """Return the bar behind that of the row-th line, of its probability before."""
        before = self.ghosts.get(self.shown()[row].token.id)
        return None if before is None else self._bar(row, before).adjusted(0, -2, 0, 2)

    def _bar(self, line: float, probability: float) -> QRectF:
        look, lines = theme.current(), self._lines()
        room = max(self.end - lines.text - lines.digits - 2 * look.grid(1), 1)
        height = look.grid(1.25)
        top = line * self.pitch() + (self.pitch() - height) / 2
        return QRectF(lines.text + look.grid(1), top, max(room * probability / lines.largest, 2), height)

    def sizeHint(self) -> QSize:
        """Return the height of some lines."""
        return QSize(240, round(self.pitch() * 6))

    def minimumSizeHint(self) -> QSize:
        """Return the height of three lines."""
        return QSize(160, round(self.pitch() * 3))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the lines that fit."""
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = look.font("number")
        self._paint_leaving(painter)
        for i, candidate in enumerate(self.shown()):
            follows = candidate.token.id == self.actual
            painter.setOpacity(1 if candidate.token.id in self._from else max(2 * self.moved - 1, 0))
            line = self.line_of(i)
            colour = look.text if candidate.kept else look.faint
            box = QRectF(look.grid(1.25), line.top(), self._lines().text - look.grid(1.25), line.height())
            if follows:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(look.accent)
                dot = look.grid(0.625)
                painter.drawEllipse(QRectF(1, line.center().y() - dot / 2, dot, dot))
            ink.draw_text(painter, box, theme.drawable(candidate.token.text), font, colour)
            ghost, bar = self.ghost_of(i), self.bar_of(i)
            if ghost is not None:
                ink.draw_bar(painter, ghost, ink.faded(look.text, 0.28))
                difference = self.difference(candidate)
                ink.draw_text(painter, line, difference, font, look.faint, ink.RIGHT)
            ink.draw_bar(painter, bar, look.accent if candidate.kept else ink.faded(look.masked, 0.7))
            if follows:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(look.text, 1))
                painter.drawRoundedRect(bar.adjusted(-1.5, -1.5, 1.5, 1.5), 2, 2)
            number = line.adjusted(0, 0, self._lines().number - self._lines().digits, 0)
            ink.draw_text(painter, number, f"{candidate.probability:.3f}", font, colour, ink.RIGHT)
        painter.setOpacity(1)
        for i, candidate in enumerate(self.shown()):
            if self.rows.index(candidate) in self.highlighted:
                highlight.ring(painter, QRectF(0, i * self.pitch(), self.width(), self.pitch()).adjusted(4, 4, -4, -4))
        painter.end()

    def text_of(self, row: int) -> QRectF:
        """Return where the token of the row-th line is written."""
        return self.line_of(row).adjusted(0, 0, self._lines().text - self.end, 0)

    def line_of(self, row: int) -> QRectF:
        """Return the place of the row-th line at this moment."""
        line, _ = self._now(row, self.shown()[row])
        return QRectF(0, line * self.pitch(), self.end, self.pitch())

    def _paint_leaving(self, painter: QPainter) -> None:
        """Let those fade that are no longer there; in the first half, so that they are gone when the new ones come."""
        look, here = theme.current(), {candidate.token.id for candidate in self.shown()}
        painter.setOpacity(max(1 - 2 * self.moved, 0))
        for line, candidate in self._from.values():
            if candidate.token.id not in here:
                box = QRectF(look.grid(1.25), line * self.pitch(), self._lines().text - look.grid(1.25), self.pitch())
                ink.draw_text(painter, box, theme.drawable(candidate.token.text), look.font("number"), look.text)
                colour = look.accent if candidate.kept else ink.faded(look.masked, 0.7)
                ink.draw_bar(painter, self._bar(line, candidate.probability), colour)

    def description(self, row: int) -> str:
        """Say everything about a candidate."""
        candidate = self.shown()[row]
        lines = [
            f"{candidate.token.inline} (id {candidate.token.id})",
            f"logit {wording.number(candidate.logit)}, softmax {wording.number(candidate.probability, 4)}",
            f"after temperature, top-k and top-p {wording.number(candidate.drawn_probability, 4)}"
            if candidate.kept
            else "left out by top-k or top-p",
        ]
        if candidate.token.id in self.ghosts:
            before = wording.number(self.ghosts[candidate.token.id], 4)
            lines.append(f"with no head silenced {before} ({self.difference(candidate)})")
        if candidate.token.id == self.actual:
            lines.append("this is the token that follows in the run")
        return "\n".join(lines)

    def event(self, event: QEvent) -> bool:
        """Answer for tooltips."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            row = int(event.pos().y() // self.pitch())
            text = self.description(row) if 0 <= row < len(self.shown()) else ""
            QToolTip.showText(event.globalPos(), wording.tooltip(text), self)
            return True
        return super().event(event)


class BesideOrUnder(QWidget):
    """Two parts beside one another where both fit, else the second under the first, so that little width is enough."""

    def __init__(self, first: QWidget, second: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.first, self.second = first, second
        self.parts = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self.parts.setContentsMargins(0, 0, 0, 0)
        self.parts.addWidget(first, 1)
        self.parts.addWidget(second)

    @property
    def beside(self) -> bool:
        """Whether the second part stands beside the first."""
        return self.parts.direction() == QBoxLayout.Direction.LeftToRight

    def minimumSizeHint(self) -> QSize:
        """The width of the wider part, and the height of both: the other can stand under it."""
        parts = [self._least(widget) for widget in (self.first, self.second) if not widget.isHidden()]
        gaps = (len(parts) - 1) * theme.current().grid(1)
        return QSize(max(part.width() for part in parts), sum(part.height() for part in parts) + gaps)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the second part where it fits."""
        super().resizeEvent(event)
        self.arrange()

    def arrange(self) -> None:
        """Take the direction that the width allows."""
        gap = theme.current().grid(2)
        fits = self._least(self.first).width() + gap + self._least(self.second).width() <= self.width()
        self.parts.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)
        self.parts.setSpacing(gap if fits else theme.current().grid(1))

    def _least(self, widget: QWidget) -> QSize:
        return widget.minimumSizeHint().expandedTo(widget.minimumSize())


class NextTokenPanel(Panel):
    """Shows the candidates after the selected query, and steps the decoder."""

    name: ClassVar[str] = "next_token"
    title: ClassVar[str] = "Next token"
    legend: ClassVar[tuple[Mark, ...]] = (Mark("fill", "masked", "with no head silenced"),)
    depends: ClassVar[frozenset[str]] = frozenset({"query"})
    after = Kept[NextTokenReading]()
    bars = Kept[NextTokenReading]()

    COUNT = 40
    MANY = 1000
    """Candidates that are asked for while heads are silenced: what was likely before may have fallen far."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._ghosts_of: object = None
        self._ghosts_whole = False
        self.candidates = CandidatesView()
        handle = QWidget()
        controls = QVBoxLayout(handle)
        controls.setContentsMargins(0, 0, 0, 0)
        controls.setSpacing(4)
        controls.addLayout(self._sampling_row())
        controls.addLayout(self._step_row())
        controls.addStretch(1)
        self.parts = BesideOrUnder(self.candidates, handle)
        self.controls = QToolButton()
        self.controls.setText("sampling")
        self.controls.setCheckable(True)
        self.controls.setProperty("toggle", "yes")
        self.controls.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.controls.setToolTip("Show the temperature, top-k, top-p and seed, which leave less room to the bars")
        self.controls.toggled.connect(self._share_room)
        self.head_row.addWidget(self.controls)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.parts)
        session.interventions.asked.connect(self._ask_at_once)
        session.timeline.sampling_changed.connect(self._on_sampling)
        session.timeline.playing_changed.connect(self._on_playing)
        self._take(session.timeline.sampling)
        self._on_playing(session.timeline.playing)
        for signal in (session.recovery.engine_ended, session.recovery.engine_back):
            signal.connect(self._enable)
        self._size_boxes()
        self._share_room()

    def _sampling_row(self) -> QGridLayout:
        self.temperature = QDoubleSpinBox()
        self.temperature.setRange(0.0, 5.0)
        self.temperature.setSingleStep(0.1)
        self.temperature.setDecimals(2)
        self.temperature.setSpecialValueText("greedy")
        self.top_k = QSpinBox()
        self.top_k.setRange(0, 1_000_000)
        self.top_k.setSpecialValueText("all")
        self.top_p = QDoubleSpinBox()
        self.top_p.setRange(0.01, 1.0)
        self.top_p.setSingleStep(0.05)
        self.top_p.setDecimals(2)
        self.seed = QSpinBox()
        self.seed.setRange(0, 2**31 - 1)
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        boxes: tuple[tuple[str, QAbstractSpinBox, str], ...] = (
            ("temperature", self.temperature, "Logits are divided by it before softmax; at 0 the likeliest is taken."),
            ("top-k", self.top_k, "Draw among so many of the likeliest tokens; 0 is all of them."),
            ("top-p", self.top_p, "Draw among the fewest likeliest tokens whose probabilities add up to this."),
            ("seed", self.seed, "The same seed draws the same tokens again."),
        )
        for i, (name, box, tip) in enumerate(boxes):
            label = plain_label(name, "label")
            label.setBuddy(box)
            box.setAccessibleName(name)
            box.setToolTip(tip)
            box.setKeyboardTracking(False)
            grid.addWidget(label, i // 2, i % 2 * 2)
            grid.addWidget(box, i // 2, i % 2 * 2 + 1)
        for number_box in (self.top_k, self.seed):
            number_box.valueChanged.connect(self._send)
        for real_box in (self.temperature, self.top_p):
            real_box.valueChanged.connect(self._send)
        return grid

    @property
    def boxes(self) -> tuple[QAbstractSpinBox, ...]:
        """All number boxes."""
        return self.temperature, self.top_k, self.top_p, self.seed, self.length_box

    def _size_boxes(self) -> None:
        """Make every box as wide as its longest usual text, not as its largest possible number."""
        width = ink.text_width(theme.current().font("body"), "greedy") + theme.current().grid(4)
        for box in self.boxes:
            box.setFixedWidth(round(width))

    def _step_row(self) -> QHBoxLayout:
        self._tips: dict[QPushButton, str] = {}
        self.back_button = self._button("◀", "Step back", "Look at the run one token earlier (←).")
        self.step_button = self._button("step ▶", "Step", "Decode one token, or look at the next one (→).")
        self.play_button = self._button("play", "Play", "Decode token after token until stopped (space).")
        self.run_button = self._button("run to", "Run to", "Decode until the run has this many tokens.")
        self.length_box = QSpinBox()
        self.length_box.setAccessibleName("Tokens to run to")
        self.length_box.setToolTip("Length of the run, in tokens, at which “run to” stops.")
        self.length_box.setRange(1, 1)
        self.back_button.clicked.connect(self.session.timeline.step_back)
        self.step_button.clicked.connect(self.session.timeline.step)
        self.play_button.clicked.connect(self.session.timeline.toggle_play)
        self.run_button.clicked.connect(lambda: self.session.timeline.run_to(self.length_box.value()))
        row = QHBoxLayout()
        row.setSpacing(4)
        for widget in (self.back_button, self.step_button, self.play_button, self.run_button, self.length_box):
            row.addWidget(widget)
        return row

    def _button(self, text: str, name: str, tip: str) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(name)
        button.setToolTip(tip)
        self._tips[button] = tip
        return button

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask what follows the selected query."""
        silent = self._ghosts_of is not None or silent_heads(self.session.interventions.now)
        count = self.MANY if silent else self.COUNT
        return AskNextToken(selection.query, count, self.session.timeline.sampling)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the candidates, and fit the controls to the run."""
        self.after = reading
        silent = silent_heads(self.session.interventions.now)
        if not silent or self._ghosts_of != self._before(run, selection.query):
            self._ghosts_of, self._ghosts_whole = None, False
            self.candidates.show_ghosts({})  # at once: those of another row say nothing of this one
        clock = self.session.timeline.clock
        self._show(reading, clock.come(MOVES) if clock.row == selection.query else 1.0)
        loud = self._under(silencing(self.session.interventions.now, ()))
        if silent and not self._ghosts_whole and not self.lacks(loud):
            self.ask(loud, self._show_before, "before")
        limit = run.context_limit
        self.length_box.setRange(min(run.prefill, limit), limit)
        if self.length_box.value() <= run.length:
            self.length_box.setValue(min(run.length + 10, limit))
        self._enable()

    def show_step(self, clock: StepClock) -> None:
        """Let the bars go to where they stand after the new token."""
        self.candidates.bring(clock.come(MOVES))

    def _show(self, reading: Reading[NextTokenReading], moved: float = 1.0) -> None:
        self.bars, after = reading, reading.value
        rows = after.candidates[: self.COUNT]
        rows += tuple(c for c in after.candidates[self.COUNT :] if c.token.id == self.candidates.first_before)
        follows = after.actual
        if follows is not None and all(c.token.id != follows.token.id for c in rows):
            rows = (*rows, follows)
        self.candidates.show_rows(rows, None if follows is None else follows.token.id, moved)
        self.describe(_subtitle(reading.run, after))

    # Heads silenced -----------------------------------------------------------------------------------------------

    def _under(self, interventions: tuple[Intervention, ...]) -> AskNextTokenUnder:
        query, sampling = self.session.selection.now.query, self.session.timeline.sampling
        return AskNextTokenUnder(query, self.MANY, sampling, interventions)

    def _before(self, run: Run, query: int) -> object:
        """What the bars with no head silenced depend on."""
        others = silencing(self.session.interventions.now, ())
        return [token.id for token in run.tokens[: query + 1]], run.config, others

    def _ask_at_once(self, wanted: tuple[Intervention, ...]) -> None:
        """Ask for this row alone while the run is made again, so that the bars move as soon as heads are silenced."""
        now = self.session.interventions.now
        if self.after is None or not self.on_screen or silencing(wanted, ()) != silencing(now, ()):
            return
        if self.lacks(self._under(wanted)):  # which the run that was asked for says
            return
        if not silent_heads(now):  # what is shown is what every head makes of it
            self._show_ghosts(self.readings["after"])  # those there are; all of them are asked for with the run
        self.ask(self._under(wanted), self._show, "at_once")

    def _show_before(self, reading: Reading[NextTokenReading]) -> None:
        self._show_ghosts(reading)
        self._ghosts_whole = True
        self._show(self.readings["bars"])

    def _show_ghosts(self, reading: Reading[NextTokenReading]) -> None:
        self._ghosts_of = self._before(reading.run, reading.value.query)
        self.candidates.show_ghosts({c.token.id: c.probability for c in reading.value.candidates})

    def show_highlights(self) -> None:
        """Ring the ranks that are named."""
        self.candidates.highlight(highlight.numbers(self.highlighted, "ranks"))

    def theme_changed(self) -> None:
        """Size the boxes and paint anew."""
        self._size_boxes()
        self._share_room()
        self.candidates.updateGeometry()
        self.candidates.update()

    def _share_room(self) -> None:
        """On a projector the bars have the room until somebody asks for the rest."""
        projector = theme.current().projector
        self.controls.setVisible(projector)
        self.parts.second.setVisible(not projector or self.controls.isChecked())
        self.parts.arrange()

    def _on_sampling(self, sampling: Sampling) -> None:
        self._take(sampling)
        self.refresh()

    def _enable(self, *_: object) -> None:
        run = self.session.run
        back = run is None or run.length > run.prefill
        on = run is None or run.length < max(run.context_limit, run.newest)
        can = {self.back_button: back, self.step_button: on}
        kept = run is not None and run.length < run.newest
        for button, tip in self._tips.items():
            if button is self.back_button or kept:  # what was decoded is only looked at
                offer(button, self.session, tip, on=can.get(button, True))
            else:
                offer(button, self.session, tip, "decode", on=can.get(button, True))

    def _on_playing(self, playing: bool) -> None:
        self.play_button.setText("pause" if playing else "play")
        self.play_button.setAccessibleName("Pause" if playing else "Play")

    def _take(self, sampling: Sampling) -> None:
        """Show what the session has, without sending it back."""
        for box in (self.temperature, self.top_k, self.top_p, self.seed):
            box.blockSignals(True)
        self.temperature.setValue(sampling.temperature)
        self.top_k.setValue(sampling.top_k)
        self.top_p.setValue(sampling.top_p)
        self.seed.setValue(sampling.seed)
        for box in (self.temperature, self.top_k, self.top_p, self.seed):
            box.blockSignals(False)

    def _send(self) -> None:
        self.session.timeline.set_sampling(
            Sampling(
                temperature=round(self.temperature.value(), 2),
                top_k=self.top_k.value(),
                top_p=round(self.top_p.value(), 2),
                seed=self.seed.value(),
            )
        )


def _subtitle(run: Run, reading: NextTokenReading) -> str:
    after = run.tokens[reading.query].inline if reading.query < len(run.tokens) else ""
    text = f"after {after} ({reading.query})".replace("  ", " ")
    text += f" · entropy {wording.number(reading.entropy, 2)} nats"
    return text + (" · recomputed for this row" if reading.replayed else "")
