"""The command line from what is typed to what is printed, on a tiny real checkpoint."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open

import ropewalk
from ropewalk.app.commands.line import run_command
from ropewalk.app.commands.output import finished, plain
from ropewalk.app.files.shot import Shot
from ropewalk.model.errors import Cancelled
from ropewalk.model.progress import Progress
from ropewalk.model.readings import patterns
from tests.app.tiny_checkpoint import write_chatty

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shots() -> list[Shot]:
    """The pictures that were asked for."""
    return []


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], shots: list[Shot]) -> Run:
    """Run a command; returns its exit status, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = run_command([str(argument) for argument in arguments], shots.append)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def one_sentence(err: str) -> bool:
    return err.count("\n") == 1 and err.rstrip().endswith(".")


# info, ledger ---------------------------------------------------------------------------------------------------------


def test_info_as_text(run: Run, tiny: Path) -> None:
    status, out, err = run("info", tiny)
    assert (status, err) == (0, "")
    assert "4 query, 2 kv, 8 wide" in out
    assert "base 10000, half pairs" in out


def test_info_as_json(run: Run, tiny: Path) -> None:
    status, out, _ = run("info", tiny, "--json", "--dtype", "bfloat16")
    data = json.loads(out)
    assert status == 0
    assert data["weight_bytes"] == 2 * data["parameters"]
    assert data["kv_bytes_per_token"] == 2 * 2 * 2 * 8 * 2  # 2 · L · Hkv · Dh · 2 bytes
    assert data["config"]["kv_heads"] == 2
    assert data["parameters_by_part"]["embedding"] == 256 * 32


def test_the_first_layers_can_be_opened_alone(run: Run, tiny: Path) -> None:
    whole = json.loads(run("info", tiny, "--json")[1])
    first = json.loads(run("info", tiny, "--json", "--layers", 1)[1])
    assert (whole["config"]["layers"], first["config"]["layers"]) == (2, 1)
    assert first["kv_bytes_per_token"] * 2 == whole["kv_bytes_per_token"]
    assert "1 of 2 layers" in first["name"]
    status, _, err = run("info", tiny, "--layers", 3)
    assert (status, err.strip()) == (1, "The first 3 layers were asked for, but the model has 2.")


def test_ledger_as_text_and_json(run: Run, tiny: Path) -> None:
    status, out, _ = run("ledger", tiny, "--tokens", 5, "--past", 7, "--batch", 2, "--layer", 1)
    assert status == 0
    assert "B 2, T 5, P 7, S 12" in out
    assert "2×4×5×12" in out
    status, out, _ = run("ledger", tiny, "--tokens", 5, "--past", 7, "--batch", 2, "--json")
    data = json.loads(out)
    assert (data["tokens"], data["past"], data["batch"]) == (5, 7, 2)
    assert [2, 4, 5, 12] in [entry["shape"] for entry in data["entries"]]


def test_ledger_beyond_the_model_is_a_sentence(run: Run, tiny: Path) -> None:
    for arguments in (["--layer", 2], ["--tokens", 65]):
        status, out, err = run("ledger", tiny, *arguments)
        assert (status, out) == (1, "")
        assert one_sentence(err)


# capture, generate, heads ---------------------------------------------------------------------------------------------


