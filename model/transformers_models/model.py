"""A model of transformers' own making, in memory: run, decoded and ablated by itself, and seen layer by layer.

Nothing of the model is copied or rewritten: it runs as it is, wherever its weights lie, and is left as it was. What its
attention layers are handed, and what they make of it, becomes a trace (``model.transformers_models.attention``). Layers
are numbered in the order in which they attend. Letters as in ``model.decoder.config``.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import AblateHeads, Intervention, PermuteTokens, check_listed
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import InterventionError, PromptError, RopewalkError, TraceError
from ropewalk.model.runs.budget import Logits, kept_logits
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Recorder, RunHeader, Trace
from ropewalk.model.transformers_models.attention import AttentionCall, listening
from ropewalk.model.transformers_models.rules import extended, log_sum_exp, ruled

Made = TypeVar("Made")

CROSS = re.compile(r"cross_?att|encoder_attn|encdecatt", re.IGNORECASE)
"""What attention to an encoder is called, in the names of modules and classes."""
ENCODED = {"input_ids", "inputs_embeds", "encoder_outputs"}
"""What an encoder may be given."""
PROBE_TOKENS = 2
"""Tokens of the run that tells what a model's layers are."""
TOLERANCE, HALF_TOLERANCE = 2e-3, 6e-2
"""How far a head's output may be from what its trace says, as a share of the largest number; in half precision."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelTrace(Trace):
    """A run of a transformers model.

    Attributes
    ----------
    inputs
        What the model was given beside token ids and their mask: an encoder's ids, pixels.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)

    def prompt(self, batch: int) -> ModelTrace:
        """One prompt of a batch; of the inputs what is its own, as far as the first axis says."""
        own = {
            name: value[batch : batch + 1] if isinstance(value, Tensor) and len(value) == self.batch else value
            for name, value in self.inputs.items()
        }
        alone = super().prompt(batch)
        assert isinstance(alone, ModelTrace)
        return replace(alone, inputs=own)


@dataclass(frozen=True, eq=False)
class _Going:
    """A cache of the model's own, and which rows it holds.

    Attributes
    ----------
    trace
        The run after whose last row it goes on.
    encoder_outputs
        What its encoder made, where it has one.
    """

    trace: ModelTrace
    cache: Any
    encoder_outputs: Any


