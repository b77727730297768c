"""GPT-2's two files, and tokens that only the files beside a tokenizer name, against transformers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers

from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import END_OF_TEXT, JsonCodec, Tokenizer, train_tokenizer
from tests.model.checkpoints.odd_texts import odd_texts
from tests.model.checkpoints.tokenizers.test_beside import CORPUS

TEXTS = [
    "to be or not", " to be", "  12 34!!\n\n it's\t", "<s>to</s> be", "the<new> cat", "the <new> cat", "a <new>\n b",
    "x<|tool|>y <|tool|> z", "Newer Änew newnew", f"a{END_OF_TEXT}b", "한\u1112\u1161\u11ab é e\u0301 ½", "日本👍",
]  # fmt: skip
NEW = {"content": "<new>", "special": False, "lstrip": False, "rstrip": False, "normalized": True, "single_word": False}


@cache
def parts() -> tuple[dict[str, int], list[tuple[str, str]], str]:
    """A small byte-level vocabulary, its merges, and both as a tokenizer.json; ``<s>`` and ``</s>`` are words in it."""
    codec = train_tokenizer(CORPUS * 2, 300).codec
    assert isinstance(codec, JsonCodec)
    state = json.loads(codec.backend.to_str())
    vocabulary, merges = state["model"]["vocab"], [(one, other) for one, other in state["model"]["merges"]]
    vocabulary |= {"<s>": 300, "</s>": 301}
    return vocabulary, merges, json.dumps(state)


def two_files(folder: Path, version: str = "#version: 0.2\n", **files: Any) -> Path:
    """A folder of GPT-2's kind, with further files of JSON by their names."""
    vocabulary, merges, _ = parts()
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = "".join(f"{one} {other}\n" for one, other in merges)
    (folder / "merges.txt").write_text(version + lines, encoding="utf-8")
    return beside(folder, **files)


def beside(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def ours_in(folder: Path) -> Tokenizer:
    found = tokenizer_beside(folder)
    assert found is not None
    return found


def same(ours: Tokenizer, theirs: Any) -> None:
    """Every id, and the text again; and texts in which every special token stands."""
    for text in [*TEXTS, *odd_texts(120, seed=5)]:
        assert ours.encode(text) == theirs(text).input_ids, ascii(text)
        assert ours.encode(text, add_special=False) == theirs(text, add_special_tokens=False).input_ids, ascii(text)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({}, {}),
        ({"bos_token": "<s>", "eos_token": {"__type": "AddedToken", **NEW, "content": "</s>", "special": True}}, {}),
        ({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}, {}),
        ({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}, {}),
        ({"add_prefix_space": True}, {}),
        ({}, {"added_tokens": {"<new>": 302, "<|tool|>": 303}, "special_tokens_map": {"eos_token": "</s>"}}),
        (
            {"additional_special_tokens": ["<|tool|>"]},
            {"added_tokens": {"<|tool|>": 303, "<new>": 302}, "special_tokens_map": {"bos_token": {"content": "<s>"}}},
        ),
        ({"added_tokens_decoder": {"302": NEW, "303": {**NEW, "content": "<|tool|>", "special": True}}}, {}),
    ],
    ids=["plain", "named", "bos", "bos and eos", "prefix", "older", "older special", "decoder"],
)
@pytest.mark.parametrize("kind", ["GPT2Tokenizer", "Qwen2Tokenizer"])
def test_two_files_give_the_ids_of_their_tokenizer(
    kind: str, config: dict[str, Any], files: dict[str, Any], tmp_path: Path
) -> None:
    folder = two_files(tmp_path, tokenizer_config={"tokenizer_class": kind, **config}, **files)
    theirs = getattr(transformers, kind).from_pretrained(folder)
    ours = ours_in(folder)
    same(ours, theirs)
    assert ours.notes == ()
    assert ours.vocabulary == len(theirs)
    special = {token for token, added in theirs.added_tokens_decoder.items() if added.special}
    assert {token for token in range(len(theirs)) if ours.describe([token])[0].kind == "special"} == special


