"""How long the window's event loop is held up while somebody works: reports, asserts nothing.

    python -m tests.benchmarks.event_loop_gaps [--tokens 512 2048] [--repeats 3] [--checkpoint PATH] [--detail]

A scripted session (run, head switches, pan, zoom, steps) in a real window of 1920 × 1080 pixels, on Qt's offscreen
platform unless QT_QPA_PLATFORM says otherwise. Each action is done twice: once while the engine computes, and once with
every answer remembered, so that the engine is idle and what is left is the window's own work. The largest
gaps of several repeats are told by their median, beside those of an idle window. Heads are pressed with the mouse, and
the time to the first paint of the new head is told. While a prompt runs and while a head is refined, a small tile is
asked for again and again: how long it waits for its answer is told too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from PySide6.QtCore import QEvent, QEventLoop, QObject, QRectF, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.app.engine.connection import Reply
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.processes import light_process, own_command, packing
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.frames import Message
from ropewalk.model.engine.questions import AskHead
from ropewalk.model.engine.requests import MadeRun, RunPrompt
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import RopewalkError
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.resources import resource
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.pictures.snapshot import wait_until_drawn
from tests.benchmarks.callbacks import FRAME_MS, Record, TimedApplication

BUNDLED = resource("bundled")
HEADS = 4
STEPS = 4
LOOK_MS = 150
"""How long the loop goes on after an action, so that what it left to do is counted too."""

Action = tuple[str, Callable[[], object]]


class Remembering(ProcessConnection):
    """The way to the engine; once told to, it gives the replies that came to the same before, and asks nothing.

    What the window has been told of is kept by the engine to the end, so that it can be asked about again.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(own_command(), packing(), parent=parent)
        self.from_memory = False
        self._replies: dict[str, list[Message]] = {}
        self._again: set[int] = set()

    def call(self, request: Any, slot: str, urgency: Urgency, heard: Callable[[Reply], None]) -> int:
        """Ask, or say again in later turns what was answered."""
        key = repr(replace(request, run_id=0) if isinstance(request, RunPrompt) else request)
        known = self._replies.get(key, [])
        if self.from_memory and known and known[-1].kind == "done":
            number = next(self._numbers)
            self._again.add(number)
            QTimer.singleShot(0, self, partial(self._say_again, number, request, known, heard))
            return number
        replies = self._replies[key] = list[Message]()
        return super().call(request, slot, urgency, partial(self._note, replies, heard))

    def cancel(self, number: int) -> None:
        """Wait no longer for replies."""
        if number in self._again:
            self._again.discard(number)
        else:
            super().cancel(number)

    def release(self, number: int) -> None:
        """Let the engine keep it."""

    def _note(self, replies: list[Message], heard: Callable[[Reply], None], reply: Reply) -> None:
        if reply.kind != "progress":
            replies.append(reply._message)
        heard(reply)

    def _say_again(self, number: int, request: Any, known: list[Message], heard: Callable[[Reply], None]) -> None:
        if number in self._again:
            self._again.discard(number)
            for message in known:
                heard(Recalled(self, message, request))


class Recalled(Reply):
    """A reply that has come before: it is unpacked anew, as any."""

    def value(self) -> Any:
        """What it says; a run comes back as another one."""
        value = self._connection.packing.unpack_reply(self._message.packed, self._asked, self.kind)
        if isinstance(value, MadeRun):
            return replace(value, run=replace(value.run, run_id=self._asked.run_id))
        return value

    def refuse(self) -> None:
        """It was acknowledged long ago."""


def started(parent: QObject, command: str = "") -> Remembering:
    """Start an engine."""
    connection = Remembering(parent)
    connection.greet(warm=True)
    return connection


