"""The evaluation of a lesson's expressions, and what can be wrong with one before it is evaluated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import LessonError, RopewalkError, unforeseen
from ropewalk.model.lessons.bounds import CALL, MEASURED, MOST, QUOTED, Work, bounded, size_of
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, Name, parts
from ropewalk.model.lessons.kinds import KINDS
from ropewalk.model.lessons.table import TABLE, Entry
from ropewalk.model.lessons.values import ModelName, Value

if TYPE_CHECKING:
    from ropewalk.model.lessons.runs import Runs

ALWAYS: Final = ("bundled", "open")
"""Models that every lesson may name."""
CONFIG: Final = KINDS["ModelConfig"]
"""What a parameter takes that may be given a model for its config."""
DEEPEST: Final = 160
"""How many calls, lists and names may lie in one another, through what the names stand for."""


@dataclass(frozen=True)
class Let:
    """What is known of a name for an expression.

    Attributes
    ----------
    deep
        How many things lie in one another in it.
    measured
        Whether it has to be measured.
    """

    deep: int
    measured: bool


@dataclass(frozen=True)
class Scope:
    """What names mean.

    Attributes
    ----------
    given
        Numbers and lists that the lesson states.
    lets
        Names for expressions, each worked out once, when it is first looked up, and by what was known when it was
        given its name.
    configs
        Configs by name, those of the lesson's own models among them.
    models
        Names of models that can be run.
    runs
        What is measured on; None where nothing can be.
    work
        What evaluating has taken so far.
    outer
        The scope that this one is inside.
    """

    given: Mapping[str, Value] = field(default_factory=dict)
    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    lets: Mapping[str, Expression] = field(default_factory=dict)
    runs: Runs | None = None
    work: Work = field(default_factory=Work, compare=False)
    outer: Scope | None = None
    _worked: dict[str, Value] = field(default_factory=dict, init=False, compare=False)
    _known: dict[str, Let] = field(default_factory=dict, init=False, compare=False)

    def inside(self, given: Mapping[str, Value] | None = None, lets: Mapping[str, Expression] | None = None) -> Scope:
        """A scope with more names in it, which mean nothing to those that are here."""
        return replace(self, given={**self.given, **(given or {})}, lets={**self.lets, **(lets or {})}, outer=self)

    def let(self, name: str) -> Let:
        """What is known of a name for an expression."""
        home = self._home_of(name)
        if name not in home._known:
            expression = home.lets[name]
            home._known[name] = Let(1 + depth(expression, home), is_measured(expression, home))
        return home._known[name]

    def _home_of(self, name: str) -> Scope:
        """The outermost scope in which a name stands for the expression it stands for here."""
        home = self
        while home.outer is not None and home.outer.lets.get(name) is self.lets[name]:
            home = home.outer
        return home

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
            home = self._home_of(name)
            if name not in home._worked:
                home._worked[name] = evaluate(home.lets[name], home)
            return home._worked[name]
        if name in self.models or name in ALWAYS:
            return ModelName(name)
        if name in self.configs:
            return self.configs[name]
        if name in KNOWN:
            return KNOWN[name]
        own = dict.fromkeys((*self.given, *self.lets, *self.models, *self.configs, *ALWAYS))
        near = get_close_matches(name, (*own, *KNOWN), n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(own)}, and configs such as llama3_8b."
        raise LessonError(f"Nothing is called {name[:60]!r}{hint}"[:QUOTED])

    def config_of(self, model: ModelName) -> ModelConfig:
        """The config of a model; one that is a file is asked for it."""
        if model.name in self.configs:
            return self.configs[model.name]
        if self.runs is None:
            raise LessonError(f"The sizes of {model.name!r} are known only where models can be opened.")
        return self.runs.config_of(model)


def check(expression: Expression, scope: Scope) -> None:
    """Refuse an expression that can never be worth anything: unknown names and functions, arguments that do not fit.

    Raises
    ------
    LessonError
        With what is wrong.
    """
    depth(expression, scope)
    inside = [*parts(expression)]
    found = [(_entry_of(part), part) for part in inside if isinstance(part, Call)]
    bound = [(entry, entry.bound(call)) for entry, call in found]
    for part in inside:
        if isinstance(part, Name) and part.name not in scope.lets:
            scope.lookup(part.name)
    for entry, arguments in bound:
        for name, given in _arguments(arguments):
            _check_argument(entry, name, given, scope)


def _check_argument(entry: Entry, name: str, given: Expression, scope: Scope) -> None:
    """Refuse an argument of the wrong kind, as far as that can be known without evaluating it."""
    match given:
        case Constant(value):
            entry.fitted(name, value)
        case Call(function) if not entry.kinds[name].may_fit(TABLE[function].result):
            raise entry.misfit(name, f"what {function} gives")
        case Name(known) if known in scope.lets:
            _check_argument(entry, name, scope.lets[known], scope)
        case Name(known) if known not in scope.given:
            meant = scope.lookup(known)
            if not (isinstance(meant, ModelName) and entry.kinds[name] is CONFIG):
                entry.fitted(name, meant)


def depth(expression: Expression, scope: Scope) -> int:
    """How many calls, lists and names lie in one another.

    Raises
    ------
    LessonError
        When they are too many to be worked out.
    """
    inner: tuple[Expression, ...] = ()
    match expression:
        case Name(name) if name in scope.lets:
            deep = scope.let(name).deep
        case Items(inner):
            deep = 1 + max((depth(one, scope) for one in inner), default=0)
        case Call(_, arguments, named):
            inner = (*arguments, *(one for _, one in named))
            deep = 1 + max((depth(one, scope) for one in inner), default=0)
        case _:
            deep = 1
    if deep > DEEPEST:
        raise LessonError(f"More than {DEEPEST} expressions stand for one another here; write fewer steps.")
    return deep


def is_measured(expression: Expression, scope: Scope) -> bool:
    """Whether an expression has to be measured: by its functions, or by naming a model whose sizes are in a file."""
    for part in parts(expression):
        match part:
            case Call(function) if function in TABLE and TABLE[function].measured:
                return True
            case Name(name) if name in scope.lets and scope.let(name).measured:
                return True
            case Name(name) if name not in scope.lets and name not in scope.configs:
                if name in ALWAYS or name in scope.models:
                    return True
    return False


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
            listed = tuple(evaluate(one, scope) for one in items)
            scope.work.take(size_of(listed, "A list"))
            return listed
        case Call():
            return _called(expression, scope)


def _called(call: Call, scope: Scope) -> Value:
    entry = _entry_of(call)
    bound = entry.bound(call)
    several: list[Any] = []
    size = MEASURED if entry.measured else CALL
    named: dict[str, Any] = {}
    for name, given in _arguments(bound):
        value = evaluate(given, scope)
        if isinstance(value, ModelName) and entry.kinds[name] is CONFIG:
            value = scope.config_of(value)
        fitted = entry.fitted(name, value)
        size += size_of(fitted, f"The {name} of {entry.name}")
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            several.append(fitted)
        else:
            named[name] = fitted
    if entry.measured and scope.runs is None:
        raise LessonError(f"{call.function} has to be measured, which is not possible here.")
    scope.work.take(size)
    if size > MOST + MEASURED:
        raise LessonError(f"{entry.name} is given more than {MOST:,} numbers or letters; give it smaller lists.")
    runs = (scope.runs,) if entry.takes_runs else ()
    function = entry.function
    try:
        if several:  # those before it by their places, as Python wants them
            worth = function(*runs, *named.values(), *several)
        else:
            worth = function(*runs, **named)
    except RopewalkError as error:
        raise LessonError(error.sentence[:QUOTED], error.details) from error
    except Exception as error:  # an author is told which function it is, whatever went wrong in it
        what = unforeseen(error).partition(": ")[2][:QUOTED]
        raise LessonError(f"{entry.name} gives nothing for what it is given here: {what}") from error
    return bounded(worth, f"What {entry.name} gives")


def _entry_of(call: Call) -> Entry:
    if call.function not in TABLE:
        near = get_close_matches(call.function, TABLE, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise LessonError(f"There is no function {call.function!r}.{hint}")
    return TABLE[call.function]


def _arguments(bound: inspect.BoundArguments) -> Iterator[tuple[str, Expression]]:
    """Parameter and argument of a call, one for each argument."""
    for name, given in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, one) for one in given)
        else:
            yield name, given
