"""Interventions: one click each, chips for what is changed in the model, and what it did to the selected row.

What an intervention does is the model's business; the session runs the prompt again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Selection
from ropewalk.model.decoder.interventions import (
    LARGEST_FACTOR,
    SCALINGS,
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    PermuteTokens,
    ReadKvHead,
    RopeBase,
    RopeOff,
    RopeScaling,
    ScaleScores,
    SetPattern,
    ablate_kv_group,
)
from ropewalk.model.engine.questions import AskMean, AskRandomLayers, AskRow, Capability, Question
from ropewalk.model.errors import InterventionError
from ropewalk.model.readings.records import ModelCard, RandomLayer, RowReading, Run
from ropewalk.views.panels.panel import CHANGES, Panel, offer, plain_label
from ropewalk.views.panels.random_layer import RandomLayerPage
from ropewalk.views.style import theme, wording
from ropewalk.views.style.flow import FlowLayout, flowing, scrolled

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


def subject(intervention: Intervention) -> tuple[object, ...]:
    """What an intervention changes; a newer one of the same subject replaces the older."""
    match intervention:
        case RopeOff() | RopeBase():
            return ("rotation",)
        case AblateHeads():
            return ("heads", intervention.layer, intervention.heads)
        case SetPattern():
            return ("pattern", intervention.layer, intervention.head)
        case AblatePlane():
            return ("plane", intervention.layer, intervention.head, intervention.plane)
        case AblateMlp():
            return ("mlp", intervention.layer)
        case ReadKvHead():
            return ("kv", intervention.layer, intervention.head)
        case _:
            return (type(intervention).__name__, getattr(intervention, "layer", None))


def added(active: Sequence[Intervention], new: Intervention) -> tuple[Intervention, ...]:
    """Add an intervention; the same one once more takes it out again."""
    if new in active:
        return tuple(one for one in active if one != new)
    return (*(one for one in active if subject(one) != subject(new)), new)


MOST_ROWS, MOST_CHANGES = 4096, 200
"""Rows whose entropy is kept, each with its prompt, and changes that can be undone."""

MOST_NUMBERS = 1 << 20
"""That a list may name: a slip such as ``1-99999999999`` must not fill the memory."""


def numbers_in(text: str) -> tuple[int, ...]:
    """Read ``1, 3-5`` as 1, 3, 4, 5.

    Raises
    ------
    InterventionError
        When the text is something else, or names more than any model has.
    """
    if not re.fullmatch(r"\s*\d+(\s*-\s*\d+)?([\s,]+\d+(\s*-\s*\d+)?)*[\s,]*", text):
        raise InterventionError(f"{text!r} is not a list of numbers; type some such as 1, 3-5.")
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:\s*-\s*(\d+))?", text):
        if max(len(first), len(last)) > 9 or len(found) + int(last or first) - int(first) > MOST_NUMBERS:
            raise InterventionError(f"{first}-{last or first} is more than any model has; type some such as 1, 3-5.")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


TIPS: Final[Mapping[str, str]] = {
    "no_scale": "Leave out the division by √Dh: scores grow, and softmax puts nearly all weight on one key.",
    "factor": "Multiply every score before softmax: above 1 rows become sharper, below 1 flatter.",
    "rope_off": "Rotate nothing: scores no longer know how far apart two tokens are.",
    "base": "Rotate with another base: a larger one lets all planes but the first turn more slowly.",
    "no_mask": "Let every token see those after it: the upper triangle of every map fills.",
    "stretch": "Stretch the rotation by this rule and factor, as for prompts longer than the model was trained on.",
    "zero": "Set what this head writes to zero: later layers change, its own scores and weights stay.",
    "mean": "Let this head write its average over the run at every token: what differs between tokens is gone.",
    "group": "Set what all heads that read this kv head write to zero.",
    "group_mean": "Let all heads that read this kv head write their averages over the run.",
    "plane": "Take this plane out of the head's scores: its share of every score becomes zero.",
    "plane_mean": "Give this plane of the head its average over the run, in queries and keys.",
    "kv": "Let this head read another kv head: its keys and values are then those of other heads.",
    "heads": "Set what these heads of the layer write to zero.",
    "heads_mean": "Let these heads of the layer write their averages over the run.",
    "all_heads": "Set what every head of this layer writes to zero: the layer no longer mixes tokens.",
    "mlp": "Set what this layer's MLP writes to zero.",
    "mlp_mean": "Let this layer's MLP write its average over the run at every token.",
    "reverse": "Run the prompt's tokens in reverse order.",
    "shuffle": "Run the prompt's tokens in a random order, the same one every time.",
    "swap": "Let the selected query and key change places in the prompt.",
    "order": "Run the prompt's tokens in the order typed here, by their positions.",
}
"""What each button does and what one will see."""

ANYWHERE: Final[frozenset[str]] = frozenset(
    {"zero", "mean", "group", "group_mean", "heads", "heads_mean", "all_heads", "reverse", "shuffle", "swap", "order"}
)
"""Buttons that need nothing of a model's inside: transformers runs its models so too."""

