"""Flips, cuts and stretches bytes of every format: always a model or a sentence, never a crash, a hang or code run.

Each format gets its share of more than a thousand mutations, from a fixed seed. Tokenizers are used as well as read.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.errors import RopewalkError
from ropewalk.model.tokens.tokenizer import JsonCodec, train_tokenizer
from tests.model.checkpoints import reference
from tests.model.checkpoints.gguf_writing import write
from tests.model.checkpoints.reference import SIZES, Case
from tests.model.checkpoints.rewriting import first_version, shard

CASE = Case("qwen3", "tiny", SIZES | {
    "num_hidden_layers": 1, "vocab_size": 24, "hidden_size": 16, "intermediate_size": 8, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8})  # fmt: skip
HEADER = 6_000
"""Most mutations fall into the first and last bytes, where the descriptions are."""


def _safetensors(folder: Path) -> tuple[Path, Path]:
    return folder / "model.safetensors", folder


def _config(folder: Path) -> tuple[Path, Path]:
    return folder / "config.json", folder


def _index(folder: Path) -> tuple[Path, Path]:
    shard(folder, "safetensors")
    return folder / "model.safetensors.index.json", folder


def _torch(folder: Path) -> tuple[Path, Path]:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder / "pytorch_model.bin", folder


def _minimind(folder: Path) -> tuple[Path, Path]:
    torch.save(load_file(folder / "model.safetensors"), folder / "full_sft_16.pth")
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    return folder / "full_sft_16.pth", folder / "full_sft_16.pth"


def _torch_index(folder: Path) -> tuple[Path, Path]:
    shard(folder, "bin")
    return folder / "pytorch_model.bin.index.json", folder


def _params(folder: Path) -> tuple[Path, Path]:
    fields = CASE.fields
    tensors = first_version(CASE, load_file(folder / "model.safetensors"))
    del tensors["layers.0.attention.mask"]
    kept = {name: value for name, value in tensors.items() if "q_norm" not in name and "k_norm" not in name}
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    torch.save(kept, folder / "consolidated.00.pth")
    params = {"dim": fields["hidden_size"], "n_layers": 1, "n_heads": fields["num_attention_heads"], "n_kv_heads": 1,
              "head_dim": fields["head_dim"], "vocab_size": -1, "max_seq_len": 48, "norm_eps": 1e-5}  # fmt: skip
    (folder / "params.json").write_text(json.dumps(params))
    return folder / "params.json", folder


def _tokenizer(folder: Path) -> tuple[Path, Path]:
    codec = train_tokenizer("the question of the whole of the world " * 3, 270).codec
    assert isinstance(codec, JsonCodec)
    codec.save(folder / "tokenizer.json")
    return folder / "tokenizer.json", folder


def _gguf(folder: Path) -> tuple[Path, Path]:
    path = write(reference.build(CASE), CASE, folder / "model.gguf", load_file(folder / "model.safetensors"))
    return path, path


FORMATS: dict[str, tuple[Callable[[Path], tuple[Path, Path]], int]] = {
    "safetensors": (_safetensors, 100),
    "config": (_config, 60),
    "index": (_index, 40),
    "torch index": (_torch_index, 20),
    "params": (_params, 40),
    "tokenizer": (_tokenizer, 40),
    "torch": (_torch, 80),
    "minimind": (_minimind, 40),
    "gguf": (_gguf, 100),
}


def mutated(data: bytes, draw: random.Random) -> bytes:
    """One to four changes of a kind: bits flipped, bytes set, a stretch cut out, doubled, or the end cut off."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        if not changed:
            break
        near_end = draw.random() < 0.3
        span = min(len(changed), HEADER)
        at = len(changed) - 1 - draw.randrange(span) if near_end else draw.randrange(span)
        kind = draw.randrange(6)
        if kind == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        elif kind == 2:
            del changed[at : at + draw.randint(1, 64)]
        elif kind == 3:
            stretch = bytes(changed[at : at + draw.randint(1, 64)])
            changed[at:at] = stretch
        elif kind == 4:
            changed[at : at + 8] = draw.choice((bytes(8), b"\xff" * 8, b"\xff" * 7 + b"\x7f", draw.randbytes(8)))
        else:
            del changed[len(changed) - draw.randint(1, max(1, len(changed) // 2)) :]
    return bytes(changed)


def sentence_of(path: Path) -> str:
    """Why a file is refused; empty when it opens."""
    try:
        checkpoint = open_checkpoint(path)
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.describe(checkpoint.tokenizer.encode("the world"))
    except RopewalkError as error:
        return error.sentence
    # a tokenizer that cannot be read is a note: ids can still be typed
    return checkpoint.notes[-1] if checkpoint.notes else ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_a_model_or_a_sentence(name: str, tmp_path: Path) -> None:
    prepare, count = FORMATS[name]
    folder = tmp_path / "original"
    reference.save(reference.build(CASE), folder)
    damaged, opened = prepare(folder)
    data = damaged.read_bytes()
    open_checkpoint(opened)
    draw = random.Random(f"ropewalk {name}")
    refused = 0
    for number in range(count):
        damaged.write_bytes(mutated(data, draw))
        sentence = sentence_of(opened)
        assert sentence == "" or (sentence.endswith(".") and "\n" not in sentence), (number, sentence)
        refused += bool(sentence)
    assert refused > count // 10
    shutil.rmtree(folder)
