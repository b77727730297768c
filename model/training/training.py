"""Makes the bundled model: a small decoder trained on a text mixed with sequences that repeat themselves.

Repeats at a random period teach a model to look back for what followed the last time (an induction head, Olsson et al.
2022, arXiv:2209.11895); a fixed period would teach an offset only. Such heads form slowly beside text, so training
opens with rows that are short and mostly repeat, until their loss falls; then come the text and the long rows. The rows
of a step follow from the seed and the state of the run alone, so a run that was stopped goes on exactly where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Change, intervening
from ropewalk.model.errors import TrainingError
from ropewalk.model.limits import regular
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import TrainingHistory
from ropewalk.model.tokens.tokenizer import Tokenizer, train_tokenizer
from ropewalk.model.training.grading import Grades, grade_steps, side_by_side, token_losses
from ropewalk.model.training.heads_kept import Kept, history_of, kept_from, kept_tensors, look_at_heads, map_ids
from ropewalk.model.training.history import write_history
from ropewalk.model.training.model_card import write_card
from ropewalk.model.training.saving import WEIGHTS, save_folder

STATE = "training.safetensors"
"""The state of an unfinished run, in the folder where the model will be."""
NOTE = "ropewalk_training"
"""Key of the state's JSON in the header of that file."""
NOTED = ("step", "text_loss", "repeat_loss", "opened", "checks")
"""What that JSON holds of a run."""
SHORTEST_PERIOD = 4
BEGIN_SHARE = 0.1
"""Rows of text that begin with the end of the text before."""
SMALLEST_CONTEXT = 48
CLIP = 1.0
"""The largest norm of a step's gradient."""
SMOOTHING = 0.9
"""How much of a running loss is kept at each step."""


