"""No picture is made of a reading of one model and of another model, also where the two have equal shapes.

Two models of one shape and of different numbers are put on screen in turn, at every point of a reading's way and with
every page and toggle of every panel. What is drawn in the end is what a panel draws that never saw the other model,
pixel by pixel; what is kept of another model's reading would change it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.state import SessionState
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.readings.records import Run
from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.registry import PANELS, Entry
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.plots.lines import LinesView
from tests.views import canned
from tests.views.test_races import LARGE, OF_RUNS, READ, Asked, Race, race

__all__ = ["race"]

OTHER: Final = LARGE.changed(max_position=LARGE.max_position - 1)
"""A model of the same shape; all its numbers are others."""
THETAS, VECTORS = canned.thetas, canned.vectors_of


def thetas(config: ModelConfig) -> Any:
    return THETAS(config) * (1 if config.max_position == LARGE.max_position else 0.7)


def vectors_of(run: Run) -> tuple[Any, Any, Any]:
    q, k, v = VECTORS(run)
    return (q, k, v) if run.config.max_position == LARGE.max_position else (q[::-1] * 0.8, k[::-1] * 0.8, v[::-1] * 0.8)


def parts_of(value: Any) -> Iterator[Any]:
    """Everything in an argument or an answer that is of one run: records and arrays."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from parts_of(one)
    elif isinstance(value, dict):
        yield from parts_of(list(value.values()))
    elif isinstance(value, (Run, np.ndarray)):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, (type, ModelConfig)):
        yield value
        yield from parts_of([getattr(value, field.name) for field in dataclasses.fields(value)])


class Twins(Race):
    """Two models of equal shapes, whose readings are known again wherever a picture is shown one."""

    def __init__(self, race: Race) -> None:
        self.__dict__ |= vars(race)
        self.read: dict[int, tuple[Any, Run]] = {}
        self.other = self._kept(OTHER, 12, 2)

    def _value(self, asked: Asked) -> Any:
        value = super()._value(asked)
        for part in parts_of(value):
            if isinstance(part, (*READ, np.ndarray)):
                self.read[id(part)] = part, asked.run
        return value

    def models(self, shown: Any) -> set[str]:
        """The models that something is of."""
        runs = [part if isinstance(part, Run) else self.read.get(id(part), (part, None))[1] for part in parts_of(shown)]
        return {str(run.config.max_position) for run in runs if run is not None}

    def watch(self, panel: Panel) -> None:
        """Fail where a picture of the panel is shown readings of two models at once."""
        for widget in panel.findChildren(QWidget):
            if not type(widget).__module__.startswith("ropewalk.views."):
                continue
            for name in {name for name in dir(type(widget)) if name.startswith(("show_", "set_"))}:
                setattr(widget, name, self._guarded(getattr(widget, name)))

    def _guarded(self, show: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*shown: Any, **named: Any) -> Any:
            assert len(self.models((shown, named))) <= 1, f"{show} was given readings of two models"
            return show(*shown, **named)

        return guarded


@pytest.fixture
def twins(race: Race, monkeypatch: pytest.MonkeyPatch) -> Twins:
    monkeypatch.setattr(canned, "thetas", thetas)
    monkeypatch.setattr(canned, "vectors_of", vectors_of)
    return Twins(race)


@dataclass(frozen=True)
class Toggle:
    """A page or a switch of a panel that is turned."""

    kind: Literal["none", "page", "switch"]
    control: int = 0
    value: int = 0

    def turn(self, panel: Panel) -> None:
        """Turn it, as a person does."""
        if self.kind == "page":
            box = boxes(panel)[self.control]
            box.setCurrentIndex(self.value)
            box.activated.emit(self.value)
        elif self.kind == "switch":
            switch = switches(panel)[self.control]
            if switch.isEnabled():
                switch.click()


def boxes(panel: Panel) -> list[QComboBox]:
    return panel.findChildren(QComboBox)


def switches(panel: Panel) -> list[QAbstractButton]:
    return [one for one in panel.findChildren(QAbstractButton) if one.isCheckable()]


def toggles(panel: Panel) -> list[Toggle]:
    """Everything that can be turned, but for a choice among the tokens of a run, which ends with it."""
    if panel.name in ("needs", "timeline"):
        return [Toggle("none")]
    pages = [
        Toggle("page", place, value) for place, box in enumerate(boxes(panel)) for value in range(min(box.count(), 5))
    ]
    return [Toggle("none"), *pages, *(Toggle("switch", place) for place in range(len(switches(panel))))]


