"""The program as it is started: in its own process, from anywhere, with and without a display."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from ropewalk import __main__ as program
from ropewalk.app.files.shot import Shot
from tests.app.tiny_checkpoint import write_checkpoint

ROOT = Path(__file__).resolve().parents[1]


def start(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run main.py in a process of its own."""
    return subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *arguments],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def python(code: str, cwd: Path = ROOT) -> str:
    """Run some code in a fresh interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_the_root_is_short() -> None:
    assert len((ROOT / "ropewalk" / "__main__.py").read_text(encoding="utf-8").splitlines()) <= 95


@pytest.mark.slow
def test_importing_app_and_views_leaves_torch_out() -> None:
    code = (
        "import importlib, pkgutil, sys, ropewalk.app, ropewalk.views\n"
        "for package in (ropewalk.app, ropewalk.views):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print('torch' in sys.modules)"
    )
    assert python(code) == "False"


def test_the_version_is_printed() -> None:
    assert start("--version", cwd=ROOT).stdout == "Ropewalk 0.2.0\n"


@pytest.mark.parametrize("typed", [[], ["--engine", "nosuch engine"]])
def test_a_session_that_is_not_there_is_refused_before_any_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str]
) -> None:
    monkeypatch.setattr("ropewalk.app.display.absent_libraries", lambda: pytest.fail("it went on"))
    assert program.main([*typed, "nosuch.ropewalk"]) == 2
    assert capsys.readouterr().err == "There is no session nosuch.ropewalk; check the path.\n"
    assert program.main([*typed, "nosuch.safetensors"]) == 2
    assert capsys.readouterr().err == "There is no trace nosuch.safetensors; check the path.\n"


def test_the_command_line_knows_no_qt_until_it_draws_and_threads_wait_without_spinning() -> None:
    code = (
        "import os, sys; os.environ.pop('OMP_WAIT_POLICY', None)\n"
        "from ropewalk.__main__ import main\n"
        "main(['--help']); print('PySide6.QtGui' in sys.modules, os.environ['OMP_WAIT_POLICY'])\n"
        "os.environ['OMP_WAIT_POLICY'] = 'active'\n"
        "main(['--help']); print(os.environ['OMP_WAIT_POLICY'])"
    )
    said = python(code).splitlines()
    assert "False passive" in said
    assert said[-1] == "active"


def test_a_learners_own_folders_do_not_shadow_ours(tmp_path: Path) -> None:
    for name in ("model", "app", "views"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('shadowed')", encoding="utf-8")
    done = start("--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    code = f"import sys; sys.path.append({str(ROOT)!r}); from ropewalk.__main__ import main; sys.exit(main(['--help']))"
    assert "usage: ropewalk" in python(code, cwd=tmp_path)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    shell = f"'{sys.executable}' '{ROOT / 'main.py'}' --help; true"
    quiet = subprocess.run(f"({shell}) 2>err | true", shell=True, cwd=tmp_path, check=False, timeout=60)
    assert quiet.returncode == 0
    assert (tmp_path / "err").read_text(encoding="utf-8") == ""


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("ropewalk.app.display.is_loadable", lambda name: name != "libEGL.so.1")
    monkeypatch.setattr("ropewalk.app.display.missing.__defaults__", (lambda name: name != "libEGL.so.1",))
    assert program.main([]) == 1
    assert "apt install libegl1" in capsys.readouterr().err
    assert program.main(["snapshot", "never.png"]) == 1
    assert "libEGL.so.1" in capsys.readouterr().err
    assert not Path("never.png").exists()


def test_without_a_display_the_window_is_drawn_into_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    taken: list[Path] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr(program, "take_shot", lambda shot: taken.append(shot.out))
    assert program.main([]) == 0
    captured = capsys.readouterr()
    assert taken == [Path("ropewalk.png")]
    assert str(tmp_path / "ropewalk.png") in captured.err
    assert captured.err.count("\n") == 1


def test_a_trace_is_shown_or_drawn_in_the_place_of_the_bundled_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[tuple[str, str | None]] = []
    taken: list[Shot] = []
    monkeypatch.chdir(tmp_path)
    Path("run.safetensors").touch()
    monkeypatch.setattr(program, "take_shot", taken.append)
    monkeypatch.setattr("ropewalk.views.start.show_window", lambda *file: shown.append(file))
    for there in (True, False):
        monkeypatch.setattr("ropewalk.app.display.has_display", lambda there=there: there)
        program.main(["run.safetensors"])
    assert shown == [("run.safetensors", None)]
    assert [(shot.out, shot.path) for shot in taken] == [(Path("ropewalk.png"), "run.safetensors")]


def test_a_picture_of_the_real_window(qtbot: QtBot, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = write_checkpoint(tmp_path / "tiny"), tmp_path / "window.png"
    arguments = ["snapshot", str(out), str(folder), "--prompt", "abcabc", "--size", "1280x800", "--steps", "2"]
    assert program.main([*arguments, "--select", "L1H2 q=7 k=3"]) == 0
    captured = capsys.readouterr()
    assert (captured.out.strip(), captured.err) == (str(out), "")
    picture = QImage(str(out))
    assert (picture.width(), picture.height()) == (1280, 800)
    assert program.main([*arguments, "--select", "L2H0"]) == 1
    assert capsys.readouterr().err == "The layer 2 was to be selected, but the last one here is 1.\n"
    assert program.main(["snapshot", str(out), str(folder), "--prompt", ""]) == 1
    assert "empty" in capsys.readouterr().err
    assert program.main([*arguments, "--steps", "59"]) == 1
    assert capsys.readouterr().err == (
        "59 steps after 6 tokens were asked for, but the model's positions end after 64.\n"
    )


def test_a_picture_of_a_text_that_the_model_cannot_read_is_refused(
    qtbot: QtBot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_checkpoint(tmp_path / "tiny", tokenizer=False), tmp_path / "window.png"
    assert program.main(["snapshot", str(out), str(folder), "--prompt", "abcabc"]) == 1
    assert capsys.readouterr().err == (
        "This model has no tokenizer, so its prompt has to be ids, such as --prompt '1 2 3'.\n"
    )
    assert not out.exists()
    assert program.main(["snapshot", str(out), str(folder), "--prompt", "1, 2, 3"]) == 0
    assert out.exists()


def test_a_picture_of_the_lessons_shows_nobodys_progress(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ropewalk.app.lessons.progress import ProgressStore
    from ropewalk.app.settings import settings_path

    opened: list[Path] = []
    read = ProgressStore.__init__

    def noted(store: ProgressStore, path: Path | None = None) -> None:
        read(store, path)
        opened.append(store.path)

    monkeypatch.setattr(ProgressStore, "__init__", noted)
    assert program.main(["snapshot", str(tmp_path / "lessons.png"), "--panel", "lesson"]) == 0
    assert [path.name for path in opened] == ["progress.json"]
    assert opened[0].parent != settings_path().parent


def test_a_picture_too_small_for_the_window_says_how_large_it_became(
    qtbot: QtBot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_checkpoint(tmp_path / "tiny"), tmp_path / "window.png"
    assert program.main(["snapshot", str(out), str(folder), "--prompt", "abc", "--size", "200x150"]) == 0
    picture = QImage(str(out))
    assert capsys.readouterr().err == (
        f"The window does not fit into 200 × 150 pixels, so the picture has {picture.width()} × {picture.height()}.\n"
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process whose children can be interrupted; a shell that starts tests in the background takes that from them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_a_picture_and_leaves_no_file(interruptible: None, tmp_path: Path) -> None:
    out = tmp_path / "x.png"
    command = [sys.executable, str(ROOT / "main.py"), "snapshot", str(out), "--steps", "400"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "QT_DEBUG_PLUGINS": "1"}, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "loaded library" in line:  # Qt's platform is up, so the picture is being made
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) != 0
    assert "Traceback" not in rest
    assert not out.exists()


def test_every_panel_of_the_window_can_be_named_for_a_picture() -> None:
    from ropewalk.app.commands.snapshot import PANELS
    from ropewalk.views.panels.registry import PANELS as REGISTERED

    assert list(PANELS) == [entry.name for entry in REGISTERED]
