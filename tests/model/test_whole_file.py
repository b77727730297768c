"""Files that are whole or not there: what is left of them after success, after errors, and beside devices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ropewalk.model.whole_file import obstacle, whole_file


def test_the_file_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    with whole_file(out) as part:
        part.write_text("new")
        assert not out.exists()
    assert out.read_text() == "new"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "out.txt"
    out.write_text("old")

    def half() -> None:
        with whole_file(out) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        half()
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_its_bytes_are_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, synced, synchronize = tmp_path / "out.txt", [], os.fsync

    def heard(file: int) -> None:
        assert not out.exists()
        synced.append((os.fstat(file).st_ino, os.fstat(file).st_size))
        synchronize(file)

    monkeypatch.setattr(os, "fsync", heard)
    with whole_file(out) as part:
        part.write_text("new")
        assert synced == []
    assert synced == [(out.stat().st_ino, 3)]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    out = tmp_path / ("n" * 255)
    with whole_file(out) as part:
        part.write_text("new")
    assert out.read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_others_may_read_it_as_any_new_file(tmp_path: Path) -> None:
    plain, out = tmp_path / "plain", tmp_path / "out"
    plain.touch()
    with whole_file(out) as part:
        part.write_text("new")
        part.chmod(0o600)  # as safetensors does
    assert out.stat().st_mode == plain.stat().st_mode


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")
def test_a_pipe_keeps_its_place(tmp_path: Path) -> None:
    """As a device does: whoever is root and writes to /dev/null must not lose it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a file"), whole_file(pipe):
        pytest.fail("there was a name to write to")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_obstacles_are_named(tmp_path: Path) -> None:
    assert obstacle(tmp_path / "new") == ""
    assert "half a pair of surrogates" in obstacle(tmp_path / "\ud800.png")
    assert obstacle(tmp_path) == "it is a folder; give a file name"
    assert obstacle(tmp_path / "no" / "new") == f"there is no folder {tmp_path / 'no'}"
    assert obstacle(Path("a\0b")) == "a name cannot hold the character NUL"
