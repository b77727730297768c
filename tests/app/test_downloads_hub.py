"""Downloading through huggingface_hub itself, from a hub on this machine: what comes, progress, cancel, errors."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.short_lived import ShortLived
from ropewalk.app.jobs import Jobs
from ropewalk.app.models.download_child import reason
from ropewalk.app.models.downloads import download_steps
from ropewalk.app.models.local_models import local_models_steps
from ropewalk.app.models.requests import DownloadModel
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import Progress, finished
from tests.app.local_hub import COMMIT, Hub, serving
from tests.in_process import real
from tests.processes import family, python, started, staying

WEIGHTS = bytes(range(256)) * 16_000
"""Four megabytes, in pieces of 64 kB."""
FILES = {
    "README.md": b"# small", "config.json": b'{"model_type": "llama"}', "generation_config.json": b"{}",
    "tokenizer.json": b"{1}", "tokenizer_config.json": b"{12}", "special_tokens_map.json": b"{123}",
    "model.safetensors": WEIGHTS, "pytorch_model.bin": WEIGHTS, "onnx/model.onnx": WEIGHTS, "flax_model.msgpack": b"x",
}  # fmt: skip


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        hub.repositories["org/small"] = FILES
        yield hub


def outcome(name: str) -> tuple[list[Progress], str]:
    """Every point of a download, and where it lies."""
    steps, points = download_steps(name), []
    while True:
        try:
            points.append(next(steps))
        except StopIteration as stop:
            return points, stop.value


def blobs(folder: Path) -> list[Path]:
    """The files of the cache that hold what came."""
    return list((folder / "hub" / "models--org--small" / "blobs").iterdir())


def refusal(name: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        finished(download_steps(name))
    assert "\n" not in caught.value.sentence
    assert caught.value.sentence.endswith(".")
    return caught.value.sentence


def test_only_what_is_needed_arrives_where_others_find_it_and_its_bytes_are_counted(hub: Hub, tmp_path: Path) -> None:
    points, place = outcome("org/small")
    wanted = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "model.safetensors"]
    assert hub.fetched() == wanted
    assert sorted(path.name for path in Path(place).iterdir()) == sorted(wanted)
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS
    assert Path(place) == tmp_path / "hub" / "models--org--small" / "snapshots" / COMMIT
    (listed,) = finished(local_models_steps(tmp_path / "hub"))
    assert (listed.name, listed.path) == ("org/small", place)
    check_progress([point for point in points if point.total], sum(len(FILES[file]) for file in wanted))


def test_what_has_come_is_compared_with_what_the_hub_says_of_it(hub: Hub, tmp_path: Path) -> None:
    hub.sums["model.safetensors"] = hashlib.sha256(b"something else").hexdigest()
    assert refusal("org/small") == (
        "model.safetensors is not what Hugging Face says it is, so it was taken away; download it again."
    )
    assert WEIGHTS not in [path.read_bytes() for path in blobs(tmp_path)]
    assert not list(tmp_path.rglob("model.safetensors"))
    hub.sums["model.safetensors"] = hashlib.sha256(WEIGHTS).hexdigest()
    assert (Path(finished(download_steps("org/small"))) / "model.safetensors").read_bytes() == WEIGHTS


def check_progress(points: list[Progress], whole: int) -> None:
    """Hear bytes counted up to the whole."""
    assert {point.total for point in points} == {whole}
    done = [point.done for point in points]
    assert done == sorted(done)
    assert done[-1] == whole
    assert points[-1].what == "Downloading model.safetensors"


def test_a_cancel_ends_a_stalled_download_and_leaves_no_half_file(hub: Hub, qtbot: QtBot, tmp_path: Path) -> None:
    jobs, beside = Jobs(), ShortLived(real)
    heard: list[object] = []
    hub.hold_at["model.safetensors"] = len(WEIGHTS) // 2
    jobs.submit("download", Urgency.PREFILL, beside.ask(DownloadModel("org/small")), heard.append, heard.append)
    qtbot.waitUntil(hub.holding.is_set, timeout=20_000)
    jobs.cancel("download")
    assert all(path.stat().st_size < 100 for path in blobs(tmp_path))
    jobs.close()
    for connection in beside.findChildren(Connection):
        connection.close()
    assert heard == []

    hub.released.set()
    hub.hold_at.clear()
    hub.asked.clear()
    place = finished(download_steps("org/small"))
    assert hub.fetched() == ["model.safetensors"]
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS


def test_what_is_ended_by_force_leaves_no_file_that_looks_whole(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.hold_at["model.safetensors"] = len(WEIGHTS) // 2
    monkeypatch.setattr(subprocess.Popen, "terminate", lambda process: None)
    monkeypatch.setattr("ropewalk.app.models.downloads.GRACE", 0.01)
    steps = download_steps("org/small")
    while not hub.holding.is_set():
        next(steps)
    steps.close()
    assert all(path.stat().st_size < 100 or path.name.endswith(".incomplete") for path in blobs(tmp_path))
    hub.released.set()
    hub.hold_at.clear()
    place = finished(download_steps("org/small"))
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_process_that_is_gone_is_reported(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.app.models.downloads.CHILD", "print('{', flush=True)")
    assert "ended before it was done" in refusal("org/small")
    monkeypatch.setattr("ropewalk.app.models.downloads.CHILD", "")
    assert "ended before it was done" in refusal("org/small")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")
def test_it_ends_with_whoever_started_it_and_leaves_no_half_file(hub: Hub, tmp_path: Path) -> None:
    hub.hold_at["model.safetensors"] = len(WEIGHTS) // 2
    program = (
        "from ropewalk.app.models.downloads import download_steps; from ropewalk.model.progress import finished; "
        "finished(download_steps('org/small'))"
    )
    with started(python(program)) as process:
        assert hub.holding.wait(20)
        processes = family(process.pid)
        process.kill()
        assert staying(processes) == 0
    assert all(path.stat().st_size < 100 for path in blobs(tmp_path))


def test_a_dropped_connection_is_taken_up_where_it_broke(hub: Hub) -> None:
    weights = bytes(range(256)) * 64_000  # the library counts what came in pieces of ten megabytes
    hub.repositories["org/small"] = FILES | {"model.safetensors": weights}
    hub.break_at["model.safetensors"] = 12 << 20
    points, place = outcome("org/small")
    ranges = [wanted for method, path, wanted in hub.asked if method == "GET" and path.endswith("model.safetensors")]
    assert ranges[0] == ""
    assert ranges[1].startswith("bytes=")
    assert int(ranges[1].removeprefix("bytes=").removesuffix("-")) > 0
    assert (Path(place) / "model.safetensors").read_bytes() == weights
    assert points[-1].done == points[-1].total


def test_what_is_not_there_or_not_open_is_reported_in_a_sentence(hub: Hub) -> None:
    hub.errors |= {"org/gated": (403, "GatedRepo"), "org/broken": (500, "")}
    assert "org/none could not be downloaded: Hugging Face has no such public model" in refusal("org/none")
    assert "its owner gives access on request only" in refusal("org/gated")
    assert "Hugging Face answered with an error (500)" in refusal("org/broken")
    hub.repositories["org/words"] = {"README.md": b"hello"}
    assert "org/words holds no weights" in refusal("org/words")


def test_without_a_network_that_is_what_is_reported(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "Hugging Face cannot be reached; check the network" in refusal("org/small")


def test_a_full_disk_is_reported() -> None:
    assert "No space left on device" in reason(OSError(28, "No space left on device"))


def test_no_network_is_asked_where_the_environment_forbids_it(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set in the environment, which forbids it" in refusal("org/small")
    assert hub.asked == []


def test_the_environment_says_where_the_cache_is(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    place = finished(download_steps("org/small"))
    assert place == str(tmp_path / "home" / "hub" / "models--org--small" / "snapshots" / COMMIT)
