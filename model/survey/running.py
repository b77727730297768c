"""Running a survey: texts in shards, each committed whole, so that one which was ended goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
from ropewalk.model.survey.choosing import chosen_statistics, code_settings
from ropewalk.model.survey.corpus import Corpus, PairsOf, Texts, batches_of
from ropewalk.model.survey.recorder import SurveyRecorder
from ropewalk.model.survey.result import MANIFEST, SHARDS, Survey, read_manifest, shard_file, shards_of
from ropewalk.model.survey.statistics import Numbers, SurveyStatistic, Text, distance_bins
from ropewalk.model.survey.tables import arrow, write_tables
from ropewalk.model.survey.tally import Tally
from ropewalk.model.whole_file import whole_file

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
    """
    for what, number, least in (
        *(("tokens", tokens, 1), ("batch", batch, 1), ("limit", limit, 1)),
        *(("top", top, 1), ("seed", seed, 0)),
    ):
        found = whole(number)
        if number is not None and (found is None or found < least):
            raise SurveyError(f"{what} is {number!r:.40}, but it must be a whole number of {least} or more.")
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
    settings |= {"column": column, "windows": windows, **code_settings(chosen, pairs)}
    manifest = _manifest(model, corpus, settings)
    folder = None if out is None else _begun(Path(out), manifest)

    def empty() -> Tally:
        shape = len(chosen), model.config.layers, model.config.heads
        return Tally.empty(*shape, len(distance_bins(tokens)), top)

    done = {} if folder is None else shards_of(folder)
    total, kept = empty(), list[tuple[Numbers, NDArray[np.float32]]]()
    for path in done.values():
        total.merge(Tally.load(path))
    if done:
        yield Progress(total.texts, len(corpus), WHAT)
    for shard, read in corpus.read(set(range(corpus.shards)) - done.keys()):
        tally, numbers, each = empty(), list[int](), list[NDArray[np.float32]]()
        for together in batches_of(read, batch):
            each.append(_values(model, tally, chosen, together).astype(np.float32))
            numbers += [text.number for text in together]
            yield Progress(total.texts + tally.texts, len(corpus), WHAT)
        values = np.concatenate(each) if each else np.zeros((0, *total.sums.shape), np.float32)
        if folder is None:
            kept.append((np.array(numbers), values))
        else:
            tally.save(shard_file(folder, shard), numbers, values)
        total.merge(tally)
    if not total.texts:
        raise SurveyError("Every text is empty, so there is nothing to survey.")
    manifest = {**manifest, "texts": total.texts, "complete": True}
    if folder is not None:
        write_tables(folder, total, names)
        _write_manifest(folder, manifest)
    return Survey(total, manifest, folder, kept)


def _chosen(model: Model, names: Iterable[str | SurveyStatistic] | None, *, with_pairs: bool) -> list[SurveyStatistic]:
    """The statistics that are wanted and can be had."""
    has_outputs = _decoder_of(model) is not None
    return chosen_statistics(names, model.name, has_outputs=has_outputs, with_pairs=with_pairs)


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


# ----------------------------------------------------------------------------------------------------------------------
# The folder


def _manifest(model: Model, corpus: Corpus, settings: dict[str, Any]) -> dict[str, Any]:
    """What decides everything that comes out."""
    origin = model.origin
    return {
        "model": {
            "name": model.name,
            "fingerprint": "" if origin is None else origin.fingerprint,
            "config": json.loads(to_json(model.config)),
        },
        "corpus": {"fingerprint": corpus.fingerprint, "texts": corpus.found, "chosen": len(corpus)},
        "settings": settings,
        "versions": {"ropewalk": ropewalk.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "complete": False,
    }


def _begun(folder: Path, manifest: dict[str, Any]) -> Path:
    """A folder for this survey: a new one, or one where it was begun."""
    if (folder / MANIFEST).exists():
        found = read_manifest(folder)
        here, there = (_compared(one) for one in (json.loads(json.dumps(manifest)), found))
        for name in here:
            if here[name] != there.get(name):
                raise SurveyError(f"{folder} holds another survey: its {name} differs; name another folder.")
        return folder
    try:
        (folder / SHARDS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SurveyError(f"{folder} cannot be a survey's folder: {error.strerror or error}.") from error
    if any((folder / SHARDS).iterdir()):
        raise SurveyError(f"{folder} holds shards of a survey without its {MANIFEST}; name another folder.")
    _write_manifest(folder, manifest)
    return folder


def _compared(manifest: dict[str, Any]) -> dict[str, Any]:
    """What makes a survey another one."""
    return {"model": manifest["model"], "corpus": manifest["corpus"], **manifest["settings"]}


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    with whole_file(folder / MANIFEST) as part:
        part.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
