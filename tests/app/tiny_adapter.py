"""A LoRA adapter of the tiny checkpoint, written as peft writes one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.app.tiny_checkpoint import HEAD_WIDTH, HEADS, LAYERS, WIDTH


def write_adapter(folder: Path, **fields: Any) -> Path:
    """Write the folder and return it."""
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "base_model_name_or_path": "org/tiny"} | fields
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    draw = torch.Generator().manual_seed(1)
    tensors = {}
    for layer in range(LAYERS):
        module = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{module}.lora_A.weight"] = torch.randn(2, WIDTH, generator=draw)
        tensors[f"{module}.lora_B.weight"] = torch.randn(HEADS * HEAD_WIDTH, 2, generator=draw)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder
