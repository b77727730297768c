"""SentencePiece's own files (``tokenizer.model``, ``spiece.model``): BPE or Unigram, with its rules for spaces.

The file is a protocol buffer (sentencepiece_model.proto), read here in plain Python so that a damaged one can only
raise. Unigram (Kudo 2018, arXiv:1804.10959) takes the segmentation whose pieces' log probabilities sum to most. Nothing
here knows a model.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.checkpoints.spm_codec import CONTROL, NORMAL, UNUSED, USER, SpmCodec
from model.checkpoints.spm_normalizer import Normalizer, Replacements
from model.errors import TokenizerError
from model.tokenizer import Piece, Tokenizer

UNIGRAM, BPE = 1, 2
UNKNOWN_PENALTY = 10.0
"""How much less probable an unknown character is than the least probable piece, as in sentencepiece."""
LOOKS_SPECIAL = re.compile(
    r"<[|｜].*[|｜]>|<[a-z]+(?:_[a-z]+)+>|<unused\d+>|<(?:pad|mask|sep|cls|bos|eos)>|\[[A-Z@_/]+\]"
)
"""Pieces that a vocabulary's maker defined and that stand for no text; others, such as many spaces, are text."""
Message = Mapping[int, "int | bytes"]


@dataclass(frozen=True)
class Added:
    """A token beside the vocabulary, from ``tokenizer_config.json`` or ``added_tokens.json``."""

    name: str
    special: bool


