"""A CUDA device gives what the CPU gives: ``make test-cuda``, at most four minutes.

Every test runs on the first two CUDA devices of the machine, and on the CPU among the long sweeps, so that the tests
themselves stay whole where there is none. The ordinary run says once that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.engine import engine, questions, running
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.errors import MemoryBudgetError
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.closeness import assert_close, terms_of
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import measure, prompt, read
from tests.model.checkpoints.reference import CASES

FOUND = [f"cuda:{index}" for index in range(min(torch.cuda.device_count(), 2))] if torch.cuda.is_available() else []
on_devices = pytest.mark.parametrize(
    "device",
    [
        *(pytest.param(name, marks=[pytest.mark.cuda, pytest.mark.slow]) for name in FOUND),
        pytest.param("cpu", marks=pytest.mark.slow),
    ],
)
FAMILIES = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "phi3", "gpt_oss", "gpt_neox",
)  # fmt: skip
FIRST = {case.family: case for case in reversed(CASES)}
TEXT = "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer or not to be"
DECODED = 8


@cache
def model_on(device: str) -> ModelHandle:
    """The bundled model."""
    return finished(engine.open_model(None, device, "float32"))


@cache
def run_on(device: str) -> RunHandle:
    """A prompt and eight tokens after it."""
    return finished(engine.step(finished(engine.run(model_on(device), Prompt(TEXT), 1)), DECODED, Sampling()))


def held(device: str) -> int:
    """Bytes that tensors take on a device; the CPU does not count them."""
    return torch.cuda.memory_allocated(device) if device.startswith("cuda") else 0


@pytest.mark.cuda
@pytest.mark.skipif(not FOUND, reason="no CUDA device")
def test_a_device_answers() -> None:
    assert [float(torch.ones(3, device=device).sum()) for device in FOUND] == [3.0] * len(FOUND)


@on_devices
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_equals_transformers(device: str, family: str, tmp_path: Path) -> None:
    found = measure(FIRST[family], tmp_path, device)
    assert found.logits <= 2e-4  # four times what is asked of the CPU, whose order of summing is the reference's
    assert found.weights <= 4e-5
    assert found.spread > 0.05  # otherwise the test could not fail


@on_devices
def test_half_precision_is_near_the_cpus_full_one(device: str, tmp_path: Path) -> None:
    folder = reference.save(reference.build(FIRST["qwen3"]), tmp_path)
    checkpoint = open_checkpoint(folder, device=device, dtype="bfloat16")
    assert {value.device for value in checkpoint.model.parameters()} == {torch.device(device)}
    exact, _ = read(open_checkpoint(folder), prompt(), None, "fused")
    torch.testing.assert_close(read(checkpoint, prompt(), None, "fused")[0].float(), exact, rtol=0.1, atol=0.1)


@on_devices
def test_a_capture_keeps_what_the_cpus_keeps(device: str) -> None:
    ours, expected = run_on(device).trace, run_on("cpu").trace
    config = expected.config
    terms = terms_of(width=config.width, layers=config.layers)
    assert len(ours) == len(expected) == config.layers
    for mine, theirs in zip(ours, expected, strict=True):
        for name in ("queries", "keys", "values", "lse"):
            found: Tensor = getattr(mine, name).tensor
            assert found.device == torch.device(device)
            assert_close(found.cpu(), getattr(theirs, name).tensor, terms)


@on_devices
def test_the_same_tokens_are_decoded(device: str) -> None:
    run, expected = run_on(device).run, run_on("cpu").run
    assert run.length == run.prefill + DECODED
    assert [token.text for token in run.tokens] == [token.text for token in expected.tokens]


@on_devices
@pytest.mark.parametrize(
    "question",
    [
        questions.AskHead(1, 2),
        questions.AskAtlas(),
        questions.AskRow(1, 2, 9),
        questions.AskCell(1, 2, 9, 4),
        questions.AskPlanes(1, 2, 9, 4),
        questions.AskCache(),
        questions.AskNextToken(9, 5, Sampling()),
        questions.AskLedger(1),
        questions.AskCachedCheck(),
        questions.AskBranchCheck(),
        questions.AskArithmetic(1, 2, 9, 4),
        questions.AskAttribution(9, 3),
        questions.AskRules(1),
        questions.AskMean(1, None),
    ],
    ids=lambda question: type(question).__name__,
)
def test_questions_are_answered(device: str, question: questions.Question) -> None:
    assert finished(engine.answer(run_on(device), question)) is not None


@on_devices
def test_a_cancel_gives_everything_back(device: str) -> None:
    model_handle = model_on(device)
    finished(engine.run(model_handle, Prompt(TEXT), 1))
    before = held(device)
    steps = engine.run(model_handle, Prompt(TEXT), 2)
    assert all(isinstance(next(steps), Progress) for _ in range(2))
    steps.close()
    assert held(device) == before
    assert finished(engine.run(model_handle, Prompt(TEXT), 3)).run.run_id == 3


@on_devices
def test_memory_that_runs_out_is_a_sentence(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model_handle = model_on(device)
    before = held(device)

    def too_much(*args: object, **options: object) -> Steps[None]:
        yield Progress(0, 1, "Running")
        torch.empty(1 << 50, dtype=torch.uint8, device=device)

    with monkeypatch.context() as patch:
        patch.setattr(running, "capture_steps", too_much)
        with pytest.raises(MemoryBudgetError, match="make the prompt shorter, or open the model in bfloat16"):
            finished(engine.run(model_handle, Prompt(TEXT), 1))
    assert held(device) == before
    assert finished(engine.run(model_handle, Prompt(TEXT), 2)).run.run_id == 2


@pytest.fixture(autouse=True, scope="module")
def _let_go() -> Iterator[None]:
    """Close the models at the end."""
    yield
    run_on.cache_clear()
    model_on.cache_clear()
