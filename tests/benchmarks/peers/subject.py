"""What is measured: a model from a checkpoint, or one with the shapes of SmolLM2-135M and random weights.

What a run costs does not depend on the weights, so that the shapes are enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.decoder import product_choice
from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.progress import finished
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace, capture

SMOLLM2 = KNOWN["smollm2_135m"]
"""SmolLM2-135M (huggingface.co/HuggingFaceTB/SmolLM2-135M); its limit of 8,192 is raised where a run is longer."""


def subject(path: str | None, tokens: int) -> Decoder:
    """The model to measure with, able to run ``tokens``."""
    if path is not None:
        return _opened(path)
    return _random(max(SMOLLM2.max_position, tokens))


@lru_cache(1)
def _opened(path: str) -> Decoder:
    return _settled(open_checkpoint(path).model.pack())


@lru_cache(1)
def _random(positions: int) -> Decoder:
    """One is made for all measurements of a process."""
    return _settled(Decoder(SMOLLM2.changed(max_position=positions)).eval().pack())


def _settled(model: Decoder) -> Decoder:
    """Multiplying by what is quickest here, or by what ``ROPEWALK_PRODUCTS`` names."""
    finished(product_choice.settle_steps(model))
    return model


def prompt(config: ModelConfig, tokens: int) -> Tensor:
    """Seeded random ids [1, T]."""
    generator = torch.Generator().manual_seed(tokens)
    return torch.randint(0, config.vocabulary, (1, tokens), generator=generator)


def one_layer_trace(config: ModelConfig, tokens: int) -> Trace:
    """A run of one layer whose Q', K' and V are random and whose lse is theirs, to draw pictures of."""
    small = config.changed(layers=1, vocabulary=64, mlp_width=64, max_position=max(tokens, 8))
    short = capture(Decoder(small), [1, 2, 3])
    generator = torch.Generator().manual_seed(0)

    def rows(heads: int) -> Rows:
        return Rows.of(torch.randn(1, heads, tokens, config.head_width, generator=generator))

    queries, keys = rows(config.heads), rows(config.kv_heads)
    # of random vectors the scores are normal, so that a row's lse is close to ln(row) + ½
    counts = torch.arange(1, tokens + 1).float()
    lse = (counts.log() + 0.5).expand(1, config.heads, tokens).contiguous()
    positions = torch.arange(tokens)[None]
    return replace(
        short,
        layers=(LayerTrace(short[0].spec, positions, None, queries, keys, keys, Rows.of(lse)),),
        positions=positions,
        ids=None,
        prefill=tokens,
        logits=None,
    )
