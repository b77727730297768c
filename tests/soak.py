"""A long session of random actions in the real window: nothing breaks, nobody complains, nothing grows.

    python -m tests.soak [--actions 1000] [--seed 0] [--kill-every 100] [--gc-threshold 1]

Clicks, keys and files go to the real window over the real session and the bundled model, on Qt's offscreen platform
unless QT_QPA_PLATFORM says otherwise, with settings and a folder of its own. A seed gives the same actions in the same
order with the same choices; what they meet depends on how far the engine is, for half of them do not wait for what the
one before asked for. Now and then everything is put back as it was in the beginning, and what grows is measured there:
memory of this process and of its children, open files, threads, widgets and Qt's other objects.
The status is 1 where an exception, a Qt warning, or an error in the log was heard, or where something grew.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import shiboken6
from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QEventLoop,
    QMessageLogContext,
    QMimeData,
    QObject,
    QPoint,
    QPointF,
    QSize,
    Qt,
    QTimer,
    QtMsgType,
    QUrl,
    qInstallMessageHandler,
)
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QComboBox,
    QInputDialog,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QToolButton,
    QWidget,
)

from ropewalk.app.engine.connection import Connection
from ropewalk.app.processes import new_session
from ropewalk.app.session.opening import DEFAULT_PROMPT
from ropewalk.app.settings import SettingsStore
from ropewalk.views import keys
from ropewalk.views.files.export_dialog import ExportDialog
from ropewalk.views.keys import TYPED_INTO
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.board import BoardPanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.panels.lens import LensPanel
from ropewalk.views.panels.lines import LinesPanel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.survey_examples import SurveyExamplesPanel
from ropewalk.views.panels.survey_heads import SurveyHeadsPanel
from ropewalk.views.panels.survey_scatter import SurveyScatterPanel
from ropewalk.views.panels.survey_table import SurveyTablePanel
from ropewalk.views.panels.training import TrainingPanel
from ropewalk.views.panels.walk import WalkPanel
from ropewalk.views.stage.workspaces import NAMED
from ropewalk.views.style import motion
from ropewalk.views.window.open_dialog import OpenDialog
from ropewalk.views.window.survey_dialog import SurveyDialog
from tests.qt_guards import ALLOWED_MESSAGES, WARNINGS
from tests.views.plots.hand import click, drag, point_at, wheel

ROOT: Final = Path(__file__).resolve().parents[1]
SIZE: Final = QSize(1280, 800)
LIMIT_MS: Final = 60_000
"""How long anything may take to be drawn."""
FLAT: Final = 0.03
"""How much larger than in the second fifth a measured thing may be in the last one; the first one warms up."""
WORDS: Final = ("the", "cat", "sat", "on", "a", "mat", "and", "purple", "plums", "Hark!", "who", "goes", "there?", "7")
CHECKPOINTS: Final = ("first", "second", "third")
TRACES: Final = ("one.safetensors", "other.safetensors")
BUNDLED_SURVEY: Final = ROOT / "resources" / "surveys" / "text"
SURVEYS: Final = ("survey", "other-survey", "surveys")
"""Two that can be compared, and a series."""
SURVEYED_TEXTS: Final = "texts.txt"
WRITE_FILES: Final = (
    "import sys; from pathlib import Path; from tests.soak import write_files; write_files(Path(sys.argv[1]))"
)
"""Run in a process of its own: the window's shall have no torch that it does not bring itself."""


def write_files(folder: Path) -> None:
    """Write what is opened in a soak: checkpoints, surveys and texts."""
    from tests.app.tiny_checkpoint import write_checkpoint
    from tests.survey_folders import series_in, survey_in

    for name in CHECKPOINTS:
        write_checkpoint(folder / name)
    for seed, name in enumerate(SURVEYS[:2]):
        survey_in(folder / name, seed)
    series_in(folder / SURVEYS[2])
    (folder / SURVEYED_TEXTS).write_text("\n".join(" ".join(WORDS[place:] * 20) for place in range(len(WORDS))))


# What is measured -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What may grow, with everything as it was in the beginning."""

    window_memory: float
    """MiB of this process that no file holds: how much of its libraries counts depends on who else uses them."""
    engine_memory: float
    """MiB, likewise of its children."""
    files: int
    threads: int
    widgets: int
    objects: int
    """Qt's objects below the window."""


def measured(window: MainWindow) -> Measured:
    """Look at this process and its children."""
    return Measured(
        window_memory=memory("self", "Pss_Anon"),
        engine_memory=sum(memory(child, "Pss_Anon") for child in children()),
        files=len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0,
        threads=threading.active_count(),
        widgets=len(QApplication.allWidgets()),
        objects=len(window.findChildren(QObject)),
    )


def memory(process: str, kind: str = "Pss") -> float:
    """Proportional set size of a process in MiB, or a part of it; 0 where it has gone, or where nobody counts it."""
    try:
        found = re.search(rf"^{kind}:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def children(parent: int | None = None) -> list[str]:
    """Processes below this one, or below another: those it started, and theirs."""
    parents: dict[str, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1], []).append(
                folder.name
            )
        except OSError:
            continue  # it has ended meanwhile
    found = list(parents.get(str(parent or os.getpid()), []))
    for child in found:
        found += parents.get(child, [])
    return found


