"""Readings for panels without torch: one small set of numbers, and an engine that answers from it.

The numbers belong to each other: scores come from q·k, weights from scores, so that tests can compare pixels and words
with them. What is asked here of a run, :func:`reading`, is what the engine answers a panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.engine.interface import CheckpointOutline, RunHandle
from ropewalk.model.engine.questions import (
    AskAtlas,
    AskAttribution,
    AskBoard,
    AskCache,
    AskCell,
    AskHead,
    AskLedger,
    AskLens,
    AskNextToken,
    AskNextTokenUnder,
    AskPlanes,
    AskRefinedBoard,
    AskRepeats,
    AskRouting,
    AskRow,
    AskScoreChanges,
    AskStrongWeights,
    AskTraining,
    AskWalk,
    Question,
)
from ropewalk.model.errors import CheckpointError
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger
from ropewalk.model.ledger.walk import plan_of
from ropewalk.model.readings.magnitudes import magnitudes
from ropewalk.model.readings.records import (
    NO_HEAD,
    BoardReading,
    CacheReading,
    Candidate,
    CellReading,
    ConsistencyCheck,
    DirectAttribution,
    HeadAtlas,
    HeadPicture,
    LogitLens,
    ModelCard,
    NextTokenReading,
    PlaneReading,
    Reduction,
    RepeatScores,
    Routing,
    RowReading,
    Run,
    Sampling,
    ScoreChanges,
    StrongWeights,
    Tile,
    TokenText,
    TokenTexts,
    TrainingHistory,
    WalkAxis,
    WalkMatrix,
    WalkReading,
)
from tests.fake_engine import FakeEngine
from tests.in_process import without_packing

CONFIG = ModelConfig(
    vocabulary=1024, width=128, layers=4, heads=8, kv_heads=2, head_width=16, mlp_width=384, max_position=512, tied=True
)
PROMPT = "the cat sat on the mat."
WORDS = ("·the", "·cat", "·sat", "·on", "·the", "·mat", ".")
SPECIAL = {
    0: TokenText(1, "<s>", "special"),
    1: TokenText(299, "the"),
    17: TokenText(40, "<E4>", "bytes", group=0, character="ä"),
    18: TokenText(41, "<B8>", "bytes", group=0),
}
"""Tokens that are no word, by their place."""

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


def token_at(place: int) -> TokenText:
    """Words that repeat themselves, led by a special token and with the bytes of one character among the later ones."""
    return SPECIAL.get(place) or word(300 + (place - 1) % len(WORDS))


def word(number: int) -> TokenText:
    """The token of an id."""
    return next(
        (one for one in SPECIAL.values() if one.id == number), TokenText(number, WORDS[(number - 300) % len(WORDS)])
    )


# Numbers --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def vectors(layers: int, heads: int, width: int, rows: int) -> Doubles:
    """[L, H + 2·Hkv, N, Dh]; more rows begin with those of fewer."""
    drawn = np.random.default_rng(0).normal(size=(rows, layers, heads, width)).transpose(1, 2, 0, 3)
    return np.ascontiguousarray(drawn)


def vectors_of(run: Run) -> tuple[Doubles, Doubles, Doubles]:
    """q [L, H, S, Dh], k and v [L, Hkv, S, Dh]."""
    c = run.config
    every = vectors(c.layers, c.heads + 2 * c.kv_heads, c.head_width, 64 if run.length <= 64 else 1024)
    q, k, v = np.split(every[:, :, : run.length], (c.heads, c.heads + c.kv_heads), axis=1)
    return q, k, v


def scores(run: Run, layer: int, head: int) -> Doubles:
    """[S, S] before the mask; heads look back, at the first token, or at where the text repeated itself."""
    q, k, _ = vectors_of(run)
    made: Doubles = q[layer, head] @ k[layer, run.config.kv_head_of(head)].T * run.config.scale
    row = np.arange(run.length)
    kind = (layer * 3 + head) % 5
    if kind == 0:
        made[row[1:], row[1:] - 1] += 5
    elif kind == 1:
        made[:, 0] += 4
    elif kind == 2:
        made[row[7:], row[7:] - 6] += 6
    return made


def visible(run: Run) -> Bools:
    """[S, S] causal."""
    return np.tril(np.ones((run.length, run.length), np.bool_))


def weights(run: Run, layer: int, head: int) -> Doubles:
    """[S, S] after the softmax."""
    seen = np.where(visible(run), scores(run, layer, head), -np.inf)
    powers = np.exp(seen - seen.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def thetas(config: ModelConfig) -> Doubles:
    """[F] radians per position."""
    half = config.head_width // 2
    return np.asarray(10_000.0 ** (-np.arange(half) / half))


# Readings -------------------------------------------------------------------------------------------------------------


def reading(run: Run, question: Question) -> Any:
    """The answer to a question about a run; one that no test of a panel asks has none."""
    return READINGS[type(question)](run, question)


def _head(run: Run, asked: AskHead) -> HeadPicture:
    """Scores and weights, pooled to the pixels asked for."""
    rows, columns = asked.rows or (0, run.length), asked.columns or (0, run.length)
    cut = slice(*rows), slice(*columns)
    block = math.ceil(max(rows[1] - rows[0], columns[1] - columns[0]) / asked.pixels)
    shown = visible(run)[cut]
    raw, shares = scores(run, asked.layer, asked.head)[cut], weights(run, asked.layer, asked.head)[cut]
    seen = _pooled(shown.astype(np.float64), block) > 0
    reduction: Reduction = "exact" if block == 1 else asked.reduction
    masked = np.where(seen, _pooled(np.where(shown, raw, -np.inf), block), 0)
    scored = Tile("scores", asked.layer, asked.head, rows, columns, _single(masked), seen, _single(_pooled(raw, block)))
    weighed = replace(scored, kind="weights", values=_single(_pooled(shares, block)), raw=None)
    kv_head = run.config.kv_head_of(asked.head)
    return HeadPicture(
        asked.layer,
        asked.head,
        kv_head,
        replace(scored, reduction=reduction, cell=(block, block)),
        replace(weighed, reduction=reduction, cell=(block, block)),
    )


def _board(run: Run, asked: AskBoard) -> BoardReading:
    """Pictures of heads, their mean and the difference of two."""
    pictures = [
        _head(run, AskHead(layer, head, asked.rows, asked.columns, asked.pixels)) for layer, head in asked.heads
    ]

    def combined(shares: Sequence[float], of: Sequence[HeadPicture]) -> HeadPicture:
        def tile(kind: str) -> Tile:
            tiles: list[Tile] = [getattr(one, kind) for one in of]
            values = np.tensordot(np.array(shares), np.stack([one.values for one in tiles]), 1)
            return replace(tiles[0], layer=NO_HEAD, head=NO_HEAD, values=_single(values))

        return HeadPicture(NO_HEAD, NO_HEAD, NO_HEAD, tile("scores"), tile("weights"))

    pair = None if asked.difference is None else [pictures[place] for place in asked.difference]
    return BoardReading(
        tuple(pictures[slice(*asked.shown)]),
        combined([1 / len(pictures)] * len(pictures), pictures) if asked.average else None,
        None if pair is None else combined((1.0, -1.0), pair),
    )


def _score_changes(run: Run, asked: AskScoreChanges) -> ScoreChanges:
    """Changes that are none of the scores."""
    values = np.linspace(-0.5, 0.3, run.config.layers * run.config.heads)
    shaped = values.reshape(run.config.layers, run.config.heads)
    none = np.full_like(shaped, np.nan)
    return ScoreChanges({"previous token": shaped, "sink": -shaped, "induction": none}, {"induction": "not in A"})


def _strong(run: Run, asked: AskStrongWeights) -> StrongWeights:
    """Every weight of the rectangle by itself, then those that reach a threshold."""
    rows, columns = asked.rows or (0, run.length), asked.columns or (0, run.length)
    inside = np.zeros((run.length, run.length), np.bool_)
    inside[slice(*rows), slice(*columns)] = True
    cells = np.nonzero(inside & visible(run))
    every = np.concatenate([weights(run, asked.layer, head)[cells] for head in asked.heads])
    heads = np.repeat(np.array(asked.heads, np.int32), len(cells[0]))
    query, key = (np.tile(places, len(asked.heads)).astype(np.int32) for places in cells)
    few = [threshold for threshold in asked.thresholds if (every >= threshold).sum() <= asked.most]
    threshold = few[0] if few else asked.thresholds[-1]
    reached = int((every >= threshold).sum())
    order = np.argsort(-every, kind="stable")[: min(reached, asked.most)]
    return StrongWeights(
        asked.layer,
        asked.heads,
        rows,
        columns,
        threshold,
        reached,
        len(asked.heads) * int(visible(run).sum()),
        heads[order],
        query[order],
        key[order],
        _single(every[order]),
    )


def _atlas(run: Run, asked: AskAtlas) -> HeadAtlas:
    c, block, q = run.config, math.ceil(run.length / asked.pixels), np.arange(1, run.length)
    every = np.array([[weights(run, layer, head) for head in range(c.heads)] for layer in range(c.layers)])
    pictures = np.where(visible(run), every, np.nan)
    return HeadAtlas(
        _single(np.array([[_pooled(one, block) for one in layer] for layer in pictures])),
        "exact" if block == 1 else "max",
        {
            "previous token": every[:, :, q, q - 1].mean(-1),
            "sink": every[:, :, q, 0].mean(-1),
            "induction": np.full((c.layers, c.heads), np.nan),
        },
        {
            "previous token": "mean over q ≥ 1 of w[q, q−1]",
            "sink": "mean over q ≥ 1 of w[q, 0]",
            "induction": "mean over q = N … 2N−2 of w[q, q−N+1]",
        },
        {"induction": "The prompt is not N tokens twice, so induction is not defined here."},
    )


def _repeats(run: Run, asked: AskRepeats) -> RepeatScores:
    """Scores that are none of the prompt's."""
    values = np.linspace(0.1, 0.9, run.config.layers * run.config.heads).reshape(run.config.layers, run.config.heads)
    return RepeatScores(asked.count, {"previous token": values, "sink": 1 - values, "induction": values**2})


