"""The exceptions that the model package raises.

Every message is one plain sentence for the person in front of the window: what was found, what was expected, and what
to do.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_QUOTE = 200
"""Characters of what a file says that a sentence repeats at most."""
LONGEST_SENTENCE = 1200
LONGEST_DETAILS = 1 << 16
ENDLESS = re.compile(rf"(\S{{{LONGEST_QUOTE}}})\S*?[^\s'\")\].,;:?!](['\")\]]*[.,;:?!]*)(?=\s|$)")


class RopewalkError(Exception):
    """Anything Ropewalk can explain in a sentence.

    ``details`` may hold what is folded under it, ``offers`` interventions under which it would work; ``confirm`` says
    that it is done after all where a person confirms it.
    """

    offers: tuple[Any, ...] = ()
    confirm: bool = False

    def __init__(self, sentence: str, details: str = "") -> None:
        self.sentence = shortened(sentence)
        super().__init__(self.sentence)
        self.details = details[:LONGEST_DETAILS]


class ConfigError(RopewalkError):
    """A model description that contradicts itself, with both numbers in the message."""


class ShapeError(RopewalkError):
    """A tensor whose shape contradicts the config, with both shapes in the message."""


class PositionError(RopewalkError):
    """A position past the limit of the model."""


class PromptError(RopewalkError):
    """A prompt that cannot be run: empty, too long, or not encodable."""


class TooLongError(PromptError):
    """A run that goes past the model's positions."""

    def __init__(self, sentence: str, offers: tuple[Any, ...]) -> None:
        super().__init__(sentence)
        self.offers = offers


class DeviceError(RopewalkError):
    """A device or dtype that is not there."""


class CheckpointError(RopewalkError):
    """A file that cannot be opened as a checkpoint."""


class UnknownFamilyError(CheckpointError):
    """A checkpoint of a family that Ropewalk does not open."""


class MemoryBudgetError(RopewalkError):
    """A run that would take more memory than there is."""


class HookError(RopewalkError):
    """A hook point that does not exist or may not be changed."""


class AttentionError(RopewalkError):
    """A call that the attention kernel would crash on or silently answer wrongly."""


class TraceError(RopewalkError):
    """A question a trace cannot answer, such as a row beyond its end."""


class OtherCheckpointError(TraceError):
    """A checkpoint that is not the one a run was made with, as far as can be told."""

    confirm = True


class TokenizerError(RopewalkError):
    """Text that a tokenizer cannot encode, or a tokenizer that cannot be read."""


class ChatError(RopewalkError):
    """A chat template that cannot be applied to a prompt."""


class TrainingError(RopewalkError):
    """A training run that cannot start or go on."""


class InterventionError(RopewalkError):
    """An intervention that names something the model does not have."""


class SurveyError(RopewalkError):
    """A survey that cannot be run or read: no texts, another survey in its folder, a library that is not there."""


class LessonError(RopewalkError):
    """A lesson file, or an expression in one, that cannot be used."""


class ChallengeError(RopewalkError):
    """A build challenge that cannot be run: no such challenge, no such file."""


class Cancelled(RopewalkError):
    """The person cancelled; nothing is wrong."""

    def __init__(self) -> None:
        super().__init__("Cancelled.")


def shortened(sentence: str) -> str:
    """A sentence on one line, without the rest of what a file says at length: the one place that shortens."""
    sentence = " ".join(sentence.splitlines())
    if len(sentence) <= LONGEST_QUOTE:
        return sentence
    sentence = ENDLESS.sub(r"\1…\2", sentence)
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    return f"{sentence[: LONGEST_SENTENCE - LONGEST_QUOTE]} … {sentence[3 - LONGEST_QUOTE :]}"


def quoted(name: str) -> str:
    """What a file or something in it is called, as it can stand in a sentence: on one line, and not at length."""
    text = "".join(letter if letter.isprintable() else " " for letter in name)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def unforeseen(error: BaseException, doing: str = "") -> str:
    """Put an exception that nobody foresaw into one sentence; ``doing`` is what was going on, such as a job's name."""
    cause = quoted(str(error).strip().split("\n")[0]).rstrip(".") or "no message"
    during = f" while {doing[0].lower()}{doing[1:]}" if doing else ""
    if isinstance(error, MemoryError):
        return f"Memory ran out{during}; close other programs, or ask for less."
    return f"Something unforeseen went wrong{during}: {cause} ({type(error).__name__})."
