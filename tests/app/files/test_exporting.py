"""Exported numbers are the engine's own, say where they came from, and never spoil the file that was there."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Ended
from ropewalk.app.files import numbers_file
from ropewalk.app.files.exporting import export, export_lens, export_numbers, export_trace
from ropewalk.app.files.incoming import Incoming
from ropewalk.app.files.provenance import Provenance, provenance
from ropewalk.app.files.requests import EncodePng, WriteBytes
from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.errors import RopewalkError
from ropewalk.model.readings.lens import logit_lens
from ropewalk.model.readings.readout import read_row
from ropewalk.model.readings.records import HeadNumbers, RowReading, TokenText
from ropewalk.model.tokens.prompt import Prompt
from tests.app.files.filming import filmed
from tests.in_process import checkpoint_of, trace_of

PROMPT = 'a,"b\n=c'
SAME = 1e-12
"""Of a number: float64 sums of Dh products, added in two orders; every digit but the last few was written."""


@pytest.fixture
def session(qtbot: QtBot, tiny: Path, tmp_path: Path) -> Iterator[Session]:
    made = new_session(SettingsStore(tmp_path / "settings.json"))
    with qtbot.waitSignal(made.settled, timeout=60_000):
        made.opening.begin(str(tiny), prompt=Prompt(PROMPT))
    made.selection.update(layer=1, head=2, query=4, key=1)
    qtbot.waitUntil(lambda: not made.busy)
    yield made
    made.close()


Take = Callable[[Callable[..., None]], str]


@pytest.fixture
def take(qtbot: QtBot) -> Take:
    """Start an export, wait for its end, and return what was said against it."""

    def run(start: Callable[..., None]) -> str:
        done: list[Path] = []
        failed: list[str] = []
        start(done.append, failed.append)
        qtbot.waitUntil(lambda: bool(done or failed), timeout=60_000)
        return "".join(failed)

    return run


def engine_row(session: Session, query: int) -> RowReading:
    assert session.handle is not None
    return read_row(trace_of(session.handle)[1], 2, query)


def about(session: Session) -> Provenance:
    return provenance(session, "Row 4 of L1H2")


def number_format(name: str) -> numbers_file.NumberFormat:
    return next(one for one in numbers_file.FORMATS if one.name == name)


def test_a_csv_holds_a_rectangle_with_tokens_and_where_it_came_from(
    session: Session, take: Take, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.csv"
    kind = number_format("csv")
    assert take(lambda *ends: export_numbers(session, path, kind, (2, 5), (0, 4), about(session), *ends)) == ""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    assert "# Title: Row 4 of L1H2" in comments
    assert '# Prompt: a,"b ⏎ =c' in comments
    assert "# Model: tiny" in comments
    assert "# Head: L1H2 (kv head 1)" in comments
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[len(comments) :]))))
    assert len(rows) == 3 * 4
    assert session.run is not None
    for cell in rows:
        query, key = int(cell["query"]), int(cell["key"])
        truth = engine_row(session, query)
        assert float(cell["weight"]) == pytest.approx(truth.weights[key], rel=SAME)
        assert float(cell["score"]) == pytest.approx(truth.scores[key], rel=SAME)
        assert int(cell["visible"]) == int(key <= query)
        assert cell["query_token"] == session.run.tokens[query].text
        assert cell["key_token"] == session.run.tokens[key].text
    assert {cell["key_token"] for cell in rows} >= {"a", ",", '"'}


@pytest.mark.parametrize("text", ["=1+1", "+", "-2", "@SUM(A1)", "\t=1", "\r=1", "'", "'=1"])
def test_a_token_that_looks_like_a_formula_is_none_and_can_be_had_back(session: Session, text: str) -> None:
    assert session.handle is not None
    numbers = session_numbers(session)
    tokens = [TokenText(0, "a"), TokenText(1, text), TokenText(2, "b")]
    described = about(session).with_lines({"Note": f'x,{text} y;{text} z,"{text}" u\t{text} v|{text} w, {text}'})
    file = io.BytesIO()
    numbers_file.as_csv(numbers, tokens, described, file)
    written = file.getvalue().decode()
    head, body = written.split('"query"', 1)
    comments = head.splitlines()
    assert any("one ' more in front" in line for line in comments), "the file says what was done"
    rows = list(csv.reader(io.StringIO('"query"' + body, newline="")))
    for cell in (cell for row in rows[1:] for cell in (row[1], row[3])):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert {row[3].removeprefix("'") for row in rows[1:]} == {"a", "b", text}
    for separator in ",;\t|":
        for cell in (cell for line in comments for cell in next(csv.reader([line], delimiter=separator))):
            assert not cell.strip(" '\"").startswith(("=", "+", "-", "@")) or cell.strip(' "').startswith("'"), cell


def session_numbers(session: Session) -> HeadNumbers:
    size = 3
    zeros = np.zeros((size, size))
    return HeadNumbers(0, 0, (0, size), (0, size), zeros, zeros, np.ones((size, size), np.bool_))


def test_an_npz_holds_a_whole_head_without_pickle(session: Session, take: Take, tmp_path: Path) -> None:
    path = tmp_path / "numbers.npz"
    rows = len(PROMPT)
    kind = number_format("npz")
    assert take(lambda *ends: export_numbers(session, path, kind, (0, rows), (0, rows), about(session), *ends)) == ""
    with np.load(path, allow_pickle=False) as arrays:
        assert json.loads(str(arrays["about"])) == {"Title": "Row 4 of L1H2", **dict(about(session).lines)}
        assert arrays["weights"].dtype == np.float64
        for query in range(rows):
            truth = engine_row(session, query)
            np.testing.assert_allclose(arrays["weights"][query], truth.weights, rtol=SAME)
            np.testing.assert_allclose(arrays["scores"][query], truth.scores, rtol=SAME)
            np.testing.assert_array_equal(arrays["visible"][query], truth.visible)
        assert (int(arrays["layer"]), int(arrays["head"])) == (1, 2)
        assert session.run is not None
        assert arrays["tokens"].tolist() == [token.text for token in session.run.tokens]


def test_the_logit_lens_is_taken_home_with_its_tokens(session: Session, take: Take, tmp_path: Path) -> None:
    handle = session.handle
    assert handle is not None
    truth = logit_lens(checkpoint_of(handle.model_handle).model, trace_of(handle), (4, 7))
    csv_path, npz_path = tmp_path / "lens.csv", tmp_path / "lens.npz"
    for path in (csv_path, npz_path):
        kind = number_format(path.suffix[1:])
        assert take(lambda *ends, p=path, k=kind: export_lens(session, p, k, (4, 7), about(session), *ends)) == ""
    lines = [line for line in csv_path.read_text(encoding="utf-8").splitlines() if not line.startswith("# ")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    places = ["embedding", *(f"L{layer}" for layer in range(handle.run.config.layers))]
    assert [(row["position"], row["place"]) for row in rows] == [
        (str(at), place) for at in (4, 5, 6) for place in places
    ]
    tokens = handle.run.tokens
    for row in rows:
        at = places.index(row["place"]), int(row["position"]) - 4
        assert float(row["probability_1"]) == pytest.approx(truth.probabilities[(*at, 0)], rel=SAME)
        assert float(row["probability_5"]) == pytest.approx(truth.probabilities[(*at, 4)], rel=SAME)
        assert float(row["final_probability"]) == pytest.approx(truth.final[at], rel=SAME)
        assert float(row["entropy"]) == pytest.approx(truth.entropy[at], rel=SAME)
        assert row["token"] == numbers_file.harmless(tokens[int(row["position"])].text)
        follows = int(row["position"]) + 1
        if follows == len(PROMPT):
            assert row["next_token"] == row["next_probability"] == row["next_rank"] == ""
        else:
            assert row["next_token"] == numbers_file.harmless(tokens[follows].text)
            assert float(row["next_probability"]) == pytest.approx(truth.actual[at], rel=SAME)
            assert int(row["next_rank"]) == truth.rank[at]
    with np.load(npz_path, allow_pickle=False) as arrays:
        assert arrays["positions"].tolist() == [4, 5, 6]
        for name in ("top", "probabilities", "entropy", "final", "actual", "rank"):
            np.testing.assert_allclose(arrays[name], getattr(truth, name), rtol=SAME)
        shown = dict(zip(arrays["top_ids"].tolist(), arrays["top_tokens"].tolist(), strict=True))
        first = [numbers_file.harmless(shown[int(one)]) for one in truth.top[:, 0, 0]]
        assert first == [row["top_1"] for row in rows[: len(places)]]


def test_a_run_is_taken_home_as_a_trace(session: Session, take: Take, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    assert take(lambda *ends: export_trace(session, path, *ends)) == ""
    tensors = safetensors.numpy.load_file(path)
    assert tensors["blocks.1.attn.lse"].shape == (1, 4, len(PROMPT))
    assert session.run is not None
    assert tensors["tokens"][0].tolist() == [token.id for token in session.run.tokens]


@pytest.mark.parametrize(("queries", "keys"), [((3, 3), (0, 2)), ((0, 99), (0, 2)), ((0, 2), (-1, 2))])
def test_a_rectangle_outside_the_run_is_refused(
    session: Session, take: Take, tmp_path: Path, queries: tuple[int, int], keys: tuple[int, int]
) -> None:
    path = tmp_path / "numbers.csv"
    message = take(
        lambda *ends: export_numbers(session, path, number_format("csv"), queries, keys, about(session), *ends)
    )
    assert message.endswith("but the rows are 0 to 6.")
    assert not path.exists()


def test_too_many_cells_are_refused(
    session: Session, take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.model.readings.readout.MOST_CELLS", 10)
    path = tmp_path / "numbers.csv"
    message = take(
        lambda *ends: export_numbers(session, path, number_format("csv"), (0, 4), (0, 4), about(session), *ends)
    )
    assert message.startswith("16 cells were asked for, but at most 10 are written at once;")


@pytest.mark.parametrize("fails", ["replace", "fsync"])
@pytest.mark.parametrize("name", ["csv", "npz", "safetensors", "png"])
def test_a_full_disk_leaves_the_old_file(
    session: Session, take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fails: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / f"file.{name}"
    path.write_bytes(b"old")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    if name == "safetensors":
        message = take(lambda *ends: export_trace(session, path, *ends))
    elif name == "png":
        message = take(lambda *ends: export(session, WriteBytes(path, b"new"), *ends))
    else:
        kind = number_format(name)
        message = take(lambda *ends: export_numbers(session, path, kind, (0, 2), (0, 2), about(session), *ends))
    monkeypatch.undo()
    assert message.endswith("No space left on device.")
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("happens", ["the link breaks", "the disk is full", "a cancel"])
def test_a_trace_that_does_not_come_whole_leaves_the_old_file(
    qtbot: QtBot, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    path, parts = tmp_path / "run.safetensors", list[bytes]()
    path.write_bytes(b"old")
    kept, add = set(tmp_path.iterdir()), Incoming.add
    monkeypatch.setattr("ropewalk.model.engine.serving.PART", 1000)

    def added(incoming: Incoming, part: bytes) -> None:
        parts.append(part)
        if len(parts) == 3 and happens == "the disk is full":
            monkeypatch.setattr(incoming, "_file", Full())
        add(incoming, part)
        assert set(tmp_path.iterdir()) > kept  # what has come is there, beside its place
        if len(parts) == 3 and happens == "the link breaks":
            session.engines.current.kill()
        elif len(parts) == 3 and happens == "a cancel":
            session.forget_work(f"trace {path}")

    monkeypatch.setattr(Incoming, "add", added)
    done: list[Path] = []
    failed: list[str] = []
    export_trace(session, path, done.append, failed.append)
    qtbot.waitUntil(lambda: len(parts) >= 3 and not session.busy)
    expected = {
        "the link breaks": ["run.safetensors was not written: the engine has ended; start it again."],
        "the disk is full": [f"run.safetensors could not be written to {tmp_path}: No space left on device."],
        "a cancel": [],
    }
    assert (done, failed) == ([], expected[happens])
    assert len(parts) == 3
    assert set(tmp_path.iterdir()) == kept
    assert path.read_bytes() == b"old"


class Full:
    """A file on a disk that has no room."""

    def write(self, part: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_file_that_outgrows_its_disk_is_refused_and_gone(tmp_path: Path) -> None:
    import resource as limits

    incoming, before = Incoming(tmp_path / "run.safetensors"), limits.getrlimit(limits.RLIMIT_FSIZE)
    incoming.add(b"1" * 1000)
    limits.setrlimit(limits.RLIMIT_FSIZE, (1500, before[1]))
    try:
        incoming.add(b"2" * 100_000)
        incoming.add(b"3" * 100)
        with pytest.raises(RopewalkError, match=r"^run.safetensors could not be written to .*: File too large\.$"):
            incoming.finish()
        incoming.drop()
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
def test_recorded_pixels_are_removed_whatever_becomes_of_the_file(
    qtbot: QtBot, session: Session, tmp_path: Path, outcome: str
) -> None:
    path = tmp_path / ("none/a.png" if outcome == "failed" else "a.png")
    film = filmed((np.zeros((20, 30, 4), np.uint8), 0))
    pixels, ends = film.path, list[str]()
    request = EncodePng(path, film, 3780, about(session))
    export(session, request, lambda _: ends.append("done"), lambda _: ends.append("failed"))
    del film, request
    if outcome == "cancelled":
        session.cancel()
    qtbot.waitUntil(lambda: not pixels.exists() and not session.exports.busy)
    assert ends == ([] if outcome == "cancelled" else [outcome])
    assert {"done": path.exists(), "failed": not path.exists()}.get(outcome, True)  # a cancel may come too late


def test_nothing_to_export_is_reported(qtbot: QtBot, take: Take, tmp_path: Path) -> None:
    empty = new_session(SettingsStore(tmp_path / "none.json"))
    path = tmp_path / "numbers.csv"
    nothing = Provenance("", ())
    message = take(lambda *ends: export_numbers(empty, path, number_format("csv"), (0, 1), (0, 1), nothing, *ends))
    assert message == "There are no numbers to save yet; run a prompt first."
    assert take(lambda *ends: export_trace(empty, path, *ends)) == "There is no run to save yet; run a prompt first."
    empty.close()


def test_an_engine_that_is_gone_leaves_the_file_unwritten_and_says_so(
    session: Session, take: Take, tmp_path: Path
) -> None:
    session.engines.current.lose(Ended("It is gone."))
    numbers, trace = tmp_path / "numbers.csv", tmp_path / "run.safetensors"
    kind, source = number_format("csv"), about(session)
    said = take(lambda *ends: export_numbers(session, numbers, kind, (0, 1), (0, 1), source, *ends))
    assert said == "numbers.csv was not written: the engine has ended; start it again."
    said = take(lambda *ends: export_trace(session, trace, *ends))
    assert said == "run.safetensors was not written: the engine has ended; start it again."
    assert list(tmp_path.glob("*.csv")) == list(tmp_path.glob("*.safetensors")) == []
