"""The RoPE panel on every model: planes, curves and rules.

Numbers are checked against ``tests.views.twin``, numpy over the arrays that the session holds.
"""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import pytest
from PySide6.QtCore import Qt

from ropewalk.model.engine.questions import AskPlanes
from ropewalk.model.readings.records import PlaneReading
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.rotation.dial import Dial
from ropewalk.views.style import wording
from tests.views.driving import answer, click, front, press, run_of
from tests.views.every_model.models import HEAD, KEY, LAYER, QUERY
from tests.views.shown_numbers import assert_shown
from tests.views.twin import Twin


def test_rope(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    panel.page_box.setCurrentText("planes")
    twin, session = Twin(window.session), window.session
    shares, scaled = twin.shares(LAYER, HEAD, QUERY, KEY), twin.scaled(LAYER, HEAD)[QUERY, KEY]
    turned, reading = panel.view.turned, panel.reading
    assert turned is not None
    assert reading is not None
    assert np.allclose(turned.shares, shares, atol=1e-4)
    assert turned.shares.sum() + reading.rest == pytest.approx(scaled, abs=1e-4)
    unturned = slice(run_of(window).specs[LAYER].rotary_width, None)
    q, k = twin.q(LAYER, HEAD)[QUERY][unturned], twin.k(LAYER, HEAD)[KEY][unturned]
    assert reading.rest == pytest.approx(run_of(window).specs[LAYER].scale * float(q @ k), abs=1e-4)
    assert ("do not turn" in panel.sum_label.text()) == bool(q.size)

    last = len(shares) - 1
    click(window, panel.view, panel.view.circle_of(last).center().toPoint())
    assert session.selection.now.plane == last
    press(window, panel.view, Qt.Key.Key_Left)
    assert session.selection.now.plane == last - 1

    theta = twin.frequencies(LAYER, QUERY)
    panel.slider.setFocus()
    press(window, panel.slider, Qt.Key.Key_Right, 3)
    assert "m = 14, n = 9" in panel.position_label.text()
    turned = panel.view.turned
    assert turned is not None
    pair, before = twin.features(LAYER)[0], reading.q_before[0]
    angle = 14 * theta[0]
    assert turned.q_after[0] == pytest.approx(
        reading.factor
        * np.array(
            [
                before[0] * np.cos(angle) - before[1] * np.sin(angle),
                before[0] * np.sin(angle) + before[1] * np.cos(angle),
            ]
        ),
        abs=1e-5,
    )
    assert tuple(pair) == tuple(reading.features[0])
    phase = np.arctan2(reading.q_before[:, 1], reading.q_before[:, 0])
    phase -= np.arctan2(reading.k_before[:, 1], reading.k_before[:, 0])
    between = np.exp(1j * (phase + (14 - KEY) * theta))
    assert np.allclose(np.exp(1j * turned.between), between, atol=1e-4)
    assert f"angle from k to q {wording.number(float(turned.between[last]))} rad" in panel.view.description(last)
    check_dial(panel.dial, twin, 14)
    click(window, panel.back_button)
    assert panel.position == QUERY
    check_dial(panel.dial, twin, QUERY)
    click(window, panel.both)
    press(window, panel.slider, Qt.Key.Key_Right, 4)
    turned = panel.view.turned
    assert turned is not None
    assert (turned.position, turned.key_position) == (QUERY + 4, KEY + 4)
    assert turned.scaled == pytest.approx(scaled, abs=1e-4)
    assert "float32 is off by" in panel.sum_label.toolTip()
    click(window, panel.query_alone)
    panel.speed.setCurrentIndex(2)
    click(window, panel.play_button)
    assert panel.timer.isActive()
    at = panel.slider.value()
    panel.timer.timeout.emit()
    assert panel.slider.value() == at + 4
    click(window, panel.play_button)
    assert not panel.timer.isActive()
    click(window, panel.loop)
    panel.slider.setValue(panel.slider.maximum())
    panel.timer.timeout.emit()
    assert panel.slider.value() == 0
    click(window, panel.loop)
    click(window, panel.back_button)


def check_dial(dial: Dial, twin: Twin, position: int) -> None:
    """What the dial of the selected plane says: numbers of the arrays that the session holds, turned here."""
    q, k = (pairs[QUERY if who else KEY][twin.features(LAYER)][dial.plane] @ (1, 1j)
            for who, pairs in ((1, twin.q(LAYER, HEAD)), (0, twin.k(LAYER, HEAD))))  # fmt: skip
    theta = float(twin.frequencies(LAYER, QUERY)[dial.plane])
    content = np.angle(q * np.exp(-1j * QUERY * theta) / (k * np.exp(-1j * KEY * theta)))
    q = q * np.exp(1j * (position - QUERY) * theta)
    scale = dial.turned.reading.scale if dial.turned else 0.0
    angle, share, query, key = map("".join, dial.texts())
    off = 5e-4
    degrees = [np.degrees(a) for a in (np.angle(q / k), content, theta)]
    told = [float(number.replace(wording.MINUS, "-")) for number in re.findall(rf"([\d.{wording.MINUS}]+)°", angle)]
    assert np.allclose(told[:3], degrees, atol=0.06)
    assert f"distance {position - KEY} × " in angle
    whole = re.search(rf"([{wording.MINUS}+]) (\d+) × 360°", angle)
    turns = 0 if whole is None else int(whole[2]) * (-1 if whole[1] == wording.MINUS else 1)
    assert degrees[1] + (position - KEY) * degrees[2] + 360 * turns == pytest.approx(degrees[0], abs=1e-2)
    assert_shown(share, " = {} × {} × ", abs(q), abs(k), off=off)
    assert_shown(share, " = {}", scale * float((q * k.conjugate()).real), off=off)
    assert_shown(query, "|q| = {}:", abs(q), off=off)
    assert_shown(query, "→ ({}, {})", q.real, q.imag, off=off)
    assert_shown(key, "|k| = {}:", abs(k), off=off)
    assert_shown(key, "→ ({}, {})", k.real, k.imag, off=off)


def test_the_other_pages_of_rope(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    twin, limit = Twin(window.session), run_of(window).config.max_position
    scaled, theta = twin.scaled(LAYER, HEAD)[QUERY, KEY], twin.frequencies(LAYER, QUERY)
    reading = cast("PlaneReading", answer(window, AskPlanes(LAYER, HEAD, QUERY, KEY)))
    panel.page_box.setCurrentText("distance")
    snapshot.wait_until_drawn(window)
    page = panel.curves
    assert page.view.true[0] == QUERY - KEY
    assert page.view.true[1] == pytest.approx(scaled, abs=1e-4)
    q, k = (pair[:, 0] + 1j * pair[:, 1] for pair in (reading.q_before, reading.k_before))
    far = 30.0
    place = int(np.abs(page.view.distances - far).argmin())
    expected = (
        reading.scale
        * reading.factor**2
        * float((q * k.conj() * np.exp(1j * page.view.distances[place] * theta)).real.sum())
    )
    assert page.view.curves[0][3][place] == pytest.approx(expected + reading.rest, abs=1e-4)
    for button in page.buttons:
        click(window, button)
    assert len(page.view.curves) == len(page.rules) == 1 + len(page.buttons)
    rule = page.rules[-1]
    expected = (
        reading.scale
        * rule.factor**2
        * float((q * k.conj() * np.exp(1j * page.view.distances[place] * rule.frequencies)).real.sum())
    )
    assert page.view.curves[-1][3][place] == pytest.approx(expected + reading.rest, abs=1e-4)
    for button in page.buttons:
        click(window, button)
    click(window, page.wide)
    assert limit - 1 - page.view.distances[-1] < limit / 512
    click(window, page.wide)

    panel.page_box.setCurrentText("spectrum")
    snapshot.wait_until_drawn(window)
    unfinished = int((2 * np.pi / theta > limit).sum())
    assert panel.sum_label.text().startswith(f"{unfinished} of {len(theta)} planes never finish a turn")
    click(window, panel.spectrum, panel.spectrum.bar_of(0).center().toPoint())
    assert window.session.selection.now.plane == 0
    press(window, panel.spectrum, Qt.Key.Key_Right)
    assert window.session.selection.now.plane == 1

    panel.page_box.setCurrentText("pairing")
    snapshot.wait_until_drawn(window)
    r = reading
    width = 2 * len(r.features)
    flat = np.zeros((2, width))
    flat[0, r.features.ravel()], flat[1, r.features.ravel()] = r.q_before.ravel(), r.k_before.ravel()
    halves = [v[: width // 2] + 1j * v[width // 2 :] for v in flat]
    neighbours = [v[0::2] + 1j * v[1::2] for v in flat]
    other = halves if panel.pairing.adjacent else neighbours
    turns = [other[0] * np.exp(1j * r.query_position * theta), other[1] * np.exp(1j * r.key_position * theta)]
    wrong = r.scale * r.factor**2 * float((turns[0] * turns[1].conj()).real.sum()) + r.rest
    assert_shown(panel.sum_label.text(), "{}, off by {}", wrong, wrong - scaled)
    other_rule = "half-split" if panel.pairing.adjacent else "adjacent"
    assert_shown(panel.sum_label.text(), f"reordered for {other_rule}: {{}}", scaled)
    click(window, panel.pairing, panel.pairing.cell_of(0, int(r.features[0, 0])).center().toPoint())
    assert window.session.selection.now.plane == 0
    panel.page_box.setCurrentText("planes")
