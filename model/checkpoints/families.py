"""The families of decoders that Ropewalk opens: one entry each, as data.

An entry says how its config fields become a :class:`~model.config.ModelConfig` (its knobs), which stored weight fills
which parameter, and which fields and weights are left out on purpose. Fields are read in the spellings of
transformers 4 and 5. A new family is one entry; if it needs a branch anywhere else, the config lacks a knob.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.checkpoints.fields import Fields
from model.checkpoints.weights import Rule, WeightMap
from model.config import Activation, ModelConfig, RopeConfig, Scaling
from model.errors import CheckpointError, ConfigError

Knobs = dict[str, Any]

LARGEST_LAYERS = 1_024
LARGEST_EXPERTS = 4_096


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


IGNORED = words(
    """
    _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash _name_or_path
    _unsloth_fixed add_cross_attention architectures attention_dropout auto_map bad_words_ids begin_suppress_tokens
    bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout cross_attention_hidden_size
    decoder_start_token_id diversity_penalty do_sample dtype early_stopping embd_pdrop embedding_dropout
    encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id hidden_dropout hidden_dropout_prob id2label initializer_range is_decoder is_encoder_decoder
    label2id language length_penalty max_length min_length model_type no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_attentions output_hidden_states output_scores pad_token_id prefix pretraining_tp
    problem_type pruned_heads remove_invalid_values repetition_penalty resid_pdrop residual_dropout return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers_version typical_p
    unsloth_fixed unsloth_version use_bfloat16 use_cache
    """
)
"""Fields of any config that change nothing about a forward pass of a finished model."""

ACTIVATION_NAMES: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
}


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes
    ----------
    name
        Its ``model_type``.
    knobs
        Reads the config's fields and returns those of :class:`~model.config.ModelConfig`.
    weights
        Stored name → what it fills; None where it is left out on purpose.
    aliases
        Other values of ``model_type`` with the same layout.
    tied
        Whether the last matrix is the embedding when the config does not say.
    ignored
        Fields that change nothing here, beyond :data:`IGNORED`.
    title
        How a person calls it.
    """

    name: str
    knobs: Callable[[Fields], Knobs]
    weights: WeightMap
    aliases: tuple[str, ...] = ()
    tied: bool = False
    ignored: frozenset[str] = field(default=frozenset())
    title: str = ""


# ----------------------------------------------------------------------------------------------------------------------
# Shared parts of knobs


def activation(c: Fields, *names: str, default: str = "silu") -> Activation:
    """The activation under any of its spellings."""
    name = c.text(*(names or ("hidden_act",)), default=default)
    if name not in ACTIVATION_NAMES:
        raise ConfigError(
            f"{c.where} asks for the activation {name!r:.40}, but Ropewalk knows {', '.join(sorted(ACTIVATION_NAMES))}."
        )
    return ACTIVATION_NAMES[name]


def counts(c: Fields) -> Knobs:
    """The sizes that nearly every family spells alike."""
    width, heads = c.whole("hidden_size"), c.whole("num_attention_heads")
    layers = c.whole("num_hidden_layers")
    if layers > LARGEST_LAYERS:
        raise ConfigError(f"{c.where} asks for {layers} layers, more than the {LARGEST_LAYERS} that Ropewalk builds.")
    head_width = c.optional_whole("head_dim")
    if head_width is None:
        if not heads or width % heads:
            raise ConfigError(
                f"{c.where} has hidden_size {width} and num_attention_heads {heads} but no head_dim, and the first is "
                "not a multiple of the second."
            )
        head_width = width // heads
    return {
        "vocabulary": c.whole("vocab_size"),
        "width": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": c.optional_whole("num_key_value_heads") or heads,
        "head_width": head_width,
        "mlp_width": c.whole("intermediate_size"),
        "max_position": c.whole("max_position_embeddings"),
    }


def rope(
    c: Fields, head_width: int, *, base: float = 10_000.0, partial: float = 1.0, kind: str | None = None, **fixed: Any
) -> RopeConfig:
    """The rotary rule in the spelling of transformers 4 (``rope_theta``, ``rope_scaling``) or 5 (``rope_parameters``).

    Parameters
    ----------
    base, partial
        What the family uses when the config does not say.
    kind
        Which of several rules to read, where there is one for each kind of layer.
    """
    outer_base = c.raw("rope_theta", "rotary_emb_base", default=base)
    outer_partial = c.raw("partial_rotary_factor", "rotary_pct", "rope_pct", default=partial)
    inner = c.inner("rope_parameters") or c.inner("rope_scaling")
    if inner is not None and kind is not None and kind in inner.values:
        inner = inner.inner(kind)
    if inner is None:
        inner = Fields({}, c.where)
    defaults = Fields({"base": outer_base, "partial": outer_partial}, c.where)
    theta = inner.number("rope_theta", default=defaults.number("base"))
    share = inner.number("partial_rotary_factor", default=defaults.number("partial"))
    name = inner.text("rope_type", "type", default="default")
    width = int(head_width * share)
    rule = RopeConfig(width=None if width == head_width else width, base=theta, **(_scaling(c, inner, name) | fixed))
    unread = inner.unread()
    if unread:
        raise ConfigError(f"{inner.where} has the field {unread[0]}, which Ropewalk does not know for {name!r}.")
    return rule


