"""The families of decoders that Ropewalk opens: one entry each, as data.

An entry says how its config fields become a :class:`~model.config.ModelConfig` (its knobs), which stored weight fills
which parameter, and which fields and weights are left out on purpose. Fields are read in the spellings of
transformers 4 and 5. A new family is one entry; if it needs a branch anywhere else, the config lacks a knob.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.checkpoints.fields import Fields
from model.checkpoints.knobs import (
    Knobs,
    activation,
    counts,
    llama_knobs,
    mixture,
    pattern_of_layers,
    read_as,
    rope,
    sparse_layers,
    windows,
    words,
)
from model.checkpoints.layouts import Fused, Piece, Rule, WeightMap
from model.errors import ConfigError


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
        Reads the config's fields and returns those of :class:`~model.config.ModelConfig`.
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


# ----------------------------------------------------------------------------------------------------------------------
# Weight maps that families share

MODEL = "model."
LAYER = "model.layers.{l}."
OURS = "blocks.{l}."
KINDS = ("weight", "bias")


def same(prefix: str, **names: str) -> dict[str, Rule]:
    """Weights and biases in a block: our name (``_`` for ``.``) → theirs, under ``prefix``."""
    paths = {ours.replace("__", "."): theirs for ours, theirs in names.items()}
    return {f"{prefix}{theirs}.{kind}": f"{OURS}{ours}.{kind}" for ours, theirs in paths.items() for kind in KINDS}


def fused(source: str, *targets: str, order: Any = "rows") -> dict[str, Rule]:
    """A matrix and its bias that hold several of a block."""
    return {f"{source}.{kind}": Fused(tuple(f"{OURS}{name}.{kind}" for name in targets), order) for kind in KINDS}


def outer(embed: str, norm: str, head: str = "lm_head") -> dict[str, Rule]:
    """Embedding, final norm and last matrix."""
    return {
        f"{embed}.weight": "embed.weight",
        f"{norm}.weight": "norm.weight",
        f"{norm}.bias": "norm.bias",
        f"{head}.weight": "head.weight",
        f"{head}.bias": "head.bias",
    }


ATTENTION = same(
    f"{LAYER}self_attn.", attn__query="q_proj", attn__key="k_proj", attn__value="v_proj", attn__output="o_proj"
)
GATED = same(f"{LAYER}mlp.", mlp__gate="gate_proj", mlp__up="up_proj", mlp__down="down_proj")
PRE_NORMS = same(LAYER, attn_norm="input_layernorm", mlp_norm="post_attention_layernorm")
POST_NORMS = same(LAYER, attn_post_norm="post_attention_layernorm", mlp_post_norm="post_feedforward_layernorm")
GEMMA_NORMS = same(
    LAYER,
    attn_norm="input_layernorm",
    attn_post_norm="post_attention_layernorm",
    mlp_norm="pre_feedforward_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
)
QK_NORMS = same(f"{LAYER}self_attn.", attn__query_norm__norm="q_norm", attn__key_norm__norm="k_norm")
# tables that old files carry; they follow from the config
TABLES: dict[str, Rule] = {f"{LAYER}self_attn.rotary_emb.inv_freq": None, "model.rotary_emb.inv_freq": None}
OUTER: dict[str, Rule] = outer("model.embed_tokens", "model.norm") | TABLES
LLAMA: dict[str, Rule] = OUTER | PRE_NORMS | ATTENTION | GATED


def experts(prefix: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> dict[str, Rule]:
    """The experts of a mixture, one matrix each."""
    parts = {"gate": gate, "up": up, "down": down}
    return {
        f"{prefix}{{e}}.{theirs}.weight": f"{OURS}mlp.experts.{{e}}.{ours}.weight" for ours, theirs in parts.items()
    }


def stacked_experts(gate_up: str, down: str) -> dict[str, Rule]:
    """The experts of a mixture, stacked along the first axis with gate and up in one."""
    expert = f"{OURS}mlp.experts.{{e}}."
    return {
        gate_up: Fused((f"{expert}gate.weight", f"{expert}up.weight"), stacked=True),
        down: Fused((f"{expert}down.weight",), stacked=True),
    }


def shared_expert(prefix: str) -> dict[str, Rule]:
    """The expert that every token visits."""
    return {f"{prefix}.{part}_proj.weight": f"{OURS}mlp.shared.{part}.weight" for part in ("gate", "up", "down")}


ROUTER: dict[str, Rule] = {f"{LAYER}mlp.gate.weight": f"{OURS}mlp.router.weight"}
QWEN_EXPERTS = (
    ROUTER
    | experts(f"{LAYER}mlp.experts.")
    | stacked_experts(f"{LAYER}mlp.experts.gate_up_proj", f"{LAYER}mlp.experts.down_proj")
)
SPARSE = f"{LAYER}block_sparse_moe."
MIXTRAL_EXPERTS = (
    QWEN_EXPERTS
    | {f"{SPARSE}gate.weight": f"{OURS}mlp.router.weight"}
    | experts(f"{SPARSE}experts.", gate="w1", up="w3", down="w2")
)
GRANITE_EXPERTS = (
    {f"{SPARSE}router.layer.weight": f"{OURS}mlp.router.weight", f"{SPARSE}router.weight": f"{OURS}mlp.router.weight"}
    | stacked_experts(f"{SPARSE}input_linear.weight", f"{SPARSE}output_linear.weight")
    | stacked_experts(f"{SPARSE}experts.gate_up_proj", f"{SPARSE}experts.down_proj")
)
GRANITE_SHARED: dict[str, Rule] = {
    f"{LAYER}shared_mlp.input_linear.weight": Fused((f"{OURS}mlp.shared.gate.weight", f"{OURS}mlp.shared.up.weight")),
    f"{LAYER}shared_mlp.output_linear.weight": f"{OURS}mlp.shared.down.weight",
}
QKV = ("attn.query", "attn.key", "attn.value")
GATE_UP = ("mlp.gate", "mlp.up")
PHI3 = (
    OUTER
    | PRE_NORMS
    | ATTENTION
    | GATED
    | fused(f"{LAYER}self_attn.qkv_proj", *QKV)
    | fused(f"{LAYER}mlp.gate_up_proj", *GATE_UP)
)
GLM4_NORMS = same(
    LAYER,
    attn_norm="input_layernorm",
    attn_post_norm="post_self_attn_layernorm",
    mlp_norm="post_attention_layernorm",
    mlp_post_norm="post_mlp_layernorm",
)
PLAIN = same(f"{LAYER}mlp.", mlp__up="up_proj", mlp__down="down_proj")
HEADS_LAYERNORMS: dict[str, Rule] = {
    f"{LAYER}self_attn.{letter}_layernorm.norms.{{e}}.weight": Piece(f"{OURS}attn.{name}_norm.norm.weight")
    for letter, name in (("q", "query"), ("k", "key"))
}
LAYERNORMS = same(f"{LAYER}self_attn.", attn__query_norm__norm="q_layernorm", attn__key_norm__norm="k_layernorm")
PHI = (
    outer("model.embed_tokens", "model.final_layernorm")
    | TABLES
    | same(LAYER, attn_norm="input_layernorm", mlp__up="mlp.fc1", mlp__down="mlp.fc2")
    | ATTENTION
    | same(f"{LAYER}self_attn.", attn__output="dense")
    | LAYERNORMS
)
NEOX_LAYER = "gpt_neox.layers.{l}."
NEOX: dict[str, Rule] = (
    outer("gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out")
    | {"lm_head.weight": "head.weight"}
    | same(
        NEOX_LAYER,
        attn_norm="input_layernorm",
        mlp_norm="post_attention_layernorm",
        attn__output="attention.dense",
        mlp__up="mlp.dense_h_to_4h",
        mlp__down="mlp.dense_4h_to_h",
    )
    | fused(f"{NEOX_LAYER}attention.query_key_value", *QKV, order="groups")
    | {f"{NEOX_LAYER}attention.{name}": None for name in ("rotary_emb.inv_freq", "bias", "masked_bias")}
)
GPT_LAYER = "transformer.h.{l}."
GPTJ: dict[str, Rule] = (
    outer("transformer.wte", "transformer.ln_f")
    | same(GPT_LAYER, attn_norm="ln_1", attn__output="attn.out_proj", mlp__up="mlp.fc_in", mlp__down="mlp.fc_out")
    | same(f"{GPT_LAYER}attn.", attn__query="q_proj", attn__key="k_proj", attn__value="v_proj")
    | fused(f"{GPT_LAYER}attn.qkv_proj", "attn.query", "attn.value", "attn.key", order="codegen")
    | {f"{GPT_LAYER}attn.{name}": None for name in ("bias", "masked_bias", "causal_mask", "embed_positions")}
)


def _conv1d(source: str, *targets: str) -> dict[str, Rule]:
    """GPT-2's matrices are stored [in, out]."""
    return {
        f"{source}.weight": Fused(tuple(f"{OURS}{name}.weight" for name in targets), transposed=True),
        f"{source}.bias": Fused(tuple(f"{OURS}{name}.bias" for name in targets)),
    }


