"""Tiny random decoders that between them use every way of scoring, for tests that sweep over all of them."""

from __future__ import annotations

import torch

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder

BASE = ModelConfig(vocabulary=50, width=32, layers=3, heads=4, kv_heads=2, head_width=8, mlp_width=64, max_position=512)

CONFIGS: dict[str, ModelConfig] = {
    "plain": BASE,
    "qk_norm": BASE.changed(qk_norm="head"),
    "window": BASE.changed(window=4),
    "soft_cap": BASE.changed(score_cap=3.0),
    "sink": BASE.changed(sink=True),
    "partial_adjacent": BASE.changed(rope=RopeConfig(width=4, pairing="adjacent")),
    "some_layers_without_rope": BASE.changed(rope_layers=(True, False, True), qk_norm="head"),
    "norm_after_rope": BASE.changed(qk_norm="head", qk_norm_after_rope=True),
    "yarn": BASE.changed(rope=RopeConfig(scaling="yarn", factor=4.0, original_max_position=16)),
    "dynamic": BASE.changed(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=8)),
    "one_kv_head": BASE.changed(kv_heads=1),
}


def make(name: str, seed: int = 0) -> Decoder:
    """Build a model of the table, its sinks random so that they matter."""
    model = Decoder(CONFIGS[name], seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("sinks"):
            torch.nn.init.normal_(parameter, generator=generator)
    return model.eval()


def random_ids(tokens: int, batch: int = 1, vocabulary: int = 50, seed: int = 0) -> torch.Tensor:
    """Seeded token ids [B, T]."""
    return torch.randint(0, vocabulary, (batch, tokens), generator=torch.Generator().manual_seed(seed))
