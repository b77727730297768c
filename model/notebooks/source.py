"""What a run of a notebook was made by, as far as the run asks it; what is missing is refused in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import TraceError
from ropewalk.model.runs.trace import Trace
from ropewalk.model.tokens.tokenizer import Tokenizer


class Source:
    """A model as a run knows it; alone, that of a run which was read from a file without its model.

    Attributes
    ----------
    name
        What to call it.
    tokenizer
        None where there is none; then prompts are ids.
    """

    name: str = "no model"
    tokenizer: Tokenizer | None = None

    @property
    def decoder(self) -> Decoder:
        """Ropewalk's own decoder, with its hook points.

        Raises
        ------
        TraceError
            Where there is none, with what to do.
        """
        raise TraceError(
            "This run was read from a file without its model, which this needs; load it with "
            "ropewalk.load(path, model=ropewalk.open(…))."
        )

    def append(self, trace: Trace, ids: Sequence[int]) -> Trace:
        """Decode one step: a token for each prompt."""
        from ropewalk.model.runs.trace import append

        return append(self.decoder, trace, ids)
