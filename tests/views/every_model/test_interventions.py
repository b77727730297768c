"""Interventions on every model: each changes what it says and nothing else.

Numbers are checked against ``tests.views.twin``, numpy over the arrays that the session holds.
"""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt

from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    PermuteTokens,
)
from ropewalk.model.engine.questions import AskLedger
from ropewalk.model.readings.records import Doubles
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.pictures import snapshot
from tests.views.driving import answer, click, front, press, run_of
from tests.views.every_model.models import HEAD, KEY, LAYER, QUERY, Subject, arithmetic_of
from tests.views.shown_numbers import assert_shown
from tests.views.twin import Twin

SCORES = ("no_scale", "factor", "no_mask", "zero", "mean")
ROTATION = ("rope_off", "base", "stretch", "plane", "plane_mean")
HEADS = ("group", "group_mean", "kv", "heads", "heads_mean", "all_heads", "mlp", "mlp_mean")
ORDERS = ("reverse", "shuffle", "swap", "order")


class Trial:
    """The panel of experiments, and what the run was before any."""

    def __init__(self, window: MainWindow) -> None:
        self.window = window
        self.panel: InterventionsPanel = front(window, "experiments")
        self.before, self.config = Twin(window.session), run_of(window).config
        self.group = self.config.heads // self.config.kv_heads

    def toggled(self, name: str) -> tuple[tuple[Intervention, ...], Twin]:
        """Click a button; the proof and every check of the ledger have to hold with the experiment on."""
        window, panel = self.window, self.panel
        click(window, panel.buttons[name])
        active = window.session.interventions.now
        assert [chip.text() for chip in panel.active_chips] == [f"{one.label}  ×" for one in active]
        assert window.session.consistency.check is not None
        assert window.session.consistency.check.holds
        prefill, _ = answer(window, AskLedger(LAYER))
        assert [entry.key for entry in prefill.failed] == []
        twin = Twin(window.session)
        row = window.session.selection.now.query
        assert_shown(panel.effect.text(), "entropy {} nats", twin.entropy(LAYER, HEAD, row))
        return window.session.interventions.now, twin

    def without(self) -> None:
        """Clear all; the scores are those of before."""
        click(self.window, self.panel.clear_button)
        assert self.panel.active_chips == ()
        now = Twin(self.window.session)
        assert np.allclose(now.scores(LAYER, HEAD), self.before.scores(LAYER, HEAD), atol=1e-5)


@pytest.fixture
def trial(window: MainWindow, whole: tuple[MainWindow, Subject]) -> Trial:
    if whole[1].layers is not None:
        pytest.skip("the slow run tries them on all layers")
    return Trial(window)


def vector_of(window: MainWindow, line: str) -> Doubles:
    """The vector of a line of the selected cell's arithmetic."""
    vector = arithmetic_of(window).line(line).vector
    assert vector is not None
    return vector


def test_every_experiment_is_tried(window: MainWindow) -> None:
    assert sorted((*SCORES, *ROTATION, *HEADS, *ORDERS)) == sorted(front(window, "experiments").buttons)


def test_interventions_on_scores(trial: Trial) -> None:
    window, panel, before, toggled, without = trial.window, trial.panel, trial.before, trial.toggled, trial.without
    scale = before.specs[0].scale
    _, twin = toggled("no_scale")
    assert np.allclose(twin.scaled(0, HEAD), before.scaled(0, HEAD) / scale, rtol=1e-4, atol=1e-3)
    assert_shown(panel.effect.text(), "{}", before.entropy(LAYER, HEAD, QUERY))
    click(window, panel.undo_button)
    assert list(window.session.interventions.now) == []
    panel.factor.setValue(3.0)
    _, twin = toggled("factor")
    assert np.allclose(twin.scaled(0, HEAD), 3 * before.scaled(0, HEAD), rtol=1e-4, atol=1e-3)
    without()
    _, twin = toggled("no_mask")
    assert twin.weights(LAYER, HEAD)[3, 5] > 0
    assert window.session.interventions.now == (NoCausalMask(),)
    without()
    toggled("zero")
    assert not np.any(vector_of(window, "softmax.z"))
    without()
    (made,), _ = toggled("mean")
    assert isinstance(made, AblateHeads)
    assert np.allclose(made.means[0], before.z(LAYER, HEAD).mean(0), atol=1e-4)
    assert np.allclose(vector_of(window, "softmax.z"), made.means[0], atol=1e-6)
    without()


def test_interventions_on_the_rotation(trial: Trial) -> None:
    window, panel, before, toggled, without = trial.window, trial.panel, trial.before, trial.toggled, trial.without
    _, twin = toggled("rope_off")
    assert not twin.frequencies(LAYER, QUERY).any()
    panel.base.setValue(500.0)
    _, twin = toggled("base")
    planes = run_of(window).specs[LAYER].rotary_width // 2
    assert np.allclose(twin.frequencies(LAYER, QUERY), 500.0 ** (-np.arange(planes) / planes), rtol=1e-5)
    assert len(window.session.interventions.now) == 1, "a rotation replaces a rotation"
    without()
    panel.scaling.setCurrentText("linear")
    panel.stretch.setValue(2.0)
    _, twin = toggled("stretch")
    assert np.allclose(2 * twin.frequencies(LAYER, QUERY), before.frequencies(LAYER, QUERY), rtol=1e-5)
    without()
    window.session.selection.update(plane=1)
    snapshot.wait_until_drawn(window)
    _, twin = toggled("plane")
    shares = twin.shares(LAYER, HEAD, QUERY, KEY)
    assert shares[1] == 0
    assert shares[0] == pytest.approx(before.shares(LAYER, HEAD, QUERY, KEY)[0], abs=1e-4)
    without()
    (made,), twin = toggled("plane_mean")
    assert isinstance(made, AblatePlane)
    pair = before.features(LAYER)[1]
    assert np.allclose(made.mean, before.q(LAYER, HEAD)[:, pair].mean(0), atol=1e-5)
    share = before.specs[LAYER].scale * float(np.array(made.mean) @ before.k(LAYER, HEAD)[KEY, pair])
    assert twin.shares(LAYER, HEAD, QUERY, KEY)[1] == pytest.approx(share, abs=1e-4)
    without()


