"""The picture of lines: where each is, in which colour and how wide, in pixels and in a vector file; the sight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import Doubles, StrongWeights
from ropewalk.views.plots import lines
from ropewalk.views.plots.lines import LEAST_IN_SIGHT, LinesView, Sight, opacity
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import distinct
from tests.views.plots.hand import point_at
from tests.views.plots.test_vectors import SVG, drawn

Line = tuple[int, int, int, float]
"""Head, query, key, weight."""
SOME: Sequence[Line] = ((0, 2, 2, 1.0), (0, 9, 5, 0.5625), (1, 6, 6, 0.25), (1, 11, 10, 0.04))
COLOURS = (QColor(255, 0, 0), *[QColor(0, 160, 255)] * 6)


def strong(found: Sequence[Line], length: int, heads: tuple[int, ...] = (0, 1)) -> StrongWeights:
    """Lines of all tokens of a run, the largest first."""
    ordered = sorted(found, key=lambda line: -line[3])
    head, query, key = (np.array([line[part] for line in ordered], np.int32) for part in range(3))
    weight = np.array([line[3] for line in ordered], np.float32)
    whole = (0, length)
    return StrongWeights(0, heads, whole, whole, 0.01, len(found), len(found), head, query, key, weight)


@pytest.fixture
def view(qtbot: QtBot) -> LinesView:
    """A dozen tokens, and four lines."""
    return made(qtbot, SOME)


def made(qtbot: QtBot, found: Sequence[Line], length: int = 12, size: tuple[int, int] = (700, 500)) -> LinesView:
    view = LinesView()
    qtbot.addWidget(view)
    view.resize(*size)
    view.set_names(tuple(f"t{place}" for place in range(length)))
    view.show_weights(strong(found, length), COLOURS)
    view.show()
    view.finish()
    return view


def middle(view: LinesView, query: int, key: int) -> tuple[int, int]:
    """The pixel in the middle of a line."""
    one, other = view.centre("query", query), view.centre("key", key)
    return int((one.x() + other.x()) / 2), int((one.y() + other.y()) / 2)


def channels(colour: QColor) -> Doubles:
    return np.array([colour.red(), colour.green(), colour.blue()], np.float64)


def shade(image: QImage, at: tuple[int, int], colour: QColor) -> float:
    """How much of a colour is on the ground in a pixel, by the three channels; they have to agree."""
    seen, low = (channels(image.pixelColor(*place)) for place in (at, (1, 1)))
    shares = (seen - low) / (channels(colour) - low)
    assert np.ptp(shares) < 0.06, (seen, low, colour.name())
    return float(shares.mean())


def test_the_middle_of_a_line_has_the_colour_of_its_head_as_opaque_as_its_weight_says(view: LinesView) -> None:
    image = view.picture()  # twice as fine
    for head, query, key, weight in SOME:
        x, y = middle(view, query, key)
        shares = [shade(image, (2 * x, row), COLOURS[head]) for row in range(2 * y - 3, 2 * y + 4)]
        assert max(shares) == pytest.approx(np.sqrt(weight), abs=0.04), weight
        assert shade(image, (2 * x, 2 * y + 24), COLOURS[head]) == 0


def test_a_line_is_as_wide_as_its_weight_says(view: LinesView) -> None:
    image = view.picture()
    for head, query, key, wide in ((0, 2, 2, 4.0), (1, 6, 6, 1.75)):  # one at 0, three more at 1
        at, weight = view.centre("query", query), opacity(1.0 if wide == 4 else 0.25)
        assert query == key
        rows = range(2 * round(at.y()) - 20, 2 * round(at.y()) + 20)
        covered = sum(shade(image, (2 * round(at.x()) + 60, row), COLOURS[head]) for row in rows) / weight
        assert covered / 2 == pytest.approx(wide, rel=0.1)


def test_a_strong_line_lies_above_a_weak_one_that_crosses_it(qtbot: QtBot) -> None:
    view = made(qtbot, [(1, 9, 3, 1.0), (0, 3, 9, 0.5)])
    seen = view.grab().toImage().pixelColor(*middle(view, 9, 3))
    assert seen.blue() > 200
    assert seen.red() < 60


def test_lines_are_painted_in_turns_the_strongest_first_and_come_to_the_same(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    places = draw.integers(0, (2, 12, 12), (300, 3)).tolist()
    many = [(head, query, key, weight) for (head, query, key), weight in zip(places, draw.random(300), strict=True)]
    at_once = made(qtbot, many)
    monkeypatch.setattr(lines, "TURN", 1e-9)
    slow = made(qtbot, [])
    slow.show_weights(strong(many, 12), COLOURS)
    turns, seen = 0, []
    while not slow.is_painted:
        pixels = slow.pixels()
        assert pixels is not None
        seen.append(len(pixels[0].waiting))
        slow._next.timeout.emit()
        turns += 1
    assert turns > 20
    assert seen == sorted(seen, reverse=True)
    one, other = at_once.pixels(), slow.pixels()
    assert one is not None
    assert other is not None
    assert one[0].image == other[0].image


def test_lines_of_before_are_seen_scrolled_until_the_new_ones_are_painted(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(0, query, query, 0.5) for query in range(60)]
    view = made(qtbot, found, 60)
    assert view.sight.count < 40
    whole = view.pixels()
    assert whole is not None
    monkeypatch.setattr(lines, "TURN", 0.0)
    view.look(view.sight.moved(3, 3, 60))
    assert view.pixels() == (whole[0], -3 * view.pitch)
    view.show_weights(strong(found, 60), COLOURS, keep=True)
    assert view.pixels() == (whole[0], -3 * view.pitch)
    view.look(view.sight.moved(1, 0, 60))  # one side alone: nothing fits
    new = view.pixels()
    assert new is not None
    assert new[0] is not whole[0]
    view.look(view.sight.moved(-1, 0, 60))
    view.finish()
    after = view.pixels()
    assert after is not None
    assert (after[0].sight, after[1]) == (view.sight, 0)
    view.look(view.sight.moved(2, 2, 60))
    assert view.pixels() == (after[0], -2 * view.pitch)
    view.show_weights(strong(found[1:], 60), COLOURS)  # another run: nothing of the one before is seen
    other = view.pixels()
    assert other is not None
    assert other[0].sight == view.sight
    view.finish()


def test_what_is_pointed_at_is_drawn_alone(view: LinesView) -> None:
    before = view.grab().toImage()
    pointed: list[tuple[int, int]] = []
    view.pointed.connect(lambda query, key: pointed.append((query, key)))
    view.pointed.connect(view.point)
    point_at(view, view.centre("query", 9) - QPointF(30, 0))
    assert pointed == [(9, -1)]
    view.finish()
    image = view.picture()
    for head, query, key, _ in SOME:
        x, y = middle(view, query, key)
        shares = [shade(image, (2 * x, row), COLOURS[head]) for row in range(2 * y - 3, 2 * y + 4)]
        assert (max(shares) > 0.1) == (query == 9)
    assert view.beside("key") == {5: [(0, 0.5625)]}
    assert view.beside("query") == {}
    assert view.readout() == "query 9 t9 · 1 weight of 1 head"
    point_at(view, view.centre("key", 6) + QPointF(30, 0))
    assert pointed[1:] == [(-1, 6)]
    assert view.beside("query") == {6: [(1, 0.25)]}
    point_at(view, view.plot.center())
    assert pointed[2:] == [(-1, -1)]
    assert view.grab().toImage() == before


def test_the_weight_is_written_beside_the_key(view: LinesView) -> None:
    view.point(9, -1)
    text = " ".join("".join(element.itertext()) for element in drawn(view).iter(f"{SVG}text"))
    assert "H0 0.56" in text
    assert "0.25" not in text


def test_of_more_weights_than_there_is_room_for_the_largest_are_written_and_the_others_counted(qtbot: QtBot) -> None:
    view = made(qtbot, [(head, 9, 5, 0.9 - head / 10) for head in range(7)])
    view.colours = distinct(7, "dark")
    view.point(9, -1)
    text = ["".join(element.itertext()) for element in drawn(view).iter(f"{SVG}text")]
    written = [one for one in text if one.startswith("H")]
    assert written == [f"H{head} {0.9 - head / 10:.2f}" for head in range(len(written))]
    assert 0 < len(written) < 7
    assert f"+{7 - len(written)}" in text


def test_where_there_is_no_room_for_the_names_of_heads_weights_stand_alone(qtbot: QtBot) -> None:
    view = made(qtbot, SOME, size=(240, 300))
    view.point(9, -1)
    text = ["".join(element.itertext()) for element in drawn(view).iter(f"{SVG}text")]
    assert "0.56" in text
    assert not any(one.startswith(("H", "+")) for one in text)


def test_lines_in_a_vector_file_are_curves_in_their_colours(view: LinesView) -> None:
    root = drawn(view)
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for group in root.iter(f"{SVG}g"):
        path = group.find(f"{SVG}path")
        if path is not None and "C" in path.get("d", ""):
            stroke, share = group.get("stroke", ""), group.get("stroke-opacity", "")
            found[stroke, f"{float(share):.2f}"] = float(group.get("stroke-width", "0")), path.get("d", "")
    wanted = {(COLOURS[head].name(), f"{opacity(weight):.2f}") for head, _, _, weight in SOME}
    assert set(found) == wanted
    width, curve = found[COLOURS[0].name(), "1.00"]
    assert width == 4
    numbers = [float(part) for part in curve.replace("M", " ").replace("C", " ").replace(",", " ").split()]
    assert numbers[0] == 0
    assert numbers[-2] == pytest.approx(view.plot.width(), abs=0.1)
    assert not list(root.iter(f"{SVG}image"))
    text = {"".join(element.itertext()) for element in root.iter(f"{SVG}text")}
    assert {"query", "key", "t0", "t11", "11"} <= text


@pytest.mark.parametrize("length", [12, 512, 4096])
def test_names_never_touch_and_the_selected_ones_are_among_them(qtbot: QtBot, length: int) -> None:
    view = made(qtbot, [], length)
    view.want(length)
    view.mark(view.sight.query + 7, view.sight.key + 3)
    for beside in ({}, {view.sight.key + place: [(0, 1 / (place + 1))] for place in range(view.sight.count)}):
        named = view.tokens._named("key", beside)
        assert view.sight.key + 3 in named or beside
        heights = [view.centre("key", place).y() for place in named]
        assert min(np.diff(heights), default=99) >= view.apart - 1e-6
    assert view.sight.key in view.tokens._named("key", beside)  # the strongest


# The sight ------------------------------------------------------------------------------------------------------------


def test_the_sight_stays_inside_the_run() -> None:
    sight = Sight(40, 10, 20)
    assert sight.of(10, 100) == Sight(45, 15, 10)
    assert sight.of(60, 100) == Sight(20, 0, 60)
    assert sight.of(200, 100) == Sight(0, 0, 100)
    assert sight.moved(-50, 100, 100) == Sight(0, 80, 20)
    assert (sight.rows, sight.columns) == ((40, 60), (10, 30))


def test_a_token_near_by_is_scrolled_to_and_one_far_away_comes_into_the_middle() -> None:
    sight = Sight(40, 10, 20)
    assert sight.with_token("query", 45, 100) is sight
    assert sight.with_token("query", 60, 100) == Sight(41, 10, 20)
    assert sight.with_token("query", 38, 100) == Sight(38, 10, 20)
    assert sight.with_token("key", 90, 100) == Sight(40, 80, 20)
    assert sight.with_token("key", 99, 1000) == Sight(40, 89, 20)


def test_as_many_tokens_are_in_sight_as_can_be_named_until_somebody_wants_others(qtbot: QtBot) -> None:
    view = made(qtbot, [], 4096)
    looked: list[Sight] = []
    view.looked.connect(lambda: looked.append(view.sight))
    assert view.pitch >= view.apart
    assert view.pitch < view.apart * 1.1
    view.resize(700, 900)
    assert view.sight.count > 55
    assert looked == [view.sight]
    view.want(512)
    assert view.sight.count == 512
    view.want(1)
    assert view.sight.count == LEAST_IN_SIGHT
    view.view_all()
    assert view.sight.count == 512


def test_names_have_the_room_that_the_longest_wants_also_of_a_run_that_goes_on(qtbot: QtBot) -> None:
    view = made(qtbot, [], 20)
    short = view.margin
    view.set_names((*view.names, "longer"))
    long = view.margin
    assert view.plot.left() == long > short
    view.set_names((*view.names, "t"))
    assert view.margin == long
    view.set_names(view.names[:20])
    assert view.margin == short


def test_a_selected_token_stays_in_sight_where_there_is_less_room(qtbot: QtBot) -> None:
    view = made(qtbot, [], 200, (700, 800))
    last = view.sight.query + view.sight.count - 1
    view.mark(last, 0)
    view.resize(700, 300)
    assert last in view.in_sight("query")
    assert 0 in view.in_sight("key")


@pytest.mark.parametrize("name", ["dark", "light"])
def test_heads_have_colours_that_stand_out_and_differ(name: theme.ThemeName) -> None:
    ground = theme.themed(name).panel
    for count in (2, 8, 12, 64):
        colours = distinct(count, name)
        assert all(theme.contrast(colour, ground) >= 3 for colour in colours)
        assert len({colour.name() for colour in colours}) == count
    eight = [channels(colour) for colour in distinct(8, name)]
    assert min(np.abs(one - other).sum() for place, one in enumerate(eight) for other in eight[:place]) > 60
