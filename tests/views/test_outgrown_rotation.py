"""A rotation that outgrew its original length, in the real window: the difference is explained and is no alarm."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QApplication

from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.pictures import snapshot
from tests.model.checkpoints import reference
from tests.views.driving import click, opened_window, run_of


def test_a_long_rule_that_crossed_its_length_is_explained(qapp: QApplication, tmp_path: Path) -> None:
    case = next(case for case in reference.CASES if (case.family, case.variant) == ("llama", "longrope"))
    checkpoint = reference.save(reference.build(case), tmp_path / "long")
    with opened_window(tmp_path, str(checkpoint), "5 17 3 42 61 90 8 2 5 17", workspace="decode") as window:
        session = window.session
        session.timeline.run_to(reference.ORIGINAL)
        snapshot.wait_until_drawn(window)
        assert run_of(window).length == reference.ORIGINAL
        assert window.status.check.text().startswith("cached = full within")
        session.timeline.run_to(reference.ORIGINAL + 3)
        snapshot.wait_until_drawn(window)
        check = session.consistency.check
        assert check is not None
        assert not check.holds
        assert not check.alarms
        assert window.status.check.text().endswith("as it must")
        assert f"past {reference.ORIGINAL} positions" in window.status.check.toolTip()
        assert not window.failure.isVisible()
        click(window, window.status.check)
        panel = window.panels["cache"]
        assert isinstance(panel, CachePanel)
        click(window, panel.check.buttons["cached"])
        assert "It begins in layer 0: the cached K of row" in panel.check.labels["cached"].text()
        assert not window.failure.isVisible()
