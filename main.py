"""Ropewalk from a clone: ``python main.py``. Installed, the same program is ``ropewalk`` or ``python -m ropewalk``."""

import sys

from ropewalk.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
