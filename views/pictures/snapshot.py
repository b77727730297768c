"""Pictures of the window: made without a person, at any size, theme and selection, when everything has been drawn.

It works where there is no display, on Qt's offscreen platform.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QBuffer, QEvent, QEventLoop, QIODevice, QSize, QTimer
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget

from ropewalk.model.errors import RopewalkError
from ropewalk.model.whole_file import whole_file
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.registry import names

LIMIT_MS = 600_000
"""How long a picture may take before waiting for it is given up."""


def wait_until_drawn(window: MainWindow, limit_ms: int = LIMIT_MS) -> None:
    """Run the event loop until the session is idle and every visible panel has drawn what it asked for.

    Raises
    ------
    RopewalkError
        With the first failure that was announced, or when the limit has passed.
    """
    session = window.session
    failures: list[tuple[str, str]] = []
    loop, limit = QEventLoop(), QTimer()
    late: list[bool] = []

    def failed(sentence: str, details: str) -> None:
        if session.model_handle is not None and sentence == session.model_handle.notice:
            print(sentence, file=sys.stderr)  # it is open all the same
            return
        failures.append((sentence, details))
        loop.quit()

    def too_late() -> None:
        late.append(True)
        loop.quit()

    limit.setSingleShot(True)
    limit.timeout.connect(too_late)
    limit.start(limit_ms)
    session.failed.connect(failed)
    session.recovery.engine_ended.connect(failed)
    session.settled.connect(loop.quit)
    window.panel_drawn.connect(loop.quit)
    try:
        while not failures and not late and not _drawn(window):
            gone = session.engines.gone
            if gone is not None and not session.busy:  # said before anybody listened here
                failed(gone.sentence, gone.details)
            else:
                loop.exec()
    finally:
        limit.stop()
        session.failed.disconnect(failed)
        session.recovery.engine_ended.disconnect(failed)
        session.settled.disconnect(loop.quit)
        window.panel_drawn.disconnect(loop.quit)
    if failures:
        raise RopewalkError(*failures[0])
    if late:
        raise RopewalkError(f"The window was not drawn after {limit_ms / 1000:.0f} seconds, so there is no picture.")


def _drawn(window: MainWindow) -> bool:
    if window.session.run is None or window.session.busy:
        return False
    return all(panel.settled for panel in window.panels.values() if panel.isVisible())


def picture(window: MainWindow, size: QSize, panel: str | None = None) -> QImage:
    """Show the window at a size, wait until it is drawn, and return its picture, or one panel's.

    Raises
    ------
    RopewalkError
        When there is no such panel, or nothing can be drawn.
    """
    if panel is not None and panel not in window.cards:
        raise RopewalkError(f"There is no panel {panel!r}; the panels are {', '.join(names())}.")
    window.resize(size)
    window.show()
    if panel is not None:
        window.reveal(panel)
    settle(window)
    wait_until_drawn(window)
    settle(window)
    while not _drawn(window):  # what was drawn last changes what there is room for
        wait_until_drawn(window)
        settle(window)
    target: QWidget = window if panel is None else window.cards[panel]
    image = target.grab().toImage()
    image.setDevicePixelRatio(1.0)
    return image


def settle(window: MainWindow) -> None:
    """Let layouts and stylesheets take effect."""
    app = QApplication.instance()
    if app is None:
        return
    for _ in range(3):
        app.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        app.processEvents(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)


def save(image: QImage, path: Path) -> None:
    """Write a PNG that is either whole or not there.

    Raises
    ------
    RopewalkError
        When the picture cannot be written.
    """
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not image.save(buffer, "PNG"):  # type: ignore[call-overload]
        raise RopewalkError(f"The picture of {image.width()} × {image.height()} pixels could not be encoded as PNG.")
    try:
        with whole_file(path) as part:
            part.write_bytes(buffer.data().data())
    except OSError as error:
        raise RopewalkError(f"The picture could not be written to {path}: {error.strerror or error}.") from error
