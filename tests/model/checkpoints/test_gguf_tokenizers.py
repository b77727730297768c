"""Tokenizers from GGUF metadata against the libraries whose vocabularies they hold: small ones, made here."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import tokenizers
import transformers
from tokenizers import Regex, models, pre_tokenizers
from transformers.convert_slow_tokenizer import TikTokenConverter

from ropewalk.model.checkpoints.formats.gguf_file import GgufFile
from ropewalk.model.checkpoints.tokenizers.gguf import SPLITTERS, WHOLE_WORDS, tokenizer_of
from ropewalk.model.checkpoints.tokenizers.spm_codec import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer, train_tokenizer
from tests.model.checkpoints.odd_texts import WORDS, odd_texts
from tests.model.checkpoints.tokenizers.test_beside import CORPUS, ranks_of_a_small_vocabulary, train, write_tiktoken

ODD = [
    *WORDS, "\n", "\n\n\n", "\t\n ", " \n\n \n", "\r\n\r", "Hello,  World!!", "y'all've 'tis ' era", "''''''",
    *("3" * digits for digits in range(1, 10)), "1a2bb333 ½ ② ٣٤", "w048 7tuijk", "=  (\n =", "нещо на Български",
    "កាន់តែពិសេស", "Cửa Việt", "我想在apple工作1314151天～", "🚀 (a) 😶\u200d🌫️ 🏳️\u200d🌈", "/path//to/\n/x",
    "e=mc^2 <|~`$+>", "—«q»…", "\u00a0\u2028x",
]  # fmt: skip
"""Runs of white space, digits and punctuation, apostrophes, scripts with marks, and emoji joined to one picture."""


def written(folder: Path, kind: str, pieces: Sequence[str], types: Sequence[int], **more: Any) -> Tokenizer:
    """A GGUF file that holds a vocabulary and no model, written by its own package, and what is read back from it."""
    writer = gguf.GGUFWriter(folder / "vocabulary.gguf", "llama")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = tokenizer_of(GgufFile(folder / "vocabulary.gguf").metadata, "vocabulary.gguf")
    assert found is not None
    return found


# SentencePiece --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("named", [(), ("<sep>", "<|im|>")], ids=["plain", "named"])
def test_scored_pieces_give_the_ids_of_sentencepiece(prefix: bool, named: tuple[str, ...], tmp_path: Path) -> None:
    model = train(
        tmp_path,
        "bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        user_defined_symbols=list(named),
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
    kinds = (
        (theirs.is_unknown, UNKNOWN), (theirs.is_control, CONTROL), (theirs.is_byte, BYTE), (theirs.is_unused, UNUSED)
    )  # fmt: skip
    ids = range(theirs.vocab_size())
    pieces = [theirs.id_to_piece(token) for token in ids]
    types = [next((kind for holds, kind in kinds if holds(token)), NORMAL) for token in ids]
    types = [USER if piece in named else kind for piece, kind in zip(pieces, types, strict=True)]
    scores = [theirs.get_score(token) for token in ids]
    ours = written(
        tmp_path,
        "llama",
        pieces,
        types,
        token_scores=scores,
        bos_token_id=theirs.bos_id(),
        eos_token_id=theirs.eos_id(),
        add_space_prefix=prefix,
    )
    assert (ours.vocabulary, ours.bos_id, ours.eos_id) == (len(pieces), 1, 2)
    for text in itertools.chain(ODD, odd_texts(200, seed=1)):
        if text.startswith(named or "no symbol"):
            continue  # where sentencepiece puts its space first, llama.cpp puts none
        expected = theirs.encode(text)
        assert ours.encode(text, add_special=False) == expected, text
        assert ours.encode(text) == [1, *expected]
        assert ours.decode(expected) == text.replace("▁", " "), text


# Byte-level BPE -------------------------------------------------------------------------------------------------------

REPEATS = " \n\n  \n\t\t ... !!! ?! )) ## -- == // 's 't don't we'll it's I'M WE'RE \r\n\r\n    if x:\n        y()\n"
NUMBERS = "12 345 6789 0123 45678 2024 1999 "


@cache
def merges() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-level vocabulary and its merges, which run over words, white space, digits and punctuation."""
    backend = tokenizers.Tokenizer(models.BPE())
    # cut anywhere: what a splitter keeps apart would else never have been merged, and no id would show it
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[\s\S]{1,9}"), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator([CORPUS * 3 + (REPEATS + NUMBERS) * 9 + "".join(ODD) * 2], trainer)
    state = json.loads(backend.to_str())["model"]
    return state["vocab"], [(one, other) for one, other in state["merges"]]


def of_transformers(kind: str, folder: Path) -> Any:
    """The splitter that transformers sets up for a family."""
    return getattr(transformers, kind)().backend_tokenizer.pre_tokenizer


