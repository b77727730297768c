"""Tokenizers in files of their own: SentencePiece models against its processor, tiktoken files against tiktoken."""

from __future__ import annotations

import base64
import itertools
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tiktoken
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.integrations.mistral.tokenizer import MistralConverter

from ropewalk.model.checkpoints.tokenizers import tekken
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.checkpoints.tokenizers.sentencepiece import BPE, UNIGRAM, read_model
from ropewalk.model.checkpoints.tokenizers.spm_codec import CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from ropewalk.model.checkpoints.tokenizers.tiktoken import CASED, MAKERS, ONE_DIGIT, THREE_DIGITS, read_tiktoken
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, byte_alphabet, train_tokenizer
from tests.model.checkpoints.odd_texts import odd_texts

CORPUS = """
To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the slings and arrows of
outrageous fortune, or to take arms against a sea of troubles, and by opposing end them. To die: to sleep; no more.
Äpfel und Birnen, häufig gefragt; the whole of the world is a stage, and all the men and women merely players.
"""
TEXTS = [
    "", "the question", "  two  spaces ", "To be, or", "日本 and 👍", "Äpfel\n\tund", "x" * 50, " ", "▁", "end ",
    "ﬁne ½ ①ｱﾞ  ａｂｃ", "a\u0301 Å \u212b", "<sep>hello<|im|>  to", "to <s> be</s>", "\u200bzero\u00adwidth \u3000wide",
]  # fmt: skip
COUNTS = [300, pytest.param(3000, marks=pytest.mark.slow)]
"""How many odd texts ids are compared on."""


def train(folder: Path, kind: str, **options: Any) -> Path:
    (folder / "corpus.txt").write_text(CORPUS * 20, encoding="utf-8")
    small = 120 if kind == "bpe" else 85
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "tokenizer"),
        model_type=kind,
        vocab_size=340 if options.get("byte_fallback") else small,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return folder / "tokenizer.model"


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("kind", "rule", "fallback", "prefix", "collapse", "suffix", "defined"),
    [
        ("unigram", "nmt_nfkc", False, True, True, False, False),  # the trainer's defaults
        ("unigram", "nmt_nfkc", True, True, True, False, True),
        ("unigram", "identity", True, False, False, False, True),
        ("unigram", "nmt_nfkc_cf", False, True, True, True, True),
        ("unigram", "nfkc", True, True, False, True, True),
        ("bpe", "identity", True, True, False, False, False),  # Llama 1 and 2
        ("bpe", "nmt_nfkc", True, True, True, False, True),
        ("bpe", "nfkc_cf", False, True, True, True, True),
        ("bpe", "nmt_nfkc_cf", False, False, False, False, True),
    ],
)
def test_ids_are_those_of_sentencepiece(
    kind: str,
    rule: str,
    fallback: bool,
    prefix: bool,
    collapse: bool,
    suffix: bool,
    defined: bool,
    count: int,
    tmp_path: Path,
) -> None:
    symbols = ["<sep>", "<|im|>", "  ", "thequestion", "👍"]
    named = {"user_defined_symbols": symbols, "control_symbols": ["<ctl>"]} if defined else {}
    model = train(
        tmp_path,
        kind,
        normalization_rule_name=rule,
        byte_fallback=fallback,
        add_dummy_prefix=prefix,
        remove_extra_whitespaces=collapse,
        treat_whitespace_as_suffix=suffix,
        **named,
    )
    reference, ours = sentencepiece.SentencePieceProcessor(model_file=str(model)), read_model(model)
    for text in itertools.chain(TEXTS, odd_texts(count, seed=1)):
        assert ours.encode(text, add_special=False) == reference.encode(text), text
    assert (ours.vocabulary, ours.bos_id, ours.eos_id) == (
        reference.vocab_size(), reference.bos_id(), reference.eos_id()
    )  # fmt: skip


