"""SentencePiece's vocabularies: scored pieces, chosen as its two kinds of model do; bytes spell what no piece covers.

Unigram (Kudo 2018, arXiv:1804.10959) takes the segmentation whose pieces' log probabilities sum to most. The tokenizers
library finds it, sentencepiece's own but for segmentations of equal sums: sentencepiece adds in single precision, so
that rounding chooses among them. BPE (Sennrich et al. 2016, arXiv:1508.07909) merges the pair whose union scores best,
the leftmost among equals. It is written here: the library ranks all pairs apart, and so would merge one of two pieces
of equal score before the other wherever they stand. Vocabularies grown by hand (Chinese ones on Llama's, say) score all
their new pieces alike, and GGUF files may have no scores.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import models

from ropewalk.model.checkpoints.tokenizers.spm_normalizer import SPACE, Normalizer
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import BYTE_PIECE, Piece, library_errors

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
LOOKS_SPECIAL = re.compile(
    r"<[|｜].*[|｜]>|<[a-z]+(?:_[a-z]+)+>|<unused\d+>|<(?:pad|mask|sep|cls|bos|eos)>|\[[A-Z@_/]+\]"
)
"""Pieces that a vocabulary's maker defined and that stand for no text; others, such as many spaces, are text."""


@dataclass(frozen=True)
class Added:
    """A token beside the vocabulary, from ``tokenizer_config.json`` or ``added_tokens.json``.

    ``lstrip`` and ``rstrip`` say that it takes the white space to its left and to its right.
    """

    name: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False


