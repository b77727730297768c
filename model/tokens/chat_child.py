"""The process that renders a chat template: reads what to render from stdin, writes the text or the reason to stdout.

Started by ``model.tokens.chat``. The environment is the one transformers gives a template, so that the same text comes
out: an immutable sandbox with trimmed blocks, ``raise_exception``, ``strftime_now``, a ``tojson`` that escapes no
markup, and the ``generation`` tag.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEBI = 1 << 20
MOST_SHOWN = 200
"""Characters of a template's own words that are handed on."""


class Refusal(TemplateError):
    """What a template raises itself."""


class TooLongError(Exception):
    """A template that does not stop writing."""


class Generation(Extension):
    """``{% generation %}`` marks what the model said; here the mark is passed over."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """Keep what stands between the marks, in a scope of its own."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def main() -> None:
    """Render one template."""
    request = json.load(sys.stdin)
    _limit_address_space(request["memory"] * MEBI)
    json.dump(answer(request["source"], request["variables"], request["characters"]), sys.stdout)


def answer(source: str, variables: dict[str, Any], most: int) -> dict[str, str]:
    """The ``text``, or ``why`` there is none with the ``details``."""
    try:
        return {"text": render(source, variables, most)}
    except Refusal as error:
        return _refused(f"The chat template refuses this prompt: {_short(error)}", error)
    except TemplateSyntaxError as error:
        why = f"The chat template has a mistake in line {error.lineno} ({_short(error)}), so it was not applied"
        return _refused(why, error)
    except SecurityError as error:
        return _refused(f"The chat template did what a template may not ({_short(error)}) and was stopped", error)
    except TooLongError as error:
        return _refused(f"The chat template wrote more than {most:,} characters and was stopped", error)
    except MemoryError as error:
        return _refused("The chat template asked for more memory than it may have and was stopped", error)
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return _refused(f"The chat template cannot be applied here ({_short(error)})", error)


def render(source: str, variables: dict[str, Any], most: int) -> str:
    """Render with what transformers offers a template.

    Raises
    ------
    TooLongError
        Past ``most`` characters.
    """
    pieces: list[str] = []
    size = 0
    for piece in environment().from_string(source).generate(**variables):
        size += len(piece)
        if size > most:
            raise TooLongError
        pieces.append(piece)
    return "".join(pieces)


def environment() -> ImmutableSandboxedEnvironment:
    """What a template finds around it."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = _now
    return made


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own would write ``<`` as an escape."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: object) -> NoReturn:
    raise Refusal(str(message))


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _short(error: BaseException) -> str:
    """The first line of what an exception says, without its full stop."""
    lines = str(error).strip().splitlines()
    sentence = lines[0].rstrip(".") if lines else type(error).__name__
    return sentence if len(sentence) <= MOST_SHOWN else f"{sentence[:MOST_SHOWN]}…"


def _refused(why: str, error: BaseException) -> dict[str, str]:
    return {"why": why, "details": f"{type(error).__name__}: {error}"[: 10 * MOST_SHOWN]}


def _limit_address_space(beyond: int) -> None:
    """Where the system can: let an allocation past the limit fail at once."""
    try:
        import resource
    except ImportError:  # Windows has none; the parent's clock is enough
        return
    import psutil

    most = psutil.Process().memory_info().vms + beyond
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
