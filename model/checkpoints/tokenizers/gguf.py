"""The tokenizer in a GGUF file's metadata: a byte-pair vocabulary with a named splitter, or SentencePiece scores.

What the metadata leaves open is taken as llama.cpp takes it (``llama-vocab.cpp``): which tokens go around a text, and
which end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from ropewalk.model.checkpoints.tokenizers.chat_templates import templates_in
from ropewalk.model.checkpoints.tokenizers.splitters import SPLITTERS
from ropewalk.model.checkpoints.tokenizers.spm_codec import CONTROL, NORMAL, UNKNOWN, USER, SpmCodec
from ropewalk.model.checkpoints.tokenizers.spm_normalizer import SPACE, Normalizer
from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer

PRE = "tokenizer.ggml.pre"
MERGES = "tokenizer.ggml.merges"
ENDS = frozenset(
    {
        "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
        "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
        "<end_of_utterance>", "<turn|>", "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
    }
)  # fmt: skip
"""Names of tokens that end a text or a turn in whatever vocabulary has them."""
NOT_ENDS = (
    ("<|end|>", {"<|return|>", "<|call|>"}),
    ("<|end|>", {"<|flush|>", "<|calls|>"}),
    ("</s>", {"<|tool_response>"}),
)
"""Names that end nothing where the vocabulary has those others too."""
USUAL = {"llama": {"bos": 1, "eos": 2}, "gpt2": {"bos": 11, "eos": 11}}
"""Kind of vocabulary → special tokens where the file names none."""


def tokenizer_of(metadata: Mapping[str, Any], where: str) -> Tokenizer | None:
    """Read the tokenizer; None where the file has none.

    Raises
    ------
    TokenizerError
        For a kind or a splitter that is not known, missing merges, and lists that do not fit together.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind in (None, "none", "no_vocab"):
        return None
    pieces = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(pieces, list) or not pieces:
        raise TokenizerError(f"{where} names a tokenizer but holds no tokens; only ids can be used.")
    if kind not in ("llama", "gpt2", "gemma4"):
        raise TokenizerError(
            f"{where} holds a tokenizer of the kind {kind!r:.40}, which Ropewalk does not read; use ids."
        )
    kinds = [int(one) for one in _numbers(metadata, "tokenizer.ggml.token_type", len(pieces), NORMAL, where)]
    rule = "gemma4" if kind == "gemma4" else metadata.get(PRE)
    name = rule or "default"
    if kind != "llama" and name not in SPLITTERS:
        raise TokenizerError(f"{where} splits text by the rule {name!r:.40}, which Ropewalk does not know; use ids.")
    before = None if name in ("glm4", "chatglm-bpe") else _usual(kind, "bos", kinds)
    before = _special(metadata, "bos", len(pieces), before)
    after = _special(metadata, "eos", len(pieces), _usual(kind, "eos", kinds))
    named = {"bos_token": before, "eos_token": after}
    chats = templates_in(metadata, {name: pieces[token] for name, token in named.items() if token is not None})
    begins = kind == "llama" or SPLITTERS[name].begins
    around = (
        [before] if before is not None and _flag(metadata, "add_bos_token", begins) else [],
        [after] if after is not None and _flag(metadata, "add_eos_token", False) else [],
    )
    ends = _ends(metadata, pieces)
    if kind == "llama":
        scores = _numbers(metadata, "tokenizer.ggml.scores", len(pieces), 0, where)
        codec = SpmCodec(
            pieces,
            [float(score) for score in scores],
            kinds,
            Normalizer(prefix=_flag(metadata, "add_space_prefix", True), collapse=False),
            user_first=True,
            before=around[0],
            after=around[1],
        )
        return Tokenizer(codec, before, after, chats, ends)
    byte_pairs = _byte_pairs(metadata, name, pieces, kinds, around, where)
    note = (
        f"{where} does not say how text is split ({PRE}); as in llama.cpp the default rule is used, so ids may not be "
        "those that the model was trained on."
    )
    return Tokenizer(byte_pairs, before, after, chats, ends, () if rule else (note,))


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}", default)
    return value if isinstance(value, bool) else default


def _special(metadata: Mapping[str, Any], name: str, size: int, default: int | None = None) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{name}_token_id")
    return value if isinstance(value, int) and 0 <= value < size else default


def _usual(kind: str, name: str, kinds: Sequence[int]) -> int | None:
    """The token that llama.cpp takes where the file names none, unless it is an ordinary one."""
    token = USUAL.get(kind, {}).get(name, len(kinds))
    return token if token < len(kinds) and kinds[token] == CONTROL else None


def _ends(metadata: Mapping[str, Any], pieces: Sequence[str]) -> frozenset[int]:
    """The tokens that end a text or a turn: by their keys, and by their names."""
    by_name = {piece: token for token, piece in enumerate(pieces) if piece in ENDS}
    dropped = {name for name, others in NOT_ENDS if others <= by_name.keys()}
    keyed = (_special(metadata, key, len(pieces)) for key in ("eos", "eot", "eom"))
    return frozenset(token for token in keyed if token is not None) | {
        token for piece, token in by_name.items() if piece not in dropped
    }


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


def _byte_pairs(
    metadata: Mapping[str, Any],
    name: str,
    pieces: Sequence[str],
    kinds: Sequence[int],
    around: tuple[list[int], list[int]],
    where: str,
) -> JsonCodec:
    """The tokenizers library, set up as llama.cpp splits and merges."""
    if MERGES not in metadata:
        raise TokenizerError(
            f"{where} holds a byte-pair vocabulary, but its merges ({MERGES}) are missing, so no text can be cut into "
            "its tokens; convert the model again, or use ids."
        )
    splitter = SPLITTERS[name]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    pairs = ((pair[0] + one, other) for pair in metadata[MERGES] for one, _, other in [pair[1:].partition(" ")] if pair)
    usable = [
        (one, other) for one, other in pairs if one in vocabulary and other in vocabulary and one + other in vocabulary
    ]
    backend = tokenizers.Tokenizer(
        models.BPE(vocabulary, usable, ignore_merges=splitter.whole_words, byte_fallback=splitter.spaced)
    )
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in splitter.patterns]
    if splitter.spaced:
        backend.normalizer = normalizers.Replace(" ", SPACE)
        backend.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        backend.decoder = decoders.ByteLevel()
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    special = [
        piece
        for piece, kind in zip(pieces, kinds, strict=True)
        if piece and (kind in (CONTROL, UNKNOWN) or (piece in ENDS and kind != USER))
    ]
    defined = [piece for piece, kind in zip(pieces, kinds, strict=True) if piece and kind == USER]
    backend.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    backend.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in defined])
    before, after = ([pieces[index] for index in side] for side in around)
    if before or after:
        backend.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            special_tokens=[(piece, vocabulary[piece]) for piece in {*before, *after}],
        )
    return JsonCodec(backend)
