"""Tiny random models of each family, built and saved by transformers: the reference that the parity tests compare with.

The knobs of a tiny model are chosen so that mistakes show: H ≠ Hkv, Dh ≠ D/H where the family has a head_dim, windows
shorter than the prompt, and every gain, bias and sink random.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

VOCABULARY = 97
PROMPT = 20
ORIGINAL = 12
LIMIT = 48


@dataclass(frozen=True)
class Case:
    """One tiny model: a family, a name for the variant, and config fields."""

    family: str
    variant: str
    fields: dict[str, Any] = field(default_factory=dict)
    stateful: bool = False

    def __str__(self) -> str:
        return f"{self.family}-{self.variant}"


SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": LIMIT,
    "pad_token_id": 0,
}
"""Dh · H = 96 ≠ D = 48."""

NARROW = SIZES | {"head_dim": 8}
"""For families that want Dh = D/H."""

EQUAL = {name: value for name, value in NARROW.items() if name not in ("head_dim", "num_key_value_heads")}
"""For families without groups."""

EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
MOE = EXPERTS | {"moe_intermediate_size": 24}
FALCON = {name: value for name, value in EQUAL.items() if name != "intermediate_size"}

GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": LIMIT,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

PLANES = 8
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL},
    "yarn-mscale": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
        "beta_fast": 8.0,
        "beta_slow": 0.5,
        "mscale": 0.7,
        "mscale_all_dim": 1.3,
        "truncate": False,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    "longrope": {"rope_type": "longrope", "original_max_position_embeddings": ORIGINAL},
}


def _longrope(planes: int) -> dict[str, Any]:
    return SCALINGS["longrope"] | {
        "short_factor": [1.0 + 0.1 * plane for plane in range(planes)],
        "long_factor": [1.5 + 0.4 * plane for plane in range(planes)],
    }


def scaled(fields: dict[str, Any], name: str, planes: int, base: float = 10_000.0) -> dict[str, Any]:
    """Config fields with one scaling rule, in the spelling of transformers 5."""
    rule = _longrope(planes) if name == "longrope" else SCALINGS[name]
    changed = fields | {"rope_parameters": rule | {"rope_theta": base}}
    if name == "dynamic":
        changed["max_position_embeddings"] = ORIGINAL
    return changed


def _scalings(family: str, fields: dict[str, Any], planes: int, *names: str) -> list[Case]:
    return [
        Case(family, name, scaled(fields, name, planes), stateful=name in ("dynamic", "longrope"))
        for name in (names or tuple(SCALINGS))
    ]


def with_rule(case: Case, name: str) -> Case:
    """A case under one scaling rule, the rest of its rotation left as it is."""
    config = transformers.AutoConfig.for_model(case.family, **case.fields)
    rules = config.rope_parameters
    kept = rules.get(FULL, rules)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    share = kept.get("partial_rotary_factor", 1.0)
    fields = scaled(case.fields, name, int(width * share) // 2, kept["rope_theta"])
    if "partial_rotary_factor" in kept:
        fields["rope_parameters"]["partial_rotary_factor"] = share
    if FULL in rules:
        fields["rope_parameters"] = {FULL: fields["rope_parameters"], SLIDING: dict(rules[SLIDING])}
    return Case(case.family, name, fields, stateful=True)


FULL, SLIDING = "full_attention", "sliding_attention"
KINDS = [SLIDING, SLIDING, FULL, SLIDING]
WINDOW = {"sliding_window": 5}
PER_KIND = {FULL: {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e4}, SLIDING: {"rope_theta": 100.0}}

CASES: tuple[Case, ...] = (
    Case("llama", "plain", SIZES),
    Case("llama", "tied-bias", SIZES | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    *_scalings("llama", SIZES, PLANES),
    Case("mistral", "plain", SIZES | {"sliding_window": None}),
    Case("mistral", "window", SIZES | WINDOW),
    *_scalings("mistral", SIZES | WINDOW, PLANES, "yarn"),
    Case("ministral", "window", SIZES | WINDOW | {"layer_types": KINDS}),
    Case("mixtral", "plain", SIZES | LOCAL),
    Case("mixtral", "window", SIZES | LOCAL | WINDOW),
    Case("qwen2", "plain", NARROW),
    Case("qwen2", "window", NARROW | WINDOW | {"use_sliding_window": True, "max_window_layers": 2}),
    *_scalings("qwen2", NARROW, PLANES // 2, "yarn", "dynamic"),
    Case("qwen2_moe", "plain", NARROW | MOE | {"shared_expert_intermediate_size": 40, "norm_topk_prob": True}),
    Case(
        "qwen2_moe",
        "sparse-window",
        NARROW
        | MOE
        | WINDOW
        | {
            "shared_expert_intermediate_size": 40,
            "use_sliding_window": True,
            "mlp_only_layers": [1],
            "decoder_sparse_step": 2,
            "qkv_bias": False,
        },
    ),
    Case("qwen3", "plain", SIZES),
    Case("qwen3", "tied-window", SIZES | WINDOW | {"tie_word_embeddings": True, "use_sliding_window": True,
                                                 "max_window_layers": 2, "attention_bias": True}),
    *_scalings("qwen3", SIZES, PLANES, "yarn", "linear"),
    Case("qwen3_moe", "plain", SIZES | MOE),
    Case("qwen3_moe", "sparse", SIZES | MOE | {"mlp_only_layers": [0], "norm_topk_prob": True}),
    Case("gemma", "plain", SIZES),
    Case("gemma2", "plain", SIZES | WINDOW | {"query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0,
                                             "final_logit_softcapping": 3.0}),
    Case("vaultgemma", "plain", SIZES | WINDOW | {"query_pre_attn_scalar": 24}),
    Case("gemma3_text", "plain", SIZES | WINDOW | {"query_pre_attn_scalar": 24, "num_hidden_layers": 7}),
    Case("gemma3_text", "linear", SIZES | WINDOW | {"layer_types": KINDS, "rope_parameters": PER_KIND}),
    Case("phi3", "plain", NARROW),
    Case("phi3", "window", NARROW | WINDOW),
    Case("phi3", "partial", NARROW | {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}),
    Case("phi3", "longrope", NARROW | {"original_max_position_embeddings": ORIGINAL, "rope_parameters": _longrope(4)},
         stateful=True),
    Case("phi", "plain", NARROW),
    Case("phi", "qk-norm", NARROW | {"qk_layernorm": True}),
    Case("persimmon", "plain", EQUAL),
    Case("persimmon", "no-qk-norm", EQUAL | {"qk_layernorm": False}),
    Case("olmo", "plain", NARROW),
    Case("olmo", "clip", NARROW | {"clip_qkv": 0.7}),
    Case("olmo2", "plain", NARROW),
    *_scalings("olmo2", NARROW, PLANES // 2, "yarn"),
    Case("olmo3", "plain", NARROW | WINDOW),
    Case("olmo3", "yarn", NARROW | WINDOW | {"layer_types": KINDS, "rope_parameters": {
        FULL: SCALINGS["yarn"] | {"rope_theta": 5e5}, SLIDING: {"rope_type": "default", "rope_theta": 5e5}}}),
    Case("olmoe", "plain", NARROW | EXPERTS),
    Case("olmoe", "clip", NARROW | EXPERTS | {"clip_qkv": 0.7, "norm_topk_prob": True}),
    Case("smollm3", "plain", NARROW | {"no_rope_layer_interval": 2}),
    Case("smollm3", "window", NARROW | WINDOW | {"use_sliding_window": True, "no_rope_layers": [1, 0, 0, 1]}),
    Case("glm", "plain", SIZES),
    Case("glm", "no-bias", SIZES | {"attention_bias": False}),
    Case("glm4", "plain", SIZES),
    Case("gpt_neox", "plain", EQUAL),
    Case("gpt_neox", "serial", EQUAL | {"use_parallel_residual": False, "attention_bias": False}),
    Case("gptj", "plain", GPT | {"rotary_dim": 6}),
    Case("codegen", "plain", GPT | {"rotary_dim": 6}),
    Case("gpt2", "plain", GPT),
    Case("stablelm", "plain", NARROW),
    Case("stablelm", "parallel", NARROW | {"use_parallel_residual": True, "use_qkv_bias": True, "qk_layernorm": True}),
    Case("granite", "plain", SIZES | {"embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.4,
                                     "attention_multiplier": 0.2}),
    Case("granitemoe", "plain", NARROW | LOCAL | {"embedding_multiplier": 3.0, "attention_multiplier": 0.3}),
    Case("granitemoeshared", "plain", NARROW | LOCAL | {"shared_intermediate_size": 40, "attention_multiplier": 0.3}),
    Case("cohere", "plain", NARROW),
    Case("cohere", "qk-norm", NARROW | {"use_qk_norm": True, "attention_bias": True}),
    Case("cohere2", "plain", NARROW | WINDOW | {"num_hidden_layers": 5}),
    Case("starcoder2", "plain", NARROW),
    Case("starcoder2", "window", NARROW | WINDOW | {"use_bias": False, "tie_word_embeddings": False}),
    Case("exaone4", "plain", SIZES | WINDOW),
    Case("exaone4", "full", SIZES | {"sliding_window": None, "layer_types": [FULL] * 4}),
    Case("ernie4_5", "plain", SIZES),
    Case("ernie4_5", "bias", SIZES | {"use_bias": True, "tie_word_embeddings": False}),
    Case("hunyuan_v1_dense", "plain", SIZES),
    Case("hunyuan_v1_dense", "alpha", SIZES | {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4,
                                                                  "alpha": 50.0, "factor": 1.0}}),
    Case("hunyuan_v1_moe", "plain", SIZES | {"num_experts": 4, "moe_topk": 2}),
    Case("arcee", "plain", SIZES | {"mlp_bias": True}),
    Case("seed_oss", "plain", SIZES | {"attention_out_bias": True}),
    Case("nemotron", "plain", SIZES),
    Case("jais2", "plain", SIZES),
    Case("gpt_oss", "plain", SIZES | WINDOW | LOCAL | {"rope_parameters": SCALINGS["yarn"] | {"rope_theta": 1.5e5}}),
    Case("helium", "plain", NARROW | {"attention_bias": True}),
    Case("apertus", "plain", NARROW),
    Case("internlm3", "plain", SIZES),
    Case("internlm3", "bias", SIZES | {"attention_bias": True, "mlp_bias": True}),
    Case("iquestcoder", "plain", SIZES),
    Case("mellum", "plain", SIZES | WINDOW | MOE | {"layer_types": KINDS}),
    Case("falcon", "multi-query", FALCON),
    Case("falcon", "grouped", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    Case("falcon", "serial", FALCON | {"multi_query": False, "parallel_attn": False}),
)  # fmt: skip


def build(case: Case, seed: int = 0) -> Any:
    """The transformers model of a case, every parameter random, in evaluation mode on the eager path."""
    config = transformers.AutoConfig.for_model(case.family, **case.fields)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomise(model)
    return model


def randomise(model: nn.Module) -> None:
    """Give every matrix the spread that keeps activations near 1, and shake every gain, bias and sink."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim < 2 or "norm" in name:
                value.add_(torch.randn_like(value), alpha=0.3)
            else:
                fan_in = (
                    value.shape[-2] if name.endswith(("experts.gate_up_proj", "experts.down_proj")) else value.shape[-1]
                )
                value.normal_(0, fan_in**-0.5)


def save(model: Any, folder: Path) -> Path:
    """Write a checkpoint folder as transformers does."""
    model.save_pretrained(folder)
    return folder


def reference_logits(model: Any, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Logits [B, T, V] and attention weights [B, H, T, S] of each layer; positions as `generate` counts them."""
    counted = {} if mask is None else {"position_ids": (mask.long().cumsum(-1) - 1).clamp(min=0)}
    with torch.no_grad():
        out = model(ids, attention_mask=mask, output_attentions=True, use_cache=False, **counted)
    return out.logits, out.attentions


def reference_decode(model: Any, ids: Tensor, prefill: int) -> list[Tensor]:
    """Logits of the last row [B, V] after a prefill and after each further token, through transformers' own cache."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    rows, cache = [], None
    with torch.no_grad():
        for start, stop in [(0, prefill), *((step, step + 1) for step in range(prefill, ids.shape[1]))]:
            out = model(ids[:, start:stop], use_cache=True, **({} if cache is None else {name: cache}))
            cache = getattr(out, name)
            rows.append(out.logits[:, -1])
    return rows
