"""Checkpoints that could be opened: what one is, which lie on this machine, and fetching one when asked.

Each download and each look has a process of its own on the engine's machine: the network is slow, and panels must not
wait for it. Opening one is the session's; reading one is the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import CallFailed, Calls, Ended
from ropewalk.app.engine.deaths import explained
from ropewalk.app.models.local_models import LocalModel
from ropewalk.app.models.requests import DownloadModel, ListFolder, ListModels
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency

if TYPE_CHECKING:
    from ropewalk.app.engine.connection import Calls, Connection
    from ropewalk.app.engine.engines import Engines
    from ropewalk.app.engine.short_lived import ShortLived
    from ropewalk.app.jobs import Jobs
    from ropewalk.app.models.folders import Folder
    from ropewalk.app.session.context import SessionContext
    from ropewalk.model.engine.interface import CheckpointOutline
    from ropewalk.model.options import Options


class Checkpoints(QObject):
    """What somebody asks before opening one.

    Signals
    -------
    fetched(progress)
        How far a download is: a ``JobProgress``, or None when there is none; the session's progress has it too.
    """

    fetched = Signal(object)

    def __init__(
        self,
        session: SessionContext,
        engines: Engines,
        beside: ShortLived,
        downloads: Jobs,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engines = engines
        self._beside = beside
        self._downloads = downloads
        self._downloads.progress_changed.connect(self.fetched)

    def outline(
        self,
        path: str | None,
        answer: Callable[[CheckpointOutline], None],
        failed: Callable[[str], None],
        options: Options | None = None,
    ) -> None:
        """Say what a checkpoint is and would cost, without loading it; a newer question replaces an older one."""
        self._session.submit(
            "outline",
            Urgency.COARSE,
            lambda engine: self._look_at(path, options or {}),
            answer,
            lambda failure: failed(failure.sentence),
            what="Looking at the checkpoint",
        )

    def list_folder(self, path: str, answer: Callable[[Folder], None], failed: Callable[[str], None]) -> None:
        """List a folder of the engine's machine, an empty path being the home folder; the newest question counts.

        It is asked of the engine that is ready for opening: one more process would cost a login for every folder.
        """
        self._session.submit(
            "folder",
            Urgency.PICTURE,
            lambda engine: _asked(self._engines.prepare(), ListFolder(path)),
            answer,
            lambda failure: failed(failure.sentence),
            what="Looking into the folder",
        )

    def forget_folder(self) -> None:
        """Nobody looks at a folder any more."""
        self._session.jobs.cancel("folder")

    def _look_at(self, path: str | None, options: Options) -> Calls[CheckpointOutline]:
        """Look once more where the process has ended: it may have been at another file, which it could not leave."""
        try:
            return (yield from self._engines.remote(self._engines.prepare()).outline(path, options))
        except CallFailed as error:
            if not isinstance(error.failure, Ended) or error.failure.at_limit:
                raise
        try:
            return (yield from self._engines.remote(self._engines.prepare()).outline(path, options))
        except CallFailed as error:
            raise CallFailed(of_opening(error.failure, path, self._engines.elsewhere)) from error

    def list_local(self, answer: Callable[[tuple[LocalModel, ...]], None]) -> None:
        """List what the local Hugging Face cache holds; no network."""
        work = self._beside.ask(ListModels())
        self._session.jobs.submit("local models", Urgency.COARSE, work, answer, self._session.fail)

    def forget_questions(self) -> None:
        """Nobody waits any more for what a checkpoint is, or for the list of local ones."""
        for slot in ("outline", "local models"):
            self._session.jobs.cancel(slot)

    def download(self, name: str, arrived: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Download ``org/name`` from Hugging Face; ``arrived`` hears where it lies. Only when a person asked for it."""
        self._downloads.submit(
            "download",
            Urgency.PREFILL,
            self._beside.ask(DownloadModel(name)),
            arrived,
            lambda failure: failed(failure.sentence),
            what=f"Downloading {name}",
        )

    def cancel(self) -> None:
        """End a download."""
        self._downloads.cancel_all()

    def close(self) -> None:
        """Cancel everything."""
        self._downloads.close()


def _asked(connection: Connection, request: Any) -> Calls[Any]:
    return (yield connection.asking(request))


def of_opening(failure: Failure, path: str | None, elsewhere: str = "") -> Failure:
    """Why a checkpoint could not be opened or looked at, where that ended the process that was to do it."""
    if not isinstance(failure, Ended) or not failure.reason or not failure.had_begun:
        return failure
    name = "The built-in model" if path is None else Path(path).name
    perhaps = f" or the way to {elsewhere} broken" if elsewhere else ""
    said = f"{name} could not be opened: the process that read it ended ({failure.reason})"
    why = explained(failure.reason)
    sentence = f"{said}. {why}" if why else f"{said}; the file may be damaged{perhaps}."
    return Failure(sentence, failure.details)