class SpmCodec:
    """A vocabulary of scored pieces.

    Parameters
    ----------
    pieces, scores, kinds
        By id: the text with ``▁`` for a space, how early or how probably it is used, and what it is (SentencePiece's
        numbers).
    normalizer
        What happens to a text first.
    unigram
        Whether the most probable segmentation is taken instead of merging pairs.
    user_first
        Whether a text is cut at pieces defined by hand before it is normalised, as in llama.cpp, or after, as in
        sentencepiece.
    added
        Tokens beside the vocabulary, by id; a text is cut at them before anything else.
    before, after
        Special ids that a model expects around a text.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        kinds: Sequence[int],
        normalizer: Normalizer,
        *,
        unigram: bool = False,
        user_first: bool = False,
        added: Mapping[int, Added] | None = None,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        self._pieces = list(pieces)
        self._scores = scores
        self._kinds = list(kinds)
        self._normalizer = normalizer
        self._user_first = user_first
        self._added = dict(added or {})
        self._before, self._after = list(before), list(after)
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}
        self._bytes = {
            int(match[1], 16): index
            for piece, index in self._ids.items()
            if kinds[index] == BYTE and (match := BYTE_PIECE.match(piece))
        }
        self._unknown = next((index for index, kind in enumerate(kinds) if kind == UNKNOWN), None)
        user, control = ({p: i for p, i in self._ids.items() if kinds[i] == kind} for kind in (USER, CONTROL))
        self._named = {one.name: token for token, one in self._added.items()}
        first = {**user, **self._named} if user_first else self._named
        self._cut, self._cut_named = _finding(first), _finding({**control, **first})
        self._kept = None if user_first else _finding(user)
        self._mergeable = {piece: i for piece, i in self._ids.items() if kinds[i] in (NORMAL, USER, UNUSED)}
        self._unigram = _unigram(self._ids, scores, kinds) if unigram else None

    @property
    def size(self) -> int:
        """How many ids there are."""
        return max([len(self._pieces), *(token + 1 for token in self._added)])

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text, those of sentencepiece or llama.cpp; a special token counts as a beginning, as in llama.cpp.

        Raises
        ------
        TokenizerError
            For a character that neither pieces nor bytes can spell, in a vocabulary that has no unknown piece.
        """
        ids: list[int] = []
        begins, before = True, None
        for between, name in _parts(text, self._cut_named if names_special else self._cut):
            after = self._added.get(self._named.get(name, -1))
            part = between.lstrip() if before is not None and before.rstrip else between
            part = part.rstrip() if after is not None and after.lstrip else part
            before = after
            ids += self._segmented(self._normalizer(part, self._kept, begins))
            if name:
                token = self._named.get(name, self._ids.get(name, -1))
                ids.append(token)
                begins = self._is_control(token)
        return [*self._before, *ids, *self._after] if add_special else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids, special tokens by name; without the space that was put before it."""
        first = next((place for place, token in enumerate(ids) if not self._is_control(token)), len(ids))
        data = [found.data for token in ids if (found := self.piece(token)) is not None]
        if self._normalizer.prefix and not self._normalizer.suffix and first < len(data):
            data[first] = data[first].removeprefix(b" ")
        return b"".join(data).decode("utf-8", "replace")

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        if token in self._added:
            return Piece(self._added[token].name.encode(), self._added[token].special)
        if not 0 <= token < len(self._pieces):
            return None
        name, kind = self._pieces[token], self._kinds[token]
        if kind == BYTE and (match := BYTE_PIECE.match(name)):
            return Piece(bytes([int(match[1], 16)]))
        if kind in (CONTROL, UNKNOWN):
            return Piece(name.encode(), special=True)
        special = kind == USER and not self._user_first and LOOKS_SPECIAL.fullmatch(name) is not None
        return Piece(name.replace(SPACE, " ").encode(), special)

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        return self._named.get(name, self._ids.get(name))

    def _is_control(self, token: int) -> bool:
        return token < len(self._kinds) and self._kinds[token] == CONTROL

    def _segmented(self, text: str) -> list[int]:
        """The pieces of a normalised text; unknown characters in a row are one unknown token, as in sentencepiece."""
        ids: list[int] = []
        if self._unigram is not None:
            model, order = self._unigram
            with library_errors("The tokenizers library cannot encode with this vocabulary; its file is damaged."):
                found = model.tokenize(text)
            for one in found:
                ids += [order[one.id]] if one.id else self._spelled(one.value)
        else:
            for part, name in _parts(text, self._kept):
                for symbol in merged(part, self._priority):
                    token = self._mergeable.get(symbol)
                    ids += self._spelled(symbol) if token is None else [token]
                ids += [self._ids[name]] if name else []
        if self._bytes or self._unknown is None:
            return ids
        return [token for place, token in enumerate(ids) if token != self._unknown or ids[place - 1 : place] != [token]]

    def _priority(self, piece: str) -> float | None:
        token = self._mergeable.get(piece)
        return None if token is None else -self._scores[token]

    def _spelled(self, text: str) -> list[int]:
        """What no piece covers: its bytes, else the unknown token."""
        spelled = [self._bytes.get(byte, -1) for byte in text.encode()]
        if -1 not in spelled:
            return spelled
        if self._unknown is not None:
            return [self._unknown]
        raise TokenizerError(f"The character {text[0]!r} cannot be spelled with this vocabulary; remove it.")


def _finding(names: Collection[str]) -> re.Pattern[str] | None:
    """What finds any of these names, longer ones before shorter ones; None for none."""
    ordered = sorted(filter(None, names), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _parts(text: str, cut: re.Pattern[str] | None) -> Iterator[tuple[str, str]]:
    """The text in parts, each with the name that ends it; the last one with none."""
    start = 0
    for found in cut.finditer(text) if cut is not None else ():
        yield text[start : found.start()], found[0]
        start = found.end()
    yield text[start:], ""


def _unigram(ids: Mapping[str, int], scores: Sequence[float], kinds: Sequence[int]) -> tuple[models.Unigram, list[int]]:
    """The library's model of the pieces that a text may use, and their ids by the model's; 0 there is the unknown one.

    A piece that was defined by hand gets 0.1 for every byte but one, as in sentencepiece. The library takes an unknown
    character for ten less than the least probable entry, as sentencepiece does for normal ones.
    """
    least = min((score for score, kind in zip(scores, kinds, strict=True) if kind == NORMAL), default=0.0)
    vocabulary, order = [("", least)], [-1]
    for piece, index in ids.items():
        if piece and kinds[index] in (NORMAL, USER):
            by_hand = 0.1 * (len(piece.encode()) - 1)
            vocabulary.append((piece, scores[index] if kinds[index] == NORMAL else by_hand))
            order.append(index)
    with library_errors("The tokenizers library cannot use this vocabulary; its file is damaged."):
        return models.Unigram(vocabulary, 0, False), order


def merged(text: str, priority: Callable[[str], float | None]) -> list[str]:
    """The characters of a text after all merges.

    A heap and links to neighbours stand for a search before every merge, so that a long text takes n·log n.

    Parameters
    ----------
    priority
        Of a symbol that two neighbours would make, smaller first; None where they make none.
    """
    parts: list[str] = [*text]  # empty where a neighbour has taken it
    after = [*range(1, len(parts)), -1]
    before = [-1, *range(len(parts) - 1)]
    queue: list[tuple[float, int, int, str]] = []

    def offer(left: int) -> None:
        right = after[left]
        if left >= 0 and right >= 0:
            joined = parts[left] + parts[right]
            rank = priority(joined)
            if rank is not None:
                heapq.heappush(queue, (rank, left, right, joined))

    for left in range(len(parts) - 1):
        offer(left)
    while queue:
        _, left, right, joined = heapq.heappop(queue)
        if after[left] != right or parts[left] + parts[right] != joined:
            continue
        parts[left], parts[right] = joined, ""
        after[left], after[right] = after[right], -1
        if after[left] >= 0:
            before[after[left]] = left
        offer(left)
        offer(before[left])
    return [part for part in parts if part]
