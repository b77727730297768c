"""Readings as tables: rows of named values, and a pandas DataFrame of them where pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ropewalk.model.errors import RopewalkError


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A DataFrame with a row for each of ``rows``.

    Raises
    ------
    RopewalkError
        Where pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise RopewalkError(
            "A frame needs pandas, which is not installed here; run pip install pandas, or read the arrays themselves.",
            str(error),
        ) from error
    return DataFrame(list(rows))
