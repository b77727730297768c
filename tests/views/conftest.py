"""What the tests of views share: a session without torch, the theme, and a panel in a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from tests.views.fake_session import FakeSession
from views import theme
from views.panel import Panel

P = TypeVar("P", bound=Panel)


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path) -> Iterator[FakeSession]:
    """A session with nothing run yet."""
    fake = FakeSession(tmp_path / "settings.json")
    yield fake
    fake.close()


@pytest.fixture
def running(session: FakeSession) -> FakeSession:
    """A session that shows a run of twelve tokens."""
    session.begin()
    return session


@pytest.fixture(autouse=True)
def dark(qtbot: QtBot) -> None:
    """Begin every test with the dark theme."""
    app, now = QApplication.instance(), theme.current()
    if (now.name, now.projector) != ("dark", False) or not (isinstance(app, QApplication) and app.styleSheet()):
        theme.apply("dark")


@pytest.fixture
def shown(qtbot: QtBot) -> Callable[..., Any]:
    """Make a panel, show it at a size, and wait until it has drawn."""

    def show(kind: type[P], fake: Any, width: int = 600, height: int = 420) -> P:
        panel = kind(fake)
        qtbot.addWidget(panel)
        panel.resize(width, height)
        panel.show()
        if fake.run is not None:
            qtbot.waitUntil(lambda: panel.settled)
        return panel

    return show


def spread(widget: QWidget) -> set[int]:
    """The different colours in a picture of a widget."""
    image = widget.grab().toImage()
    return {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}
