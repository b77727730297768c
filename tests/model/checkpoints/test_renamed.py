"""Weights that were not saved as whole models: by AutoModel, as a classifier, in a wrapper of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint, outline_checkpoint
from ropewalk.model.engine import engine
from ropewalk.model.engine.interface import missing, why_missing
from ropewalk.model.engine.questions import AskArithmetic, AskLens, AskNextToken, AskRow
from ropewalk.model.errors import CheckpointError, TraceError
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.runs.trace import capture
from ropewalk.model.tokens.prompt import Prompt
from tests.model.checkpoints import reference, test_multimodal
from tests.model.checkpoints.parity import prompt
from tests.model.checkpoints.reference import CASES, SIZES, Case

WITH_A_PREFIX = ("llama", "phi", "gpt_neox", "gptj", "falcon", "gpt2", "cohere", "persimmon")
"""Each has its own names for the embedding, or its own prefix."""
FIRST = {case.family: case for case in reversed(CASES)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.save(reference.build(Case("llama", "plain", SIZES)), tmp_path)


def same_but_for_the_head(one: Checkpoint, other: Checkpoint) -> None:
    theirs = dict(other.model.named_parameters())
    for name, value in one.model.named_parameters():
        if not name.startswith("head."):
            assert torch.equal(value, theirs[name]), name


@pytest.mark.parametrize(
    "family",
    [pytest.param(one, marks=() if one in WITH_A_PREFIX else pytest.mark.slow) for one in FIRST],
)
def test_what_auto_model_saves_opens(family: str, tmp_path: Path) -> None:
    model: Any = reference.build(FIRST[family])
    whole = open_checkpoint(reference.save(model, tmp_path / "whole"))
    model.base_model.save_pretrained(tmp_path / "bare")
    bare = open_checkpoint(tmp_path / "bare")
    assert bare.has_logits == whole.config.tied
    same_but_for_the_head(bare, whole)
    assert outline_checkpoint(tmp_path / "bare").parameters == bare.parameters


@pytest.mark.parametrize("kind", ["llava", "gemma3", "qwen2_vl"])
def test_so_does_the_text_model_of_one_that_reads_pictures(kind: str, tmp_path: Path) -> None:
    model = test_multimodal.build(kind)
    whole = open_checkpoint(reference.save(model, tmp_path / "whole"))
    model.base_model.save_pretrained(tmp_path / "bare")
    same_but_for_the_head(open_checkpoint(tmp_path / "bare"), whole)


def test_without_a_last_matrix_there_is_all_but_logits(folder: Path, tmp_path: Path) -> None:
    whole = open_checkpoint(folder)
    transformers.AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    assert whole.has_logits
    model = finished(engine.open_model(str(tmp_path / "bare"), "cpu", "float32"))
    checkpoint: Checkpoint = model.checkpoint
    assert [note.split(" as ")[0] for note in checkpoint.notes][-1] == "There is no last matrix here,"
    assert checkpoint.parameters == whole.parameters - whole.config.vocabulary * whole.config.width
    theirs, ours = (capture(one.model, prompt()[:1], logits="none") for one in (whole, checkpoint))
    assert torch.equal(ours[2].lse.tensor, theirs[2].lse.tensor)
    handle = finished(engine.run(model, Prompt("1 2 3 1 2"), 1))
    assert handle.trace.logits is None
    for question in (AskNextToken(4, 5, Sampling()), AskLens()):
        assert missing(handle, question)
        with pytest.raises(TraceError):
            finished(engine.answer(handle, question))
    assert "no logits" in why_missing(frozenset({"logits"}), model)
    with pytest.raises(TraceError, match="saved without a last matrix, so open a copy that has one"):
        finished(engine.step(handle, 1, Sampling()))
    finished(engine.answer(handle, AskRow(0, 0, 4)))
    stages = finished(engine.answer(handle, AskArithmetic(0, 0, 4, 2))).stages
    assert stages[-1].lines == ()


def test_a_classifier_opens_without_its_own_head(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors | {"score.weight": torch.zeros(2, 48)}, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    assert not checkpoint.has_logits
    assert "score.weight of another task was left out." in checkpoint.notes


def test_a_wrapper_of_training_is_taken_off(folder: Path) -> None:
    whole = open_checkpoint(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({f"module.{name}": value for name, value in tensors.items()}, folder / "model.safetensors")
    wrapped = open_checkpoint(folder)
    same_but_for_the_head(wrapped, whole)
    assert torch.equal(wrapped.model.head.weight, whole.model.head.weight)
    assert any("'module.'" in note for note in wrapped.notes)


def test_a_whole_model_that_lost_its_last_matrix_is_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"head\.weight"):
        open_checkpoint(folder)
