"""Every panel races with a change of model, and with the end of the engine: nothing of the run that went is drawn or
computed with, and nothing fails.

The session's questions are held back here, so that a test says when which answer comes; an answer that is looked at
while its run is not on screen fails the test. Two models are put on screen in turn that have nothing in common: other
layers, heads, planes, vocabulary, and prompts of other lengths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QHelpEvent, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QComboBox,
    QSlider,
    QSpinBox,
    QToolTip,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from ropewalk.app.session.selected import PinnedHeads
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.app.session.session import Session
from ropewalk.app.session.state import SessionState
from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import (
    AskArithmetic,
    AskAtlas,
    AskHead,
    AskHeadDifference,
    AskMean,
    AskNeeds,
    AskNextTokenDifference,
    AskPlanes,
    AskRandomLayers,
    AskRefined,
    AskRules,
    Question,
)
from ropewalk.model.progress import finished
from ropewalk.model.readings import records
from ropewalk.model.readings.records import (
    Arithmetic,
    AtlasPart,
    ConsistencyCheck,
    HeadDifference,
    HeadNeeds,
    Line,
    NextTokenDifference,
    RandomLayer,
    RopeRule,
    Run,
    Sampling,
    Stage,
)
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.lesson.cards import LessonCard
from ropewalk.views.panels.compare import ComparePanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.panels.lines import SCOPES, LinesPanel
from ropewalk.views.panels.needs import NeedsPanel
from ropewalk.views.panels.panel import ENDED, Kept, Panel
from ropewalk.views.panels.registry import PANELS, Entry
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.timeline import TimelinePanel
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.panels.why import WhyPanel
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.canned import CannedEngine, token_at
from tests.views.driving import run_on, settle

LARGE = canned.CONFIG.changed(moe=MoeConfig(experts=4, per_token=2, width=64, layers=(True, True, True, True)))
SMALL = canned.CONFIG.changed(
    vocabulary=64, width=32, layers=2, heads=4, kv_heads=1, head_width=8, mlp_width=48, max_position=64
)
START = Selection(layer=1, head=2, query=4)
OF_THE_RUN_ITSELF = frozenset({"tokens", "lesson"})
"""Panels that show something of a run before anything is read of it."""


# What else is answered ------------------------------------------------------------------------------------------------


OF_RUNS: Final = [one for one in PANELS if not one.name.startswith("survey_")]
"""Panels that show the run on screen; those of surveys ask nothing of it."""
SOME: Final = [pytest.param(one, marks=() if at % 3 == 0 else pytest.mark.slow) for at, one in enumerate(OF_RUNS)]
"""For what every panel leaves to the class that all of them are: the ordinary run asks one in three."""


def arithmetic(run: Run, asked: AskArithmetic) -> Arithmetic:
    planes = range(run.config.head_width // 2)
    lines = tuple(Line(f"share.{plane}", "share", value=1.0, place=f"plane:{plane}") for plane in planes)
    return Arithmetic(asked.layer, asked.head, 0, (), asked.query, asked.key, (Stage("rotation", lines),))


def rules(run: Run, asked: AskRules) -> tuple[RopeRule, ...]:
    assert run.specs[asked.layer].rotary_width
    thetas = canned.thetas(run.config)
    return RopeRule("own", thetas, 1.0), RopeRule("linear", thetas / 2, 1.0)


def difference(run: Run, asked: AskHeadDifference) -> HeadDifference:
    zeros = np.zeros((run.length, run.length), np.float32)
    return HeadDifference(asked.layer, asked.head, zeros, zeros, tuple((row, row) for row in range(run.length)))


def random_layers(run: Run, asked: AskRandomLayers) -> tuple[RandomLayer, ...]:
    weights = np.tril(np.ones((asked.tokens, asked.tokens), np.float32))
    return tuple(
        RandomLayer(init, scaled, 1.0, 1.0, 1.0, 1.0, 1.0, weights)
        for init in ("normal", "library")
        for scaled in (True, False)
    )


ANSWERS: dict[type[Any], Callable[[Run, Any], Any]] = {
    AskArithmetic: arithmetic,
    AskRules: rules,
    AskHeadDifference: difference,
    AskNextTokenDifference: lambda run, asked: NextTokenDifference(0.1, 0.2, token_at(1), token_at(2), ()),
    AskNeeds: lambda run, asked: HeadNeeds(
        asked.query, asked.token, 1.0, np.zeros((run.config.layers, run.config.heads))
    ),
    AskRandomLayers: random_layers,
    AskMean: lambda run, asked: AblateHeads(asked.layer, asked.heads or (0,)),
    AskRefined: lambda run, asked: canned.reading(run, asked.picture),
}


# Answers that come when the test says so ------------------------------------------------------------------------------


class Watched:
    """A reading whose value may only be looked at while its run is on screen."""

    def __init__(self, session: Session, run: Run, question: Question, value: Callable[[], Any]) -> None:
        self._session, self.run, self.question = session, run, question
        self._read, self._value = value, None

    @property
    def value(self) -> Any:
        assert self._session.run is self.run, f"{self.question} of a run that is gone was used"
        self._value = self._value or self._read()
        return self._value


@dataclass
class Asked:
    """One question that waits for its answer."""

    run: Run
    question: Question
    answer: Callable[[Any], None]
    part: Callable[[Any], None] | None


class Race:
    """A session with two models to put on screen, whose questions wait.

    Attributes
    ----------
    waiting, old
        What was asked by slot, and what was replaced, answered or withdrawn.
    done
        Slots of the jobs that were wanted of the engine; none of them is run.
    """

    def __init__(self, session: Session, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self._engine = session, engine
        self.waiting: dict[str, Asked] = {}
        self.old: list[Asked] = []
        self.done: list[str] = []
        engine.answers |= ANSWERS
        self.large, pinned = self._kept(LARGE, 12, 2), self._kept(LARGE, 12, 0)
        self.small = self._kept(SMALL, 5, 1)
        monkeypatch.setattr(session, "ask", self._ask)
        monkeypatch.setattr(session, "forget", self._forget)
        monkeypatch.setattr(session, "submit", lambda slot, *rest, **named: self.done.append(slot))
        session.baseline.restore(pinned)
        for kept in (self.large, self.small):
            session.board.restore(kept.model_handle.card, PinnedHeads(((0, 1), (1, 0))))
        self.show(self.large)

    def _kept(self, config: ModelConfig, prefill: int, steps: int) -> SessionState:
        """A model and a run of it, to be put on screen."""
        engine, prompt = self._engine, Prompt(f"{prefill} tokens")
        engine.config, engine.prefill = config, prefill
        model_handle = finished(engine.open_model(f"{config.layers} layers", "cpu", "float32"))
        handle = finished(engine.run(model_handle, prompt, self.session.next_run_id(), None))
        if steps:
            handle = finished(engine.step(handle, steps, Sampling()))
        handle = replace(handle, trace=self.session.engines.current.keep(handle.run.run_id))
        return SessionState(
            model_handle, handle, prompt, (Sampling(),) * steps, (), Selection(layer=1, head=2, query=4)
        )

    def show(self, kept: SessionState) -> None:
        """Put a model and its run on screen."""
        self.session.scenes.restore(kept)

    def _ask(self, slot: str, question: Question, answer: Any, part: Any = None) -> None:
        self._forget(slot)
        self.waiting[slot] = Asked(run_on(self.session), question, answer, part)

    def _forget(self, slot: str) -> None:
        if slot in self.waiting:
            self.old.append(self.waiting.pop(slot))

    def answer(self) -> None:
        """Answer everything, and what is asked because of that."""
        while self.waiting:
            asked = self.waiting.pop(next(iter(self.waiting)))
            if asked.run is self.session.run:
                self.deliver(asked)
            self.old.append(asked)

    def answer_only(self, slot: str) -> None:
        """Answer one question, and nothing that is asked because of that."""
        asked = self.waiting.pop(slot)
        self.deliver(asked)
        self.old.append(asked)

    def deliver(self, asked: Asked) -> None:
        """Answer a question, whether or not somebody still wants it."""
        asked.answer(self._reading(asked))

    def answer_again(self) -> None:
        """Answer everything that was ever asked of the run that is not on screen, wanted or not."""
        for asked in [old for old in self.old if old.run is not self.session.run]:
            if asked.part is not None:
                asked.part(self._reading(asked))
            self.deliver(asked)

    def part(self) -> None:
        """Hand on the first part of an atlas."""
        for asked in self.waiting.values():
            if isinstance(asked.question, AskAtlas) and asked.part is not None:
                whole = self._value(asked)
                first = partial(AtlasPart, 0, whole.thumbnails[0], whole.reduction, {})
                asked.part(Watched(self.session, asked.run, asked.question, first))

    def _value(self, asked: Asked) -> Any:
        return self._engine.reading(replace(self.large.handle, run=asked.run), asked.question)

    def _reading(self, asked: Asked) -> Watched:
        return Watched(self.session, asked.run, asked.question, lambda: self._value(asked))


@pytest.fixture
def race(qtbot: QtBot, session: Session, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch) -> Race:
    """Two models, one of them on screen, and nothing asked yet."""
    monkeypatch.setattr(QToolTip, "showText", lambda *said: None)
    monkeypatch.setattr(HeadsPanel, "PATIENCE", 0.0)
    return Race(session, engine, monkeypatch)


def put_up(qtbot: QtBot, race: Race, kind: type[Any]) -> Any:
    """A panel on screen that has asked, and waits."""
    panel = kind(race.session)
    qtbot.addWidget(panel)
    show_selection, show_hover = panel.show_selection, panel.show_hover

    def marked(selection: Selection) -> None:
        assert panel.is_current, "the picture of a run that is gone was marked"
        show_selection(selection)

    def pointed(hover: Hover) -> None:
        assert panel.is_current or hover == Hover(), "something was pointed at in the picture of a run that is gone"
        show_hover(hover)

    panel.show_selection, panel.show_hover = marked, pointed
    panel.resize(640, 480)
    panel.show()
    return panel


# What a person does ---------------------------------------------------------------------------------------------------


def pictures(panel: Panel) -> Iterator[QWidget]:
    """The painted widgets of a panel that can be seen, and what others scroll in."""
    for widget in panel.findChildren(QWidget):
        if type(widget).__module__.startswith("ropewalk.views.") and widget.isVisible():
            yield widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget


PLACES = ((0.2, 0.9), (0.5, 0.5), (0.9, 0.2), (0.95, 0.95))
"""Where pictures are touched, as shares of their width and height."""


def touch(widget: QWidget) -> None:
    """Point at places of a picture, ask for their words, click, drag, turn the wheel, press keys, and go away."""
    everywhere = [QPoint(round(widget.width() * x), round(widget.height() * y)) for x, y in PLACES]
    left, none, plain = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    for at in everywhere:
        place, outside = QPointF(at), QPointF(widget.mapToGlobal(at))
        send = QApplication.sendEvent
        send(widget, QMouseEvent(QEvent.Type.MouseMove, place, outside, none, none, plain))
        send(widget, QHelpEvent(QEvent.Type.ToolTip, at, outside.toPoint()))
        send(widget, QMouseEvent(QEvent.Type.MouseButtonPress, place, outside, left, left, plain))
        send(widget, QMouseEvent(QEvent.Type.MouseMove, place + QPointF(9, 9), outside, none, left, plain))
        send(widget, QMouseEvent(QEvent.Type.MouseButtonRelease, place, outside, left, none, plain))
    centre = QPointF(widget.rect().center())
    for turn in (120, -120):
        still = Qt.ScrollPhase.NoScrollPhase
        wheel = QWheelEvent(centre, centre, QPoint(), QPoint(0, turn), none, plain, still, False)
        QApplication.sendEvent(widget, wheel)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Return):
        QTest.keyClick(widget, key)
    QApplication.sendEvent(widget, QEvent(QEvent.Type.Leave))


def touch_pictures(panel: Panel) -> None:
    """Do everything with what is painted in a panel, on each of its pages."""
    for widget in list(pictures(panel)):
        touch(widget)


def turn_controls(panel: Panel) -> None:
    """Move every slider, page, switch and timer of a panel, and press what computes nothing by itself."""
    for slider in panel.findChildren(QSlider):
        slider.setValue((slider.minimum() + 2 * slider.maximum()) // 3)
    for number in panel.findChildren(QSpinBox):
        number.setValue(number.value() + 1)
    for box in panel.findChildren(QComboBox):
        if panel.name != "lesson":
            for place in (*range(min(box.count(), 4)), 0):
                box.setCurrentIndex(place)
                box.activated.emit(place)
                touch_pictures(panel)
    for button in panel.findChildren(QAbstractButton):
        if panel.name != "lesson" and button.isEnabled():
            button.click()
            button.click()
    for timer in panel.findChildren(QTimer):
        timer.timeout.emit()


def look_again(panel: Panel) -> None:
    """Put on a theme, take another size, go behind a tab and come back, and be painted."""
    panel.theme_changed()
    for width, height in ((500, 260), (640, 480)):
        panel.resize(width, height)
    panel.grab()
    panel.hide()
    panel.show()
    panel.highlight({"heads": frozenset({(3, 7)}), "planes": frozenset({7}), "cells": frozenset({(13, 13)})})
    panel.highlight({"predictions": frozenset({(3, 13)})})
    panel.show_highlights()


def select_elsewhere(session: Session) -> None:
    """Move every field of the selection, and point at everything, also where only a larger model has anything."""
    now = session.selection.now
    session.selection.update(layer=now.layer + 1, head=now.head + 1)
    session.selection.update(query=1, key=0, plane=now.plane + 1)
    session.selection.point_at(Hover(query=13, key=12, layer=3, head=7, plane=7, operation="softmax", slot="K"))
    session.selection.point_at(Hover())


def kept(panel: Panel) -> dict[str, Any]:
    """What a panel keeps of answers."""
    names = [name for name, what in vars(type(panel)).items() if isinstance(what, Kept)]
    return {name: getattr(panel, name) for name in names}


ABOUT_RUNS = ("Run", "ModelCard", "TokenText", "Sampling")


def nothing_is_kept(panel: Panel) -> None:
    """Look whether anything that a panel keeps is there."""
    assert [name for name, value in kept(panel).items() if value is not None] == []


READ = tuple(
    kind
    for name, kind in vars(records).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and name not in ABOUT_RUNS
)
"""The records that are read of a run."""


def read_by_hand(panel: Panel) -> list[str]:
    """Attributes in which a panel has records of a run, other than what it keeps as :class:`Kept`."""

    def among(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(among, value.values()))
        if isinstance(value, (tuple, list)):
            return any(map(among, value))
        return isinstance(value, (*READ, Watched))

    return [name for name, value in vars(panel).items() if name != "readings" and among(value)]


# The race -------------------------------------------------------------------------------------------------------------


def change(race: Race, panel: Panel, to: SessionState) -> None:
    """Put another model on screen, and do everything with the panel before and after it is answered."""
    session, draws = race.session, panel.draws
    session.selection.point_at(Hover(query=1, key=0, layer=0, head=1, plane=1))
    changed = session.selection.changed.connect(lambda before, after: nothing_is_kept(panel))
    race.show(to)
    session.selection.changed.disconnect(changed)
    nothing_is_kept(panel)
    assert session.selection.hover == Hover()
    race.answer_again()
    if not panel.is_current:
        before, jobs = session.selection.now, list(race.done)
        touch_pictures(panel)
        assert (session.selection.now, session.selection.hover) == (before, Hover())
        assert race.done == jobs
        assert panel.draws == draws
    else:
        assert panel.name in OF_THE_RUN_ITSELF or panel.draws > draws  # there was nothing to ask
    turn_controls(panel)
    look_again(panel)
    select_elsewhere(session)
    look_again(panel)
    race.answer()
    race.answer_again()
    assert panel.is_current
    touch_pictures(panel)
    turn_controls(panel)
    look_again(panel)
    race.answer()
    assert read_by_hand(panel) == []
    race.show(to)


@pytest.mark.parametrize("entry", OF_RUNS, ids=lambda entry: entry.name)
def test_a_panel_races_with_a_change_of_model(qtbot: QtBot, race: Race, entry: Entry) -> None:
    panel = put_up(qtbot, race, entry.kind)
    assert panel.draws == (1 if entry.name == "lesson" else 0)
    change(race, panel, race.small)  # while the first question is on its way
    change(race, panel, race.large)  # with a picture of a smaller model on screen
    race.answer()
    panel.refresh()
    race.part()
    change(race, panel, race.small)  # while parts of an answer are on screen, and a picture of a larger model before it
    race.answer()
    race.session.swap_model(race.large.model_handle, race.large.prompt)
    touch_pictures(panel)  # another model is open, and the run on screen is still that of the one before
    turn_controls(panel)
    race.answer()
    race.show(race.large)
    race.answer()
    race.session.timeline.run_to(13)  # the same run, but a row less of it
    nothing_is_kept(panel)
    race.answer_again()
    touch_pictures(panel)
    turn_controls(panel)
    look_again(panel)
    race.answer()
    panel.hide()
    race.show(race.small)
    race.answer_again()
    select_elsewhere(race.session)
    panel.show()
    race.answer()
    assert panel.is_current


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_a_panel_that_was_closed_asks_and_draws_nothing(qtbot: QtBot, race: Race, entry: Entry) -> None:
    panel = put_up(qtbot, race, entry.kind)
    race.answer()
    panel.refresh()
    draws, asked = panel.draws, list(race.waiting.values())
    panel.close_down()
    assert race.waiting == {}
    for one in asked:
        race.deliver(one)
    race.show(race.small)
    select_elsewhere(race.session)
    race.answer_again()
    turn_controls(panel)
    panel.refresh()
    assert race.waiting == {}
    assert panel.draws == draws


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_a_panel_that_is_gone_hears_nothing(qtbot: QtBot, race: Race, entry: Entry) -> None:
    session, panel = race.session, entry.make(race.session)
    panel.show()
    asked = list(race.waiting.values())
    race.waiting.clear()
    panel.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert not isValid(panel)
    for one in asked:
        race.deliver(one)
    race.show(race.small)
    select_elsewhere(session)
    session.timeline.set_sampling(Sampling(temperature=0.5))
    session.baseline.pin()
    session.interventions.arrived((AblateHeads(0, (1,)),))
    check = ConsistencyCheck("cached", 5, 0.0, 1.0)
    for changed in (session.consistency.check_changed, session.consistency.branches_changed):
        changed.emit(check)
    session.progress_changed.emit(None)
    session.timeline.playing_changed.emit(True)
    session.failed.emit("Nothing in particular.", "")
    assert race.waiting == {}


# The engine ends ------------------------------------------------------------------------------------------------------


def said(panel: Panel) -> tuple[str, bool, list[str]]:
    """What a panel says instead of a picture, whether it shows one, and what can be pressed but lessons just read."""
    buttons = [one.text() for one in panel.findChildren(QAbstractButton) if not isinstance(one, LessonCard)]
    return panel.notice.text(), panel.body.isVisible(), buttons


def ask_in_vain(qtbot: QtBot, session: Session, panel: Panel, press: Callable[[], object]) -> None:
    """Want what only an engine could say, in every way, and wait until that was refused."""
    for act in (panel.refresh, panel.hide, panel.show, partial(select_elsewhere, session), press):
        act()
        qtbot.waitUntil(lambda: not session.busy and panel.settled)


def press_all(session: Session, panel: Panel) -> None:
    """Press everything once that asks something; what would be another state of the window is left alone."""
    for button in panel.findChildren(QAbstractButton):
        pressed = button.isEnabled() and button.isVisible() and not button.isCheckable()
        if panel.name not in ("lesson", "board") and pressed and button.text() not in ("Play", "Unpin"):
            button.click()


@pytest.fixture
def answering(session: Session, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that shows a run, and answers whatever is asked."""
    monkeypatch.setattr(QToolTip, "showText", lambda *said: None)
    engine.answers |= ANSWERS
    engine.config = LARGE
    session.opening.begin(prompt=Prompt("twelve"))
    settle(session)
    session.baseline.pin()
    for head in ((0, 1), (1, 0)):
        session.board.pin(*head)
    return session


