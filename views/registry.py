"""PANELS: the one place where a panel is listed. A new panel is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from views.cache import CachePanel
from views.compare import ComparePanel
from views.experiments import ExperimentsPanel
from views.heads import HeadsPanel
from views.ledger import LedgerPanel
from views.lesson import LessonPanel
from views.needs import NeedsPanel
from views.next_token import NextTokenPanel
from views.panel import Panel
from views.rope import RopePanel
from views.routing import RoutingPanel
from views.scores import ScoresPanel
from views.timeline import TimelinePanel
from views.tokens import TokensPanel
from views.why import WhyPanel

Area = Literal["top", "left", "centre", "right", "bottom"]


@dataclass(frozen=True)
class Entry:
    """One panel: its class, where it docks at first, whether a projector shows it, and behind whose tab it stands."""

    kind: type[Panel]
    area: Area
    projected: bool = False
    behind: str = ""

    @property
    def name(self) -> str:
        """The name that keys, snapshots and layouts use."""
        return self.kind.name


PANELS: Final = (
    Entry(TokensPanel, "top", projected=True),
    Entry(LedgerPanel, "left"),
    Entry(HeadsPanel, "centre"),
    Entry(ScoresPanel, "centre", projected=True),
    Entry(RopePanel, "right"),
    Entry(CachePanel, "right"),
    Entry(NextTokenPanel, "right"),
    Entry(WhyPanel, "bottom", projected=True),
    Entry(ExperimentsPanel, "left", behind="ledger"),
    Entry(LessonPanel, "left", behind="ledger"),
    Entry(ComparePanel, "centre", behind="scores"),
    Entry(NeedsPanel, "centre", behind="scores"),
    Entry(RoutingPanel, "centre", behind="scores"),
    Entry(TimelinePanel, "bottom"),
)


def names() -> tuple[str, ...]:
    """Names of all panels, in reading order."""
    return tuple(entry.name for entry in PANELS)
