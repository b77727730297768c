"""A run of a notebook in the window: saved as a trace, and opened by a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import ropewalk
from ropewalk.app import display
from ropewalk.model.errors import RopewalkError

if TYPE_CHECKING:
    from ropewalk.model.notebooks.run import Run

FINDS = "PYTHONPATH"


def view(run: Run) -> subprocess.Popen[bytes]:
    """Open the window on a run (of several prompts, the first) and return at once.

    What needs the model's weights says so there, and offers to attach its checkpoint.

    Returns
    -------
    Popen
        The window's process, which goes on when the notebook ends.

    Raises
    ------
    RopewalkError
        Where there is no display.
    """
    absent = display.absent_libraries()
    if absent:
        raise RopewalkError(display.missing_sentence(absent))
    if not display.has_display():
        raise RopewalkError(
            "There is no display here for a window; end a cell with the run or run.head(layer, head) to see it in the "
            "notebook, or take run.save(path) to a machine that has one."
        )
    path = Path(tempfile.mkdtemp(prefix="ropewalk-")) / "run.safetensors"
    run[0].save(path)
    found_at = str(Path(ropewalk.__file__).parents[1])
    where = os.pathsep.join([found_at, *filter(None, [os.environ.get(FINDS)])])
    return subprocess.Popen(
        [sys.executable, "-m", "ropewalk", str(path)],
        env={**os.environ, FINDS: where},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
