"""The run of a trace file, and the checkpoint that it is given: in a fresh engine, with the run that is on screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ropewalk.app.session.checkpoints import of_opening
from ropewalk.app.session.state import again
from ropewalk.model.engine.requests import Failure, OpenModel
from ropewalk.model.engine.urgency import Urgency

if TYPE_CHECKING:
    from ropewalk.app.engine.connection import Calls, Connection
    from ropewalk.app.engine.engines import Engines
    from ropewalk.app.engine.remote import RemoteEngine
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.opening import Opening
    from ropewalk.app.session.state import Scenes, SessionState
    from ropewalk.app.session.timeline import Timeline
    from ropewalk.model.options import Options
    from ropewalk.model.trace_files.header import Origin


class Attaching(QObject):
    """Gives the run of a trace file its checkpoint.

    Signals
    -------
    confirmation_wanted(sentence, path)
        The checkpoint at a path (None: the bundled one) is not known to be the one that the run was made with;
        :meth:`attach` takes it where a person has confirmed that.
    attached(card)
        Everything can be done with the run now; the :class:`ModelCard` of its checkpoint.
    """

    confirmation_wanted = Signal(str, object)
    attached = Signal(object)

    def __init__(
        self,
        session: SessionContext,
        engines: Engines,
        opening: Opening,
        timeline: Timeline,
        scenes: Scenes,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engines = engines
        self._opening = opening
        self._timeline = timeline
        self._scenes = scenes

    @property
    def origin(self) -> Origin | None:
        """The checkpoint that the run on screen lacks: the one it was made with; None where it lacks none."""
        model_handle = self._session.model_handle
        return None if model_handle is None else model_handle.origin

    def attach(self, path: str | None, *, confirmed: bool = False, options: Options | None = None) -> None:
        """Open a checkpoint for the run on screen, which stays as it is until everything can be done with it.

        Parameters
        ----------
        path
            A file or folder; None is the bundled model.
        confirmed
            Whether a person wants it although it is not known to be the one that the run was made with.
        options
            How it is opened, where otherwise than the run was made.
        """
        kept = self._scenes.keep()
        if kept is None or kept.model_handle.origin is None:
            self._session.fail(Failure("Only the run of a trace file can be given a checkpoint; open a trace first."))
            return
        self._timeline.leave()
        for slot in ("run", "check"):
            self._session.jobs.cancel(slot)
        device = self._session.settings.opened(self._engines.command).device
        connection, run_id = self._engines.prepare(), self._session.next_run_id()

        def work(engine: RemoteEngine) -> Calls[SessionState]:
            remote = self._engines.remote(connection)
            back = yield from again(remote, kept, run_id)
            handle = yield from remote.attach(back.handle, path, device, options=options, confirmed=confirmed)
            return replace(back, model_handle=handle.model_handle, handle=handle)

        def failed(failure: Failure) -> None:
            self._engines.dismiss()
            if failure.confirm:
                self.confirmation_wanted.emit(failure.sentence, path)
            else:
                self._session.fail(of_opening(failure, path, self._engines.elsewhere))

        self._session.submit(
            "open",
            Urgency.PREFILL,
            work,
            lambda state: self._on_attached(state, path, connection),
            failed,
            what=f"Opening {'the built-in model' if path is None else path}",
        )

    # How it works -------------------------------------------------------------------------------------------------

    def _on_attached(self, state: SessionState, path: str | None, connection: Connection) -> None:
        was_gone = self._engines.gone is not None
        self._engines.adopt(connection)
        card, options = state.model_handle.card, dict(state.model_handle.options)
        self._opening.asked = OpenModel(path, card.device, card.dtype, options)
        if path is not None:
            self._session.settings.remember_checkpoint(path, options, self._engines.command)
        self._scenes.restore(state)
        self._opening.opened.emit(was_gone)
        self.attached.emit(card)
