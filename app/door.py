"""What passes through the door between the window and torch: opaque handles, and what the engine offers.

A handle is made on the compute thread, held by the session, and handed back with the next request. Nobody but the
engine looks inside its ``Any`` fields. No torch here: :func:`load_engine` brings it in, on the compute thread.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from app.questions import Question
from model.codec import stored
from model.config import ModelConfig
from model.experiments import Experiment
from model.progress import Progress
from model.readings import ModelCard, Run, Sampling


@stored("as_ids special chat system")
@dataclass(frozen=True)
class Typed:
    """How a prompt is meant: as token ids, or as text with or without the special tokens that belong around it.

    ``chat`` names a chat template of the checkpoint that the text is put into, after a ``system`` line if there is
    one; the special tokens are then those that the template writes.
    """

    as_ids: bool = False
    special: bool = True
    chat: str = ""
    system: str = ""


@dataclass(frozen=True, eq=False)
class Opened:
    """A model that is open. ``checkpoint`` is the engine's own; ``devices`` are the devices of this machine.

    ``shapes_only`` says that there are no weights, so that nothing can be run; ``options`` are the answers to what the
    checkpoint left open; ``notice`` is what whoever opened it has to be told, in sentences.
    """

    card: ModelCard
    devices: tuple[str, ...]
    checkpoint: Any
    shapes_only: bool = False
    options: tuple[tuple[str, int], ...] = ()
    notice: str = ""


def without_weights(card: ModelCard) -> str:
    """Why a model of shapes alone is not run, in a sentence."""
    return (
        f"{card.name} holds no weights, so nothing can be run on it; the Open dialog and `ropewalk ledger` show its "
        "shapes and costs."
    )


@dataclass(frozen=True)
class Choice:
    """Something that a checkpoint leaves open: ``sentence`` asks it, ``assumed`` is taken without an answer."""

    option: str
    sentence: str
    choices: tuple[int, ...]
    assumed: int


@dataclass(frozen=True, eq=False)
class Outlined:
    """A checkpoint before it is loaded: what it is, and by dtype its bytes and those of a thousand tokens' K and V."""

    name: str
    path: str
    family: str
    config: ModelConfig
    parameters: int
    bytes_in: Mapping[str, int]
    kv_bytes_in: Mapping[str, int]
    holds_weights: bool
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Held:
    """A run and its tensors. ``run.length`` says how much of ``trace`` is in view.

    ``cell`` is (layer, head, query, key): where it is worth looking first. ``pinned`` is the run it is compared with,
    ``typed`` how its prompt was meant, ``tiles`` what was refined of its pictures.
    """

    run: Run
    opened: Opened
    trace: Any
    cell: tuple[int, int, int, int] = (0, 0, 0, 0)
    pinned: Held | None = None
    typed: Typed = Typed()
    tiles: Any = None


class Engine(Protocol):
    """What the session asks of ``app.engine``. Each is a job: a generator that returns its result."""

    def open_model(
        self,
        path: str | None,
        device: str,
        dtype: str,
        *,
        options: Mapping[str, int] | None = None,
    ) -> Generator[Progress, None, Opened]:
        """Open a checkpoint; None is the bundled one."""

    def outline(self, path: str | None, options: Mapping[str, int]) -> Generator[Progress, None, Outlined]:
        """Say what a checkpoint is and would cost, without loading it."""

    def run(
        self,
        opened: Opened,
        prompt: str,
        run_id: int,
        head: tuple[int, int] | None,
        *,
        experiments: Sequence[Experiment] = (),
        decoded: Sequence[int] = (),
        typed: Typed = Typed(),
    ) -> Generator[Progress, None, Held]:
        """Prefill. ``head`` is the (layer, head) in view; None looks for the head worth showing."""

    def step(self, held: Held, count: int, sampling: Sampling) -> Generator[Progress, None, Held]:
        """Decode ``count`` tokens after the rows in view."""

    def branch(self, held: Held, row: int, token: int) -> Generator[Progress, None, Held]:
        """Put another token in the place of a decoded row, and forget what came after it."""

    def answer(self, held: Held, question: Question) -> Generator[Progress, None, Any]:
        """Answer a panel's question about the rows in view."""

    def tidy(self) -> Generator[Progress, None, None]:
        """Give the memory back that a run which is gone has left."""


def load_engine() -> Engine:
    """Import the engine, and torch with it.

    Torch's import would hold the interpreter's lock while its libraries load; loading them before it lets the window go
    on drawing. Its hundred thousands of objects stay for good: each full collection would hold up the window for a
    tenth of a second.
    """
    if "app.engine" in sys.modules:
        return sys.modules["app.engine"]
    with for_good():
        _load_torch_without_the_lock()
        import app.engine
    return app.engine


@contextmanager
def for_good() -> Iterator[None]:
    """Keep what is made meanwhile from the garbage collector: it lives as long as the program, and looking costs."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _load_torch_without_the_lock() -> None:
    """Load torch's libraries while other threads go on, where that is known to work.

    ``ctypes.CDLL`` holds the lock while it loads a library, and lets go of it while a function of one runs: hence the
    C library's own ``dlopen``. None of what it loads here calls Python.
    """
    if "torch" not in sys.modules and sys.platform == "linux":
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin is not None:
            load = ctypes.CDLL(None).dlopen
            load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
            load(os.fsencode(Path(spec.origin).parent / "lib" / "libtorch.so"), os.RTLD_NOW)
