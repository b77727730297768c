"""What a lesson's prose claims: which of its words have to be decided by a number, and by none are.

A claim stands beside the text in the file: a quoted piece of it, and an expression that has to be true for the piece to
be so. Here the numbers and the comparing words are found that nobody has written a claim for; ``contradictions``
evaluates those that are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

COUNTING: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fifteen sixteen twenty thirty forty "
    "fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions billion half halves third "
    "thirds quarter quarters fifth sixth eighth ninth tenth tenths double doubled twice once both pair pairs dozen"
)
COMPARING: Final = (
    "more less fewer larger largest smaller smallest greater greatest most least longer longest shorter shortest wider "
    "widest narrower faster fastest slower slowest sharper sharpest softer softest higher highest lower lowest better "
    "best worse worst heavier cheaper dearer louder quieter simpler nearer nearest further likelier likeliest earlier "
    "later newer older than strongest stronger weaker weakest commonest brightest"
)
QUANTIFYING: Final = (
    "only every each all none no nothing nobody never always cannot nowhere equal equals equally same alike different "
    "differ differs exactly exact nearly almost hardly alone whole neither nor everything everybody even soft sharp "
    "one-hot not many few little much several identical unchanged untouched"
)
"""Words that somebody has to decide by a number, besides digits: those that count, compare and quantify,"""
STATING: Final = (
    "grows grow grown shrinks shrink falls fall rises rise rotated rotates rotate turned turns turn cached kept keeps "
    "keep stored stores masked hides shared shares mixes mixed mix normed normalised normalises costs cost saves save "
    "adds added learned trained forgets vanishes depends needs any before after first last without"
)
"""and those that say what happens to what, when and where."""
WORDS: Final = "|".join((QUANTIFYING, COUNTING, COMPARING, STATING)).replace(" ", "|")
WORD: Final = re.compile(rf"(?<![\w\-–])(?:{WORDS}|\d[\d,.]*(?<=\d))(?!\w)", re.IGNORECASE)
UNREAD: Final = re.compile(r"\$\$.*?\$\$|(?<!\\)\$.*?(?<!\\)\$|(?<!\\)\{.*?\}|`.*?`|\[[^\]]*\]")
"""What the linter passes over: formulas, numbers that are filled in, code, and shapes in letters."""
SENTENCE: Final = re.compile(r"\S.*?(?:[.!?](?=\s)|\Z)")


def tidy(text: str) -> str:
    """A text with one space for every stretch of them, as pieces of it are compared."""
    return " ".join(text.split())


def unclaimed(text: str, quotes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every sentence of a text with numbers and comparing words that no quoted piece covers, and those words.

    Questions state nothing and are passed over.
    """
    whole = tidy(text)
    covered = [False] * len(whole)
    for quote in map(tidy, quotes):
        at = whole.find(quote)
        while at >= 0:
            covered[at : at + len(quote)] = [True] * len(quote)
            at = whole.find(quote, at + 1)
    read = UNREAD.sub(lambda unread: "_" * len(unread[0]), whole)
    for sentence in SENTENCE.finditer(read):
        words = (word for word in WORD.finditer(read, *sentence.span()) if not covered[word.start()])
        found = tuple(word[0] for word in words)
        if found and not sentence[0].endswith("?"):
            yield whole[sentence.start() : sentence.end()], found
