"""The tables of a survey's folder: parquet files, which pandas, polars and duckdb read as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.survey.statistics import distance_bins
from ropewalk.model.survey.tally import NOBODY, Tally
from ropewalk.model.whole_file import whole_file

HEADS, DISTANCES, EXAMPLES = "heads.parquet", "distances.parquet", "examples.parquet"

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


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


def examples_table(tally: Tally, names: Sequence[str]) -> Columns:
    """A row for each example of a head and statistic, the strongest first."""
    there = tally.places[..., 0] != NOBODY
    kinds, layers, heads, ranks = there.nonzero()
    places = tally.places[there]
    return {
        "layer": layers,
        "head": heads,
        "statistic": np.array(names)[kinds],
        "rank": ranks,
        "text": places[:, 0],
        "query": places[:, 1],
        "key": places[:, 2],
        "value": tally.values[there],
    }


def write_tables(folder: Path, tally: Tally, names: Sequence[str]) -> None:
    """Write the three tables, each whole."""
    table, write = arrow("lib").Table.from_pydict, arrow("parquet").write_table
    for name, columns in (
        (HEADS, heads_table(tally, names)),
        (DISTANCES, distances_table(tally)),
        (EXAMPLES, examples_table(tally, names)),
    ):
        with whole_file(folder / name) as part:
            write(table(dict(columns)), part)
