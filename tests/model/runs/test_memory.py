"""Running out of memory is told in a sentence, and holds on to nothing."""

from __future__ import annotations

import platform
import weakref

import psutil
import pytest
import torch

from ropewalk.model.engine import engine
from ropewalk.model.errors import MemoryBudgetError
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.runs.memory import give_back, within_memory

CPU_WORDS = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
kept: list[weakref.ref[torch.Tensor]] = []


@within_memory
def failing(kind: type[Exception], words: str) -> Steps[int]:
    big = torch.zeros(1000)
    kept.append(weakref.ref(big))
    yield Progress(0, 1, "Working")
    raise kind(words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(torch.OutOfMemoryError, "CUDA out of memory."), (MemoryError, "no room"), (RuntimeError, CPU_WORDS)],
)
def test_running_out_of_memory_is_explained_and_its_handle_is_gone(kind: type[Exception], words: str) -> None:
    kept.clear()
    with pytest.raises(MemoryBudgetError, match="Memory ran out") as refusal:
        finished(failing(kind, words))
    assert words in refusal.value.details
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
    assert kept[0]() is None


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_running_out_of_memory_while_opening_is_explained_too(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_room(*args: object, **options: object) -> Steps[object]:
        yield Progress(0, 1, "Loading the weights")
        raise kind(CPU_WORDS)

    monkeypatch.setattr(engine, "open_steps", without_room)
    with pytest.raises(MemoryBudgetError, match=r"what was being opened has been given up; .* fewer of its layers\."):
        finished(engine.open_model(None, "cpu", "float32"))


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="something else"):
        finished(failing(RuntimeError, "something else"))


def test_results_and_progress_pass_through() -> None:
    @within_memory
    def working() -> Steps[int]:
        yield Progress(1, 2, "Working")
        return 7

    steps = working()
    assert next(steps) == Progress(1, 2, "Working")
    assert finished(steps) == 7


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Only glibc keeps what was freed and can be asked for it")
def test_what_was_freed_between_pieces_that_live_on_goes_back_to_the_system() -> None:
    process, size = psutil.Process(), 64 << 10
    pieces = [torch.ones(size, dtype=torch.uint8) for _ in range(1024)]
    full = process.memory_info().rss
    pieces = pieces[::16]
    give_back()
    assert full - process.memory_info().rss > 1024 * size * 3 // 4
    assert sum(int(piece[-1]) for piece in pieces) == len(pieces)


def test_an_absurd_allocation_on_the_cpu_is_recognised() -> None:
    @within_memory
    def greedy() -> Steps[torch.Tensor]:
        yield from ()
        return torch.empty(1 << 60)

    with pytest.raises(MemoryBudgetError, match="Memory ran out"):
        finished(greedy())
