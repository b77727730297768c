"""Meta's own folders: ``params.json`` with ``consolidated.NN.pth``, one or several model-parallel shards.

Each shard holds a slice of every matrix; along which axis is found from the shapes. Mistral's folders of the same kind
(``consolidated.safetensors``) open too. Queries and keys rotate in adjacent pairs here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.checkpoints.config_file import read_json, whole_option
from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.reading import inert_notes, without_ignored
from ropewalk.model.checkpoints.formats import safetensors_files, torch_files
from ropewalk.model.checkpoints.source import WHOLE, Format, Part, Question, Source, Stored, TensorFile
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import Options, ignored

PARAMS = "params.json"
SHARD = re.compile(r"consolidated\.(\d{2})\.pth")
SINGLE = "consolidated.safetensors"
ROW_SPLIT = re.compile(r".*\.(wo|w2)\.weight")
"""Matrices that are cut along their columns, because their input is already cut."""
REPLICATED = re.compile(r".*norm\.weight|rope\.freqs|.*rope\.freqs")
LLAMA3_VOCABULARY = 128_256
SMALL_WIDTHS = (2048, 3072)
"""Widths of Llama 3.2's models, which stretch by 32 where 3.1's stretch by 8; params.json does not say."""


def recognises(path: Path) -> bool:
    """A folder with params.json and a consolidated file, and no config.json."""
    if not path.is_dir() or not (path / PARAMS).is_file() or (path / "config.json").is_file():
        return False
    return (path / SINGLE).is_file() or any(SHARD.fullmatch(file.name) for file in path.iterdir())


class JoinedFiles:
    """Tensors that are cut across shards, joined when they are read."""

    def __init__(self, shards: Sequence[TensorFile], axes: Mapping[str, int | None], path: Path) -> None:
        self._shards = shards
        self._axes = axes
        self.tensors: Mapping[str, Stored] = MappingProxyType(
            {name: self._joined(name, axis, path) for name, axis in axes.items()}
        )

    def _joined(self, name: str, axis: int | None, path: Path) -> Stored:
        first = self._shards[0].tensors[name]
        if axis is None:
            return first
        sizes = [shard.tensors[name].shape[axis] for shard in self._shards]
        shape = (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :])
        return Stored(name, shape, first.dtype, first.file if len(sizes) == 1 else path)

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of the joined tensor; a view of the file where it is not cut."""
        axis = self._axes[name]
        if axis is None or len(self._shards) == 1:
            return self._shards[0].read(name, dtype, part)
        if axis == 0 and part.rows is not None:
            return torch.cat(list(self._rows(name, dtype, *part.rows)))
        return torch.cat([shard.read(name, dtype, part) for shard in self._shards], dim=axis)

    def _rows(self, name: str, dtype: torch.dtype, start: int, stop: int) -> Iterator[Tensor]:
        """What each shard holds of rows ``start`` to ``stop``, where rows are cut."""
        first = 0
        for shard in self._shards:
            last = first + shard.tensors[name].shape[0]
            if start < last and stop > first:
                yield shard.read(name, dtype, Part(rows=(max(start, first) - first, min(stop, last) - first)))
            first = last

    def close(self) -> None:
        """Let go of every shard."""
        for shard in self._shards:
            shard.close()


def open_folder(path: Path, options: Options) -> Source:
    """Read the parameters and describe the shards."""
    params, left_out = without_ignored(Fields(read_json(path / PARAMS), PARAMS), ignored(options))
    files = _files(path, params.count("dim"))
    config, questions = _config(params, files, path, options)
    known = frozenset({"max_batch_size", "model_parallel_size", "lora_args", "quantization_args"})
    notes = left_out + inert_notes(params, "Llama in Meta's own files", None, known)
    return Source(
        path,
        path.resolve().name,
        config,
        files,
        config_name=PARAMS,
        tokenizer=lambda: tokenizer_beside(path),
        questions=questions,
        notes=(*notes, *(f"{question.sentence} {question.assumed} was taken." for question in questions)),
    )


