"""MiniMind's training files: widths from shapes, questions, wrappers, version 1's names and pairs, mixtures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.errors import CheckpointError
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import prompt
from tests.model.checkpoints.reference import EXPERTS, SIZES, Case
from tests.model.checkpoints.rewriting import first_version, unstacked

WIDE = SIZES | {
    "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 1e6}, "tie_word_embeddings": True, "max_position_embeddings": 32768,
}  # fmt: skip
SECOND = Case("llama", "minimind", WIDE)
THIRD = Case("qwen3", "minimind", WIDE | {"num_key_value_heads": 4, "head_dim": 12, "rms_norm_eps": 1e-6})
MIXED = Case("qwen3_moe", "minimind", THIRD.fields | EXPERTS | {
    "num_experts_per_tok": 1, "norm_topk_prob": True, "moe_intermediate_size": 56})  # fmt: skip


def weights(model: Any, half: bool = True) -> dict[str, Tensor]:
    """The flat dictionary that MiniMind's trainer saves: half precision, the tied matrix under both names."""
    tensors = {name: value.detach() for name, value in model.state_dict().items()}
    return {name: value.half() if half else value for name, value in tensors.items()}


def halved(case: Case) -> Any:
    """A reference whose numbers survive half precision."""
    model = reference.build(case)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(value.half().float())
    return model


def compare(path: Path, model: Any, **options: int) -> None:
    checkpoint = open_checkpoint(path, options=options)
    expected, _ = reference.reference_logits(model, prompt())
    with torch.no_grad():
        assert float((checkpoint.model(prompt()) - expected).abs().max()) <= 5e-5
    assert checkpoint.family == "minimind"
    assert checkpoint.config.tied


def test_version_3_says_everything_by_its_shapes(tmp_path: Path) -> None:
    model = halved(THIRD)
    torch.save(weights(model), tmp_path / "full_sft_64.pth")
    outline = outline_checkpoint(tmp_path / "full_sft_64.pth")
    assert (outline.config.heads, outline.config.kv_heads, outline.config.head_width) == (8, 4, 12)
    assert not outline.questions
    compare(tmp_path / "full_sft_64.pth", model)


def test_version_2_asks_how_many_heads(tmp_path: Path) -> None:
    model = halved(SECOND)
    torch.save(weights(model), tmp_path / "pretrain_64.pth")
    (question,) = outline_checkpoint(tmp_path / "pretrain_64.pth").questions
    assert (question.option, question.assumed) == ("heads", 8)
    assert set(question.choices) == {4, 8, 16, 32}
    checkpoint = open_checkpoint(tmp_path / "pretrain_64.pth")
    assert checkpoint.notes == ("How many query heads does it have? 8 was taken.",)
    compare(tmp_path / "pretrain_64.pth", model)
    assert open_checkpoint(tmp_path / "pretrain_64.pth", options={"heads": 4}).config.heads == 4
    with pytest.raises(CheckpointError, match=r"option heads is 7.*4"):
        open_checkpoint(tmp_path / "pretrain_64.pth", options={"heads": 7})


def test_heads_that_nobody_published_are_asked_for(tmp_path: Path) -> None:
    tensors = weights(halved(SECOND))
    narrow = {name: value[:4] if ".q_proj." in name else value[:2] if "k_proj" in name or "v_proj" in name else value
              for name, value in tensors.items()}  # fmt: skip
    torch.save({name: value.clone() for name, value in narrow.items()}, tmp_path / "odd.pth")
    with pytest.raises(CheckpointError, match=r"2 would fit.*option heads"):
        open_checkpoint(tmp_path / "odd.pth")


def test_a_resume_file_and_prefixes_are_unwrapped(tmp_path: Path) -> None:
    model = halved(THIRD)
    wrapped = {f"module.{name}": value for name, value in weights(model).items()}
    torch.save({"model": wrapped, "optimizer": {"state": {}, "lr": 1e-4}, "epoch": 1}, tmp_path / "x_resume.pth")
    compare(tmp_path / "x_resume.pth", model)


