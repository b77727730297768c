"""What a learner's process says is compared, never believed; and what it has left behind is ended."""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.app.lessons.challenges import Limits, run_challenge
from ropewalk.model.challenges import child
from ropewalk.model.challenges.challenge import Verdict
from ropewalk.model.challenges.grading import grade
from ropewalk.model.challenges.judging import MOST_DETAILS, judged
from ropewalk.model.challenges.mistakes import SENTENCES
from ropewalk.model.challenges.replies import Reply, plain, read, thing, write
from ropewalk.model.errors import LONGEST_SENTENCE

PASSED = Verdict("passed", "I passed.")


class Said:
    """A learner's process that has said something and ended."""

    def __init__(self, *messages: Reply | bytes) -> None:
        self.stdout = io.BytesIO()
        for message in messages:
            if isinstance(message, Reply):
                write(self.stdout, message)
            else:
                self.stdout.write(message)
        self.stdout.seek(0)

    def wait(self) -> int:
        return 3


class Unlimited:
    """No watch."""

    verdict: Verdict | None = None
    begun = 0

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> None:
        """End nothing."""


def judgement(*messages: Reply | bytes, name: str = "repeat_kv", watch: Any = None) -> Verdict:
    process: Any = Said(*messages)
    watched: Any = watch or Unlimited()
    return judged(name, Path("mine.py"), process, watched)


def told(name: str, text: str, folder: Path) -> tuple[Reply, ...]:
    """What the learner's process says of a file."""
    path, stream = folder / "mine.py", io.BytesIO()
    path.write_text(text, encoding="utf-8")
    verdict = child.run(name, path, child.telling(stream, path, grade))
    write(stream, Reply("end", None, verdict.kind, verdict.sentence, verdict.details, printed="hello\n"))
    stream.seek(0)
    return tuple(read(stream))


@pytest.mark.parametrize(
    ("name", "text", "kind", "words"),
    [
        ("repeat_kv", "def repeat_kv(x, groups):\n    return x.repeat_interleave(groups, 1)\n", "passed", "agrees"),
        ("repeat_kv", "def repeat_kv(x, groups):\n    return x.repeat(1, groups, 1, 1)\n", *SENTENCES["tiled"]),
        ("repeat_kv", "def repeat_kv(x, groups):\n    return x.legs\n", "error", "line 2 of mine.py: AttributeError"),
        ("repeat_kv", "def repeat_kv(x, groups):\n    raise SystemExit\n", "error", "SystemExit"),
        ("repeat_kv", "def repeat_kv(x, groups):\n    return {1}\n", "value", "result is set, but it must be a tensor"),
        ("repeat_kv", "def repeat_kv(x, groups\n", "file", "Line 1 of mine.py cannot be read"),
        ("repeat_kv", "def repeat_kv(x, groups):\n    raise ValueError('half \\ud800')\n", "error", "half ?"),
        ("repeat_kv", "", "file", "has no function repeat_kv"),
        ("shape_ledger", "def shape_ledger(**sizes):\n    return {'embedding': 7}\n", "value", "'embedding' is 7"),
        ("shape_ledger", "def shape_ledger(**sizes):\n    return [1]\n", "value", "it returned list"),
        (
            "split_heads",
            "def split_heads(x, heads):\n    assert x.shape[-1] % heads == 0\n"
            "    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)\n",
            "passed",
            "split_heads agrees",
        ),
    ],
)
def test_the_verdict_is_that_of_what_the_function_gave(
    name: str, text: str, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    watch = Unlimited()
    verdict = judgement(Reply("ready"), *told(name, text, tmp_path), name=name, watch=watch)
    assert (verdict.kind, watch.begun) == (kind, 1)
    assert words in verdict.sentence
    assert "It printed:\nhello" in verdict.details


@pytest.mark.parametrize(
    "messages",
    [
        (Reply("end", None, "passed", "I passed."),),
        (Reply("raised", None, "passed", "I passed."),),
        (Reply("raised", None, "passed", "I passed.", refuses=True),),
        (Reply("result", {"of": "passed"}), Reply("end", None, "passed", "I passed.")),
        (Reply("result", {"of": "tensor", "dtype": "float32", "shape": [2], "data": b"123"}),),
        (Reply("result", {"of": "tensor", "dtype": "qint8", "shape": [2], "data": b"123"}),),
        (PASSED.to_json().encode(),),
        ((1 << 40).to_bytes(8, "little") + b"x",),
        ((3).to_bytes(8, "little") + b"xyz",),
        (),
    ],
)
def test_no_message_is_a_verdict_that_it_passed(messages: tuple[Reply | bytes, ...]) -> None:
    assert not judgement(Reply("ready"), *messages).passed


def test_time_and_memory_count_from_when_torch_is_loaded_whatever_is_said_later() -> None:
    watch = Unlimited()
    judgement(Reply("ready"), Reply("ready"), Reply("ready"), watch=watch)
    assert watch.begun == 1


def test_no_more_is_told_of_what_it_says_than_a_person_reads() -> None:
    found = judgement(Reply("ready"), Reply("end", None, "error", "s" * 5000, "d\n" * 100_000))
    assert len(found.sentence) <= LONGEST_SENTENCE
    assert len(found.details) == MOST_DETAILS


def test_complex_numbers_are_not_right_because_their_real_part_is() -> None:
    found = grade("repeat_kv", lambda x, groups: torch.complex(x.repeat_interleave(groups, 1), x.new_ones(())))
    assert found.kind == "value"
    assert "complex" in found.sentence


def test_a_process_that_says_nothing_more_took_itself_down_unless_it_was_stopped() -> None:
    assert judgement(Reply("ready")).sentence == "mine.py took its whole process down (exit status 3)."
    watch = Unlimited()
    watch.verdict = Verdict("limit", "It ran too long.")
    assert judgement(Reply("ready"), watch=watch) == watch.verdict


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        2.5,
        torch.Size((1, 2)),
        {"q": (1, 2), "k": [3]},
        torch.arange(6).reshape(2, 3),
        torch.tensor([1.5, float("nan")], dtype=torch.bfloat16),
        torch.zeros(0, 3),
        torch.ones(2, 2, requires_grad=True),
    ],
)
def test_results_come_as_they_are(value: Any) -> None:
    found = thing(plain(value))
    if isinstance(value, Tensor):
        assert found.dtype == value.dtype
        torch.testing.assert_close(found, value.detach(), equal_nan=True)
    else:
        assert found == value


