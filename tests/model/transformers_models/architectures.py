"""Tiny random models of many makes, as transformers builds them: their config fields, and what they are compared by.

H ≠ Hkv and windows shorter than the prompt where an architecture has them, so that mistakes show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

VOCABULARY = 64
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
HEADS = TEXT | {"head_dim": 8}
WINDOW = HEADS | {"sliding_window": 4}
GEMMA = WINDOW | {"query_pre_attn_scalar": 8}
MIXTURE = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2}
MIXED = HEADS | MIXTURE | {"moe_intermediate_size": 16, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
LATENT = (
    TEXT
    | MIXTURE
    | {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
    | {"v_head_dim": 12, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
)
GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
}
PICTURES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4} | {
    "image_size": 16,
    "patch_size": 8,
}
SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}}

UNKNOWN: dict[str, dict[str, Any]] = {
    "deepseek_v3": LATENT,
    "opt": TEXT | {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "bart": BART,
    "t5": T5,
    "gemma3": {
        "text_config": GEMMA,
        "vision_config": PICTURES | {"model_type": "siglip_vision_model"},
        "mm_tokens_per_image": 4,
        "image_token_index": 63,
        "boi_token_index": 61,
        "eoi_token_index": 62,
    },
    "llama4_text": HEADS | MIXTURE | {"intermediate_size_mlp": 48, "attention_chunk_size": 4, "num_local_experts": 2},
    "gpt_bigcode": GPT,
    "lfm2": TEXT | {"layer_types": ["conv", "full_attention"]},
    "mimo_v2_flash": MIXED
    | {"v_head_dim": 12, "swa_head_dim": 8, "swa_v_head_dim": 12, "swa_num_attention_heads": 4}
    | {"swa_num_key_value_heads": 2, "sliding_window": 4, "hybrid_layer_pattern": [0, 1]},
    "gemma4_text": HEADS
    | {"global_head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
    | {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8},
}
"""Ten makes that are no family of ours, or not in this guise; the ordinary tests run them."""

OTHERS: dict[str, dict[str, Any]] = {
    "llama": TEXT,
    "mistral": WINDOW,
    "qwen3": HEADS,
    "gemma2": GEMMA,
    "gpt2": GPT,
    "gpt_neox": TEXT,
    "gpt_oss": WINDOW | MIXTURE,
    "phi3": TEXT,
    "mixtral": TEXT | {"num_local_experts": 2},
    "gptj": GPT | {"rotary_dim": 4},
    "codegen": GPT | {"rotary_dim": 4},
    "persimmon": TEXT,
    "deepseek_v2": LATENT,
    "minicpm3": LATENT,
    "glm4_moe_lite": LATENT,
    "bitnet": TEXT,
    "biogpt": TEXT,
    "nanochat": HEADS,
    "cwm": WINDOW,
    "dots1": MIXED | {"n_shared_experts": 1},
    "ernie4_5_moe": TEXT | {"moe_intermediate_size": 16, "moe_num_experts": 4, "moe_k": 2},
    "glm4_moe": MIXED,
    "minimax_m2": HEADS | MIXTURE,
    "flex_olmo": TEXT | MIXTURE,
    "jetmoe": TEXT | {"num_local_experts": 2, "num_experts_per_tok": 1, "kv_channels": 8, "num_key_value_heads": 4},
    "phimoe": TEXT | {"num_local_experts": 2},
    "modernbert-decoder": TEXT | {"sliding_window": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1},
    "doge": TEXT,
    "afmoe": MIXED | {"sliding_window": 4, "num_dense_layers": 1},
    "solar_open": MIXED,
    "ministral3": HEADS,
    "hyperclovax": TEXT,
    "jamba": TEXT
    | {"num_experts": 2, "num_experts_per_tok": 1, "use_mamba_kernels": False, "mamba_d_state": 4}
    | {"attn_layer_offset": 1, "attn_layer_period": 2},
    "mbart": BART,
    "pegasus": BART,
    "marian": BART,
    "m2m_100": BART,
    "blenderbot": BART,
    "umt5": T5,
    "t5gemma": {"encoder": GEMMA, "decoder": GEMMA},
    "llava": {
        "text_config": HEADS | {"model_type": "llama"},
        "vision_config": PICTURES | {"model_type": "clip_vision_model"},
        "image_token_index": 63,
    },
    "qwen2_vl": {
        "text_config": TEXT | SECTIONS,
        "vision_config": {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "patch_size": 4},
        "image_token_id": 61,
        "video_token_id": 62,
        "vision_start_token_id": 60,
    },
}

THEMSELVES: dict[str, dict[str, Any]] = {
    "falcon": TEXT,
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
}
"""Those that compute their attention themselves."""


def tiny_model(name: str, **changes: Any) -> Any:
    """A model with weights that make its attention uneven, in evaluation mode."""
    fields = (UNKNOWN | OTHERS | THEMSELVES)[name] | changes
    config = transformers.AutoConfig.for_model(name, **fields)
    if config.is_encoder_decoder:
        make = transformers.AutoModelForSeq2SeqLM
    elif hasattr(config, "vision_config"):
        make = transformers.AutoModelForImageTextToText
    else:
        make = transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    model: nn.Module = make.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(2.0)
    return model.eval()


@dataclass(frozen=True, eq=False)
class Own:
    """What a model says of itself.

    Attributes
    ----------
    weights
        [B, H, T, T] of every layer that attends, by its own eager function.
    logits
        [B, T, V] as it runs by itself; ``eager`` by its eager function.
    """

    weights: list[Tensor]
    logits: Tensor
    eager: Tensor


def own_numbers(model: Any, ids: Tensor, **inputs: Any) -> Own:
    """Run a model by itself, once as it is and once through its eager attention."""
    given = {"input_ids": ids} | inputs
    with torch.no_grad():
        logits = model(**given).logits
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            outputs = model(**given, output_attentions=True)
        finally:
            model.set_attn_implementation(before)
    found = outputs.decoder_attentions if model.config.is_encoder_decoder else outputs.attentions
    return Own([one for one in found if one is not None], logits, outputs.logits)
