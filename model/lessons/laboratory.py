"""What a lesson may have measured: one method for each thing, each of which is a function that lessons name.

This is a contract without torch, so that a lesson file can be checked where torch is absent; ``bench`` keeps it, on the
compute thread. ``model`` is a model the lesson declares, ``bundled``, or ``open``. ``prompt`` is text for that model;
left out, it is the model's own prompt in the lesson. Rows are counted from 0, −1 is the last.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from model.config import ModelConfig
from model.lessons.values import Head, ModelName

Vector: TypeAlias = tuple[float, ...]
Matrix: TypeAlias = tuple[Vector, ...]


class Laboratory(Protocol):
    """Everything that has to be run or measured."""

    def config_of(self, model: ModelName) -> ModelConfig:
        """The config of a model that runs."""

    # A run ------------------------------------------------------------------------------------------------------------

    def tokens(self, model: ModelName, prompt: str = "") -> int:
        """How many tokens the prompt has."""

    def token(self, model: ModelName, row: int, prompt: str = "") -> str:
        """The token of a row, as it is shown."""

    def point(self, model: ModelName, name: str, row: int, layer: int = 0, prompt: str = "") -> Vector | Matrix:
        """What passes a hook point (q, k, v, rot_q, rot_k, z, resid_pre, mlp_out, …) in a row; a line for each head."""

    def points(self, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
        """What passes a hook point in every row, its heads joined."""

    def norm_output(self, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
        """What a block's norm (attn_norm, mlp_norm) makes of every row of the stream."""

    def scores(self, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
        """Scaled scores before the mask."""

    def weights(self, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
        """Weights after softmax."""

    def score(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One scaled score."""

    def weight(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One weight."""

    def product(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One q·k, before the scale."""

    def entropy(self, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> float:
        """The entropy of a row of weights, in nats."""

    def strongest_key(self, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> int:
        """The key that a row weighs most."""

    def plane_shares(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> Vector:
        """What each rotation plane adds to a scaled score."""

    def stream_sizes(self, model: ModelName, row: int = -1, prompt: str = "") -> Vector:
        """The root mean square of the stream after the embedding and after each block."""

    def likely(self, model: ModelName, row: int = -1, count: int = 1, prompt: str = "") -> tuple[str, ...]:
        """The most probable next tokens after a row."""

    def probability(self, model: ModelName, row: int = -1, rank: int = 0, prompt: str = "") -> float:
        """The probability of the next token of that rank after a row."""

    def next_probability(self, model: ModelName, row: int, prompt: str = "") -> float:
        """The probability that a row gives to the token that really follows it."""

    def value_gap(self, model: ModelName, prompt: str = "") -> float:
        """The largest difference between V as projected and V as the cache keeps it."""

    def point_gap(self, model: ModelName, name: str, row: int, other: str, layer: int = 0, prompt: str = "") -> float:
        """How much a hook point's row differs between the prompt and another one."""

    # Heads ------------------------------------------------------------------------------------------------------------

    def head_scores(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Matrix:
        """A score (previous, sink, induction, entropy) of every head, on random tokens twice or on the prompt."""

    def best_head(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Head:
        """The head with the largest score."""

    def best_score(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> float:
        """The largest score of any head."""

    def heads_over(
        self, model: ModelName, score: str, least: float, repeat: int = 0, seed: int = 0, prompt: str = ""
    ) -> tuple[Head, ...]:
        """The heads whose score reaches so much, best first."""

    def score_without_rope(self, model: ModelName, head: Head, score: str, prompt: str = "") -> float:
        """A head's score on the prompt when nothing is rotated."""

    def repeat_loss(
        self, model: ModelName, repeat: int, without: tuple[Head, ...] = (), part: str = "second", seed: int = 0
    ) -> float:
        """Mean −ln p of the tokens in the first or second round of random tokens twice, with some heads zeroed."""

    def probability_without(
        self, model: ModelName, head: Head, row: int = -1, rank: int = 0, prompt: str = ""
    ) -> float:
        """The probability of the token that is likeliest without it, after a head has been zeroed."""

    def looks_back(self, model: ModelName, word: str, text: str, count: int = 3) -> tuple[str, ...]:
        """What the heads weigh most from a word of a text, past its neighbour: which head looks at which token."""

    def row_of(self, model: ModelName, word: str, text: str) -> int:
        """The row of a word in a text: the token that its last occurrence ends in."""

    def looking_head(self, model: ModelName, word: str, text: str) -> Head:
        """The head that looks back most from a word of a text, past its neighbour."""

    # Rotation ---------------------------------------------------------------------------------------------------------

    def frequencies(self, config: ModelConfig, length: int = 0) -> Vector:
        """θ of every plane, in radians a position."""

    def wavelengths(self, config: ModelConfig, length: int = 0) -> Vector:
        """Positions that every plane needs for a full turn."""

    def turning_planes(self, config: ModelConfig, length: int) -> int:
        """Planes that finish a turn within so many positions."""

    def turned(self, vector: Vector, position: float, frequencies: Vector, pairing: str = "half") -> Vector:
        """A head vector turned to a position."""

    def turned_product(self, q: Vector, k: Vector, m: int, n: int, frequencies: Vector, pairing: str = "half") -> float:
        """q turned to position m times k turned to position n."""

    def shift_gap(self, model: ModelName, offset: int, prompt: str = "") -> float:
        """The largest change of any score when every position grows by an offset."""

    def pairing_gap(self, model: ModelName, prompt: str = "") -> float:
        """How far logits move when the model's rotation is read in the other pairing."""

    def permuted_gap(self, model: ModelName, order: Vector, prompt: str = "") -> float:
        """How far attention without a mask is from permuting with its input."""

    def row_gap(self, model: ModelName, other: str, prompt: str = "") -> float:
        """How much the last row's logits differ between the prompt and another one."""

    def table_gap(self, config: ModelConfig) -> float:
        """How far rotation tables made on the meta device are from true ones once memory is there."""

    def stored_tables(self, config: ModelConfig) -> int:
        """How many rotation tables a checkpoint of this config would store."""

    # Scale ------------------------------------------------------------------------------------------------------------

    def score_spread(self, model: ModelName) -> float:
        """The standard deviation of all scaled scores, over batch, heads and cells."""

    def mean_entropy(self, model: ModelName, row: int = -1) -> float:
        """The entropy in nats of a row of weights, meant over batch and heads; of all rows for −1."""

    def peak(self, model: ModelName, row: int) -> float:
        """The largest weight of a row, meant over batch and heads."""

    def slope(self, model: ModelName, row: int) -> float:
        """How much a row's weights can still move, 1 − Σ w², meant over batch and heads; 0 for a one-hot row."""

    def weight_variance(self, model: ModelName, name: str, layer: int = 0) -> float:
        """The variance of the numbers of a matrix: query, key, value or output."""

    # Norms, MLP and depth ---------------------------------------------------------------------------------------------

    def rms(self, vector: Vector) -> float:
        """The root mean square."""

    def rms_norm(self, vector: Vector, eps: float = 0.0) -> Vector:
        """RMSNorm with a gain of ones."""

    def layer_norm(self, vector: Vector, eps: float = 0.0) -> Vector:
        """LayerNorm with a gain of ones and no shift."""

    def activated(self, name: str, number: float) -> float:
        """An activation (silu, gelu, relu) of a number."""

    def first_gradient(self, model: ModelName, place: str) -> float:
        """The gradient of the first block's W_v over the last one's, norms before (pre) or after each sum (post)."""

    # Cache, branches, mixtures ----------------------------------------------------------------------------------------

    def cached_gap(
        self, model: ModelName, prefill: int, steps: int, branch: str = "fused", padding: int = 0, seed: int = 0
    ) -> float:
        """How far the last row's logits, had through the cache, are from those of a full pass, on random tokens."""

    def branch_gap(self, model: ModelName, tokens: int, past: int = 0, padding: int = 0, seed: int = 0) -> float:
        """How far the fused branch's logits are from the explicit one's, on random tokens."""

    def tied(self, model: ModelName) -> bool:
        """Whether lm_head's weight is the embedding's own object."""

    def cache_bytes(self, model: ModelName, prompt: str = "") -> float:
        """Bytes of the KV cache, counted from the tensors of a run."""

    def experts(self, model: ModelName, row: int, layer: int = 0, prompt: str = "") -> Vector:
        """The experts that a row's token was sent to."""

    def expert_load(self, model: ModelName, layer: int = 0, prompt: str = "") -> Vector:
        """How many tokens each expert was sent."""
