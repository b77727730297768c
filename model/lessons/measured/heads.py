"""Heads by their habits, and what is lost without one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.intervention_contexts import changed_block
from ropewalk.model.decoder.interventions import RopeOff
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.bounds import check_tokens
from ropewalk.model.lessons.measured.tokens import row_of
from ropewalk.model.lessons.models import ablations
from ropewalk.model.lessons.runs import Runs, defined_head_scores, device_of, place_of, score_named
from ropewalk.model.lessons.values import Head, Matrix, ModelName
from ropewalk.model.readings import readout
from ropewalk.model.readings.next_token import row_logits
from ropewalk.model.readings.patterns import repeated_ids
from ropewalk.model.runs.trace import capture as run

ROWS = 8
"""Sequences that a loss is averaged over."""


# ----------------------------------------------------------------------------------------------------------------------
# Habits


def head_scores(runs: Runs, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Matrix:
    """A score (previous, sink, induction, duplicate, entropy) of every head, on random tokens twice or the prompt."""
    return runs.head_scores(model, score, repeat, seed, prompt)


def best_head(runs: Runs, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Head:
    """The head with the largest score."""
    return heads_over(runs, model, score, -math.inf, repeat, seed, prompt)[0]


def best_score(runs: Runs, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> float:
    """The largest score of any head."""
    return max(max(row) for row in runs.head_scores(model, score, repeat, seed, prompt))


def head_score(
    runs: Runs, model: ModelName, head: Head, score: str, repeat: int = 0, seed: int = 0, prompt: str = ""
) -> float:
    """The score of one head."""
    return runs.head_scores(model, score, repeat, seed, prompt)[head.layer][head.head]


def heads_over(
    runs: Runs, model: ModelName, score: str, least: float, repeat: int = 0, seed: int = 0, prompt: str = ""
) -> tuple[Head, ...]:
    """The heads whose score reaches so much, best first."""
    scores = runs.head_scores(model, score, repeat, seed, prompt)
    found = [(value, Head(layer, head)) for layer, row in enumerate(scores) for head, value in enumerate(row)]
    return tuple(head for value, head in sorted(found, key=lambda pair: -pair[0]) if value >= least)


def score_without_rope(runs: Runs, model: ModelName, head: Head, score: str, prompt: str = "") -> float:
    """A head's score on the prompt when nothing is rotated."""
    still = run(runs.decoder(model), runs.ids(model, prompt), interventions=(RopeOff(),))
    return score_named(score, defined_head_scores(still))[head.layer][head.head]


def score_without(
    runs: Runs, model: ModelName, out: tuple[Head, ...], head: Head, score: str, prompt: str = ""
) -> float:
    """A head's score on the prompt while the output of some others is zero."""
    without = run(runs.decoder(model), runs.ids(model, prompt), interventions=ablations(out))
    return score_named(score, defined_head_scores(without))[head.layer][head.head]


def looks_back(runs: Runs, model: ModelName, word: str, text: str, count: int = 3) -> tuple[str, ...]:
    """What the heads weigh most from a word of a text, past its neighbour: which head looks at which token."""
    shown = runs.tokens(model, runs.ids(model, text))
    looks = _looks(runs, model, word, text)[:count]
    return tuple(f"L{head.layer}H{head.head} looks at {shown[key]} ({weight:.2f})" for weight, head, key in looks)


def looking_head(runs: Runs, model: ModelName, word: str, text: str) -> Head:
    """The head that looks back most from a word of a text, past its neighbour."""
    return _looks(runs, model, word, text)[0][1]


def _looks(runs: Runs, model: ModelName, word: str, text: str) -> list[tuple[float, Head, int]]:
    """Weights from a word's row to the tokens after the first and before its neighbour, largest first.

    The first token (a sink) and the one just before (a habit of its own) would drown what is looked for.
    """
    row = row_of(runs, model, word, text)
    if row < 3:
        raise LessonError(f"{word!r} has fewer than three tokens before it in {text!r}.")
    trace = runs.trace(model, text)
    found = []
    for layer in range(trace.config.layers):
        for number in range(trace.config.heads):
            weights = readout.read_row(trace[layer], number, row).weights[1 : row - 1]
            key = int(weights.argmax())
            found.append((float(weights[key]), Head(layer, number), key + 1))
    return sorted(found, key=lambda one: -one[0])


