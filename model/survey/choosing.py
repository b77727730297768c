"""Which statistics a survey measures: those of the table by name, and a person's own."""

from __future__ import annotations

import hashlib
import inspect
import marshal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ropewalk.model.errors import SurveyError
from ropewalk.model.survey.statistics import SURVEYED, SurveyStatistic

ALL = "all"


def chosen_statistics(
    asked: Iterable[str | SurveyStatistic] | None, name: str, *, has_outputs: bool, with_pairs: bool
) -> list[SurveyStatistic]:
    """The statistics that are wanted and can be had.

    Parameters
    ----------
    asked
        Names of the table, ``all`` for those that can be had in one pass, and statistics of one's own.
    name
        What the model is called.
    has_outputs, with_pairs
        Whether the model says what heads add to the residual stream; whether cells are given.

    Raises
    ------
    SurveyError
        For a name that is not there, a statistic that cannot be had, and one of one's own that is none.
    """
    able = [
        one
        for one in SURVEYED.values()
        if one.one_pass and (has_outputs or not one.of_outputs) and (with_pairs or one.name != "pairs")
    ]
    wanted = dict[str, SurveyStatistic]()
    for one in (ALL,) if asked is None else (asked,) if isinstance(asked, str | SurveyStatistic) else asked:
        if one == ALL:
            wanted |= {known.name: known for known in able}
            continue
        found = _known(one) if isinstance(one, str) else _own(one, wanted)
        if found.of_outputs and not has_outputs:
            raise SurveyError(
                f"The statistic {found.name!r} reads what heads add to the residual stream, which {name} does not say; "
                "leave it out."
            )
        if found.name == "pairs" and not with_pairs:
            raise SurveyError("The statistic 'pairs' needs cells; give a function or a column of them as pairs.")
        wanted[found.name] = found
    if not wanted:
        raise SurveyError(f"No statistic was named; there are {', '.join(SURVEYED)}.")
    return list(wanted.values())


def _known(name: str) -> SurveyStatistic:
    if name not in SURVEYED:
        raise SurveyError(f"There is no statistic {name!r:.40} of a survey; there are {', '.join(SURVEYED)}.")
    return SURVEYED[name]


def _own(one: Any, others: dict[str, SurveyStatistic]) -> SurveyStatistic:
    """A statistic that somebody made, checked."""
    if not isinstance(one, SurveyStatistic):
        raise SurveyError(f"A statistic is a name or a SurveyStatistic, but {one!r:.40} was given.")
    if SURVEYED.get(one.name) is one:
        return one
    if not all(isinstance(said, str) and said.strip() for said in (one.name, one.title, one.formula)):
        raise SurveyError("A statistic of one's own needs a name, a title and a formula, all of them text.")
    if one.name in (ALL, *SURVEYED) or one.name in others:
        raise SurveyError(f"There is a statistic {one.name!r:.40} already; give your own another name.")
    if not any(map(callable, (one.among, one.of_block))):
        raise SurveyError(
            f"The statistic {one.name!r:.40} says neither which keys it is the weight on (among) nor what reads a "
            "block of weights (of_block); give it one of the two functions."
        )
    return one


def code_settings(statistics: Sequence[SurveyStatistic], pairs: Any) -> dict[str, Any]:
    """What a survey's manifest says of somebody's own code, so that one with other code is not gone on with."""
    own = {
        one.name: {
            "title": one.title,
            "formula": one.formula,
            "one_pass": one.one_pass,
            "code": one.source or code_hash(one.among, one.of_block),
        }
        for one in statistics
        if SURVEYED.get(one.name) is not one
    }
    return {
        "pairs": getattr(pairs, "__qualname__", pairs),
        "pairs_code": (getattr(pairs, "source", "") or code_hash(pairs)) if callable(pairs) else None,
        "own_statistics": own,
    }


def code_hash(*functions: Callable[..., Any] | None) -> str:
    """Hash over the source of functions; of their compiled code where nobody has the source."""
    digest = hashlib.sha256()
    for function in functions:
        digest.update(_code_of(function))
    return digest.hexdigest()


def _code_of(function: Callable[..., Any] | None) -> bytes:
    try:
        return b"" if function is None else inspect.getsource(function).encode()
    except (OSError, TypeError):  # typed at a prompt, or something that is called like a function
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        return type(function).__name__.encode() if code is None else marshal.dumps(code)
