"""What a decoder is, in plain frozen types that check themselves when they are made.

Letters used everywhere: B batch, T tokens of this call, P past, S = P + T keys, D model width, H query heads,
Hkv key/value heads, Dh head width, F MLP width, V vocabulary, L layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ropewalk.model.errors import ConfigError, PositionError

Pairing = Literal["half", "adjacent"]
Scaling = Literal["default", "linear", "dynamic", "yarn", "llama3", "longrope"]
Position = Literal["none", "sinusoidal", "learned", "rotary", "unknown"]
NormKind = Literal["rms", "layer"]
NormPlace = Literal["pre", "post", "both"]
Activation = Literal["silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "relu2", "xielu", "identity"]
QkNorm = Literal["none", "head", "heads", "full"]
MlpKind = Literal["gated", "plain"]
Scoring = Literal["softmax", "softmax_chosen", "sigmoid"]
Branch = Literal["fused", "explicit"]
"""How attention is computed: by the fused kernel, or step by step with every intermediate matrix."""


def _one_of(name: str, value: str, allowed: Any) -> None:
    choices = get_args(allowed)
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}, but it must be one of {', '.join(choices)}.")


def _positive(name: str, value: float) -> None:
    if not value > 0 or not math.isfinite(value):
        raise ConfigError(f"{name} is {value}, but it must be a finite number above 0.")


def _count(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is {value}, but it must be a whole number of at least 1.")


FIRST_LAYERS = "first_layers"
"""The option of an opening that says how many layers to open, from the first on."""


@dataclass(frozen=True)
class RopeConfig:
    """One rotary rule: how fast each plane turns, and which two features make a plane.

    Attributes
    ----------
    width
        d_rot, the number of features of a head that turn (even); the rest pass through. None means all Dh.
    base
        θ_i = base^(−2i/d_rot), radians per position (Su et al. 2021, arXiv:2104.09864).
    pairing
        ``half`` pairs feature i with i + d_rot/2, ``adjacent`` pairs 2i with 2i + 1.
    scaling
        The stretching rule; the fields after it are its parameters and are ignored by the other rules.
    frequencies
        θ_i given outright (d_rot/2 numbers, radians per position); base is then unused and scaling must be ``default``.
    """

    width: int | None = None
    base: float = 10_000.0
    pairing: Pairing = "half"
    scaling: Scaling = "default"
    factor: float = 1.0
    original_max_position: int | None = None
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factor: tuple[float, ...] | None = None
    long_factor: tuple[float, ...] | None = None
    frequencies: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _one_of("The RoPE pairing", self.pairing, Pairing)
        _one_of("The RoPE scaling", self.scaling, Scaling)
        _positive("The RoPE base", self.base)
        _positive("The RoPE scaling factor", self.factor)
        if self.attention_factor is not None:
            _positive("The RoPE attention factor", self.attention_factor)
        if self.original_max_position is not None:
            _count("RoPE's original_max_position", self.original_max_position)
        if self.width is not None and (self.width < 2 or self.width % 2):
            raise ConfigError(
                f"The rotary width is {self.width}, but features turn in pairs, so it must be even and at least 2."
            )
        if self.frequencies is not None and self.scaling != "default":
            raise ConfigError(f"Explicit RoPE frequencies cannot be combined with the scaling rule {self.scaling!r}.")
        if self.scaling == "longrope" and (self.short_factor is None or self.long_factor is None):
            raise ConfigError("The longrope rule needs both short_factor and long_factor lists.")
        if self.scaling in ("dynamic", "llama3", "yarn", "longrope") and self.original_max_position is None:
            raise ConfigError(f"The {self.scaling} rule needs original_max_position, the length before stretching.")
        if self.scaling == "llama3" and not self.low_freq_factor < self.high_freq_factor:
            raise ConfigError(
                f"The llama3 rule has low_freq_factor {self.low_freq_factor} and high_freq_factor "
                f"{self.high_freq_factor}, but the first must be the smaller."
            )

    @property
    def depends_on_length(self) -> bool:
        """Whether the frequencies change with the length of the sequence, so that cached keys keep older ones."""
        return self.scaling in ("dynamic", "longrope")


@dataclass(frozen=True)
class MoeConfig:
    """A mixture-of-experts MLP.

    Attributes
    ----------
    experts, per_token
        How many experts there are and how many each token is sent to (top-k of the router).
    width
        F of one expert.
    router_bias
        Whether the router adds a bias to each expert's logit.
    renormalise
        Whether the chosen experts' probabilities are scaled to sum to 1.
    scoring
        Softmax over all experts, softmax over the chosen ones only, or a sigmoid of each logit.
    shared_width
        F of an expert that every token visits, 0 for none; ``shared_gate`` scales it by a sigmoid of its own row.
    aux_loss_weight
        Weight of the load-balancing loss (Fedus et al. 2021, arXiv:2101.03961).
    layers
        Which layers are mixtures; None means all.
    """

    experts: int
    per_token: int
    width: int
    renormalise: bool = True
    scoring: Scoring = "softmax"
    shared_width: int = 0
    shared_gate: bool = False
    aux_loss_weight: float = 0.0
    router_bias: bool = False
    layers: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        _count("The number of experts", self.experts)
        _count("The expert width", self.width)
        _one_of("The router's scoring", self.scoring, Scoring)
        if not 1 <= self.per_token <= self.experts:
            raise ConfigError(
                f"Each token is sent to {self.per_token} experts, but there are {self.experts}; "
                "it must be between 1 and that number."
            )


@dataclass(frozen=True)
class ModelConfig:
    """A whole decoder.

    Attributes
    ----------
    vocabulary, width, layers, heads, kv_heads, head_width, mlp_width, max_position
        V, D, L, H, Hkv, Dh, F and the number of positions the model may be asked for.
    value_width
        Of a value head, where a model that is not ours has it wider or narrower than its keys (latent attention).
    position
        Where position enters: nowhere, added to the embedding (sinusoidal, learned), or by rotating q and k;
        ``unknown`` in a model that is not ours.
    rope, local_rope
        The rotary rule, and another one for layers with a sliding window where the family has two (Gemma 3).
    rope_layers
        Which layers rotate; None means all (SmolLM3 leaves some out).
    window, window_layers
        A query sees exactly ``window`` keys, itself included, in the layers named (None means all).
    norm, norm_place, norm_eps, norm_offset, norm_bias, norm_gain
        RMS or Layer; before the sub-layer, after it (on its output, before the addition), or both; the ε inside the
        square root; a number added to the stored gain (Gemma's 1 + w); whether there is a β, and a γ at all.
    parallel_residual, shared_norm
        Attention and MLP both read the same stream and are added together; with one norm for both or one each.
    qk_norm
        ``head``: one gain of Dh for every head; ``heads``: a gain for each head apart; ``full``: over the whole
        projected vector. ``qk_norm_kind`` is its kind, ``qk_norm_bias`` adds a β; ``qk_norm_after_rope`` puts it after
        the rotation.
    qkv_clip
        q, k and v are clamped to ±this after projection, q and k after their norm where there is one (OLMo, OLMoE).
    score_scale, score_cap, sink
        What q·k is multiplied by (None: 1/√Dh), the soft cap c·tanh(s/c), and a learned logit per head that takes
        part in the softmax without a key.
    mlp, activation
        ``gated`` is down(act(gate(x)) · up(x)) with three matrices, ``plain`` is down(act(up(x))) with two.
    mlp_limit, up_offset
        In the gated form, gate(x) is cut off above the limit and up(x) clamped to ±limit, and the offset is added to
        up(x) after that (gpt-oss: 7 and 1).
    embedding_scale, residual_scale, logit_scale, logit_cap
        Factors on the embedding, on what each sub-layer adds, on the logits, and the logits' soft cap.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    max_position: int = 2048
    position: Position = "rotary"
    rope: RopeConfig | None = None
    local_rope: RopeConfig | None = None
    rope_layers: tuple[bool, ...] | None = None
    window: int | None = None
    window_layers: tuple[bool, ...] | None = None
    norm: NormKind = "rms"
    norm_place: NormPlace = "pre"
    norm_eps: float = 1e-6
    norm_offset: float = 0.0
    norm_bias: bool = False
    norm_gain: bool = True
    final_norm: bool = True
    parallel_residual: bool = False
    shared_norm: bool = False
    qk_norm: QkNorm = "none"
    qk_norm_kind: NormKind = "rms"
    qk_norm_bias: bool = False
    qk_norm_after_rope: bool = False
    query_bias: bool = False
    key_bias: bool = False
    value_bias: bool = False
    output_bias: bool = False
    qkv_clip: float | None = None
    score_scale: float | None = None
    score_cap: float | None = None
    sink: bool = False
    mlp: MlpKind = "gated"
    activation: Activation = "silu"
    mlp_bias: bool = False
    mlp_limit: float | None = None
    up_offset: float = 0.0
    moe: MoeConfig | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    logit_cap: float | None = None
    logit_bias: bool = False
    tied: bool = False
    value_width: int | None = None

    def __post_init__(self) -> None:
        if self.position == "rotary" and self.rope is None:
            object.__setattr__(self, "rope", RopeConfig())
        self._check_counts()
        self._check_choices()
        self._check_rotary()
        self._check_layer_lists()

    def _check_counts(self) -> None:
        for name in ("vocabulary", "width", "layers", "heads", "kv_heads", "head_width", "mlp_width", "max_position"):
            _count(f"The config's {name}", getattr(self, name))
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"There are {self.heads} query heads and {self.kv_heads} kv heads, but the query heads must divide "
                "evenly among the kv heads (H % Hkv = 0)."
            )
        if self.window is not None:
            _count("The sliding window", self.window)
        if not self.norm_eps >= 0:
            raise ConfigError(f"The ε of the norm is {self.norm_eps}, but it must be at least 0.")
        for name in ("score_cap", "logit_cap", "qkv_clip", "mlp_limit"):
            if getattr(self, name) is not None:
                _positive(f"The {name.replace('_', ' ')}", getattr(self, name))

    def _check_choices(self) -> None:
        _one_of("The position kind", self.position, Position)
        _one_of("The norm", self.norm, NormKind)
        _one_of("The place of the norm", self.norm_place, NormPlace)
        _one_of("The activation", self.activation, Activation)
        _one_of("The QK-norm", self.qk_norm, QkNorm)
        _one_of("The kind of the QK-norm", self.qk_norm_kind, NormKind)
        _one_of("The MLP", self.mlp, MlpKind)

    def _check_rotary(self) -> None:
        if self.position != "rotary":
            return
        for rope in (self.rope, self.local_rope):
            if rope is None:
                continue
            width = self.head_width if rope.width is None else rope.width
            if width % 2:
                raise ConfigError(f"The rotary width is {width}, but features turn in pairs, so it must be even.")
            if width > self.head_width:
                raise ConfigError(
                    f"The rotary width is {width}, but a head has only {self.head_width} features to turn."
                )
            if rope.scaling == "dynamic" and width < 4:
                raise ConfigError(f"The rotary width is {width}, but the dynamic rule needs at least 4 (two planes).")
            for name in ("frequencies", "short_factor", "long_factor"):
                values = getattr(rope, name)
                if values is not None and len(values) != width // 2:
                    raise ConfigError(
                        f"RoPE's {name} has {len(values)} numbers, but a rotary width of {width} makes {width // 2} "
                        "planes."
                    )

    def _check_layer_lists(self) -> None:
        lists = {"rope_layers": self.rope_layers, "window_layers": self.window_layers}
        if self.moe is not None:
            lists["moe.layers"] = self.moe.layers
        for name, values in lists.items():
            if values is not None and len(values) != self.layers:
                raise ConfigError(f"{name} names {len(values)} layers, but the model has {self.layers}.")

    @property
    def group(self) -> int:
        """Query heads that share one kv head, H / Hkv."""
        return self.heads // self.kv_heads

    @property
    def width_of_value(self) -> int:
        """Numbers of a value head, Dh unless the model has them wider or narrower."""
        return self.head_width if self.value_width is None else self.value_width

    @property
    def kv_width(self) -> int:
        """Numbers of a key and a value of one kv head, 2·Dh where both are as wide."""
        return self.head_width + self.width_of_value

    @property
    def scale(self) -> float:
        """What q·k is multiplied by before the soft cap and the mask."""
        return 1.0 / math.sqrt(self.head_width) if self.score_scale is None else self.score_scale

    @property
    def has_plain_gate(self) -> bool:
        """Whether an MLP is down(act(gate(x)) · up(x)) and nothing besides."""
        return self.mlp == "gated" and self.activation != "xielu" and self.mlp_limit is None and not self.up_offset

    def kv_head_of(self, head: int) -> int:
        """The kv head that query head ``head`` reads: h // (H / Hkv)."""
        return head // self.group

    def window_of(self, layer: int) -> int | None:
        """The sliding window of a layer, None where every earlier key is visible."""
        if self.window is None or (self.window_layers is not None and not self.window_layers[layer]):
            return None
        return self.window

    def rope_of(self, layer: int) -> RopeConfig | None:
        """The rotary rule of a layer, None where it does not rotate."""
        if self.position != "rotary" or (self.rope_layers is not None and not self.rope_layers[layer]):
            return None
        if self.local_rope is not None and self.window_of(layer) is not None:
            return self.local_rope
        return self.rope

    def is_moe(self, layer: int) -> bool:
        """Whether a layer's MLP is a mixture of experts."""
        return self.moe is not None and (self.moe.layers is None or self.moe.layers[layer])

    def rotary_width(self, layer: int) -> int:
        """d_rot of a layer; 0 where it does not rotate."""
        rope = self.rope_of(layer)
        if rope is None:
            return 0
        return self.head_width if rope.width is None else rope.width

    def check_position(self, last: int) -> None:
        """Refuse a position past the limit.

        Raises
        ------
        PositionError
            When ``last`` (counted from 0) is not below ``max_position``.
        """
        if last >= self.max_position:
            raise PositionError(
                f"Position {last} was asked for, but this model's positions end at {self.max_position - 1} "
                f"(a limit of {self.max_position} tokens); shorten the prompt."
            )

    def changed(self, **changes: Any) -> ModelConfig:
        """Return a copy with some fields replaced, checked again."""
        return replace(self, **changes)

    def first(self, layers: int) -> ModelConfig:
        """The config of the first ``layers`` layers, whose stream the same final norm and head read.

        Raises
        ------
        ConfigError
            When the model has fewer.
        """
        if not 1 <= layers <= self.layers:
            raise ConfigError(f"The first {layers} layers were asked for, but the model has {self.layers}.")
        moe = self.moe
        if moe is not None and moe.layers is not None:
            moe = replace(moe, layers=moe.layers[:layers])
        return self.changed(
            layers=layers,
            moe=moe,
            rope_layers=None if self.rope_layers is None else self.rope_layers[:layers],
            window_layers=None if self.window_layers is None else self.window_layers[:layers],
        )
