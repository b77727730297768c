"""What comes back at the next start: window, theme, prompt, checkpoints, device and sampling, in one JSON file.

Written atomically; a file that cannot be read is kept aside and explained, never a reason not to start.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_config_dir

from ropewalk.model.codec import from_plain, read_json, stored, to_json
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.model.file_lock import locked
from ropewalk.model.options import Option, Options
from ropewalk.model.readings.records import Sampling
from ropewalk.model.whole_file import whole_file

MOST_TILE_MIB = 1 << 20
RECENT = 10
"""How many checkpoints are remembered, and how many sessions."""


@stored("recent answers device dtype", closed=False)
@dataclass(frozen=True)
class Opened:
    """What was opened lately on one machine, as in :class:`Settings`, and where and as what the last time."""

    recent: tuple[str, ...] = ()
    answers: dict[str, dict[str, Option]] = field(default_factory=dict)
    device: str = "cpu"
    dtype: str = "float32"


@stored(
    "geometry layout theme projector motion tile_mib prompt recent answers sessions device dtype "
    "sampling engine elsewhere colour_map welcomed surveys",
    closed=False,
)
@dataclass(frozen=True)
class Settings:
    """Everything that is remembered.

    ``geometry`` and ``layout`` are the window's own bytes; ``tile_mib`` is what refined pictures of one run may keep,
    in MiB, and is changed in the file; ``answers`` are those that recent checkpoints were opened with, by path and by
    option. ``engine`` is the command that starts the engine, empty on this machine; ``recent``, ``answers``, ``device``
    and ``dtype`` are of engines on this machine, and ``elsewhere`` has those of others, by their commands.
    ``welcomed`` is whether somebody has closed what a first start says; ``surveys`` are those that were begun from the
    window, the last one first, so that they can be gone on with.
    """

    geometry: bytes = b""
    layout: bytes = b""
    theme: Literal["dark", "light"] = "dark"
    projector: bool = False
    motion: str = "system"
    tile_mib: int = 256
    prompt: str = ""
    recent: tuple[str, ...] = ()
    answers: dict[str, dict[str, Option]] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()
    device: str = "cpu"
    dtype: str = "float32"
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = ""
    elsewhere: dict[str, Opened] = field(default_factory=dict)
    colour_map: str = "viridis"
    welcomed: bool = False
    surveys: tuple[RunSurvey, ...] = ()


class SettingsStore:
    """The file and what it says.

    Attributes
    ----------
    now
        The settings.
    notice
        One sentence for the person when the file could not be read or written, else empty.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = settings_path() if path is None else path
        self.notice = ""
        self._refused = False
        self.now = self._read()

    def update(self, **changes: Any) -> None:
        """Change some settings and write the file, unless nothing differs."""
        self._change(lambda known: replace(known, **changes))

    def _change(self, change: Callable[[Settings], Settings]) -> None:
        """Change what this window knows, and in the file what is there by now: another window may have written it."""
        after = change(self.now)
        if after == self.now:
            return
        before, self.now = self.now, after
        self._write(change, before)

    def opened(self, engine: str = "") -> Opened:
        """What was opened lately by an engine that a command starts, on this machine where that is empty."""
        return _opened(self.now, engine)

    def remember(self, engine: str = "", **changes: Any) -> None:
        """Change what is remembered of an engine."""
        self._change(lambda known: _remembering(known, engine, **changes))

    def remember_checkpoint(self, path: str, answers: Options | None = None, engine: str = "") -> None:
        """Put a checkpoint first among the recent ones of an engine, with the answers to what it leaves open."""

        def first(known: Settings) -> Settings:
            opened = _opened(known, engine)
            recent = (path, *(other for other in opened.recent if other != path))[:RECENT]
            every = opened.answers | {path: dict(answers or {})}
            kept = {one: every[one] for one in recent if every.get(one)}
            return _remembering(known, engine, recent=recent, answers=kept)

        self._change(first)

    def remember_session(self, path: str) -> None:
        """Put a session file first among the recent ones."""

        def first(known: Settings) -> Settings:
            others = (other for other in known.sessions if other != path)
            return replace(known, sessions=(path, *others)[:RECENT])

        self._change(first)

    def remember_survey(self, asked: RunSurvey) -> None:
        """Put a survey that is begun first among the recent ones."""

        def first(known: Settings) -> Settings:
            others = (other for other in known.surveys if other.folder != asked.folder)
            return replace(known, surveys=(asked, *others)[:RECENT])

        self._change(first)

    def _read(self) -> Settings:
        try:
            settings = decoded(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Settings()
        except (OSError, ValueError) as error:
            kept = kept_aside(self.path)
            self.notice = (
                f"The settings file {self.path} could not be read ({error}), so Ropewalk starts afresh; {kept}."
            )
            return Settings()
        if refusal := command_refusal(settings.engine):
            self.notice = f"{refusal.rstrip('.')}, so what was remembered is left out and the engine runs here."
            return replace(settings, engine="")
        return settings

    def _write(self, change: Callable[[Settings], Settings], before: Settings) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path):
                try:
                    there = decoded(self.path.read_text(encoding="utf-8"))
                except (OSError, ValueError):
                    there = before
                text = to_json(change(there), indent=1)
                with whole_file(self.path) as part:
                    part.write_text(text, encoding="utf-8")
        except OSError as error:
            if not self._refused:  # once is enough: it will not be written the next time either
                self.notice = (
                    f"The settings could not be written to {self.path} ({error}), so they last for this session only."
                )
            self._refused = True


