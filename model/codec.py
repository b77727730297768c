"""Dataclasses as JSON, as MessagePack and back: each value is checked against its annotation, a refusal says where.

msgspec checks. It wants structs, which may be renamed, tagged and closed to unknown names, so each dataclass is read
through a struct with the same fields. A dataclass says what it is called outside the program with :func:`stored`;
without that, its fields keep their names. None may hold its own kind.

In JSON bytes are base64, and a number that is not finite is the text ``NaN``, ``Infinity`` or ``-Infinity``, because
JSON has no word for it; the bare words that Python's own ``json`` writes are read as well. Integers have 64 bits.
"""

from __future__ import annotations

import base64
import json
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")
TAG = "kind"
"""Where a dataclass with a tag says which it is."""
LIMIT = 1 << 63
"""What integers stay below, so that a tensor can hold each."""
SURROGATES = 1
"""The MessagePack extension of text that UTF-8 cannot say, for it holds half a pair of surrogates."""

Whole = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT - 1)]
CONTAINERS = (tuple, list, dict, frozenset, Sequence, Mapping)
TITLES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "bytes": "bytes",
    "array": "a list",
    "list": "a list",
    "dict": "named values",
    "object": "named values",
    "null": "nothing",
}
"""What msgspec calls the types of JSON, and what a person does."""


class CodecError(ValueError):
    """A value that is not what its place wants; the text is a clause without a full stop."""


class _NotFinite(Enum):
    """How JSON says the numbers that it has no word for."""

    NAN = "NaN"
    POSITIVE = "Infinity"
    NEGATIVE = "-Infinity"


@dataclass(frozen=True)
class _Names:
    """What a dataclass is called outside the program."""

    fields: tuple[str, ...] = ()
    tag: str = ""
    closed: bool = True


_NAMES: dict[type[Any], _Names] = {}
_BEHIND: dict[type[Any], type[Any]] = {}
"""The dataclass of each struct."""


def stored(names: str = "", *, tag: str = "", closed: bool = True) -> Callable[[type[T]], type[T]]:
    """Say what a dataclass and its fields are called in files and frames, whatever they are called in the program.

    Parameters
    ----------
    names
        One name for each field, in their order and with spaces between; empty where the fields' own are meant.
    tag
        What is written as ``kind``; members of a union need one.
    closed
        Whether unknown names are refused; else they are left out.
    """

    def keep(kind: type[T]) -> type[T]:
        given, wanted = names.split(), len(fields(kind))  # type: ignore[arg-type]
        if given and len(given) != wanted:
            raise TypeError(f"{kind.__name__} has {wanted} fields, but {len(given)} names")
        _NAMES[kind] = _Names(tuple(given), tag, closed)
        return kind

    return keep


@cache
def _layout(kind: Any) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """A dataclass's tag as it is written; each field's own name and the one outside the program."""
    names, own = _NAMES.get(kind, _Names()), [one.name for one in fields(kind)]
    return {TAG: names.tag} if names.tag else {}, tuple(zip(own, names.fields or own, strict=True))


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def to_plain(value: Any) -> Any:
    """A dataclass, or anything inside one, as what JSON has.

    Raises
    ------
    CodecError
        For an integer of more than 64 bits.
    """
    return _plain(value, _json_leaf)


def to_json(value: Any, indent: int | None = None) -> str:
    """The same as text, in ASCII: text may hold what UTF-8 cannot say."""
    return json.dumps(to_plain(value), indent=indent, allow_nan=False)


def to_msgpack(value: Any, other: Callable[[Any], Any] | None = None) -> bytes:
    """A dataclass as MessagePack; ``other`` makes something plain of what only the caller knows, such as arrays.

    Raises
    ------
    CodecError
        For an integer of more than 64 bits, and for a name in a mapping that UTF-8 cannot say.
    """
    try:
        return msgspec.msgpack.encode(_plain(value, _msgpack_leaf), enc_hook=other)
    except UnicodeEncodeError as error:  # an extension cannot stand there
        raise CodecError(f"{_short(ascii(error.object))} cannot be a name") from error


def _plain(value: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(value, int):
        if not -LIMIT <= value < LIMIT:
            raise CodecError(f"{_short(value)} has more than 64 bits")
        return value
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(one, leaf) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one, leaf) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        tag, names = _layout(type(value))
        return tag | {name: _plain(getattr(value, own), leaf) for own, name in names}
    return leaf(value)


def _json_leaf(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value).value
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _not_finite(value: float) -> _NotFinite:
    if math.isnan(value):
        return _NotFinite.NAN
    return _NotFinite.POSITIVE if value > 0 else _NotFinite.NEGATIVE


