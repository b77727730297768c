"""Texts to run: from files of several kinds, standard input or memory; one after another, never all at once."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ropewalk.model.errors import SurveyError, TokenizerError
from ropewalk.model.limits import regular
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.survey.ranks import Ranks
from ropewalk.model.survey.statistics import Kinds, Numbers, Text
from ropewalk.model.survey.tables import arrow
from ropewalk.model.tokens.tokenizer import Piece, Tokenizer

STDIN = "-"
MEMORY = "memory"
"""Said of texts that were in no file."""
SHARD = 256
"""Texts that are committed together."""
BATCH_TOKENS = 8192
"""Tokens that run together where nobody says how many texts."""
START = 64
"""Characters for each token that is wanted, from which on a text is read from its start alone."""

PairsOf: TypeAlias = str | Callable[[list[str], Mapping[str, Any]], Iterable[tuple[int, int]]]
"""A column of cells, or a function of a text's tokens and its record that gives them."""
Texts: TypeAlias = str | Path | Iterable[Any]
"""A file or several (paths, ``-`` for standard input); or texts, ids or records themselves."""


@dataclass(frozen=True)
class Record:
    """What stands for one text: the text itself or its ids, and the other columns."""

    text: str | Sequence[int]
    row: Mapping[str, Any] = field(default_factory=dict)