def put_up(twins: Twins, entry: Entry, toggle: Toggle) -> Panel:
    """A panel that has drawn the run on screen, and is turned to a page."""
    panel = entry.make(twins.session)
    twins.watch(panel)
    panel.resize(640, 480)
    panel.show()
    twins.answer()
    toggle.turn(panel)
    twins.answer()
    return panel


def end(panel: Panel) -> None:
    panel.close_down()
    panel.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def drawn(twins: Twins, panel: Panel) -> QImage:
    """The panel as it is in the end, with the same cell selected, nothing in the focus and everything in its place."""
    twins.session.selection.update(layer=1, head=2, query=4, key=0, plane=0)
    focused = QApplication.focusWidget()
    if focused is not None:
        focused.clearFocus()
    for width, height in ((600, 440), (640, 480)):
        panel.resize(width, height)
        twins.answer()
        panel.grab()
        QApplication.processEvents()
    twins.answer()
    for lines in panel.findChildren(LinesView):
        lines.finish()
    return panel.grab().toImage()


# The points of a reading's way --------------------------------------------------------------------------------------


def hidden(twins: Twins, panel: Panel, to: SessionState, toggle: Toggle) -> None:
    """It is turned to while hidden, and the other model is opened before it is seen again."""
    panel.hide()
    twins.show(to)
    toggle.turn(panel)
    twins.answer_again()
    panel.show()


def asked(twins: Twins, panel: Panel, to: SessionState, toggle: Toggle) -> None:
    """The question of the model before is on its way; it is answered all the same."""
    toggle.turn(panel)
    twins.show(to)
    twins.answer_again()


def on_its_way(twins: Twins, panel: Panel, to: SessionState, toggle: Toggle) -> None:
    """It is turned to while the first question about the other model is on its way."""
    twins.show(to)
    toggle.turn(panel)
    twins.answer_again()


def half_answered(twins: Twins, panel: Panel, to: SessionState, toggle: Toggle) -> None:
    """What is asked last is answered first."""
    twins.show(to)
    toggle.turn(panel)
    for slot in reversed(tuple(twins.waiting)):
        if slot in twins.waiting:
            twins.answer_only(slot)
            twins.answer_again()


def hidden_when_answered(twins: Twins, panel: Panel, to: SessionState, toggle: Toggle) -> None:
    """It is hidden between the question and its answer, and the other model is opened meanwhile."""
    toggle.turn(panel)
    panel.refresh()
    panel.hide()
    twins.answer_again()
    twins.show(to)
    panel.show()


POINTS: Final = (hidden, asked, on_its_way, half_answered, hidden_when_answered)


def check_each_point(twins: Twins, entry: Entry, toggle: Toggle) -> None:
    """Whether a panel draws the same at every point as one that never saw the other model."""
    twins.show(twins.other)
    alone = put_up(twins, entry, toggle)
    right = drawn(twins, alone)
    end(alone)
    for point in POINTS:
        twins.show(twins.large)
        panel = put_up(twins, entry, Toggle("none"))
        point(twins, panel, twins.other, toggle)
        twins.answer()
        twins.answer_again()
        made = drawn(twins, panel)
        end(panel)
        assert made == right, f"{entry.name}, {toggle}, {point.__name__}"


def test_the_curve_over_the_distance_is_of_one_model(qtbot: QtBot, twins: Twins) -> None:
    rope = next(entry for entry in PANELS if entry.name == "rope")
    first = cast("RopePanel", put_up(twins, rope, Toggle("none")))
    turned = Toggle("page", boxes(first).index(first.page_box), first.PAGES.index("distance"))
    end(first)
    check_each_point(twins, rope, turned)


@pytest.mark.slow
@pytest.mark.parametrize("entry", OF_RUNS, ids=lambda entry: entry.name)
def test_every_page_and_switch_draws_one_model(qtbot: QtBot, twins: Twins, entry: Entry) -> None:
    first = put_up(twins, entry, Toggle("none"))
    every = toggles(first)
    end(first)
    for toggle in every:
        check_each_point(twins, entry, toggle)
