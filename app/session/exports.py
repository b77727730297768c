"""Files in the making: work on a thread of its own, because one may take long to encode and panels must not wait.

What is written is the caller's; it needs no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ropewalk.model.engine.urgency import Urgency

if TYPE_CHECKING:
    from ropewalk.app.jobs import Jobs
    from ropewalk.model.progress import Progress


class Exports:
    """Makes files beside everything else."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def make(
        self,
        slot: str,
        work: Generator[Progress, None, Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[str], None],
        *,
        what: str,
    ) -> None:
        """Make a file; a newer one of the same slot replaces an older one, and ``on_failed`` hears a sentence."""
        self._jobs.submit(slot, Urgency.PREFILL, work, on_done, lambda failure: on_failed(failure.sentence), what=what)

    @property
    def pulse(self) -> Callable[[Progress], None]:
        """What work that cannot pause tells its progress to, on its own thread; raises when it is to end."""
        return self._jobs.pulse

    def cancel(self) -> None:
        """End what is being made."""
        self._jobs.cancel_all()

    def close(self) -> None:
        """Cancel everything and wait for the thread."""
        self._jobs.close()
