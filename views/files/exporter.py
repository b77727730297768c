"""What is exported from the window: pictures now, numbers and runs beside the computing.

The formats are tables elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget

from ropewalk.app.address import check_head
from ropewalk.app.files.animation import AnimationFormat
from ropewalk.app.files.exporting import export, export_lens, export_numbers, export_trace, finish_drawing
from ropewalk.app.files.numbers_file import NumberFormat
from ropewalk.app.files.provenance import Provenance, provenance, software
from ropewalk.app.files.requests import EncodeAnimation, FinishSvg, Writing
from ropewalk.app.files.shot import HeadsDrawn
from ropewalk.app.session.reading import Reading
from ropewalk.model.engine.questions import AskBoard
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress
from ropewalk.model.readings.records import BoardReading, Run
from ropewalk.views.files import pictures
from ropewalk.views.files.drawing import draw_svg
from ropewalk.views.files.figure import Figure
from ropewalk.views.files.pictures import PictureFormat
from ropewalk.views.files.task import Task, Turns
from ropewalk.views.panels.panel import PART, Mark, Panel
from ropewalk.views.panels.panel_card import PanelCard
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.views.window.panel_window import PanelWindow

LONG: Final = 120
"""Characters of a prompt that a caption tells."""
MASKED: Final = Mark("hatch", "masked", "masked")
WINDOW: Final = ""
"""The name of the whole window among the panels' names."""


