"""How good a small decoder is: its loss on text it never saw, and the attention patterns it has formed.

The patterns are those of :mod:`model.readings.patterns`, each the mean over several sequences. This file measures and
names the demands on the bundled model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import TrainingError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.patterns import head_scores, repeated_ids
from ropewalk.model.readings.records import Doubles
from ropewalk.model.runs.trace import capture

PERIODS = (24, 48, 128)
"""N of the random sequences, said twice, that induction is graded on."""
SEQUENCES = 8
"""Random sequences of each period."""
SEED = 1000
"""Seed of the first random sequence; training draws from other seeds."""
STRETCHES = 8
"""Stretches of positions that the loss is reported for."""
WINDOWS = 8
"""Windows of text in one forward pass."""
NOISE = 0.05
"""Nats that the loss of a later stretch may lie above an earlier one and still not count as rising."""


@dataclass(frozen=True)
class BestHead:
    """The head that shows a pattern most."""

    layer: int
    head: int
    weight: float


@dataclass(frozen=True)
class Repeats:
    """What a model does with N random tokens, said twice.

    Attributes
    ----------
    induction, previous_token
        The heads that show these patterns most, by the formulas of :mod:`model.readings.patterns`.
    loss
        Nats a token over rows q = N … 2N − 2, each of which predicts a token that has been seen.
    """

    induction: BestHead
    previous_token: BestHead
    loss: float


@dataclass(frozen=True)
class Reading:
    """What a model does with text that it was not trained on.

    Attributes
    ----------
    tokens
        How many the text has.
    loss
        Nats a token, in windows of the full context that lie side by side.
    by_position
        The loss of equal stretches of positions, first to last; every stretch is measured on the same tokens.
    previous_token
        The head that looks back by one most, in those windows.
    """

    tokens: int
    loss: float
    by_position: tuple[float, ...]
    previous_token: BestHead


@dataclass(frozen=True)
class Grades:
    """All that was measured: repeats by period, and a text where one was given."""

    repeats: dict[int, Repeats]
    text: Reading | None = None


@dataclass(frozen=True)
class Bar:
    """One demand on the bundled model, and what was found."""

    name: str
    found: float
    limit: float
    at_least: bool = False
    where: str = field(default="", compare=False)

    @property
    def holds(self) -> bool:
        """Whether the demand is met."""
        return self.found >= self.limit if self.at_least else self.found <= self.limit


def bars(grades: Grades) -> tuple[Bar, ...]:
    """The demands on the bundled model that these grades can answer."""
    found = [
        Bar(
            f"induction head, {period} random tokens twice",
            repeats.induction.weight,
            0.6,
            at_least=True,
            where=_address(repeats.induction),
        )
        for period, repeats in grades.repeats.items()
    ]
    if 48 in grades.repeats:
        repeats = grades.repeats[48]
        found += [
            Bar("loss on the second half of 48 random tokens twice, nats", repeats.loss, 0.5),
            Bar(
                "previous-token head, 48 random tokens twice",
                repeats.previous_token.weight,
                0.7,
                at_least=True,
                where=_address(repeats.previous_token),
            ),
        ]
    if grades.text is not None:
        text = grades.text
        found += [
            Bar(
                "previous-token head, validation text",
                text.previous_token.weight,
                0.7,
                at_least=True,
                where=_address(text.previous_token),
            ),
            Bar("validation loss, nats a token", text.loss, 3.85),
            Bar("rise of the validation loss with position, nats", rise(text.by_position), NOISE),
        ]
    return tuple(found)


def rise(by_position: tuple[float, ...]) -> float:
    """How far the loss of any stretch lies above the lowest before it; 0 where it never rises."""
    return max((later - min(by_position[: place + 1]) for place, later in enumerate(by_position)), default=0.0)


# ----------------------------------------------------------------------------------------------------------------------
# Measuring


def grade_steps(model: Decoder, text: Tensor | None = None, sequences: int = SEQUENCES) -> Steps[Grades]:
    """Measure a model.

    Parameters
    ----------
    text
        [N] ids of text that it was not trained on; None leaves out what needs one.
    sequences
        Random sequences of each period.

    Raises
    ------
    TrainingError
        When the text is shorter than the context.
    """
    repeats = {}
    periods = [period for period in PERIODS if 2 * period <= model.config.max_position]
    for place, period in enumerate(periods):
        repeats[period] = grade_repeats(model, period, sequences)
        yield Progress(place + 1, len(periods), f"Reading {period} random tokens twice")
    return Grades(repeats, None if text is None else (yield from _read(model, text)))


def grade_repeats(model: Decoder, period: int, sequences: int = SEQUENCES) -> Repeats:
    """Measure what a model does with ``period`` random tokens, said twice."""
    vocabulary = model.config.vocabulary
    ids = torch.tensor([repeated_ids(period, vocabulary, SEED + place) for place in range(sequences)])
    trace = capture(model, ids, logits="none")
    scores = [head_scores(trace, batch=place)[0] for place in range(sequences)]
    return Repeats(
        induction=_best(score["induction"] for score in scores),
        previous_token=_best(score["previous"] for score in scores),
        loss=float(token_losses(model, ids)[:, period:].mean()),
    )


@torch.no_grad()
def token_losses(model: Decoder, windows: Tensor) -> Tensor:
    """−ln p of every token but the first of each window, [W, T] → [W, T − 1]; element t is what row t expects."""
    logits = model(windows)[:, :-1].float()
    return functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")


def side_by_side(ids: Tensor, length: int) -> Tensor:
    """Cut ids [N] into windows [W, length] that do not overlap; what is left over at the end is dropped."""
    return ids[: len(ids) // length * length].view(-1, length)


def _read(model: Decoder, ids: Tensor) -> Steps[Reading]:
    """Measure a model on text."""
    context = model.config.max_position
    if len(ids) < 2 * context:
        raise TrainingError(
            f"The text to measure on has {len(ids)} tokens, but two windows of {context} are needed; give a longer one."
        )
    windows = side_by_side(ids, context)
    losses = yield from _all_losses(model, windows, "Measuring the validation loss")
    trace = capture(model, windows[:WINDOWS], logits="none")
    previous = _best(head_scores(trace, batch=place)[0]["previous"] for place in range(trace.batch))
    by_position = yield from _losses_by_position(model, ids)
    return Reading(len(ids), float(losses.mean()), by_position, previous)


def _losses_by_position(model: Decoder, ids: Tensor) -> Steps[tuple[float, ...]]:
    """The loss of each stretch of positions, every stretch measured on the same tokens.

    Windows start one stretch apart, so each stretch of text is read at the first positions of one window, at the next
    positions of the window before, and so on. Its first token counts nowhere: no window predicts it at position 0.
    """
    stretches = min(STRETCHES, model.config.max_position // 2)
    stretch = model.config.max_position // stretches
    windows = ids.unfold(0, stretches * stretch, stretch)  # [W, T]
    losses = yield from _all_losses(model, windows, "Measuring the loss by position")
    cut = functional.pad(losses, (1, 0)).view(len(windows), stretches, stretch)[..., 1:].mean(-1)  # [W, stretches]
    # stretch s of window w is the text of stretch 0 of window w + s; all windows that share it count
    shared = len(windows) - stretches + 1
    starts = [stretches - 1 - place for place in range(stretches)]
    return tuple(float(cut[start : start + shared, place].mean()) for place, start in enumerate(starts))


def _all_losses(model: Decoder, windows: Tensor, what: str) -> Steps[Tensor]:
    """The losses of many windows, [W, T] → [W, T − 1], pausing now and then."""
    losses = []
    for first in range(0, len(windows), WINDOWS):
        losses.append(token_losses(model, windows[first : first + WINDOWS]))
        yield Progress(min(first + WINDOWS, len(windows)), len(windows), what)
    return torch.cat(losses)


def _best(scores: Iterable[Doubles]) -> BestHead:
    """The head with the largest mean over sequences of [L, H]."""
    mean = np.mean(list(scores), axis=0)
    layer, head = np.unravel_index(int(mean.argmax()), mean.shape)
    return BestHead(int(layer), int(head), float(mean[layer, head]))


def _address(best: BestHead) -> str:
    return f"L{best.layer}H{best.head}"
