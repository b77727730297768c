"""Tokens as ids, as text and as a person reads them, on vocabularies made here and on published ones."""

from __future__ import annotations

import gc
import json
import os
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import (
    END_OF_TEXT,
    LONGEST_CHARACTER,
    JsonCodec,
    Piece,
    Tokenizer,
    byte_alphabet,
    describe,
    train_tokenizer,
    visible,
)
from tests.model.checkpoints.odd_texts import odd_texts

TEXT = "The cat sat on the mat, and the cat was fat.\n" * 3

Read = tuple[str, str, int, str]


@pytest.fixture(scope="module")
def plain() -> Tokenizer:
    """Bytes and a handful of merges."""
    return train_tokenizer(TEXT, 270)


@pytest.fixture(scope="module")
def sentencepiece() -> Tokenizer:
    """A BPE with byte fallback and ``▁``, as in Llama 2."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "<0x20>b"]
    backend = tokenizers.Tokenizer(
        models.BPE(
            {piece: place for place, piece in enumerate(pieces)},
            [("▁", "a")],
            byte_fallback=True,
            unk_token="<unk>",
        )
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return Tokenizer(JsonCodec(backend), bos_id=1, eos_id=2)


@cache
def small() -> Tokenizer:
    """A byte-level BPE, trained once."""
    return train_tokenizer(TEXT, 270)


def backend_of(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """A copy of the library's part."""
    assert isinstance(tokenizer.codec, JsonCodec)
    return tokenizers.Tokenizer.from_str(tokenizer.codec.backend.to_str())


def read(tokenizer: Tokenizer, ids: list[int]) -> list[Read]:
    return [(token.text, token.kind, token.group, token.character) for token in tokenizer.describe(ids)]


def pieces(*data: bytes) -> list[Read]:
    found = describe(range(len(data)), [Piece(part) for part in data])
    assert [token.id for token in found] == list(range(len(data)))
    return [(token.text, token.kind, token.group, token.character) for token in found]


def test_tokens_that_read_alike_are_one_object_in_every_run(plain: Tokenizer) -> None:
    ids = plain.encode(TEXT)
    first, again = plain.describe(ids), plain.describe(ids[3:])
    assert len({id(token) for token in first}) == len(set(ids)) < len(ids)
    assert all(one is other for one, other in zip(first[3:], again, strict=True))


def test_a_token_without_bytes_parts_no_character() -> None:
    assert pieces(b"\xc3", b"", b"\xb1") == [
        ("<C3>", "bytes", 0, "ñ"),
        ("<empty>", "text", -1, ""),
        ("<B1>", "bytes", 0, ""),
    ]


def test_describing_a_long_text_again_makes_nothing_to_look_for_garbage_in(plain: Tokenizer) -> None:
    ids = plain.encode(TEXT * 100)
    plain.describe(ids)
    looked: list[str] = []

    def noted(phase: str, info: object) -> None:
        looked.append(phase)

    gc.callbacks.append(noted)
    try:
        described = plain.describe(ids)
    finally:
        gc.callbacks.remove(noted)
    assert len(described) == len(ids) > 5000
    assert len(looked) <= 2  # one may be due anyway


# Round trips ------------------------------------------------------------------------------------------------------


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    tokenizer = train_tokenizer(TEXT, 270)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(token.text for token in tokenizer.describe(ids))


@given(st.lists(st.integers(0, 269), max_size=40), st.integers(0, 40))
def test_tokens_that_follow_are_described_as_if_all_had_been_there(ids: list[int], cut: int) -> None:
    tokenizer = small()
    assert tokenizer.describe_on(tokenizer.describe(ids[:cut]), ids[cut:]) == tokenizer.describe(ids)


@given(st.text(alphabet="añ中👍\u0301 ", max_size=12), st.integers(0, 40))
def test_characters_cut_in_two_are_whole_when_the_rest_has_followed(text: str, cut: int) -> None:
    tokenizer = small()
    ids = tokenizer.encode(text)
    assert tokenizer.describe_on(tokenizer.describe(ids[:cut]), ids[cut:]) == tokenizer.describe(ids)


