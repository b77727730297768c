"""What a lesson's prose claims: which of its sentences nobody has written a claim for.

A claim stands beside the text in the file: a quoted piece of it, and an expression that has to be true for the piece to
be so. Every sentence that states something has to be quoted whole, title, note, hint and formula among them, so that no
word of it changes without its claim. ``contradictions`` evaluates the claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

INSTRUCTING: Final = (
    "add agree ask blank choose click collect count cover cut draw end fill find give hide keep leave let look make "
    "multiply open play point press put read run say select show silence start step stop swap switch take tell toggle "
    "try type vote watch work write"
)
"""Words that a sentence begins with which tells somebody to do something."""
INSTRUCTION: Final = re.compile(
    rf"(?:(?:Then|Now|And) )?(?:{INSTRUCTING.replace(' ', '|')})\b[^:;]*\Z".replace(" |", "|"), re.IGNORECASE
)
"""Such a sentence states nothing, unless a colon or a semicolon begins what does."""
UNREAD: Final = re.compile(r"\$\$.*?\$\$|(?<!\\)\$.*?(?<!\\)\$|(?<!\\)\{.*?\}|`.*?`|\[[^\]]*\]")
"""What has no end of a sentence in it: formulas, numbers that are filled in, code, and shapes in letters."""
ROWS: Final = re.compile(r"\s*\n\s*\n\s*|\s*\n\s*(?=\| |- )")
SENTENCE: Final = re.compile(r"\S.*?(?:[.!?](?=\s)|\n|\Z)")


def tidy(text: str) -> str:
    """A text with one space for every stretch of them, as pieces of it are compared."""
    return " ".join(text.split())


def unclaimed(text: str, quotes: Sequence[str], is_asked: bool = False) -> Iterator[str]:
    """Every sentence, row and point of a text that quoted pieces do not cover to the last word.

    Questions and what somebody is told to do state nothing and are passed over, but not where they are what is asked:
    another question has another answer.
    """
    parts = "\n".join(tidy(part) for part in ROWS.split(text.strip()))
    whole = parts.replace("\n", " ")
    covered = [not sign.isalnum() for sign in whole]
    for quote in map(tidy, quotes):
        at = whole.find(quote)
        while quote and at >= 0:
            covered[at : at + len(quote)] = [True] * len(quote)
            at = whole.find(quote, at + 1)
    for sentence in SENTENCE.finditer(UNREAD.sub(lambda unread: "_" * len(unread[0]), parts)):
        said = whole[slice(*sentence.span())].strip()
        states_nothing = said.endswith("?") or INSTRUCTION.match(said.strip("(*"))
        if not all(covered[slice(*sentence.span())]) and (is_asked or not states_nothing):
            yield said
