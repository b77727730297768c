"""In a list of examples the query and the key are always in sight, whatever strangers wrote into the texts."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.survey.example_list import ExampleList, ExampleText, excerpt_of, plain, words
from ropewalk.views.style import ink, theme

SHORT = ExampleText(("When", " Anna", " and", " Paul", " met", ",", " Anna", " smiled", "."), 6, 1, 0.98, "text 7")
LONG = ExampleText(("far ",) * 900 + (" key",) + ("between ",) * 900 + (" query",) + ("behind ",) * 900, 1801, 900, 0.5)
HOSTILE = ExampleText(
    ("<b>x</b>", "\n\u2028", "\x00\x1b[31m", " \u202eevil", "שלום", " ", "🙂", "e" + "\u0301" * 40, "a" * 5000),
    8,
    4,
    0.1,
)
ODD = (
    ExampleText((), 0, 0, float("nan")),
    ExampleText(("one",), 0, 0, 1.0),
    ExampleText(("a", "b"), 5, -1, 0.0),
    ExampleText(("  ", "\n", ""), 2, 0, 0.2),
)


@pytest.fixture
def rows(qtbot: QtBot) -> ExampleList:
    made = ExampleList()
    qtbot.addWidget(made)
    made.resize(520, 300)
    made.show_examples((SHORT, LONG, HOSTILE, *ODD))
    made.show()
    made.grab()
    return made


@pytest.mark.parametrize("width", [120, 300, 700])
@pytest.mark.parametrize("turned", [False, True])
def test_both_tokens_are_in_what_is_written_and_it_fits(rows: ExampleList, width: int, turned: bool) -> None:
    font = theme.current().font("body")
    for example, names in ((SHORT, ("Anna", "Anna")), (LONG, ("query", "key"))):
        cell = (example.query, example.key)
        said = excerpt_of(ExampleText(example.tokens, *(cell[::-1] if turned else cell), 1.0), font, width)
        query, key = names[::-1] if turned else names
        assert (said.text[slice(*said.query)], said.text[slice(*said.key)]) == (query, key)
        assert said.query[0] != said.key[0]
        assert (said.query[0] > said.key[0]) != turned
        assert ink.text_width(font, said.text) <= width + 12  # letters that are joined are narrower than apart
    whole = excerpt_of(SHORT, font, 700)
    assert whole.text == "When Anna and Paul met, Anna smiled."


def test_nothing_that_strangers_write_is_markup_or_a_second_line(rows: ExampleList) -> None:
    assert plain("a\nb\t\x1b[31m\u202e\u2028<b>") == "a⏎b⇥\\x1b[31mU+202EU+2028<b>"
    said = excerpt_of(HOSTILE, theme.current().font("body"), 400)
    assert said.text[slice(*said.key)] == "שלום"
    assert said.text[slice(*said.query)].startswith("aaa")
    assert "<b>x</b>" in excerpt_of(HOSTILE, theme.current().font("body"), 10_000).text
    tip = rows.model().index(2, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "&lt;b&gt;" in tip
    assert words(SHORT).splitlines() == [
        "0.980 · query 6 Anna · key 1 Anna · text 7",
        "When Anna and Paul met, Anna smiled.",
    ]


@pytest.mark.parametrize("look", ["dark", "light", "projector"])
def test_query_and_key_have_their_colours_and_marks_of_their_own(rows: ExampleList, look: str) -> None:
    theme.apply("light" if look == "light" else "dark", look == "projector")
    rows.theme_changed()
    rows.resize(1100, 300)
    image, now = rows.grab().toImage(), theme.current()
    box = rows.visualRect(rows.model().index(0, 0))

    def marked(colour: QColor) -> QRect:
        """Where a colour is in the first row."""
        found = QRect()
        for x in range(box.left(), box.right()):
            for y in range(box.top(), box.bottom() - 1):
                if image.pixelColor(x, y) == colour:
                    found = found.united(QRect(x, y, 1, 1))
        return found

    query, key = marked(now.query), marked(now.key)
    wide = ink.text_width(now.font("body"), "Anna")
    assert abs(query.width() - wide) <= 6
    assert abs(key.width() - wide) <= 6
    assert key.right() < query.left(), "the key is the first Anna"
    line = key.bottom() - 1
    assert all(image.pixelColor(x, line) == now.key for x in range(key.left() + 1, key.right() - 1)), "a line under it"
    assert not all(
        image.pixelColor(x, query.bottom() - 2) == now.query for x in range(query.left() + 4, query.right() - 4)
    )


def test_a_click_and_return_open_a_row_and_arrows_do_not(rows: ExampleList) -> None:
    opened: list[int] = []
    rows.opened.connect(opened.append)
    middle: QPoint = rows.visualRect(rows.model().index(1, 0)).center()
    QTest.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    QTest.mouseClick(rows.viewport(), Qt.MouseButton.RightButton, pos=middle)
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Home, Qt.Key.Key_Enter):
        QTest.keyClick(rows, key)
    assert opened == [1, 2, 0]
    assert dict(rows.table())["query"][:2] == [6, 1801]
