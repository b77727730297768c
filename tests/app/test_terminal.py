"""Nothing that a stranger wrote is obeyed by a terminal, whatever prints it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from ropewalk.app.commands.line import run_command
from ropewalk.app.commands.output import finished, print_table
from ropewalk.app.commands.terminal import bare, in_line, shown, shown_streams
from ropewalk.app.files.shot import Shot
from ropewalk.model.progress import Progress
from tests.app.test_commands import Run, run, shots
from tests.app.tiny_checkpoint import CHAT, write_chatty

__all__ = ["run", "shots"]

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
"""What writes into the clipboard of whoever looks at it in a terminal that lets it."""
EVIL = f"{CLIPBOARD}\x1b[2J\r\x9b31m\u202e\u2066\u2028"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a name, tokens, special tokens, weights and a template that a terminal would obey."""
    folder = write_chatty(
        tmp_path_factory.mktemp("evil") / f"model{EVIL}", CHAT + "{{ raise_exception(messages[0].content) }}"
    )
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    text = json.dumps(state).replace("<|end|>", json.dumps(EVIL)[1:-1])
    file.write_text(text, encoding="utf-8")
    return folder


def changed(folder: Path, copy: Path, **fields: object) -> Path:
    """A copy with some fields of its config changed."""
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    config = copy / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))
    return copy


def test_every_command_shows_a_strangers_names(run: Run, evil: Path, tmp_path: Path) -> None:
    trace = tmp_path / f"run{EVIL}.safetensors"
    texts = tmp_path / f"texts{EVIL}.txt"
    texts.write_text("to be or not\n" * 3)
    lesson = tmp_path / f"lesson{EVIL}.toml"
    lesson.write_text('title = "\\u001b]0;x\\u0007"\nabuot = 3\n')
    prompts = tmp_path / f"prompts{EVIL}.txt"
    prompts.write_text('{"text": 1}\n')
    broken = changed(evil, tmp_path / f"broken{EVIL}", hidden_act=EVIL, rope_scaling={"type": EVIL})
    keyed = changed(evil, tmp_path / "keyed")
    weights = load_file(keyed / "model.safetensors")
    save_file(weights | {EVIL: weights["model.norm.weight"].clone()}, keyed / "model.safetensors")
    (tmp_path / f"mine{EVIL}.py").write_text(f"raise ValueError({EVIL!r})\n")
    typed: list[tuple[object, ...]] = [
        ("info", evil),
        ("info", evil, "--json"),
        *(("info", one) for one in (broken, keyed)),
        ("info", evil / "no" / "such"),
        ("ledger", evil),
        ("capture", evil, "--prompt", f"ab{EVIL}", "--out", trace),
        ("capture", evil, "--prompt", "ab", "--out", tmp_path / EVIL.replace("\0", "") / "x.safetensors"),
        ("capture", evil, "--prompts", prompts, "--out", tmp_path),
        ("info", trace),
        ("generate", evil, "--prompt", f"ab{EVIL}", "--steps", 2),
        ("generate", evil, "--prompt", f"x{EVIL}", "--chat"),
        ("heads", trace),
        ("heads", evil, "--prompt", f"ab{EVIL}", "--csv"),
        ("heads", evil, evil, "--repeat", 3),
        ("heads", evil, "--prompt", "abab", "--score", f"{tmp_path / f'mine{EVIL}.py'}:f"),
        ("survey", evil, "--texts", texts, "--out", tmp_path / f"out{EVIL}"),
        ("survey", tmp_path / f"out{EVIL}", "--show"),
        ("survey", tmp_path / f"out{EVIL}", "--csv"),
        ("snapshot", tmp_path / f"x{EVIL}.png", evil),
        ("export", tmp_path / f"x{EVIL}.png", evil),
        ("train", "--text", texts, "--out", tmp_path / f"trained{EVIL}", "--steps", 0),
        ("challenge", f"split{EVIL}"),
        ("challenge", "split_heads", tmp_path / f"no{EVIL}.py"),
        ("challenge", "split_heads", tmp_path / f"start{EVIL}.py", "--start"),
        ("lessons", lesson),
        (f"info{EVIL}",),
    ]
    printed = {" ".join(map(str, words)): run(*words)[1:] for words in typed}
    obeyed = {shown(words): streams for words, streams in printed.items() if OBEYED.search("".join(streams))}
    assert obeyed == {}
    said = "".join(text for streams in printed.values() for text in streams)
    assert said.count("\\x1b]52;c;") > 20


def test_whatever_a_library_prints_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_streams():
        sys.stdout.writelines([EVIL])
        print(f"a\tb\nc {EVIL}", file=sys.stderr)
        logging.getLogger("strange").error("%s", EVIL)
    out, err = capsys.readouterr()
    assert OBEYED.search(out + err) is None
    assert "a\tb\nc \\x1b]52" in err


def test_progress_moves_the_cursor_but_what_it_says_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> Generator[Progress, None, None]:
        yield Progress(1, 3, f"Reading {EVIL}\nand more")

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with shown_streams():
        assert bare(sys.stderr) is not sys.stderr
        finished(work())
    err = capsys.readouterr().err
    assert err.startswith("\r[")
    assert err.endswith("\r\x1b[K")
    assert OBEYED.search(err.strip("\r").removesuffix("\x1b[K").rstrip("\r").removesuffix("\x1b[K")) is None
    assert "\n" not in err


def test_a_cell_of_a_table_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("name", "a\nfake\trow")])
    assert capsys.readouterr().out == "name  a\\nfake\\trow\n"
    assert in_line("plain ü 日本") == "plain ü 日本"


def test_streams_are_as_they_were_afterwards(evil: Path) -> None:
    before = sys.stdout, sys.stderr
    assert run_command(["info", str(evil)], list[Shot]().append) == 0
    assert (sys.stdout, sys.stderr) == before
