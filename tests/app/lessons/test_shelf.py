"""The lessons that come along: all there, filled, answered right and wrong, in scenes that exist.

No number but those that the engine computes may stand in a text, unless it is listed as something the lesson states.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from ropewalk.app.lessons.checks import TRIES, Chosen, Clicked, example_reply, judge
from ropewalk.app.lessons.filling import fill_check
from ropewalk.app.lessons.loading import FOLDER
from ropewalk.app.lessons.plan import HIGHLIGHTS, PANELS
from ropewalk.model.errors import LessonError
from ropewalk.model.ledger.ledger import build_ledger
from ropewalk.model.lessons.text import Words, plain_text
from ropewalk.model.lessons.toys import build_toy
from tests.app.filled_lessons import IDS, SHELF, filled_of, lesson_of, runs_of, spans_of


def test_all_lessons_are_there_and_load() -> None:
    shelf = SHELF
    assert shelf.problems == ()
    assert [lesson.number for lesson in shelf.lessons] == list(range(18))
    assert [lesson.title for lesson in shelf.lessons] == [
        "From ids to logits",
        "One token, three views",
        "Fewer keys than queries",
        "The whole attention layer",
        "Why divide by √Dh",
        "Where am I?",
        "A rotation remembers distance",
        "Walk one block",
        "Norms and the MLP",
        "What grows",
        "What it costs",
        "Heads have habits",
        "Cached equals full",
        "From the readable block to MiniMind",
        "Drawing the next token",
        "Why softmax runs in float32",
        "Attention beside recurrence",
        "Heads being born",
    ]
    assert shelf.lesson("7").id == "07-walk-one-block"
    with pytest.raises(LessonError, match="no lesson '99'"):
        shelf.lesson("99")


@pytest.mark.parametrize("lesson_id", IDS)
def test_a_lesson_is_ten_to_twenty_five_minutes_long(lesson_id: str) -> None:
    lesson, filled = lesson_of(lesson_id), filled_of(lesson_id)
    words = sum(len(plain_text(text).split()) for step in filled.steps for text in (step.text, step.look_at))
    looking = 25 * len(filled.steps)
    asking = sum(max(45, check.seconds + 30) for check in lesson.checks)
    estimate = words / 130 + (looking + asking) / 60
    assert 10 <= lesson.minutes <= 25
    assert abs(estimate - lesson.minutes) <= 6, f"{lesson.id} takes about {estimate:.0f} minutes"


@pytest.mark.parametrize("lesson_id", IDS)
def test_a_lesson_asks_at_least_four_times_and_in_several_ways(lesson_id: str) -> None:
    checks = lesson_of(lesson_id).checks
    assert len(checks) >= 4
    assert len({check.kind for check in checks}) >= 3
    assert any(check.kind == "say" for check in checks)
    assert any(check.is_practice for check in checks)


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_number_of_a_lesson_can_be_had(lesson_id: str) -> None:
    for place, step in enumerate(filled_of(lesson_id).steps):
        for span in spans_of(step):
            assert span.kind != "missing", f"{lesson_id}, step {place}: {span.source}"
            assert "not a number" not in span.text
        for asked in step.checks:
            assert asked.missing == "", asked.id


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_check_is_answered_right_and_wrong(lesson_id: str) -> None:
    lesson, runs = lesson_of(lesson_id), runs_of(lesson_id)
    for check in lesson.checks:
        for seed in range(4 if check.is_practice else 1):
            asked = fill_check(lesson, check, runs, seed)
            assert asked.missing == "", f"{check.id} with seed {seed}: {asked.missing}"
            right, wrong = (judge(asked, example_reply(asked, right), TRIES) for right in (True, False))
            assert right.right, f"{check.id} with seed {seed}: {right}"
            assert not wrong.right, f"{check.id} with seed {seed}: {wrong}"
            assert right.text
            assert wrong.text
            if check.kind not in ("say", "choose"):
                assert asked.written in wrong.sentence


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_wrong_option_and_every_mistake_says_why(lesson_id: str) -> None:
    lesson, runs = lesson_of(lesson_id), runs_of(lesson_id)
    for check in lesson.checks:
        asked = fill_check(lesson, check, runs, 0)
        for place, option in enumerate(asked.options):
            verdict = judge(asked, Chosen(place))
            assert verdict.right == option.right
            assert verdict.because == option.why
            assert plain_text(option.why)
        for value, says in asked.mistakes:
            reply = example_reply(replace(asked, answer=value), right=True)
            verdict = judge(asked, reply)
            assert (verdict.right, plain_text(verdict.because)) == (False, plain_text(says)), check.id
        if asked.kind == "click" and asked.values:
            assert "has" in judge(asked, example_reply(asked, right=True)).sentence


@pytest.mark.parametrize("lesson_id", IDS)
def test_practice_problems_are_fresh_and_repeatable(lesson_id: str) -> None:
    lesson, runs = lesson_of(lesson_id), runs_of(lesson_id)
    for check in lesson.checks:
        if not check.is_practice:
            continue
        drawn = [fill_check(lesson, check, runs, seed) for seed in range(12)]
        assert len({plain_text(asked.ask) for asked in drawn}) > 1, check.id
        assert fill_check(lesson, check, runs, 3) == drawn[3]


@pytest.mark.parametrize("lesson_id", IDS)
def test_scenes_name_what_is_there(lesson_id: str) -> None:
    lesson = lesson_of(lesson_id)
    for place, step in enumerate(filled_of(lesson_id).steps):
        scene = step.scene
        assert 1 <= len(scene.panels) <= 3
        assert set(scene.panels) <= set(PANELS)
        assert plain_text(step.look_at), f"{lesson_id}, step {place} does not say what to look at"
        assert len(plain_text(step.look_at)) <= 90
        model = lesson.models[scene.model]
        config = model.config or runs_of(lesson_id).config_of(_named(model.name))
        select = dict(scene.select)
        assert 0 <= select.get("layer", 0) < config.layers
        assert 0 <= select.get("head", 0) < config.heads
        assert 0 <= select.get("plane", 0) < max(config.rotary_width(0) // 2, 1)
        if scene.prompt:
            rows = len(runs_of(lesson_id).ids(_named(model.name), scene.prompt)) + scene.decoded
            assert rows + scene.decoded <= config.max_position
            for name in ("query", "key"):
                assert -rows <= select.get(name, 0) < rows, f"{lesson_id}, step {place}: {name}"
        ledger = build_ledger(config, 0, 1, 2, 0)
        for highlight in scene.highlights:
            assert highlight.places, f"{lesson_id}, step {place}: nothing to highlight"
            for spot in highlight.places:
                if highlight.what == "rows":
                    ledger.entry(str(spot))
                if highlight.what == "heads":
                    assert spot < (config.layers, config.heads)  # type: ignore[operator]
                    assert int(spot[1]) < config.heads


def _named(name: str) -> Any:
    from ropewalk.model.lessons.values import ModelName

    return ModelName(name)


def test_panels_are_those_of_the_window() -> None:
    from ropewalk.views.panels.registry import names

    assert set(PANELS) <= set(names())
    assert {panel for _, panel in HIGHLIGHTS.values()} <= set(PANELS)


def test_every_toy_computes_numbers() -> None:
    for lesson in SHELF.lessons:
        for model in lesson.models.values():
            if model.toy is None:
                continue
            decoder = build_toy(model.toy)
            ids = [model.toy.words.index(word) for word in model.prompt.split()]
            with torch.no_grad():
                assert decoder(torch.tensor([ids])).isfinite().all(), f"{lesson.id}, {model.name}"


def test_the_question_about_neighbours_is_not_answered_before_anybody_clicks() -> None:
    step = next(one for one in filled_of("02-fewer-keys").steps if any(asked.kind == "click" for asked in one.checks))
    selected = dict(step.scene.select)
    asked = next(asked for asked in step.checks if asked.kind == "click")
    assert not judge(asked, Clicked(selected["layer"], selected["head"])).right
    assert judge(asked, Clicked(selected["layer"], selected["head"] + 1)).right


def test_formulas_can_be_drawn() -> None:
    """Every formula compiles, where the library that draws them is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *given, **named: None)  # it loads its fonts by a deprecated call
        ziamath = pytest.importorskip("ziamath")
    for lesson_id in IDS:
        for step in filled_of(lesson_id).steps:
            for span in spans_of(step):
                if span.kind == "formula":
                    assert "<svg" in ziamath.Latex(span.text).svg()