def test_one_more_token_costs_no_look_at_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = small()
    described = tokenizer.describe(tokenizer.encode("the cat 中" * 50))
    looked: list[int] = []
    piece = tokenizer.codec.piece

    def noted(token: int) -> Piece | None:
        looked.append(token)
        return piece(token)

    monkeypatch.setattr(tokenizer.codec, "piece", noted)
    longer = tokenizer.describe_on(described, tokenizer.encode("a"))
    assert len(longer) == len(described) + 1
    assert len(looked) <= 1 + LONGEST_CHARACTER + 1
    assert longer[: -len(looked)] == described[: len(longer) - len(looked)]


def test_every_byte_has_an_id(plain: Tokenizer) -> None:
    spelled = {piece.data for token in range(plain.vocabulary) if (piece := plain.codec.piece(token)) is not None}
    assert {bytes([byte]) for byte in range(256)} <= spelled
    assert len(byte_alphabet()) == 256
    assert (byte_alphabet()["Ġ"], byte_alphabet()["Ċ"], byte_alphabet()["A"]) == (b" ", b"\n", b"A")


def test_a_trained_vocabulary_merges_what_repeats(plain: Tokenizer) -> None:
    assert (plain.vocabulary, plain.eos_id, plain.bos_id) == (270, 0, None)
    ids = plain.encode(" the cat")
    assert len(ids) < 4
    assert plain.decode(ids) == " the cat"


@pytest.mark.parametrize("vocabulary", [1000, 10**15])
def test_a_text_too_short_for_a_vocabulary_is_refused(vocabulary: int) -> None:
    with pytest.raises(TokenizerError, match=f"{vocabulary} tokens was asked for, but the text gives 2"):
        train_tokenizer("aaaa", vocabulary)


def test_a_file_comes_back_with_its_special_tokens(plain: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    assert isinstance(plain.codec, JsonCodec)
    plain.codec.save(path)
    assert (Tokenizer.from_file(path).bos_id, Tokenizer.from_file(path).eos_id) == (None, None)
    beside = {"bos_token": None, "eos_token": {"content": END_OF_TEXT, "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(beside))
    again = Tokenizer.from_file(path)
    assert (again.bos_id, again.eos_id) == (None, 0)
    assert again.encode(TEXT) == plain.encode(TEXT)


def test_truncation_and_padding_that_a_file_asks_for_are_left_off() -> None:
    made = train_tokenizer(TEXT, 270)
    assert isinstance(made.codec, JsonCodec)
    backend = tokenizers.Tokenizer.from_str(made.codec.backend.to_str())
    backend.enable_truncation(2)
    backend.enable_padding(length=64)
    tokenizer = Tokenizer(JsonCodec(backend))
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_special_tokens_are_added_only_when_asked(sentencepiece: Tokenizer) -> None:
    with_special, without = sentencepiece.encode("a"), sentencepiece.encode("a", add_special=False)
    assert with_special == [1, *without]


# Refusals ---------------------------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_is_refused(plain: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"Character 3 of the text is U\+D83D, half of a surrogate pair"):
        plain.encode("ab\ud83d")


def test_a_character_that_no_piece_spells_is_refused() -> None:
    # the library would drop the z without a word
    codec = JsonCodec(tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1}, [])))
    assert codec.encode("ab", False) == [0, 1]
    with pytest.raises(TokenizerError, match="Character 2 of the text, 'z', cannot be spelled"):
        codec.encode("az", False)


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "NFKD"])
def test_a_text_is_composed_or_taken_apart_before_it_is_cut(form: Literal["NFC", "NFKC", "NFD", "NFKD"]) -> None:
    backend = backend_of(small())
    backend.normalizer = getattr(normalizers, form)()
    tokenizer = Tokenizer(JsonCodec(backend))
    assert tokenizer.encode("\u1112\u1161\u11ab") == tokenizer.encode("한")
    for text in [*COMPOSED, *odd_texts(150, seed=4)]:
        ids = tokenizer.encode(text)
        assert ids == backend.encode(text).ids
        if END_OF_TEXT not in text:
            assert tokenizer.decode(ids) == unicodedata.normalize(form, text), ascii(text)


