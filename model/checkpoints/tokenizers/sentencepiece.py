"""SentencePiece's own files (``tokenizer.model``, ``spiece.model``): BPE or Unigram, with its rules for spaces.

The file is a protocol buffer (sentencepiece_model.proto), read here in plain Python so that a damaged one can only
raise.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ropewalk.model.checkpoints.tokenizers.spm_codec import CONTROL, LOOKS_SPECIAL, NORMAL, USER, Added, SpmCodec
from ropewalk.model.checkpoints.tokenizers.spm_normalizer import Normalizer, Replacements
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import Tokenizer

UNIGRAM, BPE = 1, 2
Message = Mapping[int, "int | bytes"]


def read_model(path: Path) -> Tokenizer:
    """Read a SentencePiece model, and what ``tokenizer_config.json`` and ``added_tokens.json`` beside it add.

    Raises
    ------
    TokenizerError
        When it is not one, or of a kind that cuts at words or characters.
    """
    try:
        return _model(path.read_bytes(), path)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise TokenizerError(f"{path.name} is not a SentencePiece model; download it again.", str(error)) from error


def _model(data: bytes, path: Path) -> Tokenizer:
    pieces: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: Message = {}
    normalizer: Message = {}
    for field, value in _wire(data):
        if field == 1 and isinstance(value, bytes):
            entry = dict(_wire(value))
            pieces.append(_bytes(entry.get(1, b"")).decode("utf-8"))
            scores.append(struct.unpack("<f", _bytes(entry.get(2, b"\0\0\0\0")))[0])
            kind = entry.get(3, NORMAL)
            kinds.append(kind if isinstance(kind, int) else NORMAL)
        elif field == 2 and isinstance(value, bytes):
            trainer = dict(_wire(value))
        elif field == 3 and isinstance(value, bytes):
            normalizer = dict(_wire(value))
    if not pieces:
        raise ValueError("no pieces")
    kind = trainer.get(3, UNIGRAM)
    if kind not in (UNIGRAM, BPE):
        raise TokenizerError(
            f"{path.name} is a SentencePiece model that cuts at words or characters, not BPE or Unigram; use its "
            "tokenizer.json, or type ids."
        )
    around = _config_beside(path)
    bos = _control(around.get("bos_token"), trainer.get(46, b"<s>"), pieces, kinds)
    eos = _control(around.get("eos_token"), trainer.get(47, b"</s>"), pieces, kinds)
    codec = SpmCodec(
        pieces,
        scores,
        kinds,
        _normalizer(normalizer, trainer),
        unigram=kind == UNIGRAM,
        added=_added(path, around, pieces),
        before=[bos] if bos is not None and around.get("add_bos_token", True) is not False else [],
        after=[eos] if eos is not None and around.get("add_eos_token", False) is True else [],
    )
    return Tokenizer(codec, bos, eos)


def _normalizer(fields: Message, trainer: Message) -> Normalizer:
    table = _bytes(fields.get(2, b""))
    return Normalizer(
        replacements=Replacements(table) if table else None,
        prefix=fields.get(3, 1) == 1,
        collapse=fields.get(4, 1) == 1,
        escape=fields.get(5, 1) == 1,
        suffix=trainer.get(24, 0) == 1,
    )


def _config_beside(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _control(named: object, default: int | bytes, pieces: Sequence[str], kinds: Sequence[int]) -> int | None:
    """The id of the token that the config names, else of the one that the model's trainer did; None for none."""
    if isinstance(named, dict):
        named = named.get("content")
    wanted = named if isinstance(named, str) else _bytes(default).decode("utf-8")
    return next((i for i, piece in enumerate(pieces) if piece == wanted and kinds[i] in (CONTROL, USER)), None)


def _added(path: Path, config: Mapping[str, Any], pieces: Sequence[str]) -> dict[int, Added]:
    """Tokens that come after the vocabulary."""
    found: dict[int, Added] = {}
    try:
        listed = json.loads(path.with_name("added_tokens.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        listed = {}
    for name, token in listed.items() if isinstance(listed, dict) else ():
        if isinstance(token, int) and token >= len(pieces) and isinstance(name, str) and name:
            found[token] = Added(name, special=LOOKS_SPECIAL.fullmatch(name) is not None)
    described = config.get("added_tokens_decoder")
    for key, value in described.items() if isinstance(described, dict) else ():
        name = value.get("content") if isinstance(value, dict) else None
        if key.isdecimal() and len(key) < 10 and int(key) >= len(pieces) and isinstance(name, str) and name:
            found[int(key)] = Added(name, *(value.get(flag) is True for flag in ("special", "lstrip", "rstrip")))
    return found


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes were expected")
    return value


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer message: numbers, or bytes for everything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value: int | bytes
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind] if kind in (1, 5) else -1, at)
            if size < 0 or at + size > len(data):
                raise ValueError("a field goes past the end")
            value = data[at : at + size]
            at += size
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
