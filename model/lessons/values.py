"""What an expression is worth, and how it is written: for a person in a sentence, and in a formula.

Numbers are written with as many figures as help (four), in the units people say: ``320 KiB``, ``8.8 TFLOP``,
``1.2 × 10⁻⁷``, ``(1, 2, 0, −1)``, ``1×8×12×12``, ``L2H5``. Nothing here computes and nothing knows torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, format_count, format_flops, format_shape
from ropewalk.model.errors import LessonError

Unit = Literal["bytes", "flops", "count", "share"]


@dataclass(frozen=True)
class Quantity:
    """A number with a unit: bytes, FLOPs, a count of parameters or the like, or a share of 1."""

    amount: float
    unit: Unit


@dataclass(frozen=True)
class Shape:
    """The shape of a tensor."""

    sides: tuple[int, ...]


@dataclass(frozen=True)
class Head:
    """One head, counted from zero."""

    layer: int
    head: int


@dataclass(frozen=True)
class Cell:
    """One attention cell."""

    query: int
    key: int


@dataclass(frozen=True)
class ModelName:
    """A model that a lesson may run: one it declares, ``bundled``, or ``open``."""

    name: str


Value: TypeAlias = (
    bool | int | float | str | Quantity | Shape | Head | Cell | ModelName | ModelConfig | tuple["Value", ...]
)

Vector: TypeAlias = tuple[float, ...]
Matrix: TypeAlias = tuple[Vector, ...]

UNITS: Final[Mapping[str, tuple[Unit, float]]] = {
    "B": ("bytes", 1),
    "KiB": ("bytes", 2**10),
    "MiB": ("bytes", 2**20),
    "GiB": ("bytes", 2**30),
    "TiB": ("bytes", 2**40),
    "FLOP": ("flops", 1),
    "MFLOP": ("flops", 1e6),
    "GFLOP": ("flops", 1e9),
    "TFLOP": ("flops", 1e12),
    "PFLOP": ("flops", 1e15),
    "K": ("count", 1e3),
    "M": ("count", 1e6),
    "billion": ("count", 1e9),
    "%": ("share", 0.01),
}
"""Units a person may type or a lesson may ask for, with what one of them is in the plain unit."""

DECIMALS = re.compile(r"\.(\d)f\Z")
FIGURES = 4
NOISE = 2e-6
"""A number this much smaller than the largest beside it is rounding, and is written 0."""
MOST_WRITTEN = 4_000
"""Letters that a value may take when it is written."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def check_format(form: str) -> None:
    """Refuse a format that :func:`write` does not know.

    Raises
    ------
    LessonError
        With those it knows.
    """
    if form and form not in FORMS and form not in UNITS and DECIMALS.match(form) is None:
        known = ", ".join((".2f", *FORMS, *UNITS))
        raise LessonError(f"The format {form!r} is not known; there are {known}.")


def write(value: Value, form: str = "") -> str:
    """Write a value for a person.

    Parameters
    ----------
    form
        Empty for the usual way; ``.2f`` for so many decimals; a unit such as ``GiB``; or one of :data:`FORMS`.

    Raises
    ------
    LessonError
        When it cannot be written so, or takes more than :data:`MOST_WRITTEN` letters.
    """
    written = _written(value, form)
    if len(written) > MOST_WRITTEN:
        raise LessonError(f"This takes {len(written):,} letters to write, more than {MOST_WRITTEN:,}; show less of it.")
    return written


def _written(value: Value, form: str) -> str:
    if form in FORMS:
        return FORMS[form](value)
    if form in UNITS:
        return f"{_number(plain(value) / UNITS[form][1])}{'' if form == '%' else ' '}{form}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return _number(value, form)
    if isinstance(value, Quantity):
        return _quantity(value, form)
    if isinstance(value, Shape):
        return format_shape(value.sides)
    if isinstance(value, Head):
        return f"L{value.layer}H{value.head}"
    if isinstance(value, Cell):
        return f"query {value.query}, key {value.key}"
    if isinstance(value, ModelName):
        return value.name
    if isinstance(value, ModelConfig):
        return f"{value.layers} layers, D {value.width}, H {value.heads}, Hkv {value.kv_heads}, Dh {value.head_width}"
    return _listed(value, form)


def latex(value: Value, form: str = "") -> str:
    """Write a value for a formula; a list becomes a column of a matrix, or its rows."""
    if isinstance(value, tuple) and value and not form.isalpha():
        rows = value if isinstance(value[0], tuple) else (value,)
        smallest = _noise(value)
        lines = [
            " & ".join(_tex(_silenced(item, smallest), form) for item in (row if isinstance(row, tuple) else (row,)))
            for row in rows
        ]
        return r"\begin{pmatrix}" + r" \\ ".join(lines) + r"\end{pmatrix}"
    return _tex(value, form)


