"""What a decoder costs, from its config alone: parameters, bytes and FLOPs, and how to write such numbers down.

Counting rules. A multiply-add is 2 FLOPs. *Product* FLOPs are those of matrix products (projections, scores, blend,
MLP, router, lm_head), which is what FLOP counters count; element-wise work is kept apart (:data:`PER_NUMBER`).
*Full* counts every cell of T × S; *causal* counts the cells that a query may see (its own and earlier keys, at most a
window's worth where the layer has one).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import ConfigError

BYTES_PER_NUMBER: Final = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int64": 8,
    "int32": 4,
    "bool": 1,
}
"""Bytes of one number of each dtype."""

PER_NUMBER: Final = {
    "scale": 1,  # one multiplication
    "bias": 1,  # one addition
    "add": 1,
    "mask": 1,
    "rms": 4,  # square, sum, times 1/rms, times the gain
    "layer": 7,  # sum, subtract, square, sum, times 1/σ, times γ, plus β
    "rotate": 3,  # a plane of two features takes four multiplications and two additions
    "softmax": 5,  # maximum, subtract, exponential, sum, divide
    "cap": 3,  # divide, tanh, multiply
    "activation": 4,  # a sigmoid (negate, exponential, add, divide) or its like; relu and identity cost less
    "gate": 1,  # act(gate) · up
}
"""FLOPs of element-wise work for one number; an exponential, a tanh or a division counts as one."""


@dataclass(frozen=True)
class Flops:
    """FLOPs over the full T × S rectangle, and over its causal (visible) part alone."""

    full: int = 0
    causal: int = 0

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.full + other.full, self.causal + other.causal)


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of one block, by part; a bias is counted with its matrix.

    Attributes
    ----------
    q, k, v, o
        The projections: (H·Dh, D), (Hkv·Dh, D), (Hkv·Dh, D), (D, H·Dh).
    qk_norm, sink
        Gains of the query and key norms; one logit per head.
    norms
        Every norm of width D in the block.
    gate, up, down
        The MLP's matrices; of all experts together where the layer is a mixture. ``gate`` is 0 for a plain MLP.
    router, shared
        The mixture's router, and the expert that every token visits with its own gate.
    active_mlp
        The part of the MLP that one token uses: k of E experts, the router and the shared expert.
    """

    q: int
    k: int
    v: int
    o: int
    qk_norm: int
    sink: int
    norms: int
    gate: int
    up: int
    down: int
    router: int
    shared: int
    active_mlp: int

    @property
    def attention(self) -> int:
        """Projections, QK-norm and sinks."""
        return self.q + self.k + self.v + self.o + self.qk_norm + self.sink

    @property
    def mlp(self) -> int:
        """The MLP, or all experts with router and shared expert."""
        return self.gate + self.up + self.down + self.router + self.shared

    @property
    def total(self) -> int:
        """The whole block."""
        return self.attention + self.mlp + self.norms


@dataclass(frozen=True)
class Parameters:
    """Parameters of a whole decoder, by part; a tied lm_head counts 0, because it *is* the embedding."""

    embedding: int
    positions: int
    layers: tuple[LayerParameters, ...]
    final_norm: int
    lm_head: int

    @property
    def total(self) -> int:
        """Every number that a checkpoint stores."""
        blocks = sum(layer.total for layer in self.layers)
        return self.embedding + self.positions + blocks + self.final_norm + self.lm_head

    @property
    def active(self) -> int:
        """The parameters that one token uses: less than :attr:`total` only for a mixture of experts."""
        return self.total - sum(layer.mlp - layer.active_mlp for layer in self.layers)


def bytes_per_number(dtype: str) -> int:
    """Bytes of one number.

    Raises
    ------
    ConfigError
        When the dtype is not one of :data:`BYTES_PER_NUMBER`.
    """
    try:
        return BYTES_PER_NUMBER[dtype]
    except KeyError:
        raise ConfigError(f"The dtype is {dtype!r}, but it must be one of {', '.join(BYTES_PER_NUMBER)}.") from None


