"""A recorder that reads each layer of a batch as it is finished, in blocks of rows, and lets it go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Watch
from ropewalk.model.readings.attribution import head_parts
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import RunHeader
from ropewalk.model.survey.statistics import GRID, Block, Numbers, SurveyStatistic, Text, part_of
from ropewalk.model.survey.tally import NOBODY, Doubles, Tally

BLOCK_CELLS = 1 << 20
"""Weights of all heads together that are held at once, more or less: few enough to stay near the processor."""


class SurveyRecorder:
    """Reads the statistics of a batch of texts.

    Texts stand at the left, each with its padding after it.

    Parameters
    ----------
    tally
        Where the strongest examples go at once; values go there when the batch is finished.
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
        self._outputs = decoder is not None and any(one.of_outputs for one in statistics)
        self._passed: dict[str, Tensor] = {}
        self._number = 0

    def watches(self) -> dict[str, Watch]:
        """What the decoder has to be watched with meanwhile."""
        if not self._outputs or self.decoder is None:
            return {}
        points = ("hook_resid_pre", "attn.hook_z", "hook_resid_post")

        def keeper(point: str) -> Watch:
            return lambda x: self._passed.update({point: x.detach()})

        return {f"blocks.{layer}.{one}": keeper(one) for layer in range(self.decoder.config.layers) for one in points}

    def add(self, layer: LayerTrace) -> None:
        """Read a layer; they come in order."""
        number, self._number = self._number, self._number + 1
        with torch.no_grad():
            for batch, text in enumerate(self.texts):
                self._read(layer, number, batch, text)

    def finish(self, run: RunHeader) -> Doubles:
        """Count the texts; returns their values [B, K, L, H]."""
        self.tally.add(self.values, self.distances)
        return self.values

    def _read(self, layer: LayerTrace, number: int, batch: int, text: Text) -> None:
        """Read one text of a layer."""
        kinds, heads = len(self.statistics), layer.spec.heads
        sums, counts = np.zeros((kinds, heads)), np.zeros(kinds, np.int64)
        distances = np.zeros((self.distances.shape[1], heads))
        best, places = np.full((kinds, heads), -math.inf), np.full((kinds, heads, 3), NOBODY, np.int64)
        parts = part_of(torch.arange(len(text)), len(text))
        shares = torch.zeros(heads, GRID, GRID, dtype=torch.float64)
        step = max(1, BLOCK_CELLS // (heads * len(text)))
        for start in range(0, len(text), step):
            block = self._block(layer, number, batch, text, (start, min(start + step, len(text))))
            distances += block.by_distance[..., :-1].sum(1).T.double().cpu().numpy()
            shares.index_add_(1, parts[slice(*block.rows)], block.by_part.double().cpu())
            values, eligible = self._values(block)
            sums += (values * eligible[:, None]).sum(-1).double().cpu().numpy()
            counts += eligible.sum(-1).cpu().numpy()
            found, rows = values.masked_fill(~eligible[:, None], -math.inf).max(-1)
            new, row = found.double().cpu().numpy(), rows.cpu().numpy()
            better = (new > best) & (new > self.tally.values[:, number, :, -1])
            best = np.where(better, new, best)
            for at, statistic in enumerate(self.statistics):
                chosen = better[at].nonzero()[0]
                if len(chosen):
                    queries = row[at, chosen] + start
                    keys = _strongest_keys(block, statistic, chosen, queries)
                    places[at, chosen] = np.stack((np.full_like(keys, text.number), queries, keys), -1)
        there = counts > 0
        self.values[batch, there, number] = sums[there] / counts[there, None]
        self.distances[batch, :, number] = distances / len(text)
        queries = torch.bincount(parts, minlength=GRID)
        self.tally.maps[number] += (shares / queries.clamp_min(1)[:, None]).numpy()
        if number == 0:
            self.tally.map_counts += (queries > 0).numpy()
        self.tally.add_examples(number, best, places)

    def _block(self, layer: LayerTrace, number: int, batch: int, text: Text, rows: tuple[int, int]) -> Block:
        keys = (0, rows[1] if layer.spec.causal else len(text))
        weights = layer.weights(rows=rows, keys=keys, batch=batch)
        parts = change = None
        if self._outputs and self.decoder is not None:
            part = slice(*rows)
            z = self._passed["attn.hook_z"][batch : batch + 1, :, part]
            result = self.decoder.block(number).attn.per_head(z)  # [1, n, H, D]
            parts = head_parts(self.decoder, number, result)[0].transpose(0, 1).float()
            before, after = self._passed["hook_resid_pre"], self._passed["hook_resid_post"]
            change = after[batch, part].float() - before[batch, part].float()
        return Block(layer, batch, text, rows, weights, len(self.distances[0]), parts, change)

    def _values(self, block: Block) -> tuple[Tensor, Tensor]:
        """[K, H, n] what each statistic says of each head and query, and [K, n] whether it has anything to say."""
        values, eligible = [], []
        nothing = block.weights.new_zeros(block.weights.shape[:2])
        grouped = block.layer.spec.heads > block.layer.spec.kv_heads
        for one in self.statistics:
            seen = block.text.cells(one, block.rows).eligible
            if one.of_groups and not grouped:
                seen = torch.zeros_like(seen)
            eligible.append(seen)
            values.append(one.of_block(block, one) if bool(seen.any()) else nothing)
        return torch.stack(values), torch.stack(eligible).to(nothing.device)


def _strongest_keys(block: Block, statistic: SurveyStatistic, heads: Numbers, queries: Numbers) -> Numbers:
    """The key with the largest weight of a row for some heads, among those that the statistic asks about."""
    device = block.weights.device
    rows = torch.from_numpy(queries - block.rows[0]).to(device)
    weights = block.weights[torch.from_numpy(heads).to(device), rows]  # [c, m]
    if statistic.among is not None:
        meant = statistic.among(block.text, queries, np.arange(block.keys))
        weights = weights.masked_fill(~torch.from_numpy(meant).to(device), -1.0)
    found: Numbers = weights.argmax(-1).cpu().numpy()
    return found
