"""The player on a real session and engine: steps, scenes, checks, and what the person had open coming back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.checks import Clicked, Entered, example_reply
from ropewalk.app.lessons.player import LessonPlayer
from ropewalk.app.lessons.progress import ProgressStore
from ropewalk.app.lessons.reader import read_lesson
from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.session.state import placed
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.text import plain_text
from ropewalk.model.tokens.prompt import Prompt
from tests.app.filled_lessons import SHELF
from tests.toy_lesson import CLICK_CHECK, DRAWN_CHECK, TOY

LESSON = (
    TOY
    + """
[models.other]
like = "main"
seed = 7
prompt = "c b"

[models.sizes]
kind = "shapes"
config = "llama3_8b"
tokens = 3
past = 5

[models.yours]
kind = "open"

[[step]]
title = "First, with {tokens(main)} tokens"
text = "One."
show = ["tokens", "scores"]
select = { head = 1, query = -1, key = 0 }
highlight = { cells = ["[[2, 0]]"] }

[[step.check]]
id = "count"
kind = "number"
ask = "How many tokens?"
answer = "tokens(main)"
why = "Count."
"""
    + DRAWN_CHECK
    + CLICK_CHECK
    + """
[[step]]
title = "The same run, another cell"
text = "Two."
select = { query = 0 }

[[step]]
title = "Decoded, and changed"
text = "Three."
decode = 2
select = { query = -1, key = -2 }
try = [{ kind = "no_scale" }]

[[step]]
title = "Another toy"
text = "Four."
model = "other"
play = "rotation"

[[step]]
title = "Sizes alone"
text = "Five: {shape(sizes, \\"scores\\", tokens=3, past=5)}."
model = "sizes"

