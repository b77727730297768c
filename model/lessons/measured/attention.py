"""Scores and weights of attention: of one head in a run, and what scaling does to all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ropewalk.model.decoder.intervention_contexts import changed_block
from ropewalk.model.decoder.interventions import NoCausalMask
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs, device_of, matrix_of, place_of
from ropewalk.model.lessons.values import Matrix, ModelName, Vector
from ropewalk.model.readings import readout
from ropewalk.model.readings.records import CellReading, RowReading

# ----------------------------------------------------------------------------------------------------------------------
# One head


def scores(runs: Runs, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
    """Scaled scores before the mask."""
    trace = runs.trace(model, prompt)
    rows = (readout.read_row(trace[layer], head, row).scores for row in range(trace.length))
    return tuple(tuple(row.tolist()) for row in rows)


def weights(runs: Runs, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
    """Weights after softmax."""
    return matrix_of(torch.tensor(readout.weights(runs.trace(model, prompt)[layer], head)))


def score(runs: Runs, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
    """One scaled score."""
    return _cell(runs, model, layer, head, query, key, prompt).score


def weight(runs: Runs, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
    """One weight."""
    return _cell(runs, model, layer, head, query, key, prompt).weight


def product(runs: Runs, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
    """One q·k, before the scale."""
    return _cell(runs, model, layer, head, query, key, prompt).dot


def _cell(runs: Runs, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str) -> CellReading:
    trace = runs.trace(model, prompt)
    return readout.read_cell(trace[layer], head, place_of(query, trace.length), place_of(key, trace.length))


def entropy(runs: Runs, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> float:
    """The entropy of a row of weights, in nats."""
    return _row(runs, model, layer, head, query, prompt).entropy


def strongest_key(runs: Runs, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> int:
    """The key that a row weighs most."""
    return int(_row(runs, model, layer, head, query, prompt).weights.argmax())


def _row(runs: Runs, model: ModelName, layer: int, head: int, query: int, prompt: str) -> RowReading:
    trace = runs.trace(model, prompt)
    return readout.read_row(trace[layer], head, place_of(query, trace.length))


def plane_shares(runs: Runs, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> Vector:
    """What each rotation plane adds to a scaled score."""
    trace = runs.trace(model, prompt)
    reading = readout.read_planes(trace[layer], head, place_of(query, trace.length), place_of(key, trace.length))
    if reading is None:
        raise LessonError(f"Layer {layer} of {model.name!r} does not rotate, so it has no planes.")
    return tuple(reading.shares.tolist())


def permuted_gap(runs: Runs, model: ModelName, order: Vector, prompt: str = "") -> float:
    """How far attention without a mask is from permuting with its input."""
    decoder, ids = runs.decoder(model), runs.ids(model, prompt)
    chosen = [int(place) for place in order]
    if sorted(chosen) != list(range(len(ids))):
        raise LessonError(f"The order {chosen} does not name each of {len(ids)} rows once.")
    block = decoder.block(0)

    def attended(tokens: Sequence[int]) -> Tensor:
        x, call = decoder.begin(torch.tensor([tokens], device=device_of(decoder)))
        out: Tensor = block.attn(block.attn_norm(x), call)
        return out[0]

    with torch.no_grad(), changed_block(block, 0, (NoCausalMask(),)):
        return float((attended([ids[place] for place in chosen]) - attended(ids)[chosen]).abs().max())


# ----------------------------------------------------------------------------------------------------------------------
# The scale: over the first layer's heads in a batch


def score_spread(runs: Runs, model: ModelName) -> float:
    """The standard deviation of all scaled scores, over batch, heads and cells."""
    every = range(runs.batch(model).length)
    square = _mean(runs, model, every, lambda reading: float((reading.scores**2).mean()))
    return math.sqrt(square - _mean(runs, model, every, lambda reading: float(reading.scores.mean())) ** 2)


def mean_entropy(runs: Runs, model: ModelName, row: int = -1) -> float:
    """The entropy in nats of a row of weights, meant over batch and heads; of all rows for −1."""
    rows = range(runs.batch(model).length) if row < 0 else (row,)
    return _mean(runs, model, rows, lambda reading: reading.entropy)


def peak(runs: Runs, model: ModelName, row: int) -> float:
    """The largest weight of a row, meant over batch and heads."""
    return _mean(runs, model, (row,), lambda reading: float(reading.weights.max()))


def slope(runs: Runs, model: ModelName, row: int) -> float:
    """How much a row's weights can still move, 1 − Σ w², meant over batch and heads; 0 for a one-hot row."""
    return _mean(runs, model, (row,), lambda reading: 1 - float((reading.weights**2).sum()))


def _mean(runs: Runs, model: ModelName, rows: Sequence[int], read: Callable[[RowReading], float]) -> float:
    """The mean of something of a row over batch, heads and rows."""
    found = [read(reading) for reading in _batch_rows(runs, model, rows)]
    return sum(found) / len(found)


def _batch_rows(runs: Runs, model: ModelName, rows: Sequence[int]) -> Iterator[RowReading]:
    trace = runs.batch(model)
    for batch in range(trace.batch):
        for head in range(trace.config.heads):
            for row in rows:
                yield readout.read_row(trace[0], head, place_of(row, trace.length), batch=batch)