def _gpt2(prefix: str) -> dict[str, Rule]:
    layer = f"{prefix}h.{{l}}."
    return (
        outer(f"{prefix}wte", f"{prefix}ln_f")
        | {f"{prefix}wpe.weight": "place.weight", f"{layer}attn.bias": None, f"{layer}attn.masked_bias": None}
        | same(layer, attn_norm="ln_1", mlp_norm="ln_2")
        | _conv1d(f"{layer}attn.c_attn", *QKV)
        | _conv1d(f"{layer}attn.c_proj", "attn.output")
        | _conv1d(f"{layer}mlp.c_fc", "mlp.up")
        | _conv1d(f"{layer}mlp.c_proj", "mlp.down")
    )


FALCON: dict[str, Rule] = (
    outer("transformer.word_embeddings", "transformer.ln_f")
    | same(GPT_LAYER, attn_norm="input_layernorm", mlp_norm="post_attention_layernorm")
    | same(GPT_LAYER, attn__output="self_attention.dense", mlp__up="mlp.dense_h_to_4h", mlp__down="mlp.dense_4h_to_h")
    | fused(f"{GPT_LAYER}self_attention.query_key_value", *QKV, order="groups")
    | {f"{GPT_LAYER}self_attention.maybe_rotary.inv_freq": None}
)
FALCON_NEW = FALCON | same(GPT_LAYER, attn_norm="ln_attn", mlp_norm="ln_mlp")
OSS_EXPERT = f"{OURS}mlp.experts.{{e}}."
GPT_OSS: dict[str, Rule] = (
    OUTER
    | PRE_NORMS
    | ATTENTION
    | same(LAYER, mlp__router="mlp.router")
    | {
        f"{LAYER}self_attn.sinks": f"{OURS}attn.sinks",
        f"{LAYER}mlp.experts.gate_up_proj": Fused(
            (f"{OSS_EXPERT}gate.weight", f"{OSS_EXPERT}up.weight"), "interleaved", stacked=True, transposed=True
        ),
        f"{LAYER}mlp.experts.gate_up_proj_bias": Fused(
            (f"{OSS_EXPERT}gate.bias", f"{OSS_EXPERT}up.bias"), "interleaved", stacked=True
        ),
        f"{LAYER}mlp.experts.down_proj": Fused((f"{OSS_EXPERT}down.weight",), stacked=True, transposed=True),
        f"{LAYER}mlp.experts.down_proj_bias": Fused((f"{OSS_EXPERT}down.bias",), stacked=True),
    }
)
XIELU: dict[str, Rule] = {
    f"{LAYER}mlp.act_fn.alpha_p": f"{OURS}mlp.activate.positive",
    f"{LAYER}mlp.act_fn.alpha_n": f"{OURS}mlp.activate.negative",
    f"{LAYER}mlp.act_fn.beta": f"{OURS}mlp.activate.beta",
    f"{LAYER}mlp.act_fn.eps": f"{OURS}mlp.activate.epsilon",
}
META_LAYER = "layers.{l}."
META: dict[str, Rule] = (
    outer("tok_embeddings", "norm", "output")
    | same(META_LAYER, attn_norm="attention_norm", mlp_norm="ffn_norm")
    | same(f"{META_LAYER}attention.", attn__query="wq", attn__key="wk", attn__value="wv", attn__output="wo")
    | same(f"{META_LAYER}feed_forward.", mlp__gate="w1", mlp__up="w3", mlp__down="w2")
    | {f"{META_LAYER}attention.inner_attention.rope.freqs": None, "rope.freqs": None}
)
MINIMIND: dict[str, Rule] = (
    LLAMA
    | QK_NORMS
    | ROUTER
    | experts(f"{LAYER}mlp.experts.")
    | shared_expert(f"{LAYER}mlp.shared_experts.0")
    | shared_expert(f"{LAYER}mlp.shared_experts")
    | META
    | {f"{META_LAYER}feed_forward.gate.weight": f"{OURS}mlp.router.weight", f"{META_LAYER}attention.mask": None}
    | experts(f"{META_LAYER}feed_forward.experts.", gate="w1", up="w3", down="w2")
    | {
        f"{META_LAYER}feed_forward.shared_experts.{theirs}.weight": f"{OURS}mlp.shared.{ours}.weight"
        for ours, theirs in (("gate", "w1"), ("up", "w3"), ("down", "w2"))
    }
    | dict.fromkeys(("freqs_cos", "freqs_sin", "pos_cis", "model.freqs_cos", "model.freqs_sin"))
)


