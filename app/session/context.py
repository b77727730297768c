"""What the parts of a session use of it: what is open and on screen, its jobs, and what is shown next.

The session hands itself to its parts as this, so that none of them imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ropewalk.app.engine.connection import Calls
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.jobs import Jobs
from ropewalk.app.session.selection import SelectionStore
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt


class SessionContext(Protocol):
    """The session, as its parts see it."""

    settings: SettingsStore
    selection: SelectionStore
    jobs: Jobs
    newest: Prompt | None
    """The newest prompt that was asked for, None before the first."""

    @property
    def model_handle(self) -> ModelHandle | None:
        """The open model as a handle."""

    @property
    def run(self) -> Run | None:
        """The run on screen."""

    @property
    def handle(self) -> RunHandle | None:
        """The run on screen as a handle."""

    @property
    def prompt(self) -> Prompt:
        """The newest prompt that was asked for; an empty one before the first."""

    def next_run_id(self) -> int:
        """An id that no run has had."""

    def submit(
        self,
        slot: str,
        urgency: Urgency,
        call: Callable[[RemoteEngine], Calls[Any]],
        on_done: Callable[[Any], None],
        on_failed: Callable[[Failure], None],
        *,
        what: str,
        on_part: Callable[[Any], None] | None = None,
    ) -> None:
        """Begin a job; ``call`` is given the engine in use."""

    def notice(self, sentence: str) -> None:
        """Say that something ended as it should."""

    def fail(self, failure: Failure, refused: Prompt | None = None) -> None:
        """Say what went wrong; ``refused`` is the prompt that an offer, once accepted, is to run."""

    def show_notice(self) -> None:
        """Tell what happened to the settings file, once."""

    def run_prompt(
        self,
        prompt: Prompt,
        interventions: Sequence[Intervention] | None = None,
        notice: str = "",
        otherwise: tuple[str, ...] = (),
    ) -> None:
        """Run a prompt, under other interventions where some are given.

        ``notice`` is said once it is there; ``otherwise`` are prompts to run instead where this one fails.
        """

    def drop(self, *slots: str) -> None:
        """Forget what was to be run next, and end the jobs of these slots."""

    def swap_model(self, model_handle: ModelHandle, prompt: Prompt) -> None:
        """Have another model open, and another prompt; the run that belongs to them is shown next."""

    def show_run(self, handle: RunHandle, **selection: int) -> None:
        """Put a run on screen, with these fields of the selection."""
