"""A lesson file is read, and a broken one says which line and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.app.lessons.checks import Entered, example_reply, judge
from ropewalk.app.lessons.filling import fill_lesson
from ropewalk.app.lessons.loading import load_lesson, load_shelf
from ropewalk.app.lessons.plan import Highlight, expressions_of
from ropewalk.app.lessons.table import LessonFileError
from ropewalk.app.lessons.toml_lines import TomlLines
from ropewalk.model.decoder.interventions import AblateHeads, NoScale, PermuteTokens
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.progress import finished
from tests.app.filled_lessons import spans_of
from tests.app.small_lesson import CHECK, NUMBER_CHECK, SMALL, read


def test_a_small_lesson_is_read() -> None:
    lesson = read(SMALL)
    assert (lesson.id, lesson.number, lesson.title, lesson.minutes) == ("mine", 99, "T", 10)
    assert lesson.steps[0].scene.panels == ("ledger",)
    assert lesson.challenges == ()
    assert not lesson.reads_open
    assert [type(one).__name__ for one in expressions_of(lesson)] == ["Call"]
    with pytest.raises(KeyError):
        lesson.place_of("none")


BROKEN: dict[str, tuple[str, int, str]] = {
    "not TOML": (SMALL.replace('title = "One"', 'title = "One'), 10, "Illegal character"),
    "unknown key": (SMALL.replace("minutes", "minuets"), 3, "no key 'minuets'; did you mean minutes?"),
    "no title": (SMALL.replace('title = "T"\n', ""), 1, "A lesson has no title."),
    "minutes in words": (SMALL.replace("minutes = 10", 'minutes = "ten"'), 3, "must be a whole number of 1 or more"),
    "title a number": (SMALL.replace('title = "T"', "title = 3"), 1, "title is 3, but it must be text in quotes"),
    "no steps": (SMALL[: SMALL.index("[[step]]")], 1, "at least one"),
    "unknown model kind": (SMALL.replace('"shapes"', '"shape"'), 6, "kind is 'shape'; did you mean shapes?"),
    "no config": (SMALL.replace('config = "llama3_8b"\n', ""), 5, "The model 'main' has no config"),
    "unknown config": (SMALL.replace("llama3_8b", "llama3_9b"), 7, "did you mean llama3_8b?"),
    "unknown panel": (SMALL.replace('["ledger"]', '["leger"]'), 11, "There is no panel 'leger'"),
    "no panel": (SMALL.replace('show = ["ledger"]\n', ""), 9, "shows one to 3 panels, not 0"),
    "unknown function": (SMALL.replace("size(", "sise("), 15, "no function 'sise'. Did you mean size?"),
    "wrong argument": (SMALL.replace('"D")', '"Q")'), 15, "no size 'Q'"),
    "unclosed brace": (SMALL.replace('"D")}', '"D")'), 15, "does not end with }"),
    "unknown name": (SMALL.replace("size(main", "size(mian"), 15, "Nothing is called 'mian'; did you mean main?"),
    "no text": (SMALL[: SMALL.index("text = ")], 9, "step 1 has no text"),
    "a step's key": (SMALL.replace('show = ["ledger"]', 'shwo = ["ledger"]'), 11, "step 1 has no key 'shwo'"),
    "list of numbers": (SMALL.replace('["ledger"]', "[1]"), 11, "show holds 1, which is no text in quotes"),
    "no list": (SMALL.replace('["ledger"]', '"ledger"'), 11, "must be a list"),
    "unknown challenge": (SMALL + 'challenge = "split_head"\n', 17, "did you mean split_heads?"),
    "unknown switch": (SMALL + 'toggle = ["log"]\n', 17, "There is no switch 'log'"),
    "unknown survey": (SMALL + 'survey = { of = "texts", statistic = "sink" }\n', 17, "did you mean text?"),
    "statistic of a survey": (SMALL + 'survey = { of = "text", statistic = "sinks" }\n', 17, "did you mean sink?"),
    "no statistic of a survey": (SMALL + 'survey = { of = "text" }\n', 17, "survey has no statistic"),
    "no survey": (SMALL + 'survey = { statistic = "sink" }\n', 17, "survey has no of"),
    "walk elsewhere": (SMALL + 'walk = "softmx"\n', 17, "did you mean softmax?"),
    "select a color": (SMALL + "select = { color = 3 }\n", 17, "select has no key 'color'"),
    "highlight nothing": (SMALL + "highlight = { legs = [1] }\n", 17, "highlight has no key 'legs'"),
    "unknown experiment": (SMALL + 'try = [{ kind = "no_legs" }]\n', 17, "kind is 'no_legs'"),
    "field of an experiment": (SMALL + 'try = [{ kind = "no_scale", legs = 2 }]\n', 17, "has no key 'legs'"),
    "unknown check kind": (SMALL + CHECK.format(kind="guess"), 20, "kind is 'guess'"),
    "key of another kind": (SMALL + NUMBER_CHECK + 'answer = "1"\nseconds = 3\n', 24, "has no key 'seconds'"),
    "no answer": (SMALL + NUMBER_CHECK, 18, "check 1 has no answer"),
    "answer that fails": (SMALL + NUMBER_CHECK + 'answer = "root(-1)"\n', 23, "no square root"),
    "a number beyond 64 bits": (SMALL + "play = [{ what = 'x', n = 9223372036854775808 }]\n", 17, "more than 64 bits"),
    "one in an expression": (SMALL + NUMBER_CHECK + f'answer = "{10**30}"\n', 23, "2^63 or more"),
    "a date among rows": (
        SMALL.replace(
            'kind = "shapes"\nconfig = "llama3_8b"',
            'kind = "toy"\nwords = ["a", "b"]\nprompt = "a"\nmlp_writes = [2020-01-01]\n'
            "config = { vocabulary = 2, width = 2, layers = 1, heads = 1, kv_heads = 1, head_width = 2, mlp_width = 2, "
            "max_position = 4 }",
        ),
        9,
        "holds datetime.date(2020, 1, 1), which is no number",
    ),
    "too deep": (SMALL + f"select = {'[' * 2000}{']' * 2000}\n", 1, "too deeply"),
    "unit unknown": (SMALL + NUMBER_CHECK + 'answer = "1"\nunit = "miles"\n', 24, "unit is 'miles'"),
    "unit unasked": (SMALL + NUMBER_CHECK + 'answer = "1"\nunit = "GiB"\n', 24, "the question does not name that unit"),
    "tolerance too large": (SMALL + NUMBER_CHECK + 'answer = "1"\ntolerance = 2\n', 24, "relative error from 0 to 1"),
    "two right options": (
        SMALL + CHECK.format(kind="choose")
        + "options = [\n  { text = \"a\", right = true, why = \"b\" },\n"
        + "  { text = \"a\", right = true, why = \"b\" },\n]\n",
        23,
        "exactly one of them has right = true",
    ),
    "an option's key": (
        SMALL + CHECK.format(kind="choose")
        + "options = [\n  { text = \"a\", right = true, why = \"b\" },\n  { text = \"a\", becuase = \"b\" },\n]\n",
        24,
        "has no key 'becuase'",
    ),
    "a formula in an option": (
        SMALL + CHECK.format(kind="choose")
        + "options = [\n  { text = \"a\", right = true, why = \"b\" },\n  { text = \"a $x\", why = \"b\" },\n]\n",
        25,
        "does not end with",
    ),
    "right is no flag": (
        SMALL + CHECK.format(kind="choose") + 'options = [{ text = "a", right = "yes", why = "b" }]\n',
        23,
        "right is 'yes', but it must be true or false",
    ),
    "two checks of one name": (
        SMALL + 2 * (NUMBER_CHECK + 'answer = "1"\n'),
        26,
        "Two checks of this lesson are called 'c'",
    ),
    "say without points": (
        SMALL + CHECK.format(kind="say") + 'seconds = 30\nreveal = "R."\n', 18, "points to mark oneself by",
    ),
    "draw from nothing": (SMALL + NUMBER_CHECK + 'answer = "1"\ndraw = { n = [] }\n', 24, "must be a list of choices"),
    "draw a taken name": (SMALL + NUMBER_CHECK + 'answer = "1"\ndraw = { main = [1] }\n', 24, "stands for something"),
    "draw backwards": (
        SMALL + NUMBER_CHECK + 'answer = "1"\ndraw = { n = { from = 3, to = 1 } }\n', 24, "must be the smaller",
    ),
    "derive from nothing": (
        SMALL + NUMBER_CHECK + 'answer = "1"\nderive = { m = "times(n, 2)" }\n', 24, "Nothing is called 'n'",
    ),
    "given a date": (SMALL.replace("[model]", "[given]\nx = 2020-01-01\n\n[model]", 1), 6, "only numbers, texts"),
    "given a config's name": (SMALL.replace("[model]", "[given]\nllama3_8b = 1\n\n[model]", 1), 6, "stands for"),
    "given a bad name": (SMALL.replace("[model]", '[given]\n"a b" = 1\n\n[model]', 1), 6, "is no name"),
    "let that fails": (SMALL.replace("[model]", '[let]\nx = "sise(1)"\n\n[model]', 1), 6, "no function 'sise'"),
    "config refused": (
        SMALL.replace('config = "llama3_8b"', "config = { like = \"llama3_8b\", kv_heads = 5 }"), 7,
        "32 query heads and 5 kv heads",
    ),
    "config like nothing": (SMALL.replace('"llama3_8b"', '{ like = "llama9" }'), 7, "No config is called 'llama9'"),
    "config lacking": (SMALL.replace('"llama3_8b"', "{ width = 8 }"), 7, "In the config, vocabulary is missing"),
    "config of odd fields": (SMALL.replace('"llama3_8b"', '{ like = "llama3_8b", legs = 2 }'), 7, "legs is unknown"),
    "toy of a wrong shape": (
        SMALL.replace(
            'kind = "shapes"\nconfig = "llama3_8b"',
            'kind = "toy"\nwords = ["a"]\nprompt = "a"\n[model.config]\nvocabulary = 1\nwidth = 2\nlayers = 1\n'
            "heads = 1\nkv_heads = 1\nhead_width = 2\nmlp_width = 2\n[model.weights]\nembed = [[1, 2]]\n"
            '"blocks.0.attn.key" = [[1, 2, 3]]',
        ),
        19,
        "'blocks.0.attn.key' is 1×3, but this toy's config makes it 2×2",
    ),
    "toy without a prompt": (
        SMALL.replace('kind = "shapes"\nconfig = "llama3_8b"', 'kind = "bundled"'), 5, "has no prompt",
    ),
    "a model like nothing": (SMALL + '\n[models.x]\nlike = "y"\n', 19, "like is 'y'"),
    "a highlight that fails": (SMALL + 'highlight = { cells = ["legs(1)"] }\n', 17, "no function 'legs'"),
    "an inline table that is none": (SMALL + "select = 3\n", 17, "must be a table"),
    "a step that is none": (SMALL.replace("[[step]]", "[step]"), 9, "must be a list in"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_lesson_says_which_line_and_why(case: str) -> None:
    source, line, why = BROKEN[case]
    with pytest.raises(LessonFileError) as caught:
        read(source)
    assert why in caught.value.why
    assert caught.value.line == line, f"{caught.value.sentence}\n{source.splitlines()[caught.value.line - 1]}"
    assert caught.value.sentence.startswith(f"mine.toml, line {line}: ")


def test_the_example_of_the_guide_is_a_lesson() -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs" / "lessons.md").read_text(encoding="utf-8")
    lesson = read(guide.split("```toml")[1].split("```")[0])
    filled = finished(fill_lesson(lesson, Runs(lesson.models)))
    assert all(span.kind != "missing" for step in filled.steps for span in spans_of(step))
    assert judge(filled.steps[0].checks[0], example_reply(filled.steps[0].checks[0], right=True)).right


def test_the_other_lessons_still_load(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "bad.toml").write_text(BROKEN["unknown key"][0], encoding="utf-8")
    (tmp_path / "latin.toml").write_bytes(b"title = 'x'\nabout = '\xff'\n")
    (tmp_path / "huge.toml").write_text("#" * 1_000_001, encoding="utf-8")
    shelf = load_shelf(tmp_path)
    assert [lesson.id for lesson in shelf.lessons] == ["good"]
    assert sorted(problem.sentence.split(":")[0] for problem in shelf.problems) == [
        "bad.toml, line 3",
        "huge.toml, line 1",
        "latin.toml, line 2",
    ]
    with pytest.raises(LessonError, match="cannot be read"):
        load_lesson(tmp_path / "none.toml")
    assert load_shelf(tmp_path / "nowhere").lessons == ()


def test_a_scene_carries_on_what_it_does_not_change() -> None:
    lesson = read(
        SMALL.replace('kind = "shapes"\nconfig = "llama3_8b"', 'kind = "bundled"\nprompt = "p"')
        + '\n[[step]]\ntitle = "Two"\ntext = "."\nprompt = "q"\ntoggle = ["scores.log"]\ndecode = 2\n'
        + '\n[[step]]\ntitle = "Three"\ntext = "."\n'
        + '\n[[step]]\ntitle = "Four"\ntext = "."\nmodel = "x"\n[models.x]\nkind = "bundled"\nprompt = "r"\n'
    )
    scenes = [step.scene for step in lesson.steps]
    assert [scene.prompt for scene in scenes] == ["p", "q", "q", "r"]
    assert [scene.decoded for scene in scenes] == [0, 2, 0, 0]
    assert [bool(scene.toggles) for scene in scenes] == [False, True, False, False]
    assert all(scene.panels == ("ledger",) for scene in scenes)


def test_interventions_are_filled_with_their_numbers() -> None:
    lesson = read(
        SMALL
        + 'try = [\n  { kind = "no_scale" },\n  { kind = "ablate_heads", heads = "[1, 2]", layer = 3 },\n'
        + '  { kind = "permute_tokens", order = [1, 0] },\n  { kind = "scale_scores", factor = 0.5 },\n]\n'
    )
    filled = finished(fill_lesson(lesson, Runs(lesson.models)))
    assert filled.steps[0].scene.interventions[:3] == (NoScale(), AblateHeads(3, (1, 2)), PermuteTokens((1, 0)))
    assert filled.steps[0].scene.interventions[3].label == "scores × 0.5"


def test_predictions_of_the_logit_lens_are_highlighted_by_layer_and_position() -> None:
    shown = SMALL.replace('show = ["ledger"]', 'show = ["lens"]')
    lesson = read(shown + 'highlight = { predictions = ["[[2, 5], [3, 5]]", "[[-1, 0]]"] }\n')
    scene = finished(fill_lesson(lesson, Runs(lesson.models))).steps[0].scene
    assert scene.panels == ("lens",)
    assert scene.highlights == (Highlight("lens", "predictions", ((2, 5), (3, 5), (-1, 0))),)


def test_what_cannot_be_measured_leaves_gaps_and_not_more() -> None:
    lesson = read(
        SMALL.replace("size(main", "size(open")
        + "select = { head = \"best_head(open, 'sink')\", query = 1 }\n"
        + "highlight = { heads = \"best_head(open, 'sink')\" }\n"
        + 'try = [{ kind = "ablate_heads", heads = "best_head(open, \'sink\')" }]\n'
        + NUMBER_CHECK
        + 'answer = "tokens(open)"\n'
    )
    assert lesson.reads_open
    step = finished(fill_lesson(lesson, Runs(lesson.models))).steps[0]
    assert [span.kind for span in step.text[1].spans] == ["words", "missing", "words"]
    assert (step.scene.select, step.scene.interventions, step.scene.highlights[0].places) == ((("query", 1),), (), ())
    assert "No model is open" in step.checks[0].missing
    with pytest.raises(LessonError, match="No model is open"):
        judge(step.checks[0], Entered("1"))


def test_lines_are_found_past_multi_line_strings() -> None:
    lines = TomlLines(
        "a = 1\nb = \"\"\"\n[[step]]\nc = 2\n\"\"\"\n[[step]]\nc = 3\n[[step]]\n[step.inner]\nc = '''one'''\n"
    )
    assert lines.line_of((), "b") == 2
    assert lines.line_of(("step", 0)) == 6
    assert lines.line_of(("step", 0), "c") == 7
    assert lines.line_of(("step", 1, "inner"), "c") == 10
    assert lines.line_of(("step", 1, "inner", "deeper"), "c") == 10
    assert lines.line_of((), "", "c = 2") == 4
    assert ("step", 1) in lines
    assert ("nothing",) not in lines


@pytest.mark.parametrize("claims", ['["x"]', '{ says = "x" }', '[{ says = [], holds = "" }, ""]'])
def test_claims_that_are_no_tables_are_refused(claims: str) -> None:
    with pytest.raises(LessonFileError):
        read(f"{SMALL}claims = {claims}\n")
