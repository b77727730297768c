"""The whole decoder, top to bottom like a paper: embedding, blocks of attention and MLP on a residual stream, logits.

The stream is [B, T, D] all the way. A block reads it through a norm and adds to it, twice. This file builds exactly
what a :class:`~model.decoder.config.ModelConfig` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.attention import Attention, Call
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch, ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.decoder.hooks import HookPoint
from ropewalk.model.decoder.norms import stream_norm
from ropewalk.model.decoder.packing import Joined, pack
from ropewalk.model.decoder.product_names import BY_TORCH
from ropewalk.model.decoder.products import Linear, product_for
from ropewalk.model.decoder.rope import Rotary
from ropewalk.model.decoder.spec import RotationSegment
from ropewalk.model.errors import AttentionError, PositionError, PromptError, ShapeError


class Xielu(nn.Module):
    """xIELU, an activation that learns its bend on either side of 0 (Huang and Schlag 2024, arXiv:2411.13010).

    α₊·x² + β·x where x > 0, else α₋·(exp(min(x, ε)) − 1 − x) + β·x. The stored parameters are those of softplus.
    """

    def __init__(self) -> None:
        super().__init__()
        self.positive = nn.Parameter(torch.full((1,), 0.2035))  # softplus gives α₊ = 0.8
        self.negative = nn.Parameter(torch.full((1,), -1.0502))  # softplus gives α₋ − β = 0.3
        self.beta = nn.Parameter(torch.tensor(0.5))
        self.epsilon = nn.Parameter(torch.tensor(-1e-6))

    def forward(self, x: Tensor) -> Tensor:
        """Bend each number."""
        rise = functional.softplus(self.positive) * x * x
        fall = (torch.expm1(torch.minimum(x, self.epsilon)) - x) * (self.beta + functional.softplus(self.negative))
        return torch.where(x > 0, rise, fall) + self.beta * x


class Mlp(nn.Module):
    """down(act(gate(x)) · up(x)) with three matrices, or down(act(up(x))) with two. [..., D] in and out.

    The gated form is SwiGLU where the activation is SiLU (Shazeer 2020, arXiv:2002.05202).
    """

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__()
        c = config
        self.activation, self.has_plain_gate = c.activation, c.has_plain_gate
        self.activate = Xielu() if c.activation == "xielu" else ACTIVATIONS[c.activation]
        self.limit, self.up_offset = c.mlp_limit, c.up_offset
        self.gate = Linear(c.width, width, bias=c.mlp_bias) if c.mlp == "gated" else None  # [F, D]
        self.up = Linear(c.width, width, bias=c.mlp_bias)  # [F, D]
        self.down = Linear(width, c.width, bias=c.mlp_bias)  # [D, F]
        self.project = Joined(self.up) if self.gate is None else Joined(self.gate, self.up)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token on its own."""
        out: Tensor = self.down(self._hidden(x))
        return out

    def _hidden(self, x: Tensor) -> Tensor:
        """What W_down takes, [..., F]; of many rows in as few passes over it as the products in use have."""
        gate, up = self.gate, self.up
        if (
            not self.has_plain_gate
            or gate is None
            or x.numel() == x.shape[-1]
            or torch.is_grad_enabled()
            or self.project.is_watched
        ):
            return self.bend(*self.project(x))
        product = product_for(x, gate.weight, up.weight)
        return product.gated(x, (gate.weight, gate.bias), (up.weight, up.bias), self.activation)

    def bend(self, *projected: Tensor) -> Tensor:
        """What W_down takes, [..., F], of what gate and up, or up alone, have made."""
        if self.gate is None:
            bent: Tensor = self.activate(*projected)
            return bent
        gate, up = projected
        if self.limit is not None:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return self.activate(gate) * (up + self.up_offset if self.up_offset else up)


