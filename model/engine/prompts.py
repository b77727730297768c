"""What a prompt is as token ids, for one model: text, typed ids, a chat template around it; and the length it takes.

It is a part of the engine: whoever imports it has torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.rope_scaling import as_run, offers, why_not
from ropewalk.model.engine.running import Opened
from ropewalk.model.errors import ChatError, PromptError, TooLongError
from ropewalk.model.progress import Steps
from ropewalk.model.tokens.chat import conversation, rendered_steps
from ropewalk.model.tokens.prompt import Prompt

IDS = re.compile(r"\s*-?\d+(?:[\s,]+-?\d+)*[\s,]*")
"""What is taken for token ids where a model has no tokenizer."""

LONGEST_TEXT = 10_000_000
"""Characters of a prompt; a context of a million tokens has room."""
LONGEST_ID = 18
"""Digits of a typed id; no vocabulary comes near, and more would not fit into 64 bits."""


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt as token ids, and what a chat template made of it (nothing without one)."""

    prompt: Prompt
    ids: tuple[int, ...]
    rendered: str = ""


def read_prompt(checkpoint: Opened, prompt: Prompt) -> Steps[tuple[list[int], str]]:
    """The ids of a prompt, and what a chat template made of it (nothing without one)."""
    tokenizer = checkpoint.tokenizer
    if len(prompt.text) > LONGEST_TEXT:
        raise PromptError(
            f"The prompt has {len(prompt.text):,} characters, more than the {LONGEST_TEXT:,} that are cut into tokens; "
            "shorten it."
        )
    if prompt.as_ids or not prompt.chat:
        return _ids_of(checkpoint, prompt), ""
    template = None if tokenizer is None else next((one for one in tokenizer.chats if one.name == prompt.chat), None)
    if tokenizer is None or template is None:
        raise ChatError(f"{checkpoint.name} has no chat template named {prompt.chat!r}; run the text as it is.")
    text = yield from rendered_steps(template, conversation(prompt.text, prompt.system))
    ids = list(tokenizer.encode(text, add_special=False, names_special=True))
    if not ids:
        raise ChatError("The chat template writes nothing for this prompt; switch it off to run the text as it is.")
    return _known_ids(checkpoint, ids), text


def _ids_of(checkpoint: Opened, prompt: Prompt) -> list[int]:
    if checkpoint.tokenizer is not None and not prompt.as_ids:
        return _known_ids(checkpoint, list(checkpoint.tokenizer.encode(prompt.text, add_special=prompt.special)))
    if not prompt.text.strip():
        return []
    if IDS.fullmatch(prompt.text) is None:
        why = "Ids were asked for" if checkpoint.tokenizer is not None else f"{checkpoint.name} has no tokenizer"
        why += " that can be read" if checkpoint.unread else ""
        because = f" {checkpoint.unread}" if checkpoint.unread else ""
        raise PromptError(f"{why}, so text cannot be run on it; type token ids such as 1, 2, 3.{because}")
    typed = re.findall(r"-?\d+", prompt.text)
    longest = len(max(typed, key=len).lstrip("-"))
    if longest > LONGEST_ID:
        raise PromptError(f"A token id of {longest} digits was typed, but there is none; separate ids by spaces.")
    return _known_ids(checkpoint, [int(number) for number in typed])


def _known_ids(checkpoint: Opened, ids: list[int]) -> list[int]:
    largest = checkpoint.config.vocabulary - 1
    outside = [token for token in ids if not 0 <= token <= largest]
    if outside:
        raise PromptError(f"Token id {outside[0]} is not there; the ids of this model are 0 to {largest}.")
    return ids


def check_length(config: ModelConfig, tokens: int, interventions: Sequence[Intervention] = ()) -> None:
    """Refuse what has no token, and what the model's positions do not reach.

    Raises
    ------
    PromptError, TooLongError
        The latter with the stretches that would carry it.
    """
    if tokens == 0:
        raise PromptError("The prompt is empty, but a run needs at least one token; type something.")
    limit = as_run(config, interventions).max_position
    if tokens > limit:
        why = why_not(config)
        raise TooLongError(
            f"This would be {tokens} tokens, but the model's positions end after {limit}; make it {tokens - limit} "
            f"shorter{f': {why}' if why else ', or pick a RoPE scaling'}.",
            offers(config, tokens),
        )