def kill(qtbot: QtBot, session: Session) -> None:
    """End the engine, and wait until everybody who waited for it has heard."""
    session.engines.current.kill()
    qtbot.waitUntil(lambda: session.engines.gone is not None and not session.busy)


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_a_panel_that_comes_after_the_engine_says_so_until_there_is_one(
    qtbot: QtBot, answering: Session, entry: Entry
) -> None:
    kill(qtbot, answering)
    panel = entry.make(answering)
    qtbot.addWidget(panel)
    panel.show()
    without = said(panel)
    draws = panel.draws or entry.name in OF_THE_RUN_ITSELF
    assert without[:2] == (("", True) if draws else (ENDED, False))
    ask_in_vain(qtbot, answering, panel, panel.grab)
    assert said(panel) == without
    before = panel.draws
    answering.recovery.restart()
    settle(answering, panel)
    assert panel.is_current
    assert (panel.draws > before, panel.notice.text()) == (True, "")


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_a_panel_that_is_asked_again_without_an_engine_keeps_what_it_has_drawn(
    qtbot: QtBot, answering: Session, entry: Entry
) -> None:
    panel = entry.make(answering)
    qtbot.addWidget(panel)
    panel.show()
    settle(answering, panel)
    drawn = said(panel)
    kill(qtbot, answering)
    ask_in_vain(qtbot, answering, panel, partial(press_all, answering, panel))
    assert said(panel) == drawn
    before = panel.draws
    answering.recovery.restart()
    settle(answering, panel)
    assert panel.draws > before
    assert said(panel)[:2] == drawn[:2]


