"""Every head at a glance: the panel of the atlas, grouped by kv head or sorted by a score.

Where a thumbnail lies and how it is painted are the atlas's.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.session.interventions import silent_heads
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskAtlas, AskRepeats, Question
from ropewalk.model.readings.records import AtlasPart, HeadAtlas, RepeatScores, Run
from ropewalk.views import keys
from ropewalk.views.panels.panel import Kept, Mark, Panel, SparedLabel, plain_label
from ropewalk.views.plots.atlas import LAYER_ORDER, AtlasScroll, AtlasView
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

PREFERRED = ("induction", "previous")
"""Which score is written under the heads before anybody chose one."""


class HeadsPanel(Panel):
    """Thumbnails of every head: click or arrows select one."""

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Heads"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "accent", "selected head"),
        Mark("line", "key", "heads that read one kv head"),
        Mark("line", "bad", "silenced heads"),
    )
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    streams: ClassVar[bool] = True
    panel_requested = Signal(str)
    """A panel that shows what a click does is to be in sight."""
    atlas = Kept[HeadAtlas]()
    tested = Kept[RepeatScores]()

    PIXELS = 64
    PATIENCE = 0.1
    """Seconds after which layers are shown one by one; answers that come sooner are drawn as a whole."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.view = AtlasView()
        self.hear(self.view.head_clicked, self._select)
        self.hear(self.view.head_pointed, self._point)
        self.scroller = AtlasScroll(self.view)
        self.reading = SparedLabel("label")
        self.reading.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.sort_box = QComboBox()
        self.sort_box.setAccessibleName("Sort heads by")
        self.sort_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        # the least width that Qt remembers of a box is that of before its items, so this one takes all that it wants
        self.sort_box.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.sort_box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.sort_box.textActivated.connect(self._choose)
        self.sort_box.currentTextChanged.connect(self._sort)
        tip = "Look at every cell of every head; in a long run that takes a while"
        self.exact = _button("exact", tip, "exact thumbnails")
        self.exact.toggled.connect(self.refresh)
        self.exact.hide()
        tip = "Test every head on random tokens twice: what is written under the heads is then what they do there"
        self.repeats = _button("random repeats", tip, "test every head on random repeats")
        self.hear(self.repeats.toggled, self._test)
        self._make_silencing()
        self._chosen = ""
        """The score that somebody chose last: its label stays."""
        self._prompt = ""
        """The text whose heads are labelled; those of another one may have other habits."""
        self._asked_at = 0.0
        self._begun = False
        self.view.painted.connect(self.drawn)
        self.head_row.addWidget(self.reading)
        self.head_row.addWidget(self.back_button)
        self.head_row.addWidget(self.silence)
        self.head_row.addWidget(self.exact)
        self.head_row.addWidget(self.repeats)
        self.head_row.addWidget(self.sort_box)
        self.why_undefined = plain_label("", "label")
        self.why_undefined.hide()
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.scroller, 1)
        layout.addWidget(self.why_undefined)

    def _make_silencing(self) -> None:
        """What silences heads by clicking, and what brings them back."""
        tip = f"{keys.tip('silence')}: a click on a head makes it give zero, another one brings it back. "
        tip += "The bars of Next token move at once, those of before stay behind them."
        self.silence = _button("silence", tip, "Silence heads by clicking")
        self.silence.toggled.connect(self._begin_silencing)
        tip = "Let every head that was silenced speak again"
        self.back_button = _button("bring all back", tip, "Bring all silenced heads back", toggle=False)
        self.back_button.clicked.connect(lambda: self.session.interventions.silence(()))
        self.hear(self.view.head_silenced, self._silence)
        for signal in (self.session.interventions.asked, self.session.interventions.changed):
            signal.connect(self._show_silent)
        self._show_silent()

    def _begin_silencing(self, on: bool) -> None:
        self.view.silencing = on
        if on:
            self.panel_requested.emit("next_token")
            self.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _silence(self, layer: int, head: int) -> None:
        """Silence a head, or bring it back."""
        now = silent_heads(self.session.interventions.wanted)
        self.session.interventions.silence(now ^ {(layer, head)})

    def _show_silent(self, *_: object) -> None:
        silent = silent_heads(self.session.interventions.wanted)
        self.view.silence(silent)
        self.back_button.setVisible(bool(silent))

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the thumbnails and scores of all heads."""
        self._asked_at, self._begun = time.monotonic(), False
        seen = self.view.layers_in(self.view.visibleRegion().boundingRect())
        return AskAtlas(self.PIXELS, exact=self.exact.isChecked(), first=seen)

    def show_part(self, part: Reading[AtlasPart]) -> None:
        """Paint a layer as soon as it is ready, where all of them take long."""
        if time.monotonic() - self._asked_at < self.PATIENCE:
            return
        self.explain("")
        if not self._begun:
            self._begun = True
            c, side, keep = part.run.config, part.value.thumbnails.shape[-1], self.is_current
            self.begin(part.run)
            self.view.begin(c.layers, c.heads, side, c.group, keep=keep)
            now = self.session.selection.now
            self.view.mark(now.layer, now.head)
            self.describe(f"{c.layers} layers × {c.heads} heads · drawing · pixels: {part.value.reduction}")
        self.view.show_part(part.value)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Paint the thumbnails; the score chosen before stays chosen."""
        self.atlas = reading
        atlas: HeadAtlas = reading.value
        self.exact.setVisible(atlas.reduction == "sampled" or self.exact.isChecked())
        if run.prompt != self._prompt:
            self._prompt, self.view.score = run.prompt, ""
        self._offer(atlas)
        self.view.show_atlas(self._scored(atlas), run.config.group)
        self._sort(self.sort_box.currentText())
        if self.repeats.isChecked() and self.tested is None:
            self._test(True)

    @property
    def settled(self) -> bool:
        """Whether everything asked for has been drawn."""
        return super().settled and self.view.is_painted

    def show_selection(self, selection: Selection) -> None:
        """Move the outline, and scroll to it when it is out of sight."""
        self.view.mark(selection.layer, selection.head)
        place = self.view.plan.of(selection.layer, selection.head)
        if place is not None:
            centre = place.square.center()
            self.scroller.ensureVisible(centre.x(), centre.y(), place.square.width(), place.square.height())
        self._show_reading()

    def show_hover(self, hover: Hover) -> None:
        """Outline the head that is pointed at here or elsewhere."""
        here = hover.layer is not None and hover.head is not None
        self.view.point(
            hover.layer if here and hover.layer is not None else -1,
            hover.head if here and hover.head is not None else -1,
        )
        self._show_reading()

    def show_highlights(self) -> None:
        """Ring the heads that are named."""
        self.view.highlight(frozenset(self.highlighted.get("heads", frozenset())))

    def theme_changed(self) -> None:
        """Arrange anew with the new sizes and colours."""
        self.view.lay_out()

    def _offer(self, atlas: HeadAtlas) -> None:
        names = [LAYER_ORDER, *atlas.scores]
        if [self.sort_box.itemText(i) for i in range(self.sort_box.count())] != names:
            chosen = self.sort_box.currentText()
            self.sort_box.blockSignals(True)
            self.sort_box.clear()
            self.sort_box.addItems(names)
            self.sort_box.setCurrentText(chosen if chosen in names else LAYER_ORDER)
            self.sort_box.blockSignals(False)
        for i, name in enumerate(names):
            formula = atlas.formulas.get(name, "By layer and head, grouped by kv head")
            why = f"\nNot defined here: {atlas.undefined[name]}" if name in atlas.undefined else ""
            self.sort_box.setItemData(i, wording.tooltip(formula + why), Qt.ItemDataRole.ToolTipRole)

    def _choose(self, name: str) -> None:
        if name != LAYER_ORDER:
            self._chosen = name

    def order_by_layer(self) -> None:
        """Put the heads back into the order of layers, under the label that was first."""
        self._chosen = ""
        self.repeats.setChecked(False)
        self.sort_box.setCurrentText(LAYER_ORDER)
        self._sort(LAYER_ORDER)

    def _test(self, wanted: bool) -> None:
        """Score the heads on random repeats, or on the prompt again."""
        if wanted and self.tested is None:
            self.ask(AskRepeats(), self._show_tested, "repeats")
            return
        if not wanted:
            self.forget("repeats")
        self._show_scores()

    def _on_settled(self) -> None:
        """Let the button go where the test failed."""
        super()._on_settled()
        self._show_silent()  # a run that was cancelled or refused changes nothing
        if self.is_current and self.tested is None and not self.awaits("repeats"):
            self.repeats.setChecked(False)

    def _show_tested(self, reading: Reading[RepeatScores]) -> None:
        self.tested = reading
        self._show_scores()

    def _show_scores(self) -> None:
        if self.atlas is not None:
            self.view.take_scores(self._scored(self.atlas))
            self._sort(self.sort_box.currentText())

    def _scored(self, atlas: HeadAtlas) -> HeadAtlas:
        """The atlas with the scores that are wanted: those of the prompt, or of random repeats."""
        if self.tested is None or not self.repeats.isChecked():
            return atlas
        return replace(atlas, scores=self.tested.scores, undefined={})

    def _sort(self, name: str) -> None:
        if self.atlas is None or not name:
            return
        atlas = self._scored(self.atlas)
        score = name if name in atlas.scores else self._default_score(atlas)
        self.view.choose(score, name)
        formula = atlas.formulas.get(score, "")
        self.sort_box.setToolTip(wording.tooltip(formula))
        why = atlas.undefined.get(score, "")
        self.why_undefined.setText(f"{score} is not defined here: {why}" if why else "")
        self.why_undefined.setVisible(bool(why))
        layers, heads = atlas.thumbnails.shape[:2]
        order = "" if name == LAYER_ORDER else f" · by {name}"
        pixel = "" if atlas.reduction == "exact" else f" · pixels: {atlas.reduction}"
        tested = self.tested if self.repeats.isChecked() else None
        where = "" if tested is None else f" on {tested.count} random tokens twice"
        self.describe(f"{layers} layers × {heads} heads{order} · label: {score}{where} · weights 0 to 1{pixel}")
        self._show_reading()

    def _default_score(self, atlas: HeadAtlas) -> str:
        if self._chosen in atlas.scores:
            return self._chosen
        if self.view.score in atlas.scores and self.view.score not in atlas.undefined:
            return self.view.score
        defined = [name for name in atlas.scores if name not in atlas.undefined]
        return next((name for name in PREFERRED if name in defined), defined[0] if defined else "")

    def _show_reading(self) -> None:
        layer, head = self.view.pointed if self.view.pointed != (-1, -1) else self.view.selected
        self.reading.setText(self.view.description(layer, head))

    def _select(self, layer: int, head: int) -> None:
        self.session.selection.update(layer=layer, head=head)

    def _point(self, layer: int, head: int) -> None:
        self.session.selection.point_at(Hover() if layer < 0 else Hover(layer=layer, head=head))


def _button(text: str, tip: str, name: str, *, toggle: bool = True) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(wording.tooltip(tip))
    button.setAccessibleName(name)
    button.setCheckable(toggle)
    button.setProperty("toggle", "yes")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button
