"""The families of decoders that Ropewalk opens: one entry each, as data.

An entry says how its config fields become a :class:`~model.decoder.config.ModelConfig` (its knobs), which stored weight
fills which parameter, and which fields and weights are left out on purpose. Fields are read in the spellings of
transformers 4 and 5. A new family is one entry; if it needs a branch anywhere else, the config lacks a knob.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.model.checkpoints.families import family_knobs, knobs
from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.knobs import Knobs, words
from ropewalk.model.checkpoints.families.layouts import WeightMap
from ropewalk.model.checkpoints.families.weight_maps import (
    ATTENTION,
    FALCON_NEW,
    GATED,
    GEMMA_NORMS,
    GLM4_NORMS,
    GPT2,
    GPT_OSS,
    GPTJ,
    GRANITE_EXPERTS,
    GRANITE_SHARED,
    HEADS_LAYERNORMS,
    LAYER,
    LAYERNORMS,
    LLAMA,
    META,
    MINIMIND,
    MIXTRAL_EXPERTS,
    NEOX,
    OURS,
    OUTER,
    PHI,
    PHI3,
    PLAIN,
    POST_NORMS,
    PRE_NORMS,
    QK_NORMS,
    QKV,
    QWEN_EXPERTS,
    TABLES,
    XIELU,
    fused,
    outer,
    same,
    shared_expert,
)


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes
    ----------
    name
        Its ``model_type``.
    title
        How a person calls it.
    knobs
        Reads the config's fields and returns those of :class:`~model.decoder.config.ModelConfig`.
    weights
        Stored name → what it fills; None where it is left out on purpose.
    aliases
        Other values of ``model_type`` with the same layout.
    tied
        Whether the last matrix is the embedding when the config does not say.
    ignored
        Fields that change nothing here, beyond those that change nothing anywhere.
    neutral
        Fields that are understood only with these values, at which they change nothing.
    """

    name: str
    title: str
    knobs: Callable[[Fields], Knobs]
    weights: WeightMap
    aliases: tuple[str, ...] = ()
    tied: bool = False
    ignored: frozenset[str] = field(default=frozenset())
    neutral: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


GEMMA_NEUTRAL = {"use_bidirectional_attention": (False,)}
HUNYUAN_FIELDS = words(
    "add_classification_head cla_share_factor class_num dense_list eod_token_id im_end_id im_newline_id im_start_id "
    "image_token_id mask_init_id org_vocab_size pad_id pool_type position_embedding_xdrope text_start_id text_end_id "
    "video_start_id video_end_id vit_add_patchemb_bias skip_cls_token anyres_pooling_size sep_token_id "
    "capacity_factor moe_drop_tokens moe_random_routing_dropped_token"
)
HUNYUAN_NEUTRAL = {
    "use_cla": (False,),
    "use_mla": (False,),
    "use_rotary_pos_emb": (True,),
    "norm_type": ("hf_rms", "rms", "fused"),
    "enable_lm_head_fp32": (False, True),
    "use_mixed_mlp_moe": (False, True),
    "moe_layer_num_skipped": (0,),
    "group_limited_greedy": (False,),
    "routed_scaling_factor": (1.0,),
    "num_shared_expert": (1,),
    "norm_topk_prob": (True,),
}
MOE_TRAINING = words("output_router_logits router_jitter_noise moe_aux_loss_coeff aux_loss_alpha seq_aux")
HEAD_NEUTRAL = {"lm_head_bias": (False,)}

