"""Reads a lesson file: TOML to a :class:`~app.lessons.plan.Lesson`, with line and reason for all that is wrong in it.

Keys are tables here, not branches: what a table may hold is listed once, and a key that is not listed is refused with
the nearest that is. Expressions are checked against the engine's table of functions, and those that need no model are
evaluated, so that a lesson which loads can be told.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from ropewalk.app.lessons.checks import unit_of
from ropewalk.app.lessons.claims import WAYS, counts, figures, named, quoted, stamp, states_nothing, tidy, ways
from ropewalk.app.lessons.models import ModelReader, read_config
from ropewalk.app.lessons.plan import (
    HIGHLIGHTS,
    INTERVENTIONS,
    PANELS,
    SELECTABLE,
    STATISTICS,
    TOGGLES,
    Check,
    CheckKind,
    Claim,
    Counted,
    Draw,
    HighlightDraft,
    InterventionDraft,
    Lesson,
    Line,
    Mistake,
    Option,
    PlayWhat,
    Problem,
    SceneDraft,
    Step,
    Target,
)
from ropewalk.app.lessons.table import LessonFileError, Table, check_size
from ropewalk.app.lessons.toml_lines import MOST_NAMES, TomlLines, line_in
from ropewalk.app.survey_folders import BUNDLED, bundled_statistics
from ropewalk.model.challenges.challenge import CHALLENGES
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import RopewalkError
from ropewalk.model.ledger.walk import STEPS
from ropewalk.model.lessons.bounds import bounded
from ropewalk.model.lessons.evaluation import ALWAYS, Scope, check, evaluate, is_measured
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, calls, names, read_expression
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.table import TABLE
from ropewalk.model.lessons.text import Hole, Text, holes, holes_of, read_line, read_text
from ropewalk.model.lessons.values import UNITS, Value

Result = TypeVar("Result")

MAIN = "main"
MOST_PANELS = 3
MOST_DRAWN = 1_000
MOST_HOLES = 200
"""Expressions in a text."""
LONG_KEY = re.compile(rf"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){{{MOST_NAMES}}}""")
NAME = re.compile(r"[A-Za-z_]\w*\Z")
LESSON_KEYS = ("number", "title", "about", "minutes", "given", "let", "configs", "model", "models", "step", "read")
STEP_KEYS = (
    "title", "text", "notes", "look_at", "model", "prompt", "show", "select", "decode", "try", "toggle", "highlight",
    "play", "training", "survey", "walk", "challenge", "claims", "tells", "read", "check",
)  # fmt: skip
CHECK_KEYS = ("id", "kind", "ask", "why", "hint", "draw", "derive", "claims")
KIND_KEYS: Mapping[CheckKind, tuple[str, ...]] = {
    "choose": ("options",),
    "number": ("answer", "unit", "tolerance", "mistakes"),
    "shape": ("answer", "mistakes"),
    "click": ("answer", "target", "values"),
    "say": ("seconds", "reveal", "points"),
}


def read_lesson(source: str, path: Path) -> Lesson:
    """Read a lesson from the text of its file.

    Raises
    ------
    LessonFileError
        For the first thing that is wrong, with its line.
    """
    lines = TomlLines(source)
    if long := LONG_KEY.search(source):  # each of its names costs Python's parser all those before it
        line = source.count("\n", 0, long.start()) + 1
        raise LessonFileError(line, f"a key has more than {MOST_NAMES} names.", path.name)
    try:
        data = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        reason = re.sub(r"\s*\(at .*\)\Z", "", message)
        raise LessonFileError(line_in(message, len(lines.lines)), f"{reason}.", path.name) from error
    except RecursionError as error:
        raise LessonFileError(1, "lists or tables lie in one another too deeply to be read.", path.name) from error
    try:
        check_size(data, (), lines)
        return _Reader(data, lines, path).lesson()
    except LessonFileError as error:
        raise LessonFileError(error.line, error.why, path.name) from error


