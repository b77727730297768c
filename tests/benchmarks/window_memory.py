"""Memory of the window and of all processes it starts, together: reports, asserts nothing.

    python -m tests.benchmarks.window_memory [--tokens 512] [--checkpoint PATH]

The proportional set size, in which what processes share counts once (so that other programs that use the same libraries
make it look smaller), and the part of it that no file holds: after a start with the default prompt has been
drawn, after a prompt of so many tokens, and after every panel has been shown. Linux only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.snapshot import wait_until_drawn
from tests.soak import children, memory


def main() -> int:
    """Start, run, show every panel, and print the memory after each."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--checkpoint", help="by default the bundled model")
    parsed = options.parse_args()
    qt = QApplication(["ropewalk"])
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(SettingsStore(Path(folder) / "settings.json"))
        window = MainWindow(session, restore=False)
        window.resize(1600, 960)
        window.show()
        session.opening.begin(parsed.checkpoint)
        report("drawn, with the default prompt", window)
        session.start(Prompt(" ".join(str(3 + i % 89) for i in range(parsed.tokens)), as_ids=True))
        report(f"after a prompt of {parsed.tokens} tokens", window)
        for name in window.cards:
            window.reveal(name)
            wait_until_drawn(window)
        report("after every panel", window)
        window.close()
    del qt
    return 0


def report(when: str, window: MainWindow) -> None:
    """Wait until all is drawn, and a second more for what a run that is gone gives back; print the memory."""
    wait_until_drawn(window)
    QTest.qWait(1000)
    processes = ("self", *children())
    sizes, own = ([memory(process, kind) for process in processes] for kind in ("Pss", "Pss_Anon"))
    parts = " + ".join(f"{size:.0f}" for size in sizes)
    print(f"{when:34} {sum(sizes):6.0f} MiB = {parts}; {sum(own):.0f} of it in no file", flush=True)


if __name__ == "__main__":
    sys.exit(main())
