"""A recording keeps frames as they were painted, in a file that is gone when nobody holds what was recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ropewalk.app.files import frames
from ropewalk.app.files.animation import pictures
from ropewalk.app.files.frames import Recording
from tests.app.files.filming import filmed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files lie; nothing is left there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def test_frames_are_what_was_painted_and_go_with_the_record(folder: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (2, 5, 7, 4), np.uint8)
    film = filmed((pixels[0], 100), (pixels[1], 200))
    assert (film.width, film.height, film.durations) == (7, 5, (100, 200))
    assert [np.frombuffer(raw, np.uint8).tolist() for raw in film.raw()] == [one.ravel().tolist() for one in pixels]
    shown = [np.asarray(picture) for picture in pictures(film, lambda point: None)]
    assert np.array_equal(shown, pixels[..., 2::-1])
    assert list(folder.iterdir()) == [film.path]
    again = film
    del film
    assert again.path.exists()


def test_a_frame_of_another_size_keeps_the_first_ones() -> None:
    film = filmed((np.full((3, 4, 4), 9, np.uint8), 100), (np.full((5, 2, 4), 200, np.uint8), 100))
    _, second = pictures(film, lambda point: None)
    assert second.size == (4, 3)
    assert (second.getpixel((1, 2)), second.getpixel((3, 2))) == ((200, 200, 200), (0, 0, 0))


def test_a_large_frame_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PIECE", 16)
    pixels = np.arange(40, dtype=np.uint8)
    recording = Recording()
    assert len(list(recording.adding(5, 2, memoryview(pixels.tobytes()), 0))) == 2
    film = recording.taken()
    assert list(film.raw()) == [pixels.tobytes()]


def test_what_was_begun_can_be_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PIECE", 16)
    recording = Recording()
    next(recording.adding(5, 2, bytes(40), 0))
    assert list(folder.iterdir())
    recording.drop()
