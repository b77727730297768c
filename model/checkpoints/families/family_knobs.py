"""How each family's config fields become ours: one function a family, named like it.

Each reads the fields it knows from :class:`~model.checkpoints.families.fields.Fields` and returns those of
:class:`~model.decoder.config.ModelConfig`; whatever it does not read is refused later. What families share is in
``knobs.py``.
"""

from __future__ import annotations

import math

from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.knobs import (
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
)
from ropewalk.model.errors import ConfigError


def mistral(c: Fields) -> Knobs:
    """Llama with a sliding window."""
    knobs = llama_knobs(c)
    return knobs | windows(c, knobs["layers"])


def mixtral(c: Fields) -> Knobs:
    """Mistral with a mixture of experts."""
    knobs = llama_knobs(c, base=1e6, eps=1e-5)
    moe = mixture(c, experts=("num_local_experts", "num_experts"), default=8, per_token=2, width=knobs["mlp_width"])
    return knobs | windows(c, knobs["layers"]) | {"moe": moe}


def _qwen_windows(c: Fields, layers: int) -> Knobs:
    used = c.flag("use_sliding_window", default=False)
    full = c.whole("max_window_layers", default=28)
    default = ["full_attention" if layer < full else "sliding_attention" for layer in range(layers)]
    return windows(c, layers, used=used, default=default)


def qwen2(c: Fields) -> Knobs:
    """Llama with biases on q, k and v; a window on the upper layers, where it is switched on."""
    knobs = llama_knobs(c)
    biases = {"query_bias": True, "key_bias": True, "value_bias": True, "output_bias": False}
    return knobs | biases | _qwen_windows(c, knobs["layers"])


def qwen3(c: Fields) -> Knobs:
    """Llama with a QK-norm over each head."""
    knobs = llama_knobs(c.with_defaults(head_dim=128))
    return knobs | {"qk_norm": "head"} | _qwen_windows(c, knobs["layers"])


def qwen2_moe(c: Fields) -> Knobs:
    """Qwen2 with a mixture and an expert that every token visits through a gate."""
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


def qwen3_moe(c: Fields) -> Knobs:
    """Qwen3 with a mixture on all or some layers."""
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


def gemma(c: Fields) -> Knobs:
    """Embeddings times √D, norms times 1 + w, tanh GELU whatever the old files say."""
    knobs = llama_knobs(c.with_defaults(head_dim=256).changed(hidden_act="silu"))
    name = c.text("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    return knobs | {
        "activation": "gelu_tanh" if name == "gelu" else read_as(c, name),
        "embedding_scale": math.sqrt(knobs["width"]),
        "norm_offset": 1.0,
    }


def gemma2(c: Fields) -> Knobs:
    """Gemma with norms on both sides, soft caps, and a window on every other layer."""
    knobs = gemma(c)
    return (
        knobs
        | {
            "norm_place": "both",
            "score_scale": c.above_zero("query_pre_attn_scalar", default=256) ** -0.5,
            "score_cap": c.optional_number("attn_logit_softcapping"),
            "logit_cap": c.optional_number("final_logit_softcapping"),
        }
        | windows(c, knobs["layers"], default=pattern_of_layers(knobs["layers"], 2), window=4096)
    )


def vaultgemma(c: Fields) -> Knobs:
    """Gemma 2 with norms before the sub-layers only."""
    return gemma2(c) | {"norm_place": "pre"}


def gemma3(c: Fields) -> Knobs:
    """Gemma with a QK-norm, five windowed layers to a full one, and a rotary rule for each kind."""
    knobs = gemma2(c.with_defaults(sliding_window=4096))
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


def phi3(c: Fields) -> Knobs:
    """Llama with fused matrices; long contexts by two lists of factors."""
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


def phi(c: Fields) -> Knobs:
    """Attention and MLP side by side behind one LayerNorm, half of each head rotating."""
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


