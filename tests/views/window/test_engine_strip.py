"""What the strip says of the engine: a failure in the colour of one, and what is only going on in another."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.views.style import theme
from ropewalk.views.window.engine_strip import AGAIN, STARTING, EngineStrip


def edge(strip: EngineStrip) -> str:
    """The colour at its left."""
    image = strip.grab().toImage()
    return image.pixelColor(2, image.height() // 2).name()


def test_another_engine_that_is_being_started_is_no_failure(qtbot: QtBot, running: Session) -> None:
    around = QWidget()
    qtbot.addWidget(around)
    strip = EngineStrip(running, around)
    strip.resize(600, 60)
    around.show()
    running.engines.current.kill()
    assert (strip.button.text(), edge(strip)) == (AGAIN, theme.current().bad.name())
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    assert (strip.sentence.text(), edge(strip)) == (STARTING, theme.current().accent.name())
    assert strip.button.property("kind") != "main"
    running.cancel()
    assert (strip.button.text(), edge(strip)) == (AGAIN, theme.current().bad.name())
    with qtbot.waitSignal(running.recovery.engine_back):
        QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    assert not strip.isVisible()
