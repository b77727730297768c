"""Numbers as files: a table of formats, each of which writes a rectangle of one head."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

import numpy as np

from ropewalk.app.files.provenance import Provenance
from ropewalk.model.readings.records import HeadNumbers, TokenText

GUARDED: Final = ("=", "+", "-", "@", "\t", "\r", "'")
"""What a token begins with that a spreadsheet would run as a formula; and the mark that keeps it from that."""

MARKED: Final = "a token that begins with = + - @ or ' has one ' more in front, so that no spreadsheet runs it"
"""What the file says of itself."""

COLUMNS: Final = ("query", "query_token", "key", "key_token", "score", "weight", "visible")


@dataclass(frozen=True)
class NumberFormat:
    """One kind of file: its suffix, what a person reads in the list of formats, and what writes it."""

    name: str
    title: str
    write: Callable[[HeadNumbers, Sequence[TokenText], Provenance, IO[bytes]], None]


def as_csv(numbers: HeadNumbers, tokens: Sequence[TokenText], about: Provenance, file: IO[bytes]) -> None:
    """One line for each cell, in UTF-8; lines that begin with ``#`` say where the numbers came from.

    A float is written with as many digits as give the same float back. Tokens are marked as :data:`MARKED` says.
    """
    text = io.StringIO()
    for name, value in (("Title", about.title), *about.lines, ("Tokens", MARKED)):
        text.write(f"# {name}: {harmless_line(' ⏎ '.join(value.splitlines()))}\n")
    lines = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # a token may be a line's end
    lines.writerow(COLUMNS)
    for row, query in enumerate(range(*numbers.queries)):
        for column, key in enumerate(range(*numbers.keys)):
            score, weight = float(numbers.scores[row, column]), float(numbers.weights[row, column])
            seen = int(numbers.visible[row, column])
            texts = harmless(tokens[query].text), harmless(tokens[key].text)
            lines.writerow((query, texts[0], key, texts[1], score, weight, seen))
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()


def harmless(text: str) -> str:
    """A token as a cell that no spreadsheet takes for a formula; without its first ``'`` it is the token again."""
    return f"'{text}" if text.startswith(GUARDED) else text


def harmless_line(text: str) -> str:
    """A line about the file, in which whatever may separate cells would begin cells of their own."""
    return re.sub(r"([,;|\t][\"'\s]*)(?=[=+\-@])", r"\1'", text)


def as_npz(numbers: HeadNumbers, tokens: Sequence[TokenText], about: Provenance, file: IO[bytes]) -> None:
    """Arrays by name; ``about`` is the provenance as JSON. Nothing in it needs pickle."""
    np.savez_compressed(
        file,
        scores=numbers.scores,
        weights=numbers.weights,
        visible=numbers.visible,
        queries=np.arange(*numbers.queries),
        keys=np.arange(*numbers.keys),
        tokens=np.array([token.text for token in tokens]),
        ids=np.array([token.id for token in tokens]),
        layer=np.array(numbers.layer),
        head=np.array(numbers.head),
        about=np.array(about.json),
    )


FORMATS: Final = (
    NumberFormat("csv", "CSV table, a line for each cell", as_csv),
    NumberFormat("npz", "NPZ arrays for numpy", as_npz),
)
