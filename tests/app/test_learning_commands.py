"""The commands for learners: challenge and lessons."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from ropewalk.app.commands.line import run_command
from ropewalk.app.lessons.progress import ProgressStore
from ropewalk.resources import resource

RIGHT = "def repeat_kv(x, groups):\n    return x.repeat_interleave(groups, dim=1)\n"
TILED = "def repeat_kv(x, groups):\n    print('hello')\n    return x.repeat(1, groups, 1, 1)\n"


def typed(*arguments: str) -> int:
    def never(shot: object) -> None:
        raise AssertionError("nothing is drawn here")

    return run_command(arguments, never)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def graded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grade in this process, as the process of a learner's file does; its limits have tests of their own."""
    from ropewalk.model.challenges import child, grading

    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr(
        "ropewalk.app.lessons.challenges.run_challenge",
        lambda name, file: child.run(name, file.resolve(), grading.grade),
    )


def test_a_starter_is_written_and_is_not_done_yet(graded_here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("challenge", "repeat_kv", "--start") == 0
    assert "repeat_kv.py: share K or V" in capsys.readouterr().out
    assert typed("challenge", "repeat_kv", "--start") == 1
    assert "is there already" in capsys.readouterr().err
    assert typed("challenge", "repeat_kv") == 1
    assert "is not written yet" in capsys.readouterr().err


def test_a_right_function_passes_and_is_remembered(graded_here: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(RIGHT, encoding="utf-8")
    assert typed("challenge", "repeat_kv", "mine.py") == 0
    assert capsys.readouterr().out == "repeat_kv agrees with the engine in every case.\n"
    assert ProgressStore().now.challenges == ("repeat_kv",)


def test_a_wrong_function_is_explained(graded_here: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(TILED, encoding="utf-8")
    assert typed("challenge", "repeat_kv", "mine.py") == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("K and V are tiled")
    assert captured.err.count("\n") == 1
    assert "first different at" in captured.out
    assert "hello" in captured.out
    assert ProgressStore().now.challenges == ()


def test_a_challenge_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("challenge", "repeat") == 1
    assert "did you mean repeat_kv?" in capsys.readouterr().err


def test_the_challenges_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("challenge", "--help") == 0
    assert "cached_decode" in capsys.readouterr().out


def test_the_lessons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("lessons") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 19
    assert "Walk one block" in lines[8]
    assert "transformer_block, shape_ledger" in lines[8]


LESSON = """title = "T"
about = "A."
minutes = 10
model = { kind = "shapes", config = "llama3_8b" }

[[step]]
title = "One"
show = ["ledger"]
text = "{size(main, 'D')} and {kv_bytes(open)}"

[[step.check]]
id = "a"
kind = "number"
ask = "A?"
why = "B."
answer = "tokens(open)"
"""


def test_a_lesson_file_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.toml").write_text(
        LESSON.replace("open", "llama3_8b").replace("tokens(llama3_8b)", "1"), encoding="utf-8"
    )
    assert typed("lessons", "good.toml") == 1
    captured = capsys.readouterr()
    assert captured.err == (
        "good.toml: said without a claim: 7; write what decides it; "
        "not read as it stands: 2; read it, and write the stamps.\n"
    )
    told = captured.out.splitlines()
    assert told[0] == "good.toml: 1 steps, 1 checks, 0 claims, every number is there"
    assert "  line 7: no claim decides “One”" in told
    assert "  line 7: no claim decides what is on screen: “shown_panels”" in told
    assert "  line 14: no claim decides the answer of “A?”" in told
    Path("gaps.toml").write_text(LESSON, encoding="utf-8")
    assert typed("lessons", "gaps.toml") == 1
    assert capsys.readouterr().out.count("No model is open") == 1
    Path("bad.toml").write_text(LESSON.replace("minutes", "minuets"), encoding="utf-8")
    assert typed("lessons", "bad.toml") == 1
    refused = "bad.toml, line 3: A lesson has no key 'minuets'; did you mean minutes?\n"
    assert capsys.readouterr().err == refused
    assert typed("lessons", "bad.toml", "bad.toml") == 1
    assert capsys.readouterr().err == 2 * refused


def test_a_sentence_that_its_number_contradicts_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    claim = "claims = [{ says = 'and', holds = 'less(size(main, \"D\"), 100)' }]\n"
    source = LESSON.replace("open", "llama3_8b").replace("tokens(llama3_8b)", "1")
    Path("wrong.toml").write_text(source.replace("[[step.check]]", f"{claim}\n[[step.check]]"), encoding="utf-8")
    assert typed("lessons", "wrong.toml") == 1
    captured = capsys.readouterr()
    assert '“and” is contradicted: less(size(main, "D"), 100) is not so: 4,096, 100.' in captured.out
    assert captured.err.startswith("wrong.toml: 1 of 1 claims do not hold; put the words or the numbers right; ")


def test_a_lesson_with_nothing_left_to_do_passes_and_one_that_nobody_has_read_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lesson = resource("lessons") / "14-drawing-a-token.toml"
    source = lesson.read_text(encoding="utf-8")
    Path("unread.toml").write_text(source.replace("minutes = 13", "minutes = 14"), encoding="utf-8")
    assert typed("lessons", str(lesson)) == 0
    assert capsys.readouterr().err == ""
    assert typed("lessons", "missing.toml", "unread.toml", str(lesson)) == 1
    captured = capsys.readouterr()
    missing, unread = captured.err.splitlines()
    assert "missing.toml" in missing
    assert unread == "unread.toml: not read as it stands: 1; read it, and write the stamps."
    assert captured.out.count("every number is there") == 2


def test_a_changed_step_is_shown_beside_its_claims(capsys: pytest.CaptureFixture[str]) -> None:
    lesson = resource("lessons") / "14-drawing-a-token.toml"
    source = lesson.read_text(encoding="utf-8")
    stamps = re.findall(r'^read = "(\w+)"$', source, re.MULTILINE)
    Path("unread.toml").write_text(source.replace(stamps[1], "00000000", 1), encoding="utf-8")
    assert typed("lessons", "unread.toml") == 1
    _, head, *beside = capsys.readouterr().out.splitlines()
    assert head.endswith(f'writes read = "{stamps[1]}"')
    step = tomllib.loads(source)["step"][0]
    decides = [claim for one in (step, *step.get("check", ())) for claim in one.get("claims", ())]
    assert len(beside) == len(decides) > 0
    for line, claim in zip(beside, decides, strict=True):
        for one in (claim["says"], claim["holds"]):
            assert all(part in line for part in (one if isinstance(one, list) else [one]))
