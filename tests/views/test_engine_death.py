"""The engine ends, in the middle of whatever it does: the window stays, says so once, and one click brings all back."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEventLoop, QObject, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication

from ropewalk.app.engine import connection as connecting
from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.deaths import REFUSAL, explained
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.processes import packing
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import AskHead
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.snapshot import wait_until_drawn
from ropewalk.views.window import engine_strip
from tests import canned_process
from tests.in_process import real
from tests.views.driving import meant, start_dark

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are ended by signals"),
]

PROMPT = "the cat sat on the mat."
UNWRITTEN = "run.safetensors was not written: the engine has ended; start it again."


@dataclass
class Bench:
    """A window over an engine process that serves canned readings, and what was said in it."""

    window: MainWindow
    wishes: Path
    said: list[str]

    @property
    def session(self) -> Session:
        return self.window.session

    @property
    def met(self) -> Path:
        """What the engine leaves where it was wished to be."""
        return self.wishes.with_name("met")

    @property
    def engine(self) -> ProcessConnection:
        current = self.session.engines.current
        assert isinstance(current, ProcessConnection)
        return current

    def wish(self, *lines: str) -> None:
        """What the engine does from now on."""
        self.wishes.write_text("\n".join(lines), encoding="utf-8")
        self.met.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the engine as a shortage of memory would, and wait until the window has heard."""
        os.kill(self.engine.pid, signal.SIGKILL)
        self.until(lambda: self.session.engines.gone is not None and not self.session.busy)

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the window live until something is so."""
        limit = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < limit
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)

    def meet(self) -> None:
        """Wait until the engine is where it was wished to be."""
        self.until(self.met.exists)
        self.met.unlink()

    def back(self) -> None:
        """Press the one button, and wait until everything is drawn."""
        strip = self.window.engine
        assert strip.isVisible()
        assert strip.button.text() == "Start the engine again"
        QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
        self.until(lambda: not strip.isVisible())
        wait_until_drawn(self.window)


@pytest.fixture(scope="module")
def bench(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One window for all, on a run with decoded tokens, an intervention, a baseline and a selection of its own."""
    folder = tmp_path_factory.mktemp("death")
    wishes, said = folder / "wishes", list[str]()

    def start(parent: QObject, command: str) -> Connection:
        made = ProcessConnection(canned_process.command(wishes), packing(), parent=parent)
        made.greet(warm=True)
        return made

    start_dark()
    session = Session(SettingsStore(folder / "settings.json"), start, real)
    window = MainWindow(session, restore=False)
    bench = Bench(window, wishes, said)
    bench.wish()
    session.failed.connect(lambda sentence, details: said.append(sentence))
    window.resize(1366, 768)
    window.show()
    session.opening.begin(prompt=Prompt(PROMPT))
    wait_until_drawn(window)
    for name in ("compare", "needs"):
        window.reveal(name)
        wait_until_drawn(window)
    window.show_workspace("overview")
    put_back(bench)
    frames = qapp.topLevelWidgets()  # held, so that the guard knows Qt's own again
    yield bench
    frames.clear()
    window.close()
    window.deleteLater()


@pytest.fixture(autouse=True)
def quiet(bench: Bench) -> Iterator[None]:
    """Begin with nothing said, nothing wished for, and an engine; what a person has set stays to the end."""
    bench.wish()
    bench.said.clear()
    before = state(bench.session)
    yield
    bench.wish()
    if bench.session.engines.gone is not None:
        bench.session.cancel()
        bench.back()
    wait_until_drawn(bench.window)
    assert state(bench.session) == before


def state(session: Session) -> dict[str, Any]:
    """All that a person would miss."""
    run, pinned = session.run, session.baseline.run
    assert run is not None
    assert pinned is not None
    return {
        "prompt": meant(session),
        "tokens": [(token.id, token.text) for token in run.tokens],
        "rows": (run.prefill, run.length, run.newest),
        "drawn": session.timeline.drawn,
        "interventions": session.interventions.now,
        "pinned": [token.id for token in pinned.tokens],
        "selection": session.selection.now,
        "model": session.model,
    }


def pictures(window: MainWindow) -> dict[str, QImage]:
    """What every panel shows."""
    return {name: panel.grab().toImage() for name, panel in window.panels.items() if panel.isVisible()}


def decode(bench: Bench) -> None:
    bench.session.timeline.run_to(20)


def run(bench: Bench) -> None:
    bench.session.start(Prompt("another"))


def open_another(bench: Bench) -> None:
    bench.session.opening.open("another")


def export(bench: Bench) -> None:
    bench.window.files.exporter.trace(bench.wishes.with_name("run.safetensors"))


def look(bench: Bench) -> None:
    bench.session.ask("test", AskHead(0, 0), lambda reading: bench.said.append("answered"))