class FirstSight(QObject):
    """Notes when the selected head is painted for the first time after an action."""

    def __init__(self, session: Session, panel: ScoresPanel) -> None:
        super().__init__(panel)
        self._session, self._panel = session, panel
        self._began = 0.0
        self.seen_after = 0.0
        panel.weights.viewport().installEventFilter(self)

    def begin(self) -> None:
        """Wait for another head from now on."""
        self._began, self.seen_after = time.perf_counter(), 0.0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look at each paint of the weights."""
        picture, now = self._panel.picture, self._session.selection.now
        waiting = event.type() == QEvent.Type.Paint and self.seen_after == 0.0
        if waiting and picture is not None and (picture.layer, picture.head) == (now.layer, now.head):
            self.seen_after = 1e3 * (time.perf_counter() - self._began)
        return False


def main() -> int:
    """Run the scripted session at each length."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--checkpoint", help="by default the bundled model, its limit raised where that is needed")
    parser.add_argument("--detail", action="store_true", help="name the callbacks that worked longest")
    parsed = parser.parse_args()
    qt = TimedApplication(["ropewalk"])
    with tempfile.TemporaryDirectory() as folder:
        path = parsed.checkpoint or raised(Path(folder), max(parsed.tokens) + STEPS)
        session = Session(SettingsStore(Path(folder) / "settings.json"), started, light_process)
        window = MainWindow(session, restore=False)
        window.resize(1920, 1080)
        window.show()
        try:
            report_once("first painting", qt.measured(partial(idle, 500)))
            report_once("torch, first run", qt.measured(partial(model_handle, session, window, path)))
            report_once("idle", qt.measured(partial(idle, 1000)))
            for tokens in parsed.tokens:
                measure(qt, session, window, tokens, parsed.repeats, detail=parsed.detail)
        except RopewalkError as error:
            print(error.sentence, file=sys.stderr)
            return 1
        finally:
            window.close()
    del qt
    return 0


def raised(folder: Path, tokens: int) -> str:
    """A copy of the bundled model that takes so many tokens."""
    copy = folder / "raised"
    shutil.copytree(BUNDLED, copy)
    config = json.loads((copy / "config.json").read_text())
    config["max_position_embeddings"] = max(tokens, config["max_position_embeddings"])
    (copy / "config.json").write_text(json.dumps(config))
    return str(copy)


def measure(
    qt: TimedApplication,
    session: Session,
    window: MainWindow,
    tokens: int,
    repeats: int,
    *,
    detail: bool,
) -> None:
    """Do every action so many times, computing and remembering in turn, and print what came of it."""
    engine, scores, heads = session.engines.current, window.panels["scores"], window.panels["heads"]
    assert isinstance(engine, Remembering)
    assert isinstance(scores, ScoresPanel)
    assert isinstance(heads, HeadsPanel)
    sight = FirstSight(session, scores)
    computing: dict[str, list[Record]] = defaultdict(list)
    remembering: dict[str, list[Record]] = defaultdict(list)
    seen: dict[str, list[float]] = defaultdict(list)
    idles: list[float] = []
    for _ in range(repeats):
        for kept, engine.from_memory in ((computing, False), (remembering, True)):
            for name, act in script(session, scores, heads, tokens):
                sight.begin()
                kept[name].append(qt.measured(partial(drawn, window, act)))
                if not engine.from_memory and name.startswith("head"):
                    seen[name].append(sight.seen_after)
        idles.append(qt.measured(partial(idle, 500)).worst_gap)
    engine.from_memory = False
    beside_prefill, beside_refinement = tile_waits(session, window, scores, heads, tokens)
    print(f"\n{tokens} tokens, median of {repeats}; milliseconds; idle gap {median(idles):.0f}")
    print_spread("from the press on a head to its first paint", [one for times in seen.values() for one in times])
    print_spread("a tile asked for while a prompt runs", beside_prefill)
    print_spread("a tile asked for while a head is refined", beside_refinement)
    print(f"{'':10}{'gap':>6}{'callback':>10}{'work':>6}{'queue':>7}{'block':>6}{'> 16':>6}", end="")
    print("   | answers remembered:   gap  work   | head seen after")
    for name, records in computing.items():
        print_line(name, records, remembering[name], seen.get(name))
        if detail:
            callbacks = [one for record in records for one in record.callbacks]
            for one in sorted(callbacks, key=lambda one: -one.work)[:3]:
                print(f"{'':12}{one.work:6.1f} {one.receiver}")


def print_line(name: str, records: list[Record], calm: list[Record], seen: list[float] | None) -> None:
    """One action: the worst of each repeat, and of these the median."""
    worst = [record.worst for record in records]
    print(
        f"{name:10}{median(r.worst_gap for r in records):6.0f}{median(c.wall for c in worst):10.0f}"
        f"{median(r.busiest.work for r in records):6.0f}{median(c.queued for c in worst):7.0f}"
        f"{median(c.blocked for c in worst):6.0f}{median(r.over for r in records):6.0f}"
        f"   | {'':20}{median(r.worst_gap for r in calm):5.0f}{median(r.busiest.work for r in calm):6.0f}"
        + ("" if seen is None else f"   | {median(seen):.0f}"),
        flush=True,
    )


