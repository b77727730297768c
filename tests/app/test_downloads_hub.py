"""Downloading through huggingface_hub itself, from a hub on this machine: what comes, progress, cancel, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from pytestqt.qtbot import QtBot

from app.downloads import download_steps
from app.jobs import Failure, Jobs
from app.local_models import local_models_steps
from app.urgency import Urgency
from model.errors import CheckpointError
from model.progress import Progress, finished
from tests.app.local_hub import COMMIT, Hub, serving

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
        constants = huggingface_hub.constants
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        hub.repositories["org/small"] = FILES
        yield hub


def told_nothing(point: Progress) -> None:
    """Let the download go on."""


def refusal(name: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        finished(download_steps(name, told_nothing))
    assert "\n" not in caught.value.sentence
    assert caught.value.sentence.endswith(".")
    return caught.value.sentence


def test_only_what_is_needed_arrives_where_others_find_it(hub: Hub, tmp_path: Path) -> None:
    told: list[Progress] = []
    place = finished(download_steps("org/small", told.append))
    wanted = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "model.safetensors"]
    assert hub.fetched() == wanted
    assert sorted(path.name for path in Path(place).iterdir()) == sorted(wanted)
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS
    assert Path(place) == tmp_path / "hub" / "models--org--small" / "snapshots" / COMMIT
    (listed,) = finished(local_models_steps(tmp_path / "hub"))
    assert (listed.name, listed.path) == ("org/small", place)


def test_progress_counts_bytes_up_to_the_whole(hub: Hub) -> None:
    told: list[Progress] = []
    finished(download_steps("org/small", told.append))
    whole = sum(len(FILES[file]) for file in hub.fetched())
    assert {point.total for point in told} == {whole}
    done = [point.done for point in told]
    assert done == sorted(done)
    assert done[-1] == whole
    assert told[-1].what == "Downloading model.safetensors"


def test_a_tokenizer_in_other_files_comes_too(hub: Hub) -> None:
    files = ("config.json", "tokenizer.model", "added_tokens.json", "qwen.tiktoken", "spiece.model", "tekken.json",
             "chat_template.jinja", "model.safetensors")  # fmt: skip
    hub.repositories["org/other"] = {file: file.encode() for file in files}
    finished(download_steps("org/other", told_nothing))
    assert set(hub.fetched()) == set(files)


def test_shards_come_with_their_index(hub: Hub) -> None:
    files = ("config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
             "model-00002-of-00002.safetensors", "pytorch_model-00001-of-00001.bin", "consolidated.safetensors",
             "adapter_model.safetensors")  # fmt: skip
    hub.repositories["org/shards"] = {file: file.encode() for file in files}
    finished(download_steps("org/shards", told_nothing))
    assert set(hub.fetched()) == set(files[:4])


def test_a_cancel_in_the_middle_leaves_no_half_file_and_a_second_try_takes_up_what_came(
    hub: Hub, qtbot: QtBot, tmp_path: Path
) -> None:
    jobs = Jobs()
    arrived: list[str] = []
    failed: list[Failure] = []
    hub.hold_at["model.safetensors"] = len(WEIGHTS) // 2
    jobs.submit("download", Urgency.PREFILL, download_steps("org/small", jobs.pulse), arrived.append, failed.append)
    assert hub.holding.wait(20)
    jobs.cancel("download")
    hub.released.set()
    jobs.close()
    assert (arrived, failed) == ([], [])
    blobs = list((tmp_path / "hub" / "models--org--small" / "blobs").iterdir())
    assert not [path for path in blobs if path.name.endswith("incomplete")]
    assert all(path.stat().st_size < 100 for path in blobs)

    hub.hold_at.clear()
    hub.asked.clear()
    place = finished(download_steps("org/small", told_nothing))
    assert hub.fetched() == ["model.safetensors"]
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_dropped_connection_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.break_at["model.safetensors"] = len(WEIGHTS) // 2
    told: list[Progress] = []
    place = finished(download_steps("org/small", told.append))
    ranges = [wanted for method, path, wanted in hub.asked if method == "GET" and path.endswith("model.safetensors")]
    assert ranges[0] == ""
    assert ranges[1].startswith("bytes=")
    assert int(ranges[1].removeprefix("bytes=").removesuffix("-")) > 0
    assert (Path(place) / "model.safetensors").read_bytes() == WEIGHTS
    assert told[-1].done == told[-1].total


def test_what_is_not_there_or_not_open_is_said_in_a_sentence(hub: Hub) -> None:
    hub.errors |= {"org/gated": (403, "GatedRepo"), "org/hidden": (401, "RepoNotFound"), "org/broken": (500, "")}
    assert "org/none could not be downloaded: Hugging Face has no such public model" in refusal("org/none")
    assert "Hugging Face has no such public model" in refusal("org/hidden")
    assert "its owner gives access on request only" in refusal("org/gated")
    assert "Hugging Face answered with an error (500)" in refusal("org/broken")
    hub.repositories["org/words"] = {"README.md": b"hello"}
    assert "org/words holds no weights" in refusal("org/words")


def test_without_a_network_that_is_what_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "Hugging Face cannot be reached; check the network" in refusal("org/small")


def test_a_disk_that_is_full_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*whatever: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download._chmod_and_move", full)
    assert "No space left on device" in refusal("org/small")


def test_the_environment_says_where_the_hub_and_the_cache_are(hub: Hub, tmp_path: Path) -> None:
    code = (
        "from app.downloads import download_steps\n"
        "from model.progress import finished\n"
        "print(finished(download_steps('org/small', lambda point: None)))"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": ""}
    del environment["HF_HUB_CACHE"]
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, timeout=60
    )
    assert ran.stdout.strip() == str(tmp_path / "home" / "hub" / "models--org--small" / "snapshots" / COMMIT)
    assert ran.stderr == ""
