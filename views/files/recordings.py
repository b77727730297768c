"""What can be filmed: the rotation, the decode, a lesson; each frame grabbed in a turn of the event loop of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from ropewalk.app.files.frames import Recording
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress, saying
from ropewalk.views.files import pictures
from ropewalk.views.files.exporter import WINDOW, Exporter
from ropewalk.views.files.task import Turns
from ropewalk.views.panels.rope import PARTS, RopePanel
from ropewalk.views.panels.training import TrainingPanel
from ropewalk.views.style import theme

if TYPE_CHECKING:
    from ropewalk.views.window.panel_window import PanelWindow


@dataclass(frozen=True)
class Shooting:
    """How a film is taken.

    Attributes
    ----------
    target
        The panel that is filmed, or the window.
    scale
        Pixels for each one of the window, along a side.
    paper
        Whether it is drawn dark on white.
    steps
        Tokens to decode, where decoding is filmed.
    """

    target: str
    scale: int = 1
    paper: bool = False
    steps: int = 12


@dataclass(frozen=True)
class Film:
    """One thing that can be filmed.

    Attributes
    ----------
    name, title
        How commands call it, and what a person reads.
    target
        What is filmed unless somebody says otherwise.
    absent
        Why it cannot be filmed now, a sentence; empty where it can.
    turns
        Takes the frames into a recording.
    """

    name: str
    title: str
    target: str
    absent: Callable[[PanelWindow], str]
    turns: Callable[[Exporter, Shooting, Recording], Turns]


PROJECTED: Final = 1280
"""Pixels that a film is wide at least: it is shown to a room."""
NOTHING: Final = "There is nothing to film yet; run a prompt first."
NO_ENGINE: Final = "There is no engine to film with; start it again."
FRAMES: Final = 120
"""Frames that a rotation has at most."""
TURN_MS, STEP_MS, LESSON_MS = 60, 700, 4000
"""How long a frame of each stays."""


def recording_turns(film: Film, exporter: Exporter, shooting: Shooting) -> Turns:
    """Take a film; returns its frames. Whatever moved is put back, also when it is ended early."""
    why = film.absent(exporter.window)
    if why:
        raise RopewalkError(why)
    recording, look = Recording(), theme.current().name
    if shooting.paper:
        exporter.window.set_look("light")
    try:
        yield from exporter.in_sight(shooting.target)
        yield from film.turns(exporter, shooting, recording)
        return recording.taken()
    except BaseException:
        recording.drop()
        raise
    finally:
        if theme.current().name != look:
            exporter.window.set_look(look)


def _shoot(
    exporter: Exporter,
    shooting: Shooting,
    recording: Recording,
    point: Progress,
    milliseconds: int,
    is_there: Callable[[], bool],
) -> Turns:
    """Record what is in sight, in the very turn in which it is what is wanted."""
    yield point
    yield is_there
    exporter.be_quiet()
    widget = exporter.widget(shooting.target)
    scale = max(shooting.scale, PROJECTED / max(widget.width(), 1))
    image = pictures.to_image(widget, scale, exporter.figure(shooting.target, moving=True))
    yield from saying(point, pictures.recording_pauses(recording, image, milliseconds))


# ----------------------------------------------------------------------------------------------------------------------
# The rotation


def _rope(window: PanelWindow) -> RopePanel:
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    return panel


def _no_rotation(window: PanelWindow) -> str:
    run = window.session.run
    if run is None:
        return NOTHING
    if window.session.engines.gone is not None:
        return NO_ENGINE
    layer = window.session.selection.now.layer
    return "" if run.specs[layer].rotary_width else f"Layer {layer} does not rotate; choose a layer that does."


def _rotation(exporter: Exporter, shooting: Shooting, recording: Recording) -> Turns:
    """The query through its positions, as Play moves it."""
    panel = _rope(exporter.window)
    exporter.window.reveal(panel.name)
    yield lambda: exporter.drawn(panel.name) and panel.reading is not None
    page = panel.page_box.currentIndex()
    panel.page_box.setCurrentIndex(0)
    panel.put_back()
    filmed = panel.reading
    first, last = panel.slider.minimum(), panel.slider.maximum()
    stride = max(-(-(last - first) // FRAMES), PARTS // 4)
    values = range(first, last + 1, stride)
    try:
        for place, value in enumerate(values):

            def is_there(value: int = value) -> bool:
                if panel.reading is not filmed:
                    why = "Another prompt was run or another cell selected meanwhile"
                    raise RopewalkError(f"{why}, so there is no film of the rotation.")
                panel.slider.setValue(value)
                return True

            point = Progress(place, len(values), "Filming the rotation")
            yield from _shoot(exporter, shooting, recording, point, TURN_MS, is_there)
    finally:
        panel.put_back()
        panel.page_box.setCurrentIndex(page)


# ----------------------------------------------------------------------------------------------------------------------
# The decode


def _no_decode(window: PanelWindow) -> str:
    run = window.session.run
    if run is None:
        return NOTHING
    if window.session.engines.gone is not None:
        return NO_ENGINE
    if run.prefill >= run.config.max_position:
        return "The prompt takes every position of the model, so nothing can be decoded; run a shorter one."
    return ""


def _decode(exporter: Exporter, shooting: Shooting, recording: Recording) -> Turns:
    """The prompt alone, then one token more in each frame."""
    session = exporter.window.session
    run = session.run
    assert run is not None
    before = run.length
    last = min(run.prefill + max(shooting.steps, 1), run.config.max_position)
    try:
        for length in range(run.prefill, last + 1):
            session.timeline.run_to(length)

            def is_there(length: int = length) -> bool:
                now = session.run
                if now is None or now.run_id != run.run_id:
                    raise RopewalkError("Another prompt was run meanwhile, so there is no film of the decode.")
                return now.length == length and exporter.drawn(shooting.target)

            point = Progress(length - run.prefill, last - run.prefill + 1, "Filming the decode")
            yield from _shoot(exporter, shooting, recording, point, STEP_MS, is_there)
    finally:
        if session.run is not None and session.run.run_id == run.run_id:
            session.timeline.run_to(min(before, session.run.newest))


# ----------------------------------------------------------------------------------------------------------------------
# A lesson


def _no_lesson(window: PanelWindow) -> str:
    if window.open_lesson is None:
        return "No lesson is open; open one, then film its walk."
    return "" if window.session.engines.gone is None else NO_ENGINE


def walk_turns(window: PanelWindow, exporter: Exporter, step: int) -> Turns:
    """Go to a step of the open lesson, wait until its scene is drawn, and let what it sets going rest.

    Returns what says whether all of it is still so, or raises where it never will be again.
    """
    lesson, player = window.lesson.lesson, window.lesson.player
    player.go(step)

    def is_there() -> bool:
        if window.lesson.lesson is not lesson or player.step != step:
            raise RopewalkError("The lesson was walked or left meanwhile, so its own walk was ended.")
        filled = player.filled
        on = filled is not None and window.lesson_scenes.scene is filled.scene
        return on and exporter.drawn(WINDOW)

    yield is_there
    window.session.timeline.pause()
    _rope(window).put_back()
    scene = window.lesson_scenes.scene
    if scene is not None and scene.play == "training":
        cast("TrainingPanel", window.panels["training"]).film.finish()
    shown = window.session.run

    def is_still_there() -> bool:
        here, now = is_there(), window.session.run
        if now is None or shown is None or now.run_id != shown.run_id:
            raise RopewalkError("Another prompt was run meanwhile, so the lesson's walk was ended.")
        return here

    return is_still_there


def _walk(exporter: Exporter, shooting: Shooting, recording: Recording) -> Turns:
    """Every step of the open lesson, once its numbers and its scene are there."""
    window = exporter.window
    lesson, player = window.lesson.lesson, window.lesson.player
    assert lesson is not None
    before = player.step
    try:
        for step in range(len(lesson.steps)):
            is_there = yield from walk_turns(window, exporter, step)
            point = Progress(step, len(lesson.steps), "Filming the lesson")
            yield from _shoot(exporter, shooting, recording, point, LESSON_MS, is_there)
    finally:
        if window.lesson.lesson is lesson:
            player.go(before)


FILMS: Final = (
    Film("rotation", "The rotation of the selected cell", "rope", _no_rotation, _rotation),
    Film("decode", "Decoding, step by step", WINDOW, _no_decode, _decode),
    Film("lesson", "A walk through the open lesson", WINDOW, _no_lesson, _walk),
)