def _opened(known: Settings, engine: str) -> Opened:
    own = Opened(known.recent, known.answers, known.device, known.dtype)
    return known.elsewhere.get(engine, Opened()) if engine else own


def _remembering(known: Settings, engine: str, **changes: Any) -> Settings:
    if not engine:
        return replace(known, **changes)
    return replace(known, elsewhere=known.elsewhere | {engine: replace(_opened(known, engine), **changes)})


def settings_path() -> Path:
    """Where the settings live: ``ROPEWALK_CONFIG_DIR``, or the user's configuration folder."""
    folder = os.environ.get("ROPEWALK_CONFIG_DIR") or user_config_dir("ropewalk", appauthor=False)
    return Path(folder) / "settings.json"


def kept_aside(path: Path) -> str:
    """Move a file that cannot be read out of the way, and say as a clause what came of it."""
    aside = path.with_suffix(".broken.json")
    try:
        os.replace(path, aside)
    except OSError:
        return "it could not be moved aside"
    return f"it is kept as {aside.name}"


def decoded(text: str) -> Settings:
    """Settings from the text of the file; fields of another version are left out.

    Raises
    ------
    ValueError
        When a field has another type than it should, or a value that means nothing.
    """
    settings = from_plain(Settings, read_json(text))
    if not 0 <= settings.tile_mib <= MOST_TILE_MIB:
        raise ValueError(f"tile_mib is {settings.tile_mib}, not between 0 and {MOST_TILE_MIB:,}")
    refusal = sampling_refusal(settings.sampling)
    if refusal:
        raise ValueError(refusal.rstrip("."))
    return settings


def command_refusal(command: str) -> str:
    """Why no engine can be started by this command, in a sentence; empty where that can be tried."""
    odd = next((repr(letter) for letter in command if not letter.isprintable()), "")
    return f"The command that starts the engine has the character {odd}, which no command has." if odd else ""


def sampling_refusal(sampling: Sampling) -> str:
    """Why this sampling cannot be used, in a sentence; empty when it can."""
    if not 0 <= sampling.temperature <= 100:
        return f"The temperature is {sampling.temperature:g}, but it must be between 0 (greedy) and 100."
    if sampling.top_k < 0:
        return f"Top-k is {sampling.top_k}, but it must be 0 (off) or more."
    if not 0 < sampling.top_p <= 1:
        return f"Top-p is {sampling.top_p:g}, but it must be above 0 and at most 1 (off)."
    if not 0 <= sampling.seed < 2**63:
        return f"The seed is {sampling.seed}, but it must be between 0 and 2^63 - 1."
    return ""