def _msgpack_leaf(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return msgspec.msgpack.Ext(SURROGATES, value.encode("utf-8", "surrogatepass"))
    return float(value) if isinstance(value, float) else value


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def read_json(text: str | bytes) -> Any:
    """What JSON says, unchecked.

    Raises
    ------
    CodecError
        When it is no JSON, is nested too deeply, or holds a number that is too large.
    """
    try:
        return json.loads(text, parse_float=_finite)
    except RecursionError as error:
        raise CodecError("it is nested too deeply") from error
    except ValueError as error:
        raise CodecError(str(error)) from error


def from_plain(kind: type[T], data: Any, other: Callable[[Any, Any], Any] | None = None) -> T:
    """A dataclass from what :func:`to_plain` made.

    Parameters
    ----------
    other
        Makes a value of a type that only the caller knows from the type and what stands there; its ValueError or
        TypeError says why it does not.

    Raises
    ------
    CodecError
        Naming the first place whose value is missing, unknown or of another type.
    """
    form: Any = kind
    try:
        made: T = _made(msgspec.convert(data, _form(form), dec_hook=other))
    except msgspec.ValidationError as error:
        raise CodecError(_clause(str(error))) from error
    except UnicodeEncodeError as error:
        raise CodecError(f"{_short(ascii(error.object))} is unknown here") from error
    return made


def from_msgpack(kind: type[T], data: bytes, other: Callable[[Any, Any], Any] | None = None) -> T:
    """A dataclass from what :func:`to_msgpack` made.

    Raises
    ------
    CodecError
        When it is no MessagePack, or as :func:`from_plain`.
    """
    try:
        plain = msgspec.msgpack.decode(data, ext_hook=_extension)
    except RecursionError as error:
        raise CodecError("it is nested too deeply") from error
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise CodecError(f"it is no MessagePack: {error}") from error
    return from_plain(kind, plain, other)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{_short(text)} is too large a number")
    return value


def _extension(code: int, data: memoryview) -> str:
    if code != SURROGATES:
        raise ValueError(f"its extension {code} is unknown")
    return bytes(data).decode("utf-8", "surrogatepass")


@cache
def _form(hint: Any) -> Any:
    """An annotation with structs in place of the dataclasses, and numbers as JSON says them."""
    if hint is float:
        return float | _NotFinite
    if hint is int:
        return Whole
    if isinstance(hint, type) and is_dataclass(hint):
        return _struct(hint)
    origin, inner = get_origin(hint), tuple(_form(one) for one in get_args(hint))
    if origin in (Union, types.UnionType):
        return reduce(or_, inner)
    return origin[inner] if origin in CONTAINERS else hint


def _struct(kind: Any) -> type[Any]:
    """A struct with the fields of a dataclass; what is missing stays unset, for the dataclass to say its default."""
    names, hints = _NAMES.get(kind, _Names()), get_type_hints(kind)
    shape: list[Any] = []
    for one in fields(kind):
        optional = one.default is not MISSING or one.default_factory is not MISSING
        shape.append((one.name, _form(hints[one.name])) + ((msgspec.UNSET,) if optional else ()))
    struct = msgspec.defstruct(
        kind.__name__,
        shape,
        kw_only=True,
        rename=dict(_layout(kind)[1]),
        tag=names.tag or None,
        tag_field=TAG if names.tag else None,
        forbid_unknown_fields=names.closed,
    )
    _BEHIND[struct] = kind
    return struct


def _made(value: Any) -> Any:
    """What stands behind a struct, and everything inside it."""
    if isinstance(value, (str, int, float)):
        return value
    kind = _BEHIND.get(type(value))
    if kind is not None:
        given = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return kind(**{name: _made(one) for name, one in given if one is not msgspec.UNSET})
    if isinstance(value, (tuple, list, frozenset)):
        return type(value)(map(_made, value))
    if isinstance(value, dict):
        return {name: _made(one) for name, one in value.items()}
    return float(value.value) if isinstance(value, _NotFinite) else value


# ----------------------------------------------------------------------------------------------------------------------
# Refusing


def _clause(message: str) -> str:
    """What msgspec says, the place first and in the words of a person."""
    what, _, path = message.partition(" - at ")
    place = path.rpartition("`$")[2].removeprefix(".").rstrip("`")
    problem, _, name = what.rstrip("`").partition(" field `")
    if name:
        state = "is unknown here" if "unknown" in problem else "is missing"
        return f"{place}.{name} {state}" if place else f"{name} {state}"
    return f"{place or 'it'} {_complaint(what.replace('float | str', 'float'))}"


def _complaint(what: str) -> str:
    if "base64" in what:
        return "is not base64"
    if what.startswith(("Invalid value ", "Invalid enum value ")):
        return f"cannot be {_short(what.partition('value ')[2])}"
    if what.startswith(("Expected `int` <=", "Expected `int` >=", "Number out of range")):
        return "has more than 64 bits"
    wanted = re.fullmatch(r"Expected `(.+?)`(?: of length (\d+))?(?:, got (.+))?", what)
    if wanted is None:
        return f"is not right ({what})"
    kind, length, got = wanted.groups()
    if length:
        return f"has {got} values, but {length} are expected"
    found = f", not {_titles(got.strip('`'))}" if got else ""
    return f"must be {_titles(kind)}{found}"


def _titles(kinds: str) -> str:
    return " or ".join(TITLES.get(kind, kind) for kind in kinds.split(" | "))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
