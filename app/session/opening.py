"""The open model, and how another one comes in its place: in a fresh engine, with what is run on it next.

Until a model is open, the one before it stays, with its run. Reading a checkpoint is the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import Ended
from ropewalk.app.session.checkpoints import of_opening
from ropewalk.app.settings import command_refusal
from ropewalk.model.engine.interface import without_weights
from ropewalk.model.engine.requests import Failure, OpenModel
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.tokens.prompt import Prompt

if TYPE_CHECKING:
    from ropewalk.app.engine.connection import Calls, Connection
    from ropewalk.app.engine.engines import Engines
    from ropewalk.app.engine.remote import RemoteEngine
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.interventions import Interventions
    from ropewalk.app.session.timeline import Timeline
    from ropewalk.model.engine.interface import ModelHandle, OpenedTrace
    from ropewalk.model.options import Options
    from ropewalk.model.readings.records import ModelCard

DEFAULT_PROMPT = " wizards ate seven purple plums wizards ate seven purple plums"
"""The same tokens twice (hence the space in front), so that the induction stripe is the first thing anyone sees."""

DEFAULT_IDS = "1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8"
"""What is run on a model without a tokenizer until somebody types other ids."""


PLAIN = ("cpu", "float32")
"""The device and number format that are there on every machine."""


@dataclass(frozen=True)
class NextRun:
    """What is run once the model that is being opened is there.

    Attributes
    ----------
    prompt
        What to run.
    otherwise
        Prompts to run where this one does not fit.
    is_wish
        Whether a person asked for it meanwhile, so that it is run on the old model when the new one cannot be opened.
    """

    prompt: Prompt
    otherwise: tuple[str, ...] = ()
    is_wish: bool = False


class Opening(QObject):
    """What is open, and what is being opened.

    Signals
    -------
    model_changed(card)
        Another model is open; a :class:`ModelCard`.
    opened(was_gone)
        A model was opened, and what waited for it is run next; whether there was no engine before.
    trace_opened(trace)
        That was a trace file, whose own run is shown next; an :class:`OpenedTrace`.

    Attributes
    ----------
    model_handle
        The open model.
    asked
        What was opened last, or is to be opened first.
    next
        What is run once the model that is being opened is there.
    """

    model_changed = Signal(object)
    opened = Signal(bool)
    trace_opened = Signal(object)

    def __init__(
        self,
        session: SessionContext,
        engines: Engines,
        timeline: Timeline,
        interventions: Interventions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engines = engines
        self._timeline = timeline
        self._interventions = interventions
        self.model_handle: ModelHandle | None = None
        self.asked = OpenModel(None, *PLAIN)
        self.next: NextRun | None = None

    def begin(self, path: str | None = None, prompt: Prompt | None = None, options: Options | None = None) -> None:
        """Do what a start does: open the model (None: the bundled one) and run the last prompt, or the given one.

        What was remembered is only a wish here: a device that is gone falls back to the CPU, a prompt that does not
        fit to the default prompt.
        """
        settings = self._session.settings
        first, remembered = settings.now.prompt or DEFAULT_PROMPT, settings.opened(self._engines.command)
        newest = self._session.newest = Prompt(first) if prompt is None else prompt
        otherwise = (DEFAULT_PROMPT,) if prompt is None and first != DEFAULT_PROMPT else ()
        self._session.show_notice()
        asked = OpenModel(path, remembered.device, remembered.dtype, dict(options or {}))
        self.submit(asked, NextRun(newest, otherwise), lambda failure: self._open_plainly(asked, failure))

    def open(
        self,
        path: str | None,
        device: str | None = None,
        dtype: str | None = None,
        options: Options | None = None,
        failed: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Open a checkpoint (None: the bundled one) and run the prompt on it.

        Parameters
        ----------
        path
            A file or folder.
        device, dtype
            None keeps what is in use.
        options
            Answers to what the checkpoint leaves open; None keeps those that were given for what is open at this path.
        failed
            Called with a sentence where it cannot be opened, beside what everybody hears.
        """

        def refused(failure: Failure) -> None:
            why = of_opening(failure, path, self._engines.elsewhere)
            self._on_failed(why)
            failed(why.sentence)

        now = self.model_handle
        self._engines.deaths.forget()
        if options is None and now is not None and path == now.card.path:
            options = dict(now.options)
        used = self._session.settings.opened(self._engines.command) if now is None else now.card
        asked = OpenModel(path, device or used.device, dtype or used.dtype, dict(options or {}))
        self.submit(asked, self._prompt_again(), refused)

    def move(self, command: str, failed: Callable[[str, str], None]) -> None:
        """Use another engine from now on, as soon as it has opened the bundled model and run the prompt on that.

        Until then, and where it cannot be had, everything stays as it is.

        Parameters
        ----------
        command
            What starts it; empty is an engine on this machine.
        failed
            Called with a sentence and its details.
        """
        if refusal := command_refusal(command):
            failed(refusal, "")
            return
        there = self._session.settings.opened(command)
        asked = OpenModel(None, there.device, there.dtype)

        def refused(failure: Failure) -> None:
            failed(failure.sentence, failure.details)
            self._stay()

        def on_failed(failure: Failure) -> None:
            if not isinstance(failure, Ended) and (asked.device, asked.dtype) != PLAIN:  # a device may be gone
                self.submit(OpenModel(None, *PLAIN), self.next, refused, command)
            else:
                refused(failure)

        self.submit(asked, self._prompt_again(), on_failed, command)

    # For the session and its parts --------------------------------------------------------------------------------

    def submit(
        self,
        asked: OpenModel,
        then: NextRun | None,
        on_failed: Callable[[Failure], None],
        command: str | None = None,
    ) -> None:
        """Open a model in a fresh engine, started by another command where one is given, and take that if it works."""
        self._timeline.leave()
        for slot in ("run", "check"):
            self._session.jobs.cancel(slot)
        self.next = then
        if self.model_handle is None:
            self.asked = asked
        connection = self._engines.prepare(command)

        def work(engine: RemoteEngine) -> Calls[tuple[ModelHandle, OpenedTrace | None]]:
            remote = self._engines.remote(connection)
            handle = yield from remote.open_model(asked.path, asked.device, asked.dtype, options=asked.options)
            if handle.origin is None:
                return handle, None
            return handle, (yield from remote.open_trace(handle, self._session.next_run_id()))

        self._session.submit(
            "open",
            Urgency.PREFILL,
            work,
            lambda opened: self._on_opened(opened, asked, connection),
            on_failed,
            what=f"Opening {'the built-in model' if asked.path is None else asked.path}",
        )

    def swap(self, model_handle: ModelHandle) -> None:
        """Have a model open that an engine has opened for something else."""
        changed = self.model_handle is not model_handle
        self.model_handle = model_handle
        if changed:
            self._interventions.forget_prompts()
            self.model_changed.emit(model_handle.card)

    def take_next(self) -> NextRun | None:
        """What waited for a model, which waits no longer."""
        following, self.next = self.next, None
        return following

    def run_next(self, card: ModelCard) -> None:
        """Run what waited for a model, as far as this one can."""
        following = self.take_next()
        if following is None:
            return
        prompt = following.prompt
        if prompt.chat not in card.chats:
            prompt = replace(prompt, chat="")
        if not card.has_tokenizer and not any(c.isdigit() for c in prompt.text):
            prompt = replace(prompt, text=DEFAULT_IDS)
        otherwise = following.otherwise
        if self._session.handle is not None and not following.is_wish:
            otherwise = (DEFAULT_PROMPT if card.has_tokenizer else DEFAULT_IDS,)
        self._session.run_prompt(prompt, otherwise=otherwise)

    # How it works -------------------------------------------------------------------------------------------------

    def _prompt_again(self) -> NextRun | None:
        """The newest prompt, to be run on another model; also on the old one where the person waits for that run."""
        newest = self._session.newest
        under_way = newest is not None and self._session.jobs.has("run")
        waiting = self.next is not None and self.next.is_wish
        return None if newest is None else NextRun(newest, (), under_way or waiting)

    def _open_plainly(self, asked: OpenModel, failure: Failure) -> None:
        """Open on the CPU after a remembered device has failed."""
        self._session.fail(failure)
        if not isinstance(failure, Ended) and (asked.device, asked.dtype) != PLAIN:
            self.submit(OpenModel(asked.path, *PLAIN, asked.options), self.next, self._session.fail)

    def _on_failed(self, failure: Failure) -> None:
        self._session.fail(failure)
        self._stay()

    def _stay(self) -> None:
        """Stay with the model that is open, and run on it what was asked for meanwhile."""
        self._engines.dismiss()
        wish = self.take_next()
        if wish is not None and wish.is_wish and self.model_handle is not None:
            self._session.run_prompt(wish.prompt)

    def _on_opened(
        self, opened: tuple[ModelHandle, OpenedTrace | None], asked: OpenModel, connection: Connection
    ) -> None:
        model_handle, trace = opened
        if model_handle.shapes_only:
            self._on_failed(Failure(without_weights(model_handle.card), ""))
            return
        was_gone = self._engines.gone is not None
        settings = self._session.settings
        if self._engines.adopt(connection):
            settings.update(engine=self._engines.command)
        self.asked = asked
        self.model_handle = model_handle
        self._interventions.arrived(())
        self._interventions.forget_prompts()
        card, command = model_handle.card, self._engines.command
        if trace is None:  # which lies on the CPU, in the dtype it was made in
            settings.remember(command, device=card.device, dtype=card.dtype)
        if asked.path is not None:
            settings.remember_checkpoint(asked.path, dict(model_handle.options), command)
        self.model_changed.emit(card)
        if model_handle.notice:
            self._session.fail(Failure(model_handle.notice))
        self.opened.emit(was_gone)
        if trace is None:
            self.run_next(card)
            return
        following = self.take_next()
        self.trace_opened.emit(trace)
        if following is not None and following.is_wish:
            self._session.run_prompt(following.prompt)
