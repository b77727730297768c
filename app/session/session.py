"""The open model, the prompt and the run, and the parts of a session around them; the only place that starts jobs.

The session turns a person's intent into jobs, keeps the old run on screen until a new one has arrived, and tells
everybody about changes by signals. What a person does with a run has parts of its own, which the session ties
together. It holds the tensors of a run as an opaque handle and never looks inside. No widgets, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine import load_engine
from ropewalk.app.jobs import Failure, Jobs
from ropewalk.app.session.baseline import Baseline
from ropewalk.app.session.checkpoints import Checkpoints
from ropewalk.app.session.consistency import ConsistencyChecks
from ropewalk.app.session.interventions import Interventions
from ropewalk.app.session.selection import Bounds, SelectionStore
from ropewalk.app.session.state import Scenes
from ropewalk.app.session.timeline import Timeline
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import Intervention, PermuteTokens
from ropewalk.model.engine.interface import Engine, ModelHandle, RunHandle, without_weights
from ropewalk.model.engine.questions import Question
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress
from ropewalk.model.readings.records import ModelCard, Run
from ropewalk.model.tokens.prompt import Prompt

DEFAULT_PROMPT = " wizards ate seven purple plums wizards ate seven purple plums"
"""The same tokens twice (hence the space in front), so that the induction stripe is the first thing anyone sees."""

DEFAULT_IDS = "1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8"
"""What is run on a model without a tokenizer until somebody types other ids."""


class Session(QObject):
    """What the person is doing.

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
    settled()
        No job is left, so everything asked for has been answered.
    cancelled()
        The person asked for an end of whatever takes long.

    Attributes
    ----------
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
    settled = Signal()
    cancelled = Signal()

    def __init__(
        self,
        settings: SettingsStore | None = None,
        engine: Callable[[], Engine] = load_engine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.settings = SettingsStore() if settings is None else settings
        self.selection = SelectionStore(self)
        self._engine = engine
        self.jobs, downloads, self.exports = Jobs(self), Jobs(self), Jobs(self)
        for jobs in (self.jobs, downloads, self.exports):
            jobs.progress_changed.connect(self.progress_changed)
        self.jobs.settled.connect(self.settled)
        self._model_handle: ModelHandle | None = None
        self._handle: RunHandle | None = None
        self._runs = 0
        self._prompt: Prompt | None = None
        self._start_pending = False
        self._fallbacks: list[str] = []
        self.closed = False
        self.timeline = Timeline(self, parent=self)
        self.consistency = ConsistencyChecks(self, parent=self)
        self.interventions = Interventions(self, self.timeline, self.consistency, parent=self)
        self.scenes = Scenes(self, self.timeline, self.consistency, self.interventions)
        self.baseline = Baseline(self, self.scenes, parent=self)
        self.checkpoints = Checkpoints(self, downloads, parent=self)

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
        """The devices of this machine; only ``cpu`` until a model is open."""
        return ("cpu",) if self._model_handle is None else self._model_handle.devices

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
        first = remembered.prompt or DEFAULT_PROMPT
        self._prompt = Prompt(first) if prompt is None else prompt
        self._fallbacks = [DEFAULT_PROMPT] if prompt is None and first != DEFAULT_PROMPT else []
        self._show_notice()
        self._open(
            path, remembered.device, remembered.dtype, on_failed=lambda failure: self._open_plainly(path, failure)
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
        """
        card = self.model
        if options is None and self._model_handle is not None and path == self._model_handle.card.path:
            options = dict(self._model_handle.options)
        self._open(
            path,
            device or (card.device if card else self.settings.now.device),
            dtype or (card.dtype if card else self.settings.now.dtype),
            on_failed=self._on_open_failed,
            options=options,
        )

    def start(self, prompt: Prompt) -> None:
        """Prefill a prompt; the old run stays on screen until the new one is there."""
        if not prompt.text:
            self.failed.emit("The prompt is empty, but a run needs at least one token; type something first.", "")
            return
        self._fallbacks = []
        self.run_prompt(prompt)

    def _open(
        self,
        path: str | None,
        device: str,
        dtype: str,
        on_failed: Callable[[Failure], None],
        options: Mapping[str, int] | None = None,
    ) -> None:
        self.timeline.leave()
        self._start_pending = self._start_pending or self.jobs.has("run")
        for slot in ("run", "check"):
            self.jobs.cancel(slot)
        name = "the bundled model" if path is None else path
        self.submit(
            "open",
            Urgency.PREFILL,
            lambda engine: engine.open_model(path, device, dtype, options=options),
            lambda model_handle: self._on_opened(model_handle, path),
            on_failed,
            what=f"Opening {name}",
        )

    def _open_plainly(self, path: str | None, failure: Failure) -> None:
        """Open on the CPU after a remembered device has failed."""
        self.fail(failure)
        if (self.settings.now.device, self.settings.now.dtype) != ("cpu", "float32"):
            self._open(path, "cpu", "float32", on_failed=self.fail)

    def _on_open_failed(self, failure: Failure) -> None:
        """Stay with the model that is open, and run on it what was asked for meanwhile."""
        self.fail(failure)
        if self._start_pending and self._model_handle is not None and self._prompt is not None:
            self.run_prompt(self._prompt)

    def _on_opened(self, model_handle: ModelHandle, path: str | None) -> None:
        if model_handle.shapes_only:
            self._on_open_failed(Failure(without_weights(model_handle.card), ""))
            return
        self._model_handle = model_handle
        self.interventions.arrived(())
        self.interventions.forget_prompts()
        card = model_handle.card
        self.settings.update(device=card.device, dtype=card.dtype)
        if path is not None:
            self.settings.remember_checkpoint(path, dict(model_handle.options))
        self.model_changed.emit(card)
        if model_handle.notice:
            self.failed.emit(model_handle.notice, "")
        if self._prompt is not None:
            prompt = self._prompt
            if prompt.chat not in card.chats:
                prompt = replace(prompt, chat="")
            if not card.has_tokenizer and not any(c.isdigit() for c in prompt.text):
                prompt = replace(prompt, text=DEFAULT_IDS)
            if self._handle is not None:
                self._fallbacks = [DEFAULT_PROMPT] if card.has_tokenizer else [DEFAULT_IDS]
            self.run_prompt(prompt)

    def run_prompt(self, prompt: Prompt, interventions: Sequence[Intervention] | None = None, notice: str = "") -> None:
        """Run a prompt, under other interventions where some are given; ``notice`` is said once it is there."""
        self._prompt = prompt
        self.timeline.leave()
        self.jobs.cancel("check")
        if self._model_handle is None:
            if not self.jobs.has("open"):
                self.begin(prompt=prompt)
            return
        if self.jobs.has("open"):
            self._start_pending = True
            return
        self._start_pending = False
        model_handle, run_id, now = self._model_handle, self.next_run_id(), self.selection.now
        head = None if self._handle is None else (now.layer, now.head)
        active = self.interventions.now if interventions is None else interventions
        wanted = self.interventions.want(one for one in active if not isinstance(one, PermuteTokens))
        self.submit(
            "run",
            Urgency.PREFILL,
            lambda engine: engine.run(model_handle, prompt, run_id, head, interventions=wanted),
            lambda handle: self._on_run(handle, wanted, notice),
            lambda failure: self._on_run_failed(failure, prompt),
            what="Running the prompt",
        )

    def _on_run(self, handle: RunHandle, interventions: tuple[Intervention, ...], notice: str = "") -> None:
        self.timeline.leave()  # a step that was asked for meanwhile belongs to the run that goes
        self.timeline.drawn = ()
        self._fallbacks = []
        if not handle.prompt.as_ids:
            self.settings.update(prompt=handle.prompt.text)
        self._show_notice()
        self.consistency.forget()
        layer, head, query, key = handle.cell
        self.show_run(handle, layer=layer, head=head, query=query, key=key)
        self.interventions.arrived(interventions)
        if notice:
            self.failed.emit(notice, "")

    def _on_run_failed(self, failure: Failure, prompt: Prompt) -> None:
        self.fail(failure, prompt)
        if self._fallbacks:  # without the template: one that failed would fail again
            self.run_prompt(replace(prompt, text=self._fallbacks.pop(0), as_ids=False, chat=""))

    def work(
        self,
        slot: str,
        call: Callable[[Any], Generator[Progress, None, Any]],
        on_done: Callable[[Any], None],
        on_failed: Callable[[str], None],
        *,
        what: str,
        urgency: Urgency = Urgency.COARSE,
    ) -> None:
        """Have the engine do something for a part of the app that owns no jobs.

        Parameters
        ----------
        slot
            Whose work it is; a newer request of the same slot replaces an older one.
        call
            Given the engine, returns the job.
        on_done, on_failed
            Called on this thread with the result, or with a sentence.
        """
        if not self.closed:
            self.submit(
                f"work:{slot}",
                urgency,
                call,
                on_done,
                lambda failure: on_failed(failure.sentence),
                what=what,
            )

    # Questions ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        slot: str,
        question: Question,
        answer: Callable[[Any], None],
        part: Callable[[Any], None] | None = None,
    ) -> None:
        """Ask about the run on screen.

        Parameters
        ----------
        slot
            Who asks; a newer question of the same slot replaces an older one.
        question
            One of ``model.engine.questions``.
        answer
            Called on this thread, unless the run or the length in view has changed by then.
        part
            Called likewise with every part of a long answer that is ready before the rest.
        """
        handle, baseline = self._handle, self.baseline.handle
        if handle is None or self.closed:
            return

        def arrived(reading: Any) -> None:
            if self._handle is handle:
                answer(reading)

        def part_arrived(reading: Any) -> None:
            if part is not None and self._handle is handle:
                part(reading)

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
        self._start_pending = False
        for slot in ("open", "run"):
            self.jobs.cancel(slot)

    def close(self) -> None:
        """Cancel everything and wait for the compute thread; the session is of no use afterwards."""
        if self.closed:
            return
        self.closed = True
        self.timeline.close()
        self.jobs.close()
        self.checkpoints.close()
        self.exports.close()

    # For its parts ------------------------------------------------------------------------------------------------

    def next_run_id(self) -> int:
        """An id that no run has had."""
        self._runs += 1
        return self._runs

    def drop(self, *slots: str) -> None:
        """Forget what was to be run next, and end the jobs of these slots."""
        self.timeline.leave()
        self._fallbacks, self._start_pending = [], False
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
        call: Callable[[Engine], Generator[Progress, None, Any]],
        on_done: Callable[[Any], None],
        on_failed: Callable[[Failure], None],
        *,
        what: str,
        on_part: Callable[[Any], None] | None = None,
    ) -> None:
        """Queue a job for the engine; ``call`` is given it on the compute thread, where it is loaded if need be."""
        load = self._engine

        def work() -> Generator[Progress, None, Any]:
            return (yield from call(load()))

        self.jobs.submit(slot, urgency, work(), on_done, on_failed, what=what, on_part=on_part)

    def show_run(self, handle: RunHandle, **selection: int) -> None:
        """Put a run on screen: the selection is clamped first, so that no panel asks beyond the run's end."""
        before, self._handle = self.run, handle
        run = handle.run
        if handle.tiles is not None:
            handle.tiles.resize(self.settings.now.tile_mib << 20)
        self.selection.bind(_bounds(run), step=run.length, **selection)
        self.run_changed.emit(before, run)
        self.consistency.follow()
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
        """Say what went wrong; ``refused`` is the prompt that an offer, once accepted, is to run."""
        self.failed.emit(failure.sentence, failure.details)
        if failure.offers:
            self.interventions.offer(failure.offers, refused)


def _bounds(run: Run) -> Bounds:
    planes = max((spec.rotary_width // 2 for spec in run.specs), default=0)
    config = run.config
    return Bounds(layers=config.layers, heads=config.heads, rows=run.length, planes=max(planes, 1))
