"""GGUF files as checkpoints: metadata read as a config, tensors under their own names, q and k un-permuted.

The container is in ``gguf_file.py``, the table of architectures in ``model.checkpoints.families.gguf_architectures``,
tokenizers in ``model.checkpoints.tokenizers.gguf``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.gguf_architectures import ARCHITECTURES, NAMES, Architecture
from ropewalk.model.checkpoints.families.reading import inert_notes, without_ignored
from ropewalk.model.checkpoints.families.refused import reason
from ropewalk.model.checkpoints.formats.magic import kind_of
from ropewalk.model.checkpoints.source import WHOLE, Format, Part, Source, Stored
from ropewalk.model.checkpoints.tokenizers.gguf import tokenizer_of
from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.rope import frequencies
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import Options, ignored
from ropewalk.model.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from ropewalk.model.checkpoints.formats.gguf_file import GgufFile

SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
TURNING = re.compile(r"blk\.\d+\.attn_(q|k)\.(?:weight|bias)")
FREQUENCY_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
IGNORED = frozenset(
    {
        "vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned", "attention.causal",
        "attention.max_alibi_bias", "embedding_length_out", "expert_shared_count", "interleave_moe_layer_step",
        "attention.temperature_length",
    }
)  # fmt: skip
"""Metadata that changes nothing here, or that is checked apart."""


def recognises(path: Path) -> bool:
    """A file that begins so, or is named so."""
    return kind_of(path) == "gguf"


class GgufTensors:
    """The tensors of one or several GGUF files, un-permuted where the architecture permutes."""

    def __init__(self, files: list[GgufFile], heads: Mapping[str, int]) -> None:
        self._files = {name: file for file in files for name in file.placed}
        self._heads = heads
        self.tensors: Mapping[str, Stored] = MappingProxyType(
            {
                name: Stored(name, file.placed[name].shape, file.placed[name].kind.name, file.path)
                for name, file in self._files.items()
                if name not in FREQUENCY_TENSORS
            }
        )

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of the tensor, quantised blocks undone into ``dtype``."""
        file, match = self._files[name], TURNING.fullmatch(name)
        if match is None or not self._heads:
            return file.numbers(name, dtype, part)
        heads = self._heads[match[1]]
        if part.rows is None:
            return unpermuted(file.numbers(name, dtype, part), heads)
        start, stop = part.rows
        width = file.placed[name].shape[0] // heads
        first, last = start // width, -(-stop // width)  # rows are in another order within a head, not across heads
        whole = file.numbers(name, dtype, Part(rows=(first * width, last * width)))
        return unpermuted(whole, last - first)[start - first * width : stop - first * width]

    def extra(self, name: str) -> tuple[float, ...] | None:
        """A tensor of frequencies, None where there is none."""
        if name not in self._files:
            return None
        try:
            return tuple(self._files[name].numbers(name, torch.float32).tolist())
        finally:
            self._files[name].close()  # it is only described so far, and may never be read

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def unpermuted(rows: Tensor, heads: int) -> Tensor:
    """Rows [heads · Dh, …] from the order of adjacent pairs to that of half-split pairs."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def open_file(path: Path, options: Options) -> Source:
    """Describe a GGUF file (and the further files of a split one)."""
    files = _files(path)
    metadata = files[0].metadata
    name, architecture = _architecture(metadata, path)
    every = Fields(
        {key.removeprefix(f"{name}."): _plain(value) for key, value in metadata.items() if key.startswith(f"{name}.")},
        path.name,
    )
    fields, left_out = without_ignored(every, ignored(options))
    if name == "llama" and fields.optional_whole("expert_count"):
        architecture = ARCHITECTURES["mixtral"]
    placed = {tensor: file.placed[tensor].shape for file in files for tensor in file.placed}
    config = _config(fields, architecture, placed, path)
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]} if architecture.permuted else {}
    tensors = GgufTensors(files, heads)
    config |= _longrope(tensors, config)
    notes = left_out + inert_notes(fields, f"the architecture {name}", None, IGNORED)
    return Source(
        path,
        _title(metadata, path),
        config,
        tensors,
        config_name=f"the metadata of {path.name}",
        weights=_weights(architecture, placed),
        adjust=lambda config: _adjusted(config, architecture, tensors),
        tokenizer=lambda: _tokenizer(metadata, path),
        notes=tuple(notes),
    )


def _title(metadata: Mapping[str, Any], path: Path) -> str:
    """What to call it: its own name where the file has only a hash for one, as in Ollama's folder."""
    named = metadata.get("general.name")
    return path.stem if path.suffix.lower() == ".gguf" or not isinstance(named, str) or not named else f"{named:.80}"


