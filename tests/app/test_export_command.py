"""`export` hands over what was typed, and refuses in a sentence what no export can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.app.commands.export import ENDINGS, FILMS
from ropewalk.app.commands.line import run_command
from ropewalk.app.files.shot import Export, Shot
from ropewalk.views.files import pictures, recordings


@pytest.fixture
def shots() -> list[Shot]:
    return []


def run(shots: list[Shot], *typed: object) -> int:
    return run_command([str(one) for one in typed], shots.append)


def test_everything_typed_is_handed_over(shots: list[Shot], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.webp"
    typed = f"export {out} PATH --prompt hi --size 800x600 --film decode --film-steps 4 --scale 3 --paper --panel heads"
    assert run(shots, *typed.split(), "--lesson", "6", "--session", "x.ropewalk") == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert shots == [
        Export(
            out=out,
            path="PATH",
            prompt="hi",
            width=800,
            height=600,
            panel="heads",
            scale=3,
            paper=True,
            film="decode",
            film_steps=4,
            lesson="6",
            session=Path("x.ropewalk"),
        )
    ]


def test_the_path_may_come_after_options(shots: list[Shot], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.png"
    assert run(shots, "export", out, "--panel", "heads", "PATH", "--paper") == 0
    assert shots == [Export(out=out, path="PATH", panel="heads", paper=True)]
    for extra in (["OTHER"], ["--bogus"], ["--bogus", "x"]):
        assert run(shots, "export", out, "PATH", "--panel", "heads", *extra) == 2
        assert f"unrecognized arguments: {' '.join(extra)}" in capsys.readouterr().err
    assert run(shots, "export", out, "--panel", "heads", "--bogus", "PATH") == 2
    assert len(shots) == 1


def test_the_rows_of_numbers_are_handed_over(shots: list[Shot], tmp_path: Path) -> None:
    assert run(shots, "export", tmp_path / "a.csv", "--queries", "1:3", "--keys", "0:9") == 0
    assert shots == [Export(out=tmp_path / "a.csv", queries=(1, 3), keys=(0, 9))]


def test_heads_and_how_they_are_drawn_are_handed_over(shots: list[Shot], tmp_path: Path) -> None:
    typed = ["--heads", "L8H1, 2.4", "--map", "scores", "--labels", "positions"]
    assert run(shots, "export", tmp_path / "fig.svg", *typed) == 0
    assert shots == [Export(out=tmp_path / "fig.svg", heads=((8, 1), (2, 4)), map="scores", labels="positions")]


def test_the_logit_lens_has_numbers_of_its_own(shots: list[Shot], tmp_path: Path) -> None:
    assert run(shots, "export", tmp_path / "a.npz", "--panel", "lens", "--queries", "0:9") == 0
    assert shots == [Export(out=tmp_path / "a.npz", panel="lens", queries=(0, 9))]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("a.csv --heads L1H2", "--heads changes nothing in a file that ends in csv; leave it out, or write one of png"),
        ("a.svg --map scores", "--map says how heads are drawn; name some, such as --heads L1H3,L0H2."),
        ("a.svg --labels positions", "--labels says how heads are drawn"),
        ("a.png --heads L1H2 --panel heads", "--heads draws maps on paper, without the window; leave --panel out."),
        ("a.png --heads L1H2 --paper", "--heads draws maps on paper, without the window; leave --paper out."),
        ("a.csv --scale 2", "--scale changes nothing in a file that ends in csv; leave it out, or write one of png"),
        ("a.svg --scale 2", "--scale changes nothing in a file that ends in svg"),
        ("a.npz --paper", "--paper changes nothing"),
        ("a.safetensors --panel heads", "--panel changes nothing"),
        ("a.PNG --film decode", "--film changes nothing in a file that ends in png"),
        ("a.pdf --film-steps 3", "--film-steps changes nothing"),
        ("a.png --queries 0:2", "--queries changes nothing in a file that ends in png"),
        ("a.ropewalk --keys 0:2", "--keys changes nothing"),
        ("a.csv --panel heads", "--panel changes nothing in a file that ends in csv"),
        ("a.csv --panel lens --keys 0:2", "--keys changes nothing in a file that ends in csv; leave it out; the logit"),
        ("a.pdf --lesson 6 --panel heads", "A PDF of a lesson is its handout"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    shots: list[Shot], tmp_path: Path, capsys: pytest.CaptureFixture[str], typed: str, says: str
) -> None:
    name, *options = typed.split()
    assert run(shots, "export", tmp_path / name, *options) == 1
    assert capsys.readouterr().err.startswith(says)
    assert not shots


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_is_taken_in_any_case(shots: list[Shot], tmp_path: Path, name: str) -> None:
    assert run(shots, "export", tmp_path / f"A.{name.upper()}") == 0
    assert isinstance(shots[0], Export)
    assert shots[0].ending == name


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["a.bmp"], "does not end in one of png, svg, pdf"),
        (["png"], "does not end in one of"),
        (["a.csv", "--queries", "3"], "'3' is not a range such as 0:5"),
        (["a.csv", "--keys", "4:4"], "'4:4' is not a range"),
        (["a.png", "--scale", "5"], "invalid choice"),
        (["a.svg", "--heads", "L1H2,q=3"], "'q=3' names no head; write them like L8H1,L2H4"),
        (["a.svg", "--heads", "L1H2,,L0H0"], "names no head and no cell"),
        (["a.svg", "--heads", "L1H2", "--map", "values"], "invalid choice"),
        (["a.gif", "--film", "dance"], "invalid choice"),
    ],
)
def test_what_cannot_be_is_wrong_usage(
    shots: list[Shot], capsys: pytest.CaptureFixture[str], typed: list[str], says: str
) -> None:
    assert run(shots, "export", *typed) == 2
    assert says in capsys.readouterr().err
    assert not shots


def test_a_place_that_cannot_be_written_is_refused_first(
    shots: list[Shot], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shots, "export", tmp_path / "none" / "a.png") == 1
    assert "there is no folder" in capsys.readouterr().err
    assert not shots


def test_the_command_knows_the_windows_tables() -> None:
    assert tuple(film.name for film in recordings.FILMS) == FILMS
    assert {one.name for one in pictures.FORMATS} <= set(ENDINGS)