def _tex(value: Value, form: str) -> str:
    written = write(value, form)
    raised = re.match(r"(.*) × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)\Z", written)
    if raised is not None:
        power = raised[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return rf"{raised[1].replace('−', '-')} \times 10^{{{power}}}"
    if re.fullmatch(r"[−\d.,]+", written):
        return written.replace("−", "-").replace(",", "{,}")
    if isinstance(value, Shape):
        return written.replace("×", r" \times ")
    return rf"\text{{{written}}}"


def _listed(values: tuple[Value, ...], form: str) -> str:
    if not values:
        return "none"
    if all(isinstance(item, tuple) for item in values):
        return ", ".join(_written(item, form) for item in values)
    if any(isinstance(item, str | Head | Shape | Quantity | Cell) for item in values):
        return ", ".join(_written(item, form) for item in values)
    smallest = _noise(values)
    return f"({', '.join(_written(_silenced(item, smallest), form) for item in values)})"


def _noise(values: tuple[Value, ...]) -> float:
    return NOISE * max((abs(number) for number in numbers(values)), default=0.0)


def _silenced(value: Value, smallest: float) -> Value:
    if isinstance(value, float) and abs(value) < smallest:
        return 0
    return value


def numbers(value: Value) -> tuple[float, ...]:
    """Every number in a value, in reading order; the sides of a shape, the two numbers of a head or cell."""
    if isinstance(value, bool | int | float):
        return (float(value),)
    if isinstance(value, Quantity):
        return (float(value.amount),)
    if isinstance(value, Shape):
        return tuple(float(side) for side in value.sides)
    if isinstance(value, Head):
        return float(value.layer), float(value.head)
    if isinstance(value, Cell):
        return float(value.query), float(value.key)
    if isinstance(value, tuple):
        return tuple(number for item in value for number in numbers(item))
    return ()


def plain(value: Value) -> float:
    """The one number that a value is.

    Raises
    ------
    LessonError
        When it is not one number.
    """
    found = numbers(value)
    if len(found) != 1:
        raise LessonError(f"{quoted(value)} is not one number.")
    return found[0]


def quoted(value: Value) -> str:
    """The beginning of a value, for a sentence that says what is wrong with it."""
    if isinstance(value, tuple):
        return f"({', '.join(quoted(item) for item in value[:3])}{', …' if len(value) > 3 else ''})"[:60]
    return _written(value, "")[:60]


def rounded(value: Value) -> int:
    """The whole number nearest to the one that a value is.

    Raises
    ------
    LessonError
        When it is not one number, or one without an end.
    """
    number = plain(value)
    if not math.isfinite(number):
        raise LessonError(f"{_number(number)} is no number that can be rounded.")
    return round(number)


def _quantity(value: Quantity, form: str) -> str:
    if form or not math.isfinite(value.amount):
        return _number(value.amount, form)
    if value.unit == "bytes":
        return format_bytes(round(value.amount))
    if value.unit == "flops":
        return format_flops(round(value.amount))
    if value.unit == "count":
        return format_count(round(value.amount))
    return f"{_number(100 * value.amount, '.1f' if abs(value.amount) >= 0.001 else '')}%"


def _number(value: float, form: str = "") -> str:
    """A number with a real minus sign, commas from a thousand on, and powers of ten where they read better."""
    decimals = DECIMALS.match(form)
    if decimals is not None:
        return _signed(f"{value:,.{int(decimals[1])}f}")
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    if math.isnan(value):
        return "not a number"
    if float(value).is_integer() and abs(value) < 1e15:
        return _signed(f"{int(value):,}")
    if abs(value) < 1e-3 or abs(value) >= 1e7:
        figures, power = f"{value:.1e}".split("e")
        figures = figures.removesuffix(".0")
        return _signed(f"{figures} × 10{str(int(power)).translate(_RAISED)}")
    text = f"{value:,.{_decimals(value)}f}"
    return _signed(text.rstrip("0").rstrip(".") if "." in text else text)


def _decimals(value: float) -> int:
    """Decimals that make four figures from 1 on, three below."""
    if abs(value) >= 1:
        return max(0, FIGURES - len(str(int(abs(value)))))
    return FIGURES - 2 - math.floor(math.log10(abs(value)))


def _signed(text: str) -> str:
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]  # −0 is 0
    return text.replace("-", "−")


FORMS: Final[Mapping[str, Callable[[Value], str]]] = {
    "exact": lambda value: f"{rounded(value):,}".replace("-", "−"),
    "bytes": lambda value: format_bytes(rounded(value)),
    "flops": lambda value: format_flops(rounded(value)),
    "count": lambda value: format_count(rounded(value)),
    "rows": lambda value: "; ".join(_written(row, "") for row in (value if isinstance(value, tuple) else (value,))),
}
"""Ways to write a value that are not decimals or a unit."""
