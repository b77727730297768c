"""A session without torch: the same signals and verbs, answering from small synthetic arrays.

The arrays belong to each other: scores come from q·k, weights from scores, so that tests can compare pixels and words
with numbers. Answers arrive through the event loop, and a newer question of a slot replaces an older one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from app.door import Outlined
from app.jobs import JobProgress
from app.lessons import Shelf, load_shelf
from app.local_models import LocalModel
from app.questions import (
    AskAtlas,
    AskCache,
    AskCell,
    AskHead,
    AskLedger,
    AskNextToken,
    AskPlanes,
    AskProof,
    AskRow,
    Question,
)
from app.selection import Bounds, SelectionStore
from app.settings import SettingsStore
from model.config import ModelConfig
from model.experiments import Experiment
from model.ledger import ShapeLedger, build_ledger
from model.prompt import Prompt
from model.readings import (
    CacheReading,
    Candidate,
    CellReading,
    HeadAtlas,
    HeadPicture,
    ModelCard,
    NextTokenReading,
    PlaneReading,
    Proof,
    Reduction,
    RowReading,
    Run,
    Sampling,
    Tile,
    TokenText,
)
from model.shades import shades
from model.spec import AttentionSpec, RotationSegment

CONFIG = ModelConfig(
    vocabulary=1024, width=128, layers=4, heads=8, kv_heads=2, head_width=16, mlp_width=384, max_position=512, tied=True
)
WORDS = ("the", "·cat", "·sat", "·on", "·the", "·mat", ".", "·the", "·cat", "·sat", "·on", "·the", "·mat", ".")
ROWS = 40
DEVICES = ("cpu", "cuda")

Doubles = NDArray[np.float64]


def words(count: int) -> tuple[TokenText, ...]:
    """Tokens that repeat themselves, led by a special one and with the bytes of one character among the later ones."""
    tokens = [TokenText(1, "<s>", "special")]
    tokens += [TokenText(300 + i % 7, WORDS[i % len(WORDS)]) for i in range(count)]
    if count > 20:
        tokens[17] = TokenText(40, "<E4>", "bytes", group=0, character="ä")
        tokens[18] = TokenText(41, "<B8>", "bytes", group=0)
    return tuple(tokens[:count])


def card(
    config: ModelConfig = CONFIG,
    device: str = "cpu",
    dtype: str = "float32",
    *,
    has_tokenizer: bool = True,
    bos: str = "",
    chats: tuple[str, ...] = (),
) -> ModelCard:
    """What is open."""
    return ModelCard(
        name="Bundled (4 layers)",
        path="",
        config=config,
        parameters=919_680,
        weight_bytes=3_678_720,
        device=device,
        dtype=dtype,
        family="bundled",
        has_tokenizer=has_tokenizer,
        bos=bos,
        chats=chats,
    )


@dataclass(frozen=True)
class Numbers:
    """Synthetic q, k [L, H|Hkv, N, Dh], what is added to the scores [L, H, N, N], and v."""

    q: Doubles
    k: Doubles
    v: Doubles
    bias: Doubles

    def scores(self, layer: int, head: int, length: int, config: ModelConfig) -> Doubles:
        """[S, S] before the mask."""
        q, k = self.q[layer, head, :length], self.k[layer, config.kv_head_of(head), :length]
        return q @ k.T * config.scale + self.bias[layer, head, :length, :length]


def numbers(config: ModelConfig, rows: int, seed: int = 0) -> Numbers:
    """Draw them; heads look back, at the first token, or at where the text repeated itself, as in a trained model."""
    draw = np.random.default_rng(seed)
    shape = (config.layers, config.heads, rows, config.head_width)
    kv_shape = (config.layers, config.kv_heads, rows, config.head_width)
    bias = np.zeros((config.layers, config.heads, rows, rows))
    q = np.arange(rows)
    for layer in range(config.layers):
        for head in range(config.heads):
            kind = (layer * 3 + head) % 5
            if kind == 0:
                bias[layer, head, q[1:], q[1:] - 1] += 5
            elif kind == 1:
                bias[layer, head, :, 0] += 4
            elif kind == 2:
                bias[layer, head, q[7:], q[7:] - 6] += 6
    return Numbers(draw.normal(size=shape), draw.normal(size=kv_shape), draw.normal(size=kv_shape), bias)


class FakeExperiments(QObject):
    """What views see of the experiments."""

    changed = Signal(object)
    offered = Signal(object)

    def __init__(self, session: FakeSession) -> None:
        super().__init__(session)
        self._session = session
        self.now: tuple[Experiment, ...] = ()

    @property
    def wanted(self) -> tuple[Experiment, ...]:
        """Nothing is ever under way here."""
        return self.now

    def apply(self, experiments: Sequence[Experiment]) -> None:
        """Take experiments, without any effect on the numbers."""
        self._session.calls.append(("apply", tuple(experiments)))
        if self._session.run is not None:
            self._session.run_again()
            self.now = tuple(experiments)
            self.changed.emit(self.now)

    def accept(self, scaling: Experiment) -> None:
        """Remember which offer was taken."""
        self._session.calls.append(("accept", scaling))


class FakePinned(QObject):
    """What views see of the pinned run."""

    changed = Signal(object)

    def __init__(self, session: FakeSession) -> None:
        super().__init__(session)
        self._session = session
        self.run: Run | None = None

    def pin(self) -> None:
        """Keep the run as A."""
        self.run = self._session.run
        self.changed.emit(self.run)

    def unpin(self) -> None:
        """Compare no longer."""
        self.run = None
        self.changed.emit(None)


class FakeSession(QObject):
    """What views see of a session."""

    run_changed = Signal(object, object)
    model_changed = Signal(object)
    progress_changed = Signal(object)
    failed = Signal(str, str)
    sampling_changed = Signal(object)
    playing_changed = Signal(bool)
    check_changed = Signal(object)
    branches_changed = Signal(object)
    settled = Signal()
    cancelled = Signal()

    def __init__(
        self, settings: Path, config: ModelConfig = CONFIG, rows: int = ROWS, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.settings = SettingsStore(settings)
        self.selection = SelectionStore(self)
        self.config = config
        self.numbers = numbers(config, rows)
        self.tokens = words(rows)
        self.run: Run | None = None
        self.model: ModelCard | None = None
        self.sampling = Sampling()
        self.playing = False
        self.check: Proof | None = None
        self.branches: Proof | None = None
        self.proves_itself = True
        self.experiments = FakeExperiments(self)
        self.pinned = FakePinned(self)
        self.prompt = Prompt()
        self.calls: list[tuple[Any, ...]] = []
        """Verbs that were used."""
        self.asked: list[tuple[str, Question]] = []
        """Questions that were asked."""
        self.closed = False
        self._pending: dict[str, tuple[Question, Callable[[Any], None], Run]] = {}
        self._runs = 0
        self.outlines: dict[str | None, Outlined] = {}
        """What :meth:`outline` says of a path; of others that there is nothing."""
        self.local: tuple[LocalModel, ...] = ()
        self.opens_at_once = True
        """Whether :meth:`open` is done when it returns."""

    @property
    def timeline(self) -> FakeSession:
        """Its own timeline."""
        return self

    @property
    def proofs(self) -> FakeSession:
        """Its own proofs."""
        return self

    @property
    def stage(self) -> FakeSession:
        """Its own stage."""
        return self

    @property
    def checkpoints(self) -> FakeSession:
        """Its own checkpoints."""
        return self

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of this pretended machine."""
        return DEVICES

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._pending)

    # Verbs --------------------------------------------------------------------------------------------------------

    def begin(self, path: str | None = None, prompt: Prompt | None = None) -> None:
        """Open the model and run."""
        self.prompt = prompt or Prompt("the cat sat on the mat.")
        self.open(path)

    def open(
        self,
        path: str | None,
        device: str | None = None,
        dtype: str | None = None,
        options: Mapping[str, int] | None = None,
    ) -> None:
        """Pretend to open a checkpoint."""
        self.calls.append(("open", path, device, dtype, *([dict(options)] if options else [])))
        if not self.opens_at_once:
            return
        before = self.model
        self.model = card(
            self.config,
            device or (before.device if before else "cpu"),
            dtype or (before.dtype if before else "float32"),
        )
        self.model_changed.emit(self.model)
        if self.prompt.text:
            self.start(self.prompt)

    def start(self, prompt: Prompt | str, prefill: int = 12) -> None:
        """Prefill ``prefill`` rows."""
        asked = Prompt(prompt) if isinstance(prompt, str) else prompt
        self.calls.append(("start", asked.text))
        if not asked.text:
            self.failed.emit("The prompt is empty, but a run needs at least one token; type something first.", "")
            return
        if self.model is None:
            self.begin(prompt=asked)
            return
        self.prompt = asked
        self._runs += 1
        self.settings.update(prompt=asked.text)
        run = Run(
            run_id=self._runs,
            model=self.model,
            specs=self._specs(),
            prompt=asked.text,
            tokens=self.tokens,
            length=prefill,
            prefill=prefill,
            newest=prefill,
            first_logit_row=0,
            seconds=0.0123,
            trace_bytes=123_456,
        )
        self._show(run, layer=1, head=4, query=prefill - 2, key=max(prefill - 8, 0))
        self.check = Proof("cached", prefill, 3e-6, 1e-4)
        self.check_changed.emit(self.check)

    def outline(
        self,
        path: str | None,
        answer: Callable[[Outlined], None],
        failed: Callable[[str], None],
        options: Mapping[str, int] | None = None,
    ) -> None:
        """Say at once what a path is."""
        if path in self.outlines:
            answer(self.outlines[path])
        else:
            failed(f"There is nothing at {path}; check the path.")

    def list_local(self, answer: Callable[[tuple[LocalModel, ...]], None]) -> None:
        """Say at once what the cache holds."""
        answer(self.local)

    def read_shelf(self, answer: Callable[[Shelf], None]) -> None:
        """Read the lessons at once."""
        answer(load_shelf())

    def download(self, name: str, arrived: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Pretend to download into a folder that :attr:`outlines` knows."""
        self.calls.append(("download", name))
        arrived(f"/cache/{name}")

    def forget_questions(self) -> None:
        """Nothing is pending: answers come at once."""

    def forget(self, slot: str) -> None:
        """Drop a question."""
        self._pending.pop(slot, None)

    def step(self) -> None:
        """Go one row on."""
        self.calls.append(("step",))
        if self.run is not None and self.run.length < len(self.tokens):
            length = self.run.length + 1
            self._view(length, newest=max(self.run.newest, length))

    def step_back(self) -> None:
        """Go one row back."""
        self.calls.append(("step_back",))
        if self.run is not None:
            self._view(max(self.run.length - 1, self.run.prefill))

    def to_start(self) -> None:
        """Look at the prompt alone."""
        self.calls.append(("to_start",))
        if self.run is not None:
            self._view(self.run.prefill)

    def to_end(self) -> None:
        """Look at every row."""
        self.calls.append(("to_end",))
        if self.run is not None:
            self._view(self.run.newest)

    def run_to(self, length: int) -> None:
        """Go to a length."""
        self.calls.append(("run_to", length))
        if self.run is not None:
            length = min(length, len(self.tokens))
            self._view(length, newest=max(self.run.newest, length))

    def play(self) -> None:
        """Pretend to play."""
        self._set_playing(True)

    def pause(self) -> None:
        """Pretend to pause."""
        self._set_playing(False)

    def toggle_play(self) -> None:
        """Play or pause."""
        self.calls.append(("toggle_play",))
        self._set_playing(not self.playing)

    def set_sampling(self, sampling: Sampling) -> None:
        """Take another way of drawing."""
        self.calls.append(("set_sampling", sampling))
        self.sampling = sampling
        self.sampling_changed.emit(sampling)

    def run_again(self) -> None:
        """Show the same rows as a run of its own."""
        if self.run is not None:
            self._runs += 1
            self._show(replace(self.run, run_id=self._runs))

    def keep(self) -> None:
        """There is nothing to write to a file: no model is behind this."""

    def prove(self, kind: str) -> None:
        """Remember that a proof was wanted."""
        self.calls.append(("prove", kind))

    def branch(self, row: int, token: int) -> None:
        """Remember that a branch was wanted."""
        self.calls.append(("branch", row, token))

    def cancel(self) -> None:
        """Pretend to cancel."""
        self.calls.append(("cancel",))
        self.progress_changed.emit(None)

    def close(self) -> None:
        """Answer nothing any more."""
        self.closed = True
        self._pending.clear()

    def report(self, what: str, done: int, total: int) -> None:
        """Pretend that a job goes on."""
        self.progress_changed.emit(JobProgress(what, done, total, True))

    def ask(
        self,
        slot: str,
        question: Question,
        answer: Callable[[Any], None],
        part: Callable[[Any], None] | None = None,
    ) -> None:
        """Answer through the event loop; the newest question of a slot wins."""
        if self.run is None or self.closed:
            return
        self.asked.append((slot, question))
        self._pending[slot] = (question, answer, self.run)
        QTimer.singleShot(0, self, lambda: self._deliver(slot, question))

    def _deliver(self, slot: str, question: Question) -> None:
        pending = self._pending.get(slot)
        if pending is None or pending[0] is not question:
            return
        del self._pending[slot]
        if pending[2] is self.run:
            pending[1](self.answer(question))
        if not self._pending:
            self.settled.emit()

    def _set_playing(self, playing: bool) -> None:
        if playing != self.playing:
            self.playing = playing
            self.playing_changed.emit(playing)

    def _view(self, length: int, newest: int | None = None) -> None:
        run = self.run
        if run is not None and length != run.length:
            newest = run.newest if newest is None else newest
            self._show(replace(run, length=length, newest=newest), query=length - 1)

    def _show(self, run: Run, **selection: int) -> None:
        before, self.run = self.run, run
        bounds = Bounds(
            layers=self.config.layers, heads=self.config.heads, rows=run.length, planes=self.config.head_width // 2
        )
        self.selection.bind(bounds, step=run.length, **selection)
        self.run_changed.emit(before, run)

    def _specs(self) -> tuple[AttentionSpec, ...]:
        c = self.config
        segment = RotationSegment(0, c.max_position, tuple(self._thetas()))
        return tuple(
            AttentionSpec(
                layer=layer,
                heads=c.heads,
                kv_heads=c.kv_heads,
                head_width=c.head_width,
                scale=c.scale,
                window=c.window_of(layer),
                rotary_width=c.rotary_width(layer),
                segments=(segment,),
            )
            for layer in range(c.layers)
        )

    def _thetas(self) -> Doubles:
        half = self.config.head_width // 2
        return np.asarray(10_000.0 ** (-np.arange(half) / half))

    # Answers ------------------------------------------------------------------------------------------------------

    def answer(self, question: Question) -> Any:
        """Answer at once."""
        table: dict[type[Any], Callable[[Any], Any]] = {
            AskHead: self.head,
            AskAtlas: self.atlas,
            AskRow: self.row,
            AskCell: self.cell,
            AskPlanes: self.planes,
            AskCache: self.cache,
            AskNextToken: self.next_token,
            AskLedger: self.ledger,
            AskProof: lambda _: self.check,
        }
        return table[type(question)](question) if type(question) in table else None

    @property
    def shown(self) -> Run:
        """The run, which must be there."""
        assert self.run is not None
        return self.run

    def scores(self, layer: int, head: int) -> Doubles:
        """[S, S] before the mask."""
        return self.numbers.scores(layer, head, self.shown.length, self.config)

    def weights(self, layer: int, head: int) -> Doubles:
        """[S, S] after the softmax."""
        scores = np.where(self.visible(), self.scores(layer, head), -np.inf)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def visible(self) -> NDArray[np.bool_]:
        """[S, S] causal."""
        length = self.shown.length
        return np.tril(np.ones((length, length), np.bool_))

    def head(self, question: AskHead) -> HeadPicture:
        """Scores and weights, pooled to the pixels asked for."""
        length = self.shown.length
        rows, columns = question.rows or (0, length), question.columns or (0, length)
        cut = slice(*rows), slice(*columns)
        block = max(
            math.ceil((rows[1] - rows[0]) / question.pixels), math.ceil((columns[1] - columns[0]) / question.pixels)
        )
        visible = self.visible()[cut]
        scores, weights = (
            self.scores(question.layer, question.head)[cut],
            self.weights(question.layer, question.head)[cut],
        )
        seen = _pooled(visible.astype(np.float64), block) > 0
        reduction: Reduction = "exact" if block == 1 else "max"
        masked = _pooled(np.where(visible, scores, -np.inf), block)
        place = {"layer": question.layer, "head": question.head, "rows": rows, "columns": columns, "visible": seen}
        return HeadPicture(
            question.layer,
            question.head,
            self.config.kv_head_of(question.head),
            Tile(
                kind="scores",
                values=np.where(seen, masked, 0).astype(np.float32),
                raw=_pooled(scores, block).astype(np.float32),
                reduction=reduction,
                **place,  # type: ignore[arg-type]
            ),
            Tile(
                kind="weights",
                values=_pooled(weights, block).astype(np.float32),
                reduction=reduction,
                **place,  # type: ignore[arg-type]
            ),
        )

    def atlas(self, question: AskAtlas) -> HeadAtlas:
        """Every head."""
        c, length = self.config, self.shown.length
        block = math.ceil(length / question.pixels)
        weights = np.stack([np.stack([self.weights(layer, h) for h in range(c.heads)]) for layer in range(c.layers)])
        q = np.arange(1, length)
        pictures = np.where(self.visible(), weights, np.nan)
        thumbnails = np.stack([np.stack([_pooled(one, block) for one in layer]) for layer in pictures])
        return HeadAtlas(
            thumbnails.astype(np.float32),
            "exact" if block == 1 else "max",
            {
                "previous token": weights[:, :, q, q - 1].mean(-1),
                "sink": weights[:, :, q, 0].mean(-1),
                "induction": np.full((c.layers, c.heads), np.nan),
            },
            {
                "previous token": "mean over q ≥ 1 of w[q, q−1]",
                "sink": "mean over q ≥ 1 of w[q, 0]",
                "induction": "mean over q = N … 2N−2 of w[q, q−N+1]",
            },
            {"induction": "The prompt is not N tokens twice, so induction is not defined here."},
        )

    def row(self, question: AskRow) -> RowReading:
        """One row."""
        scores = self.scores(question.layer, question.head)[question.query]
        visible = self.visible()[question.query]
        weights = self.weights(question.layer, question.head)[question.query]
        positive = weights[weights > 0]
        return RowReading(
            question.layer,
            question.head,
            question.query,
            scores,
            weights,
            visible,
            float(np.log(np.exp(scores[visible]).sum())),
            float(-(positive * np.log(positive)).sum()),
        )

    def cell(self, question: AskCell) -> CellReading:
        """One cell."""
        c = self.config
        kv_head = c.kv_head_of(question.head)
        row = self.row(AskRow(question.layer, question.head, question.query))
        score = float(row.scores[question.key])
        return CellReading(
            layer=question.layer,
            head=question.head,
            kv_head=kv_head,
            sharing=tuple(h for h in range(c.heads) if c.kv_head_of(h) == kv_head),
            query=question.query,
            key=question.key,
            q=self.numbers.q[question.layer, question.head, question.query],
            k=self.numbers.k[question.layer, kv_head, question.key],
            dot=score / c.scale,
            scale=c.scale,
            scaled=score,
            cap=None,
            score=score,
            hidden_because="" if row.visible[question.key] else "the key comes after the query",
            lse=row.lse,
            weight=float(row.weights[question.key]),
        )

    def planes(self, question: AskPlanes) -> PlaneReading:
        """Rotation planes; the vectors before rotation are turned back from those after it."""
        c, half = self.config, self.config.head_width // 2
        kv_head = c.kv_head_of(question.head)
        features = np.stack([np.arange(half), np.arange(half) + half], axis=1)
        q = self.numbers.q[question.layer, question.head, question.query][features]
        k = self.numbers.k[question.layer, kv_head, question.key][features]
        thetas = self._thetas()
        shares = c.scale * (q * k).sum(-1)
        return PlaneReading(
            layer=question.layer,
            head=question.head,
            kv_head=kv_head,
            query=question.query,
            key=question.key,
            query_position=question.query,
            key_position=question.key,
            features=features.astype(np.int64),
            query_frequencies=thetas,
            key_frequencies=thetas,
            factor=1.0,
            q_before=_turned(q, -question.query * thetas),
            k_before=_turned(k, -question.key * thetas),
            q_after=q,
            k_after=k,
            shares=shares,
            rest=0.0,
            scaled=float(shares.sum()),
            scale=c.scale,
        )

    def cache(self, question: AskCache) -> CacheReading:
        """Keys and values."""
        c, run = self.config, self.shown
        stride = max(math.ceil(run.length / question.positions), 1)
        per_token = 2 * c.layers * c.kv_heads * c.head_width * 4
        keys, values = (
            kept[:, :, : run.length : stride].astype(np.float32) for kept in (self.numbers.k, self.numbers.v)
        )
        return CacheReading(
            keys=keys,
            values=values,
            key_shades=np.stack([shades(layer) for layer in keys]),
            value_shades=np.stack([shades(layer) for layer in values]),
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

    def next_token(self, question: AskNextToken) -> NextTokenReading:
        """Candidates with falling probabilities."""
        logits = 6 - np.arange(30) * 0.7
        probabilities = np.exp(logits) / np.exp(logits).sum()
        top_k = question.sampling.top_k or 30
        candidates = tuple(
            Candidate(
                token=self.tokens[(question.query + 1 + i) % len(self.tokens)],
                logit=float(logits[i]),
                probability=float(probabilities[i]),
                drawn_probability=float(probabilities[i]),
                kept=i < top_k,
            )
            for i in range(min(question.count, 30))
        )
        actual = candidates[0] if question.query + 1 < self.shown.length else None
        entropy = float(-(probabilities * np.log(probabilities)).sum())
        return NextTokenReading(question.query, candidates, entropy, actual, replayed=False)

    def ledger(self, question: AskLedger) -> tuple[ShapeLedger, ShapeLedger | None]:
        """Prefill and decode, from the config alone."""
        run = self.shown
        prefill = build_ledger(self.config, question.layer, 1, run.prefill, 0, "float32", "cpu", "fused")
        if not run.steps:
            return prefill, None
        return prefill, build_ledger(self.config, question.layer, 1, 1, run.length - 1, "float32", "cpu", "fused")


def _turned(pairs: Doubles, angles: Doubles) -> Doubles:
    """[F, 2] pairs turned by [F] angles."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([pairs[:, 0] * cos - pairs[:, 1] * sin, pairs[:, 0] * sin + pairs[:, 1] * cos], axis=1)


def _pooled(values: Doubles, block: int) -> Doubles:
    """Largest value of every block; NaN only where a block has nothing else."""
    if block == 1:
        return values
    rows, columns = (np.arange(0, size, block) for size in values.shape)
    return np.asarray(np.fmax.reduceat(np.fmax.reduceat(values, rows, axis=0), columns, axis=1))
