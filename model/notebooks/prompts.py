"""Prompts as people have them (texts, ids, lists of either, arrays, vectors) as one batch that a model can run.

Prompts of different lengths are padded on the right: row i of each is its token i, positions count from 0, and no real
row sees a row of padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.model.decoder.interventions import Intervention, PermuteTokens, permuted
from ropewalk.model.errors import InterventionError, PromptError, ShapeError
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.tokens.tokenizer import Tokenizer

Prompts: TypeAlias = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor | NDArray[Any]
"""A text or several, the ids of one prompt or of several, or vectors [B, T, D] in the place of the embedding."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Prompts side by side.

    Attributes
    ----------
    inputs
        [B, T] ids, or [B, T, D] vectors.
    padding, positions
        [B, T] bool, True for a real token, and position ids; None where every token is real.
    texts
        The prompts as they were given, empty where ids were.
    """

    inputs: Tensor
    padding: Tensor | None = None
    positions: Tensor | None = None
    texts: tuple[str, ...] = ()

    @property
    def lengths(self) -> list[int]:
        """The real tokens of each prompt."""
        if self.padding is None:
            return [self.inputs.shape[1]] * self.inputs.shape[0]
        return [int(count) for count in self.padding.sum(1)]

    @property
    def last(self) -> Tensor:
        """[B] the row of each prompt's last token."""
        batch, tokens = self.inputs.shape[:2]
        rows = torch.arange(tokens, device=self.inputs.device).expand(batch, tokens)
        return (rows if self.padding is None else rows * self.padding).amax(1)

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        inputs, padding, positions = (
            None if one is None else one.to(device) for one in (self.inputs, self.padding, self.positions)
        )
        assert inputs is not None
        return Batch(inputs, padding, positions, self.texts)


def batch_of(
    prompts: Prompts,
    tokenizer: Tokenizer | None,
    mask: Any = None,
    *,
    special: bool = True,
    interventions: Sequence[Intervention] = (),
) -> Batch:
    """Make a batch of prompts.

    Parameters
    ----------
    mask
        [B, T] of the ids that are real (True, 1) and of those that are padding.
    special
        Whether texts get the special tokens that belong around them.
    interventions
        Of these an order of tokens is applied here; the others are the model's.

    Raises
    ------
    InterventionError
        For an order that is longer than a prompt, or of vectors.
    PromptError
        For what is neither text nor ids, an empty prompt, or text without a tokenizer.
    ShapeError
        For a mask of another shape, or one that leaves nothing of a prompt.
    """
    if isinstance(prompts, np.ndarray) and prompts.dtype.kind in "OSUT":  # words, or a list in disguise
        prompts = prompts.tolist()
    texts = _texts(prompts)
    if texts:
        if tokenizer is None:
            raise PromptError("This model has no tokenizer, so text cannot be run on it; give ids, such as [1, 2].")
        rows = [list(tokenizer.encode(text, add_special=special)) for text in texts]
        inputs, padding = _padded(rows)
    elif isinstance(prompts, Tensor | np.ndarray):
        inputs, padding = _of_array(torch.as_tensor(prompts)), None
    else:
        inputs, padding = _padded(_id_rows(prompts))
    if mask is not None:
        padding = _mask(mask, inputs)
    if any(isinstance(one, PermuteTokens) for one in interventions):
        inputs = _reordered(inputs, padding, interventions)
    if padding is None or bool(padding.all()):
        return Batch(inputs, texts=texts)
    return Batch(inputs, padding, (padding.cumsum(1) - 1).clamp(min=0), texts)


def token_id(token: int | str, tokenizer: Tokenizer | None, vocabulary: int) -> int:
    """The id of one token, given as that or as its text.

    Raises
    ------
    PromptError
        For an id that is not there, and a text that is not one token.
    """
    if isinstance(token, str):
        if tokenizer is None:
            raise PromptError(
                f"This model has no tokenizer, so {token!r:.40} cannot be looked up; give the token's id."
            )
        ids = list(tokenizer.encode(token, add_special=False))
        if len(ids) != 1:
            raise PromptError(
                f"{token!r:.40} is {len(ids)} tokens of this model, but one is wanted; give another or its id."
            )
        return ids[0]
    number = whole(token)
    if number is None:
        raise PromptError(f"{token!r:.40} is neither a token's text nor its id.")
    if not 0 <= number < vocabulary:
        raise PromptError(f"Token id {number} is not there; the ids of this model are 0 to {vocabulary - 1}.")
    return number


