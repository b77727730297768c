"""Tokenizers from GGUF metadata against the libraries whose vocabularies they hold: small ones, made here."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import regex
import sentencepiece
import tokenizers
import transformers
from tokenizers import Regex, models, pre_tokenizers
from transformers.convert_slow_tokenizer import TikTokenConverter

from ropewalk.model.checkpoints.formats.gguf_file import GgufFile
from ropewalk.model.checkpoints.tokenizers.gguf import tokenizer_of
from ropewalk.model.checkpoints.tokenizers.splitters import SPLITTERS, Splitter
from ropewalk.model.checkpoints.tokenizers.spm_codec import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer, byte_alphabet, train_tokenizer
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


def of_rule(name: str, pieces: Sequence[str], pairs: Sequence[tuple[str, str]], **more: Any) -> Tokenizer:
    """A byte-pair vocabulary that is split by a rule."""
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": list(pieces),
        "tokenizer.ggml.merges": [f"{one} {other}" for one, other in pairs],
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }
    found = tokenizer_of(metadata, "x.gguf")
    assert found is not None
    return found


def in_bytes(text: str) -> str:
    """A text in the alphabet that stands for bytes."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    return "".join(letters[bytes([byte])] for byte in text.encode())


class WholeParts:
    """A vocabulary in which every part of a text merges to one token, so that ids say where it was cut."""

    def __init__(self, text: str) -> None:
        spelled = in_bytes(text)
        parts = {spelled[i:j] for i in range(len(spelled)) for j in range(i + 2, len(spelled) + 1)}
        self.pieces = [*byte_alphabet(), *sorted(parts)]
        self.pairs = [(part[:at], part[at:]) for part in sorted(parts) for at in range(1, len(part))]

    def cut(self, name: str, text: str) -> list[str]:
        """The parts that a rule cuts a text into."""
        tokenizer = of_rule(name, self.pieces, self.pairs)
        return [tokenizer.decode([token]) for token in tokenizer.encode(text, add_special=False)]


@pytest.mark.parametrize("splitter", REFERENCES)
def test_a_splitter_by_name_gives_the_ids_of_the_library(splitter: str, tmp_path: Path) -> None:
    vocabulary, pairs = merges()
    theirs = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=SPLITTERS[splitter].whole_words))
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
    pieces = tuple(sorted(vocabulary, key=vocabulary.__getitem__))
    found: dict[Splitter, tuple[tuple[int, ...], ...]] = {}
    for name, rule in SPLITTERS.items():
        key = replace(rule, begins=False)
        if key not in found and not rule.spaced:
            tokenizer = of_rule(name, pieces, pairs)
            found[key] = tuple(tuple(tokenizer.encode(text, add_special=False)) for text in [*ODD, *TELLING])
    # Llama 3's with and without whole words, MiniCPM5's, and Bailing's beside Qwen's, say the same in other words
    assert len(set(found.values())) == len(found) - 3 == 27


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


