"""The program: shows the window, serves one, or hands over to the command line.

Imports wait until they are needed: before Qt is loaded its system libraries are looked for, and before torch is loaded
its threads are told to wait without spinning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.app.waiting import wait_briefly

PICTURE = Path("ropewalk.png")

if TYPE_CHECKING:
    from ropewalk.app.files.shot import Shot


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the window, or run the command that was typed; returns the exit status."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    if typed == ["engine"]:
        if sys.stdin is None or not sys.stdin.isatty():
            return serve()
        from ropewalk.app.commands.typed import SERVES

        print(SERVES, file=sys.stderr)
        return 2
    from ropewalk.app.commands.terminal import shown_streams

    return shown_streams()(_window_or_command)(typed, own_process=arguments is None)


def _window_or_command(typed: list[str], *, own_process: bool) -> int:
    wait_briefly()
    from ropewalk.app.commands.typed import ENGINE, absent_file, drawn_instead, names_file, split_engine

    engine, typed = split_engine(typed)
    if refusal := absent_file(typed):
        print(refusal, file=sys.stderr)
        return 2
    if not typed or names_file(typed):
        from ropewalk.app import display

        if absent := display.absent_libraries():
            print(display.missing_sentence(absent), file=sys.stderr)
            return 1
        if display.has_display():
            from ropewalk.views import start

            return start.show_window(typed[0] if typed else "", engine)
        print(f"There is no display here, so the window is drawn into {PICTURE.absolute()}.", file=sys.stderr)
        typed = drawn_instead(typed, str(PICTURE))
    if own_process:  # before anything large is imported
        from ropewalk.model.child_process import fork_watcher

        fork_watcher(None)
    from ropewalk.app.commands.line import run_command

    return run_command(typed if engine is None else [*typed, ENGINE, engine], take_shot)


def serve() -> int:
    """Serve a window over stdin and stdout; taking these for frames comes before anything that may print."""
    from ropewalk.model.engine import stdio

    reading, writing = stdio.claim()
    wait_briefly()
    from ropewalk.app.commands import engine

    engine.serve(reading, writing)
    return 0


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
