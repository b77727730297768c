"""A model to run prompts on: one that Ropewalk opened, or whatever else stands behind the same few methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.checkpoints.opening import free_bytes
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Watch, watching
from ropewalk.model.decoder.interventions import Intervention, check_interventions
from ropewalk.model.decoder.product_choice import settle_steps
from ropewalk.model.errors import CheckpointError, OtherCheckpointError, TraceError, UnknownFamilyError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.notebooks.gradients import gradients_of
from ropewalk.model.notebooks.metrics import Metric, measure_of
from ropewalk.model.notebooks.patching import MOST_CELLS, Axis, Patch, Patching, Receiver
from ropewalk.model.notebooks.prompts import Batch, Prompts, batch_of, strings_of
from ropewalk.model.notebooks.run import Run
from ropewalk.model.notebooks.source import Source
from ropewalk.model.options import ADAPTER, PRODUCTS, Options, with_asked
from ropewalk.model.progress import finished
from ropewalk.model.runs.budget import Logits, check_budget, chunk_rows, run_budget
from ropewalk.model.runs.trace import Recorder, Trace, capture_steps, record
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import Origin, check_fits
from ropewalk.model.trace_files.trace_file import is_trace
from ropewalk.model.transformers_models.offering import with_offer

Made = TypeVar("Made")


class Model(Source):
    """A model that runs prompts. Another kind of model is one more :meth:`_run`, and ``decoder`` where it has one."""

    config: ModelConfig

    @property
    def decoder(self) -> Decoder:
        """Ropewalk's own decoder, with its hook points; refused in a sentence where there is none."""
        raise TraceError(
            f"{self.name} does not run in Ropewalk's own decoder, which this needs; where its family is one that "
            "ropewalk.open takes, open its folder so."
        )

    def __repr__(self) -> str:
        """Its name and its shape."""
        c = self.config
        return f"<Model {self.name}: {c.layers} layers of {c.heads} heads, {c.kv_heads} kv heads>"

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
        check_interventions(interventions, self.config)
        batch = batch_of(prompts, self.tokenizer, mask, special=special, interventions=interventions)
        asked = [Prompt(text, special=special) for text in batch.texts]
        return Run(self._run(batch, interventions, logits, branch), self, asked)

    def check_made(self, config: ModelConfig, origin: Origin | None) -> None:
        """Refuse a run of other shapes than the model's, or, where its origin is given, one that it did not make.

        Raises
        ------
        TraceError, OtherCheckpointError
            With what differs.
        """
        check_fits(self.name, self.config, config)
        own = None if origin is None or not origin.fingerprint else self.origin
        if origin is not None and own is not None and own.fingerprint not in ("", origin.fingerprint):
            raise OtherCheckpointError(
                f"The run was made with {origin.name}, and the files of {self.name} are not those; open the one that "
                "it was made with, or say other_weights=True."
            )

    def patch(
        self,
        clean: Prompts,
        corrupted: Prompts,
        metric: Metric,
        at: str = "resid_pre",
        *,
        over: Axis | Sequence[Axis] | None = None,
        to: Sequence[Receiver] = (),
        interventions: Sequence[Intervention] = (),
        cells: int = MOST_CELLS,
    ) -> Patch:
        """Put parts of a clean run into a corrupted one, each alone, and measure what comes of it.

        Parameters
        ----------
        clean, corrupted
            Prompts that are equally long, token by token; the corrupted ones may be vectors [B, T, D].
        metric
            Of logits [B, T, V] one number; or two tokens (one for each prompt, if need be): the mean over prompts of
            the first's logit less the second's, after the last token.
        at
            A hook point, or a short name of one in every layer, such as ``resid_pre``, ``mlp_out`` or ``z``.
        over
            ``head`` and ``position``: the axes of the grid beside the layers.
        to
            Receivers of path patching: hook points, or (point, head).
        cells
            Patched copies that run together at most.

        Raises
        ------
        PromptError, ShapeError, HookError
            In a sentence each.
        """
        decoder, device = self.decoder, self.decoder.embed.weight.device
        self.check_logits()
        check_interventions(interventions, self.config)
        first, other = (
            batch_of(prompts, self.tokenizer, interventions=interventions).to(device) for prompts in (clean, corrupted)
        )
        measure = measure_of(metric, self.tokenizer, first.last, self.config.vocabulary)
        found = Patching(decoder, first, other, measure, interventions, cells).grid(at, over, to)
        return replace(found, tokens=strings_of(first.inputs[0].tolist(), self.tokenizer))

    def gradients(
        self, prompts: Prompts, metric: Metric, at: str | Sequence[str], *, interventions: Sequence[Intervention] = ()
    ) -> dict[str, Tensor]:
        """The gradient of a metric with respect to what passed hook points, name → a tensor of its shape.

        Parameters
        ----------
        metric, at
            As in :meth:`patch`; ``at`` may be several. ``pattern`` and ``attn_scores`` have gradients too.
        """
        self.check_logits()
        check_interventions(interventions, self.config)
        batch = batch_of(prompts, self.tokenizer, interventions=interventions).to(self.decoder.embed.weight.device)
        measure = measure_of(metric, self.tokenizer, batch.last, self.config.vocabulary)
        return gradients_of(self.decoder, batch, measure, [at] if isinstance(at, str) else at, interventions)

    def record(
        self,
        batch: Batch,
        recorder: Recorder[Made],
        watches: Mapping[str, Watch] | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Made:
        """Run a batch for a recorder, without logits; hook points may be watched meanwhile."""
        trace = self._run(batch, interventions, "none", "fused")
        for layer in trace:
            recorder.add(layer)
        return recorder.finish(trace)

    def _run(self, batch: Batch, interventions: Sequence[Intervention], logits: Logits | None, branch: Branch) -> Trace:
        """Run a batch."""
        raise NotImplementedError


class CheckpointModel(Model):
    """A checkpoint that Ropewalk opened, in its own decoder."""

    def __init__(self, checkpoint: Checkpoint, options: Options | None = None) -> None:
        super().__init__()
        self.checkpoint, self.options = checkpoint, options or {}
        self.name, self.config, self.tokenizer = checkpoint.name, checkpoint.config, checkpoint.tokenizer

    @property
    def decoder(self) -> Decoder:
        """The decoder itself, with its hook points."""
        return self.checkpoint.model

    def check_logits(self) -> None:
        """Refuse what reads logits where the checkpoint has no last matrix.

        Raises
        ------
        TraceError
            With what there is instead.
        """
        if not self.checkpoint.has_logits:
            raise TraceError(
                f"{self.name} has no last matrix, so it has no logits; patterns, the stream and what heads write are "
                "there all the same."
            )

    @cached_property
    def origin(self) -> Origin:
        """The checkpoint, with the hash over its files."""
        one = self.checkpoint
        fingerprint = finished(fingerprint_steps(Path(one.path), str(self.options.get(ADAPTER, ""))))
        return Origin(one.name, one.path, one.family, fingerprint, tuple(sorted(self.options.items())))

    def record(
        self,
        batch: Batch,
        recorder: Recorder[Made],
        watches: Mapping[str, Watch] | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Made:
        """Run a batch for a recorder; each layer is freed when it lets go of it."""
        batch = batch.to(self.decoder.embed.weight.device)
        with watching(self.decoder, watches or {}):
            return record(
                self.decoder,
                batch.inputs,
                recorder,
                logits="none",
                positions=batch.positions,
                padding=batch.padding,
                interventions=interventions,
            )

    def _run(self, batch: Batch, interventions: Sequence[Intervention], logits: Logits | None, branch: Branch) -> Trace:
        weight = self.decoder.embed.weight
        batch = batch.to(weight.device)
        count, tokens = batch.inputs.shape[:2]
        logits = logits if self.checkpoint.has_logits else "none"
        rows = chunk_rows(self.config, tokens, alone=True)
        dtype = str(weight.dtype).removeprefix("torch.")
        budget = run_budget(self.config, tokens, dtype, batch=count, logits=logits, rows=rows, branch=branch)
        check_budget(budget, self.config, free_bytes(weight.device), batch=count, rows=rows)
        steps = capture_steps(
            self.decoder,
            batch.inputs,
            logits=logits,
            positions=batch.positions,
            padding=batch.padding,
            branch=branch,
            interventions=interventions,
            chunk=rows,
        )
        return finished(steps)


def open(  # noqa: A001 - ropewalk.open(path)
    path: str | Path | None = None,
    *,
    adapter: str | Path | None = None,
    family: str | None = None,
    ignore: str | Sequence[str] = (),
    products: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    options: Options | None = None,
) -> Model:
    """Open a model; :func:`~model.checkpoints.opening.open_steps` says what is taken and raised."""
    if path is not None and is_trace(path):
        raise CheckpointError(f"{path} is a trace, a run without its model; read it with ropewalk.load.")
    asked = with_asked(options, adapter=adapter, family=family, ignore=ignore, products=products)
    try:
        opened = open_checkpoint(path, device=device, dtype=dtype, options=asked)
    except UnknownFamilyError as error:
        offer = "load it there, and look at it with ropewalk.from_transformers(model, tokenizer)"
        raise with_offer(error, None if path is None else str(path), offer) from error
    if not opened.shapes_only:
        finished(settle_steps(opened.model, asked.get(PRODUCTS)))
    return CheckpointModel(opened, asked)
