"""Bytes, FLOPs and parameters of a config, from the engine's own counts."""

from __future__ import annotations

from ropewalk.model.decoder import costs
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.values import Quantity


def kv_bytes(
    config: ModelConfig, tokens: int = 1, batch: int = 1, dtype: str = "bfloat16", kv_heads: int = 0
) -> Quantity:
    """Bytes of the KV cache; another number of kv heads if given."""
    return Quantity(costs.kv_bytes(config, tokens, dtype, batch, kv_heads or None), "bytes")


def kv_bytes_at_bits(config: ModelConfig, tokens: int, bits: int) -> Quantity:
    """Bytes of the KV cache at so many bits a number."""
    return Quantity(costs.kv_bytes_at_bits(config, tokens, bits), "bytes")


def kv_bytes_seen(config: ModelConfig, tokens: int, dtype: str = "bfloat16") -> Quantity:
    """Bytes of the cached rows that the newest query can still see."""
    return Quantity(costs.kv_bytes_visible(config, tokens, dtype), "bytes")


def tokens_that_fit(config: ModelConfig, memory: float, dtype: str = "bfloat16") -> int:
    """Tokens whose cache fits into so many GiB."""
    return int(memory * 2**30 // costs.kv_bytes(config, 1, dtype))


def attention_bytes(config: ModelConfig, tokens: int, layers: int = 0, dtype: str = "bfloat16") -> Quantity:
    """Bytes of the attention weights, were they kept: of all layers, or of so many."""
    each = costs.attention_matrix_bytes(config, tokens, dtype)
    return Quantity(each * (layers or config.layers), "bytes")


def attention_flops(config: ModelConfig, tokens: int, past: int = 0, part: str = "full") -> Quantity:
    """FLOPs of scores and blend over all layers, full or causal."""
    return Quantity(_part(costs.attention_flops(config, tokens, past), part), "flops")


def forward_flops(config: ModelConfig, tokens: int, past: int = 0, part: str = "causal") -> Quantity:
    """FLOPs of a whole forward pass, lm_head included."""
    return Quantity(_part(costs.forward_flops(config, tokens, past), part), "flops")


def matrix_flops(config: ModelConfig, tokens: int) -> Quantity:
    """FLOPs of everything but scores and blend: what grows in proportion to T."""
    everything = costs.forward_flops(config, tokens).full
    return Quantity(everything - costs.attention_flops(config, tokens).full, "flops")


def crossover(config: ModelConfig) -> int:
    """The T from which scores and blend, counted in full, cost more than all matrices together."""
    per_token = costs.forward_flops(config, 1).full - costs.attention_flops(config, 1).full
    per_pair = costs.attention_flops(config, 1).full
    return -(-per_token // per_pair)


def _part(flops: costs.Flops, part: str) -> int:
    if part not in ("full", "causal"):
        raise LessonError(f"FLOPs are full or causal, not {part!r}.")
    return flops.full if part == "full" else flops.causal


def visible_cells(tokens: int, past: int = 0, window: int = 0) -> int:
    """Cells of T × S that a causal mask leaves visible."""
    return costs.visible_pairs(tokens, past, window or None)


def parameters(config: ModelConfig, part: str = "total") -> Quantity:
    """Parameters: total, active, embedding, lm_head, block, attention, mlp, norms, or one matrix (q, k, v, o, …)."""
    whole_model = costs.parameters(config)
    block = whole_model.layers[0]
    parts: dict[str, int] = {
        "total": whole_model.total,
        "active": whole_model.active,
        "embedding": whole_model.embedding,
        "positions": whole_model.positions,
        "lm_head": whole_model.lm_head,
        "block": block.total,
        "attention": block.attention,
        "mlp": block.mlp,
        "active_mlp": block.active_mlp,
        "norms": block.norms,
        "q": block.q,
        "k": block.k,
        "v": block.v,
        "o": block.o,
        "gate": block.gate,
        "up": block.up,
        "down": block.down,
        "router": block.router,
    }
    if part not in parts:
        raise LessonError(f"There is no part {part!r}; there are {', '.join(parts)}.")
    return Quantity(parts[part], "count")


def weight_bytes(config: ModelConfig, dtype: str = "bfloat16") -> Quantity:
    """Bytes of all weights."""
    return Quantity(costs.weight_bytes(config, dtype), "bytes")


def trace_bytes(config: ModelConfig, tokens: int, dtype: str = "bfloat16") -> Quantity:
    """Bytes that Ropewalk keeps of a run instead of its attention weights; the last row's logits only."""
    return Quantity(costs.trace_bytes(config, tokens, dtype, logit_rows=1), "bytes")


def state_bytes(config: ModelConfig, dtype: str = "bfloat16") -> Quantity:
    """Bytes of a recurrent state in place of the KV cache: one matrix of Dh × Dh for each kv head of each layer."""
    numbers = config.layers * config.kv_heads * config.head_width**2
    return Quantity(numbers * costs.bytes_per_number(dtype), "bytes")


def state_flops(config: ModelConfig, tokens: int) -> Quantity:
    """FLOPs of writing to and reading from such a state, over all layers and heads."""
    return Quantity(tokens * config.layers * config.heads * 4 * config.head_width**2, "flops")


def even_context(config: ModelConfig) -> int:
    """The tokens whose keys and values take as much memory as such a state: half the width of a head."""
    return config.head_width // 2
