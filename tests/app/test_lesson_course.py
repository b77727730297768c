"""What a course asks of its students, and where the lessons reach it."""

from __future__ import annotations

import pytest

from ropewalk.model.challenges.challenge import CHALLENGES
from tests.app.filled_lessons import SHELF

REACHED: dict[str, tuple[str, ...]] = {
    # one token, three views
    "width of a head": ("1#head-width",),
    "six features in three heads": ("1#six-in-three",),
    "shapes before and after the cut": ("1#shape-projected", "1#shape-split"),
    "key under a swap": ("1#key-of-y", "1#swapped-key", "1@2"),
    "which of Q, K, V turn": ("1#which-turn",),
    "why a projection mixes no positions": ("1#mixes",),
    "contract of H and Hkv": ("2#contract", "13#attention-shape"),
    "build: split, then turn": ("!split_heads", "!apply_rope"),
    # the whole layer
    "shapes of the four matrices": ("3#weight-q", "3#weight-k", "3@1"),
    "QK-norm": ("3#qk-norm",),
    "every shape there and back": ("3#say-shapes",),
    "what W_O does": ("3#why-wo",),
    # walk one block
    "the eight stages": ("7@0", "7#say-block"),
    "shapes of a small block": ("7#shape-q", "7#shape-scores", "7#shape-joined"),
    "PV and X + O by hand": ("7#blend-row", "7#first-residual"),
    "why a rotation is relative, and where": ("7#why-relative",),
    "where features and tokens mix": ("7#features-or-tokens",),
    "the final axis": ("0#three-axes",),
    "where RoPE stands": ("7#where-rope",),
    "the block aloud": ("7#say-block",),
    "build: ledger and one cached decode": ("!shape_ledger", "!cached_decode"),
    "build order and its checks": ("13#order", "13#say-build", "13@0"),
    "tables on the meta device": ("13#meta-tables",),
    # foundations
    "the stream drawn": ("0#say-stream",),
    "why √Dh": ("4#what-breaks", "4#spread"),
    "three habits of heads": ("11#three-habits", "11#find-previous", "11#find-induction"),
    "cost of attention": ("10#flops", "10#all-layers", "10#say-costs"),
    "build: attention from scratch": ("!causal_attention",),
    "the scale removed, row 5": ("4@3", "4#click-peak", "4#ninth"),
    "why position": ("5#why-position",),
    "three positions side by side": ("5#what-adds-where", "5@7"),
    "RoPE is relative, derived": ("6#say-derive", "6#identity"),
    "KV cache of a giant": ("9#giant-cache", "9@2"),
    "why MLPs are heavy": ("8#why-mlp-heavy", "8#mlp-count"),
    "LayerNorm, RMSNorm": ("8#rms", "8#forgets", "8@0"),
    "pre or post for sixty layers": ("8#pre-or-post",),
    "six blocks of one's own": ("11@10", "$train"),
    "a head that looks from it to its noun": ("11@8",),
    "temperature, top-k, top-p": ("14#ratio", "14#nucleus", "14#which-adapts"),
    "why softmax runs in float32": ("15#gap", "15#why-subtract", "15@4"),
    "attention beside recurrence": ("16#even", "16#who-forgets", "16#faded"),
    "how heads come into being": ("17@2", "17#why-later"),
}
"""Topic → where it is reached: ``lesson#check``, ``lesson@step``, ``!challenge`` or ``$command``."""


@pytest.mark.parametrize("topic", REACHED)
def test_what_a_course_asks_is_reached(topic: str) -> None:
    offered = {name for lesson in SHELF.lessons for name in lesson.challenges}
    for place in REACHED[topic]:
        if place.startswith("!"):
            assert place[1:] in CHALLENGES
            assert place[1:] in offered
        elif place.startswith("$"):
            from ropewalk.app.commands.line import parser

            assert place[1:] in parser(lambda shot: None).format_help()
        elif "#" in place:
            lesson, check = place.split("#")
            SHELF.lesson(lesson).place_of(check)
        else:
            lesson, step = place.split("@")
            assert int(step) < len(SHELF.lesson(lesson).steps)


def test_every_challenge_is_offered_by_a_lesson() -> None:
    offered = {name for lesson in SHELF.lessons for name in lesson.challenges}
    assert offered == set(CHALLENGES)


def test_the_train_command_takes_sizes() -> None:
    from ropewalk.app.commands.train import SIZES

    assert {"layers", "steps"} <= set(SIZES)
