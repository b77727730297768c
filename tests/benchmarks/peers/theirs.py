"""What others take for the same: transformers, TransformerLens, BertViz. Each function is run alone.

They are an extra of the project (``bench``); where one is not installed, or fails, that is what is reported.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.checkpoints.families.weight_maps import LLAMA
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import ConfigError
from ropewalk.model.runs.trace import capture
from tests.benchmarks.peers.meters import PeakMemory, alternating, in_turn, processor, seconds_of
from tests.benchmarks.peers.ours import PROMPT, WARM_UP, Numbers, generate
from tests.benchmarks.peers.subject import prompt, subject


def llama_of(model: Decoder, attention: str) -> Any:
    """The same weights in transformers' Llama.

    Raises
    ------
    ConfigError
        When the model is of another kind.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    c = model.config
    if c.qk_norm != "none" or c.moe is not None or c.mlp != "gated" or c.norm != "rms" or c.rope is None:
        raise ConfigError("Only a plain Llama can be measured beside transformers; leave the path out.")
    config = LlamaConfig(
        vocab_size=c.vocabulary,
        hidden_size=c.width,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        num_key_value_heads=c.kv_heads,
        head_dim=c.head_width,
        intermediate_size=c.mlp_width,
        max_position_embeddings=c.max_position,
        rms_norm_eps=c.norm_eps,
        rope_theta=c.rope.base,
        tie_word_embeddings=c.tied,
        dtype="float32",
        attn_implementation=attention,
    )
    with torch.device("meta"):
        peer = LlamaForCausalLM(config)
    peer.to_empty(device="cpu")  # memory of its own, as a model that transformers has loaded
    names = _their_names(c.layers)
    weights = {names[name]: tensor for name, tensor in model.state_dict().items()}
    peer.load_state_dict(weights, strict=False)
    if c.tied:
        peer.tie_weights()
    peer.model.rotary_emb = type(peer.model.rotary_emb)(config)  # its tables were made without memory
    return peer.eval()


def _their_names(layers: int) -> dict[str, str]:
    """The name that transformers' Llama gives each of our weights."""
    return {
        ours.format(l=layer): theirs.format(l=layer)
        for layer in range(layers)
        for theirs, ours in LLAMA.items()
        if isinstance(ours, str)
    }


def eager(path: str | None, tokens: int, times: int) -> Numbers:
    """Seconds of transformers' eager forward that gives all attentions back."""
    peer, ids = _eager_llama(path, tokens)
    return {"seconds": min(seconds_of(lambda: _attentions(peer, ids)) for _ in range(times))}


def eager_memory(path: str | None, tokens: int) -> Numbers:
    """What it needs at most."""
    peer, ids = _eager_llama(path, tokens)
    with PeakMemory() as peak:
        _attentions(peer, ids)
    return {"peak": peak.bytes}


def _eager_llama(path: str | None, tokens: int) -> tuple[Any, Tensor]:
    model = subject(path, tokens)
    peer, ids = llama_of(model, "eager"), prompt(model.config, tokens)
    _attentions(peer, ids[:, :WARM_UP])
    return peer, ids


def _attentions(peer: Any, ids: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        attentions: tuple[Tensor, ...] = peer(ids, output_attentions=True, logits_to_keep=1).attentions
    return attentions


def transformer_lens(path: str | None, tokens: int) -> Numbers:
    """TransformerLens' ``run_with_cache`` on the same weights."""
    model = subject(path, tokens)
    bridge, ids = bridge_of(model), prompt(model.config, tokens)
    with torch.no_grad():
        bridge.run_with_cache(ids[:, :WARM_UP])
        with PeakMemory() as peak:
            taken = seconds_of(lambda: bridge.run_with_cache(ids))
    return {"seconds": taken, "peak": peak.bytes}


def bridge_of(model: Decoder) -> Any:
    """A TransformerLens model around transformers' Llama, without a network."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedTokenizerFast

    peer = llama_of(model, "eager")
    with tempfile.TemporaryDirectory() as folder:
        peer.config.architectures = ["LlamaForCausalLM"]
        peer.config.save_pretrained(folder)
        _save_tokenizer(model, folder)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        return TransformerBridge.boot_transformers(folder, hf_model=peer, tokenizer=tokenizer, device="cpu")


def save_llama(model: Decoder, folder: str) -> None:
    """Write a model as a checkpoint that transformers opens, its tokens called by their numbers."""
    llama_of(model, "eager").save_pretrained(folder)
    _save_tokenizer(model, folder)


def _save_tokenizer(model: Decoder, folder: str) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = WordLevel({str(number): number for number in range(model.config.vocabulary)}, unk_token="0")
    special = {"unk_token": "0", "bos_token": "1", "eos_token": "2", "pad_token": "3"}
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **special).save_pretrained(folder)


def bertviz(path: str | None, tokens: int) -> Numbers:
    """BertViz's head view and model view of the same prompt: seconds to make the page, and its bytes."""
    from bertviz import head_view, model_view

    model = subject(path, tokens)
    peer, ids = llama_of(model, "eager"), prompt(model.config, tokens)
    names = [str(token) for token in ids[0].tolist()]
    found: Numbers = {}
    for name, view in (("head_view", head_view), ("model_view", model_view)):
        pages: list[Any] = []

        def make(view: Any = view, pages: list[Any] = pages) -> None:
            pages.append(view(_attentions(peer, ids), names, html_action="return"))

        with PeakMemory() as peak:
            taken = seconds_of(make)
        found |= {name: taken, f"{name}_bytes": len(pages[0].data), f"{name}_peak": peak.bytes}
        pages.clear()
    return found


def capture_beside_sdpa(path: str | None, tokens: int, times: int) -> Numbers:
    """Seconds of transformers' plain SDPA forward and of our capture, in turn; the median of the turns' ratios."""
    model = subject(path, tokens)
    peer, ids = llama_of(model, "sdpa"), prompt(model.config, tokens)

    def theirs() -> None:
        with torch.no_grad():
            peer(ids, logits_to_keep=1)

    works = [theirs, lambda: capture(model, ids, logits="last")]
    in_turn(works, 1)
    plain, captured = in_turn(works, times)
    ratio = statistics.median(ours / peers for peers, ours in zip(plain, captured, strict=True))
    seconds = {"theirs": statistics.median(plain), "ours": statistics.median(captured), "ratio": ratio}
    return {**seconds, "processor": processor(), "products": str(model.products)}


def decoding_beside_generate(path: str | None, steps: int, times: int) -> Numbers:
    """Tokens a second of transformers' ``generate`` with its cache, and ours in turn with it."""
    model = subject(path, PROMPT + steps)
    peer, ids = llama_of(model, "sdpa"), prompt(model.config, PROMPT)
    start = capture(model, ids, logits="last")

    def theirs(count: int) -> None:
        with torch.no_grad():
            peer.generate(
                ids, max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
            )

    theirs(2)
    generate(model, start, 2)
    one, many, ours = alternating(
        [lambda: theirs(1), lambda: theirs(steps + 1), lambda: generate(model, start, steps)], times
    )
    return {"theirs": steps / (many - one), "ours": steps / ours, "processor": processor()}


def agreement(path: str | None, tokens: int) -> Numbers:
    """The largest difference between our logits and transformers', so that the same thing is measured."""
    model = subject(path, tokens)
    peer, ids = llama_of(model, "sdpa"), prompt(model.config, tokens)
    with torch.no_grad():
        theirs, ours = peer(ids).logits, model(ids)
    return {"difference": float((theirs - ours).abs().max())}
