"""Texts that tokenizers disagree about: marks, controls, emoji, spaces, runs, names of tokens, any Unicode."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator

WORDS = [
    "the", "question", "whether", "'tis", "Äpfel", "und", "häufig", "It's", "WE'LL", "don't", "CamelCase", "12345",
    "3.14", "x", "日本", "日本語", "中国人", "한국어", "Ελλάς", "привет", "नमस्ते", "ไทย", "العربية", "עברית",
]  # fmt: skip
MARKS = "\u0301\u0302\u0308\u0323\u0338\u20dd\u3099\u309a\ufe0f\u0e33\u094d"
LETTERS = "aeiouAOUnsc<>=ﬁﬀŒ½①ｱﾞヷがÅ\u212b\u1e9e\u017fİıΩ\u2126각\u1100\u1161\u11a8\u1112\u1175가ﷺ㍿™ªº²"
CONTROLS = (
    "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + "\u00ad\u200b\u200c\u200d\u200e\u2028\u2029\u2060\ufeff"
)
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2003", "\u1680", "▁", "▁▁", " \n ", "¨"]
EMOJI = ["👍", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "🧑🏿‍🚀", "☺"]
NAMES = [
    "<s>", "</s>", "<unk>", "<pad>", "<ctl>", "<sep>", "<|im|>", "<sep", "<0x41>", "<0x0A>", "<0xE4>", "[INST]",
    "<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "thequestion",
]  # fmt: skip
NEWEST = 0x2FA1E
"""After it come planes without characters, or with characters that a library may not know yet."""


def odd_texts(count: int, seed: int) -> Iterator[str]:
    """Empty, then ever other mixtures."""
    draw = random.Random(seed)

    def several(of: str, most: int) -> str:
        return "".join(draw.choices(of, k=draw.randint(1, most)))

    def anything() -> str:
        codes = (draw.randrange(0x80), draw.randrange(0x800), draw.randrange(0x3000), draw.randrange(NEWEST))
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def run() -> str:
        one: str = draw.choice([*"ax 日\n\u0301-=", "ab", "👍", "the ", "<sep>"])
        return one * draw.choice([2, 3, 7, 33, 100])

    fragments: list[Callable[[], str]] = [
        lambda: draw.choice(WORDS),
        lambda: draw.choice(WORDS),
        lambda: draw.choice(SPACES),
        lambda: draw.choice(SPACES),
        lambda: draw.choice(EMOJI),
        lambda: draw.choice(NAMES),
        lambda: several(CONTROLS, 3),
        lambda: several(LETTERS + MARKS, 6),
        lambda: unicodedata.normalize("NFD", several(LETTERS + "éüåçñệ한국", 4)),
        lambda: unicodedata.normalize("NFC", several(LETTERS + MARKS, 4)),
        anything,
        run,
    ]
    yield ""
    for place in range(1, count):
        text = "".join(draw.choice(fragments)() for _ in range(draw.randint(1, 8)))
        # one in a hundred is long
        yield text * 40 if place % 100 == 99 else text