def engines() -> list[str]:
    """Those of this process' children that are engines."""
    found = []
    for child in children():
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"engine" in words and any(b"ropewalk" in word or word.endswith(b"main.py") for word in words):
            found.append(child)
    return found


def growth(values: Sequence[float]) -> float:
    """How much more the median of the last fifth of them is than that of the second, as a share of it."""
    fifth = max(len(values) // 5, 1)
    early, late = values[fifth : 2 * fifth], values[-fifth:]
    before = float(np.median(early)) if early else 0.0
    return 0.0 if before == 0 else float(np.median(late)) / before - 1


@dataclass
class Report:
    """What came of a soak."""

    faults: list[str] = field(default_factory=list)
    """Exceptions, Qt's warnings, errors in the log, and what was never drawn."""
    failures: Counter[str] = field(default_factory=Counter)
    """What the window said could not be done: sentences, which are part of life."""
    done: Counter[str] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    """What changed meanwhile, and how often."""
    measurements: list[Measured] = field(default_factory=list)

    def grown(self) -> dict[str, float]:
        """What grew by more than it may."""
        return {name: share for name, share in self.growths().items() if share > FLAT}

    def growths(self) -> dict[str, float]:
        """How much each measured thing grew."""
        return {one.name: growth([getattr(each, one.name) for each in self.measurements]) for one in fields(Measured)}

    def lines(self) -> Iterator[str]:
        """The report as a person reads it."""
        for counted in (self.done, self.heard):
            yield ", ".join(f"{name} {count}" for name, count in counted.most_common())
        for sentence, count in self.failures.most_common():
            yield f"  said {count} times: {sentence}"
        first, last = self.measurements[0], self.measurements[-1]
        for name, share in self.growths().items():
            values = f"{getattr(first, name):8.0f} → {getattr(last, name):8.0f}"
            yield f"{name:14} {values}   {100 * share:+6.2f} %  {'GREW' if share > FLAT else 'flat'}"
        for fault, count in Counter(self.faults).most_common():
            yield f"FAULT, {count} times: {fault}"


@contextmanager
def listening(report: Report, window: MainWindow) -> Iterator[None]:
    """Hear every exception, Qt's warnings, errors in the log, what changes, and what could not be done."""
    session = window.session

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            report.faults.append(self.format(record))

    def raised(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        end = trace
        while end is not None and end.tb_next is not None:
            end = end.tb_next
        where = "" if end is None else f" in {Path(end.tb_frame.f_code.co_filename).name}, line {end.tb_lineno}"
        report.faults.append(f"{kind.__name__}: {error}{where}")

    def unraisable(event: sys.UnraisableHookArgs) -> None:
        report.faults.append(f"{event.err_msg or 'Unraisable'}: {event.exc_value!r} in {event.object!r}")

    def warned(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind in WARNINGS and message not in ALLOWED_MESSAGES:
            report.faults.append(f"Qt: {message}")

    def failed(sentence: str, details: str) -> None:
        report.failures[sentence] += 1
        if "Traceback" in details:
            report.faults.append(f"{sentence} {details.strip().splitlines()[-1]}")

    hooks = sys.excepthook, sys.unraisablehook
    handler = Heard(logging.ERROR)
    sys.excepthook, sys.unraisablehook = raised, unraisable
    logging.getLogger().addHandler(handler)
    before = qInstallMessageHandler(warned)
    session.failed.connect(failed)
    window.files.exporter.saved.connect(lambda path: report.heard.update(["saved files"]))
    for name, signal_ in (
        ("runs and lengths", session.run_changed),
        ("models", session.model_changed),
        ("selections", session.selection.changed),
        ("interventions", session.interventions.changed),
        ("baselines", session.baseline.changed),
        ("lessons", window.lesson_walked),
        ("cancelled", session.cancelled),
    ):
        signal_.connect(lambda *what, name=name: report.heard.update([name]))
    try:
        yield
    finally:
        session.failed.disconnect(failed)
        qInstallMessageHandler(before)
        logging.getLogger().removeHandler(handler)
        sys.excepthook, sys.unraisablehook = hooks


# Hands ----------------------------------------------------------------------------------------------------------------


def until(holds: Callable[[], bool]) -> bool:
    """Run the event loop until something holds; says whether it ever did."""
    limit = QTimer()
    limit.setSingleShot(True)
    limit.start(LIMIT_MS)
    while not holds() and limit.isActive():
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    return holds()


def is_drawn(window: MainWindow) -> bool:
    """Whether nothing is awaited any more."""
    panels = [panel for panel in window.panels.values() if panel.isVisible()]
    return not window.session.busy and window.session.run is not None and all(panel.settled for panel in panels)


def press(window: MainWindow, name: str) -> None:
    """Press the key of an action, out of the fields."""
    if not window.isActiveWindow():
        window.activateWindow()  # as a desktop does when a dialog has closed
        QCoreApplication.processEvents()
    if isinstance(QApplication.focusWidget(), TYPED_INTO):
        window.setFocus()
    key = QKeySequence(keys.action(name).keys[0], QKeySequence.SequenceFormat.PortableText)[0]  # type: ignore[index]
    QTest.keyClick(window, key.key(), key.keyboardModifiers())


def push(button: QAbstractButton) -> None:
    """Click on a button; one that is out of sight is pressed with the keyboard."""
    seen = button.visibleRegion().boundingRect()
    if not button.isEnabled():
        return
    if seen.isEmpty():
        QTest.keyClick(button, Qt.Key.Key_Space)
    else:
        QTest.mouseClick(button, Qt.MouseButton.LeftButton, pos=seen.center())


def write(line: QLineEdit, text: str) -> None:
    """Put another text into a field: by typing where there are keys for it, else by pasting."""
    QTest.mouseClick(line, Qt.MouseButton.LeftButton)
    line.selectAll()
    if text.isascii() and len(text) < 200:
        QTest.keyClicks(line, text)
    else:
        line.insert(text)


def choose(box: QComboBox, draw: random.Random) -> None:
    """Choose an entry of a box with the keyboard, which is heard as a click on it is."""
    if box.isEnabled() and box.isVisible():
        for _ in range(draw.randrange(1, 4)):
            QTest.keyClick(box, draw.choice((Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up)))


def touch(plot: QWidget, draw: random.Random) -> None:
    """Point at a place of a picture that is in sight, and click there or press an arrow."""
    area = plot.viewport() if isinstance(plot, QAbstractScrollArea) else plot
    seen = area.visibleRegion().boundingRect()
    if seen.isEmpty():
        return
    at = QPoint(seen.x() + draw.randrange(seen.width()), seen.y() + draw.randrange(seen.height()))
    QTest.mouseMove(area, at)
    if draw.random() < 0.6:
        QTest.mouseClick(area, Qt.MouseButton.LeftButton, pos=at)
    else:
        QTest.keyClick(plot, draw.choice((Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)))


def shown(window: MainWindow, name: str) -> Any:
    """A panel, brought in sight."""
    press(window, f"show_{name}")
    QCoreApplication.processEvents()
    return window.panels[name]


def close_dialogs() -> None:
    """Press Escape in whatever stands before the window."""
    for _ in range(10):
        dialog = QApplication.activePopupWidget() or QApplication.activeModalWidget()
        if dialog is None:
            return
        QTest.keyClick(dialog, Qt.Key.Key_Escape)
        QCoreApplication.processEvents()
        if shiboken6.isValid(dialog) and dialog.isVisible():
            dialog.close()


# Actions --------------------------------------------------------------------------------------------------------------


def type_prompt(window: MainWindow, draw: random.Random) -> None:
    kind = draw.randrange(10)
    if kind == 0:
        text = " ".join(str(draw.randrange(3, 200)) for _ in range(draw.randrange(1, 40)))  # ids, or digits
        window.bar.ids.setChecked(draw.random() < 0.5 and window.bar.ids.isEnabled())
    elif kind == 1:
        text = draw.choice(("", "naïve — 東京 🪢", "x" * 600, "a\tb", "<b>&amp;</b> \u202e"))
    else:
        window.bar.ids.setChecked(False)
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 8) if kind < 8 else draw.randrange(8, 40)))
    write(window.bar.prompt, text)
    QTest.keyClick(window.bar.prompt, Qt.Key.Key_Return)


