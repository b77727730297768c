"""What a study measures: one number of the logits of some prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ropewalk.model.errors import PromptError, ShapeError
from ropewalk.model.notebooks.prompts import token_id
from ropewalk.model.tokens.tokenizer import Tokenizer

Token: TypeAlias = int | str
Tokens: TypeAlias = Token | Sequence[Token]
"""One for all prompts, or one for each."""
Metric: TypeAlias = Callable[[Tensor], Tensor | float] | tuple[Tokens, Tokens]
"""Of logits [B, T, V] one number; or two tokens, of which the mean difference of logits after the last row is meant."""
Measure: TypeAlias = Callable[[Tensor], Tensor]


class LogitDifference:
    """Mean over prompts of logit[a] − logit[b] after each prompt's last token.

    Parameters
    ----------
    pairs
        [B, 2] the ids a and b.
    last
        [B] the last row of each prompt.
    """

    def __init__(self, pairs: Tensor, last: Tensor) -> None:
        self.pairs, self.last = pairs, last

    def __call__(self, logits: Tensor) -> Tensor:
        """The difference, of logits [B, T, V]."""
        return self.of_last(logits[torch.arange(len(self.last), device=logits.device), self.last])

    def of_last(self, logits: Tensor) -> Tensor:
        """The same of the logits [..., B, V] after the last tokens alone: [...]."""
        chosen = logits.gather(-1, self.pairs.expand(*logits.shape[:-1], 2))
        return (chosen[..., 0] - chosen[..., 1]).mean(-1)


def measure_of(metric: Metric, tokenizer: Tokenizer | None, last: Tensor, vocabulary: int) -> Measure:
    """What is measured, as a function of logits [B, T, V]; ``last`` [B] is the last row of each prompt.

    Raises
    ------
    PromptError
        For what is no metric, and tokens that are not there.
    """
    if callable(metric):
        return lambda logits: _one_number(metric(logits))
    if not isinstance(metric, tuple | list) or len(metric) != 2:
        raise PromptError("A metric is a function of logits [B, T, V], or two tokens such as (' Mary', ' John').")
    ids = [_of_each(one, tokenizer, len(last), vocabulary) for one in metric]
    return LogitDifference(torch.tensor(ids, device=last.device).T, last)


def _of_each(tokens: Any, tokenizer: Tokenizer | None, prompts: int, vocabulary: int) -> list[int]:
    each = list(tokens) if isinstance(tokens, Sequence) and not isinstance(tokens, str) else [tokens] * prompts
    if len(each) != prompts:
        raise PromptError(f"{len(each)} tokens were given for {prompts} prompts; give one, or one for each prompt.")
    return [token_id(one, tokenizer, vocabulary) for one in each]


def _one_number(found: Tensor | float) -> Tensor:
    try:
        value = torch.as_tensor(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(f"The metric returned {found!r:.40}, but it must return one number.", str(error)) from error
    if value.numel() != 1:
        raise ShapeError(f"The metric returned shape {tuple(value.shape)}, but it must return one number; take a mean.")
    return value.reshape(())
