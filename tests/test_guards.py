"""The guards of :mod:`tests.conftest` on tests that leave something behind, in a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

CARELESS = """
import gc, threading, weakref
import pytest
from PySide6.QtCore import QTimer, qWarning
from PySide6.QtWidgets import QApplication, QWidget

KEPT, SEEN = [], []

def test_a_widget_is_kept(qapp):
    KEPT.append(QWidget())

def test_a_widget_is_kept_that_was_there(qapp):
    assert len(KEPT) == 1

def test_a_widget_ends_in_a_cycle(qapp):
    widget = QWidget()
    widget.itself = widget
    SEEN.append(weakref.ref(widget))

def test_the_cycle_was_collected():
    assert SEEN[-1]() is None

@pytest.fixture(scope="module")
def large():
    import decimal, fractions, xml.dom.minidom  # more than was imported before
    class Large:
        pass
    large = Large()
    large.itself = large
    SEEN.append(weakref.ref(large))
    yield large

def test_what_a_fixture_keeps_for_the_file(large, qapp):
    assert SEEN[-1]() is not None

def test_a_widget_is_deleted_later(qapp):
    widget = QWidget()
    KEPT.append(widget)
    widget.deleteLater()

def test_a_thread_goes_on():
    KEPT.append(threading.Event())
    threading.Thread(target=KEPT[-1].wait, name="spinner").start()

def test_the_thread_that_was_there_goes_on():
    KEPT[-1].set()

def test_a_timer_runs(qapp):
    KEPT.append(QTimer(qapp))
    KEPT[-1].start(100_000)

def test_a_timer_was_stopped(qapp):
    KEPT[-1].stop()

def test_qt_complains():
    qWarning("too many ropes")

def test_nothing_is_left(qtbot, monkeypatch):
    qtbot.addWidget(QWidget())
"""

AFTER = """
import gc
from test_careless import SEEN

def test_what_the_fixture_of_another_file_kept_can_be_collected():
    gc.collect()
    assert [seen() for seen in SEEN] == [None, None]
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of some careless tests."""
    folder = tmp_path_factory.mktemp("careless")
    (folder / "test_careless.py").write_text(CARELESS, encoding="utf-8")
    (folder / "test_later.py").write_text(AFTER, encoding="utf-8")
    return output_of("-p", "tests.conftest", "--rootdir", str(folder), "-W", "error", "-q", "-rA", "-n0", str(folder))


def output_of(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "250"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("a_widget_is_kept", "widgets left alive: ['QWidget ']"),
        ("a_thread_goes_on", "threads left alive: ['spinner']"),
        ("a_timer_runs", "timers left running"),
        ("qt_complains", "Qt warned: ['too many ropes']"),
    ],
)
def test_what_is_left_behind_fails_the_test_that_left_it(report: str, test: str, sentence: str) -> None:
    failed = re.search(rf"ERROR .*::test_{test} - (.*)", report)
    assert failed, report
    assert sentence in failed[1]


def test_no_other_test_fails(report: str) -> None:
    assert len(re.findall(r"^PASSED ", report, re.MULTILINE)) == len(re.findall("def test_", CARELESS + AFTER))
    assert len(re.findall(r"^ERROR ", report, re.MULTILINE)) == 4


def test_the_tests_of_the_model_need_no_qt() -> None:
    code = (
        "import pytest, sys; "
        "quick = 'tests/model/readings/test_bidi.py'; "
        "status = pytest.main(['-q', '-p', 'no:pytest-qt', '-p', 'no:cacheprovider', quick]); "
        "sys.exit(status or 'PySide6' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120, check=False).returncode == 0
