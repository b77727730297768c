"""SentencePiece's BPE with scores and byte fallback: the tokenizer of Llama 1 and 2, Mistral and Gemma.

Pieces are merged pair by pair, the best score first; what no piece covers is spelled in bytes. It is read from GGUF
metadata and used as llama.cpp does; ``sentencepiece_file.py`` builds on it. Nothing here knows a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from model.checkpoints.merging import merged
from model.errors import TokenizerError
from model.tokenizer import BYTE_PIECE, Piece

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


class SpmCodec:
    """A vocabulary of scored pieces.

    Parameters
    ----------
    pieces, scores, kinds
        By id: the text with ``▁`` for a space, how early it is merged, and what it is (SentencePiece's numbers).
    space_prefix
        Whether a space is put before the text.
    before, after
        Special ids that a model expects around a text.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        kinds: Sequence[int],
        *,
        space_prefix: bool = True,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        self._pieces = list(pieces)
        self._kinds = list(kinds)
        self._scores = scores
        self._space_prefix = space_prefix
        self._before, self._after = list(before), list(after)
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}
        self._merged = {piece: index for piece, index in self._ids.items() if kinds[index] in (NORMAL, USER, UNUSED)}
        self._bytes = {
            int(match[1], 16): index
            for piece, index in self._ids.items()
            if kinds[index] == BYTE and (match := BYTE_PIECE.match(piece))
        }
        self._user = self._whole(USER)
        self._named = self._whole(USER, CONTROL)
        self._unknown = next((index for index, kind in enumerate(kinds) if kind == UNKNOWN), None)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return len(self._pieces)

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text; a special token counts as a beginning, where the space is put, as in llama.cpp.

        Raises
        ------
        TokenizerError
            For a character that neither pieces nor bytes can spell.
        """
        ids: list[int] = []
        first = True
        for part, whole in self._parts(text, self._named if names_special else self._user):
            if whole is not None:
                ids.append(whole)
            elif part:
                prefix = " " if self._space_prefix and first else ""
                ids += self._spelled((prefix + part).replace(" ", SPACE))
            first = (first and not part) if whole is None else self._kinds[whole] == CONTROL
        return [*self._before, *ids, *self._after] if add_special else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids; the space that :meth:`encode` puts first is taken away again."""
        first = next((place for place, token in enumerate(ids) if self._kinds[token] != CONTROL), len(ids))
        data = [found.data for token in ids if (found := self.piece(token)) is not None]
        if self._space_prefix and first < len(data):
            data[first] = data[first].removeprefix(b" ")
        return b"".join(data).decode("utf-8", "replace")

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        if not 0 <= token < len(self._pieces):
            return None
        name, kind = self._pieces[token], self._kinds[token]
        if kind == BYTE and (match := BYTE_PIECE.match(name)):
            return Piece(bytes([int(match[1], 16)]))
        if kind in (CONTROL, UNKNOWN):
            return Piece(name.encode(), special=True)
        return Piece(name.replace(SPACE, " ").encode())

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        return self._ids.get(name)

    def _whole(self, *kinds: int) -> re.Pattern[str] | None:
        """What finds the pieces of these kinds in a text, longer ones before shorter ones; None for none."""
        pieces = [piece for piece, index in self._ids.items() if self._kinds[index] in kinds and piece]
        pieces.sort(key=len, reverse=True)
        return re.compile("|".join(map(re.escape, pieces))) if pieces else None

    def _parts(self, text: str, whole: re.Pattern[str] | None) -> Iterator[tuple[str, int | None]]:
        """The text cut at pieces that are never merged."""
        start = 0
        for found in whole.finditer(text) if whole is not None else ():
            yield text[start : found.start()], None
            yield found[0], self._ids[found[0]]
            start = found.end()
        yield text[start:], None

    def _spelled(self, text: str) -> list[int]:
        """Merge neighbours, best score first, until no pair is a piece."""

        def priority(piece: str) -> float | None:
            token = self._merged.get(piece)
            return None if token is None else -self._scores[token]

        return [token for symbol in merged(text, priority) for token in self._tokens(symbol)]

    def _tokens(self, symbol: str) -> list[int]:
        token = self._merged.get(symbol)
        if token is not None:
            return [token]
        spelled = [self._bytes.get(byte) for byte in symbol.encode()]
        if None not in spelled:
            return [byte for byte in spelled if byte is not None]
        if self._unknown is not None:
            return [self._unknown]
        raise TokenizerError(f"The character {symbol!r} cannot be spelled with this vocabulary; remove it.")