def _scaling(c: Fields, inner: Fields, name: str) -> Knobs:
    """The parameters of one scaling rule."""
    names: dict[str, Scaling] = {"default": "default", "linear": "linear", "dynamic": "dynamic", "yarn": "yarn",
                                 "llama3": "llama3", "longrope": "longrope", "su": "longrope"}  # fmt: skip
    if name not in names:
        raise ConfigError(f"{inner.where} has the scaling rule {name!r:.40}, but Ropewalk knows {', '.join(names)}.")
    rule = names[name]
    limit = c.whole("max_position_embeddings")
    # fields that a rule does not use are allowed to be there
    read: Knobs = {
        "factor": inner.number("factor", default=1.0),
        "original_max_position": inner.optional_whole("original_max_position_embeddings"),
        "attention_factor": inner.optional_number("attention_factor"),
        "beta_fast": inner.number("beta_fast", default=32.0),
        "beta_slow": inner.number("beta_slow", default=1.0),
        "mscale": inner.optional_number("mscale"),
        "mscale_all_dim": inner.optional_number("mscale_all_dim"),
        "truncate": inner.flag("truncate", default=True),
        "low_freq_factor": inner.number("low_freq_factor", default=1.0),
        "high_freq_factor": inner.number("high_freq_factor", default=4.0),
        "short_factor": inner.numbers("short_factor"),
        "long_factor": inner.numbers("long_factor"),
    }
    used = {
        "default": (),
        "linear": ("factor",),
        "dynamic": ("factor",),
        "yarn": ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
        "longrope": ("factor", "attention_factor", "short_factor", "long_factor"),
    }[rule]
    knobs: Knobs = {"scaling": rule} | {field: read[field] for field in used}
    original = read["original_max_position"]
    if rule == "dynamic":
        knobs["original_max_position"] = limit
    elif rule not in {"default", "linear"}:
        knobs["original_max_position"] = c.optional_whole("original_max_position_embeddings") or original or limit
    if rule == "longrope":
        # the paper's factor is the stretched length over the original one
        knobs["factor"] = limit / knobs["original_max_position"]
    return knobs


def windows(c: Fields, layers: int, *, used: bool = True, default: list[str] | None = None) -> Knobs:
    """A sliding window, on the layers that ``layer_types`` or the family's own rule name."""
    window = c.optional_whole("sliding_window")
    kinds = c.items("layer_types") or default
    if window is None or not used:
        if kinds and "sliding_attention" in kinds and used:
            raise ConfigError(f"{c.where} has sliding layers but no sliding_window.")
        return {}
    if kinds is None:
        return {"window": window}
    unknown = sorted({str(kind) for kind in kinds} - {"sliding_attention", "full_attention"})
    if unknown:
        raise ConfigError(f"{c.where} has layers of type {unknown[0]!r:.40}, which Ropewalk cannot show.")
    if not any(kind == "sliding_attention" for kind in kinds):
        return {}
    return {"window": window, "window_layers": tuple(kind == "sliding_attention" for kind in kinds)}


# ----------------------------------------------------------------------------------------------------------------------
# Shared weight maps

BLOCK = "model.layers.{l}."
OURS = "blocks.{l}."
QKV = ("attn.query", "attn.key", "attn.value")


def attention_weights(bias: bool = True) -> dict[str, Rule]:
    """q, k, v and o under their Hugging Face names."""
    names = dict(zip(("q_proj", "k_proj", "v_proj", "o_proj"), (*QKV, "attn.output"), strict=True))
    kinds = ("weight", "bias") if bias else ("weight",)
    return {f"{BLOCK}self_attn.{theirs}.{k}": f"{OURS}{ours}.{k}" for theirs, ours in names.items() for k in kinds}


def mlp_weights() -> dict[str, Rule]:
    """Gate, up and down under their Hugging Face names."""
    return {
        f"{BLOCK}mlp.{part}_proj.{k}": f"{OURS}mlp.{part}.{k}"
        for part in ("gate", "up", "down")
        for k in ("weight", "bias")
    }


def norm_weights(**names: str) -> dict[str, Rule]:
    """Norms of a block: our name → theirs."""
    return {f"{BLOCK}{theirs}.{k}": f"{OURS}{ours}.{k}" for ours, theirs in names.items() for k in ("weight", "bias")}


