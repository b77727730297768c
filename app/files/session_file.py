"""A ``.ropewalk`` file: a session as plain data in JSON, written whole or not at all, refused by a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ropewalk.app.files.provenance import software
from ropewalk.app.session.selected import NOTHING_PINNED, PinnedHeads, Selection
from ropewalk.app.settings import sampling_refusal
from ropewalk.model.codec import CodecError, from_plain, read_json, stored, to_json, to_plain
from ropewalk.model.decoder.interventions import MOST_INTERVENTIONS, Intervention
from ropewalk.model.errors import RopewalkError
from ropewalk.model.limits import regular
from ropewalk.model.options import Option
from ropewalk.model.readings.records import Sampling
from ropewalk.model.whole_file import whole_file

SUFFIX: Final = ".ropewalk"
FORMAT: Final = "ropewalk-session"
VERSION: Final = 1
"""Raised when an older Ropewalk would misread a file."""
LARGEST: Final = 16 << 20
"""Bytes that a session file may have: a hundred thousand decoded tokens have room."""


class SessionFileError(RopewalkError):
    """A session file that cannot be read, written or brought back."""


@stored("name path fingerprint device dtype beside options host")
@dataclass(frozen=True)
class SavedCheckpoint:
    """Which checkpoint was open.

    Attributes
    ----------
    path
        Where it was, on the engine's machine; None is the bundled model.
    beside
        The same, from the folder of the session file; empty where there is no such way.
    fingerprint
        A hash over its files.
    options
        Answers to what it leaves open.
    host
        What the engine's machine was called where it was not the window's, else empty and not written.
    """

    name: str
    path: str | None
    fingerprint: str
    device: str
    dtype: str
    beside: str = ""
    options: tuple[tuple[str, Option], ...] = ()
    host: str = ""


@stored("as_ids special chat system")
@dataclass(frozen=True)
class SavedPromptOptions:
    """How a prompt was meant: the fields of ``model.tokens.prompt`` beside its text."""

    as_ids: bool = False
    special: bool = True
    chat: str = ""
    system: str = ""


@stored("prompt typed ids decoded drawn length experiments")
@dataclass(frozen=True)
class SavedRun:
    """A run: its prompt, and what was decoded after it.

    Attributes
    ----------
    ids
        The prompt's tokens, to be sure that the prompt is still the same.
    decoded, drawn
        Every decoded token, and how each was drawn.
    length
        Rows in view.
    """

    prompt: str
    prompt_options: SavedPromptOptions
    ids: tuple[int, ...]
    decoded: tuple[int, ...]
    drawn: tuple[Sampling, ...]
    length: int
    interventions: tuple[Intervention, ...]


@stored("layout theme projector")
@dataclass(frozen=True)
class SavedView:
    """How the window looked; ``layout`` is the window's own bytes."""

    layout: bytes = b""
    theme: Literal["dark", "light"] = "dark"
    projector: bool = False


@stored("checkpoint run pinned sampling selection view board")
@dataclass(frozen=True)
class SavedSession:
    """Everything that is brought back; an empty ``board`` is not written."""

    checkpoint: SavedCheckpoint
    run: SavedRun
    baseline: SavedRun | None
    sampling: Sampling
    selection: Selection
    view: SavedView
    board: PinnedHeads = NOTHING_PINNED


def write_session(saved: SavedSession, path: Path) -> None:
    """Write a session.

    Raises
    ------
    SessionFileError
        When the file cannot be written; the one that was there stays.
    """
    plain = to_plain(saved)
    if not saved.checkpoint.host:
        del plain["checkpoint"]["host"]  # so that an older Ropewalk can read it
    if saved.board == NOTHING_PINNED:
        del plain["board"]  # likewise
    text = to_json({"format": FORMAT, "version": VERSION, "software": software(), **plain}, indent=1)
    try:
        with whole_file(path) as part:
            part.write_text(text, encoding="ascii")
    except OSError as error:
        raise SessionFileError(f"The session could not be written to {path}: {error.strerror or error}.") from error


def read_session(path: Path) -> SavedSession:
    """Read a session.

    Raises
    ------
    SessionFileError
        When it is not there, is no session, is broken, or was written by a newer Ropewalk.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise SessionFileError(f"{path.name} has {path.stat().st_size:,} bytes, too many for a session.")
        data = read_json(regular(path).read_bytes())
    except OSError as error:
        raise SessionFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except CodecError as error:
        raise SessionFileError(f"{path.name} is not a session that Ropewalk can read: {error}.") from error
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise SessionFileError(f"{path.name} is not a session of Ropewalk; open one that File ▸ Save session wrote.")
    version, by = data.pop("version", None), data.pop("software", "another program")
    if type(version) is not int or version < 1:
        raise SessionFileError(f"{path.name} does not say its version as a whole number, so it cannot be read.")
    if version > VERSION:
        raise SessionFileError(
            f"{path.name} was written by {by} in format {version}, but this one reads up to {VERSION}; update Ropewalk."
        )
    return _checked(data, path)


def _checked(data: dict[str, Any], path: Path) -> SavedSession:
    try:
        saved = from_plain(SavedSession, data)
        for where, run in (("run", saved.run), ("pinned", saved.baseline)):
            if run is not None:
                _check_run(run, where)
        _check_sampling(saved.sampling, "sampling")
        _check_board(saved.board)
    except CodecError as error:
        raise SessionFileError(f"{path.name} is a broken session: {error}.") from error
    return saved


def _check_run(run: SavedRun, where: str) -> None:
    """Numbers that contradict one another."""
    rows = len(run.ids) + len(run.decoded)
    if not run.ids:
        raise CodecError(f"{where}.ids is empty")
    if len(run.interventions) > MOST_INTERVENTIONS:
        raise CodecError(
            f"{where}.experiments has {len(run.interventions):,} entries, more than {MOST_INTERVENTIONS:,}"
        )
    if len(run.drawn) != len(run.decoded):
        raise CodecError(f"{where}.drawn has {len(run.drawn)} entries for {len(run.decoded)} decoded tokens")
    if not len(run.ids) <= run.length <= rows:
        raise CodecError(f"{where}.length is {run.length}, but must be from {len(run.ids)} to {rows}")
    for place, sampling in enumerate(run.drawn):
        _check_sampling(sampling, f"{where}.drawn[{place}]")


def _check_board(board: PinnedHeads) -> None:
    """Heads are counted from zero; how many there are is for whoever has opened the model."""
    for layer, head in (*board.heads, *((one.layer, one.head) for one in board.notes)):
        if min(layer, head) < 0:
            raise CodecError(f"board has layer {layer}, head {head}, but both are counted from 0")


def _check_sampling(sampling: Sampling, where: str) -> None:
    refusal = sampling_refusal(sampling)
    if refusal:
        raise CodecError(f"{where} cannot be used: {refusal.rstrip('.')}")
