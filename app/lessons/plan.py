"""What a lesson is, as plain data: as its author wrote it, and filled in with the engine's numbers.

Two shapes of everything. What an author wrote (``Lesson``, ``Step``, ``Check``, ``SceneDraft``) holds expressions. What
a person is shown (``FilledLesson``, ``FilledStep``, ``Asked``, ``Scene``) holds finished text and numbers only; the
window needs no other. Nothing here reads files, evaluates, judges or draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    PermuteTokens,
    ReadKvHead,
    RopeBase,
    RopeOff,
    ScaleScores,
)
from ropewalk.model.ledger.ledger import ShapeLedger
from ropewalk.model.lessons.expressions import Constant, Expression, Items, names
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.text import FilledText, Part, Span, Text, holes, holes_of
from ropewalk.model.lessons.values import Value

Line = tuple[Part, ...]

CheckKind = Literal["choose", "number", "shape", "click", "say"]
Target = Literal["head", "cell", "query", "key", "plane", "layer"]
What = Literal["rows", "heads", "cells", "tokens", "planes", "layers", "ranks", "predictions"]
PlayWhat = Literal["", "decode", "rotation", "training"]

STATISTICS: Final = ("previous", "sink", "induction", "entropy")
"""What the record of a training may show of every head."""

PANELS: Final = (
    "tokens",
    "ledger",
    "walk",
    "heads",
    "scores",
    "rope",
    "cache",
    "next_token",
    "why",
    "lens",
    "routing",
    "training",
    "survey_heads",
    "survey_scatter",
    "survey_table",
    "survey_head",
    "survey_examples",
)
"""Panels that a step may show."""

SELECTABLE: Final = ("layer", "head", "query", "key", "plane")
"""Fields of the selection that a step may set; ``head`` takes a head such as L2H5 as well."""

TOGGLES: Final = ("scores.log", "scores.skip_first", "scores.one", "ledger.all_columns")
"""Switches that a step may turn on: a panel's name and one of its own switches."""

HIGHLIGHTS: Final[Mapping[str, tuple[What, str]]] = {
    "rows": ("rows", "ledger"),
    "heads": ("heads", "heads"),
    "cells": ("cells", "scores"),
    "tokens": ("tokens", "tokens"),
    "planes": ("planes", "rope"),
    "layers": ("layers", "cache"),
    "ranks": ("ranks", "next_token"),
    "predictions": ("predictions", "lens"),
}
"""What can be highlighted, and the panel it is in."""

INTERVENTIONS: Final[Mapping[str, type[Any]]] = {
    "no_scale": NoScale,
    "scale_scores": ScaleScores,
    "no_rope": RopeOff,
    "rope_base": RopeBase,
    "no_causal_mask": NoCausalMask,
    "ablate_heads": AblateHeads,
    "ablate_plane": AblatePlane,
    "ablate_mlp": AblateMlp,
    "read_kv_head": ReadKvHead,
    "permute_tokens": PermuteTokens,
}
"""Interventions that a step may start, with the classes whose fields it sets."""


# ----------------------------------------------------------------------------------------------------------------------
# As written


@dataclass(frozen=True)
class HighlightDraft:
    """Something to highlight; each place is an expression."""

    panel: str
    what: What
    places: tuple[Expression, ...]