# What went wrong, or could --------------------------------------------------------------------------------------------


def test_the_distance_page_turned_to_while_another_model_opens(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, RopePanel)
    race.answer()
    race.session.selection.update(layer=3)
    race.answer()
    race.show(race.small)
    panel.page_box.setCurrentIndex(panel.PAGES.index("distance"))
    assert [asked.question for asked in race.waiting.values()] == [AskPlanes(1, 2, 4, 0)]  # no rules of layer 3
    assert panel.curves.view.curves == ()
    race.answer()
    assert len(panel.curves.view.curves) == 1
    race.show(race.large)
    panel.curves.wide.click()
    race.session.selection.update(layer=3)
    race.answer()
    panel.page_box.setCurrentIndex(panel.PAGES.index("spectrum"))
    assert "rope.rules" in race.waiting
    race.show(race.small)
    race.answer_again()
    drawn = panel.curves.view.curves
    panel.curves.wide.click()
    QTest.mouseClick(panel.spectrum.viewport(), Qt.MouseButton.LeftButton, pos=panel.spectrum.rect().center())
    assert panel.curves.view.curves is drawn
    assert race.session.selection.now.plane == 0


def test_steps_of_the_arithmetic_of_another_run_are_pointed_at_in_vain(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, WhyPanel)
    panel.fold_levels.click()
    race.answer()
    line = panel.tree.item_of("share.6")
    race.show(race.small)
    slot = next(iter(race.waiting))
    race.answer_only(slot)
    assert panel.is_current
    assert panel.arithmetic is None
    panel.tree.setCurrentItem(line)
    panel.tree.itemActivated.emit(line, 0)
    assert (race.session.selection.hover, race.session.selection.now.plane) == (Hover(), 0)
    race.answer()
    panel.tree.itemActivated.emit(panel.tree.item_of("share.2"), 0)
    assert race.session.selection.now.plane == 2


