"""Writes a decoder as an ordinary checkpoint folder, in the layout that Hugging Face calls Qwen3.

Names of weights come from the same table that opens such folders.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from ropewalk.model.checkpoints.families.reading import read_config
from ropewalk.model.checkpoints.families.table import BY_TYPE
from ropewalk.model.checkpoints.weights import pattern_of
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import ConfigError
from ropewalk.model.tokens.tokenizer import JsonCodec, Tokenizer

WEIGHTS = "model.safetensors"
LAYOUT = "qwen3"


def save_folder(folder: Path, model: Decoder, tokenizer: Tokenizer) -> None:
    """Write config.json, model.safetensors, tokenizer.json and tokenizer_config.json; the weights come last.

    Raises
    ------
    ConfigError
        When the model has something that the Qwen3 layout cannot say.
    """
    config = layout_config(model.config, tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", config)
    _write(folder / "tokenizer_config.json", _tokenizer_config(model.config, tokenizer))
    if isinstance(tokenizer.codec, JsonCodec):
        tokenizer.codec.save(folder / "tokenizer.json")
    part = folder / f"{WEIGHTS}.part"
    part.write_bytes(save(layout_weights(model), metadata={"format": "pt"}))
    os.replace(part, folder / WEIGHTS)


def layout_config(config: ModelConfig, tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    """The config in Hugging Face's spelling.

    Raises
    ------
    ConfigError
        When reading it back would give another model.
    """
    c = config
    written: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": LAYOUT,
        "vocab_size": c.vocabulary,
        "hidden_size": c.width,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_width,
        "intermediate_size": c.mlp_width,
        "max_position_embeddings": c.max_position,
        "hidden_act": "silu",
        "rms_norm_eps": c.norm_eps,
        "rope_theta": 10_000.0 if c.rope is None else c.rope.base,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "tie_word_embeddings": c.tied,
        "bos_token_id": None if tokenizer is None else tokenizer.bos_id,
        "eos_token_id": None if tokenizer is None else tokenizer.eos_id,
        "dtype": "float32",
        "use_cache": True,
    }
    if read_config(written, "config.json").config != config:
        raise ConfigError("This model has parts that the Qwen3 layout has no words for, so it cannot be saved as one.")
    return written


def layout_weights(model: Decoder) -> dict[str, Tensor]:
    """The weights under the names of the layout, a tied matrix once."""
    stored = {ours: theirs for theirs, ours in BY_TYPE[LAYOUT].weights.items() if isinstance(ours, str)}
    weights = {}
    for name, parameter in model.named_parameters():
        pattern, numbers = pattern_of(name)
        theirs = stored[pattern]
        weights[theirs.replace("{l}", numbers[0]) if numbers else theirs] = parameter.detach().contiguous()
    return weights


def _tokenizer_config(config: ModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _name(tokenizer, tokenizer.bos_id),
        "eos_token": _name(tokenizer, tokenizer.eos_id),
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": config.max_position,
    }


def _name(tokenizer: Tokenizer, token: int | None) -> str | None:
    return None if token is None else tokenizer.decode([token])


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
