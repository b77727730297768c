"""Compares a learner's function with the engine, and names the first difference.

Each task has cases (inputs), the engine's own result for each, and the mistakes that are worth knowing by name. A
result that disagrees is held against what each mistake, and each pair of them, would have given; where none fits, the
first number that differs is shown. Causes come before effects: in a step, the cache is compared before the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import torch
from torch import Tensor

from ropewalk.model.challenges import reference
from ropewalk.model.challenges.challenge import Verdict
from ropewalk.model.challenges.mistakes import SENTENCES
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.costs import format_shape
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.decoder.rope import frequencies, rotate
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.ledger.ledger import build_ledger

Function = Callable[..., Any]
Result = tuple[Tensor, ...]

TOLERANCE: Final = 2e-4
"""How far a result may be from the engine's, relative to the largest number in it."""
BASE: Final = 10_000.0
EPS: Final = 1e-6

LEDGER_ROWS: Final = (
    "embedding",
    "q",
    "k",
    "v",
    "split_q",
    "split_k",
    "cache_k",
    "shared",
    "scores",
    "blend",
    "concatenate",
    "o",
    "residual_mid",
    "gate",
    "up",
    "down",
    "residual_post",
    "lm_head",
)
"""Rows that a shape ledger has to have, in the order in which they are compared."""

ATTENTION: Final = (
    "unscaled", "scaled_by_width", "scaled_up", "no_root", "unmasked", "sees_next", "sees_not_itself", "masked_late",
    "masked_with_zero", "softmax_over_queries", "swapped", "blends_keys",
)  # fmt: skip
ROTATION: Final = ("adjacent", "shuffled", "backwards", "exponent", "from_one")


@dataclass(frozen=True, eq=False)
class Case:
    """One input.

    Attributes
    ----------
    arguments
        What the learner's function is called with.
    expected
        The engine's results.
    names
        What each result is called, with its shape in letters.
    """

    arguments: tuple[Any, ...]
    expected: Result
    names: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """One challenge: its cases, its plain definition, and its mistakes, likelier ones first."""

    cases: Callable[[], Iterator[Case]]
    plainly: Callable[..., Any]
    mistakes: tuple[str, ...]
    order: tuple[int, ...] = (0,)


def grade(name: str, function: Function) -> Verdict:
    """Run a learner's function on every case of a challenge; the first difference is explained."""
    if name == "shape_ledger":
        return _grade_ledger(function)
    task = TASKS[name]
    for number, case in enumerate(task.cases()):
        found = function(*_copied(case.arguments))
        results = found if isinstance(found, tuple | list) else (found,)
        verdict = _compare(task, case, tuple(results))
        if verdict is not None:
            return verdict
        if number == 0 and name == "split_heads":
            verdict = _refuses(function)
            if verdict is not None:
                return verdict
    return Verdict("passed", f"{name} agrees with the engine in every case.")


def _copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of the learner's own, so that writing into one changes nothing here."""

    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.clone()
        return {name: copy(item) for name, item in value.items()} if isinstance(value, dict) else value

    return tuple(copy(argument) for argument in arguments)


def _refuses(function: Function) -> Verdict | None:
    """Whether features that do not make heads are refused."""
    try:
        function(torch.zeros(1, 2, 10), 3)
    except Exception:  # noqa: BLE001 - whatever it raises, it refused
        return None
    return Verdict(
        "shape", "10 features do not make 3 heads, but it did not refuse them: assert that H divides the width."
    )


# ----------------------------------------------------------------------------------------------------------------------
# Comparing


