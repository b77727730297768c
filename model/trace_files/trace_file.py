"""A trace as one ``.safetensors`` file, and back.

Tensor names are the hook names, axes are ours ([batch, head, position, Dh]); everything else is JSON in the header.
Anything that reads safetensors reads it. Writing is atomic: the old file stays when the new one fails. Reading maps the
file: numbers are read when somebody looks at them, whatever was decoded since lies in memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ropewalk import __version__
from ropewalk.model.codec import CodecError, from_plain, read_json, to_json, to_plain
from ropewalk.model.decoder.attention import last_points
from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import check_interventions
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import RopewalkError, TraceError
from ropewalk.model.limits import regular
from ropewalk.model.readings.next_token import check_sampling, likeliest
from ropewalk.model.readings.records import TokenText
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.mask import LayerMask
from ropewalk.model.runs.trace import Trace, replay
from ropewalk.model.trace_files.header import (
    KEYS,
    NOTHING_TOLD,
    About,
    RunNumbers,
    TokenName,
    TraceHeader,
    marks_of,
    stretches,
    tokens_of,
)
from ropewalk.model.whole_file import whole_file

FORMAT = "ropewalk-trace"
AXES = "q [B, H, S, Dh]; k, v [B, Hkv, S, Dh]; lse [B, H, S]; scores and pattern [B, H, query, key]; logits [B, n, V]"
PATTERN_LIMIT = 2 << 30
"""Bytes that the matrices of ``pattern`` may take unless the caller says otherwise."""
NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64",
    torch.bool: "BOOL",
}  # fmt: skip
"""What safetensors calls the dtypes of a run."""
FLOATS = ("F32", "BF16", "F16", "F64")
"""What the numbers of a run may be stored as."""
NO_TOKEN = -1
"""Stands for the id of a row that was given as a vector."""
CANDIDATES, MOST_CANDIDATES = 40, 4096
"""Tokens after each row whose texts a file keeps, and those that it keeps at most."""
LARGEST_ID = 2**31 - 1
"""No vocabulary comes near; more would not fit into the columns of token texts."""


@dataclass(frozen=True)
class TraceFile:
    """A trace that was read back, with what it was saved with.

    Attributes
    ----------
    trace
        Its numbers are read from the file when they are looked at.
    strings, about
        The tokens as text; what else is told of the run.
    version
        Of the Ropewalk that wrote it.
    notes
        What an earlier Ropewalk did not say, in sentences.
    goes_on
        Whether everything is known that going on with the run needs, but for the weights.
    """

    trace: Trace
    strings: tuple[str, ...]
    version: str
    about: About = NOTHING_TOLD
    notes: tuple[str, ...] = ()
    goes_on: bool = True


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def save_trace(
    trace: Trace,
    path: str | Path,
    *,
    strings: Sequence[str] = (),
    about: About = NOTHING_TOLD,
    model: Decoder | None = None,
    pattern: bool = False,
    limit: int = PATTERN_LIMIT,
) -> None:
    """Write a trace.

    Parameters
    ----------
    strings
        The tokens as text.
    about
        What else there is to be told of the run; its tokens take the place of ``strings``.
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
        check_pattern(trace.config, trace.length, trace.batch, limit)
        if model is None:
            raise TraceError("Queries before RoPE come from a replay, which needs the model.")
        tensors |= _matrices(trace) | _before_rope(trace, model)
    _write(tensors, _header(trace, strings, about), Path(path))


def candidates_of(
    trace: Trace, tokens: Sequence[TokenText], describe: Callable[[Sequence[int]], Sequence[TokenText]]
) -> tuple[TokenText, ...]:
    """How to show the tokens that are the likeliest to follow rows of a trace, where that is not known from its own.

    Parameters
    ----------
    describe
        That of its tokenizer; what this knows by number alone is left out.
    """
    known = {token.id for token in tokens if token.kind != "bytes"}
    shown = (describe([token])[0] for token in likeliest(trace, CANDIDATES, MOST_CANDIDATES) if token not in known)
    return tuple(token for token in shown if token.text != f"#{token.id}")


