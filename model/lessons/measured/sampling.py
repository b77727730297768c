"""What the next token is drawn from, after temperature, top-k and top-p."""

from __future__ import annotations

from ropewalk.model.errors import LessonError, PromptError
from ropewalk.model.lessons.runs import Runs, place_of
from ropewalk.model.lessons.values import ModelName, Vector
from ropewalk.model.readings.next_token import distribution, row_logits
from ropewalk.model.readings.records import Sampling


def drawn(
    runs: Runs,
    model: ModelName,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    row: int = -1,
    prompt: str = "",
) -> Vector:
    """The probabilities that the next token is drawn with, the largest first, those that are 0 left out."""
    trace = runs.trace(model, prompt)
    logits, _ = row_logits(runs.decoder(model), trace, place_of(row, trace.length))
    try:
        found = distribution(logits, Sampling(temperature, top_k, top_p))
    except PromptError as error:
        raise LessonError(error.sentence) from error
    return tuple(sorted((value for value in found.tolist() if value > 0), reverse=True))
