"""The walk through a block: every matrix held to plain numpy, every step to what the one before has made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import AblateHeads, AblateMlp, NoScale, RopeOff
from ropewalk.model.errors import TraceError
from ropewalk.model.ledger import walk as plans
from ropewalk.model.ledger.ledger import build_ledger
from ropewalk.model.ledger.walk import STEPS, Equation, plan_of
from ropewalk.model.readings import walk as reading
from ropewalk.model.readings.records import WalkReading
from ropewalk.model.readings.walk import read_walk, strongest
from ropewalk.model.runs.trace import append, capture, replay
from tests.model.readings.test_arithmetic import FAMILIES, Twin, build
from tests.model.small_models import BASE, random_ids

Array = NDArray[np.float64]


OTHERS: dict[str, ModelConfig] = {
    "plain": BASE,
    "sink": BASE.changed(sink=True),
    "norm_after_rope": BASE.changed(qk_norm="heads", qk_norm_after_rope=True),
    "norm_over_all": BASE.changed(qk_norm="full", qk_norm_kind="layer", qk_norm_bias=True),
    "no_rope": BASE.changed(position="none", rope=None),
    "shared_norm": BASE.changed(parallel_residual=True, shared_norm=True, residual_scale=0.5),
    "post_norm": BASE.changed(norm_place="post", mlp="plain", activation="gelu"),
    "clamped_mlp": BASE.changed(mlp_limit=0.5, up_offset=1.0),
}


def run(config: ModelConfig, tokens: int = 6) -> tuple[Decoder, Any]:
    """A random model, and a run of some tokens and a decoded one."""
    model = build(config)
    return model, append(model, capture(model, random_ids(tokens)), 7)


def alike(found: Array, expected: Array) -> bool:
    """Equal, as far as sums that the run made in float32 are."""
    return np.allclose(found, expected, rtol=2e-4, atol=2e-5)


def of(walk: WalkReading, key: str) -> Array:
    return walk.matrices[key].values.astype(np.float64)


def activated(config: ModelConfig, *projected: Array) -> Array:
    """What W_down takes, from torch's own activations."""
    act = {"silu": torch.nn.functional.silu, "relu": torch.relu, "gelu": torch.nn.functional.gelu}[config.activation]

    def bent(x: Array) -> Array:
        made: Array = act(torch.from_numpy(x)).numpy()
        return made

    if len(projected) == 1:
        return bent(projected[0])
    gate, up = projected
    if config.mlp_limit is not None:
        gate, up = np.minimum(gate, config.mlp_limit), np.clip(up, -config.mlp_limit, config.mlp_limit)
    return bent(gate) * (up + config.up_offset)


def turned(config: ModelConfig, x: Array, angles: Array) -> Array:
    assert config.rope is not None
    planes, out, factor = angles.shape[1], x.copy(), Decoder(config).segments(0, 0, 1, 1)[0].factor
    i = np.arange(planes)
    first, second = (i, i + planes) if config.rope.pairing == "half" else (2 * i, 2 * i + 1)
    cos, sin = np.cos(angles) * factor, np.sin(angles) * factor
    out[:, first] = x[:, first] * cos - x[:, second] * sin
    out[:, second] = x[:, second] * cos + x[:, first] * sin
    return out


def recomputed(config: ModelConfig, walk: WalkReading, equation: Equation) -> Array:
    """What an equation makes of its operands."""
    first, *others = (of(walk, key) for key in equation.operands)
    if equation.form == "product":
        return first @ others[0] + (others[1] if len(others) > 1 else 0.0)
    if equation.result == "hidden":
        return activated(config, first, *others)
    sign = equation.signs[0]
    if sign == "↻":
        return turned(config, first, others[0])
    if sign == "tanh":
        return others[0] * np.tanh(first / others[0])
    if sign == "if":
        return np.where(others[0] == 1, first, 0.0)
    if equation.signs[-1] == "exp":
        return np.where(of(walk, "seen") == 1, np.exp(first - others[0]), 0.0)
    if "×" in equation.signs and "residual_scale" in equation.operands:
        factor, *written = others
        return first + factor * sum(one for one in written if one.shape == first.shape)
    made = first
    for mark, other in zip(equation.signs, others, strict=False):
        made = {"−": np.subtract, "÷": np.divide, "×": np.multiply, "+": np.add}[mark](made, other)
    return made


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_each_step_is_what_numpy_makes_of_its_operands_and_hands_it_on(family: str) -> None:
    config = (FAMILIES | OTHERS)[family]
    model, trace = run(config)
    layer, head, query = 1, 3, 5
    walk = read_walk(model, trace, layer, head, query)
    made, plan = {"x"}, plan_of(config, layer)
    results = {equation.result for step in plan for equation in step.equations}
    for step in plan:
        for equation in step.equations:
            assert {key for key in equation.operands if key in results} <= made
            if equation.signs == ("→",):
                continue
            found, expected = of(walk, equation.result), recomputed(config, walk, equation)
            assert alike(found, expected), (step.key, np.abs(found - expected).max())
        made |= {equation.result for equation in step.equations}
    after = replay(model, trace, query).points[f"blocks.{layer + 1}.hook_resid_pre"][0, 0].numpy()
    assert alike(of(walk, "after")[query - walk.rows[0]], after)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_walk_is_that_of_a_decoder_in_numpy(family: str) -> None:
    config, layer, head = FAMILIES[family], 1, 2
    model = build(config)
    ids = random_ids(6)[0].tolist()
    trace = append(model, capture(model, ids), 9)
    walk, twin = read_walk(model, trace, layer, head, 4), Twin(model, [*ids, 9])
    point, kv = twin.points[layer], config.kv_head_of(head)
    rows = slice(*walk.rows)
    expected = {
        "x": point["pre"][rows],
        "normed": point["normed"][rows],
        "q": point["q"][head][rows],
        "k": point["k"][kv][rows],
        "v": point["v"][kv][rows],
        "keys": point["rot_k"][kv].T,
        "dots": point["dot"][head][rows],
        "scaled": point["scaled"][head][rows],
        "weights": point["w"][head][rows],
        "lse": point["lse"][head][rows, None],
        "values": point["v"][kv],
        "z": point["z"][head][rows],
        "z_all": point["joined"][rows],
        "after": point["post"][rows],
    }
    for key, values in expected.items():
        assert alike(of(walk, key), values), key
    hidden = walk.matrices["masked"].hidden
    assert hidden is not None
    assert np.array_equal(hidden, np.isneginf(point["score"][head][rows]))
    assert alike(of(walk, "masked")[~hidden], point["score"][head][rows][~hidden])
    weights = twin.w
    assert np.allclose(of(walk, "w_q"), weights[f"blocks.{layer}.attn.query.weight"].T)
    assert np.allclose(of(walk, "w_o"), weights[f"blocks.{layer}.attn.output.weight"].T)


