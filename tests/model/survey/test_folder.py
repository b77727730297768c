"""A survey's folder, with a process that ends at every single point where something is committed or removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropewalk
from ropewalk.model.errors import SurveyError
from ropewalk.model.survey import corpus
from ropewalk.model.survey.folder import Shard, committed, tally_file, write_shard
from ropewalk.model.survey.result import Survey
from ropewalk.model.survey.running import survey_steps
from ropewalk.model.survey.tally import Tally
from ropewalk.model.survey.texts import SurveyTexts
from tests.model.survey.small_survey import SmallModel, texts_of

MODEL = cache(lambda: SmallModel("plain"))
TEXTS = texts_of((4, 6))
OPTIONS: dict[str, Any] = {"statistics": ["self", "duplicate"], "top": 2, "values": False}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 1)


def surveyed(folder: Path) -> Survey:
    return ropewalk.survey(MODEL(), TEXTS, out=folder, **OPTIONS)


class Killed(BaseException):
    """What no code of ours catches."""


@contextmanager
def killed_after(changes: int) -> Iterator[list[str]]:
    """End whatever runs after so many files were put in their places or removed, and before the next one."""
    made: list[str] = []

    def limited(change: Callable[..., None]) -> Callable[..., None]:
        def act(path: Any, *more: Any, **options: Any) -> None:
            if len(made) == changes:
                raise Killed
            change(path, *more, **options)
            made.append(Path(more[0] if more else path).name)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((os, "replace"), (Path, "unlink"), (shutil, "rmtree")):
            patch.setattr(place, name, limited(getattr(place, name)))
        yield made


def check_same(found: Survey, wanted: Survey) -> None:
    assert (found.texts, found.complete) == (wanted.texts, True)
    assert found.folder is not None
    assert wanted.folder is not None
    assert sorted(one.name for one in found.folder.iterdir()) == sorted(one.name for one in wanted.folder.iterdir())
    for name, mine in found._tally.arrays.items():
        assert mine == pytest.approx(wanted._tally.arrays[name], rel=1e-12), name
    for name in ("heads.parquet", "examples.parquet"):
        assert (found.folder / name).read_bytes() == (wanted.folder / name).read_bytes()


def test_ended_between_any_two_changes_it_goes_on(tmp_path: Path) -> None:
    wanted = surveyed(tmp_path / "wanted")
    changes = 0
    while True:
        folder = tmp_path / str(changes)
        with killed_after(changes) as made:
            try:
                surveyed(folder)
                break
            except Killed:
                pass
        check_same(surveyed(folder), wanted)
        changes += 1
    assert made == [
        *("manifest.json", "000000.safetensors", "tally.safetensors", "000001.safetensors", "tally.safetensors"),
        *("tally.safetensors", "texts.safetensors"),
        *("heads.parquet", "distances.parquet", "examples.parquet", "manifest.json", "shards"),
        ".manifest.json.lock",
    ]


def test_ended_while_tallies_of_several_processes_become_one(tmp_path: Path) -> None:
    wanted, begun = surveyed(tmp_path / "wanted"), tmp_path / "begun"
    steps = survey_steps(MODEL(), TEXTS, out=begun, **OPTIONS)
    next(steps), next(steps)
    steps.close()  # one shard is committed
    other = ropewalk.survey(MODEL(), TEXTS[1:2], **OPTIONS)._tally
    other.places[other.places[..., 0] == 0, 0] = 1
    other.save(tally_file(begun, 1), [1])
    write_shard(begun, 1, Shard(SurveyTexts.of([(1, np.array(TEXTS[1]))], {}), None))
    for changes in range(3):
        folder = tmp_path / str(changes)
        shutil.copytree(begun, folder)
        with killed_after(changes) as made, pytest.raises(Killed):
            surveyed(folder)
        assert made == ["tally.safetensors", "tally-1.safetensors"][:changes]
        assert ropewalk.load_survey(folder).texts == 2
        found = surveyed(folder)
        assert np.array_equal(found._tally.places, wanted._tally.places)
        assert found._tally.sums == pytest.approx(wanted._tally.sums, rel=1e-12)


def test_no_shard_is_counted_twice(tmp_path: Path) -> None:
    tally = Tally.empty(1, 1, 1, 2, 1)
    for rank, shards in enumerate([[0, 1, 2], [1, 2], [2, 3], [4]]):
        tally.save(tally_file(tmp_path, rank), shards)
    found = committed(tmp_path)
    assert [sorted(shards) for _, shards in found.values()] == [[0, 1, 2], [4]]


def test_tallies_may_become_one_while_somebody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        Tally.empty(1, 1, 1, 2, 1).save(tally_file(tmp_path, rank), [rank])
    load = Tally.load

    def loaded(path: Path) -> tuple[Tally, frozenset[int]]:
        tally_file(tmp_path, 0).unlink(missing_ok=True)  # which is the last to be read
        return load(path)

    monkeypatch.setattr(Tally, "load", loaded)
    assert [sorted(shards) for _, shards in committed(tmp_path).values()] == [[1]]
    tally_file(tmp_path, 1).write_bytes(b"")
    with pytest.raises(SurveyError, match=r"tally-1\.safetensors is no file of a survey"):
        committed(tmp_path)


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    options = {**OPTIONS, "values": True}
    found = ropewalk.survey(MODEL(), TEXTS, out=tmp_path / "s", **options)
    (tmp_path / "s" / "shards" / "000001.safetensors").unlink()
    with pytest.raises(
        SurveyError, match=r"000001\.safetensors is no file of a survey.*in another folder makes it again"
    ):
        found.compare(found)
    assert found.top_examples((0, 1), "self")[0].of.ids.tolist() in TEXTS
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(SurveyError, match="holds no survey"):
        ropewalk.load_survey(tmp_path)
