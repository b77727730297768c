"""A session file says everything as plain data, and a broken one is refused by what is wrong with it."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.app.files.provenance import software
from ropewalk.app.files.session_file import (
    SavedCheckpoint,
    SavedPromptOptions,
    SavedRun,
    SavedSession,
    SavedView,
    SessionFileError,
    read_session,
    write_session,
)
from ropewalk.app.session.selected import HeadNote, PinnedHeads, Selection
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    Intervention,
    NoScale,
    PermuteTokens,
    ScaleScores,
    SetPattern,
)
from ropewalk.model.readings.records import Sampling

RUN = SavedRun(
    prompt="a \ud800 <b>\n中",
    prompt_options=SavedPromptOptions(as_ids=False, special=False),
    ids=(5, 6, 7),
    decoded=(8, 9),
    drawn=(Sampling(), Sampling(0.8, 40, 0.9, 2**62)),
    length=4,
    interventions=(AblateHeads(1, (0, 2), ((0.5, -1.0), (1e-30, 2.0))), NoScale(), ScaleScores(2.0, 1)),
)
SAVED = SavedSession(
    checkpoint=SavedCheckpoint("tiny", "/models/tiny", "ab" * 32, "cpu", "float32", "../tiny", (("heads", 4),)),
    run=RUN,
    baseline=replace(RUN, decoded=(), drawn=(), length=3, interventions=(PermuteTokens((2, 1, 0)),)),
    sampling=Sampling(1.5, 3, 0.25, 9),
    selection=Selection(layer=1, head=2, query=3, key=1, plane=2, step=4),
    view=SavedView(b"\x00\xff layout", "light", True),
)

BY_0_1_0 = r"""
{"format": "ropewalk-session", "version": 1, "software": "Ropewalk 0.1.0", "checkpoint": {"name": "tiny",
"path": "/models/tiny", "fingerprint": "abababababababababababababababababababababababababababababababab",
"device": "cpu", "dtype": "float32", "beside": "../tiny", "options": [["heads", 4]]},
"run": {"prompt": "a \ud800 <b>\n\u4e2d", "typed": {"as_ids": false, "special": false, "chat": "",
"system": ""}, "ids": [5, 6, 7], "decoded": [8, 9], "drawn": [{"temperature": 0.0, "top_k": 0, "top_p": 1.0,
"seed": 0}, {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 4611686018427387904}], "length": 4,
"experiments": [{"kind": "AblateHeads", "layer": 1, "heads": [0, 2], "means": [[0.5, -1.0], [1e-30, 2.0]]},
{"kind": "NoScale", "layer": null}, {"kind": "ScaleScores", "factor": 2.0, "layer": 1}]},
"pinned": {"prompt": "a \ud800 <b>\n\u4e2d", "typed": {"as_ids": false, "special": false, "chat": "",
"system": ""}, "ids": [5, 6, 7], "decoded": [], "drawn": [], "length": 3,
"experiments": [{"kind": "PermuteTokens", "order": [2, 1, 0]}]}, "sampling": {"temperature": 1.5, "top_k": 3,
"top_p": 0.25, "seed": 9}, "selection": {"prompt": 0, "layer": 1, "head": 2, "query": 3, "key": 1, "plane": 2,
"step": 4}, "view": {"layout": "AP8gbGF5b3V0", "theme": "light", "projector": true}}"""
"""What Ropewalk 0.1.0 wrote of it."""


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


def test_what_0_1_0_wrote_still_opens_and_is_still_what_is_written(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "old.ropewalk"
    path.write_text(BY_0_1_0, encoding="ascii")
    assert read_session(path) == SAVED
    assert json.loads(file.read_text()) == json.loads(BY_0_1_0) | {"software": software()}


def test_interventions_keep_the_names_that_0_1_0_gave_them(tmp_path: Path) -> None:
    written = [
        {"kind": "ScaleScores", "factor": 2.0, "layer": None}, {"kind": "NoScale", "layer": 1}, {"kind": "RopeOff"},
        {"kind": "RopeBase", "base": 2.0}, {"kind": "RopeScaling", "rule": "yarn", "factor": 2.0},
        {"kind": "NoCausalMask"}, {"kind": "AblateHeads", "layer": 0, "heads": [1], "means": [["NaN", "-Infinity"]]},
        {"kind": "AblatePlane", "layer": 0, "head": 1, "plane": 2, "mean": []}, {"kind": "PermuteTokens", "order": [0]},
        {"kind": "AblateMlp", "layer": 0, "mean": []}, {"kind": "ReadKvHead", "layer": 0, "head": 1, "kv_head": 1},
    ]  # fmt: skip
    data = json.loads(BY_0_1_0)
    data["run"]["experiments"] = written
    path = tmp_path / "all.ropewalk"
    path.write_text(json.dumps(data))
    saved = read_session(path)
    assert {type(one) for one in saved.run.interventions} == set(get_args(Intervention)) - {SetPattern}  # of 0.2
    write_session(saved, path)
    assert json.loads(path.read_text())["run"]["experiments"] == written


@settings(max_examples=30)
@given(
    prompt=st.text(),
    factor=st.floats(allow_nan=False),
    ids=st.lists(st.integers(0, 2**40), min_size=1),
)
def test_any_prompt_and_any_number_come_back(
    tmp_path_factory: pytest.TempPathFactory, prompt: str, factor: float, ids: list[int]
) -> None:
    run = SavedRun(prompt, SavedPromptOptions(), tuple(ids), (), (), len(ids), (ScaleScores(factor),))
    saved = replace(SAVED, run=run, baseline=None)
    path = tmp_path_factory.getbasetemp() / "any.ropewalk"
    write_session(saved, path)
    assert read_session(path) == saved


BROKEN = [
    (("run", "length"), "x", "run.length must be a whole number, not text"),
    (("run", "length"), 9, "run.length is 9, but must be from 3 to 5"),
    (("run", "ids"), [], "run.ids is empty"),
    (("run", "decoded", 1), None, r"run.decoded\[1\] must be a whole number, not nothing"),
    (("run", "decoded"), [1], "run.drawn has 2 entries for 1 decoded tokens"),
    (("run", "prompt"), 3, "run.prompt must be text, not a whole number"),
    (("run", "typed", "special"), 1, "run.typed.special must be true or false, not a whole number"),
    (("run", "experiments", 0, "kind"), "Explode", r"run.experiments\[0\].kind cannot be 'Explode'"),
    (("run", "experiments", 0, "heads"), "0", r"run.experiments\[0\].heads must be a list, not text"),
    (("run", "experiments", 0, "means", 0, 0), "1", r"means\[0\]\[0\] cannot be '1'"),
    (("sampling", "temperature"), True, "sampling.temperature must be a number, not true or false"),
    (("sampling", "temperature"), 10**400, "sampling.temperature has more than 64 bits"),
    (("run", "decoded", 1), 1 << 63, r"run.decoded\[1\] has more than 64 bits"),
    (("run", "experiments", 0, "kind"), ["NoScale"], r"run.experiments\[0\].kind must be text, not a list"),
    (("sampling", "colour"), 1, "sampling.colour is unknown here"),
    (("selection"), [], "selection must be named values, not a list"),
    (("view", "theme"), "pink", "view.theme cannot be 'pink'"),
    (("view", "layout"), "*", "view.layout is not base64"),
    (("sampling", "top_p"), 0, "sampling cannot be used: Top-p is 0"),
    (("run", "drawn", 1, "temperature"), "NaN", r"run.drawn\[1\] cannot be used: The temperature is nan"),
    (("run", "experiments"), [{"kind": "NoScale", "layer": None}] * 10_001, "run.experiments has 10,001 entries, more"),
    (("checkpoint", "options"), [["heads"]], r"checkpoint.options\[0\] has 1 values, but 2 are expected"),
]


@pytest.mark.parametrize(("place", "value", "says"), BROKEN)
def test_a_broken_value_is_named(file: Path, place: Any, value: Any, says: str) -> None:
    steps = (place,) if isinstance(place, str) else place
    with pytest.raises(SessionFileError, match=f"^work.ropewalk is a broken session: .*{says}"):
        read_session(changed(file, *steps, value=value))


def test_pinned_heads_and_notes_come_back_and_an_empty_board_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "board.ropewalk"
    board = PinnedHeads(((1, 3), (0, 2)), (HeadNote(0, 2, "it looks back\n<b>"), HeadNote(3, 0, "?")))
    write_session(replace(SAVED, board=board), path)
    assert read_session(path).board == board
    assert json.loads(path.read_text())["board"]["heads"] == [[1, 3], [0, 2]]
    with pytest.raises(SessionFileError, match="board has layer 1, head -3, but both are counted from 0"):
        read_session(changed(path, "board", "heads", 0, 1, value=-3))
    with pytest.raises(SessionFileError, match=r"board.notes\[1\].text must be text, not a whole number"):
        read_session(changed(path, "board", "notes", 1, "text", value=3))


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
        (b'{"format": "ropewalk-session", "version": NaN}', "does not say its version"),
        (b'{"format": "ropewalk-session", "version": 1e400}', "1e400 is too large a number"),
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
        write_session(replace(SAVED, baseline=None), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_how_a_checkpoint_was_opened_is_kept(tmp_path: Path) -> None:
    asked = (("adapter", "/a/mine"), ("first_layers", 2), ("ignore", "x,y"))
    saved = replace(SAVED, checkpoint=replace(SAVED.checkpoint, options=asked))
    write_session(saved, tmp_path / "work.ropewalk")
    assert read_session(tmp_path / "work.ropewalk") == saved
