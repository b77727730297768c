"""Sessions as files from the window: saving, opening, what was opened lately, and keeping what nobody saved.

How a session is kept and brought back is for ``app.files.session_keeping``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from ropewalk.app.files.session_file import SUFFIX, SavedSession, SavedView
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import finished
from ropewalk.views.style import theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropewalk.app.engine.connection import Calls
    from ropewalk.app.files.requests import Found
    from ropewalk.app.files.session_keeping import Asking
    from ropewalk.model.engine.interface import ModelHandle
    from ropewalk.views.window.panel_window import PanelWindow

CALM_MS: Final = 5000
"""How long nothing must have changed before what nobody saved is kept."""
KINDS: Final = f"Sessions (*{SUFFIX})"


class SessionFiles(QObject):
    """The session file that is open, if one is.

    Signals
    -------
    finished(sentence)
        A file was saved or opened.
    failed(sentence)
        It could not be; what was open is still open.
    """

    finished = Signal(str)
    failed = Signal(str)

    def __init__(self, window: PanelWindow) -> None:
        super().__init__(window)
        self.window = window
        self.path: Path | None = None
        self._saved: SavedSession | None = None
        self._calm = QTimer(self)
        self._calm.setSingleShot(True)
        self._calm.setInterval(CALM_MS)
        self._calm.timeout.connect(self._keep_beside)
        for changed in (
            window.session.run_changed,
            window.session.interventions.changed,
            window.session.baseline.changed,
            window.session.board.changed,
        ):
            changed.connect(lambda *what: self._calm.start())
        self._found: tuple[ModelHandle, Found] | None = None
        """A model that is open elsewhere, and where and what its checkpoint is there."""
        window.session.model_changed.connect(self._find)

    @property
    def last(self) -> Path:
        """Where the state at the last close is kept."""
        return self.window.session.settings.path.with_name(f"last{SUFFIX}")

    def recent(self) -> tuple[str, ...]:
        """Paths of the sessions opened or saved lately, the newest first."""
        return self.window.session.settings.now.sessions

    # Saving -------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save to the file that is open, or ask for one."""
        if self.path is None:
            self.save_as()
        else:
            self.save_to(str(self.path))

    def save_as(self) -> None:
        """Ask for a file and save."""
        dialog = self._dialog("Save session", QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX[1:])
        dialog.fileSelected.connect(self.save_to)
        dialog.open()

    def save_to(self, path: str) -> None:
        """Save to a file."""
        baseline = self.window.session.baseline.kept

        def done(saved: SavedSession) -> None:
            self._is_open(Path(path), saved)
            lost = baseline is not None and saved.baseline is None
            self.finished.emit(f"Saved {Path(path).name}{', without the pinned run of another model' if lost else ''}")

        from ropewalk.app.files.session_keeping import save_session

        save_session(self.window.session, Path(path), self._view(), done, self.failed.emit)

    # Opening ------------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask which file to open."""
        dialog = self._dialog("Open session", QFileDialog.AcceptMode.AcceptOpen)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self.open)
        dialog.open()

    def open(self, path: str, otherwise: Callable[[], None] | None = None) -> None:
        """Open a session file; ``otherwise`` is called where it cannot be."""
        chosen = Path(path)

        def done(saved: SavedSession) -> None:
            self._is_open(None if chosen == self.last else chosen, saved)
            self._dress(saved.view)
            self.finished.emit(f"Opened {chosen.name}")

        def failed(sentence: str) -> None:
            self.failed.emit(sentence)
            if otherwise is not None:
                otherwise()

        if chosen != self.last:
            self.keep()
        if self.window.open_lesson is not None:
            self.window.lesson.leave()
        from ropewalk.app.files.session_keeping import open_session

        open_session(self.window.session, chosen, done, failed)

    # Nothing is lost ----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Write what nobody saved beside the settings, where the menu offers it as the last session."""
        self._calm.stop()
        if not self._made_something():
            return
        if self.window.session.elsewhere and self._known_place() is None:
            return  # it cannot be looked at from here; what was kept now and then is there
        try:
            from ropewalk.app.files.serving import Here

            finished(self._keeping(Here()))
        except RopewalkError as error:
            self.failed.emit(error.sentence)

    def _keep_beside(self) -> None:
        """The same as a job, now and then, so that a crash takes little with it; one that fails is tried again."""
        if self._made_something():
            session, what = self.window.session, "Keeping the session"
            session.exports.submit("keep", Urgency.PREFILL, self._keeping(session), _ignore, _ignore, what=what)

    def _keeping(self, files: Asking) -> Calls[None]:
        session = self.window.session
        state = session.scenes.keep()
        assert state is not None
        from ropewalk.app.files.session_keeping import described, keeping

        saved = described(session, state, self._view(), self.last.parent, self._known_place())
        return keeping(files, saved, self.last, self._saved)

    def _find(self) -> None:
        """Have an engine elsewhere say what it has opened: a window that closes cannot wait for that."""
        from ropewalk.app.files.session_keeping import finding

        session, model_handle = self.window.session, self.window.session.model_handle
        if session.elsewhere and model_handle is not None and model_handle.card.path:
            session.work(
                "fingerprint",
                lambda engine: finding(engine, model_handle),
                lambda found: self._on_found(model_handle, found),
                _ignore,
                what="Looking at the checkpoint's files",
                urgency=Urgency.THUMBNAILS,
            )

    def _on_found(self, model_handle: ModelHandle, found: Found) -> None:
        self._found = (model_handle, found)

    def _known_place(self) -> Found | None:
        """Where and what the checkpoint of the open model is, where its engine was asked."""
        if self._found is None or self._found[0] is not self.window.session.model_handle:
            return None
        return self._found[1] if self._found[1].place is not None else None

    def _made_something(self) -> bool:
        """Whether there is more than a prompt, which comes back by itself; a lesson's own model does not count."""
        session = self.window.session
        state = session.scenes.keep()
        if state is None or not state.model_handle.card.path:
            return False
        run, board = state.handle.run, session.board.of(state.model_handle.card)
        decoded, pinned = run.newest > run.prefill, bool(board.heads or board.notes)
        return decoded or pinned or bool(state.interventions) or session.baseline.kept is not None

    # How it works -------------------------------------------------------------------------------------------------

    def _dialog(self, title: str, mode: QFileDialog.AcceptMode) -> QFileDialog:
        start = self.path or Path(f"session{SUFFIX}")
        dialog = QFileDialog(self.window, title, str(start), KINDS)
        dialog.setAcceptMode(mode)
        dialog.setObjectName("sessions")
        dialog.finished.connect(dialog.deleteLater)
        return dialog

    def _is_open(self, path: Path | None, saved: SavedSession) -> None:
        self.path, self._saved = path, saved
        self.window.setWindowTitle("Ropewalk" if path is None else f"{path.name} — Ropewalk")
        if path is not None:
            self.window.session.settings.remember_session(str(path.absolute()))

    def _view(self) -> SavedView:
        now = theme.current()
        return SavedView(self.window.stage.kept(), now.name, now.projector)

    def _dress(self, view: SavedView) -> None:
        """Bring back theme, workspace and projector mode; one that cannot come back leaves the present one."""
        self.window.set_look(view.theme, projector=False)
        if view.layout:
            self.window.stage.bring_back(view.layout)
        if view.projector:
            self.window.set_look(projector=True)


def _ignore(what: object) -> None:
    """Nobody waits for it."""
