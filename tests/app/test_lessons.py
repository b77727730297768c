"""The lessons: read, told by the engine, answered right and wrong; and what a broken file, reply or record does.

Every number of a lesson is an expression, which the engine evaluates; here the golden ones are held to hand values, and
no other number may stand in a text unless it is listed as something the lesson states.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from app.lesson_checks import (
    Chosen,
    Clicked,
    Entered,
    Marked,
    Verdict,
    example_reply,
    judge,
    read_numbers,
)
from app.lesson_plan import (
    HIGHLIGHTS,
    PANELS,
    Asked,
    AskedOption,
    Check,
    Lesson,
    ToldLesson,
    ToldStep,
    expressions_of,
)
from app.lesson_progress import CheckRecord, ProgressStore, decoded
from app.lesson_reader import read_lesson
from app.lesson_table import LessonFileError
from app.lesson_telling import tell_check, tell_lesson
from app.lessons import FOLDER, load_lesson, load_shelf
from app.toml_lines import TomlLines
from model.challenges.names import CHALLENGES
from model.errors import LessonError
from model.experiments import AblateHeads, NoScale, PermuteTokens
from model.ledger import build_ledger
from model.lessons.bench import Bench
from model.lessons.text import Span, Told, Words, said
from model.lessons.values import Head, Quantity, Shape, Value, numbers
from model.progress import finished
from model.toys import build_toy

SHELF = load_shelf()
IDS = tuple(lesson.id for lesson in SHELF.lessons)


@cache
def lesson_of(lesson_id: str) -> Lesson:
    return SHELF.lesson(lesson_id)


@cache
def bench_of(lesson_id: str) -> Bench:
    """A laboratory in which the bundled model stands for what is open."""
    lesson = lesson_of(lesson_id)
    bench = Bench(lesson.models)
    yours = [replace(model, kind="bundled") for model in lesson.models.values() if model.kind == "open"]
    bench._models |= {"open": replace(bench._models["bundled"], name="open"), **{model.name: model for model in yours}}
    return bench


@cache
def told_of(lesson_id: str) -> ToldLesson:
    return finished(tell_lesson(lesson_of(lesson_id), bench_of(lesson_id)))


def texts_of(step: ToldStep) -> Iterator[Told]:
    """Every finished text of a step, as paragraphs."""
    yield from (step.text, step.notes)
    for asked in step.checks:
        yield from (asked.ask, asked.why, asked.hint, asked.reveal)


def lines_of(step: ToldStep) -> Iterator[tuple[Span, ...]]:
    """Every finished line of a step."""
    yield from (step.title, step.look_at)
    for asked in step.checks:
        yield from asked.points
        yield from (says for _, says in asked.mistakes)
        yield from (line for option in asked.options for line in (option.text, option.why))


def spans_of(step: ToldStep) -> Iterator[Span]:
    for text in texts_of(step):
        for paragraph in text:
            yield from paragraph.spans
    for line in lines_of(step):
        yield from line


def everything_said(lesson_id: str) -> str:
    """All of a told lesson as plain characters."""
    parts = []
    for step in told_of(lesson_id).steps:
        parts += [said(text) for text in texts_of(step)] + [said(line) for line in lines_of(step)]
        parts += [asked.written for asked in step.checks]
    return "\n".join(parts)


# ----------------------------------------------------------------------------------------------------------------------
# All lessons


def test_all_lessons_are_there_and_load() -> None:
    shelf = SHELF
    assert shelf.problems == ()
    assert [lesson.number for lesson in shelf.lessons] == list(range(14))
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
    ]
    assert shelf.lesson("7").id == "07-walk-one-block"
    with pytest.raises(LessonError, match="no lesson '99'"):
        shelf.lesson("99")


@pytest.mark.parametrize("lesson_id", IDS)
def test_a_lesson_is_ten_to_twenty_five_minutes_long(lesson_id: str) -> None:
    lesson, told = lesson_of(lesson_id), told_of(lesson_id)
    words = sum(len(said(text).split()) for step in told.steps for text in (step.text, step.look_at))
    looking = 25 * len(told.steps)
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
    for place, step in enumerate(told_of(lesson_id).steps):
        for span in spans_of(step):
            assert span.kind != "missing", f"{lesson_id}, step {place}: {span.source}"
            assert "not a number" not in span.text
        for asked in step.checks:
            assert asked.missing == "", asked.id


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_check_is_answered_right_and_wrong(lesson_id: str) -> None:
    lesson, bench = lesson_of(lesson_id), bench_of(lesson_id)
    for check in lesson.checks:
        for seed in range(4 if check.is_practice else 1):
            asked = tell_check(lesson, check, bench, seed)
            assert asked.missing == "", f"{check.id} with seed {seed}: {asked.missing}"
            right, wrong = (judge(asked, example_reply(asked, right)) for right in (True, False))
            assert right.right, f"{check.id} with seed {seed}: {right}"
            assert not wrong.right, f"{check.id} with seed {seed}: {wrong}"
            assert right.text
            assert wrong.text
            if check.kind not in ("say", "choose"):
                assert asked.written in wrong.sentence


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_wrong_option_and_every_mistake_is_told_why(lesson_id: str) -> None:
    lesson, bench = lesson_of(lesson_id), bench_of(lesson_id)
    for check in lesson.checks:
        asked = tell_check(lesson, check, bench, 0)
        for place, option in enumerate(asked.options):
            verdict = judge(asked, Chosen(place))
            assert verdict.right == option.right
            assert verdict.because == option.why
            assert said(option.why)
        for value, says in asked.mistakes:
            reply = example_reply(replace(asked, answer=value), right=True)
            verdict = judge(asked, reply)
            assert (verdict.right, said(verdict.because)) == (False, said(says)), check.id
        if asked.kind == "click" and asked.values:
            assert "has" in judge(asked, example_reply(asked, right=True)).sentence


@pytest.mark.parametrize("lesson_id", IDS)
def test_practice_problems_are_fresh_and_repeatable(lesson_id: str) -> None:
    lesson, bench = lesson_of(lesson_id), bench_of(lesson_id)
    for check in lesson.checks:
        if not check.is_practice:
            continue
        drawn = [tell_check(lesson, check, bench, seed) for seed in range(12)]
        assert len({said(asked.ask) for asked in drawn}) > 1, check.id
        assert tell_check(lesson, check, bench, 3) == drawn[3]


@pytest.mark.parametrize("lesson_id", IDS)
def test_scenes_name_what_is_there(lesson_id: str) -> None:
    lesson = lesson_of(lesson_id)
    for place, step in enumerate(told_of(lesson_id).steps):
        scene = step.scene
        assert 1 <= len(scene.panels) <= 3
        assert set(scene.panels) <= set(PANELS)
        assert said(step.look_at), f"{lesson_id}, step {place} does not say what to look at"
        assert len(said(step.look_at)) <= 90
        model = lesson.models[scene.model]
        config = model.config or bench_of(lesson_id).config_of(_named(model.name))
        select = dict(scene.select)
        assert 0 <= select.get("layer", 0) < config.layers
        assert 0 <= select.get("head", 0) < config.heads
        assert 0 <= select.get("plane", 0) < max(config.rotary_width(0) // 2, 1)
        if scene.prompt:
            rows = bench_of(lesson_id).tokens(_named(model.name), scene.prompt) + scene.decoded
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
    from model.lessons.values import ModelName

    return ModelName(name)


def test_panels_are_those_of_the_window() -> None:
    from views.registry import names

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


def test_formulas_can_be_drawn() -> None:
    """Every formula compiles, where the library that draws them is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *given, **named: None)  # it loads its fonts by a deprecated call
        ziamath = pytest.importorskip("ziamath")
    for lesson_id in IDS:
        for step in told_of(lesson_id).steps:
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
    "12-cached-equals-full": {6, 7, 20, 50, 128},  # prefills and steps of the tables
    "13-to-minimind": {4, 5, 6, 768},  # numbers of steps; a width in an option
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


