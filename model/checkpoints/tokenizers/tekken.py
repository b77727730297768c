"""Mistral's ``tekken.json``: tiktoken's merging by rank, with the splitter and the special tokens in the file itself.

Special tokens take the first ids, ranks the ids after them. Files before version 7 do not list their special tokens;
those were the same in all of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropewalk.model.checkpoints.config_file import read_json
from ropewalk.model.checkpoints.tokenizers.tiktoken import TiktokenCodec
from ropewalk.model.errors import CheckpointError, TokenizerError
from ropewalk.model.tokens.tokenizer import Tokenizer

NAME = "tekken.json"
BEFORE_7 = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip
BOS, EOS = "<s>", "</s>"


def read_tekken(path: Path) -> Tokenizer:
    """Read a vocabulary.

    Raises
    ------
    TokenizerError
        For a file that is cut short, or whose lists do not fit together.
    """
    try:
        content = read_json(path)
        names = _special_names(content)
        ranks = _ranks(content, len(names))
        pattern = content["config"]["pattern"]
        special = {name: token for token, name in enumerate(names)}
        bos, eos = special.get(BOS), special.get(EOS)
        codec = TiktokenCodec(ranks, special, pattern, [] if bos is None else [bos])
    except CheckpointError as error:
        raise TokenizerError(error.sentence, error.details) from error
    except Exception as error:  # the library that splits raises nothing narrower for a pattern it cannot read
        sentence = f"{path.name} is not a whole Tekken vocabulary; download it again."
        raise TokenizerError(sentence, repr(error)) from error
    return Tokenizer(codec, bos, eos)


def _special_names(content: Mapping[str, Any]) -> list[str]:
    """The special tokens by id, filled up to the number that the file states."""
    listed = content.get("special_tokens")
    if listed is None:
        names = list(BEFORE_7)
    else:
        ordered = sorted((int(one["rank"]), str(one["token_str"])) for one in listed)
        if [rank for rank, _ in ordered] != list(range(len(ordered))):
            raise ValueError("the special tokens' ranks are not in one row")
        names = [name for _, name in ordered]
    stated = content["config"].get("default_num_special_tokens", len(names))
    return [*names, *(f"<SPECIAL_{number}>" for number in range(len(names), min(int(stated), 1 << 16)))]


def _ranks(content: Mapping[str, Any], specials: int) -> dict[bytes, int]:
    """Token bytes to id; the list may be longer than the vocabulary that is used."""
    size = content["config"].get("default_vocab_size")
    used = content["vocab"] if size is None else content["vocab"][: max(0, int(size) - specials)]
    ranks = {base64.b64decode(one["token_bytes"], validate=True): specials + rank for rank, one in enumerate(used)}
    if len(ranks) != len(used) or any(bytes([byte]) not in ranks for byte in range(256)):
        raise binascii.Error("a token is there twice, or a byte is not")
    return ranks
