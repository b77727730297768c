"""`ropewalk survey`: what every head does over many texts, with errors, as tables in a folder."""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.app.address import head_name
from ropewalk.app.commands.options import Commands, count, head_address, model_options, names, natural, opened_with
from ropewalk.app.commands.output import finished, print_table, stoppable
from ropewalk.app.commands.own_score import ENDING, function_of, module_of, said
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.errors import RopewalkError, SurveyError

if TYPE_CHECKING:
    from ropewalk.model.notebooks.model import Model
    from ropewalk.model.survey.comparison import Comparison
    from ropewalk.model.survey.ranks import Ranks
    from ropewalk.model.survey.result import Survey
    from ropewalk.model.survey.series import Since, SurveySeries
    from ropewalk.model.survey.statistics import SurveyStatistic

STAR = "* differs; 5 % of those with a * are expected to be there by chance (Benjamini and Hochberg)"
TOKENS, TOP = 512, 32


def declare(commands: Commands) -> None:
    """Add the command."""
    survey = commands.add_parser(
        "survey",
        help="measure every head over many texts",
        description="Measure every head over many texts, and keep the tables in a folder. A survey that was stopped "
        "goes on where it was.",
    )
    model_options(survey, several=True)
    survey.add_argument(
        "--texts",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=".txt with a text on each line, .jsonl, .parquet, a folder that datasets saved, or - for standard input",
    )
    survey.add_argument("--out", type=Path, metavar="DIR", help="the folder to make, or to go on with")
    survey.add_argument("--column", default="text", metavar="NAME", help="the column that holds the text (text)")
    survey.add_argument("--windows", action="store_true", help="cut each .txt into windows instead of lines")
    survey.add_argument("--limit", type=count, metavar="N", help="so many of the texts, drawn with the seed (all)")
    survey.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of that (0)")
    survey.add_argument("--tokens", type=count, default=TOKENS, metavar="N", help=f"tokens of a text ({TOKENS})")
    survey.add_argument("--batch", type=batch, metavar="N", help="texts that run together, or auto (auto)")
    survey.add_argument("--statistics", type=names, metavar="NAME[,NAME]", help="which, or all (all)")
    survey.add_argument(
        "--statistic",
        action="append",
        default=[],
        metavar="FILE.py:NAME",
        help="one of your own besides: a SurveyStatistic; may be given several times",
    )
    survey.add_argument(
        "--pairs", metavar="FILE.py:FUNCTION", help="a function of tokens and row, or a column: (query, key) cells"
    )
    survey.add_argument("--top", type=count, default=TOP, metavar="N", help=f"examples of each statistic ({TOP})")
    survey.add_argument(
        "--ablate", type=ablation, action="append", default=[], metavar="L.H", help="a head whose output is zero (none)"
    )
    survey.add_argument(
        "--no-values", action="store_true", help="keep no values of single texts: less on disk, but nothing to compare"
    )
    shown = survey.add_mutually_exclusive_group()
    shown.add_argument(
        "--show", action="store_true", help="print the survey in the folder PATH; how two differ; or a series of more"
    )
    shown.add_argument("--csv", action="store_true", help="the same, a line for each value")
    survey.add_argument(
        "--steps", type=steps, metavar="N,N[,N]", help="of a series: what each is called (the end of its folder's name)"
    )
    survey.add_argument(
        "--since", choices=("previous", "first"), default="previous", help="of a series: compared with (previous)"
    )
    survey.set_defaults(act=survey_heads, misused=survey.error)


def batch(text: str) -> int | None:
    """A number of texts, or ``auto``."""
    return None if text == "auto" else count(text)


