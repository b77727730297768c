"""The decoder: its parts in their places, what it refuses, what stays tied, and where its weights come from."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch, ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder, Mlp, next_token_loss, sinusoids
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.decoder.rope import rotate
from ropewalk.model.errors import PositionError, PromptError, RopewalkError, ShapeError
from tests.closeness import assert_close, terms_of

V, D, LIMIT = 20, 16, 12
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def config(**changes: Any) -> ModelConfig:
    c = ModelConfig(
        vocabulary=V, width=D, layers=2, heads=4, kv_heads=2, head_width=8, mlp_width=24, max_position=LIMIT
    )
    return c.changed(**changes)


def decoder(seed: int = 0, **changes: Any) -> Decoder:
    return Decoder(config(**changes), seed).requires_grad_(False)


def seen_at(model: Decoder, *names: str, inputs: Tensor = IDS) -> list[Tensor]:
    with capture(model, names) as seen:
        model(inputs)
    return [seen[name] for name in names]


# Refusals

REFUSED: dict[str, tuple[dict[str, Any], Tensor, dict[str, Any], type[RopewalkError], str]] = {
    "no tokens": ({}, torch.zeros(1, 0, dtype=torch.long), {}, PromptError, "prompt is empty"),
    "no sequences": ({}, torch.zeros(0, 3, dtype=torch.long), {}, PromptError, "prompt is empty"),
    "no vectors": ({}, torch.zeros(1, 0, D), {}, PromptError, "prompt is empty"),
    "ids without a batch": ({}, torch.tensor([1, 2, 3]), {}, ShapeError, r"\(3,\).* \[B, T\]"),
    "ids with three axes": ({}, torch.zeros(1, 2, 3, dtype=torch.long), {}, ShapeError, r"\(1, 2, 3\).* \[B, T\]"),
    "vectors without a batch": ({}, torch.zeros(3, D), {}, ShapeError, r"\(3, 16\).* \[B, T, 16\]"),
    "vectors of another width": ({}, torch.zeros(1, 3, 15), {}, ShapeError, r"\(1, 3, 15\).* \[B, T, 16\]"),
    "an id past the vocabulary": ({}, torch.tensor([[1, 20]]), {}, PromptError, "id 20 .* has 20 ids, from 0 to 19"),
    "a negative id": ({}, torch.tensor([[1, -1, 2]]), {}, PromptError, "id -1 .* has 20 ids"),
    "one token too many": ({}, torch.zeros(1, 13, dtype=torch.long), {}, PositionError, "Position 12 .* 11 .* 12 tok"),
    "a position past the limit": (
        {},
        IDS[:1, :2],
        {"positions": torch.tensor([[0, 30]])},
        PositionError,
        "Position 30 .* end at 11",
    ),
    "a negative position": ({}, IDS[:1, :2], {"positions": torch.tensor([[-1, 0]])}, PositionError, "Position -1"),
    "positions of other tokens": (
        {},
        IDS,
        {"positions": torch.zeros(2, 4, dtype=torch.long)},
        ShapeError,
        r"\(2, 4\).* \(2, 5\)",
    ),
    "padding of other keys": (
        {},
        IDS,
        {"padding": torch.ones(2, 4, dtype=torch.bool)},
        ShapeError,
        r"\(2, 4\).* \(2, 5\)",
    ),
    **{
        f"one token too many, position {kind}": (
            {"position": kind},
            torch.zeros(1, 13, dtype=torch.long),
            {},
            PositionError,
            "Position 12 .* 12 tokens",
        )
        for kind in ("none", "sinusoidal", "learned")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_run_is_refused_with_both_numbers(name: str) -> None:
    changes, inputs, options, kind, named = REFUSED[name]
    with pytest.raises(kind, match=named):
        decoder(**changes)(inputs, **options)


def test_the_limit_counts_the_cache() -> None:
    model, cache = decoder(), KvCache(2)
    model(torch.zeros(1, LIMIT, dtype=torch.long), cache=cache)
    with pytest.raises(PositionError, match=r"Position 12 .* 12 tokens"):
        model(torch.zeros(1, 1, dtype=torch.long), cache=cache)
    assert cache.length == LIMIT


def test_padding_must_cover_the_cache() -> None:
    model, cache = decoder(), KvCache(2)
    model(IDS, cache=cache)
    with pytest.raises(ShapeError, match=r"\(2, 1\).* \(2, 6\)"):
        model(IDS[:, :1], cache=cache, padding=torch.ones(2, 1, dtype=torch.bool))


# Tied embeddings


def assert_tied(model: Decoder) -> None:
    assert model.head.weight is model.embed.weight
    assert [name for name, _ in model.named_parameters() if name in ("embed.weight", "head.weight")] == ["embed.weight"]


def assigned(model: Decoder) -> Decoder:
    with torch.device("meta"):
        fresh = decoder(tied=True)
    fresh.load_state_dict({name: x.clone() for name, x in model.state_dict().items()}, assign=True)
    return fresh


def loaded(model: Decoder) -> Decoder:
    fresh = decoder(seed=1, tied=True)
    fresh.load_state_dict({name: x.clone() for name, x in model.state_dict().items()})
    return fresh


def loaded_without_head(model: Decoder) -> Decoder:
    fresh = decoder(seed=1, tied=True)
    fresh.load_state_dict({name: x for name, x in model.state_dict().items() if name != "head.weight"})
    return fresh


def from_meta(model: Decoder) -> Decoder:
    with torch.device("meta"):
        fresh = decoder(tied=True)
    fresh.to_empty(device="cpu")
    fresh.load_state_dict(model.state_dict())
    return fresh


@pytest.mark.parametrize(
    "done",
    [
        lambda m: m,
        loaded,
        loaded_without_head,
        assigned,
        from_meta,
        copy.deepcopy,
        nn.Module.float,
        lambda m: m.to("cpu"),
    ],
    ids=["built", "loaded", "loaded without head", "assigned", "from meta", "copied", "float", "moved"],
)
def test_tied_embeddings_are_one_object(done: Any) -> None:
    model = decoder(tied=True)
    expected = model(IDS)
    result = done(model)
    assert_tied(result)
    assert_close(result(IDS), expected, terms_of(width=2 * D, layers=2))


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double, lambda m: m.to("meta")])
def test_tied_embeddings_stay_one_object_in_another_dtype_or_place(cast: Any) -> None:
    assert_tied(cast(decoder(tied=True)))


def test_an_untied_head_has_its_own_weight_and_must_be_in_the_file() -> None:
    model = decoder()
    assert model.head.weight is not model.embed.weight
    without = {name: x for name, x in model.state_dict().items() if name != "head.weight"}
    with pytest.raises(RuntimeError, match=r"head\.weight"):
        decoder().load_state_dict(without)


def test_a_tied_model_still_refuses_what_else_is_missing() -> None:
    model = decoder(tied=True)
    without = {name: x for name, x in model.state_dict().items() if name != "norm.weight"}
    with pytest.raises(RuntimeError, match=r"norm\.weight"):
        decoder(tied=True).load_state_dict(without)


# Position


def test_sinusoids_are_those_of_the_paper() -> None:
    # PE(m, 2i) = sin(m / 10000^(2i/D)), PE(m, 2i + 1) = cos of the same; D = 4 has wavelengths 2π and 200π
    found = sinusoids(torch.tensor([[0, 1, 3]]), 4)
    expected = [[math.sin(m), math.cos(m), math.sin(m / 100), math.cos(m / 100)] for m in (0, 1, 3)]
    torch.testing.assert_close(found, torch.tensor([expected]))
    torch.testing.assert_close(
        sinusoids(torch.tensor([[2]]), 3)[0, 0], torch.tensor([0.909297, -0.416147, 0.004309]), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rotary"])
def test_position_enters_where_its_kind_says(position: Any) -> None:
    model = decoder(position=position)
    positions = torch.tensor([[2, 3, 4, 5, 6]] * 2)
    with capture(model, ["hook_embed"]) as seen:
        model(IDS, positions=positions)
    added = seen["hook_embed"] - model.embed.weight[IDS]
    if position == "sinusoidal":
        torch.testing.assert_close(added, sinusoids(positions, D), rtol=0, atol=1e-6)
    elif position == "learned":
        assert model.place is not None
        torch.testing.assert_close(added, model.place.weight[positions], rtol=0, atol=1e-6)
    else:
        assert not added.any()
    assert (len(model.rotaries) == 1) == (position == "rotary")
    assert (model.place is not None) == (position == "learned")


@pytest.mark.parametrize(
    ("position", "sees_order"), [("none", False), ("sinusoidal", True), ("learned", True), ("rotary", True)]
)
def test_without_position_earlier_tokens_are_a_set(position: Any, sees_order: bool) -> None:
    model = decoder(position=position, layers=1)
    swapped = IDS[:, [1, 0, 2, 3, 4]]
    off = float((model(IDS)[:, -1] - model(swapped)[:, -1]).abs().max())
    assert (off > 1e-3) == sees_order


def test_the_rotary_length_makes_a_chunk_turn_as_the_whole_prompt_does() -> None:
    model = decoder(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=4))
    whole = model.begin(IDS)[1].rotations[0]
    chunk = model.begin(IDS[:, :2], rotary_length=5)[1].rotations[0]
    alone = model.begin(IDS[:, :2])[1].rotations[0]
    assert whole is not None
    assert chunk is not None
    assert alone is not None
    assert_close(chunk[1], whole[1][:, :2], terms=4)  # two sines of one angle, counted four or eight at a time
    assert float((alone[1] - whole[1][:, :2]).abs().max()) > 1e-3


# Vectors


@pytest.mark.parametrize("changes", [{}, {"position": "learned"}, {"embedding_scale": 4.0}], ids=str)
def test_vectors_take_the_place_of_the_embedding(changes: dict[str, Any]) -> None:
    model = decoder(**changes)
    assert_close(model(model.embed.weight[IDS]), model(IDS), terms_of(width=2 * D, layers=2))


def test_vectors_take_the_models_dtype() -> None:
    model = decoder().bfloat16()
    assert model(torch.randn(1, 3, D)).dtype == torch.bfloat16


def test_gradients_reach_the_vectors() -> None:
    x = torch.randn(1, 3, D, generator=torch.Generator().manual_seed(1)).requires_grad_()
    [gradient] = torch.autograd.grad(decoder()(x)[0, -1, 0], [x])
    assert (gradient.abs().sum(-1) > 0).all()


# The block


@pytest.mark.parametrize("residual_scale", [1.0, 0.22])
@pytest.mark.parametrize("place", ["pre", "post", "both"])
@pytest.mark.parametrize("shape", ["in turn", "parallel", "parallel, one norm"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_block_reads_and_adds_in_its_own_order(norm: Any, shape: str, place: Any, residual_scale: float) -> None:
    model = decoder(
        norm=norm,
        norm_place=place,
        parallel_residual=shape != "in turn",
        shared_norm=shape == "parallel, one norm",
        residual_scale=residual_scale,
    )
    for number, parameter in enumerate(p for name, p in model.named_parameters() if "norm" in name):
        parameter.copy_(1 + 0.3 * torch.randn(D, generator=torch.Generator().manual_seed(number)))  # no two norms alike
    block = model.block(0)
    x, call = model.begin(IDS)
    norms = [block.attn_norm, block.mlp_norm, block.attn_post_norm, block.mlp_post_norm]
    one = shape == "parallel, one norm"
    made = [place != "post", place != "post" and not one, place != "pre", place != "pre"]
    assert [not isinstance(n, nn.Identity) for n in norms] == made
    before_attn, before_mlp, after_attn, after_mlp = norms
    attended = residual_scale * after_attn(block.attn(before_attn(x), call))
    if shape == "in turn":
        read = before_mlp(x + attended)
    else:
        read = before_attn(x) if one else before_mlp(x)
    expected = x + attended + residual_scale * after_mlp(block.mlp(read))
    torch.testing.assert_close(block(x, call), expected, rtol=0, atol=1e-5)


def test_qk_norm_comes_before_the_rotation_or_after() -> None:
    names = ["q", "q_normed", "rot_q"]
    for after in (False, True):
        model = decoder(qk_norm="head", qk_norm_after_rope=after)
        q, normed, turned = seen_at(model, *[f"blocks.0.attn.hook_{name}" for name in names])
        norm = model.block(0).attn.query_norm
        rotation = model.begin(IDS)[1].rotations[0]
        assert rotation is not None
        if after:
            torch.testing.assert_close(turned, rotate(q, *rotation, "half"))
            torch.testing.assert_close(normed, norm(turned))
        else:
            torch.testing.assert_close(normed, norm(q))
            torch.testing.assert_close(turned, rotate(normed, *rotation, "half"))


def test_biases_are_where_they_were_asked_for() -> None:
    asked = ["query_bias", "key_bias", "value_bias", "output_bias", "mlp_bias", "logit_bias", "norm_bias"]
    holders = {
        "query_bias": {"attn.query"},
        "key_bias": {"attn.key"},
        "value_bias": {"attn.value"},
        "output_bias": {"attn.output"},
        "mlp_bias": {"mlp.gate", "mlp.up", "mlp.down"},
        "logit_bias": {"head"},
        "norm_bias": {"attn_norm", "mlp_norm", "norm"},
    }
    for name in asked:
        model = decoder(**{name: True})
        found = {key.removesuffix(".bias") for key in model.state_dict() if key.endswith(".bias")}
        assert {key.removeprefix("blocks.0.").removeprefix("blocks.1.") for key in found} == holders[name]


def test_projections_have_the_rows_of_their_heads() -> None:
    # Dh is a field of its own: H·Dh = 4·8 = 32 is not D = 16 here
    shapes = {name: tuple(x.shape) for name, x in decoder().block(0).attn.state_dict().items()}
    assert shapes == {
        "query.weight": (32, 16),
        "key.weight": (16, 16),
        "value.weight": (16, 16),
        "output.weight": (16, 32),
    }


def test_qkv_are_clipped_right_after_projection() -> None:
    names = [f"blocks.0.attn.hook_{x}" for x in "qkv"]
    free, clipped = seen_at(decoder(), *names), seen_at(decoder(qkv_clip=0.5), *names)
    for wide, narrow in zip(free, clipped, strict=True):
        assert float(wide.abs().max()) > 0.5
        assert torch.equal(narrow, wide.clamp(-0.5, 0.5))


# The MLP

THEIRS = {"gelu_tanh": "gelu_pytorch_tanh", "identity": "linear"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_transformers(name: Any) -> None:
    x = torch.linspace(-6, 6, 101)
    torch.testing.assert_close(ACTIVATIONS[name](x), ACT2FN[THEIRS.get(name, name)](x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "xielu"])
@pytest.mark.parametrize("kind", ["gated", "plain"])
def test_an_mlp_is_its_formula_under_every_activation(kind: Any, activation: Any) -> None:
    mlp = decoder(mlp=kind, activation=activation, mlp_bias=True).block(0).mlp
    assert isinstance(mlp, Mlp)
    for number, parameter in enumerate(mlp.parameters()):
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) / 3)
    act = mlp.activate
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(9))
    up = x @ mlp.up.weight.T + mlp.up.bias
    assert (mlp.gate is not None) == (kind == "gated")
    hidden = act(up) if mlp.gate is None else act(x @ mlp.gate.weight.T + mlp.gate.bias) * up
    torch.testing.assert_close(mlp(x), hidden @ mlp.down.weight.T + mlp.down.bias, rtol=1e-5, atol=1e-5)
    assert ("relu" not in str(act)) or float(hidden.min()) <= 0


def test_xielu_is_that_of_transformers() -> None:
    mlp = decoder(mlp="plain", activation="xielu").block(0).mlp
    assert isinstance(mlp, Mlp)
    x = torch.linspace(-6, 6, 101)
    torch.testing.assert_close(
        mlp.activate(x), ACT2FN["xielu"](x).detach().float(), rtol=0, atol=0.03
    )  # theirs is bf16


def test_the_gate_is_limited_and_the_up_projection_offset() -> None:
    # gpt-oss: gate ≤ 7, |up| ≤ 7, and (up + 1) is multiplied
    mlp = decoder(mlp_limit=0.5, up_offset=1.0).block(0).mlp
    assert isinstance(mlp, Mlp)
    assert mlp.gate is not None
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(9))
    gate, up = mlp.gate(x), mlp.up(x)
    assert float(gate.max()) > 0.5 > -0.5 > float(gate.min())
    hidden = nn.functional.silu(torch.minimum(gate, torch.tensor(0.5))) * (up.clamp(-0.5, 0.5) + 1)
    torch.testing.assert_close(mlp(x), mlp.down(hidden))


# From stream to logits


@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_last_only_is_the_last_row(branch: Branch) -> None:
    model = decoder()
    torch.testing.assert_close(model(IDS, branch=branch, last_only=True), model(IDS, branch=branch)[:, -1:])


def test_logits_are_scaled_then_capped() -> None:
    plain = decoder()(IDS)
    torch.testing.assert_close(decoder(logit_scale=0.25)(IDS), plain / 4)
    torch.testing.assert_close(decoder(logit_cap=2.0)(IDS), 2 * torch.tanh(plain / 2))
    torch.testing.assert_close(decoder(logit_scale=4.0, logit_cap=2.0)(IDS), 2 * torch.tanh(plain * 2))


def test_the_final_norm_can_be_left_out() -> None:
    model = decoder(final_norm=False)
    [stream, final] = seen_at(model, "blocks.1.hook_resid_post", "hook_final")
    assert torch.equal(stream, final)
    assert "norm.weight" not in model.state_dict()


def test_the_embedding_is_scaled() -> None:
    [plain], [scaled] = seen_at(decoder(), "hook_embed"), seen_at(decoder(embedding_scale=4.0), "hook_embed")
    assert torch.equal(scaled, 4 * plain)


def test_a_row_never_depends_on_later_tokens() -> None:
    model = decoder()
    torch.testing.assert_close(model(IDS)[:, :3], model(IDS[:, :3]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_branches_agree_in_half_precision(dtype: torch.dtype) -> None:
    model = decoder().to(dtype)
    fused, explicit = model(IDS), model(IDS, branch="explicit")
    assert fused.dtype == explicit.dtype == dtype
    torch.testing.assert_close(fused.float(), explicit.float(), rtol=0, atol=0.05)


# Loss


def test_the_loss_predicts_the_next_token() -> None:
    logits = torch.randn(2, 5, V, generator=torch.Generator().manual_seed(4))
    expected = 0.0
    for b in range(2):
        for t in range(4):
            expected -= float(logits[b, t].log_softmax(-1)[IDS[b, t + 1]]) / 8
    assert float(next_token_loss(logits, IDS)) == pytest.approx(expected, rel=1e-6)


def test_knowing_nothing_costs_log_v() -> None:
    assert float(next_token_loss(torch.zeros(2, 5, V), IDS)) == pytest.approx(math.log(V))


def test_the_loss_is_float32_in_half_precision() -> None:
    assert next_token_loss(torch.zeros(2, 5, V).half(), IDS).dtype == torch.float32


def test_a_few_steps_of_training_lower_the_loss() -> None:
    model = Decoder(config(sink=True, score_cap=20.0, tied=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = next_token_loss(model(IDS), IDS)
        torch.autograd.backward([loss])
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
    assert all(p.grad is not None for p in model.parameters())


# Seeded weights


def test_a_seed_gives_the_same_weights_every_time() -> None:
    first, again, other = (decoder(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    matrices = [name for name, x in first.items() if x.ndim == 2]
    assert not any(torch.equal(first[name], other[name]) for name in matrices)


def test_a_seed_does_not_depend_on_the_global_generator() -> None:
    torch.manual_seed(1)
    first = decoder()(IDS)
    torch.manual_seed(2)
    assert torch.equal(first, decoder()(IDS))


@pytest.mark.parametrize("tied", [False, True])
def test_random_weights_keep_the_spread_of_what_they_read(tied: bool) -> None:
    model = decoder(width=256, vocabulary=400, mlp_width=512, tied=tied)
    spread = {name: float(x.std()) for name, x in model.state_dict().items() if x.ndim == 2}
    assert spread["blocks.0.attn.query.weight"] == pytest.approx(1 / 16, rel=0.05)  # 1/√256
    assert spread["blocks.0.mlp.down.weight"] == pytest.approx(1 / math.sqrt(512), rel=0.05)
    assert spread["embed.weight"] == pytest.approx(1 / 16 if tied else 1.0, rel=0.05)
    assert float(model(IDS).std()) == pytest.approx(1.0, rel=0.3)
