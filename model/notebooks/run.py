"""A run of one or several prompts, and everything that can be read of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.errors import HookError, MemoryBudgetError, TraceError
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.notebooks.pictures import coloured, matrix, mosaic
from ropewalk.model.notebooks.prompts import strings_of, token_id
from ropewalk.model.notebooks.readings import Attribution, Head, HeadScores, Lens, head_names, layer_names
from ropewalk.model.notebooks.source import Source
from ropewalk.model.readings.attribution import direct_attribution, head_parts
from ropewalk.model.readings.lens import logit_lens
from ropewalk.model.readings.next_token import draw
from ropewalk.model.readings.patterns import formulas_of, head_scores
from ropewalk.model.readings.records import Reduction, Sampling
from ropewalk.model.readings.tiles import read_head
from ropewalk.model.runs.alone import alone
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace, replay
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import NOTHING_TOLD, About
from ropewalk.model.trace_files.trace_file import candidates_of, load_trace, save_trace

BUDGET = 2 << 30
"""Bytes that one answer may take unless the caller says otherwise."""
THUMBNAIL = 24
"""Pixels along the picture of one head among all."""
EXACT_UP_TO = 256
"""Rows of a run whose small pictures look at every cell."""
WIDEST = 960
SHOWN_TOKENS = 60
"""Pixels that all of them take at most, and tokens that are written under them."""


class Run:
    """Some prompts as a model ran them.

    Attributes
    ----------
    trace
        Q', K', V and log-sum-exp of every layer, and the logits.
    model
        What made it, or stands for that.
    prompts
        What was asked for, where it was texts.
    about
        What a file tells of the run: its tokens, the text that a template made, how its decoded tokens were drawn.
    """

    def __init__(
        self, trace: Trace, model: Source, prompts: Sequence[Prompt] = (), about: About = NOTHING_TOLD
    ) -> None:
        self.trace = trace
        self.model = model
        self.prompts = tuple(prompts)
        self.about = about

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
        prompt = self.check_prompt(prompt)
        about = self.about if len(self) == 1 else replace(self.about, tokens=(), prompt=None, rendered="")
        return Run(alone(self.trace, prompt), self.model, self.prompts[prompt : prompt + 1], about)

    def check_prompt(self, prompt: int) -> int:
        """Refuse a prompt that is not there; returns its number."""
        number = whole(prompt)
        if number is None or not 0 <= number < len(self):
            raise TraceError(f"Prompt {prompt!r:.40} was asked for, but this run has {len(self)}, counted from 0.")
        return number

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompts, where they were texts."""
        return tuple(prompt.text for prompt in self.prompts)

    @property
    def ids(self) -> Tensor:
        """[B, T] token ids."""
        if self.trace.ids is None:
            raise TraceError("This run was given vectors, not tokens, so it has no ids.")
        return self.trace.ids

    @property
    def tokens(self) -> list[list[str]]:
        """The tokens of each prompt as a person reads them, padding left out."""
        if self.about.tokens:
            return [[token.text for token in self.about.tokens]]
        if self.trace.ids is None:
            return [[f"[{row}]" for row in range(self.trace.length)]] * len(self)
        real = self.trace.padding
        rows = [self.trace.ids[one] if real is None else self.trace.ids[one][real[one]] for one in range(len(self))]
        return [strings_of(row.tolist(), self.model.tokenizer) for row in rows]

    @property
    def logits(self) -> Tensor:
        """[B, n, V] of the rows whose logits were kept: all of up to 1,024 tokens."""
        self.model.check_logits()
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
        chosen = list(self.trace) if layer is None else [self._layer(layer)]
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

    def head(self, layer: int, head: int, *, prompt: int = 0) -> Head:
        """One head of one prompt, with its tokens."""
        one = self[prompt]
        found = one._layer(layer)
        number = whole(head)
        if number is None:
            raise TraceError(f"Head {head!r:.40} was asked for, but heads are numbers from 0.")
        found.check_head(number)
        pattern, scores = (read(number).cpu().numpy() for read in (found.weights, found.scores))
        return Head(found.spec.layer, number, pattern, scores, one.tokens[0])

    def head_scores(self, names: Collection[str] | None = None) -> HeadScores:
        """Statistics of every head, name → [L, H]: ``previous``, ``sink``, ``induction`` and what else there is.

        Of several prompts they are the mean over those that define them.
        """
        names = [names] if isinstance(names, str) else names
        found = [head_scores(one.trace, names) for one in self]
        formulas = formulas_of(self[0].trace)
        return HeadScores.over(found, {name: formulas[name] for name in found[0][0]})

    # What the trace does not keep -------------------------------------------------------------------------------------

    def points(self, *names: str) -> dict[str, Tensor]:
        """What passed hook points along all rows, run again over the trace's own K' and V.

        Raises
        ------
        HookError
            For a name that there is not.
        """
        decoder, trace = self.model.decoder, self.trace
        for name in names:
            if not isinstance(name, str):
                raise HookError(f"{name!r:.40} is no hook point; name one, such as 'blocks.0.attn.hook_z'.")
        cuts = sorted({0, *(segment.start for layer in trace for segment in layer.spec.segments)})  # each rotated alike
        found = [
            replay(decoder, trace, start, names, count=stop - start).points
            for start, stop in zip(cuts, [*cuts[1:], trace.length], strict=True)
        ]
        for name in names:
            if name not in found[0]:
                raise HookError(
                    f"{name!r} passes on the explicit branch alone; run.patterns() and run.scores() have the matrices."
                )
        return {name: _along_rows([part[name] for part in found], name, len(self)) for name in names}

    def residual(self, point: int | str) -> Tensor:
        """The residual stream, [B, T, D].

        Parameters
        ----------
        point
            A block's number for the stream before it, L for the one after the last; or the name of a hook point.
        """
        layers = self.trace.config.layers
        if isinstance(point, str):
            return self.points(point)[point]
        number = whole(point)
        if number is None or not 0 <= number <= layers:
            raise TraceError(f"The stream at {point!r:.40} was asked for, but it is there before block 0 to {layers}.")
        name = f"blocks.{number}.hook_resid_pre" if number < layers else f"blocks.{layers - 1}.hook_resid_post"
        return self.points(name)[name]

    def head_outputs(self, layer: int) -> Tensor:
        """What each head of a layer adds to the stream, [B, T, H, D]."""
        number = self._layer(layer).spec.layer
        name = f"blocks.{number}.attn.hook_result"
        return head_parts(self.model.decoder, number, self.points(name)[name])

    def logit_lens(self, *, prompt: int = 0, count: int = 5) -> Lens:
        """What the model would say of each row if it ended after the embedding, or after each block.

        Parameters
        ----------
        count
            How many of the most probable tokens are named.
        """
        self.model.check_logits()
        one, most = self[prompt], whole(count)
        if most is None or most < 1:
            raise TraceError(f"{count!r:.40} tokens were to be named, but that is a whole number of 1 or more.")
        lens = logit_lens(self.model.decoder, one.trace, count=most)
        tokenizer = self.model.tokenizer
        tokens = lens.tokens if tokenizer is None else tokenizer.describe(token.id for token in lens.tokens)
        return Lens(**{**vars(lens), "tokens": tokens})

    def attribution(
        self, token: int | str, against: int | str | None = None, *, row: int | None = None, prompt: int = 0
    ) -> Attribution:
        """What each head, each MLP and the embedding add directly to a token's logit after one row.

        Parameters
        ----------
        against
            Another token: then all of it is of the difference of the two logits.
        row
            The last one when not given.
        """
        self.model.check_logits()
        one = self[prompt]
        number = one.trace.length - 1 if row is None else whole(row)
        if number is None:
            raise TraceError(f"Row {row!r:.40} was asked for, but rows are numbers from 0.")
        tokens = [self._token_id(token), *([] if against is None else [self._token_id(against)])]
        parts = [direct_attribution(self.model.decoder, one.trace, number, chosen) for chosen in tokens]
        names = [field.name for field in fields(Attribution) if field.name != "row"]
        of_each = [[getattr(part, name) for part in parts] for name in names]
        return Attribution(number, *(each[0] - sum(each[1:]) for each in of_each))

    # Decoding ---------------------------------------------------------------------------------------------------------

    @property
    def next_logits(self) -> Tensor:
        """[B, V] the logits after each prompt's last token."""
        self.model.check_logits()
        last = [one.trace.logits_of(one.trace.length - 1) for one in self]
        if any(row is None for row in last):
            raise TraceError('This run did not keep the logits of its last rows; capture it with logits="all".')
        return torch.cat([row for row in last if row is not None])

    def append(self, tokens: int | str | Sequence[int]) -> Run:
        """Decode one step with given tokens, one for each prompt.

        Raises
        ------
        TraceError
            For prompts with padding after them, which go on one at a time, and for another number of tokens.
        """
        if self.trace.padding is not None and not bool(self.trace.padding[:, -1].all()):
            raise TraceError("Prompts of different lengths cannot go on together; go on with one of them, run[0].")
        given: list[Any] = [tokens]
        if isinstance(tokens, Sequence | np.ndarray | Tensor) and not isinstance(tokens, str) and whole(tokens) is None:
            given = list(tokens)
        if len(given) != len(self):
            raise TraceError(f"{len(given)} tokens were given to go on with, but the run has {len(self)} prompts.")
        longer = self.model.append(self.trace, [self._token_id(one) for one in given])
        return Run(longer, self.model, self.prompts, replace(self.about, tokens=()))

    def decode(self, steps: int = 1, sampling: Sampling | None = None) -> Run:
        """Let the model go on by itself, greedily unless told how to draw."""
        run, count = self, whole(steps)
        if count is None or count < 0:
            raise TraceError(f"{steps!r:.40} steps were asked for, but steps are a whole number of 0 or more.")
        for _ in range(count):
            row, how = run.trace.length - 1, sampling or Sampling()
            drawn = (*run.about.drawn, how) if len(run.about.drawn) == row + 1 - run.trace.prefill else ()
            run = run.append([draw(logits, how, row) for logits in run.next_logits])
            run.about = replace(run.about, drawn=drawn)
        return run

    def _layer(self, layer: int) -> LayerTrace:
        number = whole(layer)
        if number is None:
            raise TraceError(f"Layer {layer!r:.40} was asked for, but layers are numbers from 0.")
        return self.trace[number]

    def _token_id(self, token: int | str) -> int:
        return token_id(token, self.model.tokenizer, self.trace.config.vocabulary)

    # Pictures and files -----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """The model by its name, and how much it ran."""
        prompts = "1 prompt of" if len(self) == 1 else f"{len(self)} prompts of up to"
        return f"<Run of {self.model.name}: {prompts} {self.trace.length} tokens>"

    def _repr_html_(self) -> str:
        """Every head of the first prompt as a small picture, and its tokens."""
        one, c = self[0], self.trace.config
        length = one.trace.length
        how: Reduction = "max" if length <= EXACT_UP_TO else "sampled"
        tiles = [
            [read_head(layer, head, pixels=THUMBNAIL, reduction=how, raw=False).weights for head in range(c.heads)]
            for layer in one.trace
        ]
        seen = np.array([[np.where(tile.visible, tile.values, np.nan) for tile in row] for row in tiles])
        title = f"{self.model.name}: {length} tokens" + (f", 1 of {len(self)} prompts" if len(self) > 1 else "")
        side = min(48 * max(c.layers, c.heads), WIDEST)
        heads = matrix(coloured(mosaic(seen), 0.0, 1.0), layer_names(c.layers), head_names(c.heads), title, side)
        tokens = " ".join(one.tokens[0][:SHOWN_TOKENS]) + ("" if length <= SHOWN_TOKENS else " …")
        return f'<div>{heads}<div style="font:11px monospace">{escape(tokens)}</div></div>'

    def save(self, path: str | Path, *, pattern: bool = False) -> None:
        """Write a trace file; ``pattern`` adds queries and keys before RoPE, scores and weights."""
        about = replace(self.about, origin=self.model.origin)
        if len(about.drawn) != self.trace.length - self.trace.prefill:  # some tokens were given, not drawn
            about = replace(about, drawn=())
        if len(self.prompts) == 1:
            about = replace(about, prompt=self.prompts[0])
        if len(self) == 1 and self.trace.ids is not None and self.model.tokenizer is not None:
            about = replace(about, tokens=self.model.tokenizer.describe(self.trace.ids[0].tolist()))
        if self.model.tokenizer is not None:
            found = candidates_of(self.trace, about.tokens, self.model.tokenizer.describe)
            about = replace(about, candidates=found)
        decoder = self.model.decoder if pattern else None
        strings = self.tokens[0] if len(self) == 1 else ()
        save_trace(self.trace, path, strings=strings, about=about, model=decoder, pattern=pattern)


def load(path: str | Path, *, model: Source | None = None, other_weights: bool = False) -> Run:
    """Read a run back that was saved.

    Parameters
    ----------
    model
        The model that made it, for what a trace does not keep.
    other_weights
        Take the model although the run was not made with it.

    Raises
    ------
    TraceError
        When the file is no trace, or the model has other shapes.
    OtherCheckpointError
        When the run was made with another checkpoint.
    """
    file = load_trace(path)
    prompt, origin = file.about.prompt, file.about.origin
    if model is not None:
        model.check_made(file.trace.config, None if other_weights else origin)
    about = file.about if file.strings else replace(file.about, tokens=())
    return Run(file.trace, model or Source(origin), () if prompt is None or prompt.as_ids else (prompt,), about)


def _along_rows(parts: list[Tensor], name: str, batch: int) -> Tensor:
    """What passed a point in several calls, joined along its axis of tokens; that of a router is [B, T, …] then."""
    if parts[0].ndim == 2:
        parts = [part.reshape(batch, -1, part.shape[-1]) for part in parts]
    axis = 2 if parts[0].ndim == 4 and not name.endswith("hook_result") else 1
    return torch.cat(parts, dim=axis)
