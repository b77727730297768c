"""Writes the tiny reference models as GGUF, the way llama.cpp's converter does.

Names come from the ``gguf`` package's own map (the converter uses it too), metadata from its own writer. What the
converter changes in the numbers is repeated here: rows of q and k permuted where llama.cpp rotates adjacent pairs, 1
added to Gemma's gains, interleaved matrices split, experts stacked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from tests.model.checkpoints.reference import Case

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Conversion:
    """How one architecture is written.

    Attributes
    ----------
    arch
        The converter's architecture.
    changed
        What is done to the tensors before they are named.
    keys
        Metadata beyond the counts, from the transformers config.
    """

    arch: gguf.MODEL_ARCH
    changed: Callable[[Tensors, Any], Tensors] = lambda tensors, config: tensors
    keys: Callable[[gguf.GGUFWriter, Any], None] = lambda writer, config: None
    layer_norm: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


def permuted(rows: Tensor, heads: int) -> Tensor:
    """Half-split rows put into the order of adjacent pairs."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def permute_rows(tensors: Tensors, config: Any) -> Tensors:
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    return {
        name: next((permuted(value, count) for part, count in heads.items() if f".{part}." in name), value)
        for name, value in tensors.items()
    }


def bake_gains(tensors: Tensors, config: Any) -> Tensors:
    return {name: value + 1 if name.endswith("norm.weight") else value for name, value in tensors.items()}


def stack_experts(tensors: Tensors, config: Any) -> Tensors:
    """One tensor for the same matrix of all experts."""
    pattern = re.compile(r"(model\.layers\.\d+\..*experts)\.(\d+)\.(\w+)\.weight")
    kept: Tensors = {}
    parts: dict[str, dict[int, Tensor]] = {}
    for name, value in tensors.items():
        match = pattern.fullmatch(name)
        if match:
            parts.setdefault(f"{match[1]}.{match[3]}.weight", {})[int(match[2])] = value
        else:
            kept[name] = value
    return kept | {name: torch.stack([found[index] for index in sorted(found)]) for name, found in parts.items()}


def split_neox(tensors: Tensors, config: Any) -> Tensors:
    """GPT-NeoX's q, k and v of each head put one after the other."""
    heads = config.num_attention_heads
    changed = {}
    for name, value in tensors.items():
        if "query_key_value" in name:
            parts = value.reshape(heads, 3, -1, *value.shape[1:])
            changed[name] = torch.cat([parts[:, index].flatten(0, 1) for index in range(3)])
        else:
            changed[name] = value
    return changed


