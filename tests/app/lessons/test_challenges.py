"""Build challenges: the right solution passes, each classic mistake is named, and whatever else a file does is told."""

from __future__ import annotations

import inspect
import os
import select
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.app.lessons.challenges import STARTERS, Limits, check_name, run_challenge, starter, write_starter
from ropewalk.model.challenges import child, grading
from ropewalk.model.challenges.challenge import CHALLENGES, Verdict, read_verdict
from ropewalk.model.challenges.grading import LEDGER_CALLS, LEDGER_ROWS, TASKS, grade
from ropewalk.model.challenges.mistakes import SENTENCES
from ropewalk.model.errors import ChallengeError

SOLUTIONS = """
import math
import torch


def split_heads(x, heads):
    batch, tokens, width = x.shape
    assert width % heads == 0, f"{width} features do not make {heads} heads"
    return x.view(batch, tokens, heads, width // heads).transpose(1, 2)


def turn(x, positions, base):
    half = x.shape[-1] // 2
    theta = base ** (-2 * torch.arange(half) / x.shape[-1])
    angles = positions[:, None] * theta
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def apply_rope(q, k, v, positions, base):
    return turn(q, positions, base), turn(k, positions, base), v


def repeat_kv(x, groups):
    return x.repeat_interleave(groups, dim=1)


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    past = k.shape[2] - q.shape[2]
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(past + 1)
    z = scores.masked_fill(later, -math.inf).softmax(-1) @ v
    return z.transpose(1, 2).flatten(2)


def causal_attention(x, weights, heads):
    q, k, v = (split_heads(x @ weights[name].T, heads) for name in "qkv")
    return attend(q, k, v) @ weights["o"].T


def cached_decode(x, keys, values, weights, heads, kv_heads, rotate):
    position = keys.shape[2]
    q = rotate(split_heads(x @ weights["q"].T, heads), position)
    k = rotate(split_heads(x @ weights["k"].T, kv_heads), position)
    v = split_heads(x @ weights["v"].T, kv_heads)
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    groups = heads // kv_heads
    return attend(q, repeat_kv(keys, groups), repeat_kv(values, groups)) @ weights["o"].T, keys, values


def rms_norm(x, gain, eps):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


def transformer_block(x, weights, heads, kv_heads, base, eps):
    n = rms_norm(x, weights["attn_norm"], eps)
    q = split_heads(n @ weights["q"].T, heads)
    k, v = (split_heads(n @ weights[name].T, kv_heads) for name in "kv")
    q, k, v = apply_rope(q, k, v, torch.arange(x.shape[1]), base)
    groups = heads // kv_heads
    x = x + attend(q, repeat_kv(k, groups), repeat_kv(v, groups)) @ weights["o"].T
    n = rms_norm(x, weights["mlp_norm"], eps)
    return x + (torch.nn.functional.silu(n @ weights["gate"].T) * (n @ weights["up"].T)) @ weights["down"].T


def shape_ledger(batch, tokens, past, width, heads, kv_heads, head_width, mlp_width, vocabulary):
    stream, wide = (batch, tokens, width), (batch, tokens, mlp_width)
    keys = past + tokens
    kv = (batch, tokens, kv_heads * head_width)
    return {
        "embedding": stream,
        "q": (batch, tokens, heads * head_width),
        "k": kv,
        "v": kv,
        "split_q": (batch, heads, tokens, head_width),
        "split_k": (batch, kv_heads, tokens, head_width),
        "cache_k": (batch, kv_heads, keys, head_width),
        "shared": (batch, heads, keys, head_width),
        "scores": (batch, heads, tokens, keys),
        "blend": (batch, heads, tokens, head_width),
        "concatenate": (batch, tokens, heads * head_width),
        "o": stream,
        "residual_mid": stream,
        "gate": wide,
        "up": wide,
        "down": stream,
        "residual_post": stream,
        "lm_head": (batch, tokens, vocabulary),
    }
"""