class TransformersModel:
    """Runs a transformers model and keeps what its attention was.

    Parameters
    ----------
    model
        A ``PreTrainedModel``, or what wraps one (PEFT).
    name
        What to call it.

    Attributes
    ----------
    config
        What is known of it, in our words; how it rotates and what its MLPs are is not.
    notes
        What was left out, in sentences.

    Raises
    ------
    TraceError
        For a model whose attention cannot be seen, or not said by a trace.
    """

    def __init__(self, model: nn.Module, name: str = "") -> None:
        self.module = getattr(model, "_orig_mod", model)
        self._base = _unwrapped(self.module)
        self.class_name = type(self._base).__name__
        self.name = name or self.class_name
        self._text = _text_config(self._base)
        self._arguments = inspect.signature(self._base.forward).parameters
        self.is_encoder_decoder = bool(getattr(self._base.config, "is_encoder_decoder", False))
        self._check_reads_tokens()
        self._attends = {id(module): path for path, module in _decoder_of(self._base).named_modules()}
        self._going: _Going | None = None
        self.heard: Callable[[int], None] = lambda layer: None
        """Hears of every layer that has attended; what it raises ends the run."""
        self.config, self.specs, self.notes, self.has_logits = self._probed()

    # ------------------------------------------------------------------------------------------------------------------
    # Running

    def capture(
        self,
        ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        *,
        run_id: int = 0,
        logits: Logits | None = None,
        positions: Tensor | None = None,
        padding: Tensor | None = None,
        interventions: Sequence[Intervention] = (),
        inputs: Mapping[str, Any] | None = None,
    ) -> ModelTrace:
        """Run a prompt and keep what every layer attended with.

        Parameters
        ----------
        ids
            [T] or [B, T] token ids; of a model with an encoder, those that its decoder reads.
        logits
            Whose logits to keep: ``all`` rows, the ``last``, or ``none``. By default all up to 1,024 tokens.
        positions, padding
            [B, T] position ids; [B, T] bool, True for a real token. Positions count real tokens where none are given.
        interventions
            Heads to ablate.
        inputs
            What else the model's own ``forward`` takes. An encoder reads the same ids where it is given none.

        Raises
        ------
        PromptError, InterventionError
            For ids that are not there; for an intervention that is no ablation of heads, or of heads that are not.
        TraceError
            When the layers do what a trace cannot say.
        """
        self.check_interventions(interventions)
        tokens, positions, padding = self._prompt(ids, positions, padding)
        device = tokens.device
        keep = kept_logits(logits, tokens.shape[1])
        recorder = _Recorder(self, tokens.shape, padding, interventions)
        kept = self._with_encoder(dict(inputs or {}), tokens, padding)
        self._going = None
        outputs = self._run(recorder, tokens, positions, padding, inputs=kept, last_only=keep != "all", use_cache=True)
        made = getattr(outputs, "logits", None)
        if keep == "none" or not isinstance(made, Tensor):
            made = None
        elif keep == "last":
            made = made[:, -1:]
        trace = ModelTrace(
            run_id=run_id,
            config=self.config,
            ids=tokens,
            positions=positions,
            padding=padding,
            prefill=tokens.shape[1],
            logits=None if made is None else Rows.of(made[:, None].to(device)),
            first_logit_row=0 if keep == "all" else tokens.shape[1] - 1,
            interventions=tuple(interventions),
            layers=recorder.finished(),
            inputs=kept,
        )
        self._heard_of(trace, outputs)
        return trace

    def record(
        self,
        ids: Tensor,
        recorder: Recorder[Made],
        *,
        positions: Tensor | None = None,
        padding: Tensor | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Made:
        """Run a prompt for a recorder, without logits; each layer is freed when it lets go of it."""
        self.check_interventions(interventions)
        tokens, positions, padding = self._prompt(ids, positions, padding)
        listens = _Recorder(self, tokens.shape, padding, interventions, take=recorder.add)
        self._run(listens, tokens, positions, padding, inputs=self._with_encoder({}, tokens, padding), last_only=True)
        return recorder.finish(
            RunHeader(
                run_id=0,
                config=self.config,
                ids=tokens,
                positions=positions,
                padding=padding,
                prefill=tokens.shape[1],
                logits=None,
                first_logit_row=tokens.shape[1] - 1,
                interventions=tuple(interventions),
            )
        )

    def append(self, trace: Trace, ids: int | Sequence[int]) -> ModelTrace:
        """Decode one step: run one token for each prompt of the batch and return the longer trace.

        The model's own cache is used; where it stands elsewhere, the rows before are run again first.

        Raises
        ------
        TraceError
            When the model does not decode, or the run has no tokens.
        """
        if not self.decodes:
            raise TraceError(f"{self.class_name} sees later tokens or has no logits, so it decodes nothing.")
        trace = self._own(trace)
        assert trace.ids is not None
        device = trace.ids.device
        new = torch.tensor([[ids]] if isinstance(ids, int) else [[one] for one in ids], device=device)
        tokens = torch.cat((trace.ids, self._checked(new)), 1)
        positions = torch.cat((trace.positions, trace.positions[:, -1:] + 1), 1)
        padding = trace.padding
        if padding is not None:
            padding = torch.cat((padding, padding.new_ones(trace.batch, 1)), 1)
        going = self._going_on_from(trace)
        if going is None:
            return self._again(trace, tokens, positions, padding)
        recorder = _Recorder(self, tokens.shape, padding, trace.interventions, trace)
        self._going = None
        outputs = self._run(recorder, tokens, positions, padding, going=going, use_cache=True)
        made = outputs.logits[:, -1:, :][:, None].to(device)
        longer = replace(
            trace,
            layers=recorder.finished(),
            ids=tokens,
            positions=positions,
            padding=padding,
            logits=Rows.of(made) if trace.logits is None else trace.logits.appended(made),
            first_logit_row=trace.length if trace.logits is None else trace.first_logit_row,
        )
        self._heard_of(longer, outputs)
        return longer

    def logits_after(self, trace: Trace, row: int, interventions: Sequence[Intervention] | None = None) -> Tensor:
        """[B, V] after a row, by running the rows up to it again, under the run's interventions or others."""
        trace.check_row(row)
        if not self.has_logits:
            raise TraceError(f"{self.class_name} gives no logits, so nothing is known of the next token.")
        trace = self._own(trace)
        assert trace.ids is not None
        stop = row + 1 if self.decodes else trace.length
        padding = None if trace.padding is None else trace.padding[:, :stop]
        active = trace.interventions if interventions is None else interventions
        listens = _Recorder(self, (trace.batch, stop), padding, active, silent=True)
        outputs = self._run(
            listens,
            trace.ids[:, :stop],
            trace.positions[:, :stop],
            padding,
            inputs=trace.inputs,
            last_only=self.decodes,
        )
        found: Tensor = outputs.logits[:, -1 if self.decodes else row]
        return found

    def mean_heads(self, trace: Trace, layer: int, heads: Sequence[int]) -> AblateHeads:
        """The ablation that replaces heads by their mean output z over a run's real rows, without interventions."""
        own = self._own(trace)
        assert own.ids is not None
        if own.interventions:
            own = self.capture(own.ids, logits="none", positions=own.positions, padding=own.padding, inputs=own.inputs)
        kept = own[layer]
        means = []
        for head in heads:
            kept.check_head(head)
            values = kept.values.tensor[:, kept.spec.kv_head_of(head)].float()  # [B, S, Dv]
            z = torch.stack([kept.weights(head, batch=batch) for batch in range(own.batch)]) @ values
            real = torch.ones_like(z[..., 0], dtype=torch.bool) if kept.padding is None else kept.padding
            means.append(tuple(z[real].mean(0).tolist()))
        return AblateHeads(layer, tuple(heads), tuple(means))

    @property
    def decodes(self) -> bool:
        """Whether tokens can be decoded: the model has logits, and no query sees a later key."""
        return self.has_logits and all(spec.causal for spec in self.specs)

    def check_interventions(self, interventions: Sequence[Intervention]) -> None:
        """Refuse what is no ablation of heads that are there; an order of tokens is applied by the caller.

        Raises
        ------
        InterventionError
            With what could be done.
        """
        check_listed(interventions)
        for one in interventions:
            if not isinstance(one, AblateHeads | PermuteTokens):
                raise InterventionError(
                    f"“{one.label}” changes the inside of a layer, which in a transformers model is its own; ablate "
                    "heads, or put the tokens in another order."
                )
            one.check(self.config)

    # ------------------------------------------------------------------------------------------------------------------
    # Inside

    def _run(
        self,
        recorder: _Recorder,
        ids: Tensor,
        positions: Tensor,
        padding: Tensor | None,
        *,
        inputs: Mapping[str, Any] | None = None,
        going: _Going | None = None,
        last_only: bool = False,
        use_cache: bool = False,
    ) -> Any:
        """Run the model on the rows that ``going`` does not hold, with the recorder listening; returns its outputs."""
        given = dict(inputs or {})
        prefix = "decoder_" if self.is_encoder_decoder else ""
        given[f"{prefix}input_ids"] = ids if going is None else ids[:, -1:]
        if padding is not None:
            given[f"{prefix}attention_mask"] = padding.long()
            if self.takes("position_ids"):
                given.setdefault("position_ids", positions if going is None else positions[:, -1:])
        if going is not None:
            given["cache" if self.takes("cache") else "past_key_values"] = going.cache
            if going.encoder_outputs is not None:
                given["encoder_outputs"] = going.encoder_outputs
        if self.takes("use_cache"):
            given["use_cache"] = use_cache
        if last_only and self.takes("logits_to_keep"):
            given["logits_to_keep"] = 1
        with listening(self.module, recorder), _evaluating(self.module), torch.no_grad():
            try:
                return self.module(**given, return_dict=True)
            except RopewalkError:
                raise
            except (ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError) as error:
                first = (str(error) or repr(error)).splitlines()[0]
                raise TraceError(
                    f"{self.class_name} could not run this ({first:.200}); see what its own forward takes.", str(error)
                ) from error

    def _prompt(
        self,
        ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        positions: Tensor | None,
        padding: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """[B, T] ids, their positions and which are real, on the model's device."""
        tokens = self._as_ids(ids)
        device = tokens.device
        padding = None if padding is None else padding.to(device, torch.bool)
        if padding is not None and bool(padding.all()):
            padding = None
        if positions is None:
            counted = torch.arange(tokens.shape[1], device=device).expand(tokens.shape)
            positions = counted if padding is None else (padding.long().cumsum(-1) - 1).clamp_min(0)
        return tokens, positions.to(device), padding

    def _own(self, trace: Trace) -> ModelTrace:
        """A run as one of this model's; one from a file had no inputs but its tokens."""
        if isinstance(trace, ModelTrace):
            return trace
        if trace.ids is None:
            raise TraceError("This run was given vectors, not tokens, so a transformers model cannot go on with it.")
        padding = None if trace.padding is None else trace.padding[:, : trace.prefill]
        inputs = self._with_encoder({}, trace.ids[:, : trace.prefill], padding)
        known = {each.name: getattr(trace, each.name) for each in fields(trace)}
        return ModelTrace(**known, inputs=inputs)

    def _with_encoder(self, inputs: dict[str, Any], ids: Tensor, padding: Tensor | None) -> dict[str, Any]:
        """What an encoder reads: the decoder's prompt, where nothing else is given."""
        if self.is_encoder_decoder and not ENCODED & set(inputs):
            inputs["input_ids"] = ids
            if padding is not None:
                inputs["attention_mask"] = padding.long()
        return inputs

    def takes(self, argument: str) -> bool:
        """Whether the model's own ``forward`` has an argument."""
        return argument in self._arguments

    def _heard_of(self, trace: ModelTrace, outputs: Any) -> None:
        """Remember the model's cache, as long as nobody runs anything else."""
        name = "cache" if self.takes("cache") else "past_key_values"  # the older name
        cache = getattr(outputs, name, None)
        encoded = getattr(outputs, "encoder_last_hidden_state", None)
        self._going = (
            None if cache is None else _Going(trace, cache, None if encoded is None else BaseModelOutput(encoded))
        )

    def _going_on_from(self, trace: ModelTrace) -> _Going | None:
        """A cache that holds exactly the rows of a run; None where the model keeps none."""
        if self._going is None or not _same_rows(self._going.trace, trace):
            assert trace.ids is not None
            silent = _Recorder(self, trace.ids.shape, trace.padding, trace.interventions, silent=True)
            self._going = None
            outputs = self._run(
                silent, trace.ids, trace.positions, trace.padding, inputs=trace.inputs, last_only=True, use_cache=True
            )
            self._heard_of(trace, outputs)
        return self._going

    def _again(self, trace: ModelTrace, ids: Tensor, positions: Tensor, padding: Tensor | None) -> ModelTrace:
        """Run every row anew, where the model keeps no cache."""
        longer = self.capture(
            ids,
            run_id=trace.run_id,
            logits="all" if trace.first_logit_row == 0 else "last",
            positions=positions,
            padding=padding,
            interventions=trace.interventions,
            inputs=trace.inputs,
        )
        return replace(longer, prefill=trace.prefill)

    def _probed(self) -> tuple[ModelConfig, tuple[AttentionSpec, ...], tuple[str, ...], bool]:
        """Run a token or two, which tells what the layers are."""
        ids = torch.zeros(1, PROBE_TOKENS, dtype=torch.long, device=self.device)
        recorder = _Recorder(self, ids.shape, None, ())
        inputs = self._with_encoder({}, ids, None)
        try:
            outputs = self._run(recorder, ids, torch.arange(PROBE_TOKENS, device=ids.device)[None], None, inputs=inputs)
        except TraceError:
            if recorder.count or _uses_interface(self._base):
                raise
        layers = recorder.finished()
        if not layers:
            raise TraceError(
                f"{self.class_name} computes its attention itself, not through transformers' attention interface, so "
                "it cannot be looked at this way."
            )
        heads = {layer.spec.heads for layer in layers}
        if len(heads) > 1:
            raise TraceError(
                f"The layers of {self.class_name} have {' and '.join(map(str, sorted(heads)))} heads, but Ropewalk "
                "shows as many heads in every layer; look at another model."
            )
        config = _config_of(self._text, self._base, layers, outputs)
        return config, tuple(layer.spec for layer in layers), self._notes(layers, recorder), hasattr(outputs, "logits")

    def _notes(self, layers: tuple[LayerTrace, ...], recorder: _Recorder) -> tuple[str, ...]:
        notes = []
        if recorder.crossed:
            notes.append(
                f"Its {recorder.crossed} layers that attend to an encoder are left out; what is shown is its decoder's "
                "attention to itself."
            )
        if recorder.outside:
            notes.append(f"Attention outside of its language part is left out ({recorder.outside} layers).")
        said = getattr(self._text, "num_hidden_layers", None)
        if isinstance(said, int) and said < len(layers):
            notes.append(
                f"Its {said} layers attend {len(layers)} times; every time is shown as a layer, in their order."
            )
        if isinstance(said, int) and said > len(layers):
            notes.append(
                f"{len(layers)} of its {said} layers attend through transformers' attention interface; only these are "
                "shown, numbered in their order."
            )
        return tuple(notes)

    def _check_reads_tokens(self) -> None:
        main = getattr(self._base, "main_input_name", "input_ids")
        if main != "input_ids":
            raise TraceError(f"{self.class_name} reads {main}, not tokens; Ropewalk looks at models that read tokens.")

    @property
    def dtype(self) -> str:
        """What its keys are in, by name: that of the embedding, as far as it is one that models run in."""
        dtype = str(self._base.get_input_embeddings().weight.dtype).removeprefix("torch.")
        return dtype if dtype in ("float32", "bfloat16", "float16", "float64") else "float32"

    @property
    def device(self) -> torch.device:
        """Where token ids go in."""
        device: torch.device = self._base.get_input_embeddings().weight.device
        if device.type != "meta":
            return device
        hook = getattr(self.module, "_hf_hook", None)  # accelerate holds the weights elsewhere until they are needed
        return torch.device(getattr(hook, "execution_device", None) or "cpu")

    def _as_ids(self, ids: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Tensor:
        tokens = ids if isinstance(ids, Tensor) else torch.tensor(ids, dtype=torch.long)
        if tokens.numel() == 0:
            raise PromptError("The prompt is empty; give at least one token.")
        return self._checked((tokens[None] if tokens.ndim == 1 else tokens).to(self.device))

    def _checked(self, ids: Tensor) -> Tensor:
        end = self._base.get_input_embeddings().weight.shape[0]
        outside = ids[(ids < 0) | (ids >= end)]
        if outside.numel():
            raise PromptError(f"Token id {int(outside[0])} is not there; the ids of this model are 0 to {end - 1}.")
        return ids


# ----------------------------------------------------------------------------------------------------------------------
# Recording


class _Recorder:
    """Hears of every attention call of one forward pass, and makes layers of those that are the decoder's own.

    Parameters
    ----------
    shape
        B, and S rows when the pass is over.
    before
        The run that a row is added to, None where all rows run.
    silent
        Whether nothing is kept; heads are ablated all the same.
    take
        What each layer is given to; None to keep them.
    """

    def __init__(
        self,
        owner: TransformersModel,
        shape: Sequence[int],
        padding: Tensor | None,
        interventions: Sequence[Intervention],
        before: Trace | None = None,
        *,
        silent: bool = False,
        take: Callable[[LayerTrace], None] | None = None,
    ) -> None:
        self.owner = owner
        self.batch, self.length = shape
        self.padding = padding
        self.before = before
        self.silent = silent
        self.ablations = [one for one in interventions if isinstance(one, AblateHeads)]
        self.layers: list[LayerTrace] = []
        self.take = self.layers.append if take is None else take
        self.count = 0
        self.crossed = self.outside = 0

    def __call__(self, call: AttentionCall) -> Tensor:
        """Keep a call of the decoder's own attention; returns what the model goes on with."""
        path = self.owner._attends.get(id(call.module))
        if path is None:
            self.outside += 1
            return call.output
        if _is_cross(call.module, path):
            self.crossed += 1
            return call.output
        layer, self.count = self.count, self.count + 1
        if not self.silent:
            self.take(self._kept(layer, call))
        self.owner.heard(self.count)
        return self._ablated(layer, call.output)

    def finished(self) -> tuple[LayerTrace, ...]:
        """The layers.

        Raises
        ------
        TraceError
            When there are others than those that the run had before.
        """
        if self.before is not None and len(self.before) != len(self.layers):
            raise TraceError(
                f"The step ran {len(self.layers)} layers of attention, but the run has {len(self.before)}; run the "
                "prompt again."
            )
        return tuple(self.layers)

    def _kept(self, layer: int, call: AttentionCall) -> LayerTrace:
        before = None if self.before is None else self.before[layer]
        rows = self.length if before is None else 1
        self._check_shapes(call, rows)
        device = call.query.device
        padding = None if self.padding is None else self.padding.to(device)
        query, key, value = (one.detach()[:, :, -rows:].contiguous() for one in (call.query, call.key, call.value))
        if before is None:
            positions = torch.arange(self.length, device=device).expand(self.batch, -1)
            spec, mask = ruled(_spec_of(layer, call), call, padding)
            kept = [Rows.of(one) for one in (query, key, value)]
        else:
            positions = torch.cat((before.positions, before.positions[:, -1:] + 1), 1)
            spec, mask = before.spec, extended(before.spec, before.mask, call, self.length, padding)
            kept = [rows.appended(new) for rows, new in zip(before.rows, (query, key, value), strict=False)]
        lse = log_sum_exp(spec, query, kept[1].tensor, mask, padding, self.length - rows)
        kept.append(Rows.of(lse) if before is None else before.lse.appended(lse))
        made = LayerTrace(spec, positions, padding, *kept, mask=mask)
        _check_says(made, call)
        return made

    def _check_shapes(self, call: AttentionCall, rows: int) -> None:
        name, query, key = type(call.module).__name__, call.query, call.key
        if query.ndim != 4 or query.shape[0] != self.batch or query.shape[2] != rows or query.shape[1] % key.shape[1]:
            raise TraceError(
                f"{name} attends with queries of shape {tuple(query.shape)} where [{self.batch}, H, {rows}, Dh] was "
                "expected; such attention cannot be shown."
            )
        if key.shape[2] > self.length or (self.before is None and key.shape[2] != rows):
            raise TraceError(
                f"{name} attends to {key.shape[2]} keys where there are {self.length} tokens, so that others than the "
                "prompt's are among them (a prefix, an encoder); such attention cannot be shown."
            )

    def _ablated(self, layer: int, output: Tensor) -> Tensor:
        """[B, T, H, Dv] with the heads of this layer replaced that are to be."""
        for one in self.ablations:
            if one.layer != layer:
                continue
            output = output.clone()
            output[:, :, list(one.heads)] = (
                output.new_tensor(one.means) if one.means else output.new_zeros(output.shape[-1])
            )
        return output


def _spec_of(layer: int, call: AttentionCall) -> AttentionSpec:
    sinks = None if call.sinks is None else tuple(call.sinks.detach().float().flatten().tolist())
    return AttentionSpec(
        layer=layer,
        heads=call.query.shape[1],
        kv_heads=call.key.shape[1],
        head_width=call.query.shape[-1],
        scale=call.scale,
        cap=call.cap,
        window=call.window,
        causal=call.causal,
        sinks=sinks,
    )


def _check_says(layer: LayerTrace, call: AttentionCall) -> None:
    """Compare the last row of the first prompt with what the model made of it: a trace that says less is refused."""
    row = layer.length - 1
    if call.output.ndim != 4 or call.output.shape[2] != layer.spec.heads:
        raise TraceError(f"{type(call.module).__name__} gives its heads' outputs in an order that is not known.")
    if not bool(torch.isfinite(layer.normaliser(0, (row, row + 1))).all()):
        return
    weights = layer.weights(rows=(row, row + 1))  # [H, 1, S]
    values = layer.values.tensor[0].float()
    blended = (weights.view(values.shape[0], -1, layer.length) @ values).reshape(layer.spec.heads, -1)
    made = call.output[0, -1].float()
    largest = float(made.abs().max())
    far = float((blended - made).abs().max())
    allowed = TOLERANCE if call.output.dtype.itemsize >= 4 else HALF_TOLERANCE
    if math.isfinite(largest) and not far <= allowed * max(largest, 1e-6):
        raise TraceError(
            f"{type(call.module).__name__} does more to its scores than it hands over: what the trace says of layer "
            f"{layer.spec.layer} is {far:.2g} off, so it is not shown."
        )


# ----------------------------------------------------------------------------------------------------------------------
# What a model is


def _unwrapped(model: nn.Module) -> Any:
    """The model that PEFT or the like has wrapped."""
    base = getattr(model, "get_base_model", None)
    return base() if callable(base) else model


def _text_config(model: Any) -> Any:
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "get_text_config"):
        raise TraceError(
            f"{type(model).__name__} is no model of transformers'; give a PreTrainedModel, or what PEFT made of one."
        )
    return config.get_text_config(decoder=True)


def _decoder_of(model: Any) -> nn.Module:
    """The part that reads tokens one after another."""
    found = model.get_decoder() if hasattr(model, "get_decoder") else model
    decoder: nn.Module = found if isinstance(found, PreTrainedModel) else model
    return decoder


def _same_rows(one: ModelTrace, other: ModelTrace) -> bool:
    """Whether two runs are the same rows of the same tokens, under the same interventions."""
    if one.ids is None or other.ids is None or one.inputs is not other.inputs:
        return False
    pairs = ((one.ids, other.ids), (one.positions, other.positions), (one.padding, other.padding))
    return one.interventions == other.interventions and all(
        a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs
    )


def _uses_interface(model: nn.Module) -> bool:
    """Whether the files of a model's classes name the interface."""
    kinds = {type(module) for module in model.modules() if isinstance(module, PreTrainedModel)}
    return all(kind._can_set_attn_implementation() for kind in kinds)


def _is_cross(module: nn.Module, path: str) -> bool:
    last = path.rpartition(".")[2]
    return bool(getattr(module, "is_cross_attention", False)) or any(map(CROSS.search, (last, type(module).__name__)))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout meanwhile; every module is put back as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def first_of(config: Any, names: Sequence[str], otherwise: int) -> int:
    """The first of some fields of a config that is a number above 0."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return otherwise


def _config_of(text: Any, model: Any, layers: Sequence[LayerTrace], outputs: Any) -> ModelConfig:
    """What is known of a model, in our words."""
    embedding = model.get_input_embeddings().weight
    logits = getattr(outputs, "logits", None)
    spec = layers[0].spec
    windows = [layer.spec.window for layer in layers]
    return ModelConfig(
        vocabulary=embedding.shape[0] if logits is None else logits.shape[-1],
        width=first_of(text, ("hidden_size", "d_model", "n_embd"), embedding.shape[-1]),
        layers=len(layers),
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_width=spec.head_width,
        value_width=layers[0].values.tensor.shape[-1],
        mlp_width=first_of(text, ("intermediate_size", "ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 1),
        max_position=first_of(
            text, ("max_position_embeddings", "n_positions", "max_target_positions", "max_sequence_length"), 1 << 20
        ),
        position="unknown",
        window=next((one for one in windows if one is not None), None),
        window_layers=tuple(one is not None for one in windows),
        score_scale=spec.scale,
        score_cap=spec.cap,
        sink=spec.sinks is not None,
        tied=bool(getattr(text, "tie_word_embeddings", False)),
    )
