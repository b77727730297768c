"""Tokens of a prompt, and what a model expects to come next."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs, place_of
from ropewalk.model.lessons.values import ModelName
from ropewalk.model.readings.next_token import row_logits


def tokens(runs: Runs, model: ModelName, prompt: str = "") -> int:
    """How many tokens the prompt has."""
    return len(runs.ids(model, prompt))


def token(runs: Runs, model: ModelName, row: int, prompt: str = "") -> str:
    """The token of a row, as it is shown."""
    shown = runs.tokens(model, runs.ids(model, prompt))
    return shown[place_of(row, len(shown))]


def row_of(runs: Runs, model: ModelName, word: str, text: str) -> int:
    """The row of a word in a text: the token that its last occurrence ends in."""
    shown = runs.tokens(model, runs.ids(model, text))
    row = _last_row(word, shown)
    if row < 0:
        raise LessonError(f"{text!r} has no {word!r}; its tokens are {', '.join(shown)}.")
    return row


def _last_row(word: str, shown: Sequence[str]) -> int:
    """The token that the last occurrence of a word ends in; −1 where it does not occur."""
    at = "".join(shown).rfind(word)
    ends, last = 0, at + len(word) - 1
    for row, written in enumerate(shown):
        ends += len(written)
        if at >= 0 and last < ends:
            return row
    return -1


def likely(runs: Runs, model: ModelName, row: int = -1, count: int = 1, prompt: str = "") -> tuple[str, ...]:
    """The most probable next tokens after a row."""
    return runs.tokens(model, _probabilities(runs, model, row, prompt).topk(count).indices.tolist())


def probability(runs: Runs, model: ModelName, row: int = -1, rank: int = 0, prompt: str = "") -> float:
    """The probability of the next token of that rank after a row."""
    return float(_probabilities(runs, model, row, prompt).topk(rank + 1).values[rank])


def next_probability(runs: Runs, model: ModelName, row: int, prompt: str = "") -> float:
    """The probability that a row gives to the token that really follows it."""
    ids = runs.ids(model, prompt)
    if not 0 <= row < len(ids) - 1:
        raise LessonError(f"Nothing follows row {row} of {len(ids)} rows.")
    return float(_probabilities(runs, model, row, prompt)[ids[row + 1]])


def row_gap(runs: Runs, model: ModelName, other: str, prompt: str = "") -> float:
    """How much the last row's logits differ between the prompt and another one."""
    return float((_logits(runs, model, -1, prompt) - _logits(runs, model, -1, other)).abs().max())


def _probabilities(runs: Runs, model: ModelName, row: int, prompt: str) -> Tensor:
    """The distribution after a row, [V]."""
    return _logits(runs, model, row, prompt).double().softmax(-1)


def _logits(runs: Runs, model: ModelName, row: int, prompt: str) -> Tensor:
    """The logits of a row, [V]."""
    trace = runs.trace(model, prompt)
    logits, _ = row_logits(runs.decoder(model), trace, place_of(row, trace.length))
    return logits
