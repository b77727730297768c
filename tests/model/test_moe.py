"""Mixtures of experts against a loop over tokens and experts in numpy, and the auxiliary loss against transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.decoder import Decoder, DenseMlp, Mlp, MoeMlp, balance_loss
from ropewalk.model.decoder.hooks import capture, intervening

D, E, F = 12, 4, 10


def built(moe: MoeConfig, **changes: Any) -> MoeMlp:
    c = ModelConfig(vocabulary=20, width=D, layers=1, heads=2, kv_heads=1, head_width=4, mlp_width=16, moe=moe)
    mlp = Decoder(c.changed(**changes), seed=3).requires_grad_(False).block(0).mlp
    assert isinstance(mlp, MoeMlp)
    if mlp.router.bias is not None:
        mlp.router.bias.copy_(torch.tensor([0.0, 2.0, -1.0, 0.5]))
    return mlp


def weight(layer: nn.Linear | None) -> NDArray[np.float64]:
    assert layer is not None
    return layer.weight.double().numpy()


def swiglu(mlp: Mlp, x: NDArray[np.float64]) -> NDArray[np.float64]:
    gate = weight(mlp.gate) @ x
    out: NDArray[np.float64] = weight(mlp.down) @ (gate / (1 + np.exp(-gate)) * (weight(mlp.up) @ x))
    return out


def shares(moe: MoeConfig, logits: NDArray[np.float64]) -> dict[int, float]:
    """Which experts a token visits and how much each counts."""
    chosen = np.argsort(-logits)[: moe.per_token]
    if moe.scoring == "sigmoid":
        scores = 1 / (1 + np.exp(-logits))
    else:
        scores = np.exp(logits) / np.exp(logits).sum()
    total = scores[chosen].sum() if moe.renormalise or moe.scoring == "softmax_chosen" else 1.0
    return {int(expert): float(scores[expert] / total) for expert in chosen}


def dense_loop(mlp: MoeMlp, x: Tensor) -> NDArray[np.float64]:
    """Every token through its experts, one after the other."""
    out = np.zeros(x.shape)
    for place in np.ndindex(*x.shape[:-1]):
        token = x[place].double().numpy()
        logits = weight(mlp.router) @ token
        if mlp.router.bias is not None:
            logits = logits + mlp.router.bias.double().numpy()
        for index, share in shares(mlp.moe, logits).items():
            expert = mlp.experts[index]
            assert isinstance(expert, Mlp)
            out[place] += share * swiglu(expert, token)
        if mlp.shared is not None:
            gate = 1.0 if mlp.shared_gate is None else 1 / (1 + np.exp(-float((weight(mlp.shared_gate) @ token)[0])))
            out[place] += gate * swiglu(mlp.shared, token)
    return out


def tokens() -> Tensor:
    return torch.randn(2, 7, D, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("shared", [{}, {"shared_width": 6}, {"shared_width": 6, "shared_gate": True}], ids=str)
@pytest.mark.parametrize("router_bias", [False, True])
@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("scoring", ["softmax", "softmax_chosen", "sigmoid"])
@pytest.mark.parametrize("per_token", [1, 2, E])
def test_a_mixture_is_the_loop_over_tokens_and_experts(
    per_token: int, scoring: Any, renormalise: bool, router_bias: bool, shared: dict[str, Any]
) -> None:
    mlp = built(MoeConfig(E, per_token, F, renormalise, scoring, router_bias=router_bias, **shared))
    np.testing.assert_allclose(mlp(tokens()).numpy(), dense_loop(mlp, tokens()), rtol=0, atol=5e-6)


def test_softmax_over_the_chosen_is_softmax_over_all_renormalised() -> None:
    first, second = built(MoeConfig(E, 2, F, scoring="softmax_chosen")), built(MoeConfig(E, 2, F, renormalise=True))
    torch.testing.assert_close(first(tokens()), second(tokens()))


def test_one_expert_for_all_is_a_dense_mlp() -> None:
    mlp = built(MoeConfig(1, 1, F))
    torch.testing.assert_close(mlp(tokens()), mlp.experts[0](tokens()))


def test_an_expert_nobody_visits_does_nothing() -> None:
    mlp = built(MoeConfig(E, 1, F))
    before = mlp(tokens())
    with capture(mlp, ["hook_expert_index"]) as seen, intervening(mlp, {"hook_router_logits": never_three}):
        rerouted = mlp(tokens())
    assert 3 not in seen["hook_expert_index"]
    assert not torch.allclose(before, rerouted)
    expert = mlp.experts[3]
    assert isinstance(expert, Mlp)
    expert.down.weight.fill_(float("nan"))
    with intervening(mlp, {"hook_router_logits": never_three}):
        assert torch.equal(mlp(tokens()), rerouted)


def never_three(logits: Tensor) -> Tensor:
    return logits.index_fill(1, torch.tensor([3]), -1e9)


def test_only_the_layers_named_are_mixtures() -> None:
    moe = MoeConfig(E, 1, F, layers=(False, True))
    model = Decoder(
        ModelConfig(vocabulary=20, width=D, layers=2, heads=2, kv_heads=1, head_width=4, mlp_width=16, moe=moe)
    )
    assert isinstance(model.block(0).mlp, DenseMlp)
    assert isinstance(model.block(1).mlp, MoeMlp)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_routing_in_half_precision_is_decided_in_float32(dtype: torch.dtype) -> None:
    mlp = built(MoeConfig(E, 2, F))
    exact = mlp(tokens())
    found = mlp.to(dtype)(tokens().to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), exact, rtol=0, atol=0.05)


# The auxiliary loss


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("per_token", [1, 2, 3])
def test_the_auxiliary_loss_is_that_of_transformers(per_token: int, layers: int) -> None:
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    draw = torch.Generator().manual_seed(9)
    logits = [torch.randn(14, E, generator=draw) * 2 for _ in range(layers)]
    theirs: Any = load_balancing_loss_func
    expected = theirs(tuple(logits), E, per_token)
    torch.testing.assert_close(balance_loss(logits, MoeConfig(E, per_token, F)), expected)
    as_batches = [layer.view(2, 7, E) for layer in logits]
    torch.testing.assert_close(balance_loss(as_batches, MoeConfig(E, per_token, F)), expected)


@pytest.mark.parametrize("per_token", [1, 2])
def test_an_even_load_costs_k_and_a_collapsed_one_up_to_e(per_token: int) -> None:
    even = torch.stack([torch.roll(torch.tensor([3.0, 2.0, 1.0, 0.0]), shift) for shift in range(E)])
    assert float(balance_loss([even], MoeConfig(E, per_token, F))) == pytest.approx(per_token)
    collapsed = torch.tensor([[40.0, 0.0, 0.0, 0.0]] * 5)  # f₀ = p₀ = 1, so that E · f₀ · p₀ = E
    assert float(balance_loss([collapsed], MoeConfig(E, 1, F))) == pytest.approx(E)


def test_the_auxiliary_loss_trains_the_router() -> None:
    logits = torch.randn(10, E, generator=torch.Generator().manual_seed(1)).requires_grad_()
    [gradient] = torch.autograd.grad(balance_loss([logits], MoeConfig(E, 2, F)), [logits])
    assert float(gradient.abs().max()) > 1e-3
