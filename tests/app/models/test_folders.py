"""What lies in a folder: folders first, what looks like a checkpoint, and what cannot be listed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ropewalk.app.models import folders
from ropewalk.app.models.folders import Entry, Folder, folder_steps
from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import finished


def test_folders_come_first_and_checkpoints_are_told_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "smol").mkdir()
    (tmp_path / "smol" / "config.json").touch()
    (tmp_path / "Notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a.gguf").write_bytes(b"12345")
    (tmp_path / "b.txt").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert finished(folder_steps(str(tmp_path))) == Folder(
        str(tmp_path),
        str(tmp_path.parent),
        (
            Entry("Notes", str(tmp_path / "Notes"), True, 0, False),
            Entry("smol", str(tmp_path / "smol"), True, 0, True),
            Entry("a.gguf", str(tmp_path / "a.gguf"), False, 5, True),
            Entry("b.txt", str(tmp_path / "b.txt"), False, 0, False),
        ),
    )


def test_a_path_begins_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for typed, place in (("", tmp_path), ("models", tmp_path / "models"), ("~/models/..", tmp_path)):
        assert finished(folder_steps(typed)).path == str(place)
    assert finished(folder_steps("/")).parent == ""


def test_very_many_are_counted_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()
    folder = finished(folder_steps(str(tmp_path)))
    assert (len(folder.entries), folder.left_out) == (3, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_name_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    assert finished(folder_steps(str(tmp_path))).entries == ()


def test_what_cannot_be_listed_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.touch()
    for path in (file, tmp_path / "nothing"):
        with pytest.raises(CheckpointError, match=rf"{path.name} cannot be listed: N"):
            finished(folder_steps(str(path)))