def ablation(text: str) -> AblateHeads:
    """A head such as ``2.5`` or ``L2H5``, as what silences it."""
    fields = dict(head_address(text))
    if fields.keys() != {"layer", "head"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not a head such as 2.5")
    return AblateHeads(fields["layer"], (fields["head"],))


def steps(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [natural(one) for one in names(text)]


def survey_heads(parsed: argparse.Namespace) -> None:
    """Measure every head over many texts, or print what came of that."""
    if parsed.show or parsed.csv:
        if not parsed.path:
            parsed.misused("name the folder of a survey to print")
        _show(parsed)
        return
    if len(parsed.path) > 1:
        parsed.misused("one model is surveyed at a time; --show and --csv take several folders")
    parsed.path = parsed.path[0] if parsed.path else None
    if not parsed.texts and parsed.path is not None and (Path(parsed.path) / "manifest.json").is_file():
        parsed.misused(f"{parsed.path} holds a survey; print it with --show or --csv")
    if not parsed.texts or parsed.out is None:
        parsed.misused("say what to run with --texts and where to keep the tables with --out")
    from ropewalk.model.survey.ranks import EndedElsewhere, as_started

    with as_started() as ranks:
        try:
            found = _surveyed(parsed, ranks)
        except EndedElsewhere:
            ranks.hear()
            raise SystemExit(1) from None
        except RopewalkError as error:
            if ranks.count == 1:
                raise
            print(error.sentence, file=sys.stderr, flush=True)
            ranks.said()
            raise SystemExit(1) from error
        if ranks.first:
            print(f"{found.texts} texts of {found.manifest['corpus']['texts']}: {parsed.out}")


def _surveyed(parsed: argparse.Namespace, ranks: Ranks) -> Survey:
    """Run it, in this process and those that were started with it."""
    from ropewalk.model.survey.running import survey_steps

    statistics = [*(("all",) if parsed.statistics is None else parsed.statistics), *map(_own, parsed.statistic)]
    return stoppable(
        survey_steps(
            ranks.each(lambda: _opened(parsed, ranks)),
            parsed.texts,
            out=parsed.out,
            column=parsed.column,
            windows=parsed.windows,
            limit=parsed.limit,
            seed=parsed.seed,
            tokens=parsed.tokens,
            batch=parsed.batch,
            statistics=statistics,
            pairs=ranks.each(lambda: _pairs(parsed.pairs)),
            top=parsed.top,
            values=not parsed.no_values,
            interventions=parsed.ablate,
            ranks=ranks,
        ),
        shown=ranks.first,
    )


def _opened(parsed: argparse.Namespace, ranks: Ranks) -> Model:
    """What was named, as a model that runs many texts; of several processes each has a GPU of its own."""
    from ropewalk.model.notebooks.model import open as open_model
    from ropewalk.model.trace_files.trace_file import is_trace

    if parsed.path is not None and is_trace(parsed.path):
        raise SurveyError(
            f"{parsed.path} is a trace, one run without its model; name the model that is to be surveyed."
        )
    device = ranks.device(parsed.device)
    if parsed.via is not None:
        return _run_by_transformers(parsed, device)
    return open_model(parsed.path, device=device, dtype=parsed.dtype, options=opened_with(parsed))


def _run_by_transformers(parsed: argparse.Namespace, device: str) -> Model:
    from ropewalk.model.notebooks.transformers_model import TransformersNotebookModel
    from ropewalk.model.transformers_models.opening import open_steps

    found = finished(open_steps(parsed.path, device=device, dtype=parsed.dtype))
    model = TransformersNotebookModel(found.model.module, name=found.name)
    model.tokenizer = found.tokenizer
    return model


def _pairs(text: str | None) -> Any:
    """What gives cells: a function of a file, or the name of a column."""
    path, colon, name = (text or "").rpartition(":")
    if not colon or not path.endswith(ENDING):
        return text
    function = function_of(Path(path), name)

    def pairs(tokens: list[str], row: Mapping[str, Any]) -> Any:
        try:
            return list(function(tokens, row))
        except (Exception, SystemExit) as error:
            raise RopewalkError(f"{name} of {path} failed: {said(error)}.") from error

    pairs.__qualname__ = text or ""
    pairs.__dict__["source"] = _hash_of(Path(path))
    return pairs


def _own(text: str) -> SurveyStatistic:
    """A statistic of a file."""
    from ropewalk.model.survey.statistics import SurveyStatistic

    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(ENDING):
        raise SurveyError(f"{text!r:.80} names no statistic of a file, such as mine.py:rare.")
    one = module_of(Path(path)).get(name)
    if not isinstance(one, SurveyStatistic):
        there = "is not there" if one is None else f"is of type {type(one).__name__}, not a SurveyStatistic"
        raise SurveyError(f"{name} of {path} {there}.")

    def guarded(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        def call(given: Any) -> Any:
            assert function is not None
            try:
                return function(given)
            except (Exception, SystemExit) as error:
                raise SurveyError(f"{name} of {path} failed: {said(error)}.") from error

        return call if callable(function) else function

    return replace(one, among=guarded(one.among), of_block=guarded(one.of_block), source=_hash_of(Path(path)))


def _hash_of(path: Path) -> str:
    """Of a file's whole code: a function may use all that is there."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ----------------------------------------------------------------------------------------------------------------------
# Showing


def _show(parsed: argparse.Namespace) -> None:
    """Print one survey, how two differ, or a series."""
    from ropewalk.model.survey.result import load_survey
    from ropewalk.model.survey.series import survey_series

    found = [load_survey(path) for path in parsed.path]
    names = None if parsed.statistics in (None, ("all",)) else parsed.statistics
    if len(found) == 1:
        _print(found[0], names or found[0].names, as_csv=parsed.csv)
    elif len(found) == 2 and parsed.steps is None:
        compared = found[0].compare(found[1], names)
        _print_rows(compared.rows()) if parsed.csv else _print_compared(parsed.path, found, compared)
    else:
        _print_series(survey_series(found, parsed.steps), names, parsed.since, as_csv=parsed.csv)


def _print(found: Survey, names: Sequence[str], *, as_csv: bool) -> None:
    there = [name for name in names if found.count(name)]
    if as_csv:
        _print_rows(row for row in found.rows() if row["statistic"] in names)
        return
    if there:
        _print_heads(
            [(name, _cells(found.mean(name), found.error(name), np.False_)) for name in there],
        )
        print()
    print(f"{found.manifest['model']['name']}, {found.texts} texts{'' if found.complete else ', not all of them yet'}")
    for name in names:
        print(f"{name}: n = {found.count(name)}; {found.formula(name)}")


def _print_compared(paths: Sequence[Path], found: Sequence[Survey], compared: Comparison) -> None:
    """A table of differences, and of each statistic how many heads differ."""
    marks = [compared.significant(name) for name in compared.names]
    read = zip(compared.names, compared.difference, compared.error, marks, compared.count, strict=True)
    there = [(name, _cells(difference, error, mark)) for name, difference, error, mark, n in read if n]
    if there:
        _print_heads(there)
        print()
    named = [f"{path} ({one.manifest['model']['name']})" for path, one in zip(paths, found, strict=True)]
    print(f"{named[1]} less {named[0]}; {STAR}")
    for name, n, mark in zip(compared.names, compared.count, marks, strict=True):
        print(f"{name}: n = {n}, {mark.sum()} of {mark.size} heads differ; {found[0].formula(name)}")


def _print_series(series: SurveySeries, names: Sequence[str] | None, since: Since, *, as_csv: bool) -> None:
    """A table of each statistic, a column for each step; or every value with what changed."""
    names, changes = names or series.names, series.changes(since)
    if as_csv:
        changed = {(row["step"], row["statistic"], row["layer"], row["head"]): row for row in changes.rows()}
        empty = dict.fromkeys(("difference", "difference_error", "p", "adjusted"), math.nan)
        _print_rows(
            row | empty | _change(changed.get((row["step"], row["statistic"], row["layer"], row["head"])))
            for row in series.rows()
            if row["statistic"] in names
        )
        return
    for name in names:
        if not any(series.count(name)):
            continue
        marks = np.concatenate((np.zeros_like(changes.significant(name)[:1]), changes.significant(name)))
        read = zip(series.steps, series.mean(name), series.error(name), marks, strict=True)
        print(f"{name}: n = {series.count(name)[0]}; {series.surveys[0].formula(name)}")
        _print_heads([(str(step), _cells(mean, error, mark)) for step, mean, error, mark in read])
        print()
    print(f"{len(series.steps)} steps, each beside the {since} one; {STAR}")


def _change(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {name: row[name] for name in ("difference", "p", "adjusted")} | {"difference_error": row["error"]}


def _print_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows as CSV, nothing in the place of what is no number."""
    table = None
    for row in rows:
        if table is None:
            table = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
            table.writeheader()
        table.writerow({name: "" if isinstance(one, float) and math.isnan(one) else one for name, one in row.items()})


def _print_heads(columns: Sequence[tuple[str, Mapping[tuple[int, int], str]]]) -> None:
    """A row for each head."""
    rows = [(head_name(*head), *(cells[head] for _, cells in columns)) for head in columns[0][1]]
    print_table([("head", *(title for title, _ in columns)), *rows], frozenset(range(1, len(columns) + 1)))


def _cells(values: NDArray[Any], errors: NDArray[Any], marks: Any) -> dict[tuple[int, int], str]:
    """Numbers [L, H] with their errors, and a mark beside some."""
    return {
        (layer, head): f"{values[layer, head]:.3f}"
        + ("" if math.isnan(errors[layer, head]) else f" ± {errors[layer, head]:.3f}")
        + (" *" if mark else "")
        for (layer, head), mark in np.ndenumerate(np.broadcast_to(marks, values.shape))
    }