CUT = {
    "hunyuan-dense": ("ab12345,x 漢字か\n", "ab|123|45|,x| |漢字か|\n"),
    "deepseek-v3": ("12345#id", "123|45|#id"),
    "deepseek-coder": ("x12 éa!\n", "x|1|2| éa|!|\n"),
    "deepseek-llm": ("x12345 éa ka!\n", "x|12345| é|a| ka|!|\n"),
    "qwen35": ("e\u0301a12", "e\u0301a|1|2"),
    "qwen2": ("e\u0301a12", "e|\u0301a|1|2"),
    "bloom": ("a,b c12", "a|,|b| c12"),
    "viking": ("a,b c12", "a|,|b| c|1|2"),
    "superbpe": ("a b 12345", "a b |12|345"),
    "afmoe": ("a1234567 b", "a|1|234|567| b"),
    "tiny_aya": ("x 12345", "x| |12|345"),
    "kimi-k2": ("ab漢字cd 12345", "ab|漢字|cd| |123|45"),
    "seed-coder": ("a!!\n12", "a|!!|\n|1|2"),
    "bailingmoe": ("I'M a\n\nb1", "I|'M| a|\n\n|b|1"),
    "exaone-moe": ("ab cd ef1", "ab cd ef|1"),
    "ufakzeka": ("it's", "it|'s"),
    "laguna": ("a!\nb", "a|!|\n|b"),
    "chameleon": ("<sentinel:12>a  b", "<|sentinel|:|1|2|>|a|  |b"),
    "jais-2": ("a       b", "a|    |  | b"),
    "minicpm5": ("a 12345", "a| |123|45"),
    "spark2_5": ("a!\n\nb", "a|!|\n|\n|b"),
    "youtu": ("한국ab12", "한국|ab|1|2"),
    "granite-embed-multi-97m": ("e\u0301A12345", "e\u0301|A|123|45"),
    "falcon": ("a 12345", "a| |123|45"),
    "default": ("a 12345", "a| |123|45"),
    "chatglm-bpe": ("a 12345!\n", "a| |123|45|!\n"),
    "llama4": ("aB12345/\n", "a|B|123|45|/\n"),
    "minimax-m2": ("aB12345/\n", "a|B|123|45|/\n"),
    "tekken": ("aB12", "a|B|1|2"),
    "grok-2": ("12!\n", "1|2|!\n"),
    "stablelm2": ("12!\n", "1|2|!\n"),
    "exaone4": (" a 12!", " a| 12|!"),
    "trillion": (" a 12!", " a| 12|!"),
    "granite-docling": (" a 12!", " a| 12|!"),
    "refact": (" a 12!", " a| |1|2|!"),
    "command-r": (" a 12!", " a| |1|2|!"),
}
"""Rule → a text that tells it from its neighbours, and the parts that llama.cpp cuts it into."""
TELLING = [text for text, _ in CUT.values()]


@pytest.mark.parametrize("name", CUT)
def test_a_rule_cuts_as_llama_cpp_does(name: str) -> None:
    text, parts = CUT[name]
    assert WholeParts(text).cut(name, text) == parts.split("|")


@pytest.mark.parametrize("name", [name for name, rule in SPLITTERS.items() if not rule.spaced])
def test_a_rule_cuts_as_its_expressions_say(name: str) -> None:
    """The library's engine for expressions against another one, each expression at work on what is left in one part."""
    splitter = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITTERS[name].patterns]
    )
    for text in filter(long_known, [*ODD, *TELLING, *odd_texts(60, seed=3)]):
        parts = [text]
        for pattern in SPLITTERS[name].patterns:
            parts = [part for whole in parts for part in cut_by(pattern, whole)]
        assert [part for part, _ in splitter.pre_tokenize_str(text)] == parts, (name, text)


def long_known(text: str) -> bool:
    """Whether every character is of a Unicode so old that all engines know its class."""
    return all(unicodedata.ucd_3_2_0.category(character) != "Cn" for character in text)


def cut_by(pattern: str, text: str) -> list[str]:
    """What an expression finds and what lies between; a match of nothing cuts where it is."""
    at, parts = 0, []
    for found in regex.compile(pattern, regex.V1).finditer(text):
        parts += [text[at : found.start()], found[0]]
        at = found.end()
    return [part for part in (*parts, text[at:]) if part]


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("said", [None, True, False])
def test_the_token_that_begins_a_text_is_added_where_llama_cpp_adds_it(name: str, said: bool | None) -> None:
    begins = {
        "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
        "tekken", "chameleon", "gemma4", "granite-embed-multi-311m",
    }  # fmt: skip
    more = {} if said is None else {"add_bos_token": said}
    kinds = np.array([NORMAL] * 3 + [CONTROL])
    ours = of_rule(name, ["a", "b", "c", "<s>"], [], bos_token_id=3, token_type=kinds, **more)
    assert ours.encode("ab") == [3, 0, 1][0 if (name in begins if said is None else said) else 1 :]


