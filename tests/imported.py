"""What has been imported and what is cached, kept from the garbage collector: it stays until the end.

Torch and transformers make hundreds of thousands of objects, and drawn formulas are cached; to look at all of that
after every test with Qt took most of the time of a run.
"""

from __future__ import annotations

import gc
import sys


def set_aside() -> None:
    """Freeze what is alive.

    Nothing of it is ever collected should it end in a cycle. Hence this is for moments at which no test runs and no
    fixture keeps a window or a model.
    """
    if "PySide6.QtCore" in sys.modules:
        _empty_what_is_deleted()
    gc.collect()
    gc.freeze()


def _empty_what_is_deleted() -> None:
    """Take from every object of Qt that has been deleted what it still refers to.

    A window's functions are held by connections that the collector cannot see, and each holds the window and all that
    is in it: five megabytes.
    """
    from PySide6.QtCore import QObject
    from shiboken6 import isValid

    for one in gc.get_objects():
        if issubclass(type(one), QObject) and not isValid(one):  # isinstance would wake what stands for others
            vars(one).clear()
