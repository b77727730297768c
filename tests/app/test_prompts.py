"""A prompt through a chat template, and one longer than the model: refused in a sentence, or run stretched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.files.session_file import SavedView
from ropewalk.app.files.session_keeping import open_session, save_session
from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import AblateHeads, NoScale, RopeScaling
from ropewalk.model.engine import engine
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.engine.prompts import check_length
from ropewalk.model.engine.questions import (
    AskArithmetic,
    AskAtlas,
    AskAttribution,
    AskBoard,
    AskBranchCheck,
    AskCache,
    AskCachedCheck,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLedger,
    AskLens,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskNextTokenUnder,
    AskPlanes,
    AskRefinedBoard,
    AskRouting,
    AskRow,
    AskRules,
    AskScoreChanges,
    Question,
)
from ropewalk.model.errors import ChatError, TooLongError
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.app.session.test_session import settle
from tests.app.tiny_checkpoint import write_chatty

CHAT = Prompt("hi", chat="default")
LONG = "abcdefgh" * 10


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint with a BOS, two special tokens and a chat template."""
    return write_chatty(tmp_path_factory.mktemp("chatty") / "chatty")


@pytest.fixture(scope="module")
def model_handle(chatty: Path) -> ModelHandle:
    return finished(engine.open_model(str(chatty), "cpu", "float32"))


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path, chatty: Path) -> Iterator[Session]:
    """A real session with a run on screen."""
    made = new_session(SettingsStore(tmp_path / "settings.json"))
    settle(qtbot, made, lambda: made.opening.begin(str(chatty), Prompt("abcdef")))
    yield made
    made.close()


def ask(handle: RunHandle, question: Any) -> Any:
    return finished(engine.answer(handle, question))


def tokens_of(run: Run | None) -> list[tuple[str, str]]:
    assert run is not None
    return [(token.text, token.kind) for token in run.tokens]


# Chat -----------------------------------------------------------------------------------------------------------------


def test_a_prompt_goes_through_the_template_and_its_special_tokens_are_special(model_handle: ModelHandle) -> None:
    assert (model_handle.card.chats, model_handle.card.bos) == (("default",), "<s>")
    run = finished(engine.run(model_handle, CHAT, 1)).run
    assert run.rendered == "<s><|user|>hi<|end|>"
    assert run.prompt == "hi"
    assert tokens_of(run) == [
        ("<s>", "special"), ("<|user|>", "special"), ("h", "text"), ("i", "text"), ("<|end|>", "special"),
    ]  # fmt: skip
    plain = finished(engine.run(model_handle, Prompt("hi"), 1)).run
    assert (plain.rendered, [text for text, _ in tokens_of(plain)]) == ("", ["<s>", "h", "i"])
    bare = finished(engine.run(model_handle, Prompt("hi", special=False), 1)).run
    assert [text for text, _ in tokens_of(bare)] == ["h", "i"]


def test_a_system_line_comes_first(model_handle: ModelHandle) -> None:
    run = finished(engine.run(model_handle, Prompt("hi", chat="default", system="be brief"), 1)).run
    assert run.rendered == "<s><|system|>be brief<|user|>hi<|end|>"


def test_a_model_without_a_template_says_so(tiny: Path) -> None:
    model_handle = finished(engine.open_model(str(tiny), "cpu", "float32"))
    assert model_handle.card.chats == ()
    with pytest.raises(ChatError, match="tiny has no chat template"):
        finished(engine.run(model_handle, CHAT, 1))
    assert finished(engine.run(model_handle, Prompt("7", as_ids=True, chat="default"), 1)).run.rendered == ""


