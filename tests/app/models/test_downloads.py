"""What is downloaded of a repository, and how a name is told from a path. No network."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.app.models.download_child import needed
from ropewalk.app.models.downloads import is_name
from ropewalk.model.errors import CheckpointError


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


def test_every_kind_of_tokenizer_is_needed_and_nothing_else() -> None:
    files = ["config.json", "tokenizer.model", "added_tokens.json", "qwen.tiktoken", "spiece.model", "tekken.json",
             "chat_template.jinja", "model.safetensors"]  # fmt: skip
    assert needed("org/other", [*files, "README.md", "flax_model.msgpack"]) == files


def test_shards_are_needed_with_their_index() -> None:
    files = ["config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
             "model-00002-of-00002.safetensors"]  # fmt: skip
    others = ["pytorch_model-00001-of-00001.bin", "consolidated.safetensors", "adapter_model.safetensors"]
    assert needed("org/shards", files + others) == files
