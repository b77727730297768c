"""Surveys that several processes run: as threads here, and as torchrun starts them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from torch.distributed import is_available

import ropewalk
from ropewalk.model.errors import RopewalkError
from ropewalk.model.survey import corpus
from ropewalk.model.survey.ranks import EndedElsewhere, Ranks
from ropewalk.model.survey.result import Survey
from ropewalk.model.survey.running import survey_steps
from tests.model.survey.small_survey import SmallModel, texts_of
from tests.model.survey.together import together
from tests.processes import ROOT, started

pytestmark = pytest.mark.skipif(not is_available(), reason="needs torch.distributed")

LENGTHS = (9, 4, 20, 11, 17, 11, 3, 8, 30, 6, 14, 5, 7, 10)
OPTIONS: dict[str, Any] = {"statistics": ["self", "induction", "distance"], "top": 3, "batch": 1}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 2)


@pytest.fixture
def alone(tmp_path: Path, small_shards: None) -> Survey:
    """What one process makes."""
    return ropewalk.survey(SmallModel("plain"), texts_of(LENGTHS), out=tmp_path / "alone", **OPTIONS)


def check_same(found: Survey, wanted: Survey) -> None:
    """Counts and where examples are: exactly; values as another number of threads adds them up."""
    assert (found.texts, found.complete) == (wanted.texts, True)
    assert found.folder is not None
    assert sorted(path.name for path in found.folder.glob("tally*")) == ["tally.safetensors"]
    for name in wanted.names:
        assert found.count(name) == wanted.count(name)
        assert found.mean(name) == pytest.approx(wanted.mean(name), rel=1e-6, abs=1e-6, nan_ok=True)
        assert found.error(name) == pytest.approx(wanted.error(name), rel=1e-5, abs=1e-6, nan_ok=True)
        for mine, theirs in zip(*(one.top_examples((1, 2), name) for one in (found, wanted)), strict=True):
            assert (mine.text, mine.query, mine.key) == (theirs.text, theirs.query, theirs.key)
            assert mine.value == pytest.approx(theirs.value, rel=1e-6, abs=1e-6)
    assert found.mean_map((2, 3)).grid == pytest.approx(wanted.mean_map((2, 3)).grid, rel=1e-6, abs=1e-6, nan_ok=True)
    assert np.abs(found.compare(wanted).difference).max() < 1e-5


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow), 7])
def test_several_make_what_one_makes(
    count: int, alone: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = [[] for _ in range(count)]

    def run(ranks: Ranks) -> Survey:
        steps = survey_steps(SmallModel("plain"), texts_of(LENGTHS), out=tmp_path / "s", ranks=ranks, **OPTIONS)
        while True:
            try:
                seen[ranks.rank].append(next(steps).done)
            except StopIteration as end:
                found: Survey = end.value
                return found

    for found in together(count, run, monkeypatch):
        assert isinstance(found, Survey)
        check_same(found, alone)
    assert seen[0] == sorted(seen[0])  # the texts of all, and so more than its own shards have
    assert max(map(max, filter(None, seen))) == len(LENGTHS)
    assert sum(map(len, seen)) >= len(LENGTHS)


def test_it_goes_on_with_another_number_of_them(alone: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(ranks: Ranks, pauses: int) -> None:
        steps = survey_steps(SmallModel("plain"), texts_of(LENGTHS), out=tmp_path / "s", ranks=ranks, **OPTIONS)
        for _ in range(pauses):
            next(steps)
        steps.close()

    together(3, lambda ranks: run(ranks, 3), monkeypatch)  # each has committed its first shard
    assert len(list((tmp_path / "s").glob("tally*"))) == 3
    assert ropewalk.load_survey(tmp_path / "s").texts == 6
    together(2, lambda ranks: run(ranks, 4), monkeypatch)  # each pauses once before that, where it goes on
    begun = ropewalk.load_survey(tmp_path / "s")
    assert begun.texts == 10
    check_same(ropewalk.survey(SmallModel("plain"), texts_of(LENGTHS), out=tmp_path / "s", **OPTIONS), alone)


def test_one_says_why_none_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(ranks: Ranks) -> None:
        try:
            ranks.each(lambda: ropewalk.load_survey(tmp_path) if ranks.rank == 1 else None)
        except EndedElsewhere:
            ranks.hear()
            raise
        except RopewalkError:
            ranks.said()
            raise

    first, second = map(str, together(2, run, monkeypatch))
    assert "Another process" in first
    assert "holds no survey" in second
    model = SmallModel("plain")

    def refused(texts: list[str], outs: list[Path | None]) -> list[str]:
        def begun(ranks: Ranks) -> None:
            next(survey_steps(model, texts, out=outs[ranks.rank], ranks=ranks))

        return [str(one) for one in together(2, begun, monkeypatch)]

    first, second = refused([], [tmp_path, tmp_path])
    assert "no text to survey" in first
    assert "Another process" in second
    assert "in a folder" in refused(["1"], [None, None])[0]
    assert "not the same folder on every machine" in refused(["1"], [tmp_path / "a", tmp_path / "b"])[1]


def test_the_first_reads_standard_input_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", ["1 2 3\n", "\n", "4 5\n", "6\n"])
    run = together(
        2, lambda ranks: ropewalk.survey(SmallModel("plain"), [Path("-")], out=tmp_path / "s", ranks=ranks), monkeypatch
    )
    for found in run:
        assert isinstance(found, Survey)
        assert found.texts == 3


SURVEYS = f"""
import sys
from pathlib import Path
from ropewalk.model.progress import finished
from ropewalk.model.errors import RopewalkError
from ropewalk.model.survey import corpus
from ropewalk.model.survey.ranks import as_started
from ropewalk.model.survey.running import survey_steps
from tests.model.survey.small_survey import SmallModel, texts_of
corpus.SHARD = 2
with as_started() as ranks:
    for _ in survey_steps(SmallModel("plain"), texts_of({LENGTHS}), out=sys.argv[1], ranks=ranks, **{OPTIONS}):
        print("a batch", flush=True)