def run_again(window: MainWindow, draw: random.Random) -> None:
    if draw.random() < 0.5:
        push(window.bar.run)
    else:
        press(window, "run")


def cancel(window: MainWindow, draw: random.Random) -> None:
    """Begin something, and cancel it a moment later, or at once."""
    draw.choice((run_again, step, intervene, change_format))(window, draw)
    QTest.qWait(draw.randrange(4))
    if window.status.cancel.isVisible():
        push(window.status.cancel)
    else:
        window.session.cancel()  # what the button does, which is shown once something takes long


def step(window: MainWindow, draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 5)):
        press(window, "step")
    if draw.random() < 0.2:
        push(window.bar.steps.buttons["step"])


def play(window: MainWindow, draw: random.Random) -> None:
    window.session.timeline.set_pace(draw.randrange(10))
    press(window, "toggle_play")
    QTest.qWait(draw.randrange(60))
    press(window, "toggle_play" if window.session.timeline.playing else "step_back")


def back(window: MainWindow, draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 4)):
        press(window, draw.choice(("step_back", "step_back", "to_start", "to_end", "back", "forward")))


def heads(window: MainWindow, draw: random.Random) -> None:
    run = window.session.run
    panel = cast("HeadsPanel", window.panels["heads"])
    if draw.random() < 0.5 and run is not None and panel.on_screen:
        place = panel.view.plan.of(draw.randrange(run.config.layers), draw.randrange(run.config.heads))
        if place is not None and panel.view.visibleRegion().contains(place.square.center()):
            QTest.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=place.square.center())
            return
    for _ in range(draw.randrange(1, 4)):
        press(window, draw.choice(("layer_down", "layer_up", "head_after", "head_before")))


def cells(window: MainWindow, draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 6)):
        press(window, draw.choice(("query_after", "query_before", "key_after", "key_before")))
    weights = cast("ScoresPanel", window.panels["scores"]).weights
    if window.panels["scores"].on_screen:
        at = QPointF(draw.randrange(max(weights.width(), 1)), draw.randrange(max(weights.height(), 1)))
        point_at(weights, at)
        click(weights, at)


def look_closer(window: MainWindow, draw: random.Random) -> None:
    weights = cast("ScoresPanel", window.panels["scores"]).weights
    window.reveal("scores")
    QCoreApplication.processEvents()
    middle = weights.plot.center()
    wheel(weights, middle, draw.randrange(-6, 10))
    if weights.isVisible() and draw.random() < 0.5:
        step = QPointF(draw.randrange(-80, 80), draw.randrange(-80, 80)) / 3
        drag(weights, [middle + step * number for number in range(4)])
    QTest.mouseDClick(weights.viewport(), Qt.MouseButton.LeftButton, pos=middle.toPoint())