@pytest.mark.parametrize(
    ("act", "where"),
    [
        pytest.param(lambda bench: None, "nothing", marks=pytest.mark.slow),
        (decode, "step"),
        pytest.param(run, "run:another", marks=pytest.mark.slow),
        pytest.param(look, "AskHead", marks=pytest.mark.slow),
        pytest.param(export, "save", marks=pytest.mark.slow),
    ],
    ids=["idle", "decoding", "running", "refining", "exporting"],
)
def test_the_engine_is_killed(bench: Bench, act: Callable[[Bench], None], where: str) -> None:
    before, shown, session = state(bench.session), pictures(bench.window), bench.session
    bench.wish(f"holds {where}")
    act(bench)
    if session.busy:
        bench.meet()
    bench.kill()
    sentence = bench.window.engine.sentence.text()
    assert sentence == (
        "The engine has ended (SIGKILL); what is on screen stays, and nothing is computed until it is started again. "
        "As a rule SIGKILL means that memory ran out: close other programs, or open a smaller model or fewer of its "
        "layers."
    )
    assert bench.window.failure.isVisible() is (act is export)
    assert bench.window.failure.sentence.text() == UNWRITTEN or act is not export
    bench.window.dismiss()
    assert bench.window.status.facts.text().startswith("no engine · ")
    assert pictures(bench.window) == shown
    bench.wish()
    bench.back()
    assert (state(session), pictures(bench.window)) == (before, shown)
    assert bench.said == []
    assert not bench.window.failure.isVisible()
    assert bench.window.status.facts.text().startswith("Bundled")
    assert sorted(path.name for path in bench.wishes.parent.iterdir()) == [
        ".settings.json.lock",
        "settings.json",
        "wishes",
    ]


@pytest.mark.slow
def test_what_is_done_without_an_engine_changes_nothing(bench: Bench) -> None:
    """Nothing raises, nothing waits, and nothing more is said."""
    window, session = bench.window, bench.session
    before, shown = state(session), pictures(window)
    bench.kill()
    for act in (
        session.timeline.step,
        session.timeline.play,
        lambda: session.timeline.run_to(30),
        lambda: session.timeline.branch(13, 5),
        lambda: session.interventions.apply(()),
        lambda: session.consistency.check_now("cached"),
        lambda: session.selection.update(layer=0, head=1),
        lambda: look(bench),
        lambda: window.reveal("compare"),
        session.timeline.to_start,
        session.timeline.to_end,
        session.baseline.unpin,
        session.baseline.pin,
    ):
        act()
        bench.until(lambda: not session.busy)
        assert session.timeline.playing is False
        assert bench.said == []
        assert not window.failure.isVisible()
        assert window.engine.isVisible()
    session.start(Prompt(""))  # other messages have a place of their own, which Esc takes away
    assert [bench.said.pop()] == ["The prompt is empty, but a run needs at least one token; type something first."]
    places = [strip.geometry() for strip in (window.failure, window.engine, window.statusBar())]
    assert all(above.bottom() < below.top() for above, below in pairwise(places))
    window.dismiss()
    assert window.engine.isVisible()
    assert not window.failure.isVisible()
    export(bench)
    bench.until(window.failure.isVisible)
    assert window.failure.sentence.text() == UNWRITTEN
    window.dismiss()
    window.reveal("needs")
    bench.back()
    window.show_workspace("overview")
    session.baseline.unpin()
    put_back(bench)
    assert state(session) == before
    assert set(shown) <= set(pictures(window))


@pytest.mark.slow
def test_the_strip_is_reached_by_the_keyboard(bench: Bench) -> None:
    window, strip = bench.window, bench.window.engine
    bench.kill()
    window.activateWindow()
    window.setFocus()
    for _ in range(200):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        if strip.button.hasFocus():
            break
    assert strip.button.hasFocus()
    QTest.keyClick(strip.button, Qt.Key.Key_Space)
    bench.until(lambda: not strip.isVisible())


@pytest.mark.slow
def test_the_next_run_starts_another_engine_too(bench: Bench) -> None:
    session = bench.session
    bench.kill()
    session.start(Prompt(PROMPT))
    assert bench.window.engine.sentence.text() == engine_strip.STARTING
    bench.until(lambda: not session.busy)
    wait_until_drawn(bench.window)
    assert not bench.window.engine.isVisible()
    assert session.timeline.drawn == ()
    assert session.baseline.run is not None
    put_back(bench)


def test_starting_is_shown_and_can_be_cancelled(bench: Bench) -> None:
    window, session, strip = bench.window, bench.session, bench.window.engine
    bench.kill()
    bench.wish("holds open")
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    assert strip.sentence.text() == engine_strip.STARTING
    bench.until(window.status.cancel.isVisible)
    assert window.status.what.text().startswith(("Starting the engine again", "open"))
    bench.meet()
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    assert strip.isVisible()
    assert strip.sentence.text().startswith("The engine has ended")
    assert not session.busy
    bench.wish()
    bench.back()


