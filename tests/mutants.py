"""Breaks random places, one after the other, and counts what the tests notice: ``python -m tests.mutants``.

The places come from a seed. ``--beside`` names another tree, an older state for example: then only lines that are the
same in both are broken, in both, and the two shares can be compared. Only the nearest tests run, and only for some
seconds: a share is what these notice, not what all tests would.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.breaking import ROOT, Outcome, Tree, trees

BROKEN = ("model/", "app/", "views/")
SECONDS = 10.0
"""Seconds of the processor in which the tests of one mutant begin."""
LONGER = 4
"""So many times longer where another tree's tests have noticed."""
MOST_FILES = 6
"""Test files for one mutant at most."""
SMALL = range(3)
"""Numbers that are changed by one: what counts and what points; larger ones are sizes that somebody found good."""
LOOKS = {
    "setContentsMargins",
    "setSpacing",
    "addSpacing",
    "addStretch",
    "addWidget",
    "addLayout",
    "adjusted",
    "setStretch",
}
"""Calls of Qt's whose numbers are a matter of looks."""
OPPOSITES = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "and": "or", "or": "and",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A small change in one line.

    Attributes
    ----------
    path
        The file.
    line
        The line as it was, without its indent.
    mutated
        What it becomes.
    """

    path: str
    line: str
    mutated: str

    def applied(self, text: str) -> str:
        """The text of the file with the line changed."""
        lines = text.split("\n")
        (at,) = [number for number, line in enumerate(lines) if line.strip() == self.line]
        lines[at] = lines[at].replace(self.line, self.mutated)
        return "\n".join(lines)


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file whose line occurs once in it."""
    lines = text.split("\n")
    times = Counter(line.strip() for line in lines)
    for row, start, stop, new in sorted(set(_edits(ast.parse(text), text))):
        line = lines[row - 1]
        if times[line.strip()] == 1:
            changed = line.encode()[:start].decode() + new + line.encode()[stop:].decode()
            yield Mutant(path, line.strip(), changed.strip())


def _edits(tree: ast.Module, text: str) -> Iterator[tuple[int, int, int, str]]:
    """Row, first byte, last byte and replacement of each change."""
    skipped = {id(part) for node in ast.walk(tree) for part in _not_run(node)}
    lines = [line.encode() for line in text.split("\n")]

    def between(one: ast.expr, other: ast.expr) -> Iterator[tuple[int, int, int, str]]:
        """The operator between two operands, turned into its opposite."""
        if one.end_lineno != other.lineno or one.end_col_offset is None:
            return
        found = lines[other.lineno - 1][one.end_col_offset : other.col_offset].decode()
        sign = found.strip("() ")
        if sign in OPPOSITES:
            start = one.end_col_offset + found.index(sign)
            yield other.lineno, start, start + len(sign), OPPOSITES[sign]

    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Compare(left, _, [right, *_]):
                yield from between(left, right)
            case ast.BinOp(left, _, right) if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
                yield from between(left, right)
            case ast.BoolOp(_, [left, right, *_]):
                yield from between(left, right)
            case ast.UnaryOp(ast.USub() | ast.Not() as sign, operand) if operand.lineno == node.lineno:
                yield node.lineno, node.col_offset, operand.col_offset, "" if isinstance(sign, ast.Not) else "+"
            case ast.Constant(int(value)) if type(value) is int and value in SMALL and node.end_col_offset is not None:
                for other in (value + 1, value - 1):
                    yield node.lineno, node.col_offset, node.end_col_offset, str(other)
            case ast.Slice(lower, upper):
                for bound in (lower, upper):
                    if isinstance(bound, ast.Name | ast.Attribute) and bound.end_col_offset is not None:
                        yield bound.lineno, bound.end_col_offset, bound.end_col_offset, " + 1"


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """What is read by type checkers alone, or written into a sentence."""
    match node:
        case ast.AnnAssign(_, annotation):
            yield from ast.walk(annotation)
        case ast.arg(_, ast.expr() as annotation):
            yield from ast.walk(annotation)
        case ast.FunctionDef(returns=ast.expr() as annotation):
            yield from ast.walk(annotation)
        case ast.Call(ast.Attribute(attr=name)) if name in LOOKS:
            yield from ast.walk(node)
        case ast.JoinedStr():
            yield from ast.walk(node)
        case ast.If(ast.Name("TYPE_CHECKING")):
            yield from ast.walk(node)
        case ast.Assign(value=ast.BinOp(_, ast.BitOr())):
            yield from ast.walk(node)


def twin(tree: Tree, path: str, other: Tree) -> str:
    """The file of another tree that has most of a file's lines."""
    lines = set(tree.text(path).split("\n"))
    return max(other.sources, key=lambda one: (len(lines & set(other.text(one).split("\n"))), one))


def main() -> int:
    """Break, run, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=0, help="which (0)")
    parser.add_argument("--skip", type=int, default=0, help="of these, leave out the first so many")
    parser.add_argument("--beside", type=Path, help="another tree, in which the same lines are broken too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of the processor for each ({SECONDS:.0f})")
    asked = parser.parse_args()
    origins = [ROOT, *([asked.beside.resolve()] if asked.beside else [])]
    with trees(*origins) as copies:
        caught = [0 for _ in copies]
        count = 0
        for number, alike in enumerate(picked(copies, asked.count, asked.seed)):
            if number < asked.skip:
                continue
            count += 1
            outcomes = [outcome_of(one, tree, asked.seconds) for tree, one in zip(copies, alike, strict=True)]
            if len({outcome.caught for outcome in outcomes}) > 1:  # the same tests may be slower there
                outcomes = [
                    outcome if outcome.caught else outcome_of(one, tree, LONGER * asked.seconds)
                    for outcome, tree, one in zip(outcomes, copies, alike, strict=True)
                ]
            for side, outcome in enumerate(outcomes):
                caught[side] += outcome.caught
            words = ", ".join(outcome.by or "gets through" for outcome in reversed(outcomes))
            print(
                f"{number:3d} {alike[0].path}\n    - {alike[0].line}\n    + {alike[0].mutated}\n    {words}", flush=True
            )
    for origin, total in zip(origins, caught, strict=True):
        print(f"{origin.name}: {total} of {count} caught, {total / max(count, 1):.1%}")
    return 0


def picked(copies: list[Tree], count: int, seed: int) -> list[list[Mutant]]:
    """Mutants drawn by a seed, each for every tree."""
    here, *others = copies
    found: list[list[Mutant]] = []
    for path in here.sources:
        if not path.startswith(BROKEN):
            continue
        twins = [twin(here, path, other) for other in others]
        lines = [
            Counter(map(str.strip, other.text(name).split("\n"))) for other, name in zip(others, twins, strict=True)
        ]
        found.extend(
            [one, *(Mutant(name, one.line, one.mutated) for name in twins)]
            for one in mutants(path, here.text(path))
            if all(there[one.line] == 1 for there in lines)
        )
    return random.Random(seed).sample(found, min(count, len(found)))


def outcome_of(mutant: Mutant, tree: Tree, seconds: float) -> Outcome:
    """What the nearest tests say to a mutant; a test that fails anyway is no answer."""
    tests = tree.tests_for(mutant.path)[:MOST_FILES]
    text = mutant.applied(tree.text(mutant.path))
    try:
        compile(text, mutant.path, "exec")
    except SyntaxError as error:
        return Outcome(True, str(error), 0)
    return tree.says_when(mutant.path, text, tests, seconds)


if __name__ == "__main__":
    sys.exit(main())
