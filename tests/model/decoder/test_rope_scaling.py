"""A stretched run goes past the model's limit, turned by the rule's own frequencies, and the model is itself again."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.config import ModelConfig, RopeConfig, Scaling
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import (
    SCALINGS,
    Intervention,
    NoScale,
    RopeBase,
    RopeOff,
    RopeScaling,
    check_interventions,
)
from ropewalk.model.decoder.rope import frequencies
from ropewalk.model.decoder.rope_scaling import as_run, factor_for, offers, rule_named, turned_rule, why_not
from ropewalk.model.errors import InterventionError, PositionError
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import append, capture, replay

LIMIT, WIDTH = 16, 8
CONFIG = ModelConfig(
    vocabulary=64,
    width=32,
    layers=3,
    heads=4,
    kv_heads=2,
    head_width=WIDTH,
    mlp_width=48,
    max_position=LIMIT,
    rope=RopeConfig(base=1000.0),
)
IDS = torch.randint(0, 64, (1, 40), generator=torch.Generator().manual_seed(3))


def expected(rule: Scaling, factor: float, length: int) -> torch.Tensor:
    """The frequencies of the plain rule with this scaling, computed from the rule itself."""
    rope = RopeConfig(base=1000.0, scaling=rule, factor=factor, original_max_position=LIMIT)
    return frequencies(rope, WIDTH, length)[0]


@pytest.mark.parametrize("rule", SCALINGS)
def test_a_stretched_run_equals_a_model_made_with_that_rule(rule: Scaling) -> None:
    model = Decoder(CONFIG).eval()
    scaling = RopeScaling(rule, 2.5)
    trace = capture(model, IDS, interventions=[scaling])
    rope = RopeConfig(base=1000.0, scaling=rule, factor=2.5, original_max_position=LIMIT)
    made = Decoder(CONFIG.changed(rope=rope, max_position=40)).eval()
    made.load_state_dict(model.state_dict())
    with torch.no_grad():
        logits = made(IDS)
    assert trace.logits is not None
    assert torch.allclose(trace.logits.tensor[:, 0], logits, atol=1e-5)
    for spec in trace.specs:
        assert [segment.frequencies for segment in spec.segments] == [tuple(expected(rule, 2.5, 40).tolist())]
        assert spec.interventions == (scaling.label,)
    assert np.isfinite(readout.weights(trace[1], 2)).all()


@pytest.mark.parametrize("rule", SCALINGS)
def test_it_decodes_across_the_limit_and_replays(rule: Scaling) -> None:
    model = Decoder(CONFIG).eval()
    trace = capture(model, IDS[:, :14], interventions=[RopeScaling(rule, 2.5), NoScale()])
    for token in IDS[0, 14:20].tolist():
        trace = append(model, trace, token)
    assert trace.length == 20
    whole = capture(model, IDS[:, :20], interventions=[NoScale(), RopeScaling(rule, 2.5)])
    assert trace.logits is not None
    assert whole.logits is not None
    same = torch.allclose(trace.logits.tensor, whole.logits.tensor, atol=1e-4)
    assert same == (rule != "dynamic"), "only a rule that looks at the length may differ when decoded"
    row = trace.logits_of(18)
    assert row is not None
    assert torch.allclose(replay(model, trace, 18).logits, row, atol=1e-5)
    if rule == "dynamic":
        stops = [segment.stop for segment in trace.specs[0].segments]
        assert stops == [16, 17, 18, 19, 20], "each new length past the limit turns by a base of its own"


def test_afterwards_the_limit_is_the_model_s_again() -> None:
    model = Decoder(CONFIG).eval()
    with torch.no_grad():
        before = model(IDS[:, :LIMIT])
        capture(model, IDS, interventions=[RopeScaling("yarn", 2.5)])
        assert torch.equal(model(IDS[:, :LIMIT]), before)
        with pytest.raises(PositionError, match="limit of 16"):
            model(IDS)
        with pytest.raises(PositionError, match="limit of 16"):
            capture(model, IDS, interventions=[RopeScaling("yarn", 2.0)])
        assert torch.equal(model(IDS[:, :LIMIT]), before)


def test_it_composes_with_other_changes_of_rope_in_any_order() -> None:
    changes: tuple[Intervention, ...] = (RopeScaling("linear", 2.0), RopeBase(50.0))
    for order in itertools.permutations(changes):
        rope = turned_rule(CONFIG, CONFIG.rope, order)
        assert rope is not None
        assert (rope.scaling, rope.base, rope.factor) == ("linear", 50.0, 2.0)
    others: tuple[Intervention, ...] = (RopeScaling("yarn", 2.0), RopeOff())
    for order in itertools.permutations(others):
        rope = turned_rule(CONFIG, CONFIG.rope, order)
        assert rope is not None
        assert rope.frequencies == (0.0,) * 4
        assert as_run(CONFIG, order).max_position == 32


def test_layers_with_a_window_keep_their_own_rule() -> None:
    local = RopeConfig(base=100.0)
    config = CONFIG.changed(local_rope=local, window=4, window_layers=(True, False, True))
    model = Decoder(config).eval()
    trace = capture(model, IDS, interventions=[RopeScaling("linear", 2.5)])
    found = [spec.segments[0].frequencies for spec in trace.specs]
    stretched = tuple(expected("linear", 2.5, 40).tolist())
    assert found == [tuple(frequencies(local, WIDTH)[0].tolist()), stretched, found[0]]


def test_a_rule_of_the_checkpoint_s_own_is_replaced_from_the_length_it_began_with() -> None:
    own = RopeConfig(base=1000.0, scaling="llama3", factor=4.0, original_max_position=8)
    config = CONFIG.changed(rope=own, max_position=32)
    rope = as_run(config, [RopeScaling("yarn", 8.0)]).rope
    assert rope is not None
    assert (rope.scaling, rope.factor, rope.original_max_position) == ("yarn", 8.0, 8)
    assert as_run(config, [RopeScaling("yarn", 8.0)]).max_position == 64
    assert as_run(config, [RopeScaling("yarn", 2.0)]).max_position == 32
    assert as_run(config, [NoScale()]) is config


@pytest.mark.parametrize(
    ("tokens", "factor"), [(3, 1.0), (15, 1.0), (16, 1.5), (17, 1.5), (23, 1.5), (24, 2.0), (40, 3.0), (1600, 100.5)]
)
def test_the_factor_is_the_smallest_half_step_that_leaves_room(tokens: int, factor: float) -> None:
    assert factor_for(CONFIG, tokens) == factor
    assert factor == 1.0 or as_run(CONFIG, [RopeScaling("linear", factor)]).max_position > tokens
    assert [(one.rule, one.factor) for one in offers(CONFIG, tokens)] == [(rule, factor) for rule in SCALINGS]


def test_what_cannot_be_stretched_says_why() -> None:
    learned = CONFIG.changed(position="learned", rope=None)
    assert offers(learned, 40) == ()
    assert why_not(learned) == "its positions are learned one by one, so there is no RoPE to stretch"
    assert why_not(CONFIG) == ""
    with pytest.raises(InterventionError, match="positions are learned"):
        check_interventions([RopeScaling("linear", 2.0)], learned)
    given = CONFIG.changed(rope=RopeConfig(frequencies=(1.0, 0.5, 0.25, 0.0)))
    assert [one.rule for one in offers(given, 40)] == ["linear"]
    rope = as_run(given, offers(given, 40)).rope
    assert rope is not None
    assert rope.frequencies == pytest.approx((1 / 3, 0.5 / 3, 0.25 / 3, 0.0))
    with pytest.raises(InterventionError, match="outright"):
        check_interventions([RopeScaling("yarn", 2.0)], given)
    narrow = CONFIG.changed(rope=RopeConfig(width=2))
    assert [one.rule for one in offers(narrow, 40)] == ["linear", "yarn", "llama3"]
    capture(Decoder(narrow).eval(), IDS, interventions=[offers(narrow, 40)[1]])


@pytest.mark.parametrize("factor", [0.0, 0.5, -2.0, math.nan, math.inf])
def test_a_factor_that_shrinks_is_refused(factor: float) -> None:
    with pytest.raises(InterventionError, match="factor of 1 or more"):
        check_interventions([RopeScaling("linear", factor)], CONFIG)


def test_rules_are_named_as_people_name_them() -> None:
    assert [rule_named(name) for name in ("ntk", "NTK", "dynamic", "YaRN", "linear", "llama3")] == [
        "dynamic", "dynamic", "dynamic", "yarn", "linear", "llama3",
    ]  # fmt: skip
    with pytest.raises(InterventionError, match="'alibi'; choose linear, ntk, yarn, llama3"):
        rule_named("alibi")