def intervene(window: MainWindow, draw: random.Random) -> None:
    press(window, "show_experiments")
    panel = cast("InterventionsPanel", window.panels["experiments"])
    if draw.random() < 0.3:
        panel.heads.setText(draw.choice(("0", "0-1", "1, 3", "9", "x")))
    push(panel.buttons[draw.choice(sorted(panel.buttons))])


def take_back(window: MainWindow, draw: random.Random) -> None:
    press(window, draw.choice(("undo_experiment", "no_experiment")))


def pin(window: MainWindow, draw: random.Random) -> None:
    press(window, "pin")
    if draw.random() < 0.5:
        press(window, "show_compare")
    if draw.random() < 0.3:
        press(window, "unpin")


def board(window: MainWindow, draw: random.Random) -> None:
    """Pin heads or take them off, by key or by name; look at the board, and choose what is on it."""
    if draw.random() < 0.5:
        press(window, "pin_head")
    panel: BoardPanel = shown(window, "board")
    if draw.random() < 0.5 and panel.field.isVisible():
        write(panel.field, draw.choice(("L0H0", "0.1", "L1H3", "L9H9", "x", "1/2")))
        QTest.keyClick(panel.field, Qt.Key.Key_Return)
    tools = (panel.scores, panel.average, panel.difference, panel.before, panel.after, panel.clear, panel.pin_button)
    push(draw.choice(tools))
    choose(draw.choice(panel.boxes), draw)
    if draw.random() < 0.4:
        reorder(panel, draw)
    for card in panel.grid.cards[:1]:
        touch(card.heatmap, draw)
        if draw.random() < 0.3:
            wheel(card.heatmap, card.heatmap.plot.center(), draw.randrange(-3, 6))


def reorder(panel: BoardPanel, draw: random.Random) -> None:
    """Carry a head to the place of another by its name, or move it with Ctrl and an arrow."""
    cards = panel.grid.cards
    if not cards:
        return
    card, other = draw.choice(cards), draw.choice(cards)
    if draw.random() < 0.5:
        card.heatmap.setFocus()
        arrows = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Delete)
        for _ in range(draw.randrange(1, 4)):
            QTest.keyClick(card.heatmap, draw.choice(arrows), Qt.KeyboardModifier.ControlModifier)
        return
    start, end = card.name.geometry().center(), card.mapFromGlobal(other.mapToGlobal(other.rect().center()))
    QTest.mousePress(card, Qt.MouseButton.LeftButton, pos=start)
    for share in (0.3, 0.7, 1.0):
        QTest.mouseMove(card, start + (end - start) * share)
    QTest.mouseRelease(card, Qt.MouseButton.LeftButton, pos=end)


def note(window: MainWindow, draw: random.Random) -> None:
    """Write a note to the selected head, take it away, or think better of it."""
    press(window, "note_head")
    dialog = QApplication.activeModalWidget()
    field_ = dialog.findChild(QPlainTextEdit) if isinstance(dialog, QInputDialog) else None
    if isinstance(dialog, QInputDialog) and field_ is not None:
        field_.setPlainText(draw.choice(("", "looks back", "two\nlines <b>", "東京 " * 40)))
        draw.choice((dialog.accept, dialog.accept, dialog.reject))()


def go_to_head(window: MainWindow, draw: random.Random) -> None:
    """Type the name of a head, also of one that is not there."""
    press(window, "go_to_head")
    dialog = QApplication.activeModalWidget()
    field_ = None if dialog is None else dialog.findChild(QLineEdit)
    if field_ is not None:
        QTest.keyClicks(field_, draw.choice(("L0H1", "L1H2", "1.0", "L7H7", "L1H1 q=1 k=0", "9" * 30)))
        QTest.keyClick(field_, draw.choice((Qt.Key.Key_Return, Qt.Key.Key_Return, Qt.Key.Key_Escape)))


def lines(window: MainWindow, draw: random.Random) -> None:
    """Choose heads, threshold and tokens of the lines, scroll, and point at a token."""
    panel: LinesPanel = shown(window, "lines")
    choose(panel.scope, draw)
    moved = draw.choice((panel.least, panel.tokens, *panel.bars.values()))
    if moved.isVisible() and moved.isEnabled():
        moved.setValue(draw.randrange(moved.minimum(), moved.maximum() + 1))
    if draw.random() < 0.3:
        push(panel.automatic)
    wheel(panel.view, QPointF(panel.view.rect().center()), draw.randrange(-4, 5))
    touch(panel.view, draw)


def lens(window: MainWindow, draw: random.Random) -> None:
    """Colour the logit lens otherwise, look elsewhere, click."""
    panel: LensPanel = shown(window, "lens")
    choose(panel.quantity, draw)
    if draw.random() < 0.5:
        wheel(panel.map, QPointF(panel.map.rect().center()), draw.randrange(-4, 5))
    touch(panel.map, draw)