# ----------------------------------------------------------------------------------------------------------------------
# Knobs of each family


def _mistral(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    return knobs | windows(c, knobs["layers"])


def _mixtral(c: Fields) -> Knobs:
    knobs = llama_knobs(c, base=1e6, eps=1e-5)
    moe = mixture(c, experts=("num_local_experts", "num_experts"), default=8, per_token=2, width=knobs["mlp_width"])
    return knobs | windows(c, knobs["layers"]) | {"moe": moe}


def _qwen_windows(c: Fields, layers: int) -> Knobs:
    used = c.flag("use_sliding_window", default=False)
    full = c.whole("max_window_layers", default=28)
    default = ["full_attention" if layer < full else "sliding_attention" for layer in range(layers)]
    return windows(c, layers, used=used, default=default)


def _qwen2(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    biases = {"query_bias": True, "key_bias": True, "value_bias": True, "output_bias": False}
    return knobs | biases | _qwen_windows(c, knobs["layers"])


def _qwen3(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128))
    return knobs | {"qk_norm": "head"} | _qwen_windows(c, knobs["layers"])


def _qwen2_moe(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    bias = c.flag("qkv_bias", default=True)
    layers = knobs["layers"]
    full = c.whole("max_window_layers", default=28)
    kinds = ["sliding_attention" if layer % 2 == 0 and layer < full else "full_attention" for layer in range(layers)]
    moe = mixture(
        c,
        default=60,
        per_token=4,
        width=c.whole("moe_intermediate_size", default=1408),
        renormalise=c.flag("norm_topk_prob", default=False),
        shared_width=c.whole("shared_expert_intermediate_size", default=5632),
        shared_gate=True,
        layers=sparse_layers(c, layers),
    )
    return (
        knobs
        | {"query_bias": bias, "key_bias": bias, "value_bias": bias, "output_bias": False, "moe": moe}
        | windows(c, layers, used=c.flag("use_sliding_window", default=False), default=kinds)
    )


def _qwen3_moe(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    layers = knobs["layers"]
    moe = mixture(
        c,
        experts=("num_experts", "num_local_experts"),
        default=128,
        per_token=8,
        width=c.whole("moe_intermediate_size", default=768),
        renormalise=c.flag("norm_topk_prob", default=False),
        layers=sparse_layers(c, layers),
    )
    used = c.flag("use_sliding_window", default=False)
    return knobs | {"qk_norm": "head", "moe": moe} | windows(c, layers, used=used)


def _gemma(c: Fields) -> Knobs:
    """Embeddings times √D, norms times 1 + w, tanh GELU whatever the old files say."""
    knobs = llama_knobs(c.with_defaults(head_dim=256).changed(hidden_act="silu"))
    name = c.text("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    return knobs | {
        "activation": "gelu_tanh" if name == "gelu" else read_as(c, name),
        "embedding_scale": math.sqrt(knobs["width"]),
        "norm_offset": 1.0,
    }


def _gemma2(c: Fields) -> Knobs:
    knobs = _gemma(c)
    return (
        knobs
        | {
            "norm_place": "both",
            "score_scale": c.number("query_pre_attn_scalar", default=256) ** -0.5,
            "score_cap": c.optional_number("attn_logit_softcapping"),
            "logit_cap": c.optional_number("final_logit_softcapping"),
        }
        | windows(c, knobs["layers"], default=pattern_of_layers(knobs["layers"], 2), window=4096)
    )


def _vaultgemma(c: Fields) -> Knobs:
    return _gemma2(c) | {"norm_place": "pre"}


def _gemma3(c: Fields) -> Knobs:
    knobs = _gemma2(c.with_defaults(sliding_window=4096))
    every = c.whole("sliding_window_pattern", "_sliding_window_pattern", default=6)
    layers, width = knobs["layers"], knobs["head_width"]
    local = c.number("rope_local_base_freq", default=10_000.0)
    return (
        knobs
        | {
            "qk_norm": "head",
            "rope": rope(c, width, base=1e6, kind="full_attention"),
            "local_rope": rope(c, width, base=local, kind="sliding_attention", inherit=False),
        }
        | windows(c, layers, default=pattern_of_layers(layers, every), window=4096)
    )


def _phi3(c: Fields) -> Knobs:
    rules = c.inner("rope_parameters") or c.inner("rope_scaling")
    if rules is not None and rules.text("rope_type", "type", default="default") in ("su", "yarn"):
        # early files call longrope by its other names
        renamed = {**rules.values, "rope_type": "longrope", "type": "longrope"}
        c = c.changed(rope_scaling=renamed, rope_parameters=None)
    knobs = llama_knobs(c, eps=1e-5)
    return knobs | windows(c, knobs["layers"])


def _layer_norm(c: Fields, *names: str, bias: bool = True) -> Knobs:
    return {"norm": "layer", "norm_bias": bias, "norm_eps": c.number(*names, default=1e-5)}


def _all_biases(bias: bool) -> Knobs:
    return dict.fromkeys(("query_bias", "key_bias", "value_bias", "output_bias", "mlp_bias"), bias)


def _phi(c: Fields) -> Knobs:
    knobs = llama_knobs(c, partial=0.5)
    return (
        knobs
        | _layer_norm(c, "layer_norm_eps")
        | _all_biases(True)
        | _layer_qk_norm(c)
        | {
            "activation": activation(c, default="gelu_new"),
            "mlp": "plain",
            "parallel_residual": True,
            "shared_norm": True,
            "logit_bias": True,
        }
    )


def _layer_qk_norm(c: Fields, default: bool = False) -> Knobs:
    if not c.flag("qk_layernorm", default=default):
        return {}
    return {"qk_norm": "head", "qk_norm_kind": "layer", "qk_norm_bias": True}


def _persimmon(c: Fields) -> Knobs:
    knobs = llama_knobs(c, partial=0.5)
    return (
        knobs
        | _layer_norm(c, "layer_norm_eps")
        | _all_biases(True)
        | _layer_qk_norm(c, default=True)
        | {
            "activation": activation(c, default="relu2"),
            "mlp": "plain",
        }
    )


def _olmo(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    plain = {"norm": "layer", "norm_eps": 1e-5, "norm_gain": False}
    return knobs | plain | {"qkv_clip": c.optional_number("clip_qkv")}


def _olmo2(c: Fields) -> Knobs:
    return llama_knobs(c, eps=1e-5) | {"norm_place": "post", "qk_norm": "full"}


def _olmo3(c: Fields) -> Knobs:
    knobs = _olmo2(c)
    layers, width = knobs["layers"], knobs["head_width"]
    base = c.number("rope_theta", default=500_000.0)
    return (
        knobs
        | {
            "rope": rope(c, width, base=base, kind="full_attention"),
            "local_rope": rope(c, width, base=base, kind="sliding_attention", inherit=False),
        }
        | windows(c, layers, default=pattern_of_layers(layers, 4), window=4096)
    )


def _olmoe(c: Fields) -> Knobs:
    knobs = llama_knobs(c, eps=1e-5)
    moe = mixture(
        c,
        experts=("num_experts", "num_local_experts"),
        default=64,
        per_token=8,
        width=knobs["mlp_width"],
        renormalise=c.flag("norm_topk_prob", default=False),
    )
    return knobs | {"qk_norm": "full", "qkv_clip": c.optional_number("clip_qkv"), "moe": moe}


def _smollm3(c: Fields) -> Knobs:
    knobs = llama_knobs(c, base=2e6)
    layers = knobs["layers"]
    every = c.whole("no_rope_layer_interval", default=4)
    rotates = c.items("no_rope_layers")
    if rotates is None:
        rotates = [int(not every or (layer + 1) % every != 0) for layer in range(layers)]
    used = c.flag("use_sliding_window", default=False)
    kinds = ["full_attention" if turns else "sliding_attention" for turns in rotates]
    return (
        knobs | {"rope_layers": tuple(bool(turns) for turns in rotates)} | windows(c, layers, used=used, default=kinds)
    )


def _glm(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128, attention_bias=True), eps=1.5625e-7, partial=0.5)
    knobs["rope"] = rope(c, knobs["head_width"], partial=0.5, pairing="adjacent")
    return knobs | {"output_bias": False}


def _glm4(c: Fields) -> Knobs:
    return _glm(c) | {"norm_place": "both"}


def _gpt_neox(c: Fields) -> Knobs:
    sizes = counts(c)
    bias = c.flag("attention_bias", default=True)
    return (
        sizes
        | _layer_norm(c, "layer_norm_eps")
        | _all_biases(bias)
        | {
            "rope": rope(c, sizes["head_width"], partial=0.25),
            "activation": activation(c, default="gelu"),
            "mlp": "plain",
            "mlp_bias": True,
            "parallel_residual": c.flag("use_parallel_residual", default=True),
        }
    )


def _gpt_counts(c: Fields) -> Knobs:
    """The sizes under GPT-2's names."""
    width = c.whole("n_embd", "hidden_size")
    renamed = c.with_defaults(
        hidden_size=width,
        num_attention_heads=c.whole("n_head", "num_attention_heads"),
        num_hidden_layers=c.whole("n_layer", "num_hidden_layers"),
        intermediate_size=c.optional_whole("n_inner") or 4 * width,
        max_position_embeddings=c.whole("n_positions", "n_ctx", "max_position_embeddings"),
    )
    return counts(renamed) | {
        "mlp": "plain",
        "mlp_bias": True,
        "activation": activation(c, "activation_function", default="gelu_new"),
    }


def _gptj(c: Fields) -> Knobs:
    sizes = _gpt_counts(c)
    turning = c.optional_whole("rotary_dim")
    return (
        sizes
        | _layer_norm(c, "layer_norm_epsilon")
        | {
            "rope": rope(c, sizes["head_width"], width=turning, pairing="adjacent"),
            "parallel_residual": True,
            "shared_norm": True,
            "logit_bias": True,
        }
    )


def _gpt2_knobs(c: Fields) -> Knobs:
    sizes = _gpt_counts(c)
    return (
        sizes
        | _layer_norm(c, "layer_norm_epsilon")
        | _all_biases(True)
        | {
            "position": "learned",
            "score_scale": None if c.flag("scale_attn_weights", default=True) else 1.0,
        }
    )


def _stablelm(c: Fields) -> Knobs:
    knobs = llama_knobs(c.changed(attention_bias=None), partial=0.25)
    bias = c.flag("use_qkv_bias", default=False)
    normed: Knobs = {"qk_norm": "heads", "qk_norm_kind": "layer"} if c.flag("qk_layernorm", default=False) else {}
    return (
        knobs
        | _layer_norm(c, "layer_norm_eps", "norm_eps")
        | normed
        | {
            "query_bias": bias,
            "key_bias": bias,
            "value_bias": bias,
            "parallel_residual": c.flag("use_parallel_residual", default=False),
            "shared_norm": True,
        }
    )


def _granite(c: Fields) -> Knobs:
    return llama_knobs(c) | {
        "embedding_scale": c.number("embedding_multiplier", default=1.0),
        "residual_scale": c.number("residual_multiplier", default=1.0),
        "score_scale": c.number("attention_multiplier", default=1.0),
        "logit_scale": 1.0 / c.above_zero("logits_scaling", default=1.0),
    }


def _granitemoe(c: Fields) -> Knobs:
    knobs = _granite(c)
    moe = mixture(
        c,
        experts=("num_local_experts",),
        default=8,
        per_token=2,
        width=knobs["mlp_width"],
        scoring="softmax_chosen",
        shared_width=c.whole("shared_intermediate_size", default=0),
    )
    return knobs | {"moe": moe}


def _cohere(c: Fields) -> Knobs:
    knobs = llama_knobs(c, base=500_000.0)
    knobs["rope"] = rope(c, knobs["head_width"], base=500_000.0, pairing="adjacent")
    normed: Knobs = {"qk_norm": "heads", "qk_norm_kind": "layer"} if c.flag("use_qk_norm", default=False) else {}
    return (
        knobs
        | _layer_norm(c, "layer_norm_eps", bias=False)
        | normed
        | {
            "logit_scale": c.number("logit_scale", default=0.0625),
            "parallel_residual": True,
            "shared_norm": True,
        }
    )


def _cohere2(c: Fields) -> Knobs:
    knobs = _cohere(c)
    knobs["rope"] = rope(c, knobs["head_width"], pairing="adjacent")
    layers = knobs["layers"]
    every = c.whole("sliding_window_pattern", "_sliding_window_pattern", default=4)
    window = windows(c, layers, default=pattern_of_layers(layers, every), window=4096)
    return knobs | window | {"rope_layers": window.get("window_layers", (False,) * layers)}


def _starcoder2(c: Fields) -> Knobs:
    knobs = llama_knobs(c)
    bias = _all_biases(c.flag("use_bias", default=True))
    return (
        knobs
        | _layer_norm(c, "norm_epsilon")
        | bias
        | windows(c, knobs["layers"])
        | {
            "activation": activation(c, "hidden_act", "activation_function", default="gelu_pytorch_tanh"),
            "mlp": "plain",
        }
    )


def _exaone4(c: Fields) -> Knobs:
    knobs = llama_knobs(c, eps=1e-5)
    layers = knobs["layers"]
    pattern = c.raw("sliding_window_pattern", default=4)
    if isinstance(pattern, str):
        # such as LLLG: local, local, local, global, over and over
        kinds = [
            "sliding_attention" if pattern and pattern[layer % len(pattern)] == "L" else "full_attention"
            for layer in range(layers)
        ]
    else:
        kinds = pattern_of_layers(layers, c.whole("sliding_window_pattern", default=4))
    window = windows(c, layers, default=kinds)
    rotates = {"rope_layers": window.get("window_layers")} if window else {}
    return knobs | window | rotates | {"norm_place": "post", "qk_norm": "head"}


def _ernie(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128), base=500_000.0, eps=1e-5)
    knobs["rope"] = rope(c, knobs["head_width"], base=500_000.0, pairing="adjacent")
    return knobs | _all_biases(c.flag("use_bias", default=False))


def _hunyuan(c: Fields) -> Knobs:
    rules = c.inner("rope_parameters") or c.inner("rope_scaling")
    if rules is not None and rules.raw("alpha", default=None):
        # a fixed alpha stretches the base alone, whatever the length
        sizes = counts(c.with_defaults(head_dim=c.optional_whole("attention_head_dim")))
        width = sizes["head_width"]
        base = rules.number("rope_theta", default=c.number("rope_theta", default=10_000.0))
        stretched = base * rules.number("alpha") ** (width / (width - 2))
        c = c.changed(rope_parameters={"rope_theta": stretched}, rope_scaling=None)
    knobs = llama_knobs(c.with_defaults(head_dim=c.optional_whole("attention_head_dim")), eps=1e-5)
    normed: Knobs = {"qk_norm": "head", "qk_norm_after_rope": True} if c.flag("use_qk_norm", default=True) else {}
    return knobs | normed


def _hunyuan_moe(c: Fields) -> Knobs:
    knobs = _hunyuan(c)
    per_token = c.raw("moe_topk", "num_experts_per_tok", default=1)
    if isinstance(per_token, list) and len(set(per_token)) == 1:
        per_token = per_token[0]
    c = c.changed(num_experts_per_tok=per_token)
    return knobs | {
        "moe": mixture(c, default=1, per_token=1, width=knobs["mlp_width"], shared_width=knobs["mlp_width"])
    }


def _arcee(c: Fields) -> Knobs:
    return llama_knobs(c, eps=1e-5) | {"mlp": "plain", "activation": activation(c, default="relu2")}


def _seed_oss(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128, attention_bias=True))
    return knobs | {"output_bias": c.flag("attention_out_bias", default=False)}


def _nemotron(c: Fields) -> Knobs:
    knobs = llama_knobs(c, partial=0.5)
    return (
        knobs
        | _layer_norm(c, "norm_eps")
        | {
            "norm_offset": 1.0,
            "mlp": "plain",
            "activation": activation(c, default="relu2"),
        }
    )


def _jais2(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(attention_bias=True, mlp_bias=True))
    return knobs | _layer_norm(c, "layer_norm_eps") | {"mlp": "plain", "activation": activation(c, default="relu2")}


def _helium(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128), eps=1e-8, base=100_000.0)
    return knobs | {
        "rope": rope(c, knobs["head_width"], base=100_000.0, pairing="adjacent"),
        "output_bias": False,
    }


