"""What the lessons say is decided by their numbers; what is wrong in a lesson's words is found, with its number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ropewalk.app.lessons.claims import counts, quoted, stamp, states_nothing, ways
from ropewalk.app.lessons.contradictions import contradicted
from ropewalk.app.lessons.reader import read_lesson
from ropewalk.app.lessons.table import LessonFileError
from tests.app.filled_lessons import IDS, lesson_of, runs_for, runs_of
from tests.app.small_lesson import NUMBER_CHECK, SMALL, read


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_sentence_has_its_claim_and_no_number_contradicts_it(lesson_id: str) -> None:
    lesson = lesson_of(lesson_id)
    assert [problem.sentence for problem in (*lesson.unclaimed, *lesson.unread)] == []
    assert [one.sentence for one in contradicted(lesson, runs_of(lesson_id))] == []


def test_a_lesson_names_no_head_of_a_trained_model() -> None:
    """A head is picked by what it does, for weights change; one is named for its kv head, a matter of sizes."""
    for lesson_id in IDS:
        named = re.findall(r"\bL\d+H\d+\b", lesson_of(lesson_id).path.read_text(encoding="utf-8"))
        assert set(named) <= ({"L1H5"} if lesson_id.startswith("02") else set()), lesson_id


def unclaimed(text: str, quotes: list[str]) -> list[str]:
    return [said for said, is_covered, _ in quoted(text, quotes) if not is_covered]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("There are three heads. Both turn.", ["There are three heads.", "Both turn."]),
        ("How many are there? Type a number.", ["How many are there?", "Type a number."]),
        ("Ask what it does: it swaps two places.", ["Ask what it does: it swaps two places."]),
        ("| a | {size(main, 'D')} B |\n| b | 2 |\n- One.\n\n$$ x + {y}. $$", [
            "| a | {size(main, 'D')} B |", "| b | 2 |", "- One.", "$$ x + {y}. $$",
        ]),
        ("…", []),
    ],
)  # fmt: skip
def test_every_sentence_row_and_point_is_found(text: str, said: list[str]) -> None:
    assert unclaimed(text, []) == said


def test_a_quoted_piece_covers_its_own_words_only() -> None:
    text = "This is\nlarger than the other. Both are odd."
    assert unclaimed(text, ["This is larger than the other."]) == ["Both are odd."]
    assert unclaimed(text, ["This is larger", "than the other", "Both are odd"]) == []
    assert unclaimed(text, ["is larger than the other", "Both are odd"]) == ["This is larger than the other."]


@pytest.mark.parametrize(
    ("sentence", "nothing"),
    [
        ("How many are there?", True),
        ("Then step once, so that it moves.", True),
        ("Ask which of the two turns.", True),
        ("There are three.", False),
        ("Ask what it does: it swaps two places.", False),
        ("Ask why the queries take part of the cache.", False),
        ("Let them see a gate with fewer rows.", False),
        ("Show that gate has the rows of up.", False),
        ("Is it larger now?", False),
    ],
)
def test_an_order_that_presumes_something_states_it(sentence: str, nothing: bool) -> None:
    assert states_nothing(sentence) is nothing


def test_which_way_a_sentence_compares_and_what_it_counts() -> None:
    assert list(ways("Fewer heads; the cache of {more(1, 2)} is no longer full, once more.")) == ["less"]
    assert list(ways("K is wider than Q is.")) == ["more"]
    said = (
        "In lesson 9, one of **4** rows of Llama 3 takes sixty-four of 2,048.5 bytes, $12$ of [B, 7], half of {9} rows."
    )
    assert counts(said) == {64, 2048.5, 0.5}
    assert counts("a quarter as tall, four times as tall, a **third**, the third way") == {0.25, 4, 1 / 3, 3}


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ('{ says = "Line two", holds = "equal(1, 1)" }', "No text of this step says 'Line two'"),
        ('{ says = "", holds = "equal(1, 1)" }', "No text of this step says ''"),
        ('{ says = "Line three", holds = "equals(1, 1)" }', "There is no function 'equals'"),
        ('{ says = "Line three", holds = "plus(1, 1)" }', "is no comparison"),
        ('{ says = "Line three", holds = true }', "is no comparison"),
        ('{ says = "Line three", holds = [] }', "names what holds"),
        ('{ says = "Line three", hold = "equal(1, 1)" }', "did you mean holds?"),
    ],
)
def test_a_claim_that_decides_nothing_is_refused_with_its_line(claim: str, why: str) -> None:
    with pytest.raises(LessonFileError, match=re.escape(why)) as refused:
        read(f"{SMALL}claims = [\n    {{ says = 'Line one.', holds = 'equal(1, 1)' }},\n    {claim},\n]\n")
    assert refused.value.line >= SMALL.count("\n") + 1


def test_a_contradiction_names_the_line_the_words_and_the_numbers() -> None:
    lesson = read(
        f"{SMALL}claims = [\n"
        "    { says = 'Line one.', holds = ['equal(size(main, \"D\"), 4096)', 'less(size(main, \"D\"), 4000)'] },\n"
        "    { says = 'Line three has', holds = 'all_of(equal(1, 1), more(2, 3))' },\n]\n"
    )
    first, second = contradicted(lesson, None)
    assert first.sentence == (
        f"line {SMALL.count(chr(10)) + 2}: “Line one.” is contradicted: "
        'less(size(main, "D"), 4,000) is not so: 4,096, 4,000.'
    )
    assert second.why == "more(2, 3) is not so: 2, 3."


def test_what_cannot_be_measured_is_no_contradiction() -> None:
    lesson = read(f"{SMALL}claims = [ {{ says = 'Line one.', holds = 'equal(tokens(open), 3)' }} ]\n")
    (found,) = contradicted(lesson, None)
    assert not found.is_sure
    assert "cannot be decided" in found.sentence


def planted(number: str, changes: list[tuple[str, str]], times: int = 1) -> Iterator[str]:
    """What is found in a lesson once pieces of its file have been changed, each where it stands first or everywhere."""
    lesson = lesson_of(next(lesson_id for lesson_id in IDS if lesson_id.startswith(number)))
    source = lesson.path.read_text(encoding="utf-8")
    for right, wrong in changes:
        assert right in source
        source = source.replace(right, wrong, times)
    try:
        changed = read_lesson(source, lesson.path)
    except LessonFileError as error:
        yield error.sentence
        return
    assert changed.unread
    yield from (problem.why for problem in changed.unclaimed)
    runs = runs_of(lesson.id) if changed.models == lesson.models else runs_for(changed)
    yield from (one.sentence for one in contradicted(changed, runs))


def some(planted: list[tuple[str, ...]], *numbers: str) -> list[Any]:
    """What is planted: in these lessons one of each kind, for the ordinary run; in the others more of the same."""
    return [pytest.param(*one, marks=() if one[0] in numbers else pytest.mark.slow) for one in planted]


PLANTED: list[tuple[str, ...]] = [
    ("00", "The stream grows louder", "The stream grows quieter"),  # a title
    ("01", "multiplies: it swaps two places", "multiplies: it swaps the first two places"),  # a note
    ("02", "in a row; so {h} // {", "in a row; so {h} modulo {"),  # a reason
    ("05", "A table with a last row.", "A table without a last row."),  # where to look
    ("06", "Two people turn together", "One of two people turns"),
    ("07", "hides the one above the diagonal", "hides the one below the diagonal"),
    ("08", "RMSNorm has half the parameters", "RMSNorm has twice the parameters"),
    ("09", "{kv_bytes(minimind3):exact} B |", "{kv_bytes(minimind3):exact} KiB |"),  # a unit in a table
    ("10", "blend cost, counted in full?", "blend cost, counted causally?"),  # a question
    ("11", "Now look at **{induction}**", "Now look at **{previous}**"),  # a head
    ("12", "The slow one, and therefore", "The fast one, and therefore"),
    ("13", "every route returns [B, T, D]", "every route returns [B, T, V]"),  # a shape
    ("14", "no token is ruled out by it", "half of the tokens are ruled out by it"),
    ("15", "65,504 |", "65,536 |"),
    ("16", "a recurrence, as it is written, has to", "a recurrence never has to"),
    ("17", "and then both grow together", "and then both fade together"),
    ("04", "$1 - \\sum w^2$. For", "$1 - \\sum w$. For"),  # a formula
]


@pytest.mark.parametrize(("number", "right", "wrong"), some(PLANTED, "00", "01", "02", "09", "10", "13", "04"))
def test_a_wrong_sentence_is_found_by_its_words(number: str, right: str, wrong: str) -> None:
    assert "No text of this step says" in next(planted(number, [(right, wrong)]))


AROUND = [
    ("03", [('kv_heads=Hkv, head_width=Dh), "cache_k"', 'kv_heads=H, head_width=Dh), "cache_k"')], "contradicted"),
    ("14", [('"Top-p", right = true', '"Top-p"'), ('"Top-k", why', '"Top-k", right = true, why')], "the wrong option"),
    ("06", [("query = 3, key = 2", "query = 1, key = 2")], "equal(selected_query, 3) is not so: 1, 3"),
    ("00", [('rows = ["embedding"]', 'rows = ["lm_head"]')], "highlighted_rows"),
    ("12", [("decode = 3", "decode = 2")], "shown_decoded"),
    ("03", [("past = 90", "past = 80")], "shown_past"),
    ("16", [('value = "share(a, 1)"', 'value = "share(power(a, 2), 1)"')], "No text of this step says 'share(a, 1) → "),
    ("04", [("seed = 5", "seed = 7")], "“Row 5, with the scale” is contradicted"),
    ("00", [("text = '''\n", "text = '''\nThere are six norms. ")], "no claim decides “There are six norms.”"),
]
"""What a sentence hangs on, changed under it: an answer, the right option, the scene, a toy; and a sentence more."""


@pytest.mark.parametrize(("number", "changes", "found"), AROUND)
def test_what_a_sentence_hangs_on_is_held_too(number: str, changes: list[tuple[str, str]], found: str) -> None:
    assert any(found in sentence for sentence in planted(number, changes))


SWAPPED: list[tuple[str, ...]] = [
    ("00", "why", "It works on each token's row alone.", "A norm looks at the features of one row."),
    ("07", "why", "Values are never turned.", "Nothing that reaches W_O was rotated."),
    ("01", "says", "You swapped the first two.", "That is the row as it was."),
    ("10", "says", "That is one head.", "That is one layer."),
]
"""What is said to one wrong answer, and what to another."""


@pytest.mark.parametrize(("number", "key", "one", "other"), some(SWAPPED, "00", "01"))
def test_what_is_said_to_an_answer_belongs_to_that_answer(number: str, key: str, one: str, other: str) -> None:
    changes = [(f'{key} = "{one}"', f'{key} = "?"'), (f'{key} = "{other}"', f'{key} = "{one}"')]
    found = next(planted(number, [*changes, (f'{key} = "?"', f'{key} = "{other}"')]))
    assert "No text of this step says" in found
    assert "→" in found


EVERYWHERE: list[tuple[str, ...]] = [
    ("02", "Bytes grow with Hkv", "Bytes shrink with Hkv", "is less, but no claim compares so"),
    ("03", "W_Q is wider than the stream", "W_Q is narrower than the stream", "is less, but no claim compares so"),
    ("10", "the price grows with the", "the price falls with the", "is less, but no claim compares so"),
    ("16", "memory grows with T", "memory shrinks with T", "is less, but no claim compares so"),
    ("07", "The eight stages", "The nine stages", "no claim on it comes to 9"),
    ("16", "attention sixty-four times", "attention sixteen times", "no claim on it comes to 16"),
    ("01", "by three matrices", "by four matrices", "no claim on it comes to 4"),
    ("03", "a quarter as tall", "four times as tall", "no claim on it comes to 4"),
    ("08", "half the parameters", "twice the parameters", "no claim on it comes to 2"),
    ("04", "their products a ninth", "their products a sixth", "no claim on it comes to 0.167"),
    ("17", "**{induction}** has", "**{previous}** has", "previous is filled in, but no claim says anything of it"),
    ("05", "built for 2,048", "built for 1,024", "no claim on it comes to 1,024"),
    ("09", "Ask who has that much memory free", "Show that memory is free", "presumed in “Show that memory"),
    ("09", "let the class count the columns.", "let the class count more columns.", "presumed in “Step"),
    ("16", "tolerance = 0.03", "tolerance = 0.3", "equal(tolerance, 0.03) is not so: 0.3, 0.03"),
    ("16", "0.03", "0.5", "a known mistake, "),
]
"""Changed wherever it stands, in the text and in the quotes of its claims."""


@pytest.mark.parametrize(("number", "right", "wrong", "found"), some(EVERYWHERE, "02", "07", "08", "17", "09"))
def test_words_that_compare_or_count_are_held_to_what_their_claims_compare(
    number: str, right: str, wrong: str, found: str
) -> None:
    assert any(found in sentence for sentence in planted(number, [(right, wrong)], times=-1))


def test_an_answer_passes_as_it_is_written() -> None:
    """Too strict a tolerance refuses what the program itself says is right."""
    check = NUMBER_CHECK.replace("A?", "How many B?") + 'unit = "B"\nanswer = "divided(kv_bytes(main), 3)"\n'
    claims = "claims = [{ says = 'B.', holds = 'between(answer, 1, 100000)' }]\n"
    (found,) = contradicted(read(f"{SMALL}{check}{claims}tolerance = 0.0\n"), None)
    assert found.sentence.endswith("does not pass.")
    assert not list(contradicted(read(f"{SMALL}{check}{claims}"), None))


def test_what_was_changed_since_somebody_read_it_is_named_with_what_says_that_it_was_read() -> None:
    lesson = read(SMALL)
    whole, step = (problem.why.rsplit('"', 2)[1] for problem in lesson.unread)
    stamped = SMALL.replace("minutes = 10", f'minutes = 10\nread = "{whole}"').replace(
        'title = "One"', f'title = "One"\nread = "{step}"'
    )
    assert not read(stamped).unread
    (changed,) = read(stamped.replace("Line one.", "Line two.")).unread
    assert changed.line == SMALL.split("\n").index("[[step]]") + 4
    assert "nobody has read this" in changed.why
    assert len(read(stamped.replace("llama3_8b", "llama3_70b")).unread) == 1
    assert stamp({"a": 1, "b": [2]}) == stamp({"b": [2], "a": 1}) != stamp({"a": 1, "b": ["2"]})
