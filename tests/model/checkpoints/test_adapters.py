"""LoRA adapters: merged into their base as peft merges them, and what cannot be merged is refused by name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint, outline_checkpoint
from ropewalk.model.checkpoints.adapter_file import is_adapter
from ropewalk.model.errors import CheckpointError, ConfigError, RopewalkError, ShapeError
from tests.model.checkpoints import reference
from tests.model.checkpoints.gguf_writing import write
from tests.model.checkpoints.parity import prompt
from tests.model.checkpoints.reference import CASES, SIZES, Case

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft", "ignore:.is_gradient_checkpointing.:FutureWarning")

CLOSE = 1e-5
"""Of merged weights in float32."""
LOGITS = 5e-5
"""Of logits, whose products are added in another order where nothing is merged."""


@dataclass(frozen=True)
class Trained:
    """An adapter that is made as peft makes it."""

    family: str
    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    variant: str = "plain"

    def __str__(self) -> str:
        return f"{self.family}-{self.name}"


ALL = {"target_modules": "all-linear"}
ADAPTERS = [
    Trained("llama", "all", ALL),
    Trained("llama", "stabilised", {"target_modules": ["q_proj", "v_proj"], "use_rslora": True, "r": 4}),
    Trained("llama", "patterns", ALL | {
        "r": 4, "rank_pattern": {"q_proj": 2, r"^model\.layers\.1\.mlp\.up_proj": 3, "3.self_attn.k_proj": 1},
        "alpha_pattern": {r"layers\.[12]\..*_proj": 5, "o_proj": 2},
    }),
    Trained("llama", "dora", ALL | {"use_dora": True}),
    Trained("llama", "embeddings", {"target_modules": ["embed_tokens", "lm_head", "q_proj"]}),
    Trained("llama", "saved", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens", "norm"]}),
    Trained("qwen2", "biases", {"target_modules": ["q_proj", "k_proj"], "bias": "all"}),
    Trained("qwen2", "own-biases", {"target_modules": ["q_proj", "k_proj"], "bias": "lora_only"}),
    Trained("gpt2", "conv", {"target_modules": ["c_attn", "c_fc", "c_proj"], "fan_in_fan_out": True}),
    Trained("gpt2", "conv-dora", {"target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True}),
    Trained("phi3", "fused", {"target_modules": ["qkv_proj", "gate_up_proj", "o_proj"]}),
    Trained("phi3", "fused-dora", {"target_modules": ["qkv_proj"], "use_dora": True}),
    Trained("gpt_neox", "groups", {"target_modules": ["query_key_value", "dense"]}),
    Trained("codegen", "blocks", {"target_modules": ["qkv_proj"]}),
    Trained("falcon", "grouped", {"target_modules": ["query_key_value"]}, "grouped"),
    Trained("gemma2", "all", ALL),
]  # fmt: skip


def case_of(trained: Trained) -> Case:
    return next(case for case in CASES if (case.family, case.variant) == (trained.family, trained.variant))


def train(model: Any, folder: Path, **fields: Any) -> Any:
    """Make an adapter whose every number is random, and write it."""
    import peft  # seconds, which only the tests that train one wait for

    torch.manual_seed(1)
    config = peft.LoraConfig(**({"lora_alpha": 3, "r": 2} | fields))
    adapted = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if value.requires_grad:
                value.add_(torch.randn_like(value), alpha=0.3 if "magnitude" not in name else 0.05)
    adapted.save_pretrained(str(folder))
    return adapted.eval()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A base and an adapter of it."""
    base = reference.save(reference.build(Case("llama", "plain", SIZES)), tmp_path / "base")
    train(reference.build(Case("llama", "plain", SIZES)), tmp_path / "mine", target_modules=["q_proj", "v_proj"])
    return base, tmp_path / "mine"


