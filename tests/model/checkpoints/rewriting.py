"""Writes a transformers checkpoint again in other containers and under other names, for the tests that read them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.model.checkpoints.gguf_writing import permuted
from tests.model.checkpoints.reference import Case


def as_torch(folder: Path, name: str = "pytorch_model.bin") -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / name)
    (folder / "model.safetensors").unlink()


def shard(folder: Path, suffix: str) -> list[Path]:
    """Cut the weights into three shards with an index."""
    tensors = load_file(folder / "model.safetensors")
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names, paths = sorted(tensors), []
    placed: dict[str, str] = {}
    for number in range(3):
        part = {name: tensors[name] for name in names[number::3]}
        path = folder / f"{stem}-{number + 1:05}-of-00003.{suffix}"
        if suffix == "safetensors":
            save_file(part, path)
        else:
            torch.save(part, path)
        placed |= dict.fromkeys(part, path.name)
        paths.append(path)
    index = "model.safetensors.index.json" if suffix == "safetensors" else "pytorch_model.bin.index.json"
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    (folder / "model.safetensors").unlink()
    return paths


def unstacked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Experts under one name each, as MiniMind has them."""
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        stem, _, last = name.rpartition(".")
        for expert in range(value.shape[0] if stem.endswith("mlp.experts") else 0):
            if last == "gate_up_proj":
                gate, up = value[expert].chunk(2)
                found |= {f"{stem}.{expert}.gate_proj.weight": gate, f"{stem}.{expert}.up_proj.weight": up}
            else:
                found[f"{stem}.{expert}.down_proj.weight"] = value[expert]
        if not stem.endswith("mlp.experts"):
            found[name] = value
    return {name: value.clone() for name, value in found.items()}


FIRST = {
    "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output", "model.layers": "layers",
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def first_version(case: Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Version 1's names, rows of q and k in the order of adjacent pairs, and the mask that its files carry."""
    heads = {"q_proj": case.fields["num_attention_heads"], "k_proj": case.fields["num_key_value_heads"]}
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        renamed = name
        for theirs, ours in FIRST.items():
            renamed = renamed.replace(theirs, ours)
        found[renamed] = next((permuted(value, count) for part, count in heads.items() if part in name), value)
    return found | {"layers.0.attention.mask": torch.zeros(1, 1, 4, 4)}