def split_falcon(tensors: Tensors, config: Any) -> Tensors:
    """Falcon's groups of queries, key and value put one after the other."""
    heads, kv_heads = config.num_attention_heads, config.num_kv_heads
    if not config.new_decoder_architecture:
        kv_heads = 1 if config.multi_query else heads
    changed = {}
    for name, value in tensors.items():
        if "query_key_value" in name:
            parts = value.reshape(kv_heads, heads // kv_heads + 2, -1, *value.shape[1:])
            changed[name] = torch.cat([part.flatten(0, 2) for part in (parts[:, :-2], parts[:, -2:-1], parts[:, -1:])])
        else:
            changed[name] = value
    return changed


def split_oss(tensors: Tensors, config: Any) -> Tensors:
    """gpt-oss: gate and up unwoven, matrices turned to [out, in], names as for other experts."""
    changed = {}
    for name, value in tensors.items():
        stem = name.removesuffix("_bias")
        kind = "bias" if name.endswith("_bias") else "weight"
        if stem.endswith("experts.gate_up_proj"):
            turned = value if kind == "bias" else value.transpose(1, 2)
            changed[stem.replace("gate_up_proj", f"gate_proj.{kind}")] = turned[:, ::2]
            changed[stem.replace("gate_up_proj", f"up_proj.{kind}")] = turned[:, 1::2]
        elif stem.endswith("experts.down_proj"):
            changed[f"{stem}.{kind}"] = value if kind == "bias" else value.transpose(1, 2)
        elif name.endswith(".sinks"):
            changed[f"{name}.weight"] = value
        else:
            changed[name] = value
    return changed


def split_granite(tensors: Tensors, config: Any) -> Tensors:
    """Granite's fused experts, and its shared expert, cut into gate and up."""
    changed = {}
    for name, value in permute_rows(tensors, config).items():
        if name.endswith("input_linear.weight"):
            half, layer = value.shape[-2] // 2, name.split(".")[2]
            end = "shexp" if "shared_mlp" in name else "exps"
            changed[f"blk.{layer}.ffn_gate_{end}.weight"] = value[..., :half, :]
            changed[f"blk.{layer}.ffn_up_{end}.weight"] = value[..., half:, :]
        else:
            changed[name] = value
    return changed


def transpose_gpt2(tensors: Tensors, config: Any) -> Tensors:
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {
        name: value.t() if name.endswith(turned) else value
        for name, value in tensors.items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }


def stack_head_norms(tensors: Tensors, config: Any) -> Tensors:
    """StableLM's norms of single heads put into one tensor."""
    pattern = re.compile(r"(.*_layernorm)\.norms\.(\d+)\.weight")
    kept: Tensors = {}
    parts: dict[str, dict[int, Tensor]] = {}
    for name, value in tensors.items():
        match = pattern.fullmatch(name)
        if match:
            parts.setdefault(f"{match[1]}.weight", {})[int(match[2])] = value
        else:
            kept[name] = value
    return kept | {name: torch.stack([found[index] for index in sorted(found)]) for name, found in parts.items()}


def _gemma(writer: gguf.GGUFWriter, config: Any) -> None:
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, name, None):
            getattr(writer, f"add_{name}")(getattr(config, name))
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)


