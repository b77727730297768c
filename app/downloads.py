"""Downloading a checkpoint from Hugging Face, when and only when the person asked for it.

It owns which files of a repository are needed, and progress and cancel while they come. They land in the ordinary
Hugging Face cache, so that other programs find them too. Nothing here knows formats, models or widgets.
"""

from __future__ import annotations

import fnmatch
import importlib
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import Cancelled, CheckpointError
from model.progress import Progress

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
"""What names a repository: ``org/name``."""

DESCRIPTIONS = (
    "config.json",
    "chat_template*",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab.*",
    "merges.txt",
)
WEIGHTS = (
    ("*.safetensors", "*.safetensors.index.json"),
    ("pytorch_model*.bin", "pytorch_model*.bin.index.json"),
    ("*.gguf",),
)
"""Kinds of weight files, the better ones first; only the first kind that is there is needed."""

Pulse = Callable[[Progress], None]


def is_name(text: str) -> bool:
    """Whether a text could be ``org/name``, and is no path that exists."""
    return NAME.fullmatch(text) is not None and not Path(text).exists()


def needed(name: str, files: Sequence[str]) -> list[str]:
    """The files of a repository that Ropewalk reads, the descriptions first.

    Raises
    ------
    CheckpointError
        When there are no weights, or several GGUF files of which one has to be chosen.
    """
    here = [file for file in files if "/" not in file]
    for kind in WEIGHTS:
        weights = [file for file in here if any(fnmatch.fnmatch(file, pattern) for pattern in kind)]
        if not weights:
            continue
        if kind == ("*.gguf",):
            if len(weights) > 1:
                raise CheckpointError(
                    f"{name} holds {len(weights)} GGUF files, of which one is enough; download one and open that file.",
                    "\n".join(weights),
                )
            return weights
        return [file for file in here if any(fnmatch.fnmatch(file, one) for one in DESCRIPTIONS)] + weights
    raise CheckpointError(f"{name} holds no weights that Ropewalk reads (safetensors, pytorch_model.bin or GGUF).")


@dataclass
class Meter:
    """Counts what has come, and passes it on; passing on may raise :class:`~model.errors.Cancelled`."""

    pulse: Pulse
    total: int
    done: int = 0
    what: str = ""

    def add(self, count: float) -> None:
        """So many bytes more."""
        self.done += int(count)
        self.pulse(Progress(min(self.done, self.total), self.total, self.what))

    def bar(self) -> type[Any]:
        """A class of progress bars that shows nothing and counts here, for huggingface_hub."""
        meter = self
        quiet: Any = importlib.import_module("huggingface_hub.utils").tqdm

        class Counting(quiet):  # type: ignore[misc]
            """A silent bar."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **(options | {"disable": True}))

            def update(self, n: float | None = 1) -> None:
                """Count."""
                meter.add(n or 0)

        return Counting


def download_steps(name: str, pulse: Pulse) -> Generator[Progress, None, str]:
    """Download what is needed of ``org/name``; returns the folder or file to open.

    Parameters
    ----------
    pulse
        Hears of every piece that has come; it may raise :class:`~model.errors.Cancelled`.

    Raises
    ------
    CheckpointError
        For a repository that is not there, is closed, or holds nothing to open, and when the network fails.
    """
    yield Progress(0, 0, f"Asking Hugging Face about {name}")
    hub: Any = importlib.import_module("huggingface_hub")
    try:
        info = hub.HfApi().model_info(name, files_metadata=True)
        sizes: Mapping[str, int] = {file.rfilename: file.size or 0 for file in info.siblings}
        files = needed(name, list(sizes))
        meter = Meter(pulse, sum(sizes[file] for file in files))
        place = ""
        for file in files:
            meter.what = f"Downloading {file}"
            yield Progress(meter.done, meter.total, meter.what)
            place = hub.hf_hub_download(name, file, revision=info.sha, tqdm_class=meter.bar())
    except (Cancelled, CheckpointError):
        raise
    except Exception as error:  # whatever the network and its library raise becomes a sentence
        raise CheckpointError(f"{name} could not be downloaded: {_reason(error)}.", repr(error)) from error
    return place if place.endswith(".gguf") else str(Path(place).parent)


def _reason(error: Exception) -> str:
    kind = type(error).__name__
    if kind == "RepositoryNotFoundError":
        return "Hugging Face has no such public model"
    if kind == "GatedRepoError":
        return "its owner gives access on request only"
    return str(error).strip().split("\n")[0].rstrip(".") or kind
