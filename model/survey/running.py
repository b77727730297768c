"""Running a survey: texts in shards, each committed whole, so that one which was ended goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ropewalk
from ropewalk.model.codec import to_json
from ropewalk.model.errors import SurveyError, TraceError
from ropewalk.model.notebooks.model import Model
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.notebooks.prompts import batch_of
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.survey.corpus import Corpus, PairsOf, Texts, batches_of
from ropewalk.model.survey.folder import (
    Shard,
    ShardFiles,
    begin,
    committed,
    drop_shards,
    keep_one,
    read_manifest,
    tally_file,
    write_manifest,
    write_shard,
    write_texts,
)
from ropewalk.model.survey.recorder import SurveyRecorder
from ropewalk.model.survey.result import Survey, load_survey
from ropewalk.model.survey.statistics import SURVEYED, SurveyStatistic, Text, distance_bins
from ropewalk.model.survey.tables import arrow, write_tables
from ropewalk.model.survey.tally import Tally
from ropewalk.model.survey.texts import SurveyTexts

TOKENS, TOP = 512, 32
WHAT = "Surveying the texts"


def survey(model: Model, texts: Texts, *, out: str | Path | None = None, **options: Any) -> Survey:
    """Measure every head of a model over many texts.

    Parameters
    ----------
    texts
        A file or several (``pathlib.Path``: ``.txt`` with a text on each line, ``.jsonl``, ``.parquet``, a folder that
        datasets saved); or texts, token ids or records with columns themselves.
    out
        The folder to write; the same call goes on with one that was begun. Without it nothing is written.
    options
        As :func:`survey_steps` takes them.

    Raises
    ------
    SurveyError
        For texts that cannot be read, a statistic that is not there, and a folder with another survey.
    """
    return finished(survey_steps(model, texts, out=out, **options))


def survey_steps(
    model: Model,
    texts: Texts,
    *,
    out: str | Path | None = None,
    column: str = "text",
    windows: bool = False,
    limit: int | None = None,
    seed: int = 0,
    tokens: int = TOKENS,
    batch: int | None = None,
    statistics: Iterable[str] | None = None,
    pairs: PairsOf | None = None,
    top: int = TOP,
    values: bool = True,
) -> Steps[Survey]:
    """Do what :func:`survey` does, pausing after each batch.

    Parameters
    ----------
    column, windows, limit, seed, tokens, pairs
        As :class:`~model.survey.corpus.Corpus` takes them; no more tokens than the model has positions.
    batch
        Texts that run together; None for as many as are a good size.
    statistics
        Names of :data:`~model.survey.statistics.SURVEYED`; all that the model can say when not given.
    top
        How many examples of each head and statistic are kept.
    values
        Whether the values of every text are kept, which comparing needs.
    """
    _check(tokens=tokens, batch=batch, limit=limit, top=top, seed=seed)
    chosen = _chosen(model, statistics, with_pairs=pairs is not None)
    if out is not None:
        arrow("parquet")  # before anything is computed
    tokens = min(tokens, model.config.max_position)
    corpus = Corpus(
        texts, model.tokenizer, column=column, windows=windows, limit=limit, seed=seed, tokens=tokens, pairs=pairs
    )
    names = [one.name for one in chosen]
    settings: dict[str, Any] = {
        "tokens": tokens,
        "batch": batch,
        "statistics": names,
        "top": top,
        "limit": limit,
        "seed": seed,
    }
    settings |= {"column": column, "windows": windows, "pairs": getattr(pairs, "__qualname__", pairs), "values": values}
    manifest = _manifest(model, corpus, settings)
    folder = None if out is None else Path(out)
    if folder is not None:
        begin(folder, manifest)
        if read_manifest(folder).get("complete"):
            return load_survey(folder)
    bins = len(distance_bins(tokens))

    def empty() -> Tally:
        return Tally.empty(len(chosen), model.config.layers, model.config.heads, bins, top)

    total, done = empty(), set[int]()
    for tally, shards in () if folder is None else committed(folder).values():
        total.merge(tally)
        done |= shards
    if folder is not None and done:
        keep_one(folder, total, done)
        yield Progress(total.texts, len(corpus), WHAT)
    kept = dict[int, Shard]()
    for number, read in corpus.read(set(range(corpus.shards)) - done):
        tally, surveyed, each = empty(), list[Text](), list[NDArray[np.float32]]()
        for together in batches_of(read, batch):
            each.append(_values(model, tally, chosen, together).astype(np.float32))
            surveyed += together
            yield Progress(total.texts + tally.texts, len(corpus), WHAT)
        total.merge(tally)
        done.add(number)
        of_texts = np.concatenate(each) if each else np.zeros((0, *total.sums.shape), np.float32)
        shard = Shard(
            SurveyTexts.of(((text.number, text.ids) for text in surveyed), corpus.pieces), of_texts if values else None
        )
        if folder is None:
            kept[number] = shard
        else:
            write_shard(folder, number, shard)
            total.save(tally_file(folder), done)
    if not total.texts:
        raise SurveyError("Every text is empty, so there is nothing to survey.")
    manifest = {**manifest, "texts": total.texts, "complete": True}
    if folder is None:
        return Survey(total, manifest, kept)
    _finish(folder, total, done, manifest)
    return load_survey(folder)


def _check(**numbers: Any) -> None:
    for name, number in numbers.items():
        least, found = int(name != "seed"), whole(number)
        if number is not None and (found is None or found < least):
            raise SurveyError(f"{name} is {number!r:.40}, but it must be a whole number of {least} or more.")


def _finish(folder: Path, total: Tally, shards: Set[int], manifest: dict[str, Any]) -> None:
    """Write what all shards come to; the manifest says so last, and what is not needed any more goes after it."""
    keep_one(folder, total, shards)
    wanted = set(np.unique(total.places[..., 0]).tolist())
    texts = SurveyTexts.among(wanted, (shard.texts for shard in ShardFiles(folder, shards).values()))
    write_texts(folder, texts)
    write_tables(folder, total, manifest["settings"]["statistics"], texts)
    write_manifest(folder, manifest)
    if not manifest["settings"]["values"]:
        drop_shards(folder)


def _chosen(model: Model, names: Iterable[str] | None, *, with_pairs: bool) -> list[SurveyStatistic]:
    """The statistics that are wanted and can be had."""
    has_outputs = _decoder_of(model) is not None
    if names is None:
        return [
            one
            for one in SURVEYED.values()
            if (has_outputs or not one.of_outputs) and (with_pairs or one.name != "pairs")
        ]
    wanted = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    for name in wanted:
        if name not in SURVEYED:
            raise SurveyError(f"There is no statistic {name!r:.40} of a survey; there are {', '.join(SURVEYED)}.")
        if SURVEYED[name].of_outputs and not has_outputs:
            raise SurveyError(
                f"The statistic {name!r} reads what heads add to the residual stream, which {model.name} does not say; "
                "leave it out."
            )
        if name == "pairs" and not with_pairs:
            raise SurveyError("The statistic 'pairs' needs cells; give a function or a column of them as pairs.")
    if not wanted:
        raise SurveyError(f"No statistic was named; there are {', '.join(SURVEYED)}.")
    return [SURVEYED[name] for name in wanted]


def _decoder_of(model: Model) -> Any:
    try:
        return model.decoder
    except TraceError:
        return None


def _values(
    model: Model, tally: Tally, statistics: Sequence[SurveyStatistic], texts: Sequence[Text]
) -> NDArray[np.float64]:
    """Run some texts side by side; returns their values [B, K, L, H]."""
    recorder = SurveyRecorder(tally, statistics, texts, _decoder_of(model))
    return model.record(batch_of([text.ids.tolist() for text in texts], None), recorder, recorder.watches())


def _manifest(model: Model, corpus: Corpus, settings: dict[str, Any]) -> dict[str, Any]:
    """What decides everything that comes out."""
    origin = model.origin
    return {
        "model": {
            "name": model.name,
            "fingerprint": "" if origin is None else origin.fingerprint,
            "config": json.loads(to_json(model.config)),
        },
        "corpus": {
            "fingerprint": corpus.fingerprint,
            "texts": corpus.found,
            "chosen": len(corpus),
            "sources": corpus.sources,
        },
        "settings": settings,
        "versions": {"ropewalk": ropewalk.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "complete": False,
    }
