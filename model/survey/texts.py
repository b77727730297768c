"""Texts as tokens, kept so that an example can be read without the corpus, the tokenizer or the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.readings.records import TokenText
from ropewalk.model.survey.array_file import Arrays, Axes
from ropewalk.model.tokens.tokenizer import Piece, describe

AROUND = 15
"""Tokens before and after one that are told with it."""
AXES: Axes = {
    "numbers": ("N",), "ends": ("N",), "ids": ("T",),
    "vocabulary": ("V",), "special": ("V",), "piece_ends": ("V",), "pieces": ("P",),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SurveyText:
    """A text of a survey.

    Attributes
    ----------
    number
        Which of the corpus it is.
    ids
        [T].
    pieces
        What ids stand for; empty for a model without a tokenizer.
    """

    number: int
    ids: NDArray[Any]
    pieces: Mapping[int, Piece]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<SurveyText {self.number}: {self._text(0, AROUND)!r}, {len(self)} tokens>"

    @property
    def tokens(self) -> tuple[TokenText, ...]:
        """Every token as a person reads it."""
        ids = self.ids.tolist()
        if not self.pieces:
            return tuple(TokenText(one, str(one)) for one in ids)
        return describe(ids, [self.pieces.get(one) for one in ids])

    def token(self, at: int) -> str:
        """What one token stands for; half a character is �."""
        return self._text(at, at + 1)

    def context(self, at: int) -> str:
        """A token between « and », and some of the text around it."""
        return f"{self._text(max(at - AROUND, 0), at)}«{self.token(at)}»{self._text(at + 1, at + 1 + AROUND)}"

    def _text(self, start: int, stop: int) -> str:
        ids = self.ids[start:stop].tolist()
        if not self.pieces:
            return " ".join(map(str, ids))
        return b"".join(self.pieces[one].data for one in ids if one in self.pieces).decode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class SurveyTexts:
    """Texts of a corpus, one after another.

    Attributes
    ----------
    numbers, ends
        [N] which of the corpus they are, and where each of them ends in ``ids``.
    ids
        [T].
    vocabulary, special
        [V] the ids that are in them and stand for something, in order, and which of those are special tokens.
    piece_ends, pieces
        [V] where the bytes of each of those end in ``pieces``.
    """

    numbers: NDArray[Any]
    ends: NDArray[Any]
    ids: NDArray[Any]
    vocabulary: NDArray[Any]
    special: NDArray[Any]
    piece_ends: NDArray[Any]
    pieces: NDArray[Any]

    @classmethod
    def of(cls, texts: Iterable[tuple[int, NDArray[Any]]], pieces: Mapping[int, Piece]) -> SurveyTexts:
        """Put texts together, each a number and its ids; ``pieces`` may be of more ids than theirs."""
        numbers, ids = list[int](), list[NDArray[Any]]()
        for number, some in texts:
            numbers.append(number)
            ids.append(np.asarray(some, np.int32))
        joined = np.concatenate(ids) if ids else np.zeros(0, np.int32)
        known = [token for token in np.unique(joined).tolist() if token in pieces]
        data = [pieces[token].data for token in known]
        return cls(
            np.array(numbers, np.int64),
            np.cumsum([len(one) for one in ids], dtype=np.int64),
            joined,
            np.array(known, np.int32),
            np.array([pieces[token].special for token in known], np.uint8),
            np.cumsum([len(one) for one in data], dtype=np.int64),
            np.frombuffer(b"".join(data), np.uint8),
        )

    @classmethod
    def among(cls, wanted: Set[int], parts: Iterable[SurveyTexts]) -> SurveyTexts:
        """Those of a set of numbers, in order, that are in some parts."""
        found, pieces = dict[int, NDArray[Any]](), dict[int, Piece]()
        for part in parts:
            for number in wanted & part.places.keys():
                found[number] = part[number].ids
                pieces |= part.known
        return cls.of(sorted(found.items(), key=lambda one: one[0]), pieces)

    @property
    def arrays(self) -> Arrays:
        """What is written."""
        return {name: getattr(self, name) for name in AXES}

    @cached_property
    def places(self) -> dict[int, int]:
        """Which is where, by its number."""
        return {number: place for place, number in enumerate(self.numbers.tolist())}

    @cached_property
    def known(self) -> dict[int, Piece]:
        """What ids stand for."""
        data, starts = self.pieces.tobytes(), [0, *self.piece_ends.tolist()]
        return {
            token: Piece(data[starts[at] : starts[at + 1]], special)
            for at, (token, special) in enumerate(
                zip(self.vocabulary.tolist(), self.special.astype(bool).tolist(), strict=True)
            )
        }

    def __getitem__(self, number: int) -> SurveyText:
        place = self.places[number]
        start = int(self.ends[place - 1]) if place else 0
        return SurveyText(number, self.ids[start : int(self.ends[place])], self.known)
