"""How a consistency check is shown: in the line at the bottom, on the cache's page and as an alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.engine.questions import AskBranchCheck, AskCachedCheck
from ropewalk.model.readings.records import ConsistencyCheck, LayerGap
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.consistency import alarm, conditions, small, verdict
from ropewalk.views.panels.why import WhyPanel
from ropewalk.views.style import theme
from tests.views.canned import CannedEngine
from tests.views.driving import settle, window_over

Shown = Callable[..., Any]
GAPS = (
    LayerGap(0, 3e-7, "Q′ of row 4"),
    LayerGap(1, 2e-7, "Q′ of row 1"),
    LayerGap(2, 1.4, "the cached K of row 5"),
    LayerGap(3, 0.2, "Q′ of row 6"),
)
BROKEN = ConsistencyCheck("cached", 17, 0.44, 1e-4, "", GAPS, 1e-4)
SOUND = ConsistencyCheck("cached", 17, 3e-6, 1e-4, "", GAPS[:2], 1e-4)
GROWN = ConsistencyCheck("cached", 17, 2.5, 1e-4, "the dynamic rule turns faster past 16 positions")
BRANCHES = ConsistencyCheck("branches", 12, 4e-7, 1e-4, "", GAPS[:2], 1e-4, 6, 3)


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    window = window_over(running)
    window.resize(1600, 1000)
    window.show()
    yield window
    window.close()
    window.deleteLater()


Check = Callable[[ConsistencyCheck | None], None]


@pytest.fixture
def check(running: Session, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Let a check come to something; None: find the run too large to be checked by itself."""

    def come_to(check: ConsistencyCheck | None) -> None:
        if check is None:
            with monkeypatch.context() as patch:
                patch.setattr("ropewalk.app.session.consistency.CHECK_LIMIT", 0)
                running.consistency.follow()
        else:
            engine.consistency[check.kind] = check
            running.consistency.check_now(check.kind)
        settle(running)

    return come_to


def test_words() -> None:
    assert [small(value) for value in (3e-6, 0.0, 0.44, 12.3, 2e5)] == ["3e−6", "0", "0.44", "12", "2e5"]
    assert verdict(SOUND) == ("cached = full within 3e−6 ✓", "good")
    assert verdict(replace(SOUND, difference=0.0)) == ("cached = full exactly ✓", "good")
    assert verdict(BROKEN) == ("cached ≠ full from layer 2 on: off by 0.44 ✗", "bad")
    assert verdict(GROWN) == ("cached differs from full by 2.5, as it must", "")
    assert verdict(BRANCHES) == ("fused = explicit within 4e−7 ✓", "good")
    assert "6 rows on a cache of 6" in conditions(BRANCHES)
    assert "begins with 3 rows of padding" in conditions(BRANCHES)
    assert BROKEN.begins == GAPS[2]
    assert not GROWN.alarms
    assert ConsistencyCheck("cached", 1, float("nan"), 1e-4).alarms


def test_an_alarm_names_the_layer_and_goes_with_its_run(window: MainWindow, running: Session, check: Check) -> None:
    assert not window.failure.isVisible()
    check(BROKEN)
    assert window.failure.isVisible()
    sentence, details = alarm(BROKEN)
    assert window.failure.sentence.text() == sentence
    assert "It begins in layer 2: the cached K of row 5 is off by 1.4" in sentence
    assert details.splitlines()[2] == "layer 2: 1.4 (the cached K of row 5)"
    assert window.status.check.text() == "cached ≠ full from layer 2 on: off by 0.44 ✗"
    assert window.status.check.property("tone") == "bad"
    check(SOUND)
    assert not window.failure.isVisible()
    wrong = replace(BRANCHES, difference=0.3, layers=GAPS)
    check(wrong)
    assert window.failure.sentence.text().startswith("The fused logits differ from the explicit ones by 0.3")
    check(SOUND)
    check(None)
    assert window.failure.isVisible(), "each check takes down its own alarm"
    check(BRANCHES)
    assert not window.failure.isVisible()
    running.start(Prompt(""))  # something else goes wrong
    check(None)
    assert window.failure.isVisible(), "only the alarm goes with the run"


