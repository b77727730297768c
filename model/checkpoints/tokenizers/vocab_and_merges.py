"""GPT-2's two files: ``vocab.json``, token → id, and ``merges.txt``, a pair of tokens to a line, first merged first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from ropewalk.model.checkpoints.damage import check_is_data
from ropewalk.model.checkpoints.tokenizers.splitters import SPLITTERS
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.added_tokens import NamedTokens, json_object, named_tokens
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer, library_errors

VOCABULARY = "vocab.json"
MERGES = "merges.txt"
GPT2, QWEN = "GPT2Tokenizer", "Qwen2Tokenizer"
KINDS = {GPT2: GPT2, "CodeGenTokenizer": GPT2, QWEN: QWEN}
"""Class in ``tokenizer_config.json`` → how it cuts a text."""
USUAL = {
    GPT2: {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
    QWEN: {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
}
"""Special tokens of a class where the files name none."""


def read_vocab_and_merges(folder: Path) -> Tokenizer:
    """Read the two files of a folder, and what the files beside them name.

    Raises
    ------
    TokenizerError
        When one cannot be read, they do not fit together, or the tokenizer is of a class that is cut in another way.
    """
    check_is_data(folder / MERGES)
    named = named_tokens(folder)
    kind = _kind(named.config, folder)
    try:
        vocabulary = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        lines = (folder / MERGES).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(f"{VOCABULARY} or {MERGES} cannot be read; download them again.", str(error)) from error
    merges = [
        (one, other)
        for one, _, other in (line.rstrip("\r").partition(" ") for line in lines)
        if one and not one.startswith("#version")
    ]
    with library_errors(f"{VOCABULARY} and {MERGES} are not of one byte-pair vocabulary; download both again."):
        backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    _cut(backend, kind, named.config.get("add_prefix_space") is True)
    special = {**USUAL[kind], **named.special}
    notes = replace(named, special=special).add_to(backend)
    ids = {name: backend.token_to_id(name) for name in special.values()}
    before, after = (
        [name] if (name := special.get(f"{side}_token")) and ids[name] is not None else [] for side in ("bos", "eos")
    )
    backend.post_processor = processors.TemplateProcessing(
        single=[*(before if _flag(named, "bos") else []), "$A", *(after if _flag(named, "eos") else [])],
        special_tokens=[(name, ids[name]) for name in {*before, *after}],
    )
    bos, eos = (ids[side[0]] if side else None for side in (before, after))
    return Tokenizer(JsonCodec(backend), bos, eos, notes=notes)


def _flag(named: NamedTokens, side: str) -> bool:
    return named.config.get(f"add_{side}_token") is True


def _kind(config: Mapping[str, Any], folder: Path) -> str:
    named = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if not named:
        return QWEN if str(json_object(folder / "config.json").get("model_type")).startswith("qwen") else GPT2
    if named not in KINDS:
        raise TokenizerError(
            f"{VOCABULARY} and {MERGES} are read as {' or '.join(KINDS)} reads them, but tokenizer_config.json names "
            f"{named!r:.60}; save the tokenizer as tokenizer.json, or use ids."
        )
    return KINDS[named]


def _cut(backend: tokenizers.Tokenizer, kind: str, prefix: bool) -> None:
    backend.decoder = decoders.ByteLevel()
    if kind == GPT2:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        return
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITTERS["qwen2"].patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False),
        ]
    )
