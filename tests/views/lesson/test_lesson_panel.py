"""The lesson in the real window on a real session: chosen, walked by keys, answered right and wrong, left again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.progress import ProgressStore
from ropewalk.app.lessons.reader import read_lesson
from ropewalk.app.lessons.shelf import Problem, Shelf
from ropewalk.model.lessons.text import Paragraph, Span, plain_text
from ropewalk.views import keys
from ropewalk.views.lesson.panel import LessonPanel
from ropewalk.views.lesson.text import LessonText, words
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.panel import ENDED
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.style import theme
from ropewalk.views.style.formulas import formula_picture
from tests.app.filled_lessons import SHELF
from tests.toy_lesson import CLICK_CHECK, DRAWN_CHECK, TOY
from tests.views import driving

LESSON = (
    TOY
    + """
[[step]]
title = "First, with {tokens(main)} tokens"
text = '''
Plain <b>text</b>, **strong**, $H = \\value{size(main, "H")}$.

- a point

| a | b |
| 1 | {tokens(main)} |

$$ x + y $$
'''
notes = "For the teacher."
show = ["tokens", "scores"]
look_at = "Look at the last row."
select = { head = 1, query = -1, key = 0 }
highlight = { cells = ["[[2, 0]]"] }
toggle = ["scores.log"]

[[step.check]]
id = "count"
kind = "number"
ask = "How many tokens?"
answer = "tokens(main)"
hint = "Count."
why = "Three words, three tokens."
"""
    + DRAWN_CHECK
    + """
[[step.check]]
id = "pick"
kind = "choose"
ask = "Which?"
why = "Because."
options = [
  { text = "This & that", right = true, why = "It is." },
  { text = "Other", why = "It is not." },
]

[[step.check]]
id = "shape"
kind = "shape"
ask = "The shape?"
answer = "[1, 2, 3]"
why = "So."
"""
    + CLICK_CHECK
    + """
[[step.check]]
id = "aloud"
kind = "say"
ask = "Say it."
seconds = 30
reveal = "It is so."
points = ["one", "two"]
why = "So."

[[step]]
title = "Second"
text = "Two."
show = ["scores", "why"]
select = { query = 0 }

