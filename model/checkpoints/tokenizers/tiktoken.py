"""Vocabularies in tiktoken's text format: Meta's Llama 3 folders (``tokenizer.model``) and ``*.tiktoken`` files.

Each line holds a token's bytes in base64 and its rank, which is its id. A text is split by a regular expression; within
a word the pair of neighbours whose union has the lowest rank is merged, until no union is a token. The file holds
neither the expression nor the special tokens, so both are known here by the maker of the file.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from ropewalk.model.checkpoints.damage import first_bytes
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Piece, Tokenizer, byte_alphabet, library_errors

LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n")
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
THREE_DIGITS = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}{REST}"
"""Llama 3 and OpenAI's cl100k."""
ONE_DIGIT = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{REST}"
"""Qwen."""
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""OpenAI's o200k."""


@dataclass(frozen=True)
class Maker:
    """What a tiktoken file leaves out.

    Attributes
    ----------
    splitter
        The regular expression that words are found with.
    special
        From the number of ranks to the names of the special tokens that follow them.
    bos, eos
        Names of what begins and ends a text.
    adds_bos
        Whether a text is begun with it.
    """

    splitter: str
    special: Callable[[int], Mapping[str, int]]
    bos: str | None
    eos: str
    adds_bos: bool = False


def _llama(ranks: int) -> dict[str, int]:
    """The 256 special tokens of Llama 3.1 and later; 3.0 calls four of them reserved."""
    named = {
        0: "begin_of_text", 1: "end_of_text", 4: "finetune_right_pad_id", 6: "start_header_id", 7: "end_header_id",
        8: "eom_id", 9: "eot_id", 10: "python_tag",
    }  # fmt: skip
    reserved = (f"reserved_special_token_{number}" for number in range(256))
    return {f"<|{named[place] if place in named else next(reserved)}|>": ranks + place for place in range(256)}


def _qwen(ranks: int) -> dict[str, int]:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{number}|>" for number in range(205))]
    return {name: ranks + place for place, name in enumerate(names)}


def _cl100k(ranks: int) -> dict[str, int]:
    fill = {f"<|fim_{part}|>": ranks + 2 + place for place, part in enumerate(("prefix", "middle", "suffix"))}
    return {"<|endoftext|>": ranks + 1, **fill, "<|endofprompt|>": ranks + 20}


def _o200k(ranks: int) -> dict[str, int]:
    return {"<|endoftext|>": ranks + 1, "<|endofprompt|>": ranks + 20}


LLAMA = Maker(THREE_DIGITS, _llama, "<|begin_of_text|>", "<|end_of_text|>", adds_bos=True)
MAKERS: Mapping[str, Maker] = {
    "tokenizer.model": LLAMA,
    "llama3.tiktoken": LLAMA,
    "qwen.tiktoken": Maker(ONE_DIGIT, _qwen, None, "<|endoftext|>"),
    "cl100k_base.tiktoken": Maker(THREE_DIGITS, _cl100k, None, "<|endoftext|>"),
    "o200k_base.tiktoken": Maker(CASED, _o200k, None, "<|endoftext|>"),
}
"""By the name of the file."""
MOST_PAIRS = 32
"""Ways to part a token into two others, on average; real vocabularies have two, one of ever longer runs any number."""


class TiktokenCodec:
    """Byte pairs merged by rank, by the tokenizers library; special tokens beside them.

    The library takes the names of its special tokens for what they name in any text, and a word that reads like one may
    be a token of its own here; so they are cut out before.

    Parameters
    ----------
    ranks
        Token bytes to id.
    special
        Name to id of the tokens that stand for no text.
    splitter
        The regular expression that words are found with.
    before
        Special ids that a model expects before a text.
    """

    def __init__(
        self, ranks: Mapping[bytes, int], special: Mapping[str, int], splitter: str, before: Sequence[int] = ()
    ) -> None:
        spelling = {data[0]: character for character, data in byte_alphabet().items()}
        vocabulary = {data.decode("latin-1").translate(spelling): token for data, token in ranks.items()}
        merges = _merges(vocabulary)
        with library_errors("The tokenizers library cannot use this vocabulary; its file is damaged."):
            backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
            words = pre_tokenizers.Split(Regex(splitter), "isolated")
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            backend.pre_tokenizer = pre_tokenizers.Sequence([words, letters])
        backend.decoder = decoders.ByteLevel()
        self._words = JsonCodec(backend)
        self._special = special
        self._names = {token: name for name, token in special.items()}
        self._before = list(before)
        self._named = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))
        self.size = max([*vocabulary.values(), *self._names]) + 1

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text; what looks like a special token is text, unless the text names them on purpose."""
        ids, start = list(self._before) if add_special else [], 0
        for found in self._named.finditer(text) if names_special and self._special else ():
            ids += [*self._words.encode(text[start : found.start()], False), self._special[found[0]]]
            start = found.end()
        return ids + self._words.encode(text[start:], False)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids."""
        return b"".join(found.data for token in ids if (found := self.piece(token))).decode("utf-8", "replace")

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        name = self._names.get(token)
        return self._words.piece(token) if name is None else Piece(name.encode(), special=True)

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        return self._special.get(name)


def _merges(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Every two tokens whose union is a token, by the union's rank: what tiktoken merges.

    For each union there is only one pair that the merges of lower rank ever leave side by side, so the order within a
    rank does not matter, and neither do ties.

    Raises
    ------
    TokenizerError
        When there are so many that they would fill the memory.
    """
    pairs: list[tuple[str, str]] = []
    beginnings: list[str] = []  # of the token in hand, those that are tokens
    for token in sorted(vocabulary):
        while beginnings and not token.startswith(beginnings[-1]):
            beginnings.pop()
        pairs += [(left, right) for left in beginnings if (right := token[len(left) :]) in vocabulary]
        beginnings.append(token)
        if len(pairs) > MOST_PAIRS * len(vocabulary):
            raise TokenizerError("Far too many of the vocabulary's tokens are unions of others; its file is damaged.")
    return sorted(pairs, key=lambda pair: vocabulary[pair[0] + pair[1]])


def is_tiktoken(path: Path) -> bool:
    """Whether a file begins like one: base64, a space, a rank."""
    return LINE.match(first_bytes(path, 4096)) is not None


def read_tiktoken(path: Path) -> Tokenizer:
    """Read a vocabulary whose maker is known by the file's name.

    Raises
    ------
    TokenizerError
        For an unknown maker, and for a file that is cut short or lacks bytes.
    """
    maker = MAKERS.get(path.name)
    if maker is None:
        raise TokenizerError(
            f"{path.name} does not say how its text is split, and Ropewalk knows that only of {', '.join(MAKERS)}; use "
            "a tokenizer.json, or type ids."
        )
    ranks = _ranks(path)
    special = maker.special(len(ranks))
    bos = None if maker.bos is None else special[maker.bos]
    before = [bos] if maker.adds_bos and bos is not None else []
    return Tokenizer(TiktokenCodec(ranks, special, maker.splitter, before), bos, special[maker.eos])


def _ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    try:
        for line in path.read_bytes().splitlines():
            if line:
                data, rank = line.split()
                ranks[base64.b64decode(data, validate=True)] = int(rank)
    except (OSError, ValueError, binascii.Error) as error:
        raise TokenizerError(f"{path.name} is not a whole tiktoken file; download it again.", str(error)) from error
    absent = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if absent or sorted(ranks.values()) != list(range(len(ranks))):
        raise TokenizerError(
            f"{path.name} holds {len(ranks):,} tokens, but lacks some byte or some rank; download it again."
        )
    return ranks