def norm_parameters(config: ModelConfig, width: int) -> int:
    """Parameters of one norm: a gain γ and a bias β of ``width``, each where the config has it."""
    return width * (int(config.norm_gain) + int(config.norm_bias))


def query_norm_parameters(config: ModelConfig) -> int:
    """Gains (and β) of the query norm: Dh shared by all heads, or H·Dh."""
    return _qk_norm_width(config, config.heads) * (1 + int(config.qk_norm_bias))


def key_norm_parameters(config: ModelConfig) -> int:
    """Gains (and β) of the key norm: Dh shared by all heads, or Hkv·Dh."""
    return _qk_norm_width(config, config.kv_heads) * (1 + int(config.qk_norm_bias))


def _qk_norm_width(config: ModelConfig, heads: int) -> int:
    return {
        "none": 0,
        "head": config.head_width,
        "heads": heads * config.head_width,
        "full": heads * config.head_width,
    }[config.qk_norm]


def norms_per_layer(config: ModelConfig) -> int:
    """How many norms of width D a block has: 2 before or after its sub-layers, 4 for both, 1 less when shared.

    Parallel sub-layers can share the norm that they read through; nothing else can be shared.
    """
    count = 4 if config.norm_place == "both" else 2
    return count - 1 if shares_norm(config) else count


def shares_norm(config: ModelConfig) -> bool:
    """Whether attention and MLP read the stream through the same norm."""
    return config.parallel_residual and config.shared_norm and config.norm_place != "post"


def mlp_matrix_parameters(config: ModelConfig, width: int) -> tuple[int, int, int]:
    """Parameters of gate, up and down for an MLP of ``width`` F; gate is 0 for a plain one.

    The numbers that an activation learns are counted with up.
    """
    learned = 4 if config.activation == "xielu" else 0
    inward = config.width * width + (width if config.mlp_bias else 0)
    outward = width * config.width + (config.width if config.mlp_bias else 0)
    return (inward if config.mlp == "gated" else 0, inward + learned, outward)


def layer_parameters(config: ModelConfig, layer: int) -> LayerParameters:
    """Parameters of block ``layer``, by part."""
    d, q_width, kv_width = config.width, config.heads * config.head_width, config.kv_heads * config.head_width
    moe = config.moe if config.is_moe(layer) else None
    gate, up, down = mlp_matrix_parameters(config, config.mlp_width if moe is None else moe.width)
    router = shared = 0
    active = gate + up + down
    if moe is not None:
        router = moe.experts * (d + int(moe.router_bias))
        shared = d if moe.shared_gate else 0
        if moe.shared_width:
            shared += sum(mlp_matrix_parameters(config, moe.shared_width))
        active = moe.per_token * (gate + up + down) + router + shared
        gate, up, down = moe.experts * gate, moe.experts * up, moe.experts * down
    return LayerParameters(
        q=q_width * d + (q_width if config.query_bias else 0),
        k=kv_width * d + (kv_width if config.key_bias else 0),
        v=kv_width * d + (kv_width if config.value_bias else 0),
        o=d * q_width + (d if config.output_bias else 0),
        qk_norm=query_norm_parameters(config) + key_norm_parameters(config),
        sink=config.heads if config.sink else 0,
        norms=norms_per_layer(config) * norm_parameters(config, d),
        gate=gate,
        up=up,
        down=down,
        router=router,
        shared=shared,
        active_mlp=active,
    )


def parameters(config: ModelConfig) -> Parameters:
    """Parameters of the whole decoder, by part."""
    return Parameters(
        embedding=config.vocabulary * config.width,
        positions=config.max_position * config.width if config.position == "learned" else 0,
        layers=tuple(layer_parameters(config, layer) for layer in range(config.layers)),
        final_norm=norm_parameters(config, config.width) if config.final_norm else 0,
        lm_head=(0 if config.tied else config.vocabulary * config.width)
        + (config.vocabulary if config.logit_bias else 0),
    )


def weight_bytes(config: ModelConfig, dtype: str) -> int:
    """Bytes of all weights when each is stored as ``dtype``."""
    return parameters(config).total * bytes_per_number(dtype)


# The cache --------------------------------------------------------------------------------------------------------


