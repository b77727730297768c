"""Tokenizers from GGUF metadata and from ``tokenizer.model``, against llama.cpp's vectors and against sentencepiece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from model.checkpoints.gguf_file import GgufFile
from model.checkpoints.gguf_tokenizer import tokenizer_of
from model.checkpoints.spm_codec import read_model
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


CORPUS = """
To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the slings and arrows of
outrageous fortune, or to take arms against a sea of troubles, and by opposing end them. To die: to sleep; no more.
Äpfel und Birnen, häufig gefragt; the whole of the world is a stage, and all the men and women merely players.
"""


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spm")
    (folder / "corpus.txt").write_text(CORPUS * 20, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    return folder / "tokenizer.model"


@pytest.mark.parametrize(
    "text", ["", "the question", "  two  spaces ", "To be, or", "日本 and 👍", "Äpfel\n\tund", "x" * 50, " ", "▁"]
)
def test_equals_sentencepiece(spm: Path, text: str) -> None:
    reference = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    tokenizer = read_model(spm)
    assert tokenizer.encode(text, add_special=False) == reference.encode(text)
    assert tokenizer.encode(text, add_special=True)[:1] == [reference.bos_id()]
    assert tokenizer.vocabulary == reference.vocab_size()


def test_a_damaged_model_is_a_sentence(spm: Path, tmp_path: Path) -> None:
    data = spm.read_bytes()
    for cut in (0, 1, 7, 100, len(data) - 3):
        (tmp_path / "tokenizer.model").write_bytes(data[:cut])
        with pytest.raises(TokenizerError, match=r"tokenizer\.model"):
            read_model(tmp_path / "tokenizer.model")


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
