"""Tokens beside a vocabulary: those that ``tokenizer_config.json`` and older files name, as transformers reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

CONFIG = "tokenizer_config.json"
ADDED = "added_tokens.json"
SPECIAL = "special_tokens_map.json"
LISTS = ("extra_special_tokens", "additional_special_tokens")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True)
class NamedTokens:
    """What the files of a folder name.

    Attributes
    ----------
    config
        ``tokenizer_config.json``; empty where it cannot be read.
    added
        Tokens by the ids that the files give them.
    special
        ``bos_token`` and its like → how it is spelled.
    """

    config: Mapping[str, Any]
    added: Mapping[int, AddedToken]
    special: Mapping[str, str]

    def add_to(self, backend: tokenizers.Tokenizer) -> tuple[str, ...]:
        """Add what the vocabulary lacks, and make special what it has as ordinary tokens.

        The library numbers what it adds from the end of the vocabulary on, and transformers with it.

        Returns
        -------
        tuple[str, ...]
            Where that is another id than the files give, in sentences.
        """
        known = {token.content for token in backend.get_added_tokens_decoder().values()}
        new = [(number, token) for number, token in sorted(self.added.items()) if token.content not in known]
        backend.add_tokens([token for _, token in new])
        named = {*self.special.values()} - known - {token.content for _, token in new}
        backend.add_tokens(
            [AddedToken(name, special=True) for name in sorted(named) if backend.token_to_id(name) is not None]
        )
        moved = [(token.content, number, backend.token_to_id(token.content)) for number, token in new]
        return tuple(
            f"{name} has the id {taken}, as in transformers, though the files give it {number}."
            for name, number, taken in moved
            if number != taken
        )


def named_tokens(folder: Path) -> NamedTokens:
    """Read what the files of a folder name; what cannot be understood is taken for absent."""
    config, older = json_object(folder / CONFIG), json_object(folder / SPECIAL)
    listed = config.get("added_tokens_decoder")
    spelled = config if isinstance(listed, dict) else {**config, **older}
    special = {key: name for key, value in spelled.items() if key.endswith("_token") and (name := _name(value))}
    names = {*special.values(), *_listed(spelled)}
    if isinstance(listed, dict):
        added = {int(key): token for key, value in listed.items() if _is_id(key) and (token := _token(value, names))}
    else:
        added = {
            number: AddedToken(name, special=name in names, normalized=name not in names)
            for name, number in json_object(folder / ADDED).items()
            if _name(name) and isinstance(number, int)
        }
    return NamedTokens(config, added, special)


def _listed(config: Mapping[str, Any]) -> Iterator[str]:
    for key in LISTS:
        values = config.get(key)
        for value in values if isinstance(values, list) else ():
            name = _name(value)
            if name:
                yield name


def _token(value: object, special: set[str]) -> AddedToken | None:
    name = _name(value)
    if not name or not isinstance(value, dict):
        return None
    flags = {flag: value[flag] for flag in FLAGS if isinstance(value.get(flag), bool)}
    return AddedToken(name, special=value.get("special") is True or name in special, **flags)


def _name(value: object) -> str:
    """A token is spelled as its name, or as an object that holds it; empty for anything else."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and _has_bytes(value) else ""


def _has_bytes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_id(key: str) -> bool:
    return key.isdecimal() and len(key) < 10


def json_object(path: Path) -> dict[str, Any]:
    """What a file of JSON holds; empty where it cannot be read or holds something else."""
    try:
        read = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