def walk(window: MainWindow, draw: random.Random) -> None:
    """Walk through the block, and click its matrices while they flow."""
    panel: WalkPanel = shown(window, "walk")
    ways = ("walk_on", "walk_on", "walk_on", "walk_back", "walk_start", "walk_end")
    for _ in range(draw.randrange(1, 12)):
        press(window, draw.choice(ways))
        QTest.qWait(draw.randrange(6))
    if draw.random() < 0.3:
        touch(panel.rail, draw)
    touch(panel.view, draw)


def rotation(window: MainWindow, draw: random.Random) -> None:
    """Move a hand of the dial, or both; play, turn the page, put back."""
    panel: RopePanel = shown(window, "rope")
    if draw.random() < 0.3:
        choose(panel.page_box, draw)
    push(draw.choice((*panel.movers.values(), panel.loop, panel.back_button)))
    panel.slider.setValue(draw.randrange(panel.slider.minimum(), panel.slider.maximum() + 1))
    if draw.random() < 0.5:
        press(window, "rotation")
        QTest.qWait(draw.randrange(50))
    touch(draw.choice((panel.view, panel.dial, panel.shares)), draw)


def silence(window: MainWindow, draw: random.Random) -> None:
    """Silence heads by clicking, several before the first is heard, and bring them back."""
    panel: HeadsPanel = shown(window, "heads")
    press(window, "silence")
    for place in draw.sample(panel.view.plan.places, min(len(panel.view.plan.places), draw.randrange(1, 4))):
        if panel.view.visibleRegion().contains(place.square.center()):
            QTest.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=place.square.center())
            QTest.qWait(draw.randrange(20))
    if draw.random() < 0.5:
        press(window, "silence")
    if draw.random() < 0.5:
        push(panel.back_button)


def interrupt_step(window: MainWindow, draw: random.Random) -> None:
    """Do something else while a decoded token is on its way."""
    press(window, "step")
    until(lambda: window.session.timeline.clock.is_running or not window.session.busy)
    QTest.qWait(draw.randrange(300))
    draw.choice((step, back, change_theme, resize, show_panel, reduce_motion, take_back, run_again, silence))(
        window, draw
    )


def be_born(window: MainWindow, draw: random.Random) -> None:
    """Play the training of a model, go to a checkpoint, follow another statistic."""
    panel: TrainingPanel = shown(window, "training")
    choose(panel.statistic, draw)
    if draw.random() < 0.5:
        push(panel.film.play_button)
        QTest.qWait(draw.randrange(400))
    panel.film.slider.setValue(draw.randrange(panel.film.slider.maximum() + 1))
    touch(draw.choice((panel.all_heads, panel.map, panel.losses, panel.curves)), draw)


def choose_lesson(window: MainWindow, draw: random.Random) -> None:
    """Click a card of the lessons, or go from card to card."""
    press(window, "show_lesson")
    if window.open_lesson is not None:
        press(window, "lesson_leave")
    until(lambda: window.lesson.shelf is not None)
    QCoreApplication.processEvents()
    cards = window.lesson.choices.cards
    if not cards:
        return
    card = draw.choice(cards)
    if draw.random() < 0.5:
        push(card)
    else:
        card.setFocus()
        for _ in range(draw.randrange(1, 5)):
            focus = QApplication.focusWidget()
            if focus in cards:
                QTest.keyClick(focus, draw.choice((Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Left)))


def turn_page(window: MainWindow, draw: random.Random) -> None:
    """Click a tab of panels that share a place, in a workspace that has some."""
    press(window, f"workspace_{draw.choice(('heads', 'overview', 'compare', 'shapes'))}")
    QCoreApplication.processEvents()
    found = [bar for bar in window.stage.findChildren(QTabBar) if bar.isVisible()]
    for bar in found:
        at = bar.tabRect(draw.randrange(bar.count())).center()
        if bar.rect().contains(at):
            QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=at)


def reduce_motion(window: MainWindow, draw: random.Random) -> None:
    press(window, "motion")


def open_lesson(window: MainWindow, draw: random.Random) -> None:
    """Open a lesson and walk it a little; it stays open."""
    press(window, "show_lesson")
    window.lesson.read_shelf()
    until(lambda: window.lesson.shelf is not None)
    lesson = draw.choice(window.lesson.lessons())
    window.lesson.open(lesson, draw.randrange(len(lesson.steps)))
    walk_lesson(window, draw)


def walk_lesson(window: MainWindow, draw: random.Random) -> None:
    """Go on in the lesson that is open, answer, or leave it."""
    for _ in range(draw.randrange(3)):
        QTest.qWait(draw.randrange(40))
        press(window, draw.choice(("lesson_on", "lesson_on", "lesson_back")))
    if draw.random() < 0.4:
        press(window, "lesson_leave")


def change_theme(window: MainWindow, draw: random.Random) -> None:
    press(window, "theme")


def project(window: MainWindow, draw: random.Random) -> None:
    press(window, "projector")


def resize(window: MainWindow, draw: random.Random) -> None:
    window.resize(draw.randrange(700, 1800), draw.randrange(500, 1100))


def show_panel(window: MainWindow, draw: random.Random) -> None:
    """Bring a panel in sight, put another workspace on, or let a card float or go back."""
    chance = draw.random()
    if chance < 0.2:
        window.stage.toggle_floating(window.cards[draw.choice(sorted(window.cards))])
    elif chance < 0.5:
        press(window, f"workspace_{draw.choice(sorted(NAMED))}")
    else:
        press(window, f"show_{draw.choice(sorted(window.cards))}")