GOLDEN: dict[str, tuple[str, ...]] = {
    "00-ids-to-logits": (r"V \times D = 1{,}024 \times 128", "1×16×1024", "D, D, V", "own object? yes"),
    "01-one-token-three-views": (
        r"k = \begin{pmatrix}1 & 2 & -1 & 0\end{pmatrix}",
        r"v = \begin{pmatrix}2 & 2 & 0 & 1\end{pmatrix}",
        "query | (1, 2) | (0, −1)",
        "key | (1, 2) | (−1, 0)",
        "value | (2, 2) | (0, 1)",
        "head 0 finds 5 and head 1 finds 0",
        "(1, 2), (3, 4), (5, 6)",
        "2×5×12",
        "2×3×5×4",
        "So 4 for a width of eight in two heads, and 4 for twelve in three",
        "from (1, 2) to (−2, 1)",
    ),
    "02-fewer-keys": ("320 KiB", "2.5 MiB", "1.25 GiB", "10 GiB", "(4, 5, 6, 7)", "H % Hkv = 0"),
    "03-the-attention-layer": (
        "4096×4096",
        "1024×4096",
        "41.9 M",
        "67.1 M",
        "2048×1024",
        "1×32×10×128",
        "1×8×100×128",
        "1×32×10×100",
        "(0.849, 1.131)",
    ),
    "04-why-divide": ("= 5.657", r"\ln 6 = 1.792"),
    "05-where-am-i": ("Position 8 was asked for", "0 parameters", "128 parameters here (8 positions of 16 features)"),
    "06-rotation-remembers": ("6.283", "19,869", "Only 4 of the 8 planes"),
    "07-walk-one-block": (
        r"Q' = \begin{pmatrix}1 & 1 \\ 1 & 1\end{pmatrix}",
        r"\begin{pmatrix}1.414 & 1.414 \\ 1.414 & 1.414\end{pmatrix}",
        r"P = \begin{pmatrix}1 & 0 \\ 0.5 & 0.5\end{pmatrix}",
        r"PV = \begin{pmatrix}1 & 1 \\ 1 & 0\end{pmatrix}",
        r"X + O = \begin{pmatrix}2 & 2 \\ 2 & -1\end{pmatrix}",
        r"\begin{pmatrix}0.1 & -0.2 \\ 0.3 & 0.1\end{pmatrix}",
        r"\begin{pmatrix}2.1 & 1.8 \\ 2.3 & -0.9\end{pmatrix}",
        "2×3×5×4",
        "2×3×5×5",
        "5×5",
        "2×5×12",
    ),
    "08-norms-and-mlp": ("176.2 M", "41.9 M", "14336×4096", "4096×14336", "(−1.069, −0.535, 0, 1.604)", "1.762"),
    "09-what-grows": ("320 KiB", "1.25 GiB", "2.5 MiB", "10 GiB", "12,288", "4.375 GiB"),
    "10-what-it-costs": ("8.8 TFLOP", "4.4 TFLOP", "32 GiB", "1 GiB", "64 GiB", "2 TiB", "28,628"),
    "11-heads-have-habits": ("q - N + 1".replace(" - ", "-").replace(" + ", "+"), "syntactic"),
    "12-cached-equals-full": ("1×8×1×13",),
    "13-to-minimind": ("63.9 M", "198.4 M", "12,288 bytes", "1×12×6400", "stores 0"),
}
"""Numbers by hand, from the issue, the papers and the configs, that have to come out of the engine where they stand."""


