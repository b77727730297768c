"""A real checkpoint folder, tiny and random, of a family that Ropewalk opens: two layers, four heads, bytes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, MLP_WIDTH, POSITIONS = 32, 2, 4, 2, 8, 48, 64


def write_checkpoint(folder: Path, tokenizer: bool = True) -> Path:
    """Write the folder and return it."""
    folder.mkdir()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    config = {
        "model_type": "qwen3",
        "vocab_size": len(alphabet),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_WIDTH,
        "intermediate_size": MLP_WIDTH,
        "max_position_embeddings": POSITIONS,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(_weights(len(alphabet)), folder / "model.safetensors")
    if tokenizer:
        backend = tokenizers.Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.save(str(folder / "tokenizer.json"))
    return folder


def _weights(vocabulary: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)

    weights = {
        "model.embed_tokens.weight": matrix(vocabulary, WIDTH),
        "model.norm.weight": torch.ones(WIDTH),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= {
            f"{prefix}self_attn.q_proj.weight": matrix(HEADS * HEAD_WIDTH, WIDTH),
            f"{prefix}self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_WIDTH, WIDTH),
            f"{prefix}self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_WIDTH, WIDTH),
            f"{prefix}self_attn.o_proj.weight": matrix(WIDTH, HEADS * HEAD_WIDTH),
            f"{prefix}self_attn.q_norm.weight": torch.full((HEAD_WIDTH,), 1.5),
            f"{prefix}self_attn.k_norm.weight": torch.full((HEAD_WIDTH,), 1.5),
            f"{prefix}mlp.gate_proj.weight": matrix(MLP_WIDTH, WIDTH),
            f"{prefix}mlp.up_proj.weight": matrix(MLP_WIDTH, WIDTH),
            f"{prefix}mlp.down_proj.weight": matrix(WIDTH, MLP_WIDTH),
            f"{prefix}input_layernorm.weight": torch.ones(WIDTH),
            f"{prefix}post_attention_layernorm.weight": torch.ones(WIDTH),
        }
    return weights


CHAT = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|end|>"
"""The template of :func:`write_chatty`: a BOS, each turn after its role, and an end."""


def write_chatty(folder: Path, template: str = CHAT) -> Path:
    """Write the folder with a BOS that the tokenizer adds, two more special tokens, and a chat template."""
    write_checkpoint(folder)
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = {name: token for name, token in state["model"]["vocab"].items() if token > 2}
    for token, name in enumerate(("<s>", "<|user|>", "<|end|>")):
        vocabulary[name] = token
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        state["added_tokens"].append({"id": token, "content": name, "special": True, **flags})
    state["model"]["vocab"] = vocabulary
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }
    file.write_text(json.dumps(state), encoding="utf-8")
    config = {"bos_token": "<s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
