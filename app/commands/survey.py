"""`ropewalk survey`: what every head does over many texts, with errors, as tables in a folder."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.app.address import head_name
from ropewalk.app.commands.options import Commands, count, head_address, model_options, names, natural, opened_with
from ropewalk.app.commands.output import finished, print_table, stoppable
from ropewalk.app.commands.own_score import ENDING, function_of, said
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.errors import RopewalkError, SurveyError

if TYPE_CHECKING:
    from ropewalk.model.notebooks.model import Model
    from ropewalk.model.survey.ranks import Ranks
    from ropewalk.model.survey.result import Survey

COLUMNS = ("layer", "head", "statistic", "value", "error", "n")
TOKENS, TOP = 512, 32


def declare(commands: Commands) -> None:
    """Add the command."""
    survey = commands.add_parser(
        "survey",
        help="measure every head over many texts",
        description="Measure every head over many texts, and keep the tables in a folder. A survey that was stopped "
        "goes on where it was.",
    )
    model_options(survey)
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
    shown.add_argument("--show", action="store_true", help="print the survey in the folder PATH")
    shown.add_argument("--csv", action="store_true", help="print the survey in the folder PATH, a line for each value")
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


def survey_heads(parsed: argparse.Namespace) -> None:
    """Measure every head over many texts, or print what came of that."""
    from ropewalk.model.survey.result import load_survey

    if parsed.show or parsed.csv:
        if parsed.path is None:
            parsed.misused("name the folder of a survey to print")
        _print(load_survey(parsed.path), as_csv=parsed.csv)
        return
    if not parsed.texts or parsed.out is None:
        parsed.misused("say what to run with --texts and where to keep the tables with --out")
    from ropewalk.model.survey.ranks import EndedElsewhere, as_started

    with as_started() as ranks:
        try:
            found = _surveyed(parsed, ranks)
        except EndedElsewhere:
            raise SystemExit(1) from None
        if ranks.first:
            print(f"{found.texts} texts of {found.manifest['corpus']['texts']}: {parsed.out}")


def _surveyed(parsed: argparse.Namespace, ranks: Ranks) -> Survey:
    """Run it, in this process and those that were started with it."""
    from ropewalk.model.survey.running import survey_steps

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
            statistics=None if parsed.statistics in (None, ("all",)) else parsed.statistics,
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
    return pairs


def _print(found: Survey, *, as_csv: bool) -> None:
    if as_csv:
        table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        table.writeheader()
        for row in found.rows():
            table.writerow(
                {name: "" if isinstance(one, float) and math.isnan(one) else one for name, one in row.items()}
            )
        return
    there = [name for name in found.names if found.count(name)]
    means, errors = ({name: read(name) for name in there} for read in (found.mean, found.error))
    layers, heads = means[there[0]].shape
    rows = [
        (head_name(layer, head), *(_cell(means[name][layer, head], errors[name][layer, head]) for name in there))
        for layer in range(layers)
        for head in range(heads)
    ]
    print_table([("head", *there), *rows], frozenset(range(1, len(there) + 1)))
    print()
    print(f"{found.manifest['model']['name']}, {found.texts} texts{'' if found.complete else ', not all of them yet'}")
    for name in there:
        print(f"{name}: n = {found.count(name)}; {found.formula(name)}")


def _cell(value: float, error: float) -> str:
    return f"{value:.3f}" + ("" if math.isnan(error) else f" ± {error:.3f}")
