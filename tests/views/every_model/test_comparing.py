"""Two runs side by side, and the heads that a token needs, on every model.

Numbers are checked against ``tests.views.twin``, numpy over the arrays that the session holds.
"""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.compare import ComparePanel
from ropewalk.views.panels.needs import NeedsPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import wording
from tests.views.driving import click, front, run_of
from tests.views.every_model.models import FEW_HEADS, HEAD, LAYER, QUERY, Subject
from tests.views.shown_numbers import assert_shown
from tests.views.twin import Twin

# Compare ----------------------------------------------------------------------------------------------------------


def test_compare(window: MainWindow, whole: tuple[MainWindow, Subject]) -> None:
    panel: ComparePanel = front(window, "compare")
    assert "Nothing is pinned" in panel.notice.text()
    a = Twin(window.session)
    click(window, panel.pin_button)
    window.session.interventions.apply((AblateHeads(0, (0,)),))
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
    assert_shown(panel.sentence.text(), "KL(A‖B) {}, KL(B‖A) {} nats", forward, backward)
    assert panel.next_token is not None
    for change in panel.next_token.changes:
        assert change.before == pytest.approx(p[change.token.id], abs=1e-5)
        assert change.after == pytest.approx(q[change.token.id], abs=1e-5)
    click(window, panel.weights.viewport(), panel.weights.cell_rect(6, 4).center().toPoint())
    assert (window.session.selection.now.query, window.session.selection.now.key) == (6, 4)

    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)
    window.session.start(Prompt(whole[1].other))
    snapshot.wait_until_drawn(window)
    b, difference = Twin(window.session), panel.difference
    assert difference is not None
    gaps = [(of_a, of_b) for of_a, of_b in difference.rows if of_a is None or of_b is None]
    assert gaps
    assert f"{len(gaps)} row" in panel.subtitle.text()
    assert any(label.startswith((wording.MINUS, "+")) for label in panel.scores.rows_axis.names)
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
    texts: list[str] = []
    window.session.progress_changed.connect(lambda progress: texts.append(panel.run_button.text()))
    QTest.mouseClick(panel.run_button, Qt.MouseButton.LeftButton)
    if config.layers * config.heads > FEW_HEADS:
        qtbot.waitUntil(lambda: any(text.startswith("Cancel (") for text in texts), timeout=60_000)
        assert texts[-1].endswith(f"of {config.layers * config.heads})")
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
    window.session.interventions.apply((AblateHeads(layer, (head,)),))
    snapshot.wait_until_drawn(window)
    changed = Twin(window.session).logits(QUERY)[needs.token] - twin.logits(QUERY)[needs.token]
    assert needs.change[layer, head] == pytest.approx(changed, abs=1e-3)