def push_anything(window: MainWindow, draw: random.Random) -> None:
    """Push a button of a panel that is in sight."""
    found = [
        button
        for card in window.cards.values()
        if card.on_screen
        for button in card.findChildren(QAbstractButton)
        if button.isVisible() and button.isEnabled() and not (isinstance(button, QToolButton) and button.menu())
    ]
    if found:
        push(draw.choice(found))


def teach(window: MainWindow, draw: random.Random) -> None:
    """Use a teacher's tool for a moment."""
    tool = draw.choice(("full_panel", "blank", "spotlight", "spotlight_panel", "notes", "present", "full_screen"))
    press(window, tool)
    QTest.qWait(draw.randrange(30))
    press(window, "dismiss" if tool.startswith("spotlight") or tool == "blank" else tool)


def find(window: MainWindow, draw: random.Random) -> None:
    """Look through the palette, or the list of keys, and do nothing."""
    press(window, draw.choice(("palette", "palette", "keys")))
    dialog = QApplication.activeModalWidget()
    field_ = None if dialog is None else dialog.findChild(QLineEdit)
    if field_ is not None:
        QTest.keyClicks(field_, draw.choice(("step", "lesson", "zzz")))
    close_dialogs()


def open_checkpoint(window: MainWindow, draw: random.Random) -> None:
    """Open another checkpoint through the dialog, in a hurry or not, or think better of it."""
    press(window, "open")
    dialog = QApplication.activeModalWidget()
    if not isinstance(dialog, OpenDialog):
        return
    write(dialog.path, str(folder_of(window) / draw.choice((*CHECKPOINTS, *CHECKPOINTS, "nowhere"))))
    if draw.random() < 0.3:
        push(dialog.via)
    until(lambda: not window.session.jobs.has("outline"))
    QTest.keyClick(dialog.path, Qt.Key.Key_Return)
    if draw.random() < 0.3:
        push(dialog.cancel)
    until(lambda: not window.session.jobs.has("open"))
    close_dialogs()


def open_bundled(window: MainWindow, draw: random.Random) -> None:
    """Choose the bundled model in the menu."""
    menu = window.bar.checkpoint.menu()
    menu.aboutToShow.emit()
    menu.actions()[0].trigger()


def change_format(window: MainWindow, draw: random.Random) -> None:
    """Open what is open again, in another number format, from the menu."""
    menu = window.bar.device.menu()
    menu.aboutToShow.emit()
    formats = [action for action in menu.actions() if action.text() in ("float32", "bfloat16", "float16")]
    draw.choice(formats).trigger()


def export(window: MainWindow, draw: random.Random) -> None:
    """Save a picture, an animation, numbers, the run or the lesson, in any format there is."""
    press(window, "export")
    dialog = QApplication.activeModalWidget()
    if not isinstance(dialog, ExportDialog):
        return
    page = draw.choice((0, 0, 0, 1, 2, 2, 3, 4))
    dialog.what.setCurrentIndex(page)
    if page == 1:
        cast("Any", dialog.page).steps.setValue(2)
        cast("Any", dialog.page).scale.setCurrentIndex(0)
    dialog.kind.setCurrentIndex(draw.randrange(dialog.kind.count()))
    if dialog.save_button.isEnabled():
        dialog.save_to(str(folder_of(window) / f"export.{dialog.chosen().name}"))
    close_dialogs()


def keep_session(window: MainWindow, draw: random.Random) -> None:
    """Save the session, or open what was saved."""
    file = folder_of(window) / "kept.ropewalk"
    if draw.random() < 0.6 or not file.exists():
        window.files.sessions.save_to(str(file))
    else:
        window.files.sessions.open(str(file))


def drop_trace(window: MainWindow, draw: random.Random) -> None:
    """Save the run as a trace, or drop one that was saved on the window, also while something else is opened."""
    file = folder_of(window) / draw.choice(TRACES)
    if draw.random() < 0.3 or not file.exists():
        window.files.runs.save_to(str(file))
        until(lambda: not window.session.jobs.has("export"))
        return
    if draw.random() < 0.3:
        draw.choice((change_format, open_bundled, attach))(window, draw)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    copied, button, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(QPoint(300, 300), copied, data, button, none))
    QApplication.sendEvent(window, QDropEvent(QPointF(300, 300), copied, data, button, none))
    until(lambda: not window.session.jobs.has("outline"))
    if draw.random() < 0.7:
        until(lambda: not window.session.jobs.has("open"))


def attach(window: MainWindow, draw: random.Random) -> None:
    """Give the run of a trace a checkpoint, the right one or another, and do something else meanwhile."""
    if draw.random() < 0.2:
        press(window, "attach")
        close_dialogs()
    place = draw.choice((None, *CHECKPOINTS, "nowhere"))
    window.session.attaching.attach(None if place is None else str(folder_of(window) / place), confirmed=bool(place))
    if draw.random() < 0.5:
        QTest.qWait(draw.randrange(100))
        draw.choice((type_prompt, step, play, back, cancel, lens, board, pin))(window, draw)


