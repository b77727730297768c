"""The RoPE panel: planes, angles, shares that add up, the moving query."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import RopeConfig
from ropewalk.model.engine.questions import AskPlanes
from ropewalk.model.readings.records import PlaneReading
from ropewalk.views.panels.rope import NOT_FINITE, PARTS, RopePanel, sum_text
from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.curves import SpectrumView
from ropewalk.views.plots.rotation.dial import TRAIL
from ropewalk.views.plots.rotation.pairing import PairingView
from ropewalk.views.plots.rotation.planes import PlanesScroll, PlanesView
from ropewalk.views.plots.rotation.turning import Turned, rotated, scores_by_position
from ropewalk.views.style import ink, motion, theme, wording
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]
ROOMY = (900, 640)
"""A panel in which there is room for everything."""


def reading(session: Session) -> PlaneReading:
    now = session.selection.now
    read: PlaneReading = canned.reading(run_on(session), AskPlanes(now.layer, now.head, now.query, now.key))
    return read


def many_planes(count: int) -> PlaneReading:
    pairs = np.ones((count, 2))
    return PlaneReading(
        layer=0,
        head=0,
        kv_head=0,
        query=3,
        key=1,
        query_position=3,
        key_position=1,
        features=np.stack([np.arange(count), np.arange(count) + count], axis=1).astype(np.int64),
        query_frequencies=np.full(count, 0.5),
        key_frequencies=np.full(count, 0.5),
        factor=1.0,
        q_before=pairs,
        k_before=pairs,
        q_after=rotated(pairs, np.full(count, 1.5), 1.0),
        k_after=rotated(pairs, np.full(count, 0.5), 1.0),
        shares=np.full(count, 0.1),
        rest=0.0,
        scaled=0.1 * count,
        scale=0.1,
    )


def test_a_quarter_turn_takes_the_first_feature_to_the_second() -> None:
    turned = rotated(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([np.pi / 2, np.pi / 2]), 1.5)
    assert np.allclose(turned, [[0.0, 1.5], [-3.0, 0.0]])


def test_the_models_rotation_is_met_at_the_runs_own_position(running: Session) -> None:
    r = reading(running)
    assert np.allclose(rotated(r.q_before, r.query_position * r.query_frequencies, r.factor), r.q_after)
    moved = Turned(r, r.query_position + 1e-12)
    assert moved.scaled == pytest.approx(r.scaled, abs=1e-9)


def test_shifting_query_and_key_together_leaves_the_score(running: Session) -> None:
    r = reading(running)
    shifted = replace(r, k_after=rotated(r.k_before, (r.key_position + 7) * r.key_frequencies, r.factor))
    assert Turned(shifted, r.query_position + 7.0).scaled == pytest.approx(r.scaled, abs=1e-9)


def test_the_curve_is_the_score_at_each_position(running: Session) -> None:
    r = reading(running)
    curve = scores_by_position(r, "query", np.arange(20.0))
    assert curve[r.query_position] == pytest.approx(r.scaled)
    angles = 4 * r.query_frequencies
    q = rotated(r.q_before, angles, 1.0)
    assert curve[4] == pytest.approx(float((q * r.k_after).sum()) * r.scale)


def test_shares_and_rest_add_up_in_words(running: Session) -> None:
    r = replace(reading(running), rest=0.25, scaled=float(reading(running).shares.sum()) + 0.25)
    text = sum_text(Turned(r, r.query_position))
    assert f"shares = {wording.number(float(r.shares.sum()))}" in text
    assert "do not turn 0.250" in text
    assert text.endswith(f"= {wording.number(r.scaled)} = scaled score")


def ends(panel: RopePanel, plane: int, q: complex, k: complex) -> dict[str, bool]:
    """Whether the circle of a plane has the hands of query and key where these numbers point."""
    image, circle, now = panel.view.grab().toImage(), panel.view.circle_of(plane), theme.current()
    whole, found = max(abs(q), abs(k)), {}
    for name, way, colour in (("q", q, now.query), ("k", k, now.key)):
        tip = way / abs(way) * max(abs(way) / whole, 0.3) * (circle.width() / 2 - 5)
        at = circle.center() + QPointF(tip.real, -tip.imag)
        found[name] = image.pixelColor(at.toPoint()).rgb() == colour.rgb() or (
            abs(way) / whole < 0.3 and image.pixelColor(at.toPoint()).rgb() == now.field.rgb()
        )
    return found


def turned_to(r: PlaneReading, plane: int, m: float, n: float) -> tuple[complex, complex]:
    """The hands of a plane at two positions, turned as complex numbers are."""
    q, k = complex(*r.q_before[plane]), complex(*r.k_before[plane])
    theta = float(r.query_frequencies[plane])
    return q * cmath.exp(1j * m * theta), k * cmath.exp(1j * n * theta)


def test_every_plane_has_its_own_radius_and_no_hand_is_a_speck(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    r = reading(running)
    for plane in range(8):
        q, k = turned_to(r, plane, r.query_position, r.key_position)
        assert ends(panel, plane, q, k)["q"], "the query is drawn upon the key"
        written = panel.view._words[plane]
        assert written[0] == f"{plane} · λ {hands.wavelength(float(r.query_frequencies[plane]))}"
        assert written[1].split() == [wording.number(abs(q), 2), wording.number(abs(k), 2)]


@pytest.mark.parametrize(("mover", "m", "n"), [("query_alone", 9, 0), ("key_alone", 0, 9), ("both", 9, 9)])
def test_what_moves_turns_and_the_score_stands_still_where_both_do(
    running: Session, shown: Shown, mover: str, m: int, n: int
) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    r, before = reading(running), panel.score.number()
    QTest.mouseClick(getattr(panel, mover), Qt.MouseButton.LeftButton)
    for _ in range(9):
        QTest.keyClick(panel.slider, Qt.Key.Key_Right)
    assert (panel.turned.position, panel.turned.key_position) == (r.query_position + m, r.key_position + n)
    for plane in range(8):
        q, k = turned_to(r, plane, r.query_position + m, r.key_position + n)
        assert ends(panel, plane, q, k)["q"]
        was_q, was_k = turned_to(r, plane, r.query_position, r.key_position)
        if plane == 0:  # the fastest, which nine positions turn by more than a circle
            assert ends(panel, 0, was_q, was_k) == {"q": not m, "k": not n}
    by_numpy = r.rest + r.scale * sum(
        (q * k.conjugate()).real
        for q, k in (turned_to(r, plane, r.query_position + m, r.key_position + n) for plane in range(8))
    )
    assert panel.turned.scaled == pytest.approx(by_numpy, abs=1e-9)
    assert panel.score.number() == wording.number(by_numpy, 4)
    assert (panel.score.number() == before) is (mover == "both")
    assert ("stands still" in panel.score.accessibleDescription()) is (mover == "both")
    curve = panel.shares.curve
    assert curve.here.value() == panel.position
    assert np.ptp(curve.line.yData) == pytest.approx(0, abs=1e-6) if mover == "both" else np.ptp(curve.line.yData) > 0.1
    QTest.mouseClick(panel.back_button, Qt.MouseButton.LeftButton)
    assert panel.score.number() == before


def test_a_bar_is_as_long_as_its_share_and_signed(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    shares = reading(running).shares
    heights = np.array([panel.shares.bars.bar_of(i).height() for i in range(len(shares))])
    assert np.allclose(heights / heights.max(), np.abs(shares) / np.abs(shares).max(), atol=1e-6)
    zero = {
        round(b.bottom() if s >= 0 else b.top(), 3)
        for s, b in ((s, panel.shares.bars.bar_of(i)) for i, s in enumerate(shares))
    }
    assert len(zero) == 1


def test_the_slider_moves_the_query_and_back_puts_it_back(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    r = reading(running)
    assert panel.position == r.query_position
    assert not panel.back_button.isEnabled()
    QTest.keyClick(panel.slider, Qt.Key.Key_Right)
    assert panel.position == r.query_position + 1
    moved = float(scores_by_position(r, "query", np.array([r.query_position + 1.0]))[0])
    assert wording.number(moved) in panel.sum_label.text()
    assert f"in the run {wording.number(r.scaled)}" in panel.sum_label.text()
    assert running.selection.now.query == r.query
    QTest.mouseClick(panel.back_button, Qt.MouseButton.LeftButton)
    assert panel.position == r.query_position
    assert "in the run" not in panel.sum_label.text()


def test_play_moves_on_and_stops_when_hidden(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    start = panel.slider.value()
    QTest.mouseClick(panel.play_button, Qt.MouseButton.LeftButton)
    assert panel.play_button.text() == "Pause"
    qtbot.waitUntil(lambda: panel.slider.value() > start)
    panel.hide()
    assert not panel.timer.isActive()
    assert panel.play_button.text() == "Play"


def frame(panel: RopePanel) -> tuple[float, float]:
    """Where the hands of plane 0 are on the dial, as directions in radians."""
    dial, turned, ways = panel.dial, panel.turned, []
    assert turned is not None
    for name in ("q", "k"):
        way = dial.hand(turned, name)[0] - dial.circle.center()
        ways.append(cmath.phase(complex(way.x(), -way.y())))
    return ways[0], ways[1]


@pytest.mark.parametrize("mover", ["query_alone", "key_alone", "both"])
def test_the_first_the_middle_and_the_last_frame_are_where_numpy_turns_them(
    running: Session, shown: Shown, mover: str
) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    getattr(panel, mover).click()
    panel.speed.setCurrentText("8×")
    r, moves = reading(running), panel.moves
    start, end = panel.slider.value(), panel.slider.maximum()
    panel.toggle()
    frames = {start: frame(panel)}
    for value in range(start + 8, end + 1, 8):
        panel.timer.timeout.emit()
        assert panel.slider.value() == value, "half a position a frame"
        frames[value] = frame(panel)
    panel.timer.timeout.emit()
    assert not panel.timer.isActive()
    for value in (start, start + (end - start) // 16 * 8, end):
        by = (value - start) / PARTS
        m, n = r.query_position + by * (moves != "key"), r.key_position + by * (moves != "query")
        assert np.exp(1j * np.array(frames[value])) == pytest.approx(
            [hand / abs(hand) for hand in turned_to(r, 0, m, n)], abs=1e-9
        )
    assert len(panel.dial.trail) == TRAIL


def test_reduced_motion_shows_the_last_frame_and_no_trail(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    panel.both.click()
    motion.choose("reduced")
    panel.toggle()
    motion.choose("system")
    assert not panel.timer.isActive()
    r, end = reading(running), panel.slider.maximum() / PARTS
    hand, _ = turned_to(r, 0, end, 0)
    assert cmath.exp(1j * frame(panel)[0]) == pytest.approx(hand / abs(hand), abs=1e-9)
    assert not panel.dial.trail


def test_a_key_is_heard_while_it_plays(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    panel.toggle()
    panel.timer.timeout.emit()
    at = panel.slider.value()
    QTest.keyClick(panel.slider, Qt.Key.Key_Right)
    assert panel.slider.value() == at + PARTS
    QTest.keyClick(panel.view, Qt.Key.Key_Right)
    assert running.selection.now.plane == panel.dial.plane == 1
    assert panel.timer.isActive()
    panel.pause()


def test_play_stops_at_the_end(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    panel.slider.setValue(panel.slider.maximum() - 1)
    panel.toggle()
    panel.timer.timeout.emit()
    assert panel.timer.isActive()
    panel.timer.timeout.emit()
    assert not panel.timer.isActive()
    panel.toggle()
    assert panel.position == 0
    panel.close_down()
    assert not panel.timer.isActive()


def test_a_click_and_arrows_select_a_plane_without_asking_again(
    running: Session, shown: Shown, qtbot: QtBot, engine: CannedEngine
) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    drawn, asked = panel.draws, len(engine.asked)
    QTest.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=panel.view.circle_of(5).center().toPoint())
    assert running.selection.now.plane == panel.dial.plane == 5
    assert "Plane 5: features 5, 13" in panel.dial.accessibleDescription()
    QTest.keyClick(panel.view, Qt.Key.Key_Left)
    assert running.selection.now.plane == 4
    assert panel.view.selected == 4
    bars = panel.shares.bars
    QTest.mouseClick(bars.viewport(), Qt.MouseButton.LeftButton, pos=bars.slot_of(6).center().toPoint())
    assert running.selection.now.plane == 6
    settle(running, panel)
    assert (panel.draws, len(engine.asked)) == (drawn, asked)


def test_a_click_on_the_curve_moves_the_query(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    curve = panel.shares.curve
    at = curve.box.geometry()
    QTest.mouseClick(
        curve.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(at.right()) - 1, round(at.center().y()))
    )
    assert panel.slider.value() == panel.slider.maximum()
    assert panel.slider.maximum() == 64 * PARTS


def test_hover_marks_a_plane_here_and_elsewhere(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    QTest.mouseMove(panel.view, panel.view.circle_of(3).center().toPoint())
    assert running.selection.hover == Hover(plane=3)
    assert panel.view.pointed == 3
    assert "features 3 and 11" in panel.view.description(3)


@pytest.mark.parametrize("room", [(538, 216), (300, 500), (1000, 200)])
def test_up_to_128_planes_stay_apart_large_and_lettered(qtbot: QtBot, room: tuple[int, int]) -> None:
    view = PlanesView()
    qtbot.addWidget(view)
    view.fit(QSize(*room))
    for planes in (1, 4, 8, 32, 64, 128):
        view.show_turned(Turned(many_planes(planes), 3))
        boxes = [view.cell_of(i) for i in range(planes)]
        assert not any(a.intersects(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert all(view.circle_of(i).width() >= 44 for i in range(planes))
        assert max(b.right() for b in boxes) <= room[0]
        assert max(b.bottom() for b in boxes) <= view.height()
        font = theme.current().font("label")
        written = (view.SHARE, *chain.from_iterable(view._words))
        assert max(ink.text_width(font, words) for words in written) <= view.cell.width()
        assert all(
            view.circle_of(i).bottom() + 2 + 3 * ink.line_height(font) <= view.cell_of(i).bottom() + 2
            for i in range(planes)
        )


@pytest.mark.parametrize("height", range(72, 240, 7))
def test_no_line_below_a_circle_is_cut(qtbot: QtBot, height: int) -> None:
    view = PlanesView()
    qtbot.addWidget(view)
    view.fit(QSize(500, height))
    view.show_turned(Turned(many_planes(16), 3))
    line = ink.line_height(theme.current().font("label"))
    assert view.cell.height() <= height, "a whole row is in sight"
    assert view.circle_of(0).bottom() + 2 + view.lines * line <= view.cell.height() + 2
    assert view.circle_of(0).width() >= view.SQUEEZED * view.LEAST - 1
    assert view.lines == view.LINES or height < view.LEAST + 3 * line + 16


@pytest.mark.parametrize("height", [200, 70])  # the second has no room for what is written below a dial
def test_the_selected_plane_is_scrolled_to(qtbot: QtBot, height: int) -> None:
    view = PlanesView()
    area = PlanesScroll(view)
    qtbot.addWidget(area)
    area.resize(300, height)
    area.show()
    view.show_turned(Turned(many_planes(64), 3))
    for plane in (63, 0, 30):
        view.mark(plane)
        area.show_selected()
        seen = area.viewport().rect().translated(0, area.verticalScrollBar().value())
        assert seen.contains(view.circle_of(plane).toRect())


@pytest.mark.parametrize("page", list(RopePanel.LEGENDS))
def test_every_page_says_what_its_marks_mean(running: Session, shown: Shown, page: str) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    panel.page_box.setCurrentText(page)
    settle(running, panel)
    assert panel.key.isVisible()
    marks = RopePanel.LEGENDS[page]
    assert (panel.key.marks, panel.figure_legend) == (marks, ()), "a figure says it once"
    assert all(mark.words in panel.key.accessibleName() for mark in marks)
    assert panel.key.height() >= panel.key.heightForWidth(panel.key.width())
    panel.resize(420, 640)
    QApplication.processEvents()
    assert panel.key.height() >= panel.key.heightForWidth(panel.key.width()), "all its rows"
    panel.resize(600, 300)
    assert not panel.key.isVisible()
    assert panel.figure_legend == marks


def test_a_page_is_made_when_it_is_turned_to_and_stands_where_it_belongs(running: Session, shown: Shown) -> None:
    panel, wanted = shown(RopePanel, running, *ROOMY), []
    panel.plotted.connect(lambda place: wanted.append(place.findChild(PairingView)))
    assert panel.behind == []
    running.selection.update(plane=3)
    panel.page_box.setCurrentText("pairing")
    settle(running, panel)
    assert panel.behind == wanted == [panel.pairing], "its menu is wanted too"
    assert panel.pairing.isVisible()
    assert panel.pairing.size() == panel.pages.size()
    assert panel.pairing.selected == 3
    least = panel.minimumSizeHint()
    assert (panel.curves, panel.spectrum) == tuple(panel.behind[1:])
    QApplication.processEvents()
    assert panel.minimumSizeHint() == least, "no other panel gives way to it"
    panel.page_box.setFocus()
    QTest.keyClick(panel.page_box, Qt.Key.Key_Tab)
    assert panel.pairing.hasFocus()


def test_a_layer_without_rotation_says_so(session: Session, shown: Shown, engine: CannedEngine) -> None:
    engine.config = engine.config.changed(rope=RopeConfig(), rope_layers=(True, False, True, True))
    session.opening.begin()
    settle(session)
    panel = shown(RopePanel, session, 570, 400)
    assert session.selection.now.layer == 1
    assert panel.notice.isVisible()
    assert "Layer 1 does not rotate" in panel.notice.text()
    session.selection.update(layer=2)
    settle(session, panel)
    assert not panel.notice.isVisible()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_cell_whose_numbers_are_not_finite_is_not_drawn(
    running: Session, shown: Shown, engine: CannedEngine, number: float
) -> None:
    broken = replace(reading(running), q_after=np.full_like(reading(running).q_after, number))
    engine.answers[AskPlanes] = lambda run, asked: broken
    panel = shown(RopePanel, running, 570, 400)
    assert panel.notice.text() == NOT_FINITE
    panel.toggle()
    assert not panel.timer.isActive()
    del engine.answers[AskPlanes]
    running.selection.update(key=0)
    settle(running, panel)
    assert not panel.notice.isVisible()
    assert panel.turned is not None


def test_the_cell_redraws_it_once(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    drawn = panel.draws
    running.selection.update(query=9, key=2)
    settle(running, panel)
    assert panel.draws == drawn + 1
    assert "query 9 → key 2" in panel.subtitle.text()
    assert panel.subtitle.text().endswith("half-split pairs (i, i+8)")


def test_each_way_to_pair_has_its_half_and_a_click_in_it_picks_by_it(qtbot: QtBot) -> None:
    view = PairingView()
    qtbot.addWidget(view)
    view.resize(320, 160)
    view.show_reading(many_planes(4))
    view.show()
    for row in (0, 1):
        for feature in range(8):
            cell = view.cell_of(row, feature)
            assert QRectF(0, 80 * row, 320, 80).contains(cell)
            assert (int(cell.left()), int(cell.right()) + 1) == (40 * feature, 40 * feature + 40)
    picked: list[int] = []
    view.plane_clicked.connect(picked.append)
    for row in (0, 1):
        QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=view.cell_of(row, 5).center().toPoint())
    assert picked == [1, 2]  # feature 5 is turned with 1 where the halves are paired, with 4 where neighbours are


def test_every_wavelength_is_clicked_for_its_plane(qtbot: QtBot) -> None:
    view = SpectrumView()
    qtbot.addWidget(view)
    view.resize(320, 160)
    view.show_planes(many_planes(4), 512, 12)
    view.show()
    picked: list[int] = []
    view.picked.connect(picked.append)
    for plane in range(4):
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=view.bar_of(plane).center().toPoint())
    assert picked == [0, 1, 2, 3]


def test_the_dragged_position_turns_the_query_and_the_selected_plane_is_only_outlined(
    running: Session, shown: Shown
) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    panel.shares.curve.chosen.emit(14.0)
    assert panel.position == 14
    assert panel.shares.curve.here.value() == 14
    bars = panel.shares.bars
    running.selection.update(plane=2)
    assert (bars.selected, len(bars.bars.opts["height"])) == (2, 8)
    assert np.allclose(bars.bars.opts["height"], Turned(reading(running), 14.0).shares)


def test_what_is_pointed_at_ends_with_its_run(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, *ROOMY)
    bars = panel.shares.bars
    QTest.mouseMove(bars.viewport(), bars.slot_of(3).center().toPoint())
    assert bars.heading.readout.startswith("plane 3: ")
    running.opening.begin()
    settle(running, panel)
    assert bars.heading.readout == ""
