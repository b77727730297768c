"""The token texts of a run in columns are a sequence like any other."""

from __future__ import annotations

import pytest

from ropewalk.model.readings.records import TokenText, TokenTexts, token_strings

TOKENS: tuple[TokenText, ...] = (
    TokenText(3, "a·"),
    TokenText(4, "<E4>", "bytes", 0, "中"),
    TokenText(5, "<B8>", "bytes", 0),
    TokenText(6, "<s>", "special"),
    TokenText(7, "👍\ud800"),
)
TEXTS = TokenTexts.of(TOKENS)


def test_columns_are_the_tokens() -> None:
    assert TokenTexts.of(TEXTS) is TEXTS
    assert len(TEXTS) == 5
    assert tuple(TEXTS) == TOKENS
    assert [TEXTS[at] for at in range(-5, 5)] == [*TOKENS, *TOKENS]
    assert TEXTS[1:4][-1] in TEXTS
    assert TEXTS.groups == [-1, 0, 0, -1, -1]
    for outside in (5, -6):
        with pytest.raises(IndexError):
            TEXTS[outside]


@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(3, 1), slice(-2, 99), slice(None, None, -2)], ids=str)
def test_a_slice_is_columns_as_well(part: slice) -> None:
    again = TEXTS[part]
    again.check()
    assert type(again) is TokenTexts
    assert tuple(again) == TOKENS[part]
    assert again == TOKENS[part]
    assert token_strings(again) == token_strings(TOKENS[part]) == [token.text for token in TOKENS[part]]
    assert again[1:][:1] == TOKENS[part][1:][:1]


def test_columns_are_equal_to_whatever_holds_the_same_tokens() -> None:
    assert TEXTS[1:3] == TokenTexts.of(TOKENS[1:3])
    assert TOKENS == TEXTS
    assert TOKENS[:4] != TEXTS
    assert [*TOKENS] != TEXTS
    others = (TokenText(9, "a·"), TokenText(3, "b·"), TokenText(3, "a", character="·"), TokenText(3, "a·", "special"))
    for other in others:
        assert TEXTS[:1] != TokenTexts.of([other])
        assert TEXTS[:1] != (other,)
    assert repr(TEXTS[:1]) == f"TokenTexts([{TOKENS[0]!r}])"


@pytest.mark.parametrize("cut", range(6))
def test_columns_are_put_together(cut: int) -> None:
    for whole in (TEXTS[:cut] + TEXTS[cut:], TEXTS[:cut] + TOKENS[cut:], TOKENS[:cut] + TEXTS[cut:]):
        whole.check()
        assert type(whole) is TokenTexts
        assert whole == TEXTS
        assert whole[1:] + whole[:1] == TOKENS[1:] + TOKENS[:1]