def test_a_lora_file_is_refused_by_name(tmp_path: Path) -> None:
    torch.save({"layers.0.self_attn.q_proj.lora.A.weight": torch.ones(8, 64)}, tmp_path / "lora_medical_64.pth")
    with pytest.raises(CheckpointError, match=r"lora_medical_64\.pth holds LoRA adapters"):
        open_checkpoint(tmp_path / "lora_medical_64.pth")


def test_weights_of_something_else_need_a_config(tmp_path: Path) -> None:
    torch.save({"conv.weight": torch.ones(3, 3)}, tmp_path / "resnet.pth")
    with pytest.raises(CheckpointError, match=r"'conv\.weight'.*config\.json"):
        open_checkpoint(tmp_path / "resnet.pth")


def test_a_mixture_sends_each_token_to_its_best_expert(tmp_path: Path) -> None:
    model = halved(MIXED)
    torch.save(unstacked(weights(model)), tmp_path / "full_sft_64_moe.pth")
    (question,) = outline_checkpoint(tmp_path / "full_sft_64_moe.pth").questions
    assert (question.option, question.assumed, question.choices) == ("experts_per_token", 1, (1, 2, 3, 4))
    compare(tmp_path / "full_sft_64_moe.pth", model)


@pytest.mark.parametrize(("kv_heads", "heads", "base"), [(2, 8, 1e6), (8, 16, 1e4)])
def test_version_1_rotates_adjacent_pairs(kv_heads: int, heads: int, base: float, tmp_path: Path) -> None:
    fields = WIDE | {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 64 // heads,
                     "rope_parameters": {"rope_theta": base}}  # fmt: skip
    case = Case("llama", "first", fields)
    model = halved(case)
    torch.save(first_version(case, weights(model)), tmp_path / "pretrain_64.pth")
    outline = outline_checkpoint(tmp_path / "pretrain_64.pth")
    assert [(one.option, one.assumed) for one in outline.questions] == [("heads", heads), ("rope_base", int(base))]
    assert outline.config.rope is not None
    assert outline.config.rope.pairing == "adjacent"
    compare(tmp_path / "pretrain_64.pth", model)


def test_the_shared_expert_of_older_mixtures_is_added(tmp_path: Path) -> None:
    tensors = unstacked(weights(halved(MIXED)))
    shared = {}
    for name, value in tensors.items():
        if ".experts.0." in name:
            shared[name.replace("experts.0", "shared_experts.0")] = value.clone()
    torch.save(tensors | shared, tmp_path / "moe.pth")
    config = open_checkpoint(tmp_path / "moe.pth").config
    assert config.moe is not None
    assert (config.moe.shared_width, config.moe.per_token, config.moe.experts) == (56, 2, 4)


def test_a_folder_in_minimind_s_own_spelling_opens(tmp_path: Path) -> None:
    import json

    from safetensors.torch import save_file

    model = halved(THIRD)
    config = {
        "model_type": "minimind", "hidden_size": 64, "num_hidden_layers": 4, "use_moe": False, "dropout": 0.0,
        "vocab_size": 97, "flash_attn": True, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 12,
        "hidden_act": "silu", "intermediate_size": 56, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "tie_word_embeddings": True, "inference_rope_scaling": False, "rope_scaling": None,
        "num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 56, "norm_topk_prob": True,
        "router_aux_loss_coef": 5e-4,
    }  # fmt: skip
    tensors = {name: value for name, value in weights(model, half=False).items() if name != "lm_head.weight"}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    compare(tmp_path, model)
    config["inference_rope_scaling"] = True
    config["rope_scaling"] = {"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 2048,
                              "attention_factor": 1.0, "type": "yarn"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    rope = open_checkpoint(tmp_path).config.rope
    assert rope is not None
    assert (rope.scaling, rope.factor, rope.attention_factor) == ("yarn", 16, 1.0)
    assert math.isclose(rope.base, 1e6)
