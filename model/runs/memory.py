"""Memory that is not in use: what failed work held when it ran out, and what runs that are gone have left.

``model.runs.budget`` predicts and refuses; this file catches what nobody predicted, and says so in a sentence.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from ropewalk.model.errors import MemoryBudgetError
from ropewalk.model.progress import Steps

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CPU_SIGN = "DefaultCPUAllocator"
"""What PyTorch's plain RuntimeError says when the CPU's memory is gone."""


RUNNING = (
    "Memory ran out, and what was being computed has been given up; make the prompt shorter, or open the model in "
    "bfloat16."
)
OPENING = (
    "Memory ran out, and what was being opened has been given up; close other programs, open it in bfloat16, or open "
    "fewer of its layers."
)


def within_memory(
    work: Callable[Parameters, Steps[Result]], sentence: str = RUNNING
) -> Callable[Parameters, Steps[Result]]:
    """Let a computation end in a :class:`~model.errors.MemoryBudgetError` when memory runs out.

    The error does not remember the frames it came from, since those hold the tensors that are to go.
    """

    @wraps(work)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Steps[Result]:
        try:
            return (yield from work(*args, **kwargs))
        except (torch.OutOfMemoryError, MemoryError) as error:
            details = f"{type(error).__name__}: {error}"
        except RuntimeError as error:
            if CPU_SIGN not in str(error):
                raise
            details = str(error)
        free_what_is_unused()
        raise MemoryBudgetError(sentence, details)

    return guarded


def free_what_is_unused() -> None:
    """Give back what nothing refers to any more, on the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    give_back()


def give_back() -> None:
    """Let the system have the pages in which nothing lives any more.

    glibc keeps what was freed below something that lives on, so that after runs of many lengths a process holds a
    tenth more than it uses. Other C libraries have nothing to be asked for.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
