"""When memory runs out all the same: free what the failed work held, and say so in a sentence.

``model.budget`` predicts and refuses; this file catches what nobody predicted.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from model.errors import MemoryBudgetError
from model.progress import Steps

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CPU_SIGN = "DefaultCPUAllocator"
"""What PyTorch's plain RuntimeError says when the CPU's memory is gone."""


def within_memory(work: Callable[Parameters, Steps[Result]]) -> Callable[Parameters, Steps[Result]]:
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
        raise MemoryBudgetError(
            "Memory ran out, and what was being computed has been given up; make the prompt shorter, or open the model "
            "in bfloat16.",
            details,
        )

    return guarded


def free_what_is_unused() -> None:
    """Give back what nothing refers to any more, on the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
