"""MiniMind's training files: flat half-precision ``.pth`` dictionaries without a config; widths come from the shapes.

What shapes cannot say (how many heads without a QK-norm, the RoPE base, experts for each token) is a question: answered
by an option, else by what MiniMind's author published for that shape, and then said in a note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ropewalk.model.checkpoints.config_file import whole_option
from ropewalk.model.checkpoints.formats import torch_files
from ropewalk.model.checkpoints.formats.magic import kind_of
from ropewalk.model.checkpoints.source import Format, Question, Source
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import Options

WRAPPERS = ("model", "state_dict", "model_state_dict")
PREFIXES = ("module.", "_orig_mod.")
FIRST = {
    "tok_embeddings.weight": "embedding",
    "layers.0.attention.wq.weight": "query",
    "layers.0.attention.wk.weight": "key",
    "layers.0.feed_forward.w1.weight": "gate",
    "layers.0.feed_forward.experts.0.w1.weight": "expert",
    "layers.0.feed_forward.gate.weight": "router",
    "layers.0.feed_forward.shared_experts.w1.weight": "shared",
}
"""Names of version 1, by what their shapes tell."""
LATER = {
    "model.embed_tokens.weight": "embedding",
    "model.layers.0.self_attn.q_proj.weight": "query",
    "model.layers.0.self_attn.k_proj.weight": "key",
    "model.layers.0.self_attn.q_norm.weight": "norm",
    "model.layers.0.mlp.gate_proj.weight": "gate",
    "model.layers.0.mlp.experts.0.gate_proj.weight": "expert",
    "model.layers.0.mlp.gate.weight": "router",
    "model.layers.0.mlp.shared_experts.gate_proj.weight": "shared",
    "model.layers.0.mlp.shared_experts.0.gate_proj.weight": "shared",
}
"""Names of versions 2 and 3."""
LAYER = re.compile(r"(?:model\.)?layers\.(\d{1,4})\.")
MLP_EXPERT = re.compile(r".*\.experts\.(\d{1,4})\..*")


def recognises(path: Path) -> bool:
    """A torch file with no config beside it."""
    return kind_of(path) == "torch"


def open_file(path: Path, options: Options) -> Source:
    """Infer the config of a file and describe its tensors."""
    tensors = torch_files.tensors_of(_unwrapped(torch_files.load_file(path), path), path)
    tensors = {_plain(name): value for name, value in tensors.items()}
    _refuse_adapters(tensors, path)
    config, questions = _inferred(tensors, path, options)
    folders = (path.parent, path.parent.parent / "model", path.parent.parent / "model" / "minimind_tokenizer")
    return Source(
        path,
        path.stem,
        config,
        torch_files.TorchFiles({name: (value, path) for name, value in tensors.items()}),
        config_name=path.name,
        tokenizer=lambda: tokenizer_beside(*folders),
        questions=questions,
        notes=tuple(f"{question.sentence} {question.assumed} was taken." for question in questions),
    )


def _unwrapped(found: Any, path: Path) -> Any:
    """The weights inside a file that also holds an optimizer and the like (``*_resume.pth``)."""
    if isinstance(found, Mapping):
        for name in WRAPPERS:
            if isinstance(found.get(name), Mapping):
                return found[name]
    return found


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _refuse_adapters(tensors: Mapping[str, Tensor], path: Path) -> None:
    if path.name.startswith("lora") or any(".lora." in name or "lora_A" in name for name in tensors):
        raise CheckpointError(
            f"{path.name} holds LoRA adapters, small changes to a model, not a model; merge them into their model and "
            "open that."
        )


def _inferred(
    tensors: Mapping[str, Tensor], path: Path, options: Options
) -> tuple[dict[str, Any], tuple[Question, ...]]:
    """The config that the shapes tell, and what they leave open."""
    first = "tok_embeddings.weight" in tensors
    shapes = {what: tuple(tensors[name].shape) for name, what in (FIRST if first else LATER).items() if name in tensors}
    if not {"embedding", "query", "key"} <= set(shapes) or not {"gate", "expert"} & set(shapes):
        known = next(iter(tensors))
        raise CheckpointError(
            f"{path.name} has no config.json beside it, and its weights (such as {known!r:.80}) are not named as "
            "MiniMind's, so its shape cannot be inferred; put its config.json into the same folder."
        )
    if any(len(shape) != (1 if what == "norm" else 2) for what, shape in shapes.items()):
        raise CheckpointError(f"{path.name} holds matrices that are not two-dimensional, so its shape cannot be read.")
    questions: list[Question] = []
    (vocabulary, width), queries, keys = shapes["embedding"], shapes["query"][0], shapes["key"][0]
    heads = _heads(shapes, path, options, questions, first)
    head_width = queries // heads
    mlp = (shapes.get("gate") or shapes["expert"])[0]
    config: dict[str, Any] = {
        "model_type": "minimind",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": 1 + max(int(match[1]) for name in tensors if (match := LAYER.match(name))),
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, keys // head_width),
        "head_dim": head_width,
        "intermediate_size": mlp,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6 if "norm" in shapes else 1e-5,
        "max_position_embeddings": whole_option(options, "max_position", 32_768),
    }
    base = 1e6
    if first:
        config["dim"] = width
        early = queries // keys == 2
        base = float(
            _asked(
                questions,
                options,
                "rope_base",
                "Which RoPE base was it trained with?",
                (10_000, 1_000_000),
                10_000 if early else 1_000_000,
            )
        )
    config["rope_theta"] = base
    if "router" in shapes:
        config |= _mixture(shapes, options, questions)
    return config, tuple(questions)


def _heads(
    shapes: Mapping[str, tuple[int, ...]], path: Path, options: Options, questions: list[Question], first: bool
) -> int:
    """How many query heads: told by the QK-norm, else asked."""
    queries, keys = shapes["query"][0], shapes["key"][0]
    if not keys or queries % keys:
        raise CheckpointError(f"{path.name} has {queries} query rows and {keys} key rows, which no head width divides.")
    if "norm" in shapes:
        width = shapes["norm"][0]
        if not width or queries % width or keys % width:
            raise CheckpointError(
                f"{path.name} has {queries} query rows and {keys} key rows, but its QK-norm says that heads are "
                f"{width} wide; the weights are of different models."
            )
        return queries // width
    fitting = tuple(
        queries // width for width in range(queries, 1, -1) if queries % width == keys % width == 0 and width % 2 == 0
    )
    published = 16 if first and queries // keys == 2 else 8
    if published not in fitting and "heads" not in options:
        raise CheckpointError(
            f"{path.name} does not say how many query heads it has; {', '.join(map(str, fitting[:12]))} would fit, so "
            "give the number with the option heads."
        )
    return _asked(questions, options, "heads", "How many query heads does it have?", fitting, published)


def _mixture(shapes: Mapping[str, tuple[int, ...]], options: Options, questions: list[Question]) -> dict[str, Any]:
    shared = "shared" in shapes
    per_token = _asked(
        questions,
        options,
        "experts_per_token",
        "How many experts is each token sent to?",
        tuple(range(1, shapes["router"][0] + 1)),
        2 if shared else 1,
    )
    mixture: dict[str, Any] = {
        "use_moe": True,
        "num_experts_per_tok": per_token,
        "n_shared_experts": int(shared),
        "moe_intermediate_size": shapes["expert"][0],
        "n_routed_experts" if shared else "num_experts": shapes["router"][0],
    }
    return mixture


def _asked(
    questions: list[Question], options: Options, option: str, sentence: str, choices: tuple[int, ...], assumed: int
) -> int:
    """The answer that an option gives, else what is assumed, and then a question is left."""
    if option not in options:
        questions.append(Question(option, sentence, choices, assumed))
        return assumed
    answer = whole_option(options, option, assumed)
    if choices and answer not in choices:
        raise CheckpointError(
            f"The option {option} is {answer}, but this file fits {', '.join(map(str, choices[:16]))} only."
        )
    return answer


FORMATS = (Format("MiniMind .pth", recognises, open_file),)