def _row(run: Run, asked: AskRow) -> RowReading:
    every, shown = scores(run, asked.layer, asked.head)[asked.query], visible(run)[asked.query]
    shares = weights(run, asked.layer, asked.head)[asked.query]
    some = shares[shares > 0]
    lse, entropy = float(np.log(np.exp(every[shown]).sum())), float(-(some * np.log(some)).sum())
    return RowReading(asked.layer, asked.head, asked.query, every, shares, shown, lse, entropy)


def _cell(run: Run, asked: AskCell) -> CellReading:
    c, (q, k, _) = run.config, vectors_of(run)
    kv_head = c.kv_head_of(asked.head)
    row = _row(run, AskRow(asked.layer, asked.head, asked.query))
    score = float(row.scores[asked.key])
    return CellReading(
        layer=asked.layer,
        head=asked.head,
        kv_head=kv_head,
        sharing=tuple(h for h in range(c.heads) if c.kv_head_of(h) == kv_head),
        query=asked.query,
        key=asked.key,
        q=q[asked.layer, asked.head, asked.query],
        k=k[asked.layer, kv_head, asked.key],
        dot=score / c.scale,
        scale=c.scale,
        scaled=score,
        cap=None,
        score=score,
        hidden_because="" if row.visible[asked.key] else "the key comes after the query",
        lse=row.lse,
        weight=float(row.weights[asked.key]),
    )