FAMILIES: tuple[Family, ...] = (
    Family(
        "llama",
        "Llama",
        knobs.llama_knobs,
        LLAMA,
        ignored=words("is_llama_config transformers.js_config"),
        neutral={"rope_interleaved": (False,), "use_sliding_window": (False,)},
    ),
    Family("mistral", "Mistral", family_knobs.mistral, LLAMA, ignored=words("max_window_layers use_sliding_window")),
    Family("ministral", "Ministral", family_knobs.ministral, LLAMA),
    Family("mixtral", "Mixtral", family_knobs.mixtral, LLAMA | MIXTRAL_EXPERTS, ignored=MOE_TRAINING),
    Family("qwen2", "Qwen2", family_knobs.qwen2, LLAMA, neutral={"use_mrope": (False,)}),
    Family(
        "qwen2_moe",
        "Qwen2 MoE",
        family_knobs.qwen2_moe,
        LLAMA
        | QWEN_EXPERTS
        | shared_expert(f"{LAYER}mlp.shared_expert")
        | {f"{LAYER}mlp.shared_expert_gate.weight": f"{OURS}mlp.shared_gate.weight"},
        ignored=MOE_TRAINING,
        neutral={"use_mrope": (False,)},
    ),
    Family("qwen3", "Qwen3", family_knobs.qwen3, LLAMA | QK_NORMS),
    Family(
        "qwen3_moe",
        "Qwen3 MoE",
        family_knobs.qwen3_moe,
        LLAMA | QK_NORMS | QWEN_EXPERTS,
        ignored=MOE_TRAINING | words("max_window_layers"),
    ),
    Family("gemma", "Gemma", family_knobs.gemma, LLAMA, tied=True, neutral=GEMMA_NEUTRAL),
    Family("gemma2", "Gemma 2", family_knobs.gemma2, LLAMA | GEMMA_NORMS, tied=True, neutral=GEMMA_NEUTRAL),
    Family(
        "vaultgemma",
        "VaultGemma",
        family_knobs.vaultgemma,
        OUTER | ATTENTION | GATED | same(LAYER, attn_norm="input_layernorm", mlp_norm="pre_feedforward_layernorm"),
        tied=True,
    ),
    Family(
        "gemma3_text", "Gemma 3", family_knobs.gemma3, LLAMA | GEMMA_NORMS | QK_NORMS, tied=True, neutral=GEMMA_NEUTRAL
    ),
    Family(
        "phi3",
        "Phi-3 and Phi-4",
        family_knobs.phi3,
        PHI3,
        ignored=words("full_attn_mod interpolate_factor"),
        neutral=HEAD_NEUTRAL,
    ),
    Family("phi", "Phi", family_knobs.phi, PHI),
    Family(
        "persimmon",
        "Persimmon",
        family_knobs.persimmon,
        outer("model.embed_tokens", "model.final_layernorm")
        | TABLES
        | PRE_NORMS
        | same(LAYER, attn__output="self_attn.dense", mlp__up="mlp.dense_h_to_4h", mlp__down="mlp.dense_4h_to_h")
        | fused(f"{LAYER}self_attn.query_key_value", *QKV, order="groups")
        | LAYERNORMS,
    ),
    Family("olmo", "OLMo", family_knobs.olmo, LLAMA),
    Family("olmo2", "OLMo 2", family_knobs.olmo2, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("olmo3", "OLMo 3", family_knobs.olmo3, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("olmoe", "OLMoE", family_knobs.olmoe, LLAMA | QK_NORMS | QWEN_EXPERTS, ignored=MOE_TRAINING),
    Family("smollm3", "SmolLM3", family_knobs.smollm3, LLAMA, tied=True, ignored=words("max_window_layers")),
    Family("glm", "GLM", family_knobs.glm, PHI3),
    Family("glm4", "GLM-4", family_knobs.glm4, PHI3 | GLM4_NORMS),
    Family("gpt_neox", "GPT-NeoX and Pythia", family_knobs.gpt_neox, NEOX),
    Family(
        "gptj",
        "GPT-J",
        family_knobs.gptj,
        GPTJ,
        ignored=words(
            "attn_pdrop rotary summary_activation summary_first_dropout "
            "summary_proj_to_labels summary_type summary_use_proj scale_attn_weights"
        ),
    ),
    Family(
        "codegen",
        "CodeGen",
        family_knobs.gptj,
        GPTJ,
        ignored=words(
            "attn_pdrop gradient_checkpointing summary_activation "
            "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj scale_attn_weights n_ctx"
        ),
    ),
    Family(
        "gpt2",
        "GPT-2",
        family_knobs.gpt2,
        GPT2,
        tied=True,
        ignored=words(
            "attn_pdrop n_ctx summary_activation summary_first_dropout summary_proj_to_labels summary_type "
            "summary_use_proj reorder_and_upcast_attn gradient_checkpointing"
        ),
        neutral={"scale_attn_by_inverse_layer_idx": (False,)},
    ),
    Family(
        "stablelm",
        "StableLM",
        family_knobs.stablelm,
        LLAMA | HEADS_LAYERNORMS,
        aliases=("stablelm_epoch",),
        ignored=words("rotary_scaling_factor num_heads norm_eps"),
    ),
    Family("granite", "Granite", family_knobs.granite, LLAMA),
    Family("granitemoe", "Granite MoE", family_knobs.granitemoe, LLAMA | GRANITE_EXPERTS, ignored=MOE_TRAINING),
    Family(
        "granitemoeshared",
        "Granite MoE with a shared expert",
        family_knobs.granitemoe,
        LLAMA | GRANITE_EXPERTS | GRANITE_SHARED,
        ignored=MOE_TRAINING,
    ),
    Family(
        "cohere",
        "Cohere Command R",
        family_knobs.cohere,
        LLAMA | QK_NORMS,
        tied=True,
        ignored=words("pool"),
    ),
    Family(
        "cohere2",
        "Cohere Command R7B",
        family_knobs.cohere2,
        LLAMA,
        tied=True,
        ignored=words("order_of_interleaved_layers position_embedding_type rotary_pct"),
        neutral={
            "use_embedding_sharing": (True,),
            "use_gated_activation": (True,),
            "use_parallel_block": (True,),
            "use_parallel_embedding": (False, True),
        },
    ),
    Family(
        "starcoder2",
        "StarCoder2",
        family_knobs.starcoder2,
        OUTER | PRE_NORMS | ATTENTION | same(LAYER, mlp__up="mlp.c_fc", mlp__down="mlp.c_proj"),
        tied=True,
        ignored=words(
            "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 scale_attn_weights "
            "inference_runner validate_runner_input"
        ),
        neutral={"mlp_type": ("default",), "norm_type": ("layer_norm",)},
    ),
    Family("exaone4", "EXAONE 4", family_knobs.exaone4, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("ernie4_5", "ERNIE 4.5", family_knobs.ernie, LLAMA, tied=True, ignored=words("compression_ratio")),
    Family(
        "hunyuan_v1_dense",
        "Hunyuan",
        family_knobs.hunyuan,
        LLAMA
        | same(f"{LAYER}self_attn.", attn__query_norm__norm="query_layernorm", attn__key_norm__norm="key_layernorm"),
        ignored=HUNYUAN_FIELDS,
        neutral=HUNYUAN_NEUTRAL,
    ),
    Family(
        "hunyuan_v1_moe",
        "Hunyuan MoE",
        family_knobs.hunyuan_moe,
        LLAMA
        | same(f"{LAYER}self_attn.", attn__query_norm__norm="query_layernorm", attn__key_norm__norm="key_layernorm")
        | QWEN_EXPERTS
        | {f"{LAYER}mlp.gate.wg.weight": f"{OURS}mlp.router.weight"}
        | shared_expert(f"{LAYER}mlp.shared_mlp"),
        ignored=HUNYUAN_FIELDS | MOE_TRAINING | words("moe_intermediate_size"),
        neutral=HUNYUAN_NEUTRAL,
    ),
    Family("arcee", "Arcee AFM", family_knobs.arcee, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("seed_oss", "Seed-OSS", family_knobs.seed_oss, LLAMA),
    Family("nemotron", "Nemotron", family_knobs.nemotron, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("jais2", "Jais 2", family_knobs.jais2, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("gpt_oss", "gpt-oss", family_knobs.gpt_oss, GPT_OSS, ignored=MOE_TRAINING | words("initial_context_length")),
    Family("helium", "Helium", family_knobs.helium, LLAMA),
    Family(
        "apertus",
        "Apertus",
        family_knobs.apertus,
        OUTER
        | ATTENTION
        | PLAIN
        | QK_NORMS
        | XIELU
        | same(LAYER, attn_norm="attention_layernorm", mlp_norm="feedforward_layernorm"),
        neutral={"post_norm": (False,), "qk_norm": (True,)},
    ),
    Family("internlm3", "InternLM3", family_knobs.internlm3, LLAMA),
    Family("iquestcoder", "IQuest-Coder", family_knobs.iquest, LLAMA, neutral={"use_sliding_window": (False,)}),
    Family(
        "mellum",
        "Mellum",
        family_knobs.mellum,
        LLAMA | QK_NORMS | QWEN_EXPERTS,
        ignored=MOE_TRAINING | words("mtp_layer_types mtp_mlp_layer_types"),
        neutral={"num_mtp_layers": (0,), "num_nextn_predict_layers": (0,)},
    ),
    Family(
        "falcon",
        "Falcon",
        family_knobs.falcon,
        FALCON_NEW,
        tied=True,
        aliases=("RefinedWeb", "RefinedWebModel"),
        ignored=words("apply_residual_connection_post_layernorm"),
    ),
    Family(
        "minimind",
        "MiniMind",
        family_knobs.minimind,
        MINIMIND,
        tied=True,
        ignored=words(
            "dropout flash_attn seq_aux aux_loss_alpha multiple_of num_experts n_routed_experts "
            "n_shared_experts num_experts_per_tok moe_intermediate_size norm_topk_prob rope_scaling "
            "router_aux_loss_coef"
        ),
        neutral={"scoring_func": ("softmax",)},
    ),
    Family("meta_llama", "Llama, in Meta's own files", family_knobs.meta, META),
)
BY_TYPE: Mapping[str, Family] = {name: family for family in FAMILIES for name in (family.name, *family.aliases)}
