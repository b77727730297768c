"""Every action and its keys, in one table, and the shortcuts made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

Group = Literal[
    "Run", "File", "Steps", "Head and cell", "Walk", "Workspaces", "Panels", "Switches", "Lesson", "Class", "Window"
]
TYPED_INTO: Final = (QLineEdit, QAbstractSpinBox, QComboBox, QTextEdit, QPlainTextEdit)
"""Widgets that keep every key which is pressed without Ctrl or Alt."""


@dataclass(frozen=True)
class Action:
    """One thing a key does. ``keys`` are portable key names; ``reserved`` ones are bound by a later panel."""

    name: str
    text: str
    group: Group
    keys: tuple[str, ...]
    reserved: bool = False

    @property
    def bare(self) -> bool:
        """Whether a text field would need these keys: they are pressed without Ctrl, Alt or Meta."""
        return not any(part in key for key in self.keys for part in ("Ctrl", "Alt", "Meta")) and not all(
            key.startswith("F") and key[1:].isdigit() for key in self.keys
        )


ACTIONS: Final = (
    Action("run", "Run the prompt", "Run", ("Ctrl+R",)),
    Action("focus_prompt", "Type a prompt", "Run", ("Ctrl+L",)),
    Action("open", "Open a checkpoint", "Run", ("Ctrl+O",)),
    Action("engine", "Choose where the engine runs", "Run", ("Ctrl+Shift+E",)),
    Action("dismiss", "Leave the field, close the message", "Run", ("Esc",)),
    Action("open_session", "Open a session…", "File", ("Ctrl+Shift+O",)),
    Action("save_session", "Save the session", "File", ("Ctrl+S",)),
    Action("save_session_as", "Save the session as…", "File", ("Ctrl+Alt+S",)),
    Action("save_run", "Save the run as a trace…", "File", ("Ctrl+Shift+S",)),
    Action("attach", "Attach the checkpoint of a trace…", "File", ("Ctrl+Shift+A",)),
    Action("open_survey", "Open a survey…", "File", ("Ctrl+Shift+Y",)),
    Action("run_survey", "Run a survey…", "File", ("Ctrl+Shift+U",)),
    Action("export", "Export…", "File", ("Ctrl+E",)),
    Action("copy_picture", "Copy a picture of this panel", "File", ("Ctrl+Shift+C",)),
    Action("step", "Step: decode or show the next token", "Steps", ("Right",)),
    Action("step_back", "Step back", "Steps", ("Left",)),
    Action("to_start", "Back to the prompt alone", "Steps", ("Home",)),
    Action("to_end", "To the newest token", "Steps", ("End",)),
    Action("toggle_play", "Play or pause", "Steps", ("Space",)),
    Action("layer_down", "Next layer", "Head and cell", ("Down",)),
    Action("layer_up", "Layer before", "Head and cell", ("Up",)),
    Action("head_after", "Next head", "Head and cell", ("]",)),
    Action("head_before", "Head before", "Head and cell", ("[",)),
    Action("query_after", "Next query", "Head and cell", ("Shift+Down",)),
    Action("query_before", "Query before", "Head and cell", ("Shift+Up",)),
    Action("key_after", "Next key", "Head and cell", ("Shift+Right",)),
    Action("key_before", "Key before", "Head and cell", ("Shift+Left",)),
    Action("go_to_head", "Go to a head by its name, such as L1H3", "Head and cell", ("L",)),
    Action("pin_head", "Pin this head to the head board, or take it off", "Head and cell", ("H",)),
    Action("pin_earlier", "On the head board: this head one place earlier", "Head and cell", ("Ctrl+Left",)),
    Action("pin_later", "On the head board: this head one place later", "Head and cell", ("Ctrl+Right",)),
    Action("note_head", "Write a note to this head", "Head and cell", ("Shift+H",)),
    Action("back", "Selection before this one, or back to the survey", "Head and cell", ("Alt+Left",)),
    Action("forward", "Selection after this one", "Head and cell", ("Alt+Right",)),
    Action("walk_on", "Walk through the block: next operation", "Walk", ("D",)),
    Action("walk_back", "Walk: operation before", "Walk", ("Shift+D",)),
    Action("walk_start", "Walk: to the stream that comes in", "Walk", ("Ctrl+Home",)),
    Action("walk_end", "Walk: to the stream that goes out", "Walk", ("Ctrl+End",)),
    *(
        Action(f"workspace_{name}", f"Workspace: {title}", "Workspaces", (f"Ctrl+{number}",))
        for name, title, number in (
            ("overview", "Overview", 1),
            ("scores", "Scores", 2),
            ("rope", "RoPE", 3),
            ("decode", "Decode", 4),
            ("shapes", "Shapes", 5),
            ("heads", "Heads", 6),
            ("compare", "Compare", 7),
            ("survey", "Survey", 8),
            ("lesson", "Lesson", 9),
        )
    ),
    Action("layout", "Panels back in their places", "Workspaces", ("Ctrl+0",)),
    *(
        Action(f"show_{name}", f"Show {title}", "Panels", (key,))
        for name, title, key in (
            ("tokens", "Tokens", "Alt+1"),
            ("ledger", "Shape ledger", "Alt+2"),
            ("walk", "Walk", "Alt+W"),
            ("heads", "Heads", "Alt+3"),
            ("scores", "Scores", "Alt+4"),
            ("rope", "RoPE", "Alt+5"),
            ("cache", "KV cache", "Alt+6"),
            ("next_token", "Next token", "Alt+7"),
            ("why", "Why this number", "Alt+8"),
            ("lesson", "Lesson", "Alt+9"),
            ("experiments", "Experiments", "Alt+E"),
            ("compare", "Compare", "Alt+C"),
            ("board", "Head board", "Alt+B"),
            ("lines", "Lines", "Alt+I"),
            ("needs", "Heads that matter", "Alt+N"),
            ("routing", "Experts", "Alt+X"),
            ("training", "Heads being born", "Alt+H"),
            ("lens", "Logit lens", "Alt+L"),
            ("timeline", "Timeline", "Alt+T"),
            ("survey_heads", "Surveyed heads", "Alt+S"),
            ("survey_scatter", "Scatter", "Alt+D"),
            ("survey_head", "Distances", "Alt+J"),
            ("survey_table", "Table", "Alt+K"),
            ("survey_examples", "Examples", "Alt+M"),
        )
    ),
    Action("float_panel", "This panel as a window of its own, or back", "Panels", ("Shift+F",)),
    Action("panel_after", "Next panel", "Panels", ("F6",)),
    Action("panel_before", "Panel before", "Panels", ("Shift+F6",)),
    Action("scores.log", "Weights over powers of ten", "Switches", ("G",)),
    Action("scores.skip_first", "Leave token 0 out of the colours", "Switches", ("K",)),
    Action("scores.one", "One large map, or all three", "Switches", ("O",)),
    Action("score_state", "The one map: before mask, masked, softmax", "Switches", ("Shift+O",)),
    Action("ledger.all_columns", "All columns of the ledger", "Switches", ("C",)),
    Action("silence", "Silence heads by clicking", "Switches", ("Z",)),
    Action("rotation", "Play or pause the rotation", "Switches", ("R",)),
    Action("pin", "Pin this run as A, to compare with", "Switches", ("A",)),
    Action("unpin", "Compare no longer", "Switches", ("Shift+A",)),
    Action("every_step", "Every step of the number, or its summary", "Switches", ("W",)),
    Action("undo_experiment", "Undo the last experiment", "Switches", ("Ctrl+Z",)),
    Action("no_experiment", "Take every experiment out", "Switches", ("X",)),
    Action("proofs", "Show what proves the run", "Switches", ("V",)),
    Action("lesson_on", "Next step of the lesson", "Lesson", ("PgDown",)),
    Action("lesson_back", "Lesson step before", "Lesson", ("PgUp",)),
    Action("lesson_leave", "Leave the lesson", "Lesson", ("Ctrl+W",)),
    Action("present", "Present: projector, whole screen, notes", "Class", ("F5",)),
    Action("full_panel", "This panel alone on the screen", "Class", ("F", "Shift+F11")),
    Action("blank", "Blank the screen: a pause", "Class", ("B", ".")),
    Action("spotlight", "Spotlight around the pointer", "Class", ("S",)),
    Action("spotlight_panel", "Spotlight on the panel pointed at", "Class", ("Shift+S",)),
    Action("notes", "Notes for the teacher", "Class", ("N",)),
    Action("motion", "Reduced motion", "Class", ("M",)),
    Action("palette", "Find something to do", "Window", ("Ctrl+K", "Ctrl+Shift+P")),
    Action("theme", "Light or dark", "Window", ("T",)),
    Action("projector", "Projector mode", "Window", ("P",)),
    Action("full_screen", "Full screen", "Window", ("F11",)),
    Action("keys", "List the keys", "Window", ("?", "F1")),
    Action("quit", "Quit", "Window", ("Ctrl+Q",)),
)

_SIGNS = {"Right": "→", "Left": "←", "Up": "↑", "Down": "↓", "PgDown": "PageDown", "PgUp": "PageUp"}


def action(name: str) -> Action:
    """Return the action of that name.

    Raises
    ------
    KeyError
        When there is none.
    """
    return {entry.name: entry for entry in ACTIONS}[name]


def written(keys: tuple[str, ...]) -> str:
    """Keys as a person reads them: ``Shift+→``."""
    return "  ".join("+".join(_SIGNS.get(part, part) for part in key.split("+")) for key in keys)


def tip(name: str) -> str:
    """What an action does and its keys, for a tooltip."""
    entry = action(name)
    return f"{entry.text} ({written(entry.keys)})"


def collisions(actions: tuple[Action, ...] = ACTIONS) -> list[tuple[str, str, str]]:
    """Return (key, action, action) for every key that two actions claim."""
    owners: dict[str, str] = {}
    found = []
    for entry in actions:
        for key in entry.keys:
            sequence = QKeySequence(key, QKeySequence.SequenceFormat.PortableText).toString()
            if sequence in owners:
                found.append((key, owners[sequence], entry.name))
            owners[sequence] = entry.name
    return found


class Shortcuts(QObject):
    """The shortcuts of a window; those of bare keys sleep while somebody types.

    Parameters
    ----------
    window
        Whose shortcuts they are; floating cards share them.
    verbs
        A function for every action that is not reserved.
    """

    def __init__(self, window: QWidget, verbs: Mapping[str, Callable[[], object]]) -> None:
        super().__init__(window)
        self._bare: list[QShortcut] = []
        self._of_lesson: list[QShortcut] = []
        for entry in ACTIONS:
            if entry.reserved:
                continue
            for key in entry.keys:
                shortcut = QShortcut(QKeySequence(key, QKeySequence.SequenceFormat.PortableText), window)
                shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
                shortcut.activated.connect(verbs[entry.name])
                if entry.group == "Lesson":
                    shortcut.setEnabled(False)
                    self._of_lesson.append(shortcut)
                elif entry.bare and entry.name != "dismiss":
                    self._bare.append(shortcut)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._on_focus)

    def walk(self, on: bool) -> None:
        """Take the keys of a lesson while one is open, wherever the focus is; a clicker sends nothing else."""
        for shortcut in self._of_lesson:
            shortcut.setEnabled(on)

    def _on_focus(self, before: QWidget | None, now: QWidget | None) -> None:
        read_only = isinstance(now, (QTextEdit, QPlainTextEdit)) and now.isReadOnly()
        typing = isinstance(now, TYPED_INTO) and not read_only
        for shortcut in self._bare:
            shortcut.setEnabled(not typing)