def _planes(run: Run, asked: AskPlanes) -> PlaneReading:
    """The vectors before rotation are turned back from those after it."""
    c, (every_q, every_k, _) = run.config, vectors_of(run)
    half, turns, kv_head = c.head_width // 2, thetas(c), c.kv_head_of(asked.head)
    features = np.stack([np.arange(half), np.arange(half) + half], axis=1)
    q = every_q[asked.layer, asked.head, asked.query][features]
    k = every_k[asked.layer, kv_head, asked.key][features]
    shares = c.scale * (q * k).sum(-1)
    return PlaneReading(
        layer=asked.layer,
        head=asked.head,
        kv_head=kv_head,
        query=asked.query,
        key=asked.key,
        query_position=asked.query,
        key_position=asked.key,
        features=features.astype(np.int64),
        query_frequencies=turns,
        key_frequencies=turns,
        factor=1.0,
        q_before=_turned(q, -asked.query * turns),
        k_before=_turned(k, -asked.key * turns),
        q_after=q,
        k_after=k,
        shares=shares,
        rest=0.0,
        scaled=float(shares.sum()),
        scale=c.scale,
    )


def _cache(run: Run, asked: AskCache) -> CacheReading:
    c, stride = run.config, max(math.ceil(run.length / asked.positions), 1)
    per_token = 2 * c.layers * c.kv_heads * c.head_width * 4
    keys, values = (_single(kept[:, :, ::stride]) for kept in vectors_of(run)[1:])
    return CacheReading(
        keys=keys,
        values=values,
        key_magnitudes=np.stack([magnitudes(layer) for layer in keys]),
        value_magnitudes=np.stack([magnitudes(layer) for layer in values]),
        stride=stride,
        length=run.length,
        prefill=run.prefill,
        bytes_measured=per_token * run.length,
        bytes_reserved=per_token * 64,
        bytes_formula=per_token * run.length,
        bytes_per_token=per_token,
        bytes_full_heads=per_token * run.length * c.group,
        bytes_one_head=per_token * run.length // c.kv_heads,
        dtype="float32",
        windows=(None,) * c.layers,
    )


