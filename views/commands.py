"""What the command palette offers: the table of actions, the lessons, and every control that can be pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QWidget

from ropewalk.app.address import AddressError, check_head, read_address
from ropewalk.views import keys
from ropewalk.views.lesson.cards import LessonCard
from ropewalk.views.style import wording
from ropewalk.views.window.palette import Command

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson
    from ropewalk.views.window.panel_window import PanelWindow

WAY = "Tab"
"""How a control without a key of its own is reached by keyboard."""


def commands(window: PanelWindow, verbs: Mapping[str, Callable[[], object]]) -> tuple[Command, ...]:
    """Everything that can be done in a window now: the actions first, as the list of keys has them."""
    absent = {f"show_{name}" for name, entry in window.menu_entries.items() if not entry.isVisible()}
    actions = [
        Command(entry.text, entry.group, keys.written(entry.keys), verbs[entry.name])
        for entry in keys.ACTIONS
        if not (entry.reserved or entry.name in absent) and (entry.group != "Lesson" or window.open_lesson is not None)
    ]
    lessons = [
        Command(f"Lesson {lesson.number}: {lesson.title}", "Lesson", "", partial(_open_lesson, window, lesson))
        for lesson in window.lesson.lessons()
    ]
    told = {command.text for command in actions}  # a button that an action has a key for is there once
    controls = [
        Command(_sentence(widget), card.title, WAY, partial(_press, widget))
        for card in window.cards.values()
        if card.on_screen
        for widget in card.findChildren(QWidget)
        if _can_be_pressed(widget) and _sentence(widget) not in told and not isinstance(widget, LessonCard)
    ]
    button = window.engine.button  # there only while there is no engine, or one that does not hear
    engine = [Command(_sentence(button), "Run", WAY, partial(_press, button))] if _can_be_pressed(button) else []
    return (*engine, *actions, *lessons, *controls)


def to_head(window: PanelWindow, typed: str) -> tuple[Command, ...]:
    """What can be done with a head, or a cell of one, that was typed; nothing where it is something else."""
    run, session = window.session.run, window.session
    try:
        fields = read_address(typed)
    except AddressError:
        return ()
    if run is None or "layer" not in fields:
        return ()
    layer, head = fields["layer"], fields["head"]
    name, group = wording.head_name(layer, head), "Head and cell"
    try:
        check_head(layer, head, run.config.layers, run.config.heads)
    except AddressError as error:
        return (Command(error.sentence, group, "", lambda: None, possible=False),)
    cell = "".join(f", {field} {fields[field]}" for field in ("query", "key", "plane") if field in fields)
    pinned = (layer, head) in session.board.now.heads
    return (
        Command(f"Go to {name}{cell}", group, "", partial(session.selection.update, **fields)),
        Command(
            f"Take {name} off the head board" if pinned else f"Pin {name} to the head board",
            group,
            "",
            partial(session.board.toggle, layer, head),
        ),
        Command(f"Write a note to {name}", group, "", partial(window.write_note, layer, head)),
    )


def _open_lesson(window: PanelWindow, lesson: Lesson) -> None:
    window.reveal("lesson")
    window.lesson.open(lesson)


def _can_be_pressed(widget: QWidget) -> bool:
    pressed = isinstance(widget, (QAbstractButton, QComboBox)) and widget.isVisible() and widget.isEnabled()
    return pressed and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus.value)


def _sentence(widget: QWidget) -> str:
    name = widget.accessibleName() or (widget.text() if isinstance(widget, QAbstractButton) else "")
    return name.rstrip(".")


def _press(widget: QWidget) -> None:
    """Press a button; open a choice."""
    widget.setFocus(Qt.FocusReason.ShortcutFocusReason)
    if isinstance(widget, QAbstractButton):
        widget.click()
    elif isinstance(widget, QComboBox):
        widget.showPopup()
