"""A recorder that reads each layer of a batch as it is finished, in blocks of rows, and lets it go.

Texts of like length are read together, a *chunk*, in blocks of rows of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Watch
from ropewalk.model.decoder.scores import Span, scaled_scores, sees, written_scores
from ropewalk.model.runs.layer_trace import FINE, LayerTrace
from ropewalk.model.runs.trace import RunHeader
from ropewalk.model.survey.outputs import HeadOutputs
from ropewalk.model.survey.statistics import GRID, Block, Cells, SurveyStatistic, Text, TextBatch
from ropewalk.model.survey.tally import Doubles, Tally

BLOCK_CELLS = 1 << 19
"""Weights of all heads and texts that are held at once, more or less: few enough to stay near the processor."""
BLOCK_ROWS = 128
"""Rows of a text that are read at once, at most: keys after all of them are left out."""
LIKE_LENGTH = 1.25
"""How much longer the longest text of a chunk is than the shortest, at most."""
LEAST_LOG = -87.0
"""Logarithm of about the smallest number that float32 holds with all of its places."""


class SurveyRecorder:
    """Reads the statistics of a batch of texts.

    Parameters
    ----------
    tally
        Where the strongest examples go at once; values go there when the batch is finished.
    texts
        In the order in which they run; those of like length are quick when they lie together.
    decoder
        Whose heads' outputs are read, where a statistic asks for them.
    """

    def __init__(
        self, tally: Tally, statistics: Sequence[SurveyStatistic], texts: Sequence[Text], decoder: Decoder | None = None
    ) -> None:
        self.tally, self.statistics, self.texts, self.decoder = tally, statistics, texts, decoder
        kinds, layers, heads = tally.sums.shape
        self.values = np.full((len(texts), kinds, layers, heads), math.nan)
        self.distances = np.zeros((len(texts), *tally.distances.shape))
        self._reads_outputs = decoder is not None and any(one.of_outputs for one in statistics)
        self._passed: dict[str, Tensor] = {}
        self._chunks: list[TextBatch] = []
        self._eligible: dict[int, Tensor] = {}
        self._number = 0

    def watches(self) -> dict[str, Watch]:
        """What the decoder has to be watched with meanwhile."""
        if not self._reads_outputs or self.decoder is None:
            return {}
        points = ("hook_resid_pre", "attn.hook_z", "hook_resid_post")

        def keeper(point: str) -> Watch:
            return lambda x: self._passed.update({point: x.detach()})

        return {f"blocks.{layer}.{one}": keeper(one) for layer in range(self.decoder.config.layers) for one in points}

    @torch.no_grad()
    def add(self, layer: LayerTrace) -> None:
        """Read a layer; they come in order."""
        number, self._number = self._number, self._number + 1
        device = layer.keys.tensor.device
        if not self._chunks or self._chunks[0].ids.device != device:
            self._chunks = list(self._chunked(layer, device))
            self._eligible = {chunk.first: self._eligible_of(chunk, layer) for chunk in self._chunks}
        outputs = None
        if self._reads_outputs and self.decoder is not None:
            passed = (self._passed.pop(one) for one in ("attn.hook_z", "hook_resid_pre", "hook_resid_post"))
            outputs = HeadOutputs(self.decoder, number, *passed)
            outputs.read()
        alone = self._alone(layer)
        for chunk, sums in zip(self._chunks, self._read_all(layer, outputs, alone), strict=True):
            self._keep(layer, number, chunk, sums)

    def finish(self, run: RunHeader) -> Doubles:
        """Count the texts; returns their values [B, K, L, H]."""
        self.tally.add(self.values, self.distances)
        return self.values

    # ------------------------------------------------------------------------------------------------------------------
    # Chunks and blocks

    def _chunked(self, layer: LayerTrace, device: torch.device) -> Iterator[TextBatch]:
        """The texts in chunks of like length whose blocks are small."""
        starts = [0] * len(self.texts) if layer.padding is None else layer.padding.int().argmax(1).tolist()
        borders = [0]
        for at in range(1, len(self.texts)):
            lengths = [len(text) for text in self.texts[borders[-1] : at + 1]]
            longest = max(lengths)
            cells = len(lengths) * layer.spec.heads * min(longest, BLOCK_ROWS) * longest
            if cells > BLOCK_CELLS or longest > min(lengths) * LIKE_LENGTH + 1:
                borders.append(at)
        for first, last in pairwise((*borders, len(self.texts))):
            yield TextBatch.of(self.texts[first:last], first, starts[first:last], layer.length, device)

    def _blocks(self, chunk: TextBatch, layer: LayerTrace) -> Iterator[tuple[Span, int]]:
        """Rows that are read together, and how many keys they may see."""
        first, last = chunk.rows
        step = min(max(BLOCK_CELLS // (len(chunk) * layer.spec.heads * (last - first)), 1), BLOCK_ROWS)
        for start in range(first, last, step):
            stop = min(start + step, last)
            yield (start, stop), stop if layer.spec.causal else layer.length

    def _eligible_of(self, chunk: TextBatch, layer: LayerTrace) -> Tensor:
        """[K, B, T] which queries each statistic has something to say of; the same in every layer."""
        grouped = layer.spec.heads > layer.spec.kv_heads
        found = []
        for rows, keys in self._blocks(chunk, layer):
            cells = chunk.queries(rows, keys)
            nobody = torch.zeros_like(cells.real)
            found.append(
                torch.stack(
                    [
                        nobody
                        if one.of_groups and not grouped
                        else cells.real
                        if one.among is None
                        else cells.meant(one).view(torch.uint8).amax(-1).bool()  # any of booleans is slow
                        for one in self.statistics
                    ]
                )
            )
        return torch.cat(found, -1)

    def _alone(self, layer: LayerTrace) -> list[bool]:
        """Of each text, whether its weights are worked out alone: float32 is too coarse, or heads were changed."""
        if layer.spec.kv_map is not None or layer.spec.written:
            return [True] * len(self.texts)
        lse = layer.lse.tensor
        found = (lse.abs() > FINE) & torch.isfinite(lse)  # [B, H, S]
        if layer.padding is not None:
            found &= layer.padding[:, None]
        alone: list[bool] = found.flatten(1).any(1).tolist()
        return alone

    def _block(
        self, layer: LayerTrace, chunk: TextBatch, rows: Span, keys: int, outputs: HeadOutputs | None, alone: list[bool]
    ) -> Block:
        """The weights of some rows of a chunk."""
        place, part = chunk.place, slice(*rows)
        lse = layer.lse.tensor[place, :, part]
        query, key = layer.queries.tensor[place, :, part].float(), layer.keys.tensor[place, :, :keys].float()
        logs = scaled_scores(query, key, layer.spec)
        mask, sinks = layer.mask, layer.sink_logits()
        if mask is not None and mask.bias is not None:
            logs += (mask.bias if len(mask.bias) == 1 else mask.bias[place])[..., part, :keys]
        logs.sub_(lse[..., None]).clamp_(LEAST_LOG, 0.0)
        weights = logs.exp()
        self._hide(weights, layer, chunk, rows)
        sink = None if sinks is None else (sinks[:, None] - lse).clamp_(max=0.0).exp_()
        for at, batch in enumerate(range(place.start, place.stop)):
            if alone[batch]:
                weights[at] = layer.weights(rows=rows, keys=(0, keys), batch=batch)
                logs[at] = weights[at].log().clamp_(LEAST_LOG, 0.0)
                if sink is not None:
                    sink[at] = layer.sink_weights(rows=rows, batch=batch)
        return Block(layer, chunk, rows, weights, logs, sink, len(self.distances[0]), outputs)

    def _hide(self, weights: Tensor, layer: LayerTrace, chunk: TextBatch, rows: Span) -> None:
        """Set the weights of hidden keys to 0."""
        spec, keys = layer.spec, weights.shape[-1]
        by_rule = layer.mask is None or layer.mask.seen is None
        if by_rule and spec.causal and (spec.window is None or spec.window >= keys) and not chunk.is_padded_before:
            later = torch.ones(rows[1] - rows[0], keys - rows[0], dtype=torch.bool, device=weights.device).triu(1)
            weights[..., rows[0] :].masked_fill_(later, 0.0)
            return
        weights.masked_fill_(~_seen(layer, chunk.queries(rows, keys))[:, None], 0.0)

    # ------------------------------------------------------------------------------------------------------------------
    # Reading

    def _read_all(
        self, layer: LayerTrace, outputs: HeadOutputs | None, alone: list[bool]
    ) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Read the chunks of a layer, each in a thread of its own: a chunk has too little for several to share."""

        def read(chunk: TextBatch) -> tuple[Tensor, Tensor, Tensor]:
            return self._read(layer, chunk, outputs, alone)

        threads = torch.get_num_threads()
        if threads == 1 or len(self._chunks) == 1 or layer.keys.tensor.device.type != "cpu":
            return map(read, self._chunks)
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                return list(pool.map(read, self._chunks))
        finally:
            torch.set_num_threads(threads)  # which new threads of torch itself take up

    @torch.no_grad()
    def _read(
        self, layer: LayerTrace, chunk: TextBatch, outputs: HeadOutputs | None, alone: list[bool]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read a chunk: values [K, B, H, T]; by distance [B, H, D]; by part [H, G, G]."""
        eligible, heads = self._eligible[chunk.first], layer.spec.heads
        asked = eligible.flatten(1).any(1).tolist()
        first, last = chunk.rows
        device = eligible.device
        values = torch.zeros(len(asked), len(chunk), heads, last - first, device=device)
        distances = torch.zeros(len(chunk), heads, self.distances.shape[1], dtype=torch.float64, device=device)
        shares = torch.zeros(heads, GRID, GRID, dtype=torch.float64, device=device)
        for rows, keys in self._blocks(chunk, layer):
            block = self._block(layer, chunk, rows, keys, outputs, alone)
            part = slice(rows[0] - first, rows[1] - first)
            for at, one in enumerate(self.statistics):
                if asked[at]:
                    values[at, ..., part] = one.value(block)
            distances += (block.by_distance * block.cells.real[:, None, :, None]).sum(2)
            by_part = block.by_part.transpose(0, 1).flatten(1, 2)  # [H, B · n, GRID]
            shares += chunk.in_parts[..., part].transpose(0, 1).flatten(1) @ by_part
        return values, distances, shares

    def _keep(self, layer: LayerTrace, number: int, chunk: TextBatch, sums: tuple[Tensor, Tensor, Tensor]) -> None:
        """Keep what was read of a chunk."""
        (values, distances, shares), eligible = sums, self._eligible[chunk.first]
        count = eligible.sum(-1)
        means = values.masked_fill(~eligible[:, :, None], 0.0).sum(-1, dtype=torch.float64) / count[..., None]
        self.values[chunk.place, :, number] = means.transpose(0, 1).cpu().numpy()
        by_distance = distances / chunk.lengths[:, None, None]
        self.distances[chunk.place, :, number] = by_distance.transpose(1, 2).cpu().numpy()
        self.tally.maps[number] += shares.cpu().numpy()
        if number == 0:
            self.tally.map_counts += (chunk.in_parts.sum(-1) > 0).sum(0).cpu().numpy()
        self._find_examples(layer, number, chunk, values.masked_fill_(~eligible[:, :, None], -math.inf))

    def _find_examples(self, layer: LayerTrace, number: int, chunk: TextBatch, values: Tensor) -> None:
        """Keep the strongest query of each text, [K, B, H, T], where it is among the strongest of all."""
        best, queries = values.max(-1)
        best = best.double()
        worst = torch.from_numpy(self.tally.values[:, number, :, -1]).to(best.device)[:, None]
        better = best > worst
        if len(chunk) > self.tally.top:
            better &= best >= best.topk(self.tally.top, 1).values[:, -1:]
        kinds, texts, heads = better.nonzero(as_tuple=True)
        if not len(kinds):
            return
        rows = queries[kinds, texts, heads] + chunk.rows[0]
        keys = self._strongest_keys(layer, chunk, kinds, texts, heads, rows)
        numbers = torch.tensor([text.number for text in chunk.texts], device=keys.device)
        start = chunk.starts[texts]
        places = torch.stack((numbers[texts], rows - start, keys - start), -1)
        self.tally.add_examples(
            number, *(one.cpu().numpy() for one in (kinds, heads, best[kinds, texts, heads], places))
        )

    def _strongest_keys(
        self, layer: LayerTrace, chunk: TextBatch, kinds: Tensor, texts: Tensor, heads: Tensor, rows: Tensor
    ) -> Tensor:
        """[c] the key with the largest weight of single rows, among those that their statistics ask about."""
        cells = Cells(chunk, texts, rows, chunk.rows[1])
        scores = _scores(layer, cells, heads)
        for at in torch.unique(kinds).tolist():
            one = self.statistics[at]
            if one.among is not None:
                of_kind = (kinds == at).nonzero()[:, 0]
                meant = Cells(chunk, texts[of_kind], rows[of_kind], cells.keys).meant(one)
                scores[of_kind] = scores[of_kind].masked_fill_(~meant, -math.inf)
        return scores.argmax(-1)


def _place(cells: Cells, of: Tensor) -> Tensor:
    """Which of the first axis [B or 1, …] of something of a layer the texts of some queries are."""
    return cells.at + cells.batch.first if len(of) > 1 else torch.zeros_like(cells.at)


def _seen(layer: LayerTrace, cells: Cells) -> Tensor:
    """Which cells the layer's mask leaves."""
    if layer.mask is not None and layer.mask.seen is not None:
        return layer.mask.seen[_place(cells, layer.mask.seen), cells.row][..., : cells.keys]
    keys = torch.arange(cells.keys, device=cells.row.device)
    seen = sees(layer.spec, cells.row[..., None], keys).expand(*cells.shape, -1)
    return seen if layer.padding is None else seen & layer.padding[cells.at + cells.batch.first][..., : cells.keys]


def _scores(layer: LayerTrace, cells: Cells, heads: Tensor) -> Tensor:
    """[c, m] the scores of single queries of heads; those of hidden keys are as low as can be.

    Queries of the same text that read the same keys are multiplied with them together.
    """
    chunk, spec = cells.batch, layer.spec
    key = layer.keys.tensor[chunk.place, :, : cells.keys].float().flatten(0, 1)  # [B · Hkv, m, Dh]
    read = torch.tensor([spec.kv_head_of(head) for head in range(spec.heads)], device=key.device)
    group = cells.at * spec.kv_heads + read[heads]
    order = group.argsort(stable=True)
    count = group.bincount(minlength=len(key))
    nth = torch.empty_like(order)
    nth[order] = torch.arange(len(order), device=order.device) - (count.cumsum(0) - count)[group[order]]
    query = key.new_zeros(len(key), int(count.max()), key.shape[-1])
    query[group, nth] = layer.queries.tensor[chunk.place][cells.at, heads, cells.row].float()
    scores = scaled_scores(query[:, None], key[:, None], spec)[group, 0, nth]
    if layer.mask is not None and (bias := layer.mask.bias) is not None:
        of_head = heads if bias.shape[1] > 1 else torch.zeros_like(heads)
        scores += bias[_place(cells, bias), of_head, cells.row][..., : cells.keys]
    for pattern in spec.written:
        place = ((heads == pattern.head) & (cells.row < len(pattern.rows))).nonzero()[:, 0]
        keys = torch.arange(cells.keys, device=key.device)
        scores[place] = written_scores(pattern, cells.row[place, None], keys)
    return scores.masked_fill_(~_seen(layer, cells), torch.finfo(scores.dtype).min)
