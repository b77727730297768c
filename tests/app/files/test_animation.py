"""Animations are opened again: frames, times, colours and what they say of themselves; a failure spoils nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image, ImageSequence

from ropewalk.app.files import animation
from ropewalk.app.files.animation import in_palette
from ropewalk.app.files.frames import Frames
from ropewalk.app.files.provenance import Provenance
from ropewalk.app.files.requests import EncodeAnimation
from ropewalk.app.files.serving import serve
from ropewalk.model.errors import Cancelled, RopewalkError
from ropewalk.model.progress import Progress, Pulse, finished
from tests.app.files.filming import filmed

ABOUT = Provenance("RoPE, L1H3", (("Model", "tiny"), ("Prompt", 'a <b> & "中" \N{GREEK SMALL LETTER THETA}' * 30)))
COLOURS = ((240, 20, 30), (10, 200, 90), (68, 1, 84), (253, 231, 37))


@pytest.fixture
def film() -> Frames:
    """Four frames of 30 × 20, each of one colour with a mark that moves."""
    shown = []
    for place, colour in enumerate(COLOURS):
        pixels = np.full((20, 30, 4), (*colour[::-1], 255), np.uint8)
        pixels[5:9, 3 * place : 3 * place + 3, :3] = 255
        shown.append((pixels, 100 + 100 * place))
    return filmed(*shown)


@pytest.fixture
def ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an ffmpeg on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ffmpeg").symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    monkeypatch.setenv("PATH", str(folder))


def asked(path: Path, *wanted: str) -> bytes:
    """What ffmpeg says of a file."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", str(path), *wanted, "-"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def encoded(film: Frames, name: str, path: Path, pulse: Pulse = lambda point: None) -> Path:
    written: Path = finished(serve(EncodeAnimation(path, name, film, ABOUT), pulse))
    return written


def frame_colours(image: Image.Image) -> list[tuple[int, ...]]:
    return [frame.convert("RGB").getpixel((29, 19)) for frame in ImageSequence.Iterator(image)]  # type: ignore[misc]


@pytest.mark.parametrize("name", ["gif", "webp"])
def test_frames_come_back_with_their_colours_and_times(film: Frames, tmp_path: Path, name: str) -> None:
    heard: list[Progress] = []
    with Image.open(encoded(film, name, tmp_path / f"turn.{name}", heard.append)) as image:
        assert image.n_frames == 4  # type: ignore[attr-defined]
        assert image.size == (30, 20)
        assert frame_colours(image) == list(COLOURS)
        times = []
        for frame in ImageSequence.Iterator(image):
            frame.load()
            times.append(frame.info["duration"])
        assert times == [100, 200, 300, 400]
    assert [point.done for point in heard] == [0, 1, 2, 3]


def test_a_gif_says_where_it_came_from_in_its_comment(film: Frames, tmp_path: Path) -> None:
    with Image.open(encoded(film, "gif", tmp_path / "turn.gif")) as image:
        assert json.loads(image.info["comment"]) == {"Title": "RoPE, L1H3", **dict(ABOUT.lines)}


def test_a_webp_says_where_it_came_from_in_its_xmp(film: Frames, tmp_path: Path) -> None:
    with Image.open(encoded(film, "webp", tmp_path / "turn.webp")) as image:
        text = image.info["xmp"].decode()
    assert 'a &lt;b&gt; &amp; "中" θ' in text
    assert "Model: tiny" in text


@pytest.mark.usefixtures("ffmpeg")
def test_an_mp4_has_its_frames_for_their_time_and_says_where_it_came_from(film: Frames, tmp_path: Path) -> None:
    path = encoded(film, "mp4", tmp_path / "turn.mp4")
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert seconds == pytest.approx(1.0, abs=0.1)
    assert count == round(1.0 * animation.RATE)
    first = np.frombuffer(asked(path, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24"), np.uint8)
    first = first.reshape(20, 30, 3)
    assert np.abs(first[19, 29].astype(int) - COLOURS[0]).max() < 12  # a video loses a little
    text = asked(path, "-f", "ffmetadata").decode()
    assert "title=RoPE, L1H3" in text
    assert '"Model": "tiny"' in text


@pytest.mark.usefixtures("ffmpeg")
def test_odd_sizes_are_padded_for_the_video(tmp_path: Path) -> None:
    film = filmed(*((np.full((21, 31, 4), grey, np.uint8), 200) for grey in (0, 128)))
    path = encoded(film, "mp4", tmp_path / "odd.mp4")
    assert len(asked(path, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "gray")) == 32 * 22


def test_without_ffmpeg_a_sentence_says_so(film: Frames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RopewalkError, match=r"An MP4 needs ffmpeg, which is not on this machine's PATH; install it,"):
        encoded(film, "mp4", tmp_path / "turn.mp4")
    assert not (tmp_path / "turn.mp4").exists()


def test_an_ffmpeg_that_fails_is_quoted(film: Frames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shutil.which("sh")
    fake = tmp_path / "ffmpeg"
    fake.write_text(f"#!{shell}\necho 'Unknown encoder libx264.' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RopewalkError, match=r"^ffmpeg could not make the video: Unknown encoder libx264\.$"):
        encoded(film, "mp4", tmp_path / "turn.mp4")


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("name", ["gif", "webp", "mp4"])
@pytest.mark.parametrize("fails", ["replace", "fsync", "cancel"])
def test_a_failure_or_a_cancel_leaves_the_old_file(
    film: Frames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fails: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / f"turn.{name}"
    path.write_bytes(b"old")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def cancel(point: Progress) -> None:
        if point.done == 2:
            raise Cancelled

    if fails == "cancel":
        with pytest.raises(Cancelled):
            encoded(film, name, path, cancel)
    else:
        monkeypatch.setattr(os, fails, full)
        with pytest.raises(RopewalkError, match=r"could not be written to .*: No space left on device"):
            encoded(film, name, path)
        monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


def test_frequent_colours_stay_exact_in_a_palette() -> None:
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (100, 100, 3), np.uint8)
    pixels[:, 30:60] = (68, 1, 84)
    pixels[:, 60:] = (253, 231, 37)
    kept = in_palette(Image.fromarray(pixels)).convert("RGB")
    assert kept.getpixel((40, 50)) == (68, 1, 84)
    assert kept.getpixel((80, 50)) == (253, 231, 37)