@dataclass(frozen=True)
class InterventionDraft:
    """An intervention to start; its fields are expressions."""

    kind: str
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class SceneDraft:
    """What a step puts on screen, with expressions in place of numbers. See :class:`Scene`."""

    model: str
    prompt: str
    panels: tuple[str, ...]
    select: tuple[tuple[str, Expression], ...] = ()
    decoded: int = 0
    interventions: tuple[InterventionDraft, ...] = ()
    toggles: frozenset[str] = frozenset()
    highlights: tuple[HighlightDraft, ...] = ()
    play: PlayWhat = ""
    statistic: str = ""
    checkpoint: Expression | None = None
    survey: str = ""
    surveyed: str = ""
    walk: str = ""

    def named(self, models: Mapping[str, LessonModel]) -> dict[str, Expression]:
        """What is on screen, by the names that claims have for it."""
        shown: dict[str, Expression] = {
            "shown_model": Constant(self.model),
            "shown_panels": Items(tuple(map(Constant, self.panels))),
            "shown_switches": Items(tuple(map(Constant, sorted(self.toggles)))),
            "shown_decoded": Constant(self.decoded),
            "shown_past": Constant(models[self.model].past),
            "shown_experiments": Items(tuple(Constant(draft.kind) for draft in self.interventions)),
        }
        texts = {"prompt": self.prompt, "play": self.play, "walk": self.walk, "statistic": self.statistic}
        texts |= {"survey": self.survey, "surveyed": self.surveyed}
        shown |= {f"shown_{name}": Constant(text) for name, text in texts.items()}
        shown |= {} if self.checkpoint is None else {"shown_checkpoint": self.checkpoint}
        shown |= {f"selected_{name}": expression for name, expression in self.select}
        return shown | {f"highlighted_{draft.what}": Items(draft.places) for draft in self.highlights}

    def new_in(self, before: SceneDraft, models: Mapping[str, LessonModel]) -> set[str]:
        """The names of what this scene points at, and of what it shows that the one before did not."""
        said = before.named(models)
        return {
            name
            for name, expression in self.named(models).items()
            if not name.startswith("shown_") or expression not in (said.get(name), Constant(""), Constant(0), Items(()))
        }


@dataclass(frozen=True)
class Option:
    """One answer to choose; ``why`` says what is right or wrong about it."""

    text: Line
    right: bool
    why: Line


@dataclass(frozen=True)
class Mistake:
    """A wrong number that a known misunderstanding gives, and what to say to it."""

    value: Expression
    says: Line


@dataclass(frozen=True)
class Draw:
    """A number (or ``count`` numbers) drawn afresh each time: from choices, or from a first to a last whole number."""

    name: str
    choices: tuple[Value, ...] = ()
    between: tuple[int, int] | None = None
    count: int = 0


@dataclass(frozen=True)
class Claim:
    """Pieces of a step's texts as they stand there, and what has to be true for them to be so."""

    says: tuple[str, ...]
    holds: tuple[Expression, ...]
    line: int


