"""The two consistency checks: they hold on every way of scoring, and a fault is found in the layer where it was put."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder import attention
from ropewalk.model.decoder.attention import Attended
from ropewalk.model.decoder.config import RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import AblateHeads, Intervention, NoCausalMask, NoScale, ReadKvHead
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import finished
from ropewalk.model.readings.consistency import branch_check_steps, cached_check_steps
from ropewalk.model.readings.records import ConsistencyCheck
from ropewalk.model.runs.trace import Trace, append, capture
from tests.model.small_models import BASE, CONFIGS, make, random_ids

TOKENS, STEPS = 14, 4


def run(model: Decoder, interventions: tuple[Intervention, ...] = ()) -> Trace:
    """A prompt and some decoded tokens."""
    trace = capture(model, random_ids(TOKENS), interventions=interventions)
    for token in range(STEPS):
        trace = append(model, trace, token)
    return trace


def checked(model: Decoder, trace: Trace, *, by_layer: bool = True) -> ConsistencyCheck:
    return finished(cached_check_steps(model, trace, "float32", by_layer=by_layer))


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_both_checks_hold_for_every_way_of_scoring(name: str) -> None:
    model = make(name)
    trace = run(model)
    cached, branches = checked(model, trace), finished(branch_check_steps(model, trace, "float32"))
    assert branches.holds
    assert branches.begins is None
    assert (branches.rows, branches.past, branches.padded) == (18, 9, 4)
    if not cached.explained:
        assert cached.holds
        assert cached.begins is None
    assert len(cached.layers) == len(branches.layers) == model.config.layers
    assert all(int(gap.where.split()[-1]) < trace.length for gap in (*cached.layers, *branches.layers))
    assert all(int(gap.where.split()[-1]) >= branches.past for gap in branches.layers)


@pytest.mark.parametrize(
    "interventions",
    [(NoScale(),), (AblateHeads(1, (0, 3)),), (ReadKvHead(2, 0, 1),), (NoCausalMask(),), (NoScale(), NoCausalMask())],
    ids=str,
)
def test_they_hold_under_interventions(interventions: tuple[Intervention, ...]) -> None:
    model = make("qk_norm")
    trace = run(model, interventions)
    assert checked(model, trace).begins is None
    assert finished(branch_check_steps(model, trace, "float32")).begins is None


def test_layers_are_compared_only_when_asked_for_or_when_it_breaks() -> None:
    model = make("plain")
    assert checked(model, run(model), by_layer=False).layers == ()


@pytest.mark.parametrize("part", ["keys", "values"])
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("decoded", [True, False])
def test_a_corrupted_row_is_found_in_its_layer(layer: int, part: str, decoded: bool) -> None:
    model = make("plain")
    trace = run(model) if decoded else capture(model, random_ids(TOKENS))
    getattr(trace[layer], part).tensor[:, :, 5] += 1.0
    if decoded:
        trace = append(model, trace, 7)
    check = checked(model, trace, by_layer=False)
    assert check.alarms
    assert check.begins is not None
    assert check.begins.layer == layer
    assert check.begins.where == f"the cached {'K' if part == 'keys' else 'V'} of row 5"
    assert all(gap.difference <= check.layer_tolerance for gap in check.layers[:layer])


def test_a_branch_that_is_wrong_in_one_layer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("window")
    trace = run(model)
    whole: Callable[..., Attended] = attention.BRANCHES["explicit"]

    def wrong(q: Tensor, k: Tensor, v: Tensor, rule: AttentionSpec, **more: object) -> Attended:
        result = whole(q, k, v, rule, **more)
        return Attended(result.out * 1.01, result.lse) if rule.layer == 1 else result

    monkeypatch.setitem(attention.BRANCHES, "explicit", wrong)
    check = finished(branch_check_steps(model, trace, "float32"))
    assert check.alarms
    assert check.begins is not None
    assert check.begins.layer == 1


def test_a_rule_that_outgrew_its_length_is_explained() -> None:
    model = Decoder(BASE.changed(rope=RopeConfig(scaling="dynamic", factor=4.0, original_max_position=16)), seed=0)
    before, after = capture(model, random_ids(12)), capture(model, random_ids(14))
    for token in range(4):
        after = append(model, after, token)
    assert checked(model, before).explained == ""
    check = checked(model, after)
    assert not check.holds
    assert not check.alarms
    assert "past 16 positions" in check.explained


def test_infinite_and_missing_numbers() -> None:
    model = make("plain")
    trace = run(model)
    trace[1].keys.tensor[0, 0, 3, 0] = torch.nan
    check = checked(model, append(model, trace, 1))
    assert check.alarms
    assert check.begins is not None
    assert (check.begins.layer, check.begins.where) == (1, "the cached K of row 3")
    with pytest.raises(TraceError, match="two tokens"):
        finished(branch_check_steps(model, capture(model, random_ids(1)), "float32"))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_holds(kind: torch.dtype) -> None:
    model = make("qk_norm").to(kind)
    trace = run(model)
    dtype = str(kind).removeprefix("torch.")
    for check in (
        finished(cached_check_steps(model, trace, dtype, by_layer=True)),
        finished(branch_check_steps(model, trace, dtype)),
    ):
        assert check.holds
        assert check.begins is None
