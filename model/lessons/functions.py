"""What lessons compute without a model at hand: arithmetic, shapes, contracts, costs.

Each function here is an entry of ``table``: a lesson writes its name. The first parameter is the scope, which resolves
models to configs; the docstring's first line is what an author reads. The numbers come from ``model.costs`` and
``model.ledger``; nothing is worked out a second time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from model import costs
from model.config import ModelConfig, RopeConfig
from model.errors import ConfigError, LessonError, PositionError
from model.ledger import ShapeLedger, build_ledger
from model.ledger_entry import LedgerEntry
from model.lessons.values import Head, Quantity, Shape, Value, numbers, plain

if TYPE_CHECKING:
    from model.lessons.table import Scope

Vector = tuple[float, ...]

LETTERS = {
    "V": "vocabulary",
    "D": "width",
    "L": "layers",
    "H": "heads",
    "Hkv": "kv_heads",
    "Dh": "head_width",
    "F": "mlp_width",
    "positions": "max_position",
}
LIMIT = 1 << 40
"""Positions of a config that a lesson makes up, so that only the lesson's own limit is met."""


# ----------------------------------------------------------------------------------------------------------------------
# Arithmetic


def _kept(result: float, *values: Value) -> Value:
    """A result, whole where it is whole, in the unit of the one value that has one."""
    units = [value.unit for value in values if isinstance(value, Quantity)]
    whole = round(result) if float(result).is_integer() and abs(result) < 1e15 else result
    return Quantity(whole, units[0]) if len(units) == 1 else whole


def times(scope: Scope, *factors: Value) -> Value:
    """The product."""
    return _kept(math.prod(plain(factor) for factor in factors), *factors)


def plus(scope: Scope, *terms: Value) -> Value:
    """The sum; of lists of the same length, term by term."""
    if any(isinstance(term, tuple) for term in terms):
        return _term_by_term(terms)
    units = [term.unit for term in terms if isinstance(term, Quantity)]
    return _kept(math.fsum(plain(term) for term in terms), *([Quantity(0, units[0])] if units else []))


def _term_by_term(terms: tuple[Value, ...]) -> Value:
    lists = [term for term in terms if isinstance(term, tuple)]
    if len(lists) != len(terms) or len({len(term) for term in lists}) != 1:
        raise LessonError("plus adds numbers, or lists that are equally long.")
    return tuple(
        _term_by_term(items) if any(isinstance(item, tuple) for item in items) else math.fsum(map(plain, items))
        for items in zip(*lists, strict=True)
    )


def minus(scope: Scope, first: Value, second: Value) -> Value:
    """The difference."""
    unit = [Quantity(0, first.unit)] if isinstance(first, Quantity) else []
    return _kept(plain(first) - plain(second), *unit)


def divided(scope: Scope, first: Value, second: Value) -> Value:
    """The quotient; of two quantities of one unit, a plain number."""
    below = plain(second)
    if below == 0:
        raise LessonError("Something is divided by 0.")
    same = isinstance(first, Quantity) and isinstance(second, Quantity)
    return _kept(plain(first) / below, *(() if same else (first,)))


def power(scope: Scope, base: float, exponent: float) -> float:
    """The base to the exponent."""
    try:
        return float(base**exponent)
    except (OverflowError, ZeroDivisionError, TypeError) as error:
        raise LessonError(f"{base} to the power {exponent} is no number.") from error


def root(scope: Scope, number: float) -> float:
    """The square root."""
    if number < 0:
        raise LessonError(f"{number} has no square root.")
    return math.sqrt(number)


def log(scope: Scope, number: float) -> float:
    """The natural logarithm."""
    if number <= 0:
        raise LessonError(f"{number} has no logarithm.")
    return math.log(number)


def whole(scope: Scope, number: Value) -> int:
    """The nearest whole number."""
    return round(plain(number))


def share(scope: Scope, part: Value, all_of_it: Value) -> Quantity:
    """One number as a share of another, written in percent."""
    return Quantity(plain(part) / plain(all_of_it), "share")


def item(scope: Scope, values: Value, place: int) -> Value:
    """The item of a list at a place, counted from 0; −1 is the last."""
    if isinstance(values, Shape):
        values = tuple(values.sides)
    if not isinstance(values, tuple) or not -len(values) <= place < len(values):
        raise LessonError(f"There is no item {place} in {values!r:.60}.")
    return values[place]


def first(scope: Scope, values: Value, count: int) -> Value:
    """The first items of a list."""
    if not isinstance(values, tuple):
        raise LessonError(f"{values!r:.60} is no list.")
    return values[:count]


