"""What the tests of views share: a session over canned readings, the theme, and a panel in a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.panel import Panel
from ropewalk.views.pictures import snapshot
from tests.views.canned import PROMPT, CannedEngine, canned_session
from tests.views.driving import Shared, settle, start_dark, window_over

P = TypeVar("P", bound=Panel)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what shares a window last in its file: as long as there is one, another look is put on it too."""
    files = [list(of_file) for _, of_file in groupby(items, key=lambda item: item.path)]
    items[:] = [item for of_file in files for item in sorted(of_file, key=_shares)]


def _shares(item: pytest.Item) -> bool:
    return "shared" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session", autouse=True)
def lessons_read_once() -> Iterator[None]:
    """Read no lesson again for a window: what is read is frozen, and how it is read has tests of its own."""
    from ropewalk.app.lessons import loading
    from tests.app.filled_lessons import SHELF

    read = {lesson.path: lesson for lesson in SHELF.lessons}
    load = loading.load_lesson
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_lesson", lambda path: read.get(path) or load(path))
        yield


@pytest.fixture(scope="module")
def shared(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """One window over canned readings for the tests of a file, a tenth of a second each quicker than their own."""
    start_dark()
    with canned_session(tmp_path_factory.mktemp("window") / "settings.json") as session:
        session.opening.begin(prompt=Prompt(PROMPT))
        settle(session)
        window = window_over(session)
        window.resize(1280, 800)
        window.show()
        window.activateWindow()
        snapshot.wait_until_drawn(window)
        yield Shared(window)
        window.close()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def engine() -> CannedEngine:
    """What the session asks."""
    return CannedEngine()


@pytest.fixture
def session(qtbot: QtBot, engine: CannedEngine, tmp_path: Path) -> Iterator[Session]:
    """A session with nothing run yet."""
    with canned_session(tmp_path / "settings.json", engine) as made:
        yield made


@pytest.fixture
def running(session: Session) -> Session:
    """A session that shows a run of twelve tokens."""
    session.opening.begin(prompt=Prompt(PROMPT))
    settle(session)
    return session


@pytest.fixture
def long_run(session: Session, engine: CannedEngine) -> Callable[[int], Session]:
    """Show a run of so many tokens."""

    def run(count: int) -> Session:
        engine.config = engine.config.changed(max_position=max(engine.config.max_position, 2 * count))
        engine.prefill = count
        session.opening.begin(prompt=Prompt("many words"))
        settle(session)
        return session

    return run


@pytest.fixture(autouse=True)
def dark(qtbot: QtBot) -> None:
    """Begin every test with the dark theme."""
    start_dark()


@pytest.fixture
def shown(qtbot: QtBot) -> Callable[..., Any]:
    """Make a panel, show it at a size, and wait until it has drawn."""

    def show(kind: type[P], session: Session, width: int = 600, height: int = 420) -> P:
        panel = kind(session)
        qtbot.addWidget(panel)
        panel.resize(width, height)
        panel.show()
        if session.run is not None:
            settle(session, panel)
        return panel

    return show


def spread(widget: QWidget) -> set[int]:
    """The different colours in a picture of a widget."""
    image = widget.grab().toImage()
    return {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}
