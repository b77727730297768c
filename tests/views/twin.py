"""The numbers of a run in plain numpy, from the arrays that the session holds: what the window is checked against.

It knows Q', K', V, the log-sum-exp and what each layer was told to do; no reading function of the model is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.app.session.session import Session
from tests.in_process import checkpoint_of, trace_of

Array = NDArray[np.float64]


class Twin:
    """The run on screen, as it is now."""

    def __init__(self, session: Session) -> None:
        handle, run = session.handle, session.run
        assert handle is not None
        assert run is not None
        self.run, self.specs = run, run.specs
        self.trace: Any = trace_of(handle)
        self.model: Any = checkpoint_of(handle.model_handle).model

    def _of(self, rows: Any, head: int) -> Array:
        """One head [S, Dh] of the rows that the trace keeps."""
        return np.array(rows.tensor[0, head].float().numpy(), dtype=np.float64)

    def q(self, layer: int, head: int) -> Array:
        """Q' [S, Dh]."""
        return self._of(self.trace[layer].queries, head)

    def k(self, layer: int, head: int) -> Array:
        """K' [S, Dh] that a query head reads."""
        return self._of(self.trace[layer].keys, self.specs[layer].kv_head_of(head))

    def v(self, layer: int, head: int) -> Array:
        """V [S, Dh] that a query head reads."""
        return self._of(self.trace[layer].values, self.specs[layer].kv_head_of(head))

    def dots(self, layer: int, head: int) -> Array:
        """q'·k' [S, S]."""
        return self.q(layer, head) @ self.k(layer, head).T

    def scaled(self, layer: int, head: int) -> Array:
        """Scores [S, S] before soft cap and mask."""
        return self.specs[layer].scale * self.dots(layer, head)

    def scores(self, layer: int, head: int) -> Array:
        """Scores [S, S] after the soft cap, −inf where masked."""
        spec, scores = self.specs[layer], self.scaled(layer, head)
        if spec.cap is not None:
            scores = spec.cap * np.tanh(scores / spec.cap)
        row, key = np.indices(scores.shape)
        hidden = (key > row) & spec.causal
        if spec.window is not None:
            hidden |= key <= row - spec.window
        return np.where(hidden, -np.inf, scores)

    def weights(self, layer: int, head: int) -> Array:
        """Softmax of each row [S, S]."""
        scores = self.scores(layer, head)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        result: Array = powers / powers.sum(-1, keepdims=True)
        return result

    def entropy(self, layer: int, head: int, row: int) -> float:
        """−Σ w ln w of a row, in nats."""
        weights = self.weights(layer, head)[row]
        seen = weights[weights > 0]
        return float(-(seen * np.log(seen)).sum())

    def z(self, layer: int, head: int) -> Array:
        """What a head makes of its values [S, Dh], nothing ablated."""
        return self.weights(layer, head) @ self.v(layer, head)

    def frequencies(self, layer: int, row: int) -> Array:
        """θ_i of a row, in radians per position."""
        segment = next(s for s in self.specs[layer].segments if s.start <= row < s.stop)
        return np.array(segment.frequencies)

    def features(self, layer: int) -> NDArray[np.int64]:
        """Which two features of a head turn together, [F, 2]."""
        planes = np.arange(self.specs[layer].rotary_width // 2)
        if self.specs[layer].pairing == "half":
            return np.stack([planes, planes + len(planes)], axis=1)
        return np.stack([2 * planes, 2 * planes + 1], axis=1)

    def shares(self, layer: int, head: int, query: int, key: int) -> Array:
        """Each plane's share of the scaled score [F]."""
        pairs = self.features(layer)
        q, k = self.q(layer, head)[query], self.k(layer, head)[key]
        shares: Array = self.specs[layer].scale * (q[pairs] * k[pairs]).sum(1)
        return shares

    def logits(self, row: int) -> Array:
        """Logits [V] of a row that the run kept."""
        return np.array(self.trace.logits_of(row)[0].float().numpy(), dtype=np.float64)

    def probabilities(self, row: int) -> Array:
        """The next-token distribution [V] after a row."""
        logits = self.logits(row)
        powers = np.exp(logits - logits.max())
        result: Array = powers / powers.sum()
        return result
