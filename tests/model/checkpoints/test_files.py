"""The same model in every container opens to the same numbers; progress, cancel, devices, memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint, open_steps, opening, outline_checkpoint
from ropewalk.model.checkpoints.formats import hf_folder
from ropewalk.model.checkpoints.formats.safetensors_files import SafetensorsFiles
from ropewalk.model.errors import CheckpointError, DeviceError
from tests.closeness import assert_close, assert_identical, terms_of
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import measure, prompt
from tests.model.checkpoints.reference import SIZES, Case
from tests.model.checkpoints.rewriting import as_torch, shard

FUSED = ("phi3", "gpt_oss", "gpt_neox", "codegen", "granitemoe", "qwen3_moe", "gpt2", "apertus")
"""Families whose stored tensors hold several parameters, in every order."""
QWEN3 = Case("qwen3", "plain", SIZES | {"tie_word_embeddings": True})
TERMS = terms_of(width=SIZES["num_attention_heads"] * SIZES["head_dim"], layers=SIZES["num_hidden_layers"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.save(reference.build(QWEN3), tmp_path)


def logits(path: Path) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = open_checkpoint(path).model(prompt())
    return found


@pytest.mark.parametrize("kind", ["sharded safetensors", "torch", "sharded torch", "bare safetensors", "bare torch"])
def test_every_container_opens_to_the_same_numbers(folder: Path, kind: str) -> None:
    expected, weights = logits(folder), open_checkpoint(folder).model.state_dict()
    path = folder
    if kind == "sharded safetensors":
        shard(folder, "safetensors")
    elif kind == "torch":
        as_torch(folder)
    elif kind == "sharded torch":
        shard(folder, "bin")
    elif kind == "bare safetensors":
        path = (folder / "model.safetensors").rename(folder / "step-100.safetensors")
    else:
        as_torch(folder, "step-100.pt")
        path = folder / "step-100.pt"
    assert_close(logits(path), expected, TERMS)
    for name, found in open_checkpoint(path).model.state_dict().items():
        assert_identical(found, weights[name])


def test_transformers_own_shards_open(tmp_path: Path) -> None:
    model = reference.build(QWEN3)
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    expected, _ = reference.reference_logits(model, prompt())
    torch.testing.assert_close(logits(tmp_path), expected, rtol=0, atol=5e-5)


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "granitemoe"])
def test_experts_stacked_by_transformers_5_open(family: str, tmp_path: Path) -> None:
    case = next(case for case in reference.CASES if case.family == family)
    model = reference.build(case)
    model.save_pretrained(tmp_path, save_original_format=False)
    expected, _ = reference.reference_logits(model, prompt())
    torch.testing.assert_close(logits(tmp_path), expected, rtol=0, atol=5e-5)


def test_a_folder_with_a_config_alone_is_shapes_only(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    checkpoint = open_checkpoint(folder)
    assert checkpoint.shapes_only
    assert "shapes only" in checkpoint.notes[0]


def test_the_bundled_model_is_the_default() -> None:
    checkpoint = open_checkpoint(None)
    assert checkpoint.name == "bundled"
    assert checkpoint.tokenizer is not None
    assert checkpoint.weight_bytes == 4 * checkpoint.parameters


def test_an_outline_says_what_opening_would_cost(folder: Path) -> None:
    outline, checkpoint = outline_checkpoint(folder), open_checkpoint(folder, dtype="bfloat16")
    assert outline.holds_weights
    assert outline.parameters == checkpoint.parameters
    assert outline.bytes_in["bfloat16"] == checkpoint.weight_bytes
    assert outline.config == checkpoint.config


def test_progress_goes_layer_by_layer(folder: Path) -> None:
    heard = [point for point in open_steps(folder) if point.what == "Loading the weights"]
    assert sorted({point.done for point in heard}) == [0, 1, 2, 3, 4, 5]
    assert {point.total for point in heard} == {5}


@pytest.mark.usefixtures("pieces")
def test_a_tensor_larger_than_a_slice_is_read_in_pieces_that_fit_together(folder: Path) -> None:
    expected = reference.reference_logits(reference.build(QWEN3), prompt())[0]
    steps = list(open_steps(folder))
    numbers = open_checkpoint(folder).parameters
    assert len(steps) > numbers / 64
    torch.testing.assert_close(logits(folder), expected, rtol=0, atol=5e-5)


FUSED_CASES = [case for case in reference.CASES if case.family in FUSED]
FIRSTS = {case.family: case for case in reversed(FUSED_CASES)}.values()


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in FIRSTS else pytest.mark.slow) for case in FUSED_CASES], ids=str
)
def test_pieces_of_fused_and_stacked_tensors_fit_together(case: Case, tmp_path: Path) -> None:
    assert measure(case, tmp_path).logits <= 5e-5


def test_an_opening_that_is_given_up_closes_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(SafetensorsFiles, "close", lambda self: closed.append(True))
    steps = open_steps(folder)
    while next(steps).what != "Loading the weights":
        assert not closed
    steps.close()
    assert closed == [True]


def test_a_slow_tokenizer_does_not_hold_a_slice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = threading.Semaphore(0)

    def slow(*folders: Path) -> None:
        for _ in range(3):  # goes on only when the opening has paused thrice meanwhile
            assert pauses.acquire(timeout=20)

    monkeypatch.setattr(hf_folder, "tokenizer_beside", slow)
    for point in open_steps(folder):
        if point.what == "Reading the tokenizer":
            pauses.release()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ropewalk-tokenizer")]


def test_a_loaded_model_is_laid_out_for_decoding(folder: Path) -> None:
    attention = open_checkpoint(folder).model.block(1).attn
    q, k, v = (projection.weight for projection in (attention.query, attention.key, attention.value))
    assert k.data_ptr() == q.data_ptr() + q.nbytes
    assert v.data_ptr() == k.data_ptr() + k.nbytes


def test_weights_are_private_to_the_model(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    before = checkpoint.model(prompt()).clone()
    path = folder / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    assert_close(checkpoint.model(prompt()), before, TERMS)


def test_devices_and_dtypes_that_are_not_there_are_a_sentence(folder: Path) -> None:
    for device in ("tpu9", "cuda:77", "meta"):
        with pytest.raises(DeviceError, match=device):
            open_checkpoint(folder, device=device)
    with pytest.raises(DeviceError, match="int7"):
        open_checkpoint(folder, dtype="int7")


@pytest.mark.parametrize(("share", "advice"), [(0.6, "open it in bfloat16 or float16"), (0.3, "config.json alone")])
def test_what_cannot_fit_is_refused_with_what_would(
    folder: Path, share: float, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = int(outline_checkpoint(folder).bytes_in["float32"] * share)
    monkeypatch.setattr(opening, "free_bytes", lambda device: room)
    with pytest.raises(DeviceError, match=advice):
        open_checkpoint(folder)


def test_half_precision_that_cannot_hold_a_weight_says_so(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][3] = 1e6
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight.*1e\+06.*float16"):
        open_checkpoint(folder, dtype="float16")
    open_checkpoint(folder, dtype="bfloat16")


def test_a_tokenizer_that_cannot_be_read_leaves_ids(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.tokenizer is None
    assert "tokenizer.json" in checkpoint.notes[-1]
