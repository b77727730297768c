"""Frozen dataclasses as JSON and back: every value is checked against its annotation, every refusal says where.

It knows the types that JSON has, tuples, bytes, nested dataclasses and unions of them. It must not know what they mean.
"""

from __future__ import annotations

import base64
import binascii
import math
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
KIND = "kind"
"""Where a union of dataclasses says which of them a value is."""
LARGEST = 1 << 63
"""What whole numbers stay below, so that a tensor can hold each."""

_KNOWN: dict[type[Any], dict[str, Any]] = {}
"""Annotations that have been resolved; a session may hold thousands of samplings."""


class PlainDataError(ValueError):
    """A value that is not what its place wants; the text is a clause without a full stop."""


def to_plain(value: Any, hint: Any = None) -> Any:
    """A dataclass, or anything inside one, as what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        data = {one.name: to_plain(getattr(value, one.name), hints[one.name]) for one in fields(value)}
        return {KIND: type(value).__name__, **data} if _is_choice(hint) else data
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, tuple):
        inner = _inner(hint)
        return [to_plain(one, inner) for one in value]
    return value


def from_plain(kind: type[T], data: Any, where: str = "") -> T:
    """A dataclass from what :func:`to_plain` made.

    Raises
    ------
    PlainDataError
        Naming the first place whose value is missing, unknown or of another type.
    """
    if not isinstance(data, dict):
        raise PlainDataError(f"{where or 'it'} is {_short(data)}, but named values are expected")
    hints = _hints(kind)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            raise PlainDataError(f"{_at(where, name)} is unknown here")
    values = {}
    for name, one in known.items():
        if name in data:
            values[name] = _read(hints[name], data[name], _at(where, name))
        elif one.default is MISSING and one.default_factory is MISSING:
            raise PlainDataError(f"{_at(where, name)} is missing")
    return kind(**values)


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _hints(kind: type[Any]) -> dict[str, Any]:
    if kind not in _KNOWN:
        _KNOWN[kind] = get_type_hints(kind)
    return _KNOWN[kind]


def _is_choice(hint: Any) -> bool:
    """Whether an annotation leaves open which of several dataclasses a value is."""
    return sum(is_dataclass(one) for one in _options(hint)) > 1


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _inner(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is tuple else None


def _read(hint: Any, value: Any, where: str) -> Any:
    options = _options(hint)
    if value is None and type(None) in options:
        return None
    kept = [one for one in options if one is not type(None)]
    if _is_choice(hint):
        return _read_choice(kept, value, where)
    return _read_one(kept[0], value, where)


def _read_choice(options: list[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise PlainDataError(f"{where} is {_short(value)}, but named values are expected")
    named = {one.__name__: one for one in options}
    kind = value.get(KIND)
    if not isinstance(kind, str) or kind not in named:
        raise PlainDataError(f"{_at(where, KIND)} is {_short(kind)}, but there are {', '.join(named)}")
    return from_plain(named[kind], {name: one for name, one in value.items() if name != KIND}, where)


def _read_one(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    if get_origin(hint) is tuple:
        return _read_tuple(hint, value, where)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise PlainDataError(f"{where} is {_short(value)}, but there are {', '.join(map(str, get_args(hint)))}")
        return value
    if hint is bytes:
        return _read_bytes(value, where)
    return _read_plain(hint, value, where)


def _read_tuple(hint: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise PlainDataError(f"{where} is {_short(value)}, but a list is expected")
    kinds = get_args(hint)
    if kinds[-1] is ...:
        return tuple(_read(kinds[0], one, f"{where}[{place}]") for place, one in enumerate(value))
    if len(kinds) != len(value):
        raise PlainDataError(f"{where} has {len(value)} values, but {len(kinds)} are expected")
    return tuple(_read(kind, one, f"{where}[{at}]") for at, (kind, one) in enumerate(zip(kinds, value, strict=True)))


def _read_bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise PlainDataError(f"{where} is not base64") from None


def _read_plain(hint: Any, value: Any, where: str) -> Any:
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if type(value) is int and not -LARGEST <= value < LARGEST:
        raise PlainDataError(f"{where} is {_short(value)}, but no number here has more than 64 bits")
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        raise PlainDataError(f"{where} is {_short(value)}, but {words[hint]} is expected")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
