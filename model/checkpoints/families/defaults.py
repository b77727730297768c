"""Sizes that transformers takes for fields which a config leaves out altogether, by family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "max_position_embeddings")  # fmt: skip
GPT_NAMES = ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions")

_SIZES: Mapping[str, tuple[int | None, ...]] = {
    "llama": (32_000, 4_096, 11_008, 32, 32, None, 2_048),
    "mistral": (32_000, 4_096, 14_336, 32, 32, 8, 131_072),
    "ministral": (32_000, 4_096, 14_336, 32, 32, 8, 131_072),
    "mixtral": (32_000, 4_096, 14_336, 32, 32, 8, 131_072),
    "qwen2": (151_936, 4_096, 22_016, 32, 32, None, 32_768),
    "qwen2_moe": (151_936, 2_048, 5_632, 24, 16, None, 32_768),
    "qwen3": (151_936, 4_096, 22_016, 32, 32, None, 32_768),
    "qwen3_moe": (151_936, 2_048, 6_144, 24, 32, 4, 32_768),
    "gemma": (256_000, 3_072, 24_576, 28, 16, None, 8_192),
    "gemma2": (256_000, 2_304, 9_216, 26, 8, 4, 8_192),
    "vaultgemma": (256_000, 2_304, 9_216, 26, 8, 4, 8_192),
    "gemma3_text": (262_208, 2_304, 9_216, 26, 8, 4, 131_072),
    "phi3": (32_064, 3_072, 8_192, 32, 32, None, 4_096),
    "phi": (51_200, 2_048, 8_192, 24, 32, None, 2_048),
    "persimmon": (262_144, 4_096, 16_384, 36, 64, None, 16_384),
    "olmo": (50_304, 4_096, 11_008, 32, 32, None, 2_048),
    "olmo2": (50_304, 4_096, 11_008, 32, 32, None, 2_048),
    "olmo3": (50_304, 4_096, 11_008, 32, 32, None, 2_048),
    "olmoe": (50_304, 2_048, 2_048, 16, 16, None, 4_096),
    "smollm3": (128_256, 2_048, 11_008, 36, 16, 4, 32_768),
    "glm": (151_552, 4_096, 13_696, 40, 32, 2, 131_072),
    "glm4": (151_552, 4_096, 13_696, 40, 32, 2, 131_072),
    "gpt_neox": (50_432, 6_144, 24_576, 44, 64, None, 2_048),
    "stablelm": (50_304, 2_560, 6_912, 32, 32, None, 4_096),
    "granite": (32_000, 4_096, 11_008, 32, 32, None, 2_048),
    "granitemoe": (32_000, 4_096, 11_008, 32, 32, None, 2_048),
    "granitemoeshared": (32_000, 4_096, 11_008, 32, 32, None, 2_048),
    "cohere": (256_000, 8_192, 22_528, 40, 64, None, 8_192),
    "cohere2": (256_000, 8_192, 22_528, 40, 64, None, 8_192),
    "starcoder2": (49_152, 3_072, 12_288, 30, 24, 2, 4_096),
    "exaone4": (102_400, 4_096, 16_384, 32, 32, None, 2_048),
    "ernie4_5": (103_424, 1_024, 3_072, 18, 16, 2, 131_072),
    "hunyuan_v1_dense": (290_943, 4_096, 11_008, 32, 32, None, 2_048),
    "hunyuan_v1_moe": (290_943, 4_096, 11_008, 32, 32, None, 2_048),
    "arcee": (32_000, 2_560, 18_432, 32, 32, None, 4_096),
    "seed_oss": (155_136, 4_096, 27_648, 64, 80, 8, 524_288),
    "nemotron": (256_000, 6_144, 24_576, 32, 48, None, 4_096),
    "jais2": (150_272, 3_328, 26_624, 32, 26, None, 8_192),
    "gpt_oss": (201_088, 2_880, 2_880, 36, 64, 8, 131_072),
    "helium": (48_000, 2_560, 7_040, 24, 20, None, 4_096),
    "apertus": (131_072, 4_096, 14_336, 32, 32, None, 65_536),
    "internlm3": (128_512, 4_096, 10_240, 48, 32, 2, 32_768),
    "iquestcoder": (76_800, 5_120, 27_648, 80, 40, 8, 131_072),
    "mellum": (98_304, 2_304, 7_168, 28, 32, 4, 131_072),
    "falcon": (65_024, 4_544, None, 32, 71, None, 2_048),
}
"""Sizes in the order of ``NAMES``; None for what follows from the others."""

_GPT_SIZES: Mapping[str, tuple[int, ...]] = {
    "gptj": (50_400, 4_096, 28, 16, 2_048),
    "codegen": (50_400, 4_096, 28, 16, 2_048),
    "gpt2": (50_257, 768, 12, 12, 1_024),
}
"""GPT-2 and what is spelled like it."""


def defaults_of(family: str) -> Mapping[str, Any]:
    """What is taken for a family's fields, by name; kv heads only where they are fewer than query heads."""
    named = dict(zip(NAMES, _SIZES.get(family, ()), strict=False)) | dict(
        zip(GPT_NAMES, _GPT_SIZES.get(family, ()), strict=False)
    )
    return {name: size for name, size in named.items() if size is not None}
