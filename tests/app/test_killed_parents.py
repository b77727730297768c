"""Each kind of process that we start, held for ever where it imports what it works with, and its parent killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import HOLDS_THE_INTERPRETER, family, python, started, staying

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")

CHAT = """
from ropewalk.model.progress import finished
from ropewalk.model.tokens.chat import ChatTemplate, conversation, rendered_steps
finished(rendered_steps(ChatTemplate("{{ messages }}", {}), conversation("hello")))
"""
CHALLENGE = """
from pathlib import Path
from ropewalk.app.lessons.challenges import run_challenge, starter
path = Path(sys.argv[1], "mine.py")
path.write_text(starter("repeat_kv"))
run_challenge("repeat_kv", path)
"""
DOWNLOAD = """
from ropewalk.app.models.downloads import download_steps
from ropewalk.model.progress import finished
finished(download_steps("org/small"))
"""
HELD = f"""
import os, subprocess
if os.getpid() == os.getsid(0):
    subprocess.Popen(["sleep", "600"])
if os.getpid() == os.getsid(0) or __name__ == "jinja2":
    open(os.environ["READY"], "w").close()
{HOLDS_THE_INTERPRETER}
"""


@pytest.mark.parametrize(
    ("parent", "imported", "members"),
    [(CHAT, "jinja2", 2), (CHALLENGE, "torch", 5), (DOWNLOAD, "huggingface_hub", 4)],
    ids=["chat template", "challenge", "download"],
)
def test_it_ends_with_all_that_it_started(parent: str, imported: str, members: int, tmp_path: Path) -> None:
    (tmp_path / f"{imported}.py").write_text(HELD, encoding="utf-8")
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "READY": str(ready)}
    with started(python(f"import sys\n{parent}", str(tmp_path)), env=environment) as process:
        ready.read_bytes()
        processes = family(process.pid)
        assert len(processes) == members
        process.kill()
        assert staying(processes) == 0
