"""The logit lens: what the model would say of every token if it ended after the embedding, or after any block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QVBoxLayout, QWidget

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskLens, Question
from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import LogitLens, Run, token_strings
from ropewalk.views.panels.panel import ElidedLabel, Kept, Mark, Panel
from ropewalk.views.plots.charts.lens_map import QUANTITIES, LensMap
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

KEPT = 2048
"""Positions that are kept at most; farther away they are read anew."""


class LensPanel(Panel):
    """Asks for the positions in sight, and for others as they come in sight."""

    name: ClassVar[str] = "lens"
    title: ClassVar[str] = "Logit lens"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "accent", "selected layer and query"),
        Mark("hatch", "masked", "not read, or nothing follows"),
    )
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "query"})
    streams: ClassVar[bool] = True
    lens = Kept[LogitLens]()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.map = LensMap()
        self.quantity = QComboBox()
        self.quantity.setAccessibleName("What colours the cells")
        self.quantity.setToolTip("What colours the cells; choose it again to spread the colours over all numbers")
        for each in QUANTITIES:
            self.quantity.addItem(each.title)
            self.quantity.setItemData(self.quantity.count() - 1, each.tip, Qt.ItemDataRole.ToolTipRole)
        self.quantity.activated.connect(self._colour)
        self.head_row.addWidget(self.quantity)
        self.said, self.more = ElidedLabel(), ElidedLabel()
        self._names: tuple[str, ...] = ()
        self._at_embedding = False
        """Whether the embedding is selected, which is no layer: the selection has the first one then."""
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID // 2)
        layout.addWidget(self.map, 1)
        layout.addWidget(self.said)
        layout.addWidget(self.more)
        self.hear(self.map.picked, self._pick)
        self.hear(self.map.pointed, self._point)
        self.hear(self.map.viewed, self._look)

    # The panel contract -------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the positions that will be in sight."""
        self.forget("more")
        return AskLens(self.map.sight_of(run.length, selection.query))

    def show_part(self, part: Reading[LogitLens]) -> None:
        """Draw some positions as soon as they are read."""
        self.explain("")
        self._take(part)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw all that was asked for."""
        self._take_and_look(reading)

    def show_selection(self, selection: Selection) -> None:
        """Outline the selected layer and query."""
        self._at_embedding = self._at_embedding and selection.layer == 0
        self.map.mark(0 if self._at_embedding else selection.layer + 1, selection.query)
        self._say()

    def show_hover(self, hover: Hover) -> None:
        """Mark what is pointed at, here or elsewhere, and say what it says."""
        if hover.query is None:
            self.map.point(-1, -1)
        elif hover.layer is not None:
            self.map.point(hover.layer + 1, hover.query)
        elif self.map.hovered != (0, hover.query):  # the embedding, which is no layer, is pointed at here
            self.map.point(self.map.selected[0], hover.query)
        self._say()

    def show_highlights(self) -> None:
        """Ring the cells that are named by layer and position; layer −1 is the embedding."""
        named = self.highlighted.get("predictions", frozenset())
        self.map.ring(frozenset((layer + 1, position) for layer, position in named))

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.map.theme_changed()
        self._share_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the room."""
        super().resizeEvent(event)
        self._share_room()

    # How it works -------------------------------------------------------------------------------------------------

    def _take(self, reading: Reading[LogitLens]) -> None:
        """Draw what was read, beside what is there of the same run."""
        known, new, run = self.lens, reading.value, reading.run
        if known is None:
            self._show_run(run)
        elif known.rows[1] == new.rows[0]:
            new = LogitLens.joined((known, new))
        elif new.rows[1] == known.rows[0]:
            new = LogitLens.joined((new, known))
        elif known.rows[0] <= new.rows[0] and new.rows[1] <= known.rows[1]:
            new = known  # its parts have come before
        self.lens = Reading(run, reading.question, new)
        self.map.show_lens(new, {token.id: theme.drawable(token.text) for token in new.tokens})
        self._say()

    def _show_run(self, run: Run) -> None:
        """Begin with a run, or with another length of it."""
        config, now = run.config, self.session.selection.now
        self.begin(run)
        self._names = tuple(map(theme.drawable, token_strings(run.tokens[: run.length])))
        view = self.map.sight_of(run.length, now.query)  # it may have grown since the question
        self.map.show_run(self._names, config.layers + 1, config.vocabulary, view)
        self.map.mark(0 if self._at_embedding and now.layer == 0 else now.layer + 1, now.query)

    def _look(self) -> None:
        """Ask for what has come in sight and was not read."""
        known, run, (first, last) = self.lens, self.session.run, self.map.sight()
        if known is None or run is None or first >= last or self.name in self._awaited:
            return
        self._describe(run)
        start, stop = known.rows
        if start <= first and last <= stop:
            self.forget("more")
        elif last < start or stop < first or max(stop, last) - min(start, first) > KEPT:
            self.ask(AskLens((first, last)), self._take_and_look, "more", self._take)
        elif first < start:
            self.ask(AskLens((first, start)), self._take_and_look, "more")
        else:
            self.ask(AskLens((stop, last)), self._take_and_look, "more", self._take)

    def _take_and_look(self, reading: Reading[LogitLens]) -> None:
        self._take(reading)
        self._look()

    def _share_room(self) -> None:
        """Leave the words out where there is little room."""
        height, line = self.height(), theme.current().size("label")
        self.said.setVisible(height >= 16 * line)
        self.more.setVisible(height >= 20 * line)

    def _describe(self, run: Run) -> None:
        first, last = self.map.sight()
        part = "" if last - first == run.length else f" · {first} to {last - 1} in sight"
        self.describe(f"{run.config.layers} layers × {wording.counted(run.length, 'token')}{part}")

    def _colour(self, place: int) -> None:
        self.map.colour(QUANTITIES[place])

    def _pick(self, place: int, position: int) -> None:
        self._at_embedding = place == 0
        self.session.selection.update(layer=max(place - 1, 0), query=position)
        self.show_selection(self.session.selection.now)  # the embedding and the first layer are one to the selection

    def _point(self, place: int, position: int) -> None:
        self.map.point(place, position)
        layer = place - 1 if place > 0 else None
        self.session.selection.point_at(Hover(query=position, layer=layer) if place >= 0 else Hover())
        self._say()

    def _say(self) -> None:
        """Say what is pointed at, or what is selected, in words."""
        at = self.map.selected if min(self.map.hovered) < 0 else self.map.hovered
        words = self.words(*at)
        self.said.setText(words[0])
        self.more.setText(words[1])

    def words(self, place: int, position: int) -> tuple[str, str]:
        """What a cell says: the most probable tokens, and what there is to know of the one that really follows."""
        lens, run = self.lens, self.session.run
        if lens is None or run is None or not 0 <= position < run.length or not 0 <= place < len(lens.top):
            return "", ""
        after = "the embedding" if place == 0 else f"L{place - 1}"
        where = f"after {after} at {position} {_quoted(self._names[position])}"
        if not lens.rows[0] <= position < lens.rows[1]:
            return f"{where}: not read yet", ""
        at = place, position - lens.rows[0]
        best = zip(lens.top[at].tolist(), lens.probabilities[at].tolist(), strict=True)
        said = ", ".join(f"{_quoted(self.map.texts[token])} {wording.number(chance)}" for token, chance in best)
        entropy = f"entropy {wording.number(float(lens.entropy[at]), 2)} nats"
        of = " · ".join(
            (wording.counted(run.length, "token"), *(f"with {one.label}" for one in self.session.interventions.now))
        )
        if not lens.rank[at]:
            return f"{where}: {said}", f"nothing follows yet · {entropy} · run of {of}"
        token, chance = _quoted(self._names[position + 1]), wording.number(float(lens.actual[at]))
        rank = f"rank {int(lens.rank[at]):,} of {run.config.vocabulary:,}"
        return f"{where}: {said}", f"really follows {token}: {chance}, {rank} · {entropy} · run of {of}"


def _quoted(token: str) -> str:
    """A token in a line of others: it may be a comma, or a space."""
    return f"“{isolated(token)}”"
