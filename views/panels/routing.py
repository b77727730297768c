"""Where a mixture of experts sent each token: router probabilities, token by expert, the chosen ones outlined.

What was routed is read; nothing is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskRouting, Question
from ropewalk.model.readings.records import Routing, Run, token_strings
from ropewalk.views.panels.panel import Kept, Panel, plain_label
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.map_marks import Marks
from ropewalk.views.plots.maps.turned_map import TurnedMap
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class ExpertMap(TurnedMap):
    """Tokens and experts; a chosen expert is outlined."""

    def __init__(self) -> None:
        self.taken: frozenset[tuple[int, int]] = frozenset()
        """(token, expert) of every choice."""
        super().__init__("router probability, tokens and experts", ("", "E"))

    def make_marks(self) -> Marks:
        """The choices are outlined."""
        return ChoiceMarks(self)

    def show_routing(self, routing: Routing, labels: tuple[str, ...]) -> None:
        """Draw the probabilities [S, E] and the choice [S, k]."""
        self.taken = frozenset((row, int(one)) for row, chosen in enumerate(routing.chosen) for one in chosen)
        self.set_labels(labels)
        numbers = routing.probabilities.astype(np.float32)
        self.show_numbers(numbers, np.ones(numbers.shape, np.bool_))
        self.set_levels(Levels(0.0, 1.0))


class ChoiceMarks(Marks):
    """Outlines of the chosen experts, and of the query's token."""

    def __init__(self, experts: ExpertMap) -> None:
        super().__init__(experts.box, experts.data)
        self._map = experts

    def draw_lines(self, painter: QPainter) -> None:
        """Draw them."""
        look, shown = theme.current(), self._map
        for token, expert in shown.taken:
            cell = shown.cell_of(token, expert)
            ground = self.numbers.colour(*shown.turned(token, expert)) or look.panel
            painter.setPen(QPen(look.ink_on(ground), 1.5))
            painter.drawRect(cell.adjusted(1, 1, -1, -1))
        token, _ = shown.marked
        if token >= 0 and shown.taken:
            painter.setPen(QPen(look.query, 2))
            painter.drawRect(self.line(token, not shown.across))


class RoutingPanel(Panel):
    """Shows the experts of the selected layer."""

    name: ClassVar[str] = "routing"
    title: ClassVar[str] = "Experts"
    depends: ClassVar[frozenset[str]] = frozenset({"layer"})
    marks: ClassVar[frozenset[str]] = frozenset({"query"})
    routing = Kept[Routing]()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.map = ExpertMap()
        self.hear(self.map.chosen, lambda token, expert: self.session.selection.update(query=token))
        self.hear(self.map.entered, self._point)
        self.load = plain_label("", "label")
        self.load.setWordWrap(True)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.map, 1)
        layout.addWidget(self.load)

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask where the selected layer sent each token, unless it has one MLP for all, as far as is known."""
        asked = AskRouting(selection.layer)
        return asked if run.config.is_moe(selection.layer) or self.lacks(asked) else None

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the map, or say why there is none."""
        self.routing = reading
        if reading is None:
            self.describe("")
            self.explain(why_dense(run, selection.layer))
            return
        routing: Routing = reading.value
        per_token = routing.chosen.shape[1]
        self.describe(f"layer {routing.layer} · {per_token} of {routing.probabilities.shape[1]} experts a token")
        labels = tuple(map(theme.drawable, token_strings(run.tokens[: run.length])))
        self.map.show_routing(routing, labels)
        self.load.setText(load_text(routing))

    def show_selection(self, selection: Selection) -> None:
        """Outline the query's token."""
        self.map.mark(selection.query, -1)

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.map.theme_changed()

    def _point(self, token: int, expert: int) -> None:
        self.session.selection.point_at(Hover(query=token) if token >= 0 else Hover())


def why_dense(run: Run, layer: int) -> str:
    """Why a layer has no experts."""
    if run.config.moe is None:
        return "This model is dense: every token goes through the same MLP, so nothing is routed."
    routed = [one for one in range(run.config.layers) if run.config.is_moe(one)]
    return f"Layer {layer} has one MLP for every token; layers {routed[0]} to {routed[-1]} have experts."


def load_text(routing: Routing) -> str:
    """Say how many tokens each expert was given."""
    counts = np.bincount(routing.chosen.ravel(), minlength=routing.probabilities.shape[1])
    shown = ", ".join(f"{expert}: {count}" for expert, count in enumerate(counts.tolist()))
    probability = wording.number(float(routing.probabilities.max(1).mean()))
    return f"Tokens by expert: {shown}. Mean largest probability {probability}."
