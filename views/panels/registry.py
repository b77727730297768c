"""PANELS: the one place where a panel is listed. A new panel is one file and one line here.

It knows each panel by its name and where its class lies; the class is imported when the panel is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, cast

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.views.panels.panel import Panel

Area = Literal["top", "left", "centre", "right", "bottom"]


@dataclass(frozen=True)
class Entry:
    """One panel.

    Attributes
    ----------
    name, title
        Those of its class: what keys, snapshots and layouts call it, and what a person reads.
    place
        Its class, as ``module.Class`` inside ``ropewalk.views``.
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
        module, _, name = self.place.rpartition(".")
        return cast("type[Panel]", getattr(import_module(f"ropewalk.views.{module}"), name))

    def make(self, session: Session) -> Panel:
        """Make the panel."""
        return self.kind(session)


PANELS: Final = (
    Entry("tokens", "Tokens", "panels.tokens.TokensPanel", "top", projected=True),
    Entry("ledger", "Shape ledger", "panels.ledger.LedgerPanel", "left"),
    Entry("heads", "Heads", "panels.heads.HeadsPanel", "centre"),
    Entry("scores", "Scores", "panels.scores.ScoresPanel", "centre", projected=True),
    Entry("rope", "RoPE", "panels.rope.RopePanel", "right"),
    Entry("cache", "KV cache", "panels.cache.CachePanel", "right"),
    Entry("next_token", "Next token", "panels.next_token.NextTokenPanel", "right"),
    Entry("why", "Why this number", "panels.why.WhyPanel", "bottom", projected=True),
    Entry("experiments", "Experiments", "panels.interventions.InterventionsPanel", "left", behind="ledger"),
    Entry("lesson", "Lesson", "lesson.panel.LessonPanel", "left", behind="ledger"),
    Entry("compare", "Compare", "panels.compare.ComparePanel", "centre", behind="scores"),
    Entry("needs", "Needed heads", "panels.needs.NeedsPanel", "centre", behind="scores"),
    Entry("routing", "Experts", "panels.routing.RoutingPanel", "centre", behind="scores"),
    Entry("timeline", "Timeline", "panels.timeline.TimelinePanel", "bottom"),
)


def names() -> tuple[str, ...]:
    """Names of all panels, in reading order."""
    return tuple(entry.name for entry in PANELS)
