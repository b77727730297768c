"""What Ropewalk takes: prefill with capture, pictures, thumbnails, decoding, memory. Each function is run alone."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import weight_bytes
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.progress import Steps, finished
from ropewalk.model.readings.thumbnails import atlas_steps
from ropewalk.model.readings.tiles import AT_ONCE, read_head, refine_steps
from ropewalk.model.runs.budget import chunk_rows, run_budget
from ropewalk.model.runs.memory import give_back
from ropewalk.model.runs.trace import Trace, append, capture, capture_steps
from tests.benchmarks.peers.meters import PeakMemory, alternating, copy_bandwidth, resident, seconds_of
from tests.benchmarks.peers.subject import SMOLLM2, one_layer_trace, prompt, subject

Numbers = dict[str, Any]
PIXELS = 512
WARM_UP = 8
PROMPT = 128
"""Tokens before the decode steps that are measured."""


def prefill(path: str | None, tokens: int, times: int) -> Numbers:
    """Plain fused forward, capture at once, and capture as the window does it, in turn; medians."""
    model = subject(path, tokens)
    ids, rows = prompt(model.config, tokens), chunk_rows(model.config, tokens)
    _plain(model, ids[:, :WARM_UP])
    slices: list[float] = []

    def streamed() -> None:
        slices[:] = slice_seconds(capture_steps(model, ids, logits="last", chunk=rows))

    plain, whole, pieces = alternating(
        [lambda: _plain(model, ids), lambda: capture(model, ids, logits="last"), streamed], times
    )
    return {"plain": plain, "capture": whole, "streamed": pieces, **_longest(slices)}


def prefill_memory(path: str | None, tokens: int) -> Numbers:
    """Resident memory of a plain forward, of capture at once, and of capture as the window does it."""
    model = subject(path, tokens)
    ids, rows = prompt(model.config, tokens), chunk_rows(model.config, tokens)
    _plain(model, ids[:, :WARM_UP])
    capture(model, ids[:, :WARM_UP])
    with PeakMemory() as plain:
        _plain(model, ids)
    before = resident()
    with PeakMemory() as whole:
        trace = capture(model, ids, logits="last")
    handle, kept = resident() - before, reserved_bytes(trace)
    del trace
    with PeakMemory() as pieces:
        finished(capture_steps(model, ids, logits="last", chunk=rows))
    budget = run_budget(model.config, tokens, "float32", logits="last", rows=rows)
    return {
        "plain": plain.bytes,
        "capture": whole.bytes,
        "streamed": pieces.bytes,
        "held": handle,
        "kept": kept,
        "needed": needed_bytes(model.config, tokens),
        "predicted": budget.total,
    }


def reserved_bytes(trace: Trace) -> int:
    """Bytes of the buffers that hold Q', K', V, lse and logits, with the room left in them for decode steps."""
    return sum(rows.reserved_bytes for rows in trace.rows)


def needed_bytes(config: ModelConfig, tokens: int) -> int:
    """Bytes of Q', K', V and lse of every layer and of one row of logits, in float32."""
    a_token = (config.heads + 2 * config.kv_heads) * config.head_width + config.heads
    return 4 * (config.layers * tokens * a_token + config.vocabulary)


def long_prefill(path: str | None, tokens: int) -> Numbers:
    """One long capture as the window does it: seconds, longest slice, memory, and whether its heads can be opened."""
    model = subject(path, tokens + 1)  # room for the step
    tokens = min(tokens, model.config.max_position - 1)
    ids, rows = prompt(model.config, tokens), chunk_rows(model.config, tokens)
    _plain(model, ids[:, :WARM_UP])
    began = time.perf_counter()
    with PeakMemory() as peak:
        slices: list[float] = []
        trace = finished(_timed(capture_steps(model, ids, logits="last", chunk=rows), slices))
    seconds = time.perf_counter() - began
    opened = seconds_of(lambda: read_head(trace[trace.config.layers - 1], 0, pixels=PIXELS))
    step = statistics.median(seconds_of(lambda: append(model, trace, 1)) for _ in range(3))
    predicted = run_budget(model.config, tokens, "float32", logits="last", rows=rows).total
    return {
        "seconds": seconds,
        "peak": peak.bytes,
        "kept": trace.kept_bytes,
        "predicted": predicted,
        "coarse": opened,
        "step": step,
        **_longest(slices),
    }


def pictures(path: str | None, tokens: int, times: int) -> Numbers:
    """A coarse picture, a full refinement, and a bare blocked product, exponential and maximum over the same half."""
    trace = one_layer_trace(SMOLLM2 if path is None else subject(path, 0).config, tokens)
    coarse = statistics.median(
        seconds_of(lambda: read_head(trace[0], 0, pixels=PIXELS, reduction="sampled")) for _ in range(5)
    )
    slices: list[float] = []

    def drawn(raw: bool) -> None:
        if tokens**2 <= AT_ONCE:
            slices[:] = [seconds_of(lambda: read_head(trace[0], 0, pixels=PIXELS, raw=raw))]
        else:
            slices[:] = slice_seconds(refine_steps(trace[0], 0, pixels=PIXELS, raw=raw))

    fastest = min((256, 512, 1024), key=lambda columns: seconds_of(lambda: bare(trace, columns)))
    all_scores, full, held_to = alternating(
        [lambda: drawn(True), lambda: drawn(False), lambda: bare(trace, fastest)], times
    )
    return {"coarse": coarse, "refined": full, "with_raw": all_scores, "bare": held_to, **_longest(slices)}


def bare(trace: Trace, columns: int, rows: int = 256) -> Tensor:
    """Blocked matmul + exp + max over the causal half of one head, as plainly and quickly as it can be written."""
    q = trace[0].queries.tensor[0, 0] * trace.specs[0].scale
    k = trace[0].keys.tensor[0, 0].T.contiguous()
    tokens, cell = len(q), max(1, len(q) // PIXELS)
    out = torch.zeros(-(-tokens // cell), -(-tokens // cell))
    storage = torch.empty(rows * columns)
    for start in range(0, tokens, rows):
        stop = min(start + rows, tokens)
        for left in range(0, stop, columns):
            right = min(left + columns, tokens)
            block = storage[: (stop - start) * (right - left)].view(stop - start, right - left)
            torch.mm(q[start:stop], k[:, left:right], out=block).exp_()
            if (stop - start) % cell or (right - left) % cell:
                continue
            pooled = block.view(-1, cell, right - left).amax(1).view(-1, (right - left) // cell, cell).amax(2)
            out[start // cell : stop // cell, left // cell : right // cell] = pooled
    return out


def heads(path: str | None, tokens: int) -> Numbers:
    """Switching to a head, and thumbnails with scores of all of them."""
    model = subject(path, tokens)
    trace = capture(model, prompt(model.config, tokens), logits="last")
    layers = range(trace.config.layers)
    switch = statistics.median(seconds_of(partial(read_head, trace[layer], 0, pixels=PIXELS)) for layer in layers)
    slices: list[float] = []
    began = time.perf_counter()
    finished(_timed(atlas_steps(trace), slices))
    return {"switch": switch, "atlas": time.perf_counter() - began, **_longest(slices)}


def decoding(path: str | None, steps: int, times: int) -> Numbers:
    """Tokens a second with capture, and the limit that memory sets."""
    model = subject(path, PROMPT + steps)
    start = capture(model, prompt(model.config, PROMPT), logits="last")
    generate(model, start, 2)
    weights = list(model.parameters())  # a tied matrix once

    def read_once() -> None:
        with torch.no_grad():
            for weight in weights:
                weight.sum()

    taken, summed = alternating([lambda: generate(model, start, steps), read_once], times)
    bandwidth, read = copy_bandwidth(), weight_bytes(model.config, "float32")
    return {
        "tokens_a_second": steps / taken,
        "weights": read,
        "bandwidth": bandwidth,
        "limit": bandwidth / read,
        "sum": summed,
        "step": taken / steps,
    }


def generate(model: Decoder, trace: Trace, steps: int) -> Trace:
    """Decode greedily, keeping everything."""
    for _ in range(steps):
        logits = trace.logits_of(trace.length - 1)
        assert logits is not None
        trace = append(model, trace, int(logits[0].argmax()))
    return trace


def many_runs(path: str | None, runs: int) -> Numbers:
    """Resident memory after each of many runs of mixed lengths, given back after each as the window does."""
    model = subject(path, 512)
    lengths = [16 + 48 * (number * 7 % 10) for number in range(runs)]
    after = []
    for tokens in lengths:
        trace = capture(model, prompt(model.config, tokens), logits="last")
        read_head(trace[0], 0)
        append(model, trace, 1)
        del trace
        give_back()
        after.append(resident())
    return {"after_ten": after[min(9, runs - 1)], "most_later": max(after[min(9, runs - 1) :]), "runs": runs}


def _plain(model: Decoder, ids: Tensor) -> Tensor:
    with multiplying(model.products):
        logits: Tensor = model(ids, last_only=True)
    return logits


def slice_seconds(steps: Steps[Any]) -> list[float]:
    """How long each slice of a computation took."""
    slices: list[float] = []
    finished(_timed(steps, slices))
    return slices


def _timed(steps: Steps[Any], slices: list[float]) -> Steps[Any]:
    while True:
        began = time.perf_counter()
        try:
            point = next(steps)
        except StopIteration as stop:
            slices.append(time.perf_counter() - began)
            return stop.value
        slices.append(time.perf_counter() - began)
        yield point


def _longest(slices: list[float]) -> Numbers:
    ordered = sorted(slices)
    return {
        "slices": len(ordered),
        "slice_median": ordered[len(ordered) // 2],
        "slice_95": ordered[int(len(ordered) * 0.95)],
        "slice_longest": ordered[-1],
    }
