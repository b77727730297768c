"""The mask of a layer that its rules cannot say: keys hidden one by one, and numbers added to scores.

Causality, a window and padding are rules, and need no matrix. What a model of another make does besides (chunks, a
prefix that sees itself, a bias for every distance) is kept as it was handed over, S × S. Letters as in
``model.decoder.config``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerMask:
    """What hides keys in place of the rules, and what is added to scores.

    Attributes
    ----------
    seen
        [B or 1, S, S] bool, True where a query sees a key, padding and causality included; None where the rules say it.
    bias
        [B or 1, H or 1, S, S] added to scaled, soft-capped scores; None for nothing.
    """

    seen: Tensor | None = None
    bias: Tensor | None = None

    def at(self, length: int) -> LayerMask:
        """The mask of the first rows; nothing is copied."""
        seen = None if self.seen is None else self.seen[:, :length, :length]
        return LayerMask(seen, None if self.bias is None else self.bias[..., :length, :length])

    def prompt(self, batch: int) -> LayerMask:
        """The mask of one prompt of a batch; nothing is copied."""
        one = slice(batch, batch + 1)
        seen, bias = (None if part is None else part[one] if len(part) > 1 else part for part in (self.seen, self.bias))
        return LayerMask(seen, bias)

    def sees(self, queries: Tensor, keys: Tensor, batch: int) -> Tensor | None:
        """Whether rows see others, in shapes that broadcast; None where the rules say it."""
        return None if self.seen is None else self.seen[batch if len(self.seen) > 1 else 0, queries, keys]

    def added(self, head: int | None, rows: slice | Tensor, keys: slice | Tensor, batch: int) -> Tensor | None:
        """What is added to a rectangle of scores, [n, m] of one head, [H or 1, n, m] of all."""
        bias = self._bias_of(head, batch)
        return None if bias is None else bias[..., rows, :][..., keys]

    def added_to_pairs(self, head: int | None, queries: Tensor, keys: Tensor, batch: int) -> Tensor | None:
        """What is added to the score of each query with one key, [n] of one head, [H or 1, n] of all."""
        bias = self._bias_of(head, batch)
        return None if bias is None else bias[..., queries, keys]

    def count_cells(self, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], batch: int) -> Tensor | None:
        """How many cells of a rectangle are seen, from the first query to the last; None where the rules say it."""
        if self.seen is None:
            return None
        before = self._seen_before[batch if len(self.seen) > 1 else 0]
        (first, last), (low, stop) = queries, keys
        above, below = first, last + 1
        return before[below, stop] - before[above, stop] - before[below, low] + before[above, low]

    @cached_property
    def _seen_before(self) -> Tensor:
        """[B or 1, S + 1, S + 1] cells seen above and left of each corner."""
        assert self.seen is not None
        counts: Tensor = torch.nn.functional.pad(self.seen.long().cumsum(-1).cumsum(-2), (1, 0, 1, 0))
        return counts

    def _bias_of(self, head: int | None, batch: int) -> Tensor | None:
        if self.bias is None:
            return None
        bias = self.bias[batch if len(self.bias) > 1 else 0]
        return bias if head is None else bias[head if len(bias) > 1 else 0]
