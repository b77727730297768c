"""A run of one or several prompts, and everything that can be read of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.errors import MemoryBudgetError, TraceError
from ropewalk.model.notebooks.source import Source
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace
from ropewalk.model.runs.trace_file import load_trace, save_trace

BUDGET = 2 << 30
"""Bytes that one answer may take unless the caller says otherwise."""


class Run:
    """Some prompts as a model ran them.

    Attributes
    ----------
    trace
        Q', K', V and log-sum-exp of every layer, and the logits.
    model
        What made it, or stands for that.
    texts
        The prompts, where they were texts.
    """

    def __init__(
        self, trace: Trace, model: Source, texts: Sequence[str] = (), strings: Sequence[str] | None = None
    ) -> None:
        self.trace = trace
        self.model = model
        self.texts = tuple(texts)
        self._strings = strings

    def __len__(self) -> int:
        """B, the prompts."""
        return self.trace.batch

    def __iter__(self) -> Iterator[Run]:
        """Each prompt on its own."""
        return (self[prompt] for prompt in range(len(self)))

    def __getitem__(self, prompt: int) -> Run:
        """One prompt on its own, without its padding; nothing is computed again.

        Raises
        ------
        TraceError
            When there is no such prompt.
        """
        self.check_prompt(prompt)
        texts = self.texts[prompt : prompt + 1]
        return Run(_alone(self.trace, prompt), self.model, texts, self._strings if len(self) == 1 else None)

    def check_prompt(self, prompt: int) -> None:
        """Refuse a prompt that is not there."""
        if not 0 <= prompt < len(self):
            raise TraceError(f"Prompt {prompt} was asked for, but this run has {len(self)}, counted from 0.")

    @property
    def ids(self) -> Tensor:
        """[B, T] token ids."""
        if self.trace.ids is None:
            raise TraceError("This run was given vectors, not tokens, so it has no ids.")
        return self.trace.ids

    @property
    def tokens(self) -> list[list[str]]:
        """The tokens of each prompt as a person reads them, padding left out."""
        if self._strings:
            return [list(self._strings)]
        if self.trace.ids is None:
            return [[f"[{row}]" for row in range(self.trace.length)]] * len(self)
        real = self.trace.padding
        rows = [self.trace.ids[one] if real is None else self.trace.ids[one][real[one]] for one in range(len(self))]
        tokenizer = self.model.tokenizer
        if tokenizer is None:
            return [[str(token) for token in row.tolist()] for row in rows]
        return [[token.text for token in tokenizer.describe(row.tolist())] for row in rows]

    @property
    def logits(self) -> Tensor:
        """[B, n, V] of the rows whose logits were kept: all of up to 1,024 tokens."""
        if self.trace.logits is None:
            raise TraceError('This run kept no logits; capture it with logits="all" or "last".')
        return self.trace.logits.tensor[:, 0]

    # Attention --------------------------------------------------------------------------------------------------------

    def patterns(self, layer: int | None = None, *, budget: int = BUDGET) -> Tensor:
        """Attention weights after the softmax, float32, 0 where masked.

        Parameters
        ----------
        layer
            One layer alone.
        budget
            Bytes that they may take.

        Returns
        -------
        Tensor
            [B, L, H, T, T], or [B, H, T, T] of one layer.

        Raises
        ------
        MemoryBudgetError
            When they would take more; ask for a layer, or read rows of ``run.trace``.
        """
        return self._matrices("weights", layer, budget)

    def scores(self, layer: int | None = None, *, budget: int = BUDGET) -> Tensor:
        """Scaled, soft-capped scores before the softmax in the same shapes, −inf where masked."""
        return self._matrices("scores", layer, budget)

    def _matrices(self, kind: str, layer: int | None, budget: int) -> Tensor:
        chosen = list(self.trace) if layer is None else [self.trace[layer]]
        batch, heads, length = len(self), self.trace.config.heads, self.trace.length
        needed = 4 * batch * len(chosen) * heads * length**2
        if needed > budget:
            raise MemoryBudgetError(
                f"The {kind} of {len(chosen)} layers would take {format_bytes(needed)} for {length} tokens, but "
                f"the budget is {format_bytes(budget)}; ask for one layer, or for some rows of run.trace[layer]."
            )
        found = torch.empty((batch, len(chosen), heads, length, length), device=self.trace.positions.device)
        for place, one in enumerate(chosen):
            for prompt in range(batch):
                read = one.weights if kind == "weights" else one.scores
                found[prompt, place] = read(batch=prompt)
        return found if layer is None else found[:, 0]

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, pattern: bool = False) -> None:
        """Write a trace file; ``pattern`` adds queries and keys before RoPE, scores and weights."""
        strings = self.tokens[0] if len(self) == 1 else ()
        decoder = self.model.decoder if pattern else None
        save_trace(self.trace, path, strings=strings, model=decoder, pattern=pattern)


def load(path: str | Path, *, model: Source | None = None) -> Run:
    """Read a run back that was saved.

    Parameters
    ----------
    model
        The model that made it, for what a trace does not keep.
    """
    file = load_trace(path)
    return Run(file.trace, model or Source(), strings=file.strings or None)


def _alone(trace: Trace, prompt: int) -> Trace:
    """One prompt of a trace; where its padding comes after it or before it, without that."""
    one = slice(prompt, prompt + 1)
    rows, padding = slice(0, trace.length), None if trace.padding is None else trace.padding[one]
    if padding is not None:
        real = padding[0].nonzero().flatten()
        first, stop = int(real[0]), int(real[-1]) + 1
        if first == 0 and bool(padding[0, :stop].all()):
            rows, padding = slice(0, stop), None
    return replace(
        trace,
        layers=tuple(_layer_alone(layer.at(rows.stop), one, padding) for layer in trace),
        ids=None if trace.ids is None else trace.ids[one, rows],
        positions=trace.positions[one, rows],
        padding=padding,
        prefill=min(trace.prefill, rows.stop),
        logits=_logits_alone(trace, one, rows.stop),
        earlier=None,
    )


def _layer_alone(layer: LayerTrace, one: slice, padding: Tensor | None) -> LayerTrace:
    rows = (Rows.of(rows.tensor[one]) for rows in layer.rows)
    return LayerTrace(layer.spec, layer.positions[one], padding, *rows)


def _logits_alone(trace: Trace, one: slice, length: int) -> Rows | None:
    """The logits of one prompt, None where none of its rows was kept."""
    kept = max(length - trace.first_logit_row, 0)
    return None if trace.logits is None or not kept else Rows.of(trace.logits.tensor[one, :, :kept])