def print_spread(what: str, times: list[float]) -> None:
    """Median and longest of some times, where there are any."""
    if times:
        print(f"{what}: median {median(times):.0f}, longest {max(times):.0f} of {len(times)}", flush=True)


def report_once(name: str, record: Record) -> None:
    """Say the largest gaps of something that happens once."""
    largest = sorted(record.gaps, reverse=True)[:3]
    over = sum(gap > FRAME_MS for gap in record.gaps)
    print(f"{name:18} {over:4} gaps over 16 ms, largest " + ", ".join(f"{gap:.0f}" for gap in largest), flush=True)


def script(session: Session, scores: ScoresPanel, heads: HeadsPanel, tokens: int) -> Iterator[Action]:
    """What is done, one after another."""
    yield "run", partial(session.start, Prompt(prompt(tokens), as_ids=True))
    for head in range(HEADS):
        yield f"head {head}", partial(press, heads, head % 2, head)
    yield "query", partial(session.selection.update, query=tokens // 2)
    yield "key", partial(session.selection.update, key=tokens // 3)
    for part in (2, 8, 32):
        view = QRectF(tokens / 2 - 0.5, tokens / 2 - 0.5, tokens / part, tokens / part)
        yield f"zoom 1/{part}", partial(scores.weights.look_at, view)
    yield "pan", partial(pan, scores)
    yield "zoom out", partial(scores.weights.look_at, QRectF(-0.5, -0.5, tokens, tokens))
    for number in range(1, STEPS + 1):
        yield f"step {number}", session.timeline.step
    yield "back", session.timeline.step_back


def prompt(tokens: int, first: int = 0) -> str:
    """So many ids; another ``first`` makes it another prompt."""
    return " ".join(str(3 + i % 89) for i in range(first, first + tokens))


def press(heads: HeadsPanel, layer: int, head: int) -> None:
    """Click on the thumbnail of a head."""
    place = heads.view.plan.of(layer, head)
    assert place is not None
    QTest.mouseClick(heads.view, Qt.MouseButton.LeftButton, pos=place.square.center())


def tile_waits(
    session: Session, window: MainWindow, scores: ScoresPanel, heads: HeadsPanel, tokens: int
) -> tuple[list[float], list[float]]:
    """How long a tile waits while another prompt of the same length runs, and while a head of it is refined."""
    shown = session.run
    beside_prefill = tiles_meanwhile(
        session, partial(session.start, Prompt(prompt(tokens, 1), as_ids=True)), lambda: session.run is not shown
    )
    wait_until_drawn(window)
    beside_refinement = tiles_meanwhile(session, partial(press, heads, 0, HEADS), lambda: scores.settled)
    wait_until_drawn(window)
    return beside_prefill, beside_refinement


def tiles_meanwhile(session: Session, act: Callable[[], object], over: Callable[[], bool]) -> list[float]:
    """Ask for a small tile again and again while something long goes on: milliseconds until each was answered."""
    waits: list[float] = []
    asked: list[float] = []
    loop, timer = QEventLoop(), QTimer()

    def answered(_: object) -> None:
        waits.append(1e3 * (time.perf_counter() - asked.pop()))

    def look() -> None:
        if over():
            loop.quit()
        elif not asked:
            asked.append(time.perf_counter())
            session.ask("measured", AskHead(0, 0, (0, 16), (0, 16), 96), answered)

    timer.timeout.connect(look)
    act()
    timer.start(5)
    loop.exec()
    timer.stop()
    return waits


def model_handle(session: Session, window: MainWindow, path: str) -> None:
    """Open the model, importing torch."""
    session.opening.begin(path)
    wait_until_drawn(window)


def pan(scores: ScoresPanel) -> None:
    """Move the view ten times without waiting, as a hand does."""
    for _ in range(10):
        scores.weights.look_at(scores.weights.view.translated(-3, -3))
        QApplication.processEvents()


def drawn(window: MainWindow, act: Callable[[], object]) -> None:
    """Do something, and wait until it is drawn and the loop has gone on for a moment."""
    act()
    wait_until_drawn(window)
    idle(LOOK_MS)


def idle(milliseconds: int) -> None:
    """Let the event loop run."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


if __name__ == "__main__":
    sys.exit(main())