def check_pattern(config: ModelConfig, tokens: int, batch: int = 1, limit: int = PATTERN_LIMIT) -> None:
    """Refuse matrices of every head over the limit before anything is computed.

    Raises
    ------
    TraceError
        With what they would take.
    """
    needed = 2 * 4 * config.layers * batch * config.heads * tokens**2
    if needed > limit:
        raise TraceError(
            f"Scores and weights of every head would take {needed / 2**30:.1f} GiB for {tokens} tokens, but the "
            f"limit is {limit / 2**30:.1f} GiB; shorten the prompt, or leave the pattern out: it can be computed from "
            "q, k and lse."
        )


def _kept(trace: Trace) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for layer in trace:
        names = _names(trace.config, layer.spec.layer)
        tensors |= {name: rows.tensor for name, rows in zip(names, layer.rows, strict=True)}
        if layer.mask is not None:  # layers share theirs, but a file has each on its own
            for name, part in zip(_mask_names(layer.spec.layer), (layer.mask.seen, layer.mask.bias), strict=True):
                tensors |= {} if part is None else {name: part.clone()}
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


def _mask_names(layer: int) -> tuple[str, str]:
    """What the mask of a layer is called that no rule says: what is seen, what is added."""
    return f"blocks.{layer}.attn.mask", f"blocks.{layer}.attn.bias"


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


def _header(trace: Trace, strings: Sequence[str], about: About) -> dict[str, str]:
    told = TraceHeader(
        config=trace.config,
        specs=trace.specs,
        strings=tuple(token.text for token in about.tokens) or tuple(strings),
        run=RunNumbers(trace.run_id, trace.prefill, trace.first_logit_row, trace.branch, trace.products),
        interventions=trace.interventions,
        origin=about.origin,
        prompt=about.prompt,
        rendered=about.rendered,
        drawn=stretches(about.drawn),
        marks=marks_of(about.tokens),
        candidates=tuple(TokenName(token.id, token.text, token.kind) for token in about.candidates),
    )
    plain = {name: value for name, value in to_plain(told).items() if value is not None}
    return {"format": FORMAT, "version": __version__, "axes": AXES} | {
        name: to_json(value) for name, value in plain.items()
    }


