"""The engine's command on the command line: with a window, with commands that draw one, and with those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.__main__ import main
from ropewalk.app.commands.line import run_command
from ropewalk.app.commands.typed import absent_file, drawn_instead, names_file, split_engine
from ropewalk.app.files.shot import Shot
from ropewalk.app.models.folders import adapter_folder
from ropewalk.app.survey_folders import holds_surveys


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([], (None, [])),
        (["--engine", "ssh gpu1 ropewalk engine"], ("ssh gpu1 ropewalk engine", [])),
        (["--engine", "", "work.ropewalk"], ("", ["work.ropewalk"])),
        (["work.ropewalk", "--engine=ssh gpu1"], ("ssh gpu1", ["work.ropewalk"])),
        (["snapshot", "--engine", "ssh gpu1", "a.png"], ("ssh gpu1", ["snapshot", "a.png"])),
        (["--engine"], (None, ["--engine"])),
        (["--engineer", "x"], (None, ["--engineer", "x"])),
    ],
)
def test_the_engine_is_taken_out_of_what_was_typed(typed: list[str], expected: tuple[str | None, list[str]]) -> None:
    assert split_engine(typed) == expected


def test_a_survey_s_folder_opens_the_window_and_never_takes_the_place_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("survey", "runs/step-1"):
        (tmp_path / name / "shards").mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text("{}")
    for typed in (["survey"], ["runs/step-1"], ["runs"]):
        assert names_file(typed)
        assert absent_file(typed) == ""
        assert drawn_instead(typed, "a.png") == ["snapshot", "a.png", "--workspace", "survey", "--survey", *typed]
    assert not names_file(["survey", "--texts", "corpus.txt", "--out", "survey"])
    assert not names_file(["no such folder"])


@pytest.mark.parametrize("path", ["a" * 5000, "a/" * 3000 + "a", "a\0b"])
def test_a_path_that_no_system_has_names_nothing(path: str) -> None:
    sentence = absent_file([f"{path}.ropewalk"])
    assert sentence.startswith("There is no session a")
    assert len(sentence) < 300
    assert not holds_surveys(path)
    assert adapter_folder(path) == ""


def test_a_picture_is_asked_of_an_engine_by_its_command() -> None:
    shots: list[Shot] = []
    assert run_command(["snapshot", "never.png", "/models/smol", "--engine", "ssh gpu1"], shots.append) == 0
    assert run_command(["export", "never.csv"], shots.append) == 0
    assert [(shot.path, shot.engine) for shot in shots] == [("/models/smol", "ssh gpu1"), (None, "")]


@pytest.mark.parametrize("typed", [["info", "--engine", "ssh gpu1"], ["--engine"]])
def test_an_engine_that_nothing_would_use_is_refused(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(typed, lambda shot: None) == 2
    assert "--engine" in capsys.readouterr().err


def test_a_command_that_computes_here_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["info", "--engine", "ssh gpu1"], lambda shot: None) == 2
    said = "info computes where it is typed; --engine is for the window, snapshot and export."
    assert said in capsys.readouterr().err


def test_the_engine_is_a_command_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help"], lambda shot: None) == 0
    assert "serve a window over stdin and stdout; see --engine" in " ".join(capsys.readouterr().out.split())
    assert run_command(["engine", "--help"], lambda shot: None) == 0
    assert "usage: ropewalk engine" in capsys.readouterr().out


def test_an_engine_in_a_terminal_says_what_it_is_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["engine"]) == 2
    assert capsys.readouterr().err == "This serves a window; see ropewalk --engine.\n"