def count(scope: Scope, values: Value) -> int:
    """How many items a list has."""
    if not isinstance(values, tuple):
        raise LessonError(f"{values!r:.60} is no list.")
    return len(values)


def largest(scope: Scope, values: Value) -> float:
    """The largest number in a list."""
    return max(numbers(values))


def largest_place(scope: Scope, values: Value) -> int:
    """The place of the largest number in a list, counted from 0."""
    found = numbers(values)
    return found.index(max(found))


def smallest(scope: Scope, values: Value) -> float:
    """The smallest number in a list."""
    return min(numbers(values))


def total(scope: Scope, values: Value) -> Value:
    """The sum of a list."""
    return _kept(math.fsum(numbers(values)))


def joined(scope: Scope, rows: Value) -> Vector:
    """The rows of a matrix as one list."""
    return numbers(rows)


def split(scope: Scope, vector: Vector, heads: int) -> tuple[Vector, ...]:
    """A projected vector as heads: consecutive features."""
    if heads < 1 or len(vector) % heads:
        raise LessonError(f"{len(vector)} features do not make {heads} heads of one width.")
    width = len(vector) // heads
    return tuple(vector[head * width : (head + 1) * width] for head in range(heads))


def dot(scope: Scope, first: Vector, second: Vector) -> Value:
    """The dot product."""
    if len(first) != len(second):
        raise LessonError(f"Vectors of {len(first)} and {len(second)} numbers have no dot product.")
    return _kept(math.fsum(a * b for a, b in zip(first, second, strict=True)))


def layer_of(scope: Scope, head: Head) -> int:
    """The layer of a head."""
    return head.layer


def head_of(scope: Scope, head: Head) -> int:
    """The number of a head in its layer."""
    return head.head


def text(scope: Scope, value: Value, form: str = "") -> str:
    """A value as it is written, for use inside a list."""
    from model.lessons.values import write

    return write(value, form)


# ----------------------------------------------------------------------------------------------------------------------
# Shapes and contracts


def decoder(
    scope: Scope,
    width: int,
    heads: int,
    kv_heads: int = 0,
    head_width: int = 0,
    mlp_width: int = 0,
    layers: int = 1,
    vocabulary: int = 100,
    positions: int = LIMIT,
    qk_norm: str = "none",
    position: str = "rotary",
) -> ModelConfig:
    """A config of these sizes; Hkv is H, Dh is D / H and F is 4 D unless given."""
    knobs: dict[str, Any] = {"qk_norm": qk_norm, "position": position}
    return ModelConfig(
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads or heads,
        head_width=head_width or width // max(heads, 1),
        mlp_width=mlp_width or 4 * width,
        max_position=positions,
        **knobs,
    )


def with_kv_heads(scope: Scope, config: ModelConfig, kv_heads: int) -> ModelConfig:
    """The same config with another number of kv heads."""
    return config.changed(kv_heads=kv_heads)


def with_layers(scope: Scope, config: ModelConfig, layers: int) -> ModelConfig:
    """The same config with another number of layers."""
    return config.changed(layers=layers)


def stretched(scope: Scope, config: ModelConfig, rule: str, factor: float, original: int = 0) -> ModelConfig:
    """The same config with a RoPE scaling rule: linear, dynamic, yarn or llama3."""
    rope = config.rope or RopeConfig()
    knobs: dict[str, Any] = {"scaling": rule}
    rope = RopeConfig(
        width=rope.width,
        base=rope.base,
        pairing=rope.pairing,
        factor=factor,
        original_max_position=original or config.max_position,
        **knobs,
    )
    return config.changed(rope=rope, max_position=LIMIT)


def size(scope: Scope, config: ModelConfig, letter: str) -> int:
    """One size of a config by its letter: V, D, L, H, Hkv, Dh, F, or positions."""
    if letter not in LETTERS:
        raise LessonError(f"There is no size {letter!r}; there are {', '.join(LETTERS)}.")
    number: int = getattr(config, LETTERS[letter])
    return number


def planes(scope: Scope, config: ModelConfig) -> int:
    """How many rotation planes a head has."""
    return config.rotary_width(0) // 2


def base(scope: Scope, config: ModelConfig) -> float:
    """The RoPE base."""
    return (config.rope or RopeConfig()).base


def group(scope: Scope, config: ModelConfig) -> int:
    """Query heads that share a kv head, H / Hkv."""
    return config.group