def _apertus(c: Fields) -> Knobs:
    stretch = {
        "rope_type": "llama3",
        "rope_theta": 12_000_000.0,
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    if c.inner("rope_parameters") is None and c.inner("rope_scaling") is None:
        c = c.changed(rope_parameters=stretch)
    knobs = llama_knobs(c, eps=1e-5, base=12_000_000.0)
    return knobs | {"mlp": "plain", "activation": activation(c, default="xielu"), "qk_norm": "head"}


def _gpt_oss(c: Fields) -> Knobs:
    c = c.with_defaults(head_dim=64, attention_bias=True)
    if c.inner("rope_parameters") is None and c.inner("rope_scaling") is None:
        c = c.changed(
            rope_parameters={
                "rope_type": "yarn",
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            }
        )
    if c.number("swiglu_alpha", default=1.702) != 1.702:
        raise ConfigError(
            f"{c.where} has swiglu_alpha {c.number('swiglu_alpha')}, but gpt-oss is known with 1.702 only."
        )
    knobs = llama_knobs(c, eps=1e-5, base=150_000.0)
    layers = knobs["layers"]
    moe = mixture(
        c,
        experts=("num_local_experts", "num_experts"),
        default=128,
        per_token=4,
        per_token_names=("num_experts_per_tok", "experts_per_token"),
        width=knobs["mlp_width"],
        scoring="softmax_chosen",
        router_bias=True,
    )
    return (
        knobs
        | windows(c, layers, default=pattern_of_layers(layers, 2), window=128)
        | {
            "sink": True,
            "activation": "quick_gelu",
            "mlp_bias": True,
            "mlp_limit": c.number("swiglu_limit", default=7.0),
            "up_offset": 1.0,
            "moe": moe,
        }
    )


def _internlm3(c: Fields) -> Knobs:
    bias = c.flag("bias", "mlp_bias", default=False)
    c = c.with_defaults(head_dim=128, attention_bias=c.flag("qkv_bias", "attention_bias", default=False))
    return llama_knobs(c.changed(mlp_bias=bias), eps=1e-5) | {"output_bias": bias}


def _ministral(c: Fields) -> Knobs:
    return _mistral(c.with_defaults(sliding_window=4096))


def _iquest(c: Fields) -> Knobs:
    return llama_knobs(c.with_defaults(head_dim=128), eps=1e-5)


def _mellum(c: Fields) -> Knobs:
    knobs = llama_knobs(c.with_defaults(head_dim=128).changed(rope_parameters=None), base=500_000.0)
    layers, width = knobs["layers"], knobs["head_width"]
    kinds = c.items("mlp_layer_types") or ["sparse"] * layers
    moe = mixture(
        c,
        experts=("num_experts", "num_local_experts"),
        default=64,
        per_token=8,
        width=c.whole("moe_intermediate_size", default=896),
        renormalise=c.flag("norm_topk_prob", default=True),
        layers=tuple(kind == "sparse" for kind in kinds),
    )
    return (
        knobs
        | windows(c, layers, default=["full_attention"] * layers)
        | {
            "qk_norm": "head",
            "moe": moe,
            "rope": rope(c, width, base=500_000.0, kind="full_attention"),
            "local_rope": rope(c, width, base=10_000.0, kind="sliding_attention"),
        }
    )


def _falcon(c: Fields) -> Knobs:
    new = c.flag("new_decoder_architecture", default=False)
    heads = c.whole("num_attention_heads", "n_head")
    width = c.whole("hidden_size", "n_embed")
    one_head, grouped = c.flag("multi_query", default=True) and not new, c.optional_whole("num_kv_heads", "n_head_kv")
    renamed = c.with_defaults(
        hidden_size=width,
        num_attention_heads=heads,
        num_hidden_layers=c.whole("num_hidden_layers", "n_layer"),
        intermediate_size=c.optional_whole("ffn_hidden_size") or 4 * width,
        max_position_embeddings=2048,
        num_key_value_heads=1 if one_head else (grouped if new else heads),
    )
    if c.flag("alibi", default=False):
        raise ConfigError(f"{c.where} asks for ALiBi, position as a bias on the scores, which Ropewalk does not show.")
    sizes = counts(renamed)
    norms = c.optional_whole("num_ln_in_parallel_attn") or (2 if new else 1)
    parallel = c.flag("parallel_attn", default=True)
    return (
        sizes
        | _layer_norm(c, "layer_norm_epsilon")
        | _all_biases(c.flag("bias", default=False))
        | {
            "rope": rope(renamed, sizes["head_width"]),
            "activation": activation(c, "activation", default="gelu"),
            "mlp": "plain",
            "parallel_residual": new or c.flag("parallel_attn", default=True),
            "shared_norm": norms == 1,
        }
    )


def _minimind(c: Fields) -> Knobs:
    """Versions 1 (Meta's names, adjacent pairs), 2 (a Llama layout) and 3 (a Qwen3 layout), and their mixtures."""
    first = c.raw("dim", default=None) is not None
    names = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "num_key_value_heads": "n_kv_heads",
        "max_position_embeddings": "max_seq_len",
        "intermediate_size": "hidden_dim",
        "rms_norm_eps": "norm_eps",
    }
    c = c.with_defaults(**{ours: c.raw(theirs, default=None) for ours, theirs in names.items()})
    if c.raw("intermediate_size", default=None) is None:
        multiple = c.whole("multiple_of", default=64)
        inner = int(8 * c.whole("hidden_size") / 3)
        c = c.changed(intermediate_size=multiple * ((inner + multiple - 1) // multiple))
    if not c.flag("inference_rope_scaling", default=False):
        c = c.changed(rope_scaling=None)
    knobs = llama_knobs(c, base=10_000.0 if first else 1e6, eps=1e-5)
    if first:
        knobs["rope"] = rope(c, knobs["head_width"], pairing="adjacent")
    if c.holds(f"{LAYER}self_attn.q_norm.weight"):
        knobs["qk_norm"] = "head"
    if not c.flag("use_moe", default=False):
        return knobs
    shared = c.raw("n_shared_experts", default=0)
    if shared not in (0, 1, False, True):
        raise ConfigError(f"{c.where} asks for {shared} shared experts, but Ropewalk knows MiniMind with at most one.")
    routed = ("n_routed_experts", "num_experts")
    per_token = c.whole("num_experts_per_tok", default=2 if "n_routed_experts" in c.values else 1)
    renormalise = c.flag("norm_topk_prob", default=True)
    moe = mixture(
        c,
        experts=routed,
        default=4,
        per_token=per_token,
        width=c.whole("moe_intermediate_size", default=knobs["mlp_width"]),
        # the older code leaves a single expert's share as it is
        renormalise=renormalise and (per_token > 1 or "n_routed_experts" not in c.values),
        shared_width=knobs["mlp_width"] if shared else 0,
    )
    return knobs | {"moe": moe}


def _meta(c: Fields) -> Knobs:
    """Meta's own files: ``params.json``, adjacent pairs."""
    knobs = llama_knobs(c, eps=1e-5)
    knobs["rope"] = rope(c, knobs["head_width"], pairing="adjacent")
    return knobs


# ----------------------------------------------------------------------------------------------------------------------
# The table

GEMMA_NEUTRAL = {"use_bidirectional_attention": (False,)}
HUNYUAN_FIELDS = words(
    "add_classification_head cla_share_factor class_num dense_list eod_token_id im_end_id im_newline_id im_start_id "
    "image_token_id mask_init_id org_vocab_size pad_id pool_type position_embedding_xdrope text_start_id text_end_id "
    "video_start_id video_end_id vit_add_patchemb_bias skip_cls_token anyres_pooling_size sep_token_id "
    "capacity_factor moe_drop_tokens moe_random_routing_dropped_token mlp_bias"
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
        llama_knobs,
        LLAMA,
        ignored=words("is_llama_config transformers.js_config max_sequence_length"),
        neutral={"rope_interleaved": (False,), "use_sliding_window": (False,)},
    ),
    Family("mistral", "Mistral", _mistral, LLAMA, ignored=words("max_window_layers use_sliding_window")),
    Family("ministral", "Ministral", _ministral, LLAMA),
    Family("mixtral", "Mixtral", _mixtral, LLAMA | MIXTRAL_EXPERTS, ignored=MOE_TRAINING),
    Family("qwen2", "Qwen2", _qwen2, LLAMA, neutral={"use_mrope": (False,)}),
    Family(
        "qwen2_moe",
        "Qwen2 MoE",
        _qwen2_moe,
        LLAMA
        | QWEN_EXPERTS
        | shared_expert(f"{LAYER}mlp.shared_expert")
        | {f"{LAYER}mlp.shared_expert_gate.weight": f"{OURS}mlp.shared_gate.weight"},
        ignored=MOE_TRAINING,
        neutral={"use_mrope": (False,)},
    ),
    Family("qwen3", "Qwen3", _qwen3, LLAMA | QK_NORMS),
    Family(
        "qwen3_moe",
        "Qwen3 MoE",
        _qwen3_moe,
        LLAMA | QK_NORMS | QWEN_EXPERTS,
        ignored=MOE_TRAINING | words("max_window_layers"),
    ),
    Family("gemma", "Gemma", _gemma, LLAMA, tied=True, neutral=GEMMA_NEUTRAL),
    Family("gemma2", "Gemma 2", _gemma2, LLAMA | GEMMA_NORMS, tied=True, neutral=GEMMA_NEUTRAL),
    Family(
        "vaultgemma",
        "VaultGemma",
        _vaultgemma,
        OUTER | ATTENTION | GATED | same(LAYER, attn_norm="input_layernorm", mlp_norm="pre_feedforward_layernorm"),
        tied=True,
    ),
    Family("gemma3_text", "Gemma 3", _gemma3, LLAMA | GEMMA_NORMS | QK_NORMS, tied=True, neutral=GEMMA_NEUTRAL),
    Family(
        "phi3",
        "Phi-3 and Phi-4",
        _phi3,
        PHI3,
        ignored=words("full_attn_mod interpolate_factor"),
        neutral=HEAD_NEUTRAL,
    ),
    Family("phi", "Phi", _phi, PHI),
    Family(
        "persimmon",
        "Persimmon",
        _persimmon,
        outer("model.embed_tokens", "model.final_layernorm")
        | TABLES
        | PRE_NORMS
        | same(LAYER, attn__output="self_attn.dense", mlp__up="mlp.dense_h_to_4h", mlp__down="mlp.dense_4h_to_h")
        | fused(f"{LAYER}self_attn.query_key_value", *QKV, order="groups")
        | LAYERNORMS,
    ),
    Family("olmo", "OLMo", _olmo, LLAMA),
    Family("olmo2", "OLMo 2", _olmo2, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("olmo3", "OLMo 3", _olmo3, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("olmoe", "OLMoE", _olmoe, LLAMA | QK_NORMS | QWEN_EXPERTS, ignored=MOE_TRAINING),
    Family("smollm3", "SmolLM3", _smollm3, LLAMA, tied=True, ignored=words("max_window_layers")),
    Family("glm", "GLM", _glm, PHI3),
    Family("glm4", "GLM-4", _glm4, PHI3 | GLM4_NORMS),
    Family("gpt_neox", "GPT-NeoX and Pythia", _gpt_neox, NEOX),
    Family(
        "gptj",
        "GPT-J",
        _gptj,
        GPTJ,
        ignored=words(
            "attn_pdrop rotary summary_activation summary_first_dropout "
            "summary_proj_to_labels summary_type summary_use_proj scale_attn_weights"
        ),
    ),
    Family(
        "codegen",
        "CodeGen",
        _gptj,
        GPTJ,
        ignored=words(
            "attn_pdrop gradient_checkpointing summary_activation "
            "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj scale_attn_weights n_ctx"
        ),
    ),
    Family(
        "gpt2",
        "GPT-2",
        _gpt2_knobs,
        _gpt2("") | _gpt2("transformer."),
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
        _stablelm,
        LLAMA | HEADS_LAYERNORMS,
        aliases=("stablelm_epoch",),
        ignored=words("rotary_scaling_factor num_heads norm_eps"),
    ),
    Family("granite", "Granite", _granite, LLAMA),
    Family("granitemoe", "Granite MoE", _granitemoe, LLAMA | GRANITE_EXPERTS, ignored=MOE_TRAINING),
    Family(
        "granitemoeshared",
        "Granite MoE with a shared expert",
        _granitemoe,
        LLAMA | GRANITE_EXPERTS | GRANITE_SHARED,
        ignored=MOE_TRAINING,
    ),
    Family("cohere", "Cohere Command R", _cohere, LLAMA | QK_NORMS, tied=True, ignored=words("model_max_length pool")),
    Family(
        "cohere2",
        "Cohere Command R7B",
        _cohere2,
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
        _starcoder2,
        OUTER | PRE_NORMS | ATTENTION | same(LAYER, mlp__up="mlp.c_fc", mlp__down="mlp.c_proj"),
        tied=True,
        ignored=words(
            "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 scale_attn_weights "
            "inference_runner validate_runner_input"
        ),
        neutral={"mlp_type": ("default",), "norm_type": ("layer_norm",)},
    ),
    Family("exaone4", "EXAONE 4", _exaone4, OUTER | ATTENTION | GATED | POST_NORMS | QK_NORMS),
    Family("ernie4_5", "ERNIE 4.5", _ernie, LLAMA, tied=True, ignored=words("compression_ratio")),
    Family(
        "hunyuan_v1_dense",
        "Hunyuan",
        _hunyuan,
        LLAMA
        | same(f"{LAYER}self_attn.", attn__query_norm__norm="query_layernorm", attn__key_norm__norm="key_layernorm"),
        ignored=HUNYUAN_FIELDS,
        neutral=HUNYUAN_NEUTRAL,
    ),
    Family(
        "hunyuan_v1_moe",
        "Hunyuan MoE",
        _hunyuan_moe,
        LLAMA
        | same(f"{LAYER}self_attn.", attn__query_norm__norm="query_layernorm", attn__key_norm__norm="key_layernorm")
        | QWEN_EXPERTS
        | {f"{LAYER}mlp.gate.wg.weight": f"{OURS}mlp.router.weight"}
        | shared_expert(f"{LAYER}mlp.shared_mlp"),
        ignored=HUNYUAN_FIELDS | MOE_TRAINING | words("moe_intermediate_size"),
        neutral=HUNYUAN_NEUTRAL,
    ),
    Family("arcee", "Arcee AFM", _arcee, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("seed_oss", "Seed-OSS", _seed_oss, LLAMA),
    Family("nemotron", "Nemotron", _nemotron, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("jais2", "Jais 2", _jais2, OUTER | PRE_NORMS | ATTENTION | PLAIN),
    Family("gpt_oss", "gpt-oss", _gpt_oss, GPT_OSS, ignored=MOE_TRAINING | words("initial_context_length")),
    Family("helium", "Helium", _helium, LLAMA),
    Family(
        "apertus",
        "Apertus",
        _apertus,
        OUTER
        | ATTENTION
        | PLAIN
        | QK_NORMS
        | XIELU
        | same(LAYER, attn_norm="attention_layernorm", mlp_norm="feedforward_layernorm"),
        neutral={"post_norm": (False,), "qk_norm": (True,)},
    ),
    Family("internlm3", "InternLM3", _internlm3, LLAMA),
    Family("iquestcoder", "IQuest-Coder", _iquest, LLAMA, neutral={"use_sliding_window": (False,)}),
    Family(
        "mellum",
        "Mellum",
        _mellum,
        LLAMA | QK_NORMS | QWEN_EXPERTS,
        ignored=MOE_TRAINING | words("mtp_layer_types mtp_mlp_layer_types"),
        neutral={"num_mtp_layers": (0,), "num_nextn_predict_layers": (0,)},
    ),
    Family(
        "falcon",
        "Falcon",
        _falcon,
        FALCON_NEW,
        tied=True,
        aliases=("RefinedWeb", "RefinedWebModel"),
        ignored=words("apply_residual_connection_post_layernorm"),
    ),
    Family(
        "minimind",
        "MiniMind",
        _minimind,
        MINIMIND,
        tied=True,
        ignored=words(
            "dropout flash_attn seq_aux aux_loss_alpha multiple_of num_experts n_routed_experts "
            "n_shared_experts num_experts_per_tok moe_intermediate_size norm_topk_prob rope_scaling"
        ),
        neutral={"scoring_func": ("softmax",)},
    ),
    Family("meta_llama", "Llama, in Meta's own files", _meta, META),
)
BY_TYPE: Mapping[str, Family] = {name: family for family in FAMILIES for name in (family.name, *family.aliases)}