NAMES = re.compile(
    r"Llama-\d[\w.-]*|Llama \d|Qwen\d[\w.-]*|SmolLM2[\w-]*|MiniMind-\d|Mistral-7B|b?float\d+|L\d+H\d+|[Ll]essons? \d+"
    r"|1×S|1/√Dh|since \d{4}"
)
NUMBER = re.compile(r"(?<![\w.])\d[\d,.]*\d|(?<![\w.])\d")
STATED = {
    "01-one-token-three-views": {5, 12},  # the shapes asked about, [2, 5, 12]
    "02-fewer-keys": {4, 5},  # query heads of a table
    "03-the-attention-layer": {4},  # head 3 and head 4
    "04-why-divide": {5},  # row 5
    "05-where-am-i": {4, 2048, 5000},  # row 4; the positions asked about
    "06-rotation-remembers": {5, 12, 15, 100, 1000, 1002, 1005},  # positions and offsets of the tables
    "07-walk-one-block": {4, 5, 6, 7, 8, 12},  # numbers of stages; the shapes asked about
    "09-what-grows": {4, 8, 16},  # bits and bytes asked about
    "10-what-it-costs": {4, 1024, 4096, 32768, 131072},  # the 4 of a formula; lengths of a table
    "12-cached-equals-full": {6, 7, 10, 20, 50, 128},  # prefills and steps of the tables; the size of a logit
    "13-to-minimind": {4, 5, 6, 768},  # numbers of steps; a width in an option
    "14-drawing-a-token": {5, 93},  # the k of top-k; a word of the prompt
    "15-softmax-in-float32": {10, 12, 89, 256, 65504},  # scores asked about; what claims decide
    "16-attention-and-recurrence": {4, 10, 16, 64, 100, 256, 1024, 4096, 8192, 65536, 131072},  # rows of the tables
}
"""Numbers above three that stand in a lesson's words because the lesson states them: no result is among them."""


@pytest.mark.parametrize("lesson_id", IDS)
def test_no_result_stands_in_the_words_of_a_lesson(lesson_id: str) -> None:
    lesson = lesson_of(lesson_id)
    found: set[float] = set()
    for step in lesson.steps:
        words = [step.title, step.look_at, *(cell for block in (*step.text, *step.notes) for cell in block.cells)]
        for check in step.checks:
            blocks = (*check.ask, *check.why, *check.hint, *check.reveal)
            words += [cell for block in blocks for cell in block.cells]
            words += [line for option in check.options for line in (option.text, option.why)]
            words += [*(mistake.says for mistake in check.mistakes), *check.points]
        for line in words:
            for part in line:
                if isinstance(part, Words) and part.style != "code":
                    found |= {float(text.replace(",", "")) for text in NUMBER.findall(NAMES.sub("", part.text))}
    assert {number for number in found if number > 3} <= STATED.get(lesson_id, set())


def test_lessons_lie_in_the_project() -> None:
    assert FOLDER.name == "lessons"
    assert len(IDS) == len(list(FOLDER.glob("*.toml")))
