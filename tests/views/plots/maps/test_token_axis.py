"""Tokens are named as long as they can be read, and no two names touch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.token_axis import GAP, LEAST_NAMED, TokenAxis, even
from ropewalk.views.style import ink, theme

WORDS = ("·When", "s", "·superlatives", ",", "·Mary", "·a")


@pytest.fixture
def columns(qtbot: QtBot) -> TokenAxis:
    axis = TokenAxis("bottom")
    axis.set_names(tuple(WORDS[i % len(WORDS)] for i in range(60)))
    return axis


def test_names_are_turned_only_where_one_does_not_fit_level(columns: TokenAxis) -> None:
    columns.set_names(("·When", "s", "·a"))
    width = ink.text_width(theme.current().font("number"), "·When")
    assert columns.turned(width + GAP) == "level"
    assert columns.turned(width + GAP - 1) == "sloping"
    assert columns.turned(20) == "upright"
    columns.set_names(("a", "·b", "c"))
    assert {columns.turned(pitch) for pitch in (9, 10, 14, 20, 40)} == {"level"}, "single letters"


def test_long_names_are_turned_alike_and_short_ones_stay_level_where_they_fit(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Heatmap()
    qtbot.addWidget(shown)
    turns: dict[str, set[int]] = {}

    def noted(painter: QPainter, box: QRectF, text: str, *rest: Any) -> None:
        if text in names and painter.transform().map(box.center()).y() > shown.plot.bottom():
            corner = painter.transform().map(box.topLeft()), painter.transform().map(box.topRight())
            turns.setdefault(text, set()).add(round(np.degrees(np.arctan2(*(corner[0] - corner[1]).toTuple()[::-1]))))

    monkeypatch.setattr(ink, "draw_text", noted)
    groups = [[word for word in WORDS if len(word) == 1], ["·a"], [word for word in WORDS if len(word) > 2]]
    seen = []
    for words, side in ((WORDS, 160), (WORDS, 900), (("·When", "s"), 900), (("s", "·a"), 160)):
        names = tuple(words[i % len(words)] for i in range(12))
        shown.resize(side + 90, side + 150)
        shown.set_labels(names)
        shown.set_data(np.zeros((12, 12), np.float32), np.ones((12, 12), np.bool_), (0, 12), (0, 12))
        turns.clear()
        shown.grab()
        assert len(turns) > 1
        said = {text: {turn % 180 for turn in found} for text, found in turns.items()}
        seen.append([sorted(set[int]().union(*(said[word] for word in group if word in said))) for group in groups])
    upright, sloping = [[0], [90], [90]], [[0], [0], [135]]
    assert seen == [upright, sloping, [[0], [], [0]], [[0], [0], []]], "·a is wider than a place of the smallest map"


@pytest.mark.parametrize("projector", [False, True])
def test_a_short_name_is_level_only_as_long_as_it_touches_no_turned_one(columns: TokenAxis, projector: bool) -> None:
    theme.apply("light", projector=projector)
    columns.theme_changed()
    font = theme.current().font("number")
    line = ink.line_height(font)
    for text in ("k", "·a"):
        width = ink.text_width(font, text)
        beside = max(width, width / 2 + line / 2) + 1
        assert columns.turned(beside) == "upright"
        assert columns.stays_level(text, beside, beside)
        assert not columns.stays_level(text, beside, beside - 1)
        slope = 2 * line
        assert columns.turned(slope) == "sloping"
        assert columns.stays_level(text, slope, width / 2 + line + 1)
        assert not columns.stays_level(text, slope, width / 2 + line)
    assert not columns.stays_level("·When", 40, 400)


def test_names_of_which_too_little_would_be_left_are_positions(columns: TokenAxis) -> None:
    font = theme.current().font("number")
    enough = GAP + ink.text_width(font, "000…")
    for limit, name in ((enough, "·When"), (enough - 1, "0")):
        columns.limit = limit
        columns.setHeight(columns.room(16))
        columns.resize(600, columns.room(16))
        assert columns.turned(16) == "upright"
        assert columns.tickStrings([0], 16, 1) == [name]
    assert columns.room(16) <= ink.line_height(font) + 3, "positions are level: they leave the room to the plot"
    columns.set_names(("the", "·k"))
    columns.limit = GAP + columns.extent()
    columns.setHeight(columns.room(16))
    columns.resize(600, columns.room(16))
    assert columns.tickStrings([0], 16, 1) == ["the"], "a whole name is enough"


def test_names_that_a_closer_look_has_no_room_for_are_positions(qtbot: QtBot) -> None:
    shown = Heatmap()
    qtbot.addWidget(shown)
    shown.resize(300, 330)
    shown.set_labels(("·word",) * 100)
    shown.set_data(np.zeros((100, 100), np.float32), np.ones((100, 100), np.bool_), (0, 100), (0, 100))
    axis = shown.columns_axis
    assert axis.tickStrings([3], 3.0, 1) == ["3"]
    assert axis.tickStrings([3], 20.0, 1) == ["3"], "they would stand upon the colour bar"
    assert shown.rows_axis.tickStrings([3], 20.0, 1) == ["·word"]
    assert axis.tickStrings([3], 80.0, 1) == ["·word"]


@pytest.mark.parametrize(
    ("least", "wanted"), [(0, 1), (1, 1), (1.2, 2), (2, 2), (3, 5), (6, 10), (10, 10), (11, 20), (21, 50), (999, 1000)]
)
def test_strides_are_even(least: float, wanted: int) -> None:
    assert even(least) == wanted


@pytest.mark.parametrize("projector", [False, True])
def test_room_is_kept_for_what_is_written(columns: TokenAxis, projector: bool) -> None:
    theme.apply("dark", projector=projector)
    columns.theme_changed()
    line = ink.line_height(theme.current().font("number"))
    most = columns.room(20)
    assert most >= ink.text_width(theme.current().font("number"), "·superl…")
    assert columns.room(columns.extent() + GAP) <= line + 3
    assert columns.room(LEAST_NAMED - 1) <= line + 3
    assert columns.room(40 * (1 + projector)) < most, "sloping names need less than upright ones"


@pytest.mark.parametrize(
    ("size", "pitch", "said"),
    [
        (60, 40.0, "names"),
        (60, 13.0, "names"),
        (60, 9.0, "some names"),
        (60, 8.9, "positions"),
        (512, 1.0, "positions"),
    ],
)
def test_names_are_thinned_where_there_are_many_and_are_positions_where_none_could_be_read(
    qtbot: QtBot, size: int, pitch: float, said: str
) -> None:
    for side in ("left", "bottom"):
        axis = TokenAxis(side)
        axis.setHeight(100)
        axis.resize(100, 100)
        names = tuple(f"t{i}" for i in range(size))
        axis.set_names(names)
        ((stride, places),) = axis.tickValues(-0.5, size - 0.5, size * pitch)
        texts = axis.tickStrings(places, pitch, 1)
        if said == "positions":
            assert texts == [str(place) for place in places]
        else:
            assert texts == [names[place] for place in places]
            assert (stride == 1) == (said == "names")


def test_no_two_names_touch_and_the_chosen_one_is_written(columns: TokenAxis) -> None:
    for pitch in (1.0, 3.0, 8.0, 9.0, 12.0, 40.0):
        columns.choose(31, theme.current().key)
        ((_, places),) = columns.tickValues(-0.5, 59.5, 60 * pitch)
        assert 31 in places
        assert np.diff(sorted(places)).min() * pitch >= theme.current().size("number")


def test_names_of_a_part_stand_at_the_same_places_as_those_of_the_whole(columns: TokenAxis) -> None:
    columns.set_names(("a",) * 200)
    ((stride, whole),) = columns.tickValues(-0.5, 99.5, 200)
    assert whole == list(range(0, 100, int(stride)))
    assert columns.tickValues(30.5, 60.5, 60)[0][1] == [i for i in whole if 30.5 < i < 61]
    columns.choose(45, theme.current().key)
    chosen = columns.tickValues(39.5, 69.5, 60)[0][1]
    assert chosen[-1] == 45
    assert all(abs(i - 45) * 2 >= 12 for i in chosen[:-1])


def test_positions_of_four_digits_are_written_in_full_and_never_touch(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = 32_768
    shown = Heatmap("masked")
    shown.form.row_labels = False  # the first position may stand at the very edge
    qtbot.addWidget(shown)
    shown.resize(200, 230)
    shown.set_labels(("a",) * tokens)
    shown.set_data(np.zeros((64, 64), np.float32), np.ones((64, 64), np.bool_), (0, tokens), (0, tokens))
    written: list[tuple[float, float]] = []

    def noted(painter: QPainter, box: QRectF, text: str, *rest: Any) -> None:
        if text.isdigit() and painter.transform().map(box.center()).y() > shown.plot.bottom():
            written.append((box.left(), box.left() + ink.text_width(theme.current().font("number"), text)))

    monkeypatch.setattr(ink, "draw_text", noted)
    for start in range(15_000, 17_000, 250):
        written.clear()
        shown.look_at(QRectF(start, start, 4700.0, 4700.0))
        shown.grab()
        assert len(written) > 1
        for (_, right), (left, _) in pairwise(sorted(written)):
            assert left - right >= 1, start


def test_a_letter_and_a_number_stand_for_places_that_are_no_tokens(qtbot: QtBot) -> None:
    axis = TokenAxis("bottom", "H")
    ((stride, places),) = axis.tickValues(-0.5, 31.5, 96)
    assert stride > 1
    assert axis.tickStrings(places, 3, 1)[1] == f"H{stride}"
    assert axis.turned(3) == "level"
