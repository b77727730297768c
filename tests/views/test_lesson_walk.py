"""Each lesson walked in the real window as a class sees it: by a clicker, on a projector, answered wrong and right.

At every step: the panels that it names and no others, every place that it names marked, nothing smaller than 18 points.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontInfo, QPainter, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QLineEdit, QTextEdit, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.checks import TRIES, Chosen, Clicked, Entered, Marked, example_reply
from ropewalk.app.lessons.plan import Asked, Lesson, Step
from ropewalk.model.lessons.text import plain_text
from ropewalk.views.lesson.check import CheckCard
from ropewalk.views.lesson.scene import NEED_NO_RUN
from ropewalk.views.lesson.text import LessonText
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.ledger import LedgerPanel
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import highlight, theme
from tests.app.filled_lessons import SHELF
from tests.views import driving

SMALLEST = 24
"""Pixels of 18 points, at 96 dots an inch, on a projector of 1920 × 1080."""


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    """The window of a projector over a real session, with the bundled model and a run."""
    screen = QSize(1920, 1080)
    with driving.opened_window(tmp_path, None, " hark, who goes there?", screen, workspace=driving.LIGHT) as window:
        window.set_look(projector=True)
        yield window


def ready(qtbot: QtBot, window: MainWindow, step: int) -> None:
    """Wait until a step is on screen as it should be."""
    player, session = window.lesson.player, window.session
    qtbot.waitUntil(lambda: player.step == step and player.filled is not None and not session.busy, timeout=60_000)
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)


# What is on screen ----------------------------------------------------------------------------------------------------


class Painted:
    """Every text that is painted, and how large."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.small: set[str] = set()
        write, write_laid_out = QPainter.drawText, QPainter.drawStaticText

        def note(painter: QPainter, text: str) -> None:
            if QFontInfo(painter.font()).pixelSize() < SMALLEST:
                self.small.add(text)

        def draw_text(painter: QPainter, *given: Any) -> Any:
            note(painter, next((part for part in given if isinstance(part, str)), ""))
            return write(painter, *given)

        def draw_static_text(painter: QPainter, *given: Any) -> Any:
            note(painter, given[-1].text())
            return write_laid_out(painter, *given)

        monkeypatch.setattr(QPainter, "drawText", draw_text)
        monkeypatch.setattr(QPainter, "drawStaticText", draw_static_text)


def small_type(window: MainWindow, painted: Painted) -> list[str]:
    """Texts on screen that cannot be read from the back of a room."""
    found = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or widget.visibleRegion().isEmpty():
            continue
        if isinstance(widget, (QLabel, QAbstractButton, QComboBox, QLineEdit)):
            text = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
            if text and QFontInfo(widget.font()).pixelSize() < SMALLEST:
                found.append(f"{type(widget).__name__}: {text}")
        if isinstance(widget, QTextEdit):
            found += [f"{widget.accessibleName()}: {text}" for text in small_fragments(widget.document())]
        if isinstance(widget, LessonText) and widget.is_squeezed:
            found.append(f"{widget.accessibleName()}: a formula that is wider than its place")
    painted.small.clear()
    window.grab()
    return found + sorted(painted.small)


def small_fragments(document: QTextDocument) -> list[str]:
    found = []
    block = document.begin()
    while block.isValid():
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            form = fragment.charFormat()
            if not form.isImageFormat() and fragment.text().strip() and form.font().pixelSize() < SMALLEST:
                found.append(fragment.text())
            place += 1
        block = block.next()
    return found


def marked(window: MainWindow) -> dict[str, frozenset[Any]]:
    """What is marked in the panels, read from the views that paint it."""
    panels = window.panels
    ledger = cast("LedgerPanel", panels["ledger"])
    return {
        "rows": frozenset(row.entry.key for row in ledger.model.rows) & ledger.model.highlighted,
        "heads": cast("HeadsPanel", panels["heads"]).view.highlighted,
        "cells": cast("ScoresPanel", panels["scores"]).weights.highlighted,
        "tokens": cast("TokensPanel", panels["tokens"]).strip.highlighted,
        "planes": cast("RopePanel", panels["rope"]).view.highlighted,
        "layers": cast("CachePanel", panels["cache"]).slabs.highlighted,
        "ranks": cast("NextTokenPanel", panels["next_token"]).candidates.highlighted,
    }


