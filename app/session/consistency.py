"""Consistency checks of the run on screen: cached against full logits, and both branches of attention, when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from ropewalk.model.engine.interface import unanswerable
from ropewalk.model.engine.questions import AskBranchCheck, AskCachedCheck
from ropewalk.model.engine.requests import Failure
from ropewalk.model.readings.records import ConsistencyCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropewalk.app.session.context import SessionContext

CHECK_LIMIT = 1024
"""Runs of up to this many rows check by themselves that decoding by steps equals the full prefix."""
CHECK_FLOPS = 3e11
"""The full prefix may take so many FLOPs to be run by itself, some seconds; a larger one is run on demand."""


class ConsistencyChecks(QObject):
    """What has been checked.

    Signals
    -------
    check_changed(check)
        A cached :class:`ConsistencyCheck`, or None when there is none for this run.
    branches_changed(check)
        The :class:`ConsistencyCheck` of the two branches, or None when there is none for this run.
    """

    check_changed = Signal(object)
    branches_changed = Signal(object)

    def __init__(self, session: SessionContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.check: ConsistencyCheck | None = None
        self.branches: ConsistencyCheck | None = None

    @property
    def checks_itself(self) -> bool:
        """Whether each step of this run checks by itself that cached logits are the full prefix's."""
        run, handle = self._session.run, self._session.handle
        if run is None or handle is None or unanswerable(handle, AskCachedCheck()):
            return False
        return run.length <= CHECK_LIMIT and 2 * run.model.parameters * run.length <= CHECK_FLOPS

    def check_now(self, kind: Literal["cached", "branches"]) -> None:
        """Compare cached with full logits, or both branches of attention, layer by layer and however large the run."""
        if self._session.handle is None:
            self._session.fail(Failure("There is nothing to prove yet; run a prompt first."))
        elif kind == "cached":
            self._ask("check", AskCachedCheck(by_layer=True), self._set_check)
        else:
            self._ask("branches", AskBranchCheck(), self._set_branches)

    def follow(self) -> None:
        """Check cached against full logits when nothing else is to do."""
        if self.checks_itself:
            self._ask("check", AskCachedCheck(), self._set_check)
        else:
            self._set_check(None)

    def forget(self) -> None:
        """Another run has to be checked anew."""
        self._session.jobs.cancel("branches")
        self._set_check(None)
        self._set_branches(None)

    def _ask(
        self, slot: str, question: AskCachedCheck | AskBranchCheck, show: Callable[[ConsistencyCheck], None]
    ) -> None:
        handle = self._session.handle
        if handle is None:
            return
        if why := unanswerable(handle, question):
            self._session.fail(Failure(why))
            return

        def arrived(check: ConsistencyCheck) -> None:
            if self._session.handle is handle:
                show(check)

        self._session.submit(
            slot,
            question.urgency,
            lambda engine: engine.answer(handle, question),
            arrived,
            self._session.fail,
            what="Checking cached against full logits" if slot == "check" else "Checking both branches of attention",
        )

    def _set_check(self, check: ConsistencyCheck | None) -> None:
        if check != self.check:
            self.check = check
            self.check_changed.emit(check)

    def _set_branches(self, check: ConsistencyCheck | None) -> None:
        if check != self.branches:
            self.branches = check
            self.branches_changed.emit(check)
