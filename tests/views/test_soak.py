"""A tenth of the soak (``make soak``): a hundred random actions in the real window over the real session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests import soak

ACTIONS = 100


def test_what_grows_is_told_from_what_warms_up_and_from_what_comes_and_goes() -> None:
    warming = [200.0, 240.0, *[250.0] * 18]
    assert soak.growth(warming) == 0
    assert soak.growth([value + 30 * (place % 4 == 0) for place, value in enumerate(warming)]) == 0
    assert soak.growth([value + place for place, value in enumerate(warming)]) > soak.FLAT  # 12 of 250
    assert soak.growth([7.0]) == soak.growth([0.0] * 20) == 0


@pytest.mark.slow
def test_a_hundred_actions_break_nothing_and_leave_nothing(qtbot: QtBot, tmp_path: Path) -> None:
    soak.write_files(tmp_path)
    with soak.soaked_window(tmp_path) as window:
        report = soak.soak(window, ACTIONS, seed=2766, kill_every=50, homes=2, say=lambda line: None)
    told = "\n".join(report.lines())
    assert not report.faults, told
    first, last = report.measurements
    assert (first.files, first.widgets) == (last.files, last.widgets), told
    assert report.done.total() == ACTIONS
    for name in ("runs and lengths", "models", "selections", "interventions", "baselines", "lessons", "saved files"):
        assert report.heard[name], f"nothing of {name}: {told}"