def _next_token(run: Run, asked: AskNextToken) -> NextTokenReading:
    """Candidates with falling probabilities; the most probable is the one that follows."""
    logits = 6 - np.arange(30) * 0.7
    chances = np.exp(logits) / np.exp(logits).sum()
    top_k = asked.sampling.top_k or 30
    candidates = tuple(
        Candidate(
            token=token_at((asked.query + 1 + place) % 40),
            logit=float(logits[place]),
            probability=float(chances[place]),
            drawn_probability=float(chances[place]),
            kept=place < top_k,
        )
        for place in range(min(asked.count, 30))
    )
    actual = candidates[0] if asked.query + 1 < run.length else None
    return NextTokenReading(asked.query, candidates, float(-(chances * np.log(chances)).sum()), actual, replayed=False)


def _next_token_under(run: Run, asked: AskNextTokenUnder) -> NextTokenReading:
    """Every head that is silenced lets the first candidate lose to the others."""
    found = _next_token(run, AskNextToken(asked.query, asked.count, asked.sampling))
    share = 0.8 ** sum(len(one.heads) for one in asked.interventions if isinstance(one, AblateHeads))
    first, *others = found.candidates
    rest = (1 - share * first.probability) / (1 - first.probability)
    changed = (
        replace(first, probability=share * first.probability),
        *(replace(other, probability=rest * other.probability) for other in others),
    )
    return replace(found, candidates=tuple(sorted(changed, key=lambda one: -one.probability)))


def _ledgers(run: Run, asked: AskLedger) -> tuple[ShapeLedger, ShapeLedger | None]:
    """Prefill and decode, from the config alone."""
    c, card = run.config, run.model
    prefill = build_ledger(c, asked.layer, 1, run.prefill, 0, card.dtype, card.device, "fused")
    if not run.steps:
        return prefill, None
    return prefill, build_ledger(c, asked.layer, 1, 1, run.length - 1, card.dtype, card.device, "fused")


def _routing(run: Run, asked: AskRouting) -> Routing:
    moe = run.config.moe
    assert moe is not None
    drawn = np.random.default_rng(asked.layer).dirichlet(np.ones(moe.experts), run.length)
    return Routing(asked.layer, drawn, np.argsort(-drawn, axis=1)[:, : moe.per_token])


