"""A picture is taken when everything is drawn, has the size asked for, and is whole or not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Ended
from ropewalk.app.session.session import Session
from ropewalk.model.errors import RopewalkError
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.views.canned import CannedEngine
from tests.views.driving import window_over

IN_A_NEW_PROCESS = """
import sys
from pathlib import Path
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication, QWidget
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from tests.views.canned import CannedEngine, canned_session

qt = QApplication(["ropewalk"])
with canned_session(Path(sys.argv[1]), CannedEngine()) as session:
    session.opening.begin()
    window = MainWindow(session, restore=False)
    window.set_look("light")
    snapshot.picture(window, QSize(1280, 800))
    print(*sorted({one.font().family() for one in window.findChildren(QWidget) if one.isVisible()}), sep=", ")
    window.close()
"""
"""What a picture from the command line does; in the tests' own process the typefaces are there from the first."""


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    made = window_over(running)
    yield made
    made.close()
    made.deleteLater()


def colours(image: QImage) -> int:
    return len({image.pixel(x, y) for x in range(0, image.width(), 5) for y in range(0, image.height(), 5)})


@pytest.mark.parametrize("projector", [False, True])
def test_the_window_is_drawn_at_its_size(window: MainWindow, projector: bool) -> None:
    window.set_look("light", projector)
    image = snapshot.picture(window, QSize(1280, 800))
    assert (image.width(), image.height()) == (1280, 800)
    assert all(panel.draws == 1 for panel in window.panels.values() if panel.isVisible())
    assert colours(image) > 100
    assert image.pixelColor(2, 2) == theme.themed("light").window


def test_everything_is_written_in_our_typefaces(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, str(tmp_path / "settings.json")]
    written = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    assert written == "Ropewalk Mono, Ropewalk Sans"


def test_one_panel_is_drawn_by_its_name(window: MainWindow) -> None:
    image = snapshot.picture(window, QSize(1280, 800), "next_token")
    assert image.width() < 700
    assert colours(image) > 10


def test_an_unknown_panel_is_named_with_those_there_are(window: MainWindow) -> None:
    with pytest.raises(RopewalkError, match="There is no panel 'nothing'; the panels are tokens, ledger"):
        snapshot.picture(window, QSize(1280, 800), "nothing")


def test_a_failure_ends_the_waiting(session: Session, engine: CannedEngine) -> None:
    window = window_over(session)
    engine.devices = ()
    session.opening.begin()
    with pytest.raises(RopewalkError, match="There is no cpu here"):
        snapshot.wait_until_drawn(window)
    window.close()
    window.deleteLater()


def test_an_engine_that_was_gone_before_ends_the_waiting(session: Session) -> None:
    window = window_over(session)
    session.engines.current.lose(Ended("There is no program 'nosuch' here; check the command."))
    with pytest.raises(RopewalkError, match="There is no program 'nosuch' here"):
        snapshot.wait_until_drawn(window, limit_ms=20_000)
    window.close()
    window.deleteLater()


def test_waiting_ends_at_the_limit(session: Session) -> None:
    window = window_over(session)
    with pytest.raises(RopewalkError, match="was not drawn after"):
        snapshot.wait_until_drawn(window, limit_ms=20)
    window.close()
    window.deleteLater()


def test_the_file_is_whole_and_alone(tmp_path: Path) -> None:
    image = QImage(40, 30, QImage.Format.Format_RGB32)
    image.fill(theme.current().accent)
    snapshot.save(image, tmp_path / "a.png")
    assert QImage(str(tmp_path / "a.png")).size() == image.size()
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    image = QImage(4, 3, QImage.Format.Format_RGB32)
    with pytest.raises(RopewalkError, match="could not be written"):
        snapshot.save(image, tmp_path / "absent" / "a.png")
