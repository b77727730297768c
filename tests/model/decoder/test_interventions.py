"""Each intervention does to a run what its name says, by a plain computation beside it, and leaves nothing behind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.hooks import hook_points
from ropewalk.model.decoder.intervention_contexts import mean_heads, mean_mlp
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    PermuteTokens,
    ReadKvHead,
    RopeBase,
    RopeOff,
    RopeScaling,
    ScaleScores,
    ablate_kv_group,
    permuted,
)
from ropewalk.model.errors import InterventionError
from ropewalk.model.progress import finished
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import Trace, append, capture, capture_steps, replay
from tests.model.small_models import BASE, CONFIGS, make, random_ids

IDS = random_ids(9)
ALL: list[Intervention] = [
    NoScale(),
    NoScale(layer=1),
    ScaleScores(3.0),
    RopeOff(),
    RopeBase(500.0),
    RopeScaling("linear", 2.0),
    RopeScaling("yarn", 4.0),
    NoCausalMask(),
    AblateHeads(1, (0, 2)),
    AblatePlane(1, 2, 1),
    AblateMlp(2),
    ReadKvHead(1, 0, 1),
]


def explicit_weights(model: Decoder, trace: Trace, layer: int) -> torch.Tensor:
    """Softmax of the run's own Q' and K' [H, S, S], written out."""
    spec = trace.specs[layer]
    q = trace[layer].queries.tensor[0]
    k = trace[layer].keys.tensor[0][[spec.kv_head_of(head) for head in range(spec.heads)]]
    scores = q @ k.transpose(-1, -2) * spec.scale
    if spec.causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf)
    return scores.softmax(-1)


@pytest.mark.parametrize("intervention", ALL, ids=lambda one: one.label)
def test_the_run_decodes_and_replays_under_its_intervention(intervention: Intervention) -> None:
    model = make("plain")
    trace = capture(model, IDS[:, :7], interventions=[intervention])
    for token in IDS[0, 7:].tolist():
        trace = append(model, trace, token)
    whole = capture(model, IDS, interventions=[intervention])
    assert trace.prefill == 7
    for layer in range(3):
        assert torch.allclose(explicit_weights(model, trace, layer), explicit_weights(model, whole, layer), atol=1e-5)
        found = np.stack([readout.weights(trace[layer], head) for head in range(4)])
        assert found == pytest.approx(explicit_weights(model, trace, layer).numpy(), abs=1e-5)
    assert trace.logits is not None
    assert whole.logits is not None
    assert torch.allclose(trace.logits.tensor, whole.logits.tensor, atol=1e-4)
    for row in (2, 8):
        expected = trace.logits_of(row)
        assert expected is not None
        assert torch.allclose(replay(model, trace, row).logits, expected, atol=1e-5)
    plain = capture(model, IDS).logits
    assert plain is not None
    assert not torch.allclose(whole.logits.tensor, plain.tensor, atol=1e-3), "the experiment changed nothing"


@pytest.mark.parametrize("intervention", ALL, ids=lambda one: one.label)
def test_the_model_is_itself_again_afterwards(intervention: Intervention) -> None:
    model = make("plain")
    with torch.no_grad():
        before = model(IDS)
        capture(model, IDS, interventions=[intervention])
        assert torch.equal(model(IDS), before)
    assert not any(point.is_watched for point in hook_points(model).values())


def test_the_spec_says_what_was_changed() -> None:
    trace = capture(make("plain"), IDS, interventions=[NoScale(), ScaleScores(2.0, layer=1), AblateHeads(2, (3,))])
    assert [spec.scale for spec in trace.specs] == [1.0, 2.0, 1.0]
    assert trace.specs[0].interventions == ("no 1/√Dh",)
    assert trace.specs[1].interventions == ("no 1/√Dh", "scores × 2 in L1")
    assert trace.specs[2].interventions == ("no 1/√Dh", "L2H3 → 0")


def test_without_rope_nothing_turns() -> None:
    model = make("qk_norm")
    trace = capture(model, IDS, interventions=[RopeOff()])
    names = [f"blocks.{layer}.attn.hook_q_normed" for layer in range(3)]
    with torch.no_grad(), recording(model, names) as record:
        model(IDS)
    assert torch.allclose(trace[0].queries.tensor, record[names[0]], atol=1e-6)
    planes = readout.read_planes(trace[0], 1, 8, 2)
    assert planes is not None
    assert not planes.query_frequencies.any()
    assert planes.q_before == pytest.approx(planes.q_after, abs=1e-6)


