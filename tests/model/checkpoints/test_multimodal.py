"""Checkpoints that read pictures or sound: their text model is opened alone, and equals transformers on text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.multimodal import TEXT_TYPES, WRAPPERS, text_name
from ropewalk.model.errors import CheckpointError
from tests.closeness import assert_close, terms_of
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import decode, prompt, read
from tests.model.checkpoints.reference import NARROW, PROMPT, SIZES, Case

SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 2, 1]}}
VISION: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "image_size": 28, "patch_size": 14}  # fmt: skip
QWEN_VISION = {"depth": 1, "num_heads": 2, "intermediate_size": 32}
SOUND = {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "hidden_size": 32,
         "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}  # fmt: skip
TEXTS: dict[str, dict[str, Any]] = {
    "gemma3": SIZES | {"model_type": "gemma3_text", "sliding_window": 5, "num_hidden_layers": 7},
    "llava": SIZES | {"model_type": "llama"},
    "llava_next": SIZES | {"model_type": "mistral", "sliding_window": None},
    "llava_onevision": NARROW | {"model_type": "qwen2"},
    "mistral3": SIZES | {"model_type": "mistral", "sliding_window": None},
    "qwen2_vl": NARROW | SECTIONS | {"model_type": "qwen2_vl_text"},
    "qwen2_5_vl": NARROW | SECTIONS | {"model_type": "qwen2_5_vl_text"},
    "qwen3_vl": NARROW | SECTIONS | {"model_type": "qwen3_vl_text"},
    "internvl": NARROW | {"model_type": "qwen2"},
    "idefics3": SIZES | {"model_type": "llama"},
    "smolvlm": SIZES | {"model_type": "llama"},
    "qwen2_audio": NARROW | {"model_type": "qwen2"},
    "voxtral": SIZES | {"model_type": "llama"},
}
BESIDE: dict[str, dict[str, Any]] = {
    "llava_next": {"image_grid_pinpoints": [[28, 28]]},
    "llava_onevision": {"image_grid_pinpoints": [[28, 28]]},
    "qwen2_vl": {"vision_config": {"depth": 1, "embed_dim": 32, "num_heads": 2, "hidden_size": 48}},
    "qwen2_5_vl": {"vision_config": QWEN_VISION | {"hidden_size": 32, "out_hidden_size": 48}},
    "qwen3_vl": {"vision_config": QWEN_VISION | {"hidden_size": 32, "out_hidden_size": 48,
                                                "deepstack_visual_indexes": [0]}},
    "qwen2_audio": {"audio_config": SOUND},
    "voxtral": {"audio_config": SOUND},
}  # fmt: skip


def build(kind: str) -> Any:
    fields = {"text_config": TEXTS[kind], "vision_config": VISION} | BESIDE.get(kind, {})
    if "audio_config" in fields:
        del fields["vision_config"]
    torch.manual_seed(0)
    model = transformers.AutoModelForMultimodalLM.from_config(
        transformers.AutoConfig.for_model(kind, **fields), attn_implementation="eager"
    ).eval()
    reference.randomise(model)
    return model


def test_every_wrapper_has_a_case() -> None:
    assert set(TEXTS) == set(WRAPPERS)


@pytest.mark.parametrize("kind", WRAPPERS)
def test_the_text_model_equals_transformers(kind: str, tmp_path: Path) -> None:
    model = build(kind)
    reference.save(model, tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    ids = prompt()
    expected, patterns = reference.reference_logits(model, ids)
    logits, ours = read(checkpoint, ids, None, "explicit")
    assert float((logits - expected).abs().max()) <= 5e-5
    assert max(float((a - b).abs().max()) for a, b in zip(ours, patterns, strict=True)) <= 1e-5
    steps = reference.reference_decode(model, ids, PROMPT - 4)
    rows = decode(checkpoint, ids, PROMPT - 4)
    assert max(float((a - b).abs().max()) for a, b in zip(rows, steps, strict=True)) <= 5e-5
    assert float(expected.std()) > 0.05
    (note,) = checkpoint.notes
    assert note.startswith(f"{kind} reads {WRAPPERS[kind].reads} too; only its text model is open here (")
    assert outline_checkpoint(tmp_path / "config.json").parameters == checkpoint.parameters


def test_a_flat_config_of_transformers_4_opens(tmp_path: Path) -> None:
    model = build("qwen2_vl")
    reference.save(model, tmp_path)
    expected = open_checkpoint(tmp_path).model(prompt())
    config = json.loads((tmp_path / "config.json").read_text())
    text = {name: value for name, value in config.pop("text_config").items() if name not in ("model_type", "dtype")}
    del text["rope_parameters"]
    rope = {"rope_theta": 1e4, "rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 1]}}
    (tmp_path / "config.json").write_text(json.dumps(config | text | rope))
    assert_close(open_checkpoint(tmp_path).model(prompt()), expected, terms_of(width=96, layers=4))


def test_stored_names_of_every_layout() -> None:
    inside = ("language_model.model", "model.language_model", "model.language_model.model", "model.text_model")
    assert {text_name(f"{prefix}.layers.3.mlp.up_proj.weight") for prefix in inside} == {
        "model.layers.3.mlp.up_proj.weight"
    }
    assert text_name("language_model.lm_head.weight") == text_name("lm_head.weight") == "lm_head.weight"
    for outside in ("vision_tower.x", "model.visual.blocks.0.norm.weight", "image_newline", "model.connector.w"):
        assert text_name(outside) == ""


def test_a_field_beside_the_text_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    reference.save(build("llava"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"turn_upside_down": True}))
    with pytest.raises(CheckpointError, match="'turn_upside_down'"):
        open_checkpoint(tmp_path)


def test_text_types_are_families_that_open() -> None:
    from ropewalk.model.checkpoints.families.table import BY_TYPE

    assert {*TEXT_TYPES.values(), *(wrapper.text for wrapper in WRAPPERS.values())} <= set(BY_TYPE)


REAL: dict[str, tuple[dict[str, Any], str, int]] = {
    "gemma-3-4b": (
        {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
         "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144, "initializer_range": 0.02,
         "mm_tokens_per_image": 256, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
         "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                         "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                         "sliding_window": 1024},
         "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}},
        "gemma3_text",
        # 262,208 · 2,560 embedded; 34 layers of 94.3 M
        3_880_263_168,
    ),
    "llava-1.5-7b": (
        {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100,
         "image_token_index": 32000, "pad_token_id": 32001, "projector_hidden_act": "gelu",
         "tie_word_embeddings": False, "torch_dtype": "float16", "vocab_size": 32064,
         "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
         "text_config": {"_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"],
                         "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05,
                         "torch_dtype": "float16", "vocab_size": 32064},
         "vision_config": {"hidden_size": 1024, "model_type": "clip_vision_model"}},
        "llama",
        # Llama 2 7B has 6,738,415,616; 64 more rows of 4,096 at either end
        6_738_415_616 + 2 * 64 * 4096,
    ),
    "qwen2-vl-7b": (
        {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], "attention_dropout": 0.0,
         "bos_token_id": 151643, "eos_token_id": 151645, "vision_start_token_id": 151652,
         "vision_end_token_id": 151653, "vision_token_id": 151654, "image_token_id": 151655, "video_token_id": 151656,
         "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02, "intermediate_size": 18944,
         "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 28,
         "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
         "sliding_window": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
         "use_sliding_window": False, "vision_config": {"depth": 32, "embed_dim": 1280},
         "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 152064},
        "qwen2",
        7_615_616_512,
    ),
    "gpt-oss-20b": (
        {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "attention_bias": True,
         "attention_dropout": 0.0, "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64,
         "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
         "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"] * 12,
         "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4,
         "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": False,
         "pad_token_id": 199999, "rms_norm_eps": 1e-05, "rope_theta": 150000, "router_aux_loss_coef": 0.9,
         "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn", "truncate": False,
                          "original_max_position_embeddings": 4096},
         "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"},
         "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": False, "use_cache": True,
         "vocab_size": 201088},
        "gpt_oss",
        20_914_757_184,
    ),
}  # fmt: skip
"""Published configs (Gemma 3's and LLaVA's leave much to defaults), the family of the text model, its parameters."""


@pytest.mark.parametrize("name", REAL)
def test_published_configs_open(name: str, tmp_path: Path) -> None:
    config, family, parameters = REAL[name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    outline = outline_checkpoint(tmp_path / "config.json")
    assert (outline.family, outline.parameters) == (family, parameters)


def test_fields_and_weights_of_llavas_own_code_are_left_out(tmp_path: Path) -> None:
    case = Case("llama", "plain", SIZES)
    reference.save(reference.build(case), tmp_path)
    expected = open_checkpoint(tmp_path).model(prompt())
    config = json.loads((tmp_path / "config.json").read_text()) | {
        "model_type": "llava", "mm_vision_tower": "clip", "mm_hidden_size": 1024, "tune_mm_mlp_adapter": True,
        "image_aspect_ratio": "pad", "freeze_mm_mlp_adapter": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(tensors | {"model.mm_projector.0.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    assert_close(checkpoint.model(prompt()), expected, terms_of(width=96, layers=4))
    assert "mm_projector left out" in checkpoint.notes[0]