@pytest.mark.parametrize(
    ("config", "cut_as"),
    [({"model_type": "gpt2"}, "GPT2Tokenizer"), ({"model_type": "qwen2"}, "Qwen2Tokenizer"), (None, "GPT2Tokenizer")],
)
def test_without_a_class_the_model_says_how_text_is_cut(
    config: dict[str, Any] | None, cut_as: str, tmp_path: Path
) -> None:
    folder = two_files(tmp_path, version="", **({} if config is None else {"config": config}))
    same(ours_in(folder), getattr(transformers, cut_as).from_pretrained(two_files(folder)))


def test_a_tokenizer_json_goes_before_the_two_files(tmp_path: Path) -> None:
    folder = two_files(tmp_path)
    (folder / "tokenizer.json").write_text(json.dumps({**json.loads(parts()[2]), "added_tokens": []}), encoding="utf-8")
    (folder / "vocab.json").write_text("{}", encoding="utf-8")
    assert ours_in(folder).vocabulary == 302


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vocab.json", "{", "vocab.json or merges.txt cannot be read"),
        ("vocab.json", "[]", "are not of one byte-pair vocabulary"),
        ("vocab.json", '{"a": "b"}', "are not of one byte-pair vocabulary"),
        ("merges.txt", "x y\n", "are not of one byte-pair vocabulary"),
        ("merges.txt", "", "merges.txt is empty"),
        ("merges.txt", "version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("tokenizer_config.json", '{"tokenizer_class": "RobertaTokenizer"}', "names 'RobertaTokenizer'"),
    ],
)
def test_files_that_do_not_fit_are_a_sentence(name: str, content: str, said: str, tmp_path: Path) -> None:
    (two_files(tmp_path) / name).write_text(content, encoding="utf-8")
    with pytest.raises(TokenizerError, match=said):
        tokenizer_beside(tmp_path)


# Tokens that only the files beside a tokenizer.json name --------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"special": True, "normalized": False},
        {"lstrip": True},
        {"rstrip": True},
        {"lstrip": True, "rstrip": True, "special": True, "normalized": False},
        {"single_word": True},
        {"content": "New"},
        {"content": "New", "normalized": False},
    ],
    ids=["text", "special", "left", "right", "both", "word", "lower", "as it is"],
)
def test_tokens_that_only_the_config_names_are_found_as_transformers_finds_them(
    flags: dict[str, Any], tmp_path: Path
) -> None:
    state = json.loads(parts()[2])
    state["normalizer"] = {"type": "Lowercase"}
    tools = {**NEW, "content": "<|tool|>", "special": True, "normalized": False}
    config = {"added_tokens_decoder": {"303": tools, "302": {**NEW, **flags}}, "eos_token": "</s>"}
    folder = beside(tmp_path, tokenizer=state, tokenizer_config=config)
    theirs, ours = transformers.PreTrainedTokenizerFast.from_pretrained(folder), ours_in(folder)
    same(ours, theirs)
    assert ours.notes == ()
    assert ours.describe([302])[0].kind == ("special" if flags.get("special") else "text")
    assert 303 in ours.encode("x<|tool|>y")


def test_another_id_than_the_files_give_is_said(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"330": NEW, "0": {**NEW, "content": END_OF_TEXT}}}
    folder = beside(tmp_path, tokenizer=json.loads(parts()[2]), tokenizer_config=config)
    ours = ours_in(folder)
    same(ours, transformers.PreTrainedTokenizerFast.from_pretrained(folder))
    assert ours.notes == ("<new> has the id 302, as in transformers, though the files give it 330.",)


@pytest.mark.parametrize(
    "config",
    [
        {"added_tokens_decoder": {"x": NEW, "302": "<new>", "-1": NEW, "²": NEW, "303": {"content": 3}, "304": {}}},
        {"added_tokens_decoder": {"302": {"content": "\ud800"}}},
        {"added_tokens_decoder": [], "eos_token": {"content": "\ud800"}, "additional_special_tokens": [3, {}, None]},
        {"eos_token": "nowhere"},
    ],
)
def test_what_names_no_token_adds_none(config: dict[str, Any], tmp_path: Path) -> None:
    folder = beside(tmp_path, tokenizer=json.loads(parts()[2]), tokenizer_config=config)
    beside(folder, added_tokens={"": 302, "<new>": "302", "\ud800": 303}, special_tokens_map=[])
    assert ours_in(folder).vocabulary == 302
