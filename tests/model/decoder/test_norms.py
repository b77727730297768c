"""RMSNorm and LayerNorm against PyTorch's own, and the QK-norm against what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ropewalk.model.decoder.attention import Attention
from ropewalk.model.decoder.config import ModelConfig, NormKind
from ropewalk.model.decoder.norms import Norm, QkNorm, stream_norm

D = 12


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(norm: Norm) -> Norm:
    """The norm with a gain and a β that are not 1 and 0."""
    with torch.no_grad():
        if norm.weight is not None:
            norm.weight.copy_(drawn(*norm.weight.shape, seed=1))
        if norm.bias is not None:
            norm.bias.copy_(drawn(*norm.bias.shape, seed=2))
    return norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_rms_is_torchs(eps: float, dtype: torch.dtype) -> None:
    ours = filled(Norm((D,), "rms", eps)).to(dtype)
    theirs = nn.RMSNorm(D, eps=eps, dtype=torch.float32)
    assert ours.weight is not None
    theirs.weight = nn.Parameter(ours.weight.detach().float())
    x = (3 * drawn(2, 5, D)).to(dtype)
    assert ours(x).dtype == dtype
    torch.testing.assert_close(ours(x), theirs(x.float()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm_is_torchs(eps: float, bias: bool, dtype: torch.dtype) -> None:
    ours = filled(Norm((D,), "layer", eps, bias=bias)).to(dtype)
    assert ours.weight is not None
    x = (3 * drawn(2, 5, D) + 1).to(dtype)
    expected = nn.functional.layer_norm(x, (D,), ours.weight, ours.bias, eps)
    torch.testing.assert_close(ours(x), expected)


@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_gain_offset_and_bias_each_do_their_part(kind: NormKind, gain: bool, bias: bool, offset: float) -> None:
    norm = filled(Norm((D,), kind, 1e-6, offset=offset, bias=bias, gain=gain))
    x = drawn(2, 3, D)
    plain = nn.functional.rms_norm(x, (D,), eps=1e-6) if kind == "rms" else nn.functional.layer_norm(x, (D,), eps=1e-6)
    expected = plain * (drawn(D, seed=1) + offset if gain else 1.0) + (drawn(D, seed=2) if bias else 0.0)
    torch.testing.assert_close(norm(x), expected)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_a_new_norm_changes_nothing_but_the_scale(offset: float) -> None:
    # RMS of (3, 4) is √12.5, so that it becomes (3, 4)/√12.5 whether the file stores γ or γ − 1
    expected = torch.tensor([3.0, 4.0]) / 12.5**0.5
    torch.testing.assert_close(Norm((2,), "rms", 0.0, offset=offset)(torch.tensor([3.0, 4.0])), expected)


def test_half_precision_keeps_its_statistics_in_float32() -> None:
    # the squares of 300 overflow float16 (65,504) but not float32
    assert Norm((D,), "rms", 1e-6).half()(torch.full((1, D), 300.0).half()).tolist() == [[1.0] * D]


def config(**changes: Any) -> ModelConfig:
    c = ModelConfig(vocabulary=8, width=D, layers=1, heads=4, kv_heads=2, head_width=6, mlp_width=8, norm_eps=1e-3)
    return c.changed(**changes)


def test_the_stream_norm_is_what_the_config_asks_for() -> None:
    norm = stream_norm(config(norm="layer", norm_bias=True, norm_offset=1.0))
    assert (norm.kind, norm.eps, norm.offset, norm.bias is not None) == ("layer", 1e-3, 1.0, True)
    assert stream_norm(config(norm_gain=False)).weight is None


@pytest.mark.parametrize(("kind", "gain"), [("head", (6,)), ("heads", (4, 1, 6)), ("full", (24,))])
def test_qk_norm_gains_have_the_shape_of_their_kind(kind: Any, gain: tuple[int, ...]) -> None:
    norm = QkNorm(config(qk_norm=kind), heads=4).norm
    assert norm.weight is not None
    assert norm.weight.shape == gain


@pytest.mark.parametrize("kind", ["head", "heads", "full"])
def test_qk_norm_normalises_over_a_head_or_over_all(kind: Any) -> None:
    module = QkNorm(config(qk_norm=kind), heads=4)
    filled(module.norm)
    x = drawn(2, 4, 5, 6, seed=3)  # [B, H, T, Dh]
    gain = module.norm.weight
    assert gain is not None
    for b in range(2):
        for t in range(5):
            vector = x[b, :, t]  # [H, Dh]
            if kind == "full":
                expected = vector / (vector.square().mean() + 1e-3).sqrt() * gain.view(4, 6)
            else:
                each = vector / (vector.square().mean(-1, keepdim=True) + 1e-3).sqrt()
                expected = each * (gain[:, 0] if kind == "heads" else gain)
            torch.testing.assert_close(module(x)[b, :, t], expected)


def test_queries_and_keys_have_gains_of_their_own() -> None:
    config = ModelConfig(
        vocabulary=16, width=D, layers=1, heads=3, kv_heads=1, head_width=4, mlp_width=8, qk_norm="head"
    )
    layer = Attention(config, 0)
    with torch.no_grad():
        for norm, gain in ((layer.query_norm, 2.0), (layer.key_norm, 5.0)):
            assert isinstance(norm, QkNorm)
            assert norm.norm.weight is not None
            norm.norm.weight.fill_(gain)
        q, k, _ = layer.read(drawn(1, 6, D), None)
    for x, gain in ((q, 2.0), (k, 5.0)):
        torch.testing.assert_close(x.square().mean(-1).sqrt(), torch.full(x.shape[:-1], gain), rtol=1e-3, atol=0)
