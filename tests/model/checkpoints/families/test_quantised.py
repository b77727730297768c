"""Quantised folders: gpt-oss's MXFP4 is undone as transformers undoes it, every other method is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.formats.mxfp4 import unpacked
from ropewalk.model.errors import CheckpointError
from tests.model.checkpoints import reference
from tests.model.checkpoints.families.test_table import change
from tests.model.checkpoints.parity import prompt, read
from tests.model.checkpoints.reference import SIZES, Case

WIDE = Case("gpt_oss", "mxfp4", SIZES | {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 4,
                                        "num_experts_per_tok": 2, "num_hidden_layers": 2})  # fmt: skip


def undone(blocks: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Blocks as transformers undoes them; importing that takes a second, which only these tests wait for."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    numbers: Tensor = convert_moe_packed_tensors(blocks, scales, dtype=dtype)
    return numbers


def random_blocks(seed: int, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
    return blocks, torch.randint(118, 124, shape, generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_are_undone_as_transformers_does(dtype: torch.dtype) -> None:
    blocks, scales = random_blocks(1, 3, 8, 2)
    expected = undone(blocks, scales, dtype)
    torch.testing.assert_close(unpacked(blocks, scales, dtype).transpose(1, 2), expected, rtol=0, atol=0)


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, Any]:
    """A gpt-oss folder with packed experts, and transformers' model of the same numbers."""
    model = reference.build(WIDE)
    reference.save(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    state = model.state_dict()
    for layer in range(2):
        for number, (name, rows, groups) in enumerate((("gate_up_proj", 64, 2), ("down_proj", 64, 1))):
            stem = f"model.layers.{layer}.mlp.experts.{name}"
            blocks, scales = random_blocks(10 * layer + number, 4, rows, groups)
            del tensors[stem]
            tensors |= {f"{stem}_blocks": blocks, f"{stem}_scales": scales}
            state[stem].copy_(undone(blocks, scales, torch.float32))
    save_file(tensors, tmp_path / "model.safetensors")
    change(tmp_path, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]})
    return tmp_path, model


def test_packed_experts_open_to_transformers_logits(packed: tuple[Path, Any]) -> None:
    folder, model = packed
    expected, _ = reference.reference_logits(model, prompt())
    logits, _ = read(open_checkpoint(folder), prompt(), None, "fused")
    assert float((logits - expected).abs().max()) <= 5e-5 * max(1.0, float(expected.std()))
    assert outline_checkpoint(folder).parameters == sum(value.numel() for value in model.parameters())


def test_blocks_without_their_scales_are_refused(packed: tuple[Path, Any]) -> None:
    folder, _ = packed
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.experts.down_proj_scales"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.experts\.down_proj_blocks.*one scale"):
        open_checkpoint(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.save(reference.build(Case("llama", "plain", SIZES)), tmp_path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "GPTQ"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemm"}}, "AWQ"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, "FP8"),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"quantization_config": {"quant_method": "new-idea"}}, "new-idea"),
        ({"quantization_config": {"bits": 4}}, "an unnamed method"),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "MLX"),
    ],
    ids=str,
)
def test_a_quantised_config_is_refused_by_its_method(folder: Path, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(CheckpointError, match=f"quantised by .*{named}.*open an unquantised copy"):
        open_checkpoint(change(folder, **fields))


@pytest.mark.parametrize(
    ("name", "named"),
    [("q_proj.qweight", "GPTQ"), ("q_proj.weight.absmax", "bitsandbytes"), ("q_proj.SCB", "bitsandbytes"),
     ("q_proj.weight_scale_inv", "FP8"), ("q_proj.weight_packed", "compressed-tensors")],
)  # fmt: skip
def test_quantised_names_are_recognised_where_the_config_does_not_say(folder: Path, name: str, named: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors[f"model.layers.0.self_attn.{name}"] = torch.zeros(4, dtype=torch.int32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=rf"{name}.*quantised by .*{named}"):
        open_checkpoint(folder)