def survey(window: MainWindow, draw: random.Random) -> None:
    """Look at a survey, at two or at a series: at other statistics and heads, with some in the lasso."""
    surveys, chance = window.session.surveys, draw.random()
    press(window, "workspace_survey")
    folder = str(draw.choice((BUNDLED_SURVEY, BUNDLED_SURVEY, *(folder_of(window) / name for name in SURVEYS))))
    if surveys.now is None or chance < 0.3:
        window.open_survey(folder)
    elif chance < 0.45:
        surveys.compare(folder)
    elif chance < 0.6:
        draw.choice((surveys.compare_no_longer, surveys.close_survey))()
    if draw.random() < 0.7:
        until(lambda: is_drawn(window))
    maps = cast("SurveyHeadsPanel", window.panels["survey_heads"])
    scatter = cast("SurveyScatterPanel", window.panels["survey_scatter"])
    table = cast("SurveyTablePanel", window.panels["survey_table"])
    for _ in range(draw.randrange(4)):
        choose(draw.choice((maps.statistic, scatter.up, scatter.across)), draw)
        touch(draw.choice((maps.map, scatter.plot, table.table)), draw)
    if draw.random() < 0.5:
        lasso(scatter, draw)
    if table.on_screen:
        table.table.sort_by(draw.randrange(2))
        push(table.all_button)
    if maps.film.isVisible():
        push(maps.film.play_button)
        QTest.qWait(draw.randrange(300))
        maps.film.slider.setValue(draw.randrange(maps.film.slider.maximum() + 1))


def lasso(panel: SurveyScatterPanel, draw: random.Random) -> None:
    """Draw a line around some of the heads; leave them chosen, or not."""
    plot = panel.plot
    if plot.isVisible():
        box = plot.box.geometry()
        corners = box.topLeft(), box.topRight(), box.bottomRight(), box.bottomLeft()
        drag(plot, [box.center() + (corner - box.center()) * draw.random() for corner in corners])
        if draw.random() < 0.4:
            QTest.keyClick(plot, Qt.Key.Key_Escape)


def visit_example(window: MainWindow, draw: random.Random) -> None:
    """Open an example of the survey of the bundled model in the panels of runs; come back, or go elsewhere."""
    if draw.random() < 0.7:
        window.open_survey(str(BUNDLED_SURVEY))
    else:
        press(window, "workspace_survey")
    until(lambda: is_drawn(window))
    examples = cast("SurveyExamplesPanel", window.panels["survey_examples"]).list
    row = examples.visualRect(examples.model().index(draw.randrange(4), 0))
    QTest.mouseClick(examples.viewport(), Qt.MouseButton.LeftButton, pos=row.center())
    if draw.random() < 0.7:
        until(lambda: is_drawn(window))
    key = draw.choice(("back", "dismiss", "workspace_survey", ""))
    if key:
        press(window, key)


def run_survey(window: MainWindow, draw: random.Random) -> None:
    """Run a survey of what is open through the dialog, and stop it a while later; or go on with it."""
    press(window, "run_survey")
    dialog = QApplication.activeModalWidget()
    if not isinstance(dialog, SurveyDialog):
        return
    until(lambda: not window.session.jobs.has("survey statistics"))
    write(dialog.texts, str(folder_of(window) / SURVEYED_TEXTS))
    write(dialog.folder, str(folder_of(window) / draw.choice(("run", "run-again"))))
    push(dialog.run_button)
    close_dialogs()
    panel = cast("SurveyHeadsPanel", window.panels["survey_heads"])
    QTest.qWait(draw.randrange(6000))
    if draw.random() < 0.7:
        push(panel.stop_button)
        if draw.random() < 0.3:
            push(panel.go_on_button)


def kill_engine(window: MainWindow, draw: random.Random) -> None:
    """End the engine in the middle of whatever it does, and run the prompt again."""
    for engine in engines():
        os.kill(int(engine), signal.SIGKILL)
    QTest.qWait(draw.randrange(200))
    press(window, "run")


Act = Callable[[MainWindow, random.Random], None]

ACTIONS: Final[dict[Act, int]] = {
    type_prompt: 12,
    run_again: 5,
    cancel: 5,
    step: 12,
    play: 2,
    back: 7,
    heads: 10,
    cells: 10,
    look_closer: 4,
    intervene: 7,
    take_back: 4,
    pin: 4,
    board: 5,
    note: 2,
    go_to_head: 2,
    lines: 4,
    lens: 4,
    walk: 5,
    rotation: 4,
    silence: 4,
    interrupt_step: 4,
    be_born: 3,
    choose_lesson: 2,
    turn_page: 3,
    reduce_motion: 1,
    open_lesson: 2,
    walk_lesson: 2,
    change_theme: 1,
    project: 1,
    resize: 2,
    show_panel: 8,
    push_anything: 4,
    teach: 2,
    find: 2,
    open_checkpoint: 3,
    open_bundled: 1,
    change_format: 1,
    export: 4,
    keep_session: 2,
    drop_trace: 3,
    attach: 3,
    survey: 8,
    visit_example: 4,
    run_survey: 1,
}
"""Every action, and how often it comes among the others."""


# The session ----------------------------------------------------------------------------------------------------------


def folder_of(window: MainWindow) -> Path:
    """Where the soak keeps its files."""
    return window.session.settings.path.parent