def test_interventions_run_the_same_text_again(qtbot: QtBot, session: Session) -> None:
    settle(qtbot, session, lambda: session.start(CHAT))
    before = tokens_of(session.run)
    settle(qtbot, session, lambda: session.interventions.apply([NoScale()]))
    assert tokens_of(session.run) == before
    assert session.run is not None
    assert session.run.rendered == "<s><|user|>hi<|end|>"


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "{% if %}", "{{ ''.__class__ }}", "{# nothing #}"])
def test_a_template_that_fails_changes_nothing(
    qtbot: QtBot, session: Session, chatty: Path, tmp_path: Path, template: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(chatty, folder)
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    settle(qtbot, session, lambda: session.opening.open(str(folder)))
    before, messages = session.run, []
    session.failed.connect(lambda sentence, details: messages.append(sentence))
    settle(qtbot, session, lambda: session.start(CHAT))
    assert session.run is before
    assert len(messages) == 1
    assert "chat template" in messages[0]
    settle(qtbot, session, lambda: session.start(Prompt("hi")))
    assert session.run is not before


def test_another_model_is_not_given_a_template_it_lacks(qtbot: QtBot, session: Session, tiny: Path) -> None:
    settle(qtbot, session, lambda: session.start(CHAT))
    settle(qtbot, session, lambda: session.opening.open(str(tiny)))
    assert session.prompt.chat == ""
    assert tokens_of(session.run) == [("h", "text"), ("i", "text")]


def test_cancelling_a_template_that_does_not_end_keeps_the_old_run(
    qtbot: QtBot, session: Session, chatty: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "endless"
    shutil.copytree(chatty, folder)
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(loop, encoding="utf-8")
    settle(qtbot, session, lambda: session.opening.open(str(folder)))
    before, messages = session.run, []
    session.progress_changed.connect(lambda progress: messages.append(progress.what if progress else ""))
    session.start(CHAT)
    qtbot.waitUntil(lambda: "Applying the chat template" in messages, timeout=10_000)
    settle(qtbot, session, session.cancel)
    assert session.run is before


# Longer than the model ------------------------------------------------------------------------------------------------


def test_a_long_prompt_is_refused_with_what_would_carry_it(model_handle: ModelHandle) -> None:
    with pytest.raises(TooLongError, match=r"81 tokens.*64; make it 17 shorter, or pick a RoPE scaling") as caught:
        finished(engine.run(model_handle, Prompt(LONG), 1))
    assert caught.value.offers == tuple(RopeScaling(rule, 1.5) for rule in ("linear", "dynamic", "yarn", "llama3"))


@pytest.mark.parametrize("rule", ["linear", "dynamic", "yarn", "llama3"])
def test_spec_panel_and_ledger_agree_on_a_stretched_run(model_handle: ModelHandle, rule: Any) -> None:
    scaling = RopeScaling(rule, 1.5)
    handle = finished(engine.run(model_handle, Prompt(LONG), 1, interventions=[scaling]))
    assert (handle.run.length, handle.run.context_limit) == (81, 96)
    turned = handle.run.specs[1].segments[0].frequencies
    assert tuple(ask(handle, AskPlanes(1, 0, 80, 3)).query_frequencies) == pytest.approx(turned)
    rules = {one.name: one for one in ask(handle, AskRules(1))}
    mine = next(name for name in rules if name.startswith("this run"))
    assert mine == f"this run ({rule})"
    assert tuple(rules[mine].frequencies) == pytest.approx(turned, rel=1e-6)
    assert tuple(rules["none"].frequencies) != pytest.approx(turned, rel=1e-3)
    prefill, _ = ask(handle, AskLedger(1))
    checks = {entry.key: entry.check for entry in prefill.entries}
    assert [check for check in checks.values() if check.passed is False] == []
    assert checks["rope_q"].passed
    formula = next(entry.formula for entry in prefill.entries if entry.key == "rope_q")
    assert f"stretched ({rule} × 1.5)" in formula
    assert handle.run.specs[1].interventions == (scaling.label,)
    stepped = finished(engine.step(handle, 3, Sampling()))
    assert stepped.run.length == 84
    check = ask(stepped, AskCachedCheck())
    assert check.holds or (rule == "dynamic" and "dynamic" in check.explained)
    with pytest.raises(TooLongError, match="end after 96"):
        finished(engine.step(handle, 16, Sampling()))


@pytest.mark.parametrize("question", [
    AskHead(1, 2), AskRow(1, 2, 80), AskCell(1, 2, 80, 70), AskCache(), AskAtlas(exact=True), AskBranchCheck(),
    AskNextToken(80, 3, Sampling()), AskNextToken(3, 3, Sampling()), AskCachedCheck(by_layer=True), AskRouting(0),
    AskArithmetic(1, 2, 80, 70), AskNeeds(80, 5), AskAttribution(80, 5), AskMean(1, (2,)), AskMean(1, None),
    AskMean(1, (2,), plane=1), AskHeadDifference(1, 2), AskNextTokenDifference(), AskScoreChanges(),
    AskBoard(((1, 2), (0, 1)), (0, 2), average=True, difference=(0, 1)),
    AskRefinedBoard(AskBoard(((1, 2), (0, 1)), (0, 2), average=True, difference=(0, 1))),
    AskLens(),
    AskNextTokenUnder(80, 3, Sampling(), (RopeScaling("dynamic", 1.5), AblateHeads(1, (2,)))),
], ids=repr)  # fmt: skip
def test_every_panel_can_ask_about_rows_past_the_model_s_own_positions(
    model_handle: ModelHandle, question: Question
) -> None:
    handle = finished(engine.run(model_handle, Prompt(LONG), 1, interventions=[RopeScaling("dynamic", 1.5)]))
    handle = replace(
        handle, baseline=finished(engine.run(model_handle, Prompt(LONG), 2, interventions=[RopeScaling("linear", 1.5)]))
    )
    found = ask(handle, question)
    assert found is not None or isinstance(question, AskRouting)


def test_a_mean_is_taken_where_the_run_s_positions_are_stretched(model_handle: ModelHandle) -> None:
    scalings = (RopeScaling("linear", 1.5), RopeScaling("linear", 30.0))
    near, far = (
        ask(finished(engine.run(model_handle, Prompt(LONG), 1, interventions=[one])), AskMean(1, (2,)))
        for one in scalings
    )
    assert near.means != far.means
    short = finished(engine.run(model_handle, Prompt("abcdef"), 1, interventions=[NoScale()]))
    plain = finished(engine.run(model_handle, Prompt("abcdef"), 1))
    assert ask(short, AskMean(1, (2,))) == ask(plain, AskMean(1, (2,)))


def test_choosing_an_offer_runs_what_was_refused_and_stays(qtbot: QtBot, session: Session) -> None:
    messages: list[str] = []
    offered: list[tuple[RopeScaling, ...]] = []
    session.failed.connect(lambda sentence, details: messages.append(sentence))
    session.interventions.offered.connect(offered.append)
    before = session.run
    settle(qtbot, session, lambda: session.interventions.apply([NoScale()]))
    changed = session.run
    settle(qtbot, session, lambda: session.start(Prompt(LONG)))
    assert session.run is changed is not before
    assert [one.label for one in offered[0]] == [
        "RoPE linear × 1.5", "RoPE NTK × 1.5", "RoPE YaRN × 1.5", "RoPE llama3 × 1.5",
    ]  # fmt: skip
    settle(qtbot, session, lambda: session.interventions.accept(offered[0][2]))
    assert session.run is not None
    assert (session.run.prompt, session.run.prefill, session.run.context_limit) == (LONG, 81, 96)
    assert session.interventions.now == (NoScale(), RopeScaling("yarn", 1.5))
    settle(qtbot, session, lambda: session.start(Prompt("short")))
    assert session.interventions.now == (NoScale(), RopeScaling("yarn", 1.5))
    settle(qtbot, session, lambda: session.start(Prompt(LONG * 2)))
    assert [one.factor for one in offered[1]] == [3.0] * 4
    settle(qtbot, session, lambda: session.interventions.accept(offered[1][0]))
    assert session.interventions.now == (NoScale(), RopeScaling("linear", 3.0))
    assert len(messages) == 2


def test_taking_the_scaling_out_of_a_long_prompt_goes_back_to_one_that_fits(qtbot: QtBot, session: Session) -> None:
    messages: list[str] = []
    offered: list[tuple[RopeScaling, ...]] = []
    session.failed.connect(lambda sentence, details: messages.append(sentence))
    session.interventions.offered.connect(offered.append)
    settle(qtbot, session, lambda: session.start(Prompt(LONG)))
    settle(qtbot, session, lambda: session.interventions.accept(offered[0][0]))
    settle(qtbot, session, lambda: session.interventions.apply(()))
    assert session.run is not None
    assert (session.run.prompt, session.run.context_limit, session.interventions.now) == ("abcdef", 64, ())
    assert messages[-1].startswith("Without the RoPE scaling the prompt is too long for this model, so the last one")


def test_stepping_past_the_limit_offers_to_go_on_with_the_tokens_there_are(qtbot: QtBot, session: Session) -> None:
    offered: list[tuple[RopeScaling, ...]] = []
    session.interventions.offered.connect(offered.append)
    settle(qtbot, session, lambda: session.start(Prompt("x" * 60)))
    settle(qtbot, session, lambda: session.timeline.run_to(64))
    session.timeline.step()
    assert [one.factor for one in offered[0]] == [1.5] * 4
    settle(qtbot, session, lambda: session.interventions.accept(offered[0][1]))
    run = session.run
    assert run is not None
    assert (run.prefill, run.length, run.context_limit) == (61, 64, 96)
    settle(qtbot, session, session.timeline.step)
    assert session.run is not None
    assert session.run.length == 65


def test_without_rope_the_refusal_says_why(model_handle: ModelHandle) -> None:
    config = model_handle.card.config.changed(position="learned", rope=None)
    with pytest.raises(TooLongError, match="2 shorter: its positions are learned one by one") as caught:
        check_length(config, 66)
    assert caught.value.offers == ()


def test_a_saved_session_brings_template_and_scaling_back(qtbot: QtBot, session: Session, tmp_path: Path) -> None:
    failures: list[str] = []
    file = tmp_path / "a.ropewalk"
    asked = Prompt(LONG, chat="default", system="be brief")
    settle(qtbot, session, lambda: session.start(asked))
    settle(qtbot, session, lambda: session.interventions.accept(RopeScaling("yarn", 2.0)))
    before = session.run
    assert before is not None
    save_session(session, file, SavedView(), lambda saved: None, failures.append)
    qtbot.waitUntil(file.exists)
    settle(qtbot, session, lambda: session.start(Prompt("hi")))
    open_session(session, file, lambda saved: None, failures.append)
    qtbot.waitUntil(lambda: session.run is not None and session.run.prompt == LONG)
    after = session.run
    assert after is not None
    assert (after.rendered, after.tokens, after.context_limit) == (before.rendered, before.tokens, 128)
    assert session.interventions.now == (RopeScaling("yarn", 2.0),)
    assert session.prompt == asked
    assert failures == []