def reference_head(runs: Runs, model: ModelName, word: str, nouns: tuple[str, ...], texts: tuple[str, ...]) -> Head:
    """The head whose weight from a word to the noun it stands for most exceeds that to other words, over all texts."""
    named, others = _references(runs, model, word, nouns, texts)
    layer, head = divmod(int((named - others).argmax()), named.shape[1])
    return Head(layer, head)


def reference_weight(
    runs: Runs, model: ModelName, head: Head, word: str, nouns: tuple[str, ...], texts: tuple[str, ...]
) -> float:
    """A head's weight from a word to the noun it stands for, meant over texts with each noun in the place of _."""
    return float(_references(runs, model, word, nouns, texts)[0][head.layer, head.head])


def other_weight(
    runs: Runs, model: ModelName, head: Head, word: str, nouns: tuple[str, ...], texts: tuple[str, ...]
) -> float:
    """The same of the other tokens between the first and the one just before: what a noun would have by chance."""
    return float(_references(runs, model, word, nouns, texts)[1][head.layer, head.head])


def _references(
    runs: Runs, model: ModelName, word: str, nouns: tuple[str, ...], texts: tuple[str, ...]
) -> tuple[Tensor, Tensor]:
    """[L, H] mean weights from the word to the noun, and to the other tokens."""
    named, others = [], []
    for noun, text in ((noun, text.replace("_", noun)) for text in texts for noun in nouns):
        row, at = row_of(runs, model, word, text), row_of(runs, model, noun, text)
        weights = torch.stack([layer.weights()[:, row] for layer in runs.trace(model, text)])  # [L, H, S]
        rest = [key for key in range(1, row - 1) if key != at]
        if at >= row or not rest:
            raise LessonError(f"{text!r} has no {noun!r} before {word!r} with other words around it.")
        named.append(weights[..., at])
        others.append(weights[..., rest].mean(-1))
    if not named:
        raise LessonError("There is no text to look for references in.")
    return torch.stack(named).mean(0), torch.stack(others).mean(0)


# ----------------------------------------------------------------------------------------------------------------------
# Without some heads


def repeat_loss(
    runs: Runs, model: ModelName, repeat: int, without: tuple[Head, ...] = (), part: str = "second", seed: int = 0
) -> float:
    """Mean −ln p of the tokens in the first or second round of random tokens twice, with some heads zeroed."""
    if part not in ("first", "second"):
        raise LessonError(f"Random tokens twice have a first and a second round, not {part!r}.")
    check_tokens(2 * repeat, "repeat_loss")
    decoder = runs.decoder(model)
    rows = [repeated_ids(repeat, decoder.config.vocabulary, seed + row) for row in range(ROWS)]
    ids = torch.tensor(rows, device=device_of(decoder))
    with torch.no_grad(), _zeroed(decoder, without):
        logits = decoder(ids)[:, :-1]
    losses = functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
    losses = losses.view(ROWS, -1)
    return float(losses[:, : repeat - 1].mean() if part == "first" else losses[:, repeat:].mean())


def probability_without(
    runs: Runs, model: ModelName, head: Head, row: int = -1, rank: int = 0, prompt: str = ""
) -> float:
    """The probability of the token that is likeliest without it, after a head has been zeroed."""
    decoder, trace = runs.decoder(model), runs.trace(model, prompt)
    place = place_of(row, trace.length)
    logits, _ = row_logits(decoder, trace, place)
    token = int(logits.double().softmax(-1).topk(rank + 1).indices[rank])
    with torch.no_grad(), _zeroed(decoder, (head,)):
        changed = decoder(runs.input_ids(model, prompt))[0, place]
    return float(changed.double().softmax(-1)[token])


@contextmanager
def _zeroed(decoder: Decoder, heads: Sequence[Head]) -> Iterator[None]:
    """Set the output of some heads to zero for a moment."""
    with ExitStack() as stack:
        for ablation in ablations(heads):
            stack.enter_context(changed_block(decoder.block(ablation.layer), ablation.layer, (ablation,)))
        yield
