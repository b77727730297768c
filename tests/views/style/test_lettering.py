"""Lines of text are laid out once, and still written where and how they should be."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter
from pytestqt.qtbot import QtBot

from ropewalk.views.panels.panel import ElidedLabel
from ropewalk.views.style import ink, lettering, theme, wording

RIGHT = Qt.TextElideMode.ElideRight
MIDDLE = Qt.TextElideMode.ElideMiddle


def test_a_line_is_laid_out_once_for_each_font(qtbot: QtBot) -> None:
    label, number = theme.current().font("label"), theme.current().font("number")
    assert lettering.face(label).line("abc") is lettering.face(theme.current().font("label")).line("abc")
    assert lettering.face(number).line("abc") is not lettering.face(label).line("abc")


def test_what_does_not_fit_is_cut_where_it_was_asked(qtbot: QtBot) -> None:
    face = lettering.face(theme.current().font("body"))
    room = face.line("a long line").width
    assert face.fitted("a long line", room, RIGHT) is face.line("a long line")
    end, middle = (face.fitted("a long line of words", room, where) for where in (RIGHT, MIDDLE))
    assert end.text.text().startswith("a long")
    assert end.text.text().endswith("…")
    assert middle.text.text().startswith("a ")
    assert middle.text.text().endswith("s")
    assert max(end.width, middle.width) <= room + 0.5


def test_markup_and_line_breaks_are_written_as_they_are(qtbot: QtBot) -> None:
    line = lettering.face(theme.current().font("body")).line("<b>s</b>\nx")
    assert line.text.textFormat() == Qt.TextFormat.PlainText
    assert line.text.text() == "<b>s</b> x"


def test_lines_of_all_fonts_together_are_bounded(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lettering, "MOST", 100)
    lettering.forget()
    faces = [lettering.face(theme.current().font(role)) for role in ("body", "number", "label")]
    for number in range(90):
        for face in faces:
            face.line(f"{number} of nine hundred")
            face.fitted(f"{number} of nine hundred", 20, RIGHT)
            assert sum(map(len, faces)) <= 100
    assert faces[0].line("1").text.text() == "1"


def written(align: Qt.AlignmentFlag) -> tuple[int, int]:
    """The first and last column of ink when ``HH`` is written into a box 100 pixels wide."""
    image = QImage(100, 30, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.black)
    painter = QPainter(image)
    ink.draw_text(painter, QRectF(0, 0, 100, 30), "HH", theme.current().font("number"), QColor("white"), align)
    painter.end()
    inked = [x for x in range(100) for y in range(30) if image.pixelColor(x, y).value() > 100]
    return min(inked), max(inked)


def test_a_line_stands_where_it_is_aligned(qtbot: QtBot) -> None:
    width = ink.text_width(theme.current().font("number"), "HH")
    assert written(ink.LEFT)[0] <= 3
    assert written(ink.RIGHT)[1] >= 96
    first, last = written(ink.CENTRE)
    assert abs((first + last) / 2 - 49.5) <= 1.5
    assert last - first <= width


def test_another_subtitle_makes_nothing_arrange_itself(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText("short")
    before = label.sizeHint(), label.minimumSizeHint()
    label.setText("a very much longer subtitle than the one before")
    assert (label.sizeHint(), label.minimumSizeHint()) == before
    assert label.text() == label.accessibleName() == "a very much longer subtitle than the one before"


def test_a_subtitle_is_written_in_whole_parts(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.show()
    label.setText("L1H5 · 16 × 16 · kv head 1")
    metrics = label.fontMetrics()
    label.resize(metrics.horizontalAdvance(label.text()), 20)
    assert (label.seen, label.toolTip()) == (label.text(), "")
    for gone, seen in ((1, "L1H5 · 16 × 16"), (metrics.horizontalAdvance("6 · kv head 1"), "L1H5")):
        label.resize(metrics.horizontalAdvance(label.text()) - gone, 20)
        assert (label.seen, label.toolTip()) == (seen, label.text())
    label.resize(metrics.horizontalAdvance("L1H5") - 1, 20)
    assert label.seen == "", "two letters and dots say nothing"
    label.setText("one part that is long")
    label.resize(metrics.horizontalAdvance("one part that"), 20)
    assert label.seen == label.text(), "it ends in an ellipsis"


@pytest.mark.parametrize("role", ["number", "body"])
def test_a_minus_sign_is_no_hyphen(qtbot: QtBot, role: theme.Role) -> None:
    font = theme.current().font(role)
    font.setPixelSize(100)
    hyphen, minus, plus = (QFontMetricsF(font).tightBoundingRect(sign).width() for sign in ("-", wording.MINUS, "+"))
    assert minus >= 1.3 * hyphen
    assert minus == pytest.approx(plus, rel=0.05)


def test_of_a_book_in_a_line_the_first_words_are_measured(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.resize(200, 20)
    label.setText("a · " * 200_000)
    metrics = label.fontMetrics()
    assert label.seen == " · ".join("a" * label.seen.count("a"))
    assert metrics.horizontalAdvance(label.seen) <= 200 < metrics.horizontalAdvance(f"{label.seen} · a")
    assert len(label.toolTip()) == wording.LONGEST_TIP + 1


def test_a_weight_that_is_a_rounding_more_than_1_is_opaque(qtbot: QtBot) -> None:
    alphas = [ink.faded(QColor("red"), weight).alphaF() for weight in (-1e-9, 0.5, 1 + 1e-7)]
    assert alphas == pytest.approx([0.0, 0.5, 1.0], abs=1 / 255)
