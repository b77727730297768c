"""From a config in Hugging Face spelling to ours: which family it is, what its fields say, and what is refused.

Nothing is dropped silently: a field that the family neither reads nor lists is refused by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.knobs import context_limit, words
from ropewalk.model.checkpoints.families.quantised import refuse_quantised
from ropewalk.model.checkpoints.families.refused import reason
from ropewalk.model.checkpoints.families.table import BY_TYPE, FAMILIES, Family
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import CheckpointError, ConfigError

IGNORED = words(
    """
    _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
    _flash_attn_2_enabled _name_or_path _unsloth_fixed add_cross_attention architectures attention_dropout
    attn_implementation auto_map bad_words_ids begin_suppress_tokens bos_token_id cache_implementation
    chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id diversity_penalty
    do_sample dtype early_stopping embd_pdrop embedding_dropout encoder_no_repeat_ngram_size eos_token_id
    experts_implementation exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    hidden_dropout hidden_dropout_prob id2label initializer_range is_decoder is_encoder_decoder label2id language
    length_penalty max_length min_length model_max_length model_type no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_attentions output_hidden_states output_scores pad_token_id prefix pretraining_tp
    problem_type pruned_heads remove_invalid_values repetition_penalty resid_pdrop residual_dropout return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers_version typical_p
    unsloth_fixed unsloth_version use_bfloat16 use_cache
    """
)
"""Fields of any config that change nothing about a forward pass of a finished model."""


def family_of(config: Mapping[str, Any], where: str) -> Family:
    """The family that a config names.

    Raises
    ------
    CheckpointError
        For one that Ropewalk does not open, with what it is or the nearest that it does.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise CheckpointError(f"{where} has no model_type, so the family of the model is unknown.")
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    why = reason(kind)
    if why:
        raise CheckpointError(f"{where} is of the family {kind}: {why}")
    raise CheckpointError(
        f"{where} is of the family {kind!r:.60}, which Ropewalk does not open; the nearest that it opens is "
        f"{nearest(kind)}."
    )


def nearest(kind: str) -> str:
    """The family whose name is most like ``kind``."""
    return max(BY_TYPE, key=lambda name: difflib.SequenceMatcher(None, name, kind[:60]).ratio())


def read_config(
    config: Mapping[str, Any], where: str, stored: frozenset[str] | None = None
) -> tuple[Family, ModelConfig]:
    """Turn a config in Hugging Face spelling into ours.

    Parameters
    ----------
    stored
        Patterns of the stored weights' names; None when there are no weights. They decide only where the config does
        not, such as whether the last matrix is the embedding.

    Raises
    ------
    CheckpointError
        For a family that Ropewalk does not open and for a field that the family neither handles nor ignores.
    ConfigError
        For a field whose value is refused.
    """
    family = family_of(config, where)
    fields = Fields(config, where, stored)
    refuse_quantised(config, where, stored)
    knobs = family.knobs(fields)
    knobs["tied"] = _tied(family, fields)
    knobs["max_position"] = context_limit(knobs["max_position"], knobs.get("rope"))
    _refuse_unread(family, fields, where)
    return family, ModelConfig(**knobs)


def _tied(family: Family, fields: Fields) -> bool:
    if fields.raw("tie_word_embeddings", default=None) is not None:
        return fields.flag("tie_word_embeddings")
    if fields.stored is None:
        return family.tied
    head = [name for name, rule in family.weights.items() if rule == "head.weight"]
    return family.tied or not fields.holds(*head)


def _refuse_unread(family: Family, fields: Fields, where: str) -> None:
    for name, allowed in family.neutral.items():
        value = fields.raw(name, default=None)
        if value is not None and value not in allowed:
            raise ConfigError(
                f"{where} has {name} {value!r:.60}, but Ropewalk knows {family.name} only with "
                f"{' or '.join(str(one) for one in allowed)}."
            )
    unread = fields.unread(IGNORED | family.ignored)
    if unread:
        raise CheckpointError(
            f"{where} has the field {unread[0]!r:.60}, which the family {family.name} neither uses nor ignores"
            f"{_near_family(unread[0], family)}; Ropewalk drops no field silently.",
            f"All such fields: {', '.join(unread)[:500]}",
        )


def _near_family(name: str, family: Family) -> str:
    """A family that does know the field, as a clause."""
    for other in FAMILIES:
        if other is not family and (name in other.neutral or name in fields_of(other)):
            return f" (the nearest family that does is {other.name})"
    return f" (the nearest family is {family.name} itself)"


TYPICAL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 64,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "n_positions": 64,
}


def fields_of(family: Family) -> frozenset[str]:
    """The fields that a family reads, found by letting it read a typical config."""
    fields = Fields(TYPICAL, "a typical config")
    family.knobs(fields)
    return frozenset(fields.read)
