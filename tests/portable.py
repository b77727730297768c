"""Runs the tests as other machines would: ``python -m tests.portable``, or ``--sample`` for one setting on some files.

What passes here depends neither on the order in which a processor adds, nor on that of sets and of the tests.
"""

from __future__ import annotations

import argparse
import datetime
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Setting:
    """One way to run the tests.

    Attributes
    ----------
    variables
        Of the environment.
    options
        Of pytest.
    needs
        The vector instructions that a processor must have; "" for any.
    """

    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    needs: str = ""


ALWAYS = {"QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
"""What ``make test`` sets too; a plugin that imports torch does so before the tests' own conftest could."""
SEED = str(secrets.randbelow(1 << 16))
"""Drawn anew for every run, and told."""
SETTINGS = {
    "no vector instructions": Setting((("ATEN_CPU_CAPABILITY", "default"),)),
    "AVX2": Setting((("ATEN_CPU_CAPABILITY", "avx2"),), needs="AVX2"),
    "AVX-512": Setting((("ATEN_CPU_CAPABILITY", "avx512"),), needs="AVX512"),
    "two threads": Setting((("OMP_NUM_THREADS", "2"),)),
    "MKL's slow, equal paths": Setting((("MKL_CBWR", "COMPATIBLE"),)),
    "without oneDNN": Setting(options=("-p", "tests.without_onednn")),
    "products by oneDNN": Setting((("ROPEWALK_PRODUCTS", "onednn"),), ("-p", "tests.other_products")),
    "products by numpy": Setting((("ROPEWALK_PRODUCTS", "numpy"),), ("-p", "tests.other_products")),
    "sums from the other end": Setting(options=("-p", "tests.other_sums")),
    f"another hash, {SEED}": Setting((("PYTHONHASHSEED", SEED),)),
    f"another order, {SEED}": Setting(options=("--random-order", "--random-order-seed", SEED)),
}
SAMPLE = tuple(
    f"tests/model/{name}.py"
    for name in (
        "decoder/test_attention",
        "decoder/test_decoder",
        "readings/test_readout",
        "readings/test_patterns",
        "decoder/test_quick_step",
        "runs/test_slices",
        "readings/test_tiles",
        "runs/test_trace",
        "trace_files/test_trace_file",
    )
)
"""Files of a few seconds whose tests compare many numbers."""


def possible(needs: str) -> bool:
    """Whether this processor has the instructions; those that have AVX-512 have AVX2."""
    import torch

    found = torch.backends.cpu.get_cpu_capability()
    return not needs or needs == found or (needs, found) == ("AVX2", "AVX512")


def run(name: str, setting: Setting, paths: tuple[str, ...]) -> bool:
    """Run the tests in one setting; whether they passed."""
    variables = ALWAYS | dict(setting.variables)
    description = [f"{key}={value}" for key, value in setting.variables] + list(setting.options)
    print(f"\n{name}: {' '.join(description)}", flush=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not slow"]
    ended = subprocess.run(
        [*command, *setting.options, *paths], env=os.environ | variables, cwd=ROOT, check=False
    ).returncode
    print(f"{name}: {'failed' if ended else 'passed'} in {time.monotonic() - began:.0f} s", flush=True)
    return not ended


def turn_of_today(settings: int) -> int:
    """Which setting is due: by the commit, so that a run can be repeated, or without git by the day."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    commit = asked.stdout.strip()
    return (int(commit, 16) if commit else datetime.date.today().toordinal()) % settings


def main() -> int:
    """The settings one after the other; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one setting, in rotation, on some files")
    parser.add_argument("--only", metavar="WORDS", default="", help="settings whose name holds these words")
    parser.add_argument("paths", nargs="*", help="what to run instead of all tests")
    asked = parser.parse_args()
    settings = [(name, one) for name, one in SETTINGS.items() if asked.only in name and possible(one.needs)]
    paths = tuple(asked.paths) or (SAMPLE if asked.sample else ())
    if asked.sample:
        settings = [settings[turn_of_today(len(settings))]]
    passed = [run(name, one, paths) for name, one in settings]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