@pytest.mark.parametrize("lesson_id", IDS)
def test_the_golden_numbers_come_out(lesson_id: str) -> None:
    told = everything_said(lesson_id)
    for golden in GOLDEN[lesson_id]:
        assert golden in told, golden


def measured(lesson_id: str, expression: str) -> Any:
    from model.lessons.expressions import read_expression
    from model.lessons.table import Scope, evaluate

    lesson = lesson_of(lesson_id)
    scope = Scope(lesson.given, lesson.configs, frozenset(lesson.models), lesson.lets, bench_of(lesson_id))
    return evaluate(read_expression(expression), scope)


def test_the_scale_does_what_lesson_4_says() -> None:
    def of(expression: str) -> Any:
        return measured("04-why-divide", expression)

    assert of("score_spread(raw)") == pytest.approx(math.sqrt(32), rel=0.05)
    assert of("score_spread(main)") == pytest.approx(1, rel=0.05)
    assert of("divided(score_spread(raw), score_spread(library_raw))") == pytest.approx(3, rel=0.1)
    assert of("weight_variance(main, 'query')") == pytest.approx(1 / 128, rel=0.05)
    assert of("weight_variance(library, 'query')") == pytest.approx(1 / 384, rel=0.05)
    assert of("weight(raw, 0, 0, row, strongest_key(raw, 0, 0, row))") > 0.7
    assert of("peak(raw, row)") > 0.7 > 0.5 > of("peak(main, row)")
    assert of("mean_entropy(raw, row)") < 0.6 < 1.4 < of("mean_entropy(main, row)") < math.log(6)
    assert of("slope(raw, row)") < of("slope(main, row)") / 2
    assert of("strongest_key(raw, 0, 0, row)") == of("strongest_key(main, 0, 0, row)")