def test_a_token_that_another_run_offered_is_not_branched_to(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, TimelinePanel)
    race.answer()
    race.show(race.small)
    panel.branch_button.click()
    panel.steps.length_chosen.emit(13)
    assert "step" not in race.done
    race.answer()
    panel.branch_button.click()
    assert race.done[-1] == "step"


def test_a_token_that_another_run_offered_is_not_asked_about(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, NeedsPanel)
    race.answer()
    race.show(race.small)
    panel.toggle()
    panel.token.activated.emit(1)
    assert list(race.waiting) == ["needs"]
    race.answer()
    panel.toggle()
    assert list(race.waiting) == ["needs.needs"]


def test_tokens_are_not_tinted_by_the_weights_of_another_run(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, TokensPanel)
    race.answer()
    assert panel.strip.weight_of(0) is not None
    race.show(race.small)
    assert "5 tokens" not in panel.subtitle.text()
    assert panel.strip.weight_of(0) is None
    assert panel.strip.describe(5, "token") == f"token 5 {token_at(5).inline}"
    race.answer()
    assert panel.strip.weight_of(0) is not None


def test_nothing_of_the_model_before_is_changed_in_the_one_that_opens(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, InterventionsPanel)
    race.answer()
    panel.buttons["mean"].click()
    race.session.swap_model(race.small.model_handle, race.small.prompt)
    race.answer()
    panel.buttons["zero"].click()
    assert "run" not in race.done
    race.show(race.small)
    race.answer()
    panel.buttons["zero"].click()
    assert race.done[-1] == "run"