[[step]]
title = "Third"
text = "Three."
show = ["rope"]
play = "rotation"
"""
)


@pytest.fixture(scope="module")
def shared(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[driving.Shared]:
    """A window over a real session, with the bundled model and a run."""
    folder = tmp_path_factory.mktemp("window")
    with driving.opened_window(folder, None, "hark", QSize(1280, 800), workspace=driving.LIGHT) as window:
        yield driving.Shared(window)


@pytest.fixture
def window(qtbot: QtBot, shared: driving.Shared) -> Iterator[MainWindow]:
    window = shared.put_back()
    window.lesson.records().reset()
    yield window
    shared.clear()


@pytest.fixture
def own_window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    """A window that no other test has, in which no lesson has been seen."""
    with driving.opened_window(tmp_path, None, "hark", QSize(1280, 800), workspace=driving.LIGHT) as window:
        yield window


@cache
def toy_shelf() -> Shelf:
    """One lesson and one broken file to choose from."""
    problem = Problem(Path("bad.toml"), 7, "there is no title.")
    return Shelf((read_lesson(LESSON, Path("fifty.toml")),), (problem,))


def offered(qtbot: QtBot, window: MainWindow) -> LessonPanel:
    """The panel in front, with the toy shelf."""
    window.lesson.take_shelf(toy_shelf())
    window.reveal("lesson")
    qtbot.waitUntil(window.lesson.isVisible)
    return window.lesson


@pytest.fixture
def panel(qtbot: QtBot, window: MainWindow) -> LessonPanel:
    return offered(qtbot, window)


def settle(qtbot: QtBot, panel: LessonPanel) -> None:
    qtbot.waitUntil(lambda: not panel.session.busy, timeout=60_000)


@pytest.fixture
def lesson_panel(qtbot: QtBot, panel: LessonPanel) -> LessonPanel:
    """The panel with its lesson open at the first step."""
    panel.open(panel.lessons()[0], 0)
    qtbot.waitUntil(lambda: panel.player.filled is not None and bool(panel.cards), timeout=60_000)
    settle(qtbot, panel)
    return panel


def shown(window: MainWindow) -> set[str]:
    return {name for name, card in window.cards.items() if card.isVisible()}


def test_the_lesson_waits_in_its_workspace(window: MainWindow) -> None:
    assert not window.lesson.on_screen
    window.show_workspace("lesson")
    assert window.lesson.on_screen


def test_the_shelf_is_read_when_it_is_first_seen(qtbot: QtBot, own_window: MainWindow) -> None:
    own_window.reveal("lesson")
    qtbot.waitUntil(lambda: own_window.lesson.shelf is not None)
    assert len(own_window.lesson.lessons()) == 18
    assert own_window.lesson.chooser.count() == 19


def test_a_broken_file_is_named_with_its_line_and_reason(panel: LessonPanel) -> None:
    assert [card.accessibleName() for card in panel.choices.cards] == [
        "Lesson 50: A toy. A test. 10 minutes. Not begun."
    ]
    assert "bad.toml, line 7: there is no title." in panel.spoken


def test_a_card_opens_its_lesson_and_tells_of_it_when_it_is_left(qtbot: QtBot, panel: LessonPanel) -> None:
    assert panel.choices.isVisible()
    QTest.mouseClick(panel.choices.cards[0], Qt.MouseButton.LeftButton)
    settle(qtbot, panel)
    assert panel.lesson is panel.lessons()[0]
    assert panel.choices.isHidden()
    panel.forward()
    settle(qtbot, panel)
    panel.leave()
    settle(qtbot, panel)
    assert panel.choices.cards[0].said == "Walked to step 2 of 3; 0 of 6 questions right."
    QTest.mouseClick(panel.reset_button, Qt.MouseButton.LeftButton)
    assert panel.choices.cards[0].said == "Not begun."


def test_a_step_says_what_it_is_about_and_sets_the_window(lesson_panel: LessonPanel, window: MainWindow) -> None:
    assert plain_text(lesson_panel.step_title.content) == "First, with 3 tokens"
    assert plain_text(lesson_panel.look_at.content) == "Look at the last row."
    assert "Plain <b>text</b>, strong, H = 2." in lesson_panel.spoken
    assert "<b>text</b>" in lesson_panel.text.toPlainText()
    assert lesson_panel.text.accessibleDescription() == lesson_panel.spoken
    assert shown(window) == {"lesson", "tokens", "scores"}
    assert window.lesson_scenes.switch("scores.log").isChecked()
    now = lesson_panel.session.selection.now
    assert (now.head, now.query, now.key) == (1, 2, 0)
    assert lesson_panel.place.text() == "step 1 of 3"
    assert not lesson_panel.back_button.isEnabled()


def test_page_keys_walk_wherever_the_focus_is(qtbot: QtBot, lesson_panel: LessonPanel, window: MainWindow) -> None:
    for find in (
        lambda: window,
        lambda: window.bar.prompt,
        lambda: lesson_panel.cards[0].field,
        lambda: lesson_panel.text,
        lambda: lesson_panel.chooser,
    ):
        place = find()
        assert isinstance(place, QWidget)
        place.setFocus()
        QTest.keyClick(place, Qt.Key.Key_PageDown)
        settle(qtbot, lesson_panel)
        assert lesson_panel.player.step == 1
        assert shown(window) == {"lesson", "scores", "why"}
        assert not window.lesson_scenes.switch("scores.log").isChecked()
        QTest.keyClick(window, Qt.Key.Key_PageUp)
        settle(qtbot, lesson_panel)
        assert lesson_panel.player.step == 0
    assert shown(window) == {"lesson", "tokens", "scores"}


def test_a_rotation_is_set_going_and_stopped_again(qtbot: QtBot, lesson_panel: LessonPanel, window: MainWindow) -> None:
    lesson_panel.player.go(2)
    rope = window.panels["rope"]
    assert isinstance(rope, RopePanel)
    qtbot.waitUntil(rope.timer.isActive, timeout=60_000)
    before, r = rope.turned, rope.reading
    rope.timer.timeout.emit()
    after = rope.turned
    assert before is not None
    assert after is not None
    assert r is not None
    assert after.position > before.position
    assert after.position - after.key_position == r.query_position - r.key_position, "both hands turn"
    lesson_panel.back()
    settle(qtbot, lesson_panel)
    assert not rope.timer.isActive()
    assert (rope.moves, rope.both.isChecked()) == ("query", False)


def test_without_a_lesson_the_page_keys_are_left_alone(window: MainWindow) -> None:
    QTest.keyClick(window, Qt.Key.Key_PageDown)
    assert window.lesson.lesson is None


def test_leaving_brings_the_window_back(qtbot: QtBot, panel: LessonPanel, window: MainWindow) -> None:
    before = shown(window)
    panel.open(panel.lessons()[0], 0)
    settle(qtbot, panel)
    assert shown(window) != before
    panel.leave_button.click()
    settle(qtbot, panel)
    assert shown(window) == before
    assert panel.session.run is not None
    assert panel.session.run.prompt == "hark"
    assert panel.chooser.currentIndex() == 0


def test_a_number_is_judged_with_the_reason_and_kept(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[0]
    assert card.field is not None
    QTest.keyClicks(card.field, "4")
    QTest.keyClick(card.field, Qt.Key.Key_Return)
    assert card.verdict.text() == "Not quite. Try once more."
    assert (card.hint.isVisible(), card.because.isVisible()) == (False, False)
    QTest.keyClick(card.field, Qt.Key.Key_Return)
    assert card.verdict.text() == "Not quite. Here is a hint."
    assert (card.hint.isVisible(), plain_text(card.hint.content)) == (True, "Count.")
    QTest.keyClick(card.field, Qt.Key.Key_Return)
    assert card.verdict.text() == "Not quite. The engine says 3."
    assert plain_text(card.because.content) == "Three words, three tokens."
    card.field.setText("what")
    card.replies[0].click()
    assert "is no number" in card.verdict.text()
    card.field.setText("3")
    card.replies[0].click()
    assert (card.verdict.text(), card.verdict.property("tone")) == ("Right. The engine says 3.", "good")
    kept = ProgressStore(lesson_panel.session.settings.path.with_name("progress.json"))
    record = kept.lesson("fifty").checks["count"]
    assert (record.tries, record.right) == (4, 1)


def test_a_practice_problem_comes_with_fresh_numbers(qtbot: QtBot, lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[1]
    before = plain_text(card.asked.ask)
    next(b for b in card.findChildren(QPushButton) if b.text() == "Fresh numbers").click()
    qtbot.waitUntil(lambda: lesson_panel.cards[1] is not card, timeout=60_000)
    assert plain_text(lesson_panel.cards[1].asked.ask) != before
    settle(qtbot, lesson_panel)


@pytest.mark.slow
def test_an_option_says_why_at_once(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[2]
    for button, option in zip(card.replies, card.asked.options, strict=True):
        button.click()
        assert card.verdict.text().startswith("Right" if option.right else "Not quite")
        assert plain_text(card.because.content) == f"{plain_text(option.why)}\nBecause."


def test_after_a_second_wrong_choice_the_right_one_is_shown(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[2]
    rights = [option.right for option in card.asked.options]
    wrong, letter = card.replies[rights.index(False)], card.replies[rights.index(True)].text()
    QTest.mouseClick(wrong, Qt.MouseButton.LeftButton)
    assert card.verdict.text() == "Not quite."
    QTest.mouseClick(wrong, Qt.MouseButton.LeftButton)
    assert card.verdict.text() == f"Not quite. {letter} is right."
    QTest.mouseClick(card.replies[rights.index(True)], Qt.MouseButton.LeftButton)
    assert card.verdict.text() == "Right."


def test_what_came_of_a_reply_is_scrolled_to(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[3]
    assert card.field is not None
    lesson_panel.reading.verticalScrollBar().setValue(0)
    card.field.setText("1")
    card.replies[0].click()
    top = card.verdict.mapTo(lesson_panel.reading.viewport(), card.verdict.rect().topLeft()).y()
    assert 0 <= top < lesson_panel.reading.viewport().height()


@pytest.mark.slow
def test_a_shape_is_judged(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[3]
    assert card.field is not None
    for typed, says in (("2 1 3", "order"), ("1×2×3", "Right")):
        card.field.setText(typed)
        card.replies[0].click()
        assert says in card.verdict.text()


@pytest.mark.slow
def test_a_click_is_the_selection(lesson_panel: LessonPanel) -> None:
    card, selection = lesson_panel.cards[4], lesson_panel.session.selection
    selection.update(query=1, key=0)
    assert card.replies[0].text() == "Answer: query 1, key 0"
    card.replies[0].click()
    assert card.verdict.text().startswith("Not quite.")
    selection.update(query=2, key=1)
    card.replies[0].click()
    assert card.verdict.text().startswith("Right.")


def test_saying_aloud_is_revealed_and_marked(lesson_panel: LessonPanel) -> None:
    card = lesson_panel.cards[5]
    card.replies[0].click()
    assert card.replies[0].text() == "0 of 30 s"
    card.replies[1].click()
    assert not card.model_answer.isHidden()
    card.points[0].setChecked(True)
    card.mark.click()
    assert card.verdict.text() == "1 of 2 points."
    card.points[1].setChecked(True)
    card.mark.click()
    assert card.verdict.property("tone") == "good"


def test_a_clock_stops_when_the_step_is_left(qtbot: QtBot, lesson_panel: LessonPanel) -> None:
    lesson_panel.cards[5].replies[0].click()
    lesson_panel.forward()
    settle(qtbot, lesson_panel)
    assert lesson_panel.cards == []


def test_a_file_of_ones_own_opens_and_a_broken_one_is_explained(
    qtbot: QtBot, own_window: MainWindow, tmp_path: Path
) -> None:
    panel, path = offered(qtbot, own_window), tmp_path / "mine.toml"
    path.write_text("number = \n", encoding="utf-8")
    panel.open_file(str(path))
    qtbot.waitUntil(lambda: not panel.trouble.isHidden())
    assert panel.trouble.text()
    path.write_text(LESSON, encoding="utf-8")
    panel.open_file(str(path))
    qtbot.waitUntil(lambda: panel.lesson is not None)
    settle(qtbot, panel)
    assert panel.lesson is not None
    assert panel.lesson.id == "mine"
    assert panel.chooser.currentIndex() == 2


def test_everything_has_a_name_and_is_reached_by_tab(lesson_panel: LessonPanel, window: MainWindow) -> None:
    wanted: list[QWidget] = [
        lesson_panel.chooser,
        lesson_panel.next_button,
        lesson_panel.leave_button,
        lesson_panel.text,
    ]
    wanted += [button for card in lesson_panel.cards for button in card.replies]
    assert all(widget.accessibleName() for widget in wanted)
    lesson_panel.chooser.setFocus()
    reached: set[QWidget] = set()
    for _ in range(120):
        focused = QApplication.focusWidget()
        if focused is None or wanted == []:
            break
        reached.add(focused)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    assert set(wanted) <= reached


@pytest.mark.parametrize("projector", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_text_follows_the_theme(lesson_panel: LessonPanel, window: MainWindow, projector: bool) -> None:
    window.set_look("light", projector)
    format_ = lesson_panel.look_at.document().begin().begin().fragment().charFormat()
    assert format_.foreground().color() == theme.current().text
    assert format_.font().pixelSize() >= (24 if projector else 12)
    assert shown(window) == {"lesson", "tokens", "scores"}
    window.set_look("dark", False)


def test_values_and_gaps_tell_their_source(qtbot: QtBot) -> None:
    text = LessonText("A text")
    qtbot.addWidget(text)
    text.show_text((Span("value", "3", "f(a<b)"), Span("missing", "…", "Nothing is open.")))
    fragments = text.document().begin().begin()
    assert fragments.fragment().charFormat().toolTip() == "<p style='white-space:pre-wrap'>f(a&lt;b)</p>"
    assert fragments.fragment().charFormat().foreground().color() == theme.current().accent
    text.show_text(words("<b>bold</b>"))
    assert text.toPlainText() == "<b>bold</b>"


def lines_of(text: LessonText) -> list[str]:
    """What stands on each line of a text, cells of tables included."""
    found, block = [], text.document().begin()
    while block.isValid():
        layout, said = block.layout(), block.text()
        for at in range(layout.lineCount()):
            line = layout.lineAt(at)
            found.append(said[line.textStart() : line.textStart() + line.textLength()])
        block = block.next()
    return found


TABLE = tuple(
    Paragraph("row", tuple((Span("words", cell),) for cell in row))
    for row in (
        ("after", "loss of the repeats", "loss of the text", "strongest induction"),
        ("1,200 steps", "5.24", "4.90", "0.32"),
        ("1,275 steps", "1.89", "5.19", "0.65"),
    )
)


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("width", [280, 330, 600])
def test_a_table_cuts_no_word_whatever_its_width(qtbot: QtBot, projector: bool, width: int) -> None:
    theme.apply("dark", projector=projector)
    text = LessonText("A text")
    qtbot.addWidget(text)
    text.show_text(TABLE)
    text.show()
    text.resize(width, 400)
    words_on_screen = [word for line in lines_of(text) for word in line.split()]
    whole = {word for row in TABLE for span in row.spans for word in span.text.split()}
    assert set(words_on_screen) == whole
    assert text.document().idealWidth() <= width
    listed = words_on_screen.count("repeats") == 2  # a heading beside every value
    assert listed == (projector and width < 400)
    text.resize(900, 400)
    assert [word for line in lines_of(text) for word in line.split()].count("repeats") == 1


def test_a_question_is_as_narrow_as_a_projector_needs(lesson_panel: LessonPanel, window: MainWindow) -> None:
    window.set_look("dark", True)
    card = lesson_panel.cards[5]
    card.replies[1].click()
    assert [card.points[0].isVisible(), card.mark.isVisible()] == [True, True]
    assert max(one.minimumSizeHint().width() for one in lesson_panel.cards) <= 330


def ink(picture: QImage) -> bool:
    return any(picture.pixelColor(x, y).alpha() for x in range(picture.width()) for y in range(picture.height()))


def test_a_formula_is_drawn_and_a_broken_one_is_shown_as_written(qtbot: QtBot) -> None:
    picture = formula_picture(r"\frac{q \cdot k}{\sqrt{D_h}}", 16, "#ffffff", True)
    assert picture is not None
    assert ink(picture)
    assert formula_picture(r"\left( x", 16, "#ffffff", True) is None
    text = LessonText("A text")
    qtbot.addWidget(text)
    text.resize(QSize(300, 100))
    text.show_text((Paragraph("formula", ((Span("formula", r"\left( x"),),)),))
    assert text.toPlainText() == r"\left( x"


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_every_formula_of_the_course_is_drawn(qtbot: QtBot, every: int) -> None:
    from ropewalk.model.lessons.text import Formula

    formulas = {
        "".join(piece if isinstance(piece, str) else "1" for piece in part.pieces)
        for lesson in SHELF.lessons
        for step in lesson.steps
        for text in (step.text, *(each for check in step.checks for each in (check.ask, check.why, check.reveal)))
        for block in text
        for cell in block.cells
        for part in cell
        if isinstance(part, Formula)
    }
    assert len(formulas) > 50
    looked_at = sorted(formulas)[::every]
    undrawn = [latex for latex in looked_at if formula_picture(latex, 15, "#000000", True) is None]
    assert undrawn == []


def test_the_keys_of_a_lesson_are_bound() -> None:
    assert not keys.action("lesson_on").reserved
    assert not keys.action("lesson_back").reserved


def test_a_step_whose_numbers_nobody_can_read_says_so_until_the_engine_is_back(
    qtbot: QtBot, window: MainWindow, panel: LessonPanel
) -> None:
    session, lesson = window.session, panel.lessons()[0]
    session.engines.current.kill()
    panel.open(lesson)
    qtbot.waitUntil(lambda: not session.busy)
    assert plain_text(panel.step_title.content) == ENDED
    session.recovery.restart()
    qtbot.waitUntil(lambda: panel.filled is not None, timeout=60_000)
    assert plain_text(panel.step_title.content).startswith("First, with ")
    panel.leave()