class Corpus:
    """Texts in an order that never changes.

    Parameters
    ----------
    column
        Which column of a file holds the text.
    windows
        Whether a ``.txt`` is one text that is cut into windows, not one on each line.
    limit, seed
        How many texts are drawn, without repeats, and with which seed; all when no limit is given.
    tokens
        Tokens of a text that are run; the rest is left out, or is the next window.
    ranks
        The processes that share it: the first of them reads standard input and counts, for all.
    """

    def __init__(
        self,
        texts: Texts,
        tokenizer: Tokenizer | None,
        *,
        column: str = "text",
        windows: bool = False,
        limit: int | None = None,
        seed: int = 0,
        tokens: int = 512,
        pairs: PairsOf | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.tokenizer, self.column, self.windows, self.tokens, self.pairs = tokenizer, column, windows, tokens, pairs
        self.pieces: dict[int, Piece] = {}  # what the ids of the texts that were read stand for
        self._kinds = Kinds(tokenizer)
        self._sources: list[Any] = [Path(texts)] if isinstance(texts, str | Path) else _listed(texts)
        self.sources = list(dict.fromkeys(map(_said, self._sources)))
        ranks = ranks or Ranks()
        if any(isinstance(one, Path) and str(one) == STDIN for one in self._sources):
            lines = ranks.from_first(_lines_of_stdin)
            self._sources = [line for one in self._sources for line in (lines if str(one) == STDIN else [one])]
        self.found, self.fingerprint = ranks.from_first(self._counted)
        if limit is None or limit >= self.found:
            self.chosen = np.arange(self.found)
        else:
            self.chosen = np.sort(np.random.default_rng(seed).choice(self.found, limit, replace=False))

    def _counted(self) -> tuple[int, str]:
        """How many texts there are, and a hash over them."""
        digest, count = hashlib.sha256(), 0
        for record in self._records():
            digest.update(_bytes_of(record))
            count += 1
        if not count:
            raise SurveyError("There is no text to survey; give a file that holds some.")
        return count, digest.hexdigest()

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def shards(self) -> int:
        """How many there are."""
        return -(-len(self) // SHARD)

    def read(self, wanted: Iterable[int]) -> Iterator[tuple[int, list[Text]]]:
        """Each of some shards and its texts as tokens, in one pass over the corpus; what has no tokens is left out."""
        left = set(wanted)
        if not left:
            return
        place, texts = 0, list[Text]()
        for number, record in enumerate(self._records()):
            if place == len(self.chosen):
                break
            if number != self.chosen[place]:
                continue
            shard, place = place // SHARD, place + 1
            if shard in left and len(ids := self._ids(record.text, f"Text {number + 1}", self.tokens)):
                self._learn(ids)
                texts.append(Text(number, ids, self._kinds.of(ids), self._pairs(number, ids, record.row)))
            if place % SHARD == 0 or place == len(self.chosen):
                if shard in left:
                    yield shard, texts
                texts = []

    def _ids(self, text: str | Sequence[int], where: str, most: int | None = None) -> Numbers:
        """The tokens of a text, or its first."""
        if isinstance(text, str):
            if self.tokenizer is None:
                raise SurveyError("This model has no tokenizer, so texts cannot be run on it; give ids.")
            try:
                text = self.tokenizer.encode(text) if most is None else first_ids(self.tokenizer, text, most)
            except TokenizerError as error:
                raise SurveyError(f"{where} cannot be read as tokens: {error}") from error
        try:
            return np.asarray(text[:most], np.int64)
        except OverflowError as error:
            raise SurveyError(f"{where} holds a number that is no token's.", str(error)) from error

    def _learn(self, ids: Numbers) -> None:
        if self.tokenizer is not None:
            for token in set(ids.tolist()) - self.pieces.keys():
                piece = self.tokenizer.codec.piece(token)
                if piece is not None:
                    self.pieces[token] = piece

    def _pairs(self, number: int, ids: Numbers, row: Mapping[str, Any]) -> Numbers:
        if self.pairs is None:
            return np.zeros((0, 2), np.int64)
        if isinstance(self.pairs, str):
            if self.pairs not in row:
                raise SurveyError(f"Text {number + 1} has no column {self.pairs!r} of pairs; it has {_named(row)}.")
            given: Any = row[self.pairs]
        else:
            given = self.pairs(self._strings(ids), row)
        given = given.tolist() if hasattr(given, "tolist") else () if given is None else given  # of numpy or torch
        if not isinstance(given, Iterable):
            raise SurveyError(f"Text {number + 1} was given {given!r:.40}, but pairs are a list of (query, key).")
        found = list[tuple[int, int]]()
        for cell in given:
            query, key = (whole(one) for one in cell) if isinstance(cell, Sequence) and len(cell) == 2 else (None, None)
            if query is None or key is None or not key >= 0 or not query >= 0:
                raise SurveyError(f"Text {number + 1} was given the pair {cell!r:.40}, but a pair is (query, key).")
            if max(query, key) < len(ids):  # what lies in the part that is left out
                found.append((query, key))
        return np.array(sorted(set(found)), np.int64).reshape(-1, 2)

    def _strings(self, ids: Numbers) -> list[str]:
        """Each token as it stands in the text, its space included; an id without a tokenizer as its number."""
        if self.tokenizer is None:
            return [str(one) for one in ids.tolist()]
        pieces = [self.tokenizer.codec.piece(one) for one in ids.tolist()]
        return ["" if one is None else one.data.decode("utf-8", "replace") for one in pieces]

    # ------------------------------------------------------------------------------------------------------------------
    # Sources

    def _records(self) -> Iterator[Record]:
        for one in self._sources:
            if isinstance(one, Path):
                yield from self._of_file(one)
            elif isinstance(one, Mapping):
                yield self._of_row(one, "A record")
            else:
                yield Record(_checked(one, "A text"))

    def _of_row(self, row: Mapping[str, Any], where: str) -> Record:
        if self.column not in row:
            raise SurveyError(f"{where} has no column {self.column!r}; it has {_named(row)}; name one with column.")
        return Record(_checked(row[self.column], where), row)

    def _of_file(self, path: Path) -> Iterator[Record]:
        try:
            if regular(path).is_dir() or path.suffix == ".parquet":
                rows = _rows_of_folder(path) if path.is_dir() else _rows_of_parquet(path)
                yield from (self._of_row(row, str(path)) for row in rows)
            elif path.suffix == ".jsonl":
                yield from self._of_lines(path)
            elif self.windows:
                ids = self._ids(path.read_text(encoding="utf-8-sig"), str(path))
                starts = range(0, len(ids), self.tokens)
                yield from (Record(ids[start : start + self.tokens].tolist()) for start in starts)
            else:
                with path.open(encoding="utf-8-sig") as lines:
                    yield from (Record(line.rstrip("\r\n")) for line in lines if line.strip())
        except OSError as error:
            raise SurveyError(f"{path} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise SurveyError(f"{path} is not text in UTF-8; save it as that.", str(error)) from error

    def _of_lines(self, path: Path) -> Iterator[Record]:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise SurveyError(f"Line {number} of {path} is not JSON.", str(error)) from error
                if not isinstance(row, Mapping):
                    raise SurveyError(f"Line {number} of {path} is no JSON object with columns.")
                yield self._of_row(row, f"Line {number} of {path}")


def batches_of(texts: Sequence[Text], size: int | None, *, of_one_length: bool = False) -> list[list[Text]]:
    """Texts of like length together; the same for the same texts, whoever runs them.

    Parameters
    ----------
    size
        How many; None for as many as have so many tokens as :data:`BATCH_TOKENS`, padding included.
    of_one_length
        Whether those of a batch have one length, as rotary rules need that look at the longest of those that run.
    """
    found = list[list[Text]]()
    for text in sorted(texts, key=lambda one: (len(one), one.number)):
        most = size or max(BATCH_TOKENS // len(text), 1)
        if not found or len(found[-1]) >= most or (of_one_length and len(found[-1][0]) != len(text)):
            found.append([])
        found[-1].append(text)
    return found


def _checked(text: Any, where: str) -> str | list[int]:
    """What stands for a text: itself, or its ids."""
    if isinstance(text, str):
        return text
    ids = [whole(one) for one in text] if isinstance(text, Iterable) and not isinstance(text, bytes) else [None]
    if None in ids:
        raise SurveyError(f"{where} holds {text!r:.40}, which is neither text nor token ids.")
    return [one for one in ids if one is not None]


def first_ids(tokenizer: Tokenizer, text: str, most: int) -> list[int]:
    """The first tokens of a text; of one that is far longer, from a start of it of which twice as much begins alike."""
    size, known = START * most, list[int]()
    while size < len(text):
        found = tokenizer.encode(text[:size])[:most]
        if len(found) == most and found == known:
            return found
        size, known = 2 * size, found
    return tokenizer.encode(text)[:most]


def _listed(texts: Any) -> list[Any]:
    if isinstance(texts, Mapping) or type(texts).__name__ == "DataFrame":  # going through either gives names of columns
        raise SurveyError("Texts come in a list; of one record give [record], of a data frame the list of its records.")
    if not isinstance(texts, Iterable):
        raise SurveyError(f"Texts come in a list, or as the path of a file, but {texts!r:.40} was given.")
    return list(texts)


def _lines_of_stdin() -> list[str]:
    try:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
        return [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
    except (TypeError, UnicodeDecodeError) as error:  # None, where it was closed
        raise SurveyError("Standard input is closed, or is not text in UTF-8.", str(error)) from error


def _rows_of_parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with arrow("parquet").ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=SHARD):
                yield from batch.to_pylist()
    except ValueError as error:  # what pyarrow raises for what is no such file
        raise SurveyError(f"{path} is not a parquet file.", str(error)) from error


def _rows_of_folder(path: Path) -> Iterator[Mapping[str, Any]]:
    """Rows of a folder that datasets saved, or of parquet files."""
    parts = sorted(path.glob("*.arrow")) or sorted(path.glob("*.parquet"))
    if not parts:
        inside = sorted({str(part.parent) for ending in ("arrow", "parquet") for part in path.glob(f"*/*.{ending}")})
        more = f"; {' and '.join(inside[:3])} do{'' if inside[1:] else 'es'}: give one of them" if inside else ""
        raise SurveyError(f"{path} itself holds neither .arrow nor .parquet files of a data set{more}.")
    for part in parts:
        yield from _rows_of_parquet(regular(part)) if part.suffix == ".parquet" else _rows_of_arrow(regular(part))


def _rows_of_arrow(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with path.open("rb") as file, arrow("ipc").open_stream(file) as stream:
            for batch in stream:
                yield from batch.to_pylist()
    except ValueError as error:
        raise SurveyError(f"{path} is not a file of a data set that was saved.", str(error)) from error


def _bytes_of(record: Record) -> bytes:
    row = {str(name): one for name, one in record.row.items() if not isinstance(one, bytes)}
    return json.dumps([record.text, row], sort_keys=True, default=repr).encode("utf-8", "surrogatepass") + b"\n"


def _said(source: Any) -> str:
    """Where a text comes from."""
    if not isinstance(source, Path):
        return MEMORY
    return "standard input" if str(source) == STDIN else str(source)


def _named(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, row)) or "none"
