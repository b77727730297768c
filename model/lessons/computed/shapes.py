"""Configs, the shapes that follow from them, and what the engine refuses."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.errors import ConfigError, LessonError, PositionError
from ropewalk.model.ledger.entry import LedgerEntry
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger
from ropewalk.model.lessons.values import Quantity, Shape

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


def decoder(
    width: int,
    heads: int,
    kv_heads: int = 0,
    head_width: int = 0,
    mlp_width: int = 0,
    layers: int = 1,
    vocabulary: int = 100,
    positions: int = 0,
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
        max_position=positions or LIMIT,
        **knobs,
    )


def with_kv_heads(config: ModelConfig, kv_heads: int) -> ModelConfig:
    """The same config with another number of kv heads."""
    return config.changed(kv_heads=kv_heads)


def with_layers(config: ModelConfig, layers: int) -> ModelConfig:
    """The same config with another number of layers."""
    return config.changed(layers=layers)


def stretched(config: ModelConfig, rule: str, factor: float, original: int = 0) -> ModelConfig:
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


def size(config: ModelConfig, letter: str) -> int:
    """One size of a config by its letter: V, D, L, H, Hkv, Dh, F, or positions."""
    if letter not in LETTERS:
        raise LessonError(f"There is no size {letter!r}; there are {', '.join(LETTERS)}.")
    number: int = getattr(config, LETTERS[letter])
    return number


def planes(config: ModelConfig) -> int:
    """How many rotation planes a head has."""
    return config.rotary_width(0) // 2


def base(config: ModelConfig) -> float:
    """The RoPE base."""
    return (config.rope or RopeConfig()).base


def group(config: ModelConfig) -> int:
    """Query heads that share a kv head, H / Hkv."""
    return config.group


def kv_head(config: ModelConfig, head: int) -> int:
    """The kv head that a query head reads, h // (H / Hkv)."""
    return config.kv_head_of(head)


def sharing(config: ModelConfig, kv_head: int) -> tuple[int, ...]:
    """The query heads that read a kv head."""
    return tuple(head for head in range(config.heads) if config.kv_head_of(head) == kv_head)


def tiled_kv_head(config: ModelConfig, head: int) -> int:
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


def ledger_rows(config: ModelConfig) -> tuple[str, ...]:
    """The keys of a ledger's rows, in the order in which they are worked out."""
    return tuple(entry.key for entry in _ledger(config, 1, 0, 1).entries)


def in_order(config: ModelConfig, *rows: str) -> bool:
    """Whether a ledger has some rows, by their keys, in this order."""
    places = [_ledger(config, 1, 0, 1).entries.index(_row(config, row, 1, 0, 1)) for row in rows]
    return all(first < second for first, second in pairwise(places))


def stored(config: ModelConfig, row: str) -> str:
    """Whether a ledger row's result is stored, a view, or not stored."""
    return str(_row(config, row, 1, 0, 1).stored)


def row_parameters(config: ModelConfig, row: str) -> int:
    """How many parameters a ledger row has."""
    return _row(config, row, 1, 0, 1).parameters


def shape(config: ModelConfig, row: str, tokens: int = 1, past: int = 0, batch: int = 1) -> Shape:
    """The shape of a ledger row's result, by the row's key: q, split_q, cache_k, scores, lm_head and so on."""
    return Shape(_row(config, row, tokens, past, batch).shape)


def symbol(config: ModelConfig, row: str) -> str:
    """The shape of a ledger row in letters."""
    return _row(config, row, 2, 0, 1).symbol


def weight_shape(config: ModelConfig, row: str) -> Shape:
    """The shape of a ledger row's weight as stored, (outputs, inputs)."""
    entry = _row(config, row, 1, 0, 1)
    if not entry.weight:
        raise LessonError(f"The ledger's row {row!r} has no weight.")
    return Shape(entry.weight)


def row_bytes(config: ModelConfig, row: str, tokens: int = 1, past: int = 0, batch: int = 1) -> Quantity:
    """Bytes that a ledger row's result takes, or would take if it were made, in float32."""
    entry = _row(config, row, tokens, past, batch)
    return Quantity(entry.bytes + entry.would_cost_bytes, "bytes")


def made_of(*sides: int) -> Shape:
    """A shape from its sides."""
    return Shape(tuple(sides))


def refusal(heads: int, kv_heads: int, head_width: int = 8, rotary_width: int = 0) -> str:
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


def position_refusal(config: ModelConfig, position: int) -> str:
    """What the engine says to a position past the limit."""
    try:
        config.check_position(position)
    except PositionError as error:
        return error.sentence
    raise LessonError(f"The engine does not refuse position {position}.")
