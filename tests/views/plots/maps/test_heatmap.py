"""The heatmap draws the cell it says, in the colour it says, and never a masked cell as a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import Floats
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels, brief
from ropewalk.views.plots.maps.signed import signed_colour
from ropewalk.views.style import ink, theme
from tests.views.plots.hand import click, drag, point_at, wheel

N = 12


def causal(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    return np.tril(np.ones((size, size), np.bool_))


def ramp(size: int) -> Floats:
    return np.linspace(0, 1, size * size, dtype=np.float32).reshape(size, size)


@pytest.fixture
def heatmap(qtbot: QtBot) -> Heatmap:
    shown = Heatmap("weights")
    qtbot.addWidget(shown)
    shown.resize(420, 460)
    shown.set_data(ramp(N), causal(N), (0, N), (0, N))
    shown.set_labels(tuple(f"·t{i}" for i in range(N)))
    shown.show()
    return shown


def rect(area: QRectF) -> tuple[float, ...]:
    return area.getRect()  # type: ignore[return-value]


def pixel(heatmap: Heatmap, query: int, key: int) -> QColor:
    image = heatmap.grab().toImage()
    point = heatmap.cell_rect(query, key).center().toPoint()
    return image.pixelColor(QPoint(point.x() + 3, point.y() + 3) * image.devicePixelRatio())


@pytest.mark.parametrize("cell", [(0, 0), (5, 2), (11, 0), (11, 11)])
def test_the_pixel_of_a_cell_has_the_colour_of_its_value(heatmap: Heatmap, cell: tuple[int, int]) -> None:
    value = float(ramp(N)[cell])
    wanted = theme.current().sequential[round(value * 255)].tolist()[:3]
    assert heatmap.data.colour(*cell) == QColor(*wanted)
    assert pixel(heatmap, *cell) == QColor(*wanted)


def test_a_masked_cell_is_hatched_and_has_no_colour(heatmap: Heatmap) -> None:
    assert heatmap.data.colour(2, 7) is None
    assert heatmap.is_masked(2, 7)
    image = heatmap.grab().toImage()
    box = heatmap.cell_rect(2, 7).toAlignedRect()
    seen = {
        image.pixelColor(x, y).name()
        for x in range(box.left() + 1, box.right())
        for y in range(box.top() + 1, box.bottom())
    }
    now = theme.current()
    assert now.masked_ground.name() in seen
    assert now.masked.name() in seen
    assert QColor(*now.sequential[0].tolist()[:3]).name() not in seen


def test_cell_zero_is_centred_on_zero(heatmap: Heatmap) -> None:
    step = heatmap.cell_rect(0, 0).width()
    assert heatmap.view.left() == heatmap.view.top() == -0.5
    assert heatmap.cell_rect(0, 0).topLeft() == heatmap.plot.topLeft()
    assert heatmap.cell_rect(0, 1).left() == heatmap.plot.left() + step


def test_every_cell_is_found_under_its_own_centre(heatmap: Heatmap) -> None:
    for query in range(N):
        for key in range(N):
            assert heatmap.cell_at(heatmap.cell_rect(query, key).center()) == (query, key)
    assert heatmap.cell_at(QPointF(1, 1)) is None


def test_a_click_picks_query_and_key(qtbot: QtBot, heatmap: Heatmap) -> None:
    with qtbot.waitSignal(heatmap.picked) as picked:
        click(heatmap, heatmap.cell_rect(7, 3).center())
    assert picked.args == [7, 3]


def test_pointing_says_the_cell_and_leaving_says_none(qtbot: QtBot, heatmap: Heatmap) -> None:
    with qtbot.waitSignal(heatmap.pointed) as pointed:
        point_at(heatmap, heatmap.cell_rect(4, 1).center())
    assert pointed.args == [4, 1]
    with qtbot.waitSignal(heatmap.pointed) as pointed:
        point_at(heatmap, QPointF(1, 1))
    assert pointed.args == [-1, -1]


def test_the_selected_row_is_outlined_in_amber_and_the_column_in_blue(heatmap: Heatmap) -> None:
    heatmap.set_selection(6, 2)
    image = heatmap.grab().toImage()
    row, column = heatmap.cell_rect(6, 9), heatmap.cell_rect(1, 2)
    across = {image.pixelColor(round(row.center().x()), round(row.top()) + d).name() for d in (-1, 0, 1)}
    down = {image.pixelColor(round(column.left()) + d, round(column.center().y())).name() for d in (-1, 0, 1)}
    assert theme.current().query.name() in across
    assert theme.current().key.name() in down


def test_what_is_not_a_number_has_marks_of_its_own(qtbot: QtBot, heatmap: Heatmap) -> None:
    values = ramp(N).copy()
    values[8, 1], values[8, 3], values[8, 5] = np.nan, np.inf, -np.inf
    heatmap.set_data(values, causal(N), (0, N), (0, N))
    now = theme.current()
    assert heatmap.data.colour(8, 1) == now.undefined
    assert heatmap.data.colour(8, 3) == now.text
    assert heatmap.data.colour(8, 5) == now.window
    image = heatmap.grab().toImage()
    centre = heatmap.cell_rect(8, 1).center().toPoint()
    assert image.pixelColor(centre) == now.ink_on(now.undefined)


def test_diverging_levels_put_an_exact_zero_in_the_middle() -> None:
    levels = Levels(-2.0, 4.0, "diverging")
    assert levels.indices(np.array([0.0, 4.0, -4.0, 9.0], np.float32)).tolist() == [128, 255, 1, 255]
    assert levels.value_at(0.5) == 0


def test_log_levels_are_even_in_powers_of_ten() -> None:
    levels = Levels(1e-4, 1.0, "log")
    assert levels.indices(np.array([0, 1e-4, 1e-2, 1.0], np.float32)).tolist() == [0, 0, 128, 255]
    assert [brief(levels.value_at(share)) for share in (0, 0.5, 1)] == ["1e−4", "0.01", "1.00"]


def test_a_reduced_picture_says_so_and_maps_its_cells(qtbot: QtBot, heatmap: Heatmap) -> None:
    values, visible = ramp(5), np.ones((5, 5), np.bool_)
    heatmap.set_data(values, visible, (0, 14), (0, 14), reduction="max")
    assert heatmap.block == (3, 3)
    assert heatmap.note == "max of 3 × 3"
    assert heatmap.pixel_of(13, 0) == (4, 0)
    assert heatmap.data.colour(13, 13) == QColor(*theme.current().sequential[255].tolist()[:3])
    assert pixel(heatmap, 13, 13) == heatmap.data.colour(13, 13)


def test_a_large_picture_shows_every_pixel_once(qtbot: QtBot) -> None:
    shown = Heatmap("weights")
    qtbot.addWidget(shown)
    shown.resize(620, 640)
    values = np.zeros((512, 512), np.float32)
    values[300, 41] = 1.0
    shown.set_data(values, np.ones((512, 512), np.bool_), (0, 512), (0, 512))
    shown.show()
    hot = QColor(*theme.current().sequential[255].tolist()[:3])
    image = shown.grab().toImage()
    box = shown.cell_rect(300, 41)
    assert box.width() >= 1
    assert image.pixelColor(math.floor(box.center().x()), math.floor(box.center().y())) == hot


def test_the_wheel_zooms_about_the_pointer_and_a_double_click_shows_all(qtbot: QtBot, heatmap: Heatmap) -> None:
    point = heatmap.cell_rect(8, 3).center()
    for _ in range(3):
        wheel(heatmap, point, 1)
    assert heatmap.view.width() < N
    assert heatmap.cell_at(point) == (8, 3)
    assert heatmap.view.left() >= -0.5
    assert heatmap.view.bottom() <= N - 0.5
    with qtbot.waitSignal(heatmap.viewed):
        QTest.mouseDClick(heatmap.viewport(), Qt.MouseButton.LeftButton, pos=point.toPoint())
    assert heatmap.view.width() == N


def test_a_zoomed_view_is_dragged_without_picking(qtbot: QtBot, heatmap: Heatmap) -> None:
    wheel(heatmap, heatmap.plot.center(), 3)
    before, start = heatmap.view, heatmap.plot.center()
    picked: list[tuple[int, int]] = []
    heatmap.picked.connect(lambda query, key: picked.append((query, key)))
    with qtbot.waitSignal(heatmap.viewed):
        drag(heatmap, [start, start + QPointF(20, 15), start + QPointF(40, 30)])
    assert heatmap.view.left() < before.left()
    assert heatmap.view.size() == before.size()
    assert picked == []


def test_a_box_that_is_drawn_is_seen_next_and_its_cells_stay_square(qtbot: QtBot, heatmap: Heatmap) -> None:
    corners = heatmap.cell_rect(2, 1).topLeft(), heatmap.cell_rect(7, 4).bottomRight()
    with qtbot.waitSignal(heatmap.viewed):
        drag(heatmap, [corners[0], heatmap.plot.center(), corners[1]], Qt.KeyboardModifier.ShiftModifier)
    assert heatmap.view.height() == pytest.approx(6, abs=0.2)
    assert heatmap.view.contains(QRectF(0.6, 1.6, 3.8, 5.8))
    assert heatmap.cell_rect(3, 3).width() == pytest.approx(heatmap.cell_rect(3, 3).height())
    heatmap.view_all()
    heatmap.draw_box()
    drag(heatmap, [corners[0], heatmap.plot.center(), corners[1]])
    assert heatmap.view.height() == pytest.approx(6, abs=0.2)
    before = heatmap.view
    drag(heatmap, [corners[0], heatmap.plot.center(), corners[1]])
    assert heatmap.view.size() == before.size(), "a box is drawn once"


def test_what_cannot_move_says_nothing(heatmap: Heatmap) -> None:
    viewed: list[object] = []
    heatmap.viewed.connect(viewed.append)
    drag(heatmap, [heatmap.plot.center(), heatmap.plot.center() + QPointF(30, 0), heatmap.plot.center()])
    heatmap.view_all()
    assert viewed == []


def test_linked_maps_show_the_same_part_and_one_of_them_says_so(qtbot: QtBot, heatmap: Heatmap) -> None:
    other = Heatmap("scores")
    qtbot.addWidget(other)
    other.resize(heatmap.size())
    other.set_data(ramp(N), causal(N), (0, N), (0, N))
    other.show()
    other.link(heatmap)
    said: list[str] = []
    heatmap.viewed.connect(lambda _: said.append("one"))
    other.viewed.connect(lambda _: said.append("other"))
    heatmap.look_at(QRectF(1.5, 2.5, 6, 6))
    assert rect(other.view) == rect(heatmap.view) == pytest.approx((1.5, 2.5, 6, 6))
    wheel(other, other.plot.center(), 1)
    assert rect(heatmap.view) == pytest.approx(rect(other.view))
    assert said == ["one", "other"]


def test_arrow_keys_move_the_cell_while_the_map_has_the_focus(qtbot: QtBot, heatmap: Heatmap) -> None:
    heatmap.set_selection(4, 2)
    with qtbot.waitSignal(heatmap.picked) as picked:
        QTest.keyClick(heatmap, Qt.Key.Key_Right)
    assert picked.args == [4, 3]
    with qtbot.waitSignal(heatmap.picked) as picked:
        QTest.keyClick(heatmap, Qt.Key.Key_Up)
    assert picked.args == [3, 2]


def test_the_map_that_has_the_keys_is_outlined(qtbot: QtBot, heatmap: Heatmap) -> None:
    def is_outlined() -> bool:
        image, place = heatmap.grab().toImage(), heatmap.plot.topLeft().toPoint()
        return theme.current().accent in [image.pixelColor(place + QPoint(d, -2)) for d in range(20)]

    heatmap.activateWindow()
    heatmap.setFocus()
    qtbot.waitUntil(heatmap.hasFocus)
    assert is_outlined()
    heatmap.clearFocus()
    assert not is_outlined()


def test_large_cells_carry_their_numbers(qtbot: QtBot, heatmap: Heatmap) -> None:
    heatmap.set_data(np.full((2, 2), 0.5, np.float32), np.ones((2, 2), np.bool_), (0, 2), (0, 2))
    image, box = heatmap.grab().toImage(), heatmap.cell_rect(1, 1).toAlignedRect()
    ground = heatmap.data.colour(1, 1)
    assert ground is not None
    seen = {image.pixelColor(x, box.center().y()).name() for x in range(box.left() + 2, box.right() - 2)}
    assert theme.current().ink_on(ground).name() in seen


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (-2.14, "−2.14"), (1e-4, "1e−4"), (123.4, "123"), (2e5, "2e5")]
)
def test_the_colour_bar_writes_numbers_short(value: float, text: str) -> None:
    assert brief(value) == text


def test_a_finer_part_and_the_pointer_repaint_cells_and_nothing_around_them(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Heatmap("weights")
    qtbot.addWidget(shown)
    shown.resize(400, 420)
    shown.set_data(np.zeros((40, 40), np.float32), np.ones((40, 40), np.bool_), (0, 40), (0, 40))
    shown.show()
    for _ in range(3):  # a scene tells its views of changes a turn later
        QApplication.processEvents()
    around: list[str] = []
    dirty: list[QRect] = []
    paint = shown.paintEvent

    def written(painter: QPainter, box: QRectF, text: str, *how: Any) -> None:
        around.append(text)

    def painted(event: QPaintEvent) -> None:
        dirty.append(event.region().boundingRect())
        paint(event)

    monkeypatch.setattr(ink, "draw_text", written)
    monkeypatch.setattr(shown, "paintEvent", painted)
    shown.patch(10, 20, np.ones((5, 5), np.float32), np.ones((5, 5), np.bool_))
    QApplication.processEvents()
    assert around == []
    part = shown.cell_rect(10, 20).united(shown.cell_rect(14, 24))
    assert dirty[-1].contains(part.toRect())
    assert dirty[-1].width() <= part.width() + 8
    shown.set_hover(3, 4)
    QApplication.processEvents()
    assert "1.00" not in around, "the colour bar"
    shown.set_selection(3, 4)  # the labels of both are written in their colours
    QApplication.processEvents()
    assert {"3", "4"} <= set(around)


def test_in_a_low_map_title_and_colour_bar_stand_beside_the_cells(heatmap: Heatmap) -> None:
    plot = heatmap.plot
    assert heatmap.bar.box.geometry().top() > plot.bottom()
    heatmap.resize(420, 190)
    plot, bar = heatmap.plot, heatmap.bar.box.geometry()
    assert bar.left() > plot.right()
    assert bar.bottom() <= plot.bottom()
    assert heatmap.plot.height() > heatmap.form.placed(heatmap.form.margins, beside=False).plot.height() + 15, (
        "that is what it is for"
    )


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("size", [(520, 190), (300, 340), (640, 640), (200, 480)])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("tokens", [12, 161])
def test_all_that_is_written_is_inside_the_map(
    heatmap: Heatmap,
    projector: bool,
    size: tuple[int, int],
    labelled: bool,
    tokens: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theme.apply("light", projector=projector)
    heatmap.titles = ("query", "key")
    heatmap.form.row_labels = labelled
    heatmap.set_labels(tuple(f"t{i}" for i in range(tokens)))
    heatmap.set_data(np.zeros((tokens, tokens), np.float32), causal(tokens), (0, tokens), (0, tokens))
    heatmap.set_selection(tokens - 1, tokens - 1)
    heatmap.theme_changed()
    heatmap.resize(*size)
    boxes: list[tuple[str, QRectF]] = []

    def write(painter: QPainter, box: QRectF, text: str, font: QFont, colour: QColor, align: Any = ink.LEFT) -> None:
        width = min(ink.text_width(font, text), box.width() + 1)
        spare = 0.0 if align == ink.LEFT else box.width() - width if align == ink.RIGHT else (box.width() - width) / 2
        inked = QRectF(box.left() + spare, box.center().y() - font.pixelSize() / 2, width, font.pixelSize())
        boxes.append((text, painter.transform().mapRect(inked)))

    monkeypatch.setattr(ink, "draw_text", write)
    heatmap.grab()
    inside = QRectF(heatmap.rect()).adjusted(-1, -1, 1, 1)
    assert len(boxes) > 4
    assert [text for text, box in boxes if not inside.contains(box)] == []
    chosen = f"t{tokens - 1}" if heatmap.columns_axis.is_named(heatmap.box.step) else str(tokens - 1)
    assert chosen in [text for text, _ in boxes]


def test_every_row_and_column_has_the_label_of_its_own_token(heatmap: Heatmap, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, QPointF, QColor]] = []

    def write(painter: QPainter, box: QRectF, text: str, font: QFont, colour: QColor, *how: Any) -> None:
        sloping = painter.transform().m12()
        written.append((text, painter.transform().map(box.topRight() if sloping else box.center()), QColor(colour)))

    heatmap.set_selection(7, 3)
    monkeypatch.setattr(ink, "draw_text", write)
    heatmap.grab()
    now, rows, columns = theme.current(), {}, {}
    for text, centre, colour in written:
        for i in range(N) if "·t" in text else ():
            cell = heatmap.cell_rect(i, i).center()
            if centre.x() < heatmap.plot.left() and abs(centre.y() - cell.y()) < 1:
                rows[i] = text, colour
            elif centre.y() > heatmap.plot.bottom() and abs(centre.x() - cell.x()) < 2:
                columns[i] = text, colour
    assert rows == {i: (f"·t{i}", now.query if i == 7 else now.faint) for i in range(N)}
    assert columns == {i: (f"·t{i}", now.key if i == 3 else now.faint) for i in range(N)}


def test_more_and_less_have_the_colours_of_the_ends(qtbot: QtBot) -> None:
    shown = Heatmap("difference")
    qtbot.addWidget(shown)
    shown.set_data(np.array([[-2, 2]], np.float32), np.ones((1, 2), np.bool_), (0, 1), (0, 2))
    shown.set_levels(Levels(-2, 2, "diverging"))
    assert [shown.data.colour(0, key) for key in (0, 1)] == [signed_colour(-0.5), signed_colour(0.5)]
