"""The lessons as cards: what each says, how far its bar goes, and how one is opened by hand and by keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.plan import Lesson
from ropewalk.app.lessons.progress import LessonRecord, ProgressStore
from ropewalk.views.lesson.cards import LessonCard, LessonCards
from ropewalk.views.style import ink, theme
from tests.app.filled_lessons import SHELF


@pytest.fixture
def lessons() -> tuple[Lesson, ...]:
    return SHELF.lessons[:5]


@pytest.fixture
def cards(qtbot: QtBot, tmp_path: Path, lessons: tuple[Lesson, ...]) -> LessonCards:
    """One walked to the end, one begun with its first question right, the others not begun."""
    store = ProgressStore(tmp_path / "progress.json")
    first, second, *_ = lessons
    store.reach(first.id, len(first.steps) - 1, len(first.steps))
    store.reach(second.id, 2, len(second.steps))
    store.answer(second.id, second.checks[0].id, right=True)
    store.answer(second.id, second.checks[1].id, right=False)
    made = LessonCards()
    qtbot.addWidget(made)
    made.resize(700, 800)
    made.show_lessons([(lesson, store.lesson(lesson.id)) for lesson in lessons])
    made.show()
    made.activateWindow()
    return made


def test_a_card_says_what_it_is_about_and_how_far_it_was_walked(
    cards: LessonCards, lessons: tuple[Lesson, ...]
) -> None:
    for card, lesson in zip(cards.cards, lessons, strict=True):
        said = card.accessibleName()
        assert all(part in said for part in (lesson.title, lesson.about, f"{lesson.minutes} minutes"))
    assert cards.cards[0].said == f"Walked to the end; 0 of {len(lessons[0].checks)} questions right."
    steps = len(lessons[1].steps)
    assert cards.cards[1].said == f"Walked to step 3 of {steps}; 1 of {len(lessons[1].checks)} questions right."
    assert cards.cards[2].said == "Not begun."


def test_the_bar_is_the_share_of_steps_and_every_question_has_its_mark(cards: LessonCards) -> None:
    look = theme.current()
    for card, done, colour in ((cards.cards[0], 1.0, look.good), (cards.cards[1], 3.0, look.accent)):
        share = done if done == 1 else done / len(card.lesson.steps)
        picture, bar = card.grab().toImage(), card.bar
        inside = bar.left() + bar.width() * share - 3
        assert picture.pixelColor(QPoint(round(inside), round(bar.center().y()))) == colour
        if share < 1:
            assert picture.pixelColor(QPoint(round(inside) + 6, round(bar.center().y()))) != colour
    card = cards.cards[1]
    picture, ticks = card.grab().toImage(), card.ticks
    assert len(ticks) == len(card.lesson.checks)
    green = [
        any(
            ink.mixed(look.field, look.good, 0.6).green() <= picture.pixelColor(x, y).green()
            and picture.pixelColor(x, y).green() > picture.pixelColor(x, y).red() + 40
            for x in range(round(box.left()), round(box.right()))
            for y in range(round(box.top()), round(box.bottom()))
        )
        for box in ticks
    ]
    assert green == [True] + [False] * (len(ticks) - 1)


@pytest.mark.parametrize("width", [300, 420, 700, 1000])
@pytest.mark.parametrize("projector", [False, True])
def test_everything_is_inside_its_card_at_every_width(cards: LessonCards, width: int, projector: bool) -> None:
    theme.apply("light", projector)
    cards.resize(width, 800)
    cards.arrange()
    for card in cards.cards:
        title, about, row = card.parts(card.width())
        assert title.bottom() < about.top() < about.bottom() < row.top()
        assert card.rect().contains(row)
        assert card.bar.right() < card.ticks[0].left()
        end = row.right() - ink.text_width(theme.current().font("label"), f"{card.lesson.minutes} min")
        assert card.ticks[-1].right() <= end
        assert card.geometry().right() <= cards.width()
    for one, other in zip(cards.cards, cards.cards[1:], strict=False):
        assert not one.geometry().intersects(other.geometry())
    theme.apply("dark")


def test_a_click_enter_and_arrows(qtbot: QtBot, cards: LessonCards, lessons: tuple[Lesson, ...]) -> None:
    chosen: list[Lesson] = []
    cards.chosen.connect(chosen.append)
    QTest.mouseClick(cards.cards[3], Qt.MouseButton.LeftButton)
    assert cards.columns == 2
    cards.cards[0].setFocus()

    def focused() -> LessonCard:
        found = cards.window().focusWidget()
        assert isinstance(found, LessonCard)
        return found

    for key, place in (
        (Qt.Key.Key_Down, 2),
        (Qt.Key.Key_Right, 3),
        (Qt.Key.Key_Up, 1),
        (Qt.Key.Key_Left, 0),
        (Qt.Key.Key_Up, 0),
    ):
        QTest.keyClick(focused(), key)
        assert focused() is cards.cards[place]
    QTest.keyClick(focused(), Qt.Key.Key_Return)
    assert chosen == [lessons[3], lessons[0]]


def test_the_same_list_makes_nothing_anew(cards: LessonCards, lessons: tuple[Lesson, ...]) -> None:
    before = list(cards.cards)
    cards.show_lessons([(card.lesson, card.record) for card in before])
    assert cards.cards == before
    cards.show_lessons([(lessons[0], LessonRecord())])
    assert [card.said for card in cards.cards] == ["Not begun."]
