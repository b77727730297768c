"""What a lesson's prose claims: which of its sentences nobody has written a claim for.

A claim stands beside the text in the file: a quoted piece of it, and an expression that has to be true for the piece to
be so. Every sentence has to be quoted whole, title, note, hint and formula among them, so that no word of it changes
without its claim; what only asks or tells somebody to do something is listed as that. ``contradictions`` evaluates the
claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

INSTRUCTING: Final = (
    "add agree ask blank choose click collect compare count cover cut derive draw end explain fill find give hide keep "
    "leave let look make multiply name open play point press put read run say select show silence start step stop swap "
    "switch take tell toggle try type vote watch work write"
)
"""Words that a sentence begins with which tells somebody to do something."""
INSTRUCTION: Final = re.compile(
    rf"(?:(?:Then|Now|And) )?(?:{INSTRUCTING.replace(' ', '|')})\b[^:;]*\Z".replace(" |", "|"), re.IGNORECASE
)
"""Such a sentence states nothing, unless a colon or a semicolon begins what does."""
MORE: Final = frozenset((
    "bigger", "deeper", "exceed", "exceeds", "greater", "grow", "growing", "grown", "grows", "heavier", "higher",
    "highest", "larger", "largest", "longer", "longest", "louder", "more", "rise", "rises", "rising", "sharper",
    "steeper", "stronger", "strongest", "taller", "wider",
))  # fmt: skip
LESS: Final = frozenset((
    "cheaper", "coarser", "fade", "fades", "fall", "falling", "falls", "fewer", "flatter", "less", "lighter",
    "lower", "lowest", "narrower", "quieter", "shorter", "shortest", "shrink", "shrinks", "slower", "smaller",
    "smallest", "softer", "weaker", "weakest",
))  # fmt: skip
UNLIKE: Final = frozenset(("differ", "different", "differs", "unequal", "unlike"))
WAYS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "more": (MORE, frozenset((
        "at_least", "best_head", "best_score", "largest", "largest_place", "more", "most_at", "ranked", "rising",
        "strongest_key",
    ))),
    "less": (LESS, frozenset(("at_most", "falling", "less", "smallest"))),
    "unlike": (UNLIKE, frozenset(("differ", "less", "more", "none_of"))),
}  # fmt: skip
"""Words that compare, by which way they do, and what decides it: a function that goes the same way."""
PRESUMING: Final = frozenset(("because", "since", "than", "therefore", "why", *MORE, *LESS)) - {
    word for word in MORE | LESS if word.endswith("est")
}
"""Words with which a question or an order says that something is so."""
TELLING_THAT: Final = re.compile(r"\b(?:explain|notice|out|remember|say|see|show|tell)\b[^.?]* that\b", re.IGNORECASE)
"""An order to tell somebody something, which is so or not."""
WORD: Final = re.compile(r"[a-z]+")
COUNTS: Final[Mapping[str, int]] = {
    "double": 2, "doubles": 2, "twice": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16, "thirty-two": 32, "thirty": 30, "sixty-four": 64,
    "sixty": 60, "hundred": 100, "thousand": 1000,
}  # fmt: skip
"""Words that count, from two on."""
PARTS: Final[Mapping[str, int]] = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10,
}  # fmt: skip
"""Words for a part of a whole, and into how many it is cut."""
COUNT: Final = re.compile(rf"\b(?:{'|'.join((*COUNTS, *PARTS))})\b", re.IGNORECASE)
SHARE: Final = re.compile(
    rf"(?:\b(?:an?|one)\W+({'|'.join(PARTS)})\b|\b({'|'.join(PARTS)}) (?:as|of|the)\b)", re.IGNORECASE
)
"""Such a part as a number below one: a quarter as tall is not four times as tall."""
NAMED: Final = re.compile(r"\A\W*\d+\W*[:|]|\*\*\d+\*\*|\b(?:[Ll]essons?|Llama|GPT) \d+(?: and \d+)?")
"""What has a number for a name: a lesson, a piece of a list, a family of models."""
FIGURE: Final = re.compile(r"(?<![\w.\-])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
IDIOM: Final = re.compile(r"\b(?:(?:once|one|nothing)(?: thing)? more|no longer|falls? (?:into place|together))\b")
"""Words of comparison that compare nothing."""
UNREAD: Final = re.compile(r"\$\$.*?\$\$|(?<!\\)\$.*?(?<!\\)\$|(?<!\\)\{.*?\}|`.*?`|\[[^\]]*\]")
"""What has no end of a sentence in it: formulas, numbers that are filled in, code, and shapes in letters."""
HOLE: Final = re.compile(r"\{(.*?)\}")
TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
NAME: Final = re.compile(r"[A-Za-z_]\w*")
ROWS: Final = re.compile(r"\s*\n\s*\n\s*|\s*\n\s*(?=\| |- )")
SENTENCE: Final = re.compile(r"\S.*?(?:[.!?](?=\s)|\n|\Z)")


def tidy(text: str) -> str:
    """A text with one space for every stretch of them, as pieces of it are compared."""
    return " ".join(text.split())


def quoted(text: str, quotes: Sequence[str]) -> Iterator[tuple[str, bool, list[int]]]:
    """Every sentence, row and point of a text; whether tidy quotes cover it to the last word; and which touch it."""
    parts = "\n".join(tidy(part) for part in ROWS.split(text.strip()))
    whole = parts.replace("\n", " ")
    spans = []
    for place, quote in enumerate(quotes):
        at = whole.find(quote)
        while at >= 0:
            spans.append((at, at + len(quote), place))
            at = whole.find(quote, at + 1)
    spans.sort()
    for sentence in SENTENCE.finditer(UNREAD.sub(lambda unread: "_" * len(unread[0]), parts)):
        at, end = sentence.span()
        touching = [span for span in spans if span[0] < end and at < span[1]]
        bare = []
        for start, stop, _ in touching:
            bare.append(whole[at:start])
            at = max(at, stop)
        is_covered = not any(map(str.isalnum, "".join([*bare, whole[at:end]])))
        yield parts[slice(*sentence.span())].strip(), is_covered, [place for _, _, place in touching]


def states_nothing(sentence: str) -> bool:
    """Whether a sentence only asks, or tells somebody to do something, and presumes nothing that can be wrong."""
    is_told = sentence.endswith("?") or INSTRUCTION.match(sentence.strip("(*")) is not None
    return is_told and TELLING_THAT.search(sentence) is None and PRESUMING.isdisjoint(_words(sentence))


def ways(sentence: str) -> Iterator[str]:
    """Which ways a sentence compares: more, less, unlike or none."""
    words = _words(sentence)
    yield from (way for way, (said, _) in WAYS.items() if not said.isdisjoint(words))


def counts(sentence: str) -> frozenset[float]:
    """Numbers from two on, and parts of a whole, that a sentence says in figures or words, not in expressions."""
    said = NAMED.sub(" ", UNREAD.sub(" ", sentence))
    shares = {1 / PARTS[(one or other).lower()] for one, other in SHARE.findall(said)}
    said = SHARE.sub(" ", said)
    written = {float(figure.replace(",", "")) for figure in FIGURE.findall(said)}
    words = map(str.lower, COUNT.findall(said))
    return frozenset((shares | written | {float(COUNTS.get(word) or PARTS[word]) for word in words}) - {0.0, 1.0})


def figures(source: str) -> frozenset[float]:
    """The numbers in the expressions of a sentence."""
    return frozenset(float(figure) for hole in HOLE.findall(source) for figure in FIGURE.findall(hole))


def named(source: str) -> frozenset[str]:
    """The names in the expressions of a sentence, and those of their functions."""
    return frozenset(name for hole in HOLE.findall(source) for name in NAME.findall(TEXT.sub(" ", hole)))


def _words(sentence: str) -> list[str]:
    return WORD.findall(IDIOM.sub(" ", UNREAD.sub(" ", sentence).lower()))


def stamp(values: Mapping[str, Any]) -> str:
    """What changes with any word, number or claim of a table: whoever has read it writes it there as ``read``."""
    return f"{crc32(json.dumps(values, sort_keys=True, default=str).encode()):08x}"