@dataclass(frozen=True)
class Counted:
    """A sentence that says numbers from two on; what the claims on it compare has to come to each of them."""

    says: str
    line: int
    numbers: frozenset[float]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Check:
    """A question.

    Attributes
    ----------
    id
        Unique in its lesson; progress is kept by it.
    ask, why, hint
        The question, what is said after an answer whatever it was, and what helps before one.
    options
        Of ``choose``; one of them is right.
    answer
        Of ``number`` (a number or several), ``shape`` and ``click``.
    unit, tolerance
        Of ``number``: what to answer in, and the relative error that is let pass; None for the usual one.
    mistakes
        Of ``number`` and ``shape``.
    target, values
        Of ``click``: what is clicked, and the engine's value of each thing that could be, as rows.
    seconds, reveal, points
        Of ``say``: the clock, the model answer, and the points to mark oneself by.
    draws, derived
        Fresh numbers, and what follows from them; with draws the check is a practice problem.
    claims
        What decides its texts and its answer, whatever was drawn.
    """

    id: str
    kind: CheckKind
    ask: Text
    why: Text = ()
    hint: Text = ()
    options: tuple[Option, ...] = ()
    answer: Expression | None = None
    unit: str = ""
    tolerance: float | None = None
    mistakes: tuple[Mistake, ...] = ()
    target: Target = "head"
    values: Expression | None = None
    seconds: int = 0
    reveal: Text = ()
    points: tuple[Line, ...] = ()
    draws: tuple[Draw, ...] = ()
    derived: tuple[tuple[str, Expression], ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def named(self) -> dict[str, Expression]:
        """What its claims have to decide, by the names that they have for it."""
        named: dict[str, Expression] = {} if self.answer is None else {"answer": self.answer}
        named |= {} if self.tolerance is None else {"tolerance": Constant(self.tolerance)}
        return named | ({"mistakes": Items(tuple(one.value for one in self.mistakes))} if self.mistakes else {})

    @property
    def is_practice(self) -> bool:
        """Whether each time brings fresh numbers."""
        return bool(self.draws)


@dataclass(frozen=True)
class Step:
    """One step of a walk: what is said, what is on screen, what is asked afterwards, and what decides what it says."""

    title: Line
    text: Text
    scene: SceneDraft
    notes: Text = ()
    look_at: Line = ()
    checks: tuple[Check, ...] = ()
    challenge: str = ""
    claims: tuple[Claim, ...] = ()
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Something in a lesson file that cannot be used, or should be looked at: which line, and why."""

    path: Path
    line: int
    why: str

    @property
    def sentence(self) -> str:
        """For a person."""
        return f"{self.path.name}, line {self.line}: {self.why}"


@dataclass(frozen=True)
class Lesson:
    """A lesson.

    Attributes
    ----------
    id
        The file's stem; progress is kept by it.
    number, title, about, minutes
        Its place in the course, its name, a sentence about it, and how long it takes.
    given
        Numbers that it states.
    lets
        Names for expressions.
    configs
        Configs by name, those of its models among them.
    models
        Models by name; ``main`` is the one it opens with.
    unclaimed
        Sentences and answers that no claim decides.
    unread
        What was changed since somebody read it against its claims, or never was read so.
    """

    id: str
    number: int
    title: str
    about: str
    minutes: int
    steps: tuple[Step, ...]
    models: Mapping[str, LessonModel]
    given: Mapping[str, Value] = field(default_factory=dict)
    lets: Mapping[str, Expression] = field(default_factory=dict)
    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    path: Path = field(default_factory=Path)
    unclaimed: tuple[Problem, ...] = ()
    unread: tuple[Problem, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim, of its steps and of their checks."""
        kept = (claims for step in self.steps for claims in (step.claims, *(check.claims for check in step.checks)))
        return tuple(chain.from_iterable(kept))

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, in order."""
        return tuple(check for step in self.steps for check in step.checks)

    @property
    def reads_open(self) -> bool:
        """Whether any of its numbers are those of the model that the person has open."""
        yours = {"open", *(name for name, model in self.models.items() if model.kind == "open")}
        return any(name in yours for expression in expressions_of(self) for name in names(expression))

    @property
    def challenges(self) -> tuple[str, ...]:
        """Build challenges that its steps offer, each once."""
        return tuple(dict.fromkeys(step.challenge for step in self.steps if step.challenge))

    def place_of(self, check_id: str) -> tuple[int, int]:
        """The step and the place in it of a check.

        Raises
        ------
        KeyError
            When there is no such check.
        """
        for step_place, step in enumerate(self.steps):
            for place, check in enumerate(step.checks):
                if check.id == check_id:
                    return step_place, place
        raise KeyError(check_id)


def expressions_of(lesson: Lesson) -> Iterator[Expression]:
    """Every expression in a lesson, wherever it stands."""
    yield from lesson.lets.values()
    for step in lesson.steps:
        yield from expressions_of_step(step)
        for check in step.checks:
            yield from expressions_of_check(check)


def expressions_of_step(step: Step) -> Iterator[Expression]:
    """Every expression in a step's own texts and in its scene."""
    scene = step.scene
    yield from (hole.expression for line in (step.title, step.look_at) for hole in holes_of(line))
    yield from (hole.expression for text in (step.text, step.notes) for hole in holes(text))
    yield from (expression for _, expression in scene.select)
    yield from (place for highlight in scene.highlights for place in highlight.places)
    yield from (expression for intervention in scene.interventions for _, expression in intervention.fields)
    yield from () if scene.checkpoint is None else (scene.checkpoint,)


def expressions_of_check(check: Check) -> Iterator[Expression]:
    """Every expression in a check."""
    lines = [line for option in check.options for line in (option.text, option.why)]
    lines += [*(mistake.says for mistake in check.mistakes), *check.points]
    yield from (hole.expression for line in lines for hole in holes_of(line))
    texts = (check.ask, check.why, check.hint, check.reveal)
    yield from (hole.expression for text in texts for hole in holes(text))
    yield from (expression for expression in (check.answer, check.values) if expression is not None)
    yield from (mistake.value for mistake in check.mistakes)
    yield from (expression for _, expression in check.derived)


# ----------------------------------------------------------------------------------------------------------------------
# Filled with numbers


@dataclass(frozen=True)
class Highlight:
    """Something to point at.

    Attributes
    ----------
    panel
        The panel it is in.
    what
        ``rows`` of the ledger, by key; ``heads`` (layer, head); ``cells`` (query, key); ``tokens``, ``planes``,
        ``layers`` and ``ranks`` of candidates, by number.
    places
        Which: texts, or tuples of numbers.
    """

    panel: str
    what: What
    places: tuple[str | tuple[int, ...], ...]


@dataclass(frozen=True)
class Scene:
    """What a step puts on screen. It is whole: shown after any other scene, it looks the same.

    Attributes
    ----------
    model
        A name in ``Lesson.models``.
    prompt
        What is run on it; empty for a model of kind ``shapes`` or ``open``, which keeps its run.
    decoded
        Tokens decoded after the prompt, greedily.
    interventions
        Interventions that are on.
    panels
        One to three panels that a projector shows.
    select
        Fields of the selection to set; those left out stay as they are. A negative query or key counts from the end
        of the rows in view: −1 is the last.
    toggles
        Switches that are on (:data:`TOGGLES`); the others are off.
    play
        What to set going: decoding, the rotation, the training, or nothing.
    statistic, checkpoint
        Which statistic of the heads the record of the training shows, and after how many steps; empty and None where
        a step says nothing of it.
    survey, surveyed
        Which survey of the bundled model is shown, and which statistic of it; both empty where a step shows none. Its
        head is the one that is selected.
    walk
        The operation that the walk through the block is at; empty for its beginning.
    """

    model: str
    prompt: str
    panels: tuple[str, ...]
    select: tuple[tuple[str, int], ...] = ()
    decoded: int = 0
    interventions: tuple[Intervention, ...] = ()
    toggles: frozenset[str] = frozenset()
    highlights: tuple[Highlight, ...] = ()
    play: PlayWhat = ""
    statistic: str = ""
    checkpoint: int | None = None
    survey: str = ""
    surveyed: str = ""
    walk: str = ""


@dataclass(frozen=True)
class AskedOption:
    """One answer to choose, finished."""

    text: tuple[Span, ...]
    right: bool
    why: tuple[Span, ...]


@dataclass(frozen=True)
class Asked:
    """A question with its numbers in it, and all that is needed to judge a reply at once.

    Attributes
    ----------
    seed
        What the fresh numbers and the order of the options were drawn with.
    options
        In the order to show them.
    answer, written
        The engine's own value and how it is written; ``source`` is the expression it came from.
    accepted
        Of ``click``, what may be clicked: (layer, head), (query, key) or (number,).
    missing
        Why the question cannot be asked now; empty where it can.
    """

    id: str
    kind: CheckKind
    seed: int
    is_practice: bool
    ask: FilledText
    why: FilledText = ()
    hint: FilledText = ()
    options: tuple[AskedOption, ...] = ()
    answer: Value = 0
    written: str = ""
    source: str = ""
    unit: str = ""
    tolerance: float | None = None
    mistakes: tuple[tuple[Value, tuple[Span, ...]], ...] = ()
    target: Target = "head"
    accepted: tuple[tuple[int, ...], ...] = ()
    values: Value = ()
    seconds: int = 0
    reveal: FilledText = ()
    points: tuple[tuple[Span, ...], ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class FilledStep:
    """A step with its numbers in it; ``ledger`` is there where its model is a config alone, for there is no run."""

    title: tuple[Span, ...]
    text: FilledText
    scene: Scene
    notes: FilledText = ()
    look_at: tuple[Span, ...] = ()
    checks: tuple[Asked, ...] = ()
    challenge: str = ""
    ledger: ShapeLedger | None = None


@dataclass(frozen=True)
class FilledLesson:
    """A lesson with its numbers in it."""

    lesson: Lesson
    steps: tuple[FilledStep, ...]
