"""Attention as lines: queries left, keys right, a line for each weight of a head, a kv group or a whole layer.

What is drawn, and of how much, is said in a sentence; where a line lies is the plot's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QScrollBar, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskStrongWeights, Question
from ropewalk.model.readings.records import Run, StrongWeights
from ropewalk.views.panels.panel import Kept, Mark, Panel, plain_label
from ropewalk.views.panels.token_labels import TokenLabels
from ropewalk.views.plots.arrow_keys import ArrowSlider
from ropewalk.views.plots.lines import LEAST_IN_SIGHT, MOST_IN_SIGHT, SIDES, LinesView
from ropewalk.views.style import theme, wording
from ropewalk.views.style.colour_maps import distinct
from ropewalk.views.style.flow import flowing, scrolled

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

SCOPES: Final = ("head", "kv group", "layer")
"""What lines are drawn of, as the box says it."""
THRESHOLDS: Final = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)
"""The least weights that can be chosen."""
AUTOMATIC: Final = THRESHOLDS[4:]
"""Those that are chosen where nobody did: a weight below is hardly a line that one can see."""
ENOUGH: Final = 500
"""Lines of each head, and of one more, above which a higher threshold is chosen; of many heads fewer can be seen."""
MOST_CHOSEN: Final = 4_000
"""Lines of all of them above which it is."""
MOST: Final = 20_000
"""Lines that are drawn at most, whatever the threshold."""
PER_DOUBLE: Final = 4
"""Steps of the slider that double the tokens in sight."""
LOW: Final = 18
"""Lines of type below which there is no room for what chooses tokens and weights, nor for many heads."""
LEGEND: Final = 0.25
"""The part of the panel's height that the heads may take before they are scrolled."""


