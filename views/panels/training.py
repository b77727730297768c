"""How a model came to be: its loss step by step, and beside it what each head did at checkpoints along the way.

The numbers come from a file beside the weights, written while they were trained; nothing is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pyqtgraph import mkPen
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QVBoxLayout, QWidget

from ropewalk.app.session.selection import Selection
from ropewalk.model.engine.questions import AskTraining, Question
from ropewalk.model.readings.records import Doubles, Run, TrainingHistory, token_strings
from ropewalk.views.panels.panel import Kept, Mark, Panel, plain_label
from ropewalk.views.plots.charts.plot import Curve, Line, NumberAxis, Plot, Table
from ropewalk.views.plots.film_bar import FilmBar
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.signed import HeadMap
from ropewalk.views.style import ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

NO_HISTORY = (
    "Nothing was kept of how this model was trained. The built-in model shows it, and so does one that "
    "`ropewalk train` makes."
)

WINDOW = 25
"""Steps whose mean loss is one point of a line: rows of a single step differ too much."""


def statistic_title(formula: str) -> str:
    """What a statistic is called: its formula in words begins with it."""
    return formula.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0]


class ScoreMap(HeadMap):
    """One statistic of every layer and head at a checkpoint."""

    def show_scores(self, values: Doubles, highest: float) -> None:
        """Draw [L, H] numbers from 0 to ``highest``, which is that of all checkpoints; NaN is hatched."""
        shown = np.isfinite(values)
        self.show_numbers(np.where(shown, values, 0).astype(np.float32), shown)
        self.set_levels(Levels(0.0, highest))


class StepsPlot(Plot):
    """Lines over the steps of a training run, and a line at the checkpoint that is looked at.

    Signals
    -------
    wanted(step)
        Somebody clicked at a step.
    """

    wanted = Signal(float)

    def __init__(self, name: str, more: str = "") -> None:
        self._name, self._more = name, ""
        self.lines: list[tuple[str, Any, Any]] = []
        """Name, steps and values of what is drawn, and named beside its end."""
        self._drawn: list[Any] = []
        self.now = Line(movable=False)
        super().__init__(bottom=NumberAxis("bottom", "whole"))
        self.add(self.now)
        self.bottom.name("steps taken")
        self.heading.say(name)
        self._more = more
        self.setAccessibleName(f"{name} over the steps of the training")

    def show_lines(
        self, lines: list[tuple[str, Any, Any, QColor]], faint: list[tuple[Any, Any]], steps: int, high: float
    ) -> None:
        """Draw ``lines`` (name, steps, values, colour) before ``faint`` ones without a name, from 0 to ``high``."""
        look = theme.current()
        for item in self._drawn:
            self.box.removeItem(item)
        self._drawn = []
        pale = ink.faded(look.faint, 0.35)
        for xs, ys, colour, width in (
            *((xs, ys, pale, 1.0) for xs, ys in faint),
            *((xs, ys, colour, 2.0) for _, xs, ys, colour in lines),
        ):
            curve = Curve()
            curve.setData(xs, ys, pen=mkPen(colour, width=width))
            self.add(curve)
            self._drawn.append(curve)
        self.lines = [(name, xs, ys) for name, xs, ys, _ in lines]
        self.show_range(0.0, float(max(steps, 1)), 0.0, high)
        self.name_ends([(float(ys[-1]), name, colour) for name, _, ys, colour in lines])
        self.now.setPen(mkPen(look.accent, width=1.5, style=Qt.PenStyle.DashLine))

    def stand_at(self, step: float) -> None:
        """Move the line to a step."""
        self.now.setValue(step)

    def click_at(self, at: QPointF) -> None:
        """Go there."""
        self.wanted.emit(at.x())

    def readout(self, at: QPointF) -> str:
        """The values of every named line at a step."""
        step = max(round(at.x()), 0)
        said = (f"{name} {wording.number(float(np.interp(step, xs, ys)), 3)}" for name, xs, ys in self.lines)
        return f"after {step:,} steps: {' · '.join(said)}" if self.lines else ""

    def table(self) -> Table:
        """What is drawn, as columns."""
        columns: list[tuple[str, Any]] = []
        for name, xs, ys in self.lines:
            columns += [(f"{name}: steps", xs.tolist()), (name, ys.tolist())]
        return columns

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Say more above the plot where there is room for it."""
        super().resizeEvent(event)
        whole = self._name + self._more
        if self._more:
            fits = ink.text_width(theme.current().font("label"), whole) <= self.width()
            self.heading.say(whole if fits else self._name)

    def sizeHint(self) -> QSize:
        """A strip in which a fall can be seen."""
        return QSize(240, 130)


