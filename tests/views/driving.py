"""Driving the real window in a test: bring a panel to the front, click, ask, and wait until everything is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QPoint, QSize, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.panel import Panel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.in_process import new_session

ROOMY = QSize(1600, 1000)


@contextmanager
def opened_window(
    folder: Path, path: str | None, prompt: str, size: QSize = ROOMY, layers: int | None = None
) -> Iterator[MainWindow]:
    """A real window over a real session that has run a prompt on a model or its first layers; closed afterwards."""
    session = new_session(SettingsStore(folder / "settings.json"))
    window = window_over(session)
    window.resize(size)
    window.show()
    window.activateWindow()
    kept: list[QWidget] = []
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    try:
        session.opening.begin(path if layers is None else None, Prompt(prompt))
        snapshot.wait_until_drawn(window)
        if layers is not None:
            session.opening.open(path, options={FIRST_LAYERS: layers})
            snapshot.wait_until_drawn(window)
        kept += app.topLevelWidgets()  # held, so that the guard knows Qt's own frames again
        yield window
    finally:
        kept.clear()
        window.close()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def window_over(session: Session, *, restore: bool = False) -> MainWindow:
    """Make a window as the program does, before there is a style sheet: under one it takes half as long again."""
    app = QApplication.instance()
    if isinstance(app, QApplication):
        app.setStyleSheet("")
    return MainWindow(session, restore=restore)


def start_dark() -> None:
    """Have the dark theme, which takes long to put on anew."""
    app, now = QApplication.instance(), theme.current()
    if (now.name, now.projector) != ("dark", False) or not (isinstance(app, QApplication) and app.styleSheet()):
        theme.apply("dark")


def settle(session: Session, *panels: Panel, limit_ms: int = 20_000) -> None:
    """Run the event loop until the session is idle and these panels have drawn what they asked for."""
    limit = QTimer()
    limit.setSingleShot(True)
    limit.start(limit_ms)
    while session.busy or not all(panel.settled for panel in panels):
        assert limit.isActive(), f"busy: {session.busy}; not drawn: {[p.name for p in panels if not p.settled]}"
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    for _ in range(2):
        QCoreApplication.processEvents()  # layouts take effect


def run_on(session: Session) -> Run:
    """The run on screen."""
    assert session.run is not None
    return session.run


def meant(session: Session) -> Prompt:
    """How the prompt of the run on screen was meant."""
    assert session.handle is not None
    return session.handle.prompt


def front(window: MainWindow, name: str) -> Any:
    """A panel, brought to the front and drawn."""
    window.reveal(name)
    snapshot.wait_until_drawn(window)
    return window.panels[name]


def click(window: MainWindow, widget: QWidget, at: QPoint | None = None) -> None:
    """Click, and wait until everything is drawn."""
    if at is None:
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
    else:
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=at)
    snapshot.wait_until_drawn(window)


def press(window: MainWindow, widget: QWidget, key: Qt.Key, times: int = 1) -> None:
    """Press a key, and wait until everything is drawn."""
    for _ in range(times):
        QTest.keyClick(widget, key)
    snapshot.wait_until_drawn(window)


def run_of(window: MainWindow) -> Run:
    """The run on screen."""
    return run_on(window.session)


def answer(window: MainWindow, question: Any) -> Any:
    """What the engine says to a question."""
    answers: list[Any] = []
    window.session.ask("test", question, lambda reading: answers.append(reading.value))
    snapshot.wait_until_drawn(window)
    return answers[0]
