"""Every breakage still fits the files it breaks, so that ``make breakages`` says something."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.breakages import BREAKAGES, Breakage
from tests.breaking import ROOT


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda one: one.name)
def test_fits_its_file(breakage: Breakage) -> None:
    text = (ROOT / breakage.path).read_text(encoding="utf-8")
    broken = breakage.applied(text)
    assert broken != text
    compile(broken, breakage.path, "exec")
    assert breakage.tests
    for path in breakage.test_paths:
        assert (ROOT / path).is_file(), path


def test_names_are_their_own() -> None:
    assert [name for name, times in Counter(one.name for one in BREAKAGES).items() if times > 1] == []
    assert len(BREAKAGES) >= 64