COMPOSED = [
    "\u1112\u1161\u11ab", "\u1112\u1161\u11ab 각\u11a8", "ｶﾞ ﾊﾟ", "ﬃ ½ ㍿", "a\u0323\u0301\u0302", "\u0915\u093c", "Å",
]  # fmt: skip


def test_a_composed_character_is_read_as_one() -> None:
    backend = backend_of(small())
    backend.normalizer = normalizers.NFC()
    tokenizer = Tokenizer(JsonCodec(backend))
    read_as = read(tokenizer, tokenizer.encode("\u1112\u1161\u11ab"))
    assert [(text, kind) for text, kind, *_ in read_as] == [("<ED>", "bytes"), ("<95>", "bytes"), ("<9C>", "bytes")]
    assert [character for *_, character in read_as] == ["한", "", ""]
    assert len({group for *_, group, _ in read_as}) == 1


@pytest.mark.parametrize(
    ("normalizer", "text", "refused"),
    [
        (normalizers.NFC(), "한\u1112\u1161\u11abx", ""),
        (normalizers.NFC(), "x\u1112\u1161", "Character 2 of the text, '\u1112'"),
        (normalizers.NFC(), "\u1112\u1161\u11ab\u1100", "Character 4 of the text, '\u1100'"),
        (normalizers.NFKC(), "ｘ", ""),
        (normalizers.NFKC(), "ｘﾞy", "Character 3 of the text, 'y'"),
        (normalizers.Replace("yy", ""), "xyyx", ""),
        (normalizers.Replace("yy", "x"), "yy", ""),
        (normalizers.Replace("yy", ""), "xyyxy", "Character 5 of the text, 'y'"),
        (normalizers.Lowercase(), "XZ", "Character 2 of the text, 'Z'"),
    ],
)
def test_what_normalising_takes_away_is_spelled_and_what_the_vocabulary_lacks_is_not(
    normalizer: normalizers.Normalizer, text: str, refused: str
) -> None:
    backend = tokenizers.Tokenizer(models.BPE({"한": 0, "x": 1, "\u3099": 2}, []))
    backend.normalizer = normalizer
    codec = JsonCodec(backend)
    if refused:
        with pytest.raises(TokenizerError, match=f"^{refused}, cannot be spelled"):
            codec.encode(text, False)
    else:
        assert codec.encode(text, False) == backend.encode(text).ids != []


@pytest.mark.parametrize("token", [-1, 270, 10**9])
def test_an_id_outside_the_vocabulary_is_no_text(plain: Tokenizer, token: int) -> None:
    with pytest.raises(TokenizerError, match=f"no token {token}: the vocabulary has 270 ids, from 0 to 269"):
        plain.decode([1, token])


def test_an_id_that_only_the_model_has_is_shown_by_number(plain: Tokenizer) -> None:
    assert read(plain, [270]) == [("<id 270>", "special", -1, "")]
    assert read(plain, [1 << 40]) == [(f"<id {1 << 40}>", "special", -1, "")]
    with pytest.raises(TokenizerError, match="no token -1"):
        plain.describe([-1])


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"model": 3}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TokenizerError, match=r"^tokenizer\.json (cannot be read|is not a tokenizer)[^\n]*\.$"):
        Tokenizer.from_file(path)


@pytest.mark.parametrize("content", ["", "[]", '{"eos_token": 3}', '{"eos_token": "nowhere"}'])
def test_a_strange_config_beside_a_tokenizer_names_no_special_tokens(
    plain: Tokenizer, tmp_path: Path, content: str
) -> None:
    assert isinstance(plain.codec, JsonCodec)
    plain.codec.save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(content)
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").eos_id is None


# What a person reads ----------------------------------------------------------------------------------------------


def test_white_space_is_visible(plain: Tokenizer) -> None:
    assert [text for text, *_ in read(plain, plain.encode("x \n\ty"))] == ["x", "·", "⏎", "⇥", "y"]


