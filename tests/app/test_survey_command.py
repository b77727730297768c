"""The survey command, from files of texts to the table on screen."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import ropewalk
from tests.app.test_commands import Run, one_sentence, run, shots

__all__ = ["run", "shots"]

TEXTS = ["to be or not to be", "the king, the king", "so it goes on and on and on"]


def refusal(ran: tuple[int, str, str]) -> str:
    status, out, err = ran
    assert (status, out) == (1, "")
    assert one_sentence(err)
    return err


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same texts in every kind of file."""
    folder = tmp_path_factory.mktemp("corpora")
    rows = {"text": TEXTS, "pairs": [[[3, 1]], [], [[2, 0], [4, 1]]]}
    (folder / "t.txt").write_text("\n".join([TEXTS[0], "", *TEXTS[1:]]) + "\n", encoding="utf-8")
    lines = [json.dumps({"text": text, "pairs": pairs}) for text, pairs in zip(*rows.values(), strict=True)]
    (folder / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    table = pa.table(rows)
    parquet.write_table(table, folder / "t.parquet")
    (folder / "saved").mkdir()
    with ipc.new_stream(folder / "saved" / "data-00000-of-00001.arrow", table.schema) as stream:
        stream.write_table(table)
    (folder / "mine.py").write_text("def cells(tokens, row):\n    return [(1, 0), (len(tokens) - 1, 0)]\n")
    return folder


def test_every_kind_of_file_gives_the_same(run: Run, corpora: Path, tmp_path: Path) -> None:
    found = []
    for name in ("t.txt", "t.jsonl", "t.parquet", "saved"):
        out = tmp_path / name
        status, printed, err = run(
            *("survey", "--texts", corpora / name, "--out", out, "--statistics", "previous,duplicate", "--batch", 2)
        )
        assert (status, err) == (0, "")
        assert printed == f"3 texts of 3: {out}\n"
        assert ropewalk.load_survey(out).manifest["corpus"]["sources"] == [str(corpora / name)]
        found.append(ropewalk.load_survey(out).frame)
    assert all(one.equals(found[0]) for one in found)


def test_it_is_printed(run: Run, corpora: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    run("survey", "--texts", corpora / "t.jsonl", "--out", out, "--pairs", "pairs", "--limit", 3)
    status, printed, _ = run("survey", out, "--csv")
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(printed)))
    survey = ropewalk.load_survey(out)
    of_pairs = next(row for row in rows if (row["layer"], row["head"], row["statistic"]) == ("1", "3", "pairs"))
    assert of_pairs["n"] == "2"
    assert float(of_pairs["value"]) == survey.mean("pairs")[1, 3]
    assert next(row for row in rows if row["statistic"] == "sink_beyond_64")["value"] == ""
    status, printed, _ = run("survey", out, "--show")
    lines = printed.splitlines()
    assert lines[0].split()[:3] == ["head", "previous", "self"]
    assert "sink_beyond_64" not in lines[0]
    assert f"{survey.mean('previous')[0, 0]:.3f} ± {survey.error('previous')[0, 0]:.3f}" in lines[1]
    assert "pairs: n = 2; pairs: mean of Σ w[q, k] over the cells that were given, over q that have one" in lines


def test_pairs_come_from_a_function(run: Run, corpora: Path, tmp_path: Path) -> None:
    asked = ("survey", "--texts", corpora / "t.txt", "--statistics", "pairs", "--out", tmp_path / "s")
    assert run(*asked, "--pairs", f"{corpora / 'mine.py'}:cells")[0] == 0
    assert ropewalk.load_survey(tmp_path / "s").count("pairs") == 3
    assert "has no function other" in refusal(run(*asked, "--pairs", f"{corpora / 'mine.py'}:other"))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--statistics", "luck"), "There is no statistic 'luck' of a survey; there are previous, self"),
        (("--statistics", "pairs"), "needs cells"),
        (("--column", "nobody"), "has no column 'nobody'; it has text, pairs"),
        (("--pairs", "nobody"), "has no column 'nobody' of pairs"),
    ],
)
def test_what_cannot_be_surveyed_is_a_sentence(
    run: Run, corpora: Path, tmp_path: Path, typed: tuple[str, ...], said: str
) -> None:
    assert said in refusal(run("survey", "--texts", corpora / "t.jsonl", "--out", tmp_path / "s", *typed))