def kv_head(scope: Scope, config: ModelConfig, head: int) -> int:
    """The kv head that a query head reads, h // (H / Hkv)."""
    return config.kv_head_of(head)


def sharing(scope: Scope, config: ModelConfig, kv_head: int) -> tuple[int, ...]:
    """The query heads that read a kv head."""
    return tuple(head for head in range(config.heads) if config.kv_head_of(head) == kv_head)


def tiled_kv_head(scope: Scope, config: ModelConfig, head: int) -> int:
    """The kv head that a query head would read if K were tiled instead: h mod Hkv, the classic mistake."""
    return head % config.kv_heads


@lru_cache(maxsize=64)
def _ledger(config: ModelConfig, tokens: int, past: int, batch: int) -> ShapeLedger:
    """A lesson asks for many rows of one ledger."""
    return build_ledger(config, 0, batch, tokens, past)


def _row(config: ModelConfig, row: str, tokens: int, past: int, batch: int) -> LedgerEntry:
    try:
        return _ledger(config, tokens, past, batch).entry(row)
    except (ConfigError, PositionError) as error:
        raise LessonError(error.sentence) from error


def shape(scope: Scope, config: ModelConfig, row: str, tokens: int = 1, past: int = 0, batch: int = 1) -> Shape:
    """The shape of a ledger row's result, by the row's key: q, split_q, cache_k, scores, lm_head and so on."""
    return Shape(_row(config, row, tokens, past, batch).shape)


def symbol(scope: Scope, config: ModelConfig, row: str) -> str:
    """The shape of a ledger row in letters."""
    return _row(config, row, 2, 0, 1).symbol


def weight_shape(scope: Scope, config: ModelConfig, row: str) -> Shape:
    """The shape of a ledger row's weight as stored, (outputs, inputs)."""
    entry = _row(config, row, 1, 0, 1)
    if not entry.weight:
        raise LessonError(f"The ledger's row {row!r} has no weight.")
    return Shape(entry.weight)


def row_bytes(scope: Scope, config: ModelConfig, row: str, tokens: int = 1, past: int = 0, batch: int = 1) -> Quantity:
    """Bytes that a ledger row's result takes, or would take if it were made, in float32."""
    entry = _row(config, row, tokens, past, batch)
    return Quantity(entry.bytes + entry.would_cost_bytes, "bytes")


def made_of(scope: Scope, *sides: int) -> Shape:
    """A shape from its sides."""
    return Shape(tuple(sides))


def refusal(scope: Scope, heads: int, kv_heads: int, head_width: int = 8, rotary_width: int = 0) -> str:
    """What the engine says to a config that contradicts itself."""
    try:
        ModelConfig(
            vocabulary=16,
            width=32,
            layers=1,
            heads=heads,
            kv_heads=kv_heads,
            head_width=head_width,
            mlp_width=32,
            rope=RopeConfig(width=rotary_width or None),
        )
    except ConfigError as error:
        return error.sentence
    raise LessonError(f"The engine does not refuse H {heads}, Hkv {kv_heads}, Dh {head_width}.")


def position_refusal(scope: Scope, config: ModelConfig, position: int) -> str:
    """What the engine says to a position past the limit."""
    try:
        config.check_position(position)
    except PositionError as error:
        return error.sentence
    raise LessonError(f"The engine does not refuse position {position}.")


# ----------------------------------------------------------------------------------------------------------------------
# Costs


def kv_bytes(
    scope: Scope, config: ModelConfig, tokens: int = 1, batch: int = 1, dtype: str = "bfloat16", kv_heads: int = 0
) -> Quantity:
    """Bytes of the KV cache; another number of kv heads if given."""
    return Quantity(costs.kv_bytes(config, tokens, dtype, batch, kv_heads or None), "bytes")


def kv_bytes_at_bits(scope: Scope, config: ModelConfig, tokens: int, bits: int) -> Quantity:
    """Bytes of the KV cache at so many bits a number."""
    return Quantity(costs.kv_bytes_at_bits(config, tokens, bits), "bytes")


def kv_bytes_seen(scope: Scope, config: ModelConfig, tokens: int, dtype: str = "bfloat16") -> Quantity:
    """Bytes of the cached rows that the newest query can still see."""
    return Quantity(costs.kv_bytes_visible(config, tokens, dtype), "bytes")