OUTER: dict[str, Rule] = {
    "model.embed_tokens.weight": "embed.weight",
    "model.norm.weight": "norm.weight",
    "model.norm.bias": "norm.bias",
    "lm_head.weight": "head.weight",
    "lm_head.bias": "head.bias",
    # tables that old files carry; they follow from the config
    "model.layers.{l}.self_attn.rotary_emb.inv_freq": None,
    "model.rotary_emb.inv_freq": None,
}
PRE_NORMS = norm_weights(attn_norm="input_layernorm", mlp_norm="post_attention_layernorm")
QK_NORMS: dict[str, Rule] = {
    f"{BLOCK}self_attn.q_norm.weight": f"{OURS}attn.query_norm.norm.weight",
    f"{BLOCK}self_attn.k_norm.weight": f"{OURS}attn.key_norm.norm.weight",
}
LLAMA_WEIGHTS: dict[str, Rule] = OUTER | PRE_NORMS | attention_weights() | mlp_weights()


# ----------------------------------------------------------------------------------------------------------------------
# Knobs of each family


def _llama(c: Fields, *, base: float = 10_000.0, eps: float = 1e-6) -> Knobs:
    sizes = counts(c)
    bias = c.flag("attention_bias", "qkv_bias", default=False)
    return sizes | {
        "rope": rope(c, sizes["head_width"], base=base),
        "norm_eps": c.number("rms_norm_eps", default=eps),
        "activation": activation(c),
        "query_bias": bias,
        "key_bias": bias,
        "value_bias": bias,
        "output_bias": bias,
        "mlp_bias": c.flag("mlp_bias", default=False),
    }


def _mistral(c: Fields) -> Knobs:
    knobs = _llama(c)
    return knobs | windows(c, knobs["layers"])


def _qwen_windows(c: Fields, layers: int) -> Knobs:
    used = c.flag("use_sliding_window", default=False)
    full = c.whole("max_window_layers", default=28)
    default = ["full_attention" if layer < full else "sliding_attention" for layer in range(layers)]
    return windows(c, layers, used=used, default=default)


def _qwen2(c: Fields) -> Knobs:
    knobs = _llama(c)
    biases = {"query_bias": True, "key_bias": True, "value_bias": True, "output_bias": False}
    return knobs | biases | _qwen_windows(c, knobs["layers"])


def _qwen3(c: Fields) -> Knobs:
    if c.raw("head_dim", default=None) is None:
        c = Fields(dict(c.values) | {"head_dim": 128}, c.where)
    knobs = _llama(c)
    return knobs | {"qk_norm": "head"} | _qwen_windows(c, knobs["layers"])


FAMILIES: tuple[Family, ...] = (
    Family("llama", _llama, LLAMA_WEIGHTS, title="Llama"),
    Family("mistral", _mistral, LLAMA_WEIGHTS, title="Mistral"),
    Family("qwen2", _qwen2, LLAMA_WEIGHTS, ignored=frozenset({"use_mrope"}), title="Qwen2"),
    Family("qwen3", _qwen3, LLAMA_WEIGHTS | QK_NORMS, title="Qwen3"),
)
BY_TYPE: Mapping[str, Family] = {name: family for family in FAMILIES for name in (family.name, *family.aliases)}


def family_of(config: Mapping[str, Any], where: str) -> Family:
    """The family that a config names.

    Raises
    ------
    CheckpointError
        For one that Ropewalk does not open, with what it is or the nearest that it does.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise CheckpointError(f"{where} has no model_type, so the family of the model is unknown.")
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    raise CheckpointError(
        f"{where} is of the family {kind!r:.60}, which Ropewalk does not open; the nearest it knows is {nearest(kind)}."
    )


def nearest(kind: str) -> str:
    """The family whose name is most like ``kind``."""
    return max(BY_TYPE, key=lambda name: difflib.SequenceMatcher(None, name, kind[:60]).ratio())


def read_config(config: Mapping[str, Any], where: str, holds_head: bool | None = None) -> tuple[Family, ModelConfig]:
    """Turn a config in Hugging Face spelling into ours.

    Parameters
    ----------
    holds_head
        Whether the weights include a last matrix of their own; None when there are no weights. It decides only where
        the config does not.

    Raises
    ------
    CheckpointError
        For a family that Ropewalk does not open and for a field that the family neither handles nor ignores.
    ConfigError
        For a field whose value is refused.
    """
    family = family_of(config, where)
    fields = Fields(config, where)
    knobs = family.knobs(fields)
    tied = fields.raw("tie_word_embeddings", default=None)
    if tied is None:
        knobs["tied"] = family.tied if holds_head is None else not holds_head
    else:
        knobs["tied"] = fields.flag("tie_word_embeddings")
    unread = fields.unread(IGNORED | family.ignored)
    if unread:
        raise CheckpointError(
            f"{where} has the field {unread[0]!r:.60}, which the family {family.name} neither uses nor ignores; "
            f"the nearest family is {_nearest_with(unread[0], family)}, and Ropewalk drops no field silently.",
            f"All such fields: {', '.join(unread)[:500]}",
        )
    return family, ModelConfig(**knobs)


def _nearest_with(name: str, family: Family) -> str:
    return family.name
