"""Which reply is to which request: said in one table, which a window holds its processes to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Ended, Reply
from ropewalk.app.files.requests import FinishSvg
from ropewalk.app.lessons.plan import Problem
from ropewalk.app.models.requests import ListModels
from ropewalk.app.passing import PARTS, REPLIES
from ropewalk.app.processes import LatePacking
from ropewalk.app.served import SERVED
from ropewalk.model.decoder.interventions import AblateMlp, Intervention
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.questions import QUESTIONS, AskHeadDifference, AskMean, AskRow, AskRules, Question
from ropewalk.model.engine.requests import (
    AnswerQuestion,
    CountTokens,
    Failure,
    FetchTrace,
    ListStatistics,
    RunInView,
    Tidy,
)
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress
from ropewalk.model.tokens.prompt import Prompt
from tests.app.fake_connection import FakeConnection

COUNT, FETCH = CountTokens(1, Prompt("a")), FetchTrace(RunInView(1, 2))


def about(question: Question) -> AnswerQuestion:
    return AnswerQuestion(RunInView(1, 2), question)


def answered(asked: Any, kind: Kind, value: Any) -> tuple[FakeConnection, Any]:
    """What is heard when a process of ours answers so, and the connection to it."""
    heard: list[Reply] = []
    parent = QObject()
    connection = FakeConnection(parent)
    connection.packing = LatePacking()
    connection.call(asked, "slot", Urgency.POINTER, heard.append)
    connection.arrived(Message(1, kind, packed=connection.packing.pack(value)))
    return connection, heard[0].value()


@pytest.mark.parametrize(
    ("asked", "kind", "value"),
    [
        (COUNT, "done", "five"),
        (COUNT, "done", None),
        (COUNT, "part", 5),
        (COUNT, "progress", 5),
        (COUNT, "failed", 5),
        (COUNT, "done", Failure("It is no failure.")),
        (FETCH, "part", 5),
        (FETCH, "done", b"whole"),
        (Tidy(), "done", 0),
        (about(AskRow(0, 0, 0)), "done", AskRow(0, 0, 0)),
        (about(AskRow(0, 0, 0)), "part", 1),
        (about(AskRules(0)), "done", (Problem(Path("x"), 1, "x"),)),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else one,
)
def test_a_reply_of_another_type_ends_the_process(qtbot: QtBot, asked: Any, kind: Kind, value: Any) -> None:
    connection, heard = answered(asked, kind, value)
    assert isinstance(heard, Ended)
    assert connection.gone is heard
    assert heard.sentence == (
        "The engine said something that cannot be understood, so it was ended; start it again to go on."
    )
    assert f" came in reply to {type(asked).__name__}(" in heard.details


@pytest.mark.parametrize(
    ("asked", "kind", "value"),
    [
        (COUNT, "done", 5),
        (COUNT, "failed", Failure("No.")),
        (COUNT, "progress", Progress(1, 2, "x")),
        (FETCH, "part", b"part"),
        (Tidy(), "done", None),
        (FinishSvg("", 1, 1, (), (), None), "done", b"whole"),  # type: ignore[arg-type]
        (ListModels(), "done", ()),
        (ListStatistics(), "done", ()),
        (about(AskRules(0)), "done", ()),
        (about(AskHeadDifference(0, 0)), "done", None),
        (about(AskMean(0, None)), "done", AblateMlp(0)),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else one,
)
def test_a_reply_of_the_type_is_heard(qtbot: QtBot, asked: Any, kind: Kind, value: Any) -> None:
    connection, heard = answered(asked, kind, value)
    assert connection.gone is None
    assert heard == value


def test_every_request_and_question_has_its_reply() -> None:
    assert set(REPLIES) == (set(SERVED) - {AnswerQuestion}) | set(QUESTIONS)
    assert set(PARTS) < set(REPLIES)


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_what_is_said_of_a_request_is_its_reply(kind: Any) -> None:
    said = re.search(r"→\s+(?:``([^`]*)``|:class:`(\w+)`)", kind.__doc__)
    if said is not None:
        reply = "Intervention" if REPLIES[kind] == Intervention else getattr(REPLIES[kind], "__name__", "")
        assert (said[1] or said[2]) in (reply, re.sub(r"(\w+\.)+", "", str(REPLIES[kind])))
