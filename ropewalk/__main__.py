"""The program: builds the session and the window, or hands over to the command line.

Imports wait until they are needed: before Qt is loaded its system libraries are looked for, and before torch is loaded
its threads are told to wait without spinning.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

PICTURE = Path("ropewalk.png")

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from ropewalk.app.files.shot import Shot
    from ropewalk.app.session.session import Session
    from ropewalk.views.main_window import MainWindow


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the window, or run the command that was typed; returns the exit status."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    if typed == ["engine"]:
        return serve()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads would starve the window
    from ropewalk.app.commands.typed import ENGINE, split_engine

    engine, typed = split_engine(typed)
    if not typed or typed[0].endswith(".ropewalk"):
        from ropewalk.app import display

        if absent := display.absent_libraries():
            print(display.missing_sentence(absent), file=sys.stderr)
            return 1
        if display.has_display():
            return show_window(typed[0] if typed else "", engine)
        print(f"There is no display here, so the window is drawn into {PICTURE.absolute()}.", file=sys.stderr)
        typed = ["export", str(PICTURE), "--session", *typed] if typed else ["snapshot", str(PICTURE)]
    from ropewalk.app.commands.line import run_command

    return run_command(typed if engine is None else [*typed, ENGINE, engine], take_shot)


def serve() -> int:
    """Serve a window over stdin and stdout; taking these for frames comes before anything that may print."""
    from ropewalk.model.engine import stdio

    reading, writing = stdio.claim()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from ropewalk.app.commands import engine

    engine.serve(reading, writing)
    return 0


def show_window(session_file: str = "", engine: str | None = None) -> int:
    """Show the window until it is closed, with what it begins with or with a session, over an engine's command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the terminal ends the window too
    qt, session, window = build_window(engine)
    window.appeared.connect(lambda: window.files.begin(session_file))
    window.show()
    try:
        return qt.exec()
    finally:
        session.close()


def build_window(engine: str | None = None) -> tuple[QApplication, Session, MainWindow]:
    """Start the engine, then build the window while torch is imported there.

    What is there afterwards lives as long as the program, so Python's collector need not look at it.
    """
    gc.disable()
    from PySide6.QtWidgets import QApplication

    qt = QApplication(["ropewalk"])
    from ropewalk.app.processes import new_session

    session = new_session(engine=engine)
    session.engines.prepare()
    from ropewalk.views.main_window import MainWindow

    window = MainWindow(session)
    gc.freeze()
    gc.enable()
    return qt, session, window


def take_shot(shot: Shot) -> None:
    """Draw the window into a file, without a display and without touching anybody's settings."""
    from ropewalk.app import display

    display.require_libraries()
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication

    from ropewalk.views.pictures.shot import take

    qt = QApplication.instance() or QApplication(["ropewalk"])
    take(shot)
    del qt


if __name__ == "__main__":
    sys.exit(main())