def _write(tensors: dict[str, Tensor], header: dict[str, str], path: Path) -> None:
    """Write tensors one after the other, so that no more than one is copied at a time; the widest dtypes come first."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())  # each begins where its dtype wants
    entries: dict[str, Any] = {"__metadata__": header}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = to_json(entries).encode("ascii")
    text += b" " * (-len(text) % 8)
    try:
        with whole_file(path) as part, part.open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, tensor in ordered:
                file.write(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    except OSError as error:
        raise TraceError(f"The trace could not be written to {path}: {error.strerror or error}.") from error


# ----------------------------------------------------------------------------------------------------------------------
# Reading


class _Described(NamedTuple):
    """A tensor of a file that is not read yet."""

    dtype: str
    shape: tuple[int, ...]


def is_trace(path: str | Path) -> bool:
    """Whether a file says that it is a trace of ours; its tensors are not looked at."""
    try:
        if not Path(path).is_file():
            return False
        with safe_open(str(path), framework="pt") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (OSError, SafetensorError):
        return False


def load_trace(path: str | Path) -> TraceFile:
    """Open a trace; its header is checked against its tensors, which stay in the file until they are looked at.

    Raises
    ------
    TraceError
        When the file is not there or is not a trace of ours.
    """
    try:
        with safe_open(regular(Path(path)), framework="pt") as file:
            return _opened(file)
    except (OSError, SafetensorError, CodecError, RopewalkError) as error:
        why = error.sentence if isinstance(error, RopewalkError) else getattr(error, "strerror", None) or str(error)
        raise TraceError(
            f"{path} is not a trace file that Ropewalk can read: {why.rstrip('.')}.", str(error)
        ) from error


def _opened(file: Any) -> TraceFile:
    metadata: dict[str, str] = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise CodecError("its header does not say that it is one")
    told = {name: read_json(metadata[name]) for name in KEYS.split() if name in metadata}
    header = from_plain(TraceHeader, told)
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    described = {name: _Described(one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}
    _check_tensors(header, described)
    trace = _trace(header, file, described)
    for stretch in header.drawn:
        check_sampling(stretch.sampling)
    drawn = header.drawn_tokens(trace.length - header.run.prefill)
    candidates = tuple(TokenText(one.id, one.text or f"#{one.id}", one.kind) for one in header.candidates)
    about = About(tokens=_tokens(trace, header), origin=header.origin, candidates=candidates)
    if trace.prefill == header.run.prefill:  # else the tokens are all that was asked for
        about = replace(about, prompt=header.prompt, rendered=header.rendered, drawn=drawn)
    return TraceFile(
        trace, header.strings, metadata.get("version", "unknown"), about, header.lacks, goes_on=not header.changed
    )


def _check_tensors(header: TraceHeader, found: Mapping[str, _Described]) -> None:
    """Refuse a header that contradicts itself or the shapes and dtypes of the tensors."""
    config, run = header.config, header.run
    if len(header.specs) != config.layers:
        raise CodecError(f"specs describes {len(header.specs)} layers, but the config has {config.layers}")
    first = _expected(found, "positions", ("I64",), (None, None))
    batch, rows = first.shape
    if not 1 <= run.prefill <= rows or batch < 1:
        raise CodecError(f"run.prefill is {run.prefill}, but there are {batch} × {rows} positions")
    if not 0 <= run.first_logit_row <= rows:
        raise CodecError(f"run.first_logit_row is {run.first_logit_row}, but there are {rows} rows")
    for layer, spec in enumerate(header.specs):
        _check_spec(spec, layer, config, rows)
        queries, keys, values, lse = _names(config, layer)
        heads, kept = (batch, config.heads, rows), (batch, spec.kv_heads, rows)
        dtype = _expected(found, queries, FLOATS, (*heads, spec.head_width)).dtype
        _expected(found, keys, (dtype,), (*kept, spec.head_width))
        _expected(found, values, (dtype,), (*kept, None))
        _expected(found, lse, ("F32", "F64"), heads)
        _check_mask(found, layer, config, batch, rows)
    if "tokens" in found:
        _expected(found, "tokens", ("I64",), (batch, rows))
    if "padding" in found:
        _expected(found, "padding", ("BOOL",), (batch, rows))
    if "logits" in found:
        _expected(found, "logits", FLOATS, (batch, rows - run.first_logit_row, config.vocabulary))
    check_interventions(header.interventions or (), config)


def _check_mask(found: Mapping[str, _Described], layer: int, config: ModelConfig, batch: int, rows: int) -> None:
    """Refuse a mask that does not fit the run."""
    seen, bias = _mask_names(layer)
    if seen in found and _expected(found, seen, ("BOOL",), (None, rows, rows)).shape[0] not in (1, batch):
        raise CodecError(f"{seen} is of another number of prompts than the run's {batch}")
    if bias in found:
        shape = _expected(found, bias, ("F32",), (None, None, rows, rows)).shape
        if shape[0] not in (1, batch) or shape[1] not in (1, config.heads):
            raise CodecError(f"{bias} is of another number of prompts or heads than the run's")


def _expected(
    found: Mapping[str, _Described], name: str, dtypes: Sequence[str], shape: tuple[int | None, ...]
) -> _Described:
    """A tensor that has to be there; None is a length that nothing else says."""
    if name not in found:
        raise CodecError(f"the tensor {name} is missing")
    one = found[name]
    if one.dtype not in dtypes:
        raise CodecError(f"{name} is stored as {one.dtype}, but must be {' or '.join(dtypes)}")
    fits = len(one.shape) == len(shape) and all(
        wanted in (None, is_) for is_, wanted in zip(one.shape, shape, strict=True)
    )
    if not fits or 0 in one.shape:
        wanted = ", ".join("n" if length is None else str(length) for length in shape)
        raise CodecError(f"{name} has the shape {list(one.shape)}, but must have [{wanted}]")
    return one


def _check_spec(spec: AttentionSpec, layer: int, config: ModelConfig, rows: int) -> None:
    """Refuse what a layer cannot have been told."""
    where, own = f"specs[{layer}]", (spec.layer, spec.heads, spec.kv_heads, spec.head_width)
    varies = config.position == "unknown" and spec.kv_heads > 0 and spec.heads % spec.kv_heads == 0
    expected = (layer, config.heads, *((own[2:]) if varies else (config.kv_heads, config.head_width)))
    if own != expected:
        raise CodecError(f"{where} is of another layer or other heads than the config's")
    numbers = [spec.scale, *((spec.cap,) if spec.cap is not None else ())]
    numbers += [number for one in spec.segments for number in (one.factor, *one.frequencies)]
    if not all(map(math.isfinite, numbers)) or (spec.cap is not None and spec.cap <= 0):
        raise CodecError(f"{where} has a scale, a cap or frequencies that are no such numbers")
    if spec.window is not None and spec.window < 1:
        raise CodecError(f"{where}.window is {spec.window}, but a query sees at least itself")
    if spec.sinks is not None and (len(spec.sinks) != spec.heads or not all(sink < math.inf for sink in spec.sinks)):
        raise CodecError(f"{where}.sinks is not a logit for each of {spec.heads} heads")
    kv_map = spec.kv_map
    if kv_map is not None and (len(kv_map) != spec.heads or not all(0 <= one < spec.kv_heads for one in kv_map)):
        raise CodecError(f"{where}.kv_map is not one of {spec.kv_heads} kv heads for each of {spec.heads} heads")
    weights = [weight for one in spec.written for row in one.rows for weight in row]
    if not all(0 <= one.head < spec.heads and one.rows for one in spec.written) or not all(map(math.isfinite, weights)):
        raise CodecError(f"{where}.written has a pattern of no head, or weights that are no numbers")
    if spec.rotary_width % 2 or not 0 <= spec.rotary_width <= spec.head_width:
        raise CodecError(f"{where}.rotary_width is {spec.rotary_width}, but a head is {spec.head_width} wide")
    bounds = [0, *(one.stop for one in spec.segments)]
    joined = all(one.start == start < one.stop for one, start in zip(spec.segments, bounds, strict=False))
    planes = {len(one.frequencies) for one in spec.segments}
    if spec.rotary_width and not (joined and bounds[-1] == rows and planes == {spec.rotary_width // 2}):
        raise CodecError(f"{where}.segments does not give {spec.rotary_width // 2} frequencies to each of {rows} rows")
    if spec.segments and not spec.rotary_width:
        raise CodecError(f"{where}.segments is of a layer that does not rotate")


def _trace(header: TraceHeader, file: Any, found: Mapping[str, _Described]) -> Trace:
    """The trace over the mapped file; what is one number a row is read now."""
    config, run = header.config, header.run
    positions = file.get_tensor("positions").clone()
    padding = file.get_tensor("padding").clone() if "padding" in found else None
    ids = file.get_tensor("tokens").clone() if "tokens" in found else None
    if int(positions.min()) < 0:
        raise CodecError("positions holds a negative number")
    last = min(config.vocabulary - 1, LARGEST_ID)
    if ids is not None and not 0 <= int(ids.min()) <= int(ids.max()) <= last:
        raise CodecError(f"tokens holds ids outside 0 to {last}")
    return Trace(
        run_id=run.run_id,
        config=config,
        layers=tuple(
            LayerTrace(
                spec,
                positions,
                padding,
                *(Rows.of(file.get_tensor(name)) for name in _names(config, layer)),
                mask=_mask(file, found, layer),
            )
            for layer, spec in enumerate(header.specs)
        ),
        ids=ids,
        positions=positions,
        padding=padding,
        # where a new token changed the earlier rows, what these were before it is not in the file
        prefill=len(positions[0]) if any(one.breaks_cache for one in header.interventions or ()) else run.prefill,
        logits=Rows.of(file.get_tensor("logits")[:, None]) if "logits" in found else None,
        first_logit_row=run.first_logit_row,
        branch=run.branch,
        products=run.products,
        interventions=header.interventions or (),
    )


def _mask(file: Any, found: Mapping[str, _Described], layer: int) -> LayerMask | None:
    """The mask of a layer that no rule says, None where there is none."""
    seen, bias = (file.get_tensor(name) if name in found else None for name in _mask_names(layer))
    return None if seen is None and bias is None else LayerMask(seen, bias)


def _tokens(trace: Trace, header: TraceHeader) -> tuple[TokenText, ...]:
    """How the rows are shown; those of vectors by what was said of them."""
    ids = [NO_TOKEN] * trace.length if trace.ids is None else trace.ids[0].tolist()
    return tokens_of(ids, header.strings, header.marks)
