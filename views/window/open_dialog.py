"""The Open dialog: what lies on this machine, what a checkpoint would cost, and opening it with progress and cancel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, QSize, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.jobs import JobProgress
from ropewalk.app.models.downloads import is_name
from ropewalk.app.models.local_models import LocalModel
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.engine.interface import CheckpointOutline, Choice
from ropewalk.model.options import ADAPTER, FAMILY, IGNORE, TRANSFORMERS, VIA, Option
from ropewalk.model.readings.records import ModelCard
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording
from ropewalk.views.window.folder_dialog import FolderDialog

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

PATH = Qt.ItemDataRole.UserRole
FEWEST = 4
"""Lines of the list that are always seen."""
BUNDLED = ""
"""The path of the model that comes with Ropewalk."""
ASKED = {
    ADAPTER: ("none: a folder that peft wrote", "folder of a LoRA adapter to merge into it"),
    IGNORE: ("none: names with commas between", "fields of its config to leave out"),
    FAMILY: ("as its config says", "family to open it as"),
}
"""What is asked beside the path: what an empty line says, and what the line is."""
HINT = "Choose a checkpoint, drop one here, or type a path."
VIA_WORDS = (
    "Let transformers run the model, where Ropewalk's own decoder does not know its family. Attention, the next token, "
    "decoding and ablating heads work; what needs Ropewalk's own decoder says so."
)
HINT_ELSEWHERE = "Choose a checkpoint, or type a path on the engine's machine."


class OpenDialog(QDialog):
    """Choose a checkpoint, see what it costs, open it."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.outline: CheckpointOutline | None = None
        self.opening = self._looking = False
        self._fetching = False
        self._at_once = False
        self._answers: dict[str, QComboBox | QSpinBox] = {}
        self.setWindowTitle("Open a checkpoint")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAcceptDrops(False)  # the window takes what is dropped
        self.known = QListWidget()
        self.where = session.elsewhere or "this machine"
        self.known.setAccessibleName(f"Checkpoints on {self.where}")
        self.path = QLineEdit()
        self.path.setPlaceholderText("A folder or a file")
        self.path.setAccessibleName("path of the checkpoint")
        self.file = QPushButton("File…")
        self.folder = QPushButton("Folder…")
        self.asked = {option: _line(*words) for option, words in ASKED.items()}
        self.adapter_folder = QPushButton("Folder…")
        self.adapter_folder.setAccessibleName("choose the folder of a LoRA adapter")
        self._filled: dict[str, str] = {}
        self.facts = plain_label("", "body")
        self.facts.setWordWrap(True)
        self.costs = QGridLayout()
        self.costs.setHorizontalSpacing(3 * theme.GRID)
        self.questions = QGridLayout()
        self.layers = QSpinBox()
        self.layers.setAccessibleName("how many of its layers to open, from the first on")
        self.via = QPushButton("via transformers")
        self.via.setCheckable(True)
        self.via.setToolTip(wording.tooltip(VIA_WORDS))
        self.dtype = QComboBox()
        self.dtype.setAccessibleName("number format to open it in")
        self.notice = plain_label(HINT_ELSEWHERE if session.elsewhere else HINT, "notice")
        self.notice.setWordWrap(True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("progress")
        self.download = QPushButton("Download from Hugging Face")
        self.download.hide()
        self.open_button = QPushButton("Open")
        self.open_button.setProperty("kind", "main")
        self.cancel = QPushButton("Cancel")
        self._arrange()
        self._connect()
        self._list_known(())
        self._show_outline(None)
        session.engines.prepare()  # torch is there by the time that something is chosen
        session.checkpoints.list_local(self._list_known)

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.setSpacing(theme.GRID)
        row = QHBoxLayout()
        for widget in (self.path, self.file, self.folder):
            row.addWidget(widget, 1 if widget is self.path else 0)
        last = QHBoxLayout()
        last.addWidget(plain_label("open as", "label"))
        last.addWidget(self.dtype)
        last.addWidget(plain_label("layers", "label"))
        last.addWidget(self.layers)
        last.addWidget(self.via)
        last.addStretch(1)
        for button in (self.download, self.cancel, self.open_button):
            last.addWidget(button)
        beside = QGridLayout()
        beside.addWidget(plain_label("LoRA adapter", "label"), 0, 0)
        beside.addWidget(self.asked[ADAPTER], 0, 1, 1, 3)
        beside.addWidget(self.adapter_folder, 0, 4)
        beside.addWidget(plain_label("ignore fields", "label"), 1, 0)
        beside.addWidget(self.asked[IGNORE], 1, 1)
        beside.addWidget(plain_label("family", "label"), 1, 2)
        beside.addWidget(self.asked[FAMILY], 1, 3, 1, 2)
        layout.addLayout(row)
        layout.addLayout(beside)
        layout.addWidget(self.known, 1)
        layout.addWidget(self.facts)
        layout.addLayout(self.costs)
        layout.addLayout(self.questions)
        layout.addWidget(self.notice)
        layout.addWidget(self.bar)
        layout.addLayout(last)
        unit = theme.current().grid(1)
        self.bar.setFixedHeight(unit)
        self.known.setMinimumHeight(FEWEST * self.known.fontMetrics().lineSpacing())
        parent = self.parentWidget()
        room = self.screen().availableSize() if parent is None else parent.window().size()
        self.resize(QSize(80 * unit, 64 * unit).boundedTo(room))
        self.path.setFocus(Qt.FocusReason.OtherFocusReason)

    def _connect(self) -> None:
        self.path.textChanged.connect(self._on_path)
        self.via.toggled.connect(lambda: self._look(self.path.text()))
        self.path.returnPressed.connect(self.start)
        for line in self.asked.values():
            line.textChanged.connect(lambda: self._look(self.path.text()))
            line.returnPressed.connect(self.start)
        self.file.clicked.connect(lambda: self._browse(QFileDialog.FileMode.ExistingFile, self.path))
        self.folder.clicked.connect(lambda: self._browse(QFileDialog.FileMode.Directory, self.path))
        self.adapter_folder.clicked.connect(lambda: self._browse(QFileDialog.FileMode.Directory, self.asked[ADAPTER]))
        self.known.currentItemChanged.connect(self._on_known)
        self.known.itemClicked.connect(self._on_known)
        self.known.itemActivated.connect(lambda _: self.start())
        self.open_button.clicked.connect(self.start)
        self.cancel.clicked.connect(self._on_cancel)
        self.download.clicked.connect(self._on_download)
        for button in self.findChildren(QPushButton):
            button.setAutoDefault(False)
        self.session.model_changed.connect(self._on_model)
        self.session.engines.opener_killed.connect(self._on_opener_killed)
        self.session.progress_changed.connect(self._on_progress)
        self.session.checkpoints.fetched.connect(self._on_fetched)

    # What lies here -----------------------------------------------------------------------------------------------

    def _list_known(self, local: tuple[LocalModel, ...]) -> None:
        """Fill the list: the bundled model, what was opened lately, and what the Hugging Face cache holds."""
        self.known.blockSignals(True)
        self.known.clear()
        self._item("Built-in model", BUNDLED)
        recent = self.session.opened.recent
        self._section("Opened lately", bool(recent))
        for path in recent:
            name = wording.opened_as(Path(path).name, self.session.opened.answers.get(path, {}))
            self._item(f"{name}   {Path(path).parent}", path)
        self._section("In the local Hugging Face cache", bool(local))
        for model in local:
            self._item(f"{model.name}   {wording.byte_size(model.size)}", model.path)
        self.known.setCurrentRow(0)  # else the focus would make it current, and that would count as a choice
        self.known.clearSelection()
        self.known.blockSignals(False)

    def _section(self, title: str, needed: bool) -> None:
        if needed:
            item = QListWidgetItem(title, self.known)
            item.setFlags(Qt.ItemFlag.NoItemFlags)

    def _item(self, text: str, path: str) -> None:
        item = QListWidgetItem(text, self.known)
        item.setData(PATH, path)
        item.setToolTip(wording.tooltip(path or "The model that comes with Ropewalk"))

    def _on_known(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        path = item.data(PATH)
        if path is None or (path == self.path.text() and (self._looking or self.outline is not None)):
            return
        if path == self.path.text():
            self._on_path(path)
        self.path.setText(path)

    def _browse(self, mode: QFileDialog.FileMode, line: QLineEdit) -> None:
        if self.session.elsewhere:
            there = FolderDialog(self.session, mode == QFileDialog.FileMode.Directory, self)
            there.chosen.connect(line.setText)
            there.open()
            return
        dialog = QFileDialog(self, self.windowTitle())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(mode)
        dialog.fileSelected.connect(line.setText)
        dialog.open()

    # What it is ---------------------------------------------------------------------------------------------------

    def look_at(self, path: str, at_once: bool = False, adapter: str = "") -> None:
        """Show a path; ``at_once`` opens it once it is known to leave nothing open that was not answered before.

        ``adapter`` is the folder of a LoRA adapter to be merged into it.
        """
        self._at_once = at_once
        self.path.setText(path)
        if adapter:
            self.asked[ADAPTER].setText(adapter)

    def _on_path(self, text: str) -> None:
        """Look at another path, with what it was opened with the last time; what a person typed beside it stays."""
        remembered = self.session.opened.answers.get(text.strip(), {})
        for option, line in self.asked.items():
            if line.text() == self._filled.get(option, ""):
                self._filled[option] = str(remembered.get(option, ""))
                with QSignalBlocker(line):
                    line.setText(self._filled[option])
        with QSignalBlocker(self.via):
            self.via.setChecked(VIA in remembered)
        self._look(text)

    def _typed(self) -> dict[str, Option]:
        """What stands in the lines beside the path, and what is to run the model."""
        via: dict[str, Option] = {VIA: TRANSFORMERS} if self.via.isChecked() else {}
        return via | {option: text for option, line in self.asked.items() if (text := line.text().strip())}

    def _wanted(self) -> str | None:
        """The path to open; None is the bundled model."""
        return self.path.text().strip() or None

    def _look(self, text: str) -> None:
        """Ask what the path is; the first answer of a fresh engine takes as long as torch takes to be imported."""
        self._show_outline(None)
        self.download.hide()
        self.notice.setText(f"Looking at {Path(text.strip()).name or 'the built-in model'} …")
        self._looking = True
        self.session.checkpoints.outline(self._wanted(), self._show_outline, self._on_refused, self._typed())

    def _show_outline(self, outline: CheckpointOutline | None) -> None:
        """State what it is and what it costs, before anything is loaded."""
        self.outline, self._looking = outline, False
        _empty(self.costs)
        _empty(self.questions)
        self._answers = {}
        self.facts.setVisible(outline is not None)
        self.open_button.setEnabled(outline is not None and _opens(outline))
        if outline is None:
            return
        c = outline.config
        self.facts.setText(
            f"{outline.name} · {outline.family} · "
            f"{f'{wording.count(outline.parameters)} parameters · ' if outline.parameters else ''}"
            f"{c.layers} layers · {c.heads} heads, {c.kv_heads} kv heads of {c.head_width} · "
            f"up to {c.max_position:,} tokens"
        )
        for column, title in enumerate(("", "weights", "K and V of 1,000 tokens")):
            self.costs.addWidget(plain_label(title, "label"), 0, column)
        for row, (dtype, size) in enumerate(outline.bytes_in.items(), 1):
            self.costs.addWidget(plain_label(dtype, "number"), row, 0)
            self.costs.addWidget(plain_label(wording.byte_size(size), "number"), row, 1)
            self.costs.addWidget(plain_label(wording.byte_size(outline.kv_bytes_in[dtype]), "number"), row, 2)
        self.costs.setColumnStretch(3, 1)
        chosen = self.dtype.currentText() or (self.session.model.dtype if self.session.model else "float32")
        self.dtype.clear()
        self.dtype.addItems(list(outline.bytes_in))
        self.dtype.setCurrentText(chosen)
        self.layers.setRange(c.layers if outline.holds_run else 1, c.layers)
        remembered = self.session.opened.answers.get(self._wanted() or "", {})
        self.layers.setValue(_whole(remembered.get(FIRST_LAYERS), c.layers))
        self.layers.setSuffix(f" of {c.layers}")
        self.layers.setEnabled(not self.via.isChecked())
        self.layers.updateGeometry()  # its hint knows the longest text, but not that it has changed
        for row, choice in enumerate(outline.choices):
            self._ask(choice, row, _whole(remembered.get(choice.option), choice.assumed))
        notes = list(outline.notes)
        if not _opens(outline):
            notes.append("There are no weights here, so only shapes and costs can be shown.")
        self.notice.setText(" ".join(notes))
        unasked = all(choice.option in remembered for choice in outline.choices)
        if self._at_once and _opens(outline) and unasked:
            self._at_once = False
            self.start()

    def _ask(self, choice: Choice, row: int, assumed: int) -> None:
        """Put one question that the file leaves open, with what was answered the last time."""
        label = plain_label(choice.sentence, "body")
        label.setWordWrap(True)
        answer: QComboBox | QSpinBox
        if choice.choices:
            answer = QComboBox()
            answer.addItems([str(number) for number in choice.choices])
            answer.setCurrentText(str(assumed))
        else:
            answer = QSpinBox()
            answer.setRange(1, 1 << 30)
            answer.setValue(assumed)
        answer.setAccessibleName(choice.option)
        label.setBuddy(answer)
        self._answers[choice.option] = answer
        self.questions.addWidget(label, row, 0)
        self.questions.addWidget(answer, row, 1)

    def options(self) -> dict[str, Option]:
        """The answers, by option; the number of layers where it is not all of them."""
        layers = self.layers.value()
        fewer: dict[str, Option] = {FIRST_LAYERS: layers} if layers < self.layers.maximum() else {}
        return (
            fewer
            | self._typed()
            | {
                option: box.value() if isinstance(box, QSpinBox) else int(box.currentText())
                for option, box in self._answers.items()
            }
        )

    def _on_refused(self, sentence: str) -> None:
        self._show_outline(None)
        name = self.path.text().strip()
        can_be_fetched = is_name(name, elsewhere=bool(self.session.elsewhere))
        self.download.setVisible(can_be_fetched)
        if can_be_fetched:
            sentence = f"There is no {name} on {self.where}; it can be downloaded from Hugging Face."
        self.notice.setText(sentence)

    def _on_download(self) -> None:
        """Fetch what is named; nothing touches the network before this is pressed."""
        name = self.path.text().strip()
        self._set_opening(True)
        self._fetching = True
        self.download.setEnabled(False)
        self.notice.setText(f"Downloading {name} …")
        self.session.checkpoints.download(name, self._on_downloaded, self._on_not_downloaded)

    def _on_not_downloaded(self, sentence: str) -> None:
        self._set_opening(False)
        self.notice.setText(sentence)

    def _on_downloaded(self, place: str) -> None:
        self._set_opening(False)
        self.look_at(place, at_once=True)

    # Opening ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open what was chosen; the dialog stays until it is open, so that it can be cancelled or corrected."""
        if self.outline is None or not self.open_button.isEnabled():
            return
        self._set_opening(True)
        self.notice.setText(f"Opening {self.outline.name} …")
        self.session.opening.open(
            self._wanted(), dtype=self.dtype.currentText(), options=self.options(), failed=self._on_failed
        )

    def _set_opening(self, opening: bool) -> None:
        self.opening = opening
        self._fetching = False
        self.bar.setRange(0, 0 if opening else 1)
        self.open_button.setEnabled(not opening and self.outline is not None and _opens(self.outline))
        self.download.setEnabled(not opening)
        beside = (*self.asked.values(), self.adapter_folder)
        for widget in (self.path, self.file, self.folder, *beside, self.known, self.dtype, self.via):
            widget.setEnabled(not opening)
        self.layers.setEnabled(not opening and not self.via.isChecked())

    def _on_progress(self, progress: JobProgress | None) -> None:
        """Say how far the opening is; beside a download, other work may go on that is not what was asked for here."""
        if self.opening and not self._fetching:
            self._show_progress(progress)

    def _on_fetched(self, progress: JobProgress | None) -> None:
        if self._fetching:
            self._show_progress(progress)

    def _show_progress(self, progress: JobProgress | None) -> None:
        if progress is not None:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
            self.notice.setText(progress.what)

    def _on_model(self, card: ModelCard) -> None:
        """Close when it is open; one that opens while another is fetched is not what was asked for here."""
        if self.opening and not self._fetching:
            self.opening = False
            self.accept()

    def _on_failed(self, sentence: str) -> None:
        """Say why it could not be opened; what was open stays open."""
        if self.opening and not self._fetching:
            self._set_opening(False)
            self.notice.setText(sentence)

    def _on_cancel(self) -> None:
        """Stop opening, or close."""
        if self.opening:
            self.session.cancel()
            self._set_opening(False)
            self.notice.setText("Cancelled; what was open stays open.")
        else:
            self.reject()

    def _on_opener_killed(self) -> None:
        self.notice.setText("The process that opened it did not hear the cancel, so it was ended; what was open stays.")

    def done(self, result: int) -> None:
        """Close, and wait for nothing any more."""
        if self.opening:
            self.session.cancel()
        self._forget()
        super().done(result)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Take the window's own button for Cancel."""
        self._forget()
        super().closeEvent(event)

    def _forget(self) -> None:
        """Wait for nothing any more, and need no engine to open something in."""
        self.session.checkpoints.forget_questions()
        if not self.session.jobs.has("open"):
            self.session.engines.dismiss()


def _line(hint: str, name: str) -> QLineEdit:
    """A line that says what it is when it is empty, and what it is called."""
    line = QLineEdit()
    line.setPlaceholderText(hint)
    line.setAccessibleName(name)
    return line


def _whole(answer: Option | None, otherwise: int) -> int:
    """A remembered answer, where it is a number."""
    return answer if isinstance(answer, int) else otherwise


def _opens(outline: CheckpointOutline) -> bool:
    """Whether it can be put on screen: there are weights, or there is a run."""
    return outline.holds_weights or outline.holds_run


def _empty(grid: QGridLayout) -> None:
    """Take every widget out of a grid and delete it."""
    while (item := grid.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
