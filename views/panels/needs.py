"""Which heads does this token need: every head ablated in turn, beside what each head says by itself.

The numbers come from the model; nothing is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QHBoxLayout, QPushButton, QWidget

from ropewalk.app.jobs import JobProgress
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskAttribution, AskNeeds, AskNextToken, Question
from ropewalk.model.readings.records import DirectAttribution, HeadNeeds, NextTokenReading, Run
from ropewalk.views.panels.panel import NOTHING_YET, Kept, Mark, Panel, plain_label
from ropewalk.views.plots.maps.signed import HeadMap
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


ABLATING = "Ablating each head in turn"
"""What the long job calls itself."""


class NeedsPanel(Panel):
    """Maps of heads for one next token."""

    name: ClassVar[str] = "needs"
    title: ClassVar[str] = "Heads that matter"
    legend: ClassVar[tuple[Mark, ...]] = (Mark("outline", "accent", "selected head"),)
    depends: ClassVar[frozenset[str]] = frozenset({"query"})
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    offered = Kept[NextTokenReading]()
    needs = Kept[HeadNeeds]()
    attribution = Kept[DirectAttribution]()

    COUNT = 8
    """Candidates to choose from."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._running = False
        self.token = QComboBox()
        self.token.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.token.setAccessibleName("Token whose logit is followed")
        self.token.setToolTip("Token whose logit the heads are measured by.")
        self.token.activated.connect(self._on_token)
        self.run_button = QPushButton("Ablate each head")
        self.run_button.setToolTip(
            "Run the prompt once more for each head, without it: a map of what that does to the logit; takes a while"
        )
        self.run_button.clicked.connect(self.toggle)
        self.head_row.addWidget(self.token)
        self.head_row.addWidget(self.run_button)
        self.with_body = (self.token, self.run_button)
        self.explain(NOTHING_YET)
        self.ablated = HeadMap("change of the logit without the head")
        self.direct = HeadMap("the head's own share")
        self.maps = (self.ablated, self.direct)
        self.sentence = plain_label("", "label")
        self.sentence.setWordWrap(True)
        pair = QHBoxLayout()
        pair.setSpacing(theme.GRID)
        for heatmap, of in ((self.ablated, NeedsPanel.needs), (self.direct, NeedsPanel.attribution)):
            self.hear(heatmap.chosen, self._select, of)
            self.hear(heatmap.entered, self._point, of)
            pair.addWidget(heatmap, 1)
        self._layout = QBoxLayout(QBoxLayout.Direction.TopToBottom, self.body)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(theme.GRID)
        self._layout.addLayout(pair, 3)
        self._layout.addWidget(self.sentence, 0, Qt.AlignmentFlag.AlignTop)
        session.progress_changed.connect(self._on_progress)
        session.settled.connect(self._on_no_answer)

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask which tokens may follow; heads are ablated for them, not for those before."""
        self._stop()
        share = AskAttribution(selection.query, 0)
        if self.lacks(share) and self.lacks(AskNeeds(selection.query, 0)):
            return share  # which is explained
        return AskNextToken(selection.query, self.COUNT, self.session.timeline.sampling)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Offer the tokens, the likeliest first, and ask what each head says of it."""
        self.offered = reading
        after: NextTokenReading = reading.value
        self.token.clear()
        candidates = list(after.candidates)
        follows = after.actual
        if follows is not None and all(c.token.id != follows.token.id for c in candidates):
            candidates.append(follows)
        for candidate in candidates[: self.COUNT + 1]:
            text = f"{theme.drawable(candidate.token.inline)}  {candidate.probability:.3f}"
            self.token.addItem(text, candidate.token.id)
        self._on_token()

    def show_selection(self, selection: Selection) -> None:
        """Mark the selected head."""
        for heatmap in self.maps:
            heatmap.mark(selection.layer, selection.head)

    def show_hover(self, hover: Hover) -> None:
        """Mark the head that is pointed at, here or elsewhere."""
        layer = -1 if hover.layer is None else hover.layer
        head = -1 if hover.head is None else hover.head
        for heatmap in self.maps:
            heatmap.point(layer, head)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the words beside the maps where the panel is low, so that the heads can be seen."""
        super().resizeEvent(event)
        self._place_sentence()

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        for heatmap in self.maps:
            heatmap.theme_changed()

    # How it works -------------------------------------------------------------------------------------------------

    @property
    def token_id(self) -> int:
        """The token whose logit is followed."""
        return int(self.token.currentData() or 0)

    def toggle(self) -> None:
        """Begin to ablate, or cancel."""
        if self._running:
            self._stop()
        elif self.offered is not None:
            self._set_running(True)
            self.ask(AskNeeds(self.session.selection.now.query, self.token_id), self._show_needs, "needs")

    def _on_token(self) -> None:
        if self.offered is None:
            return
        self.needs = None
        self._stop()
        self.ablated.setVisible(False)
        asked = AskAttribution(self.session.selection.now.query, self.token_id)
        lacking = self.lacks(asked)
        self.direct.setVisible(not lacking)
        self._place_sentence()
        if lacking:
            self.describe(f"after row {asked.query}")
            self.sentence.setText(f"{lacking} Each head can be ablated, which shows what it is needed for.")
        else:
            self.ask(asked, self._show_attribution, "attribution")

    def _place_sentence(self) -> None:
        """Under the maps, or beside them in a low panel; in their place where there is none."""
        low = self.height() < 20 * theme.current().size("label") and self.width() > 2 * self.height()
        alone = self.direct.isHidden() and self.ablated.isHidden()
        self._layout.setDirection(QBoxLayout.Direction.LeftToRight if low else QBoxLayout.Direction.TopToBottom)
        self._layout.setStretch(0, 0 if alone else 3)
        self._layout.setStretch(1, 1 if alone else 2 if low else 0)
        self._layout.setAlignment(self.sentence, Qt.AlignmentFlag(0) if alone else Qt.AlignmentFlag.AlignTop)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter if alone else Qt.AlignmentFlag.AlignLeft)

    def _stop(self) -> None:
        """Stop ablating."""
        if self._running:
            self._set_running(False)
            self.forget("needs")

    def _show_attribution(self, reading: Reading[DirectAttribution]) -> None:
        self.attribution, read = reading, reading.value
        self.direct.show_heads(read.heads)
        self.describe(f"after row {read.row} · logit {wording.number(read.logit)}")
        self._say()

    def _show_needs(self, reading: Reading[HeadNeeds]) -> None:
        self._set_running(False)
        self.needs = reading
        self.ablated.setVisible(True)
        self._place_sentence()
        self.ablated.show_heads(reading.value.change)
        self._say()

    def _say(self) -> None:
        parts = []
        if self.needs is not None:
            layer, head = divmod(int(self.needs.change.argmin()), self.needs.change.shape[1])
            change = wording.number(float(self.needs.change.min()))
            parts.append(f"Needed most: {wording.head_name(layer, head)}; without it the logit changes by {change}.")
        if self.attribution is not None:
            a = self.attribution
            heads, mlps = wording.number(float(a.heads.sum())), wording.number(float(a.mlps.sum()))
            parts.append(
                f"Directly: heads {heads} + MLPs {mlps} + embedding {wording.number(a.embedding)} "
                f"+ biases and rounding {wording.number(a.rest)} = {wording.number(a.logit)}."
            )
        self.sentence.setText(" ".join(parts))

    def _set_running(self, running: bool) -> None:
        self._running = running
        self.run_button.setText("Cancel" if running else "Ablate each head")

    def _on_progress(self, progress: JobProgress | None) -> None:
        """Show how far it is on the button."""
        if self._running and progress is not None and progress.what == ABLATING:
            self.run_button.setText(f"Cancel ({progress.done} of {progress.total})")

    def _on_no_answer(self) -> None:
        """Give the button back after what failed, or was cancelled elsewhere."""
        if self._running and not self.session.busy:
            self._set_running(False)

    def _select(self, layer: int, head: int) -> None:
        self.session.selection.update(layer=layer, head=head)

    def _point(self, layer: int, head: int) -> None:
        self.session.selection.point_at(Hover(layer=layer, head=head) if layer >= 0 else Hover())
