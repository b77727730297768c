"""Families that Ropewalk does not open, and what they are in one sentence each.

Heads of queries, keys and values over a growing K/V cache are what the window shows; a model without them would be
shown untruthfully, so it is refused.
"""

from __future__ import annotations

from ropewalk.model.checkpoints.families.knobs import words

REASONS: tuple[tuple[frozenset[str], str], ...] = (
    (
        words(
            "deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 kimi_k2 kimi_k25 minicpm3 longcat_flash glm4_moe_lite "
            "glm_moe_dsa youtu sarvam_mla axk1 axk2 mistral4 glm5_next openpangu"
        ),
        "it uses multi-head latent attention (MLA), whose cache holds one compressed vector instead of keys and values "
        "by head, so there are no K/V heads to show.",
    ),
    (
        words(
            "mamba mamba2 falcon_mamba falcon_h1 jamba bamba zamba zamba2 nemotron_h granitemoehybrid recurrent_gemma "
            "xlstm rwkv rwkv5 rwkv6 rwkv7 lfm2 lfm2_moe lfm3 plamo2"
        ),
        "it is a state-space, recurrent or convolutional model (or a hybrid of one), so most of its layers have no "
        "attention weights to show.",
    ),
    (
        words(
            "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text minimax kimi_linear olmo_hybrid "
            "bailing_hybrid retnet gla"
        ),
        "it uses linear attention in most layers, which has no softmax weights to show.",
    ),
    (
        words(
            "bert roberta distilbert albert electra deberta deberta_v2 xlm_roberta xlm camembert mpnet modernbert "
            "nomic_bert eurobert ernie esm vit dinov2 dinov3_vit clip siglip siglip2 wav2vec2 hubert whisper_encoder "
            "longformer big_bird fnet roformer squeezebert jina_embeddings_v3"
        ),
        "it is an encoder, which reads the whole text at once; Ropewalk shows decoders, which read it from left to "
        "right.",
    ),
    (
        words(
            "t5 mt5 umt5 t5gemma t5gemma2 bart mbart pegasus marian m2m_100 nllb_moe blenderbot led longt5 whisper "
            "switch_transformers prophetnet fsmt encoder_decoder speech_to_text seamless_m4t seamless_m4t_v2"
        ),
        "it is an encoder-decoder, whose decoder also attends to its encoder's output; Ropewalk shows decoders alone.",
    ),
    (
        words("bloom mpt baichuan jais"),
        "it gives position as a bias on the scores (ALiBi) instead of rotating queries and keys, which Ropewalk does "
        "not show.",
    ),
    (
        words("diffllama"),
        "it subtracts two softmax maps in each head (differential attention), so a row of weights is not one softmax.",
    ),
    (
        words("bitnet"),
        "its weights are packed to fewer than two bits with scales of their own, which Ropewalk does not undo.",
    ),
    (
        words(
            "aya_vision gemma3n gemma4 gemma4_unified mllama llama4 pixtral qwen3_vl_moe qwen2_5_omni paligemma "
            "idefics idefics2 phi4_multimodal chameleon emu3 fuyu blip_2 aria got_ocr2 glm4v glm4v_moe minimax_m3_vl"
        ),
        "it reads pictures or sound as well as text; open a checkpoint of its text model alone.",
    ),
)


def reason(kind: str) -> str:
    """Why a family is refused; empty for one that is not known here."""
    return next((why for kinds, why in REASONS if kind in kinds), "")
