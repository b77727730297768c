"""Proofs of the run on screen: cached against full logits, and the two branches of attention against each other.

It owns what has been proved of this run, and when a run proves itself. How a proof is made is the engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from app.jobs import Failure
from app.questions import AskBranchProof, AskProof
from model.readings import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.session_context import SessionContext

CHECK_LIMIT = 1024
"""Runs of up to this many rows prove by themselves that decoding by steps equals the full prefix."""
CHECK_FLOPS = 3e11
"""The full prefix may take so many FLOPs to be run by itself, some seconds; a larger one is run on demand."""


class Proofs(QObject):
    """What has been proved.

    Signals
    -------
    check_changed(check)
        A cached :class:`Proof`, or None when there is none for this run.
    branches_changed(proof)
        The :class:`Proof` of the two branches, or None when there is none for this run.
    """

    check_changed = Signal(object)
    branches_changed = Signal(object)

    def __init__(self, session: SessionContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.check: Proof | None = None
        self.branches: Proof | None = None

    @property
    def proves_itself(self) -> bool:
        """Whether each step of this run proves by itself that cached logits are the full prefix's."""
        run = self._session.run
        if run is None:
            return False
        return run.length <= CHECK_LIMIT and 2 * run.model.parameters * run.length <= CHECK_FLOPS

    def prove(self, kind: Literal["cached", "branches"]) -> None:
        """Compare cached with full logits, or both branches of attention, layer by layer and however large the run."""
        if self._session.held is None:
            self._session.fail(Failure("There is nothing to prove yet; run a prompt first."))
        elif kind == "cached":
            self._ask("check", AskProof(by_layer=True), self._set_check)
        else:
            self._ask("branches", AskBranchProof(), self._set_branches)

    def follow(self) -> None:
        """Check cached against full logits when nothing else is to do."""
        if self.proves_itself:
            self._ask("check", AskProof(), self._set_check)
        else:
            self._set_check(None)

    def forget(self) -> None:
        """Another run has to be proved anew."""
        self._session.jobs.cancel("branches")
        self._set_check(None)
        self._set_branches(None)

    def _ask(self, slot: str, question: AskProof | AskBranchProof, proved: Callable[[Proof], None]) -> None:
        held = self._session.held
        if held is None:
            return

        def arrived(proof: Proof) -> None:
            if self._session.held is held:
                proved(proof)

        self._session.submit(
            slot,
            question.urgency,
            lambda engine: engine.answer(held, question),
            arrived,
            self._session.fail,
            what="Checking cached against full logits" if slot == "check" else "Checking both branches of attention",
        )

    def _set_check(self, check: Proof | None) -> None:
        if check != self.check:
            self.check = check
            self.check_changed.emit(check)

    def _set_branches(self, proof: Proof | None) -> None:
        if proof != self.branches:
            self.branches = proof
            self.branches_changed.emit(proof)