def _files(path: Path) -> list[GgufFile]:
    from ropewalk.model.checkpoints.formats.gguf_file import (
        GgufFile,  # brings the gguf package, which only such a file needs
    )

    first = GgufFile(path)
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return [first]
    match = SPLIT.fullmatch(path.name)
    if match is None or int(match[3]) != count:
        raise CheckpointError(
            f"{path.name} is one of {count:,} files of a model but is not named like one "
            f"(NAME-00001-of-{count:05}.gguf); give the files their names back."
        )
    names = [path.with_name(f"{match[1]}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    missing = [file.name for file in names if not file.is_file()]
    if missing:
        raise CheckpointError(
            f"{path.name} is one of {count} files, but {missing[0]} is not beside it; download it too."
        )
    return [GgufFile(file) for file in names]


def _architecture(metadata: Mapping[str, Any], path: Path) -> tuple[str, Architecture]:
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise CheckpointError(
            f"{path.name} does not say its architecture (general.architecture), so it cannot be opened."
        )
    if name not in ARCHITECTURES:
        why = reason(name) or reason(name.replace("-", "_"))
        known = f"Ropewalk opens {', '.join(sorted(ARCHITECTURES))}."
        raise CheckpointError(
            f"{path.name} is of the architecture {name!r:.60}: {why}" if why
            else f"{path.name} is of the architecture {name!r:.60}, which Ropewalk does not open from GGUF; {known}"
        )  # fmt: skip
    return name, ARCHITECTURES[name]


def _plain(value: Any) -> Any:
    """Lists instead of arrays, and one number where all layers have the same."""
    if isinstance(value, np.ndarray):
        items = value.tolist()
        return (
            items[0] if items and all(item == items[0] for item in items) and not isinstance(items[0], bool) else items
        )
    return value


def _config(
    fields: Fields, architecture: Architecture, placed: Mapping[str, tuple[int, ...]], path: Path
) -> dict[str, Any]:
    """The metadata in the family's Hugging Face spelling."""
    embedding = placed.get("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        raise CheckpointError(
            f"{path.name} holds no token_embd.weight; it is a vocabulary, an adapter or a part of a model, not a model."
        )
    heads, width = fields.count("attention.head_count"), fields.count("embedding_length")
    head_width = fields.count("attention.key_length", default=max(1, width // heads))
    if (fields.optional_whole("attention.value_length") or head_width) != head_width:
        raise CheckpointError(
            f"{path.name} has keys of width {head_width} and values of width {fields.whole('attention.value_length')}, "
            "but Ropewalk shows heads whose keys and values are equally wide."
        )
    layers, limit = fields.count("block_count"), fields.count("context_length")
    config: dict[str, Any] = {
        "model_type": architecture.family,
        "vocab_size": embedding[0],
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": fields.optional_whole("attention.head_count_kv") or heads,
        "head_dim": head_width,
        "intermediate_size": fields.optional_whole("feed_forward_length") or 1,
        "max_position_embeddings": limit,
        "rope_theta": fields.number("rope.freq_base", default=10_000.0),
        "tie_word_embeddings": "output.weight" not in placed,
        **architecture.fields,
    }
    eps = fields.optional_number("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
    if architecture.eps:
        config[architecture.eps] = eps
    turning = fields.optional_whole("rope.dimension_count")
    if turning is not None and turning != head_width:
        config["partial_rotary_factor"] = turning / head_width
    else:
        config["partial_rotary_factor"] = 1.0
    config |= _scaling(fields, limit) | _experts(fields, architecture) | _windows(fields, layers, architecture)
    config |= {theirs: fields.raw(key, default=None) for key, theirs in architecture.keys.items()}
    return config | _odd(architecture, config, placed)


def _scaling(fields: Fields, limit: int) -> dict[str, Any]:
    kind = fields.text("rope.scaling.type", default="none")
    factor = fields.number("rope.scaling.factor", default=1.0)
    original = fields.optional_whole("rope.scaling.original_context_length")
    attention = fields.optional_number("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor")
    fast, slow = (
        fields.raw("rope.scaling.yarn_beta_fast", default=None),
        fields.raw("rope.scaling.yarn_beta_slow", default=None),
    )
    fields.raw("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_log_multiplier", "rope.scaling.alpha", default=None)
    if kind == "longrope" or (kind == "none" and original):
        # Phi's lists lie among the tensors; without them this is dropped again
        rule = {"rope_type": "longrope", "attention_factor": attention}
        return {"original_max_position_embeddings": original, "rope_scaling": rule}
    if kind not in ("linear", "yarn") or factor == 1.0:
        return {}
    if kind == "linear":
        return {"rope_scaling": {"rope_type": kind, "factor": factor}}
    stretch = {"factor": factor, "original_max_position_embeddings": original or limit, "attention_factor": attention}
    return {"rope_scaling": {"rope_type": kind, "beta_fast": fast, "beta_slow": slow} | stretch}


def _longrope(tensors: GgufTensors, config: Mapping[str, Any]) -> dict[str, Any]:
    """The two lists of factors, which lie among the tensors; without them nothing is stretched."""
    long, short = (tensors.extra(f"rope_factors_{length}.weight") for length in ("long", "short"))
    rule = config.get("rope_scaling") or {}
    if long is None or short is None:
        dropped = {"rope_scaling": None, "original_max_position_embeddings": None}
        return dropped if rule.get("rope_type") == "longrope" else {}
    original = config.get("original_max_position_embeddings") or config["max_position_embeddings"]
    stretched = {
        "rope_type": "longrope",
        "long_factor": list(long),
        "short_factor": list(short),
        "attention_factor": rule.get("attention_factor"),
    }
    return {"rope_scaling": stretched, "original_max_position_embeddings": original}


def _experts(fields: Fields, architecture: Architecture) -> dict[str, Any]:
    count = fields.optional_whole("expert_count")
    used, width = fields.optional_whole("expert_used_count"), fields.optional_whole("expert_feed_forward_length")
    normed = fields.raw("expert_weights_norm", default=None)
    if fields.whole("expert_gating_func", default=1) not in (0, 1):
        raise CheckpointError(
            f"{fields.where} chooses experts by another function than softmax, which Ropewalk does not do."
        )
    if fields.number("expert_weights_scale", default=1.0) not in (0.0, 1.0):
        raise CheckpointError(f"{fields.where} scales the chosen experts, which Ropewalk does not do.")
    if not count:
        return {}
    found: dict[str, Any] = {architecture.experts: count, "num_experts_per_tok": used}
    if width and architecture.family in ("qwen2_moe", "qwen3_moe"):
        found["moe_intermediate_size"] = width
    elif width:
        found["intermediate_size"] = width
    if normed is not None and architecture.family in ("qwen2_moe", "qwen3_moe", "olmoe"):
        found["norm_topk_prob"] = bool(normed)
    return found


def _windows(fields: Fields, layers: int, architecture: Architecture) -> dict[str, Any]:
    window = fields.optional_whole("attention.sliding_window")
    pattern = fields.raw("attention.sliding_window_pattern", default=None)
    found: dict[str, Any] = {"sliding_window": window or None}
    if isinstance(pattern, list) and len(pattern) == layers:
        found["layer_types"] = ["sliding_attention" if slides else "full_attention" for slides in pattern]
    if not window or architecture.family in ("llama", "mixtral", "qwen2", "qwen3"):
        return {} if architecture.family not in ("exaone4", "cohere2", "gemma2", "gemma3_text") else found
    return found


def _odd(
    architecture: Architecture, config: Mapping[str, Any], placed: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """What some architectures decide from their sizes, as llama.cpp does."""
    family, heads, layers = architecture.family, config["num_attention_heads"], config["num_hidden_layers"]
    if family in ("gemma2", "gemma3_text"):
        # the two largest models scale by the share of a head in the stream instead of its width
        largest = layers == {"gemma2": 46, "gemma3_text": 62}[family]
        return {"query_pre_attn_scalar": config["hidden_size"] / heads if largest else config["head_dim"]}
    if family == "falcon":
        grouped = "blk.0.attn_norm_2.weight" in placed
        kv_heads = config["num_key_value_heads"]
        return {
            "new_decoder_architecture": grouped,
            "num_kv_heads": kv_heads,
            "multi_query": kv_heads == 1,
            "ffn_hidden_size": config["intermediate_size"],
        }
    if family == "olmo2" and config.get("sliding_window"):
        return {"model_type": "olmo3"}
    if family == "stablelm":
        return {
            "qk_layernorm": "blk.0.attn_q_norm.weight" in placed,
            "use_parallel_residual": "blk.0.ffn_norm.weight" not in placed,
        }
    if family == "cohere":
        return {"use_qk_norm": "blk.0.attn_q_norm.weight" in placed}
    if family == "gpt2":
        return dict.fromkeys(("rope_theta", "partial_rotary_factor")) | {
            "n_embd": config["hidden_size"], "n_head": heads, "n_layer": layers,
            "n_positions": config["max_position_embeddings"], "n_inner": config["intermediate_size"],
        }  # fmt: skip
    return {}


def _weights(architecture: Architecture, placed: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    names = dict(NAMES) | dict(architecture.names)
    if architecture.family == "falcon" and "blk.0.attn_norm_2.weight" in placed:
        for kind in ("weight", "bias"):
            names[f"blk.{{l}}.attn_norm_2.{kind}"] = f"blocks.{{l}}.attn_norm.{kind}"
            names[f"blk.{{l}}.attn_norm.{kind}"] = f"blocks.{{l}}.mlp_norm.{kind}"
    if architecture.family == "phi3" and "blk.0.ffn_gate.weight" in placed:
        names |= {name: rule for name, rule in NAMES.items() if ".ffn_up." in name}
    return names


def _adjusted(config: ModelConfig, architecture: Architecture, tensors: GgufTensors) -> ModelConfig:
    """What the tensors say that the metadata does not: biases, baked gains, frequencies."""
    handle = tensors.tensors
    changes: dict[str, Any] = {
        "query_bias": "blk.0.attn_q.bias" in handle or "blk.0.attn_qkv.bias" in handle,
        "key_bias": "blk.0.attn_k.bias" in handle or "blk.0.attn_qkv.bias" in handle,
        "value_bias": "blk.0.attn_v.bias" in handle or "blk.0.attn_qkv.bias" in handle,
        "output_bias": "blk.0.attn_output.bias" in handle,
        "mlp_bias": any(f"blk.0.ffn_{name}.bias" in handle for name in ("up", "up_exps")),
        "logit_bias": "output.bias" in handle,
    }
    if architecture.gain_baked:
        changes["norm_offset"] = 0.0
    factors = tensors.extra("rope_freqs.weight")
    if factors is not None and config.rope is not None:
        width = config.head_width if config.rope.width is None else config.rope.width
        if len(factors) != width // 2 or not all(factor > 0 for factor in factors):
            raise CheckpointError(
                f"rope_freqs.weight holds {len(factors)} factors, but {width} rotating features have {width // 2} "
                "planes, each with a factor above 0."
            )
        plain, _ = frequencies(RopeConfig(base=config.rope.base), width)
        stretched = tuple((plain / torch.tensor(factors)).tolist())
        changes["rope"] = RopeConfig(width=config.rope.width, pairing=config.rope.pairing, frequencies=stretched)
    return config.changed(**changes)


def _tokenizer(metadata: Mapping[str, Any], path: Path) -> Tokenizer | None:
    return tokenizer_of(metadata, path.name)


FORMATS = (Format("GGUF", recognises, open_file),)
