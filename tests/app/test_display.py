"""What is missing for a window, said with the names of the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.app.display import (
    LIBRARIES,
    X11_LIBRARIES,
    absent_libraries,
    has_display,
    is_loadable,
    missing,
    missing_sentence,
    needs_x11,
)

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Qt brings its libraries elsewhere")


@linux_only
def test_a_display_is_one_that_somebody_can_see() -> None:
    assert not has_display({})
    assert has_display({"DISPLAY": ":0"})
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"})
    assert not has_display({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"})
    assert has_display({"QT_QPA_PLATFORM": "wayland;xcb"})


@linux_only
def test_x11_is_asked_for_only_where_it_is_used() -> None:
    assert needs_x11({"DISPLAY": ":0"})
    assert not needs_x11({"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"})
    assert not needs_x11({})
    assert needs_x11({"QT_QPA_PLATFORM": "xcb"})


@linux_only
def test_each_missing_library_is_named_with_its_packages() -> None:
    absent = missing((*LIBRARIES, *X11_LIBRARIES), found=lambda name: "xcb-icccm" not in name and "EGL" not in name)
    sentence = missing_sentence(absent)
    assert "libEGL.so.1, libxcb-icccm.so.4" in sentence
    assert "sudo apt install libegl1 libxcb-icccm4" in sentence
    assert "sudo dnf install libglvnd-egl xcb-util-wm" in sentence


def test_a_library_that_does_not_exist_is_not_loadable() -> None:
    assert not is_loadable("libnothing-of-the-kind.so.7")
    assert absent_libraries({}) == ()


def test_elsewhere_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert missing(LIBRARIES, found=lambda name: False) == ()
    assert has_display({})


def test_nothing_of_this_loads_qt() -> None:
    code = "import ropewalk.app.display, sys; sys.exit(any(name.startswith('PySide6') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_continuous_integration_installs_all_of_them() -> None:
    packages = Path(__file__).resolve().parents[2].joinpath(".ci", "packages").read_text(encoding="utf-8")
    assert {library.debian for library in LIBRARIES + X11_LIBRARIES} <= set(packages.split())
