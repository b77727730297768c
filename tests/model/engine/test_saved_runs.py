"""Runs from trace files: looked at without weights, and gone on with on the checkpoint that they were made with."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ropewalk.model.decoder.interventions import AblateHeads, Intervention, RopeScaling, ScaleScores
from ropewalk.model.decoder.product_names import Products
from ropewalk.model.engine import engine, saved_runs
from ropewalk.model.engine.interface import ModelHandle, OpenedTrace, RunHandle
from ropewalk.model.engine.questions import (
    AskArithmetic,
    AskAtlas,
    AskCache,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLens,
    AskNextToken,
    AskNextTokenDifference,
    AskPlanes,
    AskRow,
    AskRules,
    AskScoreChanges,
    AskTraining,
    Question,
)
from ropewalk.model.errors import CheckpointError, MemoryBudgetError, OtherCheckpointError, RopewalkError, TraceError
from ropewalk.model.options import PROMPT as WHICH
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.runs.trace import append, capture
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import load_trace, save_trace
from tests.closeness import assert_identical
from tests.model.checkpoints import reference
from tests.model.checkpoints.reference import CASES, PROMPT, Case

GREEDY = Sampling()
KINDS = {
    "rope": ("llama", "plain"),
    "learned positions": ("gpt2", "plain"),
    "window": ("mistral", "window"),
    "soft caps": ("gemma2", "plain"),
    "sinks": ("gpt_oss", "plain"),
    "rules by length": ("phi3", "longrope"),
}
IDS = tuple(range(3, 3 + PROMPT))


def case_of(kind: str) -> Case:
    return next(case for case in CASES if (case.family, case.variant) == KINDS[kind])


def opened(path: Path) -> OpenedTrace:
    return finished(engine.open_trace(finished(engine.open_model(str(path), "cpu", "float32")), 5))


def run(model: ModelHandle, *interventions: Intervention, steps: int = 3) -> RunHandle:
    made = finished(engine.run(model, Prompt.of_ids(IDS), 1, (0, 0), interventions=interventions))
    return finished(engine.step(made, steps, GREEDY)) if steps else made


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of every way to score."""
    return reference.save(reference.build(case_of(request.param)), tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference.save(reference.build(case_of("rope")), tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def saved(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was decoded, in a file."""
    path = tmp_path_factory.mktemp("saved") / "run.safetensors"
    handle = run(finished(engine.open_model(str(llama), "cpu", "float32")))
    engine.save(handle, path, drawn=[Sampling(0.5, seed=3)] * 3)
    return path


def goes_on_alike(handle: RunHandle, path: Path, checkpoint: Path) -> None:
    """A run that was saved and is attached again decodes the tokens that the run itself decodes, as it does."""
    engine.save(handle, path)
    before = opened(path)
    assert before.interventions == handle.trace.interventions
    attached = finished(engine.attach(before.handle, str(checkpoint), "cpu"))
    ours, theirs = handle.trace, attached.trace
    for token in (7, 8, 9, 10):
        ours = append(handle.model_handle.checkpoint.model, ours, token)
        theirs = append(attached.model_handle.checkpoint.model, theirs, token)
    assert theirs.specs == ours.specs
    for mine, its in zip(ours.rows, theirs.rows, strict=True):
        assert torch.allclose(mine.tensor, its.tensor, rtol=1e-5, atol=1e-5)
    at_row = ours.length - 1
    mine_, its_ = ours.logits_of(at_row), theirs.logits_of(at_row)
    assert mine_ is not None
    assert its_ is not None
    assert torch.allclose(mine_, its_, rtol=1e-5, atol=1e-5)


def test_an_attached_run_goes_on_as_the_run_that_was_saved(folder: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(folder), "cpu", "float32"))
    goes_on_alike(run(model, AblateHeads(1, (0, 2)), ScaleScores(1.5)), tmp_path / "run.safetensors", folder)


def test_an_experiment_on_an_attached_run_changes_nothing_before_it(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROPEWALK_PRODUCTS", "numpy")
    engine.save(run(finished(engine.open_model(str(llama), "cpu", "float32")), steps=0), tmp_path / "run.safetensors")
    monkeypatch.setenv("ROPEWALK_PRODUCTS", "onednn")
    attached = finished(engine.attach(opened(tmp_path / "run.safetensors").handle, str(llama), "cpu"))
    ablated = [AblateHeads(1, (0,))]
    experiment = finished(engine.run(attached.model_handle, Prompt.of_ids(IDS), 2, interventions=ablated))
    assert experiment.trace.products == attached.trace.products == Products.of("numpy")
    assert_identical(experiment.trace[1].keys.tensor, attached.trace[1].keys.tensor)


@pytest.mark.parametrize("rule", ["yarn", "dynamic"])
def test_a_stretched_run_goes_on_with_its_rotation(rule: str, llama: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    limit = model.card.config.max_position
    stretch = RopeScaling("yarn" if rule == "yarn" else "dynamic", 2.0)
    ids = [1 + place % 50 for place in range(limit - 1)]
    made = finished(engine.run(model, Prompt.of_ids(ids), 1, (0, 0), interventions=[stretch]))
    handle = finished(engine.step(made, 4, GREEDY))
    assert handle.run.length > limit
    goes_on_alike(handle, tmp_path / "run.safetensors", llama)


def test_a_run_in_the_middle_of_its_steps_is_saved_as_it_is_in_view(llama: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    handle = run(model)
    shorter = RunHandle(replace(handle.run, length=PROMPT + 1), model, handle.trace)
    engine.save(shorter, tmp_path / "run.safetensors", drawn=[GREEDY] * 3)
    back = opened(tmp_path / "run.safetensors")
    assert (back.handle.run.length, back.handle.run.newest, len(back.drawn)) == (PROMPT + 1, PROMPT + 1, 1)


def test_a_file_says_where_its_checkpoint_was_from_anywhere(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(llama.parent)
    model = finished(engine.open_model(llama.name, "cpu", "float32"))
    engine.save(run(model, steps=0), tmp_path / "run.safetensors")
    origin = opened(tmp_path / "run.safetensors").handle.model_handle.origin
    assert origin is not None
    assert origin.path == str(llama)


def test_a_file_says_what_it_is_of(saved: Path, llama: Path) -> None:
    back = opened(saved)
    origin, run = back.handle.model_handle.origin, back.handle.run
    assert origin is not None
    assert (origin.name, origin.path, origin.family, len(origin.fingerprint)) == (llama.name, str(llama), "llama", 64)
    assert (run.run_id, run.prompt, run.prefill, run.length) == (5, " ".join(map(str, IDS)), PROMPT, PROMPT + 3)
    assert back.handle.prompt == Prompt.of_ids(IDS)
    assert back.drawn == (Sampling(0.5, seed=3),) * 3
    assert [token.id for token in run.tokens] == back.handle.trace.ids[0].tolist()
    assert back.handle.model_handle.notice == ""


# ----------------------------------------------------------------------------------------------------------------------
# Without weights

READ: list[Question] = [
    AskHead(1, 2),
    AskAtlas(),
    AskRow(1, 2, 5),
    AskCell(1, 2, 5, 3),
    AskPlanes(1, 2, 5, 3),
    AskCache(),
    AskNextToken(5, 3, GREEDY),
    AskRules(1),
    AskTraining(),
    AskHeadDifference(1, 2),
    AskScoreChanges(),
    AskNextTokenDifference(),
]


@pytest.mark.parametrize("question", READ, ids=lambda question: type(question).__name__)
def test_what_needs_no_weights_is_answered(question: Question, saved: Path) -> None:
    handle, other = opened(saved).handle, opened(saved).handle
    assert handle.can == {"attention", "tokens", "logits", "rotation"}
    found = finished(engine.answer(replace(handle, baseline=other), question))
    assert found is not None or isinstance(question, AskTraining)


def test_what_needs_weights_says_what_to_attach(saved: Path, llama: Path) -> None:
    handle = opened(saved).handle
    model = handle.model_handle
    for refused in (
        lambda: finished(engine.answer(handle, AskArithmetic(0, 0, 3, 1))),
        lambda: finished(engine.answer(handle, AskLens())),
        lambda: finished(engine.step(handle, 1, GREEDY)),
        lambda: finished(engine.branch(handle, PROMPT, 3)),
        lambda: finished(engine.run(model, Prompt.of_ids(IDS), 2)),
        lambda: finished(engine.length_of(model, Prompt.of_ids(IDS))),
    ):
        with pytest.raises(TraceError, match=rf"; attach its checkpoint \({llama.name}\)\.$"):
            refused()


def test_logits_that_were_not_kept_are_not_made_up(llama: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    engine.save(finished(engine.run(model, Prompt.of_ids(IDS), 1, (0, 0), "last")), tmp_path / "run.safetensors")
    handle = opened(tmp_path / "run.safetensors").handle
    assert finished(engine.answer(handle, AskNextToken(PROMPT - 1, 3, GREEDY))).replayed is False
    with pytest.raises(TraceError, match="The logits of row 2 were not kept with this run; attach its checkpoint"):
        finished(engine.answer(handle, AskNextToken(2, 3, GREEDY)))


def test_a_model_is_no_trace(llama: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    with pytest.raises(TraceError, match="is no trace file, so it has no run of its own"):
        finished(engine.open_trace(model, 1))
    with pytest.raises(TraceError, match="This run has its checkpoint"):
        finished(engine.attach(run(model, steps=0), str(llama), "cpu"))


# ----------------------------------------------------------------------------------------------------------------------
# Attaching


def test_a_copy_of_the_checkpoint_is_the_checkpoint(saved: Path, llama: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(llama, copy)
    attached = finished(engine.attach(opened(saved).handle, str(copy), "cpu"))
    assert attached.run.model.path == str(copy)
    assert "decode" in attached.can
    cached = tmp_path / "models--org--name"
    shutil.copytree(llama, cached / "snapshots" / "0a1b")
    assert "decode" in finished(engine.attach(opened(saved).handle, str(cached), "cpu")).can


def test_other_weights_have_to_be_confirmed(saved: Path, llama: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(llama, other)
    weights = load_file(other / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"] + 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    handle = opened(saved).handle
    with pytest.raises(OtherCheckpointError, match="but the files of other are not those") as caught:
        finished(engine.attach(handle, str(other), "cpu"))
    assert caught.value.confirm
    attached = finished(engine.attach(handle, str(other), "cpu", confirmed=True))
    assert finished(engine.step(attached, 2, GREEDY)).run.length == PROMPT + 5
    with pytest.raises(OtherCheckpointError, match="but the files of the built-in model are not those"):
        finished(engine.attach(handle, None, "cpu"))


@pytest.mark.parametrize(("name", "error", "says"), [
    ("absent", CheckpointError, "There is nothing at"),
    ("empty", OtherCheckpointError, "are not those"),
])  # fmt: skip
def test_a_place_without_the_checkpoint(
    name: str, error: type[RopewalkError], says: str, saved: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=says):
        finished(engine.attach(opened(saved).handle, str(tmp_path / name), "cpu"))


def test_a_checkpoint_of_other_shapes_cannot_be_confirmed(saved: Path) -> None:
    with pytest.raises(TraceError, match=r"bundled has \d+ query heads, but the run was made with 6") as caught:
        finished(engine.attach(opened(saved).handle, None, "cpu", confirmed=True))
    assert not caught.value.confirm


def test_a_run_that_does_not_fit_into_memory_stays_as_it_is(
    saved: Path, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_runs, "free_bytes", lambda device: 100)
    with pytest.raises(MemoryBudgetError, match=r"Going on with 23 tokens takes .* but 100 B are free"):
        finished(engine.attach(opened(saved).handle, str(llama), "cpu"))


def test_the_first_layers_of_a_checkpoint_are_attached_as_they_were_open(llama: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32", options={"first_layers": 2}))
    goes_on_alike(run(model), tmp_path / "run.safetensors", llama)


def test_a_file_that_names_interventions_without_saying_them_goes_nowhere(
    saved: Path, llama: Path, tmp_path: Path
) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    engine.save(run(model, AblateHeads(1, (0,))), tmp_path / "run.safetensors")
    with safe_open(str(tmp_path / "run.safetensors"), framework="pt") as file:
        header = file.metadata()
    old = {name: header[name] for name in ("format", "version", "axes", "config", "specs", "strings", "run")}
    save_file(load_file(tmp_path / "run.safetensors"), tmp_path / "old.safetensors", metadata=old)
    handle = opened(tmp_path / "old.safetensors").handle
    assert "The file names L1H0 → 0, but not in full" in handle.model_handle.notice
    assert "does not say which checkpoint" in handle.model_handle.notice
    with pytest.raises(TraceError, match="Capture it again"):
        finished(engine.attach(handle, str(llama), "cpu", confirmed=True))


def test_a_file_of_0_2_without_interventions_goes_on_once_that_is_confirmed(
    saved: Path, llama: Path, tmp_path: Path
) -> None:
    with safe_open(str(saved), framework="pt") as file:
        header = file.metadata()
    old = {name: header[name] for name in ("format", "version", "axes", "config", "specs", "strings", "run")}
    save_file(load_file(saved), tmp_path / "old.safetensors", metadata=old)
    handle = opened(tmp_path / "old.safetensors").handle
    assert handle.prompt == Prompt.of_ids(IDS)
    with pytest.raises(OtherCheckpointError, match="does not say which checkpoint it was made with"):
        finished(engine.attach(handle, str(llama), "cpu"))
    attached = finished(engine.attach(handle, str(llama), "cpu", confirmed=True))
    assert finished(engine.step(attached, 1, GREEDY)).run.length == PROMPT + 4


def test_a_file_of_several_prompts_is_opened_one_at_a_time(llama: Path, tmp_path: Path) -> None:
    model = finished(engine.open_model(str(llama), "cpu", "float32"))
    path, ids = tmp_path / "several.safetensors", torch.tensor([IDS, IDS[::-1]])
    save_trace(capture(model.checkpoint.model, ids), path)
    looked = finished(engine.outline(str(path), {}))
    assert [(one.option, one.choices, one.assumed) for one in looked.choices] == [(WHICH, (1, 2), 1)]
    for which, shown in ((1, IDS), (2, IDS[::-1])):
        there = finished(engine.open_model(str(path), "cpu", "float32", options={WHICH: which}))
        handle = finished(engine.open_trace(there, 1)).handle
        assert there.card.name == f"several.safetensors (prompt {which} of 2)"
        assert there.options == ((WHICH, which),)
        assert [token.id for token in handle.run.tokens] == list(shown)
        assert torch.equal(handle.trace[1].keys.tensor[0], load_trace(path).trace[1].keys.tensor[which - 1])
    for wrong in (0, 3, "2"):
        with pytest.raises(TraceError, match="holds 2 prompts, counted from 1"):
            finished(engine.open_model(str(path), "cpu", "float32", options={WHICH: wrong}))