class SentencePieceCodec(SpmCodec):
    """A vocabulary with SentencePiece's own rules, so that ids are those of its processor.

    Parameters
    ----------
    normalizer
        What happens to a text first.
    unigram
        Whether the most probable segmentation is taken instead of merging pairs.
    added
        Tokens that a text is cut at before anything else, by id.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        kinds: Sequence[int],
        *,
        normalizer: Normalizer,
        unigram: bool,
        added: Mapping[int, Added],
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        space_prefix = normalizer.prefix and not normalizer.suffix
        super().__init__(pieces, scores, kinds, space_prefix=space_prefix, before=before, after=after)
        self._normalizer = normalizer
        self._unigram = unigram
        self._added = dict(added)
        self._by_name = {one.name: token for token, one in added.items()}
        self._cut_added = _finding(self._by_name)
        self._cut_named = _finding({*self._by_name, *(p for p, i in self._ids.items() if kinds[i] == CONTROL)})
        self._longest = max(map(len, self._merged), default=1)
        known = [score for score, kind in zip(scores, kinds, strict=True) if kind == NORMAL]
        self._best, self._unknown_score = max(known, default=0.0), min(known, default=0.0) - UNKNOWN_PENALTY

    @property
    def size(self) -> int:
        """How many ids there are."""
        return max([super().size, *(token + 1 for token in self._added)])

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text, equal to those of sentencepiece's processor where no added token occurs in it.

        Raises
        ------
        TokenizerError
            For a character that neither pieces nor bytes can spell, in a vocabulary that has no unknown piece.
        """
        ids: list[int] = []
        start, begins = 0, True
        cut = self._cut_named if names_special else self._cut_added
        for found in cut.finditer(text) if cut is not None else ():
            token = self._by_name.get(found[0], self._ids.get(found[0], -1))
            ids += [*self._segmented(text[start : found.start()], begins), token]
            start, begins = found.end(), self._is_control(token)
        ids += self._segmented(text[start:], begins)
        return [*self._before, *ids, *self._after] if add_special else ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids, special tokens by name; without the space that was put before it."""
        data = [found.data for token in ids if (found := self.piece(token)) is not None]
        first = next((place for place, token in enumerate(ids) if not self._is_control(token)), len(ids))
        if self._space_prefix and first < len(data):
            data[first] = data[first].removeprefix(b" ")
        return b"".join(data).decode("utf-8", "replace")

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        if token in self._added:
            return Piece(self._added[token].name.encode(), self._added[token].special)
        found = super().piece(token)
        if found is not None and self._kinds[token] == USER and LOOKS_SPECIAL.fullmatch(self._pieces[token]):
            return Piece(found.data, special=True)
        return found

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        return self._by_name.get(name, super().find(name))

    def _is_control(self, token: int) -> bool:
        return token < len(self._kinds) and self._kinds[token] == CONTROL

    def _segmented(self, text: str, begins: bool) -> list[int]:
        """Normalise and cut a stretch of text; unknown characters in a row are one unknown token."""
        written = self._normalizer(text, self._user, begins)
        if self._unigram:
            ids = self._most_probable(written)
        else:
            ids = []
            for part, whole in self._parts(written, self._user):
                ids += self._spelled(part) if whole is None else [whole]
        if self._bytes or self._unknown is None:
            return ids
        return [token for place, token in enumerate(ids) if token != self._unknown or ids[place - 1 : place] != [token]]

    def _most_probable(self, text: str) -> list[int]:
        """The pieces of the best path from the beginning of a text to its end (Viterbi)."""
        best: list[float | None] = [0.0, *[None] * len(text)]
        came: list[tuple[int, int | None]] = [(0, None)] * (len(text) + 1)

        def offer(start: int, end: int, score: float, token: int | None) -> None:
            held = best[end]
            if held is None or score > held:
                best[end], came[end] = score, (start, token)

        for start in range(len(text)):
            so_far = best[start]
            if so_far is None:
                continue
            single = False
            for end in range(start + 1, min(len(text), start + self._longest) + 1):
                token = self._merged.get(text[start:end])
                if token is None or self._kinds[token] == UNUSED:
                    continue
                offer(start, end, so_far + self._score(token, text[start:end]), token)
                single = single or end == start + 1
            if not single:
                offer(start, start + 1, so_far + self._unknown_score, None)
        ids: list[list[int]] = []
        end = len(text)
        while end > 0:
            start, token = came[end]
            ids.append([token] if token is not None else self._tokens(text[start:end]))
            end = start
        return [token for part in reversed(ids) for token in part]

    def _score(self, token: int, text: str) -> float:
        """The log probability of a piece; one that was defined by hand always wins, as in sentencepiece."""
        return len(text.encode()) * self._best - 0.1 if self._kinds[token] == USER else self._scores[token]


def _finding(names: Mapping[str, int] | set[str]) -> re.Pattern[str] | None:
    """What finds any of these names, longer ones before shorter ones; None for none."""
    ordered = sorted((name for name in names if name), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


# ----------------------------------------------------------------------------------------------------------------------
# The file


def read_model(path: Path) -> Tokenizer:
    """Read a SentencePiece model, and what ``tokenizer_config.json`` and ``added_tokens.json`` beside it add.

    Raises
    ------
    TokenizerError
        When it is not one, or of a kind that cuts at words or characters.
    """
    try:
        return _model(path.read_bytes(), path)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise TokenizerError(f"{path.name} is not a SentencePiece model; download it again.", str(error)) from error


def _model(data: bytes, path: Path) -> Tokenizer:
    pieces: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: Message = {}
    normalizer: Message = {}
    for field, value in _wire(data):
        if field == 1 and isinstance(value, bytes):
            entry = dict(_wire(value))
            pieces.append(_bytes(entry.get(1, b"")).decode("utf-8"))
            scores.append(struct.unpack("<f", _bytes(entry.get(2, b"\0\0\0\0")))[0])
            kind = entry.get(3, NORMAL)
            kinds.append(kind if isinstance(kind, int) else NORMAL)
        elif field == 2 and isinstance(value, bytes):
            trainer = dict(_wire(value))
        elif field == 3 and isinstance(value, bytes):
            normalizer = dict(_wire(value))
    if not pieces:
        raise ValueError("no pieces")
    kind = trainer.get(3, UNIGRAM)
    if kind not in (UNIGRAM, BPE):
        raise TokenizerError(
            f"{path.name} is a SentencePiece model that cuts at words or characters, not BPE or Unigram; use its "
            "tokenizer.json, or type ids."
        )
    around = _config_beside(path)
    bos = _control(around.get("bos_token"), trainer.get(46, b"<s>"), pieces, kinds)
    eos = _control(around.get("eos_token"), trainer.get(47, b"</s>"), pieces, kinds)
    codec = SentencePieceCodec(
        pieces,
        scores,
        kinds,
        normalizer=_normalizer(normalizer, trainer),
        unigram=kind == UNIGRAM,
        added=_added(path, around, pieces),
        before=[bos] if bos is not None and around.get("add_bos_token", True) is not False else [],
        after=[eos] if eos is not None and around.get("add_eos_token", False) is True else [],
    )
    return Tokenizer(codec, bos, eos)


def _normalizer(fields: Message, trainer: Message) -> Normalizer:
    table = _bytes(fields.get(2, b""))
    return Normalizer(
        replacements=Replacements(table) if table else None,
        prefix=fields.get(3, 1) == 1,
        collapse=fields.get(4, 1) == 1,
        escape=fields.get(5, 1) == 1,
        suffix=trainer.get(24, 0) == 1,
    )


def _config_beside(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _control(named: object, default: int | bytes, pieces: Sequence[str], kinds: Sequence[int]) -> int | None:
    """The id of the token that the config names, else of the one that the model's trainer did; None for none."""
    if isinstance(named, dict):
        named = named.get("content")
    wanted = named if isinstance(named, str) else _bytes(default).decode("utf-8")
    return next((i for i, piece in enumerate(pieces) if piece == wanted and kinds[i] in (CONTROL, USER)), None)


def _added(path: Path, config: Mapping[str, Any], pieces: Sequence[str]) -> dict[int, Added]:
    """Tokens that come after the vocabulary."""
    found: dict[int, Added] = {}
    try:
        listed = json.loads(path.with_name("added_tokens.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        listed = {}
    for name, token in listed.items() if isinstance(listed, dict) else ():
        if isinstance(token, int) and token >= len(pieces) and isinstance(name, str) and name:
            found[token] = Added(name, special=LOOKS_SPECIAL.fullmatch(name) is not None)
    described = config.get("added_tokens_decoder")
    for key, value in described.items() if isinstance(described, dict) else ():
        name = value.get("content") if isinstance(value, dict) else None
        if key.isdecimal() and len(key) < 10 and int(key) >= len(pieces) and isinstance(name, str) and name:
            found[int(key)] = Added(name, special=value.get("special") is True)
    return found


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes were expected")
    return value


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer message: numbers, or bytes for everything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value: int | bytes
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind] if kind in (1, 5) else -1, at)
            if size < 0 or at + size > len(data):
                raise ValueError("a field goes past the end")
            value = data[at : at + size]
            at += size
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
