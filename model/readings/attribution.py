"""Which heads does a next token need? Two answers for one row of a run.

**Ablation** runs the prompt again with each head's output set to zero and reads how the token's logit changes: what
the model would do without the head, later layers included. **Direct attribution** adds up what each part wrote into
the stream, read through the last norm (its statistics held fixed) and the token's row of W_U: what the head itself
says, later layers left out (Elhage et al. 2021, "A mathematical framework for transformer circuits"). Neither draws
anything; both are differences or shares of the logit before its soft cap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.interventions import AblateHeads, Intervention, check_interventions
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.decoder.scores import key_range
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import DirectAttribution, HeadNeeds
from ropewalk.model.runs.trace import Trace, replay


def head_needs_steps(model: Decoder, trace: Trace, row: int, token: int, *, batch: int = 0) -> Steps[HeadNeeds]:
    """Ablate every head in turn and read the change of one token's logit after one row, pausing after each.

    The stream before each layer is computed once, so a head of layer l costs the layers from l on.

    Raises
    ------
    TraceError
        When the row is not there, or the run was given vectors.
    """
    c = model.config
    change = np.full((c.layers, c.heads), np.nan)
    rows = _Rows(model, trace, row, batch)
    streams = rows.streams()
    clean = rows.logit(streams[-1], token)
    for layer in range(c.layers):
        for head in range(c.heads):
            ablated = rows.run(streams[layer], layer, AblateHeads(layer, (head,)))
            change[layer, head] = rows.logit(ablated, token) - clean
            yield Progress(layer * c.heads + head + 1, c.layers * c.heads, "Ablating each head in turn")
    change.setflags(write=False)
    return HeadNeeds(row, token, clean, change)


def logits_under_steps(
    model: Decoder, trace: Trace, row: int, interventions: Sequence[Intervention], *, batch: int = 0
) -> Steps[Tensor]:
    """The logits [V] after one row under other interventions than the run's, pausing after each layer.

    Every row up to it is run again, for what they leave in the cache changes too; nothing of the run is used but its
    tokens. It costs a prefill that keeps nothing and ends in one row's logits. Where RoPE stretches with the length,
    rows that were decoded are turned as those of a prompt.

    Raises
    ------
    TraceError
        When the row is not there, or the run was given vectors.
    """
    check_interventions(interventions, trace.config)
    rows = _Rows(model, trace, row, batch, interventions)
    stream = rows.start
    for layer in range(model.config.layers):
        stream = rows.run_layer(layer, stream)
        yield Progress(layer + 1, model.config.layers, "Running the row again")
    return rows.logits(stream)


class _Rows:
    """The rows 0 … row of a run, run again from any layer on, under its interventions or others."""

    def __init__(
        self, model: Decoder, trace: Trace, row: int, batch: int, interventions: Sequence[Intervention] | None = None
    ) -> None:
        trace.check_row(row)
        if trace.ids is None:
            raise TraceError("This run was given vectors, not tokens, so its prompt cannot be run again.")
        self.model = model
        self.interventions = tuple(trace.interventions if interventions is None else interventions)
        self.products = trace.products
        stop = max(key_range(layer.spec, (row, row + 1), trace.length)[1] for layer in trace)
        self.row = row
        with multiplying(self.products), turned(model, self.interventions):
            self.start, self.call = model.begin(
                trace.ids[batch : batch + 1, :stop],
                positions=trace.positions[batch : batch + 1, :stop],
                padding=None if trace.padding is None else trace.padding[batch : batch + 1, :stop],
                branch=trace.branch,
                rotary_length=trace.rotary_length(row),
            )

    def streams(self) -> list[Tensor]:
        """The stream [1, n, D] before each layer, and after the last."""
        streams = [self.start]
        for layer in range(self.model.config.layers):
            streams.append(self.run_layer(layer, streams[-1]))
        return streams

    def run(self, x: Tensor, layer: int, ablation: AblateHeads) -> Tensor:
        """The stream after the last layer, when ``layer`` runs on ``x`` under one more intervention."""
        x = self.run_layer(layer, x, ablation)
        for later in range(layer + 1, self.model.config.layers):
            x = self.run_layer(later, x)
        return x

    def logit(self, x: Tensor, token: int) -> float:
        """The token's logit after the row."""
        return float(self.logits(x)[token])

    def logits(self, x: Tensor) -> Tensor:
        """All logits [V] after the row."""
        with multiplying(self.products):
            found: Tensor = self.model.finish(x[:, self.row : self.row + 1])[0, 0]
        return found

    def run_layer(self, layer: int, x: Tensor, ablation: AblateHeads | None = None) -> Tensor:
        """The stream after one layer, with one more intervention where there is one."""
        block = self.model.block(layer)
        active = self.interventions if ablation is None else (*self.interventions, ablation)
        with multiplying(self.products), changed_block(block, layer, active):
            after: Tensor = block(x, self.call)
        return after


