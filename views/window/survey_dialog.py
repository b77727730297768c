"""What is to be surveyed: the model that is open, over which texts, for which statistics, into which folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.state import is_bundled
from ropewalk.app.survey_folders import holds_surveys
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.model.survey.records import SurveyedStatistic
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.panels.survey_panel import told
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

WHAT = (
    "A survey runs many texts through the model that is open and measures every head, in a process of its own. "
    "It can be stopped at any time, and goes on where it was."
)
KINDS = "Texts (*.txt *.jsonl *.parquet);;All files (*)"
GOES_ON = "This folder has a survey already; with the same texts and settings it goes on where it was."
MOST = 1_000_000_000
NAME = Qt.ItemDataRole.UserRole


class SurveyDialog(QDialog):
    """Say what, and begin.

    Signals
    -------
    begun()
        A survey runs.
    """

    begun = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.setWindowTitle("Run a survey")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAcceptDrops(False)
        line = theme.current().line.name()
        self.setStyleSheet(f"QAbstractSpinBox {{ border: 1px solid {line}; border-radius: {theme.GRID // 2}px; }}")
        card = session.model
        self.model = plain_label("none is open" if card is None else wording.model_name(card.name), "body")
        self.texts, self.choose_texts = _line("texts: a .txt, .jsonl or .parquet file"), QPushButton("File…")
        self.texts.setPlaceholderText("corpus.txt, a text on each line; .jsonl or .parquet")
        self.column = _line("column that holds the text")
        self.limit, self.tokens = QSpinBox(), QSpinBox()
        self.limit.setRange(0, MOST)
        self.limit.setSpecialValueText("all of them")
        self.limit.setAccessibleName("how many of the texts")
        self.tokens.setRange(2, MOST)
        self.tokens.setAccessibleName("tokens of a text at most")
        self.windows = QPushButton("cut a .txt into windows of so many")
        self.windows.setCheckable(True)
        self.windows.setToolTip("Cut each .txt into windows of that many tokens, in the place of its lines")
        self.statistics = QListWidget()
        self.statistics.setAccessibleName("statistics to measure")
        self.folder, self.choose_folder = _line("folder to make, or to go on with"), QPushButton("Folder…")
        self.notice = plain_label("", "notice")
        self.notice.setWordWrap(True)
        self.run_button, self.cancel_button = QPushButton("Run"), QPushButton("Cancel")
        self.run_button.setProperty("kind", "main")
        self._wanted: tuple[str, ...] = ()
        self._arrange()
        self._fill()
        self._connect()
        self._judge()
        session.surveys.list_statistics(self._offer)

    def _arrange(self) -> None:
        what = plain_label(WHAT, "body")
        what.setWordWrap(True)
        form = QFormLayout()
        for name, widgets in (
            ("Model", (self.model,)),
            ("Texts", (self.texts, self.choose_texts)),
            ("Column", (self.column,)),
            ("How many", (self.limit,)),
            ("Tokens of each", (self.tokens, self.windows)),
            ("Statistics", (self.statistics,)),
            ("Into", (self.folder, self.choose_folder)),
        ):
            row = QHBoxLayout()
            for at, widget in enumerate(widgets):
                row.addWidget(widget, 0 if at else 1)
            form.addRow(plain_label(name, "label"), row)
        last = QHBoxLayout()
        last.addStretch(1)
        last.addWidget(self.cancel_button)
        last.addWidget(self.run_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.setSpacing(theme.GRID)
        layout.addWidget(what)
        layout.addLayout(form)
        layout.addWidget(self.notice)
        layout.addLayout(last)
        look = theme.current()
        self.resize(look.grid(76), look.grid(72))

    def _fill(self) -> None:
        """Begin with what was asked for the last time."""
        last = next(iter(self.session.settings.now.surveys), None)
        self.texts.setText("; ".join(last.texts) if last else "")
        self.column.setText(last.column if last else "text")
        self.limit.setValue((last.limit or 0) if last else 0)
        self.tokens.setValue(last.tokens if last else 512)
        self.windows.setChecked(last.windows if last else False)
        self.folder.setText(last.folder if last else "")
        self._wanted = last.statistics if last else ()

    def _connect(self) -> None:
        self.choose_texts.clicked.connect(self._ask_texts)
        self.choose_folder.clicked.connect(self._ask_folder)
        for line in (self.texts, self.column, self.folder):
            line.textChanged.connect(self._judge)
        self.statistics.itemChanged.connect(self._judge)
        self.run_button.clicked.connect(self.start)
        self.cancel_button.clicked.connect(self.reject)
        self.run_button.setDefault(True)

    def _offer(self, statistics: tuple[SurveyedStatistic, ...]) -> None:
        """List what can be measured; all of it, unless less was asked for the last time."""
        self.statistics.blockSignals(True)
        for one in statistics:
            item = QListWidgetItem(one.title)
            item.setData(NAME, one.name)
            item.setToolTip(wording.tooltip(told(one).rpartition(" · ")[0]))
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            on = not self._wanted or one.name in self._wanted
            item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
            self.statistics.addItem(item)
        self.statistics.blockSignals(False)
        self._judge()

    @property
    def asked(self) -> RunSurvey | None:
        """What would be run; None without a model."""
        handle = self.session.model_handle
        if handle is None:
            return None
        items = [self.statistics.item(row) for row in range(self.statistics.count())]
        chosen = tuple(str(item.data(NAME)) for item in items if item.checkState() == Qt.CheckState.Checked)
        return RunSurvey(
            None if is_bundled(handle.card) else handle.card.path,
            handle.card.device,
            handle.card.dtype,
            tuple(_path(one) for one in self.texts.text().split(";") if one.strip()),
            _path(self.folder.text()) if self.folder.text().strip() else "",
            self.column.text().strip() or "text",
            self.windows.isChecked(),
            self.limit.value() or None,
            tokens=self.tokens.value(),
            statistics=self._wanted if not items else () if len(chosen) == len(items) else chosen,
            options=dict(handle.options),
        )

    def _refusal(self) -> str:
        """Why it cannot be run, a sentence; empty where it can."""
        session, asked, handle = self.session, self.asked, self.session.model_handle
        if asked is None or handle is None:
            return "No model is open; open one first (Ctrl+O)."
        if session.elsewhere:
            return f"The engine runs on {session.elsewhere}; run the survey there with `ropewalk survey`."
        if handle.origin is not None or handle.toy is not None:
            return "A trace, or a lesson's toy, cannot be surveyed; open its checkpoint (Ctrl+O)."
        if session.surveys.is_running:
            return "A survey runs already; stop it, or wait for its end."
        if not asked.texts:
            return "Say which texts: a file with one on each line, or a .jsonl or .parquet file."
        if missing := next((one for one in asked.texts if not os.path.exists(one)), ""):
            return f"There is no file {missing}."
        checked = any(
            self.statistics.item(row).checkState() == Qt.CheckState.Checked for row in range(self.statistics.count())
        )
        if self.statistics.count() and not checked:
            return "Choose at least one statistic."
        return "" if asked.folder else "Say into which folder the survey goes."

    def _judge(self) -> None:
        """Say what keeps it from being run, or that it goes on."""
        why = self._refusal()
        self.run_button.setEnabled(not why)
        asked = self.asked
        goes_on = asked is not None and bool(asked.folder) and holds_surveys(asked.folder)
        self.run_button.setText("Go on" if goes_on else "Run")
        self.notice.setText(why or (GOES_ON if goes_on else ""))

    def start(self) -> None:
        """Run it."""
        asked = self.asked
        if asked is not None and not self._refusal():
            self.session.surveys.run(asked)
            self.begun.emit()
            self.accept()

    def done(self, result: int) -> None:
        """Close; nobody reads any more what can be measured."""
        self.session.jobs.cancel("survey statistics")
        super().done(result)

    def _ask_texts(self) -> None:
        dialog = self._file_dialog("Texts", QFileDialog.FileMode.ExistingFiles, KINDS)
        dialog.filesSelected.connect(lambda paths: self.texts.setText("; ".join(paths)))
        dialog.open()

    def _ask_folder(self) -> None:
        dialog = self._file_dialog("Folder of the survey", QFileDialog.FileMode.Directory, "")
        dialog.fileSelected.connect(self.folder.setText)
        dialog.open()

    def _file_dialog(self, title: str, mode: QFileDialog.FileMode, kinds: str) -> QFileDialog:
        dialog = QFileDialog(self, title, "", kinds)
        dialog.setFileMode(mode)
        dialog.finished.connect(dialog.deleteLater)
        return dialog


def _path(typed: str) -> str:
    """What was typed as a whole path."""
    return str(Path(typed.strip()).expanduser().absolute())


def _line(name: str) -> QLineEdit:
    line = QLineEdit()
    line.setAccessibleName(name)
    return line