INSIDE: Final[Capability] = "rotation"
"""What it takes to change the inside of a layer: a decoder of ours."""


class InterventionsPanel(Panel):
    """Changes the model for the run on screen."""

    name: ClassVar[str] = "experiments"
    title: ClassVar[str] = "Experiments"
    is_figure: ClassVar[bool] = False
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query"})
    marks: ClassVar[frozenset[str]] = frozenset({"plane", "key"})

    PAGES = ("this model", "a random layer")

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._history: list[tuple[Intervention, ...]] = []
        self._shown: tuple[Intervention, ...] = ()
        self._random_shown: Question | None = None
        self._back = 0  # how many changes an undo that is under way takes back
        self._unchanged: dict[tuple[ModelCard, str, int, int, int], float] = {}
        """Entropies of rows of models in which nothing is changed."""
        self.buttons: dict[str, QPushButton] = {}
        self.undo_button = QPushButton("Undo")
        self.undo_button.setToolTip("Go back to the experiments before the last change.")
        self.undo_button.clicked.connect(self.undo)
        self.clear_button = QPushButton("None")
        self.clear_button.setAccessibleName("Take every experiment out")
        self.clear_button.clicked.connect(lambda: self.session.interventions.apply(()))
        self.head_row.addWidget(self.undo_button)
        self.head_row.addWidget(self.clear_button)
        self.chips = QWidget()
        self.chips.setAccessibleName("Active experiments")
        self.chip_row = FlowLayout(self.chips)
        self.effect = plain_label("", "label")
        self.effect.setWordWrap(True)
        changes = QWidget()
        column = QVBoxLayout(changes)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.GRID)
        column.addWidget(self.chips)
        column.addWidget(self.effect)
        column.addWidget(self._controls(), 1)
        self.random = RandomLayerPage()
        self.random.wanted.connect(self._ask_random)
        self.pages = QStackedWidget()
        for page in (changes, self.random):
            self.pages.addWidget(page)
        self.page_box = QComboBox()
        self.page_box.setAccessibleName("What is experimented on")
        self.page_box.setToolTip("Change this model, or look at a layer of random weights.")
        self.page_box.addItems(list(self.PAGES))
        self.page_box.currentIndexChanged.connect(self._turn_to)
        self.head_row.addWidget(self.page_box)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)
        session.interventions.changed.connect(self._on_interventions)
        session.failed.connect(self._on_failed)
        session.model_changed.connect(self._forget)
        self._show_chips()
        if session.interventions.now:  # the window makes this panel with the first change, so that can be undone
            self._on_interventions(session.interventions.now)

    # Controls -----------------------------------------------------------------------------------------------------

    def _controls(self) -> QScrollArea:
        self.factor = QDoubleSpinBox()
        self.factor.setRange(-LARGEST_FACTOR, LARGEST_FACTOR)
        self.factor.setValue(2.0)
        self.factor.setAccessibleName("Factor on the scores")
        self.factor.setToolTip("What “scores ×” multiplies the scaled scores by.")
        self.base = QDoubleSpinBox()
        self.base.setDecimals(1)
        self.base.setRange(1.1, 1e9)
        self.base.setValue(500.0)
        self.base.setAccessibleName("RoPE base")
        self.base.setToolTip("What “RoPE base” puts in the place of the model's own; larger is slower.")
        self.scaling = QComboBox()
        self.scaling.setAccessibleName("Rule that stretches RoPE")
        self.scaling.setToolTip("How “RoPE stretched” slows the planes down.")
        for rule, spoken in SCALINGS.items():
            self.scaling.addItem(spoken, rule)
        self.stretch = QDoubleSpinBox()
        self.stretch.setRange(1, 1000)
        self.stretch.setValue(2.0)
        self.stretch.setSingleStep(0.5)
        self.stretch.setPrefix("× ")
        self.stretch.setAccessibleName("Factor that RoPE is stretched by")
        self.stretch.setToolTip("How many times as many positions “RoPE stretched” is for.")
        self.heads = QLineEdit()
        self.heads.setPlaceholderText("1, 3-5")
        self.heads.setAccessibleName("Heads of the selected layer to ablate")
        self.heads.setToolTip("Heads of the selected layer for the buttons beside: numbers and ranges, as 1, 3-5.")
        self.heads.returnPressed.connect(lambda: self._add(self._zero_heads))
        self.kv_head = QSpinBox()
        self.kv_head.setAccessibleName("Kv head to read")
        self.kv_head.setToolTip("The kv head that “reads kv” gives to the selected head.")
        self.order = QLineEdit()
        self.order.setPlaceholderText("2, 0, 1")
        self.order.setAccessibleName("Order of the prompt's tokens")
        self.order.setToolTip("Positions of the prompt in another order, as 2, 0, 1, for “in this order”.")
        self.order.returnPressed.connect(lambda: self._add(self._typed_order))
        groups = (
            ("Scores", self._button("no_scale", "no 1/√Dh", lambda run, now: NoScale()), self._scaled(), self.factor),
            (
                "Positions and mask",
                self._button("rope_off", "no RoPE", lambda run, now: RopeOff()),
                self._button("base", "RoPE base", lambda run, now: RopeBase(self.base.value())),
                self.base,
                self._button("no_mask", "no causal mask", lambda run, now: NoCausalMask()),
                self._button("stretch", "RoPE stretched", self._chosen_scaling),
                self.scaling,
                self.stretch,
            ),
            (
                "The selected head",
                self._button("zero", "→ 0", lambda run, now: AblateHeads(now.layer, (now.head,))),
                self._mean("mean", lambda now: AskMean(now.layer, (now.head,))),
                self._button("group", "kv group → 0", _group),
                self._mean("group_mean", lambda now: AskMean(now.layer, self._group_of(now))),
                self._button("plane", "plane → 0", lambda run, now: AblatePlane(now.layer, now.head, now.plane)),
                self._mean("plane_mean", lambda now: AskMean(now.layer, (now.head,), now.plane)),
                self._button("kv", "reads kv", lambda run, now: ReadKvHead(now.layer, now.head, self.kv_head.value())),
                self.kv_head,
            ),
            (
                "The selected layer",
                self.heads,
                self._button("heads", "heads → 0", self._zero_heads),
                self._mean("heads_mean", lambda now: AskMean(now.layer, numbers_in(self.heads.text()))),
                self._button("all_heads", "all heads → 0", _all_heads),
                self._button("mlp", "MLP → 0", lambda run, now: AblateMlp(now.layer)),
                self._mean("mlp_mean", lambda now: AskMean(now.layer, None)),
            ),
            (
                "The prompt's tokens",
                self._button("reverse", "reversed", _reversed),
                self._button("shuffle", "shuffled", _shuffled),
                self._button("swap", "query and key swapped", _swapped),
                self.order,
                self._button("order", "in this order", self._typed_order),
            ),
        )
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 4, 0)
        column.setSpacing(4)
        self.captions = []
        for caption, *widgets in groups:
            self.captions.append(plain_label(caption, "label"))
            column.addWidget(self.captions[-1])
            column.addWidget(flowing(*widgets))
        column.addStretch(1)
        self._size_fields()
        return scrolled(inside)

    def _button(self, name: str, text: str, made: Callable[[Run, Selection], Intervention]) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(TIPS[name])
        button.clicked.connect(lambda: self._add(made))
        self.buttons[name] = button
        return button

    def _scaled(self) -> QPushButton:
        return self._button("factor", "scores ×", lambda run, now: ScaleScores(self.factor.value()))

    def _mean(self, name: str, asked: Callable[[Selection], AskMean]) -> QPushButton:
        """A button whose intervention needs the means of the run first."""
        button = QPushButton("heads → their mean")
        button.setToolTip(TIPS[name])
        button.clicked.connect(lambda: self._add_mean(asked))
        self.buttons[name] = button
        return button

    def _size_fields(self) -> None:
        size = theme.current().size("body")
        for box, letters in (
            (self.factor, 6),
            (self.base, 8),
            (self.stretch, 6),
            (self.kv_head, 4),
            (self.heads, 8),
            (self.order, 12),
        ):
            box.setFixedWidth(letters * size)

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question:
        """Ask for the selected row, to say what an intervention did to its entropy."""
        return AskRow(selection.layer, selection.head, selection.query)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Say what became of the row."""
        row: RowReading = reading.value
        place = (run.model, run.prompt, row.layer, row.head, row.query)
        if not self.session.interventions.now:
            self._unchanged.pop(place, None)  # so that it is the newest
            self._unchanged[place] = row.entropy
            if len(self._unchanged) > MOST_ROWS:
                del self._unchanged[next(iter(self._unchanged))]
        self.effect.setText(effect_text(row, self._unchanged.get(place)))
        self.describe(f"L{selection.layer}H{selection.head} · kv head {run.config.kv_head_of(selection.head)}")
        self.kv_head.setRange(0, run.config.kv_heads - 1)
        if self.pages.currentWidget() is self.random and self._random_shown != self.random.question:
            self._ask_random(self.random.question)  # it was not answered because another run came

    def show_selection(self, selection: Selection) -> None:
        """Name the head, the plane and the layer on their buttons."""
        run = self.session.run
        if run is None:
            return
        head = wording.head_name(selection.layer, selection.head)
        names = {
            "zero": f"{head} → 0",
            "mean": f"{head} → its mean",
            "group": f"kv group {run.config.kv_head_of(selection.head)} → 0",
            "group_mean": f"kv group {run.config.kv_head_of(selection.head)} → its mean",
            "plane": f"plane {selection.plane} → 0",
            "plane_mean": f"plane {selection.plane} → its mean",
            "kv": f"{head} reads kv",
            "all_heads": f"all heads of L{selection.layer} → 0",
            "mlp": f"L{selection.layer} MLP → 0",
            "mlp_mean": f"L{selection.layer} MLP → its mean",
        }
        for name, text in names.items():
            self.buttons[name].setText(text)
        self.buttons["mean"].setAccessibleName(f"{head} to its mean")
        self.buttons["heads_mean"].setAccessibleName("These heads to their means")
        self.buttons["mlp_mean"].setAccessibleName(f"L{selection.layer} MLP to its mean")
        self.captions[2].setText(f"The selected head, {head}")
        self.captions[3].setText(f"The selected layer, L{selection.layer}")
        self._offer(run, selection)
        self.buttons["group_mean"].setAccessibleName(f"Kv group {run.config.kv_head_of(selection.head)} to its means")
        self.buttons["plane_mean"].setAccessibleName(f"Plane {selection.plane} of {head} to its mean")

    def _offer(self, run: Run, selection: Selection) -> None:
        """Let what can be changed be changed, and say of the rest why it cannot."""
        rotated = run.specs[selection.layer].rotary_width > 0
        there = {"plane": rotated, "plane_mean": rotated, "kv": run.config.kv_heads > 1}
        for name, button in self.buttons.items():
            needs = CHANGES if name in ANYWHERE else (*CHANGES, INSIDE)
            offer(button, self.session, TIPS[name], *needs, on=there.get(name, True))
        self._offer_back()

    def theme_changed(self) -> None:
        """Fit the fields to the type."""
        self._size_fields()
        self.random.theme_changed()

    # A random layer ---------------------------------------------------------------------------------------------------

    def _turn_to(self, page: int) -> None:
        self.pages.setCurrentIndex(page)
        for button in (self.undo_button, self.clear_button):
            button.setVisible(page == 0)
        if page == 1:
            self._ask_random(self.random.question)

    def _ask_random(self, question: AskRandomLayers) -> None:
        self.ask(question, self._show_random, "random")

    def _show_random(self, reading: Reading[tuple[RandomLayer, ...]]) -> None:
        self._random_shown = reading.question
        self.random.show_layers(reading.value)

    # Doing and undoing --------------------------------------------------------------------------------------------

    def undo(self) -> None:
        """Go back to the interventions before the last change."""
        if self.session.interventions.wanted == self._shown:
            self._back = 0
        elif not self._back:  # the last change is still being computed
            self.session.interventions.apply(self._shown)
            return
        if self._back < len(self._history):
            self._back += 1
            self.session.interventions.apply(self._history[-self._back])

    def _change(self, interventions: tuple[Intervention, ...]) -> None:
        """Go on from what was wanted last, whether or not it is on screen yet."""
        self._back = 0
        self.session.interventions.apply(interventions)

    def _add(self, made: Callable[[Run, Selection], Intervention]) -> None:
        run = self.session.run
        if run is None:
            self.session.interventions.apply(())  # refused with a sentence
            return
        if self._model_changes(run):
            return
        try:
            intervention = made(run, self.session.selection.now)
        except InterventionError as error:
            self.session.failed.emit(error.sentence, error.details)
            return
        self._change(added(self.session.interventions.wanted, intervention))

    def _add_mean(self, asked: Callable[[Selection], AskMean]) -> None:
        try:
            question = asked(self.session.selection.now)
        except InterventionError as error:
            self.session.failed.emit(error.sentence, error.details)
            return
        self.ask(question, self._add_made, "mean")

    def _add_made(self, made: Reading[Intervention]) -> None:
        if not self._model_changes(made.run):
            self._change(added(self.session.interventions.wanted, made.value))

    def _model_changes(self, run: Run) -> bool:
        """Whether another model is open already than that of the run on screen, whose own run is on its way."""
        return run.model != self.session.model

    def _group_of(self, now: Selection) -> tuple[int, ...]:
        run = self.session.run
        if run is None:
            raise InterventionError("There is nothing to experiment on yet; run a prompt first.")
        return ablate_kv_group(run.config, now.layer, run.config.kv_head_of(now.head)).heads

    def _zero_heads(self, run: Run, now: Selection) -> Intervention:
        return AblateHeads(now.layer, numbers_in(self.heads.text()))

    def _chosen_scaling(self, run: Run, now: Selection) -> Intervention:
        return RopeScaling(self.scaling.currentData(), self.stretch.value())

    def _typed_order(self, run: Run, now: Selection) -> Intervention:
        return PermuteTokens(numbers_in(self.order.text()))

    def _remove(self, intervention: Intervention) -> None:
        self._change(tuple(one for one in self.session.interventions.wanted if one != intervention))

    def _on_interventions(self, interventions: tuple[Intervention, ...]) -> None:
        if self._back:
            del self._history[-self._back :]
        else:
            self._history.append(self._shown)
            del self._history[:-MOST_CHANGES]
        self._back = 0
        self._shown = interventions
        self._show_chips()
        self.refresh()

    def _on_failed(self, sentence: str, details: str) -> None:
        self._back = 0

    def _forget(self) -> None:
        """Another model has a history of its own."""
        self._history.clear()
        self._back = 0
        self._unchanged.clear()
        self._show_chips()

    def _show_chips(self) -> None:
        while (item := self.chip_row.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for intervention in self._shown:
            self.chip_row.addWidget(self._chip(intervention))
        if not self._shown:
            self.chip_row.addWidget(plain_label("The model is as it was opened.", "label"))
        self.undo_button.setEnabled(bool(self._history))
        self._offer_back()
        self.chips.updateGeometry()

    def _offer_back(self) -> None:
        """Let what is changed be taken out, where the model can be run without it."""
        offer(self.clear_button, self.session, "Take every experiment out.", *CHANGES, on=bool(self._shown))
        for chip, intervention in zip(self.active_chips, self._shown, strict=True):
            offer(chip, self.session, f"Take “{intervention.label}” out.", *CHANGES)

    def _chip(self, intervention: Intervention) -> QPushButton:
        chip = QPushButton(f"{intervention.label}  ×")
        chip.setCheckable(True)
        chip.setChecked(True)
        chip.setAccessibleName(f"Take out: {intervention.label}")
        chip.clicked.connect(lambda: self._remove(intervention))
        return chip

    @property
    def active_chips(self) -> tuple[QPushButton, ...]:
        """The chips on screen."""
        items = (self.chip_row.itemAt(i) for i in range(self.chip_row.count()))
        widgets = (item.widget() for item in items if item is not None)
        return tuple(widget for widget in widgets if isinstance(widget, QPushButton))


def effect_text(row: RowReading, unchanged: float | None) -> str:
    """Say how spread out a row is, and how it was without interventions."""
    place = f"Row {row.query} of {wording.head_name(row.layer, row.head)}"
    text = f"{place}: largest weight {wording.number(float(row.weights.max()))}, "
    text += f"entropy {wording.number(row.entropy)} nats"
    if unchanged is None or unchanged == row.entropy:
        return text
    return f"{text} (unchanged model {wording.number(unchanged)})"


def _group(run: Run, now: Selection) -> Intervention:
    return ablate_kv_group(run.config, now.layer, run.config.kv_head_of(now.head))


def _all_heads(run: Run, now: Selection) -> Intervention:
    return AblateHeads(now.layer, tuple(range(run.config.heads)))


def _reversed(run: Run, now: Selection) -> Intervention:
    return PermuteTokens(tuple(reversed(range(run.prefill))))


def _shuffled(run: Run, now: Selection) -> Intervention:
    order = list(range(run.prefill))
    random.Random(run.prefill).shuffle(order)
    return PermuteTokens(tuple(order))


def _swapped(run: Run, now: Selection) -> Intervention:
    if max(now.query, now.key) >= run.prefill:
        raise InterventionError("Only tokens of the prompt can be swapped; select a query and a key inside it.")
    order = list(range(run.prefill))
    order[now.query], order[now.key] = now.key, now.query
    return PermuteTokens(tuple(order))
