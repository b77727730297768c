"""What a folder says beside its weights: the tokens that end a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers

from ropewalk.model.checkpoints.opening import describe, open_checkpoint


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ({}, None, ()),
        ({"eos_token_id": 2}, None, (2,)),
        ({"eos_token_id": [2, 5]}, {}, (2, 5)),
        ({"eos_token_id": 2}, {"eos_token_id": [3, 4]}, (3, 4)),
        ({"eos_token_id": 2}, {"eos_token_id": None}, (2,)),
        ({"text_config": {"eos_token_id": 6}}, None, (6,)),
        ({"eos_token_id": [True, "x", 7]}, None, (7,)),
        ({"eos_token_id": 2}, "no JSON", (2,)),
    ],
)
def test_what_is_said_of_generation_goes_before_the_config(
    config: dict[str, Any], generation: dict[str, Any] | str | None, ends: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **config}), encoding="utf-8")
    if generation is not None:
        said = generation if isinstance(generation, str) else json.dumps(generation)
        (tmp_path / "generation_config.json").write_text(said, encoding="utf-8")
    assert describe(tmp_path, {}).ends == ends


def test_the_tokenizer_may_know_another_end(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, eos_token_id=4
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    backend = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")),
        eos_token="</s>",
    )
    backend.save_pretrained(tmp_path)
    assert open_checkpoint(tmp_path).ends == {4, backend.eos_token_id} == {4, 1}
