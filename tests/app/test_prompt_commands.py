"""Chat templates and RoPE scalings on the command line, on a tiny real checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage
from safetensors import safe_open

from ropewalk.app.files.shot import Shot
from ropewalk.model.trace_files.trace_file import load_trace
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


def test_decoding_stops_where_the_text_ends_and_says_so(run: Run, tiny: Path, tmp_path: Path) -> None:
    asked = ("--prompt", "hi", "--steps", 6)
    free = json.loads(run("generate", tiny, *asked, "--json")[1])
    assert free["finish_reason"] == "length"
    at = next(at for at in range(1, 5) if free["ids"][at] not in free["ids"][:at])
    folder = shutil.copytree(tiny, tmp_path / "ending")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": free["ids"][at]}), encoding="utf-8")
    status, out, err = run("generate", folder, *asked, "--json")
    found = json.loads(out)
    assert (status, found["ids"], found["finish_reason"]) == (0, free["ids"][: at + 1], "stop")
    said = f"The text ends after {at + 1} of 6 tokens, with {free['tokens'][at]}; --ignore-eos decodes on.\n"
    assert run("generate", folder, *asked)[2] == said
    status, out, err = run("generate", folder, *asked, "--ignore-eos", "--json")
    assert (json.loads(out)["ids"], json.loads(out)["finish_reason"], err) == (free["ids"], "length", "")
    file = tmp_path / "a.safetensors"
    status, out, err = run("capture", folder, *asked, "--out", file)
    assert (status, err) == (0, said)
    assert f"{3 + at} rows (2 of the prompt)" in out
    assert "8 rows (2 of the prompt)" in run("capture", folder, *asked, "--ignore-eos", "--out", file)[1]


def test_in_a_batch_each_text_ends_on_its_own(run: Run, tiny: Path, tmp_path: Path) -> None:
    free = [json.loads(run("generate", tiny, "--prompt", text, "--steps", 6, "--json")[1]) for text in ("hi", "ab")]
    first, second = (one["ids"] for one in free)
    at = next(at for at in range(5) if first[at] not in first[:at] and first[at] not in second)
    folder = shutil.copytree(tiny, tmp_path / "ending")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": first[at]}), encoding="utf-8")
    (tmp_path / "prompts").write_text("hi\nab\n")
    asked = ("capture", folder, "--prompts", tmp_path / "prompts", "--steps", 6, "--out", tmp_path / "{n}.safetensors")
    status, _, err = run(*asked)
    assert (status, err.splitlines()) == (
        0,
        [f"The text ends after {at + 1} of 6 tokens, with {free[0]['tokens'][at]}; --ignore-eos decodes on."],
    )
    ended, other = (load_trace(tmp_path / f"{n}.safetensors") for n in (0, 1))
    assert ended.trace.ids is not None
    assert other.trace.ids is not None
    assert ended.trace.ids[0, 2:].tolist() == first[: at + 1]
    assert len(ended.about.drawn) == at + 1
    assert other.trace.ids[0, 2:].tolist() == second
    assert run(*asked, "--existing", "replace", "--ignore-eos")[0] == 0
    assert load_trace(tmp_path / "0.safetensors").trace.length == 8


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
