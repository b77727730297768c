"""Torch arrives behind the window: other threads go on while its libraries load."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNTING = """
import sys, threading, time
from ropewalk.app import engine

turns, over = 0, threading.Event()

def count():
    global turns
    while not over.wait(0.001):
        turns += 1

threading.Thread(target=count).start()
before = turns
engine._load_torch_without_the_lock()
print(turns - before, "torch" in sys.modules, "libtorch_cpu.so" in open("/proc/self/maps").read())
over.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Elsewhere the libraries are left to torch's own import")
def test_other_threads_take_turns_while_the_libraries_of_torch_load() -> None:
    output = subprocess.run([sys.executable, "-c", COUNTING], check=True, capture_output=True, text=True).stdout
    turns, imported, loaded = output.split()
    assert int(turns) >= 3
    assert (imported, loaded) == ("False", "True")