def field(number: int, value: bytes | int | float) -> bytes:
    """A field of a protocol buffer message: short bytes, a small number, or a float."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def vocabulary(kind: int, pieces: dict[str, tuple[float, int]]) -> bytes:
    """A model of these pieces that leaves spaces as they are: their scores and kinds."""
    around = {"<unk>": (0.0, UNKNOWN), "<s>": (0.0, CONTROL), "</s>": (0.0, CONTROL)}
    entries = [
        field(1, field(1, piece.encode()) + field(2, score) + field(3, which))
        for piece, (score, which) in (around | pieces).items()
    ]
    return b"".join([*entries, field(2, field(3, kind)), field(3, field(3, 0) + field(4, 0))])


@pytest.mark.parametrize("kind", [UNIGRAM, BPE])
def test_pieces_of_any_score_are_chosen_as_by_sentencepiece(kind: int, tmp_path: Path) -> None:
    # many score alike; the numbers are ones whose sums are exact in single precision too, in which sentencepiece adds
    draw = random.Random(3)
    for _ in range(60):
        words = {"a", *("".join(draw.choices("abé", k=draw.randint(1, 5))) for _ in range(draw.randint(0, 14)))}
        scores = {word: -draw.randint(0, 3 if kind == BPE else 999) / 64 for word in sorted(words)}
        kinds = [NORMAL, NORMAL, NORMAL, USER, UNUSED] if kind == UNIGRAM else [NORMAL, NORMAL, USER]
        pieces = {word: (score, draw.choice(kinds) if len(word) > 1 else NORMAL) for word, score in scores.items()}
        data = vocabulary(kind, pieces)
        (tmp_path / "tokenizer.model").write_bytes(data)
        reference = sentencepiece.SentencePieceProcessor(model_proto=data)
        ours = read_model(tmp_path / "tokenizer.model")
        for _ in range(20):
            text = "".join(draw.choices("ababéz日", k=draw.randint(0, 20)))
            assert ours.encode(text, add_special=False) == reference.encode(text), (pieces, text)


def test_a_name_in_a_text_is_text(tmp_path: Path) -> None:
    ours = read_model(train(tmp_path, "unigram", byte_fallback=True))
    ids = ours.encode("<s><0x41></s>", add_special=False)
    assert ours.decode(ids) == "<s><0x41></s>"
    assert not {ours.bos_id, ours.eos_id, ours.codec.find("<0x41>")} & set(ids)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_bytes_are_grouped_under_their_character(kind: str, tmp_path: Path) -> None:
    tokenizer = read_model(train(tmp_path, kind, byte_fallback=True))
    described = tokenizer.describe(tokenizer.encode("to 👍", add_special=True))
    assert (described[0].text, described[0].kind) == ("<s>", "special")
    assert [token.text for token in described[-4:]] == ["<F0>", "<9F>", "<91>", "<8D>"]
    assert [token.kind for token in described[-4:]] == ["bytes"] * 4
    assert len({token.group for token in described[-4:]}) == 1
    assert described[-4].character == "👍"
    assert described[1].text[0] == "·"


def test_what_a_maker_defined_is_special_where_it_stands_for_no_text(tmp_path: Path) -> None:
    model = train(tmp_path, "unigram", user_defined_symbols=["<|im|>", "<start_of_turn>", "<h1>", "  "])
    tokenizer = read_model(model)
    described = tokenizer.describe(tokenizer.encode("<|im|>to<start_of_turn><h1>be", add_special=False))
    kinds = {token.text: token.kind for token in described}
    assert (kinds["<|im|>"], kinds["<start_of_turn>"], kinds["<h1>"]) == ("special", "special", "text")


def test_what_no_piece_spells_is_the_unknown_token(tmp_path: Path) -> None:
    tokenizer = read_model(train(tmp_path, "unigram"))
    (unknown,) = [
        token for token in tokenizer.describe(tokenizer.encode("to 日本語", False)) if token.kind == "special"
    ]
    assert unknown.text == "<unk>"


@pytest.mark.parametrize(("fields", "before", "after"), [({}, True, False), ({"add_bos_token": False}, False, False),
                                                          ({"add_eos_token": True}, True, True)])  # fmt: skip
def test_the_config_beside_says_what_is_put_around(
    fields: dict[str, Any], before: bool, after: bool, tmp_path: Path
) -> None:
    train(tmp_path, "bpe", byte_fallback=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(fields))
    tokenizer = tokenizer_beside(tmp_path)
    assert tokenizer is not None
    ids = tokenizer.encode("to be")
    assert (ids[0] == tokenizer.bos_id, ids[-1] == tokenizer.eos_id) == (before, after)


def test_added_tokens_come_after_the_vocabulary(tmp_path: Path) -> None:
    model = train(tmp_path, "bpe", byte_fallback=True, remove_extra_whitespaces=False)
    size = read_model(model).vocabulary
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|im_start|>": size, "<pad>": 0}))
    described = {str(size + 1): {"content": "hey", "special": False}, "0": {"content": "<unk>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": described}))
    tokenizer = read_model(model)
    assert tokenizer.vocabulary == size + 2
    ids = tokenizer.encode("to<|im_start|>be hey", add_special=False)
    assert {size, size + 1} <= set(ids)
    assert tokenizer.decode(ids) == "to<|im_start|>be hey"
    assert [token.kind for token in tokenizer.describe([size, size + 1])] == ["special", "text"]


@pytest.mark.parametrize(("left", "right"), [(False, True), (True, False), (True, True)])
def test_an_added_token_takes_the_white_space_beside_it(left: bool, right: bool, tmp_path: Path) -> None:
    model = train(tmp_path, "bpe", byte_fallback=True, remove_extra_whitespaces=False)
    size = read_model(model).vocabulary
    plain = {"content": "<|end|>", "special": True}
    config = {"added_tokens_decoder": {str(size): plain, str(size + 1): {**plain, "lstrip": left, "rstrip": right}}}
    config["added_tokens_decoder"][str(size + 1)]["content"] = "<|sep|>"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = read_model(model)
    for name, lefts, rights in (("<|sep|>", left, right), ("<|end|>", False, False)):
        ids = tokenizer.encode(f"to  {name}  be{name}", add_special=False)
        without = ("to" if lefts else "to  ") + name + ("be" if rights else "  be") + name
        assert ids == tokenizer.encode(without, add_special=False)
        assert tokenizer.decode(ids) == without


def test_a_kind_that_cuts_at_words_is_refused(tmp_path: Path) -> None:
    model = train(tmp_path, "char")
    with pytest.raises(TokenizerError, match=r"tokenizer\.model .*words or characters"):
        read_model(model)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_damaged_model_is_a_tokenizer_or_a_sentence(kind: str, tmp_path: Path) -> None:
    model = train(tmp_path, kind, byte_fallback=True)
    data, draw, refused = model.read_bytes(), random.Random(2), 0
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        model.write_bytes(bytes(changed[: draw.randint(len(data) // 2, len(data))] if draw.random() < 0.3 else changed))
        try:
            read_model(model).encode("to ﬁne 日本  be")
        except TokenizerError:
            refused += 1
    assert refused > 10


# ----------------------------------------------------------------------------------------------------------------------
# tiktoken


def ranks_of_a_small_vocabulary(size: int = 400) -> dict[bytes, int]:
    """All bytes, then merges in the order in which they were found."""
    codec = train_tokenizer(CORPUS * 3, size + 1).codec
    assert isinstance(codec, JsonCodec)
    alphabet = byte_alphabet()
    names = [codec.backend.id_to_token(token) or "" for token in range(1, size + 1)]
    spelled = [b"".join(alphabet[character] for character in name) for name in names]
    return {data: rank for rank, data in enumerate(spelled)}


def write_tiktoken(path: Path, ranks: dict[bytes, int]) -> Path:
    path.write_bytes(b"".join(base64.b64encode(data) + f" {rank}\n".encode() for data, rank in ranks.items()))
    return path


LONG = ["It's 12345 o'clock, WE'LL go\r\n\r\n  on", "CamelCase and ÄPFEL", "<|endoftext|> in a text", "a" * 3000]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("name", "pattern"),
    [("tokenizer.model", THREE_DIGITS), ("qwen.tiktoken", ONE_DIGIT), ("cl100k_base.tiktoken", THREE_DIGITS),
     ("o200k_base.tiktoken", CASED)],
)  # fmt: skip
def test_ids_are_those_of_tiktoken(name: str, pattern: str, count: int, tmp_path: Path) -> None:
    ranks = ranks_of_a_small_vocabulary()
    write_tiktoken(tmp_path / name, ranks)
    special = MAKERS[name].special(len(ranks))
    reference = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(special))
    ours = tokenizer_beside(tmp_path)
    assert ours is not None
    assert ours.vocabulary == reference.n_vocab
    for text in itertools.chain(LONG, TEXTS, odd_texts(count, seed=1)):
        assert ours.encode(text, add_special=False) == reference.encode(text, disallowed_special=()), text
        named = ours.encode(text, add_special=False, names_special=True)
        assert named == reference.encode(text, allowed_special="all"), text
        assert ours.decode(named) == text


def test_ids_are_those_of_tiktoken_whatever_the_order_of_ranks(tmp_path: Path) -> None:
    # some tokens are then never the union of two, and are found only where they are a whole word
    draw = random.Random(4)
    data = [*{bytes(draw.choices(b"ab ", k=draw.randint(2, 6))) for _ in range(80)}, *(bytes([n]) for n in range(256))]
    for _ in range(20):
        draw.shuffle(data)
        ranks = {token: rank for rank, token in enumerate(data)}
        ours = read_tiktoken(write_tiktoken(tmp_path / "qwen.tiktoken", ranks))
        reference = tiktoken.Encoding("small", pat_str=ONE_DIGIT, mergeable_ranks=ranks, special_tokens={})
        for _ in range(30):
            text = "".join(draw.choices("abab c", k=draw.randint(0, 30)))
            assert ours.encode(text, add_special=False) == reference.encode(text), text


def test_ids_are_those_of_transformers_converter(tmp_path: Path) -> None:
    path = write_tiktoken(tmp_path / "tokenizer.model", ranks_of_a_small_vocabulary())
    reference = TikTokenConverter(vocab_file=str(path)).converted()
    ours = read_tiktoken(path)
    for text in itertools.chain(LONG, TEXTS, odd_texts(100, seed=1)):
        assert ours.encode(text, add_special=False) == reference.encode(text).ids, text


def test_llama_begins_a_text_and_names_its_special_tokens(tmp_path: Path) -> None:
    ours = read_tiktoken(write_tiktoken(tmp_path / "tokenizer.model", ranks_of_a_small_vocabulary()))
    names = [token.text for token in ours.describe(range(400, 412))]
    assert ours.encode("to")[0] == ours.bos_id == 400
    assert names[0] == "<|begin_of_text|>"
    # the names and places of Llama 3.1's tokenizer.json, less its 128,000 ranks
    assert (names[4], names[5], names[8], names[9]) == (
        "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|eom_id|>", "<|eot_id|>"
    )  # fmt: skip
    assert ours.vocabulary == 656
    assert all(token.kind == "special" for token in ours.describe(range(400, 656)))


def test_a_tiktoken_file_of_an_unknown_maker_is_refused(tmp_path: Path) -> None:
    path = write_tiktoken(tmp_path / "mine.tiktoken", ranks_of_a_small_vocabulary())
    with pytest.raises(TokenizerError, match=r"mine\.tiktoken does not say how its text is split"):
        read_tiktoken(path)


def test_a_vocabulary_of_ever_longer_runs_is_refused(tmp_path: Path) -> None:
    # whose pairs grow with the square of its size
    for longest, opens in ((128, True), (600, False)):
        data = [*(bytes([byte]) for byte in range(256)), *(b"a" * size for size in range(2, longest + 1))]
        path = write_tiktoken(tmp_path / "qwen.tiktoken", {token: rank for rank, token in enumerate(data)})
        if opens:
            assert len(read_tiktoken(path).encode("a" * longest, add_special=False)) == 1
        else:
            with pytest.raises(TokenizerError, match="unions of others"):
                read_tiktoken(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[:-9],
    "a stretch missing": lambda data: data[:2000] + data[2100:],
    "a line of something else": lambda data: data + b"zzz\n",
    "a rank twice": lambda data: data.replace(b" 7\n", b" 8\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_tiktoken_file_is_a_sentence(damage: str, tmp_path: Path) -> None:
    path = write_tiktoken(tmp_path / "tokenizer.model", ranks_of_a_small_vocabulary())
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(TokenizerError, match=r"tokenizer\.model .*download it again"):
        read_tiktoken(path)


# ----------------------------------------------------------------------------------------------------------------------
# Tekken


SPECIAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>")


def write_tekken(folder: Path, **changes: Any) -> Path:
    """A file of version 7 with 380 of its 400 ranks in use after 12 special tokens."""
    vocabulary = [
        {"rank": rank, "token_bytes": base64.b64encode(data).decode(), "token_str": None}
        for data, rank in ranks_of_a_small_vocabulary().items()
    ]
    content = {
        "config": {"pattern": CASED, "num_vocab_tokens": 400, "default_vocab_size": 392, "version": "v7",
                   "default_num_special_tokens": 12},
        "vocab": vocabulary,
        "special_tokens": [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(SPECIAL)],
    }  # fmt: skip
    (folder / "tekken.json").write_text(json.dumps(content | changes))
    return folder / "tekken.json"


def test_tekken_ids_are_those_of_transformers_converter(tmp_path: Path) -> None:
    reference = MistralConverter(vocab_file=str(write_tekken(tmp_path))).converted()
    ours = tokenizer_beside(tmp_path)
    assert ours is not None
    assert (ours.vocabulary, ours.bos_id, ours.eos_id) == (392, 1, 2)
    for text in itertools.chain(LONG, TEXTS, odd_texts(100, seed=1)):
        if not any(name in text for name in SPECIAL):  # which the converter takes for what they name in any text
            assert ours.encode(text, add_special=False) == reference.encode(text).ids, text
    named = ours.encode("[INST]to[/INST]", names_special=True)
    assert (named[:2], named[-1]) == ([1, 3], 4)
    assert [token.text for token in ours.describe([5, 6, 11])] == ["<pad>", "<SPECIAL_6>", "<SPECIAL_11>"]


def test_tekken_before_version_7_has_the_special_tokens_of_its_time(tmp_path: Path) -> None:
    config = {"pattern": CASED, "default_vocab_size": 400, "default_num_special_tokens": 30, "version": "v3"}
    ours = tekken.read_tekken(write_tekken(tmp_path, config=config, special_tokens=None))
    assert [token.text for token in ours.describe([3, 11, 19, 20])] == [
        "[INST]", "<pad>", "[TOOL_CONTENT]", "<SPECIAL_20>"
    ]  # fmt: skip


def test_a_splitter_at_which_the_library_gives_up_is_a_sentence(tmp_path: Path) -> None:
    # too many ways to split: a panic of Rust, which no "except Exception" would catch
    config = {"pattern": "(a+)+$", "default_vocab_size": 400, "default_num_special_tokens": 12}
    tokenizer = tekken.read_tekken(write_tekken(tmp_path, config=config))
    assert tokenizer.decode(tokenizer.encode("aaa", add_special=False)) == "aaa"
    with pytest.raises(TokenizerError, match="cannot encode this text"):
        tokenizer.encode("a" * 40 + "!")


@pytest.mark.parametrize(
    "changes",
    [{"vocab": []}, {"config": {}}, {"special_tokens": [{"rank": 3, "token_str": "x"}]}, {"vocab": "x"},
     {"config": {"pattern": "((", "default_vocab_size": 392, "default_num_special_tokens": 12}}],
    ids=str,
)  # fmt: skip
def test_a_damaged_tekken_file_is_a_sentence(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tekken\.json .*download it again"):
        tekken.read_tekken(write_tekken(tmp_path, **changes))
