"""What has been imported and what is cached, kept from the garbage collector: it stays until the end.

Torch and transformers make hundreds of thousands of objects, and drawn formulas are cached; to look at all of that
after every test with Qt took most of the time of a run.
"""

from __future__ import annotations

import gc


def set_aside() -> None:
    """Freeze what is alive.

    Nothing of it is ever collected should it end in a cycle. Hence this is for moments at which no test runs and no
    fixture keeps a window or a model.
    """
    gc.collect()
    gc.freeze()
