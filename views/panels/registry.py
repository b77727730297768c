"""PANELS: the one place where a panel is listed. A new panel is one file and one line here.

It knows each panel by its name and where its class lies; the class is imported when the panel is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.views.panels.panel import Panel


@dataclass(frozen=True)
class Entry:
    """One panel.

    Attributes
    ----------
    name, title
        Those of its class: what keys, snapshots and layouts call it, and what a person reads.
    place
        Its class, as ``module.Class`` inside ``ropewalk.views``.
    """

    name: str
    title: str
    place: str

    @property
    def kind(self) -> type[Panel]:
        """The class of the panel."""
        module, _, name = self.place.rpartition(".")
        return cast("type[Panel]", getattr(import_module(f"ropewalk.views.{module}"), name))

    def make(self, session: Session) -> Panel:
        """Make the panel."""
        return self.kind(session)


PANELS: Final = (
    Entry("tokens", "Tokens", "panels.tokens.TokensPanel"),
    Entry("ledger", "Shape ledger", "panels.ledger.LedgerPanel"),
    Entry("walk", "Walk", "panels.walk.WalkPanel"),
    Entry("heads", "Heads", "panels.heads.HeadsPanel"),
    Entry("scores", "Scores", "panels.scores.ScoresPanel"),
    Entry("rope", "RoPE", "panels.rope.RopePanel"),
    Entry("cache", "KV cache", "panels.cache.CachePanel"),
    Entry("next_token", "Next token", "panels.next_token.NextTokenPanel"),
    Entry("why", "Why this number", "panels.why.WhyPanel"),
    Entry("experiments", "Experiments", "panels.interventions.InterventionsPanel"),
    Entry("lesson", "Lesson", "lesson.panel.LessonPanel"),
    Entry("compare", "Compare", "panels.compare.ComparePanel"),
    Entry("board", "Head board", "panels.board.BoardPanel"),
    Entry("lines", "Lines", "panels.lines.LinesPanel"),
    Entry("needs", "Heads that matter", "panels.needs.NeedsPanel"),
    Entry("routing", "Experts", "panels.routing.RoutingPanel"),
    Entry("training", "Heads being born", "panels.training.TrainingPanel"),
    Entry("lens", "Logit lens", "panels.lens.LensPanel"),
    Entry("timeline", "Timeline", "panels.timeline.TimelinePanel"),
    Entry("survey_heads", "Surveyed heads", "panels.survey_heads.SurveyHeadsPanel"),
    Entry("survey_scatter", "Scatter", "panels.survey_scatter.SurveyScatterPanel"),
    Entry("survey_head", "Distances", "panels.survey_head.SurveyHeadPanel"),
    Entry("survey_table", "Table", "panels.survey_table.SurveyTablePanel"),
    Entry("survey_examples", "Examples", "panels.survey_examples.SurveyExamplesPanel"),
)


def names() -> tuple[str, ...]:
    """Names of all panels, in reading order."""
    return tuple(entry.name for entry in PANELS)
