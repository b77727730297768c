"""The session against an engine without torch: runs, timeline, playing, questions, failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.opening import DEFAULT_PROMPT
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Selection
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.questions import AskAtlas, AskHead, AskRow
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.readings.tiles import TileCache
from ropewalk.model.tokens.prompt import Prompt
from tests.fake_engine import FakeEngine
from tests.in_process import without_packing


class Watch:
    """Everything a session says."""

    def __init__(self, session: Session) -> None:
        self.runs: list[tuple[Run | None, Run | None]] = []
        self.failures: list[tuple[str, str]] = []
        self.selections: list[Selection] = []
        self.checks: list[Any] = []
        self.playing: list[bool] = []
        session.run_changed.connect(lambda before, after: self.runs.append((before, after)))
        self.notices: list[str] = []
        session.noticed.connect(self.notices.append)
        session.failed.connect(lambda sentence, details: self.failures.append((sentence, details)))
        session.selection.changed.connect(lambda before, after: self.selections.append(after))
        session.consistency.check_changed.connect(self.checks.append)
        session.timeline.playing_changed.connect(self.playing.append)


def text(session: Session) -> str:
    """The tokens in view."""
    assert session.run is not None
    return "".join(token.text for token in session.run.tokens[: session.run.length])


def settle(qtbot: QtBot, session: Session, *calls: Any) -> None:
    """Call, and wait until nothing is left to do."""
    with qtbot.waitSignal(session.settled):
        for call in calls:
            call()
    qtbot.waitUntil(lambda: not session.busy)


def test_refined_pictures_keep_what_the_settings_allow(qtbot: QtBot, session: Session, engine: FakeEngine) -> None:
    engine.tiles = TileCache()
    session.settings.update(tile_mib=3)
    settle(qtbot, session, session.opening.begin)
    assert engine.tiles.limit == 3 << 20


# Starting -------------------------------------------------------------------------------------------------------------


def test_the_first_start_opens_the_bundled_model_and_runs_a_prompt_that_repeats(
    qtbot: QtBot, session: Session, engine: FakeEngine
) -> None:
    with qtbot.waitSignal(session.model_changed):
        session.opening.begin()
    qtbot.waitUntil(lambda: not session.busy)
    assert engine.calls[0] == "open None cpu float32"
    assert engine.calls[1] == f"run {DEFAULT_PROMPT} 1 None"
    half = DEFAULT_PROMPT[: len(DEFAULT_PROMPT) // 2].strip()
    assert DEFAULT_PROMPT.count(half) == 2


def test_a_run_says_so_once_and_selects_a_cell_worth_seeing(qtbot: QtBot, session: Session) -> None:
    watch = Watch(session)
    settle(qtbot, session, lambda: session.opening.begin(prompt=Prompt("abc")))
    ((before, after),) = watch.runs
    assert before is None
    assert after is session.run
    assert session.run is not None
    assert session.run.run_id == 1
    assert session.selection.now == Selection(layer=1, head=3, query=2, key=1, step=3)
    assert len(watch.selections) == 1
    assert session.model is not None
    assert session.devices == ("cpu",)
    assert session.consistency.check is not None
    assert session.consistency.check.holds


def test_a_second_run_keeps_the_head_and_grows_the_run_id(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    running.selection.update(layer=0, head=2)
    before = running.run
    watch = Watch(running)
    settle(qtbot, running, lambda: running.start(Prompt("hello")))
    assert engine.calls[-2] == "run hello 2 (0, 2)"
    assert watch.runs == [(before, running.run)]
    assert running.run is not None
    assert running.run.run_id == 2
    assert (running.selection.now.layer, running.selection.now.head, running.selection.now.query) == (0, 2, 4)


def test_what_is_remembered_comes_back(qtbot: QtBot, engine: FakeEngine, store: SettingsStore) -> None:
    engine.devices = ("cpu", "cuda")
    store.update(prompt="again", device="cuda", dtype="bfloat16", sampling=Sampling(seed=5))
    session = Session(store, *without_packing(engine))
    settle(qtbot, session, session.opening.begin)
    assert engine.calls[:2] == ["open None cuda bfloat16", "run again 1 None"]
    assert session.timeline.sampling == Sampling(seed=5)
    session.close()


def test_a_remembered_device_that_is_gone_and_a_prompt_that_does_not_fit_fall_back(
    qtbot: QtBot, engine: FakeEngine, store: SettingsStore
) -> None:
    store.update(prompt="x" * 99, device="cuda")
    session = Session(store, *without_packing(engine))
    watch = Watch(session)
    settle(qtbot, session, session.opening.begin)
    assert [call.split()[0] for call in engine.calls[:4]] == ["open", "open", "run", "run"]
    assert "cuda" in watch.failures[0][0]
    assert "99" in watch.failures[1][0]
    session.close()


def test_a_prompt_typed_before_the_model_is_there_is_run_when_it_is(qtbot: QtBot, session: Session) -> None:
    settle(qtbot, session, session.opening.begin, lambda: session.start(Prompt("early")))
    assert text(session) == "early"


def test_a_prompt_without_a_model_opens_one(qtbot: QtBot, session: Session) -> None:
    settle(qtbot, session, lambda: session.start(Prompt("abc")))
    assert text(session) == "abc"


def test_another_checkpoint_runs_the_prompt_again_and_is_remembered(
    qtbot: QtBot, running: Session, engine: FakeEngine, store: SettingsStore
) -> None:
    engine.devices = ("cpu", "mps")
    settle(qtbot, running, lambda: running.opening.open("/tiny", device="mps"))
    assert running.model is not None
    assert (running.model.path, running.model.device, running.model.dtype) == ("/tiny", "mps", "float32")
    assert text(running) == "abc"
    assert store.now.recent == ("/tiny",)
    assert SettingsStore(store.path).now.device == "mps"


# What goes wrong ------------------------------------------------------------------------------------------------------


def test_a_failed_run_leaves_the_old_one_on_screen(qtbot: QtBot, running: Session) -> None:
    watch, before = Watch(running), running.run
    settle(qtbot, running, lambda: running.start(Prompt("y" * 70)))
    assert running.run is before
    assert watch.failures == [("The prompt has 70 tokens, but the model takes 64.", "folded")]
    assert watch.runs == []


def test_an_empty_prompt_is_refused_in_a_sentence(running: Session) -> None:
    watch, before = Watch(running), running.run
    running.start(Prompt(""))
    assert running.run is before
    assert "empty" in watch.failures[0][0]
    assert not running.busy


def test_a_device_that_is_not_there_leaves_everything_as_it_was(qtbot: QtBot, running: Session) -> None:
    watch, before, card = Watch(running), running.run, running.model
    settle(qtbot, running, lambda: running.opening.open(None, device="cuda"))
    assert running.run is before
    assert running.model is card
    assert watch.failures == [("There is no cuda here; the devices are cpu.", "")]


def test_a_prompt_typed_while_a_model_fails_to_open_runs_on_the_old_one(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    settle(
        qtbot, running, lambda: running.opening.open(None, device="cuda"), lambda: running.start(Prompt("meanwhile"))
    )
    assert text(running) == "meanwhile"
    engine.gate.shut()
    running.start(Prompt("before"))
    assert engine.gate.reached.wait(10)
    settle(qtbot, running, lambda: running.opening.open(None, device="cuda"), engine.gate.open.set)
    assert text(running) == "before"


def test_a_start_with_an_empty_prompt_says_so(qtbot: QtBot, session: Session) -> None:
    watch = Watch(session)
    settle(qtbot, session, lambda: session.opening.begin(prompt=Prompt("")))
    assert "empty" in watch.failures[0][0]
    assert session.run is None


def test_cancel_in_the_middle_of_a_run(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    watch, before = Watch(running), running.run
    engine.gate.shut()
    running.start(Prompt("long"))
    assert engine.gate.reached.wait(10)
    running.cancel()
    assert not running.busy
    engine.gate.open.set()
    qtbot.waitUntil(lambda: engine.closed == ["long"])
    assert running.run is before
    assert watch.runs == []
    assert watch.failures == []
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcd"


def test_a_newer_prompt_replaces_the_older(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    watch = Watch(running)
    engine.gate.shut()
    running.start(Prompt("older"))
    assert engine.gate.reached.wait(10)
    running.start(Prompt("newer"))
    settle(qtbot, running, engine.gate.open.set)
    assert [after.prompt for _, after in watch.runs if after is not None] == ["newer"]


def test_settings_that_cannot_be_written_are_reported_once(qtbot: QtBot, engine: FakeEngine, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    store = SettingsStore(blocker / "settings.json")
    store.notice = ""  # that it could not be read is another matter
    session = Session(store, *without_packing(engine))
    watch = Watch(session)
    for prompt in ("abc", "abcd"):
        with qtbot.waitSignal(session.settled):
            session.start(Prompt(prompt))
    session.close()
    assert [sentence.count("last for this session only") for sentence, _ in watch.failures] == [1]


def test_a_broken_settings_file_is_reported_once(qtbot: QtBot, engine: FakeEngine, store: SettingsStore) -> None:
    store.path.write_text("{", encoding="utf-8")
    session = Session(SettingsStore(store.path), *without_packing(engine))
    watch = Watch(session)
    settle(qtbot, session, session.opening.begin)
    assert len(watch.failures) == 1
    assert "settings file" in watch.failures[0][0]
    session.close()


def test_a_consistency_check_that_fails_is_reported(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    engine.check_fails = True
    watch = Watch(running)
    settle(qtbot, running, running.timeline.step)
    assert "checking cached against full logits" in watch.failures[0][0]
    assert "Traceback" in watch.failures[0][1]


# The timeline ---------------------------------------------------------------------------------------------------------


def test_step_back_and_forth_computes_nothing_twice(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    watch = Watch(running)
    settle(qtbot, running, running.timeline.step)
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcde"
    assert running.run is not None
    assert running.run.run_id == 1
    assert (running.selection.now.query, running.selection.now.step) == (4, 5)
    decodes = sum(call.startswith("step") for call in engine.calls)
    settle(qtbot, running, running.timeline.step_back)
    assert text(running) == "abcd"
    assert running.run.newest == 5
    assert (running.selection.now.query, running.selection.now.step) == (3, 4)
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcde"
    settle(qtbot, running, running.timeline.to_start)
    assert text(running) == "abc"
    running.timeline.step_back()
    assert text(running) == "abc"
    settle(qtbot, running, running.timeline.to_end)
    assert text(running) == "abcde"
    assert sum(call.startswith("step") for call in engine.calls) == decodes == 2
    assert len(watch.runs) == 6
    assert len(watch.selections) == 6


def test_memory_is_given_back_once_for_every_run_that_takes_the_place_of_another(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    settle(qtbot, running, running.timeline.step)
    settle(qtbot, running, running.timeline.step_back)
    assert engine.tidied == 0
    for prompt in ("xyz", "uvw"):
        settle(qtbot, running, lambda prompt=prompt: running.start(Prompt(prompt)))
    assert engine.tidied == 2


def test_a_model_is_measured_once_its_first_run_is_on_screen(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    assert len(engine.measured) == 1
    settle(qtbot, running, running.timeline.step)
    settle(qtbot, running, lambda: running.start(Prompt("xyz")))
    assert len(engine.measured) == 1


def test_steps_asked_for_in_a_row_are_all_taken(qtbot: QtBot, running: Session) -> None:
    with qtbot.waitSignals([running.run_changed] * 3):
        running.timeline.step()
        running.timeline.step()
        running.timeline.step()
    assert text(running) == "abcdef"


def test_a_step_after_a_change_of_sampling_branches(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    settle(qtbot, running, lambda: running.timeline.run_to(6))
    assert text(running) == "abcdef"
    running.timeline.run_to(4)
    running.timeline.set_sampling(Sampling(seed=1))
    settle(qtbot, running, running.timeline.step)
    assert engine.calls[-2] == "step 4+1 1"
    assert text(running) == "abcdf"
    assert running.run is not None
    assert running.run.newest == 5


def test_run_to_decodes_what_is_missing_in_one_job_and_looks_at_what_is_there(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    watch = Watch(running)
    settle(qtbot, running, lambda: running.timeline.run_to(6))
    settle(qtbot, running, lambda: running.timeline.run_to(4))
    settle(qtbot, running, lambda: running.timeline.run_to(8))
    assert [call for call in engine.calls if call.startswith("step")] == ["step 3+3 0", "step 6+2 0"]
    assert text(running) == "abcdefgh"
    assert len(watch.runs) == 3
    settle(qtbot, running, lambda: running.timeline.run_to(0))
    assert text(running) == "abc"


def test_no_step_past_the_last_position(qtbot: QtBot, running: Session) -> None:
    watch = Watch(running)
    running.timeline.run_to(65)
    assert "64 tokens" in watch.failures[0][0]
    assert text(running) == "abc"


def test_play_goes_on_until_it_is_paused(qtbot: QtBot, running: Session) -> None:
    watch = Watch(running)
    running.timeline.set_pace(2)
    running.timeline.toggle_play()
    assert running.timeline.playing
    qtbot.waitUntil(lambda: running.run is not None and running.run.length >= 6)
    running.timeline.toggle_play()
    assert not running.timeline.playing
    qtbot.waitUntil(lambda: not running.busy)
    assert watch.playing == [True, False]
    lengths = [after.length for _, after in watch.runs if after is not None]
    assert lengths == list(range(4, 4 + len(lengths)))


def test_play_ends_with_the_positions(qtbot: QtBot, running: Session) -> None:
    watch = Watch(running)
    with qtbot.waitSignal(running.failed):
        running.timeline.play()
    assert not running.timeline.playing
    assert len(text(running)) == 64
    assert len(watch.failures) == 1


# The end of the text --------------------------------------------------------------------------------------------------


@pytest.fixture
def ending(qtbot: QtBot, session: Session, engine: FakeEngine) -> Session:
    """A session with a run of ``abc`` on screen, in a model whose texts end with ``e``."""
    engine.ends = (ord("e"),)
    with qtbot.waitSignal(session.settled):
        session.opening.begin(prompt=Prompt("abc"))
    return session


@pytest.mark.parametrize("pace", [0, 2])
def test_play_stops_where_the_text_ends_and_goes_on_when_it_is_asked_again(
    qtbot: QtBot, ending: Session, pace: int
) -> None:
    watch = Watch(ending)
    ending.timeline.set_pace(pace)
    ending.timeline.play()
    qtbot.waitUntil(lambda: bool(watch.notices))
    assert not ending.timeline.playing
    assert watch.notices == ["The text ends here, with e; step or play again to go on."]
    qtbot.waitUntil(lambda: not ending.busy)
    assert text(ending) == "abcde"
    assert ending.run is not None
    assert [ending.run.ends_at(length) for length in (3, 4, 5)] == [False, False, True]
    ending.timeline.play()
    qtbot.waitUntil(lambda: len(text(ending)) > 6)
    ending.timeline.pause()
    assert text(ending).startswith("abcdefg")
    assert len(watch.notices) == 1
    assert watch.failures == []


def test_several_tokens_at_once_stop_where_the_text_ends(qtbot: QtBot, ending: Session) -> None:
    watch = Watch(ending)
    settle(qtbot, ending, lambda: ending.timeline.run_to(9))
    assert text(ending) == "abcde"
    assert len(ending.timeline.drawn) == 2
    assert "The text ends here" in watch.notices[0]
    settle(qtbot, ending, lambda: ending.timeline.run_to(9))
    assert text(ending) == "abcdefghi"
    settle(qtbot, ending, lambda: ending.timeline.run_to(3))
    settle(qtbot, ending, ending.timeline.step)
    settle(qtbot, ending, ending.timeline.play)
    assert text(ending) == "abcde", "it ends where it is looked at again, too"
    assert len(watch.notices) == 2
    settle(qtbot, ending, lambda: ending.timeline.run_to(9))
    assert len(watch.notices) == 2


def test_steps_one_by_one_show_the_end_and_go_on(qtbot: QtBot, ending: Session) -> None:
    watch = Watch(ending)
    settle(qtbot, ending, ending.timeline.step)
    settle(qtbot, ending, ending.timeline.step)
    settle(qtbot, ending, ending.timeline.step)
    assert text(ending) == "abcdef"
    assert not watch.notices


def test_steps_that_wait_are_forgotten_at_the_end(qtbot: QtBot, ending: Session) -> None:
    watch = Watch(ending)
    settle(qtbot, ending, *[ending.timeline.step] * 4)
    assert text(ending) == "abcde"
    assert len(watch.notices) == 1


def test_a_prompt_may_name_the_end(qtbot: QtBot, ending: Session) -> None:
    watch = Watch(ending)
    settle(qtbot, ending, lambda: ending.start(Prompt("cde")))
    settle(qtbot, ending, lambda: ending.timeline.run_to(6))
    assert text(ending) == "cdefgh"
    assert not watch.notices


def test_a_picture_has_as_many_tokens_as_it_was_asked_for(qtbot: QtBot, ending: Session) -> None:
    watch = Watch(ending)
    settle(qtbot, ending, lambda: ending.timeline.run_to(9, past_end=True))
    assert text(ending) == "abcdefghi"
    assert not watch.notices


def test_stepping_back_stops_playing(qtbot: QtBot, running: Session) -> None:
    running.timeline.play()
    qtbot.waitUntil(lambda: running.run is not None and running.run.length >= 5)
    running.timeline.step_back()
    assert not running.timeline.playing
    qtbot.waitUntil(lambda: not running.busy)


def test_nothing_to_step_through_is_a_sentence(session: Session) -> None:
    watch = Watch(session)
    session.timeline.step()
    session.timeline.run_to(3)
    session.timeline.step_back()
    session.timeline.to_start()
    session.timeline.to_end()
    session.timeline.play()
    session.ask("rows", AskRow(0, 0, 0), lambda _: None)
    assert len(watch.failures) == 2
    assert not session.busy
    assert session.model is None


def test_bad_sampling_is_refused(running: Session, store: SettingsStore) -> None:
    watch = Watch(running)
    heard: list[Sampling] = []
    running.timeline.sampling_changed.connect(heard.append)
    for bad in (Sampling(temperature=-1), Sampling(top_k=-1), Sampling(top_p=0), Sampling(seed=-1)):
        running.timeline.set_sampling(bad)
    assert len(watch.failures) == 4
    running.timeline.set_sampling(Sampling(temperature=1))
    running.timeline.set_sampling(Sampling(temperature=1))
    assert heard == [Sampling(temperature=1)]
    assert store.now.sampling == Sampling(temperature=1)


# Questions ------------------------------------------------------------------------------------------------------------


def test_an_answer_arrives_with_the_rows_in_view(qtbot: QtBot, running: Session) -> None:
    answers: list[Reading[Any]] = []
    settle(qtbot, running, running.timeline.step)
    settle(qtbot, running, running.timeline.step_back)
    settle(qtbot, running, lambda: running.ask("heads", AskAtlas(), answers.append))
    reading = answers.pop()
    assert reading.value == ("abc", AskAtlas())
    assert reading.run is running.run
    assert (reading.run.run_id, reading.run.length, reading.question) == (1, 3, AskAtlas())
    assert answers == []


def test_the_newest_question_of_a_slot_replaces_the_older(qtbot: QtBot, running: Session) -> None:
    answers: list[Any] = []
    settle(
        qtbot,
        running,
        *(lambda head=head: running.ask("scores", AskHead(0, head), answers.append) for head in range(4)),
        lambda: running.ask("rows", AskRow(0, 1, 1), answers.append),
    )
    values = [reading.value for reading in answers]
    assert values == [("abc", AskHead(0, 3)), ("abc", AskRow(0, 1, 1))]  # the picture asked for comes first


def test_an_answer_about_an_older_run_is_dropped(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    answers: list[Any] = []
    engine.gate.shut()
    running.start(Prompt("new"))
    assert engine.gate.reached.wait(10)
    running.ask("heads", AskAtlas(), answers.append)  # about the old run, and less urgent than the prefill
    settle(qtbot, running, engine.gate.open.set)
    assert any("AskAtlas 1@3" in call for call in engine.calls)
    assert answers == []


def test_an_answer_about_another_length_is_dropped(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    answers: list[Any] = []
    settle(qtbot, running, running.timeline.step)
    engine.gate.shut()
    running.ask("heads", AskAtlas(), answers.append)
    running.timeline.step_back()
    settle(qtbot, running, engine.gate.open.set)
    assert answers == []


def test_close_while_running(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    watch = Watch(running)
    running.start(Prompt("long"))
    running.timeline.play()
    running.close()
    running.close()
    running.ask("heads", AskAtlas(), lambda _: None)
    running.timeline.step()
    assert watch.runs == []
    assert not running.busy


def test_a_large_model_is_proved_on_demand(qtbot: QtBot, session: Session, engine: FakeEngine) -> None:
    watch = Watch(session)
    with qtbot.waitSignal(session.settled):
        session.opening.begin(prompt=Prompt("abc"))
    assert session.consistency.checks_itself
    assert session.consistency.check is not None
    assert session.consistency.branches is None
    run = session.run
    assert run is not None
    large = replace(run, model=replace(run.model, parameters=10**12))
    handle = session.handle
    assert handle is not None
    session._handle = replace(handle, run=large)
    assert not session.consistency.checks_itself
    asked = [call for call in engine.calls if "AskCachedCheck" in call]
    settle(qtbot, session, session.timeline.step)
    assert [call for call in engine.calls if "AskCachedCheck" in call] == asked, "nothing is proved by itself"
    assert session.consistency.check is None
    settle(qtbot, session, lambda: session.consistency.check_now("cached"))
    assert session.consistency.check is not None
    settle(qtbot, session, lambda: session.consistency.check_now("branches"))
    assert any("AskBranchCheck" in call for call in engine.calls)
    assert watch.failures == []


def test_nothing_is_proved_before_a_run(session: Session) -> None:
    watch = Watch(session)
    session.consistency.check_now("cached")
    assert watch.failures == [("There is nothing to prove yet; run a prompt first.", "")]
