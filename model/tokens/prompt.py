"""A prompt: what is to be run, and how it is meant. Plain data, without torch; the engine makes token ids of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """What is to be run.

    Attributes
    ----------
    text
        What was typed: text, or token ids between spaces or commas.
    as_ids
        Whether ``text`` is ids. A model without a tokenizer takes every text for ids.
    special
        Whether the special tokens that belong around text are put there.
    chat
        The chat template of the checkpoint that text goes into; it writes the special tokens itself. Empty for none.
    system
        The system line in that template; empty for none.
    """

    text: str = ""
    as_ids: bool = False
    special: bool = True
    chat: str = ""
    system: str = ""

    @classmethod
    def of_ids(cls, ids: Iterable[int]) -> Prompt:
        """A prompt of token ids."""
        return cls(" ".join(map(str, ids)), as_ids=True)