class LinesPanel(Panel):
    """The strong weights of the selected head, or of those beside it, as lines."""

    name: ClassVar[str] = "lines"
    title: ClassVar[str] = "Lines"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "query", "selected query"),
        Mark("outline", "key", "selected key"),
    )
    depends: ClassVar[frozenset[str]] = frozenset({"layer"})
    marks: ClassVar[frozenset[str]] = frozenset({"head", "query", "key"})
    weights = Kept[StrongWeights]()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.view = LinesView()
        self.hear(self.view.picked, self._pick)
        self.hear(self.view.pointed, self._point)
        self.view.looked.connect(self._on_look)
        self.view.painted.connect(self.drawn)
        self.sentence = plain_label("", "label")
        self.sentence.setWordWrap(True)
        self.scope = QComboBox()
        self.scope.setAccessibleName("What lines are drawn of")
        self.scope.setToolTip("Draw the selected head, the heads that read its kv head, or all heads of its layer")
        self.scope.addItems(list(SCOPES))
        self.scope.currentIndexChanged.connect(self._ask_anew)
        self.head_row.addWidget(self.scope)
        self.bars = {side: self._bar(side) for side in SIDES}
        self._off: set[int] = set()
        """The heads that are switched off, by their number in a layer."""
        self._offered: tuple[tuple[int, ...], object] = ((), None)
        """The heads that have buttons, and the theme that these were made in."""
        self._labels = TokenLabels()
        self._drawn_of: tuple[Run, AskStrongWeights] | None = None
        """The run that lines are drawn of, and what was asked of it."""
        self._shown_cell = (-1, -1)
        """The selected query and key that were brought in sight; what a person scrolls to stays."""
        self._asked: AskStrongWeights | None = None
        self.heads = flowing()
        self.heads_area = scrolled(self.heads)
        self.heads_area.hide()
        picture = QHBoxLayout()
        picture.setSpacing(theme.GRID // 2)
        for part in (self.bars["query"], self.view, self.bars["key"]):
            picture.addWidget(part, 1 if part is self.view else 0)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.heads_area)
        layout.addLayout(picture, 1)
        layout.addWidget(self.sentence)
        self.controls = self._controls()
        layout.addWidget(self.controls)

    def _bar(self, side: str) -> QScrollBar:
        bar = QScrollBar(Qt.Orientation.Vertical)
        words = "queries" if side == "query" else "keys"
        bar.setAccessibleName(f"Which {words} are in sight")
        bar.setToolTip(f"Scroll the {words}; the wheel between the two sides scrolls both")
        bar.valueChanged.connect(self._scroll)
        bar.hide()
        return bar

    def _controls(self) -> QWidget:
        """How many tokens are in sight, and the least weight of a line."""
        steps = round(PER_DOUBLE * math.log2(MOST_IN_SIGHT / LEAST_IN_SIGHT))
        self.tokens = self._slider("Tokens in sight", "How many tokens are in sight; Ctrl with the wheel does it too")
        self.tokens.setRange(0, steps)
        self.tokens.valueChanged.connect(lambda at: self.view.want(round(LEAST_IN_SIGHT * 2 ** (at / PER_DOUBLE))))
        self.least = self._slider("The least weight of a line", "Draw no weight that is smaller")
        self.least.setRange(0, len(THRESHOLDS) - 1)
        self.least.valueChanged.connect(self._choose_least)
        self.tokens_label, self.least_label = plain_label("", "number"), plain_label("", "number")
        self.automatic = QToolButton()
        self.automatic.setText("auto")
        self.automatic.setToolTip("Draw as small weights as leave lines that can be told apart")
        self.automatic.setAccessibleName("Choose the least weight by the number of lines")
        self.automatic.setCheckable(True)
        self.automatic.setChecked(True)
        self.automatic.setProperty("toggle", "yes")
        self.automatic.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.automatic.toggled.connect(self._ask_anew)
        for label, slider in ((self.tokens_label, self.tokens), (self.least_label, self.least)):
            label.setBuddy(slider)
        return flowing(self.tokens, self.tokens_label, self.least, self.least_label, self.automatic)

    def _slider(self, name: str, tip: str) -> ArrowSlider:
        slider = ArrowSlider(Qt.Orientation.Horizontal)
        slider.setPageStep(2)
        slider.setFixedWidth(14 * theme.GRID)
        slider.setAccessibleName(name)
        slider.setToolTip(tip)
        return slider

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the strong weights of the tokens in sight."""
        self.view.set_names(self._labels.of(run))
        self._bring(run, selection)
        self._asked = self._wanted(run, selection)
        return self._asked

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the lines, and say how many they are of how many."""
        self.weights = reading
        weights: StrongWeights | None = None if reading is None else reading.value
        self._offer(run, selection)
        self.view.show_weights(weights, self._colours(run), keep=self._is_kept(run))
        self.describe(self._words(run, selection))
        self.sentence.setText(
            "No head is switched on; click one above." if weights is None else sentence(weights, run.length)
        )
        if weights is not None:
            self._tell_least(weights.threshold)
        self._tell_sight()

    def show_selection(self, selection: Selection) -> None:
        """Outline the cell, and ask again where other heads or other tokens are to be seen."""
        run = self.session.run
        if run is None:
            return
        self.view.mark(selection.query, selection.key)
        self._bring(run, selection)
        self._ring(selection)
        if self._wanted(run, selection) != self._asked:
            self.refresh()

    def show_hover(self, hover: Hover) -> None:
        """Show the lines of the token that is pointed at, here or elsewhere."""
        self.view.point(-1 if hover.query is None else hover.query, -1 if hover.key is None else hover.key)
        asked, weights, only = self._asked, self.weights, self.view.only
        if asked is None or weights is None or only is None or len(asked.thresholds) == 1:
            self.forget("closer")
        elif weights.threshold > AUTOMATIC[0]:
            own, (rows, columns) = (only[1], only[1] + 1), (asked.rows, asked.columns)
            rows, columns = (own, columns) if only[0] == "query" else (rows, own)
            closer = replace(asked, rows=rows, columns=columns, thresholds=AUTOMATIC[:1], most=MOST)
            self.ask(closer, self._show_closer, "closer")

    @property
    def settled(self) -> bool:
        """Whether everything asked for has been drawn."""
        return super().settled and self.view.is_painted

    @property
    def figure_legend(self) -> tuple[Mark, ...]:
        """The heads, too, where there are several."""
        weights = self.weights
        if weights is None or len(weights.heads) < 2:
            return self.legend
        colours = self.view.colours
        return (*self.legend, *(Mark("line", colours[head].name(), f"H{head}") for head in weights.heads))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave room for the lines."""
        super().resizeEvent(event)
        self._make_room()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        run, now = self.session.run, self.session.selection.now
        if run is not None:
            self._offer(run, now)
        if self._drawn_of is not None:
            self.view.colours = self._colours(self._drawn_of[0])  # which may have more heads than that on screen by now
        self.view.theme_changed()
        self._tell_least(THRESHOLDS[self.least.value()])
        self._tell_sight()
        self._make_room()

    def _show_closer(self, reading: Reading[StrongWeights]) -> None:
        self.view.show_closer(reading.value)

    # What is asked ------------------------------------------------------------------------------------------------

    def _in_scope(self, run: Run, selection: Selection) -> tuple[int, ...]:
        """The heads that lines can be drawn of."""
        spec, scope = run.specs[selection.layer], SCOPES[self.scope.currentIndex()]
        if scope == "head":
            return (selection.head,)
        own = spec.kv_head_of(selection.head)
        return tuple(head for head in range(spec.heads) if scope == "layer" or spec.kv_head_of(head) == own)

    def _wanted(self, run: Run, selection: Selection) -> AskStrongWeights | None:
        """What is to be asked; None where every head is switched off."""
        heads = self._in_scope(run, selection)
        if len(heads) > 1:
            heads = tuple(head for head in heads if head not in self._off)
        if not heads:
            return None
        sight, chosen = self.view.sight, THRESHOLDS[self.least.value()]
        few = min(ENOUGH * (len(heads) + 1), MOST_CHOSEN)
        thresholds, most = (AUTOMATIC, few) if self.automatic.isChecked() else ((chosen,), MOST)
        return AskStrongWeights(selection.layer, heads, sight.rows, sight.columns, thresholds, most)

    def _bring(self, run: Run, selection: Selection) -> None:
        """Bring the selected query and key in sight, once they are others or the run is."""
        cell = selection.query, selection.key
        if cell == self._shown_cell or max(cell) >= len(self.view.names):
            return
        self.view.mark(*cell)
        self._shown_cell, sight = cell, self.view.sight
        for side, place in zip(SIDES, cell, strict=True):
            sight = sight.with_token(side, place, run.length)
        self.view.look(sight)

    def _ask_anew(self) -> None:
        """Ask for something else of the run on screen."""
        if self.session.run is not None:
            self.refresh()

    def _on_look(self) -> None:
        """Ask for the tokens that are in sight now, where those of before were asked for."""
        self._tell_sight()
        run = self.session.run
        if run is not None and self.is_current and self._wanted(run, self.session.selection.now) != self._asked:
            self.refresh()

    def _is_kept(self, run: Run) -> bool:
        """Whether lines that are drawn are of the same run and heads as those that are to be drawn now."""
        before, asked = self._drawn_of, self._asked
        self._drawn_of = None if asked is None else (run, asked)
        if before is None or asked is None or before[0] is not run:
            return False
        return (before[1].layer, before[1].heads) == (asked.layer, asked.heads)

    # What is said -------------------------------------------------------------------------------------------------

    def _colours(self, run: Run) -> tuple[QColor, ...]:
        return distinct(run.config.heads, theme.current().name)

    def _words(self, run: Run, selection: Selection) -> str:
        """What lines are drawn of."""
        heads, spec = self._in_scope(run, selection), run.specs[selection.layer]
        kv = f"kv head {spec.kv_head_of(selection.head)}"
        if len(heads) == 1:
            return f"{wording.head_name(selection.layer, heads[0])} · {kv}"
        of = f"{kv} · " if SCOPES[self.scope.currentIndex()] == "kv group" else ""
        return f"layer {selection.layer} · {of}{wording.counted(len(heads), 'head')}"

    def _tell_least(self, threshold: float) -> None:
        self.least.blockSignals(True)
        self.least.setValue(THRESHOLDS.index(threshold))
        self.least.blockSignals(False)
        self._label(self.least_label, f"≥ {threshold:g}", "≥ 0.001")

    def _tell_sight(self) -> None:
        """Put the slider and the bars where the sight is."""
        sight, length = self.view.sight, len(self.view.names)
        self.tokens.blockSignals(True)
        self.tokens.setValue(round(PER_DOUBLE * math.log2(max(sight.count, LEAST_IN_SIGHT) / LEAST_IN_SIGHT)))
        self.tokens.blockSignals(False)
        self._label(self.tokens_label, wording.counted(min(sight.count, length), "token"), "512 tokens")
        self.tokens.setEnabled(length > LEAST_IN_SIGHT)
        for side, bar in self.bars.items():
            bar.blockSignals(True)
            bar.setRange(0, max(length - sight.count, 0))
            bar.setPageStep(sight.count)
            bar.setValue(getattr(sight, side))
            bar.blockSignals(False)
            bar.setVisible(length > sight.count)

    @staticmethod
    def _label(label: QLabel, text: str, widest: str) -> None:
        """Say something in a room that does not change with what is said."""
        width = math.ceil(theme.current().face("number").width(widest)) + 2
        if label.minimumWidth() != width:
            label.clear()  # it remembers what it wanted for its text
            label.setMinimumWidth(width)
        label.setText(text)

    # Heads --------------------------------------------------------------------------------------------------------

    def _offer(self, run: Run, selection: Selection) -> None:
        """Have a button for every head that lines can be drawn of."""
        heads = self._in_scope(run, selection)
        if run.config.heads <= max(self._off, default=-1):
            self._off.clear()
        offered = (heads, theme.current())
        if offered != self._offered:
            self._offered = offered
            layout = self.heads.layout()
            assert layout is not None
            while layout.count():
                item = layout.takeAt(0)
                if item is not None and (gone := item.widget()) is not None:
                    gone.hide()
                    gone.deleteLater()
            if len(heads) > 1:
                layout.addWidget(self._button("all", "Draw the lines of all heads, or of none"))
                for head in heads:
                    tip = f"Draw the lines of head {head}, or leave them out"
                    layout.addWidget(self._button(f"H{head}", tip, head))
            for button in self._buttons():
                button.show()  # a layout leaves no room for what it has not shown yet
        self._ring(selection)
        self._make_room()

    def _buttons(self) -> list[QToolButton]:
        """The buttons of the heads, and that of all."""
        layout = self.heads.layout()
        assert layout is not None
        found = (layout.itemAt(place) for place in range(layout.count()))
        return [item.widget() for item in found if item is not None]  # type: ignore[misc]

    def _button(self, text: str, tip: str, head: int = -1) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setProperty("kind", "small")
        button.setProperty("head", head)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setCheckable(head >= 0)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self._switch(head))
        return button

    def _switch(self, head: int) -> None:
        """Switch a head on or off; −1 switches all of them on, or off where they are."""
        if head >= 0:
            self._off ^= {head}
        else:
            shown = {int(one.property("head")) for one in self._buttons()} - {-1}
            self._off = self._off - shown if self._off & shown else self._off | shown
        self._ring(self.session.selection.now)
        self._ask_anew()

    def _ring(self, selection: Selection) -> None:
        """Show which heads are on, in their colours, and which of them is selected."""
        run = self.session.run
        if run is None:
            return
        colours, side = self._colours(run), theme.current().size("label")
        for button in self._buttons():
            head = int(button.property("head"))
            if 0 <= head < len(colours):
                on, selected = head not in self._off, head == selection.head
                button.setChecked(on)
                if button.property("look") != [on, selected]:  # it was made for this theme
                    button.setProperty("look", [on, selected])
                    button.setIcon(swatch(colours[head], on, selected))
                    button.setIconSize(QSize(side, side))

    def _make_room(self) -> None:
        """Give the heads as many lines as they need, and no more than their part; leave the rest to the picture."""
        low = self.height() < LOW * theme.current().size("label")
        self.controls.setVisible(not low)
        layout, several = self.heads.layout(), len(self._offered[0]) > 1
        self.heads_area.setVisible(several)
        if several and layout is not None:
            part = round((LEGEND / 2 if low else LEGEND) * self.height())
            wanted = layout.heightForWidth(self.body.width() - 2 * theme.GRID)
            self.heads_area.setFixedHeight(min(wanted, part) + 2)

    # Hands --------------------------------------------------------------------------------------------------------

    def _choose_least(self) -> None:
        """Take the threshold that somebody chose."""
        self._label(self.least_label, f"≥ {THRESHOLDS[self.least.value()]:g}", "≥ 0.001")
        if self.automatic.isChecked():
            self.automatic.setChecked(False)  # which asks
        else:
            self._ask_anew()

    def _scroll(self) -> None:
        sight = self.view.sight
        query, key = (bar.value() - getattr(sight, side) for side, bar in self.bars.items())
        self.view.look(sight.moved(query, key, len(self.view.names)))

    def _pick(self, query: int, key: int) -> None:
        self.session.selection.update(**({"query": query} if query >= 0 else {"key": key}))

    def _point(self, query: int, key: int) -> None:
        self.session.selection.point_at(Hover(None if query < 0 else query, None if key < 0 else key))


def sentence(weights: StrongWeights, length: int) -> str:
    """Say how many weights are drawn of how many, and which."""
    drawn, whole = len(weights.weight), (0, length)
    if drawn == weights.total:
        return f"All {wording.counted(drawn, 'weight')} drawn."
    least = f"{weights.threshold:g} and more" if weights.threshold else ""
    if drawn < weights.reached:
        which = [f"the strongest of the {weights.reached:,}" + (f" of {least}" if least else "")]
    else:
        which = [f"those of {least}"] if least else []
    if (weights.rows, weights.columns) != (whole, whole):
        which.append("of the tokens in sight" if which else "those of the tokens in sight")
    return f"{drawn:,} of {wording.counted(weights.total, 'weight')} drawn: {', '.join(which)}."


def swatch(colour: QColor, on: bool, selected: bool) -> QIcon:
    """A head's colour, hollow where it is switched off, with a ring around that of the selected one."""
    now, side = theme.current(), theme.current().size("label")
    picture = QPixmap(2 * side, 2 * side)
    picture.setDevicePixelRatio(2)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    box = QRectF(0, 0, side, side).adjusted(3, 3, -3, -3)
    painter.setPen(QPen(colour, 1.5))
    painter.setBrush(colour if on else Qt.BrushStyle.NoBrush)
    painter.drawEllipse(box)
    if selected:
        painter.setPen(QPen(now.text, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(box.adjusted(-2, -2, 2, 2))
    painter.end()
    return QIcon(picture)
