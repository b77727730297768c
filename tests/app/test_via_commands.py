"""``--via transformers`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ropewalk.app.files.shot import Shot
from tests.app.test_commands import Run, one_sentence, run, shots

__all__ = ["run", "shots"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A latent attention, as ``save_pretrained`` writes it."""
    from tests.model.transformers_models.architectures import tiny_model

    path = tmp_path_factory.mktemp("via") / "deepseek"
    tiny_model("deepseek_v3").save_pretrained(path)
    return path


def test_info_says_what_is_known(run: Run, folder: Path) -> None:
    status, out, err = run("info", folder, "--via", "transformers")
    assert (status, err) == (0, "")
    assert "deepseek_v3, via transformers" in out
    assert "4 query, 4 kv, 16 (values 12) wide" in out
    assert "RoPE" not in out
    assert "MLP" not in out
    told = json.loads(run("info", folder, "--via", "transformers", "--json")[1])
    assert (told["parameters_by_part"], told["config"]["value_width"]) == (None, 12)
    assert told["kv_bytes_per_token"] == 2 * 4 * (16 + 12) * 4


def test_every_command_that_runs_a_prompt_takes_it(run: Run, folder: Path, tmp_path: Path) -> None:
    via = ("--via", "transformers")
    made = json.loads(run("generate", folder, *via, "--prompt", "5 6 7", "--steps", 4, "--json")[1])
    assert len(made["ids"]) == 4
    rows = json.loads(run("heads", folder, *via, "--repeat", 6, "--json")[1])["rows"]
    assert {row["layer"] for row in rows if row["score"] == "induction"} == {0, 1}
    out = tmp_path / "run.safetensors"
    assert run("capture", folder, *via, "--ids", "5,6,7", "--steps", 2, "--out", out)[0] == 0
    assert "parameters     unknown\n" in run("info", out)[1]  # the file says nothing of the blocks
    assert json.loads(run("info", out, "--json")[1])["parameters"] is None
    again = json.loads(run("generate", out, "--checkpoint", folder, "--steps", 2, "--json")[1])
    assert again["ids"][-2:] == made["ids"][-2:]


def test_what_it_does_not_do_is_a_sentence(run: Run, folder: Path) -> None:
    for typed, said in (
        (["ledger", folder, "--via", "transformers"], "nothing is known but their attention"),
        (["info", folder], "open it via transformers (--via transformers)"),
        (["info", "--via", "transformers"], "name a folder to open"),
    ):
        status, out, err = run(*typed)
        assert (status, out, one_sentence(err)) == (1, "", True)
        assert said in err


def test_a_picture_is_asked_for_with_it(run: Run, folder: Path, tmp_path: Path, shots: list[Shot]) -> None:
    assert run("snapshot", tmp_path / "out.png", folder, "--via", "transformers")[0] == 0
    assert run("snapshot", tmp_path / "out.png", folder)[0] == 0
    assert [dict(shot.options).get("via") for shot in shots] == ["transformers", None]
