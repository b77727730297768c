"""The shape ledger: every operation of a block between the ids and the logits, what the call costs, and what holds.

:func:`build_ledger` works from a config alone; :func:`checked` compares it with what a run measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.costs import (
    Flops,
    attention_matrices_bytes,
    format_shape,
    forward_flops,
    kv_bytes,
    parameters,
    trace_bytes,
    weight_bytes,
)
from ropewalk.model.errors import ConfigError
from ropewalk.model.ledger.entry import Check, LedgerEntry
from ropewalk.model.ledger.operations import Operations

__all__ = [
    "TOLERANCE",
    "Check",
    "LedgerEntry",
    "Measured",
    "Seen",
    "ShapeLedger",
    "build_ledger",
    "checked",
]

Mode = Literal["prefill", "decode"]

TOLERANCE: Final = {"float64": 1e-6, "float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}
"""How large a relative error a value check lets pass, by the dtype of the run.

The explicit branch rounds q·k to the model's dtype, so in bfloat16 (8 significant bits) a score of 8 is off by up to
0.03 and so is its weight, relatively.
"""


@dataclass(frozen=True)
class ShapeLedger:
    """All rows of one block between the embedding and the logits, and what the whole model costs for the same call.

    Attributes
    ----------
    layer, batch, tokens, past, dtype, device, branch
        What the rows describe; ``mode`` is ``decode`` for one token on a past, else ``prefill``.
    model_parameters, model_weight_bytes
        Of the whole model.
    model_flops
        Product FLOPs of the whole forward pass of this call.
    cache_bytes
        The KV cache of all layers after this call, 2 · B · S · L · Hkv · Dh · bytes.
    trace_bytes
        What a trace of S rows keeps: Q', K', V, lse, and the logits of every row.
    matrices_bytes
        What the attention weights of all layers would take if they were kept.
    """

    entries: tuple[LedgerEntry, ...]
    config: ModelConfig
    layer: int
    batch: int
    tokens: int
    past: int
    dtype: str
    device: str
    branch: Branch
    mode: Mode
    model_parameters: int
    model_weight_bytes: int
    model_flops: Flops
    cache_bytes: int
    trace_bytes: int
    matrices_bytes: int

    def entry(self, key: str) -> LedgerEntry:
        """The row with this ``key``.

        Raises
        ------
        ConfigError
            When this model has no such row.
        """
        for entry in self.entries:
            if entry.key == key:
                return entry
        raise ConfigError(f"This ledger has no row {key!r}; it has {', '.join(e.key for e in self.entries)}.")

    @property
    def keys(self) -> int:
        """S = P + T."""
        return self.past + self.tokens

    @property
    def failed(self) -> tuple[LedgerEntry, ...]:
        """The rows whose check did not pass."""
        return tuple(e for e in self.entries if e.check is not None and e.check.passed is False)

    @property
    def bytes(self) -> int:
        """Bytes of all results that are stored, were none of them freed."""
        return sum(entry.bytes for entry in self.entries)


@dataclass(frozen=True)
class Seen:
    """A tensor as it was met: its shape, dtype and device in plain words (``float32``, ``cpu``)."""

    shape: tuple[int, ...]
    dtype: str
    device: str


@dataclass(frozen=True)
class Measured:
    """What a model and one of its runs really are, in plain numbers; every field may be left out.

    Errors are relative: the largest absolute difference over the largest magnitude of what it is compared with, so that
    one tolerance serves. ``model.ledger.measurement.measure`` fills this in; anybody else may.

    Attributes
    ----------
    tokens, past, batch
        The call that ``points`` were met in; it may be another than the ledger's (a replayed row has T = 1).
    points
        Row key → the tensor met there (the row's hook point, or the cache).
    weights
        Row key → the row's weight as the model stores it.
    parameters
        Distinct numbers in the whole model, a tied matrix once.
    tied
        Whether lm_head's weight *is* the embedding's object.
    cache_length
        Positions that this layer's cache holds; ``cache_expected`` is how many were run (None: the ledger's P + T).
    weight_sum_error
        Largest |Σ_k w[q, k] + sink share − 1| over heads and the rows looked at that see any key.
    masked_weight
        Largest weight on a cell that causality, window or padding hides, decided from positions alone.
    score_error
        Scores as the trace reads them against scale · q'·k' (kv head h // G, soft cap) computed from Q' and K'.
    blend_error
        Σ_k w[q, k] · V[k] against the head output ``hook_z`` of the same row.
    key_error
        The K' that the cache stores for a row against k as it left RoPE and QK-norm (``hook_rot_k``, …).
    value_error
        The V that the cache stores for a row against ``hook_v``, as it was before the rotation step.
    query_turn_error, key_turn_error
        Over planes: |length after − c · length before| (c the attention factor), and the features past d_rot.
    query_norm_error, key_norm_error
        The normed q and k against the norm computed from ``hook_q`` and ``hook_k`` by its definition.
    attention_add_error, mlp_add_error
        ``hook_resid_mid`` (``hook_resid_post``) against the stream plus what the sub-layer wrote.
    experts_distinct
        Whether every token visits k different experts with numbers in 0 … E − 1.
    """

    layer: int
    batch: int = 1
    tokens: int = 1
    past: int = 0
    points: Mapping[str, Seen] = field(default_factory=dict)
    weights: Mapping[str, Seen] = field(default_factory=dict)
    parameters: int | None = None
    tied: bool | None = None
    cache_length: int | None = None
    cache_expected: int | None = None
    key_error: float | None = None
    weight_sum_error: float | None = None
    masked_weight: float | None = None
    score_error: float | None = None
    blend_error: float | None = None
    value_error: float | None = None
    query_turn_error: float | None = None
    key_turn_error: float | None = None
    query_norm_error: float | None = None
    key_norm_error: float | None = None
    attention_add_error: float | None = None
    mlp_add_error: float | None = None
    experts_distinct: bool | None = None


# ----------------------------------------------------------------------------------------------------------------------
# Building from a config


def build_ledger(
    config: ModelConfig,
    layer: int = 0,
    batch: int = 1,
    tokens: int = 1,
    past: int = 0,
    dtype: str = "float32",
    device: str = "cpu",
    branch: Branch = "fused",
) -> ShapeLedger:
    """List the operations of block ``layer`` for T tokens on a past of P, from the config alone.

    Raises
    ------
    ConfigError
        When the layer, a count or the dtype makes no sense.
    PositionError
        When P + T passes the model's limit.
    """
    if config.position == "unknown":
        raise ConfigError(
            "Transformers runs this model, and of its blocks nothing is known but their attention, so their operations "
            "cannot be listed."
        )
    if not 0 <= layer < config.layers:
        raise ConfigError(f"Layer {layer} was asked for, but this model's layers are 0 to {config.layers - 1}.")
    if batch < 1 or tokens < 1 or past < 0:
        raise ConfigError(
            f"A ledger was asked for with batch {batch}, {tokens} tokens and a past of {past}, "
            "but it needs at least one sequence, one token and no negative past."
        )
    config.check_position(past + tokens - 1)
    operations = Operations(config, layer, batch, tokens, past, dtype, device, branch)
    return ShapeLedger(
        entries=operations.all(),
        config=config,
        layer=layer,
        batch=batch,
        tokens=tokens,
        past=past,
        dtype=dtype,
        device=device,
        branch=branch,
        mode="decode" if tokens == 1 and past else "prefill",
        model_parameters=parameters(config).total,
        model_weight_bytes=weight_bytes(config, dtype),
        model_flops=forward_flops(config, tokens, past, batch),
        cache_bytes=kv_bytes(config, past + tokens, dtype, batch),
        trace_bytes=trace_bytes(config, past + tokens, dtype, batch),
        matrices_bytes=attention_matrices_bytes(config, tokens, dtype, batch, past),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Checking against a run


@dataclass(frozen=True)
class _Finding:
    """One thing that was compared."""

    passed: bool
    text: str


def checked(ledger: ShapeLedger, measured: Measured | None) -> ShapeLedger:
    """Decide the checks of a ledger by what was measured; with None, return it as the config left it.

    A check passes when everything compared for its row agrees: the tensor met there (shape, dtype, device), the weight
    as stored, and the row's own statement. What was not measured leaves it as it was.

    Raises
    ------
    ConfigError
        When another layer was measured.
    """
    if measured is None:
        return ledger
    if measured.layer != ledger.layer:
        raise ConfigError(f"Layer {measured.layer} was measured, but the ledger is of layer {ledger.layer}.")
    met_in = _ledger_of(ledger, measured)
    entries = tuple(
        _decide(ledger, entry, met_in.entry(entry.key), measured) if entry.check is not None else entry
        for entry in ledger.entries
    )
    return replace(ledger, entries=entries)


def _ledger_of(ledger: ShapeLedger, measured: Measured) -> ShapeLedger:
    """The ledger of the call in which the tensors were met."""
    if (measured.batch, measured.tokens, measured.past) == (ledger.batch, ledger.tokens, ledger.past):
        return ledger
    return build_ledger(
        ledger.config,
        ledger.layer,
        measured.batch,
        measured.tokens,
        measured.past,
        ledger.dtype,
        ledger.device,
        ledger.branch,
    )


def _decide(ledger: ShapeLedger, entry: LedgerEntry, met: LedgerEntry, measured: Measured) -> LedgerEntry:
    assert entry.check is not None
    findings = [] if entry.check.passed is None else [_Finding(entry.check.passed, entry.check.found)]
    special = STATEMENTS.get(entry.key)
    if special is not None:
        findings += special(ledger, measured)
    if entry.key in measured.weights and entry.weight:
        findings.append(_weight_finding(entry, measured.weights[entry.key]))
    if entry.key in measured.points:
        findings.append(_point_finding(met, measured.points[entry.key]))
    if not findings:
        return entry
    wrong = [finding.text for finding in findings if not finding.passed]
    found = "; ".join(wrong or [finding.text for finding in findings])
    return replace(entry, check=replace(entry.check, passed=not wrong, found=found))


def _weight_finding(entry: LedgerEntry, seen: Seen) -> _Finding:
    shape = format_shape(seen.shape)
    if seen.shape == entry.weight:
        return _Finding(True, f"weight {shape}")
    return _Finding(False, f"weight {shape} instead of {format_shape(entry.weight)}")


def _point_finding(expected: LedgerEntry, seen: Seen) -> _Finding:
    wanted = f"{format_shape(expected.shape)} {expected.dtype} on {expected.device}"
    got = f"{format_shape(seen.shape)} {seen.dtype} on {seen.device}"
    device = seen.device if ":" in expected.device else seen.device.split(":")[0]  # cuda:0 is the cuda asked for
    same = (seen.shape, seen.dtype, device) == (expected.shape, expected.dtype, expected.device)
    return _Finding(same, got if same else f"{got} instead of {wanted}")


def _within(ledger: ShapeLedger, error: float | None, what: str) -> list[_Finding]:
    """Whether an error is small for the run's dtype; NaN is not."""
    if error is None:
        return []
    limit = TOLERANCE[ledger.dtype]
    ok = error <= limit
    return [_Finding(ok, f"{what} {error:.1e}" + ("" if ok else f", above {limit:g}"))]


def _same_side(measured: Measured, first: tuple[str, str, int], second: tuple[str, str, int]) -> list[_Finding]:
    """Whether a side of one weight equals a side of another; each is (row key, what to call it, axis)."""
    if first[0] not in measured.weights or second[0] not in measured.weights:
        return []
    a, b = measured.weights[first[0]].shape[first[2]], measured.weights[second[0]].shape[second[2]]
    return [_Finding(a == b, f"{first[1]} {a}, {second[1]} {b}")]


def _query_rows(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    return _same_side(measured, ("q", "W_Q's rows", 0), ("o", "W_O's columns", 1))


def _key_rows(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    return _same_side(measured, ("k", "W_K's rows", 0), ("v", "W_V's rows", 0))


def _hidden_widths(prefix: str) -> Callable[[ShapeLedger, Measured], list[_Finding]]:
    def compare(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
        gate, up, down = f"{prefix}gate", f"{prefix}up", f"{prefix}down"
        return _same_side(measured, (gate, "gate", -2), (up, "up", -2)) + _same_side(
            measured, (up, "up", -2), (down, "down takes", -1)
        )

    return compare


def _cached_keys(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    findings = _within(ledger, measured.key_error, "K stored off by")
    if measured.cache_length is None:
        return findings
    expected = ledger.keys if measured.cache_expected is None else measured.cache_expected
    handle = _Finding(measured.cache_length == expected, f"{measured.cache_length} positions held, {expected} run")
    return [handle, *findings]


def _tied(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    findings = []
    if measured.tied is not None:
        text = "one object with the embedding" if measured.tied else "a matrix of its own"
        findings.append(_Finding(measured.tied == ledger.config.tied, text))
    if measured.parameters is not None:
        ok = measured.parameters == ledger.model_parameters
        instead = "" if ok else f" instead of {ledger.model_parameters:,}"
        findings.append(_Finding(ok, f"{measured.parameters:,} parameters in all{instead}"))
    return findings


def _masked(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    weight = measured.masked_weight
    return [] if weight is None else [_Finding(weight == 0.0, f"largest masked weight {weight:g}")]


def _experts(ledger: ShapeLedger, measured: Measured) -> list[_Finding]:
    if measured.experts_distinct is None:
        return []
    text = "all different" if measured.experts_distinct else "a token visits an expert twice, or one that is not there"
    return [_Finding(measured.experts_distinct, text)]


STATEMENTS: Final[Mapping[str, Callable[[ShapeLedger, Measured], list[_Finding]]]] = {
    "q": _query_rows,
    "k": _key_rows,
    "v": _key_rows,
    "q_norm": lambda ledger, m: _within(ledger, m.query_norm_error, "off by"),
    "k_norm": lambda ledger, m: _within(ledger, m.key_norm_error, "off by"),
    "rope_q": lambda ledger, m: _within(ledger, m.query_turn_error, "lengths off by"),
    "rope_k": lambda ledger, m: _within(ledger, m.key_turn_error, "lengths off by"),
    "cache_k": _cached_keys,
    "cache_v": lambda ledger, m: _within(ledger, m.value_error, "V before and stored differ by"),
    "scores": lambda ledger, m: _within(ledger, m.score_error, "off by"),
    "mask": _masked,
    "softmax": lambda ledger, m: _within(ledger, m.weight_sum_error, "sums off by"),
    "blend": lambda ledger, m: _within(ledger, m.blend_error, "off by"),
    "concatenate": _query_rows,
    "residual_mid": lambda ledger, m: _within(ledger, m.attention_add_error, "off by"),
    "activation": _hidden_widths(""),
    "shared_activation": _hidden_widths("shared_"),
    "residual_post": lambda ledger, m: _within(ledger, m.mlp_add_error, "off by"),
    "router": _experts,
    "lm_head": _tied,
}
"""What decides each row's own statement, beside shapes and weights, which are compared for every row."""