def test_what_the_file_leaves_open_is_taken_as_llama_cpp_takes_it() -> None:
    pieces = [*"abcdefghijk", "<|endoftext|>"]
    control = np.array([NORMAL] * 11 + [CONTROL])
    assert of_rule("falcon", pieces, [], token_type=control).bos_id == 11
    assert of_rule("falcon", pieces, []).bos_id is None, "an ordinary token begins no text"
    assert of_rule("glm4", pieces, [], token_type=control).bos_id is None
    ours = of_rule("falcon", pieces, [], token_type=control, add_bos_token=True, add_eos_token=True)
    assert ours.encode("ab") == [11, 0, 1, 11]


def test_a_text_ends_with_the_tokens_of_the_keys_and_of_known_names() -> None:
    pieces = ["a", "b", "c", "<|im_end|>", "<|end|>", "<|call|>"]
    assert of_rule("qwen2", pieces, [], eos_token_id=0, eot_token_id=1, eom_token_id=2).ends == {0, 1, 2, 3, 4, 5}
    assert of_rule("qwen2", [*pieces, "<|return|>"], []).ends == {3, 5, 6}, "there, <|end|> ends a message"
    assert of_rule("qwen2", ["a", "b"], []).ends == set()


def test_a_piece_outside_the_alphabet_of_bytes_is_a_name_for_nothing() -> None:
    """Command R's vocabulary has such pieces, which no text of bytes spells."""
    pieces = [*byte_alphabet(), "🦙"]
    ours = of_rule("command-r", pieces, [])
    ids = ours.encode("🦙", add_special=False)
    assert [pieces[token] for token in ids] == list(in_bytes("🦙"))
    assert ours.decode(ids) == "🦙"
    assert ours.describe([256])[0].text == "🦙"


def test_spaces_written_as_a_mark_with_pieces_for_bytes() -> None:
    """Gemma 4's kind: pairs of characters, over words and their spaces, with SentencePiece's spelling."""
    pieces = ["<bos>", "<eos>", "▁", "a", "b", "▁a", "▁ab", "\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = np.array([CONTROL, CONTROL, *[NORMAL] * 6, *[BYTE] * 256])
    found = tokenizer_of(
        {
            "tokenizer.ggml.model": "gemma4",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.merges": ["▁ a", "▁a b"],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 1,
        },
        "x.gguf",
    )
    assert found is not None
    assert found.encode("b ab a\né") == [0, 4, 6, 5, 7, pieces.index("<0xC3>"), pieces.index("<0xA9>")]
    assert found.decode(found.encode("b ab a\né", add_special=False)) == "b ab a\né"
    assert [token.text for token in found.describe([6, 7])] == ["·ab", "⏎"]


def test_without_a_rule_the_default_is_used_and_said() -> None:
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["1", "2", "12"],
        "tokenizer.ggml.merges": ["1 2"],
    }
    found = tokenizer_of(metadata, "x.gguf")
    assert found is not None
    assert found.encode("12") == [2]
    assert "x.gguf does not say how text is split (tokenizer.ggml.pre)" in found.notes[0]
    assert tokenizer_of(metadata | {"tokenizer.ggml.pre": "default"}, "x.gguf").notes == ()  # type: ignore[union-attr]


# Refusals -------------------------------------------------------------------------------------------------------------


def test_an_unknown_splitter_is_named() -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.pre": "new-rule"}
    with pytest.raises(TokenizerError, match="new-rule"):
        tokenizer_of(metadata, "x.gguf")


def test_missing_merges_are_said() -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.pre": "gpt-2"}
    with pytest.raises(TokenizerError, match=r"its merges \(tokenizer.ggml.merges\) are missing"):
        tokenizer_of(metadata, "x.gguf")
    assert tokenizer_of(metadata | {"tokenizer.ggml.merges": []}, "x.gguf") is not None


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