[[step]]
title = "Yours"
text = "Six: {size(open, \\"L\\")}."
model = "yours"
"""
)


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path) -> Iterator[Session]:
    """A session on the real engine."""
    session = new_session(SettingsStore(tmp_path / "settings.json"))
    session.timeline.set_pace(0)
    yield session
    session.close()


@pytest.fixture
def player(qtbot: QtBot, session: Session, tiny: Path, tmp_path: Path) -> LessonPlayer:
    """A player whose session has a tiny checkpoint open, with a run."""
    with qtbot.waitSignal(session.settled, timeout=60_000):
        session.opening.begin(str(tiny), prompt=Prompt("abcdef"))
    return LessonPlayer(session, ProgressStore(tmp_path / "progress.json"))


@pytest.fixture
def lesson() -> Any:
    """A lesson with every kind of model."""
    return read_lesson(LESSON, Path("fifty.toml"))


def settle(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)


def open_lesson(qtbot: QtBot, player: LessonPlayer, lesson: Any, step: int | None = None) -> None:
    player.open(lesson, step)
    settle(qtbot, player.session)


def test_a_step_is_filled_and_its_scene_is_set(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    heard: list[Any] = []
    player.lesson_changed.connect(lambda given: heard.append(("lesson", given)))
    player.step_changed.connect(lambda place: heard.append(("step", place)))
    player.scene_changed.connect(lambda scene: heard.append(("scene", scene)))
    open_lesson(qtbot, player, lesson)
    assert [what for what, _ in heard] == ["lesson", "step", "scene"]
    assert player.filled is not None
    assert plain_text(player.filled.title) == "First, with 3 tokens"
    scene = heard[-1][1]
    assert scene is player.filled.scene
    assert (scene.panels, scene.highlights[0].places) == (("tokens", "scores"), ((2, 0),))
    run, now = player.session.run, player.session.selection.now
    assert run is not None
    assert (run.prompt, run.length, run.model.name, run.model.family) == ("a b c", 3, "toy", "toy")
    assert (now.head, now.query, now.key) == (1, 2, 0)


def test_the_next_step_is_read_in_advance(
    qtbot: QtBot, player: LessonPlayer, lesson: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[int] = []
    urgencies: list[Urgency] = []
    work = player.session.work

    def noted(slot: str, *given: Any, **named: Any) -> None:
        if slot == "lesson step":
            urgencies.append(named["urgency"])
        work(slot, *given, **named)

    monkeypatch.setattr(player.session, "work", noted)
    player.step_filled.connect(lambda place, step: filled.append(place))
    open_lesson(qtbot, player, lesson)
    assert filled == [0, 1]
    assert urgencies == [Urgency.COARSE, Urgency.REFINEMENT]


def test_walking_sets_scenes_and_runs_only_what_differs(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    session = player.session
    open_lesson(qtbot, player, lesson)
    first = session.run
    player.forward()
    settle(qtbot, session)
    assert session.run is first
    assert session.selection.now.query == 0
    player.forward()
    settle(qtbot, session)
    run = session.run
    assert run is not None
    assert (run.length, run.prefill, session.interventions.now) == (5, 3, (NoScale(),))
    assert (session.selection.now.query, session.selection.now.key) == (4, 3)
    player.forward()
    settle(qtbot, session)
    assert session.run is not None
    assert (session.run.prompt, session.run.model.name, session.interventions.now) == ("c b", "toy other", ())
    player.back()
    player.back()
    settle(qtbot, session)
    assert session.run is not None
    assert (session.run.prompt, session.run.length, session.interventions.now) == ("a b c", 3, ())
    assert player.step == 1


def test_a_run_of_the_persons_own_is_put_right_by_the_next_step(
    qtbot: QtBot, player: LessonPlayer, lesson: Any
) -> None:
    session = player.session
    open_lesson(qtbot, player, lesson)
    session.timeline.step()
    settle(qtbot, session)
    assert session.run is not None
    assert session.run.length == 4
    player.forward()
    settle(qtbot, session)
    assert session.run.length == 3


def test_sizes_alone_show_a_ledger_and_leave_the_run(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    open_lesson(qtbot, player, lesson, 3)
    assert player.ledger is None
    run = player.session.run
    player.forward()
    settle(qtbot, player.session)
    assert player.session.run is run
    assert player.ledger is not None
    assert player.ledger.entry("scores").shape == (1, 32, 3, 8)
    assert player.filled is not None
    assert plain_text(player.filled.text) == "Five: 1×32×3×8."


def test_what_the_person_has_open_is_theirs_and_comes_back(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    session = player.session
    yours = session.model_handle
    open_lesson(qtbot, player, lesson)
    assert session.model_handle is not yours
    player.go(5)
    settle(qtbot, session)
    assert session.model_handle is yours
    assert session.run is not None
    assert session.run.prompt == "abcdef"
    assert player.filled is not None
    assert plain_text(player.filled.text) == "Six: 2."
    player.go(0)
    settle(qtbot, session)
    player.close()
    settle(qtbot, session)
    assert player.lesson is None
    assert session.model_handle is yours
    assert session.run.prompt == "abcdef"
    assert session.settings.now.prompt == "abcdef"
    player.close()


def test_another_model_opened_meanwhile_is_theirs_from_then_on(
    qtbot: QtBot, player: LessonPlayer, lesson: Any, wordless: Path
) -> None:
    open_lesson(qtbot, player, lesson)
    player.session.opening.open(str(wordless))
    settle(qtbot, player.session)
    other = player.session.model_handle
    player.go(5)
    settle(qtbot, player.session)
    assert player.session.model_handle is other


class Late:
    """Keeps back what is worked on in a slot, to be handed over when the test says so."""

    def __init__(self, session: Session, slot: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept, self._work = list[tuple[Any, Any]](), session.work

        def keep(asked: str, call: Any, on_done: Any, on_failed: Any, **named: Any) -> None:
            if asked == slot:
                self.kept.append((call, on_done))
            else:
                self._work(asked, call, on_done, on_failed, **named)

        monkeypatch.setattr(session, "work", keep)

    def arrive(self) -> None:
        """Hand over the newest."""
        call, on_done = self.kept[-1]
        self._work("late", call, on_done, pytest.fail, what="")


def test_a_lessons_model_that_is_late_leaves_the_persons_own_on_screen(
    qtbot: QtBot, player: LessonPlayer, wordless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = player.session
    text = LESSON.replace('[models.yours]\nkind = "open"\n', "").partition('[[step]]\ntitle = "Yours"')[0]
    lesson = read_lesson(text, Path("forty-nine.toml"))  # which says nothing of what the person has open
    open_lesson(qtbot, player, lesson)
    late = Late(session, "lesson model", monkeypatch)
    player.go(3)
    settle(qtbot, session)
    session.opening.open(str(wordless))
    settle(qtbot, session)
    own = session.model_handle
    late.arrive()
    settle(qtbot, session)
    assert session.model_handle is own
    assert player.away
    player.resume()
    settle(qtbot, session)
    assert session.model is not None
    assert session.model.name == "toy other"


def test_fresh_numbers_of_a_model_that_is_gone_are_not_asked_about(
    qtbot: QtBot, player: LessonPlayer, lesson: Any, wordless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_lesson(qtbot, player, lesson)
    late = Late(player.session, "lesson check", monkeypatch)
    player.again(1)
    player.session.opening.open(str(wordless))
    settle(qtbot, player.session)
    asked = player.asked(1)
    late.arrive()
    settle(qtbot, player.session)
    assert player.asked(1) is asked
    player.again(1)
    late.arrive()
    settle(qtbot, player.session)
    assert player.asked(1) is not asked


def test_without_an_open_model_a_step_about_it_says_so(
    qtbot: QtBot, session: Session, lesson: Any, tmp_path: Path
) -> None:
    player = LessonPlayer(session, ProgressStore(tmp_path / "progress.json"))
    with qtbot.waitSignal(player.failed, timeout=60_000) as failed:
        player.open(lesson, 5)
    assert "No model is open for this step" in str(failed.args)
    settle(qtbot, session)
    assert player.filled is not None
    assert any(span.kind == "missing" for block in player.filled.text for span in block.spans)


def test_replies_are_judged_and_recorded(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    open_lesson(qtbot, player, lesson)
    judged: list[Any] = []
    player.judged.connect(lambda asked, verdict: judged.append((asked.id, verdict.right)))
    assert not player.reply(0, Entered("7")).right
    assert player.reply(0, Entered("3")).right
    with pytest.raises(LessonError, match="no number"):
        player.reply(0, Entered("three"))
    player.session.selection.update(query=2, key=1)
    assert player.click(2).right
    player.session.selection.update(key=0)
    assert "looked for was query 2, key 1" in player.click(2).sentence
    assert judged == [("count", False), ("count", True), ("look", True), ("look", False)]
    records = player.records.lesson("fifty").checks
    assert (records["count"].tries, records["count"].right, records["count"].last) == (2, 1, True)
    with pytest.raises(LessonError, match="not there yet"):
        player.reply(9, Clicked())


def test_practice_comes_with_fresh_numbers(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    open_lesson(qtbot, player, lesson)
    before = player.asked(1)
    changed: list[Any] = []
    player.check_changed.connect(lambda place, asked: changed.append((place, asked)))
    player.reply(1, example_reply(before, right=True))
    player.again(1)
    settle(qtbot, player.session)
    after = player.asked(1)
    assert changed == [(1, after)]
    assert after.seed > before.seed
    assert after.answer != before.answer
    assert player.reply(1, example_reply(after, right=True)).right


def test_a_lesson_opens_where_it_was_left(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    open_lesson(qtbot, player, lesson)
    player.forward()
    settle(qtbot, player.session)
    player.close()
    settle(qtbot, player.session)
    open_lesson(qtbot, player, lesson)
    assert player.step == 1
    player.go(99)
    assert player.step == 5
    assert player.records.lesson("fifty").finished
    player.go(-3)
    assert player.step == 0
    settle(qtbot, player.session)


def test_hurrying_through_ends_at_the_step_that_is_on(qtbot: QtBot, player: LessonPlayer, lesson: Any) -> None:
    player.open(lesson)
    for _ in range(3):
        player.forward()
    settle(qtbot, player.session)
    assert player.step == 3
    assert player.filled is not None
    assert player.session.run is not None
    assert player.session.run.model.name == "toy other"


def test_nothing_happens_without_a_lesson(player: LessonPlayer) -> None:
    player.forward()
    player.close()
    assert (player.lesson, player.filled, player.ledger) == (None, None, None)


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number == 6 else pytest.mark.slow) for number in range(18)]
)
def test_every_lesson_can_be_walked(qtbot: QtBot, session: Session, tmp_path: Path, number: int) -> None:
    """With the bundled model open: every step's scene is on screen as it says, and nothing fails."""
    with qtbot.waitSignal(session.settled, timeout=60_000):
        session.opening.begin(prompt=Prompt(" hark, who goes there?"))
    lesson = SHELF.lesson(str(number))
    player = LessonPlayer(session, ProgressStore(tmp_path / "progress.json"))
    failed: list[str] = []
    player.failed.connect(failed.append)
    session.failed.connect(lambda sentence, details: failed.append(sentence))
    open_lesson(qtbot, player, lesson)
    for place in range(len(lesson.steps)):
        player.go(place)
        settle(qtbot, session)
        filled, run = player.filled, session.run
        assert filled is not None
        assert run is not None
        scene, model = filled.scene, lesson.models[filled.scene.model]
        if model.kind == "shapes":
            assert player.ledger is not None
            assert (player.ledger.tokens, player.ledger.past) == (model.tokens, model.past)
            continue
        assert player.ledger is None
        if scene.prompt:
            assert (run.prompt, run.steps) == (scene.prompt, scene.decoded)
        assert session.interventions.now == scene.interventions
        now = session.selection.now
        for name, value in placed(dict(scene.select), run.length).items():
            assert getattr(now, name) == value, f"step {place}: {name}"
    assert failed == []
    assert player.records.lesson(lesson.id).finished


