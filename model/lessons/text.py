r"""The text of a lesson: paragraphs with formulas and with numbers that the engine fills in.

What an author may write:

- paragraphs, separated by an empty line; ``- `` begins a point of a list, ``| a | b |`` is a row of a table;
- ``**strong**``, ``*emphasis*`` and `` `code` ``;
- ``$\frac{1}{\sqrt{D_h}}$`` in a line, or ``$$…$$`` as a paragraph of its own: LaTeX;
- ``{kv_bytes(llama3_70b, tokens=4096)}``: an expression, written out when the text is told, with a format after a
  colon where the usual one does not do: ``{…:.3f}``, ``{…:GiB}``. In a formula it is ``\value{…}``;
- ``\{``, ``\}``, ``\$``, ``\*``, `` \` `` and ``\|`` for the signs themselves.

:func:`read_text` reads it once, when a lesson is loaded; :func:`fill` fills it in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, TypeAlias

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import Expression, read_expression
from ropewalk.model.lessons.values import Value, check_format, latex, write

BlockKind = Literal["paragraph", "point", "formula", "row"]
Style = Literal["words", "strong", "emphasis", "code"]
SpanKind = Literal["words", "strong", "emphasis", "code", "formula", "value", "missing"]

HOLE = re.compile(r"\\value\{([^{}]*)\}")
FORM = re.compile(r"(?P<body>.*):(?P<form>[\w.%]*)\Z", re.DOTALL)
SIGNS = frozenset("{}$*`|\\")
INTO = re.compile(r"\\(?:begin|left)\b|(?<!\\)\{")
OUT_OF = re.compile(r"\\(?:end|right)\b|(?<!\\)\}")
MOST_FORMULA, MOST_FORMULAS, DEEPEST = 500, 3_000, 4
"""Letters of a formula and of all of a text's, and groups in one another: each takes twice its inside to draw."""
GAP = "…"
"""What stands where a number cannot be had."""


@dataclass(frozen=True)
class Words:
    """Text as it stands."""

    text: str
    style: Style = "words"


@dataclass(frozen=True)
class Hole:
    """An expression to be filled in; ``source`` is how the author wrote it."""

    expression: Expression
    form: str
    source: str


@dataclass(frozen=True)
class Formula:
    """LaTeX, with holes."""

    pieces: tuple[str | Hole, ...]


Part: TypeAlias = Words | Hole | Formula


@dataclass(frozen=True)
class Block:
    """One paragraph, point, formula or table row. All but a row have one cell."""

    kind: BlockKind
    cells: tuple[tuple[Part, ...], ...]


Text: TypeAlias = tuple[Block, ...]


@dataclass(frozen=True)
class Span:
    """A stretch of finished text.

    Attributes
    ----------
    kind
        ``value`` is a number that the engine gave; ``source`` is then the expression it came from. ``missing`` is one
        that it could not give; ``source`` is then the reason, a sentence. ``formula`` is LaTeX without dollar signs.
    """

    kind: SpanKind
    text: str
    source: str = ""


