"""A tokenizer of transformers' as one of ours: it encodes itself, and its tokens are shown as all others are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tokenizers

from ropewalk.model.errors import TokenizerError
from ropewalk.model.tokens.tokenizer import JsonCodec, Piece, Tokenizer


class TransformersCodec:
    """What a ``PreTrainedTokenizer`` does, as a codec."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._pieces: JsonCodec | None = None
        if isinstance(backend, tokenizers.Tokenizer):  # a copy, whose padding and truncation are our own
            self._pieces = JsonCodec(tokenizers.Tokenizer.from_str(backend.to_str()))
        self._special = {int(token) for token in tokenizer.all_special_ids}

    @property
    def size(self) -> int:
        """How many ids there are."""
        return len(self.tokenizer)

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text, as the tokenizer makes them."""
        return [int(token) for token in self.tokenizer.encode(text, add_special_tokens=add_special)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of known ids."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def piece(self, token: int) -> Piece | None:
        """What an id stands for; None where there is no such id."""
        if self._pieces is not None:
            return self._pieces.piece(token)
        if not 0 <= token < self.size:
            return None
        special = token in self._special
        name = self.tokenizer.convert_ids_to_tokens(token) if special else self.decode([token])
        return Piece(str(name).encode(), special)

    def find(self, name: str) -> int | None:
        """The id of a special token by name."""
        return next((token for token in self._special if self.tokenizer.convert_ids_to_tokens(token) == name), None)


def tokenizer_of(tokenizer: Any) -> Tokenizer | None:
    """One of ours for what a person gave: None, ours, or transformers'.

    Raises
    ------
    TokenizerError
        For anything else.
    """
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    if not all(hasattr(tokenizer, name) for name in ("encode", "decode", "all_special_ids", "convert_ids_to_tokens")):
        raise TokenizerError(
            f"{type(tokenizer).__name__} is no tokenizer of transformers'; give what AutoTokenizer.from_pretrained "
            "gives, or none, and ids as prompts."
        )
    return Tokenizer(TransformersCodec(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id)