def solved() -> dict[str, Callable[..., Any]]:
    space: dict[str, Any] = {}
    exec(SOLUTIONS, space)
    return {name: space[name] for name in CHALLENGES}


SOLVED = solved()


@pytest.mark.parametrize("name", CHALLENGES)
def test_a_right_solution_passes(name: str) -> None:
    verdict = grade(name, SOLVED[name])
    assert verdict.passed, verdict
    assert verdict.sentence.startswith(name)


@pytest.mark.parametrize("name", TASKS)
def test_the_plain_definitions_are_the_engines(name: str) -> None:
    for case in TASKS[name].cases():
        made = TASKS[name].plainly(*case.arguments)
        for found, wanted in zip(made if isinstance(made, tuple) else (made,), case.expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


MISTAKES = [(name, mistake) for name, task in TASKS.items() for mistake in task.mistakes]


def mistaken(name: str, *mistakes: str) -> Callable[..., Any]:
    """The plain definition with some mistakes in it."""
    plainly = TASKS[name].plainly

    def function(*arguments: Any) -> Any:
        if name == "split_heads":
            assert arguments[0].shape[-1] % arguments[1] == 0
        return plainly(*arguments, mistakes=frozenset(mistakes))

    return function


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=["-".join(pair) for pair in MISTAKES])
def test_each_classic_mistake_is_named(name: str, mistake: str) -> None:
    verdict = grade(name, mistaken(name, mistake))
    kind, sentence = SENTENCES[mistake]
    assert (verdict.kind, verdict.sentence) == (kind, sentence)
    assert "first different" in verdict.details or "must be" in verdict.details


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("causal_attention", ("unscaled", "unmasked")),
        ("cached_decode", ("at_zero", "tiled")),
        ("transformer_block", ("adjacent", "unscaled")),
        ("transformer_block", ("no_gain", "second_from_input")),
        ("apply_rope", ("adjacent", "v_turned")),
    ],
)
def test_two_mistakes_at_once_are_both_named(name: str, pair: tuple[str, str]) -> None:
    words = grade(name, mistaken(name, *pair)).sentence
    assert all(SENTENCES[mistake][1] in words for mistake in pair)


def test_every_mistake_has_a_sentence_and_every_sentence_a_mistake() -> None:
    assert {mistake for _, mistake in MISTAKES} == set(SENTENCES)
    for _, sentence in SENTENCES.values():
        assert sentence[0].isupper()
        assert sentence.endswith(".")


def test_heads_that_do_not_fit_must_be_refused() -> None:
    verdict = grade("split_heads", _careless_split)
    assert verdict.kind == "shape"
    assert "did not refuse" in verdict.sentence


def _careless_split(x: Tensor, heads: int) -> Tensor:
    if x.shape[-1] % heads:
        return x
    result: Tensor = SOLVED["split_heads"](x, heads)
    return result


UNNAMED: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "nothing returned": ("repeat_kv", lambda x, groups: None, "value", "returned None; is the return missing"),
    "no tensor": ("repeat_kv", lambda x, groups: x.tolist(), "shape", "must return result: 1 tensors"),
    "a number": ("repeat_kv", lambda x, groups: 3.0, "value", "result is float, but it must be a tensor"),
    "too few": (
        "apply_rope",
        lambda q, k, v, p, b: (q, k),
        "shape",
        "must return Q, K, V: 3 tensors, but it returned 2",
    ),
    "another shape": ("repeat_kv", lambda x, groups: x[:, :, :1], "shape", "must be 2×6×5×4, but yours is 2×2×1×4"),
    "another order": (
        "repeat_kv",
        lambda x, groups: x.repeat_interleave(groups, 1).transpose(1, 2),
        "shape",
        "The axes are right, their order is not",
    ),
    "NaN": ("causal_attention", lambda x, w, h: x * float("nan"), "value", "The output holds NaN: first at [0, 0, 0]"),
    "something else": (
        "causal_attention",
        lambda x, w, h: 1.1 * SOLVED["causal_attention"](x, w, h),
        "value",
        "differs from the engine's, and not by a mistake known here",
    ),
}


