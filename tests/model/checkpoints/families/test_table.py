"""What the table of families reads, and what it refuses by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.families.layouts import Fused
from ropewalk.model.checkpoints.families.reading import fields_of, read_config
from ropewalk.model.checkpoints.families.refused import REASONS
from ropewalk.model.checkpoints.families.table import BY_TYPE, FAMILIES
from ropewalk.model.checkpoints.multimodal import WRAPPERS
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import CheckpointError, ConfigError, RopewalkError, ShapeError
from tests.model.checkpoints import reference
from tests.model.checkpoints.reference import CASES, NARROW, SIZES, Case
from tests.model.checkpoints.traits import TELLING

LLAMA = Case("llama", "plain", SIZES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.save(reference.build(LLAMA), tmp_path)


def change(folder: Path, **fields: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    config |= fields
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value != "gone"}))
    return folder


def sizes(width: int, mlp: int, layers: int, heads: str, vocabulary: int, **more: Any) -> dict[str, Any]:
    """Fields by their usual names; ``heads`` is H/Hkv, with the width of a head where it is not D/H."""
    query, key_value, *head_width = (int(number) for number in heads.split("/"))
    named = {"head_dim": head_width[0]} if head_width else {}
    return named | more | {
        "hidden_size": width, "intermediate_size": mlp, "num_hidden_layers": layers, "num_attention_heads": query,
        "num_key_value_heads": key_value, "vocab_size": vocabulary, "max_position_embeddings": 8192,
    }  # fmt: skip


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
GEMMA = {"query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh"}
TIED = {"tie_word_embeddings": True}
PUBLISHED: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "Qwen3 0.6B": ("qwen3", sizes(1024, 3072, 28, "16/8/128", 151_936, **TIED), 596_049_920, 114_688),
    "Llama 3.1 8B": ("llama", sizes(4096, 14_336, 32, "32/8", 128_256, rope_scaling=LLAMA3), 8_030_261_248, 131_072),
    "Llama 3.1 70B": ("llama", sizes(8192, 28_672, 80, "64/8", 128_256, rope_scaling=LLAMA3), 70_553_706_496, 327_680),
    "Llama 3.2 1B": (
        "llama", sizes(2048, 8192, 16, "32/8/64", 128_256, rope_scaling=LLAMA3, **TIED), 1_235_814_400, 32_768
    ),
    "Mistral 7B": ("mistral", sizes(4096, 14_336, 32, "32/8", 32_000, sliding_window=4096), 7_241_732_096, 131_072),
    "Mistral 7B 0.2": ("mistral", sizes(4096, 14_336, 32, "32/8", 32_000, sliding_window=None), 7_241_732_096, 131_072),
    "Mixtral 8x7B": (
        "mixtral",
        sizes(4096, 14_336, 32, "32/8", 32_000, num_local_experts=8, num_experts_per_tok=2, sliding_window=None),
        46_702_792_704,
        131_072,
    ),
    "Qwen2.5 0.5B": (
        "qwen2", sizes(896, 4864, 24, "14/2", 151_936, use_sliding_window=False, **TIED), 494_032_768, 12_288
    ),
    "Gemma 2 2B": (
        "gemma2",
        sizes(2304, 9216, 26, "8/4/256", 256_000, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, **GEMMA),
        2_614_341_888,
        106_496,
    ),
    "Gemma 3 1B": ("gemma3_text", sizes(1152, 6912, 26, "4/1/256", 262_144, **GEMMA), 999_885_952, 26_624),
    "SmolLM 1.7B": ("llama", sizes(2048, 8192, 24, "32/32", 49_152, **TIED), 1_711_376_384, 196_608),
    "MiniMind2 small": ("llama", sizes(512, 1408, 8, "8/2", 6400), 29_106_688, 4_096),
    "MiniMind2": ("llama", sizes(768, 2048, 16, "8/2", 6400, **TIED), 104_030_976, 12_288),
}  # fmt: skip
"""What was published: family, sizes, number of parameters, bytes of K and V for a token in bfloat16."""

AROUND = {
    "_name_or_path": "/somewhere/step-500000", "architectures": ["AnyForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": [2, 3], "initializer_range": 0.02, "rms_norm_eps": 1e-06, "rope_theta": 1e6,
    "torch_dtype": "bfloat16", "transformers_version": "4.43.0.dev0", "use_cache": True,
}  # fmt: skip
"""What files of transformers 4 hold besides, most of it of no use here."""


@pytest.mark.parametrize("writer", ["transformers 4", "transformers 5"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_count_as_published(name: str, writer: str, tmp_path: Path) -> None:
    family, fields, parameters, kv_per_token = PUBLISHED[name]
    if writer == "transformers 4":
        (tmp_path / "config.json").write_text(json.dumps(AROUND | fields | {"model_type": family}))
    else:
        import transformers

        transformers.AutoConfig.for_model(family, **fields).save_pretrained(tmp_path)
    outline = outline_checkpoint(tmp_path / "config.json")
    assert not outline.holds_weights
    assert outline.parameters == parameters
    assert outline.kv_bytes_in["bfloat16"] == 1000 * kv_per_token
    assert outline.bytes_in["float32"] == 4 * parameters


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in TELLING else pytest.mark.slow) for case in CASES], ids=str
)
def test_a_config_alone_opens_on_the_meta_device(case: Case, tmp_path: Path) -> None:
    import transformers

    transformers.AutoConfig.for_model(case.family, **case.fields).save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path / "config.json")
    assert checkpoint.shapes_only
    assert all(value.is_meta for value in checkpoint.model.parameters())
    with torch.no_grad():
        logits = checkpoint.model(torch.zeros(1, 3, dtype=torch.long, device="meta"))
    assert logits.shape == (1, 3, checkpoint.config.vocabulary)


def test_both_spellings_say_the_same(folder: Path) -> None:
    rule = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 12}
    change(folder, rope_parameters=rule | {"rope_type": "llama3", "rope_theta": 500.0}, dtype="float32")
    new = outline_checkpoint(folder).config
    old = {"rope_parameters": "gone", "dtype": "gone", "torch_dtype": "float32", "rope_theta": 500.0}
    for name in ("rope_type", "type"):
        change(folder, **old, rope_scaling=rule | {name: "llama3"})
        assert outline_checkpoint(folder).config == new


def test_a_null_head_dim_is_the_share_of_the_stream() -> None:
    config = SIZES | {"model_type": "llama", "head_dim": None, "hidden_size": 60}
    assert read_config(config, "config.json").config.head_width == 10


@pytest.mark.parametrize(("flag", "holds_head", "tied"), [(None, True, False), (None, False, True), (True, True, True)])
def test_the_tie_follows_flag_and_file(folder: Path, flag: bool | None, holds_head: bool, tied: bool) -> None:
    tensors = load_file(folder / "model.safetensors")
    if tied:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    if not holds_head:
        del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors")
    change(folder, tie_word_embeddings="gone" if flag is None else flag)
    model = open_checkpoint(folder).model
    assert (model.head.weight is model.embed.weight) == tied


def test_a_tied_flag_gives_way_to_another_matrix_in_the_file(folder: Path) -> None:
    change(folder, tie_word_embeddings=True)
    checkpoint = open_checkpoint(folder)
    assert not checkpoint.config.tied
    stored = load_file(folder / "model.safetensors")["lm_head.weight"]
    torch.testing.assert_close(checkpoint.model.head.weight.detach(), stored, rtol=0, atol=0)


def test_an_unknown_field_is_refused_by_name_with_the_nearest_family(folder: Path) -> None:
    change(folder, decoder_sparse_step=2)
    with pytest.raises(CheckpointError, match=r"'decoder_sparse_step'.*llama.*qwen2_moe"):
        open_checkpoint(folder)


def test_a_field_is_refused_only_where_its_value_matters(folder: Path) -> None:
    change(folder, rope_interleaved=False)
    open_checkpoint(folder)
    change(folder, rope_interleaved=True)
    with pytest.raises(ConfigError, match="rope_interleaved True"):
        open_checkpoint(folder)


def test_an_unknown_rope_field_is_refused(folder: Path) -> None:
    change(folder, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "stretch": 3})
    with pytest.raises(ConfigError, match="'stretch'"):
        open_checkpoint(folder)


@pytest.mark.parametrize(("kind", "near"), [("qwen33", "qwen3"), ("my_llama", "llama"), ("my_qwen3_moe", "qwen3_moe")])
def test_an_unknown_family_is_refused_with_the_nearest(folder: Path, kind: str, near: str) -> None:
    change(folder, model_type=kind)
    with pytest.raises(CheckpointError, match=rf"'{kind}'.*nearest by name that it opens is {near}\."):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("kind", "what"),
    [("deepseek_v3", "latent attention"), ("mamba2", "state-space"), ("qwen3_next", "linear attention"),
     ("bert", "encoder"), ("t5", "encoder-decoder"), ("bloom", "ALiBi"), ("gemma3n", "pictures")],
)  # fmt: skip
def test_families_that_cannot_be_shown_say_what_they_are(folder: Path, kind: str, what: str) -> None:
    change(folder, model_type=kind)
    with pytest.raises(CheckpointError, match=f"{kind}: .*{what}") as caught:
        open_checkpoint(folder)
    assert caught.value.sentence.endswith(".")


def test_the_families_that_were_asked_for_are_there() -> None:
    asked = (
        "llama mistral mixtral qwen2 qwen3 qwen3_moe gemma gemma2 gemma3_text phi3 olmo2 smollm3 glm4 gpt_neox "
        "stablelm granite cohere starcoder2 minimind"
    )
    assert set(asked.split()) <= set(BY_TYPE)
    assert len(FAMILIES) >= 50


def test_nothing_is_both_opened_and_refused() -> None:
    opened = {name for family in FAMILIES for name in (family.name, *family.aliases)} | set(WRAPPERS)
    assert not opened & {kind for kinds, _ in REASONS for kind in kinds}


def test_an_unknown_weight_is_refused_by_name(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.0.self_attn.q_norm.weight": torch.ones(16)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.layers\.0\.self_attn\.q_norm\.weight.*family llama"):
        open_checkpoint(folder)


def test_a_missing_weight_is_named_as_it_would_be_stored(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"blocks\.1\.mlp\.up\.weight.*model\.layers\.\{l\}\.mlp\.up_proj"):
        open_checkpoint(folder)


@pytest.mark.parametrize("fields", [{"num_attention_heads": 4}, {"num_key_value_heads": 3}, {"head_dim": 8}], ids=str)
def test_shapes_that_contradict_the_heads_are_refused_with_both(folder: Path, fields: dict[str, int]) -> None:
    change(folder, **fields)
    with pytest.raises(ShapeError, match=r"[qkvo]_proj\.weight.*\[\d+, \d+\].*\[\d+, \d+\]"):
        open_checkpoint(folder)


def test_another_depth_is_refused_before_anything_is_built(folder: Path) -> None:
    change(folder, num_hidden_layers=1000)
    with pytest.raises(CheckpointError, match="1,000 layers, but the weights hold 4"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden_size", "48"), ("hidden_size", -48), ("hidden_size", None), ("num_attention_heads", 0),
     ("rms_norm_eps", "tiny"), ("rope_theta", True), ("num_hidden_layers", 10**30), ("vocab_size", 2.5),
     ("hidden_act", 3), ("attention_bias", "no"), ("rope_parameters", [1, 2]), ("num_key_value_heads", 5),
     ("head_dim", 7), ("max_position_embeddings", 0), ("intermediate_size", 10**9), ("model_type", 4)],
)  # fmt: skip
def test_values_that_make_no_sense_are_a_sentence(folder: Path, name: str, value: Any) -> None:
    change(folder, **{name: value})
    with pytest.raises(RopewalkError) as caught:
        open_checkpoint(folder)
    assert caught.value.sentence.endswith(".")


@pytest.mark.parametrize(
    "fields", [{"head_dim": 1 << 31}, {"head_dim": None, "hidden_size": 1 << 20, "num_attention_heads": 1}], ids=str
)
def test_a_head_too_wide_for_its_angles_is_refused_before_they_are_computed(
    folder: Path, fields: dict[str, Any]
) -> None:
    change(folder, **fields)
    with pytest.raises(ConfigError, match=r"heads [\d,]+ wide, but they must be at most 16,384"):
        open_checkpoint(folder)


def test_every_family_says_which_fields_it_reads() -> None:
    for family in FAMILIES:
        assert "hidden_size" in fields_of(family)


def test_a_part_of_each_head_rotates_where_the_config_says_so() -> None:
    fields = NARROW | {"model_type": "phi3", "partial_rotary_factor": 0.5}
    config = read_config(fields, "config.json").config
    assert config.head_width == 8
    assert [config.rotary_width(layer) for layer in range(config.layers)] == [4] * config.layers


def test_a_fused_matrix_holds_each_kv_heads_queries_then_its_key_then_its_value() -> None:
    config = ModelConfig(vocabulary=16, width=1, layers=1, heads=4, kv_heads=2, head_width=2, mlp_width=8)
    stored = torch.arange(16.0)[:, None]  # [Hkv · (H/Hkv + 2) · Dh, D]
    rule, shapes = Fused(("query", "key", "value"), "groups"), [(8, 1), (4, 1), (4, 1)]
    query, key, value = (rule.part(stored, index, shapes, config).flatten().tolist() for index in range(3))
    assert query == [0, 1, 2, 3, 8, 9, 10, 11]
    assert key == [4, 5, 12, 13]
    assert value == [6, 7, 14, 15]
