"""What is shown of a survey as tables: the heads, and of one head its distances, its mean map and its examples."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ropewalk.app.files.numbers_file import MARKED, harmless, harmless_line

if TYPE_CHECKING:
    from ropewalk.app.files.provenance import Provenance
    from ropewalk.app.session.surveys import Surveys

Rows = Iterator[tuple[Any, ...]]


@dataclass(frozen=True)
class SurveyTable:
    """One table: its name, what a person reads, the names of its columns, and what makes its rows."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Callable[[Surveys], Rows]


def _of_statistics(surveys: Surveys, names: Iterable[str]) -> Rows:
    for name in names:
        statistic, adjusted = surveys.titled(name), surveys.adjusted(name)
        means, errors = surveys.means(name), surveys.errors(name)
        for layer, head in np.ndindex(*means.shape):
            p = math.nan if adjusted is None else float(adjusted[layer, head])
            numbers = (float(means[layer, head]), float(errors[layer, head]), statistic.count, p)
            yield layer, head, name, *numbers


def _chosen(surveys: Surveys) -> Rows:
    return _of_statistics(surveys, (surveys.statistic,))


def _every(surveys: Surveys) -> Rows:
    return _of_statistics(surveys, [one.name for one in surveys.statistics])


def _distances(surveys: Surveys) -> Rows:
    if (read := surveys.read) is not None:
        for (start, end), share, error in zip(read.ranges.tolist(), read.share, read.error, strict=True):
            yield read.layer, read.head, start, end, float(share), float(error)


def _map(surveys: Surveys) -> Rows:
    if (read := surveys.read) is not None:
        parts = len(read.grid)
        for query, key in np.ndindex(*read.grid.shape):
            if key <= query:
                yield read.layer, read.head, query / parts, key / parts, float(read.grid[query, key])


def _examples(surveys: Surveys) -> Rows:
    if (read := surveys.read) is not None:
        for one in read.examples:
            cell = (harmless(one.tokens[at].text) for at in (one.query, one.key))
            text = harmless("".join(token.text for token in one.tokens))
            yield read.layer, read.head, read.statistic, one.value, one.text, one.query, one.key, *cell, text


_STATISTIC: Final = ("layer", "head", "statistic", "value", "error", "n", "p_adjusted")
_EXAMPLE: Final = ("value", "text", "query", "key", "query_token", "key_token", "tokens")
TABLES: Final = (
    SurveyTable("statistic", "the chosen statistic of every head", _STATISTIC, _chosen),
    SurveyTable("heads", "every statistic of every head", _STATISTIC, _every),
    SurveyTable(
        "distances", "the chosen head by distance", ("layer", "head", "from", "to", "value", "error"), _distances
    ),
    SurveyTable("map", "the chosen head by place", ("layer", "head", "query_from", "key_from", "value"), _map),
    SurveyTable("examples", "the chosen head's examples", ("layer", "head", "statistic", *_EXAMPLE), _examples),
)


def as_csv(table: SurveyTable, surveys: Surveys, about: Provenance) -> bytes:
    """The table in UTF-8, below lines that begin with ``#`` and say where it comes from; NaN is an empty cell."""
    text = io.StringIO()
    for name, value in (("Title", about.title), *about.lines, ("Tokens", MARKED)):
        text.write(f"# {name}: {harmless_line(' ⏎ '.join(value.splitlines()))}\n")
    lines = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    lines.writerow(table.columns)
    lines.writerows(map(_plain, table.rows(surveys)))
    return text.getvalue().encode("utf-8", "replace")


def _plain(row: Sequence[Any]) -> list[Any]:
    return [None if isinstance(one, float) and math.isnan(one) else one for one in row]