@pytest.mark.parametrize("case", UNNAMED)
def test_other_differences_are_shown(case: str) -> None:
    name, function, kind, words = UNNAMED[case]
    verdict = grade(name, function)
    assert verdict.kind == kind
    assert words in verdict.sentence


def test_the_first_number_that_differs_is_shown() -> None:
    def nearly(x: Tensor, groups: int) -> Tensor:
        result: Tensor = x.repeat_interleave(groups, 1)
        result[1, 2, 3, 0] += 1
        return result

    details = grade("repeat_kv", nearly).details
    assert "first different at [1, 2, 3, 0]" in details
    assert "0% of the numbers differ" in details


def test_writing_into_the_arguments_harms_nobody() -> None:
    def rude(x: Tensor, weights: dict[str, Tensor], heads: int) -> Tensor:
        result: Tensor = SOLVED["causal_attention"](x, weights, heads)
        x.zero_()
        weights["q"].zero_()
        return result

    assert grade("causal_attention", rude).passed


def test_half_precision_is_no_mistake_in_shape() -> None:
    assert grade("repeat_kv", lambda x, groups: x.double().repeat_interleave(groups, 1)).passed


# ----------------------------------------------------------------------------------------------------------------------
# The shape ledger


def ledger_with(**changes: Callable[..., Any]) -> Callable[..., Any]:
    def ledger(**sizes: int) -> Mapping[str, Any]:
        rows = dict(SOLVED["shape_ledger"](**sizes))
        for name, change in changes.items():
            rows[name] = change(**sizes)
        return rows

    return ledger


