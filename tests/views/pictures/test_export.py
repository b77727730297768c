"""`export` makes its file by the window's own exports, without a display, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pypdf
import pytest
from PIL import Image
from pytestqt.qtbot import QtBot

from ropewalk.app.files.session_file import read_session
from ropewalk.app.files.shot import Export
from ropewalk.model.errors import RopewalkError
from ropewalk.views.pictures.shot import take

SMALL = {"width": 1000, "height": 700, "prompt": "one two"}


@pytest.mark.parametrize(
    "name",
    ["png", "gif", "npz", *(pytest.param(name, marks=pytest.mark.slow) for name in ("svg", "pdf", "safetensors"))],
)
def test_a_file_of_each_kind_is_there(qtbot: QtBot, tmp_path: Path, name: str) -> None:
    out = tmp_path / f"out.{name}"
    panel, heads = "rope" if name == "png" else "", ((0, 1), (1, 0)) if name == "svg" else ()
    take(Export(out=out, panel=panel, heads=heads, film="decode", film_steps=1, **SMALL))  # type: ignore[arg-type]
    beginnings = {
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "pdf": b"%PDF",
        "gif": b"GIF8",
        "npz": b"PK",
        "safetensors": out.read_bytes()[:8],
    }
    assert out.read_bytes().startswith(beginnings[name])
    if name == "png":
        with Image.open(out) as picture:
            assert picture.width > 550  # in its own workspace: in the Overview it has less than half of the window
    if name == "svg":
        assert "Weights (softmax) of L0H1, L1H0 · " in out.read_text(encoding="utf-8")
    if name == "gif":
        with Image.open(out) as film:
            assert film.n_frames == 2  # type: ignore[attr-defined]
    if name == "npz":
        with np.load(out) as arrays:
            assert arrays["weights"].shape == (1, len(arrays["tokens"]))


def test_numbers_of_the_logit_lens_are_those_of_its_panel(qtbot: QtBot, tmp_path: Path) -> None:
    out = tmp_path / "lens.npz"
    take(Export(out=out, panel="lens", queries=(0, 2), **SMALL))  # type: ignore[arg-type]
    with np.load(out) as arrays:
        assert arrays["positions"].tolist() == [0, 1]
        assert arrays["probabilities"].shape[1:] == (2, 5)


def test_a_session_is_written_and_begun_from(qtbot: QtBot, tmp_path: Path) -> None:
    session, picture = tmp_path / "work.ropewalk", tmp_path / "tokens.pdf"
    take(Export(out=session, steps=2, select=(("layer", 1), ("head", 2)), **SMALL))  # type: ignore[arg-type]
    saved = read_session(session)
    assert len(saved.run.decoded) == 2
    assert (saved.selection.layer, saved.selection.head) == (1, 2)
    take(Export(out=picture, session=session, panel="next_token", width=1000, height=700))
    text = pypdf.PdfReader(picture).pages[0].extract_text()
    assert f"({saved.run.length - 1})" in text  # after the last of the decoded tokens


@pytest.mark.slow
def test_a_lesson_is_printed(qtbot: QtBot, tmp_path: Path) -> None:
    out = tmp_path / "lesson.pdf"
    take(Export(out=out, lesson="1", **SMALL))  # type: ignore[arg-type]
    pages = pypdf.PdfReader(out).pages
    assert "Answers" in pages[-1].extract_text()


@pytest.mark.parametrize(
    ("export", "says"),
    [
        (Export(out=Path("a.csv"), queries=(0, 99), **SMALL), "The queries 0 to 98 were asked for"),  # type: ignore[arg-type]
        (Export(out=Path("a.gif"), film="lesson", **SMALL), "No lesson is open"),  # type: ignore[arg-type]
        (Export(out=Path("a.pdf"), lesson="nothing", **SMALL), "There is no lesson 'nothing'"),  # type: ignore[arg-type]
        (Export(out=Path("a.png"), session=Path("none.ropewalk")), "none.ropewalk cannot be read"),
    ],
)
def test_what_cannot_be_had_is_reported(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: Export, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RopewalkError, match=says):
        take(export)
    assert not list(tmp_path.glob("a.*"))
