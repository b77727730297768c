"""Numbers as notebooks have them: one of numpy's or torch's counts like one of Python's."""

from __future__ import annotations

import operator
from typing import Any


def whole(value: Any) -> int | None:
    """A whole number, None for what is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # of a tensor that is no one number
        return None