# The engine ends ------------------------------------------------------------------------------------------------------


def scene_on(session: Session) -> tuple[Any, ...]:
    """What the session owns of a scene."""
    run, model = session.run, session.model
    assert run is not None
    assert model is not None
    tokens = tuple(token.id for token in run.tokens)
    return model.name, tokens, run.prefill, run.length, session.interventions.now, session.selection.now


def end_engine(qtbot: QtBot, session: Session) -> None:
    with qtbot.waitSignal(session.recovery.engine_ended):
        session.engines.current.kill()
    settle(qtbot, session)
    assert session.engines.gone is not None


def start_again(qtbot: QtBot, session: Session) -> None:
    with qtbot.waitSignal(session.recovery.engine_back, timeout=60_000):
        session.recovery.restart()
    settle(qtbot, session)


def test_a_scene_is_on_again_after_the_engine_has_ended_and_what_was_open_before_comes_back(
    qtbot: QtBot, player: LessonPlayer, lesson: Any
) -> None:
    session = player.session
    session.interventions.apply((NoScale(0),))
    settle(qtbot, session)
    yours, away = scene_on(session), list[str]()
    player.away_changed.connect(away.append)
    open_lesson(qtbot, player, lesson, 2)
    scene = scene_on(session)
    end_engine(qtbot, session)
    assert scene_on(session) == scene
    start_again(qtbot, session)
    assert scene_on(session) == scene
    assert away == []
    player.back()
    settle(qtbot, session)
    assert scene_on(session)[0] == "toy"
    player.forward()
    settle(qtbot, session)
    assert scene_on(session) == scene
    player.go(5)  # of what the person has open, which only the engine that ended had
    settle(qtbot, session)
    assert scene_on(session)[:2] == yours[:2]
    player.close()
    settle(qtbot, session)
    assert scene_on(session) == yours
    assert session.model_handle is not None
    assert session.model_handle.checkpoint.connection is session.engines.current


