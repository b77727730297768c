"""Rotary embedding against transformers, against plain numpy, and against what a rotation must keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ropewalk.model.decoder.config import ModelConfig, Pairing, QkNorm, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.rope import TABLE_ROWS, Rotary, frequencies, other_rules, plane_features, rotate, unrotate
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import capture
from tests.closeness import assert_close, terms_of
from tests.model.small_models import BASE, random_ids

DH = 16
SHORT, LONG = tuple(1.0 + 0.1 * i for i in range(8)), tuple(2.0 + 0.5 * i for i in range(8))
# Each rule with its fields in our names. ORIGINAL is the length before stretching.
ORIGINAL = 64
RULES: dict[str, dict[str, Any]] = {
    "linear": {"scaling": "linear", "factor": 4.0},
    "dynamic": {"scaling": "dynamic", "factor": 2.0},
    "yarn": {"scaling": "yarn", "factor": 16.0},
    "yarn, no truncation": {"scaling": "yarn", "factor": 16.0, "truncate": False},
    "yarn, betas": {"scaling": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 2.0},
    "yarn, attention factor": {"scaling": "yarn", "factor": 16.0, "attention_factor": 1.0},
    "yarn, mscale": {"scaling": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7},
    "llama3": {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {"scaling": "longrope", "factor": 4.0, "short_factor": SHORT, "long_factor": LONG},
    "longrope, attention factor": {
        "scaling": "longrope",
        "factor": 4.0,
        "short_factor": SHORT,
        "long_factor": LONG,
        "attention_factor": 1.25,
    },
}


def rule(name: str, base: float = 10_000.0) -> RopeConfig:
    return RopeConfig(**RULES[name], base=base, original_max_position=ORIGINAL)


def reference(rope: RopeConfig, length: int) -> tuple[Tensor, float]:
    """θ and the attention factor as transformers computes them for a head of DH."""
    given = {name: getattr(rope, name) for name in ("attention_factor", "mscale", "mscale_all_dim", "truncate")}
    spelled = {
        "rope_type": rope.scaling,
        "rope_theta": rope.base,
        "factor": rope.factor,
        "original_max_position_embeddings": ORIGINAL,
        **{name: value for name, value in given.items() if value is not None},
    }
    if rope.scaling == "yarn":
        spelled |= {"beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow}
    elif rope.scaling == "llama3":
        spelled |= {"low_freq_factor": rope.low_freq_factor, "high_freq_factor": rope.high_freq_factor}
    elif rope.scaling == "longrope":
        spelled |= {"short_factor": list(rope.short_factor or ()), "long_factor": list(rope.long_factor or ())}
    # the dynamic rule of transformers takes max_position_embeddings for the length before stretching
    limit = ORIGINAL if rope.scaling == "dynamic" else int(ORIGINAL * rope.factor)
    theirs = LlamaConfig(
        hidden_size=2 * DH, num_attention_heads=2, head_dim=DH, max_position_embeddings=limit, rope_parameters=spelled
    )
    theta, factor = ROPE_INIT_FUNCTIONS[rope.scaling](theirs, torch.device("cpu"), seq_len=length)
    return theta, float(factor)


@pytest.mark.parametrize("base", [10_000.0, 1e6])
@pytest.mark.parametrize("length", [10, ORIGINAL, ORIGINAL + 1, 200])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_turns_as_in_transformers(name: str, length: int, base: float) -> None:
    theta, factor = frequencies(rule(name, base), DH, length)
    expected, expected_factor = reference(rule(name, base), length)
    torch.testing.assert_close(theta, expected, rtol=3e-7, atol=0)
    assert factor == pytest.approx(expected_factor, rel=1e-12)


# The same rules again from their papers, in float64, without looking at anyone's code.


def plain_theta(base: float, width: int = DH) -> NDArray[np.float64]:
    return np.array([base ** (-2 * i / width) for i in range(width // 2)])


def test_default_is_the_geometric_series_of_the_paper() -> None:
    theta, factor = frequencies(RopeConfig(), 8)
    np.testing.assert_allclose(theta, [1.0, 0.1, 0.01, 0.001], rtol=1e-6)  # 10,000^(−2i/8), Su et al. 2021
    assert factor == 1.0


def test_linear_divides_every_frequency() -> None:
    np.testing.assert_allclose(frequencies(rule("linear"), DH)[0], plain_theta(1e4) / 4, rtol=1e-6)


@pytest.mark.parametrize(("length", "growth"), [(10, 1.0), (64, 1.0), (128, 3.0), (256, 7.0)])
def test_dynamic_grows_its_base_past_the_original_length(length: int, growth: float) -> None:
    # base · (s·n/L − (s − 1))^(d/(d−2)) with s = 2, L = 64: n = 128 gives 2·2 − 1 = 3, n = 256 gives 2·4 − 1 = 7
    expected = plain_theta(1e4 * growth ** (DH / (DH - 2)))
    np.testing.assert_allclose(frequencies(rule("dynamic"), DH, length)[0], expected, rtol=1e-6)


def test_yarn_keeps_fast_planes_and_divides_slow_ones() -> None:
    theta, factor = frequencies(RopeConfig(scaling="yarn", factor=16.0, original_max_position=2048), 64)
    plain = plain_theta(1e4, 64)
    turns = 2048 * plain / (2 * math.pi)  # how often a plane turns within the original length
    ratio = theta.numpy() / plain
    np.testing.assert_allclose(ratio[turns > 50], 1.0, rtol=1e-6)
    np.testing.assert_allclose(ratio[turns < 0.7], 1 / 16, rtol=1e-6)
    assert np.all(np.diff(ratio) <= 1e-6)
    assert factor == pytest.approx(0.1 * math.log(16) + 1)  # √(1/t) of Peng et al. 2023, eq. 22


@pytest.mark.parametrize(("wavelength", "ratio"), [(10.0, 1.0), (15.9, 1.0), (64.1, 1 / 8), (1000.0, 1 / 8)])
def test_llama3_splits_by_wavelength(wavelength: float, ratio: float) -> None:
    # L = 64, low 1, high 4: shorter than 16 kept, longer than 64 divided by 8. The plane i = 1 of two has θ = 1/√base.
    base = (wavelength / (2 * math.pi)) ** 2
    rope = RopeConfig(
        base=base,
        scaling="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=ORIGINAL,
    )
    assert float(frequencies(rope, 4)[0][1]) == pytest.approx(2 * math.pi / wavelength * ratio, rel=1e-5)


@pytest.mark.parametrize(("length", "factors"), [(1, SHORT), (64, SHORT), (65, LONG)])
def test_longrope_changes_its_list_past_the_original_length(length: int, factors: tuple[float, ...]) -> None:
    theta, factor = frequencies(rule("longrope"), DH, length)
    np.testing.assert_allclose(theta, plain_theta(1e4) / np.array(factors), rtol=1e-6)
    assert factor == pytest.approx(math.sqrt(1 + math.log(4) / math.log(64)))  # Ding et al. 2024


def test_given_frequencies_are_used_as_they_are() -> None:
    theta, factor = frequencies(RopeConfig(base=3.0, frequencies=(math.pi / 2, 0.0)), 4)
    assert theta.tolist() == [pytest.approx(math.pi / 2), 0.0]
    assert factor == 1.0


# The rotation


def turned(x: NDArray[np.float64], positions: list[int], theta: NDArray[np.float64], pairing: str) -> Any:
    """Rotate [T, Dh] plane by plane, as complex numbers."""
    out = x.copy()
    planes = len(theta)
    for row, position in enumerate(positions):
        for i in range(planes):
            a, b = (i, i + planes) if pairing == "half" else (2 * i, 2 * i + 1)
            z = complex(x[row, a], x[row, b]) * np.exp(1j * position * theta[i])
            out[row, a], out[row, b] = z.real, z.imag
    return out


@pytest.mark.parametrize("width", [2, 8, 16])
@pytest.mark.parametrize("pairing", ["half", "adjacent"])
def test_rotation_multiplies_each_plane_by_a_complex_number(pairing: Pairing, width: int) -> None:
    x = torch.randn(2, 3, 5, DH, generator=torch.Generator().manual_seed(1))
    positions = [0, 1, 7, 100, 1999]
    rotary = Rotary(RopeConfig(), width, 2048)
    cos, sin = rotary(torch.tensor([positions, positions]), 2000)
    got = rotate(x, cos, sin, pairing)
    for batch in range(2):
        for head in range(3):
            expected = turned(x[batch, head].double().numpy(), positions, plain_theta(1e4, width), pairing)
            # float32 angles: 1,999 rad · 2⁻²⁴ ≈ 1.2e-4
            np.testing.assert_allclose(got[batch, head], expected, atol=3e-4)
            np.testing.assert_allclose(got[batch, head, :3], expected[:3], atol=2e-6)
    assert torch.equal(got[..., width:], x[..., width:])  # partial rotary: the rest passes through


def test_plane_features_name_the_two_features_of_each_plane() -> None:
    assert plane_features(6, "half") == [(0, 3), (1, 4), (2, 5)]
    assert plane_features(6, "adjacent") == [(0, 1), (2, 3), (4, 5)]


def test_the_two_pairings_differ_by_a_permutation_of_features() -> None:
    x = torch.randn(1, 2, 4, DH, generator=torch.Generator().manual_seed(2))
    order = [feature for plane in plane_features(DH, "half") for feature in plane]
    cos, sin = Rotary(RopeConfig(), DH, 64)(torch.arange(4)[None], 4)
    torch.testing.assert_close(rotate(x, cos, sin, "half")[..., order], rotate(x[..., order], cos, sin, "adjacent"))


@pytest.mark.parametrize("name", ["default", *RULES])
@pytest.mark.parametrize("pairing", ["half", "adjacent"])
def test_unrotate_undoes_rotate(pairing: Pairing, name: str) -> None:
    rope = RopeConfig() if name == "default" else rule(name)
    x = torch.randn(1, 2, 90, DH, generator=torch.Generator().manual_seed(3))
    rotary = Rotary(rope, DH, 512)
    cos, sin = rotary(torch.arange(90)[None], 90)
    factor = rotary.segment(0, 90, 90).factor
    # two products and their sum, there and back, and the square of the factor
    assert_close(unrotate(rotate(x, cos, sin, pairing), cos, sin, pairing, factor), x, terms=8)


def test_a_segment_says_what_rows_were_turned_by() -> None:
    segment = Rotary(rule("longrope"), DH, 512).segment(3, 70, 70)
    assert (segment.start, segment.stop) == (3, 70)
    np.testing.assert_allclose(segment.frequencies, plain_theta(1e4) / np.array(LONG), rtol=1e-6)
    assert segment.factor == pytest.approx(1.1547005)  # √(1 + ln 4 / ln 64) = √(4/3)


@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_rules_that_look_at_the_length_follow_the_call(name: str) -> None:
    rotary = Rotary(rule(name), DH, 512)
    short, long = rotary(torch.tensor([[5]]), 64)[1], rotary(torch.tensor([[5]]), 200)[1]
    theta = frequencies(rule(name), DH, 200)[0]
    factor = frequencies(rule(name), DH, 200)[1]
    torch.testing.assert_close(long[0, 0], (5 * theta).sin() * factor)
    assert not torch.allclose(short, long)


# The tables


def assert_table(rotary: Rotary, rows: int) -> None:
    """The tables are float32, on the CPU, and right up to their last row."""
    assert rotary.cos.shape == rotary.sin.shape == (rows, rotary.width // 2)
    assert rotary.cos.dtype == rotary.sin.dtype == torch.float32
    angles = torch.arange(rows).float()[:, None] * frequencies(rotary.rope, rotary.width)[0]
    # an angle is one product, off by half a unit of its last place; so are its sine and cosine
    assert_close(rotary.cos, angles.cos(), terms=2, size=float(angles.max()))
    assert_close(rotary.sin, angles.sin(), terms=2, size=float(angles.max()))


def small_decoder(**changes: Any) -> Decoder:
    c = ModelConfig(vocabulary=20, width=16, layers=2, heads=4, kv_heads=2, head_width=8, mlp_width=24, max_position=64)
    return Decoder(c.changed(**changes))


def only_rotary(model: nn.Module) -> Rotary:
    [rotary] = [module for module in model.modules() if isinstance(module, Rotary)]
    return rotary


def test_tables_are_not_in_the_state_dict() -> None:
    assert not [name for name in small_decoder().state_dict() if "cos" in name or "sin" in name]


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, lambda m: m.to(torch.bfloat16), nn.Module.double])
def test_tables_stay_float32_whatever_the_model_becomes(cast: Any) -> None:
    assert_table(only_rotary(cast(small_decoder())), 64)


def test_tables_are_made_again_after_to_empty() -> None:
    with torch.device("meta"):
        model = small_decoder()
    assert only_rotary(model).cos.is_meta
    model.to_empty(device="cpu")
    assert_table(only_rotary(model), 64)


def test_tables_are_made_again_after_meta_and_assign() -> None:
    weights = small_decoder().state_dict()
    with torch.device("meta"):
        model = small_decoder()
    model.load_state_dict(weights, assign=True)
    ids = torch.arange(6)[None]
    assert_close(model(ids), small_decoder()(ids), terms_of(width=32, layers=2))
    assert_table(only_rotary(model), 64)


@pytest.mark.parametrize(
    ("limit", "asked", "rows"),
    [
        (100, 100, 100),  # never past the limit
        (10_000, TABLE_ROWS, TABLE_ROWS),
        (10_000, TABLE_ROWS + 1, 2 * TABLE_ROWS),  # doubles
        (10_000, 3 * TABLE_ROWS, 3 * TABLE_ROWS),
        (5_000, 4_097, 4_097),
        (5_000, 2 * TABLE_ROWS + 1, 4_097),
        (3_000, TABLE_ROWS + 1, 3_000),  # doubles up to the limit
    ],
)
def test_tables_grow_up_to_the_limit(limit: int, asked: int, rows: int) -> None:
    rotary = Rotary(RopeConfig(), DH, limit)
    assert len(rotary.cos) == min(TABLE_ROWS, limit)
    cos, _ = rotary(torch.tensor([[0, asked - 1]]), asked)
    assert_table(rotary, rows)
    torch.testing.assert_close(cos[0, 1], rotary.cos[asked - 1])


# In the model


def test_layers_without_rope_do_not_turn() -> None:
    model = small_decoder(rope_layers=(True, False))
    ids = torch.arange(6)[None]
    _, call = model.begin(ids)
    assert call.rotations[0] is not None
    assert call.rotations[1] is None
    assert model.segments(1, 0, 6, 6) == ()


def test_two_rules_have_one_table_each() -> None:
    model = small_decoder(rope=RopeConfig(base=1e6), local_rope=RopeConfig(), window=4, window_layers=(True, False))
    assert [r.rope.base for r in model.modules() if isinstance(r, Rotary)] == [1e4, 1e6]
    [(local, _), (wide, _)] = [pair for pair in model.begin(torch.arange(6)[None])[1].rotations if pair is not None]
    torch.testing.assert_close(local[0, :, 1], (torch.arange(6) * 0.1).cos())  # 10,000^(−2/8) = 0.1
    torch.testing.assert_close(wide[0, :, 1], (torch.arange(6) * 1e6**-0.25).cos())


@pytest.mark.parametrize("qk_norm", ["none", "head"])
def test_a_model_re_expressed_in_the_other_pairing_scores_the_same_and_misread_it_breaks(qk_norm: QkNorm) -> None:
    """W_Q and W_K with their rows in the other order, and the gains of QK-norm with them, are the same model."""
    half = BASE.changed(qk_norm=qk_norm)
    adjacent = half.changed(rope=RopeConfig(pairing="adjacent"))
    own, other, misread = Decoder(half, seed=3), Decoder(adjacent, seed=3), Decoder(adjacent, seed=3)
    width = half.head_width
    order = torch.stack((torch.arange(width // 2), torch.arange(width // 2) + width // 2), dim=1).flatten()
    for block in range(half.layers):
        attn = other.block(block).attn
        for linear in (attn.query, attn.key):
            rows = linear.weight.detach().view(-1, width, half.width)
            linear.weight.data = rows[:, order].reshape(linear.weight.shape).clone()
    traces = [capture(model, random_ids(12)) for model in (own, other, misread)]
    for layer, head in ((0, 0), (2, 3)):
        scores = [readout.scores(trace[layer], head) for trace in traces]
        seen = np.isfinite(scores[0])
        assert np.allclose(scores[0][seen], scores[1][seen], atol=1e-4)
        assert np.abs(scores[0][seen] - scores[2][seen]).max() > 0.1
    logits = [model(random_ids(12)) for model in (own, other, misread)]
    assert float((logits[0] - logits[1]).detach().abs().max()) < 1e-4
    assert float((logits[0] - logits[2]).detach().abs().max()) > 0.1


def test_ntk_is_no_rule_for_a_single_plane() -> None:
    """As of the toy of lesson 7: its base would be stretched by growth^(2/0)."""
    names = [name for name, _, _ in other_rules(RopeConfig(width=2), 2, 64)]
    assert names == ["this model (default)", "none", "linear × 4", "YaRN × 4", "llama3 × 4"]
    assert "NTK × 4" in [name for name, _, _ in other_rules(RopeConfig(width=4), 4, 64)]
