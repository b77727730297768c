"""Text to ids, ids to text, and ids to what a person should read.

A :class:`Codec` knows one file format: how text becomes ids, and which bytes each id stands for. :class:`Tokenizer`
does the rest from bytes alone, so that byte-level BPE, SentencePiece with byte fallback and whatever comes next are
shown by the same rules.
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from ropewalk.model.errors import RopewalkError, TokenizerError
from ropewalk.model.limits import limited
from ropewalk.model.readings.records import TokenKind, TokenText, TokenTexts, token_text
from ropewalk.model.tokens.added_tokens import named_tokens
from ropewalk.model.tokens.chat import ChatTemplate

END_OF_TEXT = "<|endoftext|>"
"""The special token of a vocabulary made here: it ends a text, and so comes before the next one."""
SYMBOLS = {" ": "·", "\n": "⏎", "\t": "⇥"}
"""How white space is drawn; the symbols themselves, where a text has them, are shown by code point."""
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
"""How SentencePiece spells a byte it has no piece for."""

ENCODING = "The tokenizers library cannot encode this text with this tokenizer; type ids instead."
DECODING = "The tokenizers library cannot decode with this tokenizer; its file is damaged."
MOST_GROWTH = 1000
"""Characters that a file may have written for one: forty replacements that each double a text would fill any memory."""


MOST_AROUND = 10_000
"""Tokens that a post-processor may put around a text: a list of ids may be named any number of times."""


@dataclass(frozen=True)
class Piece:
    """What one id stands for.

    Attributes
    ----------
    data
        Its bytes in a text; for a special token the bytes of its name.
    special
        Whether it stands for no text at all, such as a beginning or an end.
    """

    data: bytes
    special: bool = False


class Codec(Protocol):
    """One tokenizer format."""

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text that is valid Unicode; with the special tokens a model expects, if asked.

        ``names_special`` says that the text itself names special tokens, as a rendered chat does.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids."""
        ...

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        ...

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        ...


