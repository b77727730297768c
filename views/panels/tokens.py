"""The tokens of the run, every one as itself, tinted by the selected row's weights.

The strip owns where tokens stand and how they look; the panel asks for the weights. Neither knows how text became
tokens.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.app.session.step_clock import ARRIVES, FANS_OUT, StepClock
from ropewalk.model.engine.questions import AskRow, Question
from ropewalk.model.readings.records import RowReading, Run
from ropewalk.views.panels.panel import Mark, Panel, plain_label
from ropewalk.views.plots.token_strip import LEAST_ARC, StripArea, TokenStrip
from ropewalk.views.style import highlight, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class TokensPanel(Panel):
    """The tokens of the run."""

    name: ClassVar[str] = "tokens"
    title: ClassVar[str] = "Tokens"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "query", "selected query"),
        Mark("outline", "key", "selected key"),
    )
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query"})
    marks: ClassVar[frozenset[str]] = frozenset({"key"})

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._said = ""
        self.strip = TokenStrip()
        self.area = StripArea(self.strip)
        self.area.verticalScrollBar().rangeChanged.connect(self._on_range)
        self.area.verticalScrollBar().valueChanged.connect(self._count_hidden)
        self.area.horizontalScrollBar().rangeChanged.connect(self._see_query)
        self.more = plain_label("", "subtitle")
        self.cell = plain_label("", "subtitle")
        self.arcs = QToolButton()
        self.arcs.setText("arcs")
        tip = (
            f"Draw an arc from the query to every key with at least {LEAST_ARC:g} of its weight: the thicker, the more"
        )
        self.arcs.setToolTip(wording.tooltip(tip))
        self.arcs.setAccessibleName("Arcs from the query to its keys")
        self.arcs.setCheckable(True)
        self.arcs.setChecked(True)
        self.arcs.setProperty("toggle", "yes")
        self.arcs.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.arcs.toggled.connect(self._arch)
        self.arcs.hide()
        self.head_row.addWidget(self.more)
        self.head_row.addSpacing(theme.GRID)
        self.head_row.addWidget(self.cell)
        self.head_row.addWidget(self.arcs)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.area)
        self.hear(self.strip.query_picked, lambda position: self.session.selection.update(query=position))
        self.hear(self.strip.key_picked, lambda position: self.session.selection.update(key=position))
        self.hear(self.strip.pointed, self._point)
        self.strip.placed.connect(self._on_placed)
        self.strip.room_changed.connect(self._count_hidden)
        self.theme_changed()

    def question(self, run: Run, selection: Selection) -> Question:
        """Show the text at once, and ask for the weights that tint it."""
        if not self.is_current:
            self.strip.set_weights(np.zeros(0), np.zeros(0, np.bool_))  # those of another run say nothing of these
            self.begin(run)
        self.show_step(self.session.timeline.clock)
        self.strip.set_tokens(run.tokens[: run.length], run.prefill)
        self.strip.set_selection(selection.query, selection.key)  # at once, so that a held arrow key goes on
        self.explain("")
        return AskRow(selection.layer, selection.head, selection.query)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Tint the tokens."""
        row: RowReading = reading.value
        self.strip.set_weights(row.weights, row.visible, row.query)
        head = wording.head_name(row.layer, row.head)
        decoded = f" · {run.steps} decoded" if run.steps else ""
        decoded += " · the text ends here" if run.ends_at(run.length) else ""
        decoded += " · in the chat template" if run.rendered else ""
        self._said = f"{wording.counted(run.length, 'token')}{decoded} · tinted by the weights of {head}"
        self._say()

    def _say(self) -> None:
        self.describe(
            self._said + (f" · arcs: weights of {LEAST_ARC:g} or more" if self._said and self.strip.above else "")
        )

    def offer_arcs(self, offered: bool) -> None:
        """Draw arcs from the query where there is room for them, unless they are switched off."""
        if offered == self.arcs.isHidden():
            self.arcs.setVisible(offered)
            self._arch()

    def _arch(self) -> None:
        self.strip.arch(theme.current().grid(3) if self.arcs.isChecked() and not self.arcs.isHidden() else 0)
        self.area.setMinimumHeight(self.strip.height_of(1))
        self._say()

    def show_step(self, clock: StepClock) -> None:
        """Keep the place of the new token free until it has come there, and let the arcs fan out after that."""
        is_on_its_way = clock.is_running and clock.come(ARRIVES) < 1
        self.strip.show_step(clock.row if is_on_its_way else -1, clock.come(FANS_OUT))

    def show_selection(self, selection: Selection) -> None:
        """Outline query and key, and keep the query in sight."""
        self.strip.set_selection(selection.query, selection.key)
        words = [self.strip.describe(selection.query, "query"), self.strip.describe(selection.key, "key")]
        self.cell.setText(theme.drawable(" → ".join(words), "subtitle"))
        run = self.session.run
        if run is not None and selection.query < min(len(run.tokens), run.length):
            self._bring_into_sight(self.strip.box_of(selection.query))

    @property
    def settled(self) -> bool:
        """Whether everything asked for has been drawn."""
        return super().settled and self.strip.is_placed

    def _on_placed(self) -> None:
        """Bring the query into sight that had no place before."""
        self._see_query()
        self._count_hidden()
        self.drawn.emit()

    def _on_range(self) -> None:
        """Keep whole lines and the query in sight where the size has changed."""
        bar = self.area.verticalScrollBar()
        bar.setValue(self.strip.scroll_for(bar.value()))
        self._see_query()
        self._count_hidden()

    def _count_hidden(self) -> None:
        """Say how much of the run is out of sight."""
        hidden = self.strip.out_of_sight(self.area.verticalScrollBar().value())
        wheres = ("above", "below") if self.strip.is_wrapped else ("before", "after")
        parts = [f"{count:,} {where}" for count, where in zip(hidden, wheres, strict=True) if count]
        self.more.setText(f"more: {', '.join(parts)}" if parts else "")

    def _see_query(self) -> None:
        """Bring the query into sight after anything has moved."""
        run, query = self.session.run, self.session.selection.now.query
        if run is not None and self.strip.is_placed and query < run.length:
            self._bring_into_sight(self.strip.box_of(query))

    def _bring_into_sight(self, box: QRectF) -> None:
        """Scroll by whole lines, so that a line is never cut where one is all there is room for."""
        if box.isEmpty():
            return
        if not self.strip.is_wrapped:
            along, seen, aside = self.area.horizontalScrollBar(), self.area.viewport().width(), self.strip.aside
            if box.left() < along.value() + aside or box.right() > along.value() + seen - aside:
                along.setValue(round(box.center().x() - seen / 2))
            return
        bar = self.area.verticalScrollBar()
        line = box.top() - self.strip.above
        top = math.floor(line) - 1
        if top < bar.value():
            bar.setValue(self.strip.scroll_for(line))
        elif top > bar.value() + self.area.viewport().height() - self.strip.line_height():
            bar.setValue(self.strip.scroll_for(line, at_end=True))

    def show_hover(self, hover: Hover) -> None:
        """Mark what is pointed at anywhere."""
        self.strip.set_hover(
            -1 if hover.query is None else hover.query,
            -1 if hover.key is None else hover.key,
        )

    def show_highlights(self) -> None:
        """Ring the tokens that are named."""
        self.strip.set_highlighted(highlight.numbers(self.highlighted, "tokens"))

    def theme_changed(self) -> None:
        """Take the sizes of the theme in use."""
        self.strip.arrange()
        self._arch()
        self.updateGeometry()
        self.strip.update()

    def sizeHint(self) -> QSize:
        """One line of tokens, or two where the run has them."""
        line = self.strip.line_height() + theme.current().grid(0.75)
        return QSize(800, self.minimumSizeHint().height() + (line if self.strip.minimumHeight() > line else 0))

    def _point(self, position: int) -> None:
        now = self.session.selection.now
        if position < 0:
            self.session.selection.point_at(Hover())
        else:
            self.session.selection.point_at(Hover(query=now.query, key=position, layer=now.layer, head=now.head))
