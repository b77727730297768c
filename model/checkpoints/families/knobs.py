"""Parts of a config that many families spell alike: counts, rotary rules, windows, mixtures.

Each function reads fields and returns fields of :class:`~model.decoder.config.ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.decoder.config import Activation, MoeConfig, RopeConfig, Scaling, Scoring
from ropewalk.model.errors import ConfigError

Knobs = dict[str, Any]

LARGEST_LAYERS = 1_024
LARGEST_EXPERTS = 2_048
LARGEST_WIDTH = 1 << 22
"""No decoder is wider or has a larger vocabulary; past these, a config is damaged."""
LARGEST_HEAD = 1 << 14
"""Nor has any such heads, whose angles are computed before a weight is looked at."""

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
    "xielu": "xielu",
}

SCALING_NAMES: dict[str, Scaling] = {
    "default": "default",
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "su": "longrope",
}
SCALING_FIELDS: dict[Scaling, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("factor", "attention_factor", "short_factor", "long_factor"),
}
"""What each rule reads; the others' fields may be there and change nothing."""


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def read_as(c: Fields, name: str) -> Activation:
    """An activation by any of its names."""
    if name not in ACTIVATION_NAMES:
        raise ConfigError(
            f"{c.where} asks for the activation {name!r:.40}, but Ropewalk knows {', '.join(sorted(ACTIVATION_NAMES))}."
        )
    return ACTIVATION_NAMES[name]


def activation(c: Fields, *names: str, default: str = "silu") -> Activation:
    """The activation under the first of ``names`` (``hidden_act`` when none are given)."""
    return read_as(c, c.text(*(names or ("hidden_act",)), default=default))


def counts(c: Fields) -> Knobs:
    """The sizes that nearly every family spells alike."""
    width, heads = c.count("hidden_size", most=LARGEST_WIDTH), c.count("num_attention_heads", most=LARGEST_WIDTH)
    head_width = c.optional_whole("head_dim")
    if head_width is None:
        if width % heads:
            raise ConfigError(
                f"{c.where} has hidden_size {width} and num_attention_heads {heads} but no head_dim, and the first is "
                "not a multiple of the second."
            )
        head_width = width // heads
    if head_width > LARGEST_HEAD:
        raise ConfigError(f"{c.where} asks for heads {head_width:,} wide, but they must be at most {LARGEST_HEAD:,}.")
    left_out = "num_key_value_heads" in c.defaults and "num_key_value_heads" not in c.values
    kv_heads = c.whole("num_key_value_heads") if left_out else c.optional_whole("num_key_value_heads")
    return {
        "vocabulary": c.count("vocab_size", most=LARGEST_WIDTH),
        "width": width,
        "layers": c.count("num_hidden_layers", most=LARGEST_LAYERS),
        "heads": heads,
        "kv_heads": heads if kv_heads is None else kv_heads,
        "head_width": head_width,
        "mlp_width": c.count("intermediate_size", most=LARGEST_WIDTH),
        "max_position": c.count("max_position_embeddings"),
    }


def llama_knobs(c: Fields, *, base: float = 10_000.0, eps: float = 1e-6, partial: float = 1.0) -> Knobs:
    """A decoder like Llama: RMSNorm before, rotary, grouped heads, SwiGLU; what most families start from."""
    sizes = counts(c)
    bias = c.flag("attention_bias", default=False)
    rule = rope(c, sizes["head_width"], base=base, partial=partial, kind="full_attention")
    return sizes | {
        "max_position": max(sizes["max_position"], c.optional_whole("max_sequence_length") or 0),
        "rope": rule,
        "norm_eps": c.number("rms_norm_eps", default=eps),
        "activation": activation(c),
        "query_bias": bias,
        "key_bias": bias,
        "value_bias": bias,
        "output_bias": bias,
        "mlp_bias": c.flag("mlp_bias", default=False),
    }


def context_limit(limit: int, rule: RopeConfig | None) -> int:
    """How many positions a model may be asked for; a rule that stretches at run time reaches past the limit."""
    original = None if rule is None else rule.original_max_position
    if rule is not None and rule.scaling in ("dynamic", "yarn") and original is not None:
        return max(limit, int(original * rule.factor))
    return limit