class Tokenizer:
    """Text, ids, and tokens as a person reads them.

    Parameters
    ----------
    codec
        The format.
    bos_id, eos_id
        The ids that begin and end a text, None where there is none.
    chats
        The checkpoint's chat templates, the one meant by default first.
    ends
        Other ids that end a text, or a turn of it.
    notes
        What was assumed about the format, in sentences.
    """

    def __init__(
        self,
        codec: Codec,
        bos_id: int | None = None,
        eos_id: int | None = None,
        chats: Sequence[ChatTemplate] = (),
        ends: Iterable[int] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.codec = codec
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.chats = tuple(chats)
        self.ends = frozenset(ends) | ({eos_id} if eos_id is not None else set())
        self.notes = tuple(notes)

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """Read a ``tokenizer.json``, and from the files beside it further tokens and which begin and end a text.

        Raises
        ------
        TokenizerError
            When a file is missing or cannot be understood.
        """
        backend = JsonCodec.from_file(Path(path)).backend
        named = named_tokens(Path(path).parent)
        notes = named.add_to(backend)
        codec = JsonCodec(backend)
        names = (named.special.get(name) for name in ("bos_token", "eos_token"))
        bos, eos = (None if name is None else codec.find(name) for name in names)
        return cls(codec, bos, eos, notes=notes)

    @property
    def vocabulary(self) -> int:
        """How many ids there are. A model may have more: rows of its embedding that no text reaches."""
        return self.codec.size

    def encode(self, text: str, add_special: bool = True, names_special: bool = False) -> list[int]:
        """Turn text into ids.

        Parameters
        ----------
        add_special
            Whether the special tokens that the tokenizer puts around a text are added.
        names_special
            Whether the text names special tokens itself, as a rendered chat does.

        Raises
        ------
        TokenizerError
            For text that has no bytes (half of a surrogate pair) or characters that the vocabulary cannot spell.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TokenizerError(
                f"Character {error.start + 1} of the text is U+{ord(text[error.start]):04X}, half of a surrogate pair, "
                "which has no bytes; remove it."
            ) from error
        with limited("text", "the prompt", len(text)), library_errors(ENCODING):
            return self.codec.encode(text, add_special, names_special)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into text, special tokens by name; bytes that are no character become U+FFFD.

        Raises
        ------
        TokenizerError
            For an id outside the vocabulary.
        """
        chosen = list(ids)
        with limited("text", "the tokens", len(chosen)), library_errors(DECODING):
            for token in chosen:
                if token < 0 or self.codec.piece(token) is None:
                    raise self._outside(token)
            return self.codec.decode(chosen)

    def describe(self, ids: Iterable[int]) -> tuple[TokenText, ...]:
        """Say what each token is, as a person should read it.

        An id that the model has but the vocabulary lacks (padding of the embedding) is shown as ``<id 1030>``.

        Raises
        ------
        TokenizerError
            For a negative id.
        """
        chosen = list(ids)
        for token in chosen:
            if token < 0:
                raise self._outside(token)
        with library_errors(DECODING):
            pieces = {token: self.codec.piece(token) for token in set(chosen)}  # a long text says most of them often
        return describe(chosen, [pieces[token] for token in chosen])

    def describe_on(self, described: Sequence[TokenText], ids: Iterable[int]) -> TokenTexts:
        """Say what tokens are that follow others already described; of those only an unfinished end is read again."""
        kept = settled(described)
        before = TokenTexts.of(described[:kept])
        again = self.describe([*(token.id for token in described[kept:]), *ids])
        if any(token.group >= 0 for token in again):
            taken = 1 + max(before.groups, default=-1)
            again = tuple(replace(token, group=token.group + taken) if token.group >= 0 else token for token in again)
        return before + again

    def _outside(self, token: int) -> TokenizerError:
        return TokenizerError(
            f"There is no token {token}: the vocabulary has {self.vocabulary} ids, from 0 to {self.vocabulary - 1}."
        )


# ----------------------------------------------------------------------------------------------------------------------
# Tokens as a person reads them


def describe(ids: Sequence[int], pieces: Sequence[Piece | None]) -> tuple[TokenText, ...]:
    """Make every token visible, and group those that are the bytes of one character.

    Parameters
    ----------
    pieces
        What each id stands for; None where the vocabulary does not say.
    """
    readings: defaultdict[int, _Reading] = defaultdict(_Reading)
    groups = 0
    for run in _runs(pieces):
        groups = _read_run(run, readings, groups)
    described = []
    for place, (token, piece) in enumerate(zip(ids, pieces, strict=True)):
        if piece is None:
            described.append(token_text(token, f"<id {token}>", "special"))
        elif piece.special:
            name = "".join(map(visible, piece.data.decode("utf-8", "replace")))
            described.append(token_text(token, name or "<empty>", "special"))
        elif place not in readings:
            described.append(token_text(token, _whole(piece.data) or "<empty>"))
        else:
            reading = readings[place]
            kind: TokenKind = "text" if reading.whole else "bytes"
            described.append(token_text(token, reading.text or "<empty>", kind, reading.group, reading.character))
    return tuple(described)


LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8 at most."""


def settled(described: Sequence[TokenText]) -> int:
    """How many tokens stay as they are whatever follows: all but raw bytes at the end, which may begin a character."""
    stop = len(described)
    while stop and described[stop - 1].kind == "bytes":
        stop -= 1
        after = described[stop:]
        if len(after) > LONGEST_CHARACTER and described[stop - 1].group != after[0].group:
            break
    return stop


def visible(character: str, alone: bool = False) -> str:
    """How one character is drawn: itself where it can be seen, else a symbol or its code point.

    Parameters
    ----------
    alone
        Whether nothing stands before it that a combining mark could sit on; it then gets a dotted circle.
    """
    if character in SYMBOLS:
        return SYMBOLS[character]
    category = unicodedata.category(character)
    if character in SYMBOLS.values() or category[0] in "CZ" or "VARIATION SELECTOR" in unicodedata.name(character, ""):
        return f"<U+{ord(character):04X}>"
    return "◌" + character if alone and category[0] == "M" else character


@dataclass
class _Reading:
    """What is known of one token while its run is read."""

    text: str = ""
    whole: bool = True
    group: int = -1
    character: str = ""


def _runs(pieces: Sequence[Piece | None]) -> Iterator[list[tuple[int, bytes]]]:
    """Stretches of tokens whose bytes are characters only together, as (place, bytes)."""
    run: list[tuple[int, bytes]] = []
    for place, piece in enumerate(pieces):
        if piece is not None and not piece.special and _whole(piece.data) is None:
            run.append((place, piece.data))
        elif run:
            yield run
            run = []
    yield run


@lru_cache(maxsize=1 << 16)
def _whole(data: bytes) -> str | None:
    """What bytes read as that are characters by themselves, whatever stands around them; None for any others."""
    text = ""
    try:
        for character in data.decode():
            text += visible(character, alone=not text)
    except UnicodeDecodeError:
        return None
    return text or None


def _read_run(run: Sequence[tuple[int, bytes]], readings: defaultdict[int, _Reading], groups: int) -> int:
    """Fill in the readings of one run; ``groups`` is the next free number, and the new one is returned."""
    data = b"".join(piece for _, piece in run)
    home = [place for place, piece in run for _ in piece]  # the token that each byte belongs to
    named = _Reading()
    at = 0
    while at < len(data):
        size = _character_size(data, at)
        homes = home[at : at + max(size, 1)]
        first = readings[homes[0]]
        character = data[at : at + size].decode()
        if size and homes[0] == homes[-1]:
            first.text += visible(character, alone=not first.text)
        else:
            for byte, place in zip(data[at : at + max(size, 1)], homes, strict=True):
                readings[place].text += f"<{byte:02X}>"
                readings[place].whole = False
        if homes[0] != homes[-1]:
            # a token that ends one split character and begins another joins both into one group
            if first.group < 0:
                first.group, named, groups = groups, first, groups + 1
            for place in homes:
                readings[place].group = first.group
            named.character += visible(character, alone=True)
        at += max(size, 1)
    return groups


def _character_size(data: bytes, at: int) -> int:
    """How many bytes the UTF-8 character at ``at`` has; 0 where none starts or it is cut off."""
    lead = data[at]
    size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    try:
        return size if len(data[at : at + size].decode()) == 1 else 0
    except UnicodeDecodeError:
        return 0


# ----------------------------------------------------------------------------------------------------------------------
# tokenizer.json


class _Quiet:
    """Keeps what a library itself writes to stderr from a terminal, which would obey it: a panic's text and stack."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deep = 0
        self._stderr: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._deep += 1
            if self._deep == 1:
                with suppress(OSError):  # it is closed
                    self._stderr = os.dup(2)
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, 2)
                    os.close(nowhere)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._deep -= 1
            if not self._deep and self._stderr is not None:
                os.dup2(self._stderr, 2)
                os.close(self._stderr)
                self._stderr = None