class DenseMlp(Mlp):
    """The MLP of an ordinary layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, config.mlp_width)


class MoeMlp(nn.Module):
    """A router sends each token to its top-k experts and adds their outputs, weighted. [B, T, D] in and out."""

    def __init__(self, config: ModelConfig, moe: MoeConfig) -> None:
        super().__init__()
        self.moe = moe
        self.router = Linear(config.width, moe.experts, bias=moe.router_bias)  # [E, D]
        self.experts = nn.ModuleList(Mlp(config, moe.width) for _ in range(moe.experts))
        self.shared = Mlp(config, moe.shared_width) if moe.shared_width else None
        self.shared_gate = Linear(config.width, 1, bias=False) if moe.shared_gate else None
        self.hook_router_logits = HookPoint()
        self.hook_expert_index = HookPoint(read_only=True)

    def forward(self, x: Tensor) -> Tensor:
        """Route, transform, and add."""
        tokens = x.flatten(0, -2)  # [N, D]
        logits = self.hook_router_logits(self.router(tokens))  # [N, E]
        share, chosen = self.choose(logits)  # [N, k] each
        self.hook_expert_index(chosen)
        out = torch.zeros_like(tokens)
        # without numbers (on the meta device) nobody knows where a token goes
        for index, expert in enumerate(() if x.is_meta else self.experts):
            row, place = torch.where(chosen == index)
            if row.numel():
                out.index_add_(0, row, expert(tokens[row]) * share[row, place, None].to(x.dtype))
        if self.shared is not None:
            shared = self.shared(tokens)
            out = out + (shared if self.shared_gate is None else torch.sigmoid(self.shared_gate(tokens)) * shared)
        return out.view(x.shape)

    def choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Each token's experts and their shares, [N, k] each, in float32."""
        wide = logits.float()
        if self.moe.scoring == "softmax_chosen":
            top, chosen = wide.topk(self.moe.per_token, dim=-1)
            return top.softmax(-1), chosen
        scored = wide.softmax(-1) if self.moe.scoring == "softmax" else wide.sigmoid()
        share, chosen = scored.topk(self.moe.per_token, dim=-1)
        if self.moe.renormalise:
            share = share / share.sum(-1, keepdim=True)
        return share, chosen


def balance_loss(router_logits: list[Tensor], moe: MoeConfig) -> Tensor:
    """E · Σ_e f_e · p_e over all mixture layers together (Fedus et al. 2021, eq. 4, summed over the k choices).

    Parameters
    ----------
    router_logits
        One [N, E] tensor a layer.

    Returns
    -------
    Tensor
        A scalar; ``per_token`` when the load is even. Not yet multiplied by ``aux_loss_weight``.
    """
    logits = torch.cat([layer.flatten(0, -2) for layer in router_logits]).float()
    probabilities = logits.softmax(-1)  # [N, E]
    chosen = functional.one_hot(probabilities.topk(moe.per_token, dim=-1).indices, moe.experts).float()  # [N, k, E]
    share_of_tokens = chosen.mean(0)  # [k, E]
    return (share_of_tokens * probabilities.mean(0)).sum() * moe.experts


