"""What is asked of every test that may use Qt: no warning unheard, no widget and no running timer left behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def no_qt_warnings() -> Iterator[None]:
    """Fail where Qt complains meanwhile."""
    heard: list[str] = []

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind in WARNINGS and message not in ALLOWED_MESSAGES:
            heard.append(message)

    before = qInstallMessageHandler(hear)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
    assert not heard, f"Qt warned: {heard}"


@contextmanager
def no_widgets_left() -> Iterator[None]:
    """Fail where a widget or a running timer is there afterwards that was not there before."""
    widgets = {_address(widget) for widget in _widgets()}
    yield
    if any(_address(w) not in widgets for w in _widgets()):
        gc.collect()
    remaining = [f"{type(w).__name__} {w.objectName()}" for w in _widgets() if _address(w) not in widgets]
    assert not remaining, f"widgets left alive: {remaining}"
    app = QCoreApplication.instance()
    timers = [] if app is None else [timer for timer in app.findChildren(QTimer) if timer.isActive()]
    assert not timers, f"timers left running: {timers}"


def delete_what_is_due() -> None:
    """End the objects that ``deleteLater`` was called on."""
    if QCoreApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def _address(widget: QObject) -> int:
    """Where the widget itself lies; Python's own part of it may be made anew whenever somebody looks."""
    return int(shiboken6.getCppPointer(widget)[0])


def _widgets() -> list[QObject]:
    """Top-level widgets, but for the empty one that Qt itself makes for a graphics scene when it is first shown."""
    app = QApplication.instance()
    every = app.topLevelWidgets() if isinstance(app, QApplication) else []
    return [one for one in every if shiboken6.createdByPython(one) or one.metaObject().className() != "QWidget"]