def persimmon(c: Fields) -> Knobs:
    """LayerNorm, squared ReLU, half of each head rotating, a LayerNorm on q and k."""
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


def olmo(c: Fields) -> Knobs:
    """LayerNorm without a gain; q, k and v clipped in some sizes."""
    knobs = llama_knobs(c)
    plain = {"norm": "layer", "norm_eps": 1e-5, "norm_gain": False}
    return knobs | plain | {"qkv_clip": c.optional_number("clip_qkv")}


def olmo2(c: Fields) -> Knobs:
    """Norms after the sub-layers, and a QK-norm over the whole projected vector."""
    return llama_knobs(c, eps=1e-5) | {"norm_place": "post", "qk_norm": "full"}


def olmo3(c: Fields) -> Knobs:
    """OLMo 2 with windows on three layers of four; only the full ones stretch their rotation."""
    knobs = olmo2(c)
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


def olmoe(c: Fields) -> Knobs:
    """A mixture with a QK-norm over the whole projected vector."""
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


def smollm3(c: Fields) -> Knobs:
    """Llama in which every fourth layer does not rotate."""
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


def glm(c: Fields) -> Knobs:
    """Half of each head rotates, in adjacent pairs; gate and up are one matrix."""
    knobs = llama_knobs(c.with_defaults(head_dim=128, attention_bias=True), eps=1.5625e-7, partial=0.5)
    knobs["rope"] = rope(c, knobs["head_width"], partial=0.5, pairing="adjacent")
    return knobs | {"output_bias": False}


def glm4(c: Fields) -> Knobs:
    """GLM with norms on both sides."""
    return glm(c) | {"norm_place": "both"}


def gpt_neox(c: Fields) -> Knobs:
    """LayerNorm, a quarter of each head rotating, attention and MLP side by side."""
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


def gptj(c: Fields) -> Knobs:
    """GPT-J and CodeGen: adjacent pairs, attention and MLP side by side behind one LayerNorm."""
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


def gpt2(c: Fields) -> Knobs:
    """Learned positions added to the embedding; nothing rotates."""
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


def stablelm(c: Fields) -> Knobs:
    """LayerNorm, a quarter of each head rotating; some sizes have a LayerNorm for each head."""
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


def granite(c: Fields) -> Knobs:
    """Llama with multipliers on embedding, residual, scores and logits."""
    return llama_knobs(c) | {
        "embedding_scale": c.number("embedding_multiplier", default=1.0),
        "residual_scale": c.number("residual_multiplier", default=1.0),
        "score_scale": c.number("attention_multiplier", default=1.0),
        "logit_scale": 1.0 / c.above_zero("logits_scaling", default=1.0),
    }


def granitemoe(c: Fields) -> Knobs:
    """Granite with a mixture whose shares are a softmax over the chosen experts."""
    knobs = granite(c)
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


def cohere(c: Fields) -> Knobs:
    """LayerNorm without β, adjacent pairs, attention and MLP side by side, scaled logits."""
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


def cohere2(c: Fields) -> Knobs:
    """Cohere with windows on three layers of four; the full ones do not rotate."""
    knobs = cohere(c)
    knobs["rope"] = rope(c, knobs["head_width"], pairing="adjacent")
    layers = knobs["layers"]
    every = c.whole("sliding_window_pattern", "_sliding_window_pattern", default=4)
    window = windows(c, layers, default=pattern_of_layers(layers, every), window=4096)
    return knobs | window | {"rope_layers": window.get("window_layers", (False,) * layers)}


def starcoder2(c: Fields) -> Knobs:
    """LayerNorm and biases everywhere, a plain MLP."""
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


def exaone4(c: Fields) -> Knobs:
    """Norms after the sub-layers, a QK-norm; where there are windows, full layers do not rotate."""
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


def ernie(c: Fields) -> Knobs:
    """Llama in adjacent pairs."""
    knobs = llama_knobs(c.with_defaults(head_dim=128), base=500_000.0, eps=1e-5)
    knobs["rope"] = rope(c, knobs["head_width"], base=500_000.0, pairing="adjacent")
    return knobs | _all_biases(c.flag("use_bias", default=False))


