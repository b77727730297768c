"""The end of an engine, and what there is after it: another one, with all that was on screen.

What an engine has ended at twice in a row is not asked a third time (``app.engine.deaths``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.deaths import REFUSAL
from ropewalk.app.session.opening import DEFAULT_PROMPT, PLAIN, NextRun
from ropewalk.app.session.state import again
from ropewalk.model.engine.requests import Failure, OpenModel
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.tokens.prompt import Prompt

if TYPE_CHECKING:
    from ropewalk.app.engine.connection import Calls, Connection, Ended
    from ropewalk.app.engine.engines import Engines
    from ropewalk.app.engine.remote import RemoteEngine
    from ropewalk.app.session.baseline import Baseline
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.opening import Opening
    from ropewalk.app.session.state import Scenes, SessionState
    from ropewalk.app.session.timeline import Timeline
    from ropewalk.model.readings.records import Run


class Recovery(QObject):
    """What is done about an engine that has ended.

    Signals
    -------
    engine_ended(sentence, details)
        There is no engine; :meth:`restart` starts another one.
    engine_starting(), engine_back()
        Another one is being started; it is in use, and what was on screen is there again.
    made_again(before, after)
        What was on screen was made again in another engine and is shown next; two :class:`SessionState`.
    engine_unheard(), engine_heard()
        The engine goes on with what was cancelled two seconds ago, and :meth:`end_engine` ends it; it has heard that
        at last.

    Attributes
    ----------
    is_lost
        Whether what is on screen could not be brought back, so that :meth:`restart` opens the bundled model.
    """

    engine_ended = Signal(str, str)
    engine_starting = Signal()
    engine_back = Signal()
    made_again = Signal(object, object)
    engine_unheard = Signal()
    engine_heard = Signal()

    def __init__(
        self,
        session: SessionContext,
        engines: Engines,
        opening: Opening,
        timeline: Timeline,
        scenes: Scenes,
        baseline: Baseline,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engines = engines
        self._opening = opening
        self._timeline = timeline
        self._scenes = scenes
        self._baseline = baseline
        self._brought_back = 0
        self.is_lost = False
        engines.ended.connect(self._on_ended)
        engines.unheard.connect(self.engine_unheard)
        engines.heard.connect(self.engine_heard)
        opening.opened.connect(self._on_opened)

    def restart(self, then: NextRun | None = None, kept: SessionState | None = None) -> None:
        """Start another engine after one has ended, and bring back what was on screen; then run what is asked for now.

        ``kept`` is brought back instead where it is given. Where nothing can be, the bundled model is opened.
        """
        if self.is_lost:  # a person asks for something else
            self._engines.deaths.forget()
        elif kept is None:
            kept = self._scenes.owed or self._scenes.keep()
        baseline = self._baseline.kept
        self.engine_starting.emit()
        if kept is None:
            asked = OpenModel(None, *PLAIN) if self.is_lost and then is None else self._opening.asked
            self._opening.submit(asked, then or self._default_run(), self._on_failed)
            return
        connection, ids = self._engines.prepare(), (self._session.next_run_id(), self._session.next_run_id())

        def work(engine: RemoteEngine) -> Calls[tuple[SessionState, SessionState | None]]:
            remote = self._engines.remote(connection)
            back = yield from again(remote, kept, ids[0])
            if baseline is None:
                return back, None
            same = baseline.model_handle is kept.model_handle
            return back, (yield from again(remote, baseline, ids[1], back.model_handle if same else None))

        self._timeline.leave()
        self._opening.next = then
        self._session.submit(
            "open",
            Urgency.PREFILL,
            work,
            lambda states: self._on_made_again(connection, kept, *states),
            self._on_failed,
            what="Starting the engine again",
        )

    def end_engine(self) -> None:
        """End an engine that does not hear; what is on screen stays."""
        self._engines.current.kill()

    # For the session and its parts --------------------------------------------------------------------------------

    def restarts_with(self, kept: SessionState) -> bool:
        """Start another engine with this where there is none; whether there is none."""
        if self._engines.gone is not None:
            self.restart(kept=kept)
        return self._engines.gone is not None

    def follow(self, before: Run | None, after: Run) -> None:
        """Forget what engines have ended at once a person has gone on to another run than was brought back."""
        if before is None or after.run_id not in (before.run_id, self._brought_back):
            self._engines.deaths.forget()

    # How it works -------------------------------------------------------------------------------------------------

    def _default_run(self) -> NextRun:
        return NextRun(self._session.newest or Prompt(DEFAULT_PROMPT), (DEFAULT_PROMPT,))

    def _on_ended(self, ended: Ended) -> None:
        """Say it once; whoever waited for the engine hears of it too."""
        self._timeline.leave()
        self.engine_ended.emit(ended.sentence, ended.details)
        if ended.at_limit:  # nothing is wrong with what is on screen
            self._session.fail(Failure(f"{ended.sentence} Its engine was ended, and another one takes its place."))
            self.restart()

    def _on_opened(self, was_gone: bool) -> None:
        self.is_lost = False
        if was_gone:
            self.engine_back.emit()

    def _on_made_again(
        self, connection: Connection, kept: SessionState, back: SessionState, baseline: SessionState | None
    ) -> None:
        following = self._opening.next
        self._brought_back = back.handle.run.run_id
        self._engines.adopt(connection)
        self.made_again.emit(kept, back)
        if baseline is not None:
            self._baseline.restore(baseline)  # first: panels ask about both as soon as the run is there
        self._scenes.restore(back)
        self.engine_back.emit()
        if following is not None:
            self._opening.next = following
            self._opening.run_next(back.model_handle.card)

    def _on_failed(self, failure: Failure) -> None:
        """Offer it once more; what would not be tried again is lost, and something else is offered."""
        wish = self._opening.take_next()
        self.is_lost = failure is REFUSAL
        if wish is not None:
            self._session.newest = wish.prompt
        self.engine_ended.emit(failure.sentence, failure.details)
