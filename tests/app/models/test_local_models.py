"""What the local Hugging Face cache holds, told from folders alone."""

from __future__ import annotations

from pathlib import Path

from ropewalk.app.models.local_models import LocalModel, cache_folder, local_models_steps
from ropewalk.model.progress import finished


def snapshot(cache: Path, name: str, revision: str, *files: str) -> Path:
    folder = cache / f"models--{name.replace('/', '--')}" / "snapshots" / revision
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).write_bytes(b"12345")
    return folder


def test_the_cache_is_where_the_environment_says() -> None:
    assert cache_folder({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert cache_folder({"HF_HOME": "/b"}) == Path("/b/hub")
    assert cache_folder({}) == Path.home() / ".cache" / "huggingface" / "hub"


def test_only_what_can_be_opened_is_listed(tmp_path: Path) -> None:
    snapshot(tmp_path, "org/old", "1", "config.json", "model.safetensors")
    wanted = snapshot(tmp_path, "org/old", "2", "config.json", "model.safetensors", "tokenizer.json")
    refs = tmp_path / "models--org--old" / "refs"
    refs.mkdir()
    (refs / "main").write_text("2")
    quantised = snapshot(tmp_path, "org/quant", "1", "a-Q4.gguf")
    snapshot(tmp_path, "org/tokenizer-only", "1", "tokenizer.json")
    (tmp_path / "models--org--empty").mkdir()
    (tmp_path / "datasets--org--text").mkdir()
    assert finished(local_models_steps(tmp_path)) == (
        LocalModel("org/old", str(wanted), 5),
        LocalModel("org/quant · a-Q4.gguf", str(quantised / "a-Q4.gguf"), 5),
    )


def test_a_cache_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert finished(local_models_steps(tmp_path / "none")) == ()