def test_a_head_is_cut_out_of_all_and_put_beside_the_others() -> None:
    model, trace = run(BASE)
    walk, width = read_walk(model, trace, 0, 2, 3), BASE.head_width
    for side, head in (("q", 2), ("k", 1), ("v", 1)):
        part = of(walk, f"{side}_all")[:, head * width : (head + 1) * width]
        assert np.array_equal(part, of(walk, side))
    assert np.array_equal(of(walk, "z_all")[:, 2 * width : 3 * width], of(walk, "z"))


def test_steps_are_rows_of_the_ledger_in_its_order() -> None:
    for config in (FAMILIES | OTHERS).values():
        ledger = [entry.key for entry in build_ledger(config, 1, 1, 6, 0, "float32", "cpu", "fused").entries]
        steps = plan_of(config, 1)
        lit = list(dict.fromkeys(key for step in steps for key in step.rows if key in ledger))
        assert lit == [key for key in ledger if key in lit]
        own = {"embedding", "positions", "cache_k", "cache_v", "shared", "final_norm", "lm_head"}
        assert set(ledger) - set(lit) <= own
        assert [step.key for step in steps] == [key for key in STEPS if key in {step.key for step in steps}] or (
            config.qk_norm_after_rope
        )


def test_of_a_large_layer_the_selected_head_and_query_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    model, trace = run(BASE)
    everything = read_walk(model, trace, 1, 3, 4)
    monkeypatch.setattr(plans, "WHOLE", 1)
    monkeypatch.setattr(reading, "MOST_ROWS", 1)
    walk = read_walk(model, trace, 1, 3, 4)
    assert walk.rows == (4, 5)
    assert "split_q" not in {step.key for step in plan_of(BASE, 1)}
    used = {key for step in plan_of(BASE, 1) for one in step.equations for key in (*one.operands, one.result)}
    assert used == set(walk.matrices)
    for key in used - {"keys", "values"}:
        whole, part = of(everything, key), of(walk, key)
        if walk.matrices[key].axes[0] == "token":
            whole = whole[4:5]
        if key in ("w_q", "w_k", "w_v"):
            first, end = walk.matrices[key].columns
            assert (first, end) == ((24, 32) if key == "w_q" else (8, 16))
            whole = whole[:, first:end]
        assert alike(part, whole), key


def test_a_large_matrix_is_reduced_to_what_is_furthest_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(7, 11, generator=torch.Generator().manual_seed(0))
    assert np.array_equal(strongest(values, 4), values.numpy())
    monkeypatch.setattr(reading, "EXACT", 10)
    found = strongest(values, 4)
    assert found.shape == (4, 4)
    assert np.array_equal(strongest(values.T, 4), found.T)
    for row in range(4):
        for column in range(4):
            block = values.numpy()[2 * row : 2 * row + 2, 3 * column : 3 * column + 3].ravel()
            assert found[row, column] == block[np.argmax(np.abs(block))]


def test_the_walk_is_that_of_the_run_under_interventions() -> None:
    model = build(BASE)
    changes = (NoScale(), RopeOff(), AblateHeads(1, (2,)), AblateMlp(1))
    trace = capture(model, random_ids(5), interventions=changes)
    walk = read_walk(model, trace, 1, 2, 4)
    assert float(of(walk, "factor")[0, 0]) == 1.0
    assert not of(walk, "angles").any()
    assert not of(walk, "z").any()
    assert not of(walk, "mlp").any()
    assert np.allclose(of(walk, "after"), of(walk, "middle"))


def test_what_is_not_there_is_refused() -> None:
    model, trace = run(BASE)
    with pytest.raises(TraceError, match="heads, from 0 to 3"):
        read_walk(model, trace, 0, 4, 0)
    with pytest.raises(TraceError, match="7 rows"):
        read_walk(model, trace, 0, 0, 7)


def test_a_rule_that_looks_at_the_length_turns_prompt_and_decoded_rows_as_the_run_did() -> None:
    config = BASE.changed(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=4))
    model = build(config)
    trace = append(model, append(model, capture(model, random_ids(6)), 3), 4)
    walk = read_walk(model, trace, 1, 0, 7)
    turned_keys = of(walk, "k_turned")
    assert alike(turned_keys, of(walk, "keys").T)
    assert len({tuple(segment.frequencies) for segment in trace[1].spec.segments}) > 1
