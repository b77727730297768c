"""What a notebook is given of a run: numbers as arrays, with a table and a small picture of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ropewalk.model.errors import TraceError
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.notebooks.pictures import coloured, coloured_signed, matrix
from ropewalk.model.readings.records import Doubles, Floats, LogitLens


def layer_names(count: int) -> list[str]:
    """What layers are called."""
    return [f"L{layer}" for layer in range(count)]


def head_names(count: int) -> list[str]:
    """What heads of a layer are called."""
    return [f"H{head}" for head in range(count)]


@dataclass(frozen=True, eq=False)
class Head:
    """One head of one prompt.

    Attributes
    ----------
    pattern, scores
        [T, T] weights after the softmax, 0 where masked, and scores before it, −inf there.
    tokens
        What stands along both axes.
    """

    layer: int
    head: int
    pattern: Floats
    scores: Floats
    tokens: Sequence[str]

    def to_frame(self) -> Any:
        """A row for each visible cell: query, key, their tokens, score, weight."""
        return frame(
            {
                "query": query,
                "key": key,
                "query_token": self.tokens[query],
                "key_token": self.tokens[key],
                "score": float(self.scores[query, key]),
                "weight": float(self.pattern[query, key]),
            }
            for query, key in np.argwhere(np.isfinite(self.scores)).tolist()
        )

    def __repr__(self) -> str:
        """What it is of, without its numbers."""
        return f"<Head L{self.layer}H{self.head}: pattern and scores of {len(self.tokens)} tokens>"

    def _repr_html_(self) -> str:
        seen = np.where(np.isfinite(self.scores), self.pattern, np.nan)
        return matrix(coloured(seen, 0.0, 1.0), self.tokens, self.tokens, f"L{self.layer}H{self.head} weights")


class HeadScores(Mapping[str, Doubles]):
    """Statistics of every head, name → [L, H]: of several prompts the mean.

    Attributes
    ----------
    deviation
        Name → [L, H], the standard deviation between prompts (of a sample); NaN of one prompt.
    formulas
        Name → the formula in words.
    undefined
        Name → why it is NaN.
    """

    def __init__(
        self, of_prompts: Mapping[str, Sequence[Doubles]], formulas: Mapping[str, str], undefined: Mapping[str, str]
    ) -> None:
        """Take each statistic's [L, H] of every prompt that it is defined for."""
        self.formulas, self.undefined = dict(formulas), dict(undefined)
        self._mean: dict[str, Doubles] = {name: np.mean(values, axis=0) for name, values in of_prompts.items()}
        self.deviation: dict[str, Doubles] = {
            name: np.std(values, axis=0, ddof=1) if len(values) > 1 else np.full_like(values[0], math.nan)
            for name, values in of_prompts.items()
        }

    @classmethod
    def over(
        cls, found: Sequence[tuple[Mapping[str, Doubles], Mapping[str, str]]], formulas: Mapping[str, str]
    ) -> HeadScores:
        """Of each prompt's scores, and why some of them are not defined for it."""
        values = {name: [scores[name] for scores, undefined in found if name not in undefined] for name in found[0][0]}
        missing = {name: found[0][1][name] for name, some in values.items() if not some}
        kept = {name: some or [found[0][0][name]] for name, some in values.items()}
        lacking = {name: "is no number for any head" for name, some in kept.items() if np.isnan(np.mean(some, 0)).all()}
        return cls(kept, formulas, lacking | missing)

    def __getitem__(self, name: str) -> Doubles:
        return self._mean[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mean)

    def __len__(self) -> int:
        return len(self._mean)

    def best(self, name: str) -> tuple[int, int]:
        """The (layer, head) with the largest value.

        Raises
        ------
        TraceError
            When it is not defined for these prompts.
        """
        if name not in self:
            raise TraceError(f"There is no score {name!r:.40} here; there are {', '.join(self)}.")
        if name in self.undefined:
            raise TraceError(f"No head has a score {name!r} here: it {self.undefined[name]}.")
        layer, head = divmod(int(np.nanargmax(self[name])), self[name].shape[1])
        return layer, head

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each layer, head and statistic that is defined."""
        for name, values in self.items():
            if name not in self.undefined:
                for (layer, head), value in np.ndenumerate(values):
                    deviation = float(self.deviation[name][layer, head])
                    yield {"layer": layer, "head": head, "score": name, "value": float(value), "deviation": deviation}

    def to_frame(self) -> Any:
        """A row for each layer, head and statistic."""
        return frame(self.rows())

    def __repr__(self) -> str:
        """Which statistics it has, without their numbers."""
        return f"<HeadScores: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        shown = [name for name in self if name not in self.undefined]
        return "".join(
            matrix(
                coloured(self[name], 0.0, max(1.0, float(self[name].max()))),
                layer_names(len(self[name])),
                head_names(self[name].shape[1]),
                self.formulas[name].partition(":")[0],
                200,
            )
            for name in shown
        )


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each part adds directly to a token's logit, or to the difference of two; all of it adds up to ``logit``.

    Attributes
    ----------
    heads, mlps
        [L, H] and [L].
    embedding, rest
        The embedding, and the biases.
    """

    row: int
    logit: float
    heads: Doubles
    mlps: Doubles
    embedding: float
    rest: float

    def to_frame(self) -> Any:
        """A row for each part."""
        parts = [{"part": "embedding", "value": self.embedding}, {"part": "rest", "value": self.rest}]
        parts += [{"part": f"L{layer} MLP", "value": float(value)} for layer, value in enumerate(self.mlps)]
        for (layer, head), value in np.ndenumerate(self.heads):
            parts.append({"part": f"L{layer}H{head}", "value": float(value)})
        return frame(parts)

    def __repr__(self) -> str:
        """What it adds up to, without its numbers."""
        layers, heads = self.heads.shape
        return f"<Attribution: {self.logit:.4g} after row {self.row}, from {layers} layers of {heads} heads>"

    def _repr_html_(self) -> str:
        layers, heads = self.heads.shape
        both = np.concatenate((self.heads, self.mlps[:, None]), axis=1)
        title = f"{self.logit:.2f} after row {self.row}"
        return matrix(coloured_signed(both), layer_names(layers), [*head_names(heads), "MLP"], title, 300)


class Lens(LogitLens):
    """A logit lens with a table."""

    def __repr__(self) -> str:
        """What it is of, without its numbers."""
        places, rows = self.top.shape[:2]
        return f"<Lens: {places} places of the stream × {rows} rows>"

    def to_frame(self) -> Any:
        """A row for each place of the stream and each row of the run, with its most probable token."""
        names = {token.id: token.text for token in self.tokens}
        return frame(
            {
                "blocks": place,
                "row": self.rows[0] + row,
                "token": names[int(self.top[place, row, 0])],
                "probability": float(self.probabilities[place, row, 0]),
                "entropy": float(self.entropy[place, row]),
                "probability_of_next": float(self.actual[place, row]),
                "rank_of_next": int(self.rank[place, row]),
            }
            for place in range(self.top.shape[0])
            for row in range(self.top.shape[1])
        )
