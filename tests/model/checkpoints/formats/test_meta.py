"""Meta's own folders: adjacent pairs, shards cut along different axes, what params.json leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.errors import CheckpointError
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import prompt
from tests.model.checkpoints.reference import NARROW, Case, scaled
from tests.model.checkpoints.rewriting import first_version
from tests.model.checkpoints.tokenizers.test_beside import ranks_of_a_small_vocabulary, write_tiktoken

CASE = Case("llama", "meta", NARROW | {"num_attention_heads": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-5})
PARAMS: dict[str, Any] = {
    "dim": 48, "n_layers": 4, "n_heads": 6, "n_kv_heads": 2, "vocab_size": -1, "multiple_of": 8, "norm_eps": 1e-5,
    "rope_theta": 10_000.0, "max_seq_len": 48,
}  # fmt: skip


def tensors_of(model: Any, case: Case) -> dict[str, Tensor]:
    renamed = first_version(case, {name: value.detach() for name, value in model.state_dict().items()})
    del renamed["layers.0.attention.mask"]
    return renamed | {"rope.freqs": torch.ones(4)}


def axis(name: str, embedding: int) -> int | None:
    if "norm" in name or "rope" in name:
        return None
    if name.startswith("tok_embeddings"):
        return embedding
    return 1 if name.endswith(("wo.weight", "w2.weight")) else 0


def write(folder: Path, tensors: dict[str, Tensor], params: dict[str, Any], shards: int, embedding: int) -> Path:
    (folder / "params.json").write_text(json.dumps(params))
    for number in range(shards):
        part = {}
        for name, value in tensors.items():
            cut = axis(name, embedding)
            part[name] = value.clone() if cut is None else value.tensor_split(shards, cut)[number].clone()
        torch.save(part, folder / f"consolidated.{number:02}.pth")
    return folder


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("embedding", [1, 0])
def test_shards_are_joined_piece_by_piece(embedding: int, tmp_path: Path) -> None:
    test_shards_are_joined_along_the_right_axis(2, embedding, tmp_path)


@pytest.mark.parametrize(("shards", "embedding"), [(1, 1), (2, 1), (2, 0)])
def test_shards_are_joined_along_the_right_axis(shards: int, embedding: int, tmp_path: Path) -> None:
    case = Case("llama", "meta", CASE.fields | {"vocab_size": 98})
    model = reference.build(case)
    folder = write(tmp_path, tensors_of(model, case), PARAMS, shards, embedding)
    checkpoint = open_checkpoint(folder)
    expected, _ = reference.reference_logits(model, prompt())
    with torch.no_grad():
        assert float((checkpoint.model(prompt()) - expected).abs().max()) <= 5e-5
    assert checkpoint.config.rope is not None
    assert checkpoint.config.rope.pairing == "adjacent"
    assert not checkpoint.notes


def test_stretching_is_a_question_where_params_do_not_say(tmp_path: Path) -> None:
    case = Case("llama", "llama3", scaled(CASE.fields, "llama3", 4))
    folder = write(tmp_path, tensors_of(reference.build(case), case), PARAMS | {"use_scaled_rope": True}, 1, 1)
    (question,) = outline_checkpoint(folder).questions
    assert (question.option, question.choices, question.assumed) == ("rope_factor", (8, 32), 8)
    rope = open_checkpoint(folder, options={"rope_factor": 32}).config.rope
    assert rope is not None
    assert (rope.scaling, rope.factor, rope.original_max_position) == ("llama3", 32.0, 8192)


def test_the_limit_is_a_question_where_params_do_not_say(tmp_path: Path) -> None:
    params = {name: value for name, value in PARAMS.items() if name != "max_seq_len"}
    folder = write(tmp_path, tensors_of(reference.build(CASE), CASE), params, 1, 1)
    assert [question.option for question in outline_checkpoint(folder).questions] == ["max_position"]
    assert open_checkpoint(folder, options={"max_position": 64}).config.max_position == 64


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, tensors_of(reference.build(CASE), CASE), PARAMS, 3, 1)
    (folder / "consolidated.01.pth").unlink()
    with pytest.raises(CheckpointError, match=r"consolidated\.01\.pth"):
        open_checkpoint(folder)


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, tensors_of(reference.build(CASE), CASE), PARAMS | {"qk_norm": True}, 1, 1)
    with pytest.raises(CheckpointError, match="'qk_norm'"):
        open_checkpoint(folder)


def test_mistral_s_folders_open_too(tmp_path: Path) -> None:
    model = reference.build(CASE)
    tensors = {name: value.contiguous() for name, value in tensors_of(model, CASE).items() if name != "rope.freqs"}
    (tmp_path / "params.json").write_text(json.dumps(PARAMS | {"hidden_dim": 56, "head_dim": 8, "vocab_size": 97}))
    save_file(tensors, tmp_path / "consolidated.safetensors")
    expected, _ = reference.reference_logits(model, prompt())
    with torch.no_grad():
        assert float((open_checkpoint(tmp_path).model(prompt()) - expected).abs().max()) <= 5e-5


def test_a_llama_3_folder_takes_text_by_its_tiktoken_file(tmp_path: Path) -> None:
    folder = write(tmp_path, tensors_of(reference.build(CASE), CASE), PARAMS, 1, 1)
    write_tiktoken(folder / "tokenizer.model", ranks_of_a_small_vocabulary())
    tokenizer = open_checkpoint(folder).tokenizer
    assert tokenizer is not None
    first, *rest = tokenizer.describe(tokenizer.encode("To be, or not"))
    assert (first.text, first.kind) == ("<|begin_of_text|>", "special")
    assert "".join(token.text for token in rest) == "To·be,·or·not"
