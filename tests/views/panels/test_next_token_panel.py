"""The next-token panel: candidates, what really follows, sampling and stepping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskNextToken
from ropewalk.model.readings.records import Sampling
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.style import theme, wording
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


def test_bars_are_the_probabilities(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    query = running.selection.now.query
    reading = canned.reading(run_on(running), AskNextToken(query, 40, running.timeline.sampling))
    rows = panel.candidates.shown()
    assert [c.token.text for c in rows] == [c.token.text for c in reading.candidates[: len(rows)]]
    widths = [panel.candidates.bar_of(i).width() for i in range(4)]
    for i in range(1, 4):
        assert widths[i] / widths[0] == pytest.approx(rows[i].probability / rows[0].probability)
    assert panel.subtitle.text().startswith(f"after {run_on(running).tokens[query].text} ({query})")
    assert f"entropy {reading.entropy:.2f} nats" in panel.subtitle.text()


def test_candidates_left_out_are_faint(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    panel.top_k.setValue(2)
    settle(running, panel)
    assert running.timeline.sampling == Sampling(top_k=2)
    image = panel.candidates.grab().toImage()
    for row, full in ((0, True), (2, False)):
        bar = panel.candidates.bar_of(row)
        colour = image.pixelColor(round(bar.left()) + 4, round(bar.center().y()))
        assert (colour.rgb() == theme.current().accent.rgb()) is full
    assert "left out by top-k or top-p" in panel.candidates.description(2)


def test_each_line_tells_of_its_own_candidate(running: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda at, text, widget: told.append(text))
    for row in (0, 1, len(panel.candidates.shown())):
        place = QPoint(5, round((row + 0.5) * panel.candidates.pitch()))
        QApplication.sendEvent(panel.candidates, QHelpEvent(QEvent.Type.ToolTip, place, QPoint()))
    assert told == [*(wording.tooltip(panel.candidates.description(row)) for row in (0, 1)), ""]


def test_the_token_that_follows_is_marked(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    assert panel.candidates.actual is not None
    assert "follows in the run" in panel.candidates.description(0)
    running.selection.update(query=run_on(running).length - 1)
    settle(running, panel)
    assert panel.candidates.actual is None


def test_what_follows_is_shown_even_when_unlikely(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 570, 200)
    rows = canned.reading(run_on(running), AskNextToken(3, 40, running.timeline.sampling)).candidates
    unlikely = next(c for c in reversed(rows) if c.token.id not in {r.token.id for r in rows[:8]})
    panel.candidates.show_rows(rows, unlikely.token.id)
    assert panel.candidates.shown()[-1].token.id == unlikely.token.id


@pytest.mark.parametrize(
    ("box", "value", "wanted"),
    [
        ("temperature", 0.8, Sampling(temperature=0.8)),
        ("top_k", 40, Sampling(top_k=40)),
        ("top_p", 0.9, Sampling(top_p=0.9)),
        ("seed", 7, Sampling(seed=7)),
    ],
)
def test_a_number_box_changes_the_sampling(
    running: Session, shown: Shown, qtbot: QtBot, box: str, value: float, wanted: Sampling
) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    field = getattr(panel, box)
    field.selectAll()
    QTest.keyClicks(field, str(value))
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert running.timeline.sampling == wanted
    settle(running, panel)


def test_sampling_set_elsewhere_is_shown_and_not_sent_back(
    running: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    heard: list[Sampling] = []
    sent: list[Sampling] = []
    running.timeline.sampling_changed.connect(heard.append)
    set_sampling = running.timeline.set_sampling
    monkeypatch.setattr(running.timeline, "set_sampling", sent.append)
    set_sampling(Sampling(temperature=1.2, top_k=5, top_p=0.5, seed=3))
    settle(running, panel)
    assert (panel.temperature.value(), panel.top_k.value(), panel.top_p.value(), panel.seed.value()) == (1.2, 5, 0.5, 3)
    assert (heard, sent) == ([Sampling(1.2, 5, 0.5, 3)], [])


def test_greedy_and_all_are_words(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    assert panel.temperature.text() == "greedy"
    assert panel.top_k.text() == "all"
    assert panel.temperature.lineEdit().width() > 30


def test_buttons_step_play_and_run(running: Session, shown: Shown, qtbot: QtBot, engine: CannedEngine) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    left = Qt.MouseButton.LeftButton
    assert not panel.back_button.isEnabled()
    QTest.mouseClick(panel.step_button, left)
    settle(running, panel)
    assert run_on(running).length == 13
    assert running.selection.now.query == 12
    QTest.mouseClick(panel.back_button, left)
    assert run_on(running).length == 12
    running.timeline.set_pace(0)
    QTest.mouseClick(panel.play_button, left)
    assert running.timeline.playing
    assert panel.play_button.text() == "pause"
    qtbot.waitUntil(lambda: run_on(running).length >= 15)
    QTest.mouseClick(panel.play_button, left)
    assert panel.play_button.text() == "play"
    settle(running, panel)
    length = run_on(running).length
    panel.length_box.setValue(length + 20)
    QTest.mouseClick(panel.run_button, left)
    settle(running, panel)
    assert run_on(running).length == length + 20
    assert f"step {length}+20 0" in engine.calls, "in one job"


def test_run_to_cannot_pass_the_limit(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    assert panel.length_box.maximum() == run_on(running).config.max_position
    assert panel.length_box.value() == 22


def test_only_the_query_redraws_it(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(NextTokenPanel, running, 570, 300)
    drawn = panel.draws
    running.selection.update(layer=0, head=0, key=0, plane=2)
    running.selection.update(query=4)
    settle(running, panel)
    assert panel.draws == drawn + 1


def test_it_fits_its_place_in_the_window(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 570, 200)
    assert (panel.width(), panel.height()) == (570, 200)
    assert len(panel.candidates.shown()) >= 5


def test_on_a_projector_the_sampling_can_be_asked_for(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 640, 500)
    assert not panel.controls.isVisible()
    theme.apply("dark", projector=True)
    panel.theme_changed()
    assert panel.controls.isVisible()
    assert not panel.temperature.isVisible()
    panel.controls.click()
    assert panel.temperature.isVisible()
    assert panel.candidates.isVisible()
    panel.temperature.setValue(0.5)
    assert running.timeline.sampling.temperature == 0.5
    panel.controls.click()
    assert not panel.temperature.isVisible()


def test_the_controls_stand_beside_the_candidates_only_where_they_fit(running: Session, shown: Shown) -> None:
    panel = shown(NextTokenPanel, running, 640, 300)
    assert panel.parts.beside
    assert panel.minimumSizeHint().width() < 400
    panel.resize(380, 420)
    QApplication.processEvents()
    assert not panel.parts.beside
    assert panel.candidates.geometry().bottom() < panel.parts.second.geometry().top()
    for widget in (*panel.boxes, panel.step_button, panel.run_button):
        assert panel.rect().contains(widget.mapTo(panel, widget.rect().bottomRight()))
