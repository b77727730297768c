"""The Export dialog: what to export, in which format, and the choices that belong to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QSpinBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.files import animation, numbers_file, survey_numbers
from ropewalk.app.files.requests import WriteBytes
from ropewalk.views.files import pictures
from ropewalk.views.files.exporter import WINDOW, Exporter
from ropewalk.views.files.handout import handout_turns, no_handout
from ropewalk.views.files.recordings import FILMS, Shooting, recording_turns
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.views.window.panel_window import PanelWindow


class Kind(Protocol):
    """One entry of a table of formats."""

    @property
    def name(self) -> str:
        """Its suffix."""

    @property
    def title(self) -> str:
        """What a person reads."""


class Page(QWidget):
    """One kind of thing to export, with its choices; the kinds are listed in ``PAGES``."""

    title: ClassVar[str] = ""
    can_copy: ClassVar[bool] = False

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__()
        self.window_, self.exporter = window, exporter
        self.form = QFormLayout(self)
        self.form.setContentsMargins(0, 0, 0, 0)

    @abstractmethod
    def formats(self) -> Sequence[Kind]:
        """What it can be saved as."""

    def absent(self) -> str:
        """Why it cannot be exported now, a sentence; empty where it can."""
        return ""

    @abstractmethod
    def stem(self) -> str:
        """What the file is called unless the person says otherwise."""

    @abstractmethod
    def save(self, kind: Kind, path: Path) -> None:
        """Begin to make the file."""

    def _row(self, name: str, widget: QComboBox | QSpinBox) -> None:
        widget.setAccessibleName(name)
        self.form.addRow(plain_label(name, "body"), widget)

    def _choice(self, name: str, entries: Sequence[tuple[str, object]]) -> QComboBox:
        box = QComboBox()
        for text, data in entries:
            box.addItem(text, data)
        self._row(name, box)
        return box

    def _looks(self) -> None:
        """Which panel, in which colours and in how many pixels."""
        cards = self.window_.cards.values()
        self.target = self._choice("Of", [("the whole window", WINDOW), *((card.title, card.name) for card in cards)])
        self.paper = self._choice("Colours", [("as on screen", False), ("for paper: dark on white", True)])
        self.scale = self._choice("Size", [(f"{scale} ×", scale) for scale in pictures.SCALES])


class PicturePage(Page):
    """A panel or the window as it is now."""

    title: ClassVar[str] = "A picture"
    can_copy: ClassVar[bool] = True

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window, exporter)
        self._looks()
        self.target.setCurrentIndex(self.target.findData(exporter.target()))
        self.scale.setCurrentIndex(1)

    def formats(self) -> Sequence[Kind]:
        """The table of pictures."""
        return pictures.FORMATS

    def stem(self) -> str:
        """Named after the panel."""
        return str(self.target.currentData()) or "ropewalk"

    def save(self, kind: Kind, path: Path) -> None:
        """Draw it."""
        chosen = next(one for one in pictures.FORMATS if one.name == kind.name)
        self.exporter.picture(
            self.target.currentData(), chosen, path, self.scale.currentData(), self.paper.currentData()
        )

    def copy(self) -> None:
        """Put it on the clipboard."""
        self.exporter.copy(self.target.currentData(), self.scale.currentData(), self.paper.currentData())


class FilmPage(Page):
    """Something that moves."""

    title: ClassVar[str] = "An animation"

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window, exporter)
        self.film = self._choice("What moves", [(film.title, film.name) for film in FILMS])
        self.steps = QSpinBox()
        self.steps.setRange(1, 200)
        self.steps.setValue(12)
        self._row("Tokens to decode", self.steps)
        self._looks()
        self.film.currentIndexChanged.connect(self._on_film)
        self._on_film()

    def _on_film(self) -> None:
        film = FILMS[self.film.currentIndex()]
        self.target.setCurrentIndex(self.target.findData(film.target))
        self.form.setRowVisible(self.steps, film.name == "decode")

    def formats(self) -> Sequence[Kind]:
        """The table of animations."""
        return animation.FORMATS

    def absent(self) -> str:
        """Why it cannot be filmed."""
        return FILMS[self.film.currentIndex()].absent(self.window_)

    def stem(self) -> str:
        """Named after what moves."""
        return str(self.film.currentData())

    def save(self, kind: Kind, path: Path) -> None:
        """Film it."""
        target = str(self.target.currentData())
        shooting = Shooting(target, self.scale.currentData(), self.paper.currentData(), self.steps.value())
        turns = recording_turns(FILMS[self.film.currentIndex()], self.exporter, shooting)
        chosen = next(one for one in animation.FORMATS if one.name == kind.name)
        self.exporter.animation(turns, chosen, path, target)


class NumbersPage(Page):
    """Scores and weights of the selected head."""

    title: ClassVar[str] = "Numbers of the selected head"
    RANGES: Final = ("the selected query's row", "the selected key's column", "the whole head", "a rectangle")

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window, exporter)
        run = window.session.run
        rows = 1 if run is None else run.length
        self.range = self._choice("Of", [(text, text) for text in self.RANGES])
        self.corners = [QSpinBox() for _ in range(4)]
        for name, box, value in zip(
            ("First query", "Last query", "First key", "Last key"),
            self.corners,
            (0, rows - 1, 0, rows - 1),
            strict=True,
        ):
            box.setRange(0, rows - 1)
            box.setValue(value)
            self._row(name, box)
        self.range.currentIndexChanged.connect(self._on_range)
        self._on_range()

    def _on_range(self) -> None:
        for box in self.corners:
            self.form.setRowVisible(box, self.range.currentIndex() == 3)

    def ranges(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Queries and keys, half-open."""
        now, run = self.window_.session.selection.now, self.window_.session.run
        every = (0, 1 if run is None else run.length)
        first, last, left, right = (box.value() for box in self.corners)
        return (
            ((now.query, now.query + 1), every),
            (every, (now.key, now.key + 1)),
            (every, every),
            ((first, last + 1), (left, right + 1)),
        )[self.range.currentIndex()]

    def formats(self) -> Sequence[Kind]:
        """The table of number files."""
        return numbers_file.FORMATS

    def absent(self) -> str:
        """Whether there is a run."""
        return "" if self.window_.session.run is not None else "There are no numbers yet; run a prompt first."

    def stem(self) -> str:
        """Named after the head."""
        now = self.window_.session.selection.now
        return wording.head_name(now.layer, now.head)

    def save(self, kind: Kind, path: Path) -> None:
        """Read and write them."""
        chosen = next(one for one in numbers_file.FORMATS if one.name == kind.name)
        self.exporter.numbers(chosen, path, *self.ranges())


