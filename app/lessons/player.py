"""Plays a lesson: which step is on, what has to be on screen for it, and how its checks went.

The player moves the session (model, prompt, decoded tokens, interventions, selection) and tells the window the rest by
signals; it draws nothing. The numbers of a step are asked for when it comes on, those of the next one in advance. What
the person had open before comes back when the lesson ends. See ``app.lessons`` for the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import Calls, Handle
from ropewalk.app.engine.remote import RemoteEngine, in_view
from ropewalk.app.lessons.checks import Clicked, Reply, Verdict, judge
from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson, Scene
from ropewalk.app.lessons.progress import ProgressStore
from ropewalk.app.lessons.requests import FillCheck, FillStep, OpenRuns
from ropewalk.app.session.session import Session
from ropewalk.app.session.state import SessionState, open_again, placed
from ropewalk.model.engine.interface import ModelHandle
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import LessonError
from ropewalk.model.ledger.ledger import ShapeLedger
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.text import Span
from ropewalk.model.readings.records import ModelCard, Run
from ropewalk.model.tokens.prompt import Prompt

OWN_RUNS: Final = frozenset({"toy", "bundled"})
"""Kinds of models that a lesson brings itself; a step about one of them shows nothing of what the person opens."""


@dataclass(frozen=True)
class SceneRun:
    """What the session was last asked to show: everything of a scene that takes a run."""

    model: str
    prompt: str
    decoded: int
    interventions: tuple[Any, ...]


class LessonPlayer(QObject):
    """One lesson at a time.

    Signals
    -------
    lesson_changed(lesson)
        A :class:`~app.lessons.plan.Lesson`, or None when it was closed.
    step_changed(place)
        Another step is on; its numbers may still be on their way.
    step_filled(place, filled)
        The numbers of a step are there; a :class:`~app.lessons.plan.FilledStep`.
    scene_changed(scene)
        What the session owns of the scene is on screen; the window applies the rest of the :class:`Scene`.
    check_changed(place, asked)
        A check of the step was asked again with fresh numbers.
    judged(asked, verdict)
        A reply was judged and recorded.
    away_changed(name)
        The person opened a model of this name, which the step that is on does not speak of, and the lesson waits;
        empty when its scene is on again.
    failed(sentence)
        Something of the lesson could not be done.

    Attributes
    ----------
    records
        What the learner has done so far.
    """

    lesson_changed = Signal(object)
    step_changed = Signal(int)
    step_filled = Signal(int, object)
    scene_changed = Signal(object)
    check_changed = Signal(int, object)
    judged = Signal(object, object)
    away_changed = Signal(str)
    failed = Signal(str)

    def __init__(self, session: Session, records: ProgressStore | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.records = ProgressStore() if records is None else records
        self._lesson: Lesson | None = None
        self._step = 0
        self._filled: dict[int, FilledStep] = {}
        self._misses: dict[tuple[str, int], int] = {}
        """Wrong replies to a check, by its id and what its numbers were drawn with."""
        self._runs: Handle | None = None
        self._models: dict[str, ModelHandle] = {}
        self._yours: ModelHandle | None = None
        self._your_prompt = Prompt()
        self._kept: SessionState | None = None
        self._shown_run: SceneRun | None = None
        self._scene_run = 0
        self._away = ""
        self._setting = False
        """Whether a scene is on its way."""
        session.model_changed.connect(self._on_model)
        session.run_changed.connect(self._on_run)
        session.recovery.made_again.connect(self._on_made_again)
        session.recovery.engine_back.connect(self._on_engine_back)

    # What is known ------------------------------------------------------------------------------------------------

    @property
    def lesson(self) -> Lesson | None:
        """The lesson that is open."""
        return self._lesson

    @property
    def step(self) -> int:
        """The step that is on."""
        return self._step

    @property
    def filled(self) -> FilledStep | None:
        """The step that is on, with its numbers; None while they are on their way."""
        return self._filled.get(self._step)

    def title_of(self, step: int) -> tuple[Span, ...]:
        """The title of a step, once it has been read; empty before, and past the end."""
        filled = self._filled.get(step)
        return () if filled is None else filled.title

    @property
    def ledger(self) -> ShapeLedger | None:
        """The ledger of a scene whose model is a config alone, else None: there is no run to show it from."""
        return None if self.filled is None else self.filled.ledger

    # Walking --------------------------------------------------------------------------------------------------------

    def open(self, lesson: Lesson, step: int | None = None) -> None:
        """Open a lesson where it was left, or at a step; another one that is open is closed first."""
        if self._lesson is None:
            self._yours, self._your_prompt = self.session.model_handle, self.session.prompt
            self._kept = self.session.scenes.keep()
        self._forget()
        self._lesson = lesson
        self.lesson_changed.emit(lesson)
        self.go(self.records.lesson(lesson.id).step if step is None else step)

    def close(self) -> None:
        """Close the lesson, and bring back what was on screen before: the run, its interventions, the selection."""
        if self._lesson is None:
            return
        self._forget()
        self._lesson = None
        self.lesson_changed.emit(None)
        if self._kept is not None:
            kept, self._kept = self._kept, None
            self.session.scenes.restore(kept)

    @property
    def away(self) -> str:
        """The name of the model that the person opened in the middle of a step about another; empty where none is."""
        return self._away

    def resume(self) -> None:
        """Bring the scene of the step that is on back."""
        self._set_away("")
        self._enter()

    def forward(self) -> None:
        """Go one step on; the last one stays."""
        self.go(self._step + 1)

    def back(self) -> None:
        """Go one step back; the first one stays."""
        self.go(self._step - 1)

    def go(self, step: int) -> None:
        """Go to a step."""
        if self._lesson is None:
            return
        self._step = min(max(step, 0), len(self._lesson.steps) - 1)
        self.records.reach(self._lesson.id, self._step, len(self._lesson.steps))
        self._set_away("")
        self.step_changed.emit(self._step)
        if self._step in self._filled:
            self._enter()
        else:
            self._fill(self._step)

    # Checks ---------------------------------------------------------------------------------------------------------

    def asked(self, place: int) -> Asked:
        """A check of the step that is on.

        Raises
        ------
        LessonError
            When there is none, or its numbers are not there yet.
        """
        filled = self.filled
        if filled is None or not 0 <= place < len(filled.checks):
            raise LessonError("This question is not there yet; wait until the step has been read.")
        return filled.checks[place]

    def reply(self, place: int, reply: Reply) -> Verdict:
        """Judge a reply to a check of the step that is on, and record it.

        Raises
        ------
        LessonError
            When the reply cannot be read; it is not recorded.
        """
        asked = self.asked(place)
        this = (asked.id, asked.seed)
        verdict = judge(asked, reply, self._misses.get(this, 0))
        self._misses[this] = self._misses.get(this, 0) + (not verdict.right)
        if self._lesson is not None:
            self.records.answer(self._lesson.id, asked.id, verdict.right)
        self.judged.emit(asked, verdict)
        return verdict

    def click(self, place: int) -> Verdict:
        """Reply to a check with the selection as it is."""
        now = self.session.selection.now
        return self.reply(place, Clicked(now.layer, now.head, now.query, now.key, now.plane))

    def again(self, place: int) -> None:
        """Ask a check of the step that is on once more, a practice problem with fresh numbers."""
        asked, lesson, step = self.asked(place), self._lesson, self._step
        if lesson is None:
            return
        kept, alone = self._kept_runs, _step_alone(lesson, step)
        seed = max(asked.seed + 1, self.records.seed(lesson.id, asked.id))

        def arrived(fresh: Asked) -> None:
            filled = self._filled.get(step)
            if self._lesson is lesson and self._runs is kept and filled is not None:
                checks = (*filled.checks[:place], fresh, *filled.checks[place + 1 :])
                self._filled[step] = replace(filled, checks=checks)
                self.check_changed.emit(place, fresh)

        def work(engine: RemoteEngine) -> Calls[Asked]:
            runs = kept if kept is not None else (yield from self._open_runs(engine, lesson))
            fresh: Asked = yield runs.call(FillCheck(alone, runs.number, asked.id, seed))
            return fresh

        self.session.work(
            "lesson check",
            work,
            arrived,
            self.failed.emit,
            what="Drawing fresh numbers",
        )

    # Numbers --------------------------------------------------------------------------------------------------------

    def _fill(self, step: int) -> None:
        """Ask for the numbers of a step."""
        lesson = self._lesson
        if lesson is None:
            return
        kept = self._kept_runs
        seeds = {check.id: self.records.seed(lesson.id, check.id) for check in lesson.steps[step].checks}

        def work(engine: RemoteEngine) -> Calls[tuple[Handle, FilledStep]]:
            runs = kept or (yield from self._open_runs(engine, lesson))
            filled: FilledStep = yield runs.call(FillStep(_step_alone(lesson, step), runs.number, seeds))
            return runs, filled

        self.session.work(
            "lesson step",
            work,
            lambda result: self._on_filled(lesson, step, *result),
            self.failed.emit,
            what="Reading the lesson's numbers",
            urgency=Urgency.COARSE if step == self._step else Urgency.REFINEMENT,
        )

    @property
    def _kept_runs(self) -> Handle | None:
        """The runs that numbers were measured on so far, unless their engine is gone."""
        return None if self._runs is None or self._runs.connection.gone is not None else self._runs

    def _open_runs(self, engine: RemoteEngine, lesson: Lesson) -> Calls[Handle]:
        """Have runs of the lesson's models, and of what the person has open, where that is."""
        if self._yours is None:
            asked, connection = OpenRuns(dict(lesson.models)), engine.connection
        else:
            yours, handle = (yield from self._open_yours(engine, self._yours)), self.session.handle
            connection = yours.checkpoint.connection
            run = None if handle is None or handle.model_handle is not yours else in_view(handle)
            asked = OpenRuns(dict(lesson.models), yours.checkpoint.number, run)
        return connection.keep((yield connection.asking(asked)))

    def _open_yours(self, engine: RemoteEngine, yours: ModelHandle) -> Calls[ModelHandle]:
        """What the person has open, opened again where its engine is gone."""
        if yours.checkpoint.connection.gone is None:
            return yours
        again = yield from open_again(engine, yours)
        if self._yours is yours:
            self._yours = again
        return again

    def _on_filled(self, lesson: Lesson, step: int, runs: Handle, filled: FilledStep) -> None:
        if self._lesson is not lesson:
            return
        self._runs, self._filled[step] = runs, filled
        self.step_filled.emit(step, filled)
        if step == self._step and not self._away:
            self._enter()
        elif self._step not in self._filled:
            self._fill(self._step)

    def _enter(self) -> None:
        """Set the scene of the step that is on, and read the next one in advance."""
        filled = self.filled
        if filled is None or self._lesson is None:
            return
        self._set_scene(filled.scene)
        following = self._step + 1
        if following < len(self._lesson.steps) and following not in self._filled:
            self._fill(following)

    # Scenes ---------------------------------------------------------------------------------------------------------

    def _model_of_step(self) -> LessonModel | None:
        if self._lesson is None:
            return None
        return self._lesson.models[self._lesson.steps[self._step].scene.model]

    def _set_scene(self, scene: Scene) -> None:
        """Bring what the session owns of a scene on screen; the run is left alone where it is the same already."""
        lesson, model = self._lesson, self._model_of_step()
        if lesson is None or model is None:
            return
        self._setting = False
        wanted = SceneRun(scene.model, scene.prompt, scene.decoded, scene.interventions)
        prompt = Prompt(scene.prompt)
        if model.kind == "open":
            prompt = prompt if scene.prompt else self._your_prompt
            if self._yours is None:
                self.failed.emit("No model is open for this step; open one, and come back to it.")
        absent = model.kind == "open" and self._yours is None
        if model.kind == "shapes" or absent or not prompt.text or wanted == self._shown_run:
            self._select(scene)
            self.scene_changed.emit(scene)
            return
        self._setting = True
        self._with_model(lesson, model, lambda model_handle: self._show_scene(model_handle, prompt, scene, wanted))

    def _select(self, scene: Scene) -> None:
        run = self.session.run
        if run is not None and scene.select:
            self.session.selection.put(**placed(dict(scene.select), run.length))

    def _show_scene(self, model_handle: ModelHandle, prompt: Prompt, scene: Scene, wanted: SceneRun) -> None:
        filled = self.filled
        if filled is None or filled.scene is not scene:
            return

        def arrived() -> None:
            self._shown_run, self._setting = wanted, False
            if self.filled is filled:
                self.scene_changed.emit(scene)

        self._shown_run = None
        self._scene_run = self.session.scenes.put(
            model_handle,
            prompt,
            interventions=scene.interventions,
            decoded=scene.decoded,
            select=dict(scene.select),
            arrived=arrived,
        )

    def _with_model(self, lesson: Lesson, model: LessonModel, then: Callable[[ModelHandle], None]) -> None:
        """Have a model of the lesson open, and go on with it."""
        yours = self._yours
        if model.kind == "open" and yours is None:
            return
        if yours is not None and (model.kind == "open" or (model.kind == "bundled" and yours.card.name == "bundled")):
            self._models[model.name] = yours
        there = self._models.get(model.name)
        if there is not None and there.checkpoint.connection.gone is None:
            then(there)
            return

        def arrived(model_handle: ModelHandle) -> None:
            if self._lesson is lesson:
                self._models[model.name] = model_handle
                if not self._away:  # else the person has opened a model of their own meanwhile, and looks at that
                    then(model_handle)

        def work(engine: RemoteEngine) -> Calls[ModelHandle]:
            return _opening(engine, model) if there is None or there is not yours else self._open_yours(engine, there)

        self.session.work("lesson model", work, arrived, self.failed.emit, what="Opening the lesson's model")

    def _on_made_again(self, before: SessionState, after: SessionState) -> None:
        """Know the model and the run on screen again after the engine has ended and another one is there."""
        old, new = before.model_handle, after.model_handle
        self._models = {name: new if one is old else one for name, one in self._models.items()}
        if self._yours is old:
            self._yours = new
        if before.handle.run.run_id == self._scene_run:
            self._scene_run = after.handle.run.run_id

    def _on_engine_back(self) -> None:
        """Ask once more for what was on its way when the engine ended."""
        if self._lesson is not None and self.filled is None:
            self._fill(self._step)
        elif self._setting and not self._away:
            self._enter()

    def _on_model(self, card: ModelCard) -> None:
        """Another model was opened by the person, not by the lesson: it is theirs from now on."""
        model_handle = self.session.model_handle
        if model_handle is None or model_handle in self._models.values() or model_handle is self._yours:
            return
        self._yours, self._shown_run = model_handle, None
        self._your_prompt, self._kept = self.session.prompt, None
        model = self._model_of_step()
        self._set_away(card.name if model is not None and model.kind in OWN_RUNS else "")
        if self._lesson is not None and self._lesson.reads_open:
            self._runs = None
            self._filled.clear()
            self._fill(self._step)

    def _set_away(self, name: str) -> None:
        if name != self._away:
            self._away = name
            self.away_changed.emit(name)

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        """Where the run is not just the one that was staged, the next scene has to be set anew."""
        same = before is not None and after is not None and before.run_id == after.run_id
        if after is not None and after.run_id == self._scene_run and not same:
            return
        self._shown_run = None
        if self._lesson is not None and self._kept is None and self.session.model_handle is self._yours:
            self._kept = self.session.scenes.keep()  # the first run of a model that was opened during the lesson

    def _forget(self) -> None:
        self._set_away("")
        self._filled.clear()
        self._misses.clear()
        self._models.clear()
        self._runs, self._shown_run, self._setting = None, None, False


def _opening(engine: RemoteEngine, model: LessonModel) -> Calls[ModelHandle]:
    """The job that opens a toy or the bundled model."""
    if model.kind == "toy" and model.toy is not None:
        return engine.open_toy(model.toy, "toy" if model.name == "main" else f"toy {model.name}")
    return engine.open_model(None, "cpu", "float32")


def _step_alone(lesson: Lesson, step: int) -> Lesson:
    """A lesson with one of its steps, which is enough to fill that."""
    return replace(lesson, steps=(lesson.steps[step],))
