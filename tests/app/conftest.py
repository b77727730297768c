"""An engine without torch, so that jobs and session are tested by themselves."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.door import Held, Opened, Outlined
from app.jobs import Jobs
from app.questions import AskBranchProof, AskProof, Question
from app.session import Session
from app.settings import SettingsStore
from model.config import ModelConfig
from model.errors import CheckpointError, DeviceError, PromptError
from model.experiments import Experiment, check_experiments
from model.progress import Progress
from model.prompt import Prompt
from model.readings import ModelCard, Proof, Run, Sampling, TokenText
from model.spec import AttentionSpec

CONFIG = ModelConfig(
    vocabulary=256, width=16, layers=2, heads=4, kv_heads=2, head_width=4, mlp_width=32, max_position=64
)


class Gate:
    """Holds a job at one of its points until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def shut(self) -> None:
        """Let the next job that comes here wait."""
        self.reached.clear()
        self.open.clear()

    def pass_through(self) -> None:
        """Wait here, on the compute thread, while the gate is shut."""
        self.reached.set()
        assert self.open.wait(10)


@dataclass
class FakeEngine:
    """Tokens are characters; a decoded token is the one after the last; answers say what they were asked."""

    calls: list[str] = field(default_factory=list)
    tidied: int = 0
    closed: list[str] = field(default_factory=list)
    gate: Gate = field(default_factory=Gate)
    devices: tuple[str, ...] = ("cpu",)
    check_fails: bool = False

    def open_model(
        self,
        path: str | None,
        device: str,
        dtype: str,
        *,
        options: Mapping[str, int] | None = None,
    ) -> Generator[Progress, None, Opened]:
        answered = f" {dict(options)}" if options else ""
        self.calls.append(f"open {path} {device} {dtype}{answered}")
        try:
            for layer in range(CONFIG.layers):
                yield Progress(layer, CONFIG.layers, "Loading the weights")
                self.gate.pass_through()
        except GeneratorExit:
            self.closed.append(f"loading {path}")
            raise
        if device not in self.devices:
            raise DeviceError(f"There is no {device} here; the devices are {', '.join(self.devices)}.")
        card = ModelCard(path or "bundled", path or "", CONFIG, 1000, 4000, device, dtype)
        return Opened(card, self.devices, "weights", path == "shapes", tuple((options or {}).items()))

    def outline(self, path: str | None, options: Mapping[str, int]) -> Generator[Progress, None, Outlined]:
        yield Progress(0, 1, "Looking")
        if path == "broken":
            raise CheckpointError("broken is not a checkpoint.")
        sizes = {"float32": 4000, "bfloat16": 2000, "float16": 2000}
        return Outlined(path or "bundled", path or "", "tiny", CONFIG, 1000, sizes, sizes, True)

    def run(
        self,
        opened: Opened,
        prompt: Prompt,
        run_id: int,
        head: tuple[int, int] | None,
        *,
        experiments: Sequence[Experiment] = (),
        decoded: Sequence[int] = (),
    ) -> Generator[Progress, None, Held]:
        changed = "".join(f" [{experiment.label}]" for experiment in experiments)
        text = prompt.text
        meant = "" if prompt == Prompt(text) else f" {prompt}"
        self.calls.append(f"run {text} {run_id} {head}{changed}{meant}")
        check_experiments(experiments, CONFIG)
        try:
            for layer in range(CONFIG.layers):
                yield Progress(layer, CONFIG.layers, "Prefill")
                self.gate.pass_through()
        except GeneratorExit:
            self.closed.append(text)
            raise
        if not text:
            raise PromptError("The prompt is empty.")
        if len(text) > CONFIG.max_position:
            raise PromptError(f"The prompt has {len(text)} tokens, but the model takes 64.", "folded")
        letters = text + "".join(map(chr, decoded))
        tokens = tuple(TokenText(ord(letter), letter) for letter in letters)
        specs = tuple(
            AttentionSpec(layer, CONFIG.heads, CONFIG.kv_heads, CONFIG.head_width, CONFIG.scale, rotary_width=4)
            for layer in range(CONFIG.layers)
        )
        n = len(tokens)
        run = Run(run_id, opened.card, specs, text, tokens, n, len(text), n, 0)
        layer, at = head or (1, 3)
        return Held(run, opened, list(letters), (layer, at, n - 1, max(n - 2, 0)), prompt=prompt)

    def step(self, held: Held, count: int, sampling: Sampling) -> Generator[Progress, None, Held]:
        self.calls.append(f"step {held.run.length}+{count} {sampling.seed}")
        trace = list(held.trace[: held.run.length])
        for done in range(count):
            yield Progress(done, count, "Decoding")
            self.gate.pass_through()
            trace.append(chr(ord(trace[-1]) + 1 + sampling.seed))
        tokens = tuple(TokenText(ord(letter), letter) for letter in trace)
        run = replace(held.run, tokens=tokens, length=len(trace), newest=len(trace))
        return replace(held, run=run, trace=trace)

    def branch(self, held: Held, row: int, token: int) -> Generator[Progress, None, Held]:
        self.calls.append(f"branch {row} {token}")
        yield Progress(0, 1, "Decoding")
        trace = [*held.trace[:row], chr(token)]
        tokens = tuple(TokenText(ord(letter), letter) for letter in trace)
        return replace(held, run=replace(held.run, tokens=tokens, length=row + 1, newest=row + 1), trace=trace)

    def answer(self, held: Held, question: Question) -> Generator[Progress, None, Any]:
        self.calls.append(f"answer {type(question).__name__} {held.run.run_id}@{held.run.length}")
        yield Progress(0, 1, "Working")
        if isinstance(question, AskBranchProof):
            return Proof("branches", held.run.length, 0.0, 1e-4)
        if isinstance(question, AskProof):
            if self.check_fails:
                raise ZeroDivisionError("broken check")
            return Proof("cached", held.run.length, 0.0, 1e-4)
        self.gate.pass_through()
        against = () if held.pinned is None else ("".join(held.pinned.trace[: held.pinned.run.length]),)
        return "".join(held.trace[: held.run.length]), question, *against

    def tidy(self) -> Generator[Progress, None, None]:
        self.tidied += 1
        yield Progress(0, 1, "Tidying")


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    """Jobs whose progress is shown at once."""
    jobs = Jobs(show_after=0.0)
    yield jobs
    jobs.close()


@pytest.fixture
def engine() -> FakeEngine:
    """An engine without torch."""
    return FakeEngine()


@pytest.fixture
def store(tmp_path: Path) -> SettingsStore:
    """Settings in a folder of the test's own."""
    return SettingsStore(tmp_path / "settings.json")


@pytest.fixture
def session(qtbot: QtBot, engine: FakeEngine, store: SettingsStore) -> Iterator[Session]:
    """A session that has opened nothing yet."""
    session = Session(store, engine=lambda: engine)
    session.timeline.set_pace(0)
    yield session
    engine.gate.open.set()
    session.close()


@pytest.fixture
def running(qtbot: QtBot, session: Session) -> Session:
    """A session with a run of ``abc`` on screen and nothing left to do."""
    with qtbot.waitSignal(session.settled):
        session.begin(prompt=Prompt("abc"))
    return session


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint folder."""
    from .tiny_checkpoint import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture(scope="session")
def wordless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint folder without a tokenizer."""
    from .tiny_checkpoint import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "wordless", tokenizer=False)