@torch.no_grad()
def direct_attribution(model: Decoder, trace: Trace, row: int, token: int, *, batch: int = 0) -> DirectAttribution:
    """What each head, each MLP and the embedding add directly to one token's logit after one row.

    All parts, the biases in ``rest``, add up to the logit before its soft cap.
    """
    c = model.config
    names = ["hook_embed"]
    for layer in range(c.layers):
        prefix = f"blocks.{layer}."
        names += [prefix + "attn.hook_result", prefix + "hook_attn_out", prefix + "hook_mlp_out"]
    points = replay(model, trace, row, [*names, f"blocks.{c.layers - 1}.hook_resid_post"]).points
    final = points[f"blocks.{c.layers - 1}.hook_resid_post"][batch, 0]  # [D]
    reading = model.head.weight[token].detach().float() * c.logit_scale  # [D]

    def contribution(part: Tensor) -> Tensor:
        """Logit of the token from summands [..., D] of the final stream."""
        normed = model.norm.part_of(final, part) if isinstance(model.norm, Norm) else part.float()
        return normed @ reading

    results = [points[f"blocks.{layer}.attn.hook_result"][batch, 0] for layer in range(c.layers)]  # [H, D] each
    heads = torch.stack([contribution(head_parts(model, layer, result)) for layer, result in enumerate(results)])
    mlps = torch.stack([contribution(points[f"blocks.{layer}.hook_mlp_out"][batch, 0]) for layer in range(c.layers)])
    embedding = float(contribution(points["hook_embed"][batch, 0]))
    logit = float(contribution(final)) + _bias_logit(model, reading, token)
    rest = logit - float(heads.sum() + mlps.sum()) - embedding
    return DirectAttribution(row, token, logit, _locked(heads), _locked(mlps), embedding, rest)


def head_parts(model: Decoder, layer: int, result: Tensor) -> Tensor:
    """What each head of a layer adds to the stream, [..., H, D]: its part of W_O, a norm after that held fixed.

    Parameters
    ----------
    result
        What passed ``hook_result``.
    """
    block = model.block(layer)
    if isinstance(block.attn_post_norm, Norm):
        whole = result.sum(-2, keepdim=True)
        if block.attn.output.bias is not None:
            whole = whole + block.attn.output.bias
        result = block.attn_post_norm.part_of(whole, result)
    scale = model.config.residual_scale
    return result if scale == 1.0 else result * scale


def _bias_logit(model: Decoder, reading: Tensor, token: int) -> float:
    logit = 0.0
    if isinstance(model.norm, Norm) and model.norm.bias is not None:
        logit += float(model.norm.bias.detach().float() @ reading)
    if model.head.bias is not None:
        logit += float(model.head.bias[token]) * model.config.logit_scale
    return logit


def _locked(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    array = tensor.detach().double().cpu().numpy()
    array.setflags(write=False)
    return array
