"""Running a survey: texts in shards, each committed whole, so that one which was ended goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ropewalk
from ropewalk.model.codec import to_json
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import Intervention, PermuteTokens, check_interventions
from ropewalk.model.decoder.rope_scaling import as_run
from ropewalk.model.errors import SurveyError, TraceError
from ropewalk.model.notebooks.model import Model
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.notebooks.prompts import batch_of
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.survey.choosing import chosen_statistics, code_settings
from ropewalk.model.survey.corpus import Corpus, PairsOf, Texts, batches_of
from ropewalk.model.survey.folder import (
    Shard,
    ShardFiles,
    alone,
    begin,
    check_there,
    committed,
    keep_one,
    read_manifest,
    tally_file,
    tidy,
    write_manifest,
    write_shard,
    write_texts,
)
from ropewalk.model.survey.ranks import Ranks
from ropewalk.model.survey.recorder import SurveyRecorder
from ropewalk.model.survey.result import Survey, load_survey
from ropewalk.model.survey.statistics import SurveyStatistic, Text, distance_bins
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
    statistics: Iterable[str | SurveyStatistic] | None = None,
    pairs: PairsOf | None = None,
    top: int = TOP,
    values: bool = True,
    interventions: Sequence[Intervention] = (),
    ranks: Ranks | None = None,
) -> Steps[Survey]:
    """Do what :func:`survey` does, pausing after each batch.

    Parameters
    ----------
    column, windows, limit, seed, tokens, pairs
        As :class:`~model.survey.corpus.Corpus` takes them; no more tokens than the model has positions.
    batch
        Texts that run together; None for as many as are a good size.
    statistics
        Names of :data:`~model.survey.statistics.SURVEYED`, ``all``, and statistics of one's own; all that the model
        can say when not given.
    top
        How many examples of each head and statistic are kept.
    values
        Whether the values of every text are kept, which comparing needs.
    interventions
        What to change in the model meanwhile.
    ranks
        The processes that run it together, all of which call this; none but this one when not given.
    """
    ranks = ranks or Ranks()

    def asked() -> list[SurveyStatistic]:
        _check(tokens=tokens, batch=batch, limit=limit, top=top, seed=seed)
        _check_interventions(model, interventions)
        if out is not None:
            arrow("parquet")  # before anything is computed
        elif ranks.count > 1:
            raise SurveyError("Several processes keep their survey in a folder; name one with out.")
        has_outputs = _decoder_of(model) is not None
        return chosen_statistics(statistics, model.name, has_outputs=has_outputs, with_pairs=pairs is not None)

    chosen = ranks.each(asked)
    tokens = min(tokens, as_run(model.config, interventions).max_position)
    read: dict[str, Any] = {"column": column, "windows": windows, "limit": limit, "seed": seed, "tokens": tokens}
    corpus = ranks.each(lambda: Corpus(texts, model.tokenizer, pairs=pairs, ranks=ranks, **read))
    settings = {
        **read,
        "batch": batch,
        "statistics": [one.name for one in chosen],
        "top": top,
        "values": values,
        "interventions": json.loads(to_json(list(interventions))),
        **code_settings(chosen, pairs),
    }
    manifest = _manifest(model, corpus, settings)
    shape = len(chosen), model.config.layers, model.config.heads, len(distance_bins(tokens)), min(top, len(corpus))
    run = _Run(model, chosen, corpus, shape, batch, values, tuple(interventions), ranks)
    if out is not None:
        return (yield from _folder_steps(run, Path(out), manifest))
    total, kept = run.empty(), dict[int, Shard]()
    for number, some in corpus.read(range(corpus.shards)):
        tally, kept[number] = yield from run.steps(some)
        total.merge(tally)
    return Survey(total, _ended(manifest, total), kept)


@dataclass(frozen=True, eq=False)
class _Run:
    """What is done to every shard."""

    model: Model
    statistics: Sequence[SurveyStatistic]
    corpus: Corpus
    shape: tuple[int, int, int, int, int]
    batch: int | None
    values: bool
    interventions: Sequence[Intervention]
    ranks: Ranks

    def empty(self) -> Tally:
        """A tally of no texts."""
        return Tally.empty(*self.shape)

    def point(self, texts: int) -> Progress:
        """How far all processes are, after so many more texts."""
        return Progress(self.ranks.add_texts(texts), len(self.corpus), WHAT)

    def steps(self, texts: Sequence[Text]) -> Steps[tuple[Tally, Shard]]:
        """Run a shard."""
        tally, surveyed, each = self.empty(), list[Text](), list[NDArray[np.float32]]()
        decoder = _decoder_of(self.model)
        of_one_length = _depends_on_length(as_run(self.model.config, self.interventions))
        for together in batches_of(texts, self.batch, of_one_length=of_one_length):
            recorder = SurveyRecorder(tally, self.statistics, together, decoder)
            batch = batch_of([text.ids.tolist() for text in together], None)
            found = self.model.record(batch, recorder, recorder.watches(), self.interventions)
            each.append(found.astype(np.float32))
            surveyed += together
            yield self.point(len(together))
        values = np.concatenate(each) if each else np.zeros((0, *self.shape[:3]), np.float32)
        kept = SurveyTexts.of(((text.number, text.ids) for text in surveyed), self.corpus.pieces)
        return tally, Shard(kept, values if self.values else None)


def _folder_steps(run: _Run, folder: Path, manifest: dict[str, Any]) -> Steps[Survey]:
    """Run what is left of a survey, commit each shard, and write what all come to."""
    with ExitStack() as holding:
        yield from _held_steps(run, folder, manifest, holding)
    return load_survey(folder)


def _held_steps(run: _Run, folder: Path, manifest: dict[str, Any], holding: ExitStack) -> Steps[None]:
    """Do it while the first process holds the folder."""
    ranks, total = run.ranks, run.empty()

    def gone_on_with() -> set[int] | None:
        holding.enter_context(alone(folder))
        return _gone_on_with(folder, manifest, total)

    done = ranks.from_first(gone_on_with)
    ranks.each(lambda: check_there(folder))
    if done is None:
        return
    mine = set(done if ranks.first else ())
    if done:
        yield run.point(total.texts)
    for number, some in run.corpus.read(sorted(set(range(run.corpus.shards)) - done)[ranks.rank :: ranks.count]):
        tally, shard = yield from run.steps(some)
        total.merge(tally)
        mine.add(number)
        write_shard(folder, number, shard)
        total.save(tally_file(folder, ranks.rank), mine)
    for texts in ranks.done():
        yield Progress(texts, len(run.corpus), WHAT)
    total = ranks.total(total)
    ranks.from_first(lambda: _finish(folder, total, range(run.corpus.shards), _ended(manifest, total)))


def _gone_on_with(folder: Path, manifest: dict[str, Any], total: Tally) -> set[int] | None:
    """Begin or go on: add what was committed to a tally, and say which shards that is of; None where all is done."""
    begin(folder, manifest)
    if read_manifest(folder).get("complete"):
        tidy(folder, values=manifest["settings"]["values"])
        return None
    done = set[int]()
    for tally, shards in committed(folder).values():
        total.merge(tally)
        done |= shards
    if done:
        keep_one(folder, total, done)
    return done


def _ended(manifest: dict[str, Any], total: Tally) -> dict[str, Any]:
    if not total.texts:
        raise SurveyError("Every text is empty, so there is nothing to survey.")
    return {**manifest, "texts": total.texts, "complete": True}


def _finish(folder: Path, total: Tally, shards: Iterable[int], manifest: dict[str, Any]) -> None:
    """Write what all shards come to; the manifest says so last, and what is not needed any more goes after it."""
    shards = set(shards)
    keep_one(folder, total, shards)
    wanted = set(np.unique(total.places[..., 0]).tolist())
    texts = SurveyTexts.among(wanted, (shard.texts for shard in ShardFiles(folder, shards).values()))
    write_texts(folder, texts)
    write_tables(folder, total, manifest["settings"]["statistics"], texts)
    write_manifest(folder, manifest)
    tidy(folder, values=manifest["settings"]["values"])


def _check(**numbers: Any) -> None:
    for name, number in numbers.items():
        least, found = int(name != "seed"), whole(number)
        if number is not None and (found is None or found < least):
            raise SurveyError(f"{name} is {number!r:.40}, but it must be a whole number of {least} or more.")


def _check_interventions(model: Model, interventions: Sequence[Intervention]) -> None:
    check_interventions(interventions, model.config)
    if any(isinstance(one, PermuteTokens) for one in interventions):
        raise SurveyError("Texts of many lengths have no order of tokens in common; survey them in their own.")


def _depends_on_length(config: ModelConfig) -> bool:
    """Whether what rotates a layer depends on how long a text is."""
    rules = [config.rope_of(layer) for layer in range(config.layers)]
    return any(rope is not None and rope.depends_on_length for rope in rules)


def _decoder_of(model: Model) -> Any:
    try:
        return model.decoder
    except TraceError:
        return None


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
