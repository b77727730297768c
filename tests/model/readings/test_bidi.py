"""What runs from right to left is isolated inside a sentence, and nothing else is touched."""

from __future__ import annotations

import pytest

from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import TokenText


@pytest.mark.parametrize("text", ["", "cat", "·été", "<s>", "中文", "👍🏽", "◌́", "ไทย", "→", "123"])
def test_left_to_right_is_as_it_was(text: str) -> None:
    assert isolated(text) == text


@pytest.mark.parametrize("text", ["שלום", "م", "·ab ש", "٣"])
def test_right_to_left_is_isolated(text: str) -> None:
    assert isolated(text) == f"\u2068{text}\u2069"
    token = TokenText(1, text)
    assert token.text == text
    assert token.inline == isolated(text)
