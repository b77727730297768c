"""What the lessons say is decided by their numbers; what is wrong in a lesson's words is found, with its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk.app.lessons.claims import unclaimed
from ropewalk.app.lessons.contradictions import contradicted
from ropewalk.app.lessons.filling import worth_in
from ropewalk.app.lessons.reader import read_lesson
from ropewalk.app.lessons.table import LessonFileError
from tests.app.filled_lessons import IDS, lesson_of, runs_of
from tests.app.small_lesson import SMALL, read


@pytest.mark.parametrize("lesson_id", IDS)
def test_every_sentence_has_its_claim_and_no_number_contradicts_it(lesson_id: str) -> None:
    lesson = lesson_of(lesson_id)
    assert [problem.sentence for problem in lesson.unclaimed] == []
    assert [one.sentence for one in contradicted(lesson, worth_in(lesson, runs_of(lesson_id)))] == []


def test_a_lesson_names_no_head_of_a_trained_model() -> None:
    """A head is picked by what it does, for weights change; one is named for its kv head, a matter of sizes."""
    for lesson_id in IDS:
        named = re.findall(r"\bL\d+H\d+\b", lesson_of(lesson_id).path.read_text(encoding="utf-8"))
        assert set(named) <= ({"L1H5"} if lesson_id.startswith("02") else set()), lesson_id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("There are three heads.", ["three"]),
        ("One in 1,024 is larger than all.", ["One", "1,024", "larger", "than", "all"]),
        ("How many are there, twice?", []),
        ("It is {kv_bytes(main, 2)} and $2mn$ and `three`, [2, 5].", []),
        ("Head-first one-hot rows.", ["one-hot"]),
        ("A someone alone.", ["alone"]),
        ("V is rotated, and queries are kept.", ["rotated", "kept"]),
        ("Nobody asks? It is never so.", ["never"]),
    ],
)
def test_words_that_state_something_are_found(text: str, words: list[str]) -> None:
    assert [word for _, found in unclaimed(text, ()) for word in found] == words


def test_a_quoted_piece_covers_its_own_words_only() -> None:
    text = "This is\nlarger than the other. Both are odd."
    assert list(unclaimed(text, ["is larger than"])) == [("Both are odd.", ("Both",))]
    assert list(unclaimed(text, ["is larger than the", "Both are"])) == []
    assert next(unclaimed(text, ["is smaller than"]))[1] == ("larger", "than")


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
    first, second = contradicted(lesson, worth_in(lesson, None))
    assert first.sentence == (
        f"line {SMALL.count(chr(10)) + 2}: “Line one.” is contradicted: "
        'less(size(main, "D"), 4,000) is not so: 4,096, 4,000.'
    )
    assert second.why == "more(2, 3) is not so: 2, 3."


def test_what_cannot_be_measured_is_no_contradiction() -> None:
    lesson = read(f"{SMALL}claims = [ {{ says = 'Line one.', holds = 'equal(tokens(open), 3)' }} ]\n")
    (found,) = contradicted(lesson, worth_in(lesson, None))
    assert not found.is_sure
    assert "cannot be decided" in found.sentence


PLANTED = [
    ("00", "Four rows of the ledger, one shape.", "Four rows of the ledger, four shapes."),
    ("01", "Amber and blue turn", "All three turn"),
    ("02", "Sharing saves a little in the weights", "Sharing saves most in the weights"),
    ("03", "are a quarter as tall as", "are half as tall as"),
    ("04", "second place gets next to nothing", "second place gets nearly as much"),
    ("05", "The last row sees both words, and no order.", "The last row sees both words and their order, every time."),
    ("06", "Its length never changes.", "Its length doubles with every position."),
    ("08", "RMSNorm has half the parameters", "RMSNorm has twice the parameters"),
    ("09", "Queries are not kept.", "Queries are kept as well, in each layer."),
    ("10", "The matrices grow in proportion to", "The matrices grow faster than in proportion to"),
    ("11", "One head silenced, and hardly anything happens.", "One head silenced, and everything falls apart."),
    ("13", "More than a quarter, since", "Exactly a quarter, since"),
    ("14", "no token is ruled out by it", "half of the tokens are ruled out by it"),
    ("16", "sixty-four times as much", "eight times as much"),
]


@pytest.mark.parametrize(("number", "right", "wrong"), PLANTED)
def test_a_wrong_sentence_is_found_by_its_words(number: str, right: str, wrong: str) -> None:
    lesson = lesson_of(next(lesson_id for lesson_id in IDS if lesson_id.startswith(number)))
    source = lesson.path.read_text(encoding="utf-8")
    assert right in source
    with pytest.raises(LessonFileError, match="No text of this step says"):
        read_lesson(source.replace(right, wrong, 1), Path("planted.toml"))


def test_a_sentence_that_is_added_is_found() -> None:
    lesson = lesson_of(IDS[0])
    source = lesson.path.read_text(encoding="utf-8").replace("text = '''\n", "text = '''\nThere are six norms. ", 1)
    (found,) = read_lesson(source, Path("planted.toml")).unclaimed
    assert found.why == "no claim decides six in “There are six norms.”"
