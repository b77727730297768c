"""Whether a window can be shown here: the system libraries Qt is built on, and a display to draw to.

Asked before Qt is loaded, because Qt's own answer to a missing library is the end of the process. Nothing here imports
Qt.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ropewalk.model.errors import RopewalkError


@dataclass(frozen=True)
class Library:
    """A shared library and the packages that bring it."""

    name: str
    debian: str
    fedora: str


LIBRARIES = (
    Library("libEGL.so.1", "libegl1", "libglvnd-egl"),
    Library("libGL.so.1", "libgl1", "libglvnd-glx"),
    Library("libxkbcommon.so.0", "libxkbcommon0", "libxkbcommon"),
    Library("libdbus-1.so.3", "libdbus-1-3", "dbus-libs"),
    Library("libfontconfig.so.1", "libfontconfig1", "fontconfig"),
    Library("libfreetype.so.6", "libfreetype6", "freetype"),
    Library("libglib-2.0.so.0", "libglib2.0-0", "glib2"),
    Library("libX11.so.6", "libx11-6", "libX11"),
)
"""Without these PySide6 cannot be imported, not even to draw into a file."""

X11_LIBRARIES = (
    Library("libxcb-cursor.so.0", "libxcb-cursor0", "xcb-util-cursor"),
    Library("libxcb-icccm.so.4", "libxcb-icccm4", "xcb-util-wm"),
    Library("libxcb-image.so.0", "libxcb-image0", "xcb-util-image"),
    Library("libxcb-keysyms.so.1", "libxcb-keysyms1", "xcb-util-keysyms"),
    Library("libxcb-randr.so.0", "libxcb-randr0", "libxcb"),
    Library("libxcb-render-util.so.0", "libxcb-render-util0", "xcb-util-renderutil"),
    Library("libxcb-shape.so.0", "libxcb-shape0", "libxcb"),
    Library("libxcb-util.so.1", "libxcb-util1", "xcb-util"),
    Library("libxcb-xkb.so.1", "libxcb-xkb1", "libxcb"),
    Library("libxkbcommon-x11.so.0", "libxkbcommon-x11-0", "libxkbcommon-x11"),
    Library("libX11-xcb.so.1", "libx11-xcb1", "libX11-xcb"),
)
"""Without these Qt finds no way to an X11 display."""

UNSEEN = ("offscreen", "minimal", "vnc")
"""Qt platforms that show nothing on this machine."""


def is_loadable(name: str) -> bool:
    """Whether the system finds a shared library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def missing(libraries: Iterable[Library], found: Callable[[str], bool] = is_loadable) -> tuple[Library, ...]:
    """The libraries that the system does not find; none outside Linux, where Qt brings what it needs."""
    if not sys.platform.startswith("linux"):
        return ()
    return tuple(library for library in libraries if not found(library.name))


def has_display(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there is something to show a window on."""
    platform = environment.get("QT_QPA_PLATFORM", "").split(":")[0].split(";")[0]
    if platform:
        return platform not in UNSEEN
    if not sys.platform.startswith("linux"):
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def needs_x11(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the window will be shown through X11."""
    platform = environment.get("QT_QPA_PLATFORM", "")
    if platform:
        return platform.startswith("xcb")
    return bool(environment.get("DISPLAY")) and not environment.get("WAYLAND_DISPLAY")


def missing_sentence(absent: Iterable[Library]) -> str:
    """Say which libraries are absent, and the commands that bring them."""
    libraries = tuple(absent)
    names = ", ".join(library.name for library in libraries)
    debian = " ".join(dict.fromkeys(library.debian for library in libraries))
    fedora = " ".join(dict.fromkeys(library.fedora for library in libraries))
    return (
        f"Qt needs system libraries that are not here: {names}.\n"
        f"  Debian, Ubuntu:  sudo apt install {debian}\n"
        f"  Fedora:          sudo dnf install {fedora}"
    )


def absent_libraries(environment: Mapping[str, str] = os.environ) -> tuple[Library, ...]:
    """What is missing for the window, or for a picture of it where there is no display."""
    wanted = (*LIBRARIES, *X11_LIBRARIES) if needs_x11(environment) else LIBRARIES
    return missing(wanted)


def require_libraries() -> None:
    """Refuse to go on where Qt cannot even draw into a file.

    Raises
    ------
    RopewalkError
        With the packages to install.
    """
    absent = missing(LIBRARIES)
    if absent:
        raise RopewalkError(missing_sentence(absent))
