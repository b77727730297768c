"""The start of the window: the engine first, so that torch is imported there while the window is built here."""

from __future__ import annotations

import gc
import signal
from typing import TYPE_CHECKING

from PySide6.QtGui import QClipboard, QGuiApplication
from PySide6.QtWidgets import QApplication
from shiboken6 import createdByPython

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.views.main_window import MainWindow


def show_window(file: str = "", engine: str | None = None) -> int:
    """Show the window until it is closed, with what it begins with or with a file, over an engine's command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the terminal ends the window too
    qt, session, window = build_window(engine)
    window.appeared.connect(lambda: window.files.begin(file))
    window.show()
    try:
        return qt.exec()
    finally:
        session.close()
        let_go()


def build_window(engine: str | None = None) -> tuple[QApplication, Session, MainWindow]:
    """Start the engine, then build the window while torch is imported there.

    What is there afterwards lives as long as the program, so Python's collector need not look at it.
    """
    gc.disable()
    qt = QApplication(["ropewalk"])
    from ropewalk.app.processes import new_session

    session = new_session(engine=engine)
    session.engines.prepare()
    from ropewalk.views.main_window import MainWindow
    from ropewalk.views.style import motion

    window = MainWindow(session, at_once=False)
    session.timeline.clock.moves = lambda: not motion.reduced()
    window.unfolded.connect(_keep)
    return qt, session, window


def let_go() -> None:
    """Leave nothing with Qt that Python made and that Qt would end only once there is no Python.

    What was copied can still be pasted afterwards, as Qt's own picture or text.
    """
    clipboard = QGuiApplication.clipboard()
    for mode in QClipboard.Mode:
        data = clipboard.mimeData(mode)
        if data is None or not createdByPython(data):
            continue
        if data.hasImage():
            clipboard.setImage(data.imageData(), mode)
        else:
            clipboard.setText(data.text(), mode)


def _keep() -> None:
    """Leave what is there out of every search for garbage from now on."""
    gc.freeze()
    gc.enable()
