"""The table of functions that lessons name, and the evaluation of expressions by it.

One entry a function, from two lists: ``functions`` (computed here and now) and ``Laboratory`` (measured, on the compute
thread). An entry knows its parameters and their types, so a wrong call is found when the lesson is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from model.config import ModelConfig
from model.errors import LessonError, RopewalkError
from model.known_configs import KNOWN
from model.lessons import functions
from model.lessons.expressions import Call, Constant, Expression, Items, Name, calls, names
from model.lessons.laboratory import Laboratory
from model.lessons.values import Head, ModelName, Quantity, Shape, Value

ALWAYS: Final = ("bundled", "open")
"""Models that every lesson may name."""


@dataclass(frozen=True)
class Scope:
    """What names mean.

    Attributes
    ----------
    given
        Numbers and lists that the lesson states.
    lets
        Names for expressions, worked out when they are looked up.
    configs
        Configs by name, those of the lesson's own models among them.
    models
        Names of models that can be run.
    laboratory
        Who measures; None where nothing can be.
    """

    given: Mapping[str, Value] = field(default_factory=dict)
    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    lets: Mapping[str, Expression] = field(default_factory=dict)
    laboratory: Laboratory | None = None

    def lookup(self, name: str) -> Value:
        """What a name stands for.

        Raises
        ------
        LessonError
            When it stands for nothing, with the nearest that does.
        """
        if name in self.given:
            return self.given[name]
        if name in self.lets:
            return evaluate(self.lets[name], self)
        if name in self.models or name in ALWAYS:
            return ModelName(name)
        if name in self.configs:
            return self.configs[name]
        if name in KNOWN:
            return KNOWN[name]
        own = dict.fromkeys((*self.given, *self.lets, *self.models, *self.configs, *ALWAYS))
        near = get_close_matches(name, (*own, *KNOWN), n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(own)}, and configs such as llama3_8b."
        raise LessonError(f"Nothing is called {name!r}{hint}")

    def config_of(self, model: ModelName) -> ModelConfig:
        """The config of a model; one that is a file is asked for it."""
        if model.name in self.configs:
            return self.configs[model.name]
        if self.laboratory is None:
            raise LessonError(f"The sizes of {model.name!r} are known only where models can be opened.")
        return self.laboratory.config_of(model)


@dataclass(frozen=True)
class Entry:
    """One function.

    Attributes
    ----------
    measured
        Whether it needs a laboratory.
    signature
        Its parameters, the scope left out.
    summary
        What it gives, in a line.
    """

    name: str
    measured: bool
    signature: inspect.Signature
    types: Mapping[str, Any]
    summary: str
    function: Callable[..., Value]

    def bound(self, call: Call) -> inspect.BoundArguments:
        """Lay the arguments of a call onto the parameters.

        Raises
        ------
        LessonError
            When they do not fit.
        """
        try:
            return self.signature.bind(*call.arguments, **dict(call.named))
        except TypeError as error:
            said = str(error).replace("missing a required", "it lacks the required")
            raise LessonError(f"{self.name}{self.signature} cannot be called like this: {said}.") from error


def _entry(function: Callable[..., Any], measured: bool) -> Entry:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]  # without the scope, or self
    types = get_type_hints(function, {**function.__globals__, "Scope": Scope, "Value": Value})
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    summary = (function.__doc__ or "").strip().split("\n")[0]
    return Entry(function.__name__, measured, inspect.Signature(plain), types, summary, function)


TABLE: Final[Mapping[str, Entry]] = {
    **{function.__name__: _entry(function, False) for function in functions.FUNCTIONS},
    **{
        name: _entry(method, True)
        for name, method in vars(Laboratory).items()
        if inspect.isfunction(method) and not name.startswith("_") and name != "config_of"
    },
}
"""Every function that a lesson may name."""


def check(expression: Expression, scope: Scope) -> None:
    """Refuse an expression that can never be worth anything: unknown names and functions, arguments that do not fit.

    Raises
    ------
    LessonError
        With what is wrong.
    """
    for call in calls(expression):
        if call.function not in TABLE:
            near = get_close_matches(call.function, TABLE, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise LessonError(f"There is no function {call.function!r}.{hint}")
        TABLE[call.function].bound(call)
    for name in names(expression):
        if name not in scope.lets:
            scope.lookup(name)


def is_measured(expression: Expression, scope: Scope) -> bool:
    """Whether an expression needs a laboratory: by its functions, or by naming a model whose sizes are in a file."""
    runs = any(TABLE[call.function].measured for call in calls(expression) if call.function in TABLE)
    return runs or any(
        is_measured(scope.lets[name], scope)
        if name in scope.lets
        else (name in ALWAYS or name in scope.models) and name not in scope.configs
        for name in names(expression)
    )


def evaluate(expression: Expression, scope: Scope) -> Value:
    """What an expression is worth.

    Raises
    ------
    LessonError
        When it is worth nothing, with the reason.
    """
    match expression:
        case Constant(value):
            return value
        case Name(name):
            return scope.lookup(name)
        case Items(items):
            return tuple(evaluate(one, scope) for one in items)
        case Call():
            return _called(expression, scope)


def _called(call: Call, scope: Scope) -> Value:
    entry = TABLE.get(call.function)
    if entry is None:
        raise LessonError(f"There is no function {call.function!r}.")
    bound = entry.bound(call)
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        wanted = entry.types[name]
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            arguments += [_fitted(evaluate(one, scope), wanted, entry, name, scope) for one in value]
        else:
            named[name] = _fitted(evaluate(value, scope), wanted, entry, name, scope)
    try:
        if not entry.measured:
            return entry.function(scope, *arguments, **named)
        if scope.laboratory is None:
            raise LessonError(f"{call.function} has to be measured, which is not possible here.")
        measured: Value = getattr(scope.laboratory, call.function)(**named)
        return measured
    except LessonError:
        raise
    except RopewalkError as error:
        raise LessonError(error.sentence, error.details) from error


def _fitted(value: Value, wanted: Any, entry: Entry, name: str, scope: Scope) -> Any:
    """A value as a parameter wants it.

    Raises
    ------
    LessonError
        When it is of another kind.
    """
    if get_origin(wanted) in (Union, UnionType):
        kinds = [kind for kind in get_args(wanted) if kind is not NoneType]
        if wanted == Value or len(kinds) > 1:
            return value
        wanted = kinds[0]
    if wanted is ModelConfig and isinstance(value, ModelName):
        return scope.config_of(value)
    if wanted is int and isinstance(value, float | Quantity) and float(_amount(value)).is_integer():
        return int(_amount(value))
    if wanted is float and isinstance(value, int | float | Quantity) and not isinstance(value, bool):
        return float(_amount(value))
    if get_origin(wanted) is tuple:
        return _fitted_list(value, wanted, entry, name, scope)
    if isinstance(wanted, type) and isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    raise LessonError(f"The {name} of {entry.name} is {value!r:.60}, but it must be {_called_kind(wanted)}.")


def _fitted_list(value: Value, wanted: Any, entry: Entry, name: str, scope: Scope) -> tuple[Any, ...]:
    if isinstance(value, Shape):
        value = tuple(value.sides)
    if isinstance(value, Head):
        value = (value,)
    if not isinstance(value, tuple):
        raise LessonError(f"The {name} of {entry.name} is {value!r:.60}, but it must be a list.")
    return tuple(_fitted(one, get_args(wanted)[0], entry, name, scope) for one in value)


def _amount(value: int | float | Quantity) -> float:
    return value.amount if isinstance(value, Quantity) else value


def _called_kind(wanted: Any) -> str:
    kinds = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false", Head: "a head"}
    if wanted is ModelConfig:
        return "a config or a model"
    return "a model that can be run" if wanted is ModelName else kinds.get(wanted, str(wanted))
