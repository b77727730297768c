"""Dataclasses come back from JSON as they were, and what is not as it should be is refused by name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropewalk.model.codec import CodecError, from_plain, read_json, stored, to_json, to_plain


@stored("wide", tag="Square")
@dataclass(frozen=True)
class Square:
    side: float


@stored(tag="Circle")
@dataclass(frozen=True)
class Circle:
    radius: float = 1.0
    name: str | None = None


@stored("pieces bytes", closed=False)
@dataclass(frozen=True)
class Loose:
    parts: tuple[Square | Circle, ...] = ()
    layout: bytes = b""


@dataclass(frozen=True)
class Everything:
    count: int
    factor: float | None = None
    words: tuple[str, ...] = ()
    pair: tuple[str, int] = ("a", 1)
    theme: Literal["dark", "light"] = "dark"
    loose: Loose = field(default_factory=Loose)
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    deep: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    name: str
    pixels: NDArray[np.float32]


FULL = Everything(
    -(1 << 63), 0.1, ("", "a\ud800\n中"), ("b", 2), "light",
    Loose((Square(2.0), Circle(1e-320, None), Circle(3.0, "\udcff")), b"\x00\xff"),
    {"/a": {"heads": (1 << 63) - 1}}, ((), (1.0, -0.0)),
)  # fmt: skip


@pytest.mark.parametrize("value", [FULL, Everything(0)])
def test_everything_comes_back(value: Everything) -> None:
    assert from_plain(Everything, read_json(to_json(value))) == value
    assert from_plain(Everything, read_json(to_json(value, indent=1))) == value


@given(st.lists(st.floats()), st.text(alphabet=st.characters()), st.binary(), st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_number_and_any_text_come_back(numbers: list[float], text: str, data: bytes, count: int) -> None:
    value = Everything(count, words=(text,), loose=Loose(layout=data), deep=(tuple(numbers),))
    back = from_plain(Everything, read_json(to_json(value)))
    assert np.array_equal(back.deep[0], numbers, equal_nan=True)
    assert all(math.copysign(1, a) == math.copysign(1, b) for a, b in zip(back.deep[0], numbers, strict=True) if a == a)
    assert (back.count, back.words, back.loose) == (value.count, value.words, value.loose)


def test_numbers_that_are_not_finite_are_texts_that_any_reader_of_json_takes() -> None:
    text = to_json((math.nan, math.inf, -math.inf))
    assert text == '["NaN", "Infinity", "-Infinity"]'
    back = from_plain(tuple[float, ...], read_json(text))
    assert math.isnan(back[0])
    assert back[1:] == (math.inf, -math.inf)
    bare = from_plain(tuple[float, ...], read_json("[NaN, Infinity, -Infinity]"))
    assert to_plain(bare) == to_plain(back)
    assert from_plain(tuple[str, ...], ["NaN"]) == ("NaN",)
    for other in ("nan", "inf", "Infinity ", "1", ""):
        with pytest.raises(CodecError, match=f"^\\[0\\] cannot be '{other}'$"):
            from_plain(tuple[float, ...], [other])


def test_names_outside_are_those_that_were_said_whatever_a_field_is_called() -> None:
    assert to_plain(Loose((Square(2.0), Circle()))) == {
        "pieces": [{"kind": "Square", "wide": 2.0}, {"kind": "Circle", "radius": 1.0, "name": None}],
        "bytes": "",
    }

    @stored("wide", tag="Square")
    @dataclass(frozen=True)
    class Quadrat:
        edge: float

    assert from_plain(Quadrat, to_plain(Square(2.0))) == Quadrat(2.0)
    with pytest.raises(CodecError, match=r"^wide is missing$"):
        from_plain(Square, {"kind": "Square"})
    with pytest.raises(CodecError, match=r"^side is unknown here$"):
        from_plain(Square, {"kind": "Square", "side": 3.0})
    with pytest.raises(TypeError, match="Quadrat has 1 fields, but 2 names"):
        stored("wide high")(Quadrat)


def test_unknown_names_are_left_out_where_a_class_says_so() -> None:
    assert from_plain(Loose, {"of_the_future": 1}) == Loose()


BROKEN: list[tuple[dict[Any, Any], str]] = [
    ({}, "count is missing"),
    ({"count": 1, "colour": 2}, "colour is unknown here"),
    ({"count": 1, "\udcff": 2}, r"'\udcff' is unknown here"),
    ({"count": 1, 3: 2}, "it must be text"),
    ({"count": 1.0}, "count must be a whole number, not a number"),
    ({"count": True}, "count must be a whole number, not true or false"),
    ({"count": "1"}, "count must be a whole number, not text"),
    ({"count": 1 << 63}, "count has more than 64 bits"),
    ({"count": -(1 << 63) - 1}, "count has more than 64 bits"),
    ({"count": 10**400}, "count has more than 64 bits"),
    ({"count": 1, "factor": 10**400}, "factor has more than 64 bits"),
    ({"count": 1, "factor": []}, "factor must be a number or nothing, not a list"),
    ({"count": 1, "factor": True}, "factor must be a number or nothing, not true or false"),
    ({"count": 1, "words": "a"}, "words must be a list, not text"),
    ({"count": 1, "words": ["a", None]}, "words[1] must be text, not nothing"),
    ({"count": 1, "pair": ["a"]}, "pair has 1 values, but 2 are expected"),
    ({"count": 1, "theme": "p" * 99}, "theme cannot be '" + "p" * 39 + "…"),
    ({"count": 1, "answers": {"/a": {"heads": "4"}}}, "answers[...][...] must be a whole number, not text"),
    ({"count": 1, "loose": []}, "loose must be named values, not a list"),
    ({"count": 1, "loose": {"bytes": "*"}}, "loose.bytes is not base64"),
    ({"count": 1, "loose": {"pieces": [{"kind": "Cube"}]}}, "loose.pieces[0].kind cannot be 'Cube'"),
    ({"count": 1, "loose": {"pieces": [{"radius": 1.0}]}}, "loose.pieces[0].kind is missing"),
    ({"count": 1, "loose": {"pieces": [{"kind": ["Circle"]}]}}, "loose.pieces[0].kind must be text, not a list"),
    ({"count": 1, "loose": {"pieces": [{"kind": "Circle", "side": 1}]}}, "loose.pieces[0].side is unknown here"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "says"), BROKEN)
def test_what_is_broken_is_refused_by_name(data: dict[Any, Any], says: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_plain(Everything, data)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[" * 200_000, "it is nested too deeply"),
        ("1e400", "1e400 is too large a number"),
        ("9" * 5000, "digits"),
        (b"\xff\xfe\x00", "codec can't decode"),
    ],
)
def test_what_is_no_json_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        read_json(text)


def test_integers_beyond_64_bits_are_not_written() -> None:
    with pytest.raises(CodecError, match="9223372036854775808 has more than 64 bits"):
        to_json(Everything(1 << 63))


def test_what_msgspec_does_not_know_is_the_callers() -> None:
    kept = np.ones((2, 2), np.float32)

    def back(kind: Any, place: Any) -> Any:
        if place != 0:
            raise ValueError(f"there is no array {place}")
        return kept

    assert from_plain(Picture, {"name": "p", "pixels": 0}, back).pixels is kept
    with pytest.raises(CodecError, match=r"^pixels is not right \(there is no array 7\)$"):
        from_plain(Picture, {"name": "p", "pixels": 7}, back)
    with pytest.raises(CodecError, match=r"^pixels is not right"):
        from_plain(Picture, {"name": "p", "pixels": 0})


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_refusal(data: bytes) -> None:
    try:
        plain = read_json(data)
    except CodecError:
        return
    with pytest.raises(CodecError):
        from_plain(Everything, plain)


def test_json_is_ascii_and_without_bare_words() -> None:
    assert to_json(FULL).isascii()
    json.loads(to_json(FULL), parse_constant=pytest.fail)


def test_a_name_that_utf_8_cannot_say_comes_back() -> None:
    value = Everything(0, answers={"/m/\udcff": {"heads": 1}})
    assert from_plain(Everything, read_json(to_json(value))) == value