def _training(run: Run, asked: AskTraining) -> TrainingHistory:
    """Seven checkpoints, ten steps apart, in which L1H2 becomes the head that looks back by one."""
    c, draw, kept = run.config, np.random.default_rng(5), np.arange(7)
    names = {"previous": "previous token: mean of w[q, q − 1]", "sink": "sink: mean of w[q, 0]"}
    scores = {name: draw.uniform(0.0, 0.2, (7, c.layers, c.heads)) for name in names}
    scores["previous"][:, 1, 2] = 0.1 + kept / 8
    weights = np.tril(draw.uniform(size=(7, c.layers, c.heads, 6, 6)))
    losses = np.linspace(7.0, 3.0, 60, dtype=np.float32)
    return TrainingHistory(
        text_loss=losses,
        repeat_loss=losses[::-1],
        checked=np.array([20, 40, 60]),
        validation_loss=np.array([6.0, 5.0, 4.5], np.float32),
        steps=10 * kept,
        scores=scores,
        formulas=names,
        ids=np.array([3, 4, 5, 3, 4, 5]),
        maps=(weights / weights.sum(-1, keepdims=True)).astype(np.float16),
        sequences=8,
        opened=30,
        tokens=tuple(TokenText(one, f"t{one}") for one in (3, 4, 5, 3, 4, 5)),
    )


def _lens(run: Run, asked: AskLens) -> LogitLens:
    """Distributions over forty ids that grow sharper from place to place; the same for a row whatever was asked."""
    places, (first, last), ids = run.config.layers + 1, asked.rows or (0, run.length), np.arange(299, 339)
    sharper = np.linspace(0.5, 3, places)[:, None, None]
    logits = sharper * np.stack([np.random.default_rng(row).normal(size=len(ids)) for row in range(first, last)])
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)  # [L + 1, n, 40]
    order = np.argsort(-chances, axis=-1, kind="stable")[..., : asked.count]
    end = np.broadcast_to(order[-1:, :, :1], (*order.shape[:2], 1))
    actual, rank = np.full(order.shape[:2], np.nan), np.zeros(order.shape[:2], np.int64)
    for place, row in enumerate(range(first, min(last, run.length - 1))):
        own = chances[:, place, run.tokens[row + 1].id % len(ids)]
        actual[:, place], rank[:, place] = own, 1 + (chances[:, place] > own[:, None]).sum(-1)
    return LogitLens(
        (first, last),
        ids[order],
        np.take_along_axis(chances, order, axis=-1),
        -(chances * np.log(chances)).sum(-1),
        np.take_along_axis(chances, end, axis=-1)[..., 0],
        actual,
        rank,
        TokenTexts.of(map(word, np.unique(ids[order]).tolist())),
    )


def _attribution(run: Run, asked: AskAttribution) -> DirectAttribution:
    c, draw = run.config, np.random.default_rng(asked.token)
    heads, mlps = draw.normal(size=(c.layers, c.heads)), draw.normal(size=c.layers)
    return DirectAttribution(
        asked.query, asked.token, float(heads.sum() + mlps.sum() + 0.5), heads, mlps, embedding=0.5, rest=0.0
    )


