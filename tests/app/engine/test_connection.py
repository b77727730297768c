"""The window's end of a process: who hears what, what is kept there, how long a cancel may go unheard, and the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QObject
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import STUCK, STUCK_TICKS, TICKS, Ended, Reply
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.requests import Failure, Greeting, RunPrompt
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress
from ropewalk.model.tokens.prompt import Prompt
from tests.app.fake_connection import PACKING, FakeConnection
from tests.qt_guards import delete_what_is_due


@pytest.fixture
def other(qtbot: QtBot) -> Iterator[FakeConnection]:
    other = FakeConnection()
    yield other
    other.close()


@pytest.fixture
def heard() -> list[Reply]:
    return []


def call(other: FakeConnection, heard: list[Reply]) -> int:
    return other.call("x", "slot", Urgency.POINTER, heard.append)


def test_a_request_says_its_slot_and_its_urgency_and_every_reply_is_heard(
    other: FakeConnection, heard: list[Reply]
) -> None:
    assert (call(other, heard), call(other, heard)) == (1, 2)
    assert [(one.kind, one.id, one.slot, one.urgency) for one in other.sent] == [
        ("request", 1, "slot", Urgency.POINTER),
        ("request", 2, "slot", Urgency.POINTER),
    ]
    for kind, value in (("progress", Progress(1, 2, "x")), ("part", "part"), ("done", "whole")):
        other.say(kind, value, 1)  # type: ignore[arg-type]
    other.say("done", "nobody waits any more", 1)
    assert [reply.kind for reply in heard] == ["progress", "part", "done"]
    assert len(other.acknowledged) == 1
    assert [reply.value() for reply in heard] == [Progress(1, 2, "x"), "part", "whole"]
    assert len(other.acknowledged) == 4


def test_what_no_engine_says_ends_it(qtbot: QtBot, other: FakeConnection, heard: list[Reply]) -> None:
    call(other, heard)
    with qtbot.waitSignal(other.ended):
        other.say("request", "x")
    (reply,) = heard
    assert "cannot be understood" in reply.value().sentence
    other.say("done", "late")
    assert len(heard) == 1


def test_another_version_is_refused(qtbot: QtBot, other: FakeConnection) -> None:
    other.say("hello", Greeting(other.version, "gpu1"), 1)
    assert (other.gone, other.host) == (None, "gpu1")
    with qtbot.waitSignal(other.ended):
        other.say("hello", Greeting("0.0.1", "gpu1"), 1)
    assert other.gone is not None
    assert other.gone.sentence == (
        f"The engine on gpu1 is Ropewalk 0.0.1, but this window is {other.version}; install the same version on both "
        "machines."
    )


# ----------------------------------------------------------------------------------------------------------------------
# Cancelling


def test_a_cancel_that_is_heard_offers_nothing(qtbot: QtBot, other: FakeConnection, heard: list[Reply]) -> None:
    other.cancel(call(other, heard))
    assert other._patience.isActive()
    other.say("done", None)
    assert not other._patience.isActive()
    assert heard == []
    other.cancel(1)
    assert other.of("cancel") == [1]


def test_a_cancel_that_is_not_heard_is_said(qtbot: QtBot, other: FakeConnection, heard: list[Reply]) -> None:
    other._patience.setInterval(1)
    with qtbot.waitSignal(other.unheard):
        other.cancel(call(other, heard))


@pytest.mark.parametrize("paused", [False, True], ids=["at the tokenizer", "running"])
def test_a_prompt_that_is_read_for_ever_is_cancelled_with_its_process(
    other: FakeConnection, heard: list[Reply], paused: bool
) -> None:
    other._patience.setInterval(10_000_000)
    number = other.call(RunPrompt(1, Prompt("a"), 2, None), "run", Urgency.PREFILL, heard.append)
    for _ in range(1 + paused):
        other.say("progress", Progress(0, 0, ""), number)
    other.cancel(number)
    for _ in range(STUCK_TICKS + 1):
        assert other.gone is None
        other._on_patience()
    assert other.gone == (None if paused else Ended(STUCK, at_limit=True))


def test_a_process_in_which_little_is_lost_has_less_time(other: FakeConnection) -> None:
    long = other._patience.interval()
    other.hurry(little=True)
    assert other._patience.interval() * (TICKS + 1) < 1000 < long * TICKS
    other.hurry(little=False)
    assert other._patience.interval() == long


def test_one_cancel_after_another_is_heard_though_one_is_always_on_its_way(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    """As when a pointer is dragged over a picture."""
    for _ in range(2):
        call(other, heard)
    other._patience.setInterval(10_000_000)
    other.cancel(1)
    with qtbot.assertNotEmitted(other.unheard):
        for _ in range(TICKS):
            other._on_patience()
        other.cancel(2)
        other.say("done", None, 1)
        for _ in range(TICKS):
            other._on_patience()
    with qtbot.waitSignal(other.unheard):
        other._on_patience()


# ----------------------------------------------------------------------------------------------------------------------
# What is kept there


def test_a_process_keeps_what_has_a_handle(other: FakeConnection) -> None:
    one, two = other.keep(7), other.keep(8)
    assert (one.number, other.kept) == (7, 2)
    assert one.call("x").connection is other
    del one
    gc.collect()
    assert (other.of("release"), other.kept) == ([7], 1)
    other.close()
    del two
    gc.collect()
    assert (other.of("release"), other.kept) == ([7], 0)


@pytest.mark.parametrize(("kind", "cancels"), [("part", []), ("failed", []), ("done", [1])])
def test_what_is_refused_is_acknowledged_and_what_it_names_is_let_go(
    other: FakeConnection, heard: list[Reply], kind: Kind, cancels: list[int]
) -> None:
    call(other, heard)
    said = other.say(kind, "x")
    heard[0].refuse()
    assert (other.acknowledged, other.of("cancel")) == ([said], cancels)
    assert not other._patience.isActive()


def test_a_retired_process_goes_when_nothing_of_it_is_used(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    handle = other.keep(7)
    call(other, heard)
    other.retire()
    assert other.gone is None
    del handle
    gc.collect()
    assert (other.gone, other.of("release")) == (None, [7])  # somebody waits for an answer
    with qtbot.assertNotEmitted(other.ended):
        other.say("done", "1")
    assert other.gone is not None
    assert other.stopped == 1
    assert heard[0].value() == "1"


def test_a_process_that_has_gone_leaves_no_object_once_nothing_points_to_it(qtbot: QtBot) -> None:
    parent = QObject()
    other = FakeConnection(parent)
    handle = other.keep(7)
    other.retire()
    other.kill()
    delete_what_is_due()
    assert other in parent.children()
    heard: list[Reply] = []
    number = call(other, heard)  # whoever has a handle may ask still
    qtbot.waitUntil(lambda: len(heard) == 1)
    assert isinstance(heard[0].value(), Ended)
    assert number not in other._waiting
    del handle
    gc.collect()
    delete_what_is_due()
    assert parent.children() == []


# ----------------------------------------------------------------------------------------------------------------------
# Ending


def test_a_request_that_cannot_be_sent_is_heard_of_in_a_later_turn(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    other.call(object(), "slot", Urgency.POINTER, heard.append)
    dropped = other.call(object(), "slot", Urgency.POINTER, heard.append)
    assert heard == []
    other.cancel(dropped)
    qtbot.waitUntil(lambda: len(heard) == 1)
    QCoreApplication.processEvents()
    (reply,) = heard
    assert reply.kind == "failed"
    assert isinstance(reply.value(), Failure)
    reply.refuse()
    assert other.of("request") == []


def test_the_end_is_said_once_and_whoever_waits_hears_why(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    ends: list[Ended] = []
    other.ended.connect(ends.append)
    call(other, heard)
    cancelled = call(other, heard)
    other.cancel(cancelled)
    other.kill()
    other.kill()
    assert [reply.value() for reply in heard] == ends == [Ended("It is gone.", reason="SIGKILL")]
    assert other.stopped == 1
    assert not other._patience.isActive()


def test_closing_is_no_news_but_whoever_waits_hears_that_nothing_comes(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    call(other, heard)
    other.cancel(call(other, heard))
    with qtbot.assertNotEmitted(other.ended):
        other.close()
    other.kill()
    other.say("done", "late", 1)
    assert [reply.value() for reply in heard] == [other.gone]
    assert isinstance(other.gone, Ended)
    assert not other._patience.isActive()
    assert other.stopped == 1


def test_what_comes_of_it_is_unpacked_by_the_list_of_types_alone(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    call(other, heard)
    packed = PACKING.pack("x")
    with qtbot.waitSignal(other.ended):
        other.arrived(Message(1, "done", packed=type(packed)("Unheard", packed.data)))
        assert "cannot be understood" in heard[0].value().sentence


def test_a_cancel_is_not_counted_as_unheard_while_torch_is_imported(
    qtbot: QtBot, other: FakeConnection, heard: list[Reply]
) -> None:
    other.greet(warm=True)
    other._patience.setInterval(10_000_000)
    other.cancel(call(other, heard))
    with qtbot.assertNotEmitted(other.unheard):
        for _ in range(2 * TICKS):
            other._on_patience()
    other.say("hello", Greeting(other.version, warm=True), 0)
    with qtbot.waitSignal(other.unheard):
        for _ in range(TICKS + 1):
            other._on_patience()
