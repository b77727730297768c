"""What a run of a notebook was made by, as far as the run asks it; what is missing is refused in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import TraceError
from ropewalk.model.runs.trace import Trace, append
from ropewalk.model.tokens.tokenizer import Tokenizer
from ropewalk.model.trace_files.header import Origin


class Source:
    """A model as a run knows it; alone, that of a run which was read from a file without its model.

    Attributes
    ----------
    name
        What to call it.
    tokenizer
        None where there is none; then prompts are ids.
    """

    name: str = "a run"
    tokenizer: Tokenizer | None = None

    def __init__(self, origin: Origin | None = None) -> None:
        self._origin = origin
        if origin is not None and origin.name:
            self.name = origin.name

    @property
    def origin(self) -> Origin | None:
        """The checkpoint behind it, as a trace file names it; None where there is none."""
        return self._origin

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

    def check_made(self, config: ModelConfig, origin: Origin | None) -> None:
        """Refuse a run of other shapes than the model's, or, where its origin is given, one that it did not make."""

    def check_logits(self) -> None:
        """Refuse what reads logits where a model has no last matrix."""

    def append(self, trace: Trace, ids: Sequence[int]) -> Trace:
        """Decode one step: a token for each prompt."""
        return append(self.decoder, trace, ids)
