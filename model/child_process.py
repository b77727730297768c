"""The command of a process of our own that runs one module of this very package, whatever lies in its folder."""

from __future__ import annotations

import sys

START = (
    "import sys; from importlib import import_module, util; "
    "spec = util.spec_from_file_location('ropewalk', sys.argv.pop(1)); "
    "sys.modules['ropewalk'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "import_module(sys.argv.pop(1)).main()"
)
"""Takes the package from the file named first: neither the current folder nor the path can put another in its place."""


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that calls ``main()`` of a module in a process of its own.

    Parameters
    ----------
    module
        Inside ``ropewalk``, such as ``model.tokens.chat_child``.
    arguments
        What it finds in ``sys.argv[1:]``.
    """
    package = sys.modules["ropewalk"].__file__
    assert package is not None
    return [sys.executable, "-P", "-c", START, package, f"ropewalk.{module}", *arguments]