class LensPage(Page):
    """The logit lens."""

    title: ClassVar[str] = "Numbers of the logit lens"
    RANGES: Final = ("the selected query's position", "the whole run")

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window, exporter)
        self.range = self._choice("Of", [(text, text) for text in self.RANGES])

    def formats(self) -> Sequence[Kind]:
        """The table of number files."""
        return numbers_file.FORMATS

    def absent(self) -> str:
        """Whether there is a run."""
        return "" if self.window_.session.run is not None else "There are no numbers yet; run a prompt first."

    def stem(self) -> str:
        """A plain name."""
        return "lens"

    def save(self, kind: Kind, path: Path) -> None:
        """Read and write them."""
        chosen = next(one for one in numbers_file.FORMATS if one.name == kind.name)
        query, run = self.window_.session.selection.now.query, self.window_.session.run
        every = (0, 1 if run is None else run.length)
        self.exporter.lens(chosen, path, every if self.range.currentIndex() else (query, query + 1))


class _Only:
    """The one format of something."""

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title


class SurveyPage(Page):
    """The numbers of the survey that is shown."""

    title: ClassVar[str] = "Numbers of the survey"

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window, exporter)
        self.table = self._choice("Of", [(one.title, one) for one in survey_numbers.TABLES])

    def formats(self) -> Sequence[Kind]:
        """A table."""
        return (_Only("csv", "CSV table"),)

    def absent(self) -> str:
        """Whether a survey is open."""
        surveys = self.window_.session.surveys
        return "" if surveys.now is not None else "No survey is open; open one first (Ctrl+Shift+Y)."

    def stem(self) -> str:
        """Named after the table."""
        return f"survey_{self._chosen.name}"

    def save(self, kind: Kind, path: Path) -> None:
        """Write it."""
        about = self.exporter.about("survey_table")
        data = survey_numbers.as_csv(self._chosen, self.window_.session.surveys, about)
        self.exporter.make(WriteBytes(path, data))

    @property
    def _chosen(self) -> survey_numbers.SurveyTable:
        return survey_numbers.TABLES[self.table.currentIndex()]


class RunPage(Page):
    """The run as a trace file."""

    title: ClassVar[str] = "The run, to be computed with"

    def formats(self) -> Sequence[Kind]:
        """The trace file."""
        return (_Only("safetensors", "Trace: Q', K', V and lse of every head"),)

    def absent(self) -> str:
        """Whether there is a run."""
        return "" if self.window_.session.run is not None else "There is no run yet; run a prompt first."

    def stem(self) -> str:
        """A plain name."""
        return "run"

    def save(self, kind: Kind, path: Path) -> None:
        """Write it."""
        self.exporter.trace(path)


class HandoutPage(Page):
    """The open lesson on paper."""

    title: ClassVar[str] = "The open lesson, to be printed"

    def formats(self) -> Sequence[Kind]:
        """A document."""
        return (_Only("pdf", "PDF handout: steps, questions, answers at the end"),)

    def absent(self) -> str:
        """Whether a lesson is open."""
        return no_handout(self.window_)

    def stem(self) -> str:
        """Named after the lesson."""
        lesson = self.window_.open_lesson
        return "lesson" if lesson is None else lesson.id

    def save(self, kind: Kind, path: Path) -> None:
        """Walk the lesson and write it down."""
        self.exporter.task.run(
            handout_turns(self.exporter),
            lambda data: self.exporter.make(WriteBytes(path, data)),
            self.exporter.failed.emit,
        )


