"""A picture as the command line asks for it: a session, a run, a selection, and the window drawn into a file.

It composes the session and the window for one picture, and leaves nothing behind: no thread, no window, no settings.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QMessageLogContext, QSize, QtMsgType, qInstallMessageHandler

from ropewalk.app.files.shot import Export
from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.decoder.rope_scaling import scaling_for
from ropewalk.model.errors import PromptError, RopewalkError
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.export import bring_back, write_export
from ropewalk.views.pictures.snapshot import picture, save, wait_until_drawn
from ropewalk.views.stage.workspaces import home_of
from ropewalk.views.style import theme

if TYPE_CHECKING:
    from ropewalk.app.files.shot import Shot

PLATFORM_CHATTER = frozenset(
    {
        "This plugin does not support propagateSizeHints()",
        "This plugin does not support raise()",
        "This plugin does not support grabbing the keyboard",
        "This plugin does not support setting window opacity",
    }
)
"""What the offscreen platform says of itself; nobody who asked for a picture needs to read it."""


def take(shot: Shot) -> None:
    """Draw the window, or one panel, into a PNG; or export whatever else was asked for.

    Raises
    ------
    RopewalkError
        When the model cannot be opened, the prompt cannot be run, the cell is not there, or the file not written.
    """
    with tempfile.TemporaryDirectory() as folder, _without_chatter(), _interruptible():
        settings = SettingsStore(Path(folder) / "settings.json")
        settings.remember(shot.engine, device=shot.device, dtype=shot.dtype)
        session = new_session(settings, shot.engine)
        window = MainWindow(session, restore=False)
        try:
            window.set_look(cast("theme.ThemeName", shot.theme), shot.projector)
            if shot.workspace or shot.panel:  # where the panel has most room
                window.show_workspace(shot.workspace or home_of(shot.panel))
            if isinstance(shot, Export) and shot.session is not None:
                bring_back(window, shot.session)
            elif shot.chat or shot.scaling:
                _prompt(session, window, shot)
            else:
                _begin(session, window, shot)
            _attach(session, window, shot)
            if shot.survey:
                session.surveys.open(shot.survey)
                wait_until_drawn(window)
            if shot.steps:
                _decode(session, window, shot.steps)
            _select(session, dict(shot.select))
            if isinstance(shot, Export):
                write_export(window, shot)
                return
            image = picture(window, QSize(shot.width, shot.height), shot.panel or None)
            save(image, shot.out)
            if not shot.panel and image.size() != QSize(shot.width, shot.height):
                print(
                    f"The window does not fit into {shot.width} × {shot.height} pixels, "
                    f"so the picture has {image.width()} × {image.height()}.",
                    file=sys.stderr,
                )
        finally:
            window.close()
            window.deleteLater()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once: inside Qt's loop Python's KeyboardInterrupt would be lost in a slot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(session: Session, window: MainWindow, shot: Shot) -> None:
    """Open the model and run the prompt; one that a window would run another in the place of is refused here."""
    session.opening.begin(shot.path, None if shot.prompt is None else Prompt(shot.prompt), dict(shot.options))
    wait_until_drawn(window)
    if session.attaching.origin is not None:  # where a prompt has no place, as is said there
        return
    prompt = shot.prompt if session.model is not None and not session.model.has_tokenizer else None
    if prompt and not any(letter.isdigit() for letter in prompt):
        raise RopewalkError("This model has no tokenizer, so its prompt has to be ids, such as --prompt '1 2 3'.")


def _attach(session: Session, window: MainWindow, shot: Shot) -> None:
    """Give the run of a trace its checkpoint, where one is named; what is asked of a prompt has none here."""
    if session.attaching.origin is None:
        if shot.checkpoint is not None:
            raise RopewalkError(f"{shot.path} is a checkpoint itself; --checkpoint is what a trace was made with.")
        return
    if shot.prompt is not None or shot.chat or shot.scaling:
        raise RopewalkError(f"{shot.path} is a trace, which says itself what was run; leave the prompt out.")
    if shot.checkpoint is None:
        for name, _ in shot.options:
            option = "layers" if name == FIRST_LAYERS else name
            raise RopewalkError(f"{shot.path} is a trace, a run without weights; leave --{option} out.")
        return
    doubts: list[str] = []
    session.attaching.confirmation_wanted.connect(lambda sentence, path: doubts.append(sentence))
    session.attaching.attach(shot.checkpoint, confirmed=shot.other_weights, options=dict(shot.options))
    wait_until_drawn(window)
    if doubts:
        raise RopewalkError(doubts[0])


def _prompt(session: Session, window: MainWindow, shot: Shot) -> None:
    """Run the prompt as it is meant, by the controls of the bar, once the model is there."""
    session.opening.begin(shot.path, options=dict(shot.options))
    wait_until_drawn(window)
    bar, prompt = window.bar, session.prompt.text if shot.prompt is None else shot.prompt
    if shot.chat:
        bar.chat.setChecked(True)
        bar.chat.system.setText(shot.system)
        if not bar.chat.template:
            raise RopewalkError(bar.chat.toolTip())
    if shot.scaling is not None:
        rule, factor = shot.scaling
        tokens: list[int] = []
        failures: list[str] = []
        model_handle, asked = session.model_handle, replace(bar.written_prompt(), text=prompt)
        assert model_handle is not None
        session.work(
            "length",
            lambda engine: engine.length_of(model_handle, asked),
            tokens.append,
            failures.append,
            what="Reading the prompt",
        )
        wait_until_drawn(window)
        if failures or session.run is None:
            raise RopewalkError("".join(failures))
        session.interventions.apply(scaling_for(session.run.config, tokens[0] + shot.steps, rule, factor))
        wait_until_drawn(window)
    bar.prompt.setText(prompt)
    bar.start()
    wait_until_drawn(window)


def _decode(session: Session, window: MainWindow, steps: int) -> None:
    """Decode; steps that the model has no positions for are refused, not left out."""
    run = session.run
    if run is None:
        return
    limit = run.context_limit
    if run.length + steps > limit:
        raise PromptError(
            f"{steps} steps after {run.length} tokens were asked for, but the model's positions end after {limit}."
        )
    session.timeline.run_to(run.length + steps, past_end=True)
    wait_until_drawn(window)


def _select(session: Session, wanted: dict[str, int]) -> None:
    """Select a cell; a place that the run does not have is refused, not clamped."""
    session.selection.update(**wanted)
    now = session.selection.now
    missed = [name for name, value in wanted.items() if getattr(now, name) != value]
    if missed:
        name = missed[0]
        raise RopewalkError(
            f"The {name} {wanted[name]} was to be selected, but the last one here is {getattr(now, name)}."
        )


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Keep what the offscreen platform says of itself off stderr; everything else is still heard."""

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if message in PLATFORM_CHATTER:
            return
        if before is None:
            print(message, file=sys.stderr)
        else:
            before(kind, context, message)

    before = qInstallMessageHandler(hear)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
