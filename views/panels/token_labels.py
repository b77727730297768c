"""What is written for each token of a run, for pictures that name tokens."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.model.readings.records import Run, TokenText, token_strings
from ropewalk.views.style import theme


class TokenLabels:
    """The labels of the run that is asked for; of a run that goes on, only what is new is looked at."""

    def __init__(self) -> None:
        self._labels: tuple[str, ...] = ()
        self._tokens: Sequence[TokenText] = ()
        self._length = 0

    def of(self, run: Run) -> tuple[str, ...]:
        """The label of every token in view; the same object while they are the same."""
        if (run.tokens, run.length) != (self._tokens, self._length):
            same = min(self._length, run.length)
            if self._tokens[:same] != run.tokens[:same]:
                same = 0
            texts = token_strings(run.tokens[same : run.length])
            drawable = {text: theme.drawable(text) for text in set(texts)}  # a long prompt says most of them many times
            self._labels = self._labels[:same] + tuple(drawable[text] for text in texts)
            self._tokens, self._length = run.tokens, run.length
        return self._labels
