"""What a lesson's numbers are measured on: the opened models by name, and their runs by prompt, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.bounds import check_tokens
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.toys import toy_checkpoint
from ropewalk.model.lessons.values import Matrix, ModelName, Vector
from ropewalk.model.readings import patterns
from ropewalk.model.runs.trace import Trace
from ropewalk.model.runs.trace import capture as run
from ropewalk.model.tokens.tokenizer import Tokenizer

ATTENTION_POINTS = ("q", "k", "v", "q_normed", "k_normed", "rot_q", "rot_k", "z")
BLOCK_POINTS = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
OUTER_POINTS = ("embed", "final")


class Runs:
    """The models and runs of one lesson, kept as long as this object so that many numbers cost few forward passes.

    Everywhere, ``prompt`` is text for the model; left out, it is the model's own prompt in the lesson.

    Parameters
    ----------
    models
        The models that the lesson declares, by name; ``bundled`` and ``open`` are there unless it says otherwise.
    checkpoint, trace
        What the person has open and its run, or None.
    """

    def __init__(
        self, models: Mapping[str, LessonModel], checkpoint: Checkpoint | None = None, trace: Trace | None = None
    ) -> None:
        self._models = {
            "bundled": LessonModel("bundled", "bundled"),
            "open": LessonModel("open", "open"),
            **models,
        }
        self._checkpoint, self._trace_in_view = checkpoint, trace
        self._checkpoints: dict[str, Checkpoint] = {}
        self._traces: dict[tuple[str, str | None], Trace] = {}
        self._points: dict[tuple[str, str, str], Tensor] = {}
        self._head_scores: dict[tuple[str, int, int, str], dict[str, Matrix]] = {}

    # Models -----------------------------------------------------------------------------------------------------------

    def checkpoint(self, model: ModelName) -> Checkpoint:
        """The opened model."""
        if model.name not in self._checkpoints:
            self._checkpoints[model.name] = self._open(self._described(model))
        return self._checkpoints[model.name]

    def config_of(self, model: ModelName) -> ModelConfig:
        """The config of a model that runs."""
        return self.checkpoint(model).config

    def decoder(self, model: ModelName) -> Decoder:
        """The module to run."""
        return self.checkpoint(model).model

    def _described(self, model: ModelName) -> LessonModel:
        if model.name not in self._models:
            raise LessonError(f"There is no model {model.name!r}; there are {', '.join(self._models)}.")
        return self._models[model.name]

    def _open(self, described: LessonModel) -> Checkpoint:
        if described.kind == "toy" and described.toy is not None:
            return toy_checkpoint(described.toy, described.name)
        if described.kind == "bundled":
            if self._checkpoint is not None and self._checkpoint.name == "bundled":
                return self._checkpoint
            return open_checkpoint(None)
        if described.kind == "open":
            if self._checkpoint is None:
                raise LessonError("No model is open; open one, and this number is read from it.")
            return self._checkpoint
        raise LessonError(f"The model {described.name!r} has sizes but no weights, so nothing can be run on it.")

    # Tokens -----------------------------------------------------------------------------------------------------------

    def ids(self, model: ModelName, prompt: str = "") -> list[int]:
        """The token ids of a prompt."""
        described, checkpoint = self._described(model), self.checkpoint(model)
        words = prompt or described.prompt
        if words and checkpoint.tokenizer is not None:
            return checkpoint.tokenizer.encode(words)
        trace = self._trace_in_view
        if not words and described.kind == "open" and trace is not None and trace.ids is not None:
            return [int(token) for token in trace.ids[0]]
        raise LessonError(
            f"There is nothing to run on {described.name!r}: "
            + ("it has no tokenizer." if words else "the lesson gives it no prompt.")
        )

    def input_ids(self, model: ModelName, prompt: str = "") -> Tensor:
        """The token ids of a prompt, [1, T], where the model's weights lie."""
        return torch.tensor([self.ids(model, prompt)], device=device_of(self.decoder(model)))

    def tokens(self, model: ModelName, ids: Sequence[int]) -> tuple[str, ...]:
        """Tokens as they are shown."""
        checkpoint = self.checkpoint(model)
        tokenizer: Tokenizer | None = checkpoint.tokenizer
        if tokenizer is None:
            raise LessonError(f"{checkpoint.name} has no tokenizer, so its tokens cannot be read.")
        return tuple(token.text for token in tokenizer.describe(ids))

    # Runs -------------------------------------------------------------------------------------------------------------

    def trace(self, model: ModelName, prompt: str = "") -> Trace:
        """The run of a prompt."""
        key = (model.name, prompt)
        if key not in self._traces:
            self._traces[key] = run(self.decoder(model), self.ids(model, prompt))
        return self._traces[key]

    def batch(self, model: ModelName) -> Trace:
        """The run of the model's prompt together with the other sequences of its batch."""
        key = (model.name, None)
        if key not in self._traces:
            others = self._described(model).others
            rows = [self.ids(model), *(self.ids(model, other) for other in others)]
            if len({len(row) for row in rows}) != 1:
                raise LessonError(f"The sequences of {model.name!r} are not equally long, so they make no batch.")
            self._traces[key] = run(self.decoder(model), rows)
        return self._traces[key]

    def point(self, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Tensor:
        """What passes a hook point in a run of a prompt, by its short name: [heads, T, Dh] or [T, D]."""
        if name in ATTENTION_POINTS:
            path = f"blocks.{layer}.attn.hook_{name}"
        elif name in BLOCK_POINTS:
            path = f"blocks.{layer}.hook_{name}"
        elif name in OUTER_POINTS:
            path = f"hook_{name}"
        else:
            known = ", ".join((*ATTENTION_POINTS, *BLOCK_POINTS, *OUTER_POINTS))
            raise LessonError(f"There is no point {name!r}; there are {known}.")
        key = (model.name, prompt, path)
        if key not in self._points:
            self._points[key] = self.captured(model, path, prompt)[0].float().cpu()
        return self._points[key]

    def captured(self, model: ModelName, path: str, prompt: str = "") -> Tensor:
        """What passes one hook point, by its path in the module, as it is."""
        decoder = self.decoder(model)
        with torch.no_grad(), capture(decoder, (path,)) as record:
            decoder(self.input_ids(model, prompt))
        return record[path]

    def head_scores(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Matrix:
        """One score of every head, [L][H]: on ``repeat`` random tokens twice, or on the prompt."""
        key = (model.name, repeat, seed, prompt)
        if key not in self._head_scores:
            if repeat:
                check_tokens(2 * repeat, "A score on random tokens")
                ids = patterns.repeated_ids(repeat, self.config_of(model).vocabulary, seed)
                trace = run(self.decoder(model), ids, logits="none")
            else:
                trace = self.trace(model, prompt)
            self._head_scores[key] = defined_head_scores(trace)
        return score_named(score, self._head_scores[key])


def defined_head_scores(trace: Trace) -> dict[str, Matrix]:
    """The scores of every head that the tokens of a run define, by name."""
    found, undefined = patterns.head_scores(trace)
    return {name: tuple(map(tuple, values.tolist())) for name, values in found.items() if name not in undefined}


def score_named(score: str, scores: Mapping[str, Matrix]) -> Matrix:
    """One of several scores of every head.

    Raises
    ------
    LessonError
        When it is not among them.
    """
    if score not in scores:
        raise LessonError(f"There is no score {score!r} for these tokens; there are {', '.join(scores)}.")
    return scores[score]


def device_of(decoder: Decoder) -> torch.device:
    """Where a decoder's weights lie."""
    return decoder.embed.weight.device


def place_of(row: int, length: int) -> int:
    """A row counted from the start, −1 being the last.

    Raises
    ------
    LessonError
        When the run has no such row.
    """
    if not -length <= row < length:
        raise LessonError(f"Row {row} was asked for, but the run has {length} rows.")
    return row % length


def vector_of(x: Tensor) -> Vector:
    """The numbers of a tensor [n]."""
    return tuple(float(number) for number in x.tolist())


def matrix_of(x: Tensor) -> Matrix:
    """The numbers of a tensor [n, m]."""
    return tuple(vector_of(row) for row in x)
