"""What of a run is shown: the rows in view, and tokens as a person reads them.

It is a part of the engine: whoever imports it has torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ropewalk.model.checkpoints import Checkpoint
from ropewalk.model.engine.interface import RunHandle
from ropewalk.model.readings.records import TokenText
from ropewalk.model.runs.trace import Trace


def in_view(handle: RunHandle) -> Trace:
    """The run as far as it is in view."""
    trace: Trace = handle.trace
    return trace if trace.length == handle.run.length else trace.at(handle.run.length)


def texts(checkpoint: Checkpoint, ids: Sequence[int]) -> tuple[TokenText, ...]:
    """How to show token ids; without a tokenizer, by their numbers."""
    if checkpoint.tokenizer is None:
        return tuple(TokenText(token, f"#{token}") for token in ids)
    return checkpoint.tokenizer.describe(ids)


def texts_on(checkpoint: Checkpoint, described: tuple[TokenText, ...], ids: Sequence[int]) -> tuple[TokenText, ...]:
    """How to show a run to which tokens were added; those described before are not looked at again."""
    if checkpoint.tokenizer is None:
        return described + texts(checkpoint, ids)
    return checkpoint.tokenizer.describe_on(described, ids)


class Shown(dict[int, TokenText]):
    """Token texts by id, looked up when asked for: a vocabulary is long."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def __missing__(self, token: int) -> TokenText:
        return texts(self._checkpoint, [token])[0]

    def get(self, token: int, default: Any = None) -> Any:
        """How to show an id."""
        return texts(self._checkpoint, [token])[0]
