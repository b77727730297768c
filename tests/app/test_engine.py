"""The engine on a tiny real checkpoint: runs, steps, branches, and every question a panel may ask."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.processes import new_session
from ropewalk.app.session.opening import DEFAULT_PROMPT
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine import engine
from ropewalk.model.engine.interface import Engine, ModelHandle, RunHandle
from ropewalk.model.engine.questions import (
    AskAtlas,
    AskCache,
    AskCachedCheck,
    AskCell,
    AskHead,
    AskLedger,
    AskNextToken,
    AskPlanes,
    AskRefined,
    AskRow,
    Question,
)
from ropewalk.model.errors import CheckpointError, DeviceError, PromptError, TokenizerError
from ropewalk.model.progress import Partial, Progress, finished
from ropewalk.model.readings.records import HeadPatch, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import load_trace


@pytest.fixture(scope="module")
def model_handle(tiny: Path) -> ModelHandle:
    """The tiny checkpoint."""
    return finished(engine.open_model(str(tiny), "cpu", "float32"))


@pytest.fixture(scope="module")
def handle(model_handle: ModelHandle) -> RunHandle:
    """A run of twelve tokens."""
    return finished(engine.run(model_handle, Prompt("abcdefabcdef"), 7))


def ask(handle: RunHandle, question: Question) -> Any:
    return finished(engine.answer(handle, question))


def test_the_module_is_what_the_session_expects() -> None:
    module: Engine = engine
    assert module is engine


def test_a_model_is_described(model_handle: ModelHandle, tiny: Path) -> None:
    card = model_handle.card
    assert (card.path, card.device, card.dtype, card.family) == (str(tiny), "cpu", "float32", "qwen3")
    assert card.weight_bytes == 4 * card.parameters
    assert card.has_tokenizer
    assert model_handle.devices[0] == "cpu"


def test_a_run_is_described(handle: RunHandle) -> None:
    run = handle.run
    assert (run.run_id, run.length, run.prefill, run.newest, run.first_logit_row) == (7, 12, 12, 12, 0)
    assert "".join(token.text for token in run.tokens) == "abcdefabcdef"
    assert run.trace_bytes == handle.trace.kept_bytes
    assert run.seconds > 0


def test_the_first_cell_is_the_head_with_the_clearest_stripe(handle: RunHandle) -> None:
    atlas = ask(handle, AskAtlas())
    layer, head, query, key = handle.cell
    assert atlas.scores["induction"][layer, head] == np.max(atlas.scores["induction"])
    assert query == 11
    assert key == int(np.argmax(ask(handle, AskRow(layer, head, query)).weights))


def test_the_head_in_view_is_kept_unless_the_model_lacks_it(model_handle: ModelHandle) -> None:
    assert finished(engine.run(model_handle, Prompt("abc"), 1, (1, 2))).cell[:2] == (1, 2)
    assert finished(engine.run(model_handle, Prompt("abc"), 1, (9, 2))).cell[:2] == (0, 0)
    assert finished(engine.run(model_handle, Prompt("a"), 1)).cell == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("prompt", "error", "words"),
    [
        (Prompt(""), PromptError, "empty"),
        (Prompt("x" * 70), PromptError, "70 tokens.*64.*6 shorter"),
        (Prompt("\ud800"), TokenizerError, "surrogate"),
        (Prompt.of_ids([]), PromptError, "empty"),
        (Prompt.of_ids([1, 9999]), PromptError, "9999"),
        (Prompt.of_ids([-1]), PromptError, "-1 is not there; the ids of this model are 0 to 255"),
        (Prompt.of_ids([3, 10**30]), PromptError, "31 digits"),
    ],
)
def test_a_prompt_that_cannot_be_run_is_a_sentence(
    model_handle: ModelHandle, prompt: Prompt, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        finished(engine.run(model_handle, prompt, 1))


def test_why_a_tokenizer_is_not_read_is_said_where_text_is_typed(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "unread")
    (folder / "tokenizer.json").write_text("", encoding="utf-8")
    handle = finished(engine.open_model(str(folder), "cpu", "float32"))
    with pytest.raises(PromptError, match=r"type token ids such as 1, 2, 3\. tokenizer\.json is empty"):
        finished(engine.run(handle, Prompt("abc"), 1))


def test_what_was_assumed_about_a_tokenizer_is_said_when_it_opens(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "moved")
    config = {"added_tokens_decoder": {"900": {"content": "<new>"}}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    handle = finished(engine.open_model(str(folder), "cpu", "float32"))
    assert handle.notice == "<new> has the id 256, as in transformers, though the files give it 900."
    assert handle.notice in handle.checkpoint.notes
    with pytest.raises(PromptError, match="Token id 256 is not there; the ids of this model are 0 to 255"):
        finished(engine.run(handle, Prompt("a<new>"), 1))


def test_without_a_tokenizer_ids_are_typed(wordless: Path) -> None:
    model_handle = finished(engine.open_model(str(wordless), "cpu", "float32"))
    assert not model_handle.card.has_tokenizer
    handle = finished(engine.run(model_handle, Prompt("3, 1 2"), 1))
    assert [token.id for token in handle.run.tokens] == [3, 1, 2]
    assert [token.text for token in handle.run.tokens] == ["#3", "#1", "#2"]
    longer = finished(engine.step(handle, 2, Sampling())).run.tokens
    assert [token.text for token in longer] == ["#3", "#1", "#2", *(f"#{token.id}" for token in longer[3:])]
    assert engine.text_of(model_handle, [3, 1]) == "3 1"
    with pytest.raises(PromptError, match="no tokenizer"):
        finished(engine.run(model_handle, Prompt("hello"), 1))
    with pytest.raises(PromptError, match="256 is not there"):
        finished(engine.run(model_handle, Prompt("3 256"), 1))
    with pytest.raises(PromptError, match="5000 digits"):
        finished(engine.run(model_handle, Prompt("3 " + "9" * 5000), 1))


def test_a_device_or_a_path_that_is_not_there(tiny: Path) -> None:
    with pytest.raises(DeviceError, match="cpu"):
        finished(engine.open_model(str(tiny), "warp", "float32"))
    with pytest.raises(DeviceError, match="float32"):
        finished(engine.open_model(str(tiny), "cpu", "float7"))
    with pytest.raises(CheckpointError, match="nothing-here"):
        finished(engine.open_model("/nothing-here", "cpu", "float32"))


def test_steps_grow_the_run_and_an_earlier_step_branches(handle: RunHandle) -> None:
    longer = finished(engine.step(handle, 3, Sampling()))
    assert (longer.run.length, longer.run.newest, longer.run.prefill) == (15, 15, 12)
    assert longer.trace.length == 15
    assert handle.trace.length == 12
    at_thirteen = RunHandle(_with_length(longer, 13).run, longer.model_handle, longer.trace)
    branch = finished(engine.step(at_thirteen, 1, Sampling(temperature=50.0, seed=3)))
    assert branch.run.length == 14
    assert [token.id for token in branch.run.tokens[:13]] == [token.id for token in longer.run.tokens[:13]]
    same = finished(engine.step(at_thirteen, 2, Sampling()))
    assert [token.id for token in same.run.tokens] == [token.id for token in longer.run.tokens]


def test_decoding_stops_where_the_text_ends(handle: RunHandle, tiny: Path, tmp_path: Path) -> None:
    free = [token.id for token in finished(engine.step(handle, 8, Sampling())).run.tokens]
    at = next(at for at in range(14, 19) if free[at] not in free[12:at])  # the first of its kind, after two others
    folder = shutil.copytree(tiny, tmp_path / "ending")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [free[at], 3_000]}), encoding="utf-8")
    model_handle = finished(engine.open_model(str(folder), "cpu", "float32"))
    assert model_handle.card.ends == (free[at],), "an id that the model does not have is none"
    run = finished(engine.run(model_handle, Prompt("abcdefabcdef"), 7))
    ended = finished(engine.step(run, 8, Sampling()))
    assert [token.id for token in ended.run.tokens] == free[: at + 1]
    assert ended.run.ends_at(at + 1)
    again = finished(engine.step(ended, 19 - at, Sampling(), past_end=True))
    assert [token.id for token in again.run.tokens] == free
    assert finished(engine.step(run, 8, Sampling(), past_end=True)).run.length == 20


def _with_length(handle: RunHandle, length: int) -> RunHandle:
    from dataclasses import replace

    return replace(handle, run=replace(handle.run, length=length))


def test_no_step_past_the_last_position(handle: RunHandle) -> None:
    with pytest.raises(PromptError, match="64"):
        finished(engine.step(handle, 53, Sampling()))


def test_a_job_pauses_at_every_layer_and_says_how_far_it_is(model_handle: ModelHandle) -> None:
    points = list(engine.run(model_handle, Prompt("abc"), 1))
    assert all(isinstance(point, Progress) for point in points)
    assert len(points) >= 2
    steps = list(engine.step(finished(engine.run(model_handle, Prompt("abc"), 1)), 2, Sampling()))
    assert {point.total for point in steps} == {2}


def test_a_prompt_in_chunks_gives_the_same_run(
    model_handle: ModelHandle, handle: RunHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "chunk_rows", lambda config, tokens, alone=False: 5)
    chunked = finished(engine.run(model_handle, Prompt("abcdefabcdef"), 7))
    for layer, head in ((0, 0), (1, 3)):
        one, other = (ask(run, AskHead(layer, head)).weights.values for run in (handle, chunked))
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_every_question_is_answered_about_the_rows_in_view(handle: RunHandle) -> None:
    longer = finished(engine.step(handle, 2, Sampling()))
    view = _with_length(longer, 13)
    assert ask(view, AskHead(1, 2)).weights.rows == (0, 13)
    assert ask(view, AskAtlas(8)).thumbnails.shape[:2] == (2, 4)
    row = ask(view, AskRow(1, 2, 12))
    assert row.weights.shape == (13,)
    assert math.isclose(float(row.weights.sum()), 1.0, abs_tol=1e-5)
    assert ask(view, AskCell(1, 2, 12, 4)).weight == pytest.approx(float(row.weights[4]), abs=1e-9)
    planes = ask(view, AskPlanes(1, 2, 12, 4))
    assert float(planes.shares.sum()) + planes.rest == pytest.approx(planes.scaled, abs=1e-6)
    assert ask(view, AskCache()).length == 13
    following = ask(view, AskNextToken(11, 5, Sampling()))
    assert len(following.candidates) == 5
    assert following.actual is not None
    assert following.actual.token.id == longer.run.tokens[12].id
    assert not following.replayed
    prefill, decode = ask(view, AskLedger(1))
    assert (prefill.tokens, prefill.past) == (12, 0)
    assert (decode.tokens, decode.past) == (1, 12)
    for ledger in (prefill, decode):
        assert all(entry.check.passed for entry in ledger.entries if entry.check is not None)
    assert ask(handle, AskLedger(0))[1] is None


def test_the_candidates_show_their_text(handle: RunHandle) -> None:
    reading = ask(handle, AskNextToken(11, 3, Sampling()))
    assert all(not candidate.token.text.startswith("#") for candidate in reading.candidates)


def test_a_trace_without_its_checkpoint_shows_their_text_too(handle: RunHandle, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    for _ in range(2):  # what was opened so is saved again with all that it knew
        finished(engine.save_steps(handle, path))
        opened = finished(engine.open_trace(finished(engine.open_model(str(path), "cpu", "float32")), 5)).handle
        for query in (0, 11):
            want = [one.token.text for one in ask(handle, AskNextToken(query, 40, Sampling())).candidates]
            assert [one.token.text for one in ask(opened, AskNextToken(query, 40, Sampling())).candidates] == want
        handle = opened


def test_cached_and_full_logits_agree(handle: RunHandle) -> None:
    for steps in (0, 1, 20):
        run = handle if steps == 0 else finished(engine.step(handle, steps, Sampling()))
        check = ask(run, AskCachedCheck())
        assert check.rows == 12 + steps
        assert check.holds
        assert check.difference < 1e-4
        assert check.explained == ""


def test_a_broken_cache_is_found_out(handle: RunHandle) -> None:
    longer = finished(engine.step(handle, 1, Sampling()))
    broken = finished(engine.step(handle, 1, Sampling()))
    broken.trace[0].keys.tensor[:, :, 0] += 1.0
    assert not ask(finished(engine.step(broken, 1, Sampling())), AskCachedCheck()).holds
    assert longer.run.length == 13


def test_half_precision_runs(tiny: Path) -> None:
    model_handle = finished(engine.open_model(str(tiny), "cpu", "bfloat16"))
    handle = finished(engine.step(finished(engine.run(model_handle, Prompt("abcabc"), 1)), 3, Sampling()))
    assert ask(handle, AskCachedCheck()).holds
    assert ask(handle, AskPlanes(0, 0, 5, 2)).approximate
    assert ask(handle, AskHead(0, 0)).weights.values.dtype == np.float32


def test_a_run_is_saved_as_it_is_in_view(handle: RunHandle, tmp_path: Path) -> None:
    longer = finished(engine.step(handle, 2, Sampling()))
    engine.save(_with_length(longer, 13), tmp_path / "run.safetensors", pattern=True)
    back = load_trace(tmp_path / "run.safetensors")
    assert back.trace.length == 13
    assert back.strings == (*"abcdefabcdef", longer.run.tokens[12].text)


def test_a_session_drives_the_engine_on_its_thread(qtbot: QtBot, store: SettingsStore, tiny: Path) -> None:
    session = new_session(store)
    answers: list[Any] = []
    try:
        session.opening.begin(str(tiny), Prompt("abcabc"))
        qtbot.waitUntil(lambda: session.consistency.check is not None and not session.busy, timeout=60_000)
        with qtbot.waitSignal(session.settled, timeout=60_000):
            session.timeline.step()
            session.timeline.step()
        qtbot.waitUntil(lambda: session.run is not None and session.run.length == 8 and not session.busy)
        with qtbot.waitSignal(session.settled, timeout=60_000):
            session.timeline.step_back()
            session.ask("scores", AskHead(1, 2), answers.append)
        assert answers[0].value.weights.rows == (0, 7)
        assert session.consistency.check is not None
        assert session.consistency.check.holds
    finally:
        session.close()


def test_the_first_thing_anyone_sees_is_an_induction_stripe() -> None:
    model_handle = finished(engine.open_model(None, "cpu", "float32"))
    handle = finished(engine.run(model_handle, Prompt(DEFAULT_PROMPT), 1))
    layer, head, query, key = handle.cell
    scores, _, undefined = engine.scores_of(handle)
    assert "induction" not in undefined
    assert scores["induction"][layer, head] >= 0.6
    assert (query, key) == (handle.run.length - 1, handle.run.length // 2)


def test_ids_are_run_where_they_are_asked_for_and_special_tokens_left_out(model_handle: ModelHandle) -> None:
    handle = finished(engine.run(model_handle, Prompt("5, 6 7", as_ids=True), 1))
    assert [token.id for token in handle.run.tokens] == [5, 6, 7]
    assert handle.prompt == Prompt("5, 6 7", as_ids=True)
    with pytest.raises(PromptError, match="Ids were asked for"):
        finished(engine.run(model_handle, Prompt("hello", as_ids=True), 1))
    with pytest.raises(PromptError, match="the ids of this model are 0 to"):
        finished(engine.run(model_handle, Prompt("5 9999999", as_ids=True), 1))


def test_an_outline_states_costs_without_loading(tiny: Path, model_handle: ModelHandle) -> None:
    found = finished(engine.outline(str(tiny), {}))
    assert found.parameters == model_handle.card.parameters
    assert found.bytes_in["float32"] == model_handle.card.weight_bytes
    config = model_handle.card.config
    assert found.kv_bytes_in["float32"] == 2 * 1000 * config.layers * config.kv_heads * config.head_width * 4
    assert found.holds_weights


def test_a_refined_picture_is_the_same_in_parts_and_as_a_whole(handle: RunHandle) -> None:
    asked = AskHead(0, 1, pixels=4)
    steps = engine.answer(handle, AskRefined(asked))
    parts, whole = [], None
    while whole is None:
        try:
            point = next(steps)
        except StopIteration as stop:
            whole = stop.value
        else:
            if isinstance(point, Partial) and isinstance(point.reading, HeadPatch):
                parts.append(point.reading)
    picture = np.zeros_like(whole.weights.values)
    for part in parts:
        height, width = part.weights.shape
        picture[part.top : part.top + height, part.left : part.left + width] = part.weights
    assert np.array_equal(picture, whole.weights.values)
    assert whole.weights.reduction == "max"
    assert np.allclose(picture, ask(handle, asked).weights.values, atol=1e-6)
