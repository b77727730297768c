"""What a learner's process says to the one that judges it: results as plain data, which cannot be anything else.

A message is MessagePack with its length before it. Nothing is unpickled, and no message is a verdict that it passed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, Final, Literal

import msgspec
import torch
from torch import Tensor

from ropewalk.model.challenges.challenge import Kind

MOST = 1 << 22
"""Bytes of a message: a right result has some thousand, and a list of nothings takes fifty times as much memory."""
MOST_ITEMS = 1_000
"""Items of one list or dict; a result has far fewer."""
DEEPEST = 4
"""How many lists and dicts may lie in one another."""
DTYPES: Final = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


@dataclass(frozen=True)
class Reply:
    """One message.

    Attributes
    ----------
    what
        That torch is loaded and the code begins (``ready``); what a call gave (``result``) or that it raised
        (``raised``); that nothing more comes (``end``).
    result
        As :func:`plain` makes it.
    kind, sentence, details
        Of what raised, or of a file that cannot be run.
    refuses
        Whether what was raised is an exception that a function may refuse with.
    printed
        What the code has printed, at the end.
    """

    what: Literal["ready", "result", "raised", "end"]
    result: Any = None
    kind: Kind = "error"
    sentence: str = ""
    details: str = ""
    refuses: bool = False
    printed: str = ""


def write(stream: IO[bytes], reply: Reply) -> None:
    """Write a message."""
    sentence, details, printed = map(_text, (reply.sentence, reply.details, reply.printed))
    data = msgspec.msgpack.encode(replace(reply, sentence=sentence, details=details, printed=printed))
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def _text(text: str) -> str:
    """A text with ``?`` for half a pair of surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def read(stream: IO[bytes]) -> Iterator[Reply]:
    """Read messages until there are none, or what comes is none."""
    while len(size := stream.read(8)) == 8 and (length := int.from_bytes(size, "little")) <= MOST:
        try:
            yield msgspec.msgpack.decode(stream.read(length), type=Reply)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return


def plain(value: Any, deep: int = DEEPEST) -> Any:
    """What a function gave, as plain data."""
    if isinstance(value, Tensor):
        kept = value.detach().cpu().contiguous()
        name = str(kept.dtype).removeprefix("torch.")
        if name not in DTYPES:
            return {"of": "other", "name": f"a tensor of {name}", "repr": ""}
        small = kept.numel() * kept.element_size() < MOST // 2
        data = kept.reshape(-1).view(torch.uint8).numpy().tobytes() if small and kept.numel() else b""
        return {"of": "tensor", "dtype": name, "shape": list(kept.shape), "data": data}
    if deep and isinstance(value, tuple | list) and len(value) <= MOST_ITEMS:
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"of": kind, "items": [plain(item, deep - 1) for item in value]}
    if deep and isinstance(value, Mapping) and len(value) <= MOST_ITEMS:
        return {"of": "dict", "items": [[_text(str(key)), plain(item, deep - 1)] for key, item in value.items()]}
    if value is None or isinstance(value, float):
        return {"of": "value", "value": value}
    try:
        whole = operator.index(value)
    except TypeError:
        whole = None
    if whole is not None and abs(whole) < 1 << 63:
        return {"of": "value", "value": whole}
    return {"of": "other", "name": _text(type(value).__name__[:60]), "repr": _text(f"{value!r:.60}")}


def thing(data: Any) -> Any:
    """What :func:`plain` was given, as far as it matters; what it is no word for is an object of that name.

    Raises
    ------
    ValueError
        When it is nothing that it makes.
    """
    try:
        match data:
            case {"of": "tensor", "dtype": str(name), "shape": [*sides], "data": bytes(raw)}:
                return _tensor(DTYPES[name], sides, raw)
            case {"of": "list", "items": [*items]}:
                return [thing(item) for item in items]
            case {"of": "tuple", "items": [*items]}:
                return tuple(thing(item) for item in items)
            case {"of": "dict", "items": [*items]}:
                return {str(key): thing(item) for key, item in items}
            case {"of": "value", "value": None | bool() | int() | float() as value}:
                return value
            case {"of": "other", "name": str(name), "repr": str(shown)}:
                return type(name, (), {"__repr__": lambda self: shown})()
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError("this is no result") from error
    raise ValueError("this is no result")


def _tensor(dtype: torch.dtype, sides: list[int], raw: bytes) -> Tensor:
    if raw:
        return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(sides)
    return torch.zeros((), dtype=dtype).expand(sides)  # nothing is in it, or far too much to be right
