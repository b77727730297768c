"""The operations of a decoder, in the order they run: one ledger row each, with symbol, shape, price and check.

:class:`Operations` writes them from a config alone.

Letters: B batch, T tokens of this call, P past, S = P + T keys, D width, H query heads, Hkv kv heads, Dh head width,
G = H / Hkv, F MLP width, E experts, k experts per token, Fe and Fs widths of one expert and of the shared one, V
vocabulary. A symbol such as ``[B, T, H·Dh]`` and its shape are made from the same letters, so they always agree.

FLOPs: a row with a matrix product counts that product alone, 2 for a multiply-add (bias and scale are not counted);
other rows count element-wise work by ``costs.PER_NUMBER``.
"""

from __future__ import annotations

import math

from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.costs import (
    PER_NUMBER,
    Flops,
    bytes_per_number,
    key_norm_parameters,
    layer_parameters,
    linear_flops,
    mlp_matrix_parameters,
    norm_parameters,
    parameters,
    query_norm_parameters,
    score_flops,
    shares_norm,
    visible_pairs,
)
from ropewalk.model.ledger.entry import Check, Kind, LedgerEntry, Stored


class Operations:
    """Writes the rows of one ledger; a method for each part of the block, in the order they run."""

    def __init__(
        self,
        config: ModelConfig,
        layer: int,
        batch: int,
        tokens: int,
        past: int,
        dtype: str,
        device: str,
        branch: Branch,
    ) -> None:
        self.config = config
        self.layer = layer
        self.batch = batch
        self.tokens = tokens
        self.past = past
        self.keys = past + tokens
        self.dtype = dtype
        self.device = device
        self.branch = branch
        self.moe = config.moe if config.is_moe(layer) else None
        self.cells = visible_pairs(tokens, past, config.window_of(layer))
        self.norm_name = "RMSNorm" if config.norm == "rms" else "LayerNorm"
        self.counts = layer_parameters(config, layer)
        self.shares_norm = shares_norm(config)
        self.letters = {
            "B": batch,
            "T": tokens,
            "S": self.keys,
            "D": config.width,
            "H": config.heads,
            "Hkv": config.kv_heads,
            "Dh": config.head_width,
            "F": config.mlp_width,
            "V": config.vocabulary,
        }
        if self.moe is not None:
            self.letters |= {
                "E": self.moe.experts,
                "k": self.moe.per_token,
                "Fe": self.moe.width,
                "Fs": self.moe.shared_width,
            }

    def all(self) -> tuple[LedgerEntry, ...]:
        """Every row, from the ids to the logits."""
        c = self.config
        rows = self.embedding()
        if c.norm_place != "post":
            rows.append(self.norm("attn_norm", "read by attention" + (" and the MLP" if self.shares_norm else "")))
        rows += self.projections() + self.split() + self.turned() + self.cached()
        rows += self.weights() + self.blended()
        if c.norm_place != "pre":
            rows.append(self.norm("attn_post_norm", "of what attention writes, before it is added"))
        if not c.parallel_residual:
            rows.append(self.residual("residual_mid", "x + attention"))
        if c.norm_place != "post" and not self.shares_norm:
            rows.append(self.norm("mlp_norm", "read by the MLP"))
        rows += self.mlp() if self.moe is None else self.mixture()
        if c.norm_place != "pre":
            rows.append(self.norm("mlp_post_norm", "of what the MLP writes, before it is added"))
        rows.append(self.residual("residual_post", "x + attention + MLP" if c.parallel_residual else "x + MLP"))
        if c.final_norm:
            rows.append(self.norm("final_norm", "of the stream after the last block"))
        rows.append(self.lm_head())
        return tuple(rows)

    # One row ----------------------------------------------------------------------------------------------------------

    def row(
        self,
        key: str,
        name: str,
        symbol: str,
        formula: str,
        check: Check,
        *,
        kind: Kind = "plain",
        panel: str = "why",
        parameters: int = 0,
        flops: Flops | int = 0,
        product: bool = False,
        stored: Stored = "stored",
        dtype: str | None = None,
        weight: str = "",
    ) -> LedgerEntry:
        """One entry; its shape is its symbol with the letters filled in."""
        shape, dtype = self.shape(symbol), dtype or self.dtype
        size = math.prod(shape) * bytes_per_number(dtype)
        both = flops if isinstance(flops, Flops) else Flops(flops, flops)
        return LedgerEntry(
            name=name,
            kind=kind,
            symbol=symbol,
            shape=shape,
            dtype=dtype,
            device=self.device,
            bytes=size if stored == "stored" else 0,
            parameters=parameters,
            flops_full=both.full,
            flops_causal=both.causal,
            stored=stored,
            would_cost_bytes=0 if stored == "stored" else size,
            check=check,
            panel=panel,
            formula=formula,
            key=key,
            product=product,
            weight=self.shape(weight) if weight else (),
        )

    def shape(self, symbol: str) -> tuple[int, ...]:
        """``[B, T, H·Dh]`` in numbers."""
        return tuple(
            math.prod(self.letters[letter] for letter in side.split("·")) for side in symbol.strip("[]").split(", ")
        )

    def each(self, work: str, symbol: str) -> int:
        """FLOPs of element-wise ``work`` on every number of ``symbol``."""
        return PER_NUMBER[work] * math.prod(self.shape(symbol))

    def linear(self, inputs: str, outputs: str, rows: str = "B·T") -> int:
        """FLOPs of every row through a matrix (outputs, inputs)."""
        return linear_flops(*self.shape(f"[{rows}, {inputs}, {outputs}]"))

    # The parts of the model -------------------------------------------------------------------------------------------

    def embedding(self) -> list[LedgerEntry]:
        """Ids become rows of W_e; learned or sinusoidal positions are added."""
        c = self.config
        scaled = c.embedding_scale != 1.0
        rows = [
            self.row(
                "embedding",
                "Embedding",
                "[B, T, D]",
                "x = " + (f"{c.embedding_scale:g} · " if scaled else "") + "W_e[ids]: a row is looked up for each id",
                Check(f"W_e has a row of D = {c.width} numbers for each of V = {c.vocabulary} tokens"),
                panel="tokens",
                parameters=c.vocabulary * c.width,
                flops=self.each("scale", "[B, T, D]") if scaled else 0,
                weight="[V, D]",
            )
        ]
        if c.position in ("learned", "sinusoidal"):
            learned = c.position == "learned"
            rows.append(
                self.row(
                    "positions",
                    "Learned positions" if learned else "Sinusoidal positions",
                    "[B, T, D]",
                    "x + W_p[position]: a learned row for each position"
                    if learned
                    else "x + (sin mθ, cos mθ): a fixed row for each position m, nothing learned",
                    self.decided(
                        f"The last position, P + T − 1 = {self.keys - 1}, is below the limit {c.max_position}",
                        self.keys <= c.max_position,
                        f"{self.keys - 1} < {c.max_position}",
                    ),
                    panel="tokens",
                    parameters=c.max_position * c.width if learned else 0,
                    flops=self.each("add", "[B, T, D]"),
                )
            )
        return rows

    def norm(self, key: str, what: str) -> LedgerEntry:
        """One norm of width D; ``what`` says what it is for."""
        c = self.config
        gain = ("(w + " + f"{c.norm_offset:g})" if c.norm_offset else "γ") if c.norm_gain else ""
        times = f"{gain} · " if gain else ""
        body = "x / √(mean(x²) + ε)" if c.norm == "rms" else "(x − mean x) / √(var x + ε)"
        return self.row(
            key,
            f"Final {self.norm_name}" if key == "final_norm" else self.norm_name,
            "[B, T, D]",
            f"{times}{body}{' + β' if c.norm_bias else ''}, {what}",
            Check(f"γ has D = {c.width} numbers, and every row keeps its width")
            if c.norm_gain
            else self.decided(f"Nothing is learned here, and every row keeps its width D = {c.width}", True, "no γ"),
            panel="next_token" if key == "final_norm" else "why",
            parameters=norm_parameters(c, c.width),
            flops=self.each(c.norm, "[B, T, D]"),
            weight="[D]" if c.norm_gain else "",
        )

    def projections(self) -> list[LedgerEntry]:
        """Q, K and V, each by its own matrix."""
        c, counts = self.config, self.counts
        q_width, kv_width = c.heads * c.head_width, c.kv_heads * c.head_width
        clip = "" if c.qkv_clip is None else f", clamped to ±{c.qkv_clip:g}"
        return [
            self.row(
                "q",
                "Q projection",
                "[B, T, H·Dh]",
                "Q = W_Q · x" + (" + b_Q" if c.query_bias else "") + clip + ": mixes features, never positions",
                Check(f"W_Q has H·Dh = {q_width} rows, as many as W_O has columns"),
                kind="query",
                parameters=counts.q,
                flops=self.linear("D", "H·Dh"),
                product=True,
                weight="[H·Dh, D]",
            ),
            self.row(
                "k",
                "K projection",
                "[B, T, Hkv·Dh]",
                "K = W_K · x" + (" + b_K" if c.key_bias else "") + clip,
                Check(f"W_K has Hkv·Dh = {kv_width} rows, as many as W_V"),
                kind="key",
                parameters=counts.k,
                flops=self.linear("D", "Hkv·Dh"),
                product=True,
                weight="[Hkv·Dh, D]",
            ),
            self.row(
                "v",
                "V projection",
                "[B, T, Hkv·Dh]",
                "V = W_V · x" + (" + b_V" if c.value_bias else "") + clip,
                Check(f"W_V has Hkv·Dh = {kv_width} rows, as many as W_K"),
                kind="value",
                parameters=counts.v,
                flops=self.linear("D", "Hkv·Dh"),
                product=True,
                weight="[Hkv·Dh, D]",
            ),
        ]

    def split(self) -> list[LedgerEntry]:
        """Q, K and V as heads."""
        c = self.config

        def parts(key: str, name: str, kind: Kind, heads: int, letter: str) -> LedgerEntry:
            width = heads * c.head_width
            return self.row(
                key,
                name,
                f"[B, {letter}, T, Dh]",
                "Features h·Dh … (h + 1)·Dh − 1 become head h; the head axis moves before positions",
                self.decided(
                    f"{letter}·Dh = {width} features make {letter} = {heads} heads of Dh = {c.head_width}",
                    width % heads == 0 and width // heads == c.head_width,
                    f"{width} = {heads} × {c.head_width}",
                ),
                kind=kind,
                panel="heads",
                stored="view",
            )

        return [
            parts("split_q", "Split heads Q", "query", c.heads, "H"),
            parts("split_k", "Split heads K", "key", c.kv_heads, "Hkv"),
            parts("split_v", "Split heads V", "value", c.kv_heads, "Hkv"),
        ]

    def turned(self) -> list[LedgerEntry]:
        """QK-norm and RoPE, in the order that the config puts them."""
        norms, rotations = self.qk_norms(), self.rotations()
        return rotations + norms if self.config.qk_norm_after_rope else norms + rotations

    def qk_norms(self) -> list[LedgerEntry]:
        """The norms of q and k, where the model has them."""
        c = self.config
        if c.qk_norm == "none":
            return []
        name = "RMSNorm" if c.qk_norm_kind == "rms" else "LayerNorm"
        over = {
            "head": f"each head over its Dh = {c.head_width} numbers, one gain for all heads",
            "heads": f"each head over its Dh = {c.head_width} numbers, a gain for each head",
            "full": "the whole projected vector at once",
        }[c.qk_norm] + (", with β" if c.qk_norm_bias else "")
        when = "after RoPE" if c.qk_norm_after_rope else "before RoPE"
        return [
            self.row(
                "q_norm",
                "QK-norm Q",
                "[B, H, T, Dh]",
                f"{name} of q: {over}; {when}",
                Check(f"q is {name} of its own projection, {when}"),
                kind="query",
                parameters=query_norm_parameters(c),
                flops=self.each(c.qk_norm_kind, "[B, H, T, Dh]"),
            ),
            self.row(
                "k_norm",
                "QK-norm K",
                "[B, Hkv, T, Dh]",
                f"{name} of k: {over}; {when}",
                Check(f"k is {name} of its own projection, not of q's, {when}"),
                kind="key",
                parameters=key_norm_parameters(c),
                flops=self.each(c.qk_norm_kind, "[B, Hkv, T, Dh]"),
            ),
        ]

    def rotations(self) -> list[LedgerEntry]:
        """RoPE of q and k, where the layer has it."""
        c, width = self.config, self.config.rotary_width(self.layer)
        if not width:
            return []
        rope = c.rope_of(self.layer)
        half = rope is not None and rope.pairing == "half"
        pair = f"(i, i + {width // 2})" if half else "(2i, 2i + 1)"
        rest = "" if width == c.head_width else f"; the other {c.head_width - width} features pass through"
        stretch = "" if rope is None or rope.scaling == "default" else f", stretched ({rope.scaling} × {rope.factor:g})"
        formula = f"Features {pair} turn by position · θ_i, {width // 2} planes{stretch}{rest}"

        def turn(key: str, name: str, kind: Kind, letter: str) -> LedgerEntry:
            symbol = f"[B, {letter}, T, Dh]"
            return self.row(
                key,
                name,
                symbol,
                formula,
                Check(f"Every pair of {name[-1]} keeps its length, and d_rot = {width} is even", *_parity(width)),
                kind=kind,
                panel="rope",
                flops=self.each("rotate", symbol) * width // c.head_width,
            )

        return [turn("rope_q", "RoPE Q", "query", "H"), turn("rope_k", "RoPE K", "key", "Hkv")]

    def cached(self) -> list[LedgerEntry]:
        """K and V appended to the cache, and shared to the query heads."""
        c = self.config
        new = f"rows {self.past} to {self.keys - 1}" if self.tokens > 1 else f"row {self.past}"
        group, left = divmod(c.heads, c.kv_heads)
        window = c.window_of(self.layer)
        sees = "" if window is None or window >= self.keys else f"; a query sees the last {window}"
        append = (f"{new} appended to the {self.past} before" if self.past else f"{new}, the first to be kept") + sees
        holds = f"The cache holds P + T = {self.past} + {self.tokens} = {self.keys} positions, K as it enters scores"
        return [
            self.row("cache_k", "Cache append K", "[B, Hkv, S, Dh]", append, Check(holds), kind="key", panel="cache"),
            self.row(
                "cache_v",
                "Cache append V",
                "[B, Hkv, S, Dh]",
                append,
                Check("V is stored as it was projected: RoPE never touches it"),
                kind="value",
                panel="cache",
            ),
            self.row(
                "shared",
                "K, V shared to groups",
                "[B, H, S, Dh]",
                f"Query head h reads kv head h // {group}"
                + (f": {group} query heads share each" if group > 1 else ": each has its own")
                + (" (each of K and V is copied H / Hkv times)" if self.branch == "explicit" else ""),
                self.decided(
                    f"Hkv divides H, and K and V agree with Q on H = {c.heads} heads after sharing",
                    left == 0,
                    f"{c.heads} = {c.kv_heads} × {group}" + (f" + {left}" if left else ""),
                ),
                panel="cache",
                stored="stored" if self.branch == "explicit" else "view",
            ),
        ]

    def weights(self) -> list[LedgerEntry]:
        """Scores, soft cap, mask and softmax."""
        c = self.config
        fused = self.branch == "fused"
        stored: Stored = "not stored" if fused else "stored"
        # The explicit branch keeps float32; what the fused one saves is counted in the model's own dtype.
        dtype = self.dtype if fused else "float32"
        cells = c.heads * self.batch
        full, seen = cells * self.tokens * self.keys, cells * self.cells
        square = "[B, H, T, S]"
        window = c.window_of(self.layer)
        hidden = "0 where the key is later" + ("" if window is None else f" or {window} or more back")

        def work(name: str) -> Flops:
            return Flops(PER_NUMBER[name] * full, PER_NUMBER[name] * seen)

        rows = [
            self.row(
                "scores",
                "Scores",
                square,
                f"{c.scale:.4g} · Q'·K'ᵀ" + (" (1/√Dh)" if c.score_scale is None else ""),
                Check(f"A score for each of T × S = {self.tokens} × {self.keys} cells a head, equal to scale · q'·k'"),
                kind="score",
                panel="scores",
                flops=score_flops(c, self.layer, self.tokens, self.past, self.batch),
                product=True,
                stored=stored,
                dtype=dtype,
            )
        ]
        if c.score_cap is not None:
            rows.append(
                self.row(
                    "score_cap",
                    "Soft cap",
                    square,
                    f"{c.score_cap:g} · tanh(score / {c.score_cap:g})",
                    self.decided(
                        f"The cap is above 0, and no score passes ±{c.score_cap:g}",
                        c.score_cap > 0,
                        f"cap {c.score_cap:g}",
                    ),
                    kind="score",
                    panel="scores",
                    flops=work("cap"),
                    stored=stored,
                    dtype=dtype,
                )
            )
        rows.append(
            self.row(
                "mask",
                "Causal mask" if window is None else "Sliding-window mask",
                "[T, S]",
                f"Weight {hidden}: {self.cells} of {self.tokens * self.keys} cells are visible",
                Check("Every masked cell weighs exactly 0"),
                kind="mask",
                panel="scores",
                flops=work("mask"),
                stored=stored,
                dtype="bool",
            )
        )
        rows.append(
            self.row(
                "softmax",
                "Softmax",
                square,
                "w = exp(score − lse)" + (", lse with the head's sink logit in it" if c.sink else ""),
                Check("Each row of weights sums to " + ("1 minus the sink's share" if c.sink else "1")),
                kind="score",
                panel="scores",
                parameters=self.counts.sink,
                flops=work("softmax"),
                stored=stored,
                dtype=dtype,
            )
        )
        return rows

    def blended(self) -> list[LedgerEntry]:
        """The weights applied to V, the heads side by side again, and W_O."""
        c, width = self.config, self.config.heads * self.config.head_width
        return [
            self.row(
                "blend",
                "P · V",
                "[B, H, T, Dh]",
                "z[q] = Σ_k w[q, k] · v[k]: mixes positions, never features",
                Check("Each head's output is its weights times V"),
                kind="value",
                panel="heads",
                flops=score_flops(c, self.layer, self.tokens, self.past, self.batch),
                product=True,
            ),
            self.row(
                "concatenate",
                "Concatenate heads",
                "[B, T, H·Dh]",
                "Head h fills features h·Dh … (h + 1)·Dh − 1",
                Check(f"H·Dh = {width} features, as many as W_O has columns"),
                panel="heads",
                # The kernel leaves z as [B, H, T, Dh]; with one position the axes swap without a copy.
                stored="view" if self.tokens == 1 or c.heads == 1 else "stored",
            ),
            self.row(
                "o",
                "W_O",
                "[B, T, D]",
                "W_O · z" + (" + b_O" if c.output_bias else "") + ": mixes the heads and returns to width D",
                Check(f"W_O is D × H·Dh = {c.width} × {width}"),
                parameters=self.counts.o,
                flops=self.linear("H·Dh", "D"),
                product=True,
                weight="[D, H·Dh]",
            ),
        ]

    def residual(self, key: str, what: str) -> LedgerEntry:
        """What was written is added to the stream."""
        c = self.config
        scale = "" if c.residual_scale == 1.0 else f", what is added times {c.residual_scale:g}"
        both = 2 if c.parallel_residual else 1
        return self.row(
            key,
            "+ residual",
            "[B, T, D]",
            what + scale,
            Check(f"The stream keeps its width D = {c.width} and changes by just what was written to it"),
            flops=both * self.each("add", "[B, T, D]") * (1 if c.residual_scale == 1.0 else 2),
        )

    # The MLP ----------------------------------------------------------------------------------------------------------

    def mlp(self) -> list[LedgerEntry]:
        """The MLP of an ordinary layer."""
        return self.feed_forward("", "", "F", "B, T", self.config.mlp_width, 1)

    def feed_forward(
        self, prefix: str, title: str, letter: str, rows: str, width: int, copies: int
    ) -> list[LedgerEntry]:
        """Gate, up, activation and down of an MLP; ``copies`` of its weights (experts) over ``rows`` vectors."""
        c = self.config
        gate, up, down = (copies * count for count in mlp_matrix_parameters(c, width))
        gated = c.mlp == "gated"
        bias = c.mlp_bias
        flat = rows.replace(", ", "·")
        inward, outward = f"[{rows}, {letter}]", f"[{rows}, D]"
        matrix = f"[{letter}, D]" if copies == 1 else f"[E, {letter}, D]"
        back = f"[D, {letter}]" if copies == 1 else f"[E, D, {letter}]"

        def name(text: str) -> str:
            return f"{title} {text.lower()}" if title else text

        entries = []
        if gated:
            entries.append(
                self.row(
                    f"{prefix}gate",
                    name("Gate"),
                    inward,
                    "g = W_gate · x" + (" + b" if bias else ""),
                    Check(f"W_gate is {letter} × D = {width} × {c.width}, like W_up"),
                    parameters=gate,
                    flops=self.linear("D", letter, flat),
                    product=True,
                    weight=matrix,
                )
            )
        entries += [
            self.row(
                f"{prefix}up",
                name("Up"),
                inward,
                "u = W_up · x" + (" + b" if bias else ""),
                Check(f"W_up is {letter} × D = {width} × {c.width}"),
                parameters=up,
                flops=self.linear("D", letter, flat),
                product=True,
                weight=matrix,
            ),
            self.row(
                f"{prefix}activation",
                name("Activation"),
                inward,
                self.activated(),
                Check(
                    f"Gate and up have the same width {letter} = {width}, which W_down takes"
                    if gated
                    else f"Up has the width {letter} = {width} that W_down takes"
                ),
                flops=self.each("activation", inward) + (self.each("gate", inward) if gated else 0),
            ),
            self.row(
                f"{prefix}down",
                name("Down"),
                outward,
                "W_down · a" + (" + b" if bias else "") + ": returns to width D",
                Check(f"W_down is D × {letter} = {c.width} × {width}"),
                parameters=down,
                flops=self.linear(letter, "D", flat),
                product=True,
                weight=back,
            ),
        ]
        return entries

    def activated(self) -> str:
        """The activation's formula."""
        c = self.config
        if c.mlp == "plain":
            return f"{c.activation}(u)"
        up = f"(u + {c.up_offset:g})" if c.up_offset else "u"
        cut = "" if c.mlp_limit is None else f", g cut off above {c.mlp_limit:g} and u clamped to ±{c.mlp_limit:g}"
        return f"{c.activation}(g) · {up}{cut}"

    def mixture(self) -> list[LedgerEntry]:
        """Router, chosen experts, the shared expert, and their sum."""
        moe = self.moe
        assert moe is not None
        logits = "W_r · x" + (" + b_r" if moe.router_bias else "")
        router = self.row(
            "router",
            "Router",
            "[B·T, E]",
            f"{moe.scoring.split('_')[0]}({logits}); the {moe.per_token} largest of {moe.experts} are chosen"
            + (" and scaled to sum to 1" if moe.renormalise else ""),
            Check(f"Every token visits k = {moe.per_token} different experts of E = {moe.experts}"),
            parameters=self.counts.router,
            flops=self.linear("D", "E"),
            product=True,
            weight="[E, D]",
        )
        rows = [router, *self.feed_forward("", "Experts", "Fe", "B·T·k", moe.width, moe.experts)]
        if moe.shared_width:
            rows += self.feed_forward("shared_", "Shared expert", "Fs", "B·T", moe.shared_width, 1)
            if moe.shared_gate:
                rows.append(self.shared_gate())
        parts = moe.per_token + (1 if moe.shared_width else 0)
        rows.append(
            self.row(
                "combine",
                "Combine experts",
                "[B, T, D]",
                "Σ over the chosen experts of probability · output" + (" + shared expert" if moe.shared_width else ""),
                self.decided(
                    f"k = {moe.per_token} outputs of width D a token return to one",
                    1 <= moe.per_token <= moe.experts,
                    f"{moe.per_token} of {moe.experts} experts",
                ),
                flops=2 * moe.per_token * self.each("add", "[B, T, D]")
                + (parts - moe.per_token) * self.each("add", "[B, T, D]"),
            )
        )
        return rows

    def shared_gate(self) -> LedgerEntry:
        """The sigmoid that scales the shared expert, one number a token."""
        self.letters["1"] = 1
        return self.row(
            "shared_scale",
            "Shared expert's share",
            "[B·T, 1]",
            "sigmoid(w_s · x), which multiplies the shared expert's output",
            Check(f"w_s is one row of D = {self.config.width} numbers"),
            parameters=self.config.width,
            flops=self.linear("D", "1"),
            product=True,
            weight="[1, D]",
        )

    # The end ----------------------------------------------------------------------------------------------------------

    def lm_head(self) -> LedgerEntry:
        """The stream read as logits."""
        c = self.config
        formula = "W_lm · x" + (" + b" if c.logit_bias else "")
        formula = formula if c.logit_scale == 1.0 else f"{c.logit_scale:g} · ({formula})"
        formula = formula if c.logit_cap is None else f"{c.logit_cap:g} · tanh({formula} / {c.logit_cap:g})"
        statement = (
            f"W_lm is V × D = {c.vocabulary} × {c.width} and the embedding's own object (tied)"
            if c.tied
            else f"W_lm is V × D = {c.vocabulary} × {c.width}, a matrix apart from the embedding"
        )
        return self.row(
            "lm_head",
            "lm_head",
            "[B, T, V]",
            formula + (" with W_lm = W_e" if c.tied else "") + ": a logit for each token",
            Check(statement),
            panel="next_token",
            parameters=parameters(c).lm_head,
            flops=self.linear("D", "V"),
            product=True,
            weight="[V, D]",
        )

    @staticmethod
    def decided(statement: str, passed: bool, found: str) -> Check:
        """A check that the config's own arithmetic decides."""
        return Check(statement, passed, found)


def _parity(width: int) -> tuple[bool | None, str]:
    """What an odd rotary width decides at once; an even one leaves the lengths to be measured."""
    return (None, "") if width % 2 == 0 else (False, f"d_rot is {width}, which is odd")