@dataclass(frozen=True)
class Paragraph:
    """One finished block."""

    kind: BlockKind
    cells: tuple[tuple[Span, ...], ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """Everything in it, cell after cell."""
        return tuple(span for cell in self.cells for span in cell)


FilledText: TypeAlias = tuple[Paragraph, ...]
"""A text with its numbers in it."""


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def read_text(source: str) -> Text:
    """Read an author's text.

    Raises
    ------
    LessonError
        For a formula or an expression that does not end, or one that cannot be read.
    """
    blocks: list[Block] = []
    for chunk in re.split(r"\n\s*\n", source.strip()):
        blocks += _blocks(chunk.strip())
    drawn = sum(len(piece) for formula in _formulas(blocks) for piece in formula.pieces if isinstance(piece, str))
    if drawn > MOST_FORMULAS:
        raise LessonError(f"The formulas of a text have {drawn:,} letters, more than {MOST_FORMULAS:,}.")
    return tuple(blocks)


def _formulas(blocks: Iterable[Block]) -> Iterator[Formula]:
    return (part for block in blocks for cell in block.cells for part in cell if isinstance(part, Formula))


def _blocks(chunk: str) -> Iterator[Block]:
    """The blocks of a stretch without an empty line: points and rows are a block each."""
    if not chunk:
        return
    if chunk.startswith("$$"):
        if not chunk.endswith("$$") or len(chunk) < 5:
            raise LessonError(f"The formula {chunk[:40]!r} begins with $$ but does not end with it.")
        yield Block("formula", ((_formula(chunk[2:-2]),),))
        return
    gathered: list[str] = []
    kind: BlockKind = "paragraph"
    for line in (line.strip() for line in chunk.split("\n")):
        if line.startswith(("- ", "|")):
            if gathered:
                yield _block(kind, " ".join(gathered))
            gathered, kind = ([line[2:]], "point") if line.startswith("- ") else ([line], "row")
        elif kind == "row":
            yield _block(kind, gathered[0])
            gathered, kind = [line], "paragraph"
        else:
            gathered.append(line)
    yield _block(kind, " ".join(gathered))


def _block(kind: BlockKind, text: str) -> Block:
    if kind != "row":
        return Block(kind, (read_line(text),))
    if not text.endswith("|") or text == "|":
        raise LessonError(f"The table row {text[:40]!r} does not end with |.")
    return Block("row", tuple(read_line(cell.strip()) for cell in _cells(text[1:-1])))


def _cells(row: str) -> Iterator[str]:
    """Cut a row at each ``|`` outside formulas and expressions."""
    start = depth = 0
    formula = False
    for at, sign in enumerate(row):
        escaped = at > 0 and row[at - 1] == "\\"
        if sign == "$" and not escaped:
            formula = not formula
        depth += (sign == "{") - (sign == "}")
        if sign == "|" and not formula and depth == 0 and not escaped:
            yield row[start:at]
            start = at + 1
    yield row[start:]


def read_line(text: str) -> tuple[Part, ...]:
    """Read a text of one line, such as a title or an option."""
    parts: list[Part] = []
    handle, at = "", 0
    style: Style = "words"

    def flush() -> None:
        nonlocal handle
        if handle:
            parts.append(Words(handle, style))
            handle = ""

    while at < len(text):
        sign = text[at]
        if sign == "\\" and at + 1 < len(text) and text[at + 1] in SIGNS:
            handle, at = handle + text[at + 1], at + 2
        elif sign == "$":
            flush()
            end = _end_of(text, at, "$", "formula")
            parts.append(_formula(text[at + 1 : end]))
            at = end + 1
        elif sign == "{":
            flush()
            end = _end_of(text, at, "}", "expression")
            parts.append(_hole(text[at + 1 : end]))
            at = end + 1
        elif sign == "`":
            flush()
            end = _end_of(text, at, "`", "code")
            parts.append(Words(text[at + 1 : end], "code"))
            at = end + 1
        elif sign == "*":
            flush()
            marked: Style = "strong" if text.startswith("**", at) else "emphasis"
            style = "words" if style == marked else marked
            at += 2 if marked == "strong" else 1
        elif sign == "}":
            raise LessonError(f"There is a }} without a {{ in {text[:60]!r}; write \\}} for the sign itself.")
        else:
            handle, at = handle + sign, at + 1
    flush()
    if style != "words":
        sign = "**" if style == "strong" else "*"
        raise LessonError(f"The {sign} in {text[:60]!r} is never closed; write \\* for the sign itself.")
    return tuple(parts)


def _end_of(text: str, start: int, sign: str, what: str) -> int:
    at = start + 1
    while at < len(text):
        if text[at] == sign and text[at - 1] != "\\":
            return at
        at += 1
    raise LessonError(f"The {what} that begins with {text[start : start + 30]!r} does not end with {sign}.")


def _formula(source: str) -> Formula:
    pieces: list[str | Hole] = []
    at = 0
    for match in HOLE.finditer(source):
        pieces += [source[at : match.start()], _hole(match[1])]
        at = match.end()
    rest = source[at:]
    plain = "".join(piece for piece in [*pieces, rest] if isinstance(piece, str))
    if r"\value" in plain:
        raise LessonError(rf"A \value in the formula {source[:40]!r} has no braces around its expression.")
    if plain.count("{") - plain.count(r"\{") != plain.count("}") - plain.count(r"\}"):
        raise LessonError(f"The braces of the formula {source[:40]!r} do not match.")
    if _depth(plain) > DEEPEST:
        raise LessonError(f"In the formula {source[:40]!r} more than {DEEPEST} groups lie in one another.")
    return Formula(tuple(piece for piece in (*pieces, rest) if piece != ""))


def _depth(latex: str) -> int:
    """How many groups of a formula lie in one another."""
    steps = [(at.start(), 1) for at in INTO.finditer(latex)] + [(at.start(), -1) for at in OUT_OF.finditer(latex)]
    return max(accumulate((step for _, step in sorted(steps)), initial=0))


def _hole(source: str) -> Hole:
    split = FORM.match(source)
    body, form = (source, "") if split is None or _in_quotes(split["body"]) else (split["body"], split["form"])
    check_format(form)
    return Hole(read_expression(body), form, body.strip())


def _in_quotes(text: str) -> bool:
    """Whether a text ends inside a quotation, so that a colon after it is not a format's."""
    return text.count('"') % 2 == 1 or text.count("'") % 2 == 1


def holes(text: Text) -> Iterator[Hole]:
    """Every expression in a text."""
    for block in text:
        for cell in block.cells:
            yield from holes_of(cell)


def holes_of(parts: tuple[Part, ...]) -> Iterator[Hole]:
    """Every expression in one line."""
    for part in parts:
        if isinstance(part, Hole):
            yield part
        elif isinstance(part, Formula):
            yield from (piece for piece in part.pieces if isinstance(piece, Hole))


# ----------------------------------------------------------------------------------------------------------------------
# Filling in


def fill(text: Text, worth: Callable[[Expression], Value]) -> FilledText:
    """Fill in a text; ``worth`` evaluates an expression. What it cannot give leaves a gap that says why."""
    return tuple(Paragraph(block.kind, tuple(fill_line(cell, worth) for cell in block.cells)) for block in text)


def fill_line(parts: tuple[Part, ...], worth: Callable[[Expression], Value]) -> tuple[Span, ...]:
    """Fill in one line."""
    spans = []
    for part in parts:
        if isinstance(part, Words):
            spans.append(Span(part.style, part.text))
        else:
            try:
                spans.append(_hole_span(part, worth) if isinstance(part, Hole) else _formula_span(part, worth))
            except LessonError as error:
                spans.append(Span("missing", GAP, error.sentence))
    return _joined(spans)


def _hole_span(hole: Hole, worth: Callable[[Expression], Value]) -> Span:
    return Span("value", write(worth(hole.expression), hole.form), hole.source)


def _formula_span(formula: Formula, worth: Callable[[Expression], Value]) -> Span:
    pieces = [p if isinstance(p, str) else latex(worth(p.expression), p.form) for p in formula.pieces]
    letters = sum(map(len, pieces))
    if letters > MOST_FORMULA:
        raise LessonError(f"This formula has {letters:,} letters, more than {MOST_FORMULA}; show less of it.")
    source = ", ".join(piece.source for piece in formula.pieces if isinstance(piece, Hole))
    return Span("formula", "".join(pieces), source)


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    """Neighbouring spans of the same plain kind as one."""
    result: list[Span] = []
    for span in spans:
        if result and span.kind == result[-1].kind and span.kind in ("words", "strong", "emphasis"):
            result[-1] = replace(result[-1], text=result[-1].text + span.text)
        else:
            result.append(span)
    return tuple(result)


def plain_text(filled: FilledText | tuple[Span, ...]) -> str:
    """A finished text as plain characters: for a screen reader, a search, a test. Formulas stay LaTeX."""
    lines = []
    for item in filled:
        if isinstance(item, Span):
            lines.append(item.text)
        else:
            mark = "- " if item.kind == "point" else ""
            lines.append(mark + " | ".join("".join(span.text for span in cell) for cell in item.cells))
    return ("" if filled and isinstance(filled[0], Span) else "\n").join(lines)
