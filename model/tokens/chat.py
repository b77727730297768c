"""Chat templates: the text that a model was taught to read a conversation in.

A template comes with a checkpoint and is a program, so it is rendered in a process of its own
(``model.tokens.chat_child``) that may be ended at any time: a loop without end, a gigabyte of spaces or a way out of
the sandbox stay there.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ropewalk.model.child_process import child_command
from ropewalk.model.errors import ChatError
from ropewalk.model.progress import Progress, Steps

POLL = 0.02
"""Seconds that the engine waits at a time."""
STAY = "switch the template off to run the text as it is"


@dataclass(frozen=True)
class ChatTemplate:
    """One template of a checkpoint.

    Attributes
    ----------
    source
        Its Jinja.
    name
        What the checkpoint calls it; most have one, the ``default``.
    tokens
        What it may name: ``bos_token``, ``eos_token`` and so on, as they are spelled in a text.
    """

    source: str
    name: str = "default"
    tokens: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What a template may take.

    Attributes
    ----------
    seconds
        Until it is stopped, the start of its process included.
    memory
        MiB of address space beyond what its process starts with.
    characters
        Of text beyond what it is given.
    """

    seconds: float = 10.0
    memory: int = 256
    characters: int = 100_000


def conversation(user: str, system: str = "") -> tuple[dict[str, str], ...]:
    """One turn of a person, after a system line if there is one."""
    turn = {"role": "user", "content": user}
    return ({"role": "system", "content": system}, turn) if system else (turn,)


def rendered_steps(
    template: ChatTemplate, messages: Sequence[Mapping[str, str]], limits: Limits | None = None
) -> Steps[str]:
    """Render a conversation up to where the model is to answer, pausing while the other process works.

    Parameters
    ----------
    messages
        Turns, each with a ``role`` and its ``content``.

    Raises
    ------
    ChatError
        When the template cannot be read, refuses the conversation, or takes more than its limits.
    """
    limits = limits or Limits()
    request = {
        "source": template.source,
        "variables": {**template.tokens, "messages": list(messages), "add_generation_prompt": True},
        "characters": limits.characters + sum(len(turn["content"]) for turn in messages),
        "memory": limits.memory,
    }
    until = time.monotonic() + limits.seconds
    with subprocess.Popen(
        child_command("model.tokens.chat_child"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            given: bytes | None = json.dumps(request).encode()  # escapes whatever has no UTF-8
            while True:
                yield Progress(0, 1, "Applying the chat template")
                try:
                    answer, _ = process.communicate(given, timeout=POLL)
                    break
                except subprocess.TimeoutExpired:
                    given = None
                if time.monotonic() > until:
                    raise ChatError(
                        f"The chat template ran for more than {limits.seconds:g} seconds and was stopped; {STAY}."
                    )
        finally:
            process.kill()
    return _text(answer, process.returncode)


def _text(answer: bytes, status: int) -> str:
    """What the other process says, or why it says nothing."""
    try:
        reply = json.loads(answer)
    except ValueError as error:
        raise ChatError(
            f"The chat template took its process down ({_ending(status)}), so it was not applied; {STAY}."
        ) from error
    if "why" in reply:
        raise ChatError(f"{reply['why']}; {STAY}.", reply["details"])
    return str(reply["text"])


def _ending(status: int) -> str:
    """How a process ended, in words."""
    if status < 0:
        with suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"
