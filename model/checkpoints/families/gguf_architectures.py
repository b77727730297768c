"""GGUF's architectures: which family each is, how its metadata keys read as that family's fields, what its names fill.

llama.cpp's converter names tensors alike for every architecture, permutes the rows of q and k where its own code
rotates adjacent pairs, bakes Gemma's 1 + w into the stored gains, and splits interleaved matrices. A new architecture
is one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.model.checkpoints.families.layouts import Fused, Rule, WeightMap
from ropewalk.model.checkpoints.families.weight_maps import GATE_UP, OURS, QKV, fused, outer, same

BLOCK = "blk.{l}."
EXPERT = f"{OURS}mlp.experts.{{e}}."


def _stacked() -> dict[str, Rule]:
    return {
        f"{BLOCK}ffn_{part}_exps.{kind}": Fused((f"{EXPERT}{part}.{kind}",), stacked=True)
        for part in ("gate", "up", "down")
        for kind in ("weight", "bias")
    }


def _one_by_one() -> dict[str, Rule]:
    """Experts as files of 2023 hold them."""
    return {f"{BLOCK}ffn_{part}.{{e}}.weight": f"{EXPERT}{part}.weight" for part in ("gate", "up", "down")}


NAMES: dict[str, Rule] = (
    outer("token_embd", "output_norm", "output")
    | {"position_embd.weight": "place.weight"}
    | same(
        BLOCK,
        attn_norm="attn_norm",
        attn_post_norm="post_attention_norm",
        mlp_norm="ffn_norm",
        mlp_post_norm="post_ffw_norm",
        attn__query="attn_q",
        attn__key="attn_k",
        attn__value="attn_v",
        attn__output="attn_output",
        attn__query_norm__norm="attn_q_norm",
        attn__key_norm__norm="attn_k_norm",
        mlp__gate="ffn_gate",
        mlp__up="ffn_up",
        mlp__down="ffn_down",
        mlp__router="ffn_gate_inp",
        mlp__shared_gate="ffn_gate_inp_shexp",
        mlp__shared__gate="ffn_gate_shexp",
        mlp__shared__up="ffn_up_shexp",
        mlp__shared__down="ffn_down_shexp",
    )
    | fused(f"{BLOCK}attn_qkv", *QKV)
    | _stacked()
    | _one_by_one()
    | {f"{BLOCK}attn_sinks.weight": f"{OURS}attn.sinks", f"{BLOCK}attn_rot_embd.weight": None}
)
"""Tensor name → what it fills, for every architecture that has no names of its own."""

FUSED_GATE = fused(f"{BLOCK}ffn_up", *GATE_UP)
"""Architectures that keep gate and up in one matrix call it ffn_up."""
PRE_MLP_NORM = same(BLOCK, mlp_norm="post_attention_norm")
"""Architectures whose norm before the MLP goes by its Hugging Face name."""


@dataclass(frozen=True)
class Architecture:
    """One value of ``general.architecture``.

    Attributes
    ----------
    family
        The family whose knobs read it.
    eps, experts
        That family's names for the norm's ε and for the number of experts.
    permuted
        Whether the rows of q and k are in the order of adjacent pairs.
    gain_baked
        Whether 1 was already added to the norms' gains.
    names
        Tensor names that differ from :data:`NAMES`.
    keys
        Metadata keys (without the architecture) that the family calls otherwise.
    fields
        Fields that the metadata does not hold and that are the same for all files of this architecture.
    """

    family: str
    eps: str = "rms_norm_eps"
    experts: str = "num_experts"
    permuted: bool = False
    gain_baked: bool = False
    names: WeightMap = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


GRANITE_KEYS = {
    "logit_scale": "logits_scaling",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier",
    "expert_shared_feed_forward_length": "shared_intermediate_size",
}
SOFT_CAPS = {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"}
CLIP = {"attention.clamp_kqv": "clip_qkv"}

ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("llama", permuted=True),
    "mixtral": Architecture("mixtral", permuted=True, experts="num_local_experts"),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture(
        "qwen2_moe", keys={"expert_shared_feed_forward_length": "shared_expert_intermediate_size"}
    ),
    "qwen3": Architecture("qwen3"),
    "qwen3moe": Architecture("qwen3_moe", fields={"norm_topk_prob": True}),
    "gemma": Architecture("gemma", gain_baked=True),
    "gemma2": Architecture("gemma2", gain_baked=True, keys=SOFT_CAPS),
    "gemma3": Architecture(
        "gemma3_text", gain_baked=True, keys=SOFT_CAPS | {"rope.freq_base_swa": "rope_local_base_freq"}
    ),
    "phi2": Architecture("phi", eps="layer_norm_eps"),
    "phi3": Architecture("phi3", names=FUSED_GATE),
    "olmo": Architecture("olmo", permuted=True, eps="", keys=CLIP),
    "olmo2": Architecture("olmo2"),
    "olmoe": Architecture("olmoe", keys=CLIP),
    "smollm3": Architecture("smollm3", permuted=True),
    "glm4": Architecture("glm4", names=FUSED_GATE),
    "gptneox": Architecture("gpt_neox", eps="layer_norm_eps", keys={"use_parallel_residual": "use_parallel_residual"}),
    "gpt2": Architecture("gpt2", eps="layer_norm_epsilon"),
    "stablelm": Architecture("stablelm", eps="layer_norm_eps", keys={"use_parallel_residual": "use_parallel_residual"}),
    "granite": Architecture("granite", permuted=True, keys=GRANITE_KEYS),
    "granitemoe": Architecture("granitemoeshared", permuted=True, experts="num_local_experts", keys=GRANITE_KEYS),
    "command-r": Architecture("cohere", eps="layer_norm_eps", keys={"logit_scale": "logit_scale"}),
    "cohere2": Architecture("cohere2", eps="layer_norm_eps", keys={"logit_scale": "logit_scale"}),
    "starcoder2": Architecture("starcoder2", eps="norm_epsilon"),
    "exaone4": Architecture("exaone4"),
    "ernie4_5": Architecture("ernie4_5"),
    "hunyuan-dense": Architecture("hunyuan_v1_dense"),
    "arcee": Architecture("arcee", permuted=True),
    "seed_oss": Architecture("seed_oss", names=PRE_MLP_NORM),
    "nemotron": Architecture("nemotron", eps="norm_eps", gain_baked=True),
    "jais2": Architecture("jais2", eps="layer_norm_eps"),
    "falcon": Architecture("falcon", eps="layer_norm_epsilon"),
    "gpt-oss": Architecture("gpt_oss", experts="num_local_experts", names=PRE_MLP_NORM),
}
