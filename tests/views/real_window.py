"""A window over the bundled model, for tests that compare files with the engine's own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QSize

from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.snapshot import picture, wait_until_drawn
from ropewalk.views.stage.workspaces import WORKSPACES
from tests.in_process import new_session
from tests.views.driving import start_dark, window_over

PROMPT = "Two <b>cats</b> & two -> dogs"


@contextmanager
def real_window(
    folder: Path, prompt: str = PROMPT, size: QSize | None = None, workspace: str = WORKSPACES[0].name
) -> Iterator[MainWindow]:
    """Open a window on a prompt, drawn and idle; gone at the end."""
    start_dark()
    session = new_session(SettingsStore(folder / "settings.json"))
    window = window_over(session)
    window.show_workspace(workspace)
    try:
        session.opening.begin(prompt=Prompt(prompt))
        wait_until_drawn(window)
        picture(window, size or QSize(1280, 800))
        yield window
    finally:
        window.close()
        window.deleteLater()