def go_home(window: MainWindow) -> bool:
    """Put everything back as it was in the beginning; says whether it was drawn."""
    close_dialogs()
    window.session.cancel()
    if window.open_lesson is not None:
        window.lesson.leave()
    window.session.surveys.stop()
    window.session.surveys.close_survey()
    if not until(lambda: not window.session.busy):
        return False
    if window.classroom.presenter is not None:
        window.classroom.toggle_notes()
    window.dismiss()
    window.classroom.full.leave()
    window.setWindowState(Qt.WindowState.WindowNoState)
    window.set_look("dark", projector=False)
    window.resize(SIZE)
    window.reset_layout()
    window.show_workspace("overview")
    window.session.baseline.unpin()
    window.session.settings.update(motion=motion.choose("full"))
    cast("HeadsPanel", window.panels["heads"]).silence.setChecked(False)
    window.bar.ids.setChecked(False)
    window.session.opening.open(None, dtype="float32")
    if not until(lambda: not window.session.busy):
        return False
    window.session.interventions.apply(())
    clear_board(window)
    write(window.bar.prompt, DEFAULT_PROMPT)
    QTest.keyClick(window.bar.prompt, Qt.Key.Key_Return)
    window.setFocus()
    drawn = until(lambda: is_drawn(window))
    window.failure.dismiss()
    drawn = drawn and until(lambda: sum(one.is_running for one in window.session.findChildren(Connection)) == 1)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    QCoreApplication.processEvents()
    gc.collect()
    return drawn


def clear_board(window: MainWindow) -> None:
    """Take off what was pinned and noted of the model that is open."""
    board_ = window.session.board
    board_.clear()
    for one in board_.now.notes:
        board_.note(one.layer, one.head, "")


def fill_board(window: MainWindow) -> None:
    """Have as many maps on the board as there is ever room for: a card that was made is kept, which is no growth."""
    window.resize(1800, 1100)
    shown(window, "board")
    run = window.session.run
    for place in range(0 if run is None else run.config.layers * run.config.heads):
        window.session.board.pin(*divmod(place, run.config.heads))  # type: ignore[union-attr]
    until(lambda: is_drawn(window))
    clear_board(window)


def see_every_lesson(window: MainWindow) -> None:
    """Walk every lesson once: what is loaded for one, a hundred MiB of torch's own for the last, is no growth."""
    window.lesson.read_shelf()
    until(lambda: window.lesson.shelf is not None)
    for lesson in window.lesson.lessons():
        for step in range(len(lesson.steps)):
            window.lesson.open(lesson, step)
            until(lambda: is_drawn(window))
    window.lesson.leave()
    until(lambda: is_drawn(window))


def soak(
    window: MainWindow, actions: int, seed: int, kill_every: int, homes: int, say: Callable[[str], object] = print
) -> Report:
    """Do so many things in a window that shows a run, and go home so many times meanwhile.

    The checkpoints to be opened lie in the folder of the settings.
    """
    report, draw = Report(), random.Random(seed)
    plan = draw.choices(list(ACTIONS), list(ACTIONS.values()), k=actions)
    if kill_every:
        plan[kill_every - 1 :: kill_every] = [kill_engine] * (actions // kill_every)
    with listening(report, window):
        for card in window.cards.values():
            card.make_panel()
        fill_board(window)
        for number, act in enumerate(plan, 1):
            own = random.Random(draw.getrandbits(64))  # of its own: what one meets changes nothing for the next
            waits = draw.random() < 0.5
            report.done[act.__name__] += 1
            close_dialogs()
            act(window, own)
            if waits:
                if window.session.timeline.playing:
                    window.session.timeline.pause()  # else it plays to the end of the positions
                if not until(lambda: is_drawn(window)):
                    report.faults.append(f"Not drawn {LIMIT_MS / 1000:.0f} seconds after {act.__name__}")
            else:
                QTest.qWait(own.randrange(20))
            if number % max(actions // homes, 1) == 0:
                if not go_home(window):
                    report.faults.append(f"Not home after {act.__name__}")
                report.measurements.append(measured(window))
                say(f"{number:5} {report.measurements[-1]}, {len(report.faults)} faults")
    return report


@contextmanager
def soaked_window(folder: Path) -> Iterator[MainWindow]:
    """A window over a real session with settings in a folder, drawn; closed at the end."""
    session = new_session(SettingsStore(folder / "settings.json"))
    session.timeline.clock.moves = lambda: not motion.reduced()
    window = MainWindow(session, restore=False)
    session.settings.update(motion=motion.choose("full"))
    window.resize(SIZE)
    window.show()
    window.activateWindow()
    try:
        session.opening.begin()
        until(lambda: is_drawn(window))
        yield window
    finally:
        motion.choose("system")
        window.close()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def main() -> int:
    """Soak the window, and say what came of it."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--actions", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kill-every", type=int, default=100, help="0: never")
    options.add_argument("--gc-threshold", type=int, help="look for garbage at every so many new objects")
    parsed = options.parse_args()
    qt = QApplication(["ropewalk"])
    with tempfile.TemporaryDirectory() as folder, soaked_window(Path(folder)) as window:
        subprocess.run([sys.executable, "-c", WRITE_FILES, folder], cwd=ROOT, check=True)
        see_every_lesson(window)
        if parsed.gc_threshold is not None:
            gc.set_threshold(parsed.gc_threshold)
        say = partial(print, flush=True)
        report = soak(window, parsed.actions, parsed.seed, parsed.kill_every, max(parsed.actions // 20, 1), say)
    print(*report.lines(), sep="\n")
    del qt
    return 1 if report.faults or report.grown() else 0


if __name__ == "__main__":
    sys.exit(main())