class _Reader:
    """Reads one file from the outside in."""

    def __init__(self, data: Mapping[str, Any], lines: TomlLines, path: Path) -> None:
        self.top = Table(data, (), lines, "A lesson")
        self.path = path
        self.scope = Scope()
        self.models: dict[str, LessonModel] = {}
        self.unclaimed: list[Problem] = []
        self.unread: list[Problem] = []

    def lesson(self) -> Lesson:
        top = self.top
        top.only(LESSON_KEYS)
        self._stamped(top, "step")
        configs = {name: read_config(top.inner("configs").inner(name)) for name in top.inner("configs").values}
        given = self._given(top.inner("given"))
        self.scope = Scope(given, configs)
        reader = ModelReader(configs)
        self.models = {MAIN: reader.read(MAIN, top.inner("model"))}
        named = top.inner("models")
        for name in named.values:
            self._check_name(named, name)
            self.models[name] = reader.read(name, named.inner(name))
        sized = {name: model.config for name, model in self.models.items() if model.config is not None}
        lets: dict[str, Expression] = {}
        self.scope = Scope(given, configs | sized, frozenset(self.models), lets)
        for name in top.inner("let").values:
            self._check_name(top.inner("let"), name)
            lets[name] = self._expression(top.inner("let"), name)  # from here on it is known by its name
        return Lesson(
            id=self.path.stem,
            number=top.whole("number", 99),
            title=top.text("title"),
            about=top.text("about"),
            minutes=top.whole("minutes", least=1),
            steps=self._steps(),
            models=self.models,
            given=given,
            lets=dict(self.scope.lets),
            configs=dict(self.scope.configs),
            path=self.path,
            unclaimed=tuple(self.unclaimed),
            unread=tuple(self.unread),
        )

    # What is given ----------------------------------------------------------------------------------------------------

    def _check_name(self, table: Table, name: str) -> None:
        taken = (
            name in self.scope.given
            or name in self.scope.lets
            or name in self.scope.configs
            or name in self.models
            or name in ALWAYS
        )
        if NAME.match(name) is None or taken or name in KNOWN:
            why = "stands for something already" if NAME.match(name) else "is no name: letters, digits and _ only"
            raise table.broken(f"{name!r} {why}.", name)

    def _given(self, table: Table) -> dict[str, Value]:
        given: dict[str, Value] = {}
        for name, value in table.values.items():
            self._check_name(table, name)
            given[name] = self._bounded(table, name, value)
        return given

    def _bounded(self, table: Table, key: str, value: Any) -> Value:
        """What is given, unless it is too large."""
        return self._try(table, key, "", lambda: bounded(self._plain(table, key, value), key))

    def _plain(self, table: Table, key: str, value: Any) -> Value:
        """A number, a text or a list of them."""
        if isinstance(value, list):
            return tuple(self._plain(table, key, item) for item in value)
        if isinstance(value, bool | int | float | str):
            return value
        raise table.broken(f"{key} holds {value!r:.60}, but only numbers, texts and lists can be given.", key)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        tables = self.top.tables("step")
        if not tables:
            raise self.top.broken("A lesson has at least one [[step]].")
        steps: list[Step] = []
        scene = SceneDraft(MAIN, self.models[MAIN].prompt, ())
        seen: set[str] = set()
        for table in tables:
            table.only(STEP_KEYS)
            self._stamped(table)
            before, scene = scene, self._scene(table, scene)
            checks = tuple(self._check(one, seen) for one in table.tables("check"))
            claims, counted = self._claims(table, before, scene, checks)
            steps.append(
                Step(
                    title=self._line(table, "title"),
                    text=self._text(table, "text"),
                    scene=scene,
                    notes=self._text(table, "notes", ""),
                    look_at=self._line(table, "look_at", ""),
                    checks=checks,
                    challenge=table.one_of("challenge", ("", *CHALLENGES), ""),
                    claims=claims,
                    counted=tuple(counted),
                )
            )
        return tuple(steps)

    def _scene(self, table: Table, before: SceneDraft) -> SceneDraft:
        """What a step shows: model, prompt and panels stay those of the step before unless it says otherwise."""
        model = table.one_of("model", self.models, before.model)
        stays = model == before.model
        prompt = table.text("prompt", before.prompt if stays else self.models[model].prompt)
        panels = table.words("show") or before.panels
        if not 1 <= len(panels) <= MOST_PANELS:
            raise table.broken(f"A step shows one to {MOST_PANELS} panels, not {len(panels)}.", "show")
        for panel in panels:
            if panel not in PANELS:
                raise table.broken(f"There is no panel {panel!r}; there are {', '.join(PANELS)}.", "show", panel)
        play: Any = table.one_of("play", get_args(PlayWhat), "")
        training = table.inner("training")
        training.only(("statistic", "step"))
        survey = table.inner("survey")
        survey.only(("of", "statistic"))
        of = survey.one_of("of", BUNDLED) if table.has("survey") else ""
        return SceneDraft(
            model=model,
            prompt=prompt,
            panels=panels,
            select=self._selected(table.inner("select")),
            decoded=table.whole("decode", 0),
            interventions=tuple(self._intervention(one) for one in table.tables("try")),
            toggles=frozenset(self._toggle(table, name) for name in table.words("toggle")),
            highlights=self._highlights(table.inner("highlight")),
            play=play,
            statistic=training.one_of("statistic", ("", *STATISTICS), ""),
            checkpoint=self._expression(training, "step") if training.has("step") else None,
            survey=of,
            surveyed=survey.one_of("statistic", bundled_statistics(of)) if of else "",
            walk=table.one_of("walk", ("", *STEPS), ""),
        )

    def _toggle(self, table: Table, name: str) -> str:
        if name not in TOGGLES:
            raise table.broken(f"There is no switch {name!r}; there are {', '.join(TOGGLES)}.", "toggle", name)
        return name

    def _selected(self, table: Table) -> tuple[tuple[str, Expression], ...]:
        table.only(SELECTABLE)
        return tuple((name, self._expression(table, name)) for name in table.values)

    def _intervention(self, table: Table) -> InterventionDraft:
        kind = table.one_of("kind", INTERVENTIONS)
        allowed = tuple(field.name for field in fields(INTERVENTIONS[kind]))
        table.only(("kind", *allowed))
        return InterventionDraft(
            kind, tuple((name, self._expression(table, name)) for name in allowed if table.has(name))
        )

    def _highlights(self, table: Table) -> tuple[HighlightDraft, ...]:
        table.only(HIGHLIGHTS)
        found = []
        for name in table.values:
            what, panel = HIGHLIGHTS[name]
            value = table.values[name]
            places = value if isinstance(value, list) else [value]
            found.append(HighlightDraft(panel, what, tuple(self._place(table, name, what, place) for place in places)))
        return tuple(found)

    def _place(self, table: Table, key: str, what: str, value: Any) -> Expression:
        """A place to highlight: a ledger row by its key, else an expression or numbers."""
        if what == "rows" and isinstance(value, str):
            return Constant(value)
        return self._read(table, key, value)

    # Claims -----------------------------------------------------------------------------------------------------------

    def _claims(
        self, table: Table, before: SceneDraft, scene: SceneDraft, checks: tuple[Check, ...]
    ) -> tuple[tuple[Claim, ...], list[Counted]]:
        """What decides the texts of a step, and what they count; what nothing decides is noted."""
        stated = [*_stated(table), *([(self.top, "about", self.top.text("about"))] if table.place[-1] == 0 else [])]
        replies = [reply for asked in table.tables("check") for reply in _replies(asked)]
        told = [tidy(text) for _, _, text in (*stated, *replies)]
        outer, self.scope = self.scope, self.scope.inside(lets=scene.named(self.models))
        claims = tuple(self._claim(one, told) for one in table.tables("claims"))
        self.scope = outer
        deciding = [
            (tidy(quote), claim)
            for claim in (*claims, *(claim for check in checks for claim in check.claims))
            for quote in claim.says
        ]
        quotes = [*(quote for quote, _ in deciding), *self._tells(table, told)]
        counted: list[Counted] = []
        for place, key, text in stated:
            for sentence, is_covered, touching in quoted(text, quotes):
                if not is_covered:
                    self._note(place, key, sentence, "no claim decides")
                used = [deciding[of][1] for of in touching if of < len(deciding)]
                counted += self._compared(place, key, sentence, used)
        for place, key, text in replies:
            used = [claim for quote, claim in deciding if quote == tidy(text)]
            if not used:
                self._note(place, key, text, "no claim holds as one what is said to which answer:")
            counted += self._compared(place, key, place.text(key), used)
        for name in sorted(scene.new_in(before, self.models) - _used(claims)):
            self._note(table, "title", name, "no claim decides what is on screen:")
        for option in (option for asked in table.tables("check") for option in asked.tables("options")):
            text, is_right = option.text("text"), option.values.get("right") is True
            if (tidy(text) in quotes) != is_right:
                why = "no claim decides that it is right to say" if is_right else "a claim holds the wrong option"
                self._note(option, "text", text, why)
        return claims, counted

    def _compared(self, place: Table, key: str, sentence: str, used: list[Claim]) -> Iterator[Counted]:
        """What a sentence counts; noted is that no claim on it compares as it does, or names what it fills in."""
        for way in ways(sentence) if used else ():
            if not any(call.function in WAYS[way][1] for claim in used for one in claim.holds for call in calls(one)):
                self._note(place, key, sentence, f"it says that something is {way}, but no claim compares so:")
        measured = self.scope.lets.keys() | self.scope.configs.keys() | self.models.keys() | KNOWN.keys()
        for name in sorted((named(sentence) & measured) - _used(tuple(used))) if used else ():
            self._note(place, key, sentence, f"{name} is filled in, but no claim says anything of it:")
        numbers = counts(sentence) - figures(sentence)
        if numbers and used:
            yield Counted(sentence, place.broken("", key, sentence[:12]).line, numbers, tuple(used))

    def _tells(self, table: Table, told: list[str]) -> Iterator[str]:
        """What only asks, or tells somebody to do something: it states nothing, but is held to its words."""
        for sentence in map(tidy, table.words("tells")):
            if not any(sentence in text for text in told):
                raise table.broken(f"No text of this step says {sentence!r}; write it as it stands.", "tells", sentence)
            if not states_nothing(sentence):
                self._note(table, "tells", sentence, "a claim has to decide what is presumed in")
            yield sentence

    def _note(self, place: Table, key: str, sentence: str, why: str) -> None:
        line = place.broken("", key, sentence[:12]).line
        self.unclaimed.append(Problem(self.path, line, f"{why} “{sentence}”"))

    def _stamped(self, table: Table, *below: str) -> None:
        """Note that a table is no longer, or not yet, as somebody read it against its claims."""
        now = stamp({key: value for key, value in table.values.items() if key not in ("read", *below)})
        if table.text("read", "") != now:
            why = f'nobody has read this against its claims as it stands; whoever has writes read = "{now}"'
            beside = "".join(f"\n    {claim}" for claim in _beside(table.values))
            self.unread.append(Problem(self.path, table.broken("", "read").line, why + beside))

    def _claims_of_check(self, table: Table, read: Check) -> tuple[Claim, ...]:
        """What decides the texts, the answer and the known mistakes of a check, for whatever is drawn."""
        told = [tidy(text) for _, _, text in (*_stated_by(table), *_replies(table))]
        claims = tuple(self._claim(one, told) for one in table.tables("claims"))
        for name in sorted(read.named.keys() - _used(claims)):
            self._note(table, "ask", tidy(table.text("ask")), f"no claim decides the {name} of")
        return claims

    def _claim(self, table: Table, told: list[str]) -> Claim:
        table.only(("says", "holds"))
        says = table.words("says") if isinstance(table.values.get("says"), list) else (table.text("says"),)
        for quote in says:
            if not tidy(quote) or not any(tidy(quote) in text for text in told):
                raise table.broken(f"No text of this step says {quote!r}; quote it as it stands there.", "says", quote)
        holds = table.values.get("holds", [])
        expressions = [self._comparison(table, one) for one in (holds if isinstance(holds, list) else [holds])]
        if not says or not expressions:
            raise table.broken("A claim says a piece of the text, and names what holds if it is so.")
        return Claim(says, tuple(expressions), table.broken("", "says", says[0]).line)

    def _comparison(self, table: Table, source: Any) -> Expression:
        """An expression that gives true or false."""
        expression = self._read(table, "holds", source)
        if isinstance(expression, Call) and TABLE[expression.function].result == "bool":
            return expression
        raise table.broken(
            f"{source!r:.60} is no comparison; write one such as less(1, 2).",
            "holds",
            source if isinstance(source, str) else "",
        )

    # Checks -----------------------------------------------------------------------------------------------------------

    def _check(self, table: Table, seen: set[str]) -> Check:
        kind: Any = table.one_of("kind", get_args(CheckKind))
        table.only((*CHECK_KEYS, *KIND_KEYS[kind]))
        name = table.text("id")
        if name in seen:
            raise table.broken(f"Two checks of this lesson are called {name!r}.", "id")
        seen.add(name)
        outer = self.scope
        draws = self._draws(table.inner("draw"))
        self.scope = outer.inside({draw.name: _sample(draw) for draw in draws})
        derived = self._derived(table.inner("derive"))
        try:
            read = Check(
                id=name,
                kind=kind,
                ask=self._text(table, "ask"),
                why=self._text(table, "why", "" if kind in ("choose", "say") else None),
                hint=self._text(table, "hint", ""),
                draws=draws,
                derived=derived,
                **self._of_kind(table, kind),
            )
            self.scope = self.scope.inside(lets=read.named)
            return replace(read, claims=self._claims_of_check(table, read))
        finally:
            self.scope = outer

    def _draws(self, table: Table) -> tuple[Draw, ...]:
        draws = []
        for name, value in table.values.items():
            self._check_name(table, name)
            if isinstance(value, dict):
                draws.append(self._range(table.inner(name), name))
            elif isinstance(value, list) and value:
                draws.append(Draw(name, tuple(self._bounded(table, name, item) for item in value)))
            else:
                raise table.broken(f"{name} is drawn from {value!r:.60}, but it must be a list of choices.", name)
        return tuple(draws)

    def _range(self, table: Table, name: str) -> Draw:
        table.only(("from", "to", "count"))
        start, stop = (table.values.get(key) for key in ("from", "to"))
        if not isinstance(start, int) or not isinstance(stop, int) or start >= stop:
            raise table.broken(
                f"{name} is drawn from {start!r} to {stop!r}, but the first must be the smaller.", "from"
            )
        return Draw(name, between=(start, stop), count=table.whole("count", 0, most=MOST_DRAWN))

    def _derived(self, table: Table) -> tuple[tuple[str, Expression], ...]:
        """What follows from the draws; each may use those before it."""
        found = []
        for name in table.values:
            self._check_name(table, name)
            expression = self._expression(table, name)
            found.append((name, expression))
            worth = evaluate(expression, self.scope) if not is_measured(expression, self.scope) else 0
            self.scope = self.scope.inside({name: worth})
        return tuple(found)

    def _of_kind(self, table: Table, kind: CheckKind) -> dict[str, Any]:
        if kind == "choose":
            return {"options": self._options(table)}
        if kind == "say":
            points = tuple(self._as_line(table, "points", point) for point in table.words("points"))
            if not points:
                raise table.broken("A check to say aloud has points to mark oneself by.")
            return {
                "seconds": table.whole("seconds", least=5),
                "reveal": self._text(table, "reveal"),
                "points": points,
            }
        found: dict[str, Any] = {"answer": self._expression(table, "answer")}
        if kind == "click":
            found["target"] = table.one_of("target", get_args(Target))
            found["values"] = self._expression(table, "values") if table.has("values") else None
            return found
        found["mistakes"] = tuple(self._mistake(one) for one in table.tables("mistakes"))
        if kind == "number":
            found["unit"] = self._unit(table)
            found["tolerance"] = self._tolerance(table)
        return found

    def _unit(self, table: Table) -> str:
        """The unit of an answer, which its question has to name."""
        unit: str = table.one_of("unit", ("", *UNITS), "")
        words = re.findall(r"[%\w]+", str(table.values.get("ask", "")))
        if unit and unit not in (unit_of(word) for word in words):
            raise table.broken(f"The answer is read in {unit}, but the question does not name that unit.", "unit")
        return unit

    def _tolerance(self, table: Table) -> float | None:
        value = table.values.get("tolerance")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise table.broken(f"tolerance is {value!r:.60}, but it must be a relative error from 0 to 1.", "tolerance")
        return float(value)

    def _options(self, table: Table) -> tuple[Option, ...]:
        options = []
        for one in table.tables("options"):
            one.only(("text", "right", "why"))
            right = one.values.get("right", False)
            if not isinstance(right, bool):
                raise one.broken(f"right is {right!r:.60}, but it must be true or false.", "right")
            options.append(Option(self._line(one, "text"), right, self._line(one, "why")))
        if len(options) < 2 or sum(option.right for option in options) != 1:
            raise table.broken(
                "A choice has at least two options, and exactly one of them has right = true.", "options"
            )
        return tuple(options)

    def _mistake(self, table: Table) -> Mistake:
        table.only(("value", "says"))
        return Mistake(self._expression(table, "value"), self._line(table, "says"))

    # Texts and expressions --------------------------------------------------------------------------------------------

    def _text(self, table: Table, key: str, default: str | None = None) -> Text:
        source = table.text(key, default)
        read = self._try(table, key, source, lambda: read_text(source))
        found = tuple(holes(read))
        if len(found) > MOST_HOLES:
            raise table.broken(f"{key} has {len(found)} expressions, more than {MOST_HOLES}.", key)
        for hole in found:
            self._check_hole(table, key, hole)
        return read

    def _line(self, table: Table, key: str, default: str | None = None) -> Line:
        return self._as_line(table, key, table.text(key, default))

    def _as_line(self, table: Table, key: str, source: str) -> Line:
        line = self._try(table, key, source, lambda: read_line(source.strip()))
        for hole in holes_of(line):
            self._check_hole(table, key, hole)
        return line

    def _check_hole(self, table: Table, key: str, hole: Hole) -> None:
        self._try(table, key, hole.source, lambda: self._proved(hole.expression))

    def _expression(self, table: Table, key: str) -> Expression:
        if not table.has(key):
            raise table.broken(f"{table.what} has no {key}.")
        return self._read(table, key, table.values[key])

    def _read(self, table: Table, key: str, value: Any) -> Expression:
        """An expression in quotes, a number, or a list of them."""
        if isinstance(value, str):
            expression = self._try(table, key, value, lambda: read_expression(value))
            self._try(table, key, value, lambda: self._proved(expression))
            return expression
        if isinstance(value, bool | int | float):
            return Constant(value)
        if isinstance(value, list):
            return Items(tuple(self._read(table, key, item) for item in value))
        raise table.broken(f"{key} is {value!r:.60}, but it must be an expression in quotes, a number or a list.", key)

    def _proved(self, expression: Expression) -> None:
        """Check an expression, and evaluate it where that needs no model."""
        check(expression, self.scope)
        if not is_measured(expression, self.scope):
            evaluate(expression, self.scope)

    @staticmethod
    def _try(table: Table, key: str, needle: str, act: Callable[[], Result]) -> Result:
        """Do something, and point to a text in the file when it fails."""
        try:
            return act()
        except LessonFileError:
            raise
        except RopewalkError as error:
            raise table.broken(error.sentence, key, _quoted(error.sentence, needle)) from error


