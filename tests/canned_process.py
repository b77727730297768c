"""A process that serves canned readings as an engine does, and stays or ends where a test wants that.

Its argument is a file that says where: ``holds run`` goes on with a run for ever, ``deaf run`` does not even hear a
cancel, ``reads run`` reads a text that takes for ever, ``dies run`` ends the process there. What is named is a method
of the engine, or a question. A file ``met`` beside it says that the place was met.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]


def command(wishes: Path) -> list[str]:
    """What starts one."""
    return [sys.executable, "-P", __file__, str(wishes)]


def main() -> None:
    """Serve until the window is gone."""
    from ropewalk.model.engine import stdio

    reading, writing = stdio.claim()
    from ropewalk import __version__
    from ropewalk.app.passing import PASSING
    from ropewalk.app.served import SERVED
    from ropewalk.model.engine.packing import Packing
    from ropewalk.model.engine.pipe import serve_pipe
    from ropewalk.model.engine.requests import Greeting

    engine = wilful(Path(sys.argv[1]))
    serve_pipe(reading, writing, SERVED, Packing(PASSING), lambda: engine, Greeting(__version__, "canned"))


def wilful(wishes: Path) -> Any:
    """The engine that does what the file says."""
    from ropewalk.model import limits
    from ropewalk.model.engine.interface import CheckpointOutline, ModelHandle, RunHandle
    from ropewalk.model.engine.questions import Question
    from ropewalk.model.options import Options
    from ropewalk.model.progress import Progress
    from ropewalk.model.readings.records import HeadNumbers, Sampling
    from tests.views.canned import CannedEngine

    limit = limits.Limit("a text with its tokenizer", 0.1, 1024)

    def meet(what: str) -> Generator[Progress, None, None]:
        """Come to a place that may be wished for."""
        yield Progress(0, 2, what)
        while wished := wish(wishes, what):
            wishes.with_name("met").touch()
            if wished == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if wished == "deaf":
                signal.pause()
            if wished == "reads":
                with mock.patch.dict(limits.__dict__, LIMITS={"text": limit}), limits.limited("text", "the prompt"):
                    any(itertools.repeat(0))  # holds the interpreter
            yield Progress(1, 2, what)

    @dataclass
    class Wilful(CannedEngine):
        def open_model(
            self, path: str | None, device: str, dtype: str, *, options: Options | None = None
        ) -> Generator[Progress, None, ModelHandle]:
            yield from meet("open")
            return (yield from super().open_model(path, device, dtype, options=options))

        def outline(self, path: str | None, options: Options) -> Generator[Progress, None, CheckpointOutline]:
            yield from meet("outline")
            return (yield from super().outline(path, options))

        def run(
            self, model_handle: ModelHandle, prompt: Any, run_id: int, head: Any, *,
            interventions: Sequence[Any] = (), decoded: Sequence[int] = (),
        ) -> Generator[Progress, None, RunHandle]:  # fmt: skip
            yield from meet(f"run:{prompt.text}")
            yield from meet("run")
            made = super().run(model_handle, prompt, run_id, head, interventions=interventions, decoded=decoded)
            return (yield from made)

        def step(
            self, handle: RunHandle, count: int, sampling: Sampling, past_end: bool = False
        ) -> Generator[Progress, None, RunHandle]:
            yield from meet("step")
            return (yield from super().step(handle, count, sampling, past_end))

        def answer(self, handle: RunHandle, question: Question) -> Generator[Progress, None, Any]:
            yield from meet(type(question).__name__)
            return (yield from super().answer(handle, question))

        def numbers(
            self, handle: RunHandle, layer: int, head: int, queries: Any, keys: Any
        ) -> Generator[Progress, None, HeadNumbers]:
            yield from meet("numbers")
            raise NotImplementedError

        def save_steps(
            self, handle: RunHandle, path: Path, *, drawn: Sequence[Sampling] = ()
        ) -> Generator[Progress, None, None]:
            path.write_bytes(bytes(3 << 20))
            yield from meet("save")

    return Wilful()


def wish(wishes: Path, what: str) -> str:
    """What is wished for a place; nothing where nothing is."""
    with suppress(FileNotFoundError):
        for line in wishes.read_text(encoding="utf-8").splitlines():
            how, _, where = line.partition(" ")
            if where == what:
                return how
    return ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
