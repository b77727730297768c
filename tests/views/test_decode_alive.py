"""A decoded token on its way: what moves at the first, a middle and the last moment, and that nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.step_clock import FANS_OUT, MOVES, SLIDES, StepClock
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.next_token import CandidatesView, NextTokenPanel
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.slabs import SIDES, SlabsView
from ropewalk.views.plots.token_strip import LEAST_ARC, TokenStrip
from ropewalk.views.style import motion, theme
from tests.views import canned
from tests.views.driving import Shared, run_of


@pytest.fixture
def window(qtbot: QtBot, shared: Shared) -> Iterator[MainWindow]:
    """The workspace of decoding, with the last token selected and a clock that is stepped by hand."""
    window = shared.put_back()
    window.resize(QSize(1366, 768))
    window.show_workspace("decode")
    window.session.selection.update(query=run_of(window).length - 1)
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)
    clock = window.session.timeline.clock
    before = clock.is_stepped, clock.moves
    clock.is_stepped, clock.moves = True, lambda: not motion.reduced()
    motion.choose("full")
    yield window
    clock.finish()
    clock.is_stepped, clock.moves = before
    motion.choose("system")
    shared.clear()


@pytest.fixture
def clock(window: MainWindow) -> StepClock:
    return window.session.timeline.clock


def strip_of(window: MainWindow) -> TokenStrip:
    return cast("TokensPanel", window.panels["tokens"]).strip


def slabs_of(window: MainWindow) -> SlabsView:
    return cast("CachePanel", window.panels["cache"]).slabs


def bars_of(window: MainWindow) -> CandidatesView:
    return cast("NextTokenPanel", window.panels["next_token"]).candidates


def step(window: MainWindow) -> None:
    """Press the key, and have everything that is asked for, at the first moment."""
    QTest.keyClick(window, Qt.Key.Key_Right)
    answered(window)
    window.session.timeline.clock.frame(0.0)


def answered(window: MainWindow) -> None:
    while window.session.busy:
        QApplication.processEvents()
    snapshot.settle(window)


def outline(window: MainWindow, position: int) -> bool:
    """Whether a token's outline as the query is on the screen."""
    box = strip_of(window).box_of(position)
    point = QPoint(round(box.center().x()), round(box.top()) + 1)
    return strip_of(window).grab().toImage().pixelColor(point) == theme.current().query


def column_colours(image: QImage, slabs: SlabsView, left: float) -> list[int]:
    """The colours down the middle of a column of K in the first layer."""
    slab = slabs.slab("K", 0)
    x = round(left + slabs.column_box("K", 0, 0).width() / 2)
    return [image.pixelColor(x, y).rgb() for y in range(slab.top() + 1, slab.bottom())]


def test_the_first_moment_is_where_everything_was(window: MainWindow, clock: StepClock) -> None:
    bars, slabs, row = bars_of(window), slabs_of(window), run_of(window).length
    begins = bars.mapTo(window.stage, bars.text_of(0).topLeft().toPoint())
    line_of = {candidate.token.id: bars.line_of(line).top() for line, candidate in enumerate(bars.shown())}
    step(window)
    assert window.flight.isVisible()
    assert (window.flight.geometry().topLeft() - begins).manhattanLength() <= 2
    assert not outline(window, row), "its place is still empty"
    for side in SIDES:
        boxes = slabs.moving_box(side)
        assert boxes is not None
        assert boxes[1].right() == pytest.approx(slabs.block(side).right() + 1), "at the end of the free room"
    moved = [(line, c) for line, c in enumerate(bars.shown()) if c.token.id in line_of]
    assert moved
    for line, candidate in moved:
        assert bars.line_of(line).top() == pytest.approx(line_of[candidate.token.id])
    assert all(strip_of(window).arc(key, strip_of(window).fanned).length() == 0 for key in strip_of(window).arcs)


def test_halfway_everything_is_between_where_it_was_and_where_it_will_be(window: MainWindow, clock: StepClock) -> None:
    bars, slabs, strip, row = bars_of(window), slabs_of(window), strip_of(window), run_of(window).length
    step(window)
    start, first = window.flight.geometry().topLeft(), [bars.line_of(line).top() for line in range(5)]
    clock.frame(0.2)
    end = strip.mapTo(window.stage, strip.box_of(row).topLeft().toPoint())
    at = window.flight.geometry().topLeft()
    assert window.flight.isVisible()
    assert min(start.x(), end.x()) < at.x() < max(start.x(), end.x())
    clock.frame(0.35)
    home, _ = slabs.moving_box("K") or pytest.fail("the column is there too soon")
    free = theme.current().field.rgb()
    assert set(column_colours(slabs.grab().toImage(), slabs, home.left())) == {free}, "its place is free till then"
    clock.frame(0.5)
    assert not window.flight.isVisible()
    assert outline(window, row), "it is there, in the colour of the query"
    home, now = slabs.moving_box("V") or pytest.fail("the column is there too soon")
    assert home.left() < now.left() < slabs.block("V").right()
    assert now.left() - home.left() == pytest.approx(
        (slabs.block("V").right() + 1 - home.right()) * (1 - clock.come(SLIDES))
    )
    for line in range(5):
        at_end = line * bars.pitch()
        assert bars.line_of(line).top() == pytest.approx(first[line] + (at_end - first[line]) * clock.come(MOVES))
    arcs = strip.arcs
    assert arcs
    for key in arcs:
        assert 0 < strip.arc(key, strip.fanned).length() < strip.arc(key).length()
    assert strip.fanned == clock.come(FANS_OUT)


