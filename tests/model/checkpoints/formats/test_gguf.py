"""GGUF: every architecture against transformers, quantised blocks, split files, frequencies among the tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.checkpoints.families.gguf_architectures import ARCHITECTURES
from ropewalk.model.checkpoints.formats.gguf import open_file as open_gguf
from ropewalk.model.checkpoints.formats.gguf_file import GgufFile
from ropewalk.model.checkpoints.source import Part
from ropewalk.model.errors import CheckpointError
from tests.closeness import assert_close, terms_of
from tests.model.checkpoints import reference
from tests.model.checkpoints.gguf_writing import CONVERSIONS, write
from tests.model.checkpoints.parity import prompt, read
from tests.model.checkpoints.reference import CASES, NARROW, SIZES, Case, scaled

FAMILY_CASES = {case.family: case for case in reversed(CASES) if case.family in CONVERSIONS}
"""The first case of each family that the converter writes."""
# what GGUF does not hold, llama.cpp decides by itself
FAMILY_CASES |= {
    "smollm3": Case("smollm3", "plain", NARROW),
    "gemma2": Case("gemma2", "plain", FAMILY_CASES["gemma2"].fields | {"query_pre_attn_scalar": 16}),
    "gemma3_text": Case("gemma3_text", "plain", FAMILY_CASES["gemma3_text"].fields | {"query_pre_attn_scalar": 16}),
    "qwen2_moe": Case("qwen2_moe", "plain", FAMILY_CASES["qwen2_moe"].fields | {"norm_topk_prob": False}),
    "qwen3_moe": Case("qwen3_moe", "plain", FAMILY_CASES["qwen3_moe"].fields | {"norm_topk_prob": True}),
}


def saved(case: Case, folder: Path) -> tuple[Any, dict[str, torch.Tensor]]:
    model = reference.build(case)
    reference.save(model, folder)
    return model, load_file(folder / "model.safetensors")


def test_every_architecture_is_written() -> None:
    written = {gguf.MODEL_ARCH_NAMES[conversion.arch] for conversion in CONVERSIONS.values()}
    assert written == set(ARCHITECTURES) - {"mixtral"}  # a llama with experts


@pytest.mark.parametrize("case", FAMILY_CASES.values(), ids=str)
def test_equals_transformers(case: Case, tmp_path: Path) -> None:
    model, tensors = saved(case, tmp_path)
    checkpoint = open_checkpoint(write(model, case, tmp_path / "model.gguf", tensors))
    ids = prompt()
    expected, patterns = reference.reference_logits(model, ids)
    logits, ours = read(checkpoint, ids, None, "explicit")
    assert float((logits - expected).abs().max()) <= 5e-5
    assert max(float((a - b).abs().max()) for a, b in zip(ours, patterns, strict=True)) <= 1e-5
    assert float(expected.std()) > 0.05


def test_llama3_frequencies_lie_among_the_tensors(tmp_path: Path) -> None:
    case = Case("llama", "llama3", scaled(SIZES, "llama3", 8))
    model, tensors = saved(case, tmp_path)
    plain = 1.0 / 10_000.0 ** (torch.arange(0, 16, 2).float() / 16)
    factors = (plain / model.model.rotary_emb.inv_freq).numpy()
    path = write(model, case, tmp_path / "model.gguf", tensors, extra={"rope_freqs.weight": factors})
    checkpoint = open_checkpoint(path)
    ids = prompt()
    expected, _ = reference.reference_logits(model, ids)
    assert float((read(checkpoint, ids, None, "fused")[0] - expected).abs().max()) <= 5e-5


def test_longrope_lists_lie_among_the_tensors(tmp_path: Path) -> None:
    case = next(case for case in CASES if str(case) == "phi3-longrope")
    model, tensors = saved(case, tmp_path)
    rules = model.config.rope_parameters
    extra = {f"rope_factors_{name}.weight": np.array(rules[f"{name}_factor"], np.float32) for name in ("long", "short")}
    path = write(model, case, tmp_path / "model.gguf", tensors, extra=extra)
    checkpoint = open_checkpoint(path)
    ids = prompt()
    expected, _ = reference.reference_logits(reference.build(case), ids)
    assert float((read(checkpoint, ids, None, "fused")[0] - expected).abs().max()) <= 5e-5


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16"])
def test_quantised_models_are_those_of_the_dequantised_numbers(kind: str, tmp_path: Path) -> None:
    quantised = gguf.GGMLQuantizationType[kind]
    case = Case("llama", "wide", SIZES | {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                                         "num_key_value_heads": 2})  # fmt: skip
    model, tensors = saved(case, tmp_path)
    checkpoint = open_checkpoint(write(model, case, tmp_path / "model.gguf", tensors, quantised))
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim == 2:
                numbers = value.numpy()
                value.copy_(torch.from_numpy(gguf.dequantize(gguf.quantize(numbers, quantised), quantised)))
    ids = prompt()
    expected, _ = reference.reference_logits(model, ids)
    assert float((read(checkpoint, ids, None, "fused")[0] - expected).abs().max()) <= 5e-5


BLOCKS = sorted(
    (kind for kind in gguf.GGML_QUANT_SIZES if kind.name.startswith(("Q", "IQ", "TQ", "MXFP4"))
     and kind.name not in ("Q8_K", "Q8_1", "Q1_0")), key=lambda kind: kind.name,
)  # fmt: skip
"""Forms that weights are stored in and that the package can undo."""
PRODUCTS = 4
"""Products and sums that a number is undone by: scale of scales, scale, step and offset."""


def assert_blocks_close(found: Tensor, expected: Tensor, block: int) -> None:
    """Block by block: their scales, and what is rounded, are of every size."""
    assert found.shape == expected.shape
    for ours, theirs in zip(found.reshape(-1, block), expected.reshape(-1, block), strict=True):
        assert_close(ours, theirs, PRODUCTS)


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.name)
def test_every_kind_of_block_is_undone_in_slices(
    kind: gguf.GGMLQuantizationType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(0).integers(0, 120, (6, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("m", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    monkeypatch.setattr("ropewalk.model.checkpoints.formats.gguf_file.SLICE_BYTES", 4 * size)
    file = GgufFile(tmp_path / "one.gguf")
    found = file.numbers("m", torch.float32)
    file.close()
    assert found.shape == (6, 2 * block)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(raw, kind)
    assert_blocks_close(found, torch.from_numpy(expected), block)


def test_rows_are_put_back_in_order_piece_by_piece(tmp_path: Path) -> None:
    case = FAMILY_CASES["llama"]
    model, tensors = saved(case, tmp_path)
    files = open_gguf(write(model, case, tmp_path / "model.gguf", tensors), {}).files
    assert files is not None
    for name, stored in files.tensors.items():
        whole = files.read(name, torch.float32)
        for rows in ((0, 1), (1, stored.shape[0]), (stored.shape[0] // 3, stored.shape[0] // 2)):
            piece = files.read(name, torch.float32, Part(rows=rows))
            assert_close(piece, whole[slice(*rows)], PRODUCTS)
    files.close()


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q6_K])
def test_a_part_of_quantised_blocks_is_undone_alone(kind: gguf.GGMLQuantizationType, tmp_path: Path) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(0).integers(0, 120, (3, 4, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("m", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "one.gguf")
    whole = file.numbers("m", torch.float32)
    assert whole.shape == (3, 4, 2 * block)
    assert_blocks_close(file.numbers("m", torch.float32, Part(2, (1, 3))), whole[2, 1:3], block)
    file.close()


def test_a_split_file_opens_by_its_first_part(tmp_path: Path) -> None:
    case = FAMILY_CASES["qwen3"]
    model, tensors = saved(case, tmp_path)
    whole = open_checkpoint(write(model, case, tmp_path / "whole.gguf", tensors))
    names = list(tensors)
    for number, part in enumerate((names[:7], names[7:]), start=1):
        path = tmp_path / f"model-{number:05}-of-00002.gguf"
        _write_part(model, path, {name: tensors[name] for name in part}, number - 1)
    split = open_checkpoint(tmp_path / "model-00001-of-00002.gguf")
    ids = prompt()
    found, expected = (read(checkpoint, ids, None, "fused")[0] for checkpoint in (split, whole))
    assert_close(found, expected, terms_of(width=case.fields["intermediate_size"], layers=4))
    (tmp_path / "model-00002-of-00002.gguf").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.gguf is not beside it"):
        open_checkpoint(tmp_path / "model-00001-of-00002.gguf")


def _write_part(model: Any, path: Path, tensors: dict[str, torch.Tensor], number: int) -> None:
    from tests.model.checkpoints import gguf_writing

    arch = gguf.MODEL_ARCH.QWEN3
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    if number == 0:
        gguf_writing._counts(writer, model.config, CONVERSIONS["qwen3"])
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", 2)
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    for name, value in tensors.items():
        known = names.get_name(name, try_suffixes=(".weight",))
        assert known is not None
        writer.add_tensor(known, value.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_metadata_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    case = FAMILY_CASES["qwen3"]
    model, tensors = saved(case, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        conversion = CONVERSIONS["qwen3"]
        changed = type(conversion)(conversion.arch, keys=lambda writer, config: writer.add_uint32("qwen3.new_thing", 3))
        patch.setitem(CONVERSIONS, "qwen3", changed)
        path = write(model, case, tmp_path / "model.gguf", tensors)
    with pytest.raises(CheckpointError, match=r"'new_thing'.*the architecture qwen3.*--ignore new_thing"):
        open_checkpoint(path)
    assert any("new_thing" in note for note in open_checkpoint(path, ignore=["new_thing"]).notes)
