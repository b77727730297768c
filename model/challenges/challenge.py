"""The build challenges by name, and what came of one: plain data that crosses from the learner's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

CHALLENGES: Final[Mapping[str, str]] = {
    "split_heads": "cut a projected vector into heads: [B, T, H·Dh] to [B, H, T, Dh]",
    "apply_rope": "rotate Q and K, and leave V alone",
    "repeat_kv": "share K or V among the query heads of its group",
    "causal_attention": "causal self-attention from the stream back to the stream",
    "cached_decode": "one decode step with one query over a cache",
    "transformer_block": "norms, attention, SwiGLU and both residuals",
    "shape_ledger": "the shape of every step of a block, with and without a past",
}


Kind = Literal["passed", "file", "error", "limit", "shape", "value", "pairing", "mask", "scale", "order", "position"]
"""What kind of difference it is; ``file`` and ``error`` are a file that cannot be run and code that raised."""


@dataclass(frozen=True)
class Verdict:
    """What came of a challenge.

    Attributes
    ----------
    kind
        ``passed``, or what was wrong.
    sentence
        The first thing to know, for a person.
    details
        What else helps: numbers, a traceback, what the program printed.
    """

    kind: Kind
    sentence: str
    details: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything agreed with the engine."""
        return self.kind == "passed"

    def to_json(self) -> str:
        """As text that :func:`read_verdict` reads; half a pair of surrogates, which no file can hold, becomes ``?``."""
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")


def read_verdict(text: str) -> Verdict:
    """A verdict from its text.

    Raises
    ------
    ValueError
        When it is none.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("kind") not in get_args(Kind):
        raise ValueError("it is no verdict")
    return Verdict(data["kind"], str(data["sentence"]), str(data["details"]))