def test_positions_do_what_lesson_5_says() -> None:
    def of(expression: str) -> Any:
        return measured("05-where-am-i", expression)

    assert of("permuted_gap(main, [2, 1, 0])") < 1e-5
    assert of("row_gap(main, 'bites dog man')") < 1e-5
    assert of("weight(main, 0, 0, 4, 0, 'the dog bites the man')") == pytest.approx(
        of("weight(main, 0, 0, 4, 3, 'the dog bites the man')"), abs=1e-6
    )
    for name in ("sinusoidal", "learned", "rotary"):
        assert of(f"permuted_gap({name}, [2, 1, 0])") > 0.1
    assert of("shift_gap(rotary, far)") < 1e-4
    assert of("shift_gap(sinusoidal, far)") > 0.1
    assert of("shift_gap(learned, 1)") > 0.1


def test_rotation_does_what_lesson_6_says() -> None:
    def of(expression: str) -> Any:
        return measured("06-rotation-remembers", expression)

    products = [of(f"turned_product(q, k, {m}, {n}, [theta])") for m, n in ((5, 2), (15, 12), (1005, 1002))]
    angle = 0.5 * (2 - 5)  # q·R(n−m)k by hand
    by_hand = 1.0 * (0.8 * math.cos(angle) + 0.3 * math.sin(angle)) + 0.5 * (
        0.8 * math.sin(angle) - 0.3 * math.cos(angle)
    )
    assert products == pytest.approx([by_hand] * 3)
    assert of("turned_product(q, k, 2, 5, [theta])") != pytest.approx(by_hand)
    assert of("shift_gap(far, 1000)") < 1e-4
    assert of("pairing_gap(main)") > 1
    assert of("total(shares)") == pytest.approx(of("score(main, layer_of(found), head_of(found), -1, seen)"), abs=1e-4)
    slowest = of("item(wavelengths(main), -1)")
    assert of("item(wavelengths(stretched(main, 'linear', factor)), 0)") == pytest.approx(4 * 2 * math.pi)
    for rule in ("dynamic", "yarn", "llama3"):
        assert of(f"item(wavelengths(stretched(main, '{rule}', factor), 2048), 0)") == pytest.approx(2 * math.pi)
        assert of(f"item(wavelengths(stretched(main, '{rule}', factor), 2048), -1)") > 3.9 * slowest


def test_depth_does_what_lesson_8_says() -> None:
    shallow, deep = (
        [measured("08-norms-and-mlp", f"first_gradient({model}, '{place}')") for place in ("pre", "post")]
        for model in ("shallow", "deep")
    )
    assert deep[0] < 6 * shallow[0]
    assert deep[1] > 50 * shallow[1]
    assert deep[1] > 10 * deep[0]


def test_heads_do_what_lesson_11_says() -> None:
    def of(expression: str) -> Any:
        return measured("11-heads-have-habits", expression)

    assert of("best_score(main, 'previous')") > 0.6
    assert of("best_score(main, 'previous', N)") > 0.7
    assert of("score_without_rope(main, previous, 'previous')") < 0.3
    assert of("best_score(main, 'induction', N)") > 0.6
    assert of("count(many)") >= 1
    assert of("layer_of(previous)") < of("layer_of(induction)")
    assert of("weight(main, layer_of(induction), head_of(induction), row, plus(minus(row, period), 1))") > 0.5
    assert of("next_probability(main, row)") > 0.8
    assert of("next_probability(main, minus(row, period))") < 0.2
    second, first = of("repeat_loss(main, N)"), of("repeat_loss(main, N, part='first')")
    assert second < 0.5 < 6 < first
    without = "heads_over(main, 'induction', 0.5, N)"
    assert of("repeat_loss(main, N, [best_head(main, 'induction', N)])") < 2 * second + 0.5
    assert of(f"repeat_loss(main, N, {without})") > 4
    assert of("repeat_loss(main, N, [best_head(main, 'previous', N)])") > 2
    assert of("best_score(quiet, 'sink')") > 0.5


def test_cached_is_full_in_lesson_12() -> None:
    for expression in (
        "cached_gap(main, 1, 6)",
        "cached_gap(main, 7, 6)",
        "cached_gap(main, 128, 6)",
        "cached_gap(main, 7, 50)",
        "cached_gap(main, 7, 6, padding=3)",
        'cached_gap(main, 7, 6, branch="explicit", padding=3)',
        "branch_gap(main, 12)",
        "branch_gap(main, 6, past=20)",
        "branch_gap(main, 6, past=20, padding=3)",
    ):
        assert measured("12-cached-equals-full", expression) < 1e-4


