"""The open model, the prompt, the run and what is changed in it; the only place that starts jobs.

The session turns a person's intent into jobs, keeps the old run on screen until a new one has arrived, and tells
everybody about changes by signals. It holds the tensors of a run as an opaque handle and never looks inside. No
widgets, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.door import Engine, Held, Opened, Outlined, Typed, load_engine, without_weights
from app.downloads import download_steps
from app.jobs import Failure, Jobs, Urgency
from app.local_models import LocalModel, cache_folder, local_models_steps
from app.proofs import Proofs
from app.questions import (
    AskArithmetic,
    AskAtlas,
    AskAttribution,
    AskBranchProof,
    AskCache,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLedger,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskPlanes,
    AskProof,
    AskRandomLayers,
    AskRefined,
    AskRouting,
    AskRow,
    AskRules,
    Question,
)
from app.selection import Bounds, Selection, SelectionStore
from app.settings import SettingsStore
from app.timeline import Timeline
from model.experiments import Experiment, PermuteTokens, RopeScaling
from model.progress import Progress
from model.readings import ModelCard, Run, Sampling

if TYPE_CHECKING:
    from app.lessons import Shelf

DEFAULT_PROMPT = " wizards ate seven purple plums wizards ate seven purple plums"
"""The same tokens twice (hence the space in front), so that the induction stripe is the first thing anyone sees."""

DEFAULT_IDS = "1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8"
"""What is run on a model without a tokenizer until somebody types other ids."""


URGENCIES: dict[type[Question], Urgency] = {
    AskRow: Urgency.POINTER,
    AskCell: Urgency.POINTER,
    AskPlanes: Urgency.POINTER,
    AskHead: Urgency.PICTURE,
    AskNextToken: Urgency.COARSE,
    AskCache: Urgency.COARSE,
    AskArithmetic: Urgency.COARSE,
    AskAttribution: Urgency.COARSE,
    AskRules: Urgency.COARSE,
    AskHeadDifference: Urgency.COARSE,
    AskNextTokenDifference: Urgency.COARSE,
    AskMean: Urgency.COARSE,
    AskRandomLayers: Urgency.COARSE,
    AskProof: Urgency.REFINEMENT,
    AskBranchProof: Urgency.REFINEMENT,
    AskLedger: Urgency.REFINEMENT,  # it measures a whole layer, and must not keep a head from being shown
    AskRefined: Urgency.REFINEMENT,
    AskRouting: Urgency.REFINEMENT,
    AskAtlas: Urgency.THUMBNAILS,
    AskNeeds: Urgency.THUMBNAILS,
}


@dataclass(frozen=True)
class Kept:
    """What was on screen at a moment. The run is kept by its handle, so that bringing it back computes nothing."""

    opened: Opened
    held: Held
    prompt: str
    drawn: tuple[Sampling, ...]
    experiments: tuple[Experiment, ...]
    selection: Selection


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
    offered(experiments)
        After ``failed``: experiments, any of which :meth:`accept` would do what was refused with.
    experiments_changed(experiments)
        What is changed in the model in the run on screen; a tuple of ``model.experiments``.
    pinned_changed(run)
        The :class:`Run` that others are compared with, or None.
    settled()
        No job is left, so everything asked for has been answered.
    cancelled()
        The person asked for an end of whatever takes long.

    Attributes
    ----------
    timeline, proofs
        How far the run is in view and how it goes on; what has been proved of it.
    """

    run_changed = Signal(object, object)
    model_changed = Signal(object)
    progress_changed = Signal(object)
    failed = Signal(str, str)
    offered = Signal(object)
    experiments_changed = Signal(object)
    pinned_changed = Signal(object)
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
        self.jobs = Jobs(self)
        self.jobs.progress_changed.connect(self.progress_changed)
        self.jobs.settled.connect(self.settled)
        self._downloads = Jobs(self)
        """A thread of its own: the network is slow, and panels must not wait for it."""
        self._downloads.progress_changed.connect(self.progress_changed)
        self._exports = Jobs(self)
        """Another: a file may take long to encode, and panels must not wait for it either."""
        self._exports.progress_changed.connect(self.progress_changed)
        self._opened: Opened | None = None
        self._held: Held | None = None
        self._pinned: Held | None = None
        self._pinned_kept: Kept | None = None
        self._experiments: tuple[Experiment, ...] = ()
        self._wanted: tuple[Experiment, ...] = ()
        self._runs = 0
        self._prompt: str | None = None
        self._typed = Typed()
        self._refused: tuple[str, Typed] | None = None
        self._fitting: tuple[str, Typed] | None = None
        """The newest prompt that ran without its positions being stretched."""
        self._start_pending = False
        self._fallbacks: list[str] = []
        self._head_chosen = False
        self.closed = False
        self.timeline = Timeline(self)
        self.proofs = Proofs(self)

    # What is known ------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run on screen."""
        return None if self._held is None else self._held.run

    @property
    def model(self) -> ModelCard | None:
        """The open model."""
        return None if self._opened is None else self._opened.card

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of this machine; only ``cpu`` until a model is open."""
        return ("cpu",) if self._opened is None else self._opened.devices

    @property
    def prompt(self) -> str:
        """The newest prompt that was asked for."""
        return self._prompt or ""

    @property
    def typed(self) -> Typed:
        """How the next prompt is meant: text with or without special tokens around it, or ids."""
        return self._typed

    def set_typed(self, typed: Typed) -> None:
        """Say how prompts are meant from the next run on."""
        self._typed = typed

    @property
    def busy(self) -> bool:
        """Whether any answer is still to come."""
        return self.jobs.busy

    # Opening and running ------------------------------------------------------------------------------------------

    def begin(self, path: str | None = None, prompt: str | None = None) -> None:
        """Do what a start does: open the model (None: the bundled one) and run the last prompt, or the given one.

        What was remembered is only a wish here: a device that is gone falls back to the CPU, a prompt that does not
        fit to the default prompt.
        """
        remembered = self.settings.now
        first = remembered.prompt or DEFAULT_PROMPT
        self._prompt = first if prompt is None else prompt
        self._fallbacks = [DEFAULT_PROMPT] if prompt is None and first != DEFAULT_PROMPT else []
        self._tell_notice()
        self._open(
            path, remembered.device, remembered.dtype, on_failed=lambda failure: self._open_plainly(path, failure)
        )

    def _tell_notice(self) -> None:
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
        if options is None and self._opened is not None and path == self._opened.card.path:
            options = dict(self._opened.options)
        self._open(
            path,
            device or (card.device if card else self.settings.now.device),
            dtype or (card.dtype if card else self.settings.now.dtype),
            on_failed=self._on_open_failed,
            options=options,
        )

    def outline(
        self,
        path: str | None,
        answer: Callable[[Outlined], None],
        failed: Callable[[str], None],
        options: Mapping[str, int] | None = None,
    ) -> None:
        """Say what a checkpoint is and would cost, without loading it; a newer question replaces an older one."""
        self.submit(
            "outline",
            Urgency.COARSE,
            lambda engine: engine.outline(path, options or {}),
            answer,
            lambda failure: failed(failure.sentence),
            what="Looking at the checkpoint",
        )

    def local_models(self, answer: Callable[[tuple[LocalModel, ...]], None]) -> None:
        """List what the local Hugging Face cache holds; no network."""
        self.jobs.submit("local models", Urgency.COARSE, local_models_steps(cache_folder()), answer, self.fail)

    def read_shelf(self, answer: Callable[[Shelf], None]) -> None:
        """Read the lessons that come along, beside the window."""
        from app.lessons import shelf_steps  # no start needs it

        self.jobs.submit("shelf", Urgency.COARSE, shelf_steps(), answer, self.fail)

    def download(self, name: str, arrived: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Download ``org/name`` from Hugging Face; ``arrived`` hears where it lies. Only when a person asked for it."""
        self._downloads.submit(
            "download",
            Urgency.PREFILL,
            download_steps(name, self._downloads.pulse),
            arrived,
            lambda failure: failed(failure.sentence),
            what=f"Downloading {name}",
        )

    def forget_questions(self) -> None:
        """Nobody waits any more for what a checkpoint is, or for the list of local ones."""
        for slot in ("outline", "local models"):
            self.jobs.cancel(slot)

    def start(self, prompt: str) -> None:
        """Prefill a prompt; the old run stays on screen until the new one is there."""
        if not prompt:
            self.failed.emit("The prompt is empty, but a run needs at least one token; type something first.", "")
            return
        self._fallbacks = []
        self._start(prompt)

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
            lambda opened: self._on_opened(opened, path),
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
        if self._start_pending and self._opened is not None and self._prompt is not None:
            self._start(self._prompt)

    def _on_opened(self, opened: Opened, path: str | None) -> None:
        if opened.shapes_only:
            self._on_open_failed(Failure(without_weights(opened.card), ""))
            return
        self._opened = opened
        self._set_experiments(())
        self._refused = self._fitting = None
        card = opened.card
        if self._typed.chat not in card.chats:
            self._typed = replace(self._typed, chat="")
        self.settings.update(device=card.device, dtype=card.dtype)
        if path is not None:
            self.settings.remember_checkpoint(path)
        self.model_changed.emit(card)
        if opened.notice:
            self.failed.emit(opened.notice, "")
        if self._prompt is not None:
            wordless = not card.has_tokenizer and not any(c.isdigit() for c in self._prompt)
            if self._held is not None:
                self._fallbacks = [DEFAULT_PROMPT] if card.has_tokenizer else [DEFAULT_IDS]
            self._start(DEFAULT_IDS if wordless else self._prompt)

    def _start(self, prompt: str, experiments: Sequence[Experiment] | None = None, told: str = "") -> None:
        """Run a prompt, under other experiments where some are given; ``told`` is said once it is there."""
        self._prompt = prompt
        self.timeline.leave()
        self.jobs.cancel("check")
        if self._opened is None:
            if not self.jobs.has("open"):
                self.begin(prompt=prompt)
            return
        if self.jobs.has("open"):
            self._start_pending = True
            return
        self._start_pending = False
        opened, self._runs = self._opened, self._runs + 1
        run_id = self._runs
        now = self.selection.now
        head = (now.layer, now.head) if self._head_chosen else None
        typed = self._typed
        active = self._experiments if experiments is None else experiments
        wanted = self._wanted = tuple(one for one in active if not isinstance(one, PermuteTokens))
        self.submit(
            "run",
            Urgency.PREFILL,
            lambda engine: engine.run(opened, prompt, run_id, head, experiments=wanted, typed=typed),
            lambda held: self._on_run(held, wanted, told),
            lambda failure: self._on_run_failed(failure, prompt, typed),
            what="Running the prompt",
        )

    def _on_run(self, held: Held, experiments: tuple[Experiment, ...], told: str = "") -> None:
        self.timeline.leave()  # a step that was asked for meanwhile belongs to the run that goes
        self.timeline.drawn = ()
        self._head_chosen = True
        self._fallbacks = []
        if not held.typed.as_ids:
            self.settings.update(prompt=held.run.prompt)
        self._tell_notice()
        self.proofs.forget()
        layer, head, query, key = held.cell
        self.show_run(held, layer=layer, head=head, query=query, key=key)
        self._set_experiments(experiments)
        if told:
            self.failed.emit(told, "")

    def _on_run_failed(self, failure: Failure, prompt: str, typed: Typed) -> None:
        self.fail(failure, (prompt, typed))
        if self._fallbacks:
            self._typed = replace(self._typed, chat="")  # a template that failed would fail again
            self._start(self._fallbacks.pop(0))

    # For a lesson -----------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened | None:
        """The open model as a handle, to be brought back by :meth:`stage`."""
        return self._opened

    @property
    def held(self) -> Held | None:
        """The run on screen as a handle."""
        return self._held

    def keep(self) -> Kept | None:
        """What is on screen, to be brought back by :meth:`bring_back`; None before the first run."""
        if self._opened is None or self._held is None:
            return None
        return Kept(self._opened, self._held, self.prompt, self.timeline.drawn, self._experiments, self.selection.now)

    def bring_back(self, kept: Kept) -> None:
        """Put a run back on screen as it was: model, prompt, decoded tokens, experiments and selection."""
        self.timeline.leave()
        self._fallbacks, self._start_pending = [], False
        for slot in ("open", "run", "check"):
            self.jobs.cancel(slot)
        changed = self._opened is not kept.opened
        self._opened, self._prompt, self.timeline.drawn = kept.opened, kept.prompt, kept.drawn
        if changed:
            self._refused = self._fitting = None
            self.model_changed.emit(kept.opened.card)
        self.proofs.forget()
        now = kept.selection
        self.show_run(kept.held, layer=now.layer, head=now.head, query=now.query, key=now.key, plane=now.plane)
        self._set_experiments(kept.experiments)

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

    def export(
        self,
        slot: str,
        work: Generator[Progress, None, Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[str], None],
        *,
        what: str,
    ) -> None:
        """Make a file on the thread of exports, beside the one that computes; it needs no engine."""
        if not self.closed:
            self._exports.submit(
                slot, Urgency.PREFILL, work, on_done, lambda failure: on_failed(failure.sentence), what=what
            )

    @property
    def export_pulse(self) -> Callable[[Progress], None]:
        """What work that cannot pause tells its progress to, on the thread of exports; raises when it is to end."""
        return self._exports.pulse

    def stage(
        self,
        opened: Opened,
        prompt: str,
        *,
        experiments: Sequence[Experiment] = (),
        decoded: int = 0,
        select: Mapping[str, int] | None = None,
        arrived: Callable[[], None] | None = None,
    ) -> int:
        """Put a scene on screen in one go: a model, a prompt, and tokens decoded greedily. Nothing is remembered.

        Parameters
        ----------
        select
            Fields of the selection; a negative query or key counts from the end.
        arrived
            Called when it is on screen.

        Returns
        -------
        int
            The id that its run will have.
        """
        self.timeline.leave()
        self._fallbacks, self._start_pending = [], False
        for slot in ("open", "check"):
            self.jobs.cancel(slot)
        self._runs += 1
        run_id = self._runs
        wanted = self._wanted = tuple(experiments)

        def staged(engine: Engine) -> Generator[Progress, None, Held]:
            held = yield from engine.run(opened, prompt, run_id, (0, 0), experiments=wanted)
            if decoded:
                held = yield from engine.step(held, decoded, Sampling())
            return held

        def show(held: Held) -> None:
            changed = self._opened is not opened
            self._opened, self._prompt = opened, prompt
            if changed:
                self._refused = self._fitting = None
                self.model_changed.emit(opened.card)
            self.timeline.drawn = (Sampling(),) * decoded
            self._head_chosen = True
            self.proofs.forget()
            self.show_run(held, **placed(select or {}, held.run.length))
            self._set_experiments(wanted)
            if arrived is not None:
                arrived()

        self.submit("run", Urgency.PREFILL, staged, show, self.fail, what="Setting the scene")
        return run_id

    # Experiments and comparisons -----------------------------------------------------------------------------------

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What is changed in the model in the run on screen."""
        return self._experiments

    @property
    def wanted_experiments(self) -> tuple[Experiment, ...]:
        """What is changed in the model once the run that is under way is there."""
        return self._wanted if self.jobs.has("run") else self._experiments

    @property
    def pinned(self) -> Run | None:
        """The run that others are compared with (A), None when none is pinned."""
        return None if self._pinned is None else self._pinned.run

    def set_experiments(self, experiments: Sequence[Experiment]) -> None:
        """Run the prompt and the tokens decoded after it again, with these things changed in the model.

        What was on screen stays when an experiment is refused.
        """
        held, opened = self._held, self._opened
        if held is None or opened is None:
            self.failed.emit("There is nothing to experiment on yet; run a prompt first.", "")
            return
        wanted = self._wanted = tuple(experiments)
        self.timeline.leave()
        self.jobs.cancel("check")
        self._runs += 1
        run, run_id = held.run, self._runs
        decoded = [token.id for token in run.tokens[run.prefill : run.length]]
        drawn, now, typed = self.timeline.drawn[: run.steps], self.selection.now, held.typed
        self.submit(
            "run",
            Urgency.PREFILL,
            lambda engine: engine.run(
                opened, run.prompt, run_id, (now.layer, now.head), experiments=wanted, decoded=decoded, typed=typed
            ),
            lambda after: self._on_experiment(after, wanted, drawn),
            lambda failure: self._on_experiment_failed(failure, wanted),
            what="Running the prompt again",
        )

    def accept(self, scaling: RopeScaling) -> None:
        """Do what was refused for its length with RoPE stretched, from now on until that is taken out."""
        wanted = (*without_scaling(self._experiments), scaling)
        refused, self._refused = self._refused, None
        if refused is None:
            self.set_experiments(wanted)
        else:
            prompt, self._typed = refused
            self._start(prompt, wanted)

    def _on_experiment(self, held: Held, experiments: tuple[Experiment, ...], drawn: tuple[Sampling, ...]) -> None:
        self.timeline.drawn = drawn
        self.proofs.forget()
        self.show_run(held)
        self._set_experiments(experiments)

    def _on_experiment_failed(self, failure: Failure, wanted: tuple[Experiment, ...]) -> None:
        """Stay with what is on screen; where only a stretch had room for the prompt, go back to one from before."""
        unstretched = without_scaling(wanted) == wanted and without_scaling(self._experiments) != self._experiments
        if not (failure.offers and unstretched and self._fitting is not None):
            self.fail(failure)
            return
        prompt, self._typed = self._fitting
        self._start(
            prompt,
            wanted,
            "Without the RoPE scaling the prompt is too long for this model, so the last one that fits was run again.",
        )

    def _set_experiments(self, experiments: tuple[Experiment, ...]) -> None:
        if self._held is not None and without_scaling(experiments) == experiments:
            self._fitting = self._held.run.prompt, self._held.typed
        if experiments != self._experiments:
            self._experiments = experiments
            self.experiments_changed.emit(experiments)

    def pin(self) -> None:
        """Keep the run on screen as A, to compare later runs with."""
        self._set_pinned(self._held)
        self._pinned_kept = self.keep()

    @property
    def pinned_kept(self) -> Kept | None:
        """The pinned run as a handle, with what was changed in it."""
        return self._pinned_kept if self._pinned is not None else None

    def pin_back(self, kept: Kept | None) -> None:
        """Pin a run that is not on screen, such as one that a session file brought back."""
        self._set_pinned(None if kept is None else kept.held)
        self._pinned_kept = kept

    def unpin(self) -> None:
        """Compare no longer."""
        self._set_pinned(None)

    def _set_pinned(self, held: Held | None) -> None:
        self._pinned = None if held is None else replace(held, pinned=None)
        self.pinned_changed.emit(self.pinned)

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
            One of ``app.questions``.
        answer
            Called on this thread, unless the run or the length in view has changed by then.
        part
            Called likewise with every part of a long answer that is ready before the rest.
        """
        held, pinned = self._held, self._pinned
        if held is None or self.closed:
            return

        def arrived(reading: Any) -> None:
            if self._held is held:
                answer(reading)

        def part_arrived(reading: Any) -> None:
            if part is not None and self._held is held:
                part(reading)

        def went_wrong(failure: Failure) -> None:
            if self._held is held:
                self.fail(failure)

        self.submit(
            f"ask:{slot}",
            URGENCIES[type(question)],
            lambda engine: engine.answer(replace(held, pinned=pinned), question),
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
        self._downloads.cancel_all()
        self._exports.cancel_all()
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
        self._downloads.close()
        self._exports.close()

    # How it works -------------------------------------------------------------------------------------------------

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

    def show_run(self, held: Held, **selection: int) -> None:
        """Put a run on screen: the selection is clamped first, so that no panel asks beyond the run's end."""
        before, self._held = self.run, held
        run = held.run
        if held.tiles is not None:
            held.tiles.resize(self.settings.now.tile_mib << 20)
        self.selection.bind(_bounds(run), step=run.length, **selection)
        self.run_changed.emit(before, run)
        self.proofs.follow()

    def fail(self, failure: Failure, refused: tuple[str, Typed] | None = None) -> None:
        """Say what went wrong; ``refused`` is the prompt that :meth:`accept` is to run."""
        self.failed.emit(failure.sentence, failure.details)
        if failure.offers:
            self._refused = refused
            self.offered.emit(failure.offers)


def without_scaling(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """Experiments that leave the model the positions it has."""
    return tuple(one for one in experiments if not isinstance(one, RopeScaling))


def placed(select: Mapping[str, int], rows: int) -> dict[str, int]:
    """Fields of a selection in which a negative query or key counts from the end of ``rows``."""
    return {name: value % rows if value < 0 and name in ("query", "key") else value for name, value in select.items()}


def _bounds(run: Run) -> Bounds:
    planes = max((spec.rotary_width // 2 for spec in run.specs), default=0)
    config = run.config
    return Bounds(layers=config.layers, heads=config.heads, rows=run.length, planes=max(planes, 1))
