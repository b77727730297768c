"""The KV cache and the two branches of attention: that they change nothing, and what the cache takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.bounds import check_tokens
from ropewalk.model.lessons.runs import Runs, device_of
from ropewalk.model.lessons.values import ModelName
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import Trace, append
from ropewalk.model.runs.trace import capture as run


def cached_gap(
    runs: Runs, model: ModelName, prefill: int, steps: int, branch: str = "fused", padding: int = 0, seed: int = 0
) -> float:
    """How far the last row's logits, had through the cache, are from those of a full pass, on random tokens."""
    check_tokens(prefill, "The prefill of cached_gap")
    check_tokens(prefill + steps, "cached_gap")
    decoder, kind = runs.decoder(model), _branch(branch)
    ids, real = _random(decoder, prefill + steps, padding, seed)
    before = None if real is None else real[:, :prefill]
    trace = run(decoder, ids[:, :prefill], padding=before, branch=kind)
    for row in range(prefill, prefill + steps):
        trace = append(decoder, trace, ids[:, row].tolist())
    cached = trace.logits_of(trace.length - 1)
    assert cached is not None
    with torch.no_grad():
        full = decoder(ids, padding=real, branch=kind, last_only=True)[:, 0]
    return float((cached - full).abs().max())


def branch_gap(runs: Runs, model: ModelName, tokens: int, past: int = 0, padding: int = 0, seed: int = 0) -> float:
    """How far the fused branch's logits are from the explicit one's, on random tokens."""
    check_tokens(past + tokens, "branch_gap")
    decoder = runs.decoder(model)
    ids, real = _random(decoder, past + tokens, padding, seed)
    before = None if real is None else real[:, : max(past, 1)]
    logits = []
    for branch in ("fused", "explicit"):
        with torch.no_grad():
            if not past:
                logits.append(decoder(ids, padding=real, branch=_branch(branch)))
                continue
            cache = run(decoder, ids[:, :past], padding=before, branch=_branch(branch))
            logits.append(_continued(decoder, cache, ids[:, past:], real, branch))
    seen = logits[0].new_ones(logits[0].shape[:2], dtype=torch.bool) if real is None else real[:, past:]
    return float((logits[0] - logits[1])[seen].abs().max())


def value_gap(runs: Runs, model: ModelName, prompt: str = "") -> float:
    """The largest difference between V as projected and V as the cache keeps it."""
    trace = runs.trace(model, prompt)
    return max(
        float((runs.point(model, "v", layer, prompt) - trace[layer].values.tensor[0].float().cpu()).abs().max())
        for layer in range(trace.config.layers)
    )


def cache_bytes(runs: Runs, model: ModelName, prompt: str = "") -> float:
    """Bytes of the KV cache, counted from the tensors of a run."""
    return float(readout.read_cache(runs.trace(model, prompt)).bytes_measured)


def _branch(name: str) -> Any:
    if name not in ("fused", "explicit"):
        raise LessonError(f"The branches are fused and explicit, not {name!r}.")
    return name


def _random(decoder: Decoder, tokens: int, padding: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Random ids [B, T], and which are real: with padding there are two sequences, the second padded on the left."""
    draw = torch.Generator().manual_seed(seed)
    batch = 2 if padding else 1
    ids = torch.randint(decoder.config.vocabulary, (batch, tokens), generator=draw).to(device_of(decoder))
    if not padding:
        return ids, None
    real = torch.ones(batch, tokens, dtype=torch.bool, device=ids.device)
    real[1, :padding] = False
    return ids, real


def _continued(decoder: Decoder, trace: Trace, ids: Tensor, real: Tensor | None, branch: str) -> Tensor:
    """Logits of several tokens at once on a trace's rows."""
    cache = KvCache.holding([layer.keys for layer in trace], [layer.values for layer in trace])
    logits: Tensor = decoder(ids, cache=cache, padding=real, branch=_branch(branch))
    return logits