class TrainingPanel(Panel):
    """Plays how heads come into being."""

    name: ClassVar[str] = "training"
    title: ClassVar[str] = "Heads being born"
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "accent", "selected head"),
        Mark("line", "accent", "the checkpoint that is shown"),
    )
    history = Kept[TrainingHistory | None]()

    LOW = 32
    """Lines of type below which there is room for less."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.statistic = QComboBox()
        self.statistic.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.statistic.setAccessibleName("Statistic of the heads")
        self.statistic.setToolTip("What of every head is coloured, and drawn over the steps of the training")
        self.statistic.activated.connect(self._choose)
        tip = "How many steps of training the model has had; the arrow keys go checkpoint by checkpoint"
        self.film = FilmBar("Checkpoint", tip)
        self.film.moved.connect(self._stand)
        self.film.play_button.setToolTip("Play the training from its first step: watch heads get their habits")
        self.head_row.addWidget(self.statistic)
        self.head_row.addWidget(self.film.play_button)
        self.all_heads, self.map = ScoreMap("every head"), Heatmap("weights")
        self.map.titles = ("query", "key")
        self.losses, self.curves = (
            StepsPlot("loss, nats a token", f", means of {WINDOW} steps"),
            StepsPlot("every head"),
        )
        self.sentence = plain_label("", "label")
        self.sentence.setWordWrap(True)
        self.hear(self.all_heads.chosen, lambda layer, head: session.selection.update(layer=layer, head=head))
        for plot in (self.losses, self.curves):
            self.hear(plot.wanted, self.go)
        self._lay_out()

    def _lay_out(self) -> None:
        self._grid = QGridLayout()
        self._grid.setSpacing(theme.GRID)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID)
        layout.addLayout(self._grid, 1)
        layout.addWidget(self.film)
        layout.addWidget(self.sentence)
        for column in (0, 1):
            self._grid.setColumnStretch(column, 1)
        self._low: bool | None = None
        self._share_room()

    def _share_room(self) -> None:
        """Put the lines beside the map where the panel is low, and leave the map of all heads out."""
        low = self.height() < self.LOW * theme.current().size("label")
        if low == self._low:
            return
        self._low = low
        places = ((1, 0), (0, 0), (0, 1), (1, 1)) if low else ((0, 0), (0, 1), (1, 0), (1, 1))
        for widget, (row, column) in zip((self.all_heads, self.map, self.losses, self.curves), places, strict=True):
            self._grid.addWidget(widget, row, column, 2 if low and widget is self.map else 1, 1)
        self.all_heads.setVisible(not low)  # not earlier: without a parent it would be a window
        self._grid.setRowStretch(0, 1 if low else 3)
        self._grid.setRowStretch(1, 1 if low else 2)
        for plot in (self.losses, self.curves):
            plot.bottom.name("" if low else "steps taken")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the room out again."""
        super().resizeEvent(event)
        self._share_room()

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask once a run's model is another."""
        return AskTraining()

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Show the last checkpoint, or stay where a person was."""
        self.history = reading
        history = self.history
        if history is None:
            self.film.pause()
            self.explain(NO_HISTORY)
            return
        last = len(history.steps) - 1
        named = [self.statistic.itemData(place) for place in range(self.statistic.count())]
        if self.film.slider.maximum() != last or named != list(history.formulas):
            self.statistic.clear()
            for name, formula in history.formulas.items():
                self.statistic.addItem(statistic_title(formula), name)
                self.statistic.setItemData(
                    self.statistic.count() - 1, wording.tooltip(formula), Qt.ItemDataRole.ToolTipRole
                )
            self.statistic.setCurrentIndex(self.statistic.findData(_habit(history, selection.layer, selection.head)))
            self.film.set_count(last + 1)
        self.map.set_labels(tuple(token_strings(history.tokens)))
        self._show_losses(history)
        self._show_statistic(history)
        self._stand()

    def show_selection(self, selection: Selection) -> None:
        """Show another head."""
        if self.history is not None:
            self._show_statistic(self.history)
            self._stand()

    def theme_changed(self) -> None:
        """Draw in the colours of the theme in use."""
        for part in (self.all_heads, self.map, self.losses, self.curves, self.film):
            part.theme_changed()
        self._share_room()
        if self.history is not None:
            self._show_losses(self.history)
            self._show_statistic(self.history)

    def close_down(self) -> None:
        """Stop playing."""
        super().close_down()
        self.film.pause()

    def watch(self, statistic: str) -> None:
        """Follow a statistic, and the head that has most of it at the end."""
        place = self.statistic.findData(statistic)
        if place >= 0 and self.history is not None:
            self.statistic.setCurrentIndex(place)
            self._choose()

    # How it works -------------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        """The name of the statistic that is followed."""
        return str(self.statistic.currentData())

    def _choose(self) -> None:
        """Select the head that has most of the chosen statistic at the end."""
        history, now = self.history, self.session.selection.now
        if history is None:
            return
        final = np.nan_to_num(history.scores[self.chosen][-1], nan=-np.inf)
        layer, head = divmod(int(final.argmax()), final.shape[1])
        if (layer, head) == (now.layer, now.head):
            self.show_selection(now)
        else:
            self.session.selection.update(layer=layer, head=head)

    def go(self, step: float) -> None:
        """Show the checkpoint nearest to a step."""
        if self.history is not None:
            self.film.go(int(np.abs(self.history.steps - step).argmin()))

    def _show_losses(self, history: TrainingHistory) -> None:
        look, taken = theme.current(), np.arange(1, len(history.text_loss) + 1)
        lines = [
            ("text", *_smooth(taken, history.text_loss), look.query),
            ("repeats", *_smooth(taken, history.repeat_loss), look.key),
            ("unseen text", history.checked, history.validation_loss, look.value),
        ]
        drawn = [line for line in lines if len(line[1])]
        high = max((float(np.max(ys)) for _, _, ys, _ in drawn), default=1.0)
        self.losses.show_lines(drawn, [], int(history.steps[-1]), 1.05 * high)

    def _show_statistic(self, history: TrainingHistory) -> None:
        now, scores = self.session.selection.now, history.scores[self.chosen]
        layers, heads = scores.shape[1:]
        layer, head = now.layer, now.head
        others = [
            (history.steps, scores[:, other, one])
            for other in range(layers)
            for one in range(heads)
            if (other, one) != (layer, head) and np.isfinite(scores[:, other, one]).all()
        ]
        own = scores[:, layer, head]
        named = [(wording.head_name(layer, head), history.steps, own, theme.current().accent)]
        self.curves.heading.say(f"{self.statistic.currentText()}, every head")
        self.curves.show_lines(
            named if np.isfinite(own).all() else [], others, int(history.steps[-1]), _highest(scores)
        )
        self.all_heads.mark(layer, head)

    def _stand(self, *_: object) -> None:
        """Show the checkpoint of the slider."""
        history, at = self.history, self.film.place
        if history is None:
            return
        now, scores = self.session.selection.now, history.scores[self.chosen]
        layer, head = now.layer, now.head
        step, total = int(history.steps[at]), int(history.steps[-1])
        weights = history.maps[at, layer, head].astype(np.float32)
        length = len(weights)
        self.all_heads.show_scores(scores[at], _highest(scores))
        self.all_heads.mark(layer, head)
        title = f"weights of {wording.head_name(layer, head)}"
        if title != self.map.title:
            self.map.title = title
            self.map.arrange()
        self.map.set_data(weights, np.tri(length, dtype=np.bool_), (0, length), (0, length))
        self.map.set_levels(Levels(0.0, 1.0))
        for plot in (self.losses, self.curves):
            plot.stand_at(step)
        self.describe(f"after {step:,} steps · {total:,} in all")
        self.sentence.setText(self._sentence(history, at, layer, head))
        means = f"{history.formulas[self.chosen]}; mean of {history.sequences} random sequences said twice."
        losses = f"The losses are means of {WINDOW} steps."
        self.sentence.setToolTip(wording.tooltip(f"{means} The map is of one of {length} tokens. {losses}"))

    def _sentence(self, history: TrainingHistory, at: int, layer: int, head: int) -> str:
        """Say what the head does now, and what it did at the start and does at the end."""
        first, now, last = (history.scores[self.chosen][place, layer, head] for place in (0, at, -1))
        return (
            f"{wording.head_name(layer, head)}, {self.statistic.currentText()}: {wording.number(float(now), 3)} after "
            f"{int(history.steps[at]):,} steps ({wording.number(float(first), 3)} at the start, "
            f"{wording.number(float(last), 3)} at the end)."
        )


def _habit(history: TrainingHistory, layer: int, head: int) -> str:
    """The statistic in which a head stands out most from the mean of all at the end, in standard deviations."""

    def stands_out(name: str) -> float:
        final = history.scores[name][-1]
        spread = float(np.nanstd(final)) if np.isfinite(final).any() else 0.0
        found = (final[layer, head] - np.nanmean(final)) / spread if spread > 0 else np.nan
        return float(found) if np.isfinite(found) else -np.inf

    return max(history.scores, key=stands_out)


def _highest(scores: Doubles) -> float:
    """Where the scale of a statistic ends: at 1, unless it goes further."""
    return max(1.0, float(np.nanmax(scores))) if np.isfinite(scores).any() else 1.0


def _smooth(steps: Any, losses: Any, window: int = WINDOW) -> tuple[Any, Any]:
    """Means of windows of steps, without those that are NaN, where each window ends."""
    pairs = [(steps[end - 1], losses[max(end - window, 0) : end]) for end in range(window, len(steps) + 1, window)]
    kept = [(at, float(np.nanmean(part))) for at, part in pairs if np.isfinite(part).any()]
    return np.array([at for at, _ in kept]), np.array([mean for _, mean in kept])
