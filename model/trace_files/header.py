"""What a trace file says of a run beside its tensors: everything that is needed to go on with it.

Each field of :class:`TraceHeader` is a key of the file's metadata, as JSON. Files of Ropewalk 0.1 lack those with a
default. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ropewalk.model.codec import CodecError, stored
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.product_names import BY_TORCH, Products
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import TraceError
from ropewalk.model.options import Option
from ropewalk.model.readings.records import Sampling, TokenKind, TokenText
from ropewalk.model.tokens.prompt import Prompt


@stored("run_id prefill first_logit_row branch products")
@dataclass(frozen=True)
class RunNumbers:
    """The fields of a :class:`~model.runs.trace.Trace` that are no tensors."""

    run_id: int
    prefill: int
    first_logit_row: int
    branch: Branch
    products: Products = BY_TORCH


@stored("name path family fingerprint options bos")
@dataclass(frozen=True)
class Origin:
    """The checkpoint that a run was made with.

    Attributes
    ----------
    fingerprint
        The hash over its files that ``model.fingerprint`` takes; empty where there were none, as of a lesson's toy.
    options
        Answers to what the checkpoint leaves open.
    bos
        What its tokenizer puts before a text.
    """

    name: str = ""
    path: str = ""
    family: str = ""
    fingerprint: str = ""
    options: tuple[tuple[str, Option], ...] = ()
    bos: str = ""


@stored("sampling count")
@dataclass(frozen=True)
class Drawn:
    """How some decoded tokens in a row were drawn."""

    sampling: Sampling
    count: int


@stored("row kind group character")
@dataclass(frozen=True)
class TokenMark:
    """What is to be known of a token beside its text, where it is not ordinary text; as in ``TokenText``."""

    row: int
    kind: TokenKind
    group: int = -1
    character: str = ""


@stored("id text kind")
@dataclass(frozen=True)
class TokenName:
    """How a token is shown that is in no row of the run, but may follow one."""

    id: int
    text: str
    kind: TokenKind = "text"


@dataclass(frozen=True, eq=False)
class About:
    """What is told of a run beside its trace.

    Attributes
    ----------
    tokens
        How its tokens are shown; none where nobody said.
    prompt, rendered
        What was asked for, and what a chat template made of it; None where nobody said.
    drawn
        How each decoded token was drawn.
    candidates
        How the tokens are shown that are the likeliest to follow its rows.
    """

    tokens: Sequence[TokenText] = ()
    prompt: Prompt | None = None
    rendered: str = ""
    drawn: tuple[Sampling, ...] = ()
    origin: Origin | None = None
    candidates: Sequence[TokenText] = ()


NOTHING_TOLD = About()


KEYS = "config specs strings run interventions checkpoint prompt rendered sampling marks candidates"


@stored(KEYS)
@dataclass(frozen=True)
class TraceHeader:
    """What the header of a trace file says; ``strings`` are the tokens as text."""

    config: ModelConfig
    specs: tuple[AttentionSpec, ...]
    strings: tuple[str, ...]
    run: RunNumbers
    interventions: tuple[Intervention, ...] | None = None
    origin: Origin | None = None
    prompt: Prompt | None = None
    rendered: str = ""
    drawn: tuple[Drawn, ...] = ()
    marks: tuple[TokenMark, ...] = ()
    candidates: tuple[TokenName, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the interventions that a file of an earlier Ropewalk has, and no more of them than that."""
        unknown = self.specs if self.interventions is None else ()
        return tuple(dict.fromkeys(name for spec in unknown for name in spec.interventions))

    @property
    def lacks(self) -> tuple[str, ...]:
        """What a file of an earlier Ropewalk does not say, a sentence each."""
        notes = []
        if self.interventions is None:
            notes.append(
                f"The file names {', '.join(self.changed)}, but not in full, so the run cannot be gone on with."
                if self.changed
                else "The file does not say whether anything was changed in the model; nothing is assumed to be."
            )
        if self.origin is None:
            notes.append("The file does not say which checkpoint it was made with.")
        if self.prompt is None:
            notes.append("The file does not say how its prompt was typed, so its token ids stand for it.")
        return tuple(notes)

    def drawn_tokens(self, decoded: int) -> tuple[Sampling, ...]:
        """How each of the decoded tokens was drawn; none where the file does not say.

        Raises
        ------
        CodecError
            When it says so of more or fewer tokens.
        """
        counts = [one.count for one in self.drawn]
        if counts and (min(counts) < 1 or sum(counts) != decoded):
            raise CodecError(f"sampling is of {sum(counts)} tokens, but {decoded} were decoded")
        return tuple(one.sampling for one in self.drawn for _ in range(one.count))


FITTING = {
    "layers": "layers",
    "heads": "query heads",
    "kv_heads": "kv heads",
    "head_width": "numbers a head",
    "vocabulary": "tokens in its vocabulary",
}
"""What a model and a run have in common, and what a person calls it."""


def check_fits(name: str, config: ModelConfig, run: ModelConfig) -> None:
    """Refuse a model that has other shapes than a run.

    Raises
    ------
    TraceError
        With both numbers.
    """
    for field, what in FITTING.items():
        its, ours = getattr(config, field), getattr(run, field)
        if its != ours:
            raise TraceError(
                f"{name} has {its:,} {what}, but the run was made with {ours:,}; attach the checkpoint that it was "
                "made with."
            )


def stretches(drawn: Iterable[Sampling]) -> tuple[Drawn, ...]:
    """The same as few entries: mostly all tokens are drawn alike."""
    return tuple(Drawn(sampling, len(list(some))) for sampling, some in groupby(drawn))


def marks_of(tokens: Sequence[TokenText]) -> tuple[TokenMark, ...]:
    """What is to be known of tokens beside their texts."""
    return tuple(
        TokenMark(row, token.kind, token.group, token.character)
        for row, token in enumerate(tokens)
        if (token.kind, token.group, token.character) != ("text", -1, "")
    )


def tokens_of(ids: Sequence[int], strings: Sequence[str], marks: Sequence[TokenMark]) -> tuple[TokenText, ...]:
    """How tokens are shown, by their ids where no text was kept.

    Raises
    ------
    CodecError
        When there are texts for other rows than there are.
    """
    if len(strings) not in (0, len(ids)):
        raise CodecError(f"strings has {len(strings)} texts, but the run has {len(ids)} tokens")
    tokens = [
        TokenText(token, text or f"#{token}") for token, text in zip(ids, strings or [""] * len(ids), strict=True)
    ]
    for mark in marks:
        if not 0 <= mark.row < len(tokens):
            raise CodecError(f"marks names row {mark.row}, but the run has {len(tokens)} rows")
        if not -1 <= mark.group < 2**31:  # the columns of token texts hold no more
            raise CodecError(f"marks puts row {mark.row} into group {mark.group}, which is no number of a group")
        one = tokens[mark.row]
        tokens[mark.row] = TokenText(one.id, one.text, mark.kind, mark.group, mark.character)
    return tuple(tokens)
