"""A lesson file that means harm is refused in a sentence, or read and filled at little cost."""

from __future__ import annotations

import pytest

from ropewalk.app.lessons.filling import fill_check, fill_lesson
from ropewalk.app.lessons.plan import Asked
from ropewalk.app.lessons.table import LessonFileError
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.progress import finished
from tests.app.small_lesson import CHECK, NUMBER_CHECK, SMALL, read

LAUGHS = "".join(f'l{n} = "plus(l{n - 1}, l{n - 1})"\n' for n in range(1, 40))
SIZES = "width = 2, layers = {}, heads = 1, kv_heads = 1, head_width = 2, mlp_width = 2"


def toy(model: str) -> str:
    """A lesson on a toy."""
    return SMALL.replace('kind = "shapes"\nconfig = "llama3_8b"', f'kind = "toy"\nprompt = "a"\n{model}')


def asked(check: str, kind: str = "number") -> Asked:
    """The check that some lines make, filled."""
    lesson = read(SMALL + CHECK.format(kind=kind) + check)
    return fill_check(lesson, lesson.checks[0], Runs(lesson.models), 0)


def test_names_that_are_used_twice_are_worked_out_once() -> None:
    lesson = read(
        SMALL.replace("[model]", f'[let]\nl0 = "plus(1, 1)"\n{LAUGHS}\n[model]').replace('size(main, "D")', "l39")
    )
    filled = finished(fill_lesson(lesson, Runs(lesson.models)))
    assert "1,099,511,627,776" in [span.text for block in filled.steps[0].text for span in block.spans]


def test_a_number_is_drawn_from_four_thousand_million_without_listing_them() -> None:
    found = asked('answer = "n"\ndraw = { n = { from = 0, to = 4000000000 } }\n')
    assert isinstance(found.answer, int)
    assert 0 <= found.answer <= 4_000_000_000
    wide = f"{{ from = {-(2**63)}, to = {2**63 - 1}, count = 3 }}"
    several = asked(f'answer = "n"\ndraw = {{ n = {wide} }}\n').answer
    assert isinstance(several, tuple)
    assert len(several) == 3


@pytest.mark.parametrize(
    ("kind", "lines", "why"),
    [
        ("number", 'answer = "[]"\n', "is no number that can be asked for"),
        ("number", 'answer = "1e999"\n', "∞ is no number that can be asked for"),
        ("shape", 'answer = "[1e999]"\n', "is no shape that can be asked for"),
        ("number", 'answer = 2\nmistakes = [{ value = "[]", says = "B." }]\n', "is no number"),
        ("click", 'target = "head"\nanswer = "[1e999, 3]"\n', "is no place to click"),
        ("click", 'target = "layer"\nanswer = "[]"\n', "is no place to click"),
    ],
)
def test_an_answer_that_nobody_can_give_is_missing_with_its_reason(kind: str, lines: str, why: str) -> None:
    assert why in asked(lines, kind).missing


@pytest.mark.parametrize(
    "scene",
    [
        'select = { layer = "1e999", head = "[]", query = 4000000000 }\n',
        'highlight = { cells = ["[1, 2, 3]", "1e999", "[]"] }\n',
        'try = [{ kind = "scale_scores" }]\n',
        'try = [{ kind = "scale_scores", factor = "[]" }]\n',
        'try = [{ kind = "ablate_plane", layer = "1e999", head = 1, plane = 1 }]\n',
        '[step.training]\nstatistic = "sink"\nstep = "1e999"\n',
    ],
)
def test_what_points_nowhere_is_left_out_of_a_scene(scene: str) -> None:
    lesson = read(SMALL + scene)
    filled = finished(fill_lesson(lesson, Runs(lesson.models))).steps[0].scene
    assert (filled.select, filled.interventions, filled.checkpoint) == ((), (), None)
    assert all(place == (1, 2) for highlight in filled.highlights for place in highlight.places)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            SMALL + NUMBER_CHECK + "answer = 1\ndraw = { n = { from = 0, to = 9, count = 1000000000000 } }\n",
            "at most 1,000",
        ),
        (SMALL.replace("title", "a." * 20_000 + "a = 1\ntitle", 1), "more than 30 names"),
        (SMALL.replace("title", f"x = {'[' * 100}{']' * 100}\ntitle", 1), "lie in one another"),
        (SMALL.replace("[model]", "[let]\n" + "".join(f"v{n} = 1\n" for n in range(2_000)) + "[model]"), "2,000 keys"),
        (SMALL.replace("[model]", f"[given]\nbig = [{'1, ' * 100_000}]\n[model]"), "more than 100,000 numbers"),
        (SMALL.replace("Line one.", "Line one. " * 3_000), "30,000 letters|letters, more than 20,000"),
        (SMALL.replace("Line one.", "{1} " * 300), "301 expressions, more than 200"),
        (toy(f"words = 100000000\nconfig = {{ vocabulary = 100000000, {SIZES.format(1)} }}"), "words and"),
        (
            toy(f'words = ["a"]\nconfig = {{ vocabulary = 1, {SIZES.format(10**12)} }}'),
            "layers 1,000,000,000,000",
        ),
    ],
)
def test_a_file_that_asks_for_too_much_is_refused_with_its_line(source: str, why: str) -> None:
    with pytest.raises(LessonFileError, match=why):
        read(source)
