"""The pictures of the README that show a moment: a step of the walk, two hands that turn, a head that is born.

    python -m tests.moments          # make moments

Each is one panel alone on the screen of the real window over the bundled model, without a person and without a display.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final, cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSize
from PySide6.QtGui import QImage

from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.rope import PARTS, RopePanel
from ropewalk.views.panels.training import TrainingPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import motion

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
SIZE: Final = QSize(920, 600)


def take(folder: Path = DOCS) -> tuple[Path, ...]:
    """Draw all of them, and say where they are."""
    motion.choose("reduced")  # every picture shows where a movement ends
    with tempfile.TemporaryDirectory() as settings:
        session = new_session(SettingsStore(Path(settings) / "settings.json"))
        window = MainWindow(session, restore=False)
        try:
            window.set_look("dark", False)
            session.opening.begin(None)
            snapshot.wait_until_drawn(window)
            return tuple(_drawn(window, name, folder) for name in ("walk", "dial", "born"))
        finally:
            window.close()
            window.deleteLater()
            motion.choose("system")


def _drawn(window: MainWindow, name: str, folder: Path) -> Path:
    panel = {"walk": "walk", "dial": "rope", "born": "training"}[name]
    window.reveal(panel)
    window.classroom.full.enter(panel)
    window.showNormal()
    window.resize(SIZE)
    snapshot.wait_until_drawn(window)
    session = window.session
    if name == "walk":
        session.walk.put("blend")
    elif name == "dial":
        rope = cast("RopePanel", window.panels["rope"])
        rope.let_move("both")
        session.selection.update(plane=2)
        rope.slider.setValue(rope.slider.value() + 10 * PARTS)
    else:
        training = cast("TrainingPanel", window.panels["training"])
        training.watch("induction")
        history, now = training.history, session.selection.now
        assert history is not None
        scores = history.scores["induction"][:, now.layer, now.head]
        training.go(history.steps[int((scores > scores[-1] / 2).argmax())])
    snapshot.settle(window)
    snapshot.wait_until_drawn(window)
    image = window.grab().toImage()
    image.setDevicePixelRatio(1.0)
    window.classroom.full.leave()
    out = folder / f"moment_{name}.png"
    snapshot.save(image.convertToFormat(QImage.Format.Format_RGB888), out)
    return out


if __name__ == "__main__":
    from PySide6.QtWidgets import QApplication

    app = QApplication([])
    for path in take():
        print(path)
