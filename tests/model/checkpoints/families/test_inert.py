"""Config fields that nobody reads: left out where they change nothing, refused where they may, ignored if asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.checkpoints.families.defaults import defaults_of
from ropewalk.model.checkpoints.families.inert import is_inert
from ropewalk.model.checkpoints.families.reading import read_config
from ropewalk.model.checkpoints.families.table import FAMILIES
from ropewalk.model.errors import CheckpointError, ConfigError
from tests.model.checkpoints import reference
from tests.model.checkpoints.families.test_table import change
from tests.model.checkpoints.reference import MOE, NARROW, SIZES, Case

OURS_ALONE = ("minimind", "meta_llama")
"""Families that transformers does not have."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.save(reference.build(Case("llama", "plain", SIZES)), tmp_path)


@pytest.mark.parametrize("family", [family.name for family in FAMILIES if family.name not in OURS_ALONE])
def test_a_config_that_transformers_writes_of_itself_opens_and_what_it_leaves_out_is_its_default(family: str) -> None:
    theirs = transformers.AutoConfig.for_model(family)
    written = json.loads(theirs.to_json_string(use_diff=False))
    assert read_config(written, "config.json").notes == ()
    for name, value in defaults_of(family).items():
        assert getattr(theirs, name) == value, name


def test_sizes_that_are_left_out_are_taken_from_transformers_and_said() -> None:
    fields = {name: value for name, value in SIZES.items() if name not in ("max_position_embeddings", "vocab_size")}
    found = read_config(fields | {"model_type": "llama", "max_sequence_length": 512}, "config.json")
    assert (found.config.max_position, found.config.vocabulary) == (2048, 32_000)
    assert "max_position_embeddings 2,048, vocab_size 32,000" in found.notes[0]
    fewer = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
    grouped = {"model_type": "mistral", "num_attention_heads": 16, "hidden_size": 64}
    assert read_config(fewer | grouped, "config.json").config.kv_heads == 8
    assert read_config(fewer | grouped | {"num_key_value_heads": None}, "config.json").config.kv_heads == 16


INERT: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"qkv_bias": False}), ("llama", {"notes": "my own"}),
    ("llama", {"_model_name_or_path": "x/y"}), ("llama", {"unk_token_id": 3}), ("llama", {"attn_drop": 0.1}),
    ("llama", {"ffn_dropout_rate": 0.2, "gradient_checkpointing": True}), ("llama", {"n_ctx": 4096}),
    ("llama", {"num_heads": 6, "n_embd": 48}), ("llama", {"rotary_dim": 16, "rotary": True}),
    ("llama", {"extra": {}, "mm_layers": 0}), ("gemma2", {"sliding_window_size": 4096}),
    ("qwen3_moe", MOE | {"use_qk_norm": True, "qkv_bias": False, "shared_expert_intermediate_size": 0}),
    ("phi", {"is_causal": True}), ("gpt_neox", {"activation_type": "gelu"}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "fields"), INERT, ids=str)
def test_a_field_that_changes_nothing_is_left_out_and_noted_where_it_is_unknown(
    family: str, fields: dict[str, Any]
) -> None:
    plain = {"model_type": family, **(NARROW if family == "gpt_neox" else SIZES)}
    before, found = read_config(plain, "config.json"), read_config(plain | fields, "config.json")
    if family != "qwen3_moe":
        assert found.config == before.config
    said = " ".join(found.notes)
    assert all(name in said for name in fields if name not in MOE and not is_inert(name))


@pytest.mark.parametrize(
    ("family", "fields"),
    [("llama", {"qkv_bias": True}), ("llama", {"sliding_window_size": 16}), ("llama", {"use_rope": False}),
     ("llama", {"is_causal": False}), ("llama", {"num_heads": 7}), ("llama", {"stretch": 2}),
     ("llama", {"residual_scale_factor": 0}), ("llama", {"attention_kind": "linear"}), ("llama", {"extra": {"a": 1}}),
     ("qwen3", {"use_qk_norm": False}), ("gemma2", {"sliding_window_size": 16}), ("llama", {"_window": 4})],
    ids=str,
)  # fmt: skip
def test_a_field_that_may_change_something_is_refused_until_it_is_ignored(family: str, fields: dict[str, Any]) -> None:
    plain, (name,) = {"model_type": family, **SIZES}, fields
    with pytest.raises(CheckpointError, match=f"'{name}'.*--ignore {name}"):
        read_config(plain | fields, "config.json")
    found = read_config(plain | fields, "config.json", ignore=(name, "not_there"))
    assert found.config == read_config(plain, "config.json").config
    assert f"read without {name}, because that was asked for" in " ".join(found.notes)


def test_what_is_ignored_may_lie_within_another_field_or_be_known(folder: Path) -> None:
    change(folder, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "stretch": 3}, rope_interleaved=True)
    with pytest.raises(ConfigError, match=r"--ignore rope_parameters\.stretch"):
        open_checkpoint(folder)
    checkpoint = open_checkpoint(folder, ignore=("rope_parameters.stretch", "rope_interleaved"))
    assert any("rope_parameters.stretch, rope_interleaved" in note for note in checkpoint.notes)
    assert checkpoint.config.rope is not None
    assert checkpoint.config.rope.base == 1e4


def test_a_family_may_be_said(folder: Path) -> None:
    plain = open_checkpoint(folder).config
    change(folder, model_type="my_llama")
    with pytest.raises(CheckpointError, match="--family"):
        open_checkpoint(folder)
    forced = open_checkpoint(folder, family="llama")
    assert (forced.config, forced.family) == (plain, "llama")
    assert any("asked for" in note for note in forced.notes)
    with pytest.raises(CheckpointError, match=r"'lama' is no family.*llama"):
        open_checkpoint(folder, family="lama")


@pytest.mark.parametrize(
    ("family", "fields"),
    [("gemma2", {"query_pre_attn_scalar": 0}), ("qwen3_moe", MOE | {"mlp_only_layers": [[1]]}),
     ("qwen2_moe", MOE | {"mlp_only_layers": ["a"]})],
    ids=str,
)  # fmt: skip
def test_a_value_that_nothing_can_be_made_of_is_a_sentence(family: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        read_config({"model_type": family, **SIZES} | fields, "config.json")