def _compare(task: Task, case: Case, results: Result) -> Verdict | None:
    """What is wrong with a learner's results, None where nothing is."""
    wrong = _not_tensors(case, results)
    if wrong is not None:
        return wrong
    places = [place for place in task.order if not _agrees(results[place], case.expected[place])]
    if not places:
        return None
    some = not any(bool(result.isnan().all()) for result in results if result.numel())
    for names in _candidates(task.mistakes, pairs=some):
        made = task.plainly(*_copied(case.arguments), mistakes=frozenset(names))
        made = made if isinstance(made, tuple) else (made,)
        if _explains(results, made, case.expected):
            kind, _ = SENTENCES[names[0]]
            details = _first_difference(case, results, places[0])
            return Verdict(kind, " ".join(SENTENCES[name][1] for name in names), details)
    return _unnamed(case, results, places[0])


def _candidates(mistakes: Sequence[str], pairs: bool) -> Iterator[tuple[str, ...]]:
    """Every mistake, then every pair of them; pairs mean nothing where all is NaN."""
    yield from ((name,) for name in mistakes)
    if pairs:
        yield from combinations(mistakes, 2)


def _explains(results: Result, made: Result, expected: Result) -> bool:
    """Whether a mistake gives just these results, and not the right ones."""
    same = all(_agrees(a, b) for a, b in zip(results, made, strict=True))
    return same and not all(_agrees(a, b) for a, b in zip(made, expected, strict=True))