def _used(claims: tuple[Claim, ...]) -> set[str]:
    """The names that claims say something of."""
    return {name for claim in claims for holds in claim.holds for name in names(holds)}


def _stated(table: Table) -> Iterator[tuple[Table, str, str]]:
    """Every text of a step that states something: the table, the key and the text."""
    yield from ((table, key, table.text(key, "")) for key in ("title", "look_at", "text", "notes"))
    for asked in table.tables("check"):
        yield from _stated_by(asked)


def _stated_by(asked: Table) -> Iterator[tuple[Table, str, str]]:
    """Every text of a check that states something."""
    yield from ((asked, key, asked.text(key, "")) for key in ("ask", "why", "hint", "reveal"))
    yield from ((asked, "points", point) for point in asked.words("points"))
    yield from ((one, "text", one.text("text")) for one in asked.tables("options") if one.values.get("right") is True)


def _replies(asked: Table) -> Iterator[tuple[Table, str, str]]:
    """What is said to each option and to each known mistake, after what it is said to."""
    for key, to, says in (("options", "text", "why"), ("mistakes", "value", "says")):
        yield from ((one, says, f"{one.values.get(to)} → {one.text(says, '')}") for one in asked.tables(key))


def _quoted(sentence: str, needle: str) -> str:
    """The text that a sentence quotes, if the file has it; else the needle."""
    for piece in re.findall(r"'([^']+)'", sentence):
        if len(piece) > 3 and piece in needle:
            return str(piece)
    return needle


def _sample(draw: Draw) -> Value:
    """One value that a draw may give, to try expressions with."""
    if draw.between is None:
        middle = draw.choices[len(draw.choices) // 2]
    else:
        middle = draw.between[0] + (draw.between[1] + 1 - draw.between[0]) // 2
    return (middle,) * draw.count if draw.count else middle


def _beside(values: Mapping[str, Any]) -> Iterator[str]:
    """What is said in a table and in the checks inside it, each piece with what decides it, for whoever reads them."""
    for claim in _dicts(values.get("claims")):
        said, held = (one if isinstance(one, list) else [one] for one in (claim.get("says"), claim.get("holds")))
        yield f"{' | '.join(map(str, said))}  ←  {' and '.join(map(str, held))}"
    for asked in _dicts(values.get("check")):
        yield from _beside(asked)


def _dicts(value: object) -> list[dict[str, Any]]:
    """The tables in what should be a list of them; what is wrong with others is said elsewhere."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
