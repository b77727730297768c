"""What is downloaded of a repository, with progress and cancel, and what is said when it fails. No network."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.downloads import download_steps, is_name, needed
from model.errors import Cancelled, CheckpointError
from model.progress import Progress, finished


@dataclass
class FakeHub:
    """A hub with one repository, whose files come in two pieces each."""

    folder: Path
    files: dict[str, int]

    def HfApi(self) -> Any:
        def model_info(name: str, files_metadata: bool) -> Any:
            if name != "org/small":
                raise type("RepositoryNotFoundError", (Exception,), {})("404")
            siblings = [SimpleNamespace(rfilename=file, size=size) for file, size in self.files.items()]
            return SimpleNamespace(siblings=siblings, sha="abc")

        return SimpleNamespace(model_info=model_info)

    def hf_hub_download(self, name: str, file: str, *, revision: str, tqdm_class: Any) -> str:
        bar = tqdm_class(total=self.files[file])
        for _ in range(2):
            bar.update(self.files[file] // 2)
        return str(self.folder / file)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    made = FakeHub(tmp_path, {"README.md": 10, "config.json": 2, "model.safetensors": 100, "pytorch_model.bin": 100})
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name: made if name == "huggingface_hub" else real(name))
    return made


def test_only_what_is_needed_comes_with_progress(hub: FakeHub) -> None:
    told: list[Progress] = []
    assert finished(download_steps("org/small", told.append)) == str(hub.folder)
    assert [point.done for point in told] == [1, 2, 52, 102]
    assert {point.total for point in told} == {102}
    assert told[-1].what == "Downloading model.safetensors"


def test_a_cancel_ends_it_between_two_pieces(hub: FakeHub) -> None:
    def pulse(point: Progress) -> None:
        if point.done > 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        finished(download_steps("org/small", pulse))


def test_what_is_not_there_is_said_in_a_sentence(hub: FakeHub) -> None:
    with pytest.raises(CheckpointError, match="no such public model"):
        finished(download_steps("org/other", lambda point: None))


def test_one_gguf_file_is_enough_and_several_are_a_choice() -> None:
    assert needed("org/q", ["a.gguf", "README.md"]) == ["a.gguf"]
    with pytest.raises(CheckpointError, match="2 GGUF files"):
        needed("org/q", ["a.gguf", "b.gguf"])
    with pytest.raises(CheckpointError, match="no weights"):
        needed("org/q", ["README.md", "onnx/model.onnx"])


def test_a_name_is_told_from_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_name("org/name-1.5")
    assert not is_name("/org/name")
    assert not is_name("name")
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert not is_name("org/name")


@pytest.mark.parametrize(
    ("files", "weights"),
    [
        (["model.safetensors", "consolidated.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["consolidated.safetensors", "params.json"], ["params.json", "consolidated.safetensors"]),
        (["pytorch_model.bin", "x.gguf"], ["pytorch_model.bin"]),
        (
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "training_args.bin"],
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"],
        ),
    ],
)
def test_the_kind_that_a_folder_is_read_by_is_enough(files: list[str], weights: list[str]) -> None:
    assert needed("org/x", files) == weights