"""


def torchrun(count: int, *command: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", *command]


def environment() -> dict[str, str]:
    """For a program that lies elsewhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("count", [2, 4])
def test_torchrun(count: int, alone: Survey, tmp_path: Path) -> None:
    program = tmp_path / "surveys.py"
    program.write_text(SURVEYS, encoding="utf-8")
    subprocess.run(torchrun(count, str(program), str(tmp_path / "s")), cwd=ROOT, env=environment(), check=True)
    check_same(ropewalk.load_survey(tmp_path / "s"), alone)


@pytest.mark.slow
@pytest.mark.processes
def test_the_command_under_torchrun(tmp_path: Path) -> None:
    lines = "to be or not to be\nthe king\nso it goes\n"
    asked = ("-m", "ropewalk", "survey", "--texts", "-", "--out", str(tmp_path / "s"), "--statistics", "self")
    ran = subprocess.run(
        torchrun(2, *asked), cwd=ROOT, env=environment(), input=lines, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"3 texts of 3: {tmp_path / 's'}\n"
    assert ropewalk.load_survey(tmp_path / "s").texts == 3
    gone = str(tmp_path / "gone")
    failed = subprocess.run(
        torchrun(2, *asked[:3], gone, *asked[3:]),
        cwd=ROOT,
        env=environment(),
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode
    assert failed.stderr.count(f"There is nothing at {gone}; check the path.\n") == 1


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_nothing_is_lost_or_counted_twice(seed: int, alone: Survey, tmp_path: Path) -> None:
    draw, program = random.Random(seed), tmp_path / "surveys.py"
    program.write_text(SURVEYS, encoding="utf-8")
    for count in (1, 2, 3):
        command = (
            [sys.executable, str(program), str(tmp_path / "s")]
            if count == 1
            else torchrun(count, *map(str, (program, tmp_path / "s")))
        )
        with started(command, env=environment(), stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            for _ in range(draw.randrange(6)):
                process.stdout.readline()  # empty where all is done
            running = psutil.Process(process.pid).children(recursive=True)
            (draw.choice(running) if running else process).kill()
            process.communicate()
    assert (tmp_path / "s" / "manifest.json").exists()
    found = ropewalk.survey(SmallModel("plain"), texts_of(LENGTHS), out=tmp_path / "s", **OPTIONS)
    check_same(found, alone)
