"""Guards for every test: no display needed, no Qt warning unheard, nothing left alive.

A test that leaves a thread, a running timer or a top-level widget behind fails. A Qt warning fails the test that
caused it, except for the messages listed in :mod:`tests.qt_guards`. The tests of the model know no Qt.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest

from tests import imported

WITHOUT_QT = Path(__file__).parent / "model"
PATIENCE = 2
"""Seconds for a thread that has been told to end."""
PRODUCTS = os.environ.get("ROPEWALK_PRODUCTS", "torch")
"""What multiplies in a test; ``auto`` would measure."""
GARBAGE = 20_000
"""Objects more than there were that call for a look for garbage."""
EVERY_MODEL = Path(__file__).parent / "views" / "every_model"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests between workers by what they have in common."""
    from tests.sharing_out import BySharedFixture

    return BySharedFixture(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Import nearly all that the tests need, without a look for garbage, and set it aside.

    Afterwards it is looked for less often than Python would: what is there is small.
    """
    gc.disable()
    try:
        result = yield
    finally:
        gc.enable()
    gc.set_threshold(GARBAGE)
    imported.set_aside()
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Set aside what tests have imported or cached, once what they share is gone."""
    yield
    if nextitem is None or not share_fixtures(item, nextitem):
        imported.set_aside()


def share_fixtures(one: pytest.Item, other: pytest.Item) -> bool:
    """Whether a fixture with more than data in it may live through both tests."""
    return one.path == other.path or one.path.parent == other.path.parent == EVERY_MODEL


@pytest.fixture(scope="session", autouse=True)
def disks_are_not_waited_for() -> Iterator[None]:
    """No power fails during a test; that a file is on the disk before it takes its name has a test that hears it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def settings_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders for settings, none of which is there yet."""
    root = tmp_path_factory.mktemp("settings")
    return (root / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_settings(settings_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests away from the settings of whoever runs them."""
    folder = str(next(settings_folders))
    monkeypatch.setenv("ROPEWALK_CONFIG_DIR", folder)
    monkeypatch.setenv("ROPEWALK_CACHE_DIR", folder)
    monkeypatch.setenv("ROPEWALK_PRODUCTS", PRODUCTS)


@pytest.fixture(autouse=True)
def own_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every engine be in the test's own process, but where a test is about processes."""
    if request.path.is_relative_to(WITHOUT_QT) or request.node.get_closest_marker("processes"):
        return
    from ropewalk.app import processes
    from tests.in_process import real

    monkeypatch.setattr(processes, "engine_process", real)
    monkeypatch.setattr(processes, "light_process", real)


@pytest.fixture(autouse=True)
def left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves a thread, a running timer or a widget behind, or makes Qt complain."""
    if request.path.is_relative_to(WITHOUT_QT):
        with no_threads_left():
            yield
        return
    from tests.qt_guards import delete_what_is_due, no_qt_warnings, no_widgets_left

    with no_qt_warnings(), no_widgets_left(), no_threads_left():
        yield
        delete_what_is_due()


@contextmanager
def no_threads_left() -> Iterator[None]:
    """Fail where a thread is alive afterwards that was not before, and does not end either: some are not waited for."""
    threads = set(threading.enumerate())
    yield
    new = [thread for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    for thread in new:
        thread.join(PATIENCE)
    left = [thread.name for thread in new if thread.is_alive()]
    assert not left, f"threads left alive: {left}"
