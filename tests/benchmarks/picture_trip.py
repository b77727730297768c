"""What the way to the window adds to a head's picture of 512 × 512: reports, asserts nothing.

    python -m tests.benchmarks.picture_trip [--tokens 512] [--rounds 5]

A session without a window asks for every head of the bundled model's run, one after another, and the time from asking
to the answer is told. A process without Qt answers the same questions, and the difference of the medians is what the
way adds: queues, frames, and turns of the event loop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as the engine's process has it

from ropewalk.app.processes import new_session
from ropewalk.model.engine.questions import AskHead
from ropewalk.model.progress import finished
from ropewalk.model.tokens.prompt import Prompt

ROOT = Path(__file__).resolve().parents[2]
LAYERS, HEADS = 4, 8
"""Of the bundled model."""
PIXELS = 512
QUESTIONS = tuple(AskHead(layer, head, pixels=PIXELS) for layer in range(LAYERS) for head in range(HEADS))


def main() -> int:
    """Ask both ways, and print the difference."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--bare", action="store_true", help="answer without Qt, and print the milliseconds")
    parsed = options.parse_args()
    prompts = [
        Prompt(" ".join(str(3 + (i + number) % 89) for i in range(parsed.tokens)), as_ids=True)
        for number in range(parsed.rounds + 1)
    ]
    if parsed.bare:
        print(json.dumps(answered(prompts)))
        return 0
    asked = asked_for(prompts)
    command = [sys.executable, "-m", "tests.benchmarks.picture_trip", "--bare", *sys.argv[1:]]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    computed: list[float] = json.loads(said.stdout.splitlines()[-1])
    for name, times in (("from asking to the answer", asked), ("without the way", computed)):
        print(f"{name:26} median {median(times):6.2f} ms, 95 % under {quantiles(times, n=20)[-1]:6.2f} of {len(times)}")
    print(f"the way adds {median(asked) - median(computed):.2f} ms to a picture of {PIXELS} × {PIXELS} (3)")
    return 0


def answered(prompts: list[Prompt]) -> list[float]:
    """Milliseconds of each answer in a process without Qt; the first prompt warms up."""
    from ropewalk.model.engine import engine

    model_handle = finished(engine.open_model(None, "cpu", "float32"))
    times: list[float] = []
    for run_id, prompt in enumerate(prompts):
        handle = finished(engine.run(model_handle, prompt, run_id, None))
        finished(engine.tidy())  # as a session has it done after each run
        for question in QUESTIONS:
            began = time.perf_counter()
            finished(engine.answer(handle, question))
            times.append(1e3 * (time.perf_counter() - began))
    return times[len(QUESTIONS) :]


def asked_for(prompts: list[Prompt]) -> list[float]:
    """Milliseconds from each question to its answer through a session; the first prompt warms up."""
    from PySide6.QtCore import QCoreApplication, QEventLoop

    from ropewalk.app.settings import SettingsStore

    qt = QCoreApplication(["ropewalk"])
    times: list[float] = []

    def settle() -> None:
        while session.busy:
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

    with tempfile.TemporaryDirectory() as folder:
        session = new_session(SettingsStore(Path(folder) / "settings.json"))
        session.opening.begin(prompt=prompts[0])
        settle()
        for prompt in prompts:
            session.start(prompt)
            settle()
            for question in QUESTIONS:
                began = time.perf_counter()
                session.ask("measured", question, lambda _: times.append(1e3 * (time.perf_counter() - began)))  # noqa: B023
                settle()
        session.close()
    del qt
    return times[len(QUESTIONS) :]


if __name__ == "__main__":
    sys.exit(main())