def test_another_base_is_the_model_with_that_base() -> None:
    assert BASE.rope is not None
    other = Decoder(BASE.changed(rope=type(BASE.rope)(base=500.0)))
    expected = capture(other, IDS).logits
    found = capture(Decoder(BASE), IDS, interventions=[RopeBase(500.0)]).logits
    assert expected is not None
    assert found is not None
    assert torch.allclose(found.tensor, expected.tensor, atol=1e-5)


def test_without_a_causal_mask_an_earlier_step_is_the_run_it_was() -> None:
    model = make("plain")
    first = capture(model, IDS[:, :7], interventions=[NoCausalMask()])
    later = append(model, append(model, first, 3), 4)
    assert later.length == 9
    assert readout.weights(later[0], 0)[0, 8] > 0
    assert later.at(7) is first
    assert later.at(8).length == 8
    assert readout.weights(later.at(8)[2], 1)[0] != pytest.approx(readout.weights(later[2], 1)[0, :8], abs=1e-4)


def test_ablated_heads_add_nothing() -> None:
    model = make("plain")
    trace = capture(model, IDS, interventions=[ablate_kv_group(model.config, 0, 1)])  # heads 2 and 3
    with torch.no_grad():
        by_hand = make("plain")
        by_hand.block(0).attn.output.weight[:, 16:] = 0.0  # W_O's columns of heads 2 and 3, Dh 8
        expected = by_hand(IDS)
    assert trace.logits is not None
    assert torch.allclose(trace.logits.tensor[:, 0], expected, atol=1e-5)


def test_mean_ablation_puts_the_mean_in_place() -> None:
    model = make("plain")
    with torch.no_grad(), recording(model, ["blocks.1.attn.hook_z", "blocks.1.hook_mlp_out"]) as clean:
        model(IDS)
    heads, mlp = mean_heads(model, IDS, 1, [3, 0]), mean_mlp(model, IDS, 1)
    for head, mean in zip((3, 0), heads.means, strict=True):
        assert mean == pytest.approx(clean["blocks.1.attn.hook_z"][0, head].mean(0).tolist(), abs=1e-6)
    assert mlp.mean == pytest.approx(clean["blocks.1.hook_mlp_out"][0].mean(0).tolist(), abs=1e-6)
    trace = capture(model, IDS, interventions=[heads, mlp])
    z = replay(model, trace, 5, ["blocks.1.attn.hook_z"]).points["blocks.1.attn.hook_z"]
    for head, mean in zip((3, 0), heads.means, strict=True):
        assert z[0, head, 0].tolist() == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("name", ["plain", "partial_adjacent"])
def test_a_removed_plane_is_missing_from_the_score(name: str) -> None:
    model = make(name)
    clean = readout.read_planes(capture(model, IDS)[0], 2, 7, 3)
    changed = readout.read_planes(capture(model, IDS, interventions=[AblatePlane(0, 2, 1)])[0], 2, 7, 3)
    assert clean is not None
    assert changed is not None
    assert changed.scaled == pytest.approx(clean.scaled - clean.shares[1], abs=1e-5)


def test_a_query_head_reads_the_kv_head_it_is_told() -> None:
    model = make("plain")
    trace = capture(model, IDS, interventions=[ReadKvHead(0, 0, 1)])
    assert [trace.specs[0].kv_head_of(head) for head in range(4)] == [1, 0, 1, 1]
    cell = readout.read_cell(trace[0], 0, 5, 2)
    assert cell.kv_head == 1
    assert cell.dot == pytest.approx(float(trace[0].queries.tensor[0, 0, 5] @ trace[0].keys.tensor[0, 1, 2]), abs=1e-5)


