"""Checkpoints that read pictures or sound too: their text model is found inside and opened alone.

Such a config holds the text model's in ``text_config`` (or flat, beside fields about pictures), and the stored names
carry a prefix. On text alone these models are their text model: the positions of Qwen's three-part RoPE are then all
the same number, so it is plain RoPE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.model.checkpoints.families.knobs import words
from ropewalk.model.checkpoints.renamed import RenamedFiles
from ropewalk.model.checkpoints.source import Source


@dataclass(frozen=True)
class Wrapper:
    """A model around a text model.

    Attributes
    ----------
    reads
        What it reads beside text.
    text
        The family of its text model, where its config does not name one.
    """

    reads: str
    text: str


WRAPPERS: Mapping[str, Wrapper] = {
    "gemma3": Wrapper("pictures", "gemma3_text"),
    "llava": Wrapper("pictures", "llama"),
    "llava_next": Wrapper("pictures", "llama"),
    "llava_onevision": Wrapper("pictures", "qwen2"),
    "mistral3": Wrapper("pictures", "mistral"),
    "qwen2_vl": Wrapper("pictures", "qwen2"),
    "qwen2_5_vl": Wrapper("pictures", "qwen2"),
    "qwen3_vl": Wrapper("pictures", "qwen3"),
    "internvl": Wrapper("pictures", "qwen2"),
    "idefics3": Wrapper("pictures", "llama"),
    "smolvlm": Wrapper("pictures", "llama"),
    "qwen2_audio": Wrapper("sound", "qwen2"),
    "voxtral": Wrapper("sound", "llama"),
}
TEXT_TYPES = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3"}
"""Text models that are another family's on text alone."""

BESIDE = words(
    """
    text_config vision_config audio_config perceiver_config audio_token_id audio_token_index
    boi_token_index downsample_ratio eoi_token_index ignore_index image_grid_pinpoints
    image_seq_length image_token_id image_token_index image_newline_init mm_tokens_per_image multimodal_projector_bias
    projector_hidden_act scale_factor spatial_merge_size use_image_newline_parameter video_token_id video_token_index
    image_aspect_ratio vision_aspect_ratio vision_end_token_id vision_feature_layer vision_feature_select_strategy
    vision_start_token_id vision_token_id _pad_token_id
    """
)
"""Fields about pictures and sound."""

INSIDE = re.compile(r"(?:model\.)?(?:language_model|text_model)\.(?:model\.)?((?:embed_tokens|layers|norm)\..+)")
HEAD = re.compile(r"(?:model\.)?language_model\.(lm_head\..+)")
OUTSIDE = re.compile(
    r"(?:model\.)?(vision_tower|vision_model|visual|multi_modal_projector|connector|audio_tower|image_newline|mm_projector)(?:\..+)?"
)


def text_name(name: str) -> str:
    """What the text model calls a stored name; empty for a part that is not of it."""
    if OUTSIDE.fullmatch(name):
        return ""
    inside, head = INSIDE.fullmatch(name), HEAD.fullmatch(name)
    if inside is not None:
        return f"model.{inside[1]}"
    return head[1] if head is not None else name


def text_part(source: Source) -> Source:
    """The text model inside a source, with a note; the source itself where it is not wrapped."""
    kind = source.config.get("model_type")
    wrapper = WRAPPERS.get(kind) if isinstance(kind, str) else None
    if wrapper is None or source.weights is not None:
        return source
    stored = () if source.files is None else source.files.tensors
    names = {own: name for name in stored if (own := text_name(name))}
    files = None if source.files is None else RenamedFiles(source.files, names)
    outside = sorted({match[1] for name in stored if (match := OUTSIDE.fullmatch(name))})
    left = f" ({', '.join(outside)} left out)" if outside else ""
    note = f"{kind} reads {wrapper.reads} too; only its text model is open here{left}."
    return replace(source, config=_text_config(source.config, wrapper), files=files, notes=(*source.notes, note))


def _text_config(config: Mapping[str, Any], wrapper: Wrapper) -> dict[str, Any]:
    inner = config.get("text_config")
    inside = dict(inner) if isinstance(inner, dict) else {}
    outside = {name: value for name, value in config.items() if not _beside(name) and name != "model_type"}
    text = {**outside, **{name: value for name, value in inside.items() if not _beside(name)}}
    if config.get("tie_word_embeddings") is not None:
        text["tie_word_embeddings"] = config["tie_word_embeddings"]
    named = inside.get("model_type", wrapper.text)
    family = TEXT_TYPES.get(named, named) if isinstance(named, str) else wrapper.text
    for field in ("rope_scaling", "rope_parameters"):
        if isinstance(text.get(field), dict):
            text[field] = _without_sections(text[field])
    return {**text, "model_type": family}


def _beside(name: str) -> bool:
    """Whether a field is about pictures or sound; LLaVA's own code has many of one kind."""
    return name in BESIDE or re.fullmatch(r"(\w+_)?mm_\w+", name) is not None


def _without_sections(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rotary rule without the three parts that only pictures tell apart."""
    plain = {name: value for name, value in rule.items() if name not in ("mrope_section", "mrope_interleaved")}
    return {name: "default" if value == "mrope" else value for name, value in plain.items()}
