"""What a run does not let be done with it is explained where it would be shown, and asked of nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import Position
from ropewalk.model.engine.questions import EVERYTHING, AskArithmetic, AskAttribution, AskNeeds
from ropewalk.model.readings.records import HeadNeeds
from ropewalk.model.trace_files.header import Origin
from ropewalk.views.panels.interventions import ANYWHERE, TIPS, InterventionsPanel
from ropewalk.views.panels.ledger import LedgerPanel
from ropewalk.views.panels.lens import LensPanel
from ropewalk.views.panels.needs import NeedsPanel
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.routing import RoutingPanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.walk import WalkPanel
from ropewalk.views.panels.why import WhyPanel
from tests.views.canned import CannedEngine
from tests.views.driving import settle

Shown = Callable[..., Any]
ADVICE = "transformers runs this model"


@pytest.fixture
def lacking(running: Session, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A run of a model that transformers runs."""
    handle = running.handle
    assert handle is not None
    own = replace(
        handle,
        can=EVERYTHING - {"replay", "unembedding", "rotation"},
        model_handle=replace(handle.model_handle, advice=ADVICE),
    )
    monkeypatch.setattr(running, "_handle", own)
    engine.asked.clear()
    return running


@pytest.mark.parametrize("kind", [LedgerPanel, LensPanel, RopePanel, RoutingPanel, WalkPanel])
def test_a_panel_that_cannot_says_why(kind: type[Panel], lacking: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(kind, lacking)
    assert panel.notice.text().startswith("This run ")
    assert panel.notice.text().endswith(f"so this cannot be answered; {ADVICE}.")
    assert not panel.body.isVisible()
    assert panel.settled
    assert engine.asked == []


@pytest.mark.parametrize("kind", [ScoresPanel, NextTokenPanel, WhyPanel, InterventionsPanel, NeedsPanel])
def test_a_panel_that_can_shows_it(kind: type[Panel], lacking: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(kind, lacking)
    assert not panel.notice.text()
    assert engine.asked


@pytest.mark.parametrize("position", ["unknown", "rotary"])
def test_a_checkpoint_is_offered_where_it_would_bring_what_is_missing(
    lacking: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch, position: Position
) -> None:
    handle = lacking.handle
    assert handle is not None
    card = replace(handle.model_handle.card, config=handle.model_handle.card.config.changed(position=position))
    trace = replace(handle.model_handle, card=card, origin=Origin("tiny"))
    monkeypatch.setattr(lacking, "_handle", replace(handle, model_handle=trace))
    monkeypatch.setattr(lacking.opening, "model_handle", trace)
    panel = shown(LedgerPanel, lacking)
    assert panel.attach_button.isVisible() == (position == "rotary")


def test_only_what_transformers_can_change_is_offered(lacking: Session, shown: Shown) -> None:
    panel = shown(InterventionsPanel, lacking)
    for name, button in panel.buttons.items():
        assert button.isEnabled() == (name in ANYWHERE), name
        why = f"says nothing of its model's rotation and blocks, so this cannot be done; {ADVICE}."
        assert button.toolTip().endswith(TIPS[name] if name in ANYWHERE else why), name


def test_every_step_of_a_cell_is_explained(lacking: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(WhyPanel, lacking)
    panel.fold_levels.click()
    settle(lacking, panel)
    assert "cannot be run again" in panel.subtitle.text()
    assert not panel.tree.isVisible()
    assert not any(isinstance(one, AskArithmetic) for one in engine.asked)


def test_heads_can_be_ablated_where_their_own_share_cannot_be_read(
    lacking: Session, shown: Shown, engine: CannedEngine
) -> None:
    engine.answers[AskNeeds] = lambda run, asked: HeadNeeds(
        asked.query, asked.token, 1.0, np.full((run.config.layers, run.config.heads), 0.5)
    )
    panel = shown(NeedsPanel, lacking)
    assert "cannot be run again" in panel.sentence.text()
    assert not panel.direct.isVisible()
    middle = panel.sentence.geometry().center().y() - panel.body.height() / 2
    assert abs(middle) < panel.sentence.fontMetrics().lineSpacing(), "it stands where the maps would be"
    panel.toggle()
    settle(lacking, panel)
    assert panel.ablated.isVisible()
    assert panel.sentence.text().startswith("Needed most:")
    assert not any(isinstance(one, AskAttribution) for one in engine.asked)


def test_what_a_click_asks_for_is_refused_in_a_sentence(lacking: Session, shown: Shown) -> None:
    panel, said = shown(ScoresPanel, lacking), list[str]()
    lacking.failed.connect(lambda sentence, details: said.append(sentence))
    panel.ask(AskAttribution(3, 1), lambda reading: pytest.fail("nobody can answer"), "part")
    lacking.consistency.check_now("branches")
    settle(lacking)
    assert [one.startswith("This run cannot be run again") for one in said] == [True, True]
    assert not lacking.consistency.checks_itself
