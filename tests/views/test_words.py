"""Every button and field says what it does, and nothing on screen is a word that only its author knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QScrollBar,
    QTabBar,
    QWidget,
)

from ropewalk.model.decoder.interventions import AblateHeads, RopeOff
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.charts.plot import Plot
from ropewalk.views.style import wording
from tests.views.driving import click, front, opened_window, run_of

OPAQUE = {"→ mean", "ids", "bundled", "Needed heads", "skip token 0", "logit without the head"}


@pytest.fixture(scope="module")
def window(qapp: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    with opened_window(tmp_path_factory.mktemp("words"), None, " The cat sat. The cat sat.") as made:
        for panel in list(made.cards):
            made.cards[panel].make_panel()
        yield made


def buttons(window: MainWindow) -> list[QAbstractButton]:
    """All of the window, but for the arrows that Qt itself puts beside tabs and into fields."""
    every = window.findChildren(QAbstractButton)
    qts = ("QTableCornerButton", "QToolBarExtension")
    return [
        one
        for one in every
        if not isinstance(one.parent(), QTabBar | QScrollBar) and one.metaObject().className() not in qts
    ]


def test_every_button_has_a_tooltip_that_says_more_than_its_name(window: MainWindow) -> None:
    found = buttons(window)
    assert len(found) > 60
    silent = [
        f"{type(one.parent()).__name__}: {one.text() or one.accessibleName()!r}"
        for one in found
        if len(one.toolTip()) <= len(one.text()) or " " not in one.toolTip()
    ]
    assert silent == []


def fields(window: MainWindow) -> list[QWidget]:
    """What a number, a choice or a text is put into."""
    kinds = (QAbstractSpinBox, QAbstractSlider, QComboBox, QLineEdit)
    own = (QAbstractSpinBox, QComboBox)  # which have a line of their own
    return [
        one
        for one in window.findChildren(QWidget)
        if isinstance(one, kinds) and not isinstance(one, QScrollBar) and not isinstance(one.parent(), own)
    ]


def test_every_field_says_what_it_is_for_and_takes_the_keys(window: MainWindow) -> None:
    found = fields(window)
    assert len(found) > 30
    silent = [f"{type(one.parent()).__name__}: {one.accessibleName()!r}" for one in found if " " not in one.toolTip()]
    assert silent == []
    out_of_reach = [one.accessibleName() for one in found if not one.focusPolicy() & Qt.FocusPolicy.TabFocus]
    assert out_of_reach == []


def test_whatever_takes_the_keys_has_a_name(window: MainWindow) -> None:
    named = (*fields(window), *buttons(window), *window.findChildren(Plot))
    nameless = [
        f"{type(one).__name__} in {type(one.parent()).__name__}"
        for one in named
        if one.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not (one.accessibleName() or (isinstance(one, QAbstractButton) and one.text()))
    ]
    assert nameless == []


def test_no_button_and_no_title_is_an_authors_word(window: MainWindow) -> None:
    said = {one.text() for one in buttons(window)} | {panel.title for panel in window.panels.values()}
    assert not said & OPAQUE
    assert "built-in model" in window.bar.checkpoint.text()
    assert window.status.facts.text().startswith("built-in model · ")


def test_every_negative_number_has_a_minus_sign(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    write, write_laid_out = QPainter.drawText, QPainter.drawStaticText

    def draw_text(painter: QPainter, *given: Any) -> Any:
        said.extend(part for part in given if isinstance(part, str))
        return write(painter, *given)

    def draw_static_text(painter: QPainter, *given: Any) -> Any:
        said.append(given[-1].text())
        return write_laid_out(painter, *given)

    monkeypatch.setattr(QPainter, "drawText", draw_text)
    monkeypatch.setattr(QPainter, "drawStaticText", draw_static_text)
    for panel in window.panels:
        front(window, panel)
        window.grab()
        said += [label.text() for label in window.findChildren(QLabel) if label.isVisible()]
    assert sum(wording.MINUS in text for text in said) > 20
    assert {text for text in said if re.search(r"(?<![\w-])-\.?\d", text)} == set()


def test_after_a_step_the_time_is_that_of_the_step(window: MainWindow) -> None:
    assert f"prefill of {run_of(window).prefill} tokens in " in window.status.facts.text()
    window.session.timeline.step()
    snapshot.wait_until_drawn(window)
    assert "last step in " in window.status.facts.text()
    assert "prefill" not in window.status.facts.text()


def test_maps_that_stay_say_why(window: MainWindow) -> None:
    panel = front(window, "scores")
    window.session.selection.update(layer=1, head=2)
    window.session.interventions.apply((AblateHeads(1, (2,)),))
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text().startswith("L1H2 is changed after softmax; its scores and weights stay.")
    for layer, starts in ((0, "The changes come after the scores of layer 0"), (2, "")):
        window.session.selection.update(layer=layer, head=2)
        snapshot.wait_until_drawn(window)
        assert panel.unchanged.text().startswith(starts)
        assert panel.unchanged.isVisible() == bool(starts)
    window.session.interventions.apply((RopeOff(), AblateHeads(1, (2,))))
    window.session.selection.update(layer=1, head=2)
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text() == "", "without RoPE its scores do change"
    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)


def test_differences_that_are_none_say_why(window: MainWindow) -> None:
    panel = front(window, "compare")
    window.session.selection.update(layer=1, head=2)
    snapshot.wait_until_drawn(window)
    click(window, panel.pin_button)
    assert panel.unchanged.text() == ""
    window.session.interventions.apply((AblateHeads(1, (2,)),))
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text() == "L1H2 is changed after softmax; its scores and weights stay."
    assert panel.unchanged.isVisible()
    window.session.selection.update(layer=2)
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text() == "", "the layer after it is another"
    window.session.interventions.apply((AblateHeads(1, (2,)), AblateHeads(2, (2,))))
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text() == "", "the differences are there to see"
    click(window, panel.pin_button)
    window.session.interventions.apply((AblateHeads(1, (2,)),))
    snapshot.wait_until_drawn(window)
    assert panel.unchanged.text() == "", "that is of a model, and not of two that were changed"
    click(window, panel.unpin_button)
    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)


def test_amounts_stand_apart_from_their_units() -> None:
    assert [wording.amount(n, "FLOPs") for n in (0, 268, 9_999, 14_400_000)] == [
        "0 FLOPs", "268 FLOPs", "9,999 FLOPs", "14.4 MFLOPs",
    ]  # fmt: skip
    assert [wording.model_name(name) for name in ("bundled", "SmolLM2")] == ["built-in model", "SmolLM2"]
