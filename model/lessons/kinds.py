"""What a parameter of a lesson's function takes, by its annotation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.lessons.values import Head, ModelName, Quantity, Shape, Value


@dataclass(frozen=True)
class Kind:
    """What a parameter takes.

    Attributes
    ----------
    description
        What it is called in a sentence.
    fit
        A value as the function wants it; None for one of another kind.
    results
        Annotations of results that may fit, besides ``Value``; none where every one does.
    """

    description: str
    fit: Callable[[Value], Any]
    results: frozenset[str] = frozenset()

    def may_fit(self, result: str) -> bool:
        """Whether what a function gives, by the annotation of its result, can be of this kind."""
        return not self.results or any(one in self.results or one == "Value" for one in result.split(" | "))


def _number(value: Value) -> float | None:
    amount = value.amount if isinstance(value, Quantity) else value
    return float(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else None


def _whole(value: Value) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None


def _only(wanted: type) -> Callable[[Value], Any]:
    return lambda value: value if isinstance(value, wanted) else None


def _each(fit: Callable[[Value], Any]) -> Callable[[Value], Any]:
    """Every item of a list, the sides of a shape, or one head as a list of one."""

    def fit_list(value: Value) -> tuple[Any, ...] | None:
        items = value.sides if isinstance(value, Shape) else (value,) if isinstance(value, Head) else value
        fitted = tuple(map(fit, items)) if isinstance(items, tuple) else (None,)
        return None if None in fitted else fitted

    return fit_list


NUMBERS: Final = frozenset({"int", "float", "Quantity"})
LISTS: Final = frozenset({"Vector", "Shape", "tuple[int, ...]"})

KINDS: Final[Mapping[str, Kind]] = {
    "Value": Kind("a value", lambda value: value),
    "int": Kind("a whole number", _whole, NUMBERS),
    "float": Kind("a number", _number, NUMBERS),
    "bool": Kind("true or false", _only(bool), frozenset({"bool"})),
    "str": Kind("a text in quotes", _only(str), frozenset({"str"})),
    "Head": Kind("a head", _only(Head), frozenset({"Head"})),
    "ModelName": Kind("a model that can be run", _only(ModelName), frozenset({"ModelName"})),
    "ModelConfig": Kind("a config or a model", _only(ModelConfig), frozenset({"ModelConfig"})),
    "Vector": Kind("a list of numbers", _each(_number), LISTS),
    "tuple[str, ...]": Kind("a list of texts", _each(_only(str)), frozenset({"tuple[str, ...]"})),
    "tuple[Head, ...]": Kind("a list of heads", _each(_only(Head)), frozenset({"tuple[Head, ...]", "Head"})),
}
"""Annotation → kind, of every annotation that a parameter may have."""
