"""A model to run prompts on: one that Ropewalk opened, or whatever else stands behind the same few methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.checkpoints.opening import free_bytes
from ropewalk.model.checkpoints.source import Options
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.notebooks.prompts import Batch, Prompts, batch_of
from ropewalk.model.notebooks.run import Run
from ropewalk.model.notebooks.source import Source
from ropewalk.model.progress import finished
from ropewalk.model.runs.budget import Logits, check_budget, chunk_rows, run_budget
from ropewalk.model.runs.trace import Trace, capture_steps


class Model(Source):
    """A model that runs prompts. Another kind of model is one more :meth:`_run`, and ``decoder`` where it has one."""

    config: ModelConfig

    def capture(
        self,
        prompts: Prompts,
        *,
        mask: Any = None,
        interventions: Sequence[Intervention] = (),
        logits: Logits | None = None,
        branch: Branch = "fused",
        special: bool = True,
    ) -> Run:
        """Run prompts and keep what is needed to look at every head.

        Parameters
        ----------
        prompts
            A text, token ids, or several of either; prompts of different lengths are padded on the right.
        mask
            [B, T] which of the ids are real, where they are padded already.
        interventions
            What to change in the model meanwhile.
        logits
            Whose logits to keep: ``all`` rows, the ``last``, or ``none``; by default all of up to 1,024 tokens.
        branch
            ``fused`` or ``explicit``.
        special
            Whether texts get the special tokens that belong around them.

        Raises
        ------
        PromptError, ShapeError, PositionError, InterventionError, MemoryBudgetError
            In a sentence each.
        """
        batch = batch_of(prompts, self.tokenizer, mask, special=special)
        return Run(self._run(batch, interventions, logits, branch), self, batch.texts)

    def _run(self, batch: Batch, interventions: Sequence[Intervention], logits: Logits | None, branch: Branch) -> Trace:
        """Run a batch."""
        raise NotImplementedError


class CheckpointModel(Model):
    """A checkpoint that Ropewalk opened, in its own decoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.name, self.config, self.tokenizer = checkpoint.name, checkpoint.config, checkpoint.tokenizer

    @property
    def decoder(self) -> Decoder:
        """The decoder itself, with its hook points."""
        return self.checkpoint.model

    def _run(self, batch: Batch, interventions: Sequence[Intervention], logits: Logits | None, branch: Branch) -> Trace:
        weight = self.decoder.embed.weight
        count, tokens = batch.inputs.shape[:2]
        rows = chunk_rows(self.config, tokens)
        dtype = str(weight.dtype).removeprefix("torch.")
        budget = run_budget(self.config, tokens, dtype, batch=count, logits=logits, rows=rows, branch=branch)
        check_budget(budget, self.config, free_bytes(weight.device), batch=count, rows=rows)
        steps = capture_steps(
            self.decoder,
            batch.inputs,
            logits=logits,
            positions=None if batch.positions is None else batch.positions.to(weight.device),
            padding=None if batch.padding is None else batch.padding.to(weight.device),
            branch=branch,
            interventions=interventions,
            chunk=rows,
        )
        return finished(steps)


def open(  # noqa: A001 - ropewalk.open(path)
    path: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    options: Options | None = None,
) -> Model:
    """Open a model; :func:`~model.checkpoints.opening.open_steps` says what is taken and raised."""
    return CheckpointModel(open_checkpoint(path, device=device, dtype=dtype, options=options))
