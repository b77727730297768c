"""Finds the chat templates of a checkpoint: in files beside the tokenizer, or in a GGUF file's metadata.

Where several places hold one, the order is that of transformers: a file of its own before ``tokenizer_config.json``.
What cannot be read is taken for absent. This file renders nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropewalk.model.tokens.chat import ChatTemplate

CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
JINJA = "chat_template.jinja"
NAMED = "additional_chat_templates"
PROCESSOR = "chat_template.json"
DEFAULT = "default"


def templates_beside(folder: Path) -> tuple[ChatTemplate, ...]:
    """The templates of a folder, the one that is meant by default first."""
    config = _json(folder / CONFIG)
    tokens = _names(_json(folder / SPECIAL)) | _names(config)
    found = {
        **_sources(_json(folder / PROCESSOR).get("chat_template")),
        **_sources(config.get("chat_template")),
        **{path.stem: text for path in sorted((folder / NAMED).glob("*.jinja")) if (text := _text(path))},
    }
    single = _text(folder / JINJA)
    if single:
        found[DEFAULT] = single
    return _templates(found, tokens)


def templates_in(metadata: Mapping[str, Any], tokens: Mapping[str, str]) -> tuple[ChatTemplate, ...]:
    """The templates of a GGUF file; ``tokens`` are what they may name."""
    key = "tokenizer.chat_template"
    found = {
        name.removeprefix(f"{key}."): value
        for name, value in metadata.items()
        if name.startswith(f"{key}.") and isinstance(value, str)
    }
    return _templates({**found, **_sources(metadata.get(key))}, tokens)


def _templates(sources: Mapping[str, str], tokens: Mapping[str, str]) -> tuple[ChatTemplate, ...]:
    names = sorted(sources, key=lambda name: name != DEFAULT)
    return tuple(ChatTemplate(sources[name], name, tokens) for name in names)


def _sources(value: object) -> dict[str, str]:
    """A template is spelled as text, as a dict by name, or as a list of names with their templates."""
    if isinstance(value, str):
        return {DEFAULT: value} if value.strip() else {}
    if isinstance(value, list):
        value = {str(one.get("name")): one.get("template") for one in value if isinstance(one, dict)}
    if isinstance(value, dict):
        return {str(name): text for name, text in value.items() if isinstance(text, str) and text.strip()}
    return {}


def _names(config: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like, each spelled as text or as a dict that holds it."""
    found = {}
    for key, value in config.items():
        name = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(name, str):
            found[key] = name
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(_text(path))
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _text(path: Path) -> str:
    """What a file says; nothing where it cannot be read. A pipe would be waited for without end."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
