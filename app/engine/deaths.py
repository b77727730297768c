"""How engines end, and at what: what ended two of them in a row is not asked a third time.

Panels ask by themselves after a restart, so that one question could end engine after engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ropewalk.model.engine.requests import Failure, apart_from_numbers

CRASHED: Final = "it crashed"
"""How a process has ended where no signal is known by name."""
MOST = 2
"""Deaths in a row after which something is not asked again."""
REFUSAL = Failure(
    "An engine has ended twice while it did this, so it is not tried a third time; run something else, or open "
    "another checkpoint."
)
USUAL: Final = {
    "SIGKILL": "memory ran out: close other programs, or open a smaller model or fewer of its layers",
    "SIGABRT": "a library gave up, often for want of memory: close other programs, or open a smaller model",
    "SIGSEGV": "a library met what it cannot handle, such as a damaged file: if it happens again, open another one",
    "SIGBUS": "a file was cut short or replaced while it was open: put it back whole, or open another one",
    "SIGILL": "torch was built for another kind of processor: install the one for that machine",
    "SIGTERM": "somebody ended it, or the machine was shutting down",
    "SIGINT": "somebody ended it with Ctrl+C",
    "SIGHUP": "the terminal or the line to the other machine was closed",
}
"""What a process mostly died of that a signal has ended, and what to do."""


def explained(reason: str) -> str:
    """What it mostly means that a process has ended so, in a sentence; empty where that is not known."""
    if reason in USUAL:
        return f"As a rule {reason} means that {USUAL[reason]}."
    if reason.startswith("SIG") or reason == CRASHED:
        return "As a rule this is a fault of a library: if it happens again, open another file."
    return ""


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