class Exporter(QObject):
    """Exports, one at a time.

    Signals
    -------
    saved(path)
        A file is there, whole.
    failed(sentence)
        It is not, and the one that was there before still is.
    """

    saved = Signal(object)
    failed = Signal(str)

    def __init__(self, window: PanelWindow) -> None:
        super().__init__(window)
        self.window = window
        self.task = Task(window.session, self)

    # Pictures -----------------------------------------------------------------------------------------------------

    def target(self) -> str:
        """The panel that the focus is in, else the whole window."""
        at: QWidget | None = QApplication.focusWidget()
        while at is not None and not isinstance(at, PanelCard):
            at = at.parentWidget()
        return WINDOW if at is None else at.name

    def widget(self, name: str) -> QWidget:
        """A panel with its heading, or the window."""
        return self.window if name == WINDOW else self.window.cards[name]

    def figure(self, name: str, *, moving: bool = False) -> Figure | None:
        """What is drawn of a panel; None where everything is, as of the window and of a page to read."""
        run = self.window.session.run
        if name == WINDOW or not self.window.panels[name].is_figure:
            return None
        panel = self.window.panels[name]
        if not panel.follows_run:
            of = dict(panel.figure_lines).get("Model", "")
            caption = PART.join(filter(None, (panel.figure_caption, of, "Ropewalk")))
        elif run is not None:
            caption = self._caption(panel.figure_caption, run)
        else:
            return None
        return Figure(self.widget(name), caption, panel.figure_legend, moving)

    def _caption(self, of: str, run: Run) -> str:
        """What a figure is of, and of which run."""
        prompt = run.prompt.strip()
        if len(prompt) > LONG:
            prompt = f"{prompt[:LONG].rstrip()} …"
        said = [of, wording.model_name(run.model.name)]
        said += [f"“{prompt}”"] if prompt else []
        said += [f"with {one.label}" for one in self.window.session.interventions.now]
        return " · ".join((*said, "Ropewalk"))

    def about(self, name: str) -> Provenance:
        """Where a picture made now comes from."""
        session = self.window.session
        title = "Ropewalk" if name == WINDOW else self.window.cards[name].title
        if name != WINDOW and not self.window.panels[name].follows_run:
            return Provenance(title, (("Software", software()),)).with_lines(
                dict(self.window.panels[name].figure_lines)
            )
        lesson = self.window.lesson.lesson
        more = {} if lesson is None else {"Lesson": f"{lesson.number} {lesson.title}"}
        now = session.selection.now
        return provenance(session, f"{title}, {wording.head_name(now.layer, now.head)}").with_lines(more)

    def picture(self, name: str, kind: PictureFormat, path: Path, scale: int = 1, paper: bool = False) -> None:
        """Save a panel's picture, or the window's; ``paper`` draws it dark on white."""

        def turns() -> Turns:
            yield from self.in_sight(name)
            self.be_quiet()
            with self.printed(name, paper):
                steps = kind.draw(self.widget(name), self.about(name), scale, path, self.figure(name))
            return (yield from steps)

        self.task.run(turns(), self.make, self.failed.emit)

    def heads(
        self, heads: tuple[tuple[int, int], ...], drawn: HeadsDrawn, kind: PictureFormat, path: Path, scale: int = 1
    ) -> None:
        """Save maps of heads side by side, dark on white, without the window around them."""
        session, run = self.window.session, self.window.session.run
        answers: list[Reading[BoardReading]] = []

        def turns() -> Turns:
            if run is None:
                raise RopewalkError("There is nothing to draw yet; run a prompt first.")
            for layer, head in heads:
                check_head(layer, head, run.config.layers, run.config.heads)
            session.ask("figure", AskBoard(heads, (0, len(heads))), answers.append)
            yield Progress(0, 2, "Reading the heads")
            yield lambda: bool(answers)
            from ropewalk.views.files.head_figure import heads_on_paper

            names = ", ".join(wording.head_name(*one) for one in heads)
            what = "Weights (softmax)" if drawn.map == "weights" else "Scores after the mask"
            about = self.about(WINDOW).with_lines({"Heads": names, "Map": what})
            pictures = answers[0].value.pictures
            self.be_quiet()
            with heads_on_paper(pictures, run, drawn.map, tokens=drawn.labels == "tokens") as sheet:
                figure = Figure(sheet, self._caption(f"{what} of {names}", run), (MASKED,))
                steps = kind.draw(sheet, about, scale, path, figure)
            return (yield from steps)

        self.task.run(turns(), self.make, self.failed.emit)

    def copy(self, name: str, scale: int = 2, paper: bool = False) -> None:
        """Put a picture on the clipboard: pixels, and the same as SVG for programs that take one."""

        def turns() -> Turns:
            yield from self.in_sight(name)
            self.be_quiet()
            with self.printed(name, paper):
                image = pictures.to_image(self.widget(name), scale, self.figure(name))
                drawing = draw_svg(self.widget(name), self.about(name), self.figure(name))
            data = QMimeData()
            data.setImageData(image)
            return drawing, data

        def finish(drawn: tuple[FinishSvg, QMimeData]) -> None:
            drawing, data = drawn

            def finished(svg: bytes) -> None:
                data.setData("image/svg+xml", svg)
                QGuiApplication.clipboard().setMimeData(data)

            finish_drawing(self.window.session, drawing, finished, self.failed.emit)

        self.task.run(turns(), finish, self.failed.emit)

    def in_sight(self, name: str) -> Turns:
        """Bring a panel to the front and wait until it has drawn."""
        self.window.failure.dismiss()
        if name != WINDOW:
            self.window.reveal(name)
        yield Progress(0, 2, "Drawing")
        yield lambda: self.drawn(name)

    def drawn(self, name: str = WINDOW) -> bool:
        """Whether a panel, or every one in sight, shows what it should."""
        panels: list[Panel] = list(self.window.panels.values()) if name == WINDOW else [self.window.panels[name]]
        there = self.window.session.run is not None or not any(panel.follows_run for panel in panels)
        return there and all(panel.settled for panel in panels if panel.isVisible())

    def be_quiet(self) -> None:
        """Leave the progress of taking a picture out of the picture, and let what was just written find its room."""
        self.window.session.progress_changed.emit(None)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)

    @contextmanager
    def printed(self, name: str, paper: bool) -> Iterator[None]:
        """For as long as a picture takes, dress what is drawn in the colours of paper."""
        if not paper or theme.current().name == "light":
            yield
            return
        widget = self.widget(name)
        try:
            with theme.worn_by(widget, "light"):
                self._dress(name)
                yield
        finally:
            self._dress(name)

    def _dress(self, name: str) -> None:
        """Let what paints itself take the theme in use."""
        window = self.window
        if name == WINDOW:
            window.dress()
        else:
            window.panels[name].theme_changed()

    # Films --------------------------------------------------------------------------------------------------------

    def animation(self, turns: Turns, kind: AnimationFormat, path: Path, target: str) -> None:
        """Take a film, then encode it beside everything else; ``turns`` returns its frames."""
        why = kind.absent()
        if why:
            self.failed.emit(why)
            return

        self.task.run(
            turns,
            lambda frames: self.make(EncodeAnimation(path, kind.name, frames, self.about(target)), "Encoding"),
            self.failed.emit,
        )

    # Numbers ------------------------------------------------------------------------------------------------------

    def numbers(self, kind: NumberFormat, path: Path, queries: tuple[int, int], keys: tuple[int, int]) -> None:
        """Save a rectangle of the selected head: half-open ranges of rows."""
        about = self.about("scores").with_lines(
            {"Queries": f"{queries[0]} to {queries[1] - 1}", "Keys": f"{keys[0]} to {keys[1] - 1}"}
        )
        export_numbers(self.window.session, path, kind, queries, keys, about, self.saved.emit, self.failed.emit)

    def lens(self, kind: NumberFormat, path: Path, rows: tuple[int, int]) -> None:
        """Save what the stream says at a half-open range of positions."""
        about = self.about("lens").with_lines({"Positions": f"{rows[0]} to {rows[1] - 1}"})
        export_lens(self.window.session, path, kind, rows, about, self.saved.emit, self.failed.emit)

    def trace(self, path: Path) -> None:
        """Save the run in view as a trace file."""
        export_trace(self.window.session, path, self.saved.emit, self.failed.emit)

    def make(self, request: Writing, verb: str = "Writing") -> None:
        """Have a file made beside everything else."""
        export(self.window.session, request, self.saved.emit, self.failed.emit, verb)

    def close_down(self) -> None:
        """End what is going on."""
        self.task.stop()