def test_the_last_moment_is_the_still_picture(window: MainWindow, clock: StepClock) -> None:
    row = run_of(window).length
    step(window)
    clock.frame(0.6)
    clock.frame(1.0)
    snapshot.settle(window)
    moved = window.grab().toImage()
    assert not window.flight.isVisible()
    assert outline(window, row)
    assert slabs_of(window).moving_box("K") is None
    assert [bars_of(window).line_of(line).top() for line in range(3)] == [
        line * bars_of(window).pitch() for line in range(3)
    ]
    assert strip_of(window).fanned == 1
    window.session.timeline.step_back()
    answered(window)
    motion.choose("reduced")
    QTest.keyClick(window, Qt.Key.Key_Right)
    answered(window)
    assert not clock.is_running, "where things are not to move, a step is there at once"
    assert window.grab().toImage() == moved


def test_the_column_that_slides_is_the_one_that_stays(window: MainWindow, clock: StepClock) -> None:
    slabs = slabs_of(window)
    step(window)
    clock.frame(1.0)
    slabs_picture = slabs.grab().toImage()
    column = slabs.column_box("K", 0, run_of(window).length - 1)
    colours = column_colours(slabs_picture, slabs, column.left())
    assert len(set(colours)) > 3
    assert theme.current().field.rgb() not in colours


def test_keys_never_wait(window: MainWindow, clock: StepClock) -> None:
    length = run_of(window).length
    step(window)
    assert clock.is_running
    for _ in range(3):
        QTest.keyClick(window, Qt.Key.Key_Right)
    assert not clock.is_running, "the first key ended what was on its way"
    answered(window)
    assert run_of(window).length == length + 4
    assert clock.is_running
    assert clock.row == length + 3
    clock.frame(0.3)
    QTest.keyClick(window, Qt.Key.Key_Left)
    answered(window)
    assert not clock.is_running
    assert not window.flight.isVisible()
    assert run_of(window).length == length + 3
    assert all(outline(window, at) == (at == length + 2) for at in (length + 1, length + 2))


def test_the_button_and_space_step_as_the_key_does(window: MainWindow, clock: StepClock) -> None:
    length, panel = run_of(window).length, cast("NextTokenPanel", window.panels["next_token"])
    QTest.mouseClick(panel.step_button, Qt.MouseButton.LeftButton)
    answered(window)
    assert (clock.is_running, clock.row) == (True, length)
    window.setFocus()
    window.session.timeline.set_pace(60_000)
    QTest.keyClick(window, Qt.Key.Key_Space)
    answered(window)
    assert window.session.timeline.playing
    assert clock.row == length + 1
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert not window.session.timeline.playing


def test_arcs_stand_for_the_weights_of_the_selected_head(window: MainWindow) -> None:
    strip, session = strip_of(window), window.session
    for layer, head, query in ((0, 0, 11), (2, 1, 6)):
        session.selection.update(layer=layer, head=head, query=query)
        snapshot.wait_until_drawn(window)
        weights = canned.weights(run_of(window), layer, head)[query]
        assert strip.arcs == [int(key) for key in np.flatnonzero(weights[: query + 1] >= LEAST_ARC)]
        heaviest = max((key for key in strip.arcs if key != query), key=lambda key: weights[key])
        at = strip.arc(heaviest).pointAtPercent(0.5).toPoint()
        colour, ground = strip.grab().toImage().pixelColor(at), theme.current().panel
        assert abs(colour.blue() - ground.blue()) > 40, (layer, head)
        assert strip.arc(heaviest).pointAtPercent(0).x() == pytest.approx(strip.box_of(query).center().x())
        assert strip.arc(heaviest).pointAtPercent(1).x() == pytest.approx(strip.box_of(heaviest).center().x())
    assert f"weights of {LEAST_ARC:g} or more" in window.panels["tokens"].subtitle.text()


def test_arcs_are_switched_off_and_stand_in_this_workspace_alone(window: MainWindow) -> None:
    panel, strip = cast("TokensPanel", window.panels["tokens"]), strip_of(window)
    height = window.cards["tokens"].height()
    assert strip.arcs
    QTest.mouseClick(panel.arcs, Qt.MouseButton.LeftButton)
    snapshot.settle(window)
    assert not strip.arcs
    assert "arcs" not in panel.subtitle.text()
    assert window.cards["tokens"].height() < height
    QTest.mouseClick(panel.arcs, Qt.MouseButton.LeftButton)
    window.show_workspace("overview")
    snapshot.wait_until_drawn(window)
    assert panel.arcs.isHidden()
    assert not strip.arcs


def test_the_slabs_name_their_columns_and_divide_their_heads(window: MainWindow) -> None:
    slabs, now = slabs_of(window), window.session.selection.now
    assert slabs.names == tuple(token.text for token in run_of(window).tokens)
    assert now.key in slabs.named
    gaps = np.diff(slabs.named)
    assert len(gaps)
    assert (gaps * slabs.column_box("K", 0, 1).width() >= 0.8 * theme.current().size("label")).all()
    image, slab = slabs.grab().toImage(), slabs.slab("K", 3)
    middle = image.pixelColor(round(slabs.column_box("K", 3, 2).center().x()), round(slab.top() + slab.height() / 2))
    assert middle == theme.current().panel
    below = image.copy(slabs.block("K").left(), slabs.block("K").bottom() + 3, slabs.block("K").width(), 20)
    key = theme.current().key
    assert any(
        abs(below.pixelColor(x, y).blue() - key.blue()) < 60 and below.pixelColor(x, y).red() < 120
        for x in range(below.width())
        for y in range(below.height())
    ), "the selected key's token is in its colour"
