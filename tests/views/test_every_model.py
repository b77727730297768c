"""Scripted sessions in the real window, on the bundled model, five families and SmolLM2: every control, and its number.

A new model is one line in :data:`MODELS`. Numbers are checked against ``tests.views.twin``, numpy over the arrays that
the session holds. The families are tiny random checkpoints as transformers writes them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.questions import AskArithmetic, AskLedger, AskPlanes
from model import attention
from model.costs import kv_bytes, kv_bytes_at_bits
from model.experiments import AblateHeads, AblateMlp, AblatePlane, Experiment, NoCausalMask, PermuteTokens
from model.readings import Arithmetic, PlaneReading
from tests.model.checkpoints.fetch import FILE
from tests.views.driving import answer, click, front, opened, press, run_of
from tests.views.twin import Twin
from views import places, snapshot, wording
from views.cache import CachePanel
from views.compare import ComparePanel
from views.experiments import ExperimentsPanel
from views.main_window import MainWindow
from views.needs import NeedsPanel
from views.rope import RopePanel
from views.routing import RoutingPanel
from views.slabs import SIDES
from views.timeline import TimelinePanel
from views.why import WhyPanel

WORDS = " hark, who goes there? hark, who goes there?"
IDS = "5 17 3 42 61 90 8 2 5 17 3 42 61 90 8 2"
OTHER_WORDS = " hark, who goes? hark, who goes there?"
OTHER_IDS = "5 17 3 42 90 8 2 5 17 3 42 61 90 8 2"
LAYER, HEAD, QUERY, KEY = 2, 1, 11, 9
FEW_HEADS = 64
"""As many are ablated in the ordinary run of the tests."""


@dataclass(frozen=True)
class Subject:
    """A model: how it is had (None: the bundled one), and what is run on it."""

    name: str
    path: Callable[[Path], Path | None]
    prompt: str = IDS
    other: str = OTHER_IDS


def bundled(folder: Path) -> None:
    """Nothing has to be made."""


def family(name: str, variant: str = "plain") -> Callable[[Path], Path]:
    """A tiny random checkpoint of a family, as the parity tests make it."""

    def made(folder: Path) -> Path:
        from tests.model.checkpoints import reference

        case = next(case for case in reference.CASES if (case.family, case.variant) == (name, variant))
        return reference.save(reference.build(case), folder)

    return made


def fetched(folder: Path) -> Path:
    """The real model that ``make test`` fetches; skipped where it is not there."""
    if not FILE.is_file():
        pytest.skip("the model is not fetched: python -m tests.model.checkpoints.fetch")
    return FILE


MODELS = (
    Subject("bundled", bundled, WORDS, OTHER_WORDS),
    Subject("grouped heads with QK-norm", family("qwen3")),
    Subject("experts", family("qwen3_moe")),
    Subject("partial rotary", family("phi3", "partial")),
    Subject("sliding window", family("mistral", "window")),
    Subject("soft cap", family("gemma2")),
    Subject("SmolLM2", fetched, WORDS, OTHER_WORDS),
)


@pytest.fixture(scope="module", params=MODELS, ids=lambda subject: subject.name)
def whole(
    request: pytest.FixtureRequest, qapp: QApplication, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MainWindow, Subject]]:
    """One window for every test of a model."""
    subject: Subject = request.param
    folder = tmp_path_factory.mktemp("model")
    path = subject.path(folder / "checkpoint")
    with opened(folder, None if path is None else str(path), subject.prompt) as window:
        yield window, subject


@pytest.fixture
def window(whole: tuple[MainWindow, Subject]) -> MainWindow:
    """The window with the prompt on screen, nothing changed in the model, and one cell selected."""
    window, subject = whole
    session = window.session
    session.pinned.unpin()
    if session.experiments.now:
        session.experiments.apply(())
        snapshot.wait_until_drawn(window)
    if run_of(window).prompt != subject.prompt or run_of(window).newest > run_of(window).prefill:
        session.start(subject.prompt)
        snapshot.wait_until_drawn(window)
    session.selection.update(layer=LAYER, head=HEAD, query=QUERY, key=KEY, plane=0)
    snapshot.wait_until_drawn(window)
    assert session.proofs.check is not None
    assert session.proofs.check.holds
    return window


def read(text: str) -> float:
    """A number as the window writes it."""
    return float(text.replace(wording.MINUS, "-"))


def arithmetic_of(window: MainWindow) -> Arithmetic:
    now = window.session.selection.now
    return cast("Arithmetic", answer(window, AskArithmetic(now.layer, now.head, now.query, now.key)))


# RoPE -------------------------------------------------------------------------------------------------------------


def test_rope(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    panel.page_box.setCurrentText("planes")
    twin, session = Twin(window.session), window.session
    shares, scaled = twin.shares(LAYER, HEAD, QUERY, KEY), twin.scaled(LAYER, HEAD)[QUERY, KEY]
    turned, reading = panel.view.turned, panel.reading
    assert turned is not None
    assert reading is not None
    assert np.allclose(turned.shares, shares, atol=1e-4)
    assert turned.shares.sum() + reading.rest == pytest.approx(scaled, abs=1e-4)
    unturned = slice(run_of(window).specs[LAYER].rotary_width, None)
    q, k = twin.q(LAYER, HEAD)[QUERY][unturned], twin.k(LAYER, HEAD)[KEY][unturned]
    assert reading.rest == pytest.approx(run_of(window).specs[LAYER].scale * float(q @ k), abs=1e-4)
    assert ("do not turn" in panel.sum_label.text()) == bool(q.size)

    last = len(shares) - 1
    click(window, panel.view, panel.view.circle_of(last).center().toPoint())
    assert session.selection.now.plane == last
    press(window, panel.view, Qt.Key.Key_Left)
    assert session.selection.now.plane == last - 1

    theta = twin.frequencies(LAYER, QUERY)
    panel.slider.setFocus()
    press(window, panel.slider, Qt.Key.Key_Right, 3)
    assert "m = 14, n = 9" in panel.position_label.text()
    turned = panel.view.turned
    assert turned is not None
    pair, before = twin.features(LAYER)[0], reading.q_before[0]
    angle = 14 * theta[0]
    assert turned.q_after[0] == pytest.approx(
        reading.factor
        * np.array(
            [
                before[0] * np.cos(angle) - before[1] * np.sin(angle),
                before[0] * np.sin(angle) + before[1] * np.cos(angle),
            ]
        ),
        abs=1e-5,
    )
    assert tuple(pair) == tuple(reading.features[0])
    phase = np.arctan2(reading.q_before[:, 1], reading.q_before[:, 0])
    phase -= np.arctan2(reading.k_before[:, 1], reading.k_before[:, 0])
    between = np.exp(1j * (phase + (14 - KEY) * theta))
    assert np.allclose(np.exp(1j * turned.between), between, atol=1e-4)
    assert f"angle from k to q {wording.number(float(turned.between[last]))} rad" in panel.view.told(last)
    click(window, panel.back_button)
    assert panel.position == QUERY
    click(window, panel.both)
    press(window, panel.slider, Qt.Key.Key_Right, 4)
    turned = panel.view.turned
    assert turned is not None
    assert (turned.position, turned.key_position) == (QUERY + 4, KEY + 4)
    assert turned.scaled == pytest.approx(scaled, abs=1e-4)
    assert "float32 is off by" in panel.sum_label.text()
    click(window, panel.both)
    panel.speed.setCurrentIndex(2)
    click(window, panel.play_button)
    assert panel.timer.isActive()
    at = panel.slider.value()
    panel.timer.timeout.emit()
    assert panel.slider.value() == at + 4
    click(window, panel.play_button)
    assert not panel.timer.isActive()
    click(window, panel.loop)
    panel.slider.setValue(panel.slider.maximum())
    panel.timer.timeout.emit()
    assert panel.slider.value() == 0
    click(window, panel.loop)
    click(window, panel.back_button)


def test_the_other_pages_of_rope(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    twin, limit = Twin(window.session), run_of(window).config.max_position
    scaled, theta = twin.scaled(LAYER, HEAD)[QUERY, KEY], twin.frequencies(LAYER, QUERY)
    reading = cast("PlaneReading", answer(window, AskPlanes(LAYER, HEAD, QUERY, KEY)))
    panel.page_box.setCurrentText("distance")
    snapshot.wait_until_drawn(window)
    page = panel.curves
    assert page.view.true[0] == QUERY - KEY
    assert page.view.true[1] == pytest.approx(scaled, abs=1e-4)
    q, k = (pair[:, 0] + 1j * pair[:, 1] for pair in (reading.q_before, reading.k_before))
    far = 30.0
    place = int(np.abs(page.view.distances - far).argmin())
    expected = (
        reading.scale
        * reading.factor**2
        * float((q * k.conj() * np.exp(1j * page.view.distances[place] * theta)).real.sum())
    )
    assert page.view.curves[0][3][place] == pytest.approx(expected + reading.rest, abs=1e-4)
    for button in page.buttons:
        click(window, button)
    assert len(page.view.curves) == len(page.rules) == 1 + len(page.buttons)
    rule = page.rules[-1]
    expected = (
        reading.scale
        * rule.factor**2
        * float((q * k.conj() * np.exp(1j * page.view.distances[place] * rule.frequencies)).real.sum())
    )
    assert page.view.curves[-1][3][place] == pytest.approx(expected + reading.rest, abs=1e-4)
    for button in page.buttons:
        click(window, button)
    click(window, page.wide)
    assert limit - 1 - page.view.distances[-1] < limit / 512
    click(window, page.wide)

    panel.page_box.setCurrentText("spectrum")
    snapshot.wait_until_drawn(window)
    unfinished = int((2 * np.pi / theta > limit).sum())
    assert panel.sum_label.text().startswith(f"{unfinished} of {len(theta)} planes never finish a turn")
    click(window, panel.spectrum, panel.spectrum.bar_of(0).center().toPoint())
    assert window.session.selection.now.plane == 0
    press(window, panel.spectrum, Qt.Key.Key_Right)
    assert window.session.selection.now.plane == 1

    panel.page_box.setCurrentText("pairing")
    snapshot.wait_until_drawn(window)
    r = reading
    width = 2 * len(r.features)
    flat = np.zeros((2, width))
    flat[0, r.features.ravel()], flat[1, r.features.ravel()] = r.q_before.ravel(), r.k_before.ravel()
    halves = [v[: width // 2] + 1j * v[width // 2 :] for v in flat]
    neighbours = [v[0::2] + 1j * v[1::2] for v in flat]
    other = halves if panel.pairing.adjacent else neighbours
    turns = [other[0] * np.exp(1j * r.query_position * theta), other[1] * np.exp(1j * r.key_position * theta)]
    wrong = r.scale * r.factor**2 * float((turns[0] * turns[1].conj()).real.sum()) + r.rest
    assert f"{wording.number(wrong)}, off by {wording.number(wrong - scaled)}" in panel.sum_label.text()
    assert f"reordered for {'half-split' if panel.pairing.adjacent else 'adjacent'}: {wording.number(scaled)}" in (
        panel.sum_label.text()
    )
    click(window, panel.pairing, panel.pairing.cell_of(0, int(r.features[0, 0])).center().toPoint())
    assert window.session.selection.now.plane == 0
    panel.page_box.setCurrentText("planes")


# Why this number --------------------------------------------------------------------------------------------------


def test_why(window: MainWindow) -> None:
    front(window, "ledger")
    panel: WhyPanel = front(window, "why")
    twin, spec = Twin(window.session), run_of(window).specs[LAYER]
    score, weight = twin.scores(LAYER, HEAD)[QUERY, KEY], twin.weights(LAYER, HEAD)[QUERY, KEY]
    assert wording.number(weight, 4) in panel.text.toPlainText()
    sharing = [f"H{h}" for h in range(spec.heads) if h != HEAD and spec.kv_head_of(h) == spec.kv_head_of(HEAD)]
    assert f"reads kv head {spec.kv_head_of(HEAD)}" in panel.subtitle.text()
    assert all(name in panel.subtitle.text() for name in sharing)
    click(window, panel.fold_q)
    assert f"q = [{wording.number(float(twin.q(LAYER, HEAD)[QUERY, 0]))}" in panel.text.toPlainText()
    click(window, panel.fold_q)
    click(window, panel.fold_k)
    assert f"k = [{wording.number(float(twin.k(LAYER, HEAD)[KEY, 0]))}" in panel.text.toPlainText()
    click(window, panel.fold_k)
    click(window, panel.copy_button)
    copied = dict(line.split(" = ") for line in QApplication.clipboard().text().splitlines())
    assert float(copied["weight"]) == pytest.approx(weight, abs=1e-5)

    click(window, panel.fold_levels)
    assert panel.arithmetic is not None
    line, levels = panel.arithmetic.line, panel.levels
    assert levels.topLevelItemCount() == len(panel.arithmetic.stages) == 9
    numbers = {
        "score.dot": twin.dots(LAYER, HEAD)[QUERY, KEY],
        "score.scaled": twin.scaled(LAYER, HEAD)[QUERY, KEY],
        "score.masked": score,
        "softmax.weight": weight,
    }
    for key, number in numbers.items():
        assert line(key).value == pytest.approx(number, abs=1e-4)
        item = levels.item_of(key)
        assert item is not None
        assert read(item.text(2)) == pytest.approx(number, abs=2e-3)
    assert ("score.capped" in [one.key for stage in panel.arithmetic.stages for one in stage.lines]) == bool(spec.cap)
    assert np.allclose(cast("Any", line("softmax.row").vector), twin.weights(LAYER, HEAD)[QUERY], atol=1e-5)
    assert np.allclose(cast("Any", line("softmax.z").vector), twin.z(LAYER, HEAD)[QUERY], atol=1e-4)
    assert line("logit.0").symbol.split()[1] == str(int(twin.logits(QUERY).argmax()))
    click(window, panel.fold_levels)


def test_why_for_a_decoded_row(window: MainWindow) -> None:
    session, prefill = window.session, run_of(window).prefill
    session.timeline.run_to(prefill + 2)
    snapshot.wait_until_drawn(window)
    query, key = prefill + 1, prefill
    session.selection.update(layer=LAYER, head=HEAD, query=query, key=key)
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    assert panel.arithmetic is not None
    twin, line = Twin(session), panel.arithmetic.line
    assert line("score.scaled").value == pytest.approx(twin.scaled(LAYER, HEAD)[query, key], abs=1e-4)
    assert line("softmax.weight").value == pytest.approx(twin.weights(LAYER, HEAD)[query, key], abs=1e-5)
    assert np.allclose(cast("Any", line("softmax.z").vector), twin.z(LAYER, HEAD)[query], atol=1e-4)
    planes = [line(f"score.plane.{i}").value for i in range(len(twin.features(LAYER)))]
    assert np.allclose(cast("Any", planes), twin.shares(LAYER, HEAD, query, key), atol=1e-4)
    assert line("logit.0").symbol.split()[1] == str(int(twin.logits(query).argmax()))
    click(window, panel.fold_levels)


def test_every_line_copies_and_shows_where_it_lives(window: MainWindow) -> None:
    ledger = front(window, "ledger")
    rows = {row.entry.key for row in ledger.model.rows}
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    levels, selection = panel.levels, window.session.selection
    arithmetic = panel.arithmetic
    assert arithmetic is not None
    lines = [line for stage in arithmetic.stages for line in stage.lines]
    assert len({line.key for line in lines}) == len(lines)
    for line in lines:
        item = levels.item_of(line.key)
        assert item is not None
        levels.setCurrentItem(item)
        hover = selection.hover
        assert hover == places.lit(line.place, line.key, selection.now)
        assert hover.operation in rows, line.key
        assert ledger.model.pointed == hover.operation
        assert places.panel_of(line.place) in window.panels, line.place
        QTest.keyClick(levels, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        name, _, numbers = QApplication.clipboard().text().partition(" = ")
        assert name == line.key
        parts = numbers.split("  ")
        if line.value is not None and np.isfinite(line.value):
            assert ast.literal_eval(parts[0]) == line.value
        if line.vector is not None and np.isfinite(line.vector).all():
            assert np.array_equal(ast.literal_eval(parts[-1]), line.vector)
            assert item.childCount() == -(-len(line.vector) // 8)
            assert not item.isExpanded(), "a long vector is folded"
    place = levels.item_of("softmax.weight")
    assert place is not None
    levels.setCurrentItem(place)
    press(window, levels, Qt.Key.Key_Return)
    assert window.panels["ledger"].on_screen
    slot = levels.item_of("rotate.k")
    assert slot is not None
    levels.setCurrentItem(slot)
    press(window, levels, Qt.Key.Key_Return)
    cache = cast("CachePanel", window.panels["cache"])
    assert cache.on_screen
    assert cache.slabs.slot == ("K", LAYER, run_of(window).specs[LAYER].kv_head_of(HEAD))
    assert cache.slabs.pointed == KEY
    click(window, panel.fold_levels)


# Experiments ------------------------------------------------------------------------------------------------------


def test_experiments(window: MainWindow) -> None:
    panel: ExperimentsPanel = front(window, "experiments")
    before, config = Twin(window.session), run_of(window).config
    kv, group = config.kv_head_of(HEAD), config.heads // config.kv_heads
    exercised = {"reverse", "shuffle", "swap", "order"}  # in a test of their own

    def toggled(name: str) -> tuple[tuple[Experiment, ...], Twin]:
        """Click a button; the proof and every check of the ledger have to hold with the experiment on."""
        exercised.add(name)
        click(window, panel.buttons[name])
        active = window.session.experiments.now
        assert [chip.text() for chip in panel.active_chips] == [f"{one.label}  ×" for one in active]
        assert window.session.proofs.check is not None
        assert window.session.proofs.check.holds
        prefill, _ = answer(window, AskLedger(LAYER))
        assert [entry.key for entry in prefill.failed] == []
        twin = Twin(window.session)
        row = window.session.selection.now.query
        assert f"entropy {wording.number(twin.entropy(LAYER, HEAD, row))} nats" in panel.effect.text()
        return window.session.experiments.now, twin

    def without() -> None:
        click(window, panel.clear_button)
        assert panel.active_chips == ()
        assert np.allclose(Twin(window.session).scores(LAYER, HEAD), before.scores(LAYER, HEAD), atol=1e-5)

    scale = before.specs[0].scale
    _, twin = toggled("no_scale")
    assert np.allclose(twin.scaled(0, HEAD), before.scaled(0, HEAD) / scale, rtol=1e-4, atol=1e-3)
    assert wording.number(before.entropy(LAYER, HEAD, QUERY)) in panel.effect.text()
    click(window, panel.undo_button)
    assert window.session.experiments.now == ()
    panel.factor.setValue(3.0)
    _, twin = toggled("factor")
    assert np.allclose(twin.scaled(0, HEAD), 3 * before.scaled(0, HEAD), rtol=1e-4, atol=1e-3)
    without()
    _, twin = toggled("rope_off")
    assert not twin.frequencies(LAYER, QUERY).any()
    panel.base.setValue(500.0)
    _, twin = toggled("base")
    planes = run_of(window).specs[LAYER].rotary_width // 2
    assert np.allclose(twin.frequencies(LAYER, QUERY), 500.0 ** (-np.arange(planes) / planes), rtol=1e-5)
    assert len(window.session.experiments.now) == 1, "a rotation replaces a rotation"
    without()
    panel.scaling.setCurrentText("linear")
    panel.stretch.setValue(2.0)
    _, twin = toggled("stretch")
    assert np.allclose(2 * twin.frequencies(LAYER, QUERY), before.frequencies(LAYER, QUERY), rtol=1e-5)
    without()
    _, twin = toggled("no_mask")
    assert twin.weights(LAYER, HEAD)[3, 5] > 0
    assert window.session.experiments.now == (NoCausalMask(),)
    without()

    toggled("zero")
    assert not np.any(arithmetic_of(window).line("softmax.z").vector)
    without()
    (made,), _ = toggled("mean")
    assert isinstance(made, AblateHeads)
    assert np.allclose(made.means[0], before.z(LAYER, HEAD).mean(0), atol=1e-4)
    assert np.allclose(arithmetic_of(window).line("softmax.z").vector, made.means[0], atol=1e-6)
    without()
    experiments, _ = toggled("group")
    assert experiments == (AblateHeads(LAYER, tuple(range(kv * group, (kv + 1) * group))),)
    without()
    window.session.selection.update(plane=1)
    snapshot.wait_until_drawn(window)
    _, twin = toggled("plane")
    shares = twin.shares(LAYER, HEAD, QUERY, KEY)
    assert shares[1] == 0
    assert shares[0] == pytest.approx(before.shares(LAYER, HEAD, QUERY, KEY)[0], abs=1e-4)
    without()
    (made,), twin = toggled("plane_mean")
    assert isinstance(made, AblatePlane)
    pair = before.features(LAYER)[1]
    assert np.allclose(made.mean, before.q(LAYER, HEAD)[:, pair].mean(0), atol=1e-5)
    share = before.specs[LAYER].scale * float(np.array(made.mean) @ before.k(LAYER, HEAD)[KEY, pair])
    assert twin.shares(LAYER, HEAD, QUERY, KEY)[1] == pytest.approx(share, abs=1e-4)
    without()
    (made,), _ = toggled("group_mean")
    assert isinstance(made, AblateHeads)
    assert made.heads == tuple(range(kv * group, (kv + 1) * group))
    assert np.allclose(made.means[-1], before.z(LAYER, made.heads[-1]).mean(0), atol=1e-4)
    without()
    if config.kv_heads > 1:
        other = config.kv_heads - 1 if kv == 0 else 0
        panel.kv_head.setValue(other)
        _, twin = toggled("kv")
        assert arithmetic_of(window).kv_head == other
        expected = before.specs[LAYER].scale * before.q(LAYER, HEAD) @ before.k(LAYER, other * group).T
        assert np.allclose(twin.scaled(LAYER, HEAD), expected, atol=1e-3)
        without()
    else:
        assert not panel.buttons["kv"].isEnabled()
        exercised.add("kv")
    panel.heads.setText(f"0, 2-{config.heads - 1}")
    experiments, _ = toggled("heads")
    assert experiments == (AblateHeads(LAYER, (0, *range(2, config.heads))),)
    without()
    (made,), _ = toggled("heads_mean")
    assert isinstance(made, AblateHeads)
    assert np.allclose(made.means[0], before.z(LAYER, 0).mean(0), atol=1e-4)
    without()
    experiments, _ = toggled("all_heads")
    assert experiments == (AblateHeads(LAYER, tuple(range(config.heads))),)
    assert not np.any(arithmetic_of(window).line("output.concat").vector)
    without()
    experiments, _ = toggled("mlp")
    assert experiments == (AblateMlp(LAYER),)
    read_again = arithmetic_of(window)
    assert not np.any(read_again.line("mlp.out").vector)
    assert np.array_equal(
        cast("Any", read_again.line("residual.second").vector), read_again.line("residual.first").vector
    )
    without()
    (made,), _ = toggled("mlp_mean")
    assert isinstance(made, AblateMlp)
    assert np.allclose(arithmetic_of(window).line("mlp.out").vector, made.mean, atol=1e-6)
    without()
    assert exercised == set(panel.buttons)


def test_experiments_go_on_while_decoding(window: MainWindow) -> None:
    panel: ExperimentsPanel = front(window, "experiments")
    prefill = run_of(window).prefill
    panel.factor.setValue(0.5)
    for name in ("factor", "zero", "rope_off"):
        click(window, panel.buttons[name])
    press(window, window, Qt.Key.Key_Right, 2)
    assert run_of(window).length == prefill + 2
    assert len(window.session.experiments.now) == 3
    assert window.session.proofs.check is not None
    assert window.session.proofs.check.holds
    assert window.session.proofs.check.rows == prefill + 2
    row = prefill + 1
    window.session.selection.update(layer=LAYER, head=HEAD, query=row, key=prefill)
    snapshot.wait_until_drawn(window)
    assert not np.any(arithmetic_of(window).line("softmax.z").vector)
    for ledger in answer(window, AskLedger(LAYER)):
        assert [entry.key for entry in ledger.failed] == []
        assert all(entry.check.passed for entry in ledger.entries if entry.check is not None)
    decoded = [token.id for token in run_of(window).tokens[prefill:]]
    click(window, panel.undo_button)
    assert len(window.session.experiments.now) == 2
    assert [token.id for token in run_of(window).tokens[prefill:]] == decoded, "an experiment keeps what was decoded"
    assert not np.allclose(Twin(window.session).frequencies(LAYER, row), 0)
    click(window, panel.clear_button)
    assert window.session.proofs.check is not None
    assert window.session.proofs.check.holds


def test_the_prompt_in_another_order(window: MainWindow) -> None:
    panel: ExperimentsPanel = front(window, "experiments")
    ids = [token.id for token in run_of(window).tokens]

    def order() -> list[int]:
        return [token.id for token in run_of(window).tokens]

    click(window, panel.buttons["reverse"])
    assert order() == ids[::-1]
    click(window, panel.buttons["shuffle"])
    (made,) = window.session.experiments.now
    assert isinstance(made, PermuteTokens)
    assert order() == [ids[row] for row in made.order]
    window.session.selection.update(query=QUERY, key=KEY)
    click(window, panel.buttons["swap"])
    swapped = [*ids]
    swapped[QUERY], swapped[KEY] = ids[KEY], ids[QUERY]
    assert order() == swapped
    panel.order.setText("2, 0, 1")
    click(window, panel.buttons["order"])
    assert order() == [ids[2], ids[0], ids[1], *ids[3:]]
    click(window, panel.active_chips[0])
    assert order() == ids


# Compare ----------------------------------------------------------------------------------------------------------


def test_compare(window: MainWindow, whole: tuple[MainWindow, Subject]) -> None:
    panel: ComparePanel = front(window, "compare")
    assert "Nothing is pinned" in panel.notice.text()
    a = Twin(window.session)
    click(window, panel.pin_button)
    window.session.experiments.apply((AblateHeads(0, (0,)),))
    snapshot.wait_until_drawn(window)
    b, difference = Twin(window.session), panel.difference
    assert difference is not None
    seen = np.isfinite(a.scores(LAYER, HEAD))
    assert np.array_equal(np.isfinite(difference.weights), seen)
    assert np.allclose(difference.weights[seen], (b.weights(LAYER, HEAD) - a.weights(LAYER, HEAD))[seen], atol=1e-4)
    assert np.allclose(difference.scores[seen], (b.scores(LAYER, HEAD)[seen] - a.scores(LAYER, HEAD)[seen]), atol=1e-3)
    assert panel.scores.levels.low == -panel.scores.levels.high
    last = run_of(window).length - 1
    p, q = a.probabilities(last), b.probabilities(last)
    forward, backward = float((p * np.log(p / q)).sum()), float((q * np.log(q / p)).sum())
    assert f"KL(A‖B) {wording.number(forward)}, KL(B‖A) {wording.number(backward)} nats" in panel.sentence.text()
    assert panel.next_token is not None
    for change in panel.next_token.changes:
        assert change.before == pytest.approx(p[change.token.id], abs=1e-5)
        assert change.after == pytest.approx(q[change.token.id], abs=1e-5)
    click(window, panel.weights, panel.weights.cell_rect(6, 4).center().toPoint())
    assert (window.session.selection.now.query, window.session.selection.now.key) == (6, 4)

    window.session.experiments.apply(())
    snapshot.wait_until_drawn(window)
    window.session.start(whole[1].other)
    snapshot.wait_until_drawn(window)
    b, difference = Twin(window.session), panel.difference
    assert difference is not None
    gaps = [(of_a, of_b) for of_a, of_b in difference.rows if of_a is None or of_b is None]
    assert gaps
    assert f"{len(gaps)} row" in panel.subtitle.text()
    assert any(label.startswith((wording.MINUS, "+")) for label in panel.scores._labels)
    for place, (of_a, of_b) in enumerate(difference.rows):
        if of_a is None or of_b is None:
            assert not np.isfinite(difference.weights[place]).any()
        else:
            assert a.run.tokens[of_a].id == b.run.tokens[of_b].id
            expected = b.weights(LAYER, HEAD)[of_b, of_b] - a.weights(LAYER, HEAD)[of_a, of_a]
            assert difference.weights[place, place] == pytest.approx(expected, abs=1e-4)
    click(window, panel.unpin_button)
    assert "Nothing is pinned" in panel.notice.text()


# Needed heads -----------------------------------------------------------------------------------------------------


def test_needs(window: MainWindow, qtbot: QtBot) -> None:
    panel: NeedsPanel = front(window, "needs")
    twin, config = Twin(window.session), run_of(window).config
    token = int(twin.logits(QUERY).argmax())
    assert panel.token_id == token
    direct = panel.attribution
    assert direct is not None
    parts = float(direct.heads.sum() + direct.mlps.sum()) + direct.embedding + direct.rest
    assert parts == pytest.approx(direct.logit, abs=1e-3)
    assert np.allclose(panel.direct.number(LAYER, HEAD), direct.heads[LAYER, HEAD], atol=1e-5)
    second = 1
    panel.token.setCurrentIndex(second)
    panel.token.activated.emit(second)
    snapshot.wait_until_drawn(window)
    assert panel.attribution is not None
    assert panel.attribution.token == panel.token_id != token
    told: list[str] = []
    window.session.progress_changed.connect(lambda progress: told.append(panel.run_button.text()))
    QTest.mouseClick(panel.run_button, Qt.MouseButton.LeftButton)
    if config.layers * config.heads > FEW_HEADS:
        qtbot.waitUntil(lambda: any(text.startswith("Cancel (") for text in told), timeout=60_000)
        assert told[-1].endswith(f"of {config.layers * config.heads})")
    click(window, panel.run_button)
    assert panel.needs is None
    assert panel.run_button.text() == "Ablate each head"
    if config.layers * config.heads <= FEW_HEADS:
        check_ablation(window)


@pytest.mark.slow
def test_every_head_of_many_is_ablated(window: MainWindow) -> None:
    config = run_of(window).config
    if config.layers * config.heads <= FEW_HEADS:
        pytest.skip("the ordinary run does that already")
    check_ablation(window)


def check_ablation(window: MainWindow) -> None:
    """Ablate every head in turn, and run without the one that is needed most."""
    panel: NeedsPanel = front(window, "needs")
    twin, config = Twin(window.session), run_of(window).config
    click(window, panel.run_button)
    needs = panel.needs
    assert needs is not None
    assert needs.change.shape == (config.layers, config.heads)
    layer, head = divmod(int(needs.change.argmin()), config.heads)
    assert wording.head_name(layer, head) in panel.sentence.text()
    click(window, panel.ablated, panel.ablated.cell_of(layer, head).center().toPoint())
    assert (window.session.selection.now.layer, window.session.selection.now.head) == (layer, head)
    window.session.experiments.apply((AblateHeads(layer, (head,)),))
    snapshot.wait_until_drawn(window)
    changed = Twin(window.session).logits(QUERY)[needs.token] - twin.logits(QUERY)[needs.token]
    assert needs.change[layer, head] == pytest.approx(changed, abs=1e-3)


# The cache over time ----------------------------------------------------------------------------------------------


def test_timeline(window: MainWindow) -> None:
    session, prefill = window.session, run_of(window).prefill
    session.timeline.run_to(prefill + 4)
    snapshot.wait_until_drawn(window)
    front(window, "scores")
    panel: TimelinePanel = front(window, "timeline")
    tokens = [token.id for token in run_of(window).tokens]
    whole = Twin(session)
    click(window, panel.steps, panel.steps.cell_of(prefill + 2).center().toPoint())
    assert run_of(window).length == prefill + 2
    for name in ("tokens", "scores"):
        assert f"{prefill + 2}" in window.panels[name].subtitle.text()
    assert np.allclose(
        Twin(session).weights(LAYER, HEAD), whole.weights(LAYER, HEAD)[: prefill + 2, : prefill + 2], atol=1e-9
    )
    size = kv_bytes(run_of(window).config, prefill + 2, "float32")
    assert f"{size:,} bytes" in panel.subtitle.text()
    panel.steps.setFocus()
    press(window, panel.steps, Qt.Key.Key_Left)
    assert run_of(window).length == prefill + 1
    expected = np.argsort(-Twin(session).probabilities(prefill - 1))
    offered = [int(panel.token.itemData(i)) for i in range(panel.token.count())]
    assert offered[:3] == [int(one) for one in expected if one != tokens[prefill]][:3]
    panel.token.setCurrentIndex(1)
    click(window, panel.branch_button)
    run = run_of(window)
    assert (run.length, run.newest) == (prefill + 1, prefill + 1)
    assert [token.id for token in run.tokens] == [*tokens[:prefill], offered[1]]
    assert session.proofs.check is not None
    assert session.proofs.check.holds
    press(window, window, Qt.Key.Key_Right)
    assert run_of(window).length == prefill + 2
    click(window, panel.steps, panel.steps.cell_of(prefill).center().toPoint())
    assert not panel.branch_button.isVisible()


def test_cache(window: MainWindow) -> None:
    panel: CachePanel = front(window, "cache")
    panel.page_box.setCurrentText("contents")
    snapshot.wait_until_drawn(window)
    session, config, slabs = window.session, run_of(window).config, panel.slabs
    prefill = run_of(window).prefill
    for length in (prefill + 1, prefill + 2):
        session.timeline.run_to(length)
        snapshot.wait_until_drawn(window)
    twin = Twin(session)
    for side, rows in zip(SIDES, (twin.trace.keys, twin.trace.values), strict=True):
        kv_head, position = config.kv_heads - 1, prefill + 1
        centre = slabs.slot_box(side, LAYER, kv_head, position).center()
        point = QPointF(int(centre.x()), int(centre.y()))
        assert slabs.at(point) == (LAYER, position)
        found = slabs.feature_at(point)
        assert found is not None
        assert found[0] == side
        if slabs.slab(side, LAYER).height() >= 8 * config.kv_heads:  # else a pixel stands for several rows
            assert found[1] == kv_head
        value = float(rows[LAYER].tensor[0, found[1], position, found[2]])
        assert f"feature {found[2]} = {wording.number(value, 4)}" in slabs.told(LAYER, position, found)
    click(window, slabs, slabs.column_box("V", 1, 4).center().toPoint())
    assert (session.selection.now.layer, session.selection.now.key) == (1, 4)
    window_of = config.window_of(LAYER)
    hidden = 0 if window_of is None else prefill + 2 - window_of
    assert int((~slabs.visible(LAYER)).sum()) == hidden
    assert (f"{hidden} rows out of the window" in panel.subtitle.text()) == bool(hidden)

    each = 2 * config.layers * config.kv_heads * config.head_width * 4
    assert panel.growth.measured == {n: n * each for n in (prefill, prefill + 1, prefill + 2)}
    assert f"{(prefill + 2) * each:,} bytes" in panel.subtitle.text()
    panel.page_box.setCurrentText("bytes by step")
    sizes = ", ".join(wording.byte_size((prefill + 2) * each * bits // 32) for bits in (16, 8, 4))
    assert panel.growth.in_bits() == f"in 16, 8 and 4 bits: {sizes}"
    assert panel.growth.in_bits() in panel.growth.accessibleDescription()
    for heads in (1, config.heads):
        assert panel.growth.formula(prefill + 2, heads) == (prefill + 2) * each * heads // config.kv_heads
    panel.page_box.setCurrentText("planner")
    panel.planner.context.setValue(40)
    panel.planner.batch.setValue(3)
    rows = {row.name: row.bytes for row in panel.planner.bars.rows}
    assert next(size for name, size in rows.items() if name.endswith("(here)")) == 3 * 40 * each
    assert rows["4 bits a number"] == kv_bytes_at_bits(config, 40, 4, 3) == 3 * 40 * each // 8
    assert ("within the windows, float32" in rows) == (config.window_of(0) is not None)
    panel.page_box.setCurrentText("contents")


def test_experts(window: MainWindow) -> None:
    panel: RoutingPanel = front(window, "routing")
    config = run_of(window).config
    if config.moe is None:
        assert panel.notice.text().startswith("This model is dense")
        return
    assert panel.routing is not None
    twin, line = Twin(window.session), arithmetic_of(window).line
    router = twin.model.block(LAYER).mlp.router.weight.detach().double().numpy()
    logits = router @ cast("Any", line("mlp.normed").vector)
    share = np.exp(logits - logits.max())
    share /= share.sum()
    chosen = np.argsort(-share)[: config.moe.per_token]
    for expert in range(config.moe.experts):
        assert panel.map.number(QUERY, expert) == pytest.approx(share[expert], abs=1e-5)
        assert ((QUERY, expert) in panel.map.taken) == (expert in chosen)
    assert all(f"expert {expert}" in line("mlp.router").substituted for expert in chosen)
    counts = np.bincount(panel.routing.chosen.ravel(), minlength=config.moe.experts)
    assert counts.sum() == config.moe.per_token * run_of(window).length
    assert f"0: {counts[0]}, 1: {counts[1]}" in panel.load.text()
    click(window, panel.map, panel.map.cell_of(5, 1).center().toPoint())
    assert window.session.selection.now.query == 5


# Proof ------------------------------------------------------------------------------------------------------------


def test_the_proofs_hold_and_a_corrupted_row_raises_the_alarm(window: MainWindow) -> None:
    session = window.session
    session.timeline.run_to(run_of(window).prefill + 1)
    snapshot.wait_until_drawn(window)
    click(window, window.status.check)
    panel = cast("CachePanel", window.panels["cache"])
    assert panel.on_screen
    assert panel.page_box.currentText() == "proof"
    for kind, words in (("cached", "cached = full within"), ("branches", "fused = explicit within")):
        click(window, panel.proof.buttons[cast("Any", kind)])
        assert panel.proof.labels[cast("Any", kind)].text().startswith(words)
    assert session.proofs.branches is not None
    assert session.proofs.branches.holds
    assert session.proofs.branches.past > 0
    assert session.proofs.branches.padded > 0
    assert len(session.proofs.branches.layers) == run_of(window).config.layers
    assert not window.failure.isVisible()

    held = session.held
    assert held is not None
    held.trace.keys[LAYER].tensor[:, :, 13] += 40.0
    press(window, window, Qt.Key.Key_Right)
    assert session.proofs.check is not None
    assert session.proofs.check.alarms
    assert f"from layer {LAYER} on" in window.status.check.text()
    assert window.failure.isVisible()
    assert f"It begins in layer {LAYER}: the cached K of row 13" in window.failure.sentence.text()
    assert panel.proof.labels["cached"].property("tone") == "bad"
    gaps = panel.proof.gaps["cached"].proof
    assert gaps is not None
    assert all(gap.difference <= gaps.layer_tolerance for gap in gaps.layers[:LAYER])
    window.session.start(run_of(window).prompt)
    snapshot.wait_until_drawn(window)
    assert not window.failure.isVisible()
    panel.page_box.setCurrentText("contents")


def test_a_branch_that_is_wrong_raises_the_alarm(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = attention.BRANCHES["explicit"]

    def wrong(q: Any, k: Any, v: Any, rule: Any, **more: Any) -> Any:
        result = right(q, k, v, rule, **more)
        return replace(result, out=result.out.roll(1, dims=-1)) if rule.layer == LAYER else result

    monkeypatch.setitem(attention.BRANCHES, "explicit", wrong)
    window.show_proofs()
    panel = cast("CachePanel", window.panels["cache"])
    click(window, panel.proof.buttons["branches"])
    proof = window.session.proofs.branches
    assert proof is not None
    assert proof.alarms
    assert window.failure.isVisible()
    assert f"It begins in layer {LAYER}: the stream after row" in window.failure.sentence.text()
    assert panel.proof.labels["branches"].text().startswith(f"fused ≠ explicit from layer {LAYER} on")
    monkeypatch.setitem(attention.BRANCHES, "explicit", right)
    click(window, panel.proof.buttons["branches"])
    assert not window.failure.isVisible()
    panel.page_box.setCurrentText("contents")