PAGES: Final = (PicturePage, FilmPage, NumbersPage, LensPage, SurveyPage, RunPage, HandoutPage)


class ExportDialog(QDialog):
    """Choose what, choose how, choose where."""

    def __init__(self, window: PanelWindow, exporter: Exporter) -> None:
        super().__init__(window)
        self.setWindowTitle("Export")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        line = theme.current().line.name()
        self.setStyleSheet(f"QAbstractSpinBox {{ border: 1px solid {line}; border-radius: {theme.GRID // 2}px; }}")
        self.pages = [page(window, exporter) for page in PAGES]
        self.what = QComboBox()
        self.what.setAccessibleName("Take home")
        self.stack = QStackedWidget()
        for page in self.pages:
            self.what.addItem(page.title)
            self.stack.addWidget(page)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Format")
        self.why = plain_label("", "body")
        self.why.setWordWrap(True)
        self.why.setProperty("tone", "bad")
        self._arrange()
        self.what.currentIndexChanged.connect(self._on_what)
        self.kind.currentIndexChanged.connect(self._judge)
        film = self.pages[1]
        assert isinstance(film, FilmPage)
        film.film.currentIndexChanged.connect(self._judge)
        self._on_what()

    def _arrange(self) -> None:
        top, bottom = QFormLayout(), QFormLayout()
        top.addRow(plain_label("Take home", "body"), self.what)
        bottom.addRow(plain_label("Format", "body"), self.kind)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.copy_button = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        self.save_button = buttons.addButton("Save…", QDialogButtonBox.ButtonRole.ActionRole)
        self.save_button.setProperty("kind", "main")
        self.save_button.setDefault(True)
        buttons.rejected.connect(self.reject)
        self.copy_button.clicked.connect(self._copy)
        self.save_button.clicked.connect(self._ask_where)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.setSpacing(2 * theme.GRID)
        layout.addLayout(top)
        layout.addWidget(self.stack)
        layout.addLayout(bottom)
        layout.addWidget(self.why)
        layout.addWidget(buttons)

    def choose(self, name: str) -> None:
        """Propose a picture of one panel."""
        page = self.pages[0]
        assert isinstance(page, PicturePage)
        self.what.setCurrentIndex(0)
        page.target.setCurrentIndex(page.target.findData(name))

    @property
    def page(self) -> Page:
        """The page in front."""
        return self.pages[self.what.currentIndex()]

    def chosen(self) -> Kind:
        """The format in front."""
        return self.page.formats()[max(self.kind.currentIndex(), 0)]

    def _on_what(self) -> None:
        self.stack.setCurrentWidget(self.page)
        self.kind.blockSignals(True)
        self.kind.clear()
        for one in self.page.formats():
            self.kind.addItem(f"{one.title} (.{one.name})")
        self.kind.blockSignals(False)
        self.copy_button.setVisible(self.page.can_copy)
        self._judge()

    def _judge(self) -> None:
        """Say why it cannot be saved; nothing that cannot be had is offered."""
        kind = self.chosen()
        why = self.page.absent() or (kind.absent() if isinstance(kind, animation.AnimationFormat) else "")
        self.why.setText(why)
        self.why.setVisible(bool(why))
        self.save_button.setEnabled(not why)
        if isinstance(self.page, PicturePage):
            pixels = isinstance(kind, pictures.PictureFormat) and kind.scaled
            self.page.form.setRowVisible(self.page.scale, pixels)

    def _copy(self) -> None:
        page = self.page
        assert isinstance(page, PicturePage)
        self.accept()
        page.copy()

    def _ask_where(self) -> None:
        kind = self.chosen()
        dialog = QFileDialog(self, "Save", f"{self.page.stem()}.{kind.name}", f"{kind.title} (*.{kind.name})")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(kind.name)
        dialog.fileSelected.connect(self.save_to)
        dialog.open()

    def save_to(self, path: str) -> None:
        """Begin to make the file, and close.

        The name's ending chooses among the formats of the page; an ending that is none of them is kept, and that of
        the chosen format added.
        """
        page, named = self.page, Path(path)
        meant = [one for one in page.formats() if named.suffix.lower() == f".{one.name}"]
        kind = meant[0] if meant else self.chosen()
        self.accept()
        if not meant:
            named = named.with_name(f"{named.name}.{kind.name}")
            if named.exists():  # nobody was asked about that one
                why = f"{named.name} is there already and was left as it is; choose another name."
                page.exporter.failed.emit(why)
                return
        page.save(kind, named)
