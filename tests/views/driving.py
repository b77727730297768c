"""Driving the real window in a test: bring a panel to the front, click, ask, and wait until everything is drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QPoint, QSize, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QGraphicsView, QWidget

from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.lesson.scene import SWITCHES
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.panel import Panel
from ropewalk.views.pictures import snapshot
from ropewalk.views.stage.workspaces import WORKSPACES
from ropewalk.views.style import motion, theme
from tests.in_process import new_session

COMMON_SIZE = QSize(1280, 800)
LIGHT = "shapes"
"""The workspace whose panels are made and drawn in the least time, for tests of what is not in the panels."""


@contextmanager
def opened_window(
    folder: Path,
    path: str | None,
    prompt: str,
    size: QSize = COMMON_SIZE,
    layers: int | None = None,
    workspace: str = WORKSPACES[0].name,
) -> Iterator[MainWindow]:
    """A real window over a real session that has run a prompt on a model or its first layers; closed afterwards."""
    session = new_session(SettingsStore(folder / "settings.json"))
    window = window_over(session)
    window.show_workspace(workspace)
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


class Shared:
    """A window that many tests share, which brings it back to where it was before each of them.

    All that a test might make first is made at once: it would be counted as left over by that test.
    """

    def __init__(self, window: MainWindow) -> None:
        for card in window.cards.values():
            card.make_panel()
        snapshot.wait_until_drawn(window)
        session = window.session
        self.window, self.size, self.opened = window, window.size(), session.model_handle
        self.workspace = window.stage.workspace
        self.settings, self.selection = _fields(session.settings.now), _fields(session.selection.now)
        self.prompt = Prompt(run_of(window).prompt)

    def clear(self) -> None:
        """Take away what stands in front of the panels or beside the window."""
        window, classroom = self.window, self.window.classroom
        for dialog in window.findChildren(QDialog):
            dialog.close()
            dialog.deleteLater()
        while classroom.dismiss():
            pass
        if window.presenting:
            window.present()
        if classroom.presenter is not None:
            classroom.presenter.close()
        window.lesson.leave()
        window.reset_layout()

    def put_back(self) -> MainWindow:
        """Look, layout, engine, run, selection and switches as they were."""
        window, session = self.window, self.window.session
        self.clear()
        session.timeline.pause()
        session.baseline.unpin()
        session.board.clear()
        if session.engines.gone is not None:
            session.recovery.restart()
        self._run()
        for name in SWITCHES:
            window.lesson_scenes.switch(name).setChecked(False)
        motion.choose("system")
        theme.colour_in("viridis")
        if (theme.current().name, theme.current().projector) != ("dark", False):
            window.set_look("dark", projector=False)
        window.setWindowState(Qt.WindowState.WindowNoState)
        window.resize(self.size)
        window.show_workspace(self.workspace)
        window.failure.dismiss()
        session.selection.update(**self.selection)
        session.settings.update(**self.settings)
        window.activateWindow()
        snapshot.wait_until_drawn(window)
        snapshot.settle(window)
        window.setFocus()
        return window

    def _run(self) -> None:
        """The model and the run of the beginning, without what was changed in it."""
        window, session = self.window, self.window.session
        snapshot.wait_until_drawn(window)
        if session.interventions.now:
            session.interventions.apply(())
            snapshot.wait_until_drawn(window)
        run = run_of(window)
        if run.prompt != self.prompt.text or run.newest > run.prefill:
            session.start(self.prompt)
            snapshot.wait_until_drawn(window)


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def window_over(session: Session, *, restore: bool = False) -> MainWindow:
    """Make a window as the program does, before there is a style sheet: under one it takes half as long again."""
    app = QApplication.instance()
    if isinstance(app, QApplication):
        app.setStyleSheet("")
    return MainWindow(session, restore=restore)


def start_dark() -> None:
    """Have the dark theme, which takes long to put on anew."""
    theme.colour_in("viridis")
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
    if isinstance(widget, QGraphicsView):
        widget = widget.viewport()
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