def test_routes_and_tables_of_lesson_13() -> None:
    assert sum(measured("13-to-minimind", "expert_load(routed, 0)")) == 8
    assert measured("13-to-minimind", "table_gap(minimind3)") == 0
    assert measured("13-to-minimind", "tied(small)") is True


# ----------------------------------------------------------------------------------------------------------------------
# What a course asks of its students, and where it is reached here

REACHED: dict[str, tuple[str, ...]] = {
    # one token, three views
    "width of a head": ("1#head-width",),
    "six features in three heads": ("1#six-in-three",),
    "shapes before and after the cut": ("1#shape-projected", "1#shape-split"),
    "key under a swap": ("1#key-of-y", "1#swapped-key", "1@2"),
    "which of Q, K, V turn": ("1#which-turn",),
    "why a projection mixes no positions": ("1#mixes",),
    "contract of H and Hkv": ("2#contract", "13#attention-shape"),
    "build: split, then turn": ("!split_heads", "!apply_rope"),
    # the whole layer
    "shapes of the four matrices": ("3#weight-q", "3#weight-k", "3@1"),
    "QK-norm": ("3#qk-norm",),
    "every shape there and back": ("3#say-shapes",),
    "what W_o does": ("3#why-wo",),
    # walk one block
    "the eight stages": ("7@0", "7#say-block"),
    "shapes of a small block": ("7#shape-q", "7#shape-scores", "7#shape-joined"),
    "PV and X + O by hand": ("7#blend-row", "7#first-residual"),
    "why a rotation is relative, and where": ("7#why-relative",),
    "where features and tokens mix": ("7#features-or-tokens",),
    "the final axis": ("0#three-axes",),
    "where RoPE stands": ("7#where-rope",),
    "the block aloud": ("7#say-block",),
    "build: ledger and one cached decode": ("!shape_ledger", "!cached_decode"),
    "build order and its checks": ("13#order", "13#say-build", "13@0"),
    "tables on the meta device": ("13#meta-tables",),
    # foundations
    "the stream drawn": ("0#say-stream",),
    "why √Dh": ("4#what-breaks", "4#spread"),
    "three habits of heads": ("11#three-habits", "11#find-previous", "11#find-induction"),
    "cost of attention": ("10#flops", "10#all-layers", "10#say-costs"),
    "build: attention from scratch": ("!causal_attention",),
    "the scale removed, row 5": ("4@3", "4#click-peak", "4#ninth"),
    "why position": ("5#why-position",),
    "three positions side by side": ("5#what-adds-where", "5@7"),
    "RoPE is relative, derived": ("6#say-derive", "6#identity"),
    "KV cache of a giant": ("9#giant-cache", "9@2"),
    "why MLPs are heavy": ("8#why-mlp-heavy", "8#mlp-count"),
    "LayerNorm, RMSNorm": ("8#rms", "8#forgets", "8@0"),
    "pre or post for sixty layers": ("8#pre-or-post",),
    "six blocks of one's own": ("11@8", "$train"),
}
"""Topic → where it is reached: ``lesson#check``, ``lesson@step``, ``!challenge`` or ``$command``."""


@pytest.mark.parametrize("topic", REACHED)
def test_what_a_course_asks_is_reached(topic: str) -> None:
    offered = {name for lesson in SHELF.lessons for name in lesson.challenges}
    for place in REACHED[topic]:
        if place.startswith("!"):
            assert place[1:] in CHALLENGES
            assert place[1:] in offered
        elif place.startswith("$"):
            from app.commands.line import parser

            assert place[1:] in parser(lambda shot: None).format_help()
        elif "#" in place:
            lesson, check = place.split("#")
            SHELF.lesson(lesson).place_of(check)
        else:
            lesson, step = place.split("@")
            assert int(step) < len(SHELF.lesson(lesson).steps)


def test_every_challenge_is_offered_by_a_lesson() -> None:
    offered = {name for lesson in SHELF.lessons for name in lesson.challenges}
    assert offered == set(CHALLENGES)


@pytest.mark.shared
def test_no_exercise_of_the_reference_list_is_left_out() -> None:
    """As many topics as there are rows in the list that lies beside the checkout."""
    path = Path(__file__).resolve().parents[3] / "shared" / "EXERCISES.md"
    if not path.exists():
        pytest.skip("no reference list beside this checkout")
    rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(REACHED) == len([row for row in rows if not row.startswith("| question")])