def test_a_lesson_that_is_left_without_an_engine_starts_one_for_what_was_open_before(
    qtbot: QtBot, player: LessonPlayer, lesson: Any
) -> None:
    session = player.session
    yours = scene_on(session)
    open_lesson(qtbot, player, lesson, 3)
    end_engine(qtbot, session)
    with qtbot.waitSignal(session.recovery.engine_back, timeout=60_000):
        player.close()
    settle(qtbot, session)
    assert scene_on(session) == yours


@pytest.mark.parametrize("at", ["numbers", "model", "scene"])
def test_what_was_on_its_way_when_the_engine_ended_arrives_after_all(
    qtbot: QtBot, player: LessonPlayer, lesson: Any, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = player.session
    yours, submit = scene_on(session), session.jobs.submit
    slot = {"numbers": "work:lesson step", "model": "work:lesson model", "scene": "run"}[at]

    def submitted(wanted: str, *given: Any, **named: Any) -> None:
        submit(wanted, *given, **named)
        if wanted == slot:
            monkeypatch.undo()
            QTimer.singleShot(0, session, session.engines.current.kill)

    monkeypatch.setattr(session.jobs, "submit", submitted)
    with qtbot.waitSignal(session.recovery.engine_ended, timeout=60_000):
        player.open(lesson, 2)
    settle(qtbot, session)
    assert scene_on(session) == yours
    start_again(qtbot, session)
    settle(qtbot, session)
    assert player.filled is not None
    model, _, prefill, length, changed, _ = scene_on(session)
    assert (model, length - prefill, changed) == ("toy", 2, player.filled.scene.interventions)
    player.close()
    settle(qtbot, session)
    assert scene_on(session) == yours