@dataclass(frozen=True)
class TrainOptions:
    """What to train and how. The defaults make the bundled model.

    Attributes
    ----------
    layers, width, heads, kv_heads, vocabulary, context
        L, D, H, Hkv, V and the number of positions.
    head_width, mlp_width
        Dh and F; by default D / H and 3 · D.
    steps, tokens_a_step, learning_rate, warm_up, weight_decay
        AdamW with a linear warm-up and a cosine down to a hundredth. Norm gains do not decay: QK-norm's has to grow, or
        no head could be sharp.
    dropout
        Share of the numbers that the embedding and every sub-layer add to the stream that are dropped, after the
        opening. All rows alike: where only text is dropped from, its absence tells the model that a row repeats.
    opening_share, repeat_share, late_repeat_share
        Share of the rows that repeat themselves: in the opening, after it, and at the end.
    solved, longest_opening
        The opening, which has short rows only, ends when the loss on repeats falls below ``solved`` nats, or after that
        share of the steps.
    qk_gain, gain_rate, residual_start
        What the gains of QK-norm start with, how much faster than matrices gains learn, and what the matrices that add
        to the stream are multiplied by at the start.
    validation_share
        Share of the text, its end, that is kept for measuring.
    check_every
        Steps between two looks at the validation text, each of which also saves the state.
    keep_every
        Steps between two looks at what every head does, which are kept.
    """

    layers: int = 4
    width: int = 128
    heads: int = 8
    kv_heads: int = 2
    head_width: int | None = None
    mlp_width: int | None = None
    vocabulary: int = 1024
    context: int = 512
    steps: int = 3500
    tokens_a_step: int = 4608
    learning_rate: float = 3e-3
    warm_up: int = 200
    weight_decay: float = 0.1
    dropout: float = 0.1
    opening_share: float = 0.9
    repeat_share: float = 0.5
    late_repeat_share: float = 0.4
    solved: float = 1.0
    longest_opening: float = 0.5
    qk_gain: float = 1.5
    gain_rate: float = 5.0
    residual_start: float = 0.2
    validation_share: float = 0.1
    check_every: int = 250
    keep_every: int = 75
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "tokens_a_step",
            "check_every",
            "keep_every",
            "learning_rate",
            "qk_gain",
            "gain_rate",
            "residual_start",
        ):
            if not getattr(self, name) > 0:
                raise TrainingError(f"The option {name} is {getattr(self, name)}, but it must be above 0.")
        for name in ("dropout", "opening_share", "repeat_share", "late_repeat_share", "validation_share"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingError(f"The option {name} is {getattr(self, name)}, but it must be from 0 to below 1.")
        if self.context < SMALLEST_CONTEXT:
            raise TrainingError(
                f"The context is {self.context} tokens, but rows that repeat themselves need at least "
                f"{SMALLEST_CONTEXT}."
            )
        if self.head_width is None and self.width % self.heads:
            raise TrainingError(
                f"The width {self.width} cannot be cut into {self.heads} heads evenly; choose others, or give the head "
                "width."
            )

    @property
    def config(self) -> ModelConfig:
        """The decoder that is trained."""
        return ModelConfig(
            vocabulary=self.vocabulary,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_width=self.width // self.heads if self.head_width is None else self.head_width,
            mlp_width=3 * self.width if self.mlp_width is None else self.mlp_width,
            max_position=self.context,
            qk_norm="head",
            tied=True,
        )


@dataclass(frozen=True)
class Trained:
    """A finished run: the folder with the checkpoint, and what it is worth."""

    folder: Path
    grades: Grades


# ----------------------------------------------------------------------------------------------------------------------
# The text


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text cut in two by position, and its vocabulary, which only the first part was used for.

    Attributes
    ----------
    training, validation
        [N] ids each.
    """

    name: str
    digest: str
    tokenizer: Tokenizer
    training: Tensor
    validation: Tensor


def read_text(path: Path) -> str:
    """Read a text file.

    Raises
    ------
    TrainingError
        When it is missing or not UTF-8.
    """
    try:
        return regular(path, piped=True).read_text(encoding="utf-8")
    except OSError as error:
        raise TrainingError(f"There is no text to read at {path}; give a UTF-8 text file.", str(error)) from error
    except UnicodeDecodeError as error:
        raise TrainingError(f"{path.name} is not UTF-8 text; convert it first.", str(error)) from error


def split_text(text: str, validation_share: float) -> tuple[str, str]:
    """Cut a text by position into what is trained on and what is kept for measuring."""
    cut = len(text) - int(len(text) * validation_share)
    return text[:cut], text[cut:]


def read_corpus(path: Path, options: TrainOptions) -> Corpus:
    """Read a text, make a vocabulary from its first part, and turn both parts into ids.

    Raises
    ------
    TrainingError, TokenizerError
        When there is no such text or it is too short.
    """
    text = read_text(path)
    first, rest = split_text(text, options.validation_share)
    tokenizer = train_tokenizer(first, options.vocabulary)
    training, validation = (torch.tensor(tokenizer.encode(part), dtype=torch.long) for part in (first, rest))
    for name, ids in (("train", training), ("validate", validation)):
        if len(ids) < 2 * options.context:
            raise TrainingError(
                f"{path.name} gives {len(ids)} tokens to {name} on, but a context of {options.context} needs at least "
                f"{2 * options.context}; give a longer text or a shorter context."
            )
    return Corpus(path.name, hashlib.sha256(text.encode()).hexdigest(), tokenizer, training, validation)


# ----------------------------------------------------------------------------------------------------------------------
# The rows of a step


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of one step; those that repeat come first.

    Attributes
    ----------
    ids
        [B, T].
    counted
        [B, T − 1] bool, which predictions count: nobody can guess the first round of a repeat.
    repeats
        How many rows repeat.
    """

    ids: Tensor
    counted: Tensor
    repeats: int


def row_lengths(context: int) -> tuple[tuple[int, float], ...]:
    """Lengths of rows and how often each is drawn: mostly short ones, some that reach the last position."""
    return (context * 3 // 16, 0.4), (context // 4, 0.15), (context // 2, 0.15), (context, 0.3)


def draw_batch(
    text: Tensor, options: TrainOptions, step: int, share: float, opening: bool = False, begin: int | None = None
) -> Batch:
    """The rows of step ``step``.

    Parameters
    ----------
    text
        [N] ids.
    share
        Share of the rows that repeat themselves.
    opening
        Whether this is the opening, when all rows have the shortest length and only random tokens repeat: with tokens
        of the text among them, heads that look back had not formed after 1,750 steps.
    begin
        The special token that some rows of text begin with.
    """
    o = options
    draw = torch.Generator().manual_seed(o.seed * 1_000_003 + step)
    length = _draw_length(o.context, opening, draw)
    rows = max(2, o.tokens_a_step // length)
    repeats = round(rows * share)
    starts = torch.randint(len(text) - length + 1, (rows, 1), generator=draw)
    ids = text[starts + torch.arange(length)]  # [B, T]
    counted = torch.ones(rows, length - 1, dtype=torch.bool)
    if begin is not None:
        begins = torch.rand(rows, generator=draw) < BEGIN_SHARE
        ids[begins, 0] = begin
    for row in range(repeats):
        period = int(torch.randint(SHORTEST_PERIOD, length // 2 + 1, (), generator=draw))
        of_text = row % 2 == 1 and not opening
        once = _tokens_of(text, period, draw) if of_text else torch.randint(o.vocabulary, (period,), generator=draw)
        ids[row] = once.repeat(length // len(once) + 1)[:length]
        counted[row, : len(once)] = False
    return Batch(ids, counted, repeats)


def _tokens_of(text: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """Tokens of the text in random order, each once, at most ``count``.

    Among random tokens a comma or a new line is rare, and a head that looks back by one would not learn to do it there;
    each comes once because what follows a token that comes twice cannot be found by looking back by one.
    """
    found: Tensor = torch.unique(text[torch.randint(len(text), (count,), generator=draw)])
    return found[torch.randperm(len(found), generator=draw)]


def _draw_length(context: int, short: bool, draw: torch.Generator) -> int:
    lengths, shares = zip(*row_lengths(context), strict=True)
    drawn = int(torch.multinomial(torch.tensor(shares), 1, generator=draw))
    return int(lengths[0 if short else drawn])


# ----------------------------------------------------------------------------------------------------------------------
# A step


@dataclass(eq=False)
class Run:
    """Everything that changes while training.

    Attributes
    ----------
    text_loss, repeat_loss
        Running means in nats, None before the first step.
    opened
        The step at which the opening ended, None while it lasts.
    checks
        What each look at the validation text found.
    losses
        A pair for each step: of its rows of text, and of those that repeat.
    kept
        What each look at the heads found.
    """

    model: Decoder
    optimizer: torch.optim.AdamW
    step: int = 0
    text_loss: float | None = None
    repeat_loss: float | None = None
    opened: int | None = None
    checks: list[dict[str, float]] = field(default_factory=list)
    losses: list[tuple[float, float]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def share(self, options: TrainOptions) -> float:
        """The share of the next step's rows that repeat: fixed in the opening, then falling to its late value."""
        if self.opened is None:
            return options.opening_share
        through = (self.step - self.opened) / max(1, options.steps - self.opened)
        return options.repeat_share + (options.late_repeat_share - options.repeat_share) * through

    def saw(self, text: float, repeats: float, options: TrainOptions) -> None:
        """Take note of a step's losses, NaN where it had no such rows, and end the opening when it is over."""
        self.step += 1
        self.losses.append((text, repeats))
        self.text_loss = _running(self.text_loss, text)
        self.repeat_loss = _running(self.repeat_loss, repeats)
        solved = self.repeat_loss is not None and self.repeat_loss < options.solved
        if self.opened is None and (solved or self.step >= options.longest_opening * options.steps):
            self.opened = self.step


def _running(mean: float | None, new: float) -> float | None:
    if math.isnan(new):
        return mean
    return new if mean is None else SMOOTHING * mean + (1 - SMOOTHING) * new


def new_run(options: TrainOptions) -> Run:
    """A model with random weights and its optimiser."""
    model = Decoder(options.config, seed=options.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query_norm" in name or "key_norm" in name:
                parameter.fill_(options.qk_gain)
            elif name.endswith(("attn.output.weight", "mlp.down.weight")):
                parameter.mul_(options.residual_start)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay, "rate": 1.0},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0, "rate": options.gain_rate},
    ]
    return Run(model, torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=True))


def learning_rate(options: TrainOptions, step: int) -> float:
    """A linear warm-up, then a cosine down to a hundredth."""
    o = options
    if step < o.warm_up:
        return o.learning_rate * (step + 1) / o.warm_up
    through = (step - o.warm_up) / max(1, o.steps - o.warm_up)
    return o.learning_rate * (0.01 + 0.99 * (1 + math.cos(math.pi * through)) / 2)


def train_step(run: Run, batch: Batch, options: TrainOptions) -> None:
    """Take one step, and let the run take note of its losses."""
    for group in run.optimizer.param_groups:
        group["lr"] = group["rate"] * learning_rate(options, run.step)
    share = 0.0 if run.opened is None else options.dropout
    with torch.enable_grad(), _dropping(run.model, share, options.seed * 1_000_003 + run.step):
        logits = run.model(batch.ids)[:, :-1]
        losses = functional.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
        losses[batch.counted].mean().backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), CLIP)
    run.optimizer.step()
    run.optimizer.zero_grad()
    seen, n = losses.detach(), batch.repeats
    run.saw(float(seen[n:].mean()), float(seen[:n][batch.counted[:n]].mean()), options)


@contextmanager
def _dropping(model: Decoder, share: float, seed: int) -> Iterator[None]:
    """Drop some of what the embedding and every sub-layer add to the stream."""
    draw = torch.Generator().manual_seed(seed)

    def drop(x: Tensor) -> Tensor:
        return x * torch.empty_like(x).bernoulli_(1 - share, generator=draw).div_(1 - share)

    names = [name for layer in range(model.config.layers) for name in _added(layer)]
    changes: dict[str, Change] = dict.fromkeys(("hook_embed", *names), drop) if share else {}
    with intervening(model, changes):
        yield


def _added(layer: int) -> tuple[str, str]:
    return f"blocks.{layer}.hook_attn_out", f"blocks.{layer}.hook_mlp_out"


# ----------------------------------------------------------------------------------------------------------------------
# The state of an unfinished run


def save_state(path: Path, run: Run, options: TrainOptions, digest: str) -> None:
    """Write weights, optimiser and step into one file, whole or not at all."""
    tensors = {f"weight.{name}": parameter.detach() for name, parameter in run.model.named_parameters()}
    for name, parameter in run.model.named_parameters():
        for key, value in run.optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value
    tensors |= kept_tensors(run.kept)
    tensors["losses"] = torch.tensor(run.losses, dtype=torch.float32)
    note = {"options": asdict(options), "text": digest} | {name: getattr(run, name) for name in NOTED}
    part = path.with_name(path.name + ".part")
    save_file(tensors, part, metadata={NOTE: json.dumps(note)})
    os.replace(part, path)


def load_state(path: Path, options: TrainOptions, digest: str) -> Run:
    """Go on from a state.

    Raises
    ------
    TrainingError
        When it cannot be read, or is of another text or recipe.
    """
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads(file.metadata()[NOTE])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{path.name} in {path.parent.name} is not the state of a training run; remove it to start again.",
            str(error),
        ) from error
    _check_same(note, options, digest, path)
    run = new_run(options)
    for name in NOTED:
        setattr(run, name, note[name])
    run.losses = [(text, repeats) for text, repeats in tensors["losses"].tolist()]
    run.kept = kept_from(tensors)
    for name, parameter in run.model.named_parameters():
        with torch.no_grad():
            parameter.copy_(tensors[f"weight.{name}"])
        moments = {key: tensors.get(f"{key}.{name}") for key in ("step", "exp_avg", "exp_avg_sq")}
        if None not in moments.values():
            run.optimizer.state[parameter] = moments
    return run


def _check_same(note: Mapping[str, Any], options: TrainOptions, digest: str, path: Path) -> None:
    wanted = asdict(options)
    for option in fields(options):
        found = note["options"].get(option.name)
        if found != wanted[option.name]:
            raise TrainingError(
                f"{path.parent.name} holds an unfinished run with {option.name} {found}, but {wanted[option.name]} was "
                "asked for; use another folder, or the same options to go on."
            )
    if note["text"] != digest:
        raise TrainingError(
            f"{path.parent.name} holds an unfinished run on another text; use another folder, or the same text to go "
            "on."
        )


# ----------------------------------------------------------------------------------------------------------------------
# The whole run


def train(text: Path, out: Path, options: TrainOptions | None = None) -> Steps[Trained]:
    """Train a model, or go on where a run in ``out`` was stopped, and write it as a checkpoint folder.

    Closing the generator saves the state first. The same seed on the same machine gives the same model.

    Parameters
    ----------
    text
        A UTF-8 text file; its end is kept for measuring.
    out
        The folder to make.

    Raises
    ------
    TrainingError, TokenizerError, ConfigError
        When the text is missing or too short, the options contradict each other, or ``out`` holds something else.
    """
    options = TrainOptions() if options is None else options
    state = out / STATE
    if (out / WEIGHTS).exists() and not state.exists():
        raise TrainingError(f"{out.name} already holds a model; choose another folder.")
    corpus = read_corpus(text, options)
    run = load_state(state, options, corpus.digest) if state.exists() else new_run(options)
    _make_folder(out)
    try:
        yield from _steps(run, corpus, options, state)
    except GeneratorExit:
        save_state(state, run, options, corpus.digest)
        raise
    if not run.kept or run.kept[-1].step < run.step:
        run.kept.append(look_at_heads(run.model, run.step))
    save_state(state, run, options, corpus.digest)
    run.model.eval()
    grades = yield from grade_steps(run.model, corpus.validation)
    write_history(out, _history(run))
    save_folder(out, run.model, corpus.tokenizer)
    write_card(out, run.model, grades, recipe={"text": corpus.name, "sha256": corpus.digest, **asdict(options)})
    state.unlink()
    return Trained(out, grades)


def grade_folder(folder: Path, text: Path | None = None) -> Steps[Grades]:
    """Measure a checkpoint, on the end of a text if one is given: the part that training keeps for measuring.

    Raises
    ------
    CheckpointError, TrainingError
        When the folder cannot be opened, or the text is missing or too short.
    """
    checkpoint = open_checkpoint(folder)
    ids = None
    if text is not None:
        if checkpoint.tokenizer is None:
            raise TrainingError(f"{folder.name} has no tokenizer, so text cannot be measured.")
        kept = split_text(read_text(text), TrainOptions.validation_share)[1]
        ids = torch.tensor(checkpoint.tokenizer.encode(kept, add_special=False), dtype=torch.long)
    return (yield from grade_steps(checkpoint.model, ids))


def _history(run: Run) -> TrainingHistory:
    """What is kept of a finished run beside its weights."""
    text, repeats = np.array(run.losses, dtype=np.float32).reshape(-1, 2).T
    return history_of(
        run.kept,
        text_loss=text,
        repeat_loss=repeats,
        checked=np.array([check["step"] for check in run.checks], dtype=np.int64),
        validation_loss=np.array([check["validation_loss"] for check in run.checks], dtype=np.float32),
        ids=np.array(map_ids(run.model), dtype=np.int64),
        opened=run.opened,
    )


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"The folder {out} cannot be made; choose another place.", str(error)) from error


def _steps(run: Run, corpus: Corpus, options: TrainOptions, state: Path) -> Iterator[Progress]:
    """All steps that are left."""
    while run.step < options.steps:
        if run.step % options.keep_every == 0:
            run.kept.append(look_at_heads(run.model, run.step))
        share, opening = run.share(options), run.opened is None
        batch = draw_batch(corpus.training, options, run.step, share, opening, corpus.tokenizer.eos_id)
        train_step(run, batch, options)
        if run.step % options.check_every == 0:
            run.checks.append({"step": run.step, "validation_loss": validation_loss(run.model, corpus.validation)})
            save_state(state, run, options, corpus.digest)
        yield Progress(run.step, options.steps, _progress_text(run))


def validation_loss(model: Decoder, ids: Tensor, windows: int = 16) -> float:
    """Nats a token in some windows of the validation text, evenly spaced."""
    cut = side_by_side(ids, model.config.max_position)
    chosen = cut[:: max(1, len(cut) // windows)]
    return float(torch.cat([token_losses(model, row[None]) for row in chosen]).mean())


def _progress_text(run: Run) -> str:
    losses = {"text": run.text_loss, "repeats": run.repeat_loss}
    if run.checks:
        losses["validation"] = run.checks[-1]["validation_loss"]
    return "Training: loss on " + ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items() if loss is not None)
