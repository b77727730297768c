"""The tokenizer in a GGUF file's metadata: byte-level BPE with a named splitter, or SentencePiece scores.

The regular expressions are those of llama.cpp's ``llama-vocab.cpp``, by the name in ``tokenizer.ggml.pre``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors

from ropewalk.model.checkpoints.tokenizers.chat_templates import templates_in
from ropewalk.model.checkpoints.tokenizers.spm_codec import BYTE, CONTROL, NORMAL, UNKNOWN, USER, SpmCodec
from ropewalk.model.checkpoints.tokenizers.spm_normalizer import Normalizer
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer, byte_alphabet

ENDINGS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}{REST}"
QWEN2 = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{REST}"
CASED = (
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+%s|"
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*%s|"
)
GPT4O = CASED % (f"{ENDINGS}?", f"{ENDINGS}?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"

_PLAIN = ("gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "exaone4", "a.x-4.0", "mellum")
_DIGITS = ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b")
_LLAMA3 = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx",
           "smaug-bpe", "chatglm-bpe", "glm4", "granite-docling", "smollm3")  # fmt: skip
_QWEN2 = ("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "hunyuan-dense", "megrez", "kormo", "seed-coder")
SPLITTERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_PLAIN, (GPT2,)),
    **dict.fromkeys(_DIGITS, (r"\p{N}", GPT2)),
    **dict.fromkeys(_LLAMA3, (LLAMA3,)),
    **dict.fromkeys(_QWEN2, (QWEN2,)),
    "gpt-4o": (GPT4O,),
    "llama4": (GPT4O,),
    "tekken": (TEKKEN,),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
}
"""Name of the splitter → its regular expressions, one after the other."""
WHOLE_WORDS = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "gpt-4o", "llama4", "tekken", "smollm3")
)
"""Splitters whose words are looked up whole before they are merged."""


def tokenizer_of(metadata: Mapping[str, Any], where: str) -> Tokenizer | None:
    """Read the tokenizer; None where the file has none.

    Raises
    ------
    TokenizerError
        For a kind or a splitter that is not known, and for lists that do not fit together.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind in (None, "none", "no_vocab"):
        return None
    pieces = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(pieces, list) or not pieces:
        raise TokenizerError(f"{where} names a tokenizer but holds no tokens; only ids can be used.")
    kinds = _numbers(metadata, "tokenizer.ggml.token_type", len(pieces), NORMAL, where)
    before = _special(metadata, "bos", len(pieces))
    after = _special(metadata, "eos", len(pieces))
    named = {"bos_token": before, "eos_token": after}
    chats = templates_in(metadata, {name: pieces[token] for name, token in named.items() if token is not None})
    around = (
        [before] if before is not None and _flag(metadata, "add_bos_token", kind == "llama") else [],
        [after] if after is not None and _flag(metadata, "add_eos_token", False) else [],
    )
    if kind == "llama":
        scores = _numbers(metadata, "tokenizer.ggml.scores", len(pieces), 0, where)
        codec = SpmCodec(
            pieces,
            [float(score) for score in scores],
            [int(one) for one in kinds],
            Normalizer(prefix=_flag(metadata, "add_space_prefix", True), collapse=False),
            user_first=True,
            before=around[0],
            after=around[1],
        )
        return Tokenizer(codec, before, after, chats)
    if kind == "gpt2":
        byte_level = _byte_level(metadata, pieces, [int(one) for one in kinds], around, where)
        return Tokenizer(byte_level, before, after, chats)
    raise TokenizerError(f"{where} holds a tokenizer of the kind {kind!r:.40}, which Ropewalk does not read; use ids.")


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}", default)
    return value if isinstance(value, bool) else default


def _special(metadata: Mapping[str, Any], name: str, size: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{name}_token_id")
    return value if isinstance(value, int) and 0 <= value < size else None


def _numbers(metadata: Mapping[str, Any], key: str, size: int, default: int, where: str) -> Sequence[float]:
    values = metadata.get(key)
    if values is None:
        return [default] * size
    if not isinstance(values, np.ndarray) or len(values) != size:
        raise TokenizerError(
            f"{where} has {size} tokens, but {key} does not list as many numbers; only ids can be used."
        )
    numbers: list[float] = values.tolist()
    return numbers


def _byte_level(
    metadata: Mapping[str, Any],
    pieces: Sequence[str],
    kinds: Sequence[int],
    around: tuple[list[int], list[int]],
    where: str,
) -> JsonCodec:
    """The tokenizers library, set up as llama.cpp splits and merges."""
    name = metadata.get("tokenizer.ggml.pre", "default")
    if name not in SPLITTERS:
        raise TokenizerError(f"{where} splits text by the rule {name!r:.40}, which Ropewalk does not know; use ids.")
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    merges = [tuple(pair.split(" ", 1)) for pair in metadata.get("tokenizer.ggml.merges", [])]
    usable = [
        (pair[0], pair[1])
        for pair in merges
        if len(pair) == 2 and pair[0] in vocabulary and pair[1] in vocabulary and pair[0] + pair[1] in vocabulary
    ]
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=usable, ignore_merges=name in WHOLE_WORDS))
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITTERS[name]]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    alphabet = frozenset(byte_alphabet())
    special, defined = [], []
    for piece, kind in zip(pieces, kinds, strict=True):
        if kind in (CONTROL, UNKNOWN):
            special.append(AddedToken(piece, special=True, normalized=False))
        elif kind in (USER, BYTE) or not alphabet.issuperset(piece):
            defined.append(AddedToken(piece, special=False, normalized=False))
    backend.add_special_tokens([token for token in special if token.content])
    backend.add_tokens([token for token in defined if token.content])
    before, after = ([pieces[index] for index in side] for side in around)
    if before or after:
        backend.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            special_tokens=[(piece, vocabulary[piece]) for piece in {*before, *after}],
        )
    return JsonCodec(backend)
