"""What a config refuses, with both numbers in the sentence, and what it answers about layers and heads."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ropewalk.model.codec import CodecError, from_plain, read_json, to_json, to_plain
from ropewalk.model.decoder.config import ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.errors import ConfigError, PositionError

SIX_LAYERS: dict[str, Any] = {
    "vocabulary": 40,
    "width": 24,
    "layers": 6,
    "heads": 6,
    "kv_heads": 2,
    "head_width": 8,
    "mlp_width": 32,
    "max_position": 100,
}


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**(SIX_LAYERS | changes))


# What is wrong, and what the sentence must name.
REFUSED_MODELS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"heads": 6, "kv_heads": 4}, ("6 query heads", "4 kv heads", "H % Hkv")),
    ({"heads": 4, "kv_heads": 8}, ("4 query heads", "8 kv heads")),
    *[
        ({name: bad}, (name, str(bad), "at least 1"))
        for name in ("vocabulary", "width", "layers", "heads", "kv_heads", "head_width", "mlp_width", "max_position")
        for bad in (0, -3, 2.5, None)
    ],
    ({"head_width": 7}, ("rotary width is 7", "even")),
    ({"rope": RopeConfig(width=10)}, ("rotary width is 10", "only 8 features")),
    ({"local_rope": RopeConfig(width=10), "window": 4}, ("rotary width is 10", "only 8 features")),
    ({"rope": RopeConfig(frequencies=(1.0, 0.1, 0.01))}, ("frequencies has 3", "width of 8", "4 planes")),
    ({"rope": RopeConfig(width=4, frequencies=(1.0,))}, ("frequencies has 1", "width of 4", "2 planes")),
    (
        {
            "rope": RopeConfig(
                scaling="longrope", original_max_position=8, short_factor=(1.0,) * 3, long_factor=(2.0,) * 4
            )
        },
        ("short_factor has 3", "4 planes"),
    ),
    (
        {
            "rope": RopeConfig(
                scaling="longrope", original_max_position=8, short_factor=(1.0,) * 4, long_factor=(2.0,) * 5
            )
        },
        ("long_factor has 5", "4 planes"),
    ),
    ({"rope": RopeConfig(width=2, scaling="dynamic", original_max_position=8)}, ("width is 2", "at least 4")),
    ({"rope_layers": (True,) * 5}, ("rope_layers names 5", "has 6")),
    ({"window": 4, "window_layers": (True,) * 7}, ("window_layers names 7", "has 6")),
    ({"moe": MoeConfig(2, 1, 8, layers=(True,))}, ("moe.layers names 1", "has 6")),
    ({"window": 0}, ("sliding window is 0", "at least 1")),
    ({"score_cap": 0.0}, ("score cap is 0.0", "above 0")),
    ({"score_cap": math.nan}, ("score cap is nan", "finite")),
    ({"logit_cap": -30.0}, ("logit cap is -30.0", "above 0")),
    ({"norm_eps": -1e-6}, ("-1e-06", "at least 0")),
    ({"norm_eps": math.nan}, ("nan", "at least 0")),
    ({"position": "alibi"}, ("'alibi'", "sinusoidal")),
    ({"norm": "batch"}, ("'batch'", "rms, layer")),
    ({"norm_place": "middle"}, ("'middle'", "pre, post, both")),
    ({"activation": "swish"}, ("'swish'", "silu")),
    ({"qk_norm": "l2"}, ("'l2'", "heads")),
    ({"qk_norm_kind": "l2"}, ("'l2'", "rms, layer")),
    ({"mlp": "swiglu"}, ("'swiglu'", "gated, plain")),
]


@pytest.mark.parametrize(("changes", "named"), REFUSED_MODELS, ids=[str(changes) for changes, _ in REFUSED_MODELS])
def test_a_model_that_contradicts_itself_is_refused_with_both_numbers(
    changes: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as refusal:
        config(**changes)
    for words in named:
        assert words in refusal.value.sentence


REFUSED_ROPES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"width": 7}, ("rotary width is 7", "even")),
    ({"width": 0}, ("rotary width is 0", "at least 2")),
    ({"base": 0.0}, ("base is 0.0", "above 0")),
    ({"base": math.inf}, ("base is inf", "finite")),
    ({"scaling": "linear", "factor": -2.0}, ("factor is -2.0", "above 0")),
    ({"attention_factor": 0.0}, ("attention factor is 0.0", "above 0")),
    ({"pairing": "third"}, ("'third'", "half, adjacent")),
    ({"scaling": "ntk"}, ("'ntk'", "dynamic")),
    ({"scaling": "linear", "factor": 2.0, "frequencies": (1.0,)}, ("'linear'", "frequencies")),
    ({"scaling": "yarn", "factor": 2.0, "original_max_position": 0}, ("original_max_position is 0", "at least 1")),
    *[
        ({"scaling": scaling, "factor": 2.0}, (scaling, "original_max_position"))
        for scaling in ("dynamic", "yarn", "llama3")
    ],
    ({"scaling": "longrope", "original_max_position": 8, "short_factor": (1.0,)}, ("longrope", "long_factor")),
    ({"scaling": "longrope", "original_max_position": 8, "long_factor": (1.0,)}, ("longrope", "short_factor")),
    ({"scaling": "longrope", "long_factor": (1.0,), "short_factor": (1.0,)}, ("longrope", "original_max_position")),
    (
        {"scaling": "llama3", "original_max_position": 8, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
        ("low_freq_factor 4.0", "high_freq_factor 4.0"),
    ),
]


@pytest.mark.parametrize(("fields", "named"), REFUSED_ROPES, ids=[str(fields) for fields, _ in REFUSED_ROPES])
def test_a_rotary_rule_that_cannot_be_followed_is_refused(fields: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        RopeConfig(**fields)
    for words in named:
        assert words in refusal.value.sentence


REFUSED_MIXTURES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"per_token": 5}, ("5 experts", "there are 4")),
    ({"per_token": 0}, ("0 experts", "there are 4")),
    ({"experts": 0}, ("experts is 0", "at least 1")),
    ({"width": -8}, ("width is -8", "at least 1")),
    ({"scoring": "tanh"}, ("'tanh'", "softmax_chosen")),
]


@pytest.mark.parametrize(("fields", "named"), REFUSED_MIXTURES, ids=[str(fields) for fields, _ in REFUSED_MIXTURES])
def test_a_mixture_that_cannot_be_routed_is_refused(fields: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        MoeConfig(**({"experts": 4, "per_token": 2, "width": 8} | fields))
    for words in named:
        assert words in refusal.value.sentence


def test_an_odd_head_is_fine_where_nothing_turns() -> None:
    assert config(head_width=7, position="none").rotary_width(0) == 0
    assert config(head_width=7, rope=RopeConfig(width=4)).rotary_width(0) == 4


def test_a_position_past_the_limit_is_refused_with_both_numbers() -> None:
    config().check_position(99)
    with pytest.raises(PositionError, match=r"Position 100 was asked for.* 99 .*100 tokens"):
        config().check_position(100)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "reads"),
    [(6, 6, [0, 1, 2, 3, 4, 5]), (6, 3, [0, 0, 1, 1, 2, 2]), (6, 2, [0, 0, 0, 1, 1, 1]), (6, 1, [0] * 6)],
)
def test_consecutive_query_heads_share_a_kv_head(heads: int, kv_heads: int, reads: list[int]) -> None:
    c = config(heads=heads, kv_heads=kv_heads)
    assert [c.kv_head_of(head) for head in range(heads)] == reads
    assert c.group == heads // kv_heads


def test_scale_is_one_over_root_dh_unless_given() -> None:
    assert config(head_width=16).scale == 0.25
    assert config(score_scale=0.0625).scale == 0.0625  # Gemma 2's query_pre_attn_scalar 256


def test_layers_follow_their_lists() -> None:
    slow, fast = RopeConfig(base=1e6, width=4), RopeConfig(base=1e4)
    c = config(
        rope=slow,
        local_rope=fast,
        window=16,
        window_layers=(True, True, False, True, True, False),
        rope_layers=(True, False, True, True, True, True),
        moe=MoeConfig(4, 1, 8, layers=(False, True) * 3),
    )
    assert [c.window_of(layer) for layer in range(6)] == [16, 16, None, 16, 16, None]
    assert [c.rope_of(layer) for layer in range(6)] == [fast, None, slow, fast, fast, slow]
    assert [c.rotary_width(layer) for layer in range(6)] == [8, 0, 4, 8, 8, 4]
    assert [c.is_moe(layer) for layer in range(6)] == [False, True] * 3


def test_only_dynamic_and_longrope_depend_on_the_length() -> None:
    lists: dict[str, Any] = {"original_max_position": 8, "short_factor": (1.0,), "long_factor": (2.0,)}
    rules: list[Any] = ["default", "linear", "dynamic", "yarn", "llama3", "longrope"]
    depends = {rule: RopeConfig(scaling=rule, factor=2.0, **lists).depends_on_length for rule in rules}
    assert depends == {rule: rule in ("dynamic", "longrope") for rule in rules}


def test_a_config_survives_json() -> None:
    c = config(
        rope=RopeConfig(frequencies=(1.0, 0.5, 0.25, 0.125), pairing="adjacent"),
        rope_layers=(True, False) * 3,
        moe=MoeConfig(4, 2, 8, layers=(False, True) * 3),
        score_cap=50.0,
    )
    assert from_plain(ModelConfig, read_json(to_json(c))) == c


@pytest.mark.parametrize("place", ["", "rope", "moe"])
def test_an_unknown_field_is_refused_by_name(place: str) -> None:
    data: dict[str, Any] = to_plain(config(moe=MoeConfig(2, 1, 8)))
    (data[place] if place else data)["rotations"] = 3
    with pytest.raises(CodecError, match="rotations is unknown here"):
        from_plain(ModelConfig, data)


def test_a_changed_copy_is_checked_again() -> None:
    assert config().changed(kv_heads=3).group == 2
    with pytest.raises(ConfigError, match="5 kv heads"):
        config().changed(kv_heads=5)
