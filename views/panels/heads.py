"""Every head at a glance: the panel of the atlas, grouped by kv head, or sorted by a score or by how that has changed.

Where a thumbnail lies and how it is painted are the atlas's.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QMenu, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.session.interventions import silent_heads
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskAtlas, AskRepeats, AskScoreChanges, Question
from ropewalk.model.readings.records import AtlasPart, HeadAtlas, RepeatScores, Run, ScoreChanges
from ropewalk.views import keys
from ropewalk.views.panels.panel import CHANGES, ElidedLabel, Kept, Mark, Panel, SparedLabel, offer, plain_label
from ropewalk.views.plots.atlas import LAYER_ORDER, AtlasScroll, AtlasView, Order
from ropewalk.views.style import theme, wording
from ropewalk.views.style.flow import flowing

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

PREFERRED = ("induction", "previous")
"""Which score is written under the heads before anybody chose one."""


def _least() -> QDoubleSpinBox:
    """Says how far a head has to reach."""
    box = QDoubleSpinBox()
    box.setRange(0.0, 99.0)
    box.setSingleStep(0.05)
    box.setSpecialValueText("all heads")
    box.setAccessibleName("Leave out heads that do not reach this")
    box.setToolTip("Leave out the heads that do not reach this; 0 shows all of them")
    box.setFocusPolicy(Qt.FocusPolicy(Qt.FocusPolicy.ClickFocus.value | Qt.FocusPolicy.TabFocus.value))
    return box


class HeadsPanel(Panel):
    """Thumbnails of every head: click or arrows select one."""

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Heads"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "accent", "selected head"),
        Mark("line", "key", "heads that read one kv head"),
        Mark("fill", "accent", "pinned"),
        Mark("fill", "text", "with a note"),
        Mark("line", "bad", "silenced heads"),
    )
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    streams: ClassVar[bool] = True
    panel_requested = Signal(str)
    """A panel that shows what a click does is to be in sight."""
    atlas = Kept[HeadAtlas]()
    tested = Kept[RepeatScores]()
    changes = Kept[ScoreChanges | None]()
    note_wanted = Signal(int, int)
    """A person wants to write a note to a head."""

    ROOMY = 56
    """Grid units of width from which on there is a button to silence heads."""
    MORE = 12
    """How many more it takes for the one that brings them back."""
    PIXELS = 64
    PATIENCE = 0.1
    """Seconds after which layers are shown one by one; answers that come sooner are drawn as a whole."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.view = AtlasView()
        self.hear(self.view.head_clicked, self._select)
        self.hear(self.view.head_pointed, self._point)
        self.hear(self.view.menu_wanted, self._open_menu)
        self.scroller = AtlasScroll(self.view)
        self.reading = SparedLabel("label")
        self.reading.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.sort_box = QComboBox()
        self.sort_box.setAccessibleName("Sort heads by")
        self.sort_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        # the least width that Qt remembers of a box is that of before its items, so this one takes all that it wants
        self.sort_box.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.sort_box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.sort_box.activated.connect(self._choose)
        self.sort_box.currentIndexChanged.connect(self._sort)
        tip = "Look at every cell of every head; in a long run that takes a while"
        self.exact = _button("exact", tip, "exact thumbnails")
        self.exact.toggled.connect(self.refresh)
        self.exact.hide()
        tip = "Test every head on random tokens twice: what is written under the heads is then what they do there"
        self.repeats = _button("random repeats", tip, "test every head on random repeats")
        self.hear(self.repeats.toggled, self._test)
        tip = "Sort by how far this statistic moved from the pinned run A, and write that under the heads"
        self.changed = _button("change from A", tip, "sort by the change from the pinned run")
        self.hear(self.changed.toggled, self._compare)
        self.least = _least()
        self.least.valueChanged.connect(self._sort)
        self._make_silencing()
        self._chosen = ""
        """The score that somebody chose last: its label stays."""
        self._prompt = ""
        """The text whose heads are labelled; those of another one may have other habits."""
        self._asked_at = 0.0
        self._begun = False
        self.view.painted.connect(self.drawn)
        self.why_undefined, self.note = plain_label("", "label"), ElidedLabel()
        self.why_undefined.hide()
        self._lay_out()
        self._tips = {one: one.toolTip() for one in (self.silence, self.back_button, self.repeats)}
        self._show_silent()  # not earlier: a button without a parent would be a window, which takes the keys away
        session.board.changed.connect(self._show_kept)
        session.baseline.changed.connect(self._on_baseline)
        self._show_kept()
        self._show_sorting()

    def _lay_out(self) -> None:
        self.head_row.addWidget(self.reading)
        self.head_row.addWidget(self.back_button)
        self.head_row.addWidget(self.silence)
        self.head_row.addWidget(self.exact)
        self.head_row.addWidget(self.repeats)
        self.head_row.addWidget(self.sort_box)
        self.sorting = flowing(self.least, self.changed)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.sorting)
        layout.addWidget(self.scroller, 1)
        layout.addWidget(self.why_undefined)
        layout.addWidget(self.note)

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

    def _offer_changes(self) -> None:
        """Let what runs the model again be pressed where it can be."""
        offer(self.silence, self.session, self._tips[self.silence], *CHANGES)
        offer(self.back_button, self.session, self._tips[self.back_button], *CHANGES)
        offer(self.repeats, self.session, self._tips[self.repeats], "run")
        if not self.silence.isEnabled():
            self.silence.setChecked(False)

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
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave buttons out that would make the panel wider."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Offer to silence heads where there is room for it; its key, and the chips, are there anywhere."""
        wide = self.width() / theme.current().grid(1)
        self.silence.setVisible(wide >= self.ROOMY)
        self.back_button.setVisible(wide >= self.ROOMY + self.MORE and bool(self.view.silent))

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
            self.describe(f"{c.layers} × {c.heads} heads · drawing · pixels: {part.value.reduction}")
        self.view.show_part(part.value)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Paint the thumbnails; the score chosen before stays chosen."""
        self.atlas = reading
        atlas: HeadAtlas = reading.value
        self.exact.setVisible(atlas.reduction == "sampled" or self.exact.isChecked())
        if run.prompt != self._prompt:
            self._prompt, self.view.score = run.prompt, ""
        self._offer(atlas)
        self._offer_changes()
        self.view.show_atlas(self._scored(atlas), run.config.group)
        self._show_kept()
        self._sort()
        if self.repeats.isChecked() and self.tested is None:
            self._test(True)
        if self.changed.isChecked() and self.changes is None:
            self._compare(True)

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
        self._show_note()

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
        self._make_room()
        self.view.lay_out()

    def _offer(self, atlas: HeadAtlas) -> None:
        names = [LAYER_ORDER, *atlas.scores]
        if [self.sort_box.itemData(i) for i in range(self.sort_box.count())] != names:
            chosen = self.sort_box.currentData()
            self.sort_box.blockSignals(True)
            self.sort_box.clear()
            for name in names:
                self.sort_box.addItem(atlas.titles.get(name, name), name)
            self.sort_box.setCurrentIndex(names.index(chosen) if chosen in names else 0)
            self.sort_box.blockSignals(False)
            if (layout := self.layout()) is not None:
                layout.activate()  # Qt does it later, and until then its words would be cut
        for i, name in enumerate(names):
            formula = atlas.formulas.get(name, "By layer and head, grouped by kv head")
            why = f"\nNot defined here: {atlas.undefined[name]}" if name in atlas.undefined else ""
            self.sort_box.setItemData(i, wording.tooltip(formula + why), Qt.ItemDataRole.ToolTipRole)

    @property
    def _sorted_by(self) -> str:
        """The name of what the heads are sorted by."""
        return str(self.sort_box.currentData() or LAYER_ORDER)

    def _choose(self) -> None:
        if self._sorted_by != LAYER_ORDER:
            self._chosen = self._sorted_by

    def order_by_layer(self) -> None:
        """Put the heads back into the order of layers, under the label that was first."""
        self._chosen = ""
        self.repeats.setChecked(False)
        self.sort_box.setCurrentText(LAYER_ORDER)
        self._sort()

    def _compare(self, wanted: bool) -> None:
        """Score the heads by how far they moved from the pinned run, or as they are again."""
        if wanted:
            self.repeats.setChecked(False)
            if self.changes is None:
                self.ask(AskScoreChanges(), self._show_changes, "changes")
                return
        else:
            self.forget("changes")
        self._show_scores()

    def _show_changes(self, reading: Reading[ScoreChanges | None]) -> None:
        self.changes = reading
        if reading.value is None:
            self.changed.setChecked(False)
        self._show_scores()

    def _on_baseline(self, baseline: Run | None) -> None:
        """Compare with another run, or with none."""
        self.changes = None
        self.forget("changes")
        self._show_sorting()
        if self.changed.isChecked() and self.is_current and self.on_screen:
            self._compare(True)

    def _show_sorting(self) -> None:
        """Offer what can be done with sorted heads."""
        run, baseline = self.session.run, self.session.baseline
        shapes = {(one.config.layers, one.config.heads) for one in (run, baseline.run) if one is not None}
        comparable = baseline.shares_engine and len(shapes) == 1
        if not comparable:
            self.changed.setChecked(False)
        self.changed.setVisible(comparable)
        self.sorting.setVisible(self._sorted_by != LAYER_ORDER)

    def _test(self, wanted: bool) -> None:
        """Score the heads on random repeats, or on the prompt again."""
        if wanted:
            self.changed.setChecked(False)
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
        if self.is_current and self.changes is None and not self.awaits("changes"):
            self.changed.setChecked(False)

    def _show_tested(self, reading: Reading[RepeatScores]) -> None:
        self.tested = reading
        self._show_scores()

    def _show_scores(self) -> None:
        if self.atlas is not None:
            self.view.take_scores(self._scored(self.atlas))
            self._sort()

    @property
    def _moved(self) -> ScoreChanges | None:
        """How far the scores moved, where that is what is wanted."""
        return self.changes if self.changed.isChecked() and self._sorted_by != LAYER_ORDER else None

    def _scored(self, atlas: HeadAtlas) -> HeadAtlas:
        """The atlas with the scores that are wanted: those of the prompt, of random repeats, or how far they moved."""
        if self._moved is not None:
            return replace(atlas, scores=self._moved.scores, undefined=self._moved.undefined)
        if self.tested is None or not self.repeats.isChecked():
            return atlas
        return replace(atlas, scores=self.tested.scores, undefined={})

    def _sort(self, *_: object) -> None:
        self._show_sorting()
        name = self._sorted_by
        if self.atlas is None:
            return
        atlas = self._scored(self.atlas)
        self.view.take_scores(atlas)
        score = name if name in atlas.scores else self._default_score(atlas)
        moved = self._moved is not None
        order: Order = "farthest" if moved else "smallest" if score in atlas.smallest_first else "largest"
        self.least.setPrefix("|Δ| ≥ " if moved else "≤ " if order == "smallest" else "≥ ")
        least = self.least.value() if name in atlas.scores else 0.0
        self.view.choose(score, name, order, least)
        formula = atlas.formulas.get(score, "")
        self.sort_box.setToolTip(wording.tooltip(formula))
        why = atlas.undefined.get(score, "")
        title = atlas.titles.get(score, score)
        none = "" if self.view.plan.places else "No head reaches that; go lower to see some."
        self.why_undefined.setText(f"{title} is not defined here: {why}" if why else none)
        self.why_undefined.setVisible(bool(why or none))
        layers, heads = atlas.thumbnails.shape[:2]
        by = "" if name == LAYER_ORDER else f" · by {'change of ' if moved else ''}{title}"
        left = len(self.view.plan.places)
        shown = "" if left in (0, layers * heads) else f" · {left} of them"
        pixel = "" if atlas.reduction == "exact" else f" · pixels: {atlas.reduction}"
        tested = self.tested if self.repeats.isChecked() else None
        where = "" if tested is None else f" on {tested.count} random tokens twice"
        label = f"label: {title}{', B − A' if moved else where}"
        self.describe(f"{layers} × {heads} heads{shown}{by} · {label} · weights 0 to 1{pixel}")
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

    def _show_kept(self) -> None:
        """Mark what is pinned and noted, and say the note of the selected head."""
        board = self.session.board.now
        self.view.mark_kept(frozenset(board.heads), frozenset((one.layer, one.head) for one in board.notes))
        self.note.setVisible(bool(board.notes))
        self._show_note()

    def _show_note(self) -> None:
        at = self.view.selected
        text = self.session.board.note_of(*at)
        self.note.setText(f"{wording.head_name(*at)}: {' '.join(text.split())}" if text else "")

    def _open_menu(self, layer: int, head: int, at: QPoint) -> None:
        """Offer what can be done with a head."""
        board, name = self.session.board, wording.head_name(layer, head)
        pinned, noted = (layer, head) in board.now.heads, bool(board.note_of(layer, head))
        menu = QMenu(self)
        menu.setObjectName("head")
        menu.aboutToHide.connect(menu.deleteLater)
        pin = menu.addAction(f"Take {name} off the board" if pinned else f"Pin {name} to the board")
        pin.triggered.connect(lambda: board.toggle(layer, head))
        note = menu.addAction(f"Change the note to {name}…" if noted else f"Write a note to {name}…")
        note.triggered.connect(lambda: self.note_wanted.emit(layer, head))
        menu.popup(at)

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
