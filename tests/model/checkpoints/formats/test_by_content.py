"""Files that are called by a hash, as Ollama and the Hugging Face cache call them; and the cache's own folders."""

from __future__ import annotations

import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.formats.magic import kind_of
from ropewalk.model.errors import CheckpointError
from tests.model.checkpoints import reference
from tests.model.checkpoints.gguf_writing import write
from tests.model.checkpoints.reference import SIZES, Case

CASE = Case("qwen3", "plain", SIZES)
COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = reference.save(reference.build(CASE), tmp_path_factory.mktemp("original"))
    write(reference.build(CASE), CASE, folder.parent / "model.gguf", load_file(folder / "model.safetensors"))
    return folder


@pytest.fixture
def cache(original: Path, tmp_path: Path) -> Path:
    """A model in the cache: files by their hashes, and links to them."""
    model = tmp_path / "hub" / "models--org--tiny-one"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT + "\n")
    (model / "blobs").mkdir()
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(original.iterdir())):
        shutil.copy(file, model / "blobs" / f"{number:064}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number:064}")
    return model


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        outline_checkpoint(path)
    assert all(part in caught.value.sentence for part in parts), caught.value.sentence


def test_a_gguf_opens_whatever_it_is_called(original: Path, tmp_path: Path) -> None:
    expected = open_checkpoint(original.parent / "model.gguf")
    for name in ("sha256-0a1b2c", "model.bin", "weights"):
        shutil.copy(original.parent / "model.gguf", tmp_path / name)
        checkpoint = open_checkpoint(tmp_path / name)
        assert torch.equal(checkpoint.model.embed.weight, expected.model.embed.weight)


def test_weights_without_an_ending_open_beside_their_config(original: Path, tmp_path: Path) -> None:
    expected = open_checkpoint(original).model.head.weight
    shutil.copy(original / "config.json", tmp_path)
    shutil.copy(original / "model.safetensors", tmp_path / "weights")
    torch.save(load_file(original / "model.safetensors"), tmp_path / "state")
    for name in ("weights", "state"):
        assert torch.equal(open_checkpoint(tmp_path / name).model.head.weight, expected)
    (tmp_path / "config.json").unlink()
    refused(tmp_path / "weights", "no config.json beside it")


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(pickle.dumps({"a": 1}))
    refused(place, "not a torch file of version 1.6")
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    refused(place, "is not a checkpoint that Ropewalk knows")
    place.write_bytes(b"PK\x03\x04 and nothing else")
    assert kind_of(place) == ""
    place.write_bytes(b"")
    assert kind_of(place) == ""
    assert kind_of(tmp_path / "absent.gguf") == ""
    place.with_suffix(".gguf").write_bytes(b"GGML of old")
    assert kind_of(place.with_suffix(".gguf")) == "gguf"


def test_a_model_of_the_cache_opens_by_its_folder_its_snapshot_or_a_blob(cache: Path, original: Path) -> None:
    expected = open_checkpoint(original).model.head.weight
    weights = (cache / "snapshots" / COMMIT / "model.safetensors").resolve()
    for path in (cache, cache.parent, cache / "snapshots" / COMMIT):
        checkpoint = open_checkpoint(path)
        assert (checkpoint.name, checkpoint.notes) == ("org/tiny-one", ())
        assert Path(checkpoint.path) == cache / "snapshots" / COMMIT
        assert torch.equal(checkpoint.model.head.weight, expected)
    assert torch.equal(open_checkpoint(weights).model.head.weight, expected)


def test_of_several_snapshots_that_of_main_is_taken_and_said(cache: Path) -> None:
    shutil.copytree(cache / "snapshots" / COMMIT, cache / "snapshots" / OTHER)
    (cache / "refs" / "main").write_text(OTHER)
    outline = outline_checkpoint(cache)
    assert Path(outline.path).name == OTHER
    assert outline.notes == (f"Of 2 snapshots that of refs/main is open, {OTHER[:12]}.",)
    (cache / "refs" / "main").write_text("c" * 40)
    refused(cache, "has 2 snapshots", "'cccccccccccc'", COMMIT)
    (cache / "refs" / "main").unlink()
    refused(cache, "there is no refs/main", OTHER)


def test_a_snapshot_may_hold_a_gguf_alone(cache: Path, original: Path) -> None:
    snapshot = cache / "snapshots" / COMMIT
    for file in snapshot.iterdir():
        file.unlink()
    shutil.copy(original.parent / "model.gguf", snapshot / "tiny-q8.gguf")
    assert outline_checkpoint(cache).name == "tiny-q8"
    shutil.copy(original.parent / "model.gguf", snapshot / "tiny-q4.gguf")
    refused(cache, "org/tiny-one has 2 GGUF files", "tiny-q4.gguf, tiny-q8.gguf")


def test_a_cache_without_anything_to_open_is_a_sentence(cache: Path) -> None:
    shutil.copytree(cache, cache.parent / "models--org--other", symlinks=True)
    refused(cache.parent, "a cache of 2 models", "models--org--other, models--org--tiny-one")
    shutil.rmtree(cache / "snapshots" / COMMIT)
    refused(cache, "has no snapshot")
