"""Config fields that change nothing about a forward pass of a finished model, as data, and how others are judged.

What is known to be inert is left out silently. A field that is unknown but cannot change anything (false, empty, 0, or
what another field says already) is left out with a note. Everything else is refused by whoever asks here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ropewalk.model.checkpoints.families.knobs import ACTIVATION_NAMES, words
from ropewalk.model.decoder.config import ModelConfig

IGNORED = words(
    """
    _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
    _flash_attn_2_enabled _name_or_path _unsloth_fixed add_cross_attention architectures
    attn_implementation auto_map bad_words_ids begin_suppress_tokens cache_implementation
    chunk_size_feed_forward cross_attention_hidden_size diversity_penalty
    do_sample dtype early_stopping encoder_no_repeat_ngram_size
    experts_implementation exponential_decay_length_penalty finetuning_task gradient_checkpointing
    id2label is_decoder is_encoder_decoder label2id language
    length_penalty max_length max_new_tokens min_length min_p model_max_length model_type no_repeat_ngram_size
    num_beam_groups num_beams num_labels num_return_sequences output_attentions output_hidden_states output_past
    output_scores prefix pretraining_tp
    problem_type pruned_heads remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers_version typical_p
    unsloth_fixed unsloth_version use_bfloat16 use_cache
    """
)
"""Bookkeeping of transformers and of programs that train, and how text is drawn."""

PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(\w+_)?dropout(_(prob|rate|p|ratio))?|\w+_(pdrop|drop)",  # switched off outside training
        r"(\w+_)?init(ializer)?_(range|std|factor|scale|method)(_\w+)?|initializer_\w+",
        r"(\w+_)?(aux_loss|z_loss|loss)_(coef|coeff|weight|alpha)(\w*)",
        r"[a-z]{2,4}_token|\w+_token_ids?",  # pad_token_id, unk_token, image_token_id
        r"(_name_or_path|_?model_name(_or_path)?|_?base_model(_name_or_path)?|tokenizer_(name|path|file))",
    )
)
"""Such fields by how they are named."""

NOTES = words(
    "_comment author authors citation comment comments created created_at created_by date description hash homepage "
    "info license license_name license_link modified model_card model_id name note notes organization paper readme "
    "source tag tags title trained_by training url version website"
)
"""What people write into a config for one another."""

LENGTHS = words("max_sequence_length max_seq_length max_seq_len n_ctx seq_length seq_len training_length train_seq_len")
"""How long the texts of training were, beside how many positions there are."""

Says = Callable[[ModelConfig], Any]


def _rotating(c: ModelConfig) -> int:
    return 0 if c.rope is None else c.head_width if c.rope.width is None else c.rope.width


def _base(c: ModelConfig) -> float | None:
    return None if c.rope is None else c.rope.base


def _same(says: Says, names: str) -> dict[str, Says]:
    return dict.fromkeys(names.split(), says)


SAID: Mapping[str, Says] = (
    _same(lambda c: c.width, "hidden_size n_embd n_embed d_model dim embed_dim")
    | _same(lambda c: c.layers, "num_hidden_layers n_layer n_layers num_layers")
    | _same(lambda c: c.heads, "num_attention_heads n_head n_heads num_heads")
    | _same(lambda c: c.kv_heads, "num_key_value_heads n_kv_heads num_kv_heads n_head_kv multi_query_group_num")
    | _same(lambda c: c.head_width, "head_dim kv_channels head_size attention_head_size attention_head_dim")
    | _same(lambda c: c.mlp_width, "intermediate_size n_inner ffn_dim ffn_hidden_size hidden_dim")
    | _same(lambda c: c.vocabulary, "vocab_size padded_vocab_size n_vocab")
    | _same(lambda c: c.max_position, "max_position_embeddings n_positions")
    | _same(
        lambda c: c.window, "sliding_window sliding_window_size window_size attention_window_size local_window_size"
    )
    | _same(lambda c: c.window is not None, "use_sliding_window")
    | _same(lambda c: c.norm_eps, "rms_norm_eps layer_norm_eps norm_eps layer_norm_epsilon norm_epsilon")
    | _same(lambda c: c.norm_eps, "layernorm_epsilon rms_norm_epsilon layer_norm_rms_epsilon")
    | _same(lambda c: c.norm == "rms", "rmsnorm rms_norm use_rms_norm use_rmsnorm")
    | _same(lambda c: c.norm_place in ("post", "both"), "post_norm post_layer_norm sandwich_norm use_post_norm")
    | _same(lambda c: c.qk_norm != "none", "use_qk_norm qk_norm qk_layernorm use_qk_layernorm")
    | _same(
        lambda c: c.query_bias, "qkv_bias use_qkv_bias add_qkv_bias attention_bias attn_bias q_bias use_attention_bias"
    )
    | _same(lambda c: c.output_bias, "attention_out_bias o_bias attention_output_bias dense_bias")
    | _same(lambda c: c.mlp_bias, "mlp_bias use_mlp_bias ffn_bias")
    | _same(lambda c: c.query_bias or c.mlp_bias, "bias use_bias add_bias_linear")
    | _same(lambda c: c.logit_bias, "lm_head_bias head_bias")
    | _same(lambda c: c.parallel_residual, "parallel_attn use_parallel_residual parallel_residual use_parallel_block")
    | _same(lambda c: c.mlp == "gated", "use_gated_activation gated_mlp use_swiglu swiglu gated_linear_units")
    | _same(lambda c: c.tied, "tie_word_embeddings tie_embeddings use_embedding_sharing share_embeddings")
    | _same(lambda c: c.score_cap, "attn_logit_softcapping attn_logit_softcap attention_logit_cap")
    | _same(lambda c: c.logit_cap, "final_logit_softcapping final_logit_softcap logit_softcap")
    | _same(lambda c: c.qkv_clip, "clip_qkv")
    | _same(lambda c: c.sink, "attention_sink use_attention_sink add_attention_sink use_sinks")
    | _same(lambda c: 0 if c.moe is None else c.moe.experts, "num_experts num_local_experts n_routed_experts")
    | _same(lambda c: 0 if c.moe is None else c.moe.per_token, "num_experts_per_tok num_experts_per_token moe_topk")
    | _same(lambda c: 0 if c.moe is None else c.moe.shared_width, "shared_expert_intermediate_size")
    | _same(lambda c: 0 if c.moe is None else c.moe.width, "moe_intermediate_size")
    | _same(lambda c: c.moe is not None and c.moe.renormalise, "norm_topk_prob")
    | _same(lambda c: c.position == "rotary", "use_rope rotary use_rotary_pos_emb use_rotary_embedding rope")
    | _same(_rotating, "rotary_dim rope_dim rotary_ndims")
    | _same(lambda c: _rotating(c) / c.head_width, "partial_rotary_factor rotary_pct rope_pct rotary_percentage")
    | _same(_base, "rope_theta rotary_emb_base rope_base rotary_base")
    | _same(lambda c: c.embedding_scale, "embedding_multiplier embedding_scale scale_emb")
    | _same(lambda c: c.residual_scale, "residual_multiplier")
    | _same(lambda c: c.logit_scale, "logit_scale")
    | _same(lambda c: c.activation, "hidden_act hidden_activation activation activation_function activation_type")
    | _same(lambda c: True, "is_causal causal use_causal_mask scale_attn_weights")
    | _same(
        lambda c: False, "alibi use_alibi bidirectional use_bidirectional_attention scale_attn_by_inverse_layer_idx"
    )
)
"""Fields that say in other words what our config says: a name → what it has to be for nothing to change."""

MATTERS = re.compile(r"(\w+_)?(rope|rotary|norm|layernorm|causal|scale|scaled|glu|gated|bias|residual|softmax)(_\w+)?")
"""Names of what decoders do: a flag that is false may switch one off, and 0 may be its factor."""


def is_inert(name: str) -> bool:
    """Whether a field is known to change nothing."""
    return name in IGNORED or any(pattern.fullmatch(name) for pattern in PATTERNS)


def why_inert(name: str, value: Any, config: ModelConfig | None) -> str:
    """Why a field that nobody reads changes nothing at its value, as a clause; empty where it may change something.

    Parameters
    ----------
    config
        What the other fields say; None where that is not known yet.
    """
    if name in NOTES or (name.startswith("_") and isinstance(value, str)):
        return "a note"
    if name in LENGTHS and isinstance(value, int):
        return "a length"
    if name in SAID and config is not None:
        return "as the other fields say" if _agree(name, value, SAID[name](config)) else ""
    if value in ("", [], {}) or (not value and MATTERS.fullmatch(name) is None):
        return "nothing" if value in ("", [], {}) else "switched off"
    return ""


def _agree(name: str, value: Any, said: Any) -> bool:
    if isinstance(value, str):
        return bool(ACTIVATION_NAMES.get(value) == said)
    if isinstance(value, bool) or isinstance(said, bool):
        return bool(value) == bool(said) and not isinstance(value, float)
    if not value or not said:
        return not value and not said
    return isinstance(value, int | float) and isinstance(said, int | float) and math.isclose(value, said)
