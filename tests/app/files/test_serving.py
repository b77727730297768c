"""Every request about files is a plain record, served without a window, Qt or torch; a failure spoils nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from ropewalk.app.files.provenance import Provenance
from ropewalk.app.files.requests import (
    EncodeAnimation,
    EncodePng,
    FindCheckpoint,
    FinishSvg,
    Found,
    ReadLesson,
    ReadSession,
    ReadShelf,
    Request,
    SaveSession,
    SvgPart,
    WriteBytes,
    WriteNumbers,
    WriteSvg,
)
from ropewalk.app.files.serving import SERVED, serve
from ropewalk.app.files.session_file import SessionFileError
from ropewalk.app.files.svg_file import SVG
from ropewalk.app.lessons.loading import load_lesson, load_shelf
from ropewalk.model.errors import Cancelled, CheckpointError, LessonError, RopewalkError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.progress import Partial, Progress, finished
from ropewalk.model.readings.records import HeadNumbers, TokenText
from ropewalk.resources import resource
from tests.app.files.filming import filmed
from tests.app.files.test_session_file import SAVED
from tests.app.small_lesson import SMALL

ROOT = Path(__file__).resolve().parents[3]
ABOUT = Provenance("θ, L1H3", (("Model", "tiny"), ("Prompt", "é" * 50), ("Decoded", "中" * 50)))
PIXELS = np.random.default_rng(2).integers(0, 256, (200, 300, 4), np.uint8)
"""So many colours that encoders write more than once."""
DRAWN = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 30" width="10mm"><title>Qt</title><defs/>
<g><rect id="ground"/><g><text>\ue0000</text></g><g><rect id="first"/><g/></g><g><text>\ue0001</text></g>
<g font-family="Ropewalk Sans"><text textLength="9.50">words\x07</text></g></g></svg>"""
"""What Qt has drawn of two widgets."""
PARTS = (SvgPart(1, 2, (1, 2, 20, 10)), SvgPart(0, 0, None))
FALLBACKS = (("Ropewalk Sans", "Inter"),)
NUMBERS = HeadNumbers(1, 3, (0, 4), (0, 4), np.eye(4), np.eye(4) / 3, np.tri(4, dtype=np.bool_))
TOKENS = tuple(TokenText(id=place, text=text) for place, text in enumerate("ab=c"))


def served(request: Request, pulse: Callable[[Progress], None] = lambda point: None) -> Any:
    return finished(serve(request, pulse))


# The records ------------------------------------------------------------------------------------------------------

PLAIN = (str, int, float, bool, bytes, Path, types.NoneType)


def strange(hint: Any, where: str) -> list[str]:
    """Where a record says something that another process could not be sent."""
    if hint in PLAIN or get_origin(hint) is Literal:
        return []
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return [found for one in fields(hint) for found in strange(hints[one.name], f"{where}.{one.name}")]
    if get_origin(hint) in (tuple, Sequence, Union, types.UnionType):
        return [found for one in get_args(hint) if one is not ... for found in strange(one, where)]
    return [] if get_origin(hint) is np.ndarray else [f"{where}: {hint}"]


def test_every_request_is_a_plain_record_and_is_served() -> None:
    assert set(SERVED) == set(get_args(Request))
    assert [found for kind in (*SERVED, Found) for found in strange(kind, kind.__name__)] == []
    assert strange(Callable[[], int], "a") != []


def one_of_each(folder: Path) -> tuple[Request, ...]:
    """A request of every kind that can be served in an empty folder, in this order."""
    lesson, session = folder / "mine.toml", folder / "work.ropewalk"
    lesson.write_text(SMALL, encoding="utf-8")
    film = filmed((PIXELS, 100), (PIXELS[::-1].copy(), 100))
    return (
        EncodePng(folder / "a.png", filmed((PIXELS, 0)), 7559, ABOUT),
        WriteSvg(folder / "a.svg", FinishSvg(DRAWN, 40, 30, PARTS, FALLBACKS, ABOUT)),
        FinishSvg(DRAWN, 40, 30, PARTS, FALLBACKS, ABOUT),
        WriteBytes(folder / "a.pdf", b"%PDF"),
        EncodeAnimation(folder / "a.gif", "gif", film, ABOUT),
        WriteNumbers(folder / "a.csv", "csv", NUMBERS, TOKENS, ABOUT),
        WriteNumbers(folder / "a.npz", "npz", NUMBERS, TOKENS, ABOUT),
        SaveSession(session, SAVED),
        FindCheckpoint((str(folder / "none"), str(lesson))),
        ReadSession(session),
        ReadLesson(lesson),
        ReadShelf(),
    )


