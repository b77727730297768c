"""Numbers as files: a table of formats, each of which writes a rectangle of one head, or rows of the logit lens."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np

from ropewalk.app.files.provenance import Provenance
from ropewalk.model.readings.records import HeadNumbers, LogitLens, TokenText

GUARDED: Final = ("=", "+", "-", "@", "\t", "\r", "'")
"""What a token begins with that a spreadsheet would run as a formula; and the mark that keeps it from that."""

MARKED: Final = "a token that begins with = + - @ or ' has one ' more in front, so that no spreadsheet runs it"
"""What the file says of itself."""

COLUMNS: Final = ("query", "query_token", "key", "key_token", "score", "weight", "visible")
LENS_COLUMNS: Final = ("next_token", "next_probability", "next_rank", "final_probability", "entropy")
"""What comes after the place of the stream, the position, its token and the most probable tokens."""

Numbers = HeadNumbers | LogitLens
Line = tuple[Any, ...]


@dataclass(frozen=True)
class NumberFormat:
    """One kind of file: its suffix, what a person reads in the list of formats, and what writes it."""

    name: str
    title: str
    write: Callable[[Numbers, Sequence[TokenText], Provenance, IO[bytes]], None]


def as_csv(numbers: Numbers, tokens: Sequence[TokenText], about: Provenance, file: IO[bytes]) -> None:
    """One line for each cell, in UTF-8; lines that begin with ``#`` say where the numbers came from.

    A float is written with as many digits as give the same float back. Tokens are marked as :data:`MARKED` says.
    """
    text = io.StringIO()
    for name, value in (("Title", about.title), *about.lines, ("Tokens", MARKED)):
        text.write(f"# {name}: {harmless_line(' ⏎ '.join(value.splitlines()))}\n")
    lines = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # a token may be a line's end
    rows = _head_rows(numbers, tokens) if isinstance(numbers, HeadNumbers) else _lens_rows(numbers, tokens)
    for row in rows:
        lines.writerows(row)
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()


def _head_rows(numbers: HeadNumbers, tokens: Sequence[TokenText]) -> Iterator[list[Line]]:
    """The names of the columns, then the cells of every query."""
    yield [COLUMNS]
    keys = [(key, harmless(tokens[key].text)) for key in range(*numbers.keys)]
    for row, query in enumerate(range(*numbers.queries)):
        asked = query, harmless(tokens[query].text)
        cells = zip(*(part[row].tolist() for part in (numbers.scores, numbers.weights, numbers.visible)), strict=True)
        yield [(*asked, *key, score, weight, int(seen)) for key, (score, weight, seen) in zip(keys, cells, strict=True)]


def _lens_rows(lens: LogitLens, tokens: Sequence[TokenText]) -> Iterator[list[Line]]:
    """The names of the columns, then what every place of the stream says at a position."""
    best = range(1, lens.top.shape[2] + 1)
    named = (name for one in best for name in (f"top_{one}", f"probability_{one}"))
    yield [("place", "position", "token", *named, *LENS_COLUMNS)]
    shown = {token.id: harmless(token.text) for token in lens.tokens}
    for column, position in enumerate(range(*lens.rows)):
        lines: list[Line] = []
        for place in range(len(lens.top)):
            at = place, column
            pairs = zip(lens.top[at].tolist(), lens.probabilities[at].tolist(), strict=True)
            follows: Line = ("", "", "")
            if lens.rank[at]:
                follows = (harmless(tokens[position + 1].text), float(lens.actual[at]), int(lens.rank[at]))
            said = (one for token, chance in pairs for one in (shown[token], chance))
            name = f"L{place - 1}" if place else "embedding"
            last = float(lens.final[at]), float(lens.entropy[at])
            lines.append((name, position, harmless(tokens[position].text), *said, *follows, *last))
        yield lines


def harmless(text: str) -> str:
    """A token as a cell that no spreadsheet takes for a formula; without its first ``'`` it is the token again."""
    return f"'{text}" if text.startswith(GUARDED) else text


def harmless_line(text: str) -> str:
    """A line about the file, in which whatever may separate cells would begin cells of their own."""
    return re.sub(r"([,;|\t][\"'\s]*)(?=[=+\-@])", r"\1'", text)


def as_npz(numbers: Numbers, tokens: Sequence[TokenText], about: Provenance, file: IO[bytes]) -> None:
    """Arrays by name; ``about`` is the provenance as JSON. Nothing in it needs pickle."""
    if isinstance(numbers, HeadNumbers):
        arrays: dict[str, Any] = {
            "scores": numbers.scores,
            "weights": numbers.weights,
            "visible": numbers.visible,
            "queries": np.arange(*numbers.queries),
            "keys": np.arange(*numbers.keys),
            "layer": np.array(numbers.layer),
            "head": np.array(numbers.head),
        }
    else:
        names = ("top", "probabilities", "entropy", "final", "actual", "rank")
        arrays = {name: getattr(numbers, name) for name in names}
        arrays["positions"] = np.arange(*numbers.rows)
        arrays["top_ids"] = np.array([token.id for token in numbers.tokens])
        arrays["top_tokens"] = np.array([token.text for token in numbers.tokens])
    np.savez_compressed(
        file,
        **arrays,
        tokens=np.array([token.text for token in tokens]),
        ids=np.array([token.id for token in tokens]),
        about=np.array(about.json),
    )


FORMATS: Final = (
    NumberFormat("csv", "CSV table, a line for each cell", as_csv),
    NumberFormat("npz", "NPZ arrays for numpy", as_npz),
)