def rope(
    c: Fields,
    head_width: int,
    *,
    base: float = 10_000.0,
    partial: float = 1.0,
    kind: str | None = None,
    inherit: bool = True,
    width: int | None = None,
    **fixed: Any,
) -> RopeConfig:
    """The rotary rule in the spelling of transformers 4 (``rope_theta``, ``rope_scaling``) or 5 (``rope_parameters``).

    Parameters
    ----------
    base, partial
        What the family uses when the config does not say.
    kind
        Which of several rules to read, where there is one for each kind of layer.
    inherit
        Whether a rule that is not given for ``kind`` apart applies to it too.
    width
        d_rot outright, where the family gives it so.
    fixed
        Fields of :class:`~model.decoder.config.RopeConfig` that the family decides.
    """
    outer_base = c.number("rope_theta", "rotary_emb_base", default=base)
    outer_partial = c.number("partial_rotary_factor", "rotary_pct", "rope_pct", default=partial)
    inner = c.inner("rope_parameters") or c.inner("rope_scaling")
    if inner is not None and any(name in inner.values for name in ("full_attention", "sliding_attention")):
        inner = inner.inner(kind) if kind is not None else None
    elif not inherit:
        inner, outer_base = None, base
    if inner is None:
        inner = Fields({}, c.where)
    theta = inner.number("rope_theta", default=outer_base)
    share = inner.number("partial_rotary_factor", default=outer_partial)
    if not 0 < share <= 1:
        raise ConfigError(f"{c.where} lets {share} of each head rotate, but the share must be above 0 and at most 1.")
    turning = int(head_width * share) if width is None else width
    rule = RopeConfig(width=None if turning == head_width else turning, base=theta, **(_scaling(c, inner) | fixed))
    unread = inner.unread(frozenset({"mrope_section"}) if rule.scaling == "default" else frozenset())
    if unread:
        raise ConfigError(
            f"{inner.where} has the field {unread[0]!r:.40}, which Ropewalk does not know; if it changes nothing, open "
            f"it with --ignore {inner.where.split()[0]}.{unread[0]:.40}."
        )
    return rule


def _scaling(c: Fields, inner: Fields) -> Knobs:
    """The parameters of one scaling rule."""
    name = inner.text("rope_type", "type", default="default")
    inner.raw("type", default=None)
    if name not in SCALING_NAMES:
        known = ", ".join(SCALING_NAMES)
        raise ConfigError(f"{inner.where} has the scaling rule {name!r:.40}, but Ropewalk knows {known}.")
    rule = SCALING_NAMES[name]
    read: Knobs = {
        "factor": inner.optional_number("factor"),
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
    inner_original = inner.optional_whole("original_max_position_embeddings")
    outer_original = c.optional_whole("original_max_position_embeddings")
    knobs: Knobs = {"scaling": rule} | {field: read[field] for field in SCALING_FIELDS[rule]}
    if rule == "default":
        return knobs
    limit = c.count("max_position_embeddings")
    if rule == "dynamic":
        knobs["original_max_position"] = limit
    elif rule != "linear":
        knobs["original_max_position"] = outer_original or inner_original or limit
    if knobs["factor"] is None:
        if rule != "longrope":
            raise ConfigError(f"{inner.where} has the scaling rule {name!r} but no factor.")
        knobs["factor"] = limit / knobs["original_max_position"]
    return knobs


def pattern_of_layers(layers: int, every: int) -> list[str]:
    """Sliding layers with a full one in every ``every``-th place; all full when 0."""
    return [
        "full_attention" if every == 0 or (layer + 1) % every == 0 else "sliding_attention" for layer in range(layers)
    ]


def windows(
    c: Fields, layers: int, *, used: bool = True, default: Sequence[str] | None = None, window: int | None = None
) -> Knobs:
    """A sliding window, on the layers that ``layer_types`` or the family's own rule name.

    Parameters
    ----------
    used
        Whether the config switches windows on.
    default
        Kinds of the layers when the config does not list them; None means that all have the window.
    window
        The family's window when the config does not name the field at all.
    """
    size = c.optional_whole("sliding_window", default=None if "sliding_window" in c.values else window)
    kinds = c.items("layer_types") or (None if default is None else list(default))
    unknown = sorted({str(kind) for kind in kinds or ()} - {"sliding_attention", "full_attention"})
    if unknown:
        raise ConfigError(f"{c.where} has layers of type {unknown[0]!r:.40}, which Ropewalk cannot show.")
    if not used or not size:
        return {}
    if kinds is None:
        return {"window": size}
    sliding = tuple(kind == "sliding_attention" for kind in kinds)
    return {"window": size, "window_layers": sliding} if any(sliding) else {}


def sparse_layers(c: Fields, layers: int) -> tuple[bool, ...] | None:
    """Which layers are mixtures by Qwen's two fields, None for all."""
    step = c.whole("decoder_sparse_step", default=1)
    dense = set(c.numbers("mlp_only_layers") or ())
    chosen = tuple(layer not in dense and step > 0 and (layer + 1) % step == 0 for layer in range(layers))
    return None if all(chosen) else chosen


def mixture(
    c: Fields,
    *,
    experts: tuple[str, ...] = ("num_experts",),
    default: int,
    per_token: int,
    per_token_names: tuple[str, ...] = ("num_experts_per_tok",),
    width: int,
    renormalise: bool = True,
    scoring: Scoring = "softmax",
    shared_width: int = 0,
    shared_gate: bool = False,
    router_bias: bool = False,
    layers: tuple[bool, ...] | None = None,
) -> MoeConfig:
    """A mixture of experts; ``default`` and ``per_token`` are the family's own when the config does not say."""
    count = c.count(*experts, default=default, most=LARGEST_EXPERTS)
    return MoeConfig(
        experts=count,
        per_token=c.whole(*per_token_names, default=per_token),
        width=width,
        renormalise=renormalise,
        scoring=scoring,
        shared_width=shared_width,
        shared_gate=shared_gate and shared_width > 0,
        aux_loss_weight=c.number("router_aux_loss_coef", default=0.0),
        router_bias=router_bias,
        layers=layers,
    )
