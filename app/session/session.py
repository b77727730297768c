"""The open model, the prompt and the run, and the parts of a session around them; the only place that starts jobs.

The session turns a person's intent into jobs, keeps the old run on screen until a new one has arrived, and tells
everybody about changes by signals. What a person does with a run has parts of its own, which the session ties
together. It holds the tensors of a run as an opaque handle and never looks inside. No widgets, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import Calls, ConnectBy, Connection, Ended
from ropewalk.app.engine.deaths import REFUSAL
from ropewalk.app.engine.engines import Engines
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.engine.short_lived import ShortLived
from ropewalk.app.jobs import Jobs
from ropewalk.app.session.baseline import Baseline
from ropewalk.app.session.checkpoints import Checkpoints, of_opening
from ropewalk.app.session.consistency import ConsistencyChecks
from ropewalk.app.session.interventions import Interventions
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Bounds, SelectionStore
from ropewalk.app.session.state import Scenes, SessionState, again
from ropewalk.app.session.timeline import Timeline
from ropewalk.app.settings import Opened, SettingsStore, command_refusal
from ropewalk.model.decoder.interventions import Intervention, PermuteTokens
from ropewalk.model.engine.interface import ModelHandle, RunHandle, without_weights
from ropewalk.model.engine.questions import Question
from ropewalk.model.engine.requests import Failure, OpenModel
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import ModelCard, Run
from ropewalk.model.tokens.prompt import Prompt

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


class Session(QObject):
    """What the person is doing.

    Parameters
    ----------
    settings
        What is remembered.
    engine, light
        What starts an engine process, and one without torch that reads and writes files, by a command.
    command
        What the engine is started by; empty on this machine.

    Signals
    -------
    run_changed(before, after)
        A prefill, a step, or another length in view; each a :class:`Run` or None.
    model_changed(card)
        Another model is open; a :class:`ModelCard`.
    progress_changed(progress)
        A ``JobProgress``, or None when nothing takes long.
    failed(sentence, details)
        Something could not be done; what was on screen stays.
    engine_ended(sentence, details)
        There is no engine; :meth:`restart` starts another one.
    engine_starting(), engine_back()
        Another one is being started; it is in use, and what was on screen is there again.
    made_again(before, after)
        What was on screen was made again in another engine and is shown next; two :class:`SessionState`.
    engine_unheard(), engine_heard()
        The engine goes on with what was cancelled two seconds ago, and :meth:`end_engine` ends it; it has heard that
        at last.
    settled()
        No job is left, so everything asked for has been answered.
    cancelled()
        The person asked for an end of whatever takes long.

    Attributes
    ----------
    is_lost
        Whether what is on screen could not be brought back, so that :meth:`restart` opens the bundled model.
    timeline, consistency
        How far the run is in view and how it goes on; whether it was found consistent.
    interventions, baseline
        What is changed in the run; the run that it is compared with.
    scenes
        Scenes put on screen in one go, and what was there before.
    checkpoints, exports
        What could be opened; the jobs of files in the making, beside everything else.
    """

    run_changed = Signal(object, object)
    model_changed = Signal(object)
    progress_changed = Signal(object)
    failed = Signal(str, str)
    engine_ended = Signal(str, str)
    engine_starting = Signal()
    engine_back = Signal()
    made_again = Signal(object, object)
    engine_unheard = Signal()
    engine_heard = Signal()
    settled = Signal()
    cancelled = Signal()

    def __init__(
        self,
        settings: SettingsStore,
        engine: ConnectBy,
        light: ConnectBy,
        parent: QObject | None = None,
        *,
        command: str = "",
    ) -> None:
        super().__init__(parent)
        self.settings = settings
        self.selection = SelectionStore(self, is_held=lambda: self.engines.gone is not None)
        self.engines = Engines(engine, lambda: self.settings.now.tile_mib << 20, command, self)
        self.engines.ended.connect(self._on_engine_ended)
        self.engines.unheard.connect(self.engine_unheard)
        self.engines.heard.connect(self.engine_heard)
        self.jobs, downloads, self.exports = Jobs(self), Jobs(self), Jobs(self)
        for jobs in (self.jobs, downloads, self.exports):
            jobs.progress_changed.connect(self.progress_changed)
        self.jobs.settled.connect(self.settled)
        self._model_handle: ModelHandle | None = None
        self._handle: RunHandle | None = None
        self._runs = self._brought_back = 0
        self._prompt: Prompt | None = None
        self._next: NextRun | None = None
        self._asked = OpenModel(None, *PLAIN)
        """What was opened last, or is to be opened first."""
        self.is_lost = False
        self.closed = False
        self.timeline = Timeline(self, parent=self)
        self.consistency = ConsistencyChecks(self, parent=self)
        self.interventions = Interventions(self, self.timeline, self.consistency, parent=self)
        self.scenes = Scenes(self, self.timeline, self.consistency, self.interventions, self._restarts_with)
        self.baseline = Baseline(self, self.scenes, parent=self)
        self.baseline.changed.connect(lambda run: self.jobs.cancel("baseline"))
        self.local = ShortLived(lambda owner: light(owner, ""), self)
        self.beside = ShortLived(lambda owner: light(owner, self.engines.command), self)
        self.checkpoints = Checkpoints(self, self.engines, self.beside, downloads, parent=self)

    # What is known ------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run on screen."""
        return None if self._handle is None else self._handle.run

    @property
    def model(self) -> ModelCard | None:
        """The open model."""
        return None if self._model_handle is None else self._model_handle.card

    @property
    def model_handle(self) -> ModelHandle | None:
        """The open model as a handle, for the parts of the session."""
        return self._model_handle

    @property
    def handle(self) -> RunHandle | None:
        """The run on screen as a handle."""
        return self._handle

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the engine's machine; only ``cpu`` until a model is open."""
        return ("cpu",) if self._model_handle is None else self._model_handle.devices

    @property
    def elsewhere(self) -> str:
        """What the machine is called on which models, runs and checkpoints are; empty where it is this one."""
        return self.engines.elsewhere

    @property
    def opened(self) -> Opened:
        """What was opened lately on the engine's machine."""
        return self.settings.opened(self.engines.command)

    @property
    def prompt(self) -> Prompt:
        """The newest prompt that was asked for; an empty one before the first."""
        return self._prompt or Prompt()

    @property
    def busy(self) -> bool:
        """Whether any answer is still to come."""
        return self.jobs.busy

    # Opening and running ------------------------------------------------------------------------------------------

    def begin(self, path: str | None = None, prompt: Prompt | None = None) -> None:
        """Do what a start does: open the model (None: the bundled one) and run the last prompt, or the given one.

        What was remembered is only a wish here: a device that is gone falls back to the CPU, a prompt that does not
        fit to the default prompt.
        """
        remembered = self.settings.now
        first, opened = remembered.prompt or DEFAULT_PROMPT, self.opened
        self._prompt = Prompt(first) if prompt is None else prompt
        otherwise = (DEFAULT_PROMPT,) if prompt is None and first != DEFAULT_PROMPT else ()
        self._show_notice()
        asked = OpenModel(path, opened.device, opened.dtype)
        self._open(
            asked,
            then=NextRun(self._prompt, otherwise),
            on_failed=lambda failure: self._open_plainly(asked, failure),
        )

    def _show_notice(self) -> None:
        """Tell what happened to the settings file, once."""
        if self.settings.notice:
            notice, self.settings.notice = self.settings.notice, ""
            self.failed.emit(notice, "")

    def open(
        self,
        path: str | None,
        device: str | None = None,
        dtype: str | None = None,
        options: Mapping[str, int] | None = None,
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
            why = of_opening(failure, path, self.elsewhere)
            self._on_open_failed(why)
            failed(why.sentence)

        card = self.model
        self.engines.deaths.forget()
        if options is None and self._model_handle is not None and path == self._model_handle.card.path:
            options = dict(self._model_handle.options)
        self._open(
            OpenModel(
                path,
                device or (card.device if card else self.opened.device),
                dtype or (card.dtype if card else self.opened.dtype),
                dict(options or {}),
            ),
            self._prompt_again(),
            refused,
        )

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
        there = self.settings.opened(command)
        asked = OpenModel(None, there.device, there.dtype)

        def refused(failure: Failure) -> None:
            failed(failure.sentence, failure.details)
            self._stay()

        def on_failed(failure: Failure) -> None:
            if not isinstance(failure, Ended) and (asked.device, asked.dtype) != PLAIN:  # a device may be gone
                self._open(OpenModel(None, *PLAIN), self._next, refused, command)
            else:
                refused(failure)

        self._open(asked, self._prompt_again(), on_failed, command)

    def _prompt_again(self) -> NextRun | None:
        """The newest prompt, to be run on another model; also on the old one where the person waits for that run."""
        under_way = self._prompt is not None and self.jobs.has("run")
        waiting = self._next is not None and self._next.is_wish
        return None if self._prompt is None else NextRun(self._prompt, (), under_way or waiting)

    def start(self, prompt: Prompt) -> None:
        """Prefill a prompt; the old run stays on screen until the new one is there."""
        if not prompt.text:
            if self.engines.gone is not None and self._handle is None:
                self.restart()
            else:
                self.failed.emit("The prompt is empty, but a run needs at least one token; type something first.", "")
            return
        self.run_prompt(prompt)

    def _open(
        self,
        asked: OpenModel,
        then: NextRun | None,
        on_failed: Callable[[Failure], None],
        command: str | None = None,
    ) -> None:
        """Open a model in a fresh engine, started by another command where one is given, and take that if it works."""
        self.timeline.leave()
        for slot in ("run", "check"):
            self.jobs.cancel(slot)
        self._next = then
        if self._model_handle is None:
            self._asked = asked
        connection = self.engines.prepare(command)
        self.submit(
            "open",
            Urgency.PREFILL,
            lambda engine: self.engines.remote(connection).open_model(
                asked.path, asked.device, asked.dtype, options=asked.options
            ),
            lambda model_handle: self._on_opened(model_handle, asked, connection),
            on_failed,
            what=f"Opening {'the bundled model' if asked.path is None else asked.path}",
        )

    def _open_plainly(self, asked: OpenModel, failure: Failure) -> None:
        """Open on the CPU after a remembered device has failed."""
        self.fail(failure)
        if not isinstance(failure, Ended) and (asked.device, asked.dtype) != PLAIN:
            self._open(OpenModel(asked.path, *PLAIN), then=self._next, on_failed=self.fail)

    def _on_open_failed(self, failure: Failure) -> None:
        self.fail(failure)
        self._stay()

    def _stay(self) -> None:
        """Stay with the model that is open, and run on it what was asked for meanwhile."""
        self.engines.dismiss()
        wish, self._next = self._next, None
        if wish is not None and wish.is_wish and self._model_handle is not None:
            self.run_prompt(wish.prompt)

    def _on_opened(self, model_handle: ModelHandle, asked: OpenModel, connection: Connection) -> None:
        if model_handle.shapes_only:
            self._on_open_failed(Failure(without_weights(model_handle.card), ""))
            return
        was_gone = self.engines.gone is not None
        if self.engines.adopt(connection):
            self.settings.update(engine=self.engines.command)
        self._asked, self.is_lost = asked, False
        self._model_handle = model_handle
        self.interventions.arrived(())
        self.interventions.forget_prompts()
        card = model_handle.card
        command = self.engines.command
        self.settings.remember(command, device=card.device, dtype=card.dtype)
        if asked.path is not None:
            self.settings.remember_checkpoint(asked.path, dict(model_handle.options), command)
        self.model_changed.emit(card)
        if model_handle.notice:
            self.failed.emit(model_handle.notice, "")
        if was_gone:
            self.engine_back.emit()
        self._run_next(card)

    def _run_next(self, card: ModelCard) -> None:
        """Run what waited for a model, as far as this one can."""
        following, self._next = self._next, None
        if following is None:
            return
        prompt = following.prompt
        if prompt.chat not in card.chats:
            prompt = replace(prompt, chat="")
        if not card.has_tokenizer and not any(c.isdigit() for c in prompt.text):
            prompt = replace(prompt, text=DEFAULT_IDS)
        otherwise = following.otherwise
        if self._handle is not None and not following.is_wish:
            otherwise = (DEFAULT_PROMPT if card.has_tokenizer else DEFAULT_IDS,)
        self.run_prompt(prompt, otherwise=otherwise)

    def run_prompt(
        self,
        prompt: Prompt,
        interventions: Sequence[Intervention] | None = None,
        notice: str = "",
        otherwise: tuple[str, ...] = (),
    ) -> None:
        """Run a prompt.

        Parameters
        ----------
        interventions
            Others than now, where some are given.
        notice
            What is said once it is there.
        otherwise
            Prompts to run instead where this one fails.
        """
        self._prompt = prompt
        self.timeline.leave()
        self.jobs.cancel("check")
        if self.jobs.has("open"):
            self._next = NextRun(prompt, is_wish=True)
            return
        if self.engines.gone is not None:
            self.restart(NextRun(prompt, is_wish=True))
            return
        if self._model_handle is None:
            self.begin(prompt=prompt)
            return
        model_handle, run_id, now = self._model_handle, self.next_run_id(), self.selection.now
        head = None if self._handle is None else (now.layer, now.head)
        active = self.interventions.now if interventions is None else interventions
        wanted = self.interventions.want(one for one in active if not isinstance(one, PermuteTokens))
        self.submit(
            "run",
            Urgency.PREFILL,
            lambda engine: engine.run(model_handle, prompt, run_id, head, interventions=wanted),
            lambda handle: self._on_run(handle, wanted, notice),
            lambda failure: self._on_run_failed(failure, prompt, otherwise),
            what="Running the prompt",
        )

    def _on_run(self, handle: RunHandle, interventions: tuple[Intervention, ...], notice: str = "") -> None:
        self.timeline.leave()  # a step that was asked for meanwhile belongs to the run that goes
        self.timeline.drawn = ()
        if not handle.prompt.as_ids:
            self.settings.update(prompt=handle.prompt.text)
        self._show_notice()
        self.consistency.forget()
        layer, head, query, key = handle.cell
        self.show_run(handle, layer=layer, head=head, query=query, key=key)
        self.interventions.arrived(interventions)
        if notice:
            self.failed.emit(notice, "")

    def _bring_baseline(self) -> None:
        """Make the pinned run again in the engine of the run on screen, so that both can be compared."""
        kept, handle = self.baseline.kept, self._handle
        if kept is None or handle is None or self.baseline.shares_engine or self.jobs.has("baseline"):
            return
        remote, run_id = self.engines.remote(handle.trace.connection), self.next_run_id()

        def arrived(back: SessionState) -> None:
            self.baseline.restore(back)
            self._bring_baseline()  # another run may be on screen by now

        self.submit(
            "baseline",
            Urgency.REFINEMENT,
            lambda engine: again(remote, kept, run_id),
            arrived,
            self._on_baseline_lost,
            what="Bringing the pinned run over",
        )

    def _on_baseline_lost(self, failure: Failure) -> None:
        """Compare no longer with a run that cannot be made there, as when its checkpoint is on another machine."""
        if not isinstance(failure, Ended):
            self.baseline.unpin()
        self.fail(failure)

    def _on_run_failed(self, failure: Failure, prompt: Prompt, otherwise: tuple[str, ...]) -> None:
        self.fail(failure, prompt)
        if otherwise and not isinstance(failure, Ended):  # without the template: one that failed would fail again
            first, *others = otherwise
            self.run_prompt(replace(prompt, text=first, as_ids=False, chat=""), otherwise=tuple(others))

    def work(
        self,
        slot: str,
        call: Callable[[RemoteEngine], Calls[Any]],
        on_done: Callable[[Any], None],
        on_failed: Callable[[str], None],
        *,
        what: str,
        urgency: Urgency = Urgency.COARSE,
        on_part: Callable[[Any], None] | None = None,
        undone: str = "",
    ) -> None:
        """Have the engine do something for a part of the app that owns no jobs.

        Parameters
        ----------
        slot
            Whose work it is; a newer request of the same slot replaces an older one.
        call
            Given the engine, returns the job.
        on_done, on_failed
            Called with the result, or with a sentence.
        on_part
            Called with what is ready of a long answer.
        undone
            As :meth:`sentence_of` says it.
        """
        if not self.closed:
            self.submit(
                f"work:{slot}",
                urgency,
                call,
                on_done,
                lambda failure: on_failed(self.sentence_of(failure, undone)),
                what=what,
                on_part=on_part,
            )

    def forget_work(self, slot: str) -> None:
        """Drop what the engine was to do for a part of the app."""
        self.jobs.cancel(f"work:{slot}")

    # The engine's end ---------------------------------------------------------------------------------------------

    def restart(self, then: NextRun | None = None, kept: SessionState | None = None) -> None:
        """Start another engine after one has ended, and bring back what was on screen; then run what is asked for now.

        ``kept`` is brought back instead where it is given. Where nothing can be, the bundled model is opened.
        """
        if self.is_lost:  # a person asks for something else
            self.engines.deaths.forget()
        elif kept is None:
            kept = self.scenes.owed or self.scenes.keep()
        baseline = self.baseline.kept
        self.engine_starting.emit()
        if kept is None:
            asked = OpenModel(None, *PLAIN) if self.is_lost and then is None else self._asked
            self._open(asked, then or self._default_run(), self._on_restart_failed)
            return
        connection, ids = self.engines.prepare(), (self.next_run_id(), self.next_run_id())

        def work(engine: RemoteEngine) -> Calls[tuple[SessionState, SessionState | None]]:
            remote = self.engines.remote(connection)
            back = yield from again(remote, kept, ids[0])
            if baseline is None:
                return back, None
            same = baseline.model_handle is kept.model_handle
            return back, (yield from again(remote, baseline, ids[1], back.model_handle if same else None))

        self.timeline.leave()
        self._next = then
        self.submit(
            "open",
            Urgency.PREFILL,
            work,
            lambda states: self._on_restarted(connection, kept, *states),
            self._on_restart_failed,
            what="Starting the engine again",
        )

    def end_engine(self) -> None:
        """End an engine that does not hear; what is on screen stays."""
        self.engines.current.kill()

    def _default_run(self) -> NextRun:
        return NextRun(self._prompt or Prompt(DEFAULT_PROMPT), (DEFAULT_PROMPT,))

    def _on_engine_ended(self, ended: Ended) -> None:
        """Say it once; whoever waited for the engine hears of it too."""
        self.timeline.leave()
        self.engine_ended.emit(ended.sentence, ended.details)

    def _on_restarted(
        self, connection: Connection, kept: SessionState, back: SessionState, baseline: SessionState | None
    ) -> None:
        following = self._next
        self._brought_back = back.handle.run.run_id
        self.engines.adopt(connection)
        self.made_again.emit(kept, back)
        if baseline is not None:
            self.baseline.restore(baseline)  # first: panels ask about both as soon as the run is there
        self.scenes.restore(back)
        self.engine_back.emit()
        if following is not None:
            self._next = following
            self._run_next(back.model_handle.card)

    def _on_restart_failed(self, failure: Failure) -> None:
        """Offer it once more; what would not be tried again is lost, and something else is offered."""
        wish, self._next = self._next, None
        self.is_lost = failure is REFUSAL
        if wish is not None:
            self._prompt = wish.prompt
        self.engine_ended.emit(failure.sentence, failure.details)

    # Questions ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        slot: str,
        question: Question,
        answer: Callable[[Reading[Any]], None],
        part: Callable[[Reading[Any]], None] | None = None,
    ) -> None:
        """Ask about the run on screen.

        Parameters
        ----------
        slot
            Who asks; a newer question of the same slot replaces an older one.
        question
            One of ``model.engine.questions``.
        answer
            Called with a :class:`Reading`, unless the run or the length in view has changed by then.
        part
            Called likewise with every part of a long answer that is ready before the rest.
        """
        handle, baseline = self._handle, self.baseline.handle
        if handle is None or self.closed:
            return

        def arrived(value: Any) -> None:
            if self._handle is handle:
                answer(Reading(handle.run, question, value))

        def part_arrived(value: Any) -> None:
            if part is not None and self._handle is handle:
                part(Reading(handle.run, question, value))

        def went_wrong(failure: Failure) -> None:
            if self._handle is handle:
                self.fail(failure)

        self.submit(
            f"ask:{slot}",
            question.urgency,
            lambda engine: engine.answer(replace(handle, baseline=baseline), question),
            arrived,
            went_wrong,
            what=f"Reading {slot.replace('_', ' ')}",
            on_part=None if part is None else part_arrived,
        )

    def forget(self, slot: str) -> None:
        """Drop what was asked in a slot: nobody looks at that any more."""
        self.jobs.cancel(f"ask:{slot}")

    def cancel(self) -> None:
        """Cancel what is being opened, run or decoded, and whatever else shows its progress."""
        self.jobs.cancel_shown()
        self.checkpoints.cancel()
        self.exports.cancel_all()
        self.cancelled.emit()
        self.timeline.leave()
        self._next = None
        for slot in ("open", "run", "baseline"):
            self.jobs.cancel(slot)

    def close(self) -> None:
        """Cancel everything and end the processes; the session is of no use afterwards."""
        if self.closed:
            return
        self.closed = True
        self.timeline.close()
        self.jobs.close()
        self.checkpoints.close()
        self.exports.close()
        for connection in self.findChildren(Connection):
            connection.close()
        for connection in self.findChildren(Connection):
            connection.wait()

    def _restarts_with(self, kept: SessionState) -> bool:
        if self.engines.gone is not None:
            self.restart(kept=kept)
        return self.engines.gone is not None

    def sentence_of(self, failure: Failure, undone: str = "") -> str:
        """What to say of a failure: ``undone`` where that is all that is news, for the engine's end is said already."""
        gone = self.engines.gone
        if undone and gone is not None and failure.sentence == gone.sentence:
            return f"{undone}: the engine has ended; start it again."
        return failure.sentence

    # For its parts ------------------------------------------------------------------------------------------------

    def next_run_id(self) -> int:
        """An id that no run has had."""
        self._runs += 1
        return self._runs

    def drop(self, *slots: str) -> None:
        """Forget what was to be run next, and end the jobs of these slots."""
        self.timeline.leave()
        self._next = None
        for slot in slots:
            self.jobs.cancel(slot)

    def swap_model(self, model_handle: ModelHandle, prompt: Prompt) -> None:
        """Have another model open, and another prompt; the run that belongs to them is shown next."""
        changed = self._model_handle is not model_handle
        self._model_handle, self._prompt = model_handle, prompt
        if changed:
            self.interventions.forget_prompts()
            self.model_changed.emit(model_handle.card)

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
        self.jobs.submit(slot, urgency, call(self.engines.remote()), on_done, on_failed, what=what, on_part=on_part)

    def show_run(self, handle: RunHandle, **selection: int) -> None:
        """Put a run on screen: the selection is clamped first, so that no panel asks beyond the run's end."""
        self.scenes.owed = None
        before, self._handle = self.run, handle
        run = handle.run
        if before is None or run.run_id not in (before.run_id, self._brought_back):
            self.engines.deaths.forget()
        self.selection.bind(_bounds(run), step=run.length, **selection)
        self.run_changed.emit(before, run)
        self.consistency.follow()
        self._bring_baseline()
        if before is not None and before.run_id != run.run_id:
            self._tidy()

    def _tidy(self) -> None:
        """Give back what the run before has left, once everything else is done."""
        self.submit(
            "tidy",
            Urgency.THUMBNAILS,
            lambda engine: engine.tidy(),
            lambda _: None,
            self.fail,
            what="Giving memory back",
        )

    def fail(self, failure: Failure, refused: Prompt | None = None) -> None:
        """Say what went wrong; ``refused`` is the prompt that an offer, once accepted, is to run.

        The end of the engine is said once, whoever waited for it, and however many were started that end so.
        """
        gone = self.engines.gone
        if isinstance(failure, Ended) and gone is not None and failure.sentence == gone.sentence:
            return
        self.failed.emit(failure.sentence, failure.details)
        if failure.offers:
            self.interventions.offer(failure.offers, refused)


def _bounds(run: Run) -> Bounds:
    planes = max((spec.rotary_width // 2 for spec in run.specs), default=0)
    config = run.config
    return Bounds(layers=config.layers, heads=config.heads, rows=run.length, planes=max(planes, 1))
