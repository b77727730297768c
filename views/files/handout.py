"""A lesson on paper: its steps with formulas and the panels they speak of, its questions, answers at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QSizeF
from PySide6.QtGui import QPageLayout, QPageSize, QPdfWriter, QPicture

from ropewalk.app.files.provenance import Provenance
from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson
from ropewalk.model.lessons.text import Span
from ropewalk.model.progress import Progress
from ropewalk.views.files.exporter import Exporter
from ropewalk.views.files.parts import paint_parts, painting
from ropewalk.views.files.pictures import describe_pdf
from ropewalk.views.files.recordings import walk_turns
from ropewalk.views.files.sheet import BODY, Sheet
from ropewalk.views.files.task import Turns
from ropewalk.views.lesson.check import LETTERS
from ropewalk.views.style import theme

if TYPE_CHECKING:
    from ropewalk.views.window.panel_window import PanelWindow

MARGIN: Final = 18
"""Millimetres around the text."""
NO_FIGURE: Final = frozenset({"tokens"})
"""Panels of a step that are not worth a figure beside the others."""
SPACES: Final = {"choose": 0, "number": 2, "shape": 1, "click": 1, "say": 4}
"""Lines to write on after a question of each kind."""

Figure = tuple[QPicture, QSizeF, str]


def no_handout(window: PanelWindow) -> str:
    """Why no lesson can be printed now, a sentence; empty where one can."""
    return "" if window.open_lesson is not None else "No lesson is open; open one, then print it."


def handout_turns(exporter: Exporter) -> Turns:
    """Walk the open lesson, and return the bytes of its PDF; the step that was on comes back."""
    window = exporter.window
    lesson, player = window.lesson.lesson, window.lesson.player
    assert lesson is not None
    before, look = player.step, theme.current().name
    steps: list[tuple[FilledStep, list[Figure]]] = []
    try:
        window.set_look("light")  # what is printed is dark on white
        for place in range(len(lesson.steps)):
            is_there = yield from walk_turns(window, exporter, place)
            filled = player.filled
            assert filled is not None
            figures = []
            for name in filled.scene.panels:
                if name not in NO_FIGURE or len(filled.scene.panels) == 1:
                    yield Progress(place, 2 * len(lesson.steps), "Drawing the handout")
                    yield is_there
                    figures.append(_figure(exporter, name))
            steps.append((filled, figures))
    finally:
        if look != theme.current().name:
            window.set_look(look)
        if window.lesson.lesson is lesson:
            player.go(before)
    return (yield from _document(lesson, steps, exporter.about("lesson")))


def _figure(exporter: Exporter, name: str) -> Figure:
    """Record a panel as it stands in the window."""
    widget = exporter.widget(name)
    picture = QPicture()
    with painting(picture) as painter:
        paint_parts(painter, widget)
    panel = exporter.window.panels[name]
    caption = " · ".join(part for part in (panel.title, panel.subtitle.text()) if part)
    return picture, QSizeF(widget.size()), caption


def _document(lesson: Lesson, steps: list[tuple[FilledStep, list[Figure]]], about: Provenance) -> Turns:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    described = Provenance(f"{lesson.number} {lesson.title}", about.lines)
    describe_pdf(writer, described)
    margins = QMarginsF(MARGIN, MARGIN, MARGIN, MARGIN + 6)
    writer.setPageLayout(
        QPageLayout(
            QPageSize(QPageSize.PageSizeId.A4), QPageLayout.Orientation.Portrait, margins, QPageLayout.Unit.Millimeter
        )
    )
    sheet = Sheet(writer.width(), writer.height())
    _title(sheet, lesson)
    number = 0
    for place, (filled, figures) in enumerate(steps):
        number = _step(sheet, place, filled, figures, number)
        yield Progress(len(steps) + place, 2 * len(steps), "Writing the handout")
    _answers(sheet, [asked for filled, _ in steps for asked in filled.checks])
    with painting(writer) as painter:
        for page in sheet.printed(writer, painter, f"{lesson.number}  {lesson.title} · Ropewalk"):
            yield Progress(page + 1, sheet.pages(), "Printing the handout")
    return bytes(buffer.data().data())


def _title(sheet: Sheet, lesson: Lesson) -> None:
    sheet.heading((Span("words", f"{lesson.number}  {lesson.title}"),), 2 * BODY)
    sheet.line((Span("words", f"{lesson.about} {lesson.minutes} minutes."),))
    sheet.line((Span("words", "Name"),))
    sheet.rules(1)


def _step(sheet: Sheet, place: int, filled: FilledStep, figures: list[Figure], number: int) -> int:
    """One step; returns the number of the last question so far."""
    sheet.heading((Span("words", f"{place + 1}  "), *filled.title), BODY + 4)
    sheet.text(filled.text)
    if filled.look_at:
        sheet.line(filled.look_at, mark="Look:")
    for figure in figures:
        sheet.figure(*figure)
    for asked in filled.checks:
        number += 1
        _question(sheet, asked, number)
    return number


def _question(sheet: Sheet, asked: Asked, number: int) -> None:
    sheet.question(f"Question {number}")
    if asked.missing:
        sheet.line((Span("missing", asked.missing),), indent=BODY)
        return
    sheet.text(asked.ask, indent=BODY)
    for letter, option in zip(LETTERS, asked.options, strict=False):
        sheet.line(option.text, indent=2 * BODY, mark=f"{letter}")
    if asked.unit:
        sheet.line((Span("words", f"In {asked.unit}:"),), indent=BODY)
    sheet.rules(SPACES[asked.kind], indent=BODY)


def _answers(sheet: Sheet, checks: list[Asked]) -> None:
    if not checks:
        return
    sheet.heading((Span("words", "Answers"),), BODY + 8, new_page=True)
    for number, asked in enumerate(checks, start=1):
        if asked.missing:
            continue
        sheet.line(answer_spans(asked), mark=str(number))
        if asked.kind == "say":
            sheet.text(asked.reveal, BODY - 2, indent=BODY)
            for point in asked.points:
                sheet.line(point, BODY - 2, indent=2 * BODY, mark="□")
        sheet.text(asked.why, BODY - 2, indent=BODY)


def answer_spans(asked: Asked) -> tuple[Span, ...]:
    """The right answer of a question, with the engine's own value."""
    if asked.kind == "choose":
        for letter, option in zip(LETTERS, asked.options, strict=False):
            if option.right:
                return (Span("strong", f"{letter}  "), *option.text)
    if asked.kind == "say":
        return (Span("words", f"Said in {asked.seconds} seconds" if asked.seconds else "Said aloud"),)
    return (Span("value", asked.written),)