def test_the_train_command_takes_sizes() -> None:
    from app.commands.train import SIZES

    assert {"layers", "steps"} <= set(SIZES)


# ----------------------------------------------------------------------------------------------------------------------
# Reading files

SMALL = """title = "T"
about = "A."
minutes = 10

[model]
kind = "shapes"
config = "llama3_8b"

[[step]]
title = "One"
show = ["ledger"]
text = '''
Line one.

Line three has {size(main, "D")}.
'''
"""


def read(source: str) -> Lesson:
    return read_lesson(source, Path("mine.toml"))


def test_a_small_lesson_is_read() -> None:
    lesson = read(SMALL)
    assert (lesson.id, lesson.number, lesson.title, lesson.minutes) == ("mine", 99, "T", 10)
    assert lesson.steps[0].scene.panels == ("ledger",)
    assert lesson.challenges == ()
    assert not lesson.reads_open
    assert [type(one).__name__ for one in expressions_of(lesson)] == ["Call"]
    with pytest.raises(KeyError):
        lesson.place_of("none")


CHECK = '\n[[step.check]]\nid = "c"\nkind = "{kind}"\nask = "A?"\nwhy = "B."\n'
NUMBER_CHECK = CHECK.format(kind="number")

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
    "config lacking": (SMALL.replace('"llama3_8b"', "{ width = 8 }"), 7, "The config has no vocabulary"),
    "config of odd fields": (SMALL.replace('"llama3_8b"', '{ like = "llama3_8b", legs = 2 }'), 7, "no field named"),
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
    guide = (Path(__file__).resolve().parents[2] / "docs" / "lessons.md").read_text(encoding="utf-8")
    lesson = read(guide.split("```toml")[1].split("```")[0])
    told = finished(tell_lesson(lesson, Bench(lesson.models)))
    assert all(span.kind != "missing" for step in told.steps for span in spans_of(step))
    assert judge(told.steps[0].checks[0], example_reply(told.steps[0].checks[0], right=True)).right


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


def test_experiments_are_told_with_their_numbers() -> None:
    lesson = read(
        SMALL
        + 'try = [\n  { kind = "no_scale" },\n  { kind = "ablate_heads", heads = "[1, 2]", layer = 3 },\n'
        + '  { kind = "permute_tokens", order = [1, 0] },\n  { kind = "scale_scores", factor = 0.5 },\n]\n'
    )
    told = finished(tell_lesson(lesson, Bench(lesson.models)))
    assert told.steps[0].scene.experiments[:3] == (NoScale(), AblateHeads(3, (1, 2)), PermuteTokens((1, 0)))
    assert told.steps[0].scene.experiments[3].label == "scores × 0.5"


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
    step = finished(tell_lesson(lesson, Bench(lesson.models))).steps[0]
    assert [span.kind for span in step.text[1].spans] == ["words", "missing", "words"]
    assert (step.scene.select, step.scene.experiments, step.scene.highlights[0].places) == ((("query", 1),), (), ())
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


# ----------------------------------------------------------------------------------------------------------------------
# Judging