_QUIET: Final = _Quiet()


@contextmanager
def library_errors(sentence: str) -> Iterator[None]:
    """Turn what the tokenizers library raises into a sentence.

    It raises nothing narrower than Exception, and where its own code gives up (a Rust panic) not even that.
    """
    try:
        with _QUIET:
            yield
    except (RopewalkError, OSError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(sentence, str(error)) from error


class JsonCodec:
    """A ``tokenizer.json`` of the tokenizers library.

    Its decoder says how a piece is spelled: in the byte alphabet of GPT-2, where every byte is a printable character
    (``Ġ`` is a space), or as SentencePiece does, with ``▁`` for a space and ``<0xE4>`` for a byte.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        steps = _steps(_state(backend.decoder))
        self._byte_level = any(step["type"] == "ByteLevel" for step in steps)
        self._byte_fallback = any(step["type"] == "ByteFallback" for step in steps)
        self._spaces = [mark for step in steps if (mark := _space_mark(step))]
        self._added = backend.get_added_tokens_decoder()

    @classmethod
    def from_file(cls, path: Path) -> JsonCodec:
        """Read a file.

        Raises
        ------
        TokenizerError
            When it is missing or is no tokenizer.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TokenizerError(f"{path.name} cannot be read as a tokenizer.", str(error)) from error
        with library_errors(f"{path.name} is not a tokenizer that the tokenizers library understands."):
            codec = cls(tokenizers.Tokenizer.from_str(text))
            growth = max(map(_growth, (codec.backend.normalizer, codec.backend.decoder)))
            around = _around(codec.backend.post_processor)
        if growth > MOST_GROWTH:
            raise TokenizerError(f"{path.name} may write {growth:,} characters for one of a text; type ids instead.")
        if around > MOST_AROUND:
            raise TokenizerError(f"{path.name} puts {around:,} tokens around a text; type ids instead.")
        return codec

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text; the library takes the names of special tokens for what they name in any text.

        Raises
        ------
        TokenizerError
            For a character that the vocabulary cannot spell: the library drops it in silence.
        """
        encoding = self.backend.encode(text, add_special_tokens=add_special)
        # white space, marks and controls may be normalised away on purpose
        missed = [at for at in _uncovered(text, encoding) if unicodedata.category(text[at])[0] not in "ZCM"]
        if missed and self.backend.normalizer is not None:  # it may have made one character of several
            gone = frozenset(_uncovered(text, self._letters.encode(text)))
            missed = [at for at in missed if at not in gone]
        if missed:
            at = missed[0]
            raise TokenizerError(
                f"Character {at + 1} of the text, {text[at]!r}, cannot be spelled with this vocabulary; remove it."
            )
        ids: list[int] = encoding.ids
        return ids

    @cached_property
    def _letters(self) -> tokenizers.Tokenizer:
        """A tokenizer of every character that the normalizer leaves, whose offsets say what each was made of."""
        backend = tokenizers.Tokenizer(models.WordLevel({"": 0}, unk_token=""))
        backend.normalizer = self.backend.normalizer
        backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
        return backend

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids."""
        text: str = self.backend.decode(list(ids), skip_special_tokens=False)
        return text

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        if token in self._added:
            added = self._added[token]
            return Piece(added.content.encode(), added.special)
        name = self.backend.id_to_token(token) if 0 <= token < 1 << 32 else None
        return None if name is None else Piece(self._bytes(name))

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        token: int | None = self.backend.token_to_id(name)
        return token

    def save(self, path: Path) -> None:
        """Write the file."""
        self.backend.save(str(path))

    def _bytes(self, name: str) -> bytes:
        if self._byte_level:
            alphabet = byte_alphabet()
            return b"".join(alphabet.get(character, character.encode()) for character in name)
        if self._byte_fallback and (match := BYTE_PIECE.match(name)):
            return bytes([int(match[1], 16)])
        for mark in self._spaces:
            name = name.replace(mark, " ")
        return name.encode()


def _uncovered(text: str, encoding: tokenizers.Encoding) -> Iterator[int]:
    """Places of characters that no token says to come from; composing a character leaves only its first part."""
    covered = bytearray(len(text))
    for start, end in encoding.offsets:
        covered[start:end] = b"\1" * (end - start)
    at = covered.find(0)
    while at >= 0:
        yield at
        at = covered.find(0, at + 1)


@cache
def byte_alphabet() -> dict[str, bytes]:
    """GPT-2's alphabet: the character that stands for each byte → that byte.

    Printable bytes of Latin-1 stand for themselves; the others take the characters from U+0100 on, in order.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): bytes([byte]) for byte in plain} | {
        chr(0x100 + place): bytes([byte]) for place, byte in enumerate(rest)
    }


def train_tokenizer(text: str, vocabulary: int) -> Tokenizer:
    """Make a byte-level BPE from a text (Sennrich et al. 2016, arXiv:1508.07909, over bytes as in GPT-2).

    Its ids are :data:`END_OF_TEXT`, all 256 bytes, then merges; so any text can be spelled.

    Raises
    ------
    TokenizerError
        When the text is too short to find that many merges in.
    """
    most = 257 + len(text.encode())  # every merge shortens the text, and the trainer makes room for all at once
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocabulary, most),
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([text], trainer)
    codec = JsonCodec(backend)
    if codec.size != vocabulary:
        raise TokenizerError(
            f"A vocabulary of {vocabulary} tokens was asked for, but the text gives {codec.size}; use a longer text "
            "or a vocabulary from 257 to that number."
        )
    return Tokenizer(codec, eos_id=codec.find(END_OF_TEXT))


def _state(part: decoders.Decoder | normalizers.Normalizer | None) -> dict[str, Any]:
    """The JSON of a decoder or a normalizer; empty where the tokenizer has none."""
    if part is None:
        return {}
    state: dict[str, Any] = json.loads(part.__getstate__())
    return state


def _steps(state: dict[str, Any]) -> list[dict[str, Any]]:
    """A decoder or a normalizer as the list of its steps."""
    if not state:
        return []
    if state["type"] == "Sequence":
        return [step for part in state.get("decoders", state.get("normalizers", [])) for step in _steps(part)]
    return [state]


def _growth(part: decoders.Decoder | normalizers.Normalizer | None) -> int:
    """How many characters its replacements may make of one, each at work on what those before it wrote."""
    steps = _steps(_state(part))
    return math.prod(max(1, len(step["content"])) for step in steps if step["type"] == "Replace")


def _around(part: Any) -> int:
    """How many tokens a post-processor puts around a text."""
    state = json.loads(part.__getstate__()) if part is not None else {}
    total = 0
    for step in state.get("processors", [state]):
        sizes = {name: len(named["ids"]) for name, named in step.get("special_tokens", {}).items()}
        pieces = (piece["SpecialToken"]["id"] for piece in step.get("single", []) if "SpecialToken" in piece)
        total += sum(sizes.get(name, 0) for name in pieces)
    return total


def _space_mark(step: dict[str, Any]) -> str:
    """The character that a decoder turns into a space, empty if it has none."""
    if step["type"] == "Metaspace":
        return str(step["replacement"])
    if step["type"] == "Replace" and step["content"] == " ":
        return str(step["pattern"].get("String", ""))
    return ""
