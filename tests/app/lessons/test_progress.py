"""The learner's progress file: what comes back, what is kept aside, and what a crash leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ropewalk.app.lessons.progress import CheckRecord, LearnerProgress, LessonRecord, ProgressStore, decoded
from ropewalk.app.settings import settings_path

COUNTED = '{"version": 1, "lessons": {"a": {"checks": {"c": {"tries": 1e400, "right": 0, "last": true}}}}}'
BY_0_1_0 = """
{"version": 1, "lessons": {"a": {"step": 2, "furthest": 2, "finished": false, "checks": {"c": {"tries": 1,
"right": 1, "last": true}}}}, "challenges": ["repeat_kv"]}"""
"""A file of Ropewalk 0.1.0."""


def test_what_0_1_0_wrote_still_opens_and_is_still_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_text(BY_0_1_0, encoding="utf-8")
    store = ProgressStore(path)
    assert store.now == LearnerProgress(
        {"a": LessonRecord(2, 2, False, {"c": CheckRecord(1, 1, True)})}, ("repeat_kv",)
    )
    store.reach("a", 3, 5)
    store.reset("b")
    assert json.loads(path.read_text(encoding="utf-8"))["lessons"]["a"]["furthest"] == 3
    assert json.loads(path.read_text(encoding="utf-8")).keys() == json.loads(BY_0_1_0).keys()


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


def test_progress_is_kept_and_reset(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.json"
    store = ProgressStore(path)
    store.reach("one", 2, 5)
    store.reach("one", 1, 5)
    store.answer("one", "a", right=False)
    store.answer("one", "a", right=True)
    store.reach("two", 0, 1)
    store.pass_challenge("repeat_kv")
    store.pass_challenge("repeat_kv")
    again = ProgressStore(path)
    assert again.now == store.now
    record = again.lesson("one")
    assert (record.step, record.furthest, record.finished, record.passed) == (1, 2, False, 1)
    assert record.checks == {"a": CheckRecord(2, 1, True)}
    assert again.lesson("two").finished
    assert again.now.challenges == ("repeat_kv",)
    assert (again.seed("one", "a"), again.seed("one", "b")) == (2, 0)
    again.reset("one")
    assert again.lesson("one").furthest == 0
    assert again.lesson("two").finished
    again.reset()
    assert ProgressStore(path).now.lessons == {}
    assert not list(path.parent.glob("*.part"))


def test_progress_lies_beside_the_settings() -> None:
    assert ProgressStore().path == settings_path().with_name("progress.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1, "lessons": 3, "challenges": []}', "{}"])
def test_progress_that_cannot_be_read_is_kept_aside(text: str, tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text, encoding="utf-8")
    store = ProgressStore(path)
    assert store.now.lessons == {}
    assert "starts afresh; it is kept as progress.broken.json" in store.notice
    assert (tmp_path / "progress.broken.json").read_text(encoding="utf-8") == text


def test_progress_that_cannot_be_written_lasts_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = ProgressStore(tmp_path / "file" / "progress.json")
    store.reach("one", 1, 5)
    assert store.lesson("one").step == 1
    assert "lasts for this session only" in store.notice


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress.json"
    store = ProgressStore(path)
    store.reach("one", 1, 5)

    def fail(*given: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    store.reach("one", 2, 5)
    assert decoded(path.read_text(encoding="utf-8")).lessons["one"].step == 1
    assert not list(tmp_path.glob("*.part"))


def test_two_windows_keep_what_was_learnt_in_each(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    one, other = ProgressStore(path), ProgressStore(path)
    one.answer("a", "x", True)
    other.answer("a", "x", False)
    other.answer("b", "y", True)
    one.pass_challenge("split_heads")
    other.pass_challenge("repeat_kv")
    now = ProgressStore(path).now
    assert (now.lessons["a"].checks["x"].tries, now.lessons["a"].checks["x"].right) == (2, 1)
    assert now.lessons["b"].passed == 1
    assert now.challenges == ("repeat_kv", "split_heads")