def change(folder: Path, **fields: Any) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def refused(base: Path, adapter: Path, *parts: str, kind: type[RopewalkError] = CheckpointError) -> None:
    for opening in (open_checkpoint, outline_checkpoint):
        with pytest.raises(kind) as caught:
            opening(base, adapter=adapter)
        assert all(part in caught.value.sentence for part in parts), caught.value.sentence
        assert caught.value.sentence.endswith(".")


def same(one: Checkpoint, other: Checkpoint) -> None:
    theirs = dict(other.model.named_parameters())
    for name, value in one.model.named_parameters():
        assert float((value - theirs[name]).abs().max()) <= CLOSE, name


@pytest.mark.parametrize("trained", ADAPTERS, ids=str)
def test_an_adapter_is_merged_as_peft_merges_it(trained: Trained, tmp_path: Path) -> None:
    case = case_of(trained)
    reference.save(reference.build(case), tmp_path / "base")
    adapted = train(reference.build(case), tmp_path / "mine", **trained.fields)
    with torch.no_grad():
        expected = adapted(prompt()).logits
    plain = open_checkpoint(tmp_path / "base")
    checkpoint = open_checkpoint(tmp_path / "base", adapter=tmp_path / "mine")
    logits = checkpoint.model(prompt())
    assert float((logits - plain.model(prompt())).abs().max()) > 1e-3, "it changes something"
    assert float((logits - expected).abs().max()) <= LOGITS
    adapted.merge_and_unload().save_pretrained(tmp_path / "merged")
    same(checkpoint, open_checkpoint(tmp_path / "merged"))


def test_what_is_open_says_what_was_merged(folders: tuple[Path, Path]) -> None:
    base, mine = folders
    change(mine, base_model_name_or_path="org/base")
    checkpoint, outline = open_checkpoint(base, adapter=mine), outline_checkpoint(base, adapter=str(mine))
    note = "mine is merged into the weights: LoRA of rank 2 on 8 matrices (q_proj, v_proj), trained on org/base."
    assert checkpoint.name == outline.name == "base + mine"
    assert note in checkpoint.notes
    assert note in outline.notes
    assert open_checkpoint(base).name == "base"
    fewer = open_checkpoint(base, adapter=mine, options={"first_layers": 2})
    whole = dict(checkpoint.model.named_parameters())
    for name, value in fewer.model.named_parameters():
        assert torch.equal(value, whole[name])
    with pytest.raises(CheckpointError, match=r"mine is a LoRA adapter, trained on org/base: .*--adapter mine"):
        open_checkpoint(mine)
    assert is_adapter(mine / "adapter_model.safetensors")
    assert not is_adapter(base)


def test_an_older_file_of_weights_is_read_too(folders: tuple[Path, Path]) -> None:
    base, mine = folders
    expected = open_checkpoint(base, adapter=mine)
    torch.save(load_file(mine / "adapter_model.safetensors"), mine / "adapter_model.bin")
    (mine / "adapter_model.safetensors").unlink()
    same(open_checkpoint(base, adapter=mine), expected)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_gguf_is_a_base_too(family: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if (case.family, case.variant) == (family, "plain"))
    case = Case(family, "plain", case.fields | {"query_pre_attn_scalar": 16} if family == "gemma2" else case.fields)
    base = reference.save(reference.build(case), tmp_path / "base")
    fields = {"target_modules": ["q_proj", "up_proj"], "modules_to_save": ["norm"]}
    train(reference.build(case), tmp_path / "mine", **fields)
    file = write(reference.build(case), case, tmp_path / "base.gguf", load_file(base / "model.safetensors"))
    expected = open_checkpoint(base, adapter=tmp_path / "mine").model(prompt())
    found = open_checkpoint(file, adapter=tmp_path / "mine").model(prompt())
    assert float((found - expected).abs().max()) <= LOGITS