@pytest.mark.parametrize(
    ("character", "drawn"),
    [
        ("a", "a"),
        ("<", "<"),
        ("中", "中"),
        (" ", "·"),
        ("·", "<U+00B7>"),
        ("\r", "<U+000D>"),
        ("\0", "<U+0000>"),
        ("\x7f", "<U+007F>"),
        ("\u00a0", "<U+00A0>"),
        ("\u200d", "<U+200D>"),
        ("\u202e", "<U+202E>"),
        ("\ufe0f", "<U+FE0F>"),
        ("\ue000", "<U+E000>"),
        ("\u0301", "\u0301"),
    ],
)
def test_characters_that_cannot_be_seen_are_shown_by_code_point(character: str, drawn: str) -> None:
    assert visible(character) == drawn


def test_a_combining_mark_on_nothing_sits_on_a_dotted_circle() -> None:
    assert pieces("e\u0301".encode()) == [("e\u0301", "text", -1, "")]
    assert pieces("\u0301e".encode()) == [("◌\u0301e", "text", -1, "")]


def test_bytes_of_one_character_share_a_group(plain: Tokenizer) -> None:
    assert read(plain, plain.encode("aä中")) == [
        ("a", "text", -1, ""),
        ("<C3>", "bytes", 0, "ä"),
        ("<A4>", "bytes", 0, ""),
        ("<E4>", "bytes", 1, "中"),
        ("<B8>", "bytes", 1, ""),
        ("<AD>", "bytes", 1, ""),
    ]


def test_a_token_may_hold_characters_and_a_part_of_one() -> None:
    # GPT-2 has such pieces: a space and the first two bytes of a quotation mark
    assert pieces(b" \xe2\x80", b"\x9cHi") == [("·<E2><80>", "bytes", 0, "“"), ("<9C>Hi", "bytes", 0, "")]


def test_a_token_between_two_split_characters_joins_them() -> None:
    assert pieces(b"\xc3", b"\xa4\xe4\xb8", b"\xad", b"x") == [
        ("<C3>", "bytes", 0, "ä中"),
        ("<A4><E4><B8>", "bytes", 0, ""),
        ("<AD>", "bytes", 0, ""),
        ("x", "text", -1, ""),
    ]


@pytest.mark.parametrize("data", [b"\xe4\xb8", b"\xff", b"\xc0\x80", b"\xed\xa0\xbd", b"\xf5\x80\x80\x80"])
def test_bytes_that_make_no_character_stay_hex_without_a_group(data: bytes) -> None:
    assert pieces(b"a", data, b"b") == [
        ("a", "text", -1, ""),
        ("".join(f"<{byte:02X}>" for byte in data), "bytes", -1, ""),
        ("b", "text", -1, ""),
    ]


def test_no_character_reaches_over_a_special_token() -> None:
    found = describe(range(3), [Piece(b"\xc3"), Piece(b"<s>", special=True), Piece(b"\xa4")])
    assert [(token.text, token.kind, token.group) for token in found] == [
        ("<C3>", "bytes", -1),
        ("<s>", "special", -1),
        ("<A4>", "bytes", -1),
    ]


def test_a_token_without_bytes_is_still_shown() -> None:
    assert pieces(b"", b"a") == [("<empty>", "text", -1, ""), ("a", "text", -1, "")]


def test_a_special_token_in_the_text_is_special(plain: Tokenizer) -> None:
    ids = plain.encode(f"a{END_OF_TEXT}b")
    assert read(plain, ids)[1] == (END_OF_TEXT, "special", -1, "")
    assert plain.decode(ids) == f"a{END_OF_TEXT}b"


def test_sentencepiece_spellings_read_the_same(sentencepiece: Tokenizer) -> None:
    ids = sentencepiece.encode("a bä")
    assert sentencepiece.decode(ids[1:]) == "a bä"
    assert read(sentencepiece, ids) == [
        ("<s>", "special", -1, ""),
        ("·a", "text", -1, ""),
        ("·", "text", -1, ""),
        ("b", "text", -1, ""),
        ("<C3>", "bytes", 0, "ä"),
        ("<A4>", "bytes", 0, ""),
    ]
    longer = sentencepiece.codec.find("<0x20>b")
    assert longer is not None
    assert read(sentencepiece, [longer]) == [("<0x20>b", "text", -1, "")]


