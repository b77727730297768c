"""The KV cache: what it holds, its bytes at every step, a planner for other lengths, and the consistency checks.

It reads the cache's contents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QStackedWidget, QVBoxLayout, QWidget

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.app.session.step_clock import SLIDES, StepClock
from ropewalk.model.decoder.interventions import NoCausalMask
from ropewalk.model.engine.questions import AskCache, Question
from ropewalk.model.readings.records import CacheReading, Run
from ropewalk.views.panels.cache_costs import CostsView, GrowthView, Planner, costs
from ropewalk.views.panels.consistency import ConsistencyPage
from ropewalk.views.panels.panel import Panel
from ropewalk.views.plots.slabs import Side, SlabsView
from ropewalk.views.style import highlight, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

UNCACHED = (
    "Nothing can be cached: without the causal mask every earlier row changes with each new token, "
    "so every step runs the whole text again."
)


class CachePanel(Panel):
    """Shows what the KV cache holds and what it costs."""

    name: ClassVar[str] = "cache"
    title: ClassVar[str] = "KV cache"
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "key"})

    POSITIONS = 512
    SHARE = 0.55
    """How much of the panel the slabs have at least, of its width or of its height."""
    PAGES = ("contents", "bytes by step", "planner", "proof")

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.slabs = SlabsView()
        self.hear(self.slabs.column_clicked, self._select)
        self.hear(self.slabs.column_pointed, self._point)
        self.costs = CostsView()
        contents = QWidget()
        self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, contents)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(theme.current().grid(3))
        self._layout.addWidget(self.slabs, 1)
        self._layout.addWidget(self.costs)
        self.growth, self.planner, self.check = GrowthView(), Planner(), ConsistencyPage(session)
        self.pages = QStackedWidget()
        for page in (contents, self.growth, self.planner, self.check):
            self.pages.addWidget(page)
        self.page_box = QComboBox()
        self.page_box.setAccessibleName("What the cache panel shows")
        self.page_box.setToolTip("Turn to what the cache holds, how it grows, a plan, or the proof.")
        self.page_box.addItems(list(self.PAGES))
        self.page_box.currentIndexChanged.connect(self.pages.setCurrentIndex)
        self.head_row.addWidget(self.page_box)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)

    def turn_to(self, page: str) -> None:
        """Show one of :data:`PAGES`."""
        self.page_box.setCurrentText(page)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave most of the room to the slabs."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Put the bytes beside the slabs, else under them; where neither leaves room, without their formula, or not."""
        width, height, beside, under = max(self.width(), 1), max(self.height(), 1), 0.0, 0.0
        for brief in (False, True):
            wanted = self.costs.size_for(brief)
            beside, under = 1 - wanted.width() / width, 1 - wanted.height() / height
            self.costs.shorten(brief)
            if max(beside, under) >= self.SHARE:
                break
        self.costs.setVisible(max(beside, under) >= self.SHARE)
        left_to_right = beside >= min(under, self.SHARE)
        directions = QBoxLayout.Direction
        self._layout.setDirection(directions.LeftToRight if left_to_right else directions.TopToBottom)

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Plan for the model of the run at once, and ask for the contents of the cache."""
        self.planner.show_run(run)
        return AskCache(self.POSITIONS)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the slabs and the bytes."""
        cache: CacheReading = reading.value
        config = run.config
        if any(NoCausalMask().label in spec.interventions for spec in run.specs):
            self.describe("")
            self.explain(UNCACHED)
            return
        self.slabs.show_cache(cache, run.tokens)
        self.show_step(self.session.timeline.clock)
        self.costs.show_costs(costs(cache, config.heads, config.kv_heads), byte_lines(run, cache))
        self._make_room()
        self._layout.activate()  # at once, so that nothing moves under the pointer later
        self.growth.show_step(run, cache)
        each = "" if cache.stride == 1 else f" · every {cache.stride}th column"
        steps = "" if run.steps <= 0 else f" = {cache.prefill} prompt + {cache.length - cache.prefill} decoded"
        self.describe(
            f"{wording.counted(cache.length, 'position')}{steps} · {cache.bytes_measured:,} bytes"
            f" · {cache.bytes_per_token:,} a token{each}{evicted_text(cache)}"
        )
        self.slabs.setToolTip("")

    def show_selection(self, selection: Selection) -> None:
        """Mark the selected layer and key."""
        self.slabs.mark(selection.layer, selection.key)

    def show_hover(self, hover: Hover) -> None:
        """Mark the key that is pointed at here or elsewhere, and the slot of a line of arithmetic."""
        self.slabs.point(-1 if hover.key is None else hover.key, self._slot_of(hover))

    def _slot_of(self, hover: Hover) -> tuple[Side, int, int] | None:
        run = self.session.run
        if hover.slot is None or hover.layer is None or hover.head is None or run is None:
            return None
        return hover.slot, hover.layer, run.specs[hover.layer].kv_head_of(hover.head)

    def show_step(self, clock: StepClock) -> None:
        """Let the column of the new token slide into its place."""
        self.slabs.show_step(clock.row, clock.come(SLIDES))

    def show_highlights(self) -> None:
        """Ring the layers that are named."""
        self.slabs.highlight(highlight.numbers(self.highlighted, "layers"))

    def theme_changed(self) -> None:
        """Colour anew."""
        self._layout.setSpacing(theme.current().grid(3))
        self._make_room()
        self.slabs.compose()
        self.check.theme_changed()
        self.growth.theme_changed()
        for picture in (self.costs, self.planner.bars):
            picture.updateGeometry()
            picture.update()

    def _select(self, layer: int, position: int) -> None:
        self.session.selection.update(layer=layer, key=position)

    def _point(self, layer: int, position: int) -> None:
        self.session.selection.point_at(Hover() if layer < 0 else Hover(key=position))


def evicted_text(reading: CacheReading) -> str:
    """Say how many rows the newest query can no longer see, given the windows; empty where it sees all."""
    hidden = [max(reading.length - window, 0) for window in reading.windows if window is not None]
    layers = sum(1 for count in hidden if count)
    return f" · {max(hidden)} rows out of the window in {layers} layers" if layers else ""


def byte_lines(run: Run, reading: CacheReading) -> tuple[str, ...]:
    """Write the formula out with this run's numbers, and compare it with what was measured."""
    config = run.config
    numbers = config.layers * config.kv_heads * config.kv_width
    each = reading.bytes_per_token // max(numbers, 1)
    where = f"{reading.length}·{config.layers}·{config.kv_heads}"
    if each * numbers != reading.bytes_per_token:
        product = "B·S·Σ Hkv·(Dk + Dv)·bytes over the layers, which differ in their heads"
    elif config.width_of_value != config.head_width:
        widths = f"({config.head_width} + {config.width_of_value})"
        product = f"B·S·L·Hkv·(Dk + Dv)·bytes = 1·{where}·{widths}·{each}"
    else:
        product = f"2·B·S·L·Hkv·Dh·bytes = 2·1·{where}·{config.head_width}·{each}"
    same = reading.bytes_measured == reading.bytes_formula
    verdict = "= measured" if same else f"but measured {reading.bytes_measured:,}"
    return (
        product,
        f"= {reading.bytes_formula:,} {verdict}",
        f"{reading.dtype}, {wording.byte_size(reading.bytes_reserved)} reserved",
    )