def of_llama3(folder: Path) -> Any:
    """The splitter that transformers sets up for Llama 3's own file of ranks."""
    file = write_tiktoken(folder / "tokenizer.model", ranks_of_a_small_vocabulary())
    return TikTokenConverter(vocab_file=str(file)).converted().pre_tokenizer


def of_smollm(folder: Path) -> Any:
    """The splitter of SmolLM's and StarCoder's tokenizer.json."""
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])


def by_cases(digits: str, endings: str, folder: Path) -> Any:
    """The splitter of Tekken and of o200k, which tells upper from lower case by Unicode's classes."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    word = rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{endings}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{endings}"
    pattern = rf"{word}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])


REFERENCES: dict[str, Callable[[Path], Any]] = {
    "gpt-2": partial(of_transformers, "GPT2Tokenizer"),
    "qwen2": partial(of_transformers, "Qwen2Tokenizer"),
    "llama-bpe": of_llama3,
    "smollm": of_smollm,
    "tekken": partial(by_cases, r"\p{N}", ""),
    "gpt-4o": partial(by_cases, r"\p{N}{1,3}", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"),
}
ONLY_ASCII_CASES = ("tekken", "gpt-4o")
"""Splitters in which llama.cpp, like its files, knows no case but that of A to Z."""


@pytest.mark.parametrize("splitter", REFERENCES)
def test_a_splitter_by_name_gives_the_ids_of_the_library(splitter: str, tmp_path: Path) -> None:
    vocabulary, pairs = merges()
    theirs = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=splitter in WHOLE_WORDS))
    theirs.pre_tokenizer = REFERENCES[splitter](tmp_path)
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    ours = written(
        tmp_path,
        "gpt2",
        pieces,
        [NORMAL] * len(pieces),
        tokenizer_pre=splitter,
        token_merges=[f"{one} {other}" for one, other in pairs],
    )
    assert ours.vocabulary == len(pieces)
    compared = 0
    for text in itertools.chain(ODD, odd_texts(300, seed=1)):
        if splitter in ONLY_ASCII_CASES and any(c.isalpha() or unicodedata.combining(c) for c in text if c > "\x7f"):
            continue
        ids = ours.encode(text, add_special=False)
        assert ids == theirs.encode(text).ids, text
        assert ours.decode(ids) == text
        compared += 1
    assert compared > 40


def test_every_splitter_differs_from_the_others_on_these_texts(tmp_path: Path) -> None:
    """Or the comparison above could not tell one from another."""
    vocabulary, pairs = merges()
    found: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
    for name, rules in SPLITTERS.items():
        if rules not in found:
            metadata = {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": name,
                "tokenizer.ggml.tokens": sorted(vocabulary, key=vocabulary.__getitem__),
                "tokenizer.ggml.merges": [f"{one} {other}" for one, other in pairs],
            }
            tokenizer = tokenizer_of(metadata, "x.gguf")
            assert tokenizer is not None
            found[rules] = tuple(tuple(tokenizer.encode(text, add_special=False)) for text in ODD)
    assert len(set(found.values())) == len(found) == 8


def test_control_tokens_are_special_and_what_was_defined_is_text(tmp_path: Path) -> None:
    codec = train_tokenizer(CORPUS * 3, 300).codec
    assert isinstance(codec, JsonCodec)
    state = json.loads(codec.backend.to_str())["model"]
    pieces = [*sorted(state["vocab"], key=state["vocab"].__getitem__), "<|im_start|>", "<|im_end|>", "<tool>"]
    ours = written(
        tmp_path,
        "gpt2",
        pieces,
        [NORMAL] * (len(pieces) - 3) + [CONTROL, CONTROL, USER],
        tokenizer_pre="qwen2",
        token_merges=[f"{one} {other}" for one, other in state["merges"]],
        bos_token_id=len(pieces) - 3,
        eos_token_id=len(pieces) - 2,
        add_bos_token=True,
        add_eos_token=True,
    )
    start, end, tool = range(len(pieces) - 3, len(pieces))
    assert (ours.bos_id, ours.eos_id) == (start, end)
    ids = ours.encode("to<tool>be")
    assert (ids[0], ids[-1], ids.count(tool)) == (start, end, 1)
    assert [token.kind for token in ours.describe([start, end, tool])] == ["special", "special", "text"]
    assert ours.decode(ids[1:-1]) == "to<tool>be"


# Refusals -------------------------------------------------------------------------------------------------------------


def test_an_unknown_splitter_is_named() -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.pre": "new-rule"}
    with pytest.raises(TokenizerError, match="new-rule"):
        tokenizer_of(metadata, "x.gguf")


def test_lists_that_do_not_fit_are_refused() -> None:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "a"],
        "tokenizer.ggml.scores": np.zeros(5, np.float32),
    }
    with pytest.raises(TokenizerError, match="scores"):
        tokenizer_of(metadata, "x.gguf")


def test_without_a_tokenizer_there_are_only_ids() -> None:
    assert tokenizer_of({}, "x.gguf") is None
