"""What is typed about a checkpoint: adapters, families, fields to ignore, and describing one that is never loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ropewalk.app.files.shot import Shot
from ropewalk.model.checkpoints import available_devices, opening
from ropewalk.model.engine import engine
from ropewalk.model.progress import finished
from tests.app.test_commands import Run, one_sentence, run, shots
from tests.app.tiny_adapter import write_adapter

__all__ = ["run", "shots"]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "mine")


def change(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def mine(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint that may be changed."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tiny.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def test_info_and_ledger_load_nothing_and_ask_for_no_memory(
    run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = finished(engine.open_model(str(tiny), "cpu", "bfloat16"))

    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(opening, "free_bytes", lambda device: 0)
    monkeypatch.setattr(opening, "load_steps", loaded)
    data = json.loads(run("info", tiny, "--json", "--dtype", "bfloat16")[1])
    card = expected.card
    assert (data["name"], data["path"], data["family"]) == (card.name, card.path, card.family)
    assert (data["parameters"], data["weight_bytes"]) == (card.parameters, card.weight_bytes)
    assert data["weight_bytes_by_dtype"]["float32"] == 2 * card.weight_bytes
    assert (data["has_tokenizer"], data["notes"]) == (True, list(card.notes))
    status, out, _ = run("info", tiny)
    assert (status, "as float32, " in out) == (0, True)
    assert run("ledger", tiny)[0] == 0
    status, _, err = run("capture", tiny, "--ids", "1 2", "--out", "x.safetensors")
    assert (status, "memory are free on cpu" in err) == (1, True)


def test_an_adapter_is_merged_by_every_command(run: Run, tiny: Path, adapter: Path, tmp_path: Path) -> None:
    assert json.loads(run("info", tiny, "--adapter", adapter, "--json")[1])["name"] == f"{tiny.name} + mine"
    lines = [line for line in run("info", tiny, "--adapter", adapter)[1].splitlines() if line.startswith("note")]
    assert "mine is merged into the weights: LoRA of rank 2 on 2 matrices (q_proj), trained on org/tiny." in lines[0]
    logits = []
    for number, more in enumerate(([], ["--adapter", adapter])):
        out = tmp_path / f"{number}.safetensors"
        assert run("capture", tiny, "--ids", "1 2 3", "--out", out, *more)[0] == 0
        logits.append(load_file(out)["logits"])
    assert not torch.allclose(logits[0], logits[1])
    status, _, err = run("heads", adapter, "--repeat", 3)
    assert status == 1
    assert one_sentence(err)
    assert "mine is a LoRA adapter, trained on org/tiny" in err
    status, _, err = run("info", "--adapter", adapter)
    assert (status, one_sentence(err)) == (1, True)


def test_fields_are_ignored_and_families_said_as_typed(run: Run, mine: Path) -> None:
    change(mine, stretch=3, bend="up")
    status, _, err = run("info", mine)
    assert (status, one_sentence(err), "--ignore bend" in err) == (1, True, True)
    out = run("info", mine, "--ignore", "stretch, bend")[1]
    assert "config.json was read without stretch, bend, because that was asked for." in out
    change(mine, stretch=None, bend=None, model_type="my_own")
    assert "--family" in run("info", mine)[2]
    assert json.loads(run("info", mine, "--family", "qwen3", "--json")[1])["family"] == "qwen3"


def test_a_picture_is_drawn_of_what_was_typed(run: Run, shots: list[Shot], tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    assert run("snapshot", out, tiny, "--adapter", "/a/mine", "--ignore", "x,y", "--family", "qwen3")[0] == 0
    assert dict(shots[0].options) == {"adapter": "/a/mine", "ignore": "x,y", "family": "qwen3"}
    run("snapshot", out, tiny)
    assert shots[1].options == ()


def test_every_device_of_the_machine_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def machine(count: int, mps: bool = False) -> tuple[str, ...]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        return available_devices()

    assert machine(0) == ("cpu",)
    assert machine(0, mps=True) == ("cpu", "mps")
    assert machine(1) == ("cpu", "cuda")
    assert (opening.device_name("cuda"), str(opening.device_of("cuda:0"))) == ("cuda", "cuda:0")
    assert machine(3) == ("cpu", "cuda:0", "cuda:1", "cuda:2")
    assert (opening.device_name("cuda"), opening.device_name("cuda:1")) == ("cuda:0", "cuda:1")
    assert opening.device_of("cuda:2").index == 2


def test_a_device_that_is_not_there_is_a_sentence(run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    status, _, err = run("info", tiny, "--device", "cuda:2")
    assert (status, err) == (1, "The device cuda:2 is not there; choose cpu, cuda:0, cuda:1.\n")
    assert json.loads(run("info", tiny, "--device", "cuda", "--json")[1])["device"] == "cuda:0"
    assert "devices        cpu, cuda:0, cuda:1" in run("info", tiny)[1]
