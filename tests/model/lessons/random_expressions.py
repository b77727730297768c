"""Random expressions of a lesson: of every function, with arguments that fit and that do not, and with odd numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ropewalk.model.lessons.table import TABLE

ODD = (
    *("0", "1", "-1", "2", "-3", "1e999", "-1e999", "1e308", "5e-324", "0.5", "9223372036854775807", "1e300", "true"),
    *("'q'", "''", "'total'", "'.9f'", "'GiB'", "'exact'", "[]", "[[]]", "[0]", "[[1, 2], [3, 4]]", "[1e999, -1e999]"),
    *("['a', 'b']", "llama3_8b", "gpt2_small", "toy", "much", "minus(1e999, 1e999)", "made_of(2, 3)", "made_of()"),
)
"""What stands at the ends: numbers at the edges of floats, empty lists, texts, formats, configs and names."""


def random_expressions(seed: int, count: int, functions: tuple[str, ...]) -> Iterator[str]:
    """So many expressions."""
    dice = random.Random(seed)
    for _ in range(count):
        yield _expression(dice, functions, dice.randrange(1, 4))


def _expression(dice: random.Random, functions: tuple[str, ...], deep: int) -> str:
    if not deep or dice.random() < 0.3:
        return dice.choice(ODD)
    if dice.random() < 0.2:
        return f"[{', '.join(_expression(dice, functions, deep - 1) for _ in range(dice.randrange(4)))}]"
    name = dice.choice(functions)
    wanted = len(TABLE[name].signature.parameters)
    arguments = (_expression(dice, functions, deep - 1) for _ in range(dice.randrange(1, max(wanted, 2) + 1)))
    return f"{name}({', '.join(arguments)})"
