"""Guards for every test: no display needed, no Qt warning unheard, nothing left alive.

A test that leaves a thread, a running timer or a top-level widget behind fails. A Qt warning fails the test that
caused it, except for the exact messages listed here.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import shiboken6
from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QMessageLogContext,
    QObject,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtWidgets import QApplication

ALLOWED_MESSAGES = frozenset(
    {
        "This plugin does not support propagateSizeHints()",
        "This plugin does not support raise()",
        "This plugin does not support grabbing the keyboard",
        "This plugin does not support setting window opacity",
    }
)
"""What the offscreen platform says of itself."""

WARNINGS = (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg)


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests away from the settings of whoever runs them."""
    monkeypatch.setenv("ROPEWALK_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture(autouse=True)
def no_qt_warnings() -> Iterator[None]:
    """Fail the test that makes Qt complain."""
    heard: list[str] = []

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind in WARNINGS and message not in ALLOWED_MESSAGES:
            heard.append(message)

    before = qInstallMessageHandler(hear)
    yield
    qInstallMessageHandler(before)
    assert not heard, f"Qt warned: {heard}"


@pytest.fixture(autouse=True)
def nothing_left_alive(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves a thread, a running timer or a widget behind.

    What a test with Qt left in cycles is collected here: a later test's compute thread might else be the one to collect
    it, and Qt's objects may only end on the thread they live on.
    """
    threads = set(threading.enumerate())
    widgets = {_address(widget) for widget in _widgets()}
    yield
    if QCoreApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    left = [thread.name for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    assert not left, f"threads left alive: {left}"
    if "qapp" in request.fixturenames or any(_address(w) not in widgets for w in _widgets()):
        gc.collect()
    remaining = [f"{type(w).__name__} {w.objectName()}" for w in _widgets() if _address(w) not in widgets]
    assert not remaining, f"widgets left alive: {remaining}"
    app = QCoreApplication.instance()
    timers = [] if app is None else [timer for timer in app.findChildren(QTimer) if timer.isActive()]
    assert not timers, f"timers left running: {timers}"


def _address(widget: QObject) -> int:
    """Where the widget itself lies; Python's own part of it may be made anew whenever somebody looks."""
    return int(shiboken6.getCppPointer(widget)[0])


def _widgets() -> list[QObject]:
    app = QApplication.instance()
    return list(app.topLevelWidgets()) if isinstance(app, QApplication) else []
