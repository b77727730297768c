"""What every action does in a window: the table behind the keys and the palette."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import Qt

from ropewalk.views.lesson.scene import SWITCHES
from ropewalk.views.stage.workspaces import WORKSPACES
from ropewalk.views.style import motion

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.views.files.file_menu import FileMenu
    from ropewalk.views.panels.heads import HeadsPanel
    from ropewalk.views.panels.interventions import InterventionsPanel
    from ropewalk.views.panels.rope import RopePanel
    from ropewalk.views.panels.scores import ScoresPanel
    from ropewalk.views.panels.why import WhyPanel
    from ropewalk.views.window.palette import Palette
    from ropewalk.views.window.panel_window import PanelWindow

STEPS = ("step", "step_back", "to_start", "to_end", "toggle_play")

FEW = 4
"""Heads that an empty board gets at most."""

Verbs = dict[str, Callable[[], object]]


def verbs(window: PanelWindow, files: FileMenu) -> Verbs:
    """A function for every action of the table, by its name."""
    session, selection = window.session, window.session.selection
    return {
        **_moves(window),
        **{name: partial(_toggle, window, name) for name in SWITCHES},
        **{f"show_{name}": partial(window.reveal, name, True) for name in window.cards},
        "show_board": lambda: _show_board(window),
        **{f"workspace_{one.name}": partial(window.show_workspace, one.name) for one in WORKSPACES},
        **window.classroom.verbs(),
        **files.verbs(),
        "run": window.bar.start,
        "focus_prompt": window.focus_prompt,
        "open": window.choose_checkpoint,
        "engine": window.choose_engine,
        "dismiss": window.dismiss,
        **{name: partial(_step, session, name) for name in STEPS},
        "back": lambda: _back(session),
        "open_survey": window.choose_survey,
        "run_survey": window.run_survey,
        "forward": selection.forward,
        **_walks(window),
        "rotation": lambda: cast("RopePanel", window.panels["rope"]).toggle(),
        "silence": lambda: _silence(window),
        "score_state": lambda: cast("ScoresPanel", window.panels["scores"]).next_state(),
        "pin": session.baseline.pin,
        "unpin": session.baseline.unpin,
        "every_step": partial(_fold_levels, window),
        "undo_experiment": lambda: cast("InterventionsPanel", window.panels["experiments"]).undo(),
        "no_experiment": lambda: session.interventions.apply(()),
        "proofs": window.show_consistency,
        "theme": window.toggle_theme,
        "projector": window.toggle_projector,
        "motion": lambda: _toggle_motion(window),
        "present": window.present,
        "layout": window.reset_layout,
        "full_screen": lambda: window.setWindowState(window.windowState() ^ Qt.WindowState.WindowFullScreen),
        "keys": window.show_keys,
        "palette": lambda: show_palette(window, files),
        "go_to_head": lambda: show_palette(window, files, "L"),
        "pin_head": lambda: session.board.toggle(selection.now.layer, selection.now.head),
        "pin_earlier": lambda: session.board.shift(selection.now.layer, selection.now.head, -1),
        "pin_later": lambda: session.board.shift(selection.now.layer, selection.now.head, 1),
        "note_head": lambda: window.write_note(selection.now.layer, selection.now.head),
        "quit": window.close,
    }


def _moves(window: PanelWindow) -> Verbs:
    """Steps through layers, heads, queries and keys."""
    selection = window.session.selection

    def move(field: str, by: int) -> Callable[[], None]:
        return lambda: selection.update(**{field: getattr(selection.now, field) + by})

    beside: Verbs = {
        f"{field}_{word}": move(field, by)
        for field in ("head", "query", "key")
        for word, by in (("after", 1), ("before", -1))
    }
    return {**beside, "layer_down": move("layer", 1), "layer_up": move("layer", -1)}


def _walks(window: PanelWindow) -> Verbs:
    """Steps through the block; from elsewhere, any of them brings the walk in sight where it stands."""
    walk = window.session.walk

    def go(move: Callable[[], None]) -> Callable[[], None]:
        return lambda: move() if walk.in_sight else window.reveal("walk")

    return {
        "walk_on": go(partial(walk.move, 1)),
        "walk_back": go(partial(walk.move, -1)),
        "walk_start": go(partial(walk.go_to, 0)),
        "walk_end": go(lambda: walk.go_to(len(walk.steps) - 1)),
    }


def _step(session: Session, name: str) -> None:
    """Go through the run, unless there is no engine that could read another length of it."""
    if session.engines.gone is None:
        getattr(session.timeline, name)()


def _back(session: Session) -> None:
    """Go back to the survey from one of its examples, else to the selection before this one."""
    if not session.surveys.come_back():
        session.selection.back()


def _fold_levels(window: PanelWindow) -> None:
    """Show every step from the residual to the logits, or fold them again."""
    cast("WhyPanel", window.panels["why"]).fold_levels.toggle()


def _toggle(window: PanelWindow, switch: str) -> None:
    window.lesson_scenes.switch(switch).toggle()


def show_palette(window: PanelWindow, files: FileMenu, typed: str = "") -> Palette:
    """Offer everything that can be done, to be found by its words; lessons too, once they are read."""
    from ropewalk.views.commands import commands, to_head
    from ropewalk.views.window.palette import Palette

    palette = Palette(lambda: commands(window, verbs(window, files)), window, partial(to_head, window))
    palette.field.setText(typed)
    window.lesson.shelf_read.connect(palette.look_again)
    window.lesson.read_shelf()
    palette.accepted.connect(lambda: palette.chosen and palette.chosen.run())
    palette.open()
    return palette


def _show_board(window: PanelWindow) -> None:
    """Bring the board in sight; one that is empty gets heads to compare: those that share the selected one's keys."""
    session, now = window.session, window.session.selection.now
    if session.run is not None and not session.board.now.heads:
        group = session.run.config.group
        sharing = range(now.head // group * group, now.head // group * group + group)
        first = (now.head - sharing.start) // FEW * FEW
        for head in sharing[first : first + FEW]:
            session.board.pin(now.layer, head)
    window.reveal("board", True)


def _silence(window: PanelWindow) -> None:
    """Let clicks on heads silence them, where they are seen, or select them again."""
    window.reveal("heads")
    cast("HeadsPanel", window.panels["heads"]).silence.toggle()


def _toggle_motion(window: PanelWindow) -> None:
    """Let things move, or show where they end."""
    window.session.settings.update(motion=motion.choose("full" if motion.reduced() else "reduced"))
