"""Questions: each is one record, with its urgency and its needs, and one answer."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import RopeOff
from ropewalk.model.engine import engine, questions
from ropewalk.model.engine.answers import ANSWERS
from ropewalk.model.engine.interface import RunHandle, missing
from ropewalk.model.engine.questions import (
    EVERYTHING,
    WITHOUT,
    AskBranchCheck,
    AskCachedCheck,
    AskHead,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenUnder,
    AskRepeats,
    AskRules,
    Question,
)
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Steps, finished
from ropewalk.model.readings.patterns import head_scores, repeated_ids
from ropewalk.model.readings.records import Sampling
from ropewalk.model.runs.trace import Trace, capture
from ropewalk.model.tokens.prompt import Prompt

ALL = [one for one in vars(questions).values() if isinstance(one, type) and issubclass(one, Question)]
ASKED = [one for one in ALL if one is not Question]


@pytest.fixture(scope="module")
def handle(tiny: Path) -> RunHandle:
    """A run of six tokens."""
    model_handle = finished(engine.open_model(str(tiny), "cpu", "float32"))
    return finished(engine.run(model_handle, Prompt("abcabc"), 1))


def test_every_question_has_one_answer_and_every_answer_one_question() -> None:
    assert set(ANSWERS) == set(ASKED)


@pytest.mark.parametrize("question", ASKED, ids=lambda one: one.__name__)
def test_a_question_is_frozen_and_says_its_urgency_and_its_needs(question: type[Question]) -> None:
    assert dataclasses.is_dataclass(question)
    assert question.__hash__ is not None
    assert {"urgency", "needs"} <= vars(question).keys()
    assert isinstance(question.urgency, Urgency)
    assert question.needs <= EVERYTHING
    assert not {"urgency", "needs"} & {field.name for field in dataclasses.fields(question)}


def test_a_new_question_is_one_record_and_one_answer(
    qtbot: QtBot, handle: RunHandle, running: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclasses.dataclass(frozen=True)
    class AskLength(Question):
        """How many times so many rows fit."""

        urgency = Urgency.POINTER
        needs = frozenset({"tokens"})

        rows: int

    def length(handle: RunHandle, trace: Trace, asked: AskLength) -> Steps[int]:
        yield from ()
        return trace.length // asked.rows

    monkeypatch.setitem(ANSWERS, AskLength, length)
    assert finished(engine.answer(handle, AskLength(2))) == 3
    answers: list[Any] = []
    with qtbot.waitSignal(running.settled):
        running.ask("length", AskLength(2), answers.append)
    assert [reading.value for reading in answers] == [("abc", AskLength(2))]


def test_a_run_that_lacks_what_is_needed_says_so_in_a_sentence(handle: RunHandle) -> None:
    bare = replace(handle, can=frozenset({"attention", "tokens", "unembedding", "rotation"}))
    answered: list[Question] = [AskHead(0, 0), AskRules(0)]
    for question in answered:
        assert not missing(bare, question)
        assert finished(engine.answer(bare, question))
    refused: list[tuple[Question, str]] = [
        (AskNextToken(2, 3, Sampling()), "has no logits"),
        (AskBranchCheck(), "cannot be run again"),
        (AskCachedCheck(), "has no logits and cannot be run again"),
        (AskNeeds(2, 5), "has no logits, cannot be run under experiments and is of a model that runs no prompts"),
        (AskNextTokenUnder(2, 3, Sampling(), ()), "has no logits, cannot be run under experiments and is of a model"),
        (AskMean(0, None), "cannot be run under experiments and is of a model that runs no prompts"),
    ]
    for question, lacks in refused:
        with pytest.raises(TraceError) as caught:
            finished(engine.answer(bare, question))
        assert caught.value.sentence.startswith(f"This run {lacks}")
        assert caught.value.sentence.endswith(
            ", so this cannot be answered; run a prompt on a model that is open with its weights."
        )


def test_each_lack_has_its_words() -> None:
    assert WITHOUT.keys() == EVERYTHING


def test_the_records_need_neither_torch_nor_qt() -> None:
    code = "import sys, ropewalk.model.engine.interface; print({'torch', 'PySide6'} & set(sys.modules) or [])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_random_repeats_are_run_on_the_runs_own_model_under_its_experiments(handle: RunHandle) -> None:
    asked = AskRepeats(8, seed=3)
    found = finished(engine.answer(handle, asked))
    model = handle.model_handle.checkpoint.model
    ids = repeated_ids(8, model.config.vocabulary, 3)
    expected, undefined = head_scores(capture(model, ids))
    assert (found.count, undefined) == (8, {})
    for name, values in expected.items():
        assert np.allclose(found.scores[name], values), name
    off = finished(engine.run(handle.model_handle, Prompt("abcabc"), 2, interventions=[RopeOff()]))
    changed = finished(engine.answer(off, asked))
    assert not np.allclose(changed.scores["previous"], expected["previous"])
