"""The settings file: what comes back, what is broken, what cannot be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.settings import RECENT, Opened, Settings, SettingsStore, command_refusal, settings_path
from ropewalk.model.file_lock import locked
from ropewalk.model.readings.records import Sampling

BY_0_1_0 = r"""{
    "geometry": "AP8=",
    "layout": "ZG9jaw==",
    "tokens_by_hand": true,
    "theme": "light",
    "projector": true,
    "motion": "system",
    "tile_mib": 256,
    "prompt": "na\u00efve \u4e2d \udcff",
    "recent": ["/a"],
    "answers": {"/a": {"heads": 4}},
    "sessions": ["/s.ropewalk"],
    "device": "cuda",
    "dtype": "float32",
    "sampling": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 7}
}"""
"""A settings file of Ropewalk 0.1.0."""


def test_what_0_1_0_wrote_still_opens_and_is_still_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(BY_0_1_0, encoding="ascii")
    store = SettingsStore(path)
    assert store.notice == ""
    assert store.now == Settings(
        b"\x00\xff", b"dock", "light", True, prompt="naïve 中 \udcff", recent=("/a",), device="cuda",
        answers={"/a": {"heads": 4}}, sessions=("/s.ropewalk",), sampling=Sampling(0.8, 40, 0.9, 7),
    )  # fmt: skip
    store.update(theme="dark")
    before = json.loads(BY_0_1_0)
    del before["tokens_by_hand"]  # no row has a height of its own any more
    later = {"engine": "", "elsewhere": {}, "colour_map": "viridis", "welcomed": False, "surveys": []}
    assert json.loads(path.read_text()) == before | {"theme": "dark"} | later


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.json"
    wanted: dict[str, Any] = {
        "geometry": b"\x00\xff",
        "layout": b"dock",
        "theme": "light",
        "projector": True,
        "prompt": "naïve 中 \udcff",
        "device": "cuda",
        "dtype": "bfloat16",
        "sampling": Sampling(0.8, 40, 0.9, 7),
    }
    store = SettingsStore(path)
    store.update(**wanted)
    store.remember_checkpoint("/a", {"heads": 4})
    assert SettingsStore(path).now == Settings(**wanted, recent=("/a",), answers={"/a": {"heads": 4}})
    assert {entry.name for entry in path.parent.iterdir()} == {"settings.json", ".settings.json.lock"}


def test_nothing_is_written_when_nothing_changes(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.json")
    store.update(theme="dark")
    assert not store.path.exists()


def test_recent_checkpoints_are_few_and_each_once(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.json")
    for number in (*range(20), 15):
        store.remember_checkpoint(str(number))
    assert len(store.now.recent) == RECENT
    assert store.now.recent[:3] == ("15", "19", "18")


def test_what_was_opened_elsewhere_is_remembered_by_the_command_that_starts_the_engine(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.json")
    store.remember_checkpoint("/here")
    store.remember_checkpoint("/there", {"heads": 4}, "ssh gpu1")
    store.remember("ssh gpu1", device="cuda")
    assert store.opened() == Opened(("/here",))
    assert store.opened("ssh gpu1") == Opened(("/there",), {"/there": {"heads": 4}}, "cuda")
    assert store.opened("ssh gpu2") == Opened()
    assert SettingsStore(store.path).now == store.now


@pytest.mark.parametrize(("odd", "named"), [("\0", r"'\x00'"), ("\ud800", r"'\ud800'"), ("\n", r"'\n'")])
def test_a_command_that_is_none_is_left_out_with_a_sentence(tmp_path: Path, odd: str, named: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"theme": "dark", "engine": f"ssh{odd} gpu1"}), encoding="utf-8")
    store = SettingsStore(path)
    assert (store.now.theme, store.now.engine) == ("dark", "")
    assert store.notice == (
        f"The command that starts the engine has the character {named}, which no command has, so what was remembered "
        "is left out and the engine runs here."
    )
    assert command_refusal("ssh 'größe 1' ropewalk engine") == ""


def test_answers_are_those_of_the_last_time_and_go_with_their_checkpoint(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.json")
    store.remember_checkpoint("/a", {"heads": 4})
    store.remember_checkpoint("/b")
    assert store.now.answers == {"/a": {"heads": 4}}
    store.remember_checkpoint("/a", {"heads": 8})
    assert store.now.answers == {"/a": {"heads": 8}}
    for number in range(RECENT):
        store.remember_checkpoint(str(number))
    assert store.now.answers == {}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"theme": 3}',
        '{"geometry": "é"}',
        '{"sampling": {"top_p": 7}}',
        '{"sampling": {"seed": []}}',
        '{"sampling": {"seed": 1e400}}',
        '{"theme": "pink"}',
        '{"tile_mib": -1}',
        '{"answers": {"/a": 3}}',
        '{"answers": {"/a": {"heads": 4.5}}}',
        '{"tile_mib": 2000000}',
        '{"tile_mib": "much"}',
        '{"tile_mib": 1.0}',
        '{"recent": [3]}',
        '{"sampling": {"temperature": NaN}}',
        '{"sampling": {"seed": 9223372036854775808}}',
        "[" * 100_000,
        "\x00",
    ],
)
def test_a_broken_file_is_kept_aside_and_explained(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content, encoding="utf-8")
    store = SettingsStore(path)
    assert store.now == Settings()
    assert "settings.broken.json" in store.notice
    assert (tmp_path / "settings.broken.json").read_text(encoding="utf-8") == content
    store.update(theme="light")
    assert SettingsStore(path).now.theme == "light"


def test_bytes_that_are_not_text_are_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert SettingsStore(path).notice


def test_fields_of_another_version_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"theme": "light", "of_the_future": 1}), encoding="utf-8")
    store = SettingsStore(path)
    assert store.now == Settings(theme="light")
    assert store.notice == ""


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("", encoding="utf-8")
    store = SettingsStore(blocker / "settings.json")
    store.update(theme="light")
    assert store.now.theme == "light"
    assert "could not be" in store.notice


def test_what_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "settings.json")
    (tmp_path / "settings.json").mkdir()
    (tmp_path / "settings.json" / "in the way").touch()
    store.update(theme="light")
    assert "last for this session only" in store.notice
    store.notice = ""
    store.update(theme="dark")
    assert store.notice == ""


def test_a_failed_replace_leaves_no_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no")

    store = SettingsStore(tmp_path / "settings.json")
    monkeypatch.setattr("ropewalk.model.whole_file.os.replace", refuse)
    store.update(theme="light")
    assert [entry.name for entry in tmp_path.iterdir()] == [".settings.json.lock"]
    assert store.notice


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROPEWALK_CONFIG_DIR", str(tmp_path))
    assert settings_path() == tmp_path / "settings.json"
    monkeypatch.delenv("ROPEWALK_CONFIG_DIR")
    assert settings_path().parent.name == "ropewalk"


def test_two_windows_keep_what_each_has_opened(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    one, other = SettingsStore(path), SettingsStore(path)
    one.remember_checkpoint("/a", {"heads": 4})
    other.remember_checkpoint("/b")
    one.remember_checkpoint("/far", engine="ssh far")
    other.remember_checkpoint("/near", engine="ssh far")
    one.remember_session("/one.ropewalk")
    other.remember_session("/other.ropewalk")
    one.update(theme="light")
    other.update(projector=True)
    now = SettingsStore(path).now
    assert (now.recent, now.answers) == (("/b", "/a"), {"/a": {"heads": 4}})
    assert now.elsewhere["ssh far"].recent == ("/near", "/far")
    assert now.sessions == ("/other.ropewalk", "/one.ropewalk")
    assert (now.theme, now.projector) == ("light", True)
    assert one.now.projector is False, "a window looks as it was left, whatever another one does"


def test_a_file_that_was_broken_meanwhile_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    store = SettingsStore(path)
    store.update(theme="light")
    path.write_text("{")
    store.update(projector=True)
    assert (SettingsStore(path).now.theme, SettingsStore(path).now.projector) == ("light", True)


def test_settings_are_written_without_a_lock_where_there_can_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.model.file_lock.LONGEST", 0.02)
    path = tmp_path / "settings.json"
    with locked(path):
        SettingsStore(path).update(theme="light")
    path.with_name(".settings.json.lock").unlink()
    path.with_name(".settings.json.lock").mkdir()
    SettingsStore(path).update(projector=True)
    assert (SettingsStore(path).now.theme, SettingsStore(path).now.projector) == ("light", True)
