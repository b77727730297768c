"""What came of a challenge: plain data that crosses from the learner's process. No torch here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args

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
