"""Trace files on the command line: in the place of a checkpoint, gone on with, and made of many prompts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import ropewalk
from ropewalk.app.files.shot import Shot
from ropewalk.model.engine import engine, running
from ropewalk.model.progress import Steps
from ropewalk.model.runs.trace import Trace
from ropewalk.model.trace_files import trace_file
from ropewalk.model.trace_files.trace_file import load_trace
from tests.app.test_commands import Run, one_sentence, run, shots
from tests.app.tiny_adapter import write_adapter
from tests.app.tiny_checkpoint import write_chatty

__all__ = ["run", "shots"]


@pytest.fixture
def trace(run: Run, tiny: Path, tmp_path: Path) -> Path:
    """A run of the tiny checkpoint, decoded for two steps."""
    path = tmp_path / "run.safetensors"
    assert run("capture", tiny, "--prompt", "abcabc", "--steps", 2, "--out", path)[0] == 0
    return path


# ----------------------------------------------------------------------------------------------------------------------
# In the place of a checkpoint


def test_info_says_what_a_trace_is(run: Run, trace: Path, tiny: Path) -> None:
    status, out, err = run("info", trace)
    assert (status, err) == (0, "")
    for said in (
        "8 rows, 6 of the prompt",
        f"tiny {tiny}",
        "weights        none\n",
        "tokenizer      none\n",
        "prompt         abcabc",
        "run.safetensors is a trace of 8 tokens",
    ):
        assert said in out
    told = json.loads(run("info", trace, "--json")[1])["trace"]
    assert (told["rows"], told["prompt_rows"], told["logit_rows"], told["experiments"]) == (8, 6, 8, [])
    assert (told["prompt"]["text"], told["checkpoint"]["name"]) == ("abcabc", "tiny")
    assert len(told["checkpoint"]["fingerprint"]) == 64


def test_a_trace_says_what_multiplied_and_takes_nothing_else(run: Run, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    assert run("capture", tiny, "--prompt", "ab", "--products", "onednn", "--out", path)[0] == 0
    assert "products       onednn\n" in run("info", path)[1]
    assert json.loads(run("info", path, "--json")[1])["products"] == "onednn"
    assert run("heads", path, "--products", "numpy")[2] == (
        f"{path} is a trace, a run without weights; leave --products out.\n"
    )


def test_what_a_trace_says_moves_no_cursor(run: Run, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    assert run("capture", tiny, "--prompt", "a\x1b[2J\nb", "--out", path)[0] == 0
    out = run("info", path)[1]
    assert "prompt         a\\x1b[2J\\nb\n" in out
    assert "\x1b" not in out


def test_heads_of_a_trace_are_those_of_its_run(run: Run, trace: Path, tiny: Path, tmp_path: Path) -> None:
    found = json.loads(run("heads", trace, "--json")[1])
    ids = ",".join(str(token) for token in ids_of(trace))
    assert run("capture", tiny, "--ids", ids, "--out", tmp_path / "same.safetensors")[0] == 0
    same = json.loads(run("heads", tmp_path / "same.safetensors", "--json")[1])
    assert [one["checkpoints"][0]["prompts"] for one in (found, same)] == [[{"seed": None, "ids": ids_of(trace)}]] * 2
    assert len(ids_of(trace)) == 8
    for ours, theirs in zip(found["rows"], same["rows"], strict=True):
        assert ours.pop("value") == pytest.approx(theirs.pop("value"), abs=1e-5)
        assert ours == theirs


def test_the_ledger_of_a_trace_is_that_of_its_model(run: Run, trace: Path, tiny: Path) -> None:
    assert run("ledger", trace, "--json") == run("ledger", tiny, "--json")


def test_a_picture_of_a_trace_is_asked_for_like_any(run: Run, trace: Path, tmp_path: Path, shots: list[Shot]) -> None:
    assert run("snapshot", tmp_path / "out.png", trace, "--checkpoint", "smol", "--other-weights")[0] == 0
    assert (shots[0].path, shots[0].checkpoint, shots[0].other_weights) == (str(trace), "smol", True)


@pytest.mark.parametrize("typed", [
    ["heads", "--prompt", "abc"],
    ["heads", "--repeat", "8"],
    ["heads", "--layers", "1"],
    ["heads", "--ignore", "mine"],
    ["info", "--family", "llama"],
    ["ledger", "--layers", "1"],
    ["generate", "--prompt", "abc", "--steps", "1"],
    ["capture", "--ids", "1,2", "--out", "x.safetensors"],
    ["capture", "--chat", "--out", "x.safetensors"],
])  # fmt: skip
def test_a_trace_says_itself_what_was_run(run: Run, trace: Path, typed: list[str]) -> None:
    status, out, err = run(typed[0], trace, *typed[1:])
    assert (status, out) == (1, "")
    assert one_sentence(err)
    assert f"leave {typed[1]} out" in err


@pytest.mark.parametrize("typed", [["generate", "--steps", "1"], ["capture", "--steps", "1", "--out", "x.safetensors"]])
def test_going_on_needs_the_checkpoint(run: Run, trace: Path, typed: list[str]) -> None:
    status, out, err = run(typed[0], trace, *typed[1:])
    assert (status, out) == (1, "")
    assert err == (
        "This run cannot be gone on with, so this cannot be answered; name its checkpoint with --checkpoint (tiny).\n"
    )


def test_a_checkpoint_has_no_checkpoint(run: Run, tiny: Path) -> None:
    status, _, err = run("generate", tiny, "--prompt", "abc", "--steps", 1, "--checkpoint", tiny)
    assert status == 1
    assert "is a checkpoint itself" in err


# ----------------------------------------------------------------------------------------------------------------------
# Gone on with


def test_generate_goes_on_with_a_trace(run: Run, trace: Path, tiny: Path) -> None:
    status, out, err = run("generate", trace, "--checkpoint", tiny, "--steps", 3, "--json")
    assert (status, err) == (0, "")
    record = json.loads(out)
    whole = json.loads(run("generate", tiny, "--prompt", "abcabc", "--steps", 5, "--json")[1])
    assert record["prompt_ids"] + record["ids"] == whole["prompt_ids"] + whole["ids"]
    assert len(record["ids"]) == 3


def test_a_longer_trace_is_made_of_a_trace(run: Run, trace: Path, tiny: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.safetensors"
    assert run("capture", trace, "--checkpoint", tiny, "--steps", 3, "--pattern", "--out", longer)[0] == 0
    back = load_trace(longer)
    assert (back.trace.length, back.trace.prefill, len(back.about.drawn)) == (11, 6, 5)
    assert back.about.prompt is not None
    assert back.about.prompt.text == "abcabc"
    assert ids_of(longer)[:8] == ids_of(trace)


def test_a_stretched_run_goes_on_from_its_file(run: Run, tiny: Path, tmp_path: Path) -> None:
    path, long = tmp_path / "long.safetensors", "abcdefgh" * 10
    typed = ("--prompt", long, "--rope-scaling", "yarn:2", "--out", path)
    assert run("capture", tiny, *typed)[0] == 0
    went_on = json.loads(run("generate", path, "--checkpoint", tiny, "--steps", 3, "--json")[1])
    whole = json.loads(run("generate", tiny, "--prompt", long, "--rope-scaling", "yarn:2", "--steps", 3, "--json")[1])
    assert went_on["experiments"] == whole["experiments"] == ["RoPE YaRN × 2"]
    assert went_on["ids"] == whole["ids"]


def test_other_weights_are_refused_unless_they_are_wanted(run: Run, trace: Path, tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}), encoding="utf-8")
    status, _, err = run("generate", trace, "--checkpoint", other, "--steps", 1)
    assert status == 1
    assert one_sentence(err)
    assert "but the files of other are not those; add --other-weights" in err
    assert run("generate", trace, "--checkpoint", other, "--other-weights", "--steps", 1)[0] == 0


# ----------------------------------------------------------------------------------------------------------------------
# Many prompts


def ids_of(path: Path) -> list[int]:
    with safe_open(str(path), framework="np") as file:
        found: list[int] = file.get_tensor("tokens")[0].tolist()
        return found


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Prompts of three lengths."""
    lines = ["abc", '{"text": "xyz", "name": "second"}', "", "abcde", '{"ids": [5, 6, 7]}', "  b", '{"text": "{a"}']
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_each_prompt_gets_a_file_as_if_it_ran_alone(run: Run, tiny: Path, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    typed = ("--prompts", prompts, "--steps", 2, "--batch", 2, "--out", out / "run{n:02}.safetensors")
    status, said, err = run("capture", tiny, *typed)
    assert (status, err) == (0, "")
    assert [path.name for path in sorted(out.iterdir())] == [f"run0{place}.safetensors" for place in range(6)]
    assert [line.split(":")[0][-14:] for line in said.splitlines()] == [f"{n:02}.safetensors" for n in range(6)]
    for place, text in enumerate(["abc", "xyz", "abcde", None, "  b", "{a"]):
        alone = tmp_path / "alone.safetensors"
        asked = ("--ids", "5,6,7") if text is None else ("--prompt", text)
        assert run("capture", tiny, *asked, "--steps", 2, "--out", alone)[0] == 0
        ours, theirs = load_trace(out / f"run0{place}.safetensors"), load_trace(alone)
        assert ids_of(out / f"run0{place}.safetensors") == ids_of(alone)
        assert ours.about.prompt == theirs.about.prompt
        assert (ours.strings, ours.trace.specs, ours.trace.prefill) == (
            theirs.strings, theirs.trace.specs, theirs.trace.prefill,
        )  # fmt: skip
        for one, other in zip(ours.trace.rows, theirs.trace.rows, strict=True):
            assert (one.tensor - other.tensor).abs().max() < 1e-5


def test_prompts_of_one_length_run_together(
    run: Run, tiny: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    capture_steps = running.capture_steps

    def counting(checkpoint: Any, ids: Any, **options: Any) -> Steps[Trace]:
        sizes.append((len(ids), len(ids[0])))
        return capture_steps(checkpoint, ids, **options)

    monkeypatch.setattr(running, "capture_steps", counting)
    assert run("capture", tiny, "--prompts", prompts, "--batch", 3, "--out", tmp_path / "{n}.safetensors")[0] == 0
    assert sizes == [(3, 3), (1, 3), (1, 5), (1, 2)]


def test_more_at_once_than_there_are_is_all_of_them(run: Run, tiny: Path, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    status, said, err = run("capture", tiny, "--prompts", prompts, "--batch", 10**15, "--out", out / "{n}.safetensors")
    assert status == 0, err
    assert len(list(out.iterdir())) == len(said.splitlines())


def test_of_several_prompts_in_a_file_the_first_goes_on(run: Run, tiny: Path, tmp_path: Path) -> None:
    path, model = tmp_path / "run.safetensors", ropewalk.open(tiny)
    model.capture(["abc", "to be or not"]).save(path)
    assert "tiny, a trace (prompt 1 of 2)" in run("info", path)[1]
    status, said, err = run("generate", path, "--checkpoint", tiny, "--steps", 3, "--json")
    assert status == 0, err
    assert json.loads(said)["ids"] == model.capture("abc").decode(3).ids[0, 3:].tolist()


def test_a_run_of_vectors_says_that_nothing_goes_on_with_it(run: Run, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    ropewalk.open(tiny).capture(torch.zeros(1, 3, 32)).save(path)
    status, _, err = run("generate", path, "--steps", 1)
    assert status == 1
    assert one_sentence(err)
    assert err.endswith("it was given vectors, not tokens, so no checkpoint can go on with it.\n")


def test_an_adapter_is_told_from_another(run: Run, tiny: Path, tmp_path: Path) -> None:
    path, adapter, moved = tmp_path / "run.safetensors", write_adapter(tmp_path / "adapter"), tmp_path / "moved"
    run("capture", tiny, "--adapter", adapter, "--prompt", "abc", "--out", path)
    asked = ("generate", path, "--checkpoint", tiny, "--steps", 2, "--json")
    status, as_made, err = run(*asked)
    assert status == 0, err
    shutil.move(adapter, moved)
    status, _, err = run(*asked)
    assert (status, one_sentence(err)) == (1, True)
    assert json.loads(run(*asked, "--adapter", moved)[1])["ids"] == json.loads(as_made)["ids"]
    write_adapter(adapter, lora_alpha=2)
    status, _, err = run(*asked)
    assert status == 1
    assert "The run was made with tiny + adapter, but the files of tiny are not those" in err


def test_a_template_of_the_command_line_is_that_of_every_text(run: Run, tmp_path: Path) -> None:
    chatty = write_chatty(tmp_path / "chatty")
    lines = ["hi", '{"text": "hi", "chat": true, "system": "be brief"}', '{"ids": [3, 4]}']
    (tmp_path / "p.txt").write_text("\n".join(lines), encoding="utf-8")
    typed = ("--prompts", tmp_path / "p.txt", "--out", tmp_path / "{n}.safetensors")
    assert run("capture", chatty, *typed, "--chat")[0] == 0
    rendered = [load_trace(tmp_path / f"{place}.safetensors").about.rendered for place in range(3)]
    assert rendered == ["<s><|user|>hi<|end|>", "<s><|system|>be brief<|user|>hi<|end|>", ""]


@pytest.mark.parametrize(
    ("lines", "out", "says"),
    [
        ("abc", "run.safetensors", "does not name a file for each prompt; write {n} for its number"),
        ("abc", "{m}.safetensors", "does not name a file for each prompt"),
        ("abc", "{n.real}.safetensors", "does not name a file for each prompt"),
        ("abc", "{n", "does not name a file for each prompt"),
        ("abc", "{n:999999999}", "does not name a file for each prompt"),
        ('{"text": "a", "name": "9"}', "{n:{name}}", "does not name a file for each prompt"),
        ("abc", "{name}.safetensors", "Line 1 needs a name that a file can have, but it has none."),
        ('{"text": "a", "name": "../a"}', "{name}.safetensors", "Line 1 needs a name that a file can have"),
        ('{"text": "a", "name": "x"}\n\n{"text": "b", "name": "x"}', "{name}.safetensors", "Lines 1 and 3 would both"),
        ("abc", "absent/{n}.safetensors", "there is no folder"),
        ("\n \n", "{n}.safetensors", "holds no prompt"),
        ('abc\n{"text": ', "{n}.safetensors", "Line 2 of"),
        ('abc\n{"words": "a"}', "{n}.safetensors", "words is unknown here"),
        ("abc\n{a", "{n}.safetensors", "begins with a brace, but is no prompt in JSON"),
        ("abc\n" + "a" * 65, "{n}.safetensors", "cannot be run: This would be 65 tokens"),
        ('{"ids": [999]}', "{n}.safetensors", "cannot be run: Token id 999 is not there"),
        ('{"ids": [1], "text": "a"}', "{n}.safetensors", "leave text, chat and system out"),
        ('{"text": "a", "chat": true}', "{n}.safetensors", "tiny has no chat template"),
        ('{"text": "a", "system": "b"}', "{n}.safetensors", 'add "chat": true'),
    ],
)
def test_a_file_of_prompts_is_checked_before_any_runs(
    run: Run, tiny: Path, tmp_path: Path, lines: str, out: str, says: str
) -> None:
    path = tmp_path / "prompts"
    path.write_text(lines, encoding="utf-8")
    status, said, err = run("capture", tiny, "--prompts", path, "--out", tmp_path / out)
    assert (status, said) == (1, "")
    assert one_sentence(err)
    assert says in err
    assert [one.name for one in tmp_path.iterdir()] == ["prompts"]


def test_files_that_are_there_are_replaced_only_on_request(run: Run, tiny: Path, prompts: Path, tmp_path: Path) -> None:
    out, pattern = tmp_path / "runs", tmp_path / "runs" / "{n}.safetensors"
    out.mkdir()
    (out / "1.safetensors").write_bytes(b"mine")
    status, _, err = run("capture", tiny, "--prompts", prompts, "--out", pattern)
    assert status == 1
    assert one_sentence(err)
    assert "1.safetensors is there already; write somewhere else, or say --existing" in err
    assert len(list(out.iterdir())) == 1
    assert run("capture", tiny, "--prompts", prompts, "--out", pattern, "--existing", "skip")[1].count("rows (") == 5
    assert (out / "1.safetensors").read_bytes() == b"mine"
    assert run("capture", tiny, "--prompts", prompts, "--out", pattern, "--existing", "replace")[1].count("rows (") == 6
    assert ids_of(out / "1.safetensors") == ids_of_text(tiny, "xyz")


def ids_of_text(checkpoint: Path, text: str) -> list[int]:
    from ropewalk.model.checkpoints import open_checkpoint

    tokenizer = open_checkpoint(checkpoint).tokenizer
    assert tokenizer is not None
    return list(tokenizer.encode(text))


def test_ctrl_c_keeps_what_is_whole(
    run: Run, tiny: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    write = trace_file._write
    written: list[Path] = []

    def interrupted(tensors: Any, header: Any, path: Path) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        write(tensors, header, path)
        written.append(path)

    monkeypatch.setattr(trace_file, "_write", interrupted)
    status, said, err = run("capture", tiny, "--prompts", prompts, "--out", out / "{n}.safetensors")
    assert status == 130
    assert err == "3 of 6 files were written, each of them whole.\nCancelled.\n"
    assert said.count("rows (") == 3
    assert sorted(out.iterdir()) == sorted(written)
    assert all(load_trace(path).trace.length >= 2 for path in written)


@pytest.mark.parametrize("typed", [("--prompt", "abcdef"), ("--prompts", "file")])
def test_a_pattern_over_budget_is_refused_before_the_run(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, str]
) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is to be run")

    (tmp_path / "file").write_text("abcdef", encoding="utf-8")
    monkeypatch.setattr(engine, "run", nothing)
    monkeypatch.setattr(engine, "run_batch", nothing)
    monkeypatch.setattr(trace_file.check_pattern, "__defaults__", (1, 1000))
    asked = (typed[0], tmp_path / typed[1] if typed[0] == "--prompts" else typed[1])
    status, _, err = run("capture", tiny, *asked, "--pattern", "--out", tmp_path / "{n}.safetensors")
    assert status == 1
    assert one_sentence(err)
    assert "Scores and weights of every head would take" in err
