"""Changes to a file: of its bytes, and of what its JSON says, so that what is behind a first check is reached too."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

HEADER = 6_000
"""Most changes fall into the first and last bytes, where the descriptions are."""
LONG = "x" * 5000
"""A text that no refusal may repeat in full."""
KEY = re.compile(rb"[a-z0-9]+(?:\.[a-z_]+)+")
"""What a number in a GGUF file is called; its type and the number follow."""
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, 1 << 64, 10**4000),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "0", "\x00", "\ud800", "\x1b]52;c;", LONG, "NaN", "../" * 9, "/dev/zero"),
    *([], [[]], {}, {"": {}}, [0] * 40, [None], ["", 1]),
)
"""What stands where something else is expected."""


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Some changes: of the bytes, or of the JSON that the data is or holds."""
    if draw.random() < 0.5:
        for reworked in (_of_json, _of_header, _of_gguf, _of_lines):
            with suppress(ValueError, OverflowError):  # numbers may become too large to be written
                changed = reworked(data, draw)
                if changed is not None:
                    return changed
    return of_bytes(data, draw)


def of_bytes(data: bytes, draw: random.Random) -> bytes:
    """One to four changes of a kind: bits flipped, bytes set, a stretch cut out, doubled, or the end cut off."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        if not changed:
            break
        near_end = draw.random() < 0.3
        span = min(len(changed), HEADER)
        at = len(changed) - 1 - draw.randrange(span) if near_end else draw.randrange(span)
        kind = draw.randrange(6)
        if kind == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        elif kind == 2:
            del changed[at : at + draw.randint(1, 64)]
        elif kind == 3:
            stretch = bytes(changed[at : at + draw.randint(1, 64)])
            changed[at:at] = stretch
        elif kind == 4:
            changed[at : at + 8] = draw.choice((bytes(8), b"\xff" * 8, b"\xff" * 7 + b"\x7f", draw.randbytes(8)))
        else:
            del changed[len(changed) - draw.randint(1, max(1, len(changed) // 2)) :]
    return bytes(changed)


def _of_json(data: bytes, draw: random.Random) -> bytes | None:
    """A file that is JSON, with some values replaced, taken away, doubled or nested."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _written(_changed(value, draw), draw)


def _of_header(data: bytes, draw: random.Random) -> bytes | None:
    """A safetensors file whose header is changed so; some of its values are JSON themselves."""
    if len(data) < 9 or data[8:9] != b"{":
        return None
    (length,) = struct.unpack("<Q", data[:8])
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return None
    told = header.get("__metadata__")
    named = [] if not isinstance(told, dict) else [key for key, text in told.items() if isinstance(text, str)]
    if named and draw.random() < 0.7:
        key = draw.choice(named)
        changed = _of_json(told[key].encode(), draw) or of_bytes(told[key].encode(), draw)
        told[key] = changed.decode("utf-8", "replace")
    else:
        header = _changed(header, draw)
    text = _written(header, draw)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _of_gguf(data: bytes, draw: random.Random) -> bytes | None:
    """A GGUF file in which a number or the type of a number is another one."""
    keys = [*KEY.finditer(data[:HEADER])] if data.startswith(b"GGUF") else []
    if not keys:
        return None
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.choice(keys).end() + 4 * (draw.random() < 0.9)
        value = draw.choice((0, 1, 2, 3, 5, 7, 9, 64, 1 << 16, 1 << 31, (1 << 32) - 1, draw.getrandbits(32)))
        changed[at : at + 4] = struct.pack("<I", value)
    return bytes(changed)


def _of_lines(data: bytes, draw: random.Random) -> bytes | None:
    """Lines of text exchanged, doubled, or with one of their words replaced."""
    if b"\x00" in data[:200]:
        return None
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    kind = draw.randrange(4)
    if kind == 0:
        lines[at] = draw.choice(lines)
    elif kind == 1:
        lines[at:at] = [lines[at]] * draw.choice((1, 2, 200))
    elif kind == 2:
        words = lines[at].split(b" ")
        words[draw.randrange(len(words))] = json.dumps(draw.choice(ODD)).encode()
        lines[at] = b" ".join(words)
    else:
        words = data.split(b" ")
        lines[at] = b" ".join(draw.choice(words) for _ in range(4))
    return b"\n".join(lines)


def _written(value: Any, draw: random.Random) -> bytes:
    text = json.dumps(value)
    if draw.random() < 0.03:
        text = text.replace("[]", "[" * 3000 + "]" * 3000, 1).replace("{}", '{"a":' * 3000 + "1" + "}" * 3000, 1)
    return text.encode()


def _changed(value: Any, draw: random.Random) -> Any:
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = [*_places(value)]
        if not places:
            return draw.choice(ODD)
        inside, key = draw.choice(places)
        kind = draw.randrange(8)
        if kind == 0:
            del inside[key]
        elif kind == 1 and isinstance(inside, dict):
            inside[draw.choice(("", LONG, "\ud800", f"{key}_", "kind"))] = inside[key]
        elif kind == 1:
            inside[key:key] = [inside[key]] * draw.choice((1, 3, 300))
        elif kind == 2:
            inside[key] = [inside[key]]
        elif kind == 3:
            other, name = draw.choice(places)
            inside[key] = copy.deepcopy(
                other[name] if (name in other if isinstance(other, dict) else name < len(other)) else 0
            )
        elif kind == 4 and isinstance(inside[key], int | float) and not isinstance(inside[key], bool):
            inside[key] = draw.choice(
                (inside[key] + 1, inside[key] - 1, -inside[key], inside[key] * 2, inside[key] * 1e9)
            )
        else:
            inside[key] = copy.deepcopy(draw.choice(ODD))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a value; of a long list some."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield value, key
            yield from _places(one)
    elif isinstance(value, list):
        for at in range(min(len(value), 30)):
            yield value, at
            yield from _places(value[at])
