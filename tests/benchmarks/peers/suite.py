"""Which measurements are taken, in which order, in which process. No torch here: processes do the measuring."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from ropewalk.model.progress import Progress, Steps
from tests.benchmarks.peers import figures
from tests.benchmarks.peers.process import Measuring, Numbers
from tests.benchmarks.peers.report import Figure, Report

QUICK_SECONDS = 52.0
"""A quick run is over by then: what has not begun is left out, what has is given up."""
SIZES = (128, 512, 2048, 8192)
LONG_SIZES = (8192, 32_768)
PICTURE_SIZES = (2048, 8192, 32_768)
EAGER_UP_TO = 2048
"""Beyond, eager attention needs more than small machines have: 30 layers × 9 heads × T² × 4 bytes twice over."""

SURVEY_SIZES, SURVEY_TOKENS = (32, 128, 512), 4096
"""Tokens of a text, and of a batch of them."""
SURVEY_TEXTS = 2
"""Texts of 512 tokens in the batch that loops over attention matrices run: TransformerLens keeps 3 GiB of them."""
PEER_NAMES = {"eager": figures.EAGER, "lens": figures.LENS}

Kind = Literal["time", "memory", "alone"]
"""Times are taken in one process after another, memory and whatever may fail each in a process of its own."""


@dataclass(frozen=True)
class Task:
    """One measurement: its name in ``child.py``, about how long it takes, and how its numbers are read."""

    name: str
    what: str
    seconds: float
    read: Callable[[Numbers], list[Figure]]
    kind: Kind = "time"
    section: str = ""
    options: Numbers = field(default_factory=dict)


def bench_steps(path: str | None = None, *, quick: bool = False) -> Steps[Report]:
    """Measure, pausing before each measurement.

    Parameters
    ----------
    path
        A checkpoint of a plain Llama; None for the shapes of SmolLM2-135M with random weights.
    quick
        End within a minute, with fewer and shorter prompts.
    """
    began, report = time.perf_counter(), Report()
    report.model = {"name": path or "SmolLM2-135M's shapes, random weights"}
    with Measuring() as machine:
        report.machine = machine.ask("machine", {})[0] or {}
    tasks = quick_tasks() if quick else full_tasks(path)
    shared: Measuring | None = None
    try:
        for number, task in enumerate(tasks):
            yield Progress(number, len(tasks), task.what)
            left = QUICK_SECONDS - (time.perf_counter() - began) if quick else None
            if left is not None and left < task.seconds:
                report.skipped.append(f"{task.what} (a minute is too short)")
                continue
            if task.kind == "time":
                shared = shared if shared is not None and shared.alive else Measuring()
                numbers, why = shared.ask(task.name, {"path": path, **task.options}, left)
            else:
                with Measuring(exact_memory=task.kind == "memory") as alone:
                    numbers, why = alone.ask(task.name, {"path": path, **task.options}, left)
            report.figures += task.read(numbers) if numbers is not None else [_failed(task, why)]
    finally:
        if shared is not None:
            shared.close()
    report.figures = figures.beside_ours(report.figures)
    report.seconds = time.perf_counter() - began
    return report


def _failed(task: Task, why: str) -> Figure:
    """How it failed, in the table where its numbers would stand."""
    if "No module named" in why:
        name = why.rsplit("'", 2)[-2] if "'" in why else "a peer"
        why = f"{name} is not installed; `make bench` brings it"
    else:
        why = f"failed: {why[:160]}"
    return Figure(task.section, task.what, task.options.get("tokens", 0), note=why)


# ----------------------------------------------------------------------------------------------------------------------
# The two plans


def quick_tasks() -> list[Task]:
    """What a minute allows: every kind of measurement once, at lengths where it is short."""
    return [
        _prefill(128, 3, 2),
        _prefill(512, 1, 4),
        _pictures(2048, 3, 2),
        _pictures(8192, 1, 3),
        _heads(512, 3),
        _decoding(16, 1, 4),
        _generate(16, 1, 6),
        _beside_sdpa(128, 3, 2),
        _eager(128, 1, 2),
        _eager(512, 1, 4),
        _prefill_memory(512, 7),
        _transformer_lens(128, 10),
        _bertviz(128, 10),
        _survey(32, 4, 1, 1),
    ]


def full_tasks(path: str | None) -> list[Task]:
    """Everything; about half an hour on two cores."""
    eager_sizes = [tokens for tokens in SIZES if tokens <= EAGER_UP_TO]
    return [
        *(_prefill(tokens, 5 if tokens < 2048 else 3 if tokens < 8192 else 1, 6) for tokens in SIZES),
        *(_beside_sdpa(tokens, 7 if tokens < 2048 else 3, 20) for tokens in eager_sizes),
        *(_pictures(tokens, 3, 5) for tokens in PICTURE_SIZES),
        _heads(512, 3),
        _heads(2048, 8),
        _decoding(64, 3, 10),
        _generate(64, 5, 60),
        *(_eager(tokens, 3 if tokens < 2048 else 1, 20) for tokens in eager_sizes),
        *(_prefill_memory(tokens, 10) for tokens in SIZES),
        *(_eager_memory(tokens, 20) for tokens in eager_sizes),
        *(_transformer_lens(tokens, 30) for tokens in eager_sizes),
        _whole_process(512, 5, 120),
        *(_bertviz(tokens, 30) for tokens in eager_sizes),
        *(_survey(tokens, SURVEY_TOKENS // tokens, 3, 90) for tokens in SURVEY_SIZES),
        *(_survey_loop(kind, 512, SURVEY_TEXTS, 3, 60) for kind in ("eager", "lens")),
        *(_survey_memory(kind, 512, SURVEY_TEXTS, 20) for kind in ("", "_of_eager", "_of_lens")),
        _many_runs(200, 200),
        *(_long(tokens, 900) for tokens in LONG_SIZES if path is None or tokens <= 8192),
    ]


def _prefill(tokens: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "times": times}
    what, read = f"Prefill of {tokens:,} tokens", partial(figures.prefill, tokens)
    return Task("prefill", what, seconds, read, section=figures.PREFILL, options=options)


def _beside_sdpa(tokens: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "times": times}
    what, read = f"Prefill of {tokens:,} tokens beside transformers", partial(figures.beside_sdpa, tokens)
    return Task("capture_beside_sdpa", what, seconds, read, section=figures.PREFILL, options=options)


def _pictures(tokens: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "times": times}
    what, read = f"Pictures of {tokens:,} tokens", partial(figures.pictures, tokens)
    return Task("pictures", what, seconds, read, section=figures.LOOKING, options=options)


def _heads(tokens: int, seconds: float) -> Task:
    what, read = f"All heads at {tokens:,} tokens", partial(figures.heads, tokens)
    return Task("heads", what, seconds, read, section=figures.HEADS, options={"tokens": tokens})


def _decoding(steps: int, times: int, seconds: float) -> Task:
    options = {"steps": steps, "times": times}
    what = "Decoding against memory"
    return Task("decoding", what, seconds, figures.decoding, section=figures.DECODING, options=options)


def _generate(steps: int, times: int, seconds: float) -> Task:
    options = {"steps": steps, "times": times}
    what, read = "Decoding beside transformers", figures.beside_generate
    return Task("decoding_beside_generate", what, seconds, read, section=figures.DECODING, options=options)


def _eager(tokens: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "times": times}
    what, read = f"transformers, eager, {tokens:,} tokens", partial(figures.peer_time, figures.EAGER, tokens)
    return Task("eager", what, seconds, read, section=figures.PEERS, options=options)


def _eager_memory(tokens: int, seconds: float) -> Task:
    what, read = f"transformers' memory, {tokens:,} tokens", partial(figures.peer_memory, figures.EAGER, tokens)
    return Task("eager_memory", what, seconds, read, "memory", figures.PEERS, {"tokens": tokens})


def _prefill_memory(tokens: int, seconds: float) -> Task:
    what, read = f"Memory of {tokens:,} tokens", partial(figures.memory, tokens)
    return Task("prefill_memory", what, seconds, read, "memory", figures.MEMORY, {"tokens": tokens})


def _transformer_lens(tokens: int, seconds: float) -> Task:
    what, read = f"TransformerLens, {tokens:,} tokens", partial(figures.peer, "TransformerLens", tokens)
    return Task("transformer_lens", what, seconds, read, "alone", figures.PEERS, {"tokens": tokens})


def _whole_process(tokens: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "times": times}
    what, read = f"All head scores of {tokens:,} tokens, whole process", partial(figures.whole_process, tokens)
    return Task("heads_of_a_process", what, seconds, read, "alone", figures.PEERS, options)


def _bertviz(tokens: int, seconds: float) -> Task:
    what, read = f"BertViz, {tokens:,} tokens", partial(figures.bertviz, tokens)
    return Task("bertviz", what, seconds, read, "alone", figures.PEERS, {"tokens": tokens})


def _survey(tokens: int, texts: int, times: int, seconds: float) -> Task:
    options = {"tokens": tokens, "texts": texts, "times": times}
    what, read = f"A survey at {tokens:,} tokens", partial(figures.survey, tokens, texts)
    return Task("survey_speed", what, seconds, read, section=figures.SURVEYS, options=options)


def _survey_loop(kind: Literal["eager", "lens"], tokens: int, texts: int, times: int, seconds: float) -> Task:
    options, name = {"tokens": tokens, "texts": texts, "times": times}, PEER_NAMES[kind]
    what, read = f"A survey beside {name}", partial(figures.survey_loop, name, tokens, texts)
    return Task(f"survey_beside_{kind}", what, seconds, read, "alone", figures.SURVEYS, options)


def _survey_memory(kind: Literal["", "_of_eager", "_of_lens"], tokens: int, texts: int, seconds: float) -> Task:
    name = PEER_NAMES.get(kind.removeprefix("_of_"), "")
    read = partial(figures.survey_memory_of, name) if name else figures.survey_memory
    what, options = f"Memory of a survey, {name or 'ours'}", {"tokens": tokens, "texts": texts}
    return Task(f"survey_memory{kind}", what, seconds, partial(read, tokens, texts), "memory", figures.SURVEYS, options)


def _many_runs(runs: int, seconds: float) -> Task:
    what = f"{runs} runs in a row"
    return Task("many_runs", what, seconds, figures.many_runs, "alone", figures.MEMORY, {"runs": runs})


def _long(tokens: int, seconds: float) -> Task:
    what, read = f"A prompt of {tokens:,} tokens", partial(figures.long, tokens)
    return Task("long_prefill", what, seconds, read, "memory", figures.LONG, {"tokens": tokens})
