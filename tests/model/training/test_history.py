"""What is kept of a training run: the heads at checkpoints, the losses of its steps, and a file that says both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import TrainingError
from ropewalk.model.progress import Steps, finished
from ropewalk.model.readings.records import TrainingHistory
from ropewalk.model.runs.trace import capture
from ropewalk.model.training.heads_kept import look_at_heads, map_ids
from ropewalk.model.training.history import HISTORY, LARGEST, NOTE, read_history, write_history
from ropewalk.model.training.training import Trained, TrainOptions, train
from tests.closeness import assert_close

OPTIONS = TrainOptions(
    layers=2, width=16, heads=4, kv_heads=2, vocabulary=270, context=64,
    steps=7, tokens_a_step=128, warm_up=2, check_every=3, keep_every=2,
)  # fmt: skip
TEXT = " ".join(("the cat sat", "on a mat and", "saw two rats")[place * place % 3] for place in range(900))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "plays.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "plays.txt"
    path.write_text(TEXT, encoding="utf-8")
    return finished(train(path, path.with_name("small"), OPTIONS)).folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "small")


def history_in(folder: Path) -> TrainingHistory:
    history = read_history(folder)
    assert history is not None
    return history


def equal(one: TrainingHistory, other: TrainingHistory) -> bool:
    pairs = [(getattr(one, part.name), getattr(other, part.name)) for part in fields(one) if part.name != "scores"]
    pairs += [(one.scores[name], other.scores[name]) for name in one.scores]
    return one.scores.keys() == other.scores.keys() and all(
        np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else a == b for a, b in pairs
    )


def test_a_run_keeps_its_losses_and_its_heads_from_the_first_step_to_the_last(folder: Path) -> None:
    history = history_in(folder)
    assert history.steps.tolist() == [0, 2, 4, 6, 7]
    assert history.text_loss.shape == history.repeat_loss.shape == (7,)
    assert np.isfinite(history.text_loss).all()
    assert abs(history.text_loss[0] - np.log(270)) < 1.0, "of a model that knows nothing"
    assert history.checked.tolist() == [3, 6]
    assert history.maps.shape == (5, 2, 4, 32, 32)
    assert np.array_equal(history.ids[:16], history.ids[16:])


def test_what_is_kept_last_is_what_the_model_in_the_folder_does(folder: Path) -> None:
    history, model = history_in(folder), open_checkpoint(folder).model
    trace = capture(model, torch.from_numpy(history.ids)[None])
    for layer in range(2):
        for head in range(4):
            scores = (
                trace[layer]
                .raw_scores(head, dtype=torch.float64)
                .masked_fill(~torch.ones(32, 32).tril().bool(), -torch.inf)
            )
            weights = scores.softmax(-1).numpy()
            np.testing.assert_allclose(history.maps[-1, layer, head], weights, atol=2**-11)  # of a half
    again = look_at_heads(model, 7)
    for name, found in history.scores.items():
        assert_close(found[-1], again.scores[name], terms=48, size=4.0)
    assert not np.allclose(history.scores["previous"][0], history.scores["previous"][-1], atol=1e-4), "it has learnt"


def test_the_previous_token_statistic_is_the_mean_weight_just_before(folder: Path) -> None:
    model = open_checkpoint(folder).model
    kept = look_at_heads(model, 0)
    maps = kept.maps.astype(np.float64)
    assert map_ids(model) == history_in(folder).ids.tolist()
    assert kept.scores["previous"].shape == (2, 4)
    below = np.diagonal(maps, -1, 2, 3).mean(-1)
    np.testing.assert_allclose(kept.scores["previous"], below, atol=0.1)  # other random tokens: near, not equal


def test_a_run_that_was_stopped_keeps_what_one_in_a_row_keeps(text: Path, folder: Path) -> None:
    halting: Steps[Trained] = train(text, text.with_name("halting"), OPTIONS)
    for _ in range(4):
        next(halting)
    halting.close()
    found = finished(train(text, text.with_name("halting"), OPTIONS)).folder
    assert equal(history_in(found), history_in(folder))


def test_a_file_reads_back_and_a_folder_without_one_has_none(folder: Path, tmp_path: Path) -> None:
    history = history_in(folder)
    assert read_history(tmp_path) is None
    write_history(tmp_path, replace(history, opened=3))
    assert equal(history_in(tmp_path), replace(history, opened=3))


@pytest.mark.parametrize("name", ["maps", "steps", "scores.previous", "validation_loss", "ids"])
@pytest.mark.parametrize("fault", ["missing", "short", "other type"])
def test_a_file_whose_parts_do_not_fit_is_refused_by_name(folder: Path, name: str, fault: str) -> None:
    from safetensors import safe_open

    with safe_open(folder / HISTORY, framework="np") as file:
        header = file.metadata()
    arrays = load_file(folder / HISTORY)
    if fault == "missing":
        del arrays[name]
    else:
        arrays[name] = arrays[name][:-1] if fault == "short" else arrays[name].astype(np.uint8)
    save_file(arrays, folder / HISTORY, header)
    with pytest.raises(TrainingError, match="does not hold how a model came to be"):
        read_history(folder)


DAMAGE: dict[str, Callable[[TrainingHistory], TrainingHistory]] = {
    "maps are NaN": lambda h: replace(h, maps=np.full_like(h.maps, np.nan)),
    "a loss is infinite": lambda h: replace(h, text_loss=np.full_like(h.text_loss, np.inf)),
    "validation is NaN": lambda h: replace(h, validation_loss=np.full_like(h.validation_loss, np.nan)),
    "a score is infinite": lambda h: replace(h, scores={name: one - np.inf for name, one in h.scores.items()}),
    "no statistic": lambda h: replace(h, scores={}, formulas={}),
    "no checkpoint": lambda h: replace(
        h, steps=h.steps[:0], maps=h.maps[:0], scores={name: one[:0] for name, one in h.scores.items()}
    ),
    "no token": lambda h: replace(h, ids=h.ids[:0], maps=h.maps[..., :0, :0]),
    "steps before the first": lambda h: replace(h, steps=h.steps - 1),
    "steps stand still": lambda h: replace(h, steps=0 * h.steps),
    "checks go back": lambda h: replace(h, checked=h.checked[::-1]),
    "sequences in words": lambda h: replace(h, sequences="8"),  # type: ignore[arg-type]
    "sequences without end": lambda h: replace(h, sequences=float("inf")),  # type: ignore[arg-type]
    "sequences beyond counting": lambda h: replace(h, sequences=10**30),
    "opened before the first step": lambda h: replace(h, opened=-1),
    "a token below zero": lambda h: replace(h, ids=h.ids - 10_000),
    "a formula that is a number": lambda h: replace(h, formulas=dict.fromkeys(h.formulas, 1)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fault", DAMAGE)
def test_numbers_that_no_training_writes_are_refused(folder: Path, tmp_path: Path, fault: str) -> None:
    write_history(tmp_path, DAMAGE[fault](history_in(folder)))
    with pytest.raises(TrainingError, match="does not hold how a model came to be"):
        read_history(tmp_path)


def test_a_file_that_is_too_large_is_not_read(folder: Path) -> None:
    os.truncate(folder / HISTORY, LARGEST + 1)  # a hole: nothing is written
    with pytest.raises(TrainingError, match="does not hold how a model came to be") as caught:
        read_history(folder)
    assert caught.value.details == f"it has {LARGEST + 1:,} bytes"


@pytest.mark.parametrize(
    "header",
    [None, {}, {NOTE: "["}, {NOTE: "[" * 200_000}, {NOTE: "[]"}, {NOTE: '{"formulas": 1}'}],
    ids=["none", "empty", "broken", "deep", "a list", "no words"],
)
def test_a_file_with_another_header_is_refused(folder: Path, header: dict[str, str] | None) -> None:
    save_file(load_file(folder / HISTORY), folder / HISTORY, header)
    with pytest.raises(TrainingError, match="does not hold"):
        read_history(folder)
    (folder / HISTORY).write_bytes(os.urandom(64))
    with pytest.raises(TrainingError, match="does not hold"):
        read_history(folder)


def test_the_file_of_another_model_is_refused_in_a_sentence(folder: Path) -> None:
    assert read_history(folder, OPTIONS.config) is not None
    for other in (OPTIONS.config.changed(layers=3), OPTIONS.config.changed(vocabulary=3)):
        with pytest.raises(TrainingError, match=r"2 layers of 4 heads and at least \d+ tokens, not of this one"):
            read_history(folder, other)


def test_looking_changes_nothing_of_the_run() -> None:
    model = Decoder(OPTIONS.config, seed=1)
    before, state = {name: p.clone() for name, p in model.named_parameters()}, torch.get_rng_state()
    look_at_heads(model, 0)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    assert torch.equal(state, torch.get_rng_state())