def check_scene(window: MainWindow, lesson: Lesson) -> None:
    """The panels that the step names, its marks, its line; for a config alone its ledger."""
    filled = window.lesson.filled
    assert filled is not None
    scene, shapes = filled.scene, window.lesson.player.ledger
    wanted = set(scene.panels) if shapes is None else set(scene.panels) & NEED_NO_RUN
    assert {name for name, card in window.cards.items() if card.isVisible()} == wanted | {"lesson"}
    line = window.classroom.line
    assert line.isVisible()
    assert line.place.text() == f"{window.lesson.player.step + 1} / {len(lesson.steps)}"
    assert line.line.toPlainText().strip() or filled.look_at
    assert not window.bar.isVisible()
    now, select = window.session.selection.now, dict(scene.select)
    assert shapes is not None or (now.layer, now.head) == (select.get("layer", now.layer), select.get("head", now.head))
    seen = marked(window)
    for one in scene.highlights:
        places: frozenset[Any] = frozenset(one.places)
        if one.what not in ("rows", "heads", "cells"):
            places = highlight.numbers({one.what: places}, one.what)
        if one.what == "rows" and "ledger" not in wanted:
            continue
        assert seen[one.what] == places
    ledger = cast("LedgerPanel", window.panels["ledger"])
    assert ledger.outline == shapes
    if shapes is not None:
        assert ledger.model.rowCount() == len(shapes.entries)
        assert ledger.body.isVisible()


# Answers --------------------------------------------------------------------------------------------------------------


def press(button: QAbstractButton | None) -> None:
    assert button is not None
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def reply(window: MainWindow, card: CheckCard, right: bool) -> None:
    """Answer a question with the mouse and the keyboard."""
    answer = example_reply(card.asked, right)
    if isinstance(answer, Entered):
        assert card.field is not None
        card.field.clear()
        QTest.keyClicks(card.field, answer.text)
        QTest.keyClick(card.field, Qt.Key.Key_Return)
    elif isinstance(answer, Chosen):
        press(card.replies[answer.place])
    elif isinstance(answer, Marked):
        press(card.replies[0])
        press(card.replies[1])
        for box in card.points:
            box.setChecked(right)
        press(card.mark)
    elif isinstance(answer, Clicked):
        choose(window, card.asked, right)
        press(card.replies[0])


