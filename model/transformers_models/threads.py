"""What a model of transformers' does in one go, as a job that pauses: on a thread, and ended at its next layer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from ropewalk.model.errors import Cancelled
from ropewalk.model.progress import SLICE_SECONDS, Progress, Steps
from ropewalk.model.transformers_models.model import TransformersModel

Result = TypeVar("Result")


def on_thread(model: TransformersModel | None, work: Callable[[], Result], what: str) -> Steps[Result]:
    """Do some work on a thread of its own, saying how many layers have attended.

    Parameters
    ----------
    model
        Whose layers are counted; None where none run. When the job is given up, its next layer ends the work.
    """
    done, given_up = [0], [False]

    def heard(layers: int) -> None:
        done[0] = layers
        if given_up[0]:
            raise Cancelled

    total = 1 if model is None else model.config.layers
    if model is not None:
        model.heard = heard
    with ThreadPoolExecutor(1, "ropewalk-transformers") as pool:
        working = pool.submit(work)
        try:
            while not working.done():
                wait([working], timeout=SLICE_SECONDS)
                yield Progress(min(done[0], total), total, what)
        finally:
            given_up[0] = True
            wait([working])
            if model is not None:
                model.heard = _nobody
    return working.result()


def _nobody(layers: int) -> None:
    """Hears of layers where nobody waits."""