def kv_bytes(config: ModelConfig, length: int, dtype: str, batch: int = 1, kv_heads: int | None = None) -> int:
    """Bytes of the KV cache: 2 · B · S · L · Hkv · Dh · bytes; Dh + Dv for 2 · Dh where values are not as wide as keys.

    Parameters
    ----------
    length
        S, the positions cached.
    kv_heads
        Another Hkv to compare with: H for one per query head (multi-head), 1 for multi-query; None for the config's.
    """
    heads = config.kv_heads if kv_heads is None else kv_heads
    return batch * length * config.layers * heads * config.kv_width * bytes_per_number(dtype)


def kv_bytes_at_bits(config: ModelConfig, length: int, bits: int, batch: int = 1) -> int:
    """Bytes of the KV cache at ``bits`` a number (16, 8, 4, …), without the scales a quantised format adds."""
    return -(-batch * length * config.layers * config.kv_heads * config.kv_width * bits // 8)


def kv_bytes_visible(config: ModelConfig, length: int, dtype: str, batch: int = 1) -> int:
    """Bytes of the cached rows that the newest query can still see: layers with a window W see at most W rows.

    The newest query sits at position S − 1 and sees min(S, W) rows, its own included.
    """
    rows = sum(_seen(length, config.window_of(layer)) for layer in range(config.layers))
    return batch * rows * config.kv_heads * config.kv_width * bytes_per_number(dtype)


def _seen(rows: int, window: int | None) -> int:
    return rows if window is None else min(rows, window)


# Attention matrices -----------------------------------------------------------------------------------------------


def attention_matrix_bytes(config: ModelConfig, tokens: int, dtype: str, batch: int = 1, past: int = 0) -> int:
    """Bytes of one layer's attention weights, were they kept: B · H · T · S · bytes."""
    return batch * config.heads * tokens * (past + tokens) * bytes_per_number(dtype)


def attention_matrices_bytes(config: ModelConfig, tokens: int, dtype: str, batch: int = 1, past: int = 0) -> int:
    """Bytes of the attention weights of all layers: L times :func:`attention_matrix_bytes`."""
    return config.layers * attention_matrix_bytes(config, tokens, dtype, batch, past)


def trace_bytes(config: ModelConfig, length: int, dtype: str, batch: int = 1, logit_rows: int | None = None) -> int:
    """Bytes that a trace of ``length`` rows keeps: Q', K', V and lse of every layer, and logits.

    Per layer and row: H·Dh + 2·Hkv·Dh numbers of ``dtype`` and H log-sum-exps in float32. Logits are float32, V a row,
    for ``logit_rows`` rows (None: every row).
    """
    number, single = bytes_per_number(dtype), bytes_per_number("float32")
    row = (config.heads * config.head_width + config.kv_heads * config.kv_width) * number + config.heads * single
    logits = (length if logit_rows is None else logit_rows) * config.vocabulary * single
    return batch * (config.layers * length * row + logits)


# FLOPs ------------------------------------------------------------------------------------------------------------


def visible_pairs(tokens: int, past: int = 0, window: int | None = None) -> int:
    """How many (query, key) cells of T × S are visible: Σ over t < T of min(P + t + 1, W)."""
    if window is None or past + tokens <= window:
        return tokens * past + tokens * (tokens + 1) // 2
    growing = max(0, min(tokens, window - past))  # rows that do not yet fill the window
    return growing * past + growing * (growing + 1) // 2 + (tokens - growing) * window


def score_flops(config: ModelConfig, layer: int, tokens: int, past: int = 0, batch: int = 1) -> Flops:
    """FLOPs of Q'·K'ᵀ in one layer: 2 · B · H · Dh for each cell. The blend P·V costs the same again."""
    cell = 2 * batch * config.heads * config.head_width
    return Flops(
        full=cell * tokens * (past + tokens),
        causal=cell * visible_pairs(tokens, past, config.window_of(layer)),
    )


def attention_flops(config: ModelConfig, tokens: int, past: int = 0, batch: int = 1) -> Flops:
    """FLOPs of scores and blend over all layers: 4 · B · L · H · T · S · Dh in full."""
    return _total(
        score_flops(config, layer, tokens, past, batch) for layer in range(config.layers) for _ in ("scores", "blend")
    )


def linear_flops(rows: int, inputs: int, outputs: int) -> int:
    """FLOPs of ``rows`` vectors through a matrix (outputs, inputs): 2 · rows · inputs · outputs."""
    return 2 * rows * inputs * outputs


def mlp_flops(config: ModelConfig, layer: int, rows: int) -> int:
    """Product FLOPs of one layer's MLP; a mixture counts its router, the k experts a token visits, the shared one."""
    matrices = 3 if config.mlp == "gated" else 2
    if not config.is_moe(layer) or config.moe is None:
        return matrices * linear_flops(rows, config.width, config.mlp_width)
    moe = config.moe
    return (
        linear_flops(rows, config.width, moe.experts)
        + matrices * linear_flops(rows * moe.per_token, config.width, moe.width)
        + matrices * linear_flops(rows, config.width, moe.shared_width)
        + (linear_flops(rows, config.width, 1) if moe.shared_width and moe.shared_gate else 0)
    )


def layer_flops(config: ModelConfig, layer: int, tokens: int, past: int = 0, batch: int = 1) -> Flops:
    """Product FLOPs of one block: projections, scores, blend, W_O and MLP."""
    rows, q_width, kv_width = batch * tokens, config.heads * config.head_width, config.kv_heads * config.head_width
    projections = 2 * linear_flops(rows, config.width, q_width) + 2 * linear_flops(rows, config.width, kv_width)
    dense = projections + mlp_flops(config, layer, rows)
    scores = score_flops(config, layer, tokens, past, batch)
    return Flops(dense, dense) + scores + scores


def forward_flops(
    config: ModelConfig, tokens: int, past: int = 0, batch: int = 1, logit_rows: int | None = None
) -> Flops:
    """Product FLOPs of a whole forward pass of T tokens on a past of P, lm_head included.

    ``logit_rows`` is how many rows of each sequence go through lm_head; None means all T.
    """
    head = linear_flops(batch * (tokens if logit_rows is None else logit_rows), config.width, config.vocabulary)
    blocks = _total(layer_flops(config, layer, tokens, past, batch) for layer in range(config.layers))
    return blocks + Flops(head, head)


def _total(parts: Iterable[Flops]) -> Flops:
    return sum(parts, Flops())


# Numbers for people -----------------------------------------------------------------------------------------------


def format_bytes(count: int) -> str:
    """Write a number of bytes in binary units, four figures at most: ``12 B``, ``320 KiB``, ``4.375 GiB``."""
    if abs(count) < 1024:
        return f"{count:,} B"
    return _scaled(float(count), 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"), 3)


def format_count(count: int) -> str:
    """Write a count: exactly below 10,000 (``9,216``), then ``14.8 K``, ``176.2 M``, ``1.24 B`` (10⁹), ``1.2 T``."""
    if abs(count) < 10_000:
        return f"{count:,}"
    return _scaled(float(count), 1000.0, ("", "K", "M", "B", "T", "quadrillion"), 1)


def format_flops(count: int) -> str:
    """Write FLOPs in decimal units: ``480 FLOP``, ``8.8 TFLOP``."""
    return _scaled(float(count), 1000.0, ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"), 1)


def format_shape(shape: Iterable[int]) -> str:
    """Write a shape the way people say it: ``1×8×12×12``."""
    return "×".join(str(side) for side in shape)


def _scaled(value: float, step: float, units: tuple[str, ...], decimals: int) -> str:
    """Divide until below ``step`` *as it will be printed*, so that 1,023.9996 KiB becomes 1 MiB, never 1024 KiB."""
    rank, digits = 0, _digits(value, decimals)
    while rank < len(units) - 1 and round(abs(value), digits) >= step:
        value /= step
        rank, digits = rank + 1, _digits(value, decimals)
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {units[rank]}".rstrip()


def _digits(value: float, decimals: int) -> int:
    """Decimals to print: four significant figures are enough."""
    return max(0, min(decimals, 4 - len(str(int(abs(value))))))