class Block(nn.Module):
    """Two sub-layers that read the residual stream and add to it."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        c = config
        self.parallel = c.parallel_residual
        self.residual_scale = c.residual_scale
        before, after = c.norm_place in ("pre", "both"), c.norm_place in ("post", "both")
        two = not (c.parallel_residual and c.shared_norm)
        self.attn = Attention(c, layer)
        self.mlp: Mlp | MoeMlp = MoeMlp(c, c.moe) if c.moe is not None and c.is_moe(layer) else DenseMlp(c)
        self.attn_norm = stream_norm(c) if before else nn.Identity()
        self.mlp_norm = stream_norm(c) if before and two else nn.Identity()
        self.attn_post_norm = stream_norm(c) if after else nn.Identity()
        self.mlp_post_norm = stream_norm(c) if after else nn.Identity()
        self.shares_norm = not two
        self.hook_resid_pre, self.hook_resid_mid, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """One step of the stream, [B, T, D] in and out."""
        x = self.hook_resid_pre(x)
        normed = self.attn_norm(x)
        return self.add(x, normed, self.attn(normed, call))

    def add(self, x: Tensor, normed: Tensor, attended: Tensor) -> Tensor:
        """Add to rows of the stream what attention made of them and what the MLP makes of them, [B, T, D] each.

        ``normed`` is the stream as attention read it.
        """
        added = self.hook_attn_out(self._scaled(self.attn_post_norm(attended)))
        middle = self.hook_resid_mid(x + added)
        if not self.parallel:
            read = self.mlp_norm(middle)
        else:
            read = normed if self.shares_norm else self.mlp_norm(x)
        out = self.hook_mlp_out(self._scaled(self.mlp_post_norm(self.mlp(read))))
        after: Tensor = self.hook_resid_post(middle + out)
        return after

    def _scaled(self, added: Tensor) -> Tensor:
        return added if self.residual_scale == 1.0 else added * self.residual_scale


class Decoder(nn.Module):
    """The whole model.

    Parameters
    ----------
    config
        What to build.
    seed
        Seed of the random weights it opens with.
    blocks
        Its blocks, where somebody has built them one by one; None builds them here.
    """

    def __init__(self, config: ModelConfig, seed: int = 0, blocks: Sequence[Block] | None = None) -> None:
        super().__init__()
        c = config
        self.config = config
        self.context_limit = c.max_position
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.place = nn.Embedding(c.max_position, c.width) if c.position == "learned" else None
        self.rotaries = nn.ModuleList(
            Rotary(rope, c.head_width if rope.width is None else rope.width, c.max_position) for rope in self._rules()
        )
        self.hook_embed = HookPoint()
        self.blocks = nn.ModuleList([Block(c, layer) for layer in range(c.layers)] if blocks is None else blocks)
        self.norm = stream_norm(c) if c.final_norm else nn.Identity()
        self.hook_final = HookPoint()
        self.head = Linear(c.width, c.vocabulary, bias=c.logit_bias)
        self.products = BY_TORCH  # of the runs that begin from now on
        self._tie()
        self.register_load_state_dict_post_hook(_tie_again)  # type: ignore[no-untyped-call]
        if not self.embed.weight.is_meta:
            self._randomise(seed)

    # The pass ---------------------------------------------------------------------------------------------------------

    def forward(
        self,
        inputs: Tensor,
        *,
        cache: KvCache | None = None,
        positions: Tensor | None = None,
        padding: Tensor | None = None,
        branch: Branch = "fused",
        last_only: bool = False,
    ) -> Tensor:
        """Run ids or vectors through the model.

        Parameters
        ----------
        inputs
            [B, T] int ids, or [B, T, D] vectors that take the place of the embedding.
        cache
            Where K and V go, and where earlier ones come from.
        positions
            [B, T] position ids; when not given, P … P + T − 1, or counted from each row's first real token.
        padding
            [B, S] bool over past and present rows, True for a real token.
        branch
            ``fused`` or ``explicit``.
        last_only
            Whether only the last row's logits are wanted.

        Returns
        -------
        Tensor
            Logits [B, T, V] (or [B, 1, V]).

        Raises
        ------
        PromptError, PositionError, ShapeError
            For an empty call, a position past the limit, ids past the vocabulary, vectors of another width.
        """
        x, call = self.begin(inputs, cache=cache, positions=positions, padding=padding, branch=branch)
        for block in self.blocks:
            x = block(x, call)
        return self.finish(x[:, -1:] if last_only else x)

    def begin(
        self,
        inputs: Tensor,
        *,
        cache: KvCache | None = None,
        positions: Tensor | None = None,
        padding: Tensor | None = None,
        branch: Branch = "fused",
        rotary_length: int = 0,
    ) -> tuple[Tensor, Call]:
        """Embed, and gather what every layer of this call shares; then come ``blocks`` and :meth:`finish`.

        Parameters are those of :meth:`forward`; ``rotary_length`` is the length that length-dependent rotary rules
        are to assume when it is larger than this call's own, as for one chunk of a longer prompt.
        """
        past = 0 if cache is None else cache.length
        if inputs.ndim != (3 if inputs.is_floating_point() else 2):
            raise ShapeError(
                f"The input has shape {tuple(inputs.shape)}, but it must be ids [B, T] or vectors "
                f"[B, T, {self.config.width}]."
            )
        batch, tokens = inputs.shape[:2]
        if batch == 0 or tokens == 0:
            raise PromptError("The prompt is empty; a forward pass needs at least one token.")
        if branch not in get_args(Branch):
            raise AttentionError(f"Attention has no branch {branch!r:.40}; choose fused or explicit.")
        if padding is not None and (padding.shape[0] != batch or padding.shape[1] < past + tokens):
            raise ShapeError(
                f"The padding mask has shape {tuple(padding.shape)}, but batch and keys are ({batch}, {past + tokens})."
            )
        if positions is None:
            positions = counted_positions(batch, past, tokens, padding, inputs.device)
            length = past + tokens
        else:
            length = past + tokens if positions.is_meta else self._length_of(positions, batch, tokens)
        length = max(length, rotary_length)
        if length > self.context_limit:
            self.config.check_position(length - 1)
        x = self.hook_embed(self._embedded(inputs, positions))
        call = Call(past, length, positions, self._rotations(positions, length), branch, padding, cache)
        return x, call

    def finish(self, x: Tensor) -> Tensor:
        """Norm the stream [B, T, D] a last time and read it as logits [B, T, V]."""
        c = self.config
        logits: Tensor = self.head(self.hook_final(self.norm(x)))
        if c.logit_scale != 1.0:
            logits = logits * c.logit_scale
        if c.logit_cap is not None:
            logits = c.logit_cap * torch.tanh(logits / c.logit_cap)
        return logits

    @contextmanager
    def with_context_limit(self, positions: int) -> Iterator[None]:
        """Take so many positions for a while, as rotary rules that are stretched allow."""
        kept, self.context_limit = self.context_limit, positions
        try:
            yield
        finally:
            self.context_limit = kept

    def pack(self) -> Decoder:
        """Lay the weights out for decode steps (``model.decoder.packing``); needs room for one block once more."""
        pack(self, list(self.blocks))
        return self

    def block(self, layer: int) -> Block:
        """One of the blocks, typed."""
        block = self.blocks[layer]
        assert isinstance(block, Block)
        return block

    # Its parts --------------------------------------------------------------------------------------------------------

    def _rules(self) -> list[RopeConfig]:
        """The different rotary rules of the model, each once."""
        used = [self.config.rope_of(layer) for layer in range(self.config.layers)]
        return list(dict.fromkeys(rope for rope in used if rope is not None))

    def _embedded(self, inputs: Tensor, positions: Tensor) -> Tensor:
        c = self.config
        if inputs.is_floating_point():
            if inputs.shape[-1] != c.width:
                raise ShapeError(f"Vectors have shape {tuple(inputs.shape)}, but they must be [B, T, {c.width}].")
            x = inputs.to(self.embed.weight.dtype)
        else:
            outside = [] if inputs.is_meta else inputs[(inputs < 0) | (inputs >= c.vocabulary)].tolist()
            if outside:
                raise PromptError(
                    f"Token id {outside[0]} was given, but the vocabulary has {c.vocabulary} ids, from 0 to "
                    f"{c.vocabulary - 1}."
                )
            x = self.embed(inputs)
        if c.embedding_scale != 1.0:
            x = x * torch.tensor(c.embedding_scale, dtype=x.dtype, device=x.device)
        if self.place is not None:
            x = x + self.place(positions)
        if c.position == "sinusoidal":
            x = x + sinusoids(positions, c.width).to(x.dtype)
        return x

    @staticmethod
    def _length_of(positions: Tensor, batch: int, tokens: int) -> int:
        """The largest position id plus one."""
        if positions.shape not in ((batch, tokens), (1, tokens)):
            raise ShapeError(
                f"The position ids have shape {tuple(positions.shape)}, but batch and tokens are ({batch}, {tokens})."
            )
        if int(positions.min()) < 0:
            raise PositionError(f"Position {int(positions.min())} was asked for, but positions start at 0.")
        return int(positions.max()) + 1

    def _tie(self) -> None:
        """Make the last matrix the embedding itself, where the model is tied."""
        if self.config.tied:
            self.head.weight = self.embed.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Decoder:
        """Move or cast; memory that was meta is made anew for each module, so that tied ones have to be tied again."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._tie()
        return self

    def segments(self, layer: int, start: int, stop: int, length: int) -> tuple[RotationSegment, ...]:
        """What rows ``start`` to ``stop`` of a layer were rotated with in a call that reached ``length``."""
        rotary = self._rotary_of(layer)
        return () if rotary is None else (rotary.segment(start, stop, length),)

    def _rotary_of(self, layer: int) -> Rotary | None:
        rope = self.config.rope_of(layer)
        return next((rotary for rotary in self.rotary_rules if rotary.rope == rope), None)

    @property
    def rotary_rules(self) -> list[Rotary]:
        """The tables of the different rotary rules, each once."""
        return [module for module in self.rotaries if isinstance(module, Rotary)]

    def _rotations(self, positions: Tensor, length: int) -> tuple[tuple[Tensor, Tensor] | None, ...]:
        """The (cos, sin) of each layer, looked up once for each rule."""
        looked_up = {rotary.rope: rotary(positions, length) for rotary in self.rotary_rules}
        rules = [self.config.rope_of(layer) for layer in range(self.config.layers)]
        return tuple(None if rope is None else looked_up[rope] for rope in rules)

    def _randomise(self, seed: int) -> None:
        """Matrices from N(0, 1/fan-in), so that every layer keeps the variance of what it reads.

        The embedding is N(0, 1), or N(0, 1/D) where it is also the last matrix.
        """
        generator = torch.Generator().manual_seed(seed)
        spread = 1 / math.sqrt(self.config.width) if self.config.tied else 1.0
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not (self.head if self.config.tied else None):
                nn.init.normal_(module.weight, std=1 / math.sqrt(module.in_features), generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=spread, generator=generator)


