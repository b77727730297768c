"""What came of reading one input: fine, refused in a sentence, or a fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ropewalk.model.errors import LONGEST_QUOTE, LONGEST_SENTENCE, RopewalkError
from tests.fuzz.mutations import LONG


@dataclass(frozen=True)
class Outcome:
    """``kind`` is what inputs that come to the same have in common; ``fault`` is empty where nothing is wrong."""

    kind: str
    fault: str = ""


def outcome_of(read: Callable[[Path], object], file: Path) -> Outcome:
    """Read a file, whatever it raises."""
    try:
        read(file)
    except KeyboardInterrupt:
        raise
    except RopewalkError as error:
        return Outcome(_shape(error.sentence), _wrong_with(error.sentence))
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        said = f"{type(error).__name__}: {error}"[:300]
        return Outcome(_shape(said), said)
    return Outcome("read")


def _wrong_with(sentence: str) -> str:
    if not sentence.endswith((".", "?")):
        return f"no whole sentence: {sentence[:300]!r}"
    if "\n" in sentence:
        return f"more than a line: {sentence[:300]!r}"
    if LONG[: LONGEST_QUOTE + 1] in sentence:
        return f"repeats more than {LONGEST_QUOTE} characters of the file: {sentence[:120]!r}"
    if len(sentence) > LONGEST_SENTENCE + 10:
        return f"{len(sentence)} characters: {sentence[:300]!r}"
    return ""


def _shape(said: str) -> str:
    """A sentence without what is of this one file."""
    return re.sub(r"'[^']*'|[\d,.]+|[^\x20-\x7e]", "", said)[:120]