def strings_of(ids: Sequence[int], tokenizer: Tokenizer | None) -> list[str]:
    """Tokens as a person reads them, by their numbers where there is no tokenizer."""
    return [str(token) for token in ids] if tokenizer is None else [one.text for one in tokenizer.describe(ids)]


def _texts(prompts: Prompts) -> tuple[str, ...]:
    if isinstance(prompts, str):
        return (prompts,)
    if isinstance(prompts, Tensor | np.ndarray) or not isinstance(prompts, Sequence):
        return ()
    return tuple(str(one) for one in prompts) if prompts and all(isinstance(one, str) for one in prompts) else ()


def _id_rows(prompts: Any) -> list[list[int]]:
    """Ids as lists, one for each prompt."""
    if not isinstance(prompts, Sequence) or isinstance(prompts, bytes | bytearray):
        raise PromptError(f"A prompt is text or token ids, but {type(prompts).__name__} was given.")
    rows = [prompts] if not any(isinstance(one, Sequence | Tensor | np.ndarray) for one in prompts) else prompts
    return [_ids(row) for row in rows]


def _ids(row: Any) -> list[int]:
    if isinstance(row, Tensor | np.ndarray):
        row = row.tolist()
    if not isinstance(row, Sequence) or isinstance(row, str):
        raise PromptError("Some prompts are text and some are ids; give either texts or ids.")
    ids = [whole(one) for one in row]
    for one, number in zip(row, ids, strict=True):
        if number is None or number.bit_length() > 63:
            raise PromptError(f"{one!r:.40} is not a token id; ids are whole numbers, such as [1, 2, 3].")
    return [one for one in ids if one is not None]


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor | None]:
    """Rows of ids as one [B, T], and which of them are real."""
    for number, row in enumerate(rows):
        if not row:
            which = "The prompt" if len(rows) == 1 else f"Prompt {number}"
            raise PromptError(f"{which} is empty, but a run needs at least one token.")
    longest = max((len(row) for row in rows), default=0)
    if not longest:
        raise PromptError("There is no prompt; give at least one text.")
    lengths = torch.tensor([len(row) for row in rows])
    inputs = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.long)
    return inputs, torch.arange(longest) < lengths[:, None]


def _of_array(array: Tensor) -> Tensor:
    """Ids [B, T], or vectors [B, T, D]."""
    if array.is_meta or array.layout is not torch.strided:
        raise PromptError("Ids are a dense tensor of numbers, but a sparse one or one without numbers was given.")
    if array.numel() == 0:
        raise PromptError("The prompt is empty, but a run needs at least one token.")
    if array.is_floating_point():
        if array.ndim not in (2, 3):
            raise ShapeError(f"Vectors have shape {tuple(array.shape)}, but they must be [T, D] or [B, T, D].")
        return array if array.ndim == 3 else array[None]
    if array.dtype == torch.bool or array.is_complex() or array.ndim not in (1, 2):
        raise ShapeError(
            f"An array of {array.dtype}, {tuple(array.shape)}, was given, but ids are whole numbers [T] or [B, T]."
        )
    return (array if array.ndim == 2 else array[None]).long()


def _reordered(inputs: Tensor, padding: Tensor | None, interventions: Sequence[Intervention]) -> Tensor:
    """Ids with the real ones of each prompt in the order that the interventions give them."""
    if inputs.is_floating_point():
        raise InterventionError("An order of tokens is one of ids, but vectors were given; put them in order yourself.")
    inputs = inputs.clone()
    for number, row in enumerate(inputs):
        real = torch.ones_like(row, dtype=torch.bool) if padding is None else padding[number]
        row[real] = row.new_tensor(permuted(row[real].tolist(), interventions))
    return inputs


def _mask(mask: Any, inputs: Tensor) -> Tensor:
    try:
        real = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError("The mask is not an array of true and false [B, T], one for each id.", str(error)) from error
    real = real[None] if real.ndim == 1 else real
    if real.shape != inputs.shape[:2]:
        raise ShapeError(f"The mask has shape {tuple(real.shape)}, but batch and tokens are {tuple(inputs.shape[:2])}.")
    real = real.to(inputs.device).bool()
    empty = (~real.any(1)).nonzero().flatten().tolist()
    if empty:
        raise ShapeError(f"The mask hides every token of prompt {empty[0]}; leave at least one.")
    return real
