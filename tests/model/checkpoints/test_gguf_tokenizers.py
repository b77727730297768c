"""Tokenizers from GGUF metadata against llama.cpp's vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.checkpoints.gguf_file import GgufFile
from model.checkpoints.gguf_tokenizer import tokenizer_of
from model.errors import TokenizerError

VECTORS = Path(__file__).resolve().parents[4] / "shared" / "data" / "tokenizers"
BETWEEN = "\n__ggml_vocab_test__\n"


@pytest.mark.shared
@pytest.mark.skipif(not VECTORS.is_dir(), reason="the vocabularies beside the checkout are not here")
@pytest.mark.parametrize("name", ["llama-spm", "qwen2"])
def test_the_vectors_pass_in_full(name: str) -> None:
    file = VECTORS / f"ggml-vocab-{name}.gguf"
    tokenizer = tokenizer_of(GgufFile(file).metadata, file.name)
    assert tokenizer is not None
    texts = Path(f"{file}.inp").read_text(encoding="utf-8").split(BETWEEN)
    expected = Path(f"{file}.out").read_text(encoding="utf-8").split("\n")
    assert len(texts) == len(expected) == 47
    for text, line in zip(texts, expected, strict=True):
        ids = [int(number) for number in line.split()]
        assert tokenizer.encode(text, add_special=False) == ids
        assert tokenizer.decode(ids) == text


def test_an_unknown_splitter_is_named() -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.pre": "new-rule"}
    with pytest.raises(TokenizerError, match="new-rule"):
        tokenizer_of(metadata, "x.gguf")


def test_lists_that_do_not_fit_are_refused() -> None:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "a"],
        "tokenizer.ggml.scores": np.zeros(5, np.float32),
    }
    with pytest.raises(TokenizerError, match="scores"):
        tokenizer_of(metadata, "x.gguf")


def test_without_a_tokenizer_there_are_only_ids() -> None:
    assert tokenizer_of({}, "x.gguf") is None
