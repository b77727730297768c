"""Processes for one request each, on this machine: what reads a stranger's file, or encodes one, holds nothing up."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from ropewalk.app.engine.connection import CallFailed, Calls, Connect, Ended
from ropewalk.model.engine.requests import Failure


class ShortLived(QObject):
    """Starts them.

    Parameters
    ----------
    connect
        Starts a process, as the child of a Qt object.
    """

    def __init__(self, connect: Connect, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._connect = connect

    def ask(self, request: Any) -> Calls[Any]:
        """Ask a process of its own, which ends with the answer, with a cancel, or when it does not hear one."""
        connection = self._connect(self)
        connection.unheard.connect(connection.kill)
        connection.hurry(little=True)
        try:
            return (yield connection.asking(request))
        except CallFailed as error:
            raise CallFailed(of_its_own(error.failure)) from error
        finally:
            connection.retire()


def of_its_own(failure: Failure) -> Failure:
    """Why there is no answer: the end of such a process is not the engine's."""
    if not isinstance(failure, Ended) or not failure.reason:
        return failure
    return Failure(f"The process that was to do this has ended ({failure.reason}); try again.", failure.details)
