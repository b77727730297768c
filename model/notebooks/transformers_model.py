"""A model of transformers' in memory, behind the methods of every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from ropewalk.model.checkpoints.opening import free_bytes
from ropewalk.model.decoder.config import Branch
from ropewalk.model.decoder.hooks import Watch
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.notebooks.model import Model
from ropewalk.model.notebooks.prompts import Batch, Prompts, batch_of
from ropewalk.model.notebooks.run import Run
from ropewalk.model.runs.budget import Logits, check_budget, run_budget
from ropewalk.model.runs.trace import Recorder, Trace
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import Origin
from ropewalk.model.transformers_models.model import TransformersModel
from ropewalk.model.transformers_models.tokenizer import tokenizer_of

Made = TypeVar("Made")


class TransformersNotebookModel(Model):
    """A transformers model that runs prompts by itself.

    Attributes
    ----------
    notes
        What is left out of its runs, in sentences.
    """

    def __init__(self, model: nn.Module, tokenizer: Any = None, name: str = "") -> None:
        self.model = TransformersModel(model, name)
        self.name, self.config, self.notes = self.model.name, self.model.config, self.model.notes
        self.tokenizer = tokenizer_of(tokenizer)

    @property
    def origin(self) -> Origin | None:
        """What a trace file says of the model: its name, for it lies in memory."""
        return Origin(name=self.name, family="via transformers")

    def capture(
        self,
        prompts: Prompts,
        *,
        mask: Any = None,
        interventions: Sequence[Intervention] = (),
        logits: Logits | None = None,
        branch: Branch = "fused",
        special: bool = True,
        inputs: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run prompts as :meth:`Model.capture` does.

        Parameters
        ----------
        interventions
            Heads to ablate.
        inputs
            What else the model's own ``forward`` takes, such as ``pixel_values``. Of a model with an encoder the prompt
            is what its decoder reads; the encoder reads ``input_ids`` of these, or else the prompt too.
        """
        self.model.check_interventions(interventions)
        self._check_inputs(inputs)
        batch = batch_of(prompts, self.tokenizer, mask, special=special, interventions=interventions)
        asked = [Prompt(text, special=special) for text in batch.texts]
        return Run(self._run(batch, interventions, logits, branch, inputs), self, asked)

    def _check_inputs(self, inputs: Mapping[str, Any] | None) -> None:
        """Refuse what a run says itself: it would be right for the prompt, and missing from the first step on.

        Raises
        ------
        PromptError
            With what to give instead.
        """
        if not isinstance(inputs, Mapping | None):
            raise PromptError(f"Inputs are named, such as {{'pixel_values': …}}, but {inputs!r:.40} was given.")
        prefix = "decoder_" if self.model.is_encoder_decoder else ""
        for name in inputs or {}:
            if name in (f"{prefix}input_ids", f"{prefix}attention_mask", "past_key_values", "cache"):
                raise PromptError(f"A run makes {name} itself, from its prompt and mask; leave it out of inputs.")

    def record(
        self,
        batch: Batch,
        recorder: Recorder[Made],
        watches: Mapping[str, Watch] | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Made:
        """Run a batch for a recorder; each layer is freed when it lets go of it. There are no hook points to watch."""
        return self.model.record(
            batch.inputs,
            recorder,
            positions=batch.positions,
            padding=batch.padding,
            interventions=interventions,
        )

    def append(self, trace: Trace, ids: Sequence[int]) -> Trace:
        """Decode one step with the model's own cache: a token for each prompt."""
        return self.model.append(trace, list(ids))

    def _run(
        self,
        batch: Batch,
        interventions: Sequence[Intervention],
        logits: Logits | None,
        branch: Branch,
        inputs: Mapping[str, Any] | None = None,
    ) -> Trace:
        if branch != "fused":
            raise TraceError(f"{self.name} computes its attention itself, so it has no other branch; leave branch out.")
        if batch.inputs.is_floating_point():
            raise PromptError(f"{self.name} was given vectors, but runs of a transformers model are of token ids.")
        count, tokens = batch.inputs.shape
        budget = run_budget(self.config, tokens, self.model.dtype, batch=count, logits=logits)
        check_budget(budget, self.config, free_bytes(self.model.device), batch=count)
        return self.model.capture(
            batch.inputs,
            logits=logits,
            positions=batch.positions,
            padding=batch.padding,
            interventions=interventions,
            inputs=inputs,
        )


def from_transformers(model: nn.Module, tokenizer: Any = None, *, name: str = "") -> TransformersNotebookModel:
    """Look at a transformers model in memory, whatever its architecture, as long as it uses the attention interface.

    It may be fine-tuned, wrapped by PEFT, quantised, on any device or several; it runs as it is, and is left as it was.

    Parameters
    ----------
    tokenizer
        Its tokenizer; without one, prompts are ids.
    name
        What to call it.

    Raises
    ------
    TraceError
        For a model whose attention cannot be seen, or not said by a trace, in a sentence.
    """
    return TransformersNotebookModel(model, tokenizer, name)