def test_attention_without_positions_permutes_with_its_input() -> None:
    # Lesson "dog bites man": no positions, no mask, so the last row's logits do not depend on the order before it
    model = Decoder(BASE.changed(position="none"))
    interventions: list[Intervention] = [NoCausalMask(), PermuteTokens((2, 0, 1))]
    ids = [4, 7, 9, 5]
    assert permuted(ids, interventions) == [9, 4, 7, 5]
    plain = capture(model, ids, interventions=interventions[:1])
    other = capture(model, permuted(ids, interventions), interventions=interventions)
    a, b = plain.logits_of(3), other.logits_of(3)
    assert a is not None
    assert b is not None
    assert torch.allclose(a, b, atol=1e-5)
    rotary = capture(make("plain"), ids).logits_of(3)
    turned = capture(make("plain"), permuted(ids, interventions)).logits_of(3)
    assert rotary is not None
    assert turned is not None
    assert not torch.allclose(rotary, turned, atol=1e-3)


@pytest.mark.parametrize(
    ("intervention", "message"),
    [
        (AblateHeads(3, (0,)), "Layer 3 was chosen, but the model has 3"),
        (AblateHeads(0, (4,)), "Head 4 was chosen, but the model has 4"),
        (AblateHeads(0, ()), "No head was chosen"),
        (AblateHeads(0, (1,), ((0.0,),)), "1 mean vectors were given for 1 heads of width 8"),
        (AblatePlane(0, 0, 4), "Plane 4 was chosen, but the model has 4"),
        (ReadKvHead(0, 0, 2), "Kv head 2 was chosen, but the model has 2"),
        (ScaleScores(math.nan), "cannot be multiplied by nan"),
        (ScaleScores(-1001.0), "cannot be multiplied by -1001; give a number from -1000 to 1000"),
        (PermuteTokens(tuple(range(1, 90))), r"The order \[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …\] does not name"),
        (RopeBase(0.5), r"base is 0\.5"),
        (PermuteTokens((0, 0, 1)), "does not name each row"),
        (AblateMlp(0, (1.0,)), "The mean has 1 numbers, but the stream has 32"),
    ],
)
def test_what_the_model_does_not_have_is_refused(intervention: Intervention, message: str) -> None:
    with pytest.raises(InterventionError, match=message):
        capture(make("plain"), IDS, interventions=[intervention])


def test_the_sharpest_rows_have_weights_that_add_up_and_no_entropy_below_nothing() -> None:
    trace = capture(make("plain"), IDS, interventions=[ScaleScores(1000.0)])
    rows = [readout.read_row(trace[layer], head, 8) for layer in range(3) for head in range(4)]
    assert [row.weights.sum() for row in rows] == pytest.approx([1.0] * 12, abs=1e-12)
    assert max(row.weights.max() for row in rows) <= 1.0
    assert min(row.entropy for row in rows) >= 0.0


@pytest.mark.parametrize("factor", [0.0, -0.0, -1.0, -1000.0])
@pytest.mark.parametrize("name", CONFIGS)
def test_scores_times_nothing_or_less_are_numbers_on_every_way_of_running(name: str, factor: float) -> None:
    model, interventions = make(name), [ScaleScores(factor)]
    explicit = capture(model, IDS, interventions=interventions, branch="explicit")
    pieces = finished(capture_steps(model, IDS, interventions=interventions, chunk=4))
    longer = append(model, capture(model, IDS[:, :-1], interventions=interventions), int(IDS[0, -1]))
    for fused in (capture(model, IDS, interventions=interventions), pieces, longer):
        for layer, (found, expected) in enumerate(zip(fused, explicit, strict=True)):
            assert torch.isfinite(expected.lse.tensor).all()
            close = torch.allclose(found.lse.tensor, expected.lse.tensor, rtol=1e-4, atol=1e-4)
            assert close or (name == "dynamic" and fused is longer), f"layer {layer}"
    if factor == 0.0 and name == "plain":
        assert readout.weights(pieces[1], 2)[6] == pytest.approx([1 / 7] * 7 + [0.0] * (IDS.shape[1] - 7))


def test_no_rotation_cannot_be_changed() -> None:
    with pytest.raises(InterventionError, match="positions are none"):
        capture(Decoder(BASE.changed(position="none")), IDS, interventions=[RopeOff()])


def test_chunks_under_an_intervention() -> None:
    for name in CONFIGS:
        model = make(name)
        whole = capture(model, IDS, interventions=[ScaleScores(2.0)])
        pieces = finished(capture_steps(model, IDS, interventions=[ScaleScores(2.0)], chunk=4))
        assert torch.allclose(whole[2].lse.tensor, pieces[2].lse.tensor, atol=1e-5)