def test_capture_writes_what_was_run(run: Run, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.safetensors"
    status, printed, _ = run("capture", tiny, "--prompt", "abcabc", "--steps", 2, "--pattern", "--out", out)
    assert status == 0
    assert "8 rows (6 of the prompt)" in printed
    with safe_open(str(out), framework="np") as file:
        names = set(file.keys())
        assert file.get_tensor("blocks.1.attn.hook_rot_q").shape == (1, 4, 8, 8)
        assert file.get_tensor("blocks.1.attn.hook_v").shape == (1, 2, 8, 8)
        assert file.get_tensor("blocks.0.attn.lse").shape == (1, 4, 8)
        assert file.get_tensor("blocks.0.attn.hook_pattern").shape == (1, 4, 8, 8)
        assert file.get_tensor("logits").shape == (1, 8, 256)
    assert {"blocks.0.attn.hook_q", "blocks.0.attn.hook_k", "blocks.0.attn.hook_attn_scores", "tokens"} <= names


def test_capture_of_ids_with_the_last_logits(run: Run, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.safetensors"
    assert run("capture", tiny, "--ids", "1,2,3", "--logits", "last", "--out", out)[0] == 0
    with safe_open(str(out), framework="np") as file:
        assert file.get_tensor("tokens").tolist() == [[1, 2, 3]]
        assert file.get_tensor("logits").shape == (1, 1, 256)
        assert "blocks.0.attn.hook_pattern" not in set(file.keys())


def test_capture_to_nowhere_is_refused_before_anything_is_computed(run: Run, tmp_path: Path) -> None:
    for out in (tmp_path / "missing" / "run.safetensors", tmp_path):
        status, _, err = run("capture", "/no/checkpoint", "--ids", "1", "--out", out)
        assert status == 1
        assert str(out) in err
        assert one_sentence(err)


def test_generate_continues_and_the_seed_decides(run: Run, tiny: Path) -> None:
    def generated(*more: object) -> dict[str, Any]:
        status, out, _ = run("generate", tiny, "--prompt", "abc", "--steps", 6, "--json", *more)
        assert status == 0
        data: dict[str, Any] = json.loads(out)
        return data

    greedy = generated()
    assert len(greedy["ids"]) == 6
    assert greedy["ids"] == generated()["ids"]
    drawn = generated("--temperature", 2, "--top-k", 50, "--top-p", 0.9, "--seed", 1)
    assert drawn["ids"] == generated("--temperature", 2, "--top-k", 50, "--top-p", 0.9, "--seed", 1)["ids"]
    assert drawn["ids"] != generated("--temperature", 2, "--top-k", 50, "--top-p", 0.9, "--seed", 2)["ids"]
    status, out, _ = run("generate", tiny, "--prompt", "abc", "--steps", 2)
    assert status == 0
    assert out.startswith("abc")


@pytest.mark.parametrize(
    "bad", [["--temperature", "-1"], ["--top-k", "-2"], ["--top-p", "0"], ["--seed", "-1"], ["--temperature", "nan"]]
)
def test_generate_refuses_bad_sampling(run: Run, tiny: Path, bad: list[str]) -> None:
    status, _, err = run("generate", tiny, "--prompt", "abc", "--steps", 1, *bad)
    assert status == 1
    assert one_sentence(err)


def heads_of(run: Run, *typed: object) -> dict[str, Any]:
    status, out, err = run("heads", *typed, "--json")
    assert (status, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    return data


def values_of(data: dict[str, Any], score: str, checkpoint: int = 0) -> NDArray[np.float64]:
    """[L, H] of a tiny checkpoint."""
    name = data["checkpoints"][checkpoint]["name"]
    found = np.full((2, 4), np.nan)
    for row in data["rows"]:
        if (row["checkpoint"], row["score"]) == (name, score):
            found[row["layer"], row["head"]] = row["value"]
    return found


def test_heads_of_a_repeat_have_an_induction_score(run: Run, tiny: Path) -> None:
    data = heads_of(run, tiny, "--repeat", 12, "--seed", 3)
    (about,) = data["checkpoints"]
    (prompt,) = about["prompts"]
    assert prompt["seed"] == 3
    assert prompt["ids"] == patterns.repeated_ids(12, 256, 3)
    expected, _ = patterns.head_scores(ropewalk.open(tiny).capture(prompt["ids"]).trace)
    assert set(about["formulas"]) == set(expected) == set(patterns.STATISTICS)
    for name, values in expected.items():
        assert values_of(data, name) == pytest.approx(values, abs=1e-6)
    best = about["best"]["induction"]
    assert expected["induction"][int(best["head"][1]), int(best["head"][3])] == pytest.approx(best["value"], abs=1e-6)
    assert heads_of(run, tiny, "--repeat", 12, "--seed", 3) == data
    assert heads_of(run, tiny, "--repeat", 12, "--seed", 4)["rows"] != data["rows"]


def test_heads_over_seeds_have_a_mean_and_a_standard_deviation(run: Run, tiny: Path) -> None:
    each = [values_of(heads_of(run, tiny, "--repeat", 12, "--seed", seed), "induction") for seed in (3, 4, 5)]
    typed = ["--repeat", 12, "--seed", 3, "--seeds", 3, "--score", "induction"]
    data = heads_of(run, tiny, *typed)
    assert [prompt["seed"] for prompt in data["checkpoints"][0]["prompts"]] == [3, 4, 5]
    assert values_of(data, "induction") == pytest.approx(np.mean(each, 0))
    assert {row["score"] for row in data["rows"]} == {"induction"}
    spread = np.std(each, 0, ddof=1)
    for row in data["rows"]:
        assert row["deviation"] == pytest.approx(spread[row["layer"], row["head"]])
    assert f"{np.mean(each, 0)[1, 3]:.3f} ± {spread[1, 3]:.3f}" in run("heads", tiny, *typed)[1]


def test_heads_as_csv_and_of_several_checkpoints_side_by_side(run: Run, tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    typed = [tiny, other, "--repeat", 6, "--score", "induction,duplicate"]
    status, out, _ = run("heads", *typed, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert len(rows) == 2 * 2 * 8
    assert list(rows[0]) == ["checkpoint", "layer", "head", "score", "value", "deviation"]
    assert {row["checkpoint"] for row in rows} == {"tiny", "other"}
    assert rows[0]["deviation"] == ""
    data = heads_of(run, *typed)
    assert float(rows[0]["value"]) == data["rows"][0]["value"]
    assert values_of(data, "duplicate", 0) == pytest.approx(values_of(data, "duplicate", 1))
    columns = run("heads", *typed)[1].splitlines()[0].split("  ")
    assert columns[-4:] == [f"{score} {name}" for score in ("induction", "duplicate") for name in ("tiny", "other")]
    same = heads_of(run, tiny, tiny, "--repeat", 6)
    assert [one["name"] for one in same["checkpoints"]] == [str(tiny), str(tiny)]


def test_heads_of_a_file_of_prompts(run: Run, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text('abcabc\n\n{"ids": [5, 6, 5, 6]}\n')
    data = heads_of(run, tiny, "--prompts", file)
    ids = [prompt["ids"] for prompt in data["checkpoints"][0]["prompts"]]
    assert ids[1] == [5, 6, 5, 6]
    model = ropewalk.open(tiny)
    of_each = [patterns.head_scores(model.capture(one).trace)[0]["previous"] for one in ids]
    assert values_of(data, "previous") == pytest.approx(np.mean(of_each, 0), abs=1e-6)
    file.write_text('{"ids": [5], "text": "a"}')
    status, _, err = run("heads", tiny, "--prompts", file)
    assert status == 1
    assert err.startswith(f"Line 1 of {file} cannot be run: ")
    assert one_sentence(err)


def test_heads_after_the_token_that_begins_a_text(run: Run, tmp_path: Path) -> None:
    begins = write_chatty(tmp_path / "begins")
    data = heads_of(run, begins, "--repeat", 5, "--bos")
    (prompt,) = data["checkpoints"][0]["prompts"]
    assert prompt["ids"] == [0, *patterns.repeated_ids(5, 256, 0)]
    assert not np.isnan(values_of(data, "induction")).any()
    (begins / "tokenizer.json").unlink()
    status, _, err = run("heads", begins, "--repeat", 5, "--bos")
    assert (status, err) == (1, "begins names no token that begins a text; leave --bos out.\n")
    for typed in (["--bos"], ["--seeds", 2]):
        status, _, err = run("heads", begins, "--prompt", "a", *typed)
        assert status == 2
        assert f"{typed[0]} goes with --repeat" in err


def test_heads_by_a_score_of_ones_own(run: Run, tiny: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import torch\n"
        "def sharpest(trace):\n    return torch.stack([layer.weights().amax(-1).mean(-1) for layer in trace])\n"
        "def one(trace):\n    return [1.0]\n"
        "def broken(trace):\n    return trace.nothing\n"
        "def ends(trace):\n    raise SystemExit(3)\n"
        "def imaginary(trace):\n    return torch.ones(2, 4, dtype=torch.complex64)\n"
        "def learnt(trace):\n    return torch.full((2, 4), 0.5, requires_grad=True)\n"
        "def nothing(trace):\n    return torch.full((2, 4), float('nan'))\n"
    )
    data = heads_of(run, tiny, "--repeat", 6, "--score", f"{mine}:sharpest", "--score", "previous")
    assert {row["score"] for row in data["rows"]} == {"sharpest", "previous"}
    run_of = ropewalk.open(tiny).capture(data["checkpoints"][0]["prompts"][0]["ids"])
    assert values_of(data, "sharpest") == pytest.approx(run_of.patterns()[0].amax(-1).mean(-1).numpy(), abs=1e-6)
    for name, said in (
        ("one", "returned shape (1,), but a number for each of 2 layers of 4 heads is wanted."),
        ("broken", "failed: AttributeError: 'Trace' object has no attribute 'nothing'."),
        ("ends", "failed: SystemExit: 3."),
        ("imaginary", "failed: TypeError: it returned complex numbers."),
        ("nobody", "has no function nobody."),
    ):
        status, _, err = run("heads", tiny, "--repeat", 6, "--score", f"{mine}:{name}")
        assert status == 1
        assert err.rstrip().endswith(said)
        assert one_sentence(err)
    assert (values_of(heads_of(run, tiny, "--repeat", 6, "--score", f"{mine}:learnt"), "learnt") == 0.5).all()
    nothing = heads_of(run, tiny, "--repeat", 6, "--score", f"{mine}:nothing")
    assert (nothing["rows"], nothing["checkpoints"][0]["undefined"]["nothing"]) == ([], "is no number for any head")
    mine.write_text("import nothing_here\n")
    status, _, err = run("heads", tiny, "--repeat", 6, "--score", f"{mine}:one")
    assert (status, err) == (1, f"{mine} cannot be run: ModuleNotFoundError: No module named 'nothing_here'.\n")
    status, _, err = run("heads", tiny, "--repeat", 6, "--score", "sharp")
    assert status == 1
    assert "There is no head statistic 'sharp'; there are previous" in err
    for wrong in (f"{tmp_path / 'no.py'}:one", f"{mine}:1x", " , "):
        assert run("heads", tiny, "--repeat", 6, "--score", wrong)[0] == 2


def test_a_prompt_may_come_from_a_file_or_from_standard_input(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes("häb\n@b\r\n".encode())

    def prompt_of(typed: str) -> str:
        status, out, err = run("generate", tiny, "--prompt", typed, "--steps", 1, "--json")
        assert (status, err) == (0, "")
        prompt: str = json.loads(out)["prompt"]
        return prompt

    assert prompt_of(f"@{file}") == "häb\n@b"
    assert prompt_of("@@me") == "@me"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe\n"), encoding="utf-8"))
    assert prompt_of("-") == "from a pipe"
    ids = [heads_of(run, tiny, "--prompt", typed)["checkpoints"][0]["prompts"] for typed in (f"@{file}", "häb\n@b")]
    assert ids[0] == ids[1]
    file.write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr("sys.stdin", None)
    for typed, said in (
        (f"@{file}", f"{file} is not text in UTF-8"),
        (f"@{tmp_path / 'no'}", f"{tmp_path / 'no'} cannot be read (No such file or directory); a text that begins"),
        (f"@{tmp_path}", f"{tmp_path} cannot be read (Is a directory)"),
        ("-", "standard input cannot be read (it is closed)"),
        ("@", "@ names no file"),
    ):
        status, out, err = run("generate", tiny, "--prompt", typed, "--steps", 1)
        assert (status, out) == (2, "")
        assert f"argument --prompt: {said}" in err
    monkeypatch.setattr("ropewalk.app.commands.prompting.LARGEST", 2)  # of what never ends no more is read
    assert f"{file} cannot be read (it has more than 2 bytes)" in run("generate", tiny, "--prompt", f"@{file}")[2]
    assert "/dev/zero cannot be read (it is a device or a pipe" in run("generate", tiny, "--prompt", "@/dev/zero")[2]


def test_a_picture_takes_a_prompt_from_a_file(run: Run, shots: list[Shot], tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("hello\n")
    for command in ("snapshot", "export"):
        assert run(command, tmp_path / "a.png", "--prompt", f"@{file}")[0] == 0
    assert [shot.prompt for shot in shots] == ["hello", "hello"]


def test_heads_of_a_prompt_say_what_is_not_defined(run: Run, tiny: Path) -> None:
    status, out, _ = run("heads", tiny, "--prompt", "abcd")
    assert status == 0
    assert "L1H3" in out
    assert "induction: not defined" in out


# snapshot -------------------------------------------------------------------------------------------------------------


def test_snapshot_hands_over_everything_it_was_told(run: Run, shots: list[Shot], tmp_path: Path) -> None:
    out = tmp_path / "window.png"
    typed = f"snapshot {out} PATH --prompt hello --size 1280x800 --theme light --projector --steps 3 --panel heads"
    status, printed, _ = run(*typed.split(), "--select", "L1H3 q=4 k=2", "--device", "cuda", "--dtype", "float16")
    assert status == 0
    assert printed.strip() == str(out)
    select = (("layer", 1), ("head", 3), ("query", 4), ("key", 2))
    assert shots == [Shot(out, "PATH", "cuda", "float16", "hello", 1280, 800, "light", True, select, 3, "heads")]


def test_snapshot_of_the_bundled_model_by_default(run: Run, shots: list[Shot], tmp_path: Path) -> None:
    assert run("snapshot", tmp_path / "a.png")[0] == 0
    assert shots == [Shot(tmp_path / "a.png")]


# train ----------------------------------------------------------------------------------------------------------------

SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--kv-heads", "1", "--vocabulary", "300", "--context", "256"]


def test_train_makes_a_checkpoint_that_can_be_graded(run: Run, tmp_path: Path) -> None:
    text, out = tmp_path / "words.txt", tmp_path / "made"
    text.write_text("".join(f"{number} {number * number} and so on\n" for number in range(4000)), encoding="utf-8")
    status, printed, err = run("train", "--text", text, "--out", out, "--steps", 2, *SMALL)
    assert status == 0, err
    assert printed.rstrip().endswith(str(out))
    status, printed, _ = run("train", "--grade", out, "--text", text, "--json")
    assert status == 0
    assert {"name", "found", "limit", "holds"} <= set(json.loads(printed)["bars"][0])
    assert run("info", out, "--json")[0] == 0
    assert run("train", "--text", text, "--out", out)[0] == 1


def test_ctrl_c_lets_training_save_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def training(*_: object) -> Generator[Progress, None, None]:
        try:
            while True:
                yield Progress(1, 2, "Training")
                signal.raise_signal(signal.SIGINT)
        except GeneratorExit:
            ended.append("saved")
            raise

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("ropewalk.model.engine.engine.train", training)
    assert run("train", "--text", "a", "--out", "b") == (130, "", "Cancelled.\n")
    assert ended == ["saved"]
    assert signal.getsignal(signal.SIGINT) is before


# what goes wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed",
    [
        "nonsense",
        "ledger --tokens 0",
        "ledger --past -1",
        "capture --out x",
        "capture --prompt a --ids 1 --out x",
        "capture --ids 1,b --out x",
        "generate --prompt a",
        "heads",
        "snapshot",
        "snapshot a.jpg",
        "snapshot png",
        "snapshot a.png --size big",
        "snapshot a.png --size 10x10",
        "snapshot a.png --select Q9",
        "snapshot a.png --panel nothing",
        "snapshot a.png --theme pink",
        "heads --repeat 4 --seed 9223372036854775808",
    ],
)
def test_wrong_usage_is_2(run: Run, typed: str) -> None:
    status, out, err = run(*typed.split())
    assert (status, out) == (2, "")
    assert "usage: ropewalk" in err


def test_help_is_0(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    for name in ("FILE.ropewalk", "info", "ledger", "capture", "generate", "heads", "snapshot", "train"):
        assert name in out


@pytest.mark.parametrize(
    "typed",
    [
        ["info", "/nothing-here"],
        ["info", "TINY", "--device", "warp"],
        ["info", "TINY", "--dtype", "float7"],
        ["heads", "TINY", "--prompt", ""],
        ["heads", "TINY", "--repeat", "40"],
        ["generate", "TINY", "--prompt", "a", "--steps", "99"],
        ["generate", "TINY", "--prompt", "\ud800", "--steps", "1"],
        ["heads", "TINY", "--repeat", "9223372036854775807"],
        ["capture", "TINY", "--ids", "999", "--out", "x"],
        ["capture", "TINY", "--ids=-1", "--out", "x"],
        ["capture", "TINY", "--ids", "9" * 30, "--out", "x"],
        ["capture", "TINY", "--ids", "1", "--out", "a\0b"],
        ["train", "--text", "/nothing-here", "--out", "x"],
        ["train", "--text", "/nothing-here", "--out", "x", "--device", "cuda"],
    ],
)
def test_an_error_is_one_sentence_and_1(
    run: Run, tiny: Path, typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*(str(tiny) if word == "TINY" else word for word in typed))
    assert (status, out) == (1, "")
    assert one_sentence(err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Cancelled()])
def test_ctrl_c_says_so_and_is_130(run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def interrupted(*_: object, **__: object) -> Generator[Progress, None, None]:
        yield Progress(0, 1, "Reading")
        raise error

    monkeypatch.setattr("ropewalk.model.engine.engine.open_model", interrupted)
    assert run("heads", "--repeat", 2) == (130, "", "Cancelled.\n")


def test_a_full_disk_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/big")

    monkeypatch.setattr("ropewalk.model.checkpoints.outline_checkpoint", full)
    status, _, err = run("info")
    assert (status, err) == (1, "No space left on device: /big could not be used.\n")


def test_what_nobody_foresaw_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the tensor is on fire\nframe #0: main")

    monkeypatch.setattr("ropewalk.model.checkpoints.outline_checkpoint", broken)
    assert run("info") == (1, "", "Something unforeseen went wrong: the tensor is on fire (RuntimeError).\n")


@pytest.mark.parametrize(
    "typed", ["capture --prompt a --out x", "generate --prompt a --steps 1", "heads --prompt a", "heads --repeat 3"]
)
def test_a_model_without_weights_is_not_run(run: Run, tiny: Path, tmp_path: Path, typed: str) -> None:
    """Its shapes are still told."""
    folder = tmp_path / "shapes"
    folder.mkdir()
    (folder / "config.json").write_bytes((tiny / "config.json").read_bytes())
    command, *options = typed.split()
    status, out, err = run(command, folder, *options)
    assert (status, out) == (1, "")
    assert one_sentence(err)
    assert err.startswith("shapes holds no weights")
    assert run("info", folder)[0] == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")
def test_a_device_keeps_its_place(run: Run, tiny: Path, tmp_path: Path) -> None:
    """Whoever is root and writes to /dev/null must not lose it; a pipe in the folder stands for a device."""
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    for typed in (["capture", tiny, "--prompt", "a", "--out", pipe], ["snapshot", pipe, tiny]):
        assert run(*typed) == (1, "", f"{pipe} cannot be written: it is a device or a pipe, not a file.\n")
    assert pipe.is_fifo()


def test_a_stream_without_unicode_shows_escapes(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    assert run_command(["heads", str(tiny), "--prompt", "abab"], lambda shot: None) == 0
    assert b"over q \\u2265 1 of" in narrow.buffer.getvalue()


@pytest.mark.slow
def test_a_closed_stream_is_no_error(tiny: Path) -> None:
    """As under pythonw, or after ``>&-``: both while everything is imported, and either."""
    program = (
        "import sys; out, err = sys.stdout, sys.stderr; sys.stdout = sys.stderr = None\n"
        "from ropewalk.__main__ import main\n"
        f"statuses = [main(['info', {str(tiny)!r}])]\n"
        f"sys.stderr = err; statuses.append(main(['info', {str(tiny)!r}]))\n"
        f"sys.stdout, sys.stderr = out, None; statuses.append(main(['info', {str(tiny)!r}]))\n"
        "print(statuses)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("4 query, 2 kv") == 1
    assert ended.stdout.endswith("[0, 0, 0]\n")


def test_progress_is_one_line_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> Generator[Progress, None, int]:
        for done in range(3):
            yield Progress(done, 3, "Working")
        return 5

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert finished(work()) == 5
    err = capsys.readouterr().err
    assert "[########................] 1/3 Working" in err
    assert err.endswith("\r\x1b[K")
    assert "\n" not in err


def test_no_number_that_json_lacks() -> None:
    assert plain({"a": [float("nan"), (1.5, float("inf"))], "b": "x"}) == {"a": [None, [1.5, None]], "b": "x"}