def test_a_random_layer_is_drawn_though_another_run_comes_first(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, InterventionsPanel)
    race.answer()
    panel.page_box.setCurrentIndex(1)
    assert "experiments.random" in race.waiting
    race.show(race.small)
    assert "experiments.random" not in race.waiting
    race.answer()
    assert len(panel.random.view.layers) == 4
    panel.refresh()
    race.answer_only("experiments")
    assert race.waiting == {}


def test_ablating_ends_with_the_run_that_it_is_about(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, NeedsPanel)
    race.answer()
    panel.toggle()
    assert (list(race.waiting), panel.run_button.text()) == (["needs.needs"], "Cancel")
    race.show(race.small)
    assert (list(race.waiting), panel.run_button.text()) == (["needs"], "Ablate each head")
    race.answer()
    assert panel.needs is None
    panel.toggle()
    race.answer()
    assert panel.needs is not None


def test_a_difference_from_another_baseline_is_not_drawn(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, ComparePanel)
    race.answer()
    assert panel.difference is not None
    panel.refresh()
    panel.hide()
    race.session.baseline.pin()
    assert race.waiting == {}
    assert panel.difference is None
    panel.show()
    race.answer()
    assert panel.difference is not None


def test_scores_that_are_on_their_way_are_asked_for_again_in_a_larger_panel(qtbot: QtBot, race: Race) -> None:
    panel = put_up(qtbot, race, ScoresPanel)
    race.answer()
    panel.grab()
    race.show(race.small)
    before = race.waiting["scores"].question
    panel.resize(1400, 900)
    after = race.waiting["scores"].question
    assert isinstance(before, AskHead)
    assert isinstance(after, AskHead)
    assert after.pixels > before.pixels


def test_lines_of_a_model_with_more_heads_are_painted_in_another_theme(qtbot: QtBot, race: Race) -> None:
    panel: LinesPanel = put_up(qtbot, race, LinesPanel)
    panel.scope.setCurrentIndex(SCOPES.index("layer"))
    race.answer()
    before = panel.view.colours
    assert len(before) == LARGE.heads
    race.show(race.small)
    theme.apply("light")
    panel.theme_changed()
    panel.view.finish()
    assert len(panel.view.colours) == LARGE.heads
    assert panel.view.colours != before
    race.answer()
    assert len(panel.view.colours) == SMALL.heads
