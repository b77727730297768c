"""The logit lens on every model: its last row is what the run says, another what numpy makes of a replayed stream."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from ropewalk.model.runs.trace import replay
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.lens import LensPanel
from ropewalk.views.plots.charts.lens_map import QUANTITIES
from ropewalk.views.style import theme
from tests.views.driving import click, front, press, run_of
from tests.views.every_model.models import HEAD, LAYER, QUERY
from tests.views.twin import Array, Twin


def test_logit_lens(window: MainWindow) -> None:
    panel: LensPanel = front(window, "lens")
    twin, run, lens_map = Twin(window.session), run_of(window), panel.map
    last = run.config.layers
    ids = [token.id for token in run.tokens]
    assert panel.lens is not None
    names = {token.id: token.text for token in panel.lens.tokens}
    for position in range(*lens_map.sight()):
        chances = twin.probabilities(position)
        assert np.isclose(lens_map.number(last, position), chances.max(), atol=1e-5)
        shown = int(panel.lens.top[last, position - panel.lens.rows[0], 0])
        assert np.isclose(chances[shown], chances.max(), atol=1e-5)
        assert lens_map.text(last, position) == theme.drawable(names[shown])
    click(window, lens_map, lens_map.cell_rect(LAYER + 1, QUERY).center().toPoint())
    now = window.session.selection.now
    assert (now.layer, now.head, now.query) == (LAYER, HEAD, QUERY)
    point = f"blocks.{LAYER}.hook_resid_post"
    stream = replay(twin.model, twin.trace, QUERY, [point]).points[point][0, 0].double().numpy()
    chances = chances_of(twin, stream)
    at = LAYER + 1, QUERY - panel.lens.rows[0]
    assert np.allclose(panel.lens.probabilities[at], np.sort(chances)[::-1][:5], atol=1e-5)
    follows = float(chances[ids[QUERY + 1]])
    panel.quantity.setFocus()
    for quantity in QUANTITIES[1:3]:
        press(window, panel.quantity, Qt.Key.Key_Down)
        assert panel.quantity.currentText() == quantity.title
    assert np.isclose(lens_map.number(LAYER + 1, QUERY), follows, atol=1e-5)
    assert "rank " in panel.more.text()
    lens_map.setFocus()
    QTest.keyClick(lens_map, Qt.Key.Key_Up)
    assert window.session.selection.now.layer == LAYER - 1


def chances_of(twin: Twin, stream: Array) -> Array:
    """The last norm (RMS in these models), the head and the softmax in numpy."""
    c, norm = twin.run.config, twin.model.norm
    assert (norm.kind, norm.bias) == ("rms", None)
    normed = stream / np.sqrt((stream**2).mean() + norm.eps) * (norm.weight.detach().double().numpy() + norm.offset)
    logits = normed @ (twin.model.embed if c.tied else twin.model.head).weight.detach().double().numpy().T
    logits = logits * c.logit_scale
    if c.logit_cap is not None:
        logits = c.logit_cap * np.tanh(logits / c.logit_cap)
    powers = np.exp(logits - logits.max())
    result: Array = powers / powers.sum()
    return result
