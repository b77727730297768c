"""Toys: numbers from a lesson become a real decoder, and the golden values come out of its readers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import LessonError, TokenizerError
from ropewalk.model.lessons.measured.attention import scores, weights
from ropewalk.model.lessons.measured.points import norm_output, point, points
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.toy_spec import ToySpec, check_weight, weight_shape
from ropewalk.model.lessons.toys import build_toy, toy_checkpoint
from ropewalk.model.lessons.values import ModelName
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import append, capture

VIEWS = ToySpec(
    ModelConfig(
        vocabulary=2,
        width=4,
        layers=1,
        heads=2,
        kv_heads=2,
        head_width=2,
        mlp_width=4,
        max_position=16,
        position="none",
        norm_place="post",
        final_norm=False,
    ),
    ("x", "y"),
    (
        ("embed", ((1, 2, 0, -1), (3, 1, 4, 1))),
        ("blocks.0.attn.query", "identity"),
        ("blocks.0.attn.key", ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))),
        ("blocks.0.attn.value", (2, 1, 0.5, -1)),
        ("blocks.0.attn.output", "identity"),
    ),
    init="zeros",
)
"""Golden values (a): one token, three views."""

CAPSTONE = ToySpec(
    ModelConfig(
        vocabulary=2,
        width=2,
        layers=1,
        heads=1,
        kv_heads=1,
        head_width=2,
        mlp_width=2,
        max_position=16,
        rope=RopeConfig(frequencies=(math.pi / 2,)),
        norm_eps=0.0,
        final_norm=False,
        tied=True,
    ),
    ("a", "b"),
    (
        ("embed", ((1, 1), (1, -1))),
        *((f"blocks.0.attn.{name}", "identity") for name in ("query", "key", "value", "output")),
        ("blocks.0.mlp.gate", "identity"),
        ("blocks.0.mlp.up", "identity"),
    ),
    mlp_writes=((0.1, -0.2), (0.3, 0.1)),
    prompt="a b",
    init="zeros",
)
"""Golden values (b): one block, two tokens of two features."""


def runs_of(**toys: ToySpec) -> Runs:
    return Runs({name: LessonModel(name, "toy", toy.prompt, toy=toy) for name, toy in toys.items()})


def weight_of(model: Decoder, name: str) -> Tensor:
    weight = model.get_submodule(name).weight
    assert isinstance(weight, Tensor)
    return weight


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), atol=1e-6, rtol=0, check_dtype=False)


def test_one_token_has_three_views() -> None:
    runs, views = runs_of(views=VIEWS), ModelName("views")
    close(point(runs, views, "q", 0, prompt="x"), [[1, 2], [0, -1]])
    close(point(runs, views, "k", 0, prompt="x"), [[1, 2], [-1, 0]])
    close(point(runs, views, "v", 0, prompt="x"), [[2, 2], [0, 1]])


def test_one_block_by_hand() -> None:
    runs, toy = runs_of(toy=CAPSTONE), ModelName("toy")
    root = math.sqrt(2)
    close(norm_output(runs, toy, "attn_norm"), [[1, 1], [1, -1]])
    close(points(runs, toy, "rot_q"), [[1, 1], [1, 1]])
    close(points(runs, toy, "rot_k"), [[1, 1], [1, 1]])
    close(scores(runs, toy, 0, 0), [[root, root], [root, root]])
    close(weights(runs, toy, 0, 0), [[1, 0], [0.5, 0.5]])
    close(points(runs, toy, "attn_out"), [[1, 1], [1, 0]])
    close(points(runs, toy, "resid_mid"), [[2, 2], [2, -1]])
    close(points(runs, toy, "mlp_out"), [[0.1, -0.2], [0.3, 0.1]])
    close(points(runs, toy, "resid_post"), [[2.1, 1.8], [2.3, -0.9]])


def test_a_toy_opens_like_a_checkpoint() -> None:
    checkpoint = toy_checkpoint(CAPSTONE, "capstone")
    assert checkpoint.tokenizer is not None
    ids = checkpoint.tokenizer.encode("b a  b")
    assert (ids, checkpoint.tokenizer.decode(ids)) == ([1, 0, 1], "b a b")
    assert [token.text for token in checkpoint.tokenizer.describe(ids)] == ["b", "a", "b"]
    assert (checkpoint.name, checkpoint.family, checkpoint.config) == ("capstone", "toy", CAPSTONE.config)
    assert checkpoint.parameters == sum(p.numel() for p in checkpoint.model.parameters())
    trace = append(checkpoint.model, capture(checkpoint.model, ids), 0)
    assert trace.length == 4
    assert readout.weights(trace[0], 0).sum(-1) == pytest.approx(1, abs=1e-6)
    with pytest.raises(TokenizerError, match="no word 'c'; it has a, b"):
        checkpoint.tokenizer.encode("a c")


def test_weights_of_a_toy_are_its_numbers() -> None:
    model = build_toy(VIEWS)
    attention = model.block(0).attn
    assert attention.value.weight.tolist() == torch.diag(torch.tensor([2, 1, 0.5, -1])).tolist()
    assert attention.query.weight.tolist() == torch.eye(4).tolist()
    assert not weight_of(model, "blocks.0.mlp.up").any()
    tied = build_toy(CAPSTONE)
    assert tied.head.weight is tied.embed.weight
    gains = replace(VIEWS, weights=(("blocks.0.attn_post_norm", (1, 2, 3, 4)), ("head", "ones")))
    built = build_toy(gains)
    assert weight_of(built, "blocks.0.attn_post_norm").tolist() == [1, 2, 3, 4]
    assert built.head.weight.tolist() == torch.ones(2, 4).tolist()


def test_the_gain_of_qk_norm_lies_one_level_down() -> None:
    spec = replace(VIEWS, config=VIEWS.config.changed(qk_norm="head"), weights=(("blocks.0.attn.query_norm", (5, 6)),))
    assert weight_of(build_toy(spec), "blocks.0.attn.query_norm.norm").tolist() == [5, 6]


@pytest.mark.parametrize(("init", "variance"), [("engine", 1 / 128), ("library", 1 / 384), ("zeros", 0.0)])
def test_matrices_that_are_not_given_are_drawn(init: Any, variance: float) -> None:
    config = ModelConfig(vocabulary=4, width=128, layers=1, heads=4, kv_heads=4, head_width=32, mlp_width=8)
    spec = ToySpec(config, ("a", "b", "c", "d"), init=init, seed=3)
    before = torch.random.get_rng_state()
    first, again = build_toy(spec), build_toy(spec)
    assert torch.equal(torch.random.get_rng_state(), before)
    weight = first.block(0).attn.query.weight
    assert float(weight.detach().var()) == pytest.approx(variance, rel=0.05)
    assert torch.equal(weight, again.block(0).attn.query.weight)
    assert float(first.embed.weight.detach().var()) == pytest.approx(1, rel=0.2)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too few words": ({"words": ("a",)}, "1 words, but its vocabulary is 2"),
    "a word twice": ({"words": ("a", "a")}, "stands there twice"),
    "a word with a space": ({"words": ("a", "b c")}, "holds a space"),
    "another shape": (
        {"weights": (("blocks.0.attn.query", ((1.0, 2.0),)),)},
        "'blocks.0.attn.query' is 1×2, but this toy's config makes it 2×2",
    ),
    "no such weight": ({"weights": (("blocks.0.attn.querry", "ones"),)}, "There is no weight"),
    "no such layer": ({"weights": (("blocks.1.attn.query", "ones"),)}, "of layer 1, but the toy has 1"),
    "no such fill": ({"weights": (("embed", "random"),)}, "write numbers, or one of identity, zeros, ones"),
    "rows of two lengths": ({"weights": (("embed", ((1.0,), (1.0, 2.0))),)}, "not all of one length"),
    "no number": ({"weights": (("embed", ((True, 1.0), (1.0, 1.0))),)}, "no number"),
    "infinity": ({"weights": (("embed", ((math.inf, 1.0), (1.0, 1.0))),)}, "no finite number"),
    "rows for another prompt": ({"prompt": "a"}, "mlp_writes is 2×2, but the prompt 'a' and D make it 1×2"),
    "an unknown init": ({"init": "kaiming"}, "must be one of engine, library, zeros"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_a_toy_cannot_be_is_refused(case: str) -> None:
    changes, words = REFUSED[case]
    with pytest.raises(LessonError, match=words.replace("(", r"\(")):
        replace(CAPSTONE, **changes)


def test_an_mlp_that_cannot_write_what_is_asked_says_so() -> None:
    with pytest.raises(LessonError, match="No W_down makes"):
        build_toy(replace(CAPSTONE, prompt="a a", mlp_writes=((1.0, 0.0), (0.0, 1.0))))


def test_a_weight_that_the_config_leaves_out_is_refused() -> None:
    spec = replace(VIEWS, config=VIEWS.config.changed(norm_gain=False), weights=(("blocks.0.attn_post_norm", "ones"),))
    with pytest.raises(LessonError, match="leaves out the weight"):
        build_toy(spec)


def test_shapes_of_weights_follow_the_config() -> None:
    config = ModelConfig(vocabulary=7, width=12, layers=2, heads=6, kv_heads=2, head_width=4, mlp_width=5)
    model = build_toy(ToySpec(config, tuple("abcdefg")))
    for name in ("embed", "head", "norm", "blocks.1.attn.key", "blocks.1.mlp.down", "blocks.0.attn.output"):
        assert weight_shape(config, name) == tuple(weight_of(model, name).shape)
    check_weight(config, "blocks.0.attn.key", (1.0,) * 8)  # a diagonal
