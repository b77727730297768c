"""Expressions of a lesson file: names, numbers, lists and calls, read into plain data and never run as Python.

``kv_bytes(llama3_70b, tokens=4096)`` becomes a :class:`Call`. Python's own parser splits the text into a syntax tree,
of which only these few forms are taken; everything else is refused by name. What a function does is none of this
file's business.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ropewalk.model.errors import LessonError


@dataclass(frozen=True)
class Constant:
    """A number, a text in quotes, or true and false."""

    value: int | float | str | bool


@dataclass(frozen=True)
class Name:
    """Something given in the lesson, a config, or a model."""

    name: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Call:
    """A function of the table with its arguments."""

    function: str
    arguments: tuple[Expression, ...] = ()
    named: tuple[tuple[str, Expression], ...] = ()


Expression: TypeAlias = Constant | Name | Items | Call

CONSTANTS = {"true": True, "false": False}
LONGEST = 400
LARGEST = 1 << 63
"""What whole numbers stay below, in expressions as in TOML."""
DEEPEST = 40
"""How many calls and lists may lie in one another."""


@lru_cache(maxsize=4096)
def read_expression(text: str) -> Expression:
    """Read one expression.

    Raises
    ------
    LessonError
        When it is not one, with what was found.
    """
    source = text.strip()
    if not source:
        raise LessonError("An expression is empty; write a name or a function such as kv_bytes(llama3_70b, 4096).")
    if len(source) > LONGEST:
        raise LessonError(
            f"The expression {source[:40]}… has {len(source)} characters, more than the {LONGEST} allowed."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own advice on how to write Python
            tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise LessonError(f"The expression {source[:200]!r} cannot be read: {message or 'too much in it'}.") from error
    return _taken(tree.body, source[:200], DEEPEST)


def _taken(node: ast.expr, source: str, deep: int) -> Expression:
    """One node of the tree, if it is of a form that lessons have."""
    if not deep:
        raise LessonError(f"In the expression {source[:40]!r} more than {DEEPEST} things lie in one another.")
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        if (
            isinstance(node.value, str)
            and not node.value.isascii()
            and any("\ud800" <= one <= "\udfff" for one in node.value)
        ):
            raise LessonError(f"A text in the expression {source[:40]!r} holds half a character.")
        if isinstance(node.value, int) and node.value >= LARGEST:
            raise LessonError(
                f"The expression {source[:40]!r} holds a whole number of 2^63 or more; write a smaller one."
            )
        return Constant(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _taken(node.operand, source, deep - 1)
        if isinstance(inner, Constant) and not isinstance(inner.value, str | bool):
            return Constant(-inner.value)
    if isinstance(node, ast.Name):
        return Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else Name(node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return Items(tuple(_taken(item, source, deep - 1) for item in node.elts))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        named = []
        for keyword in node.keywords:
            if keyword.arg is None:
                raise LessonError(f"The expression {source!r} uses **, which lessons do not have.")
            named.append((keyword.arg, _taken(keyword.value, source, deep - 1)))
        return Call(node.func.id, tuple(_taken(item, source, deep - 1) for item in node.args), tuple(named))
    raise LessonError(
        f"The expression {source!r} holds {type(node).__name__}, but lessons have only names, numbers, texts, lists "
        "and calls of named functions."
    )


def parts(expression: Expression) -> Iterator[Expression]:
    """Every expression in one, outermost first."""
    left = [expression]
    while left:
        part = left.pop()
        yield part
        if isinstance(part, Call):
            left += [value for _, value in reversed(part.named)]
            left += reversed(part.arguments)
        elif isinstance(part, Items):
            left += reversed(part.items)


def calls(expression: Expression) -> Iterator[Call]:
    """Every call in an expression, outermost first."""
    return (part for part in parts(expression) if isinstance(part, Call))


def names(expression: Expression) -> Iterator[str]:
    """Every name in an expression that is not a function's."""
    return (part.name for part in parts(expression) if isinstance(part, Name))
