"""How much memory a run will take, from the config alone, and what to do when that is more than there is.

A run needs what its trace keeps (Q', K', V and lse of every layer, and logits) and, for a moment, what one layer of one
piece of the prompt works with. Weights are not counted: they are there already. No torch here, so that the window can
ask as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.costs import bytes_per_number, format_bytes, layer_parameters, weight_bytes
from ropewalk.model.errors import MemoryBudgetError, PromptError

Logits = Literal["all", "last", "none"]

ALL_LOGITS_UP_TO = 1024
"""Prompts up to this many tokens keep the logits of every row unless asked otherwise."""
ROOM = 64
"""After a prefill, one part in ROOM of its rows is left free for decode steps."""
CHUNK_ROWS = 1024
"""Rows of a long prompt that go through a layer together: what they need at once stays small."""
PIECE_ROWS = 512
"""Rows that a projection or an MLP takes at once at most: more are hardly quicker."""
LEAST_ROWS = 64
"""With fewer rows more time would go into reading weights than into using them."""
SLICE_FLOPS = 2e9
"""About 20 ms of one layer on a small machine."""
SLICE_SCORES = 1 << 22
"""Scores of attention that take as long; a run learns how many fit where it runs."""
UNEVEN = 1.3
"""Of the rows that would be its share, what the busiest expert gets."""
WORTH_SAYING = 0.25
"""The share of the free memory from which a person is told what a run will take."""
SINGLE = 4
"""Bytes of a float32, in which softmax, lse and rotations are computed whatever the dtype."""


@dataclass(frozen=True)
class Budget:
    """Bytes that a run will take beyond the weights.

    Attributes
    ----------
    kept
        What stays for as long as the run does: Q', K', V, lse and logits, with the room for decode steps.
    working
        What is needed besides while the prompt runs.
    """

    tokens: int
    dtype: str
    kept: int
    working: int

    @property
    def total(self) -> int:
        """The peak."""
        return self.kept + self.working

    def is_notable(self, free: int) -> bool:
        """Whether the run takes a good part of ``free`` bytes."""
        return self.total > WORTH_SAYING * free

    def sentence(self, free: int) -> str:
        """The prediction in words."""
        return f"about {format_bytes(_rounded(self.total))} of {format_bytes(_rounded(free))} free"


def rows_in_slice(config: ModelConfig) -> int:
    """Rows that a layer can take in one slice of time, as far as can be said beforehand."""
    return max(LEAST_ROWS, int(SLICE_FLOPS / (2 * layer_parameters(config, 0).total)))


def chunk_rows(config: ModelConfig, tokens: int, *, alone: bool = False) -> int:
    """Rows of a prompt that run together in slices; 0 where each layer takes all of a short one in one go.

    ``alone`` says that nobody waits for the end of a slice, so that a prompt of no more than one chunk needs none.
    """
    return CHUNK_ROWS if tokens > (CHUNK_ROWS if alone else rows_in_slice(config)) else 0


def kept_logits(asked: Logits | None, tokens: int) -> Logits:
    """Whose logits are kept: as asked, or what suits the length when nobody says.

    Raises
    ------
    PromptError
        For a word that is none of them.
    """
    if asked not in (None, *get_args(Logits)):
        raise PromptError(f"The logits of {asked!r:.40} were to be kept; choose all, last or none.")
    return asked or ("all" if tokens <= ALL_LOGITS_UP_TO else "last")


def run_budget(
    config: ModelConfig,
    tokens: int,
    dtype: str,
    *,
    batch: int = 1,
    logits: Logits | None = None,
    rows: int = 0,
    branch: Branch = "fused",
) -> Budget:
    """Predict what a run of ``tokens`` takes.

    Parameters
    ----------
    dtype
        Of the weights, and so of what a trace keeps.
    rows
        Rows of the prompt that run together in slices of time; 0 for all of them in one go.
    """
    number = bytes_per_number(dtype)
    at_once = min(rows or tokens, tokens)
    a_row = (config.heads * config.head_width + config.kv_heads * config.kv_width) * number + config.heads * SINGLE
    attended = batch * config.layers * (tokens + tokens // ROOM) * a_row
    read = {"all": tokens, "last": 1, "none": 0}[kept_logits(logits, tokens)]
    predicted = batch * read * config.vocabulary * number
    numbers = _chunk_numbers(config, at_once, tokens) if rows else at_once * _row_numbers(config, tokens, branch)
    working = batch * numbers * number + _rotation_bytes(config, at_once)
    if at_once == tokens:  # the logits come when the last layer's work is done
        working = max(working - predicted, 0)
    return Budget(tokens, dtype, attended + predicted, working)


def check_budget(budget: Budget, config: ModelConfig, free: int, *, batch: int = 1, rows: int = 0) -> None:
    """Refuse a run that cannot fit, and say what would.

    Parameters
    ----------
    free
        Bytes that are free where the model is.

    Raises
    ------
    MemoryBudgetError
        When the run needs more than there is.
    """
    if budget.total <= free:
        return
    advice = []
    shorter = longest_that_fits(config, budget.dtype, free, batch=batch, rows=rows, below=budget.tokens)
    if shorter:
        advice.append(f"shorten it to {shorter:,} tokens")
    layers = _layers_that_fit(config, budget, free, batch, rows)
    if layers:
        advice.append(f"open the model's first {layers} of {config.layers} layers (--layers {layers})")
    if budget.dtype == "float32":
        half = run_budget(config, budget.tokens, "bfloat16", batch=batch, rows=rows)
        given_back = weight_bytes(config, "float32") - weight_bytes(config, "bfloat16")
        if half.total <= free + given_back:
            advice.append("open the model in bfloat16")
    say = f"; {' or '.join(advice)}" if advice else ""
    raise MemoryBudgetError(
        f"A run of {budget.tokens:,} tokens would take about {format_bytes(_rounded(budget.total))} of memory, but "
        f"{format_bytes(_rounded(free))} are free{say}."
    )


def longest_that_fits(
    config: ModelConfig, dtype: str, free: int, *, batch: int = 1, rows: int = 0, below: int = 0
) -> int:
    """The longest run that ``free`` bytes hold, 0 when not even one token does."""
    end = below or config.max_position + 1
    long = _longest(config, dtype, free, end, "last", batch, rows)
    if long > ALL_LOGITS_UP_TO:
        return long
    return _longest(config, dtype, free, min(end, ALL_LOGITS_UP_TO + 1), "all", batch, rows)


def _layers_that_fit(config: ModelConfig, budget: Budget, free: int, batch: int, rows: int) -> int:
    """With how many of its first layers the run would fit, the weights of the others given back; 0 for none."""
    low, high = 0, config.layers
    whole = weight_bytes(config, budget.dtype)
    while low + 1 < high:
        middle = (low + high) // 2
        fewer = config.first(middle)
        needed = run_budget(fewer, budget.tokens, budget.dtype, batch=batch, rows=rows).total
        fits = needed <= free + whole - weight_bytes(fewer, budget.dtype)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _longest(config: ModelConfig, dtype: str, free: int, end: int, logits: Logits, batch: int, rows: int) -> int:
    """The longest run below ``end`` that fits, by halving."""
    low, high = 0, end
    while low + 1 < high:
        middle = (low + high) // 2
        fits = run_budget(config, middle, dtype, batch=batch, logits=logits, rows=rows).total <= free
        low, high = (middle, high) if fits else (low, middle)
    return low


def _rounded(count: int) -> int:
    """Two figures are all that a prediction is good for."""
    unit: int = 10 ** max(0, len(str(count)) - 3)
    return count // unit * unit


def _row_numbers(config: ModelConfig, tokens: int, branch: Branch) -> int:
    """Numbers that one row needs at the worst moment of a layer that runs in one go: in attention, or in the MLP."""
    c = config
    query, key = c.heads * c.head_width, c.kv_heads * c.head_width
    attention = 2 * c.width + 2 * key + 3 * query  # stream and normed; k and v; q, its halves, the blend
    if branch == "explicit":
        attention += 2 * c.heads * tokens  # masked scores and weights; the matrices are float32 in any dtype
    return max(attention, *(_mlp_numbers(c, layer) for layer in range(c.layers)))


def _chunk_numbers(config: ModelConfig, rows: int, tokens: int) -> int:
    """Numbers that a chunk needs at the worst moment of a layer that runs in slices (``model.runs.slices``)."""
    c = config
    query, key = c.heads * c.head_width, c.kv_heads * c.head_width
    piece = min(rows, rows_in_slice(c), PIECE_ROWS)
    heads = min(c.heads, max(1, SLICE_SCORES // (rows * min(tokens, 2 * rows))))
    reading = rows * (c.width + 2 * (query + 2 * key))  # the stream; q, k, v in pieces and whole
    merging = 5 * heads * c.head_width if rows < tokens else 0  # of some heads: two parts, their shares, the sum
    attending = rows * (c.width + 2 * query + merging)
    writing = rows * (2 * c.width + query + c.heads)  # the stream before and after, the blend, lse
    return max(reading, attending, writing + piece * max(_mlp_numbers(c, layer) for layer in range(c.layers)))


def _mlp_numbers(config: ModelConfig, layer: int) -> int:
    """Of one row: the stream, normed, added, middle, read; gate, up, activated, product, of which some in place."""
    c, matrices = config, 4 if config.mlp == "gated" and not config.has_plain_gate else 2
    if c.moe is None or not c.is_moe(layer):
        return 5 * c.width + matrices * c.mlp_width + (0 if c.mlp == "gated" else c.width)
    share = min(UNEVEN * c.moe.per_token / c.moe.experts, 1)  # one expert at a time, on the rows that chose it
    return 6 * c.width + round(share * (matrices * c.moe.width + 3 * c.width)) + matrices * c.moe.shared_width


def _rotation_bytes(config: ModelConfig, at_once: int) -> int:
    """cos and sin of the rows that run, for every rotary rule."""
    rules = {config.rope_of(layer) for layer in range(config.layers)} - {None}
    return len(rules) * at_once * config.head_width * SINGLE