def _agrees(found: Tensor, wanted: Tensor) -> bool:
    if found.shape != wanted.shape:
        return False
    finite = wanted[wanted.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 1.0
    return torch.allclose(found.double(), wanted.double(), rtol=0, atol=TOLERANCE * max(largest, 1e-3), equal_nan=True)


def _not_tensors(case: Case, results: Result) -> Verdict | None:
    wanted = ", ".join(name.split(" ")[0] for name in case.names)
    if len(results) != len(case.names):
        return Verdict("shape", f"It must return {wanted}: {len(case.names)} tensors, but it returned {len(results)}.")
    for name, result in zip(case.names, results, strict=True):
        if result is None:
            return Verdict("value", "It returned None; is the return missing?")
        if not isinstance(result, Tensor):
            return Verdict("value", f"{name.split(' ')[0]} is {type(result).__name__}, but it must be a tensor.")
        if result.is_complex():
            return Verdict("value", f"{name.split(' ')[0]} is of complex numbers, but it must be of real ones.")
    return None


def _unnamed(case: Case, results: Result, place: int) -> Verdict:
    """A difference that no known mistake explains."""
    found, wanted, name = results[place], case.expected[place], case.names[place]
    if found.shape != wanted.shape:
        order = ""
        if sorted(found.shape) == sorted(wanted.shape):
            order = " The axes are right, their order is not."
        return Verdict(
            "shape", f"{name} must be {format_shape(wanted.shape)}, but yours is {format_shape(found.shape)}.{order}"
        )
    if bool(found.isnan().any()) and not bool(wanted.isnan().any()):
        return Verdict(
            "value", f"{_called(name)} holds NaN: {_place_of(found.isnan())}.", "A row that sees no key gives NaN."
        )
    return Verdict("value", f"{_called(name)} differs from the engine's, and not by a mistake known here.",
                   _first_difference(case, results, place))  # fmt: skip


def _called(name: str) -> str:
    word = name.partition(" ")[0]
    return f"The {word}" if word[0].islower() else word


def _first_difference(case: Case, results: Result, place: int) -> str:
    found, wanted, name = results[place], case.expected[place], case.names[place]
    if found.shape != wanted.shape:
        return f"{name} must be {format_shape(wanted.shape)}; yours is {format_shape(found.shape)}."
    far = (found.double() - wanted.double()).abs() > TOLERANCE * max(float(wanted.abs().max()), 1e-3)
    far |= found.isnan() & ~wanted.isnan()
    at = tuple(int(number) for number in far.nonzero()[0])
    share = float(far.double().mean())
    return (
        f"{name}: first different at [{', '.join(map(str, at))}], yours {float(found[at]):.5g}, the engine's "
        f"{float(wanted[at]):.5g}; {share:.0%} of the numbers differ."
    )


def _place_of(mask: Tensor) -> str:
    at = mask.nonzero()[0].tolist()
    return f"first at [{', '.join(map(str, at))}]"


# ----------------------------------------------------------------------------------------------------------------------
# Cases, with the engine's results


def _draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _split_cases() -> Iterator[Case]:
    for batch, tokens, heads, size in ((2, 5, 3, 4), (1, 7, 4, 8), (3, 2, 2, 2)):
        config = ModelConfig(
            vocabulary=2, width=heads * size, layers=1, heads=heads, kv_heads=heads, head_width=size, mlp_width=2,
            position="none",
        )  # fmt: skip
        attention = Decoder(config).block(0).attn
        x = _draw(batch, tokens, heads * size, seed=tokens)
        with torch.no_grad(), capture(attention, ("hook_q",)) as seen:
            attention.query.weight.copy_(torch.eye(heads * size))
            attention(x, Decoder(config).begin(x)[1])
        yield Case((x, heads), (seen["hook_q"].clone(),), ("heads [B, H, T, Dh]",))


def _rope_cases() -> Iterator[Case]:
    for heads, kv_heads, tokens, size, start in ((4, 2, 5, 8, 0), (3, 3, 4, 6, 9), (2, 1, 1, 4, 37)):
        q, k, v = (_draw(2, n, tokens, size, seed=n + place) for place, n in enumerate((heads, kv_heads, kv_heads)))
        positions = torch.arange(start, start + tokens)
        theta, _ = frequencies(RopeConfig(base=BASE), size)
        angles = (positions[:, None] * theta)[None]  # [1, T, F]
        turned = [rotate(x, angles.cos(), angles.sin(), "half") for x in (q, k)]
        yield Case(
            (q, k, v, positions, BASE),
            (turned[0], turned[1], v),
            ("Q [B, H, T, Dh]", "K [B, Hkv, T, Dh]", "V [B, Hkv, T, Dh]"),
        )


def _repeat_cases() -> Iterator[Case]:
    for kv_heads, groups, keys, size in ((2, 3, 5, 4), (3, 2, 3, 8), (1, 4, 2, 4), (4, 1, 3, 2)):
        x = _draw(2, kv_heads, keys, size, seed=groups)
        heads = kv_heads * groups
        spec = AttentionSpec(layer=0, heads=heads, kv_heads=kv_heads, head_width=size, scale=1.0)
        shared = torch.stack([x[:, spec.kv_head_of(head)] for head in range(heads)], dim=1)
        yield Case((x, groups), (shared,), ("result [B, H, S, Dh]",))


def _weights(decoder: Decoder) -> dict[str, Tensor]:
    block = decoder.block(0)
    attention = {"q": block.attn.query, "k": block.attn.key, "v": block.attn.value, "o": block.attn.output}
    return {name: layer.weight.detach().clone() for name, layer in attention.items()}


def _attention_cases() -> Iterator[Case]:
    for batch, tokens, heads, size in ((2, 5, 3, 4), (1, 9, 4, 8)):
        config = ModelConfig(
            vocabulary=2, width=heads * size, layers=1, heads=heads, kv_heads=heads, head_width=size, mlp_width=2,
            position="none",
        )  # fmt: skip
        decoder = Decoder(config, seed=tokens)
        x = _draw(batch, tokens, heads * size, seed=heads)
        with torch.no_grad():
            _, call = decoder.begin(x, branch="explicit")
            out: Tensor = decoder.block(0).attn(x, call)
        yield Case((x, _weights(decoder), heads), (out,), ("output [B, T, D]",))


def _rotator(size: int) -> Callable[[Tensor, int], Tensor]:
    """The engine's rotation, handed to the learner: [B, heads, 1, Dh] to a position."""
    theta, _ = frequencies(RopeConfig(base=BASE), size)

    def turn(x: Tensor, position: int) -> Tensor:
        angles = (position * theta)[None, None]  # [1, 1, F]
        return rotate(x, angles.cos(), angles.sin(), "half")

    return turn


def _decode_cases() -> Iterator[Case]:
    for batch, past, heads, kv_heads, size in ((2, 6, 4, 2, 4), (1, 11, 6, 3, 8), (1, 0, 2, 1, 4)):
        config = ModelConfig(
            vocabulary=2, width=heads * size, layers=1, heads=heads, kv_heads=kv_heads, head_width=size, mlp_width=2,
        )  # fmt: skip
        decoder = Decoder(config, seed=past)
        attention = decoder.block(0).attn
        x = _draw(batch, past + 1, heads * size, seed=past)
        cache = KvCache(1)
        with torch.no_grad():
            if past:
                attention(x[:, :past], decoder.begin(x[:, :past], cache=cache)[1])
                keys, values = (rows[0].tensor.clone() for rows in cache.filled())
            else:
                keys = values = torch.zeros(batch, kv_heads, 0, size)
            out = attention(x[:, past:], decoder.begin(x[:, past:], cache=cache)[1])
        after = [rows[0].tensor.clone() for rows in cache.filled()]
        yield Case(
            (x[:, past:], keys, values, _weights(decoder), heads, kv_heads, _rotator(size)),
            (out, after[0], after[1]),
            ("output [B, 1, D]", "keys [B, Hkv, P + 1, Dh]", "values [B, Hkv, P + 1, Dh]"),
        )


def _block_cases() -> Iterator[Case]:
    for batch, tokens, heads, kv_heads, size in ((2, 5, 6, 2, 4), (1, 8, 4, 2, 8)):
        config = ModelConfig(
            vocabulary=2, width=heads * size, layers=1, heads=heads, kv_heads=kv_heads, head_width=size,
            mlp_width=3 * heads * size, rope=RopeConfig(base=BASE), norm_eps=0.1,
        )  # fmt: skip
        decoder = Decoder(config, seed=tokens)
        block = decoder.block(0)
        parts = {"gate": "mlp.gate", "up": "mlp.up", "down": "mlp.down"}
        gains = {"attn_norm": "attn_norm", "mlp_norm": "mlp_norm"}
        with torch.no_grad():
            for number, name in enumerate(gains):
                _weight(block, name).copy_(1 + 0.3 * _draw(config.width, seed=number))
            weights = _weights(decoder) | {
                name: _weight(block, path).detach().clone() for name, path in {**parts, **gains}.items()
            }
            x = _draw(batch, tokens, heads * size, seed=heads)
            out: Tensor = block(x, decoder.begin(x, branch="explicit")[1])
        yield Case((x, weights, heads, kv_heads, BASE, 0.1), (out,), ("output [B, T, D]",))


def _weight(module: torch.nn.Module, path: str) -> Tensor:
    weight = module.get_submodule(path).weight
    assert isinstance(weight, Tensor)
    return weight


TASKS: Final[Mapping[str, Task]] = {
    "split_heads": Task(_split_cases, reference.split_heads, ("viewed", "strided", "not_moved", "features_first")),
    "apply_rope": Task(
        _rope_cases,
        reference.apply_rope,
        (*ROTATION, "counted_anew", "v_turned", "k_still", "q_still"),
        order=(0, 1, 2),
    ),
    "repeat_kv": Task(
        _repeat_cases,
        reference.repeat_kv,
        ("tiled", "positions_repeated", "batch_repeated", "features_repeated"),
    ),
    "causal_attention": Task(
        _attention_cases,
        reference.causal_attention,
        (*ATTENTION, "viewed", "strided", "joined_unmoved", "transposed", "no_output"),
    ),
    "cached_decode": Task(
        _decode_cases,
        reference.cached_decode,
        (
            "at_zero", "one_late", "stored_unturned", "turned_again", "without_itself", "only_itself", "top_left",
            "prepended", "cache_kept", "cache_replaced", "v_turned", "tiled", "unscaled", "no_output",
        ),
        order=(1, 2, 0),
    ),
    "transformer_block": Task(
        _block_cases,
        reference.transformer_block,
        (
            "no_first_residual", "no_second_residual", "second_from_input", "residual_normed", "attention_unnormed",
            "mlp_unnormed", "mlp_reads_input", "layer_norm", "length_norm", "eps_outside", "no_gain", "gate_swapped",
            "no_gate", "no_silu", "gelu", "tiled", "no_rope", "adjacent", "backwards", "exponent", "v_turned",
            *ATTENTION,
        ),
    ),
}  # fmt: skip
"""Every challenge but the ledger, which compares shapes instead of numbers."""


# ----------------------------------------------------------------------------------------------------------------------
# The shape ledger


@dataclass(frozen=True)
class LedgerCall:
    """Sizes that a shape ledger is asked for."""

    batch: int
    tokens: int
    past: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    vocabulary: int

    @property
    def letters(self) -> dict[str, int]:
        """Sizes by letter."""
        c = self
        return {
            "B": c.batch, "T": c.tokens, "P": c.past, "S": c.past + c.tokens, "D": c.width, "H": c.heads,
            "Hkv": c.kv_heads, "Dh": c.head_width, "F": c.mlp_width, "V": c.vocabulary,
            "H·Dh": c.heads * c.head_width, "Hkv·Dh": c.kv_heads * c.head_width,
        }  # fmt: skip


LEDGER_CALLS: Final = (
    LedgerCall(2, 5, 0, 24, 6, 3, 8, 40, 97),
    LedgerCall(1, 1, 9, 24, 6, 3, 8, 40, 97),
    LedgerCall(3, 4, 7, 20, 4, 2, 6, 50, 101),
)
"""A prefill, a decode step with one query, and several queries on a past; H·Dh differs from D in all of them."""


def _grade_ledger(function: Function) -> Verdict:
    for call in LEDGER_CALLS:
        config = ModelConfig(
            vocabulary=call.vocabulary, width=call.width, layers=1, heads=call.heads, kv_heads=call.kv_heads,
            head_width=call.head_width, mlp_width=call.mlp_width,
        )  # fmt: skip
        ledger = build_ledger(config, 0, call.batch, call.tokens, call.past)
        found = function(**{name: getattr(call, name) for name in call.__dataclass_fields__})
        if not isinstance(found, Mapping):
            return Verdict("value", f"It must return a dict of shapes, but it returned {type(found).__name__}.")
        for row in LEDGER_ROWS:
            entry = ledger.entry(row)
            if row not in found:
                return Verdict("value", f"The row {row!r} is missing.", f"Rows: {', '.join(LEDGER_ROWS)}.")
            verdict = _compare_row(row, entry.symbol, entry.shape, found[row], call)
            if verdict is not None:
                return verdict
    return Verdict("passed", "shape_ledger agrees with the engine, with and without a past.")


def _compare_row(row: str, symbol: str, wanted: tuple[int, ...], found: Any, call: LedgerCall) -> Verdict | None:
    try:
        shape = tuple(int(side) for side in found)
    except (TypeError, ValueError):
        return Verdict("value", f"The row {row!r} is {found!r:.60}, but it must be a shape such as {wanted}.")
    if shape == wanted:
        return None
    when = "in a decode step" if call.tokens == 1 and call.past else ("on a past" if call.past else "in a prefill")
    message = f"{row} must be {symbol} = {format_shape(wanted)} {when}, but yours is {format_shape(shape)}."
    if len(shape) != len(wanted):
        return Verdict("shape", f"{message} It has {len(wanted)} axes.")
    if sorted(shape) == sorted(wanted):
        return Verdict("order", f"{message} The sides are right, their order is not.")
    place = next(i for i, (a, b) in enumerate(zip(shape, wanted, strict=True)) if a != b)
    letter = symbol.strip("[]").split(", ")[place]
    took = next((name for name, value in call.letters.items() if value == shape[place] and name != letter), "")
    mixed = f" Axis {place} has {took} where {letter} belongs." if took else ""
    return Verdict("shape", message + mixed)
