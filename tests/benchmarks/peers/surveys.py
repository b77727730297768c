"""What a survey takes, beside transformers' forward pass and beside loops over others' attention matrices.

Every contender runs the same texts in the same batches. The loops read three statistics (previous, sink, induction) of
the matrices that they are given, in the fewest steps; a survey reads the same three, or all that need one pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import watching
from ropewalk.model.runs.trace import record
from ropewalk.model.survey.recorder import SurveyRecorder
from ropewalk.model.survey.statistics import KINDS, SURVEYED, Text, distance_bins
from ropewalk.model.survey.tally import Doubles, Tally
from tests.benchmarks.peers.meters import PeakMemory, in_turn
from tests.benchmarks.peers.ours import WARM_UP, Numbers
from tests.benchmarks.peers.subject import subject
from tests.benchmarks.peers.theirs import bridge_of, llama_of

THREE = ("previous", "sink", "induction")
ONE_PASS = tuple(one.name for one in SURVEYED.values() if one.one_pass and one.name != "pairs")
COMMON = 1.3
"""Tokens come as often as words do, by Zipf's law with this exponent, so that many are repeated."""


def survey_speed(path: str | None, tokens: int, texts: int, times: int) -> Numbers:
    """All that need one pass, beside the SDPA forward of the same batch, with its logits and without; in turn."""
    model = subject(path, tokens)
    batch, peer = texts_of(model, texts, tokens), llama_of(model, "sdpa")
    ids = ids_of(batch)

    def forward() -> None:
        with torch.no_grad():
            peer(ids)

    def without_logits() -> None:
        with torch.no_grad():
            peer.model(ids)

    surveyed(model, texts_of(model, 1, WARM_UP), ONE_PASS)
    taken = in_turn([lambda: surveyed(model, batch, ONE_PASS), forward, without_logits], times)
    return _ratios(taken, "survey", "forward", "without_logits")


def survey_beside_eager(path: str | None, tokens: int, texts: int, times: int) -> Numbers:
    """Three statistics, in turn with a loop over transformers' eager attentions."""
    model = subject(path, tokens)
    batch, peer = texts_of(model, texts, tokens), llama_of(model, "eager")
    surveyed(model, batch[:1], THREE)
    taken = in_turn([lambda: surveyed(model, batch, THREE), lambda: of_eager(peer, batch)], times)
    return _ratios(taken, "survey", "loop")


def survey_beside_lens(path: str | None, tokens: int, texts: int, times: int) -> Numbers:
    """The same with TransformerLens' ``run_with_cache``."""
    model = subject(path, tokens)
    batch, bridge = texts_of(model, texts, tokens), bridge_of(model)
    surveyed(model, batch[:1], THREE)
    taken = in_turn([lambda: surveyed(model, batch, THREE), lambda: of_lens(bridge, batch)], times)
    return _ratios(taken, "survey", "loop")


def survey_memory(path: str | None, tokens: int, texts: int) -> Numbers:
    """Resident memory of a survey at most, for three statistics and for all."""
    model = subject(path, tokens)
    surveyed(model, texts_of(model, 1, WARM_UP), ONE_PASS)
    batch = texts_of(model, texts, tokens)
    with PeakMemory() as three:
        surveyed(model, batch, THREE)
    with PeakMemory() as every:
        surveyed(model, batch, ONE_PASS)
    return {"three": three.bytes, "all": every.bytes}


def survey_memory_of_eager(path: str | None, tokens: int, texts: int) -> Numbers:
    """What the loop over transformers' attentions needs at most."""
    model = subject(path, tokens)
    peer = llama_of(model, "eager")
    of_eager(peer, texts_of(model, 1, WARM_UP))
    with PeakMemory() as peak:
        of_eager(peer, texts_of(model, texts, tokens))
    return {"peak": peak.bytes}


def survey_memory_of_lens(path: str | None, tokens: int, texts: int) -> Numbers:
    """What the loop over TransformerLens' cache needs at most."""
    model = subject(path, tokens)
    bridge = bridge_of(model)
    of_lens(bridge, texts_of(model, 1, WARM_UP))
    with PeakMemory() as peak:
        of_lens(bridge, texts_of(model, texts, tokens))
    return {"peak": peak.bytes}


# ----------------------------------------------------------------------------------------------------------------------
# The contenders


def texts_of(model: Decoder, count: int, tokens: int) -> list[Text]:
    """Seeded texts of a length, with repeats, and with a tenth of the tokens of each kind."""
    draw = np.random.default_rng(tokens)
    ids = draw.zipf(COMMON, (count, tokens)) % model.config.vocabulary
    return [Text(at, row, {kind: draw.random(tokens) < 0.1 for kind in KINDS}) for at, row in enumerate(ids)]


def ids_of(texts: Sequence[Text]) -> Tensor:
    """[B, T]."""
    return torch.from_numpy(np.stack([text.ids for text in texts]))


def surveyed(model: Decoder, texts: Sequence[Text], names: Sequence[str]) -> Doubles:
    """The statistics of a batch, [K, L, H]."""
    c = model.config
    tally = Tally.empty(len(names), c.layers, c.heads, len(distance_bins(len(texts[0]))), 32)
    recorder = SurveyRecorder(tally, [SURVEYED[name] for name in names], texts, model)
    with watching(model, recorder.watches()):
        record(model, ids_of(texts), recorder, logits="none")
    return tally.mean


def of_eager(peer: Any, texts: Sequence[Text]) -> Doubles:
    """Three statistics of the attentions that transformers gives back, [K, L, H]."""
    ids = ids_of(texts)
    with torch.no_grad():
        attentions = peer(ids, output_attentions=True, logits_to_keep=1).attentions
    return _three_of(attentions, ids)


def of_lens(bridge: Any, texts: Sequence[Text]) -> Doubles:
    """The same of TransformerLens' cache."""
    ids = ids_of(texts)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(ids)
    layers = range(bridge.cfg.n_layers)
    return _three_of([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in layers], ids)


def _three_of(layers: Sequence[Tensor], ids: Tensor) -> Doubles:
    """[K, L, H] the means over texts, of weights [B, H, T, T] of each layer."""
    before = torch.nn.functional.pad(ids, (1, 0), value=-1)[:, None, :-1]  # the token before each key
    meant = (ids[:, :, None] == before).tril(-1)[:, None]  # [B, 1, T, T]
    some = meant.any(-1)
    found = []
    for w in layers:
        previous = w.diagonal(-1, -2, -1).mean(-1)
        induction = (w * meant).sum(-1).sum(-1) / some.sum(-1)
        found.append(torch.stack((previous, w[:, :, 1:, 0].mean(-1), induction)).nanmean(1))
    means: Doubles = torch.stack(found, 1).double().numpy()
    return means


def _ratios(taken: Sequence[Sequence[float]], ours: str, *others: str) -> Numbers:
    """Median seconds of each, and the median over turns of what each other took of ours."""
    names = (ours, *others)
    found = {name: statistics.median(seconds) for name, seconds in zip(names, taken, strict=True)}
    for name, seconds in zip(others, taken[1:], strict=True):
        found[f"{name}_ratio"] = statistics.median(b / a for a, b in zip(taken[0], seconds, strict=True))
    return found
