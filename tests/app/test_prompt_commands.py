"""Chat templates and RoPE scalings on the command line, on a tiny real checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage
from safetensors import safe_open

from ropewalk.app.files.shot import Shot
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.shot import take
from ropewalk.views.pictures.snapshot import picture
from tests.app.test_commands import Run, one_sentence, run, shots
from tests.app.tiny_checkpoint import write_chatty

__all__ = ["run", "shots"]

LONG = "abcdefgh" * 10


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint with a chat template."""
    return write_chatty(tmp_path_factory.mktemp("chatty") / "chatty")


def test_generate_puts_the_prompt_into_the_template(run: Run, chatty: Path) -> None:
    status, out, err = run(
        "generate", chatty, "--prompt", "hi", "--steps", 2, "--chat", "--system", "be brief", "--json"
    )
    assert (status, err) == (0, "")
    record = json.loads(out)
    assert record["rendered"] == "<s><|system|>be brief<|user|>hi<|end|>"
    assert record["prompt"] == "hi"
    assert record["prompt_ids"][0] == 0
    assert record["prompt_ids"].count(0) == 1
    assert len(record["ids"]) == 2
    status, out, _ = run("generate", chatty, "--prompt", "hi", "--steps", 2, "--json")
    assert json.loads(out)["rendered"] == ""


def test_info_says_whether_there_is_a_template(run: Run, chatty: Path, tiny: Path) -> None:
    assert "chat template  default\n" in run("info", chatty)[1]
    assert "chat template  none\n" in run("info", tiny)[1]
    assert json.loads(run("info", chatty, "--json")[1])["chat_templates"] == ["default"]


@pytest.mark.parametrize("command", ["generate", "heads"])
def test_a_template_that_is_not_there_is_a_sentence(run: Run, tiny: Path, command: str) -> None:
    steps = ("--steps", 1) if command == "generate" else ()
    status, out, err = run(command, tiny, "--prompt", "hi", *steps, "--chat")
    assert (status, out) == (1, "")
    assert one_sentence(err)
    assert "tiny has no chat template" in err
    status, _, err = run(command, tiny, "--prompt", "hi", *steps, "--system", "x")
    assert status == 1
    assert "add --chat" in err


def test_a_prompt_that_is_too_long_is_refused_unless_rope_is_stretched(run: Run, chatty: Path, tmp_path: Path) -> None:
    out_file = tmp_path / "a.safetensors"
    status, _, err = run("capture", chatty, "--prompt", LONG, "--out", out_file)
    assert status == 1
    assert one_sentence(err)
    assert "81 tokens" in err
    assert err.endswith("make it 17 shorter, or add --rope-scaling yarn.\n")
    status, out, err = run(
        "capture", chatty, "--prompt", LONG, "--steps", 3, "--rope-scaling", "yarn", "--out", out_file
    )
    assert (status, err) == (0, "")
    assert "84 rows (81 of the prompt)" in out
    with safe_open(out_file, framework="pt") as file:
        specs = json.loads(file.metadata()["specs"])
    assert [spec["experiments"] for spec in specs] == [["RoPE YaRN × 1.5"]] * 2


@pytest.mark.parametrize(
    ("asked", "label"), [("linear", "RoPE linear × 1.5"), ("NTK", "RoPE NTK × 1.5"), ("llama3:4", "RoPE llama3 × 4")]
)
def test_the_factor_is_the_one_that_is_needed_or_the_one_that_is_given(
    run: Run, chatty: Path, asked: str, label: str
) -> None:
    status, out, err = run("generate", chatty, "--prompt", LONG, "--steps", 1, "--rope-scaling", asked, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["experiments"] == [label]


def test_what_fits_is_not_stretched_without_a_factor(run: Run, chatty: Path) -> None:
    status, out, err = run("generate", chatty, "--prompt", "hi", "--steps", 1, "--rope-scaling", "yarn", "--json")
    assert status == 0
    assert json.loads(out)["experiments"] == []
    assert err == "4 tokens fit the model's 64 positions, so nothing is stretched.\n"
    status, out, _ = run("generate", chatty, "--prompt", "hi", "--steps", 1, "--rope-scaling", "yarn:2", "--json")
    assert json.loads(out)["experiments"] == ["RoPE YaRN × 2"]


def test_random_tokens_may_go_past_the_limit_too(run: Run, chatty: Path) -> None:
    status, _, err = run("heads", chatty, "--repeat", 40, "--json")
    assert status == 1
    assert "80 tokens" in err
    status, out, _ = run("heads", chatty, "--repeat", 40, "--rope-scaling", "linear", "--json")
    assert status == 0
    assert len(json.loads(out)["checkpoints"][0]["prompts"][0]["ids"]) == 80


@pytest.mark.parametrize("asked", ["alibi", "yarn:", "yarn:0.5", "yarn:nan", "yarn:x", ""])
def test_a_scaling_that_is_none_is_wrong_usage(run: Run, chatty: Path, asked: str) -> None:
    status, _, err = run("generate", chatty, "--prompt", "a", "--steps", 1, f"--rope-scaling={asked}")
    assert status == 2
    assert "--rope-scaling" in err


def test_too_small_a_factor_is_refused_by_the_engine(run: Run, chatty: Path) -> None:
    status, _, err = run("generate", chatty, "--prompt", LONG, "--steps", 1, "--rope-scaling", "yarn:1.1")
    assert status == 1
    assert "end after 70" in err


def test_a_picture_is_asked_for_with_both(run: Run, shots: list[Shot], chatty: Path, tmp_path: Path) -> None:
    status, _, _ = run(
        "snapshot", tmp_path / "a.png", chatty, "--prompt", LONG, "--chat", "--rope-scaling", "ntk:3", "--system", "x"
    )
    assert status == 0
    assert (shots[0].chat, shots[0].system, shots[0].scaling) == (True, "x", ("dynamic", 3.0))


def test_a_picture_shows_the_prompt_as_it_was_meant(
    qapp: object, chatty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, str, bool]] = []

    def looked_at(window: MainWindow, size: QSize, panel: str | None) -> QImage:
        run, status = window.session.run, window.status
        assert run is not None
        seen.append((run.rendered, run.length, status.changes.chips[0].text(), window.bar.chat.isChecked()))
        return picture(window, size, panel)

    monkeypatch.setattr("ropewalk.views.pictures.shot.picture", looked_at)
    out = tmp_path / "a.png"
    take(Shot(out, str(chatty), prompt=LONG, width=1280, height=800, chat=True, scaling=("yarn", None), steps=2))
    assert seen == [(f"<s><|user|>{LONG}<|end|>", 85, "RoPE YaRN × 1.5  ×", True)]
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
