"""Every breakage still fits the files it breaks, so that ``make breakages`` says something."""

from __future__ import annotations

from collections import Counter

from tests.breakages import BREAKAGES
from tests.breaking import ROOT


def test_each_fits_its_file() -> None:
    for breakage in BREAKAGES:
        text = (ROOT / breakage.path).read_text(encoding="utf-8")
        broken = breakage.applied(text)
        assert broken != text, breakage.name
        compile(broken, breakage.path, "exec")
        assert breakage.tests, breakage.name
        for path in breakage.test_paths:
            assert (ROOT / path).is_file(), f"{breakage.name}: {path}"


def test_names_are_their_own() -> None:
    assert [name for name, times in Counter(one.name for one in BREAKAGES).items() if times > 1] == []
    assert len(BREAKAGES) >= 64
