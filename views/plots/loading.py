"""pyqtgraph, imported piece by piece, so that the event loop goes on between."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from PySide6 import QtCore, QtGui, QtWidgets

NAMES: Final = 48
"""Names of Qt that are looked up in one piece."""

BESIDE: Final = (
    "xml.etree.ElementTree",
    "importlib.resources",
    "multiprocessing.connection",
    "sysconfig",
    "decimal",
    "PySide6.QtSvg",
    "PySide6.QtTest",
    "PySide6.QtOpenGLWidgets",
    "pyqtgraph",
)
"""What pyqtgraph imports and the window has not, and it itself at the end."""


def pieces() -> Iterator[None]:
    """Import pyqtgraph, a little at a time.

    It copies every name of Qt, and PySide makes each class when its name is first looked up: half of the whole.
    """
    for module in (QtCore, QtGui, QtWidgets):
        for place, name in enumerate(dir(module)):
            getattr(module, name)
            if place % NAMES == NAMES - 1:
                yield
    for name in BESIDE:
        import_module(name)
        yield
