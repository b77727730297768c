"""The prompt and the run on screen, and the parts of a session around them; the only place that starts jobs.

The session turns a person's intent into jobs, keeps the old run on screen until a new one has arrived, and tells
everybody about changes by signals. The open model, the end of an engine, and what a person does with a run have parts
of their own, which the session ties together. It holds the tensors of a run as an opaque handle and never looks
inside. No widgets, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import Calls, ConnectBy, Connection, Ended
from ropewalk.app.engine.engines import Engines
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.engine.short_lived import ShortLived
from ropewalk.app.jobs import Jobs
from ropewalk.app.session.attaching import Attaching
from ropewalk.app.session.baseline import Baseline
from ropewalk.app.session.board import Board
from ropewalk.app.session.checkpoints import Checkpoints
from ropewalk.app.session.consistency import ConsistencyChecks
from ropewalk.app.session.interventions import Interventions
from ropewalk.app.session.opening import NextRun, Opening
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.recovery import Recovery
from ropewalk.app.session.selection import Bounds, Hover, SelectionStore
from ropewalk.app.session.state import Scenes, SessionState
from ropewalk.app.session.surveys import Surveys
from ropewalk.app.session.timeline import Timeline
from ropewalk.app.session.walk import Walk
from ropewalk.app.settings import Opened, SettingsStore
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import Intervention, PermuteTokens
from ropewalk.model.engine.interface import ModelHandle, OpenedTrace, RunHandle, undoable
from ropewalk.model.engine.questions import Capability, Question
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import ModelCard, Run
from ropewalk.model.tokens.prompt import Prompt


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
    noticed(sentence)
        Something ended as it should, of which a person is told until the run goes on.
    settled()
        No job is left, so everything asked for has been answered.
    cancelled()
        The person asked for an end of whatever takes long.

    Attributes
    ----------
    newest
        The newest prompt that was asked for, None before the first.
    opening, recovery
        What is open and is being opened; what is done about an engine that has ended.
    timeline, consistency
        How far the run is in view and how it goes on; whether it was found consistent.
    interventions, baseline
        What is changed in the run; the run that it is compared with.
    board
        Heads that are pinned to be seen side by side, and notes to heads.
    scenes, attaching
        Scenes put on screen in one go, and what was there before; the checkpoint of a run from a file.
    walk
        Which operation of the selected block is looked at.
    checkpoints, exports
        What could be opened; the jobs of files in the making, beside everything else.
    surveys
        Surveys of models over many texts: the one that is looked at, and the one that runs.
    """

    run_changed = Signal(object, object)
    model_changed = Signal(object)
    progress_changed = Signal(object)
    failed = Signal(str, str)
    noticed = Signal(str)
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
        self.jobs, downloads, self.exports, surveying = Jobs(self), Jobs(self), Jobs(self), Jobs(self)
        for jobs in (self.jobs, downloads, self.exports):
            jobs.progress_changed.connect(self.progress_changed)
        self.jobs.settled.connect(self.settled)
        self._handle: RunHandle | None = None
        self._measured: ModelHandle | None = None
        self.walk = Walk(self._walked_block, self)
        self._runs = 0
        self.newest: Prompt | None = None
        self.closed = False
        self.timeline = Timeline(self, parent=self)
        self.consistency = ConsistencyChecks(self, parent=self)
        self.interventions = Interventions(self, self.timeline, self.consistency, parent=self)
        self.opening = Opening(self, self.engines, self.timeline, self.interventions, parent=self)
        self.opening.model_changed.connect(self.model_changed)
        self.scenes = Scenes(self, self.timeline, self.consistency, self.interventions, self._restarts_with)
        self.opening.trace_opened.connect(self._on_trace_opened)
        self.attaching = Attaching(self, self.engines, self.opening, self.timeline, self.scenes, parent=self)
        self.baseline = Baseline(self, self.engines, self.scenes, parent=self)
        self.board = Board(self, parent=self)
        self.recovery = Recovery(
            self, self.engines, self.opening, self.timeline, self.scenes, self.baseline, parent=self
        )
        self.local = ShortLived(lambda owner: light(owner, ""), self)
        self.beside = ShortLived(lambda owner: light(owner, self.engines.command), self)
        self.checkpoints = Checkpoints(self, self.engines, self.beside, downloads, parent=self)
        self.surveys = Surveys(self, lambda owner: light(owner, ""), self.local, surveying, self.scenes, parent=self)
        self.model_changed.connect(self.surveys.follow_model)
        self.run_changed.connect(self.surveys.follow_run)

    # What is known ------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run on screen."""
        return None if self._handle is None else self._handle.run

    @property
    def model(self) -> ModelCard | None:
        """The open model."""
        return None if self.model_handle is None else self.model_handle.card

    @property
    def model_handle(self) -> ModelHandle | None:
        """The open model as a handle, for the parts of the session."""
        return self.opening.model_handle

    @property
    def handle(self) -> RunHandle | None:
        """The run on screen as a handle."""
        return self._handle

    def why_not(self, *needs: Capability) -> str:
        """Why the run on screen does not let something be done with it, a sentence; empty where it does."""
        handle = self.handle
        return "" if handle is None else undoable(handle, frozenset(needs))

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the engine's machine; only ``cpu`` until a model is open."""
        return ("cpu",) if self.model_handle is None else self.model_handle.devices

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
        return self.newest or Prompt()

    @property
    def busy(self) -> bool:
        """Whether any answer is still to come."""
        return self.jobs.busy

    # Running ----------------------------------------------------------------------------------------------------------

    def start(self, prompt: Prompt) -> None:
        """Prefill a prompt; the old run stays on screen until the new one is there."""
        if not prompt.text:
            if self.engines.gone is not None and self._handle is None:
                self.recovery.restart()
            else:
                self.failed.emit("The prompt is empty, but a run needs at least one token; type something first.", "")
            return
        self.run_prompt(prompt)

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
        self.newest = prompt
        self.timeline.leave()
        self.jobs.cancel("check")
        if self.jobs.has("open"):
            self.opening.next = NextRun(prompt, is_wish=True)
            return
        if self.engines.gone is not None:
            self.recovery.restart(NextRun(prompt, is_wish=True))
            return
        model_handle = self.model_handle
        if model_handle is None:
            self.opening.begin(prompt=prompt)
            return
        run_id, now = self.next_run_id(), self.selection.now
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
        self.show_notice()
        self.consistency.forget()
        layer, head, query, key = handle.cell
        self.show_run(handle, layer=layer, head=head, query=query, key=key)
        self.interventions.arrived(interventions)
        if notice:
            self.failed.emit(notice, "")

    def _measure_products(self) -> None:
        """Once the first run of a model is on screen, find what multiplies quickest on the engine's machine."""
        model_handle = self.model_handle
        if model_handle is None or model_handle is self._measured or "run" not in model_handle.can:
            return
        self._measured = model_handle
        what = "Measuring what multiplies quickest"
        measured, later = (lambda engine: engine.measure_products(model_handle)), Urgency.LATER
        self.work("products", measured, _unneeded, _unneeded, what=what, urgency=later)

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
        self.opening.next = None
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
        self.surveys.close()
        self.exports.close()
        for connection in self.findChildren(Connection):
            connection.close()
        for connection in self.findChildren(Connection):
            connection.wait()

    def sentence_of(self, failure: Failure, undone: str = "") -> str:
        """What to say of a failure: ``undone`` where that is all that is news, for the engine's end is said already."""
        gone = self.engines.gone
        if undone and gone is not None and failure.sentence == gone.sentence:
            return f"{undone}: the engine has ended; start it again."
        return failure.sentence

    # For its parts ------------------------------------------------------------------------------------------------

    def show_notice(self) -> None:
        """Tell what happened to the settings file, once."""
        if self.settings.notice:
            notice, self.settings.notice = self.settings.notice, ""
            self.failed.emit(notice, "")

    def next_run_id(self) -> int:
        """An id that no run has had."""
        self._runs += 1
        return self._runs

    def drop(self, *slots: str) -> None:
        """Forget what was to be run next, and end the jobs of these slots."""
        self.timeline.leave()
        self.opening.next = None
        for slot in slots:
            self.jobs.cancel(slot)

    def swap_model(self, model_handle: ModelHandle, prompt: Prompt) -> None:
        """Have another model open, and another prompt; the run that belongs to them is shown next."""
        self.newest = prompt
        self.opening.swap(model_handle)

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
        self.recovery.follow(before, run)
        if before is not None and before.run_id != run.run_id:
            self.selection.point_at(Hover())  # what was pointed at was a place of that run
        self.selection.bind(_bounds(run), step=run.length, **selection)
        self.run_changed.emit(before, run)
        self.consistency.follow()
        self.baseline.follow()
        self._measure_products()
        if before is not None and before.run_id != run.run_id:
            self._tidy()

    def _on_trace_opened(self, trace: OpenedTrace) -> None:
        handle = trace.handle
        layer, head, query, key = handle.cell
        at = replace(self.selection.now, layer=layer, head=head, query=query, key=key)
        self.scenes.restore(
            SessionState(handle.model_handle, handle, handle.prompt, trace.drawn, trace.interventions, at)
        )

    def _walked_block(self) -> tuple[ModelConfig, int] | None:
        return None if self.run is None else (self.run.config, self.selection.now.layer)

    def _restarts_with(self, kept: SessionState) -> bool:
        return self.recovery.restarts_with(kept)

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

    def notice(self, sentence: str) -> None:
        """Say that something ended as it should."""
        self.noticed.emit(sentence)

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


def _unneeded(answer: object) -> None:
    """Nobody waits for the answer."""


def _bounds(run: Run) -> Bounds:
    planes = max((spec.rotary_width // 2 for spec in run.specs), default=0)
    config = run.config
    return Bounds(layers=config.layers, heads=config.heads, rows=run.length, planes=max(planes, 1))
