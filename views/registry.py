"""PANELS: the one place where a panel is listed. A new panel is one file and one line here.

It knows each panel by its name and where its class lies; the class is imported when the panel is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, cast

if TYPE_CHECKING:
    from app.session import Session
    from views.panel import Panel

Area = Literal["top", "left", "centre", "right", "bottom"]


@dataclass(frozen=True)
class Entry:
    """One panel.

    Attributes
    ----------
    name, title
        Those of its class: what keys, snapshots and layouts call it, and what a person reads.
    place
        Its class, as ``module.Class`` in this package.
    area
        Where it docks at first.
    projected
        Whether a projector shows it.
    behind
        The panel behind whose tab it stands at first.
    """

    name: str
    title: str
    place: str
    area: Area
    projected: bool = False
    behind: str = ""

    @property
    def kind(self) -> type[Panel]:
        """The class of the panel."""
        module, _, name = self.place.partition(".")
        return cast("type[Panel]", getattr(import_module(f"views.{module}"), name))

    def make(self, session: Session) -> Panel:
        """Make the panel."""
        return self.kind(session)


PANELS: Final = (
    Entry("tokens", "Tokens", "tokens.TokensPanel", "top", projected=True),
    Entry("ledger", "Shape ledger", "ledger.LedgerPanel", "left"),
    Entry("heads", "Heads", "heads.HeadsPanel", "centre"),
    Entry("scores", "Scores", "scores.ScoresPanel", "centre", projected=True),
    Entry("rope", "RoPE", "rope.RopePanel", "right"),
    Entry("cache", "KV cache", "cache.CachePanel", "right"),
    Entry("next_token", "Next token", "next_token.NextTokenPanel", "right"),
    Entry("why", "Why this number", "why.WhyPanel", "bottom", projected=True),
    Entry("experiments", "Experiments", "experiments.ExperimentsPanel", "left", behind="ledger"),
    Entry("lesson", "Lesson", "lesson.LessonPanel", "left", behind="ledger"),
    Entry("compare", "Compare", "compare.ComparePanel", "centre", behind="scores"),
    Entry("needs", "Needed heads", "needs.NeedsPanel", "centre", behind="scores"),
    Entry("routing", "Experts", "routing.RoutingPanel", "centre", behind="scores"),
    Entry("timeline", "Timeline", "timeline.TimelinePanel", "bottom"),
)


def names() -> tuple[str, ...]:
    """Names of all panels, in reading order."""
    return tuple(entry.name for entry in PANELS)
