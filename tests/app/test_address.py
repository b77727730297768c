"""What a person may type for a head or a cell."""

from __future__ import annotations

import re

import pytest

from ropewalk.app.address import AddressError, head_name, read_address, read_head


@pytest.mark.parametrize(
    "text",
    ["L2H5", "l2h5", "L2 H5", "2.5", "2/5", " 2 / 5 ", "blocks.2 head 5", "block 2, head 5", "layer 2 head 5"],
)
def test_a_head_is_understood_in_every_spelling(text: str) -> None:
    assert read_address(text) == {"layer": 2, "head": 5}


def test_a_cell() -> None:
    assert read_address("L1H3 q=4 k=2") == {"layer": 1, "head": 3, "query": 4, "key": 2}
    assert read_address("10.11, query=14 key = 2 plane=7") == {
        "layer": 10, "head": 11, "query": 14, "key": 2, "plane": 7,
    }  # fmt: skip
    assert read_address("q=3") == {"query": 3}


@pytest.mark.parametrize("text", ["", "L2", "H5", "2", "L2H5 x=3", "q=-1", "2.5.1", "hello", "q="])
def test_anything_else_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(AddressError, match="names no head and no cell"):
        read_address(text)


@pytest.mark.parametrize("form", ["L{}H1", "L1H{}", "q={}", "{}.1", "blocks.1 head {}", "{}"])
def test_numbers_of_any_length_are_refused_in_a_short_sentence(form: str) -> None:
    with pytest.raises(AddressError, match="names no head and no cell") as caught:
        read_address(form.format("9" * 20_000))
    assert len(caught.value.sentence) < 160


def test_a_head_of_a_model_is_read_or_refused_by_what_the_model_has() -> None:
    assert read_head(" l1h3 ", 4, 8) == (1, 3)
    for text, says in (
        ("L4H0", "There is no L4H0: this model has 4 layers of 8 heads, from L0H0 to L3H7."),
        ("0.8", "There is no L0H8"),
        ("L1H3 q=2", "'L1H3 q=2' names no head; write it like L1H3."),
        ("x", "'x' names no head and no cell"),
    ):
        with pytest.raises(AddressError, match=re.escape(says)):
            read_head(text, 4, 8)


def test_what_is_written_can_be_read() -> None:
    assert read_address(head_name(30, 0)) == {"layer": 30, "head": 0}
