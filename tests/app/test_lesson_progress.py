"""The learner's progress file: what comes back, and what is kept aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.lesson_progress import LearnerProgress, ProgressStore

COUNTED = '{"version": 1, "lessons": {"a": {"checks": {"c": {"tries": 1e400, "right": 0, "last": true}}}}}'


@pytest.mark.parametrize("content", ["{", "null", "[]", "[" * 100_000, COUNTED, "\x00"])
def test_a_broken_file_is_kept_aside_and_explained(tmp_path: Path, content: str) -> None:
    path = tmp_path / "progress.json"
    path.write_text(content, encoding="utf-8")
    store = ProgressStore(path)
    assert store.now == LearnerProgress()
    assert "progress.broken.json" in store.notice
    assert (tmp_path / "progress.broken.json").read_text(encoding="utf-8") == content


def test_replies_come_back(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    store = ProgressStore(path)
    store.reach("a", 2, 5)
    store.answer("a", "c", right=True)
    again = ProgressStore(path)
    assert again.now == store.now
    assert again.lesson("a").checks["c"].right == 1
    assert again.seed("a", "c") == 1