def test_what_is_too_large_is_known_by_its_shape_alone() -> None:
    data = plain(torch.zeros(1).expand(1 << 12, 1 << 13))
    assert data["data"] == b""
    assert thing(data).shape == (1 << 12, 1 << 13)


def test_what_is_no_result_is_known_by_its_name() -> None:
    def function() -> None: ...

    for value, name in ((function, "function"), (1 << 70, "int"), ([[[[[1]]]]], None), ({1}, "set")):
        found = thing(plain(value))
        assert name is None or type(found).__name__ == name


LEAVES = """
import os
def repeat_kv(x, groups):
    if not os.fork():
        os.setsid()
        if not os.fork():
            held = os.open({fifo!r}, os.O_WRONLY)
            while True:
                pass
        os._exit(0)
    os.wait()
    for place in (*range(64), f"/proc/{{os.getppid()}}/fd/1"):
        try:
            os.write(place if isinstance(place, int) else os.open(place, os.O_WRONLY), {passed!r})
        except OSError:
            pass
    {then}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there is what has left its parents and its group known")
@pytest.mark.parametrize(
    "then",
    [
        "os.kill(os.getppid(), 9)",  # what judges it, in the middle of what it has itself said there
        pytest.param("while True: pass", marks=pytest.mark.slow),
        pytest.param("os._exit(0)", marks=pytest.mark.slow),
    ],
)
def test_what_left_its_group_is_ended_and_what_it_writes_is_no_verdict(then: str, tmp_path: Path) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    path = tmp_path / "mine.py"
    path.write_text(LEAVES.format(fifo=str(fifo), passed=PASSED.to_json().encode(), then=then))
    assert run_challenge("repeat_kv", path, Limits(seconds=1)).kind in ("error", "limit")
    ended = select.poll()
    ended.register(reader, select.POLLHUP)
    found = ended.poll(10_000)
    os.close(reader)
    assert found == [(reader, select.POLLHUP)]
