"""Published sizes of models that people talk about, by the names lessons use. Sizes only: no weights, no files.

Each is what the model's own config file says. They serve for shapes, costs and frequencies; what a checkpoint really
holds is read from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ropewalk.model.decoder.config import ModelConfig, MoeConfig, RopeConfig

_LLAMA_31 = RopeConfig(
    base=500_000.0,
    scaling="llama3",
    factor=8.0,
    original_max_position=8192,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
)
_LLAMA_3_8B = ModelConfig(
    vocabulary=128_256,
    width=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    head_width=128,
    mlp_width=14_336,
    max_position=8192,
    rope=RopeConfig(base=500_000.0),
    norm_eps=1e-5,
)
_MINIMIND_ROPE = RopeConfig(base=1e6)

_MINIMIND_3 = ModelConfig(
    vocabulary=6400,
    width=768,
    layers=8,
    heads=8,
    kv_heads=4,
    head_width=96,
    mlp_width=2432,
    max_position=32_768,
    rope=_MINIMIND_ROPE,
    qk_norm="head",
    tied=True,
)

KNOWN: Final[Mapping[str, ModelConfig]] = {
    "llama3_8b": _LLAMA_3_8B,
    "llama31_8b": _LLAMA_3_8B.changed(max_position=131_072, rope=_LLAMA_31),
    "llama3_70b": _LLAMA_3_8B.changed(width=8192, layers=80, heads=64, mlp_width=28_672),
    "llama2_7b": ModelConfig(
        vocabulary=32_000,
        width=4096,
        layers=32,
        heads=32,
        kv_heads=32,
        head_width=128,
        mlp_width=11_008,
        max_position=4096,
        norm_eps=1e-5,
    ),
    "mistral_7b": ModelConfig(
        vocabulary=32_000,
        width=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_width=128,
        mlp_width=14_336,
        max_position=32_768,
        window=4096,
        norm_eps=1e-5,
    ),
    "qwen3_0_6b": ModelConfig(
        vocabulary=151_936,
        width=1024,
        layers=28,
        heads=16,
        kv_heads=8,
        head_width=128,
        mlp_width=3072,
        max_position=40_960,
        rope=RopeConfig(base=1e6),
        qk_norm="head",
        tied=True,
    ),
    "smollm2_135m": ModelConfig(
        vocabulary=49_152,
        width=576,
        layers=30,
        heads=9,
        kv_heads=3,
        head_width=64,
        mlp_width=1536,
        max_position=8192,
        rope=RopeConfig(base=1e5),
        norm_eps=1e-5,
        tied=True,
    ),
    "minimind3": _MINIMIND_3,
    "minimind3_moe": _MINIMIND_3.changed(moe=MoeConfig(experts=4, per_token=1, width=2432)),
    "minimind2_small": ModelConfig(
        vocabulary=6400,
        width=512,
        layers=8,
        heads=8,
        kv_heads=2,
        head_width=64,
        mlp_width=1408,
        max_position=8192,
        rope=_MINIMIND_ROPE,
        norm_eps=1e-5,
        tied=True,
    ),
    "ropewalk": ModelConfig(
        vocabulary=1024,
        width=128,
        layers=4,
        heads=8,
        kv_heads=2,
        head_width=16,
        mlp_width=384,
        max_position=512,
        qk_norm="head",
        tied=True,
    ),
}
"""``ropewalk`` is the bundled model's."""
