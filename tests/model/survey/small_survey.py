"""A tiny model that surveys texts of numbers, and its statistics by plain numpy over explicit weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.notebooks.model import CheckpointModel
from ropewalk.model.tokens.tokenizer import Piece, Tokenizer
from ropewalk.model.trace_files.header import Origin
from tests.model.small_models import BASE, CONFIGS, make

SMALL = BASE.changed(layers=2)
ALTERNATE = {"window": 4, "window_layers": (True, False)}
FAMILIES: dict[str, ModelConfig] = {
    "llama": SMALL,
    "qwen3": SMALL.changed(qk_norm="head", kv_heads=1),
    "gemma2": SMALL.changed(score_cap=3.0, norm_place="both", norm_offset=1.0, embedding_scale=5.0, **ALTERNATE),
    "gpt_oss": SMALL.changed(sink=True, query_bias=True, key_bias=True, output_bias=True, **ALTERNATE),
    "olmo2": SMALL.changed(qk_norm="full", norm_place="post", kv_heads=4),
}
"""What a survey reads of the attention of five families, each with two layers."""

PIECES = (b"a", b" b", b",", b"?!", b"\n", b"7", b" 42", b"x1", b".\n")


class Numbers:
    """A text is its ids."""

    size = 50

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        return [int(one) for one in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def piece(self, token: int) -> Piece:
        return Piece(b"<s>", special=True) if token == 49 else Piece(PIECES[token % len(PIECES)])

    def find(self, name: str) -> None:
        return None


class SmallModel(CheckpointModel):
    """One of the tiny decoders, or of the families."""

    origin = Origin(name="small", fingerprint="f")

    def __init__(self, name: str, seed: int = 0) -> None:
        decoder = make(name, seed) if name in CONFIGS else made(FAMILIES[name], seed)
        tokenizer = Tokenizer(Numbers())
        checkpoint: Any = SimpleNamespace(
            model=decoder, config=decoder.config, tokenizer=tokenizer, name=name, has_logits=True
        )
        super().__init__(checkpoint)


def made(config: ModelConfig, seed: int = 0) -> Decoder:
    """A decoder whose biases, gains and sinks are random too, so that they matter."""
    decoder = Decoder(config, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    for name, parameter in decoder.named_parameters():
        if name.endswith(("sinks", "bias")):
            torch.nn.init.normal_(parameter, generator=generator)
        elif "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)
    return decoder.eval()


def texts_of(lengths: Sequence[int], seed: int = 0, vocabulary: int = 12) -> list[list[int]]:
    """Texts with many repeats, some of them with a special token."""
    draw = np.random.default_rng(seed)
    found = [draw.integers(0, vocabulary, length).tolist() for length in lengths]
    found[0][0] = found[-1][-3] = 49
    return found


def expected(
    model: SmallModel, ids: list[int], pairs: Sequence[tuple[int, int]] = ()
) -> dict[str, NDArray[np.float64]]:
    """Name → [L, H], each by its definition, a query at a time."""
    c = model.config
    per_layer = ("attn.hook_pattern", "attn.hook_z", "hook_resid_pre", "hook_resid_post")
    names = [f"blocks.{layer}.{one}" for layer in range(c.layers) for one in per_layer]
    with torch.no_grad(), recording(model.decoder, names) as seen:
        model.decoder(torch.tensor([ids]), branch="explicit")
    found: dict[str, list[list[float]]] = {}
    for layer in range(c.layers):
        pattern, z, before, after = (seen[f"blocks.{layer}.{one}"][0].double().numpy() for one in per_layer)
        block = model.decoder.block(layer)
        written = block.attn.output.weight.detach().double().numpy()
        whole = np.concatenate(z, -1) @ written.T
        if block.attn.output.bias is not None:
            whole = whole + block.attn.output.bias.detach().double().numpy()
        for head in range(c.heads):
            width = slice(head * c.head_width, (head + 1) * c.head_width)
            added = normed(block.attn_post_norm, z[head] @ written[:, width].T, whole)
            group = range(head // (c.heads // c.kv_heads) * (c.heads // c.kv_heads), c.heads)[: c.heads // c.kv_heads]
            others = [pattern[one] for one in group if one != head]
            for name, values in of_head(pattern[head], others, added, after - before, ids, pairs).items():
                found.setdefault(name, [[] for _ in range(c.layers)])[layer].append(
                    math.fsum(values) / len(values) if values else math.nan
                )
    return {name: np.array(values) for name, values in found.items()}


def normed(norm: Any, part: Any, whole: Any) -> Any:
    """What a summand of what is normed gives, the root mean square of all of it held fixed."""
    if not isinstance(norm, Norm):
        return part
    assert norm.weight is not None
    gain = norm.weight.detach().double().numpy() + norm.offset
    return part / np.sqrt(np.square(whole).mean(-1, keepdims=True) + norm.eps) * gain


def of_head(
    w: Any, others: Any, added: Any, change: Any, ids: list[int], pairs: Sequence[tuple[int, int]]
) -> dict[str, list[float]]:
    """Name → the values of the eligible queries."""
    pieces = [b"" if one == 49 else PIECES[one % len(PIECES)] for one in ids]
    kinds = {
        "punctuation": [one in (b",", b"?!", b".\n") for one in pieces],
        "line_break": [b"\n" in one for one in pieces],
        "special": [one == 49 for one in ids],
        "digit": [one in (b"7", b" 42") for one in pieces],
    }
    found: dict[str, list[float]] = {}

    def add(name: str, q: int, keys: list[int] | range) -> None:
        values = found.setdefault(name, [])
        if len(keys):
            values.append(math.fsum(w[q, k] for k in keys))

    for q in range(len(ids)):
        add("previous", q, [q - 1] if q else [])
        add("self", q, [q])
        add("sink", q, [0] if q else [])
        add("sink_beyond_64", q, [0] if q > 64 else [])
        for count in (8, 32, 128):
            add(f"local_{count}", q, range(max(q - count + 1, 0), q + 1))
        add("duplicate", q, [p for p in range(q) if ids[p] == ids[q]])
        add("induction", q, [p + 1 for p in range(q - 1) if ids[p] == ids[q]])
        for kind, are in kinds.items():
            add(kind, q, [k for k in range(q + 1) if are[k]])
        add("pairs", q, [k for query, k in set(pairs) if query == q])
        row = w[q][: q + 1]
        taken = max(1.0 - row.sum(), 0.0)  # by a sink
        of_all = [one for one in (*row, taken if taken > 1e-6 else 0.0) if one > 0]
        found.setdefault("entropy", []).append(-math.fsum(one * math.log(one) for one in of_all))
        found.setdefault("largest", []).append(row.max())
        found.setdefault("distance", []).append(math.fsum((q - k) * one for k, one in enumerate(row)))
        cosines = [row @ one[q][: q + 1] / np.linalg.norm(row) / np.linalg.norm(one[q][: q + 1]) for one in others]
        found.setdefault("similarity", []).extend([float(np.mean(cosines))] if cosines else [])
        found.setdefault("output", []).append(float(np.linalg.norm(added[q])))
        found.setdefault("share", []).append(float(added[q] @ change[q] / (change[q] @ change[q])))
    return found
