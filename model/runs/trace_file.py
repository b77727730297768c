"""A trace as one ``.safetensors`` file, and back.

Tensor names are the hook names, axes are ours ([batch, head, position, Dh]); everything else is JSON in the header.
Anything that reads safetensors reads it. Writing is atomic: the old file stays when the new one fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ropewalk import __version__
from ropewalk.model.codec import CodecError, from_plain, read_json, stored, to_json, to_plain
from ropewalk.model.decoder.attention import last_points
from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import ConfigError, TraceError
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace, replay
from ropewalk.model.whole_file import whole_file

AXES = "q [B, H, S, Dh]; k, v [B, Hkv, S, Dh]; lse [B, H, S]; scores and pattern [B, H, query, key]; logits [B, n, V]"
PATTERN_LIMIT = 2 << 30
"""Bytes that the matrices of ``pattern`` may take unless the caller says otherwise."""


@stored("run_id prefill first_logit_row branch")
@dataclass(frozen=True)
class RunHeader:
    """What a header says about the run itself; the fields are those of :class:`~model.runs.trace.Trace`."""

    run_id: int
    prefill: int
    first_logit_row: int
    branch: Branch


@stored("config specs strings run")
@dataclass(frozen=True)
class TraceHeader:
    """What the header of a trace file says, a field each as JSON."""

    config: ModelConfig
    specs: tuple[AttentionSpec, ...]
    strings: tuple[str, ...]
    run: RunHeader


@dataclass(frozen=True)
class TraceFile:
    """A trace that was read back, with the token strings it was saved with."""

    trace: Trace
    strings: tuple[str, ...]
    version: str


def save_trace(
    trace: Trace,
    path: str | Path,
    *,
    strings: Sequence[str] = (),
    model: Decoder | None = None,
    pattern: bool = False,
    limit: int = PATTERN_LIMIT,
) -> None:
    """Write a trace.

    Parameters
    ----------
    strings
        The tokens as text.
    pattern
        Also write ``hook_q`` (before RoPE), ``hook_k``, ``hook_attn_scores`` and ``hook_pattern``; needs ``model``.
    limit
        Bytes those matrices may take.

    Raises
    ------
    TraceError
        When the matrices would take more than ``limit``, or the file cannot be written.
    """
    tensors = _kept(trace)
    if pattern:
        _check_budget(trace, limit)
        if model is None:
            raise TraceError("Queries before RoPE come from a replay, which needs the model.")
        tensors |= _matrices(trace) | _before_rope(trace, model)
    _write(tensors, _header(trace, strings), Path(path))


def load_trace(path: str | Path) -> TraceFile:
    """Read a trace back.

    Raises
    ------
    TraceError
        When the file is not there or is not a trace of ours.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        return _rebuilt(header, tensors)
    except (OSError, SafetensorError, KeyError, CodecError, ConfigError) as error:
        raise TraceError(f"{path} is not a trace file that Ropewalk can read.", str(error)) from error


def _kept(trace: Trace) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for layer in trace:
        names = _names(trace.config, layer.spec.layer)
        tensors |= {name: rows.tensor for name, rows in zip(names, layer.rows, strict=True)}
    if trace.ids is not None:
        tensors["tokens"] = trace.ids
    tensors["positions"] = trace.positions
    if trace.padding is not None:
        tensors["padding"] = trace.padding
    if trace.logits is not None:
        tensors["logits"] = trace.logits.tensor[:, 0]
    return tensors


def _names(config: ModelConfig, layer: int) -> list[str]:
    """What Q', K', V and lse of a layer are called."""
    return [f"blocks.{layer}.attn.{name}" for name in (*last_points(config, layer), "hook_v", "lse")]


def _check_budget(trace: Trace, limit: int) -> None:
    needed = 2 * 4 * trace.config.layers * trace.batch * trace.config.heads * trace.length**2
    if needed > limit:
        raise TraceError(
            f"Scores and weights of every head would take {needed / 2**30:.1f} GiB for {trace.length} tokens, but the "
            f"limit is {limit / 2**30:.1f} GiB; shorten the prompt, or leave the pattern out: it can be computed from "
            "q, k and lse."
        )


def _matrices(trace: Trace) -> dict[str, Tensor]:
    """Scores and weights of every layer, [B, H, S, S] float32."""
    tensors: dict[str, Tensor] = {}
    for layer in trace:
        prefix, prompts = f"blocks.{layer.spec.layer}.attn.", range(trace.batch)
        tensors[f"{prefix}hook_attn_scores"] = torch.stack([layer.scores(batch=one) for one in prompts])
        tensors[f"{prefix}hook_pattern"] = torch.stack([layer.weights(batch=one) for one in prompts])
    return tensors


def _before_rope(trace: Trace, model: Decoder) -> dict[str, Tensor]:
    """Queries and keys as projected, [B, heads, S, Dh], replayed row by row."""
    names = [f"blocks.{layer}.attn.hook_{kind}" for layer in range(trace.config.layers) for kind in "qk"]
    rows = [replay(model, trace, row, names).points for row in range(trace.length)]
    return {name: torch.cat([row[name] for row in rows], dim=2) for name in names}


def _header(trace: Trace, strings: Sequence[str]) -> dict[str, str]:
    run = RunHeader(trace.run_id, trace.prefill, trace.first_logit_row, trace.branch)
    plain = to_plain(TraceHeader(trace.config, trace.specs, tuple(strings), run))
    about = {"format": "ropewalk-trace", "version": __version__, "axes": AXES}
    return about | {name: to_json(value) for name, value in plain.items()}


def _write(tensors: dict[str, Tensor], header: dict[str, str], path: Path) -> None:
    packed = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with whole_file(path) as part:
            save_file(packed, part, metadata=header)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"The trace could not be written to {path}: {why}.") from error


def _rebuilt(header: dict[str, str], tensors: dict[str, Tensor]) -> TraceFile:
    if header.get("format") != "ropewalk-trace":
        raise KeyError("format")
    read = from_plain(TraceHeader, {name: read_json(header[name]) for name in ("config", "specs", "strings", "run")})
    config, run = read.config, read.run

    positions, padding, logits = tensors["positions"], tensors.get("padding"), tensors.get("logits")
    trace = Trace(
        run_id=run.run_id,
        config=config,
        layers=tuple(
            LayerTrace(spec, positions, padding, *(Rows.of(tensors[name]) for name in _names(config, spec.layer)))
            for spec in read.specs
        ),
        ids=tensors.get("tokens"),
        positions=positions,
        padding=padding,
        prefill=run.prefill,
        logits=None if logits is None else Rows.of(logits[:, None]),
        first_logit_row=run.first_logit_row,
        branch=run.branch,
    )
    return TraceFile(trace, read.strings, header["version"])
