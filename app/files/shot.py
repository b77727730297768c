"""A picture, or another file from the window, as it was asked for. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ropewalk.model.decoder.config import Scaling
from ropewalk.model.options import Option

Range = tuple[int, int]


@dataclass(frozen=True)
class Shot:
    """A picture that was asked for.

    ``select`` holds fields of the selection; ``panel`` is "" for the whole window, and ``workspace`` for the first one;
    ``survey`` is the folder of a survey that is opened; ``engine`` is the command that starts the engine, "" for this
    machine. ``checkpoint`` is given to the run of a trace
    file, with ``other_weights`` although that was not made with it. ``options`` are how the model is opened.
    """

    out: Path
    path: str | None = None
    device: str = "cpu"
    dtype: str = "float32"
    prompt: str | None = None
    width: int = 1920
    height: int = 1080
    theme: str = "dark"
    projector: bool = False
    select: tuple[tuple[str, int], ...] = ()
    steps: int = 0
    panel: str = ""
    workspace: str = ""
    survey: str = ""
    chat: bool = False
    system: str = ""
    scaling: tuple[Scaling, float | None] | None = None
    engine: str = ""
    checkpoint: str | None = None
    other_weights: bool = False
    options: tuple[tuple[str, Option], ...] = ()


@dataclass(frozen=True)
class HeadsDrawn:
    """How heads are drawn side by side: what of each, and what the axes say."""

    map: Literal["weights", "scores"] = "weights"
    labels: Literal["tokens", "positions"] = "tokens"


@dataclass(frozen=True)
class Export(Shot):
    """A picture or another file to export.

    Attributes
    ----------
    scale, paper
        Of pictures and animations: pixels for each one of the window, along a side; dark on white.
    film
        What moves in an animation, and how many tokens are decoded in one.
    lesson
        A lesson, by name or number, opened first; with a PDF, its handout is printed.
    queries, keys
        Of numbers: half-open ranges of rows; None for the selected query's row and all keys.
    session
        A session file to begin from.
    heads, map, labels
        Of pictures: heads whose maps are drawn side by side in the place of a panel, each (layer, head), and how.
    """

    scale: int = 1
    paper: bool = False
    film: str = "rotation"
    film_steps: int = 12
    lesson: str = ""
    queries: Range | None = None
    keys: Range | None = None
    session: Path | None = None
    heads: tuple[tuple[int, int], ...] = ()
    map: Literal["weights", "scores"] = HeadsDrawn.map
    labels: Literal["tokens", "positions"] = HeadsDrawn.labels

    @property
    def ending(self) -> str:
        """What kind of file it is."""
        return self.out.suffix[1:].lower()


TakeShot = Callable[[Shot], None]