WRONG_ROWS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "keys of a decode step": (
        ledger_with(scores=lambda **s: (s["batch"], s["heads"], s["tokens"], s["tokens"])),
        "shape",
        "scores must be [B, H, T, S] = 1×6×1×10 in a decode step, but yours is 1×6×1×1. Axis 3 has",
    ),
    "query heads in the cache": (
        ledger_with(cache_k=lambda **s: (s["batch"], s["heads"], s["past"] + s["tokens"], s["head_width"])),
        "shape",
        "Axis 1 has H where Hkv belongs",
    ),
    "D for H·Dh": (
        ledger_with(q=lambda **s: (s["batch"], s["tokens"], s["width"])),
        "shape",
        "q must be [B, T, H·Dh] = 2×5×48 in a prefill, but yours is 2×5×24. Axis 2 has D where H·Dh belongs",
    ),
    "heads behind positions": (
        ledger_with(split_q=lambda **s: (s["batch"], s["tokens"], s["heads"], s["head_width"])),
        "order",
        "The sides are right, their order is not",
    ),
    "an axis too few": (ledger_with(lm_head=lambda **s: (s["tokens"], s["vocabulary"])), "shape", "It has 3 axes"),
    "no shape": (ledger_with(o=lambda **s: 7), "value", "must be a shape"),
    "no dict": (lambda **s: [1, 2], "value", "must return a dict of shapes, but it returned list"),
    "a row missing": (lambda **s: {"embedding": (s["batch"], s["tokens"], s["width"])}, "value", "'q' is missing"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_a_wrong_row_of_the_ledger_is_explained(case: str) -> None:
    function, kind, words = WRONG_ROWS[case]
    verdict = grade("shape_ledger", function)
    assert verdict.kind == kind
    assert words in verdict.sentence


def test_the_ledgers_sizes_tell_letters_apart() -> None:
    for call in LEDGER_CALLS:
        assert call.heads * call.head_width != call.width
    assert any(call.tokens == 1 and call.past for call in LEDGER_CALLS)
    assert "scores" in LEDGER_ROWS


# ----------------------------------------------------------------------------------------------------------------------
# In a process of its own


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_learners_file_is_run_against_the_engine(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("raise SystemExit('shadowed')", encoding="utf-8")
    text = SOLUTIONS.replace(
        "return x.repeat_interleave(groups, dim=1)", "print('tiling'); return x.repeat(1, groups, 1, 1)"
    )
    verdict = run_challenge("repeat_kv", written(tmp_path, text))
    assert (verdict.kind, verdict.sentence) == SENTENCES["tiled"]
    assert "It printed:\ntiling" in verdict.details


def test_too_much_memory_is_refused_and_what_is_right_passes(tmp_path: Path) -> None:
    text = (
        "def repeat_kv(x, groups):\n    try:\n        bytearray(1 << 40)\n    except MemoryError:\n"
        "        print('no room')\n    return x.repeat_interleave(groups, dim=1)\n"
    )
    verdict = run_challenge("repeat_kv", written(tmp_path, text), Limits(memory=256))
    assert (verdict.kind, verdict.sentence) == ("passed", "repeat_kv agrees with the engine in every case.")
    assert "It printed:\nno room" in verdict.details


@pytest.mark.slow
def test_a_loop_without_end_is_stopped_and_what_it_started_is_ended_too(tmp_path: Path) -> None:
    text = "def repeat_kv(x, groups):\n    while True:\n        pass\n"
    handle, reader = tmp_path / "held", -1
    if os.name == "posix":  # only there can a whole group of processes be ended
        os.mkfifo(handle)
        reader = os.open(handle, os.O_RDONLY | os.O_NONBLOCK)
        text += f"import subprocess\nsubprocess.Popen(['sleep', '600'], stdout=open({str(handle)!r}, 'w'))\n"
    verdict = run_challenge("repeat_kv", written(tmp_path, text), Limits(seconds=0.5))
    assert verdict.kind == "limit"
    assert "more than 0.5 seconds" in verdict.sentence
    if os.name == "posix":
        ended = select.poll()
        ended.register(reader, select.POLLHUP)
        found = ended.poll(10_000)
        os.close(reader)
        assert found == [(reader, select.POLLHUP)]  # nobody holds the other end any more


def test_a_process_that_dies_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was doing; hence one that dies at once."""
    dying = [sys.executable, "-c", "import os; os.abort()"]
    monkeypatch.setattr("ropewalk.app.lessons.challenges.child_command", lambda *arguments, tidies: dying)
    verdict = run_challenge("repeat_kv", written(tmp_path, ""))
    assert verdict.kind == "error"
    assert "took the whole process down" in verdict.sentence


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="There is no device that is always full")
def test_a_starter_that_found_no_room_is_not_in_the_way_of_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "repeat_kv.py", Path.open

    def full(self: Path, mode: str = "r", **how: Any) -> Any:
        if mode != "x":
            return opened(self, mode, **how)
        opened(self, mode).close()
        return opened(Path("/dev/full"), "w", **how)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ChallengeError, match="No space left on device"):
        write_starter("repeat_kv", path)
    monkeypatch.undo()
    write_starter("repeat_kv", path)
    assert path.read_text(encoding="utf-8") == starter("repeat_kv")


# In this process: what the child does with a file

FILES: dict[str, tuple[str, str, str]] = {
    "a syntax error": ("def repeat_kv(x, groups)\n    return x\n", "file", "Line 1 of mine.py cannot be read"),
    "no such function": ("def repeat(x): ...\n", "file", "has no function repeat_kv"),
    "an import that fails": ("import nowhere_at_all\n", "error", "cannot be loaded, line 1 of mine.py: ModuleNotFound"),
    "exit": ("raise SystemExit\n", "file", "ended the program while it was loaded"),
    "an error inside": (
        "def repeat_kv(x, groups):\n    y = x\n    return y.legs\n",
        "error",
        "repeat_kv, line 3 of mine.py: AttributeError: 'Tensor' object has no attribute 'legs'.",
    ),
    "not written yet": ("def repeat_kv(x, groups):\n    raise NotImplementedError\n", "error", "is not written yet"),
    "exit inside": ("def repeat_kv(x, groups):\n    raise SystemExit(3)\n", "error", "SystemExit: 3"),
    "no memory": ("def repeat_kv(x, groups):\n    raise MemoryError\n", "limit", "more memory than it may have"),
    "an error without words": (
        "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n"
        "def repeat_kv(x, groups):\n    raise Mute\n",
        "error",
        "repeat_kv, line 6 of mine.py: Mute: no message.",
    ),
    "what torch has not": (
        'def repeat_kv(x, groups):\n    return x.to("meta").cpu()\n',
        "error",
        "repeat_kv, line 2 of mine.py: NotImplementedError: Cannot copy out of meta tensor",
    ),
    "an interrupt": (
        "def repeat_kv(x, groups):\n    raise KeyboardInterrupt\n",
        "error",
        "KeyboardInterrupt: no message",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_run_says_where(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, kind, words = FILES[case]
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    verdict = child.run("repeat_kv", written(tmp_path, text), grade)
    assert verdict.kind == kind
    assert words in verdict.sentence


def test_what_is_printed_is_kept_within_bounds() -> None:
    printed = child.Printed()
    print("x" * 10_000, file=printed)
    assert len(printed.text) == child.MOST_PRINTED
    assert printed.writable()


def test_verdicts_cross_as_text() -> None:
    verdict = Verdict("mask", "Off by one — k > q.", "details\nover lines")
    assert read_verdict(verdict.to_json()) == verdict
    assert read_verdict(Verdict("error", "half \ud800", "é").to_json()) == Verdict("error", "half ?", "é")
    with pytest.raises(ValueError, match="no verdict"):
        read_verdict('{"kind": "legs"}')


# ----------------------------------------------------------------------------------------------------------------------
# Starters


@pytest.mark.parametrize("name", CHALLENGES)
def test_a_starter_has_the_right_function_and_is_not_written_yet(name: str, tmp_path: Path) -> None:
    path = tmp_path / "start.py"
    write_starter(name, path)
    assert path.read_text(encoding="utf-8") == starter(name)
    verdict = child.run(name, path, grade)
    assert "is not written yet" in verdict.sentence
    space: dict[str, Any] = {}
    exec(compile(starter(name), name, "exec"), space)
    assert list(inspect.signature(space[name]).parameters) == list(inspect.signature(SOLVED[name]).parameters)
    assert f"challenge {name} THIS_FILE.py" in space["__doc__"]


def test_every_challenge_has_a_starter_and_no_other_file_lies_there() -> None:
    assert {path.stem for path in STARTERS.glob("*.py")} == set(CHALLENGES)
    assert set(CHALLENGES) == {*TASKS, "shape_ledger"}
    assert grading.TOLERANCE < 1e-3


def test_a_starter_never_overwrites(tmp_path: Path) -> None:
    path = written(tmp_path, "mine")
    with pytest.raises(ChallengeError, match="is there already"):
        write_starter("repeat_kv", path)
    assert path.read_text(encoding="utf-8") == "mine"
    with pytest.raises(ChallengeError, match="cannot be written"):
        write_starter("repeat_kv", tmp_path / "nowhere" / "x.py")


def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChallengeError, match="did you mean split_heads"):
        check_name("split_head")
    with pytest.raises(ChallengeError, match="there are split_heads, apply_rope"):
        check_name("zzz")
    with pytest.raises(ChallengeError, match="There is no file"):
        run_challenge("repeat_kv", tmp_path / "none.py")
    large = written(tmp_path, "#" * 1_000_001)
    with pytest.raises(ChallengeError, match="too many for a challenge"):
        run_challenge("repeat_kv", large)