def tokens_that_fit(scope: Scope, config: ModelConfig, memory: float, dtype: str = "bfloat16") -> int:
    """Tokens whose cache fits into so many GiB."""
    return int(memory * 2**30 // costs.kv_bytes(config, 1, dtype))


def attention_bytes(
    scope: Scope, config: ModelConfig, tokens: int, layers: int = 0, dtype: str = "bfloat16"
) -> Quantity:
    """Bytes of the attention weights, were they kept: of all layers, or of so many."""
    each = costs.attention_matrix_bytes(config, tokens, dtype)
    return Quantity(each * (layers or config.layers), "bytes")


def attention_flops(scope: Scope, config: ModelConfig, tokens: int, past: int = 0, part: str = "full") -> Quantity:
    """FLOPs of scores and blend over all layers, full or causal."""
    return Quantity(_part(costs.attention_flops(config, tokens, past), part), "flops")


def forward_flops(scope: Scope, config: ModelConfig, tokens: int, past: int = 0, part: str = "causal") -> Quantity:
    """FLOPs of a whole forward pass, lm_head included."""
    return Quantity(_part(costs.forward_flops(config, tokens, past), part), "flops")


def matrix_flops(scope: Scope, config: ModelConfig, tokens: int) -> Quantity:
    """FLOPs of everything but scores and blend: what grows in proportion to T."""
    everything = costs.forward_flops(config, tokens).full
    return Quantity(everything - costs.attention_flops(config, tokens).full, "flops")


def crossover(scope: Scope, config: ModelConfig) -> int:
    """The T from which scores and blend, counted in full, cost more than all matrices together."""
    per_token = costs.forward_flops(config, 1).full - costs.attention_flops(config, 1).full
    per_pair = costs.attention_flops(config, 1).full
    return -(-per_token // per_pair)


def _part(flops: costs.Flops, part: str) -> int:
    if part not in ("full", "causal"):
        raise LessonError(f"FLOPs are full or causal, not {part!r}.")
    return flops.full if part == "full" else flops.causal


def visible_cells(scope: Scope, tokens: int, past: int = 0, window: int = 0) -> int:
    """Cells of T × S that a causal mask leaves visible."""
    return costs.visible_pairs(tokens, past, window or None)


def parameters(scope: Scope, config: ModelConfig, part: str = "total") -> Quantity:
    """Parameters: total, active, embedding, lm_head, block, attention, mlp, norms, or one matrix (q, k, v, o, …)."""
    whole_model = costs.parameters(config)
    block = whole_model.layers[0]
    parts: dict[str, int] = {
        "total": whole_model.total,
        "active": whole_model.active,
        "embedding": whole_model.embedding,
        "positions": whole_model.positions,
        "lm_head": whole_model.lm_head,
        "block": block.total,
        "attention": block.attention,
        "mlp": block.mlp,
        "active_mlp": block.active_mlp,
        "norms": block.norms,
        "q": block.q,
        "k": block.k,
        "v": block.v,
        "o": block.o,
        "gate": block.gate,
        "up": block.up,
        "down": block.down,
        "router": block.router,
    }
    if part not in parts:
        raise LessonError(f"There is no part {part!r}; there are {', '.join(parts)}.")
    return Quantity(parts[part], "count")


def weight_bytes(scope: Scope, config: ModelConfig, dtype: str = "bfloat16") -> Quantity:
    """Bytes of all weights."""
    return Quantity(costs.weight_bytes(config, dtype), "bytes")


def trace_bytes(scope: Scope, config: ModelConfig, tokens: int, dtype: str = "bfloat16") -> Quantity:
    """Bytes that Ropewalk keeps of a run instead of its attention weights; the last row's logits only."""
    return Quantity(costs.trace_bytes(config, tokens, dtype, logit_rows=1), "bytes")


FUNCTIONS = (
    times,
    plus,
    minus,
    divided,
    power,
    root,
    log,
    whole,
    share,
    item,
    first,
    count,
    largest,
    largest_place,
    smallest,
    total,
    joined,
    split,
    dot,
    layer_of,
    head_of,
    text,
    decoder,
    with_kv_heads,
    with_layers,
    stretched,
    size,
    planes,
    base,
    group,
    kv_head,
    sharing,
    tiled_kv_head,
    shape,
    symbol,
    weight_shape,
    row_bytes,
    made_of,
    refusal,
    position_refusal,
    kv_bytes,
    kv_bytes_at_bits,
    kv_bytes_seen,
    tokens_that_fit,
    attention_bytes,
    attention_flops,
    forward_flops,
    matrix_flops,
    crossover,
    visible_cells,
    parameters,
    weight_bytes,
    trace_bytes,
)
"""Every function of this file that a lesson may name."""