def _moe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_count(getattr(config, "num_experts", None) or config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if width := getattr(config, "moe_intermediate_size", None):
        writer.add_expert_feed_forward_length(width)
    if shared := getattr(config, "shared_expert_intermediate_size", None):
        writer.add_expert_shared_feed_forward_length(shared)


def _granite(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    if hasattr(config, "num_local_experts"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def _window(writer: gguf.GGUFWriter, config: Any) -> None:
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)


def _phi3(writer: gguf.GGUFWriter, config: Any) -> None:
    _window(writer, config)
    writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)


def _cohere(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_logit_scale(config.logit_scale)
    _window(writer, config)


def _oss(writer: gguf.GGUFWriter, config: Any) -> None:
    _moe(writer, config)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_sliding_window(config.sliding_window)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    writer.add_rope_scaling_orig_ctx_len(config.rope_parameters["original_max_position_embeddings"])


def _clip(writer: gguf.GGUFWriter, config: Any) -> None:
    if config.clip_qkv is not None:
        writer.add_clamp_kqv(config.clip_qkv)


def _olmoe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    _clip(writer, config)


def _parallel(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_parallel_residual(config.use_parallel_residual)


A = gguf.MODEL_ARCH
CONVERSIONS: dict[str, Conversion] = {
    "llama": Conversion(A.LLAMA, permute_rows),
    "mixtral": Conversion(A.LLAMA, lambda t, c: stack_experts(permute_rows(t, c), c), _moe),
    "qwen2": Conversion(A.QWEN2),
    "qwen2_moe": Conversion(A.QWEN2MOE, stack_experts, _moe),
    "qwen3": Conversion(A.QWEN3),
    "qwen3_moe": Conversion(A.QWEN3MOE, stack_experts, _moe),
    "gemma": Conversion(A.GEMMA, bake_gains),
    "gemma2": Conversion(A.GEMMA2, bake_gains, _gemma),
    "gemma3_text": Conversion(A.GEMMA3, bake_gains, _gemma),
    "phi3": Conversion(A.PHI3, keys=_phi3),
    "phi": Conversion(A.PHI2, layer_norm=True),
    "olmo": Conversion(A.OLMO, permute_rows, _clip, layer_norm=True),
    "olmo2": Conversion(A.OLMO2),
    "olmoe": Conversion(A.OLMOE, stack_experts, _olmoe),
    "smollm3": Conversion(A.SMOLLM3, permute_rows),
    "glm4": Conversion(A.GLM4),
    "gpt_neox": Conversion(A.GPTNEOX, split_neox, _parallel, layer_norm=True),
    "gpt2": Conversion(A.GPT2, transpose_gpt2, layer_norm=True),
    "stablelm": Conversion(A.STABLELM, stack_head_norms, _parallel, layer_norm=True),
    "granite": Conversion(A.GRANITE, permute_rows, _granite),
    "granitemoeshared": Conversion(A.GRANITE_MOE, split_granite, _granite),
    "cohere": Conversion(A.COMMAND_R, keys=_cohere, layer_norm=True),
    "cohere2": Conversion(A.COHERE2, keys=_cohere, layer_norm=True),
    "starcoder2": Conversion(A.STARCODER2, layer_norm=True),
    "exaone4": Conversion(A.EXAONE4, keys=_window),
    "ernie4_5": Conversion(A.ERNIE4_5),
    "hunyuan_v1_dense": Conversion(A.HUNYUAN_DENSE),
    "arcee": Conversion(A.ARCEE, permute_rows),
    "seed_oss": Conversion(A.SEED_OSS),
    "nemotron": Conversion(A.NEMOTRON, bake_gains, layer_norm=True),
    "jais2": Conversion(A.JAIS2, layer_norm=True),
    "falcon": Conversion(A.FALCON, split_falcon, layer_norm=True),
    "gpt_oss": Conversion(A.GPT_OSS, split_oss, _oss),
}
"""Family → how the converter writes it."""


def write(
    model: Any,
    case: Case,
    path: Path,
    tensors: Tensors,
    quantised: gguf.GGMLQuantizationType | None = None,
    extra: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """Write one model; ``quantised`` applies to matrices whose rows its blocks fill."""
    conversion, config = CONVERSIONS[case.family], model.config
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[conversion.arch])
    _counts(writer, config, conversion)
    conversion.keys(writer, config)
    layers = config.num_hidden_layers
    names = gguf.get_tensor_name_map(conversion.arch, layers)
    for name, value in conversion.changed(tensors, config).items():
        known = name if name.startswith("blk.") else names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert known is not None, name
        data = value.detach().float().contiguous().numpy()
        if quantised is not None and data.ndim == 2 and data.shape[-1] % gguf.GGML_QUANT_SIZES[quantised][0] == 0:
            writer.add_tensor(known, gguf.quantize(data, quantised), raw_dtype=quantised)
        else:
            writer.add_tensor(known, data)
    for name, numbers in (extra or {}).items():
        writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _counts(writer: gguf.GGUFWriter, config: Any, conversion: Conversion) -> None:
    heads, width = config.num_attention_heads, config.hidden_size
    head_width = getattr(config, "head_dim", None) or width // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", None) or heads
    if config.model_type == "falcon" and not config.new_decoder_architecture:
        kv_heads = 1 if config.multi_query else heads
    inner = getattr(config, "intermediate_size", None) or getattr(config, "ffn_hidden_size", None) or 4 * width
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(width)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if head_width * heads != width:
        writer.add_key_length(head_width)
        writer.add_value_length(head_width)
    eps = next(
        getattr(config, name)
        for name in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "use_cache")
        if hasattr(config, name)
    )
    eps = 1e-5 if eps is True else eps
    (writer.add_layer_norm_eps if conversion.layer_norm else writer.add_layer_norm_rms_eps)(eps)
    rules = getattr(config, "rope_parameters", None) or {}
    rules = rules.get("full_attention", rules)
    if "rope_theta" in rules:
        writer.add_rope_freq_base(rules["rope_theta"])
        writer.add_rope_dimension_count(int(head_width * rules.get("partial_rotary_factor", 1.0)))
