"""The tables of a survey's folder: parquet files, which pandas, polars and duckdb read as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.survey.statistics import distance_bins
from ropewalk.model.survey.tally import NOBODY, Tally
from ropewalk.model.survey.texts import SurveyTexts
from ropewalk.model.whole_file import whole_file

HEADS, DISTANCES, EXAMPLES = "heads.parquet", "distances.parquet", "examples.parquet"

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]
TYPES = {"statistic": "string", "value": "float64", "error": "float64"}
"""Of columns; strings of tokens are strings, whatever else is counted in 32 bits."""


def arrow(part: str) -> Any:
    """A part of pyarrow.

    Raises
    ------
    SurveyError
        Where it is not installed.
    """
    try:
        return import_module(f"pyarrow.{part}")
    except ImportError as error:
        raise SurveyError(
            "Parquet files and data sets need pyarrow, which is not installed here; run pip install pyarrow.",
            str(error),
        ) from error


def heads_table(tally: Tally, names: Sequence[str]) -> Columns:
    """A row for each statistic, layer and head: its mean over texts, the standard error, and n."""
    kinds, layers, heads = np.indices(tally.sums.shape).reshape(3, -1)
    return {
        "layer": layers,
        "head": heads,
        "statistic": np.array(names)[kinds],
        "value": tally.mean.ravel(),
        "error": tally.error.ravel(),
        "n": tally.counts[kinds],
    }


def distances_table(tally: Tally) -> Columns:
    """A row for each layer, head and range of distances ``from`` … ``to`` − 1: the share of weight there."""
    bins, layers, heads = np.indices(tally.distances.shape).reshape(3, -1)
    ranges = np.array(distance_bins(1 << (len(tally.distances) - 1)))
    return {
        "layer": layers,
        "head": heads,
        "from": ranges[bins, 0],
        "to": ranges[bins, 1],
        "value": tally.distance_mean.ravel(),
        "error": tally.distance_error.ravel(),
        "n": np.full(len(bins), tally.texts),
    }


def examples_table(tally: Tally, names: Sequence[str], at: int, texts: SurveyTexts) -> Columns:
    """A row for each example of a statistic and a head, the strongest first, with its tokens and those around them."""
    there = tally.places[at, ..., 0] != NOBODY
    layers, heads, ranks = there.nonzero()
    places = tally.places[at][there]
    cells = [(texts[number], query, key) for number, query, key in places.tolist()]
    return {
        "layer": layers,
        "head": heads,
        "statistic": [names[at]] * len(cells),
        "rank": ranks,
        "text": places[:, 0],
        "query": places[:, 1],
        "key": places[:, 2],
        "value": tally.values[at][there],
        "query_token": [text.token(query) for text, query, _ in cells],
        "key_token": [text.token(key) for text, _, key in cells],
        "query_context": [text.context(query) for text, query, _ in cells],
        "key_context": [text.context(key) for text, _, key in cells],
    }


def write_tables(folder: Path, tally: Tally, names: Sequence[str], texts: SurveyTexts) -> None:
    """Write the three tables, each whole."""
    _write(folder / HEADS, [heads_table(tally, names)])
    _write(folder / DISTANCES, [distances_table(tally)])
    _write(folder / EXAMPLES, (examples_table(tally, names, at, texts) for at in range(len(names))))


def _write(path: Path, parts: Iterable[Columns]) -> None:
    """Write a table that comes in parts; NaN is null."""
    library, writer = arrow("lib"), None
    with whole_file(path) as part:
        try:
            for columns in parts:
                table = library.table({name: _column(name, one) for name, one in columns.items()})
                writer = writer or arrow("parquet").ParquetWriter(part, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _column(name: str, values: Sequence[Any] | NDArray[Any]) -> Any:
    kind = TYPES.get(name, "string" if name.endswith(("token", "context")) else "int32")
    return arrow("lib").array(values, kind, from_pandas=True)