def test_serving_imports_neither_qt_nor_torch(tmp_path: Path) -> None:
    """Neither do the functions, which import what they need when they are called."""
    assert {type(request) for request in one_of_each(tmp_path)} == set(SERVED)
    code = f"""
import sys
from pathlib import Path
from tests.app.files.test_serving import one_of_each, served
for request in one_of_each(Path({str(tmp_path)!r})):
    served(request)
print(*({{"PySide6", "shiboken6", "torch"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []


# Writing ----------------------------------------------------------------------------------------------------------

WRITING = ("png", "svg", "pdf", "gif", "csv", "npz", "ropewalk")


def writing(folder: Path, name: str) -> Any:
    """The request that makes a file of this ending."""
    return next(one for one in one_of_each(folder) if getattr(one, "path", folder).suffix == f".{name}")


@pytest.mark.parametrize("name", WRITING)
def test_a_file_is_written_whole_and_named(tmp_path: Path, name: str) -> None:
    request = writing(tmp_path, name)
    assert served(request) == request.path
    assert request.path.stat().st_size
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", WRITING)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    request = writing(tmp_path, name)
    request.path.write_bytes(b"old")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RopewalkError, match=r"could not be written to .*: No space left on device\.$"):
        served(request)
    assert request.path.read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["png", "gif", "csv", "npz"])
def test_what_cannot_pause_is_ended_by_its_pulse_anywhere(tmp_path: Path, name: str) -> None:
    request = writing(tmp_path, name)
    heard: list[Progress] = []
    served(request, heard.append)
    assert heard
    request.path.write_bytes(b"old")
    for last in range(len(heard)):
        left = iter(range(last))

        def pulse(point: Progress, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Cancelled

        with pytest.raises(Cancelled):
            served(request, pulse)
    assert request.path.read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


def test_a_png_has_the_pixels_that_were_painted_and_says_where_it_came_from(tmp_path: Path) -> None:
    with Image.open(served(writing(tmp_path, "png"))) as image:
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), PIXELS[..., 2::-1])
        assert image.info["dpi"] == pytest.approx((192, 192), abs=0.1)
        said = dict(image.text)  # type: ignore[attr-defined]
    assert said == {"Title": ABOUT.title, **dict(ABOUT.lines), "Description": ABOUT.text}


def test_a_drawing_is_clipped_described_and_sized(tmp_path: Path) -> None:
    root = ElementTree.parse(served(writing(tmp_path, "svg"))).getroot()
    space = f"{{{SVG}}}"
    assert (root.get("width"), root.get("height")) == ("40", "30")
    assert [root.findtext(f"{space}{name}") for name in ("title", "desc", "metadata")] == [
        ABOUT.title,
        ABOUT.text,
        ABOUT.json,
    ]
    assert root.find(f".//{space}rect[@id='ground']") is not None
    inside = root.find(f".//{space}g[@clip-path='url(#widget0)']")
    assert inside is not None
    assert [rect.get("id") for rect in inside.iter(f"{space}rect")] == ["first"]
    clip = root.find(f".//{space}clipPath[@id='widget0']/{space}rect")
    assert clip is not None
    assert clip.attrib == {"x": "1", "y": "2", "width": "20", "height": "10"}
    assert [words.text for words in root.iter(f"{space}text")] == ["words"]
    family = root.find(f".//{space}g[@font-family]")
    assert family is not None
    assert family.get("font-family") == "Ropewalk Sans, Inter"


# Reading ----------------------------------------------------------------------------------------------------------


def test_a_session_is_read_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    served(SaveSession(path, SAVED))
    assert served(ReadSession(path)) == SAVED
    with pytest.raises(SessionFileError, match="cannot be read"):
        served(ReadSession(tmp_path / "none.ropewalk"))


def test_a_checkpoint_is_found_at_the_first_place_where_something_is(tmp_path: Path) -> None:
    none, one, two = (tmp_path / name for name in ("none.gguf", "one.gguf", "two.gguf"))
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    found = served(FindCheckpoint((str(none), str(one), str(two))))
    assert found == Found(str(one), finished(fingerprint_steps(one)))
    assert served(FindCheckpoint((str(two), str(one)))).fingerprint != found.fingerprint
    assert served(FindCheckpoint((str(none),))) == Found(None, "")
    assert served(FindCheckpoint((None,))).place == str(resource("bundled"))
    assert served(FindCheckpoint(("/" + "a" * 5000, "a\x00", str(one)))) == found
    with pytest.raises(RopewalkError, match=r"^/dev/null cannot be read"):
        served(FindCheckpoint(("/dev/null",)))


def test_an_adapter_is_a_part_of_what_a_checkpoint_is(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base.gguf", tmp_path / "mine"
    base.write_bytes(b"base")
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    found = served(FindCheckpoint((str(base),), str(adapter)))
    assert (found.place, found.fingerprint) != (str(base), finished(fingerprint_steps(base)))
    (adapter / "adapter_config.json").write_text('{"r": 2}')
    assert served(FindCheckpoint((str(base),), str(adapter))).fingerprint != found.fingerprint
    with pytest.raises(CheckpointError, match="gone cannot be read"):
        served(FindCheckpoint((str(base),), str(tmp_path / "gone")))


def test_lessons_are_read_one_and_all(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL, encoding="utf-8")
    assert served(ReadLesson(path)) == load_lesson(path)
    points = list(serve(ReadShelf(), lambda point: None))
    lessons = [point.reading for point in points if isinstance(point, Partial)]
    assert lessons == list(load_shelf().lessons)
    broken = tmp_path / "broken.toml"
    broken.write_text("number =", encoding="utf-8")
    with pytest.raises(LessonError):
        served(ReadLesson(broken))