def test_interventions_on_heads_and_mlps(trial: Trial) -> None:
    window, panel, before, toggled, without = trial.window, trial.panel, trial.before, trial.toggled, trial.without
    config, group = trial.config, trial.group
    kv = config.kv_head_of(HEAD)
    interventions, _ = toggled("group")
    assert interventions == (AblateHeads(LAYER, tuple(range(kv * group, (kv + 1) * group))),)
    without()
    (made,), _ = toggled("group_mean")
    assert isinstance(made, AblateHeads)
    assert made.heads == tuple(range(kv * group, (kv + 1) * group))
    assert np.allclose(made.means[-1], before.z(LAYER, made.heads[-1]).mean(0), atol=1e-4)
    without()
    if config.kv_heads > 1:
        other = config.kv_heads - 1 if kv == 0 else 0
        panel.kv_head.setValue(other)
        _, twin = toggled("kv")
        assert arithmetic_of(window).kv_head == other
        expected = before.specs[LAYER].scale * before.q(LAYER, HEAD) @ before.k(LAYER, other * group).T
        assert np.allclose(twin.scaled(LAYER, HEAD), expected, atol=1e-3)
        without()
    else:
        assert not panel.buttons["kv"].isEnabled()
    panel.heads.setText(f"0, 2-{config.heads - 1}")
    interventions, _ = toggled("heads")
    assert interventions == (AblateHeads(LAYER, (0, *range(2, config.heads))),)
    without()
    (made,), _ = toggled("heads_mean")
    assert isinstance(made, AblateHeads)
    assert np.allclose(made.means[0], before.z(LAYER, 0).mean(0), atol=1e-4)
    without()
    interventions, _ = toggled("all_heads")
    assert interventions == (AblateHeads(LAYER, tuple(range(config.heads))),)
    assert not np.any(vector_of(window, "output.concat"))
    without()
    interventions, _ = toggled("mlp")
    assert interventions == (AblateMlp(LAYER),)
    assert not np.any(vector_of(window, "mlp.out"))
    assert np.array_equal(vector_of(window, "residual.second"), vector_of(window, "residual.first"))
    without()
    (made,), _ = toggled("mlp_mean")
    assert isinstance(made, AblateMlp)
    assert np.allclose(vector_of(window, "mlp.out"), made.mean, atol=1e-6)
    without()


def test_interventions_go_on_while_decoding(window: MainWindow) -> None:
    panel: InterventionsPanel = front(window, "experiments")
    prefill = run_of(window).prefill
    panel.factor.setValue(0.5)
    for name in ("factor", "zero", "rope_off"):
        click(window, panel.buttons[name])
    press(window, window, Qt.Key.Key_Right, 2)
    assert run_of(window).length == prefill + 2
    assert len(window.session.interventions.now) == 3
    assert window.session.consistency.check is not None
    assert window.session.consistency.check.holds
    assert window.session.consistency.check.rows == prefill + 2
    row = prefill + 1
    window.session.selection.update(layer=LAYER, head=HEAD, query=row, key=prefill)
    snapshot.wait_until_drawn(window)
    assert not np.any(vector_of(window, "softmax.z"))
    for ledger in answer(window, AskLedger(LAYER)):
        assert [entry.key for entry in ledger.failed] == []
        assert all(entry.check.passed for entry in ledger.entries if entry.check is not None)
    decoded = [token.id for token in run_of(window).tokens[prefill:]]
    click(window, panel.undo_button)
    assert len(window.session.interventions.now) == 2
    assert [token.id for token in run_of(window).tokens[prefill:]] == decoded, "an experiment keeps what was decoded"
    assert not np.allclose(Twin(window.session).frequencies(LAYER, row), 0)
    click(window, panel.clear_button)
    assert window.session.consistency.check is not None
    assert window.session.consistency.check.holds


def test_the_prompt_in_another_order(window: MainWindow) -> None:
    panel: InterventionsPanel = front(window, "experiments")
    ids = [token.id for token in run_of(window).tokens]

    def order() -> list[int]:
        return [token.id for token in run_of(window).tokens]

    click(window, panel.buttons["reverse"])
    assert order() == ids[::-1]
    click(window, panel.buttons["shuffle"])
    (made,) = window.session.interventions.now
    assert isinstance(made, PermuteTokens)
    assert order() == [ids[row] for row in made.order]
    window.session.selection.update(query=QUERY, key=KEY)
    click(window, panel.buttons["swap"])
    swapped = [*ids]
    swapped[QUERY], swapped[KEY] = ids[KEY], ids[QUERY]
    assert order() == swapped
    panel.order.setText("2, 0, 1")
    click(window, panel.buttons["order"])
    assert order() == [ids[2], ids[0], ids[1], *ids[3:]]
    click(window, panel.active_chips[0])
    assert order() == ids
