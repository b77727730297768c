"""The dial: hands where numpy puts them, what is written beside them, and the trail they leave."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import Doubles, PlaneReading
from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.dial import TRAIL, Dial
from ropewalk.views.plots.rotation.large_score import LargeScore
from ropewalk.views.plots.rotation.turning import Turned, rotated, scores_at, scores_by_position
from ropewalk.views.style import ink, theme, wording
from tests.views.driving import start_dark

THETA = np.array([0.8, 0.21, 0.013])
Q = np.array([[1.0, 0.5], [0.02, -0.3], [3.0, 4.0]])
K = np.array([[0.8, -0.3], [1.1, 0.7], [-0.1, 0.2]])


def made(
    m: int = 15, n: int = 12, factor: float = 1.0, theta_k: Doubles = THETA, adjacent: bool = False
) -> PlaneReading:
    """Three planes of a head that has two features more, which do not turn."""
    q, k = rotated(Q, m * THETA, factor), rotated(K, n * theta_k, factor)
    shares, rest = 0.5 * (q * k).sum(1), 0.125
    first = np.arange(3)
    features = np.stack((2 * first, 2 * first + 1) if adjacent else (first, first + 3), 1).astype(np.int64)
    scaled = float(shares.sum()) + rest
    return PlaneReading(
        0, 0, 0, m, n, m, n, features, THETA, theta_k, factor, Q, K, q, k, shares, rest, scaled, 0.5
    )  # fmt: skip


def turned_by(pair: Doubles, position: float, theta: float) -> complex:
    """A pair turned as a complex number is."""
    return complex(complex(*pair) * np.exp(1j * position * theta))


def dial_of(qtbot: QtBot, turned: Turned, plane: int = 0, size: tuple[int, int] = (420, 560)) -> Dial:
    dial = Dial()
    qtbot.addWidget(dial)
    dial.resize(*size)
    dial.show()
    dial.mark(plane)
    dial.show_turned(turned)
    return dial


def colour_at(dial: Dial, image: QImage, way: complex, share: float) -> int:
    """What is painted in a direction, at a share of the length of a hand."""
    at = dial.circle.center() + QPointF(way.real, -way.imag) / abs(way) * share
    return image.pixelColor(at.toPoint()).rgb()


@pytest.mark.parametrize("look", ["dark", "light"])
def test_hands_point_where_numpy_turns_them(qtbot: QtBot, look: str) -> None:
    theme.apply("light" if look == "light" else "dark")
    now = theme.current()
    for plane, m, n in product(range(3), (15, 4.25), (12, 30)):
        dial = dial_of(qtbot, Turned(made(), m, n - 12), plane)
        image = dial.grab().toImage()
        ways = {"q": turned_by(Q[plane], m, THETA[plane]), "k": turned_by(K[plane], n, THETA[plane])}
        whole = max(map(abs, ways.values()))
        for name, colour in (("q", now.query), ("k", now.key)):
            long = dial.radius * max(abs(ways[name]) / whole, hands.SHORTEST)
            end, hollow = dial.hand(Turned(made(), m, n - 12), name)
            reached = complex(end.x() - dial.circle.center().x(), dial.circle.center().y() - end.y())
            assert abs(reached) == pytest.approx(long)
            assert np.angle(reached / ways[name]) == pytest.approx(0, abs=1e-9)
            assert hollow == (abs(ways[name]) / whole < hands.SHORTEST)
            assert colour_at(dial, image, ways[name], 0.75 * long) == colour.rgb(), (plane, m, n, name)
            if hollow:
                assert colour_at(dial, image, ways[name], long) == now.field.rgb()
    start_dark()


def test_what_is_written_is_the_sum_that_makes_the_angle_and_the_share(qtbot: QtBot) -> None:
    for plane, m, n, factor in product(range(3), (15, 41.5), (12, 3), (1.0, 1.2)):
        dial = dial_of(qtbot, Turned(made(factor=factor), m, n - 12), plane)
        angle, share, query, key = map("".join, dial.texts())
        q, k = turned_by(Q[plane], m, THETA[plane]), turned_by(K[plane], n, THETA[plane])
        content = np.degrees(np.angle(complex(*Q[plane]) / complex(*K[plane])))
        between, added = np.degrees(np.angle(q / k)), (m - n) * np.degrees(THETA[plane])
        turns = round((content + added - between) / 360)
        speed = wording.significant(np.degrees(THETA[plane]), 4)
        words = f"angle {between:.1f}° = content {content:.1f}° + distance {m - n:g} × {speed}°"
        words += f" {'-' if turns > 0 else '+'} {abs(turns)} × 360°" if turns else ""
        assert angle == words.replace("-", wording.MINUS)
        lengths = [wording.number(factor * abs(hand)) for hand in (q, k)]
        assert f" = {lengths[0]} × {lengths[1]} × cos {between:.1f}° × 0.500".replace("-", wording.MINUS) in share
        assert share.endswith(f" = {wording.number(0.5 * factor**2 * (q * k.conjugate()).real)}")
        for name, text, hand, pair in (("q", query, q, Q[plane]), ("k", key, k, K[plane])):
            ends = [f"({wording.number(z.real)}, {wording.number(z.imag)})" for z in (complex(*pair), factor * hand)]
            assert text == f"|{name}| = {wording.number(factor * abs(hand))}: {ends[0]} → {ends[1]}"
        assert angle in dial.accessibleDescription()
        assert "Plane" in dial.toolTip()


def test_where_query_and_key_turn_unequally_the_positions_share_is_told(qtbot: QtBot) -> None:
    slower = THETA / 2
    dial = dial_of(qtbot, Turned(made(theta_k=slower), 15), 1)
    told = np.degrees(15 * THETA[1] - 12 * slower[1])
    assert f"+ positions {told:.1f}°" in "".join(dial.texts()[0])


def test_features_are_named_in_either_pairing(qtbot: QtBot) -> None:
    for adjacent, words in ((False, "features 1, 4"), (True, "features 2, 3")):
        assert words in dial_of(qtbot, Turned(made(adjacent=adjacent), 15), 1).heading()[0]


def test_what_is_written_above_a_narrow_dial_is_whole(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(ink, "draw_text", lambda painter, box, text, *_: written.append(text))
    for width, name, about in (
        (420, "Plane 0: features 0, 3", "θ = 0.800 rad = 45.84° a position · a turn in 7.9 positions"),
        (220, "Plane 0: features 0, 3", "θ = 0.800 rad = 45.84° a position"),
        (100, "Plane 0", "θ = 0.800 rad"),
    ):
        dial = dial_of(qtbot, Turned(made(), 15), 0, (width, 560))
        written.clear()
        dial.grab()
        assert {name, about} <= set(written), (width, written)


def test_names_stand_beside_the_hands_and_on_no_other_all_the_way_round(qtbot: QtBot) -> None:
    dial = dial_of(qtbot, Turned(made(), 0, -12))
    for position in np.arange(0, 10, 0.25):
        turned = Turned(made(), position, -12 + position / 2)
        dial.show_turned(turned)
        dial.grab()
        assert dial.names() == (
            f"q at m = {hands.place(position)}", f"k at n = {hands.place(position / 2)}",
            "q before rotation", "k before rotation",
        )  # fmt: skip
        assert list(dial.labels) == ["q", "k", "q before", "k before"]
        for one, other in combinations(dial.labels.values(), 2):
            assert not one.intersects(other), position
        for name, box in dial.labels.items():
            assert QRectF(dial.rect()).contains(box)
            end = dial.hand(turned, name)[0]
            assert math.hypot(box.center().x() - end.x(), box.center().y() - end.y()) <= box.width() / 2 + 5 * 16


@pytest.mark.parametrize("look", ["dark", "projector"])
def test_the_circle_is_most_of_the_dial_and_lines_have_room(qtbot: QtBot, look: str) -> None:
    theme.apply("dark", look == "projector")
    for size in ((200, 180), (300, 420), (420, 560), (560, 700), (900, 500)):
        dial = dial_of(qtbot, Turned(made(), 15), 1, size)
        line = theme.current().size("label")
        assert dial.circle.width() >= min(0.6 * min(size), 14 * line)
        assert QRectF(dial.rect()).contains(dial.circle)
        dial.grab()
        for box in dial.labels.values():
            assert QRectF(dial.rect()).contains(box)
    start_dark()


def test_a_hand_that_turns_leaves_a_trail_and_one_that_jumps_none(qtbot: QtBot) -> None:
    r = made()
    dial = dial_of(qtbot, Turned(r, 15))
    assert not dial.trail
    for frame in range(1, 2 * TRAIL):
        dial.show_turned(Turned(r, 15 + frame / 16))
        assert [one.position for one in dial.trail] == [15 + i / 16 for i in range(max(frame - TRAIL, 0), frame)]
    image, before = dial.grab().toImage(), dial.trail[-3]
    way = turned_by(Q[0], before.position, THETA[0])
    seen, ground = QColor(colour_at(dial, image, way, dial.radius)), theme.current().field
    assert seen != ground
    assert seen.hsvHue() == pytest.approx(theme.current().query.hsvHue(), abs=15)
    dial.show_turned(Turned(r, 40))
    assert not dial.trail
    dial.show_turned(Turned(r, 40.5))
    assert len(dial.trail) == 1
    dial.show_turned(Turned(r, 15))
    assert not dial.trail, "what is where it is in the run has come from nowhere"


def test_scores_at_positions_are_the_sum_of_the_turned_products() -> None:
    r = made(factor=1.3)
    m, n = np.array([0.0, 7.5, 15.0]), np.array([3.0, 3.0, 12.0])
    products = [
        sum(turned_by(Q[i], m[j], THETA[i]) * turned_by(K[i], n[j], THETA[i]).conjugate() for i in range(3))
        for j in range(3)
    ]
    assert np.allclose(scores_at(r, m, n), 0.5 * 1.3**2 * np.real(products) + 0.125)


def test_the_curve_of_what_moves_is_the_score_there() -> None:
    r, at = made(), np.array([13.0, 15.0, 22.0])
    for moves, m, n in (
        ("query", at, [12, 12, 12]), ("key", [15, 15, 15], at), ("both", at, at - 3)
    ):  # fmt: skip
        curve = scores_by_position(r, moves, at)  # type: ignore[arg-type]
        turned = [Turned.moved_to(r, moves, position) for position in at.tolist()]  # type: ignore[arg-type]
        assert [(one.position, one.key_position) for one in turned] == list(zip(m, n, strict=True))
        assert curve == pytest.approx([one.scaled for one in turned], abs=1e-12)
    assert curve == pytest.approx([r.scaled] * 3, abs=1e-12)


def test_the_large_score_stands_still_while_both_move_and_changes_while_one_does(qtbot: QtBot) -> None:
    r, score = made(), LargeScore()
    qtbot.addWidget(score)
    score.show_turned(Turned(r, 15), "both")
    still = score.number()
    assert still == wording.number(r.scaled, 4)
    assert "in the run: m = 15, n = 12" in score.accessibleDescription()
    for m in (16, 100.5, 1017):
        score.show_turned(Turned(r, m, m - 15), "both")
        assert score.number() == still
        (_, _), (said, colour), (same, _) = score.lines()
        assert said == "stands still: both move, m − n = 3"
        assert colour == theme.current().good
        before, now = (float(text.split()[1].replace(wording.MINUS, "-")) for text in same.split(" = "))
        assert before == now == round(r.scaled, len(same.split(".")[-1]))
    score.show_turned(Turned(r, 17), "query")
    assert score.number() == wording.number(float(scores_at(r, np.array([17.0]), np.array([12.0]))[0]), 4) != still
    assert score.lines()[1][0] == "only the query moves, m − n = 5"
    score.show_turned(Turned(r, 15, 2), "key")
    assert score.lines()[1][0] == "only the key moves, m − n = 1"
    unequal = made(theta_k=THETA / 2)
    score.show_turned(Turned(unequal, 25, 10), "both")
    assert "stands still" not in score.accessibleDescription(), "by such a rule it does not"


@pytest.mark.parametrize("size", [(190, 26), (200, 45), (260, 90), (520, 40), (700, 120)])
def test_the_large_score_says_what_it_is_however_little_room_there_is(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    r, score = made(), LargeScore()
    qtbot.addWidget(score)
    written: list[str] = []
    draw = QPainter.drawText

    def draw_text(painter: QPainter, *given: Any) -> Any:
        written.append(given[-1])
        return draw(painter, *given)

    monkeypatch.setattr(QPainter, "drawText", draw_text)
    for moved in (Turned(r, 15), Turned(r, 100.5, 85.5), Turned(r, 17)):
        score.resize(*size)
        score.show_turned(moved, "both" if moved.shift else "query")
        written.clear()
        score.grab()
        assert written[0] == score.number()
        assert written[1].startswith("scaled score")
        assert score.lines()[0][0] == f"scaled score = q·k {wording.number(moved.scaled / r.scale, 4)} × 0.500"


def test_of_half_precision_no_more_decimals_are_claimed_than_it_has(qtbot: QtBot) -> None:
    score = LargeScore()
    qtbot.addWidget(score)
    for approximate in (False, True):
        r = replace(made(), approximate=approximate)
        r = replace(r, scaled=r.scaled + (0.003 if approximate else 0.0))
        score.show_turned(Turned(r, 16, 1), "both")
        assert ("stands still" in score.accessibleDescription()) is not approximate