def test_a_byte_level_file_with_chinese_pieces_reads_as_characters(tmp_path: Path) -> None:
    """A tokenizer.json of MiniMind's kind: its special tokens come first, and Chinese characters are pieces."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["你好，世界 你们好，这个世界 "] * 9, trainer)
    backend.save(str(tmp_path / "tokenizer.json"))
    beside = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(beside))
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert (tokenizer.vocabulary, tokenizer.bos_id, tokenizer.eos_id) == (backend.get_vocab_size(), 1, 2)
    text = "你好，世界 👍\n<|im_end|>"
    ids = tokenizer.encode(text)
    assert ids == backend.encode(text).ids
    assert tokenizer.decode(ids) == text
    found = tokenizer.describe(ids)
    assert [token.character for token in found if token.character] == ["👍"]
    assert [token.kind for token in found][-1] == "special"
    shown = [token.text for token in found if token.kind == "text"]
    assert "".join(shown) == "你好，世界·⏎"


def test_a_file_at_which_the_library_gives_up_is_a_sentence(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("the question of the whole of the world " * 3, 270)
    assert isinstance(tokenizer.codec, JsonCodec)
    tokenizer.codec.save(tmp_path / "tokenizer.json")
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    state["model"]["continuing_subword_prefix"] = "longer than its merges"  # a slice past an end: Rust panics
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is not a tokenizer"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


class Panic(BaseException):
    """As pyo3 has one for code of Rust that gives up."""


Panic.__name__ = "PanicException"


class Panicking:
    """A codec whose library gives up."""

    size = 9

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        os.write(2, b"thread panicked: \x1b]52;c;aGk=\x07\n")
        raise Panic("retry-limit-in-match over")

    def decode(self, ids: Sequence[int]) -> str:
        raise Panic("decoding")

    def piece(self, token: int) -> Piece:
        if token:
            raise Panic("no such piece")
        return Piece(b"a")

    def find(self, name: str) -> None:
        return None


def test_a_library_that_gives_up_while_it_is_used_is_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer(Panicking())
    with pytest.raises(TokenizerError, match="cannot encode this text with this tokenizer; type ids instead"):
        tokenizer.encode("a")
    for act in (lambda: tokenizer.decode([0]), lambda: tokenizer.decode([1]), lambda: tokenizer.describe([0, 1])):
        with pytest.raises(TokenizerError, match="cannot decode with this tokenizer; its file is damaged"):
            act()
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n", "its own words would reach a terminal as they are"


def test_a_file_that_puts_more_tokens_around_a_text_than_any_model_is_refused(tmp_path: Path) -> None:
    codec = train_tokenizer(TEXT, 270).codec
    assert isinstance(codec, JsonCodec)
    path = tmp_path / "tokenizer.json"
    codec.save(path)
    state = json.loads(path.read_text())
    named = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    for count, ids in ((3, 2), (101, 100)):
        state["post_processor"] = {
            "type": "TemplateProcessing", "single": [named] * count + [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0] * ids, "tokens": ["<s>"] * ids}},
        }  # fmt: skip
        path.write_text(json.dumps(state))
        if count == 3:
            assert Tokenizer.from_file(path).encode("a") == [0] * 6 + codec.encode("a", False)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json puts 10,100 tokens around a text"):
        Tokenizer.from_file(path)


def test_a_file_whose_normalizers_let_a_text_grow_without_bound_is_refused(tmp_path: Path) -> None:
    codec = train_tokenizer(TEXT, 270).codec
    assert isinstance(codec, JsonCodec)
    doubling = normalizers.Replace("a", "aa")
    codec.backend.normalizer = normalizers.Sequence([doubling] * 4)
    codec.save(tmp_path / "tokenizer.json")
    assert JsonCodec.from_file(tmp_path / "tokenizer.json").decode(codec.encode("a", False)) == "a" * 16
    codec.backend.normalizer = normalizers.Sequence([doubling] * 40)
    codec.save(tmp_path / "tokenizer.json")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json may write 1,099,511,627,776 characters for one"):
        JsonCodec.from_file(tmp_path / "tokenizer.json")
