"""The table of functions that lessons may name, one entry each.

A function has one place, its definition: every public function of a module in ``computed`` (worked out here and now)
or ``measured`` (with torch) is an entry, by its name, its parameters and the first line of its
docstring. To add one, write it there, with annotations that ``kinds`` lists, and tell authors in ``docs/lessons.md``.
A measured function whose first parameter is ``runs`` is given the lesson's :class:`~model.lessons.runs.Runs`; authors
do not see that parameter.

The definitions are read from the source, not imported, so that a lesson file can be checked where torch is not
loaded. A function's module is imported when it is first called.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any, Final

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import Call
from ropewalk.model.lessons.kinds import KINDS, Kind
from ropewalk.model.lessons.values import Value

FOLDERS: Final = ("computed", "measured")


@dataclass(frozen=True)
class Entry:
    """One function.

    Attributes
    ----------
    module
        Where it is defined, in full.
    measured
        Whether it takes torch.
    takes_runs
        Whether it is given the lesson's runs before its arguments.
    signature
        Its parameters as an author sees them.
    kinds
        What each parameter takes.
    result
        The annotation of what it gives.
    summary
        What it gives, in a line.
    """

    name: str
    module: str
    measured: bool
    takes_runs: bool
    signature: inspect.Signature
    kinds: Mapping[str, Kind]
    result: str
    summary: str

    @property
    def function(self) -> Callable[..., Value]:
        """The function itself; its module is imported for it."""
        found: Callable[..., Value] = getattr(import_module(self.module), self.name)
        return found

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
            problem = str(error).replace("missing a required", "it lacks the required")
            raise LessonError(f"{self.name}{self.signature} cannot be called like this: {problem}.") from error

    def fitted(self, name: str, value: Value) -> Any:
        """A value as a parameter wants it.

        Raises
        ------
        LessonError
            When it is of another kind.
        """
        fitted = self.kinds[name].fit(value)
        if fitted is None:
            raise self.misfit(name, f"{value!r:.60}")
        return fitted

    def misfit(self, name: str, problem: str) -> LessonError:
        """What is wrong when a parameter is given something of another kind."""
        return LessonError(f"The {name} of {self.name} is {problem}, but it must be {self.kinds[name].description}.")


def _entries(folder: str) -> Iterator[Entry]:
    """The functions that the modules of a folder define, in the order of the source."""
    sources = [file for file in files(__package__).joinpath(folder).iterdir() if file.name.endswith(".py")]
    for source in sorted(sources, key=lambda file: file.name):
        module = f"{__package__}.{folder}.{source.name.removesuffix('.py')}"
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield _entry(node, module, measured=folder == "measured")


def _entry(node: ast.FunctionDef, module: str, measured: bool) -> Entry:
    spec = node.args
    no_defaults = [inspect.Parameter.empty] * (len(spec.args) - len(spec.defaults))
    defaults = [*no_defaults, *map(ast.literal_eval, spec.defaults)]
    parameters = [
        inspect.Parameter(argument.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for argument, default in zip(spec.args, defaults, strict=True)
    ]
    annotated = {argument.arg: argument.annotation for argument in spec.args}
    if spec.vararg is not None:
        parameters.append(inspect.Parameter(spec.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
        annotated[spec.vararg.arg] = spec.vararg.annotation
    takes_runs = measured and annotated.pop("runs", None) is not None
    return Entry(
        name=node.name,
        module=module,
        measured=measured,
        takes_runs=takes_runs,
        signature=inspect.Signature(parameters[takes_runs:]),
        kinds={name: KINDS[ast.unparse(annotation)] for name, annotation in annotated.items() if annotation},
        result=ast.unparse(node.returns) if node.returns else "",
        summary=(ast.get_docstring(node) or "").split("\n")[0],
    )


TABLE: Final[Mapping[str, Entry]] = {entry.name: entry for folder in FOLDERS for entry in _entries(folder)}
"""Every function that a lesson may name."""
