"""Dataclasses as JSON and back: each value is checked against its annotation, a refusal says where.

msgspec checks. It wants structs, which may be renamed, tagged and closed to unknown names, so each dataclass is read
through a struct with the same fields. A dataclass says what it is called in files with :func:`stored`; without that,
its fields keep their names. ``model.engine.packing`` checks with the same structs what processes say to one another.

In JSON bytes are base64, and a number that is not finite is the text ``NaN``, ``Infinity`` or ``-Infinity``, because
JSON has no word for it; the bare words that Python's own ``json`` writes are read as well. Integers have 64 bits.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, ForwardRef, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")
TAG = "kind"
"""Where a dataclass with a tag says which it is."""
LIMIT = 1 << 63
"""What integers stay below, so that a tensor can hold each."""
Whole = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT - 1)]
UNIONS = (Union, types.UnionType)
EMPTY: Mapping[Any, Any] = types.MappingProxyType({})
PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
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
class Names:
    """What a dataclass is called outside the program; ``whole`` where no field may be missing, default or not."""

    fields: tuple[str, ...] = ()
    tag: str = ""
    closed: bool = True
    whole: bool = False


_NAMES: dict[type[Any], Names] = {}


def stored(names: str = "", *, tag: str = "", closed: bool = True) -> Callable[[type[T]], type[T]]:
    """Say what a dataclass and its fields are called in files, whatever they are called in the program.

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
        _NAMES[kind] = Names(tuple(given), tag, closed)
        return kind

    return keep


@cache
def _layout(kind: Any) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """A dataclass's tag as it is written; each field's own name and the one outside the program."""
    names, own = _NAMES.get(kind, Names()), [one.name for one in fields(kind)]
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
    return _plain(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """The same as text, in ASCII: text may hold what UTF-8 cannot say."""
    return json.dumps(to_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, int):
        if not -LIMIT <= value < LIMIT:
            raise CodecError(f"{short(value)} has more than 64 bits")
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value).value
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        tag, names = _layout(type(value))
        return tag | {name: _plain(getattr(value, own)) for own, name in names}
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _not_finite(value: float) -> _NotFinite:
    if math.isnan(value):
        return _NotFinite.NAN
    return _NotFinite.POSITIVE if value > 0 else _NotFinite.NEGATIVE


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
    made: T = _FILES.read(kind, data, other)
    return made


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{short(text)} is too large a number")
    return value


class _Whatever(type):
    """A type that msgspec takes any value for: it asks for one, and has no say in what it is."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class Forms:
    """The structs through which values are read and checked.

    Parameters
    ----------
    called
        What a dataclass is called.
    tag
        The name under which a dataclass with a tag says which it is.
    number
        How a number that need not be whole is said.
    instead
        Annotations that are read as others.
    """

    def __init__(
        self, called: Callable[[type[Any]], Names], tag: str, number: Any = float, instead: Mapping[Any, Any] = EMPTY
    ) -> None:
        self._called, self._tag, self._number, self._instead = called, tag, number, instead
        self._lock = threading.RLock()
        self._known: dict[Any, Any] = {}
        """Forms that are ready: another thread must not read through a struct before its fields have theirs."""
        self._structs: dict[type[Any], type[Any]] = {}
        self._behind: dict[type[Any], tuple[type[Any], tuple[str, ...]]] = {}
        """The dataclass of each struct, and its fields."""
        self._aliases: dict[tuple[str, str], type[Any]] = {}
        self._meant: dict[type[Any], Any] = {}
        """What stands for the name of a type within that type, and the form that is meant."""

    def read(self, hint: Any, data: Any, other: Callable[[Any, Any], Any] | None = None) -> Any:
        """The value that plain data says; as :func:`from_plain`."""
        form = self._known.get(hint)
        if form is None:
            with self._lock:
                form = self._known[hint] = self._form(hint)
        try:
            return self._made(self._converted(form, data, other))
        except msgspec.ValidationError as error:
            raise CodecError(_clause(str(error))) from error
        except UnicodeEncodeError as error:
            raise CodecError(f"{short(ascii(error.object))} is unknown here") from error

    def _converted(self, form: Any, data: Any, other: Callable[[Any, Any], Any] | None) -> Any:
        def hook(kind: Any, value: Any) -> Any:
            meant = self._meant.get(kind)
            if meant is not None:
                return self._converted(meant, value, other)
            if other is None:
                raise TypeError(f"nobody reads {kind}")
            return other(kind, value)

        return msgspec.convert(data, form, dec_hook=hook)

    def _form(self, hint: Any, module: str = "") -> Any:
        """An annotation with structs in place of the dataclasses; ``module`` is where names in it are looked up."""
        hint = self._instead.get(hint, hint)
        if hint is float:
            return self._number
        if hint is int:
            return Whole
        if isinstance(hint, str | ForwardRef):
            return self._alias(hint if isinstance(hint, str) else hint.__forward_arg__, module)
        if isinstance(hint, type) and is_dataclass(hint):
            return self._struct(hint)
        origin, inner = get_origin(hint), get_args(hint)
        if origin in UNIONS:
            return reduce(or_, (self._form(one, module) for one in inner))
        return origin[tuple(self._form(one, module) for one in inner)] if origin in CONTAINERS else hint

    def _alias(self, name: str, module: str) -> type[Any]:
        """What stands for a type that holds itself: msgspec asks back for it, and reads it no deeper than data goes."""
        alias = self._aliases.get((name, module))
        if alias is None:
            alias = self._aliases[name, module] = _Whatever(name, (), {})
            self._meant[alias] = self._form(getattr(sys.modules[module], name), module)
        return alias

    def _struct(self, kind: type[Any]) -> type[Any]:
        """A struct with the fields of a dataclass; what is missing stays unset: the dataclass says its default."""
        if kind in self._structs:
            return self._structs[kind]
        called, hints, shape = self._called(kind), get_type_hints(kind), list[Any]()
        for one in fields(kind):
            optional = one.default is not MISSING or one.default_factory is not MISSING
            shape.append((one.name, Any, msgspec.UNSET) if optional and not called.whole else (one.name, Any))
        own = tuple(name for name, *_ in shape)
        struct = msgspec.defstruct(
            kind.__name__,
            shape,
            kw_only=True,
            rename=dict(zip(own, called.fields or own, strict=True)),
            tag=called.tag or None,
            tag_field=self._tag if called.tag else None,
            forbid_unknown_fields=called.closed,
        )
        self._structs[kind], self._behind[struct] = struct, (kind, own)
        # only now, for a field may hold its own kind; msgspec looks at them when it first reads the struct
        struct.__annotations__.update({name: self._form(hints[name], kind.__module__) for name in own})
        return struct

    def _made(self, value: Any) -> Any:
        """What stands behind a struct, and everything inside it."""
        kind = type(value)
        if kind in PLAIN:
            return value
        behind = self._behind.get(kind)
        if behind is not None:
            given = ((name, getattr(value, name)) for name in behind[1])
            return behind[0](
                **{
                    name: one if type(one) in PLAIN else self._made(one)
                    for name, one in given
                    if one is not msgspec.UNSET
                }
            )
        if kind in {tuple, list, frozenset}:
            return kind(map(self._made, value))
        if kind is dict:
            return {name: self._made(one) for name, one in value.items()}
        return float(value.value) if kind is _NotFinite else value


_FILES = Forms(lambda kind: _NAMES.get(kind, Names()), TAG, float | _NotFinite)


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
        return f"cannot be {short(what.partition('value ')[2])}"
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


def short(value: object) -> str:
    """A value as far as it fits into a sentence."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