@pytest.mark.parametrize("changed", ["lm_head", "embed_tokens"])
def test_tied_matrices_part_where_only_one_is_changed(changed: str, tmp_path: Path) -> None:
    case = Case("llama", "tied", SIZES | {"tie_word_embeddings": True})
    base = reference.save(reference.build(case), tmp_path / "base")
    adapted = train(reference.build(case), tmp_path / "mine", target_modules=[changed])
    with torch.no_grad():
        expected = adapted(prompt()).logits
    checkpoint = open_checkpoint(base, adapter=tmp_path / "mine")
    assert not checkpoint.config.tied
    assert float((checkpoint.model(prompt()) - expected).abs().max()) <= LOGITS


def test_an_adapter_of_the_bare_model_fits_the_whole_one(folders: tuple[Path, Path], tmp_path: Path) -> None:
    base, mine = folders
    expected = open_checkpoint(base, adapter=mine)
    tensors = load_file(mine / "adapter_model.safetensors")
    bare = {name.replace("base_model.model.model.", "base_model.model."): value for name, value in tensors.items()}
    save_file(bare, mine / "adapter_model.safetensors")
    same(open_checkpoint(base, adapter=mine), expected)


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"peft_type": "IA3"}, "IA3 adapter"), ({"trainable_token_indices": [3]}, "trainable_token_indices"),
     ({"target_parameters": ["experts.gate_up_proj"]}, "stacked parameters"), ({"lora_bias": True}, "lora_bias"),
     ({"layer_replication": [[0, 2]]}, "another depth"), ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4"),
     ({"alora_invocation_tokens": [1]}, "certain tokens"), ({"new_kind": {"a": 1}}, "'new_kind'"),
     ({"use_dora": True}, "holds no magnitudes of"), ({"r": 5}, "the rank 5"),
     ({"rank_pattern": {"(a+)+": 2}}, "too intricate")],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_by_name(
    folders: tuple[Path, Path], fields: dict[str, Any], says: str
) -> None:
    refused(folders[0], change(folders[1], **fields), says)


@pytest.mark.parametrize("fields", [{"r": "8"}, {"r": 0}, {"use_dora": "yes"}, {"lora_alpha": None, "use_rslora": "no"},
                                    {"alpha_pattern": {"q_proj": -1}}, {"rank_pattern": [1]}], ids=str)  # fmt: skip
def test_fields_that_make_no_sense_are_a_sentence(folders: tuple[Path, Path], fields: dict[str, Any]) -> None:
    refused(folders[0], change(folders[1], **fields), "adapter_config.json", kind=ConfigError)


def test_an_adapter_of_another_model_is_refused_before_anything_is_loaded(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    _, mine = folders
    deeper = reference.save(reference.build(Case("llama", "l", SIZES | {"num_hidden_layers": 1})), tmp_path / "one")
    refused(deeper, mine, "the model has 1 layers")
    other = reference.save(reference.build(next(one for one in CASES if one.family == "gpt2")), tmp_path / "gpt2")
    refused(other, mine, "which this model does not have")
    wide = reference.save(reference.build(Case("llama", "w", SIZES | {"hidden_size": 96})), tmp_path / "wide")
    refused(wide, mine, "has shape [2, 48]", "[2, 96]", kind=ShapeError)


def test_files_that_do_not_fit_together_are_a_sentence(folders: tuple[Path, Path], tmp_path: Path) -> None:
    base, mine = folders
    path = mine / "adapter_model.safetensors"
    tensors = load_file(path)
    half = {name: value for name, value in tensors.items() if "layers.0.self_attn.q_proj.lora_B" not in name}
    save_file(half, path)
    refused(base, mine, "A and B belong together")
    save_file(tensors | {"base_model.model.lora_x": torch.ones(2)}, path)
    refused(base, mine, "'base_model.model.lora_x'")
    save_file({name: value[0] for name, value in tensors.items()}, path)
    refused(base, mine, "rank", kind=RopewalkError)
    save_file({name: torch.full_like(value, torch.nan) for name, value in tensors.items()}, path)
    with pytest.raises(CheckpointError, match="NaN"):
        open_checkpoint(base, adapter=mine)
    path.unlink()
    refused(base, mine, "no adapter_model.safetensors")
    refused(base, tmp_path / "nowhere", "it is no adapter")
