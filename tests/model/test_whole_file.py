"""Files that are whole or not there: what is left of them after success, after errors, and beside devices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.model import whole_file as files
from ropewalk.model.whole_file import obstacle, whole_file
from tests.processes import ROOT


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


def part_of(folder: Path, process: int, here: str = "") -> Path:
    """What such a process leaves when it is killed while it writes into a folder."""
    path = folder / f".{here or files._here()}-{process}-0123abcd.part"
    path.write_text("half")
    return path


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = part_of(tmp_path, int(killed.stdout))
    kept = [
        part_of(tmp_path, os.getpid()),  # whoever writes it is there
        part_of(tmp_path, int(killed.stdout), "deadbeef"),  # and here nobody knows of the other machine's
        tmp_path / ".mine.part",
        tmp_path / "x.part",
    ]
    for path in kept[2:]:
        path.write_text("somebody else's")
    with whole_file(tmp_path / "out.txt") as part:
        part.write_text("new")
        assert re.fullmatch(files.LEFT, part.name)
    assert not left.exists()
    assert set(tmp_path.iterdir()) == {*kept, tmp_path / "out.txt"}


def test_a_writer_that_is_killed_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pathlib import Path; from ropewalk.model.whole_file import whole_file\n"
        f"with whole_file(Path({str(tmp_path / 'out.txt')!r})) as part:\n"
        "    part.write_text('half'); os.abort()"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False)
    assert len(list(tmp_path.glob(".*.part"))) == 1
    with whole_file(tmp_path / "out.txt") as part:
        part.write_text("whole")
    assert list(tmp_path.iterdir()) == [tmp_path / "out.txt"]
