"""A session file says everything as plain data, and a broken one is refused by what is wrong with it."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.selection import Selection
from app.session_file import (
    SavedCheckpoint,
    SavedMeaning,
    SavedRun,
    SavedSession,
    SavedView,
    SessionFileError,
    read_session,
    write_session,
)
from model.experiments import AblateHeads, NoScale, PermuteTokens, ScaleScores
from model.readings import Sampling

RUN = SavedRun(
    prompt="a \ud800 <b>\n中",
    typed=SavedMeaning(as_ids=False, special=False),
    ids=(5, 6, 7),
    decoded=(8, 9),
    drawn=(Sampling(), Sampling(0.8, 40, 0.9, 2**62)),
    length=4,
    experiments=(AblateHeads(1, (0, 2), ((0.5, -1.0), (1e-30, 2.0))), NoScale(), ScaleScores(2.0, 1)),
)
SAVED = SavedSession(
    checkpoint=SavedCheckpoint("tiny", "/models/tiny", "ab" * 32, "cpu", "float32", "../tiny", (("heads", 4),)),
    run=RUN,
    pinned=replace(RUN, decoded=(), drawn=(), length=3, experiments=(PermuteTokens((2, 1, 0)),)),
    sampling=Sampling(1.5, 3, 0.25, 9),
    selection=Selection(layer=1, head=2, query=3, key=1, plane=2, step=4),
    view=SavedView(b"\x00\xff layout", "light", True),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "work.ropewalk"
    write_session(SAVED, path)
    return path


def changed(file: Path, *place: str | int, value: Any) -> Path:
    """The same file with one value changed; a missing last name is added."""
    data = json.loads(file.read_text())
    at = data
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    file.write_text(json.dumps(data))
    return file


def test_everything_comes_back_equal(file: Path) -> None:
    assert read_session(file) == SAVED


@given(
    prompt=st.text(),
    factor=st.floats(allow_nan=False, allow_infinity=False),
    ids=st.lists(st.integers(0, 2**40), min_size=1),
)
def test_any_prompt_and_any_number_come_back(
    tmp_path_factory: pytest.TempPathFactory, prompt: str, factor: float, ids: list[int]
) -> None:
    run = SavedRun(prompt, SavedMeaning(), tuple(ids), (), (), len(ids), (ScaleScores(factor),))
    saved = replace(SAVED, run=run, pinned=None)
    path = tmp_path_factory.getbasetemp() / "any.ropewalk"
    write_session(saved, path)
    assert read_session(path) == saved


BROKEN = [
    (("run", "length"), "x", "run.length is 'x', but a whole number is expected"),
    (("run", "length"), 9, "run.length is 9, but must be from 3 to 5"),
    (("run", "ids"), [], "run.ids is empty"),
    (("run", "decoded", 1), None, r"run.decoded\[1\] is None, but a whole number is expected"),
    (("run", "decoded"), [1], "run.drawn has 2 entries for 1 decoded tokens"),
    (("run", "prompt"), 3, "run.prompt is 3, but a text is expected"),
    (("run", "typed", "special"), 1, "run.typed.special is 1, but true or false is expected"),
    (
        ("run", "experiments", 0, "kind"),
        "Explode",
        r"run.experiments\[0\].kind is 'Explode', but there are ScaleScores",
    ),
    (("run", "experiments", 0, "heads"), "0", r"run.experiments\[0\].heads is '0', but a list is expected"),
    (("run", "experiments", 0, "means", 0, 0), "1", r"means\[0\]\[0\] is '1', but a number is expected"),
    (("sampling", "temperature"), True, "sampling.temperature is True, but a number is expected"),
    (("sampling", "temperature"), 10**400, "sampling.temperature is 1000.*, but no number here has more than 64 bits"),
    (("run", "decoded", 1), 1 << 63, r"run.decoded\[1\] is 9223372036854775808, but no number here has more"),
    (("run", "experiments", 0, "kind"), ["NoScale"], r"run.experiments\[0\].kind is \['NoScale'\], but there are"),
    (("sampling", "colour"), 1, "sampling.colour is unknown here"),
    (("selection"), [], r"selection is \[\], but named values are expected"),
    (("view", "theme"), "pink", "view.theme is 'pink', but there are dark, light"),
    (("view", "layout"), "*", "view.layout is not base64"),
    (("checkpoint", "options"), [["heads"]], r"checkpoint.options\[0\] has 1 values, but 2 are expected"),
]


@pytest.mark.parametrize(("place", "value", "says"), BROKEN)
def test_a_broken_value_is_named(file: Path, place: Any, value: Any, says: str) -> None:
    steps = (place,) if isinstance(place, str) else place
    with pytest.raises(SessionFileError, match=f"^work.ropewalk is a broken session: .*{says}"):
        read_session(changed(file, *steps, value=value))


def test_a_missing_value_is_named(file: Path) -> None:
    data = json.loads(file.read_text())
    del data["run"]["ids"]
    file.write_text(json.dumps(data))
    with pytest.raises(SessionFileError, match=r"run\.ids is missing"):
        read_session(file)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a session that Ropewalk can read"),
        (b"\x80\x04pickle", "is not a session that Ropewalk can read"),
        (b"{" * 200_000, "is not a session that Ropewalk can read"),
        (b'{"format": "ropewalk-session", "version": NaN}', "NaN is no number"),
        (b"[1, 2]", "is not a session of Ropewalk"),
        (b'{"format": "notes"}', "is not a session of Ropewalk"),
        (b'{"format": "ropewalk-session"}', "does not say its version"),
        (b'{"format": "ropewalk-session", "version": true}', "does not say its version"),
        (b'{"format": "ropewalk-session", "version": 1}', "checkpoint is missing"),
        (
            b'{"format": "ropewalk-session", "version": 2, "software": "Ropewalk 9"}',
            r"was written by Ropewalk 9 in format 2, but this one reads up to 1; update Ropewalk\.",
        ),
    ],
)
def test_what_is_no_session_is_refused_in_a_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "work.ropewalk"
    path.write_bytes(content)
    with pytest.raises(SessionFileError, match=says):
        read_session(path)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionFileError, match="cannot be read: No such file"):
        read_session(tmp_path / "none.ropewalk")
    huge = tmp_path / "huge.ropewalk"
    with huge.open("wb") as stream:
        stream.truncate(65 << 20)
    with pytest.raises(SessionFileError, match="too many for a session"):
        read_session(huge)


@pytest.mark.parametrize("fails", ["replace", "fsync"])
def test_a_failing_write_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    before = file.read_bytes()

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(SessionFileError, match=r"could not be written to .*work\.ropewalk: No space left on device"):
        write_session(replace(SAVED, pinned=None), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
