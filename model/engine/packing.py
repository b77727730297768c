"""Records as bytes and arrays, for what the window and the engine say to one another, and back.

A record becomes MessagePack, in which a dataclass says its class's name and an array stands as a number: its place
among the arrays, which travel beside it as they are. What comes in is checked against the annotations of a closed list
of types, by the structs of ``model.codec``. Nothing here can run what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path, PurePath
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from ropewalk.model.codec import LIMIT, PLAIN, UNIONS, CodecError, Forms, Names, short
from ropewalk.model.errors import RopewalkError, quoted
from ropewalk.model.readings.records import TokenText, TokenTexts

SURROGATES: Final = 1
"""The MessagePack extension of text that UTF-8 cannot say, for it holds half a pair of surrogates."""

DTYPES: Final = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
"""What arrays may be of."""


class PackingError(RopewalkError):
    """What one process said to the other and is no record, or a value that cannot be said."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A record on its way.

    Attributes
    ----------
    type
        The name of its type in the closed list; empty for None.
    data
        MessagePack, with places instead of arrays.
    arrays
        In the order of their places, C-contiguous.
    """

    type: str = ""
    data: bytes = b"\xc0"
    arrays: tuple[NDArray[Any], ...] = ()


class Packing:
    """Packs and unpacks records of a closed list of types.

    A class that is no dataclass, and from which several of them derive, stands for these wherever it is annotated.

    Parameters
    ----------
    types
        Dataclasses, plain types, tuples and unions of them. Dataclasses that only stand in others need not be named.
    reply_to
        The type of what may come for a request, and as which kind of message; where it is not given, any.
    """

    def __init__(self, types: Iterable[Any], reply_to: Callable[[Any, str], Any] = lambda asked, kind: object) -> None:
        self._reply_to = reply_to
        self._types: dict[str, Any] = {}
        instead: dict[Any, Any] = {Sequence[TokenText]: TokenTexts}
        for kind in _members(types):
            name = _name(kind)
            if self._types.setdefault(name, kind) != kind:
                raise TypeError(f"two types are called {name}")
            for base in kind.__mro__[1:-1] if isinstance(kind, type) and is_dataclass(kind) else ():
                if not is_dataclass(base):
                    instead[base] = instead[base] | kind if base in instead else kind
        self._aliases = [
            (name, kind) for name, kind in self._types.items() if not isinstance(kind, type) or kind is Path
        ]
        self._forms = Forms(lambda kind: Names(tag=kind.__name__, whole=True), "", instead=instead)

    def pack(self, value: Any) -> Packed:
        """Make bytes of a value; each array is sent once, however often it stands in it.

        Raises
        ------
        PackingError
            For a value of a type that is not in the list, and for one that cannot be said: an integer of more than 64
            bits, an array of objects.
        """
        name = "" if value is None else type(value).__name__
        if self._types.get(name) is not type(value):
            name = next((alias for alias, kind in self._aliases if _fits(kind, value)), "?")
        if name == "?":
            raise PackingError(f"The window and the engine say no {type(value).__name__} to one another.")
        writing = _Writing()
        try:
            data = msgspec.msgpack.encode(writing.plain(value))
        except UnicodeEncodeError as error:  # an extension cannot stand there
            raise PackingError(f"{name} cannot be sent: {short(ascii(error.object))} cannot be a name.") from error
        except RecursionError as error:
            raise PackingError(f"{name} cannot be sent: it is nested too deeply.") from error
        except (CodecError, OverflowError, TypeError, msgspec.MsgspecError) as error:
            raise PackingError(f"{name} cannot be sent: {error}.") from error
        return Packed(name, data, tuple(writing.arrays))

    def unpack(self, type: str, data: bytes, arrays: Sequence[NDArray[Any]]) -> Any:  # noqa: A002
        """Make the value again; its arrays are those given, read-only.

        Raises
        ------
        PackingError
            For an unknown type, and for anything that is missing, unknown or of another type than annotated.
        """
        kind = self._types.get(type)
        if type not in self._types:
            raise PackingError(f"The window and the engine say no {short(type)!r} to one another.")
        try:
            plain = msgspec.msgpack.decode(data, ext_hook=_extension)
            return self._forms.read(kind, plain, partial(_leaf, tuple(map(_read_only, arrays))))
        except RecursionError as error:
            raise PackingError(f"{type or None} cannot be read: it is nested too deeply.") from error
        except RopewalkError as error:  # a dataclass that checks itself
            raise PackingError(f"{type or None} cannot be read: {error.sentence}", error.details) from error
        except Exception as error:  # whatever a dataclass makes of values that are not its own
            raise PackingError(f"{type or None} cannot be read: {error}.") from error

    def unpack_reply(self, packed: Packed, asked: Any, kind: str) -> Any:
        """Make what came for a request again.

        Raises
        ------
        PackingError
            As of :meth:`unpack`, and for what no such request is answered with.
        """
        value = self.unpack(packed.type, packed.data, packed.arrays)
        if not any(_fits(one, value) for one in _members([self._reply_to(asked, kind)])):
            raise PackingError(f"{packed.type or None} came in reply to {quoted(str(asked))}.")
        return value


def _members(types: Iterable[Any]) -> Iterable[Any]:
    """The types of a list, unions taken apart; None is the type of None."""
    for kind in types:
        if get_origin(kind) in UNIONS:
            yield from _members(get_args(kind))
        else:
            yield NoneType if kind is None else kind


def _name(kind: Any) -> str:
    """What a type is called in frames."""
    if kind is NoneType:
        return ""
    if kind is Ellipsis:
        return "..."
    origin, inner = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        return " | ".join(_name(one) or "None" for one in inner)
    if origin is None:
        return str(kind.__name__)
    return f"{origin.__name__}[{', '.join(map(_name, inner))}]"


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value looks as if it were of a type; what stands in dataclasses is not looked at."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        return any(_fits(one, value) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple and isinstance(value, tuple):
        if inner[1:] == (Ellipsis,):
            return all(_fits(inner[0], one) for one in value)
        return len(inner) == len(value) and all(map(_fits, inner, value))
    return isinstance(value, origin or kind)


# ----------------------------------------------------------------------------------------------------------------------
# Writing


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()


class _Writing:
    """One value on its way into MessagePack, and the arrays met in it."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._places: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        """What MessagePack has for a value."""
        kind: Any = type(value)
        if kind is str:
            return value if value.isascii() else _text(value)
        if kind is int:
            if not -LIMIT <= value < LIMIT:
                raise CodecError(f"{short(value)} has more than 64 bits")
            return value
        if kind in PLAIN:
            return value
        if kind is tuple or kind is list:
            if value and type(value[0]) is TokenText:
                return self._columns(TokenTexts.of(value))
            return [self.plain(one) for one in value]
        if names := _fields(kind):
            written = {"": kind.__name__}
            for name in names:
                written[name] = self.plain(getattr(value, name))
            return written
        return self._rarer(value)

    def _rarer(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self._place(value)
        if isinstance(value, TokenTexts):
            return self._columns(value)
        if isinstance(value, Mapping):
            return {name: self.plain(one) for name, one in value.items()}
        if isinstance(value, (tuple, list, frozenset)):
            return [self.plain(one) for one in value]
        if is_dataclass(value):
            return {"": type(value).__name__}
        if isinstance(value, Enum):
            return self.plain(value.value)
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if isinstance(value, PurePath):
            return _text(str(value))
        for kind in (int, float, str):
            if isinstance(value, kind):
                return self.plain(kind(value))
        raise CodecError(f"a {type(value).__name__} is no plain data")

    def _columns(self, tokens: TokenTexts) -> list[Any]:
        bounds = tokens.bounds - tokens.bounds[0]
        return [_text(tokens.own_text), self._place(tokens.numbers), self._place(bounds)]

    def _place(self, array: NDArray[Any]) -> int:
        """Where an array stands among the others; one that is met again stands where it was."""
        place = self._places.get(id(array))
        if place is None:
            if array.dtype.name not in DTYPES:
                raise CodecError(f"an array of {array.dtype} is no plain data")
            place = self._places[id(array)] = len(self.arrays)
            self.arrays.append(np.asarray(array, array.dtype.newbyteorder("<"), order="C"))
        return place


def _text(value: str) -> Any:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return msgspec.msgpack.Ext(SURROGATES, value.encode("utf-8", "surrogatepass"))
    return value


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def _extension(code: int, data: memoryview) -> str:
    if code != SURROGATES:
        raise ValueError(f"its extension {code} is unknown")
    return bytes(data).decode("utf-8", "surrogatepass")


def _leaf(arrays: Sequence[NDArray[Any]], kind: Any, data: Any) -> Any:
    """What msgspec does not know: an array, a path, the tokens of a run."""
    if kind is TokenTexts:
        return _tokens(arrays, data)
    if kind is Path:
        if type(data) is not str:
            raise TypeError("a path is text")
        return Path(data)
    if get_origin(kind) is np.ndarray:
        return _array(arrays, data, _dtype(kind))
    raise TypeError(f"{kind} is nothing that can be sent")


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


@cache
def _dtype(kind: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(get_args(get_args(kind)[1])[0])
    return dtype


def _array(arrays: Sequence[NDArray[Any]], place: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if type(place) is not int or not 0 <= place < len(arrays):
        raise ValueError(f"there is no array {short(place)}")
    array = arrays[place]
    if array.dtype != dtype:
        raise ValueError(f"an array of {array.dtype} stands where one of {dtype} is expected")
    return array


def _tokens(arrays: Sequence[NDArray[Any]], data: Any) -> TokenTexts:
    if data == []:
        return TokenTexts.of(())
    if type(data) is not list or len(data) != 3 or type(data[0]) is not str:
        raise ValueError("tokens are a text, their numbers and their bounds")
    numbers, bounds = (_array(arrays, place, np.dtype(np.int32)) for place in data[1:])
    tokens = TokenTexts(data[0], numbers, bounds)
    tokens.check()
    return tokens
