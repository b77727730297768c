"""What is no file is refused at once by every reader that would wait for it, but for what a shell hands over."""

from __future__ import annotations

import os
import socket
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk.app.commands.prompting import prompt_text
from ropewalk.app.commands.prompts_file import PromptLine, read_prompts
from ropewalk.app.files.session_file import read_session
from ropewalk.app.lessons.loading import FOLDER, load_lesson
from ropewalk.model.errors import RopewalkError
from ropewalk.model.limits import NOT_A_FILE, regular
from ropewalk.model.survey.corpus import Corpus
from ropewalk.model.training.training import read_text

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are none here")

READERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a.toml": (load_lesson, f"a.toml cannot be read: {NOT_A_FILE}."),
    "a.ropewalk": (read_session, f"a.ropewalk cannot be read: {NOT_A_FILE}."),
    "a.safetensors": (ropewalk.load, f"is not a trace file that Ropewalk can read: {NOT_A_FILE}."),
    "a.gguf": (ropewalk.open, "a.gguf is not a checkpoint that Ropewalk knows"),
    "a.txt": (read_prompts, f"a.txt cannot be read: {NOT_A_FILE}."),
    "prompt": (lambda path: prompt_text(f"@{path}"), f"prompt cannot be read ({NOT_A_FILE})"),
    "texts.txt": (lambda path: Corpus(path, None), f"texts.txt cannot be read: {NOT_A_FILE}."),
    "texts.jsonl": (lambda path: Corpus(path, None), f"texts.jsonl cannot be read: {NOT_A_FILE}."),
    "part.parquet": (lambda path: Corpus(path.parent, None), f"cannot be read: {NOT_A_FILE}."),
    "train.txt": (read_text, "There is no text to read at "),
    "manifest.json": (lambda path: ropewalk.load_survey(path.parent), "its manifest.json cannot be read."),
}


@pytest.mark.parametrize("name", READERS)
def test_a_named_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    read, why = READERS[name]
    with pytest.raises((RopewalkError, ArgumentTypeError)) as refused:
        read(tmp_path / name)
    assert why in str(refused.value)


def test_neither_is_a_socket_or_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.toml")
        for path in (Path("s.toml"), Path("/dev/zero")):
            with pytest.raises(OSError, match=NOT_A_FILE):
                regular(path, piped=True)
    for path in (tmp_path, tmp_path / "gone", Path(__file__)):
        assert regular(path) is path


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="descriptors have no names here")
def test_what_a_shell_hands_over_is_read() -> None:
    for text, read, wanted in (
        ("to be", lambda path: prompt_text(f"@{path}"), "to be"),
        ("to be\n", read_prompts, ((1, PromptLine("to be")),)),
        (min(FOLDER.glob("*.toml")).read_text(encoding="utf-8"), lambda path: load_lesson(path).number, 0),
    ):
        reading, writing = os.pipe()
        os.write(writing, text.encode())  # which a pipe has room for
        os.close(writing)
        try:
            assert read(Path(f"/dev/fd/{reading}")) == wanted
        finally:
            os.close(reading)
