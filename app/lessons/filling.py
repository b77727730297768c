"""Fills a lesson's texts, scenes and checks with the engine's numbers, once, in the engine's process.

A number that cannot be had (nothing is open, a model without a tokenizer) leaves a gap that says why; the rest of the
lesson is filled all the same. No torch here: what has to run is measured on the lesson's ``Runs``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ropewalk.app.lessons.plan import (
    INTERVENTIONS,
    Asked,
    AskedOption,
    Check,
    Draw,
    FilledLesson,
    FilledStep,
    Highlight,
    HighlightDraft,
    InterventionDraft,
    Lesson,
    Scene,
    SceneDraft,
    expressions_of_step,
)
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.errors import LessonError, RopewalkError
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger
from ropewalk.model.lessons.evaluation import Scope, evaluate
from ropewalk.model.lessons.expressions import Expression
from ropewalk.model.lessons.models import LessonModel, ablations
from ropewalk.model.lessons.text import fill, fill_line
from ropewalk.model.lessons.values import Cell, Head, Value, numbers, quoted, rounded, write
from ropewalk.model.progress import Progress, Steps

if TYPE_CHECKING:
    from ropewalk.model.lessons.runs import Runs

Worth = Callable[[Expression], Value]
READING = "Reading the lesson's numbers"
"""What the progress says meanwhile."""
MOST_PLACE = 1 << 31
"""What the number of anything that is selected or pointed at stays below."""


def fill_lesson(lesson: Lesson, runs: Runs, seeds: Mapping[str, int] | None = None) -> Steps[FilledLesson]:
    """Fill a whole lesson.

    Parameters
    ----------
    seeds
        Check id → seed of its fresh numbers; 0 where it is not named.
    """
    filled = []
    for place in range(len(lesson.steps)):
        step = yield from fill_step(lesson, place, runs, seeds)
        filled.append(step)
    return FilledLesson(lesson, tuple(filled))


def fill_step(lesson: Lesson, place: int, runs: Runs, seeds: Mapping[str, int] | None = None) -> Steps[FilledStep]:
    """Fill one step of a lesson, pausing after every number of its text and every check."""
    step, worth = lesson.steps[place], worth_in(lesson, runs)
    needed, checks = tuple(expressions_of_step(step)), []
    total = len(needed) + len(step.checks)
    for done, expression in enumerate(needed):
        yield Progress(done, total, READING)
        _or_none(expression, worth)  # worked out now, looked up below
    for done, check in enumerate(step.checks, start=len(needed)):
        yield Progress(done, total, READING)
        checks.append(fill_check(lesson, check, runs, (seeds or {}).get(check.id, 0)))
    return FilledStep(
        title=fill_line(step.title, worth),
        text=fill(step.text, worth),
        scene=fill_scene(step.scene, worth),
        notes=fill(step.notes, worth),
        look_at=fill_line(step.look_at, worth),
        checks=tuple(checks),
        challenge=step.challenge,
        ledger=_ledger(lesson.models[step.scene.model]),
    )


def _ledger(model: LessonModel) -> ShapeLedger | None:
    if model.kind != "shapes" or model.config is None:
        return None
    return build_ledger(model.config, 0, model.batch, model.tokens, model.past, model.dtype)


def _scope_of(lesson: Lesson, runs: Runs | None) -> Scope:
    return Scope(lesson.given, lesson.configs, frozenset(lesson.models), lesson.lets, runs)


def worth_in(
    lesson: Lesson,
    runs: Runs | None,
    more: Mapping[str, Value] | None = None,
    lets: Mapping[str, Expression] | None = None,
) -> Worth:
    """What evaluates the expressions of a lesson; ``more`` and ``lets`` are names beyond those it gives."""
    scope = _scope_of(lesson, runs).inside(more, lets)
    known: dict[Expression, Value] = {}

    def worth(expression: Expression) -> Value:
        if expression not in known:
            known[expression] = evaluate(expression, scope)
        return known[expression]

    return worth


# ----------------------------------------------------------------------------------------------------------------------
# Scenes


def fill_scene(draft: SceneDraft, worth: Worth) -> Scene:
    """A scene with its numbers; what cannot be had is left out of it."""
    select: dict[str, int] = {}
    for name, expression in draft.select:
        value = _or_none(expression, worth)
        if isinstance(value, Head):
            select |= {"layer": value.layer, "head": value.head}
        elif isinstance(value, Cell):
            select |= {"query": value.query, "key": value.key}
        elif value is not None:
            place = _place_of(value)
            select |= {} if place is None else {name: place}
    return Scene(
        model=draft.model,
        prompt=draft.prompt,
        panels=draft.panels,
        select=tuple(select.items()),
        decoded=draft.decoded,
        interventions=tuple(one for each in draft.interventions for one in fill_intervention(each, worth)),
        toggles=draft.toggles,
        highlights=tuple(_highlight(each, worth) for each in draft.highlights),
        play=draft.play,
        statistic=draft.statistic,
        checkpoint=None if draft.checkpoint is None else _step(draft.checkpoint, worth),
        survey=draft.survey,
        surveyed=draft.surveyed,
        walk=draft.walk,
    )


def _step(expression: Expression, worth: Worth) -> int | None:
    value = _or_none(expression, worth)
    return None if value is None else _place_of(value)


def _place_of(value: Value) -> int | None:
    """The first number of a value, where it can be one of anything."""
    return next((place for (place,) in _places(value, pairs=False)), None)


def fill_intervention(draft: InterventionDraft, worth: Worth) -> tuple[Intervention, ...]:
    """An intervention with its numbers, none where it cannot be made; heads of several layers make one for each."""
    try:
        return _intervention(draft, worth)
    except (RopewalkError, TypeError):  # a number that cannot be had, or that is not there at all
        return ()


def _intervention(draft: InterventionDraft, worth: Worth) -> tuple[Intervention, ...]:
    values: dict[str, Any] = {}
    heads: list[Head] = []
    for name, expression in draft.fields:
        value = worth(expression)
        found = numbers(value)
        if not found:
            raise LessonError(f"{quoted(value)} is no {name}.")
        if name == "heads" and _are_heads(value):
            heads = list(value) if isinstance(value, tuple) else [value]  # type: ignore[list-item,arg-type]
        elif name in ("heads", "order"):
            values[name] = tuple(map(rounded, found))
        elif name in ("factor", "base"):
            values[name] = found[0]
        else:
            values[name] = rounded(found[0])
    if heads:
        return ablations(heads)
    made: Intervention = INTERVENTIONS[draft.kind](**values)
    return (made,)


def _are_heads(value: Value) -> bool:
    return isinstance(value, Head) or (isinstance(value, tuple) and all(isinstance(one, Head) for one in value))


def _highlight(draft: HighlightDraft, worth: Worth) -> Highlight:
    places: list[str | tuple[int, ...]] = []
    for expression in draft.places:
        value = _or_none(expression, worth)
        if value is None:
            continue
        if isinstance(value, str):
            places.append(value)
        else:
            places += _places(value, pairs=draft.what in ("heads", "cells", "predictions"))
    return Highlight(draft.panel, draft.what, tuple(places))


def _places(value: Value, pairs: bool) -> list[tuple[int, ...]]:
    """Numbers as places: pairs for heads, cells and predictions, single ones for the rest; no others are any."""
    flat = [round(number) for number in numbers(value) if abs(number) < MOST_PLACE]
    if pairs:
        return list(zip(flat[::2], flat[1::2], strict=False))
    return [(number,) for number in flat]


def _or_none(expression: Expression, worth: Worth) -> Value | None:
    try:
        return worth(expression)
    except LessonError:
        return None


# ----------------------------------------------------------------------------------------------------------------------
# Checks


def fill_check(lesson: Lesson, check: Check, runs: Runs | None, seed: int) -> Asked:
    """A check with its numbers, drawn by the seed; ``missing`` says why where it cannot be asked."""
    draw = _dice(lesson, check, seed)
    try:
        more = _drawn(lesson, check, runs, draw)
        worth = worth_in(lesson, runs, more)
        asked = Asked(
            id=check.id,
            kind=check.kind,
            seed=seed,
            is_practice=check.is_practice,
            ask=fill(check.ask, worth),
            why=fill(check.why, worth),
            hint=fill(check.hint, worth),
            unit=check.unit,
            tolerance=check.tolerance,
            target=check.target,
            seconds=check.seconds,
            reveal=fill(check.reveal, worth),
            points=tuple(fill_line(point, worth) for point in check.points),
        )
        return _with_answer(asked, check, worth, draw)
    except LessonError as error:
        return Asked(check.id, check.kind, seed, check.is_practice, (), missing=error.sentence)


def answered(lesson: Lesson, check: Check, runs: Runs | None, seed: int) -> Worth:
    """What evaluates the claims of a check, with its fresh numbers, its ``answer`` and the known ``mistakes``."""
    return worth_in(lesson, runs, _drawn(lesson, check, runs, _dice(lesson, check, seed)), check.named)


def _dice(lesson: Lesson, check: Check, seed: int) -> random.Random:
    return random.Random(f"{lesson.id}/{check.id}/{seed}")


def _drawn(lesson: Lesson, check: Check, runs: Runs | None, draw: random.Random) -> dict[str, Value]:
    """The fresh numbers and what follows from them."""
    more: dict[str, Value] = {one.name: _draw(one, draw) for one in check.draws}
    scope = _scope_of(lesson, runs)
    for name, expression in check.derived:
        more[name] = evaluate(expression, scope.inside(more))
    return more


def _draw(one: Draw, draw: random.Random) -> Value:
    def drawn() -> Value:
        return draw.choice(one.choices) if one.between is None else draw.randint(*one.between)

    return tuple(drawn() for _ in range(one.count)) if one.count else drawn()


def _with_answer(asked: Asked, check: Check, worth: Worth, draw: random.Random) -> Asked:
    if check.kind == "choose":
        options = [AskedOption(fill_line(o.text, worth), o.right, fill_line(o.why, worth)) for o in check.options]
        draw.shuffle(options)
        return replace(asked, options=tuple(options))
    if check.answer is None:
        return asked
    answer = worth(check.answer)
    if check.kind == "click":
        if not _places(answer, check.target in ("head", "cell")):
            raise LessonError(f"{quoted(answer)} is no place to click.")
        pairs = check.target in ("head", "cell")
        return replace(
            asked,
            answer=answer,
            written=_written_places(answer, check.target),
            accepted=tuple(_places(answer, pairs)),
            values=() if check.values is None else worth(check.values),
        )
    _check_numbers(answer, check)
    mistakes = []
    for mistake in check.mistakes:
        value = worth(mistake.value)
        _check_numbers(value, check)
        if numbers(value) != numbers(answer):  # fresh numbers may make a mistake come out right
            mistakes.append((value, fill_line(mistake.says, worth)))
    written = write(answer, check.unit)
    return replace(asked, answer=answer, written=written, mistakes=tuple(mistakes))


def _check_numbers(value: Value, check: Check) -> None:
    """Refuse an answer, or a mistake, that nobody could type."""
    found = numbers(value)
    if not found or not all(map(math.isfinite, found)):
        raise LessonError(f"{quoted(value)} is no {check.kind} that can be asked for.")


def _written_places(answer: Value, target: str) -> str:
    """Places to click, as a person reads them."""
    if target in ("head", "cell"):
        kind = Head if target == "head" else Cell
        names = [write(kind(*place)) for place in _places(answer, pairs=True)]
    else:
        names = [f"{target} {place[0]}" for place in _places(answer, pairs=False)]
    return names[0] if len(names) == 1 else " or ".join(names)