def _walk(run: Run, asked: AskWalk) -> WalkReading:
    """A walk of all rows of a short run, else of the query; what no test compares is drawn."""
    c, draw = run.config, np.random.default_rng(asked.layer)
    every = run.length <= 48 and not c.is_moe(asked.layer)
    rows = (0, run.length) if every else (asked.query, asked.query + 1)
    cut, kv_head, heads = slice(*rows), c.kv_head_of(asked.head), c.heads * c.head_width
    q, k, v = vectors_of(run)
    seen = visible(run)[cut]
    dots = q[asked.layer, asked.head, cut] @ k[asked.layer, kv_head].T
    known = {
        "q_turned": q[asked.layer, asked.head, cut],
        "k_turned": k[asked.layer, kv_head, cut],
        "v": v[asked.layer, kv_head, cut],
        "keys": k[asked.layer, kv_head].T,
        "values": v[asked.layer, kv_head],
        "dots": dots,
        "factor": np.array([[c.scale]]),
        "scaled": dots * c.scale,
        "seen": seen.astype(np.float64),
        "masked": np.where(seen, dots * c.scale, 0),
        "weights": weights(run, asked.layer, asked.head)[cut],
    }
    token, kv = rows[1] - rows[0], c.kv_heads * c.head_width
    sizes: dict[str, tuple[int, int]] = {
        **dict.fromkeys(("x", "normed", "attn", "middle", "mlp_read", "mlp", "after"), (token, c.width)),
        **dict.fromkeys(("norm_root", "mlp_root", "lse"), (token, 1)),
        **dict.fromkeys(("norm_gain", "mlp_gain"), (1, c.width)),
        "w_q": (c.width, heads),
        "w_k": (c.width, kv),
        "w_v": (c.width, kv),
        "w_o": (heads, c.width),
        "q_all": (token, heads),
        "k_all": (token, kv),
        "v_all": (token, kv),
        "z_all": (token, heads),
        **dict.fromkeys(("q", "k", "z"), (token, c.head_width)),
        **dict.fromkeys(("w_gate", "w_up"), (c.width, c.mlp_width)),
        **dict.fromkeys(("gate", "up", "hidden"), (token, c.mlp_width)),
        "w_router": (c.width, 4),
        "router": (token, 4),
        "shares": (1, 2),
        "experts": (2, c.width),
        "angles": (token, c.head_width // 2),
        "w_down": (c.mlp_width, c.width),
    }
    kinds = {"q": "query", "k": "key", "v": "value"}
    matrices: dict[str, WalkMatrix] = {}
    plan = [equation for step in plan_of(c, asked.layer) for equation in step.equations]
    for key in dict.fromkeys(key for equation in plan for key in (*equation.operands, equation.result)):
        made = known[key] if key in known else draw.normal(size=sizes[key])
        by_key = key in ("keys", "dots", "scaled", "seen", "masked", "weights")
        axes: tuple[WalkAxis, WalkAxis] = (
            "token" if made.shape[0] == token and key not in ("values", "keys", "factor") else "feature",
            "key" if by_key else "heads" if key[1:] == "_all" or key[:3] in ("w_q", "w_k", "w_v") else "feature",
        )
        if made.shape[1] == 1:
            axes = axes[0], "one"
        elif key == "values":
            axes = "key", "feature"
        whole = made.shape if axes[0] != "token" else (run.length, made.shape[1])
        hidden = ~seen if key in ("seen", "masked", "weights") else None
        of = {"keys": "k_turned", "values": "v"}.get(key, "")
        letter = key.removeprefix("w_")
        kind = kinds.get(letter[0] if letter[1:2] in ("", "_") else "", "plain")
        matrices[key] = WalkMatrix(
            key,
            kind,
            _single(made),
            rows if axes[0] == "token" else (0, made.shape[0]),
            (0, made.shape[1]),
            (whole[0], whole[1]),
            axes,
            hidden,
            of,
            ("expert 1", "expert 3") if key in ("shares", "experts") else (),
        )
    return WalkReading(asked.layer, asked.head, kv_head, asked.query, rows, matrices)


READINGS: dict[type[Any], Callable[[Run, Any], Any]] = {
    AskHead: _head,
    AskAtlas: _atlas,
    AskBoard: _board,
    AskRefinedBoard: lambda run, asked: _board(run, asked.board),
    AskScoreChanges: _score_changes,
    AskRow: _row,
    AskCell: _cell,
    AskPlanes: _planes,
    AskCache: _cache,
    AskNextToken: _next_token,
    AskNextTokenUnder: _next_token_under,
    AskLedger: _ledgers,
    AskRouting: _routing,
    AskTraining: _training,
    AskAttribution: _attribution,
    AskRepeats: _repeats,
    AskWalk: _walk,
    AskLens: _lens,
    AskStrongWeights: _strong,
}


def _single(values: Doubles) -> NDArray[np.float32]:
    return values.astype(np.float32)


def _turned(pairs: Doubles, angles: Doubles) -> Doubles:
    """[F, 2] pairs turned by [F] angles."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([pairs[:, 0] * cos - pairs[:, 1] * sin, pairs[:, 0] * sin + pairs[:, 1] * cos], axis=1)


def _pooled(values: Doubles, block: int) -> Doubles:
    """Largest value of every block; NaN only where a block has nothing else."""
    rows, columns = (np.arange(0, size, block) for size in values.shape)
    return np.asarray(np.fmax.reduceat(np.fmax.reduceat(values, rows, axis=0), columns, axis=1))


# The engine -----------------------------------------------------------------------------------------------------------


@dataclass
class CannedEngine(FakeEngine):
    """Every prompt is so many tokens, and panels get readings.

    Attributes
    ----------
    prefill
        Tokens that the next prompt is.
    known
        What is said of the model that is opened next, apart from its config, device and dtype.
    rendered
        What a chat template makes of the next prompt.
    outlines
        What a path is; of others there is nothing.
    text
        The token at a place of the next prompt.
    answers, ready
        By the type of a question: answers other than those of :func:`reading`, and what is ready before the answer.
    """

    config: ModelConfig = CONFIG
    devices: tuple[str, ...] = ("cpu", "cuda")
    consistency: dict[str, ConsistencyCheck] = field(
        default_factory=lambda: {"cached": ConsistencyCheck("cached", 12, 3e-6, 1e-4)}
    )
    prefill: int = 12
    known: dict[str, Any] = field(default_factory=dict)
    rendered: str = ""
    outlines: dict[str | None, CheckpointOutline] = field(default_factory=dict)
    text: Callable[[int], TokenText] = token_at
    answers: dict[type[Any], Callable[[Run, Any], Any]] = field(default_factory=dict)
    ready: dict[type[Any], Sequence[Any]] = field(default_factory=dict)

    def card(self, path: str | None, device: str, dtype: str) -> ModelCard:
        name = f"Bundled ({self.config.layers} layers)"
        made = ModelCard(name, path or "", self.config, 919_680, 3_678_720, device, dtype, "bundled")
        return replace(made, **self.known)

    def specs(self) -> tuple[AttentionSpec, ...]:
        c, segment = self.config, RotationSegment(0, self.config.max_position, tuple(thetas(self.config)))
        return tuple(replace(spec, window=c.window_of(spec.layer), segments=(segment,)) for spec in super().specs())

    def tokens(self, prompt: str) -> tuple[TokenText, ...]:
        return tuple(map(self.text, range(self.prefill)))

    def token(self, number: int) -> TokenText:
        return word(number)

    def after(self, tokens: Sequence[TokenText], sampling: Sampling) -> TokenText:
        return self.text(len(tokens))

    def described(self, run: Run) -> Run:
        return replace(run, seconds=0.0123, trace_bytes=123_456, rendered=self.rendered)

    def cell(self, run: Run, head: tuple[int, int] | None) -> tuple[int, int, int, int]:
        layer, at = head or (1, 4)
        return layer, at, run.length - 2, max(run.length - 8, 0)

    def outline_of(self, path: str | None) -> CheckpointOutline:
        if path not in self.outlines:
            raise CheckpointError(f"There is nothing at {path}; check the path.")
        return self.outlines[path]

    def reading(self, handle: RunHandle, question: Question) -> Any:
        own = self.answers.get(type(question))
        return reading(handle.run, question) if own is None else own(handle.run, question)

    def parts(self, handle: RunHandle, question: Question) -> Sequence[Any]:
        return self.ready.get(type(question), ())


@contextmanager
def canned_session(settings: Path, engine: CannedEngine | None = None) -> Iterator[Session]:
    """A real session over canned readings; closed afterwards."""
    session = Session(SettingsStore(settings), *without_packing(engine or CannedEngine()))
    try:
        yield session
    finally:
        session.close()
