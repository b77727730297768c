"""The RoPE panel: planes, angles, shares that add up, the moving query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import RopeConfig
from ropewalk.model.engine.questions import AskPlanes
from ropewalk.model.readings.records import PlaneReading
from ropewalk.views.panels.rope import PARTS, RopePanel, sum_text
from ropewalk.views.plots.curves import SpectrumView
from ropewalk.views.plots.pairing import PairingView
from ropewalk.views.plots.planes import PlanesView
from ropewalk.views.plots.turning import Turned, rotated, scores_by_position
from ropewalk.views.style import theme, wording
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


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
    curve = scores_by_position(r, np.arange(20.0))
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


def test_vectors_end_where_the_reading_says(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, 570, 400)
    r, look = reading(running), theme.current()
    image = panel.view.grab().toImage()
    longest = float(np.hypot(*r.q_before.T).max())
    plane = int(np.argmax(np.hypot(*r.q_after.T)))
    circle = panel.view.circle_of(plane)
    tip = r.q_after[plane] / longest * (circle.width() / 2 - 3)
    at = circle.center() + QPointF(float(tip[0]), -float(tip[1]))
    assert image.pixelColor(at.toPoint()).rgb() == look.query.rgb()


def test_a_bar_is_as_long_as_its_share_and_signed(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, 570, 400)
    shares = reading(running).shares
    heights = np.array([panel.shares.bar_of(i).height() for i in range(len(shares))])
    assert np.allclose(heights / heights.max(), np.abs(shares) / np.abs(shares).max(), atol=1e-6)
    zero = {
        round(b.bottom() if s >= 0 else b.top(), 3)
        for s, b in ((s, panel.shares.bar_of(i)) for i, s in enumerate(shares))
    }
    assert len(zero) == 1


def test_the_slider_moves_the_query_and_back_puts_it_back(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, 570, 400)
    r = reading(running)
    assert panel.position == r.query_position
    assert not panel.back_button.isEnabled()
    QTest.keyClick(panel.slider, Qt.Key.Key_Right)
    assert panel.position == r.query_position + 1
    moved = float(scores_by_position(r, np.array([r.query_position + 1.0]))[0])
    assert wording.number(moved) in panel.sum_label.text()
    assert f"in the run {wording.number(r.scaled)}" in panel.sum_label.text()
    assert running.selection.now.query == r.query
    QTest.mouseClick(panel.back_button, Qt.MouseButton.LeftButton)
    assert panel.position == r.query_position
    assert "in the run" not in panel.sum_label.text()


def test_play_moves_on_and_stops_when_hidden(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, 570, 400)
    start = panel.slider.value()
    QTest.mouseClick(panel.play_button, Qt.MouseButton.LeftButton)
    assert panel.play_button.text() == "Pause"
    qtbot.waitUntil(lambda: panel.slider.value() > start)
    panel.hide()
    assert not panel.timer.isActive()
    assert panel.play_button.text() == "Play"


def test_play_stops_at_the_end(running: Session, shown: Shown) -> None:
    panel = shown(RopePanel, running, 570, 400)
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
    panel = shown(RopePanel, running, 570, 400)
    drawn, asked = panel.draws, len(engine.asked)
    QTest.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=panel.view.circle_of(5).center().toPoint())
    assert running.selection.now.plane == 5
    QTest.keyClick(panel.view, Qt.Key.Key_Left)
    assert running.selection.now.plane == 4
    assert panel.view.selected == 4
    bar = panel.shares.bars_box()
    x = round(bar.left() + (6 + 0.5) * bar.width() / 8)
    QTest.mouseClick(panel.shares, Qt.MouseButton.LeftButton, pos=QPoint(x, round(bar.center().y())))
    assert running.selection.now.plane == 6
    settle(running, panel)
    assert (panel.draws, len(engine.asked)) == (drawn, asked)


def test_a_click_on_the_curve_moves_the_query(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, 570, 400)
    box = panel.shares.curve_box()
    QTest.mouseClick(
        panel.shares, Qt.MouseButton.LeftButton, pos=QPoint(round(box.right()) - 4, round(box.center().y()))
    )
    assert panel.slider.value() == panel.slider.maximum()
    assert panel.slider.maximum() == 64 * PARTS


def test_hover_marks_a_plane_here_and_elsewhere(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, 570, 400)
    QTest.mouseMove(panel.view, panel.view.circle_of(3).center().toPoint())
    assert running.selection.hover == Hover(plane=3)
    assert panel.view.pointed == 3
    assert "features 3 and 11" in panel.view.description(3)


@pytest.mark.parametrize("room", [(538, 216), (300, 500), (1000, 200)])
def test_up_to_128_planes_stay_apart_and_readable(qtbot: QtBot, room: tuple[int, int]) -> None:
    view = PlanesView()
    qtbot.addWidget(view)
    view.fit(QSize(*room))
    for planes in (1, 4, 8, 32, 64, 128):
        view.show_turned(Turned(many_planes(planes), 3))
        boxes = [view.cell_of(i) for i in range(planes)]
        assert not any(a.intersects(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert all(view.circle_of(i).width() >= 24 for i in range(planes))
        assert max(b.right() for b in boxes) <= room[0]
        assert max(b.bottom() for b in boxes) <= view.height()


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


def test_the_cell_redraws_it_once(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RopePanel, running, 570, 400)
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
    view.plane_clicked.connect(picked.append)
    for plane in range(4):
        QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=view.bar_of(plane).center().toPoint())
    assert picked == [0, 1, 2, 3]
