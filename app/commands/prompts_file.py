"""A file of prompts: one on each line, as text or as a JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ropewalk.model.codec import CodecError, from_plain, read_json, stored
from ropewalk.model.engine.interface import ModelHandle
from ropewalk.model.errors import ChatError, PromptError, RopewalkError
from ropewalk.model.limits import regular
from ropewalk.model.tokens.prompt import Prompt

LARGEST = 1 << 26
"""Bytes that such a file may have."""


@stored("text ids chat system special name")
@dataclass(frozen=True)
class PromptLine:
    """One prompt of a file.

    Attributes
    ----------
    text, ids
        What is run: text, or token ids.
    chat, system
        Whether it goes into the checkpoint's chat template, or into which by name; the system line in that.
    special
        Whether the special tokens that belong around text are put there.
    name
        What it is called in the name of a file.
    """

    text: str = ""
    ids: tuple[int, ...] | None = None
    chat: bool | str = False
    system: str = ""
    special: bool = True
    name: str = ""

    def prompt(self, model_handle: ModelHandle) -> Prompt:
        """The prompt as a model takes it.

        Raises
        ------
        ChatError, PromptError
            When a template is missing, or the line contradicts itself.
        """
        if self.ids is not None:
            if self.text or self.chat or self.system:
                raise PromptError("Ids are run as they are; leave text, chat and system out, or leave the ids out.")
            return Prompt.of_ids(self.ids)
        card = model_handle.card
        if not self.chat:
            if self.system:
                raise ChatError('A system line was given, but only a chat template can hold it; add "chat": true.')
            return Prompt(self.text, special=self.special)
        if not card.chats:
            raise ChatError(f"{card.name} has no chat template; leave chat out to run the text as it is.")
        return Prompt(self.text, chat=card.chats[0] if self.chat is True else self.chat, system=self.system)


def read_prompts(path: Path) -> tuple[tuple[int, PromptLine], ...]:
    """The prompts of a file with the numbers of their lines, counted from 1; empty lines are passed over.

    A line that begins with a brace is a JSON object.

    Raises
    ------
    RopewalkError
        When the file cannot be read, holds no prompt, or has a line that is not one.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise RopewalkError(f"{path} has {path.stat().st_size:,} bytes, too many for a file of prompts.")
        lines = regular(path, piped=True).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise RopewalkError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise RopewalkError(f"{path} is not text in UTF-8; save it as that.", str(error)) from error
    found = []
    for number, line in enumerate((one.removesuffix("\r") for one in lines), 1):
        if not line.strip():
            continue
        try:
            one = from_plain(PromptLine, read_json(line)) if line.startswith("{") else PromptLine(line)
        except CodecError as error:
            raise RopewalkError(
                f"Line {number} of {path} begins with a brace, but is no prompt in JSON such as "
                f'{{"text": "to be"}}: {error}.'
            ) from error
        found.append((number, one))
    if not found:
        raise RopewalkError(f"{path} holds no prompt; write one on each line.")
    return tuple(found)