def choose(window: MainWindow, asked: Asked, right: bool) -> None:
    """Click a place in its panel: one that is looked for, or another one."""
    panels, accepted = window.panels, set(asked.accepted)
    run = window.session.run
    assert run is not None
    rows, config = range(run.length), run.config
    places: dict[str, list[tuple[int, ...]]] = {
        "head": [(layer, head) for layer in range(config.layers) for head in range(config.heads)],
        "cell": [(query, key) for query in rows for key in rows],
        "query": [(row,) for row in rows],
        "key": [(row,) for row in rows],
        "plane": [(plane,) for plane in range(config.head_width // 2)],
        "layer": [(layer,) for layer in range(config.layers)],
    }
    place = next(spot for spot in places[asked.target] if (spot in accepted) == right)
    modifier = Qt.KeyboardModifier.ShiftModifier if asked.target == "key" else Qt.KeyboardModifier.NoModifier
    view, box = spot_of(panels, asked.target, place)
    assert view.isVisible(), f"{asked.target} is asked for, but its panel is not on screen"
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, modifier, box.center().toPoint())


def spot_of(panels: Any, target: str, place: tuple[int, ...]) -> tuple[QWidget, QRectF]:
    if target == "head":
        view = panels["heads"].view
        return view, QRectF(view.plan.of(*place).square)
    if target == "cell":
        return panels["scores"].weights.viewport(), panels["scores"].weights.cell_rect(*place)
    if target in ("query", "key"):
        return panels["tokens"].strip, panels["tokens"].strip.box_of(place[0])
    if target == "plane":
        return panels["rope"].view, panels["rope"].view.circle_of(place[0])
    slabs = panels["cache"].slabs
    return slabs, QRectF(slabs.slab("K", place[0]))


def check_answers(qtbot: QtBot, window: MainWindow) -> int:
    """Answer every question of the step wrong, then right, and read what is said to each."""
    for card in window.lesson.cards:
        asked = card.asked
        assert not asked.missing, f"{asked.id}: {asked.missing}"
        untold = TRIES if asked.kind in ("number", "shape") else 0
        for place, right in enumerate((*[False] * (1 + untold), True)):
            reply(window, card, right)
            verdict = card.verdict
            assert verdict.isVisible()
            assert verdict.property("tone") == ("good" if right else "bad"), f"{asked.id}: {verdict.text()}"
            if place < untold:
                assert "The engine says" not in verdict.text(), asked.id
                assert card.hint.isVisible() == (place > 0), asked.id
                continue
            if asked.kind in ("number", "shape") or (asked.kind == "click" and not right):
                assert asked.written in verdict.text(), asked.id
            if asked.kind == "choose":
                assert plain_text(card.because.content), asked.id
            assert plain_text(card.because.content) or not (asked.why or asked.kind == "choose")
        record = window.lesson.records().lesson(window.lesson.player.lesson.id).checks[asked.id]  # type: ignore[union-attr]
        assert (record.tries, record.right) == (2 + untold, 1)
    return len(window.lesson.cards)


WHOLE = 0
"""The lesson that the ordinary run walks from its first step to its last; the slow run walks them all."""


def kinds_of(lesson: Lesson, step: Step) -> set[tuple[object, ...]]:
    """What a window may do wrong in a step: its model, panels, marks, switches, interventions and questions."""
    scene = step.scene
    kinds: set[tuple[object, ...]] = {("model", lesson.models[scene.model].kind)}
    kinds |= {("panel", name) for name in scene.panels} | {("mark", mark.what) for mark in scene.highlights}
    kinds |= {("switch", name) for name in scene.toggles} | {("change", one.kind) for one in scene.interventions}
    kinds |= {("plays", scene.play), ("decodes", scene.decoded > 0)}
    return kinds | {("asks", check.kind, check.target if check.kind == "click" else "") for check in step.checks}


def one_of_each_kind() -> list[tuple[int, int]]:
    """A few steps, by lesson and place, that have among them every kind there is."""
    steps = {
        (lesson.number, place): kinds_of(lesson, step)
        for lesson in SHELF.lessons
        for place, step in enumerate(lesson.steps)
    }
    left, found = set().union(*steps.values()), []
    while left:
        richest = max(steps, key=lambda place: len(steps[place] & left))
        left -= steps[richest]
        found.append(richest)
    return sorted(found)


def check_step(qtbot: QtBot, window: MainWindow, painted: Painted, lesson: Lesson, step: int) -> int:
    """All that is asked of a step on screen; returns how many questions it has."""
    ready(qtbot, window, step)
    check_scene(window, lesson)
    assert small_type(window, painted) == [], f"lesson {lesson.number}, step {step}"
    return check_answers(qtbot, window)


@pytest.fixture
def failures(window: MainWindow) -> list[str]:
    """What is said to have failed."""
    said: list[str] = []
    window.session.failed.connect(lambda sentence, details: said.append(sentence))
    return said


@pytest.mark.slow
def test_every_kind_of_step_in_front_of_a_class(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch, failures: list[str]
) -> None:
    painted, asked = Painted(monkeypatch), 0
    window.lesson.take_shelf(SHELF)
    for number, step in one_of_each_kind():
        lesson = SHELF.lesson(str(number))
        window.lesson.open(lesson, step)
        asked += check_step(qtbot, window, painted, lesson, step)
    assert asked
    assert failures == []


@pytest.mark.parametrize(
    "number",
    [pytest.param(lesson.number, marks=() if lesson.number == WHOLE else pytest.mark.slow) for lesson in SHELF.lessons],
)
def test_a_lesson_is_walked_in_front_of_a_class(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch, failures: list[str], number: int
) -> None:
    painted, asked = Painted(monkeypatch), 0
    lesson = SHELF.lesson(str(number))
    window.lesson.take_shelf(SHELF)
    window.lesson.open(lesson, 0)
    for step in range(len(lesson.steps)):
        asked += check_step(qtbot, window, painted, lesson, step)
        QTest.keyClick(window, Qt.Key.Key_PageDown)
    assert asked == len(lesson.checks)
    assert failures == []
    assert window.lesson.records().lesson(lesson.id).finished
    assert window.size().width() == 1920


def test_small_type_is_found_wherever_it_is(qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    painted = Painted(monkeypatch)
    window.show_workspace("overview")
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)
    assert small_type(window, painted) == []
    label = QLabel("too small", window)
    label.setStyleSheet("font-size: 18px")
    label.show()
    monkeypatch.setitem(theme._SIZES, "number", 11)  # what is painted in that type is then 22 pixels high
    cast("ScoresPanel", window.panels["scores"]).weights.theme_changed()
    found = small_type(window, painted)
    assert "QLabel: too small" in found
    assert any(text.replace(".", "").isdigit() for text in found)
