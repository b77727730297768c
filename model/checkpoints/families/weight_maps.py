"""Weight maps: stored name → what it fills, for every layout that some family uses.

``blocks.{l}`` on our side, the families' own names on theirs. A pattern may be listed that only some files hold; what a
model needs and does not find is refused when the plan is made.
"""

from __future__ import annotations

from typing import Any

from ropewalk.model.checkpoints.families.layouts import Fused, Piece, Rule

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


GPT2 = _gpt2("") | _gpt2("transformer.")
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
    | shared_expert(f"{LAYER}mlp.shared_experts.{{e}}")
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
