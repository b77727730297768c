"""The lines of the compare panel: names, bars and numbers keep apart."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import TokenChange, TokenText
from ropewalk.views.panels.compare import NARROWEST, ChangesView
from ropewalk.views.style import ink, theme

CHANGES = tuple(
    TokenChange(TokenText(n, name), before, after)
    for n, (name, before, after) in enumerate((("·w", 0.9, 0.5), ("·considerable", 0.0, 0.1), ("·can", 0.1, 0.5)))
)


@pytest.mark.parametrize("projector", [False, True])
def test_bars_keep_off_names_and_numbers_and_go_where_there_is_no_room(qtbot: QtBot, projector: bool) -> None:
    theme.apply("dark", projector)
    view = ChangesView()
    qtbot.addWidget(view)
    view.show_changes(CHANGES)
    font = theme.current().font("number")
    numbers = ink.text_width(font, "0.900 → 0.500")
    shortest, with_bars = ink.text_width(font, "·can"), []
    for width in range(view.minimumSizeHint().width(), 900, 7):
        view.resize(width, 200)
        bars = [view.bar_of(row) for row in range(len(CHANGES))]
        with_bars.append(all(bar.isValid() for bar in bars))
        assert with_bars[-1] or not any(bar.isValid() for bar in bars)
        if with_bars[-1]:
            assert min(bar.left() for bar in bars) > shortest
            assert max(bar.right() for bar in bars) < width - numbers
            assert sum(bar.width() for bar in bars[::2]) >= NARROWEST - 1
        assert view.name_width() + numbers < width
        assert view.name_width() > shortest
    assert with_bars == sorted(with_bars)
    assert with_bars[-1]
    theme.apply("dark")