def test_a_folder_that_holds_none_is_a_sentence(run: Run, corpora: Path, tmp_path: Path) -> None:
    assert "holds no survey" in refusal(run("survey", tmp_path, "--show"))
    assert "cannot be read" in refusal(run("survey", "--texts", tmp_path / "no.txt", "--out", tmp_path / "s"))
    run("capture", "--prompt", "to be", "--out", tmp_path / "run.safetensors")
    asked = ("--texts", corpora / "t.txt", "--out", tmp_path / "s")
    assert "is a trace, one run without its model" in refusal(run("survey", tmp_path / "run.safetensors", *asked))
    assert "itself holds neither" in refusal(run("survey", "--texts", corpora.parent, "--out", tmp_path / "s"))
    (tmp_path / "deep.jsonl").write_text('{"text": ' + "[" * 100_000, encoding="utf-8")
    assert "deep.jsonl is not JSON" in refusal(
        run("survey", "--texts", tmp_path / "deep.jsonl", "--out", tmp_path / "s")
    )
    status, _, err = run("survey", "--texts", corpora / "t.txt")
    assert status == 2
    assert "--out" in err


@pytest.fixture(scope="module")
def steps(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model, and the same with some heads silenced."""
    found = [tmp_path_factory.mktemp("steps") / f"s{step}" for step in (10, 20, 30)]
    model, texts = ropewalk.open(), corpora / "t.txt"
    for out, heads in zip(found, ((), (0,), (0, 1)), strict=True):
        changed = [ropewalk.interventions.AblateHeads(0, heads)] if heads else []
        ropewalk.survey(model, texts, out=out, statistics=["sink", "duplicate"], interventions=changed)
    return found


def test_heads_are_silenced(run: Run, corpora: Path, steps: list[Path], tmp_path: Path) -> None:
    asked = ("survey", "--texts", corpora / "t.txt", "--out", tmp_path / "s", "--statistics", "sink,duplicate")
    assert run(*asked, "--ablate", "0.0", "--ablate", "L0H1")[0] == 0
    found, wanted = ropewalk.load_survey(tmp_path / "s"), ropewalk.load_survey(steps[2])
    assert found.mean("sink") == pytest.approx(wanted.mean("sink"), abs=1e-6)
    assert "differs in its interventions" in refusal(run(*asked))
    status, _, err = run(*asked, "--ablate", "q=4")
    assert status == 2
    assert "'q=4' is not a head such as 2.5" in err


def test_two_are_compared(run: Run, steps: list[Path]) -> None:
    compared = ropewalk.load_survey(steps[0]).compare(ropewalk.load_survey(steps[1]))
    rows = list(csv.DictReader(io.StringIO(run("survey", *steps[:2], "--csv")[1])))
    assert [float(row["difference"]) for row in rows] == compared.difference.ravel().tolist()
    status, _, err = run("survey", steps[0])
    assert (status, "holds a survey; print it with --show" in err) == (2, True)
    lines = run("survey", *steps[:2], "--show", "--statistics", "sink")[1].splitlines()
    assert f"{steps[1]} (bundled) less {steps[0]} (bundled); *" in "\n".join(lines)
    assert lines[0].split() == ["head", "sink"]
    at = compared.names.index("sink")
    assert lines[1 + 8].split()[1:4] == [f"{compared.difference[at, 1, 0]:.3f}", "±", f"{compared.error[at, 1, 0]:.3f}"]
    marked = sum(line.endswith("*") for line in lines[1:33])
    assert marked == compared.significant("sink").sum()
    assert f"sink: n = 3, {marked} of 32 heads differ" in lines[-1]


def test_more_are_a_series(run: Run, steps: list[Path]) -> None:
    series = ropewalk.survey_series(steps)
    rows = list(csv.DictReader(io.StringIO(run("survey", *steps, "--csv", "--since", "first")[1])))
    assert [int(row["step"]) for row in rows[:: len(rows) // 3]] == [10, 20, 30]
    last = next(
        row for row in rows if (row["step"], row["statistic"], row["layer"], row["head"]) == ("30", "sink", "1", "2")
    )
    assert float(last["value"]) == series.mean("sink")[2, 1, 2]
    assert float(last["difference"]) == series.changes("first").difference("sink")[1, 1, 2]
    assert float(last["difference_error"]) == series.changes("first").error("sink")[1, 1, 2]
    assert rows[0]["difference"] == ""
    lines = run("survey", *steps, "--show", "--steps", "1,2,3", "--statistics", "duplicate")[1].splitlines()
    assert lines[0].startswith("duplicate: n = ")
    assert lines[1].split() == ["head", "1", "2", "3"]
    assert lines[2].split()[1] == f"{series.mean('duplicate')[0, 0, 0]:.3f}"
    assert lines[-1].startswith("3 steps, each beside the previous one")
    status, _, err = run("survey", *steps, "--texts", "x.txt", "--out", "y")
    assert status == 2
    assert "one model is surveyed at a time" in err


def test_texts_come_from_standard_input(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS)))
    assert run("survey", "--texts", "-", "--out", tmp_path / "s", "--statistics", "self")[0] == 0
    assert ropewalk.load_survey(tmp_path / "s").texts == 3
    assert ropewalk.load_survey(tmp_path / "s").manifest["corpus"]["sources"] == ["standard input"]
    assert ropewalk.load_survey(tmp_path / "s").manifest["model"]["config"]["kv_heads"] > 0