@pytest.mark.slow
def test_one_that_dies_again_while_it_brings_all_back_is_offered_once_more_but_not_a_third_time(bench: Bench) -> None:
    session, strip = bench.session, bench.window.engine
    before, shown = state(session), pictures(bench.window)
    bench.kill()
    bench.wish(f"dies run:{PROMPT}")
    for _ in range(2):
        QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
        bench.until(lambda: not session.busy)
        assert strip.button.text() == engine_strip.AGAIN
        bench.met.unlink()
    bench.wish()
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    bench.until(lambda: not session.busy)
    assert strip.sentence.text() == REFUSAL.sentence
    assert strip.button.text() == "Open the built-in model"
    assert (state(session), pictures(bench.window)) == (before, shown)
    assert bench.said == []
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    bench.until(lambda: not strip.isVisible())
    wait_until_drawn(bench.window)
    assert session.timeline.drawn == ()
    put_back(bench)


def test_a_panels_question_that_ends_two_engines_is_not_asked_again(bench: Bench) -> None:
    session, strip = bench.session, bench.window.engine
    bench.wish("dies AskCell")
    session.selection.update(query=9)
    backs = QSignalSpy(session.recovery.engine_back)
    for count in (1, 2):
        bench.until(lambda: session.engines.gone is not None and not session.busy)
        bench.met.unlink()
        QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
        bench.until(lambda: backs.count() == count)  # noqa: B023 - it may have ended again before anybody looks
    bench.until(lambda: not session.busy)
    assert session.engines.gone is None
    assert bench.said == [REFUSAL.sentence]
    assert not bench.met.exists()
    bench.wish()
    session.selection.update(query=10)
    wait_until_drawn(bench.window)
    assert bench.said == [REFUSAL.sentence]
    session.selection.update(query=11)
    bench.window.failure.dismiss()


def test_a_file_that_ends_the_process_that_reads_it_is_named_and_the_engine_stays(bench: Bench) -> None:
    session, first, before = bench.session, bench.engine, state(bench.session)
    bench.wish("holds open")
    open_another(bench)
    bench.meet()
    opener = session.engines.prepare()
    assert isinstance(opener, ProcessConnection)
    os.kill(opener.pid, signal.SIGSEGV)
    bench.until(lambda: not session.busy)
    assert bench.said == [
        f"another could not be opened: the process that read it ended (SIGSEGV). {explained('SIGSEGV')}"
    ]
    assert (bench.engine, session.engines.gone, state(session)) == (first, None, before)
    assert not bench.window.engine.isVisible()
    bench.window.failure.dismiss()


def test_a_cancel_that_is_not_heard_offers_to_end_the_engine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    session, strip = bench.session, bench.window.engine
    monkeypatch.setattr(connecting, "PATIENCE_MS", 80)
    bench.engine.hurry(little=False)
    bench.wish("deaf run:another")
    session.start(Prompt("another"))
    bench.meet()
    session.cancel()
    bench.until(strip.isVisible)
    assert (strip.sentence.text(), strip.button.text()) == (engine_strip.UNHEARD, "End the engine")
    QTest.mouseClick(strip.button, Qt.MouseButton.LeftButton)
    bench.until(lambda: session.engines.gone is not None)
    assert strip.button.text() == engine_strip.AGAIN
    bench.wish()
    bench.back()


def test_what_reads_for_ever_is_ended_and_another_engine_takes_its_place(bench: Bench) -> None:
    session, strip = bench.session, bench.window.engine
    before = session.handle
    bench.wish("reads run:another")
    session.start(Prompt("another"))
    bench.meet()
    bench.wish()
    first = bench.engine
    bench.until(lambda: first.gone is not None)
    bench.until(lambda: not session.busy and not strip.isVisible())
    wait_until_drawn(bench.window)
    assert session.engines.gone is None
    assert bench.said == [
        "Reading a text with its tokenizer of the prompt took more than 0.1 seconds, and was stopped; it is damaged, "
        "or made to hold up whoever reads it. Its engine was ended, and another one takes its place."
    ]
    assert before is not None
    assert session.handle is not None
    assert session.handle.run.tokens == before.run.tokens
    bench.window.failure.dismiss()


def put_back(bench: Bench) -> None:
    """What the other tests begin with."""
    session = bench.session
    session.start(Prompt(PROMPT))
    wait_until_drawn(bench.window)
    if session.interventions.now:
        session.interventions.apply(())
        wait_until_drawn(bench.window)
    session.baseline.pin()
    session.interventions.apply((AblateHeads(1, (2,)),))
    wait_until_drawn(bench.window)
    session.timeline.set_sampling(Sampling(temperature=0.7, seed=3))
    session.timeline.run_to(15)
    wait_until_drawn(bench.window)
    session.timeline.step_back()
    session.selection.update(layer=2, head=5, query=11, key=4, plane=3)
    wait_until_drawn(bench.window)


def test_what_is_heard_at_last_is_offered_to_be_ended_no_longer(bench: Bench) -> None:
    strip = bench.window.engine
    bench.engine.unheard.emit()
    assert strip.isVisible()
    bench.engine.heard.emit()
    assert not strip.isVisible()


@pytest.mark.slow
def test_nothing_of_an_engine_that_has_ended_stays(bench: Bench) -> None:
    bench.kill()
    bench.back()
    bench.until(lambda: bench.session.engines.findChildren(Connection) == [bench.engine])
    assert bench.engine.kept < 20
