"""What engines have ended at: what ended two of them in a row is not asked a third time.

Panels ask by themselves after a restart, so that one question could end engine after engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ropewalk.model.engine.requests import Failure, apart_from_numbers

MOST = 2
"""Deaths in a row after which something is not asked again."""
REFUSAL = Failure(
    "An engine has ended twice while it did this, so it is not tried a third time; run something else, or open "
    "another checkpoint."
)


class Deaths:
    """The requests that engines were at when they ended, and how often in a row."""

    def __init__(self) -> None:
        self._counts: list[tuple[Any, int]] = []

    def note(self, requests: Iterable[Any]) -> None:
        """An engine has ended while it was at these."""
        asked = [apart_from_numbers(request) for request in requests]
        refused = [(one, count) for one, count in self._counts if count >= MOST and one not in asked]
        self._counts = [(one, self._count(one) + 1) for one in asked] + refused

    def survived(self, request: Any) -> None:
        """An engine has answered this."""
        if self._counts:
            asked = apart_from_numbers(request)
            self._counts = [(one, count) for one, count in self._counts if one != asked]

    def refusal(self, request: Any) -> Failure | None:
        """Why this is not asked again; None where it may be."""
        if self._counts and self._count(apart_from_numbers(request)) >= MOST:
            return REFUSAL
        return None

    def forget(self) -> None:
        """Ask everything again: a person does something else."""
        self._counts.clear()

    def _count(self, asked: Any) -> int:
        return next((count for one, count in self._counts if one == asked), 0)