def _files(path: Path, width: int) -> JoinedFiles:
    shards: list[TensorFile]
    if (path / SINGLE).is_file():
        shards = [safetensors_files.open_single(path / SINGLE)]
    else:
        numbers = sorted(int(match[1]) for file in path.iterdir() if (match := SHARD.fullmatch(file.name)))
        if numbers != list(range(len(numbers))):
            missing = next(number for number in range(numbers[-1] + 1) if number not in numbers)
            raise CheckpointError(
                f"{path.name} lacks consolidated.{missing:02}.pth, though it has number {numbers[-1]:02}; download it "
                "too."
            )
        shards = [torch_files.open_single(path / f"consolidated.{number:02}.pth") for number in numbers]
    names = set(shards[0].tensors)
    for number, shard in enumerate(shards):
        if set(shard.tensors) != names:
            odd = min(names.symmetric_difference(shard.tensors))
            raise CheckpointError(
                f"consolidated.{number:02}.pth does not hold the same weights as the first shard ({odd} is in one "
                "only); they are of different models."
            )
    return JoinedFiles(shards, {name: _axis(shards[0].tensors[name], width, len(shards)) for name in names}, path)


def _axis(stored: Stored, width: int, shards: int) -> int | None:
    """The axis along which a tensor is cut, None where every shard holds all of it."""
    if shards == 1 or REPLICATED.fullmatch(stored.name) or len(stored.shape) != 2:
        return None
    if stored.name == "tok_embeddings.weight":
        # Llama 1 and 2 cut the width of the embedding, Llama 3 its vocabulary
        return 1 if stored.shape[1] != width else 0
    return 1 if ROW_SPLIT.fullmatch(stored.name) else 0


def _config(
    params: Fields, files: JoinedFiles, path: Path, options: Options
) -> tuple[dict[str, Any], tuple[Question, ...]]:
    """The parameters in Hugging Face spelling."""
    embedding, gate = (files.tensors.get(name) for name in ("tok_embeddings.weight", "layers.0.feed_forward.w1.weight"))
    if embedding is None or gate is None or len(embedding.shape) != 2 or not prod(embedding.shape):
        raise CheckpointError(
            f"{path.name} has a {PARAMS}, but its files do not hold tok_embeddings.weight and "
            "layers.0.feed_forward.w1.weight, so they are not a Llama or Mistral of that format."
        )
    vocabulary = params.raw("vocab_size", default=-1)
    heads = params.count("n_heads")
    params.optional_whole("multiple_of")
    params.optional_number("ffn_dim_multiplier")
    params.optional_whole("hidden_dim")
    scaled = params.flag("use_scaled_rope", default=False)
    vocabulary = embedding.shape[0] if vocabulary == -1 else params.count("vocab_size")
    limit = 131_072 if scaled else 8_192 if vocabulary >= LLAMA3_VOCABULARY else 4_096
    stated = params.optional_whole("max_seq_len", "max_position_embeddings")
    questions = [] if stated or "max_position" in options else [
        Question("max_position", "How many positions may it be asked for?", (), limit)
    ]  # fmt: skip
    config: dict[str, Any] = {
        "model_type": "meta_llama",
        "vocab_size": vocabulary,
        "hidden_size": params.count("dim"),
        "num_hidden_layers": params.count("n_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": params.optional_whole("n_kv_heads") or heads,
        "head_dim": params.optional_whole("head_dim"),
        "intermediate_size": gate.shape[0],
        "rms_norm_eps": params.number("norm_eps", default=1e-5),
        "rope_theta": params.number("rope_theta", default=10_000.0),
        "max_position_embeddings": stated or whole_option(options, "max_position", limit),
        "sliding_window": params.optional_whole("sliding_window"),
    }
    if scaled:
        factor = params.optional_number("rope_scaling_factor")
        if factor is None:
            assumed = 32 if config["hidden_size"] in SMALL_WIDTHS else 8
            if "rope_factor" not in options:
                questions.append(Question("rope_factor", "By how much does it stretch its RoPE?", (8, 32), assumed))
            factor = float(whole_option(options, "rope_factor", assumed))
        config["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": params.number("rope_high_freq_factor", default=4.0),
            "original_max_position_embeddings": 8_192,
        }
    return config, tuple(questions)


FORMATS = (Format("Meta folder", recognises, open_folder),)