def number(answer: Value, **more: Any) -> Asked:
    return Asked("c", "number", 0, False, (), answer=answer, written="W", **more)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4", "", 4),
        (" 1,024 ", "", 1024),
        ("1 024", "", 1024),
        ("−0.5", "", -0.5),
        (".25", "", 0.25),
        ("1/3", "", 1 / 3),
        ("½", "", 0.5),
        ("√2", "", math.sqrt(2)),
        ("sqrt(2)", "", math.sqrt(2)),
        ("2√2", "", 2 * math.sqrt(2)),
        ("1/√2", "", None),
        ("√2/2", "", math.sqrt(2) / 2),
        ("1e3", "", 1000),
        ("2×10^3", "", 2000),
        ("320", "KiB", 320 * 1024),
        ("320 KiB", "MiB", 320 * 1024),
        ("320kb", "", 320 * 1024),
        ("1.25 GiB", "GiB", 1.25 * 2**30),
        ("8.8 tflops", "TFLOP", 8.8e12),
        ("176.2 M", "", 176.2e6),
        ("12 million", "", 12e6),
        ("32 %", "", 0.32),
        ("(3)", "", 3),
        ("three", "", None),
        ("", "", None),
        ("3 miles", "", None),
        ("1/0", "", None),
    ],
)
def test_numbers_are_read_as_people_type_them(text: str, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(LessonError):
            read_numbers(text, unit)
    else:
        assert read_numbers(text, unit) == pytest.approx((value,))


def test_several_numbers_are_read_in_any_brackets() -> None:
    for text in ("1, 2, -1, 0", "(1, 2, −1, 0)", "[1 2 -1 0]", "1;2;-1;0"):
        assert read_numbers(text, several=True) == (1, 2, -1, 0)


def test_numbers_are_judged_by_their_kind() -> None:
    assert judge(number(4), Entered("4")).right
    assert not judge(number(1024), Entered("1025")).right
    assert judge(number(math.sqrt(2)), Entered("1.41")).right
    assert not judge(number(math.sqrt(2)), Entered("1.3")).right
    assert judge(number(0.0), Entered("0")).right
    assert not judge(number(0.0), Entered("0.01")).right
    assert judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1.25")).right
    assert judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1280 MiB")).right
    assert not judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1.25 MiB")).right
    assert judge(number(Quantity(6_553_600, "count")), Entered("6.55 M")).right
    assert judge(number(100, tolerance=0.1), Entered("108")).right
    assert judge(number((1, 2, -1, 0)), Entered("1 2 -1 0")).right
    assert not judge(number((1, 2, -1, 0)), Entered("1 2 0 -1")).right
    with pytest.raises(LessonError, match="4 numbers are asked for, but 3"):
        judge(number((1, 2, -1, 0)), Entered("1 2 3"))


def test_a_wrong_number_is_met_with_its_misunderstanding() -> None:
    asked = number(8, mistakes=((64, (Span("words", "That is the variance."),)),))
    verdict = judge(asked, Entered("64"))
    assert verdict.text == "Not quite. The engine says W. That is the variance."
    assert judge(asked, Entered("63")).text == "Not quite. The engine says W."
    assert judge(asked, Entered("8")).text == "Right. The engine says W."


@pytest.mark.parametrize(
    ("text", "said_first"),
    [
        ("2x3x5x4", "Right."),
        ("[2, 3, 5, 4]", "Right."),
        ("2 5 3 4", "Not quite. The sides are right, but their order is not."),
        ("2×3×5×5", "Not quite. Axis 3 is 4, not 5."),
        ("2×3×5", "Not quite. It has 4 axes, yours 3."),
        ("9 9", "Not quite. The engine says W. Nine."),
    ],
)
def test_shapes_are_judged_axis_by_axis(text: str, said_first: str) -> None:
    mistakes = ((Shape((9, 9)), (Span("words", "Nine."),)),)
    asked = Asked("c", "shape", 0, False, (), answer=Shape((2, 3, 5, 4)), written="W", mistakes=mistakes)
    assert judge(asked, Entered(text)).text.startswith(said_first)
    with pytest.raises(LessonError, match="Type a shape as numbers"):
        judge(asked, Entered("none"))
    with pytest.raises(LessonError, match="Type a shape as numbers"):
        judge(asked, Entered("2×" + "9" * 5000))


def test_clicks_are_judged_with_the_engines_value_of_both() -> None:
    values = ((0.041, 0.5), (0.2, 0.93))
    asked = Asked(
        "c", "click", 0, False, (), answer=Head(1, 1), written="L1H1", target="head", accepted=((1, 1),), values=values
    )
    assert judge(asked, Clicked(layer=1, head=1)).sentence == "Right. L1H1 has 0.93."
    wrong = judge(asked, Clicked(layer=0, head=0)).sentence
    assert wrong == "Not quite. L0H0 has 0.041; looked for was L1H1 with 0.93."
    assert "L7H7; looked" in judge(asked, Clicked(layer=7, head=7)).sentence
    for target, place in (("query", (3,)), ("key", (4,)), ("plane", (5,)), ("layer", (1,)), ("cell", (3, 4))):
        one = replace(asked, target=target, accepted=(place,), values=())  # type: ignore[arg-type]
        assert judge(one, Clicked(1, 0, 3, 4, 5)).right
        assert not judge(one, Clicked(0, 0, 0, 0, 0)).right


def test_what_was_said_aloud_is_marked_by_oneself() -> None:
    asked = Asked("c", "say", 0, False, (), seconds=60, points=((), ()))
    assert judge(asked, Marked((True, True), 50)).sentence == "2 of 2 points in 50 of 60 seconds."
    assert judge(asked, Marked((True, True))).right
    assert not judge(asked, Marked((True, False), 50)).right
    late = judge(asked, Marked((True, True), 75))
    assert not late.right
    assert "shorter" in late.sentence
    with pytest.raises(LessonError, match="2 points to mark, but 1"):
        judge(asked, Marked((True,)))


def test_a_reply_of_another_kind_is_refused() -> None:
    options = (AskedOption((), True, ()), AskedOption((), False, ()))
    with pytest.raises(LessonError, match="another kind"):
        judge(number(4), Chosen(0))
    with pytest.raises(LessonError, match="no option 3"):
        judge(Asked("c", "choose", 0, False, (), options=options), Chosen(2))


def test_options_come_in_an_order_of_their_own_each_time() -> None:
    lesson = lesson_of(IDS[1])
    check = next(check for check in lesson.checks if check.kind == "choose")
    orders = {tuple(said(o.text) for o in tell_check(lesson, check, None, seed).options) for seed in range(20)}
    assert len(orders) > 5


def test_a_mistake_that_fresh_numbers_make_right_is_no_mistake() -> None:
    lesson = read(
        SMALL + NUMBER_CHECK + 'draw = { n = [2] }\nanswer = "times(n, 2)"\n'
        'mistakes = [{ value = "plus(n, 2)", says = "Sum." }, { value = "n", says = "Half." }]\n'
    )
    asked = tell_check(lesson, lesson.checks[0], None, 0)
    assert [said(says) for _, says in asked.mistakes] == ["Half."]


def test_draws_may_be_lists_and_ranges() -> None:
    lesson = read(
        SMALL
        + NUMBER_CHECK
        + 'answer = "total(x)"\ndraw = { x = { from = -3, to = 3, count = 4 }, n = [1, 2] }\n'
        + 'derive = { m = "times(n, 2)" }\n'
    )
    check: Check = lesson.checks[0]
    assert check.is_practice
    for seed in range(5):
        asked = tell_check(lesson, check, None, seed)
        assert -12 <= numbers(asked.answer)[0] <= 12


def test_verdicts_are_plain_data() -> None:
    verdict = Verdict(True, "Right.", "4", (Span("words", "Yes."),), ())
    assert verdict.text == "Right. Yes."


# ----------------------------------------------------------------------------------------------------------------------
# Progress


def test_progress_is_kept_and_reset(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.json"
    store = ProgressStore(path)
    store.reach("one", 2, 5)
    store.reach("one", 1, 5)
    store.answer("one", "a", right=False)
    store.answer("one", "a", right=True)
    store.reach("two", 0, 1)
    store.pass_challenge("repeat_kv")
    store.pass_challenge("repeat_kv")
    again = ProgressStore(path)
    assert again.now == store.now
    record = again.lesson("one")
    assert (record.step, record.furthest, record.finished, record.passed) == (1, 2, False, 1)
    assert record.checks == {"a": CheckRecord(2, 1, True)}
    assert again.lesson("two").finished
    assert again.now.challenges == ("repeat_kv",)
    assert (again.seed("one", "a"), again.seed("one", "b")) == (2, 0)
    again.reset("one")
    assert again.lesson("one").furthest == 0
    assert again.lesson("two").finished
    again.reset()
    assert ProgressStore(path).now.lessons == {}
    assert not list(path.parent.glob("*.part"))


def test_progress_lies_beside_the_settings(tmp_path: Path) -> None:
    assert ProgressStore().path == tmp_path / "config" / "progress.json"


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1, "lessons": 3, "challenges": []}', "{}"])
def test_progress_that_cannot_be_read_is_kept_aside(text: str, tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text, encoding="utf-8")
    store = ProgressStore(path)
    assert store.now.lessons == {}
    assert "starts afresh; it is kept as progress.broken.json" in store.notice
    assert (tmp_path / "progress.broken.json").read_text(encoding="utf-8") == text


def test_progress_that_cannot_be_written_lasts_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = ProgressStore(tmp_path / "file" / "progress.json")
    store.reach("one", 1, 5)
    assert store.lesson("one").step == 1
    assert "lasts for this session only" in store.notice


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress.json"
    store = ProgressStore(path)
    store.reach("one", 1, 5)

    def fail(*given: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    store.reach("one", 2, 5)
    assert decoded(json.loads(path.read_text(encoding="utf-8"))).lessons["one"].step == 1
    assert not list(tmp_path.glob("*.part"))


def test_lessons_lie_in_the_project() -> None:
    assert FOLDER.name == "lessons"
    assert len(IDS) == len(list(FOLDER.glob("*.toml")))