def test_what_differs_by_design_is_explained_and_no_alarm(window: MainWindow, check: Check) -> None:
    check(GROWN)
    assert not window.failure.isVisible()
    assert "the dynamic rule turns faster" in window.status.check.toolTip()


def test_a_run_that_is_too_large_is_proved_on_demand(
    window: MainWindow, running: Session, engine: CannedEngine, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.app.session.consistency.CHECK_LIMIT", 11)
    assert not running.consistency.checks_itself
    check(None)
    assert window.status.check.text() == "cached = full: not proved"
    QTest.mouseClick(window.status.check, Qt.MouseButton.LeftButton)
    panel = window.panels["cache"]
    assert isinstance(panel, CachePanel)
    assert panel.on_screen
    assert "too large to be proved at every step" in panel.check.labels["cached"].text()
    engine.consistency |= {"cached": SOUND, "branches": BRANCHES}
    for kind, button in panel.check.buttons.items():
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        settle(running)
        assert panel.check.labels[kind].text().startswith(verdict(engine.consistency[kind])[0])
    assert engine.asked[-2:] == [AskCachedCheck(by_layer=True), AskBranchCheck()]
    assert (running.consistency.check, running.consistency.branches) == (SOUND, BRANCHES)


def changed(session: Session) -> list[str]:
    return [intervention.label for intervention in session.interventions.now]


def test_the_keys_of_what_is_investigated(window: MainWindow, running: Session) -> None:
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_V)
    cache, why = window.panels["cache"], window.panels["why"]
    assert isinstance(cache, CachePanel)
    assert cache.page_box.currentText() == "proof"
    assert isinstance(why, WhyPanel)
    QTest.keyClick(window, Qt.Key.Key_W)
    assert why.fold_levels.isChecked()
    QTest.keyClick(window, Qt.Key.Key_W)
    assert not why.fold_levels.isChecked()
    running.interventions.apply((NoScale(),))
    settle(running)
    QTest.keyClick(window, Qt.Key.Key_X)
    settle(running)
    assert changed(running) == []
    QTest.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    settle(running)
    assert changed(running) == ["no 1/√Dh"]


def test_the_page_draws_a_bar_for_each_layer(running: Session, shown: Shown, check: Check) -> None:
    panel = shown(CachePanel, running, 700, 420)
    panel.turn_to("proof")
    check(BROKEN)
    check(BRANCHES)
    gaps = panel.check.gaps["cached"]
    lengths = [gaps.bar_of(place).width() for place in range(4)]
    assert lengths[2] > lengths[3] > lengths[0] > lengths[1] > 1
    image = gaps.grab().toImage()
    for place, colour in ((0, theme.current().accent), (2, theme.current().bad)):
        assert image.pixelColor(gaps.bar_of(place).center().toPoint()).rgb() == colour.rgb()
    assert "layer 2: 1.4 (the cached K of row 5)" in gaps.accessibleDescription()
    assert "6 rows on a cache of 6" in panel.check.labels["branches"].text()
    running.consistency.forget()
    assert panel.check.labels["cached"].text() == "cached = full: not proved yet."
    assert not gaps.isVisible()


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_page_is_there_on_a_projector(running: Session, shown: Shown, check: Check, name: Any) -> None:
    panel = shown(CachePanel, running, 900, 600)
    panel.turn_to("proof")
    check(BROKEN)
    before = panel.check.gaps["cached"].sizeHint().height()
    theme.apply(name, projector=True)
    panel.theme_changed()
    assert panel.check.gaps["cached"].minimumHeight() > 1.5 * before
    theme.apply("dark")