def hunyuan(c: Fields) -> Knobs:
    """Llama with a QK-norm after the rotation."""
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


def hunyuan_moe(c: Fields) -> Knobs:
    """Hunyuan with a mixture and an expert that every token visits."""
    knobs = hunyuan(c)
    per_token = c.raw("moe_topk", "num_experts_per_tok", default=1)
    if isinstance(per_token, list) and len(set(per_token)) == 1:
        per_token = per_token[0]
    c = c.changed(num_experts_per_tok=per_token)
    return knobs | {
        "moe": mixture(c, default=1, per_token=1, width=knobs["mlp_width"], shared_width=knobs["mlp_width"])
    }


def arcee(c: Fields) -> Knobs:
    """Llama with a plain MLP of squared ReLU."""
    return llama_knobs(c, eps=1e-5) | {"mlp": "plain", "activation": activation(c, default="relu2")}


def seed_oss(c: Fields) -> Knobs:
    """Llama with biases on q, k and v, and apart from them on the output."""
    knobs = llama_knobs(c.with_defaults(head_dim=128, attention_bias=True))
    return knobs | {"output_bias": c.flag("attention_out_bias", default=False)}


def nemotron(c: Fields) -> Knobs:
    """LayerNorm with 1 + γ, squared ReLU, half of each head rotating."""
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


def jais2(c: Fields) -> Knobs:
    """LayerNorm, squared ReLU, biases."""
    knobs = llama_knobs(c.with_defaults(attention_bias=True, mlp_bias=True))
    return knobs | _layer_norm(c, "layer_norm_eps") | {"mlp": "plain", "activation": activation(c, default="relu2")}


def helium(c: Fields) -> Knobs:
    """Llama in adjacent pairs."""
    knobs = llama_knobs(c.with_defaults(head_dim=128), eps=1e-8, base=100_000.0)
    return knobs | {
        "rope": rope(c, knobs["head_width"], base=100_000.0, pairing="adjacent"),
        "output_bias": False,
    }


def apertus(c: Fields) -> Knobs:
    """A plain MLP whose activation learns its bend, and a QK-norm."""
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


def gpt_oss(c: Fields) -> Knobs:
    """Sinks, windows on every other layer, and experts whose gate is cut off."""
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


def internlm3(c: Fields) -> Knobs:
    """Llama with a bias switch for q, k, v and another for the rest."""
    bias = c.flag("bias", "mlp_bias", default=False)
    c = c.with_defaults(head_dim=128, attention_bias=c.flag("qkv_bias", "attention_bias", default=False))
    return llama_knobs(c.changed(mlp_bias=bias), eps=1e-5) | {"output_bias": bias}


def ministral(c: Fields) -> Knobs:
    """Mistral with windows on the layers that the config lists."""
    return mistral(c.with_defaults(sliding_window=4096))


def iquest(c: Fields) -> Knobs:
    """Llama with heads of 128."""
    return llama_knobs(c.with_defaults(head_dim=128), eps=1e-5)


def mellum(c: Fields) -> Knobs:
    """Qwen3 MoE with windows, and a rotary rule for each kind of layer."""
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


def falcon(c: Fields) -> Knobs:
    """LayerNorm and one fused matrix for q, k and v, with one kv head, groups, or none."""
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
            "parallel_residual": new or parallel,
            "shared_norm": norms == 1,
        }
    )


def minimind(c: Fields) -> Knobs:
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
    if c.holds("model.layers.{l}.self_attn.q_norm.weight"):
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


def meta(c: Fields) -> Knobs:
    """Meta's own files: ``params.json``, adjacent pairs."""
    knobs = llama_knobs(c, eps=1e-5)
    knobs["rope"] = rope(c, knobs["head_width"], pairing="adjacent")
    return knobs | windows(c, knobs["layers"])
