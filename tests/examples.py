"""Values of any type, made from its annotation alone, so that a new record is covered by itself; and what is alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from random import Random
from types import ModuleType, NoneType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ropewalk.model.decoder.config import ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.readings.records import TokenText

TEXTS = ("", "a", "·é中👍", "\ud800x", "\udcff", "Infinity", "many " * 30)
NUMBERS = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-320, 0.1, -3.0)
WHOLE = (0, -1, 7, 1 << 40, -(1 << 63), (1 << 63) - 1)
DEEPEST = 6


def _config(random: Random) -> ModelConfig:
    moe = MoeConfig(4, 2, 8, layers=(True, False)) if random.random() < 0.5 else None
    return ModelConfig(
        vocabulary=3, width=8, layers=2, heads=4, kv_heads=2, head_width=4, mlp_width=16, moe=moe, rope=_rope(random)
    )


def _rope(random: Random) -> RopeConfig:
    if random.random() < 0.5:
        return RopeConfig(base=500_000.0, frequencies=(1.0, 0.5))
    return RopeConfig(scaling="llama3", factor=8.0, original_max_position=64)


CHECKED: Mapping[Any, Callable[[Random], Any]] = {
    ModelConfig: _config,
    RopeConfig: _rope,
    MoeConfig: lambda random: MoeConfig(random.randint(2, 9), 2, 8),
    ToySpec: lambda random: ToySpec(_config(random), ("a", "b", "c"), (("head", "zeros"), ("norm", (1.0,) * 8))),
    TokenText: lambda random: TokenText(
        random.choice((0, 5, (1 << 31) - 1)),
        random.choice(TEXTS),
        random.choice(("text", "special", "bytes")),
        random.choice((-1, 0, 3)),
        random.choice(("", "中", "\udcff")),
    ),
}
"""Types whose values check themselves, or are kept shorter than they are annotated."""


def records_of(*modules: ModuleType) -> list[type[Any]]:
    """The dataclasses that modules define."""
    return [
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and is_dataclass(one) and one.__module__ == module.__name__
    ]


def example(hint: Any, random: Random, module: str = "", depth: int = 0) -> Any:
    """A value that an annotation allows; ``module`` is where the names in it are looked up."""
    if isinstance(hint, str | ForwardRef):
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        return example(getattr(sys.modules[module], name), random, module, depth)
    if hint in CHECKED:
        return CHECKED[hint](random)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{one.name: example(hints[one.name], random, hint.__module__, depth + 1) for one in fields(hint)})
    return _plain(hint, random) if get_origin(hint) is None else _of_many(hint, random, module, depth)


def _plain(hint: Any, random: Random) -> Any:
    makers: dict[Any, Callable[[], Any]] = {
        bool: lambda: random.random() < 0.5,
        int: lambda: random.choice(WHOLE),
        float: lambda: random.choice(NUMBERS),
        str: lambda: random.choice(TEXTS),
        bytes: lambda: random.randbytes(random.randint(0, 9)),
        Path: lambda: Path("/models") / random.choice(("m.gguf", "中 \udcff")),
        NoneType: lambda: None,
        None: lambda: None,
    }
    if isinstance(hint, type) and issubclass(hint, Enum):
        return random.choice(list(hint))
    return makers[hint]()


def _of_many(hint: Any, random: Random, module: str, depth: int) -> Any:
    origin, inner = get_origin(hint), get_args(hint)

    def one(kind: Any) -> Any:
        return example(kind, random, module, depth + 1)

    count = 0 if depth > DEEPEST else random.randint(0, 3)
    if origin is Literal:
        return random.choice(inner)
    if origin in (Union, UnionType):
        return one(inner[0] if depth > DEEPEST else random.choice(inner))
    if origin is np.ndarray:
        return _array(np.dtype(get_args(inner[1])[0]), random)
    if origin is frozenset:
        return frozenset(one(inner[0]) for _ in range(count))
    if origin in (dict, Mapping):
        return {f"name {place} é": one(inner[1]) for place in range(count)}
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(map(one, inner))
    assert origin in (tuple, Sequence), f"{hint} is nothing that examples are made of"
    return tuple(one(inner[0]) for _ in range(count))


def _array(dtype: np.dtype[Any], random: Random) -> Any:
    shape = tuple(random.randint(0, 3) for _ in range(random.randint(0, 3)))
    size = int(np.prod(shape, dtype=int))
    if dtype == np.bool_:
        return np.array([random.random() < 0.5 for _ in range(size)], dtype).reshape(shape)
    return np.frombuffer(random.randbytes(size * dtype.itemsize), dtype).reshape(shape)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit, whatever holds them."""
    if isinstance(one, np.ndarray):
        same = isinstance(other, np.ndarray) and (one.dtype, one.shape) == (other.dtype, other.shape)
        return same and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return type(other) is float and repr(one) == repr(other)
    if is_dataclass(one):
        return type(one) is type(other) and all(
            alike(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, frozenset):  # in which a NaN is equal to nothing
        return type(other) is frozenset and sorted(map(repr, one)) == sorted(map(repr, other))
    if isinstance(one, Sequence) and not isinstance(one, str | bytes):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and bool(one == other)