def _tie_again(model: nn.Module, keys: Any) -> None:
    """After a state dict was loaded: a tied model needs no ``head.weight`` in it, and assigned weights come untied."""
    if isinstance(model, Decoder) and model.config.tied:
        model._tie()
        keys.missing_keys[:] = [key for key in keys.missing_keys if key != "head.weight"]


def counted_positions(batch: int, past: int, tokens: int, padding: Tensor | None, device: torch.device) -> Tensor:
    """Position ids [B, T] of rows that come after P others: real tokens are counted, whatever lies before them."""
    if padding is None:
        return torch.arange(past, past + tokens, device=device).expand(batch, tokens)
    counted = padding[:, : past + tokens].long().cumsum(1) - 1
    return counted.clamp(min=0)[:, past:]


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """sin and cos of m·10000^(−2i/D), interleaved (Vaswani et al. 2017, arXiv:1706.03762), [..., D] float32."""
    even = torch.arange(0, width, 2, device=positions.device).float()
    angles = positions[..., None].float() * 10_000.0 ** (-even / width)  # [..., ceil(D/2)]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., :width]


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Mean cross-entropy in nats of predicting ids[:, t + 1] from row t.

    Parameters
    ----------
    logits
        [B, T, V].
    ids
        [B, T].
    """
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
