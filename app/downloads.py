"""Downloading a checkpoint from Hugging Face, when and only when the person asked for it.

It owns which files of a repository are needed, and progress and cancel while they come. They land in the ordinary
Hugging Face cache, so that other programs find them too. Nothing here knows formats, models or widgets.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
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
    "params.json",
    "chat_template*",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "*.tiktoken",
    "tekken.json",
)
GGUF = ("*.gguf",)
WEIGHTS = (
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("model.safetensors",),
    ("*.safetensors",),
    ("pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"),
    ("pytorch_model.bin",),
    GGUF,
)
"""Kinds of weight files, in the order in which a folder is read; only the first kind that is there is needed."""

CHUNK = 1 << 18
"""Bytes between two looks at whether the download was cancelled; the library's own ten megabytes may take long."""

UNREACHABLE = "Hugging Face cannot be reached; check the network"
REASONS = {
    "RepositoryNotFoundError": "Hugging Face has no such public model",
    "GatedRepoError": "its owner gives access on request only",
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set in the environment, which forbids it",
    "ConnectError": UNREACHABLE,
    "ConnectionError": UNREACHABLE,
    "TimeoutException": UNREACHABLE,
    "NetworkError": UNREACHABLE,
    "LocalEntryNotFoundError": UNREACHABLE,
}
"""What went wrong, by the name of the exception or of what it derives from."""

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
        if not any(fnmatch.fnmatch(file, kind[0]) for file in here):
            continue
        weights = [file for file in here if any(fnmatch.fnmatch(file, pattern) for pattern in kind)]
        if kind is GGUF:
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
    hub = _library()
    try:
        info = hub.HfApi().model_info(name, files_metadata=True)
        sizes: Mapping[str, int] = {file.rfilename: file.size or 0 for file in info.siblings}
        files = needed(name, list(sizes))
        meter = Meter(pulse, sum(sizes[file] for file in files))
        place = ""
        for file in files:
            meter.what = f"Downloading {file}"
            yield Progress(meter.done, meter.total, meter.what)
            before = meter.done
            place = hub.hf_hub_download(name, file, revision=info.sha, tqdm_class=meter.bar())
            meter.done = before + sizes[file]  # also where it was there already
    except (Cancelled, CheckpointError):
        raise
    except Exception as error:  # whatever the network and its library raise becomes a sentence
        raise CheckpointError(f"{name} could not be downloaded: {_reason(error)}.", repr(error)) from error
    return place if place.endswith(".gguf") else str(Path(place).parent)


def _library() -> Any:
    """The library, set so that a download can be stopped: over plain HTTP, in small pieces."""
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # Xet's downloads do not hear of a cancel; read at import
    hub = importlib.import_module("huggingface_hub")
    constants = importlib.import_module("huggingface_hub.constants")
    vars(constants).update(DOWNLOAD_CHUNK_SIZE=CHUNK, HF_HUB_DISABLE_XET=True)
    return hub


def _reason(error: Exception) -> str:
    named = next((REASONS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in REASONS), "")
    if named:
        return named
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return f"Hugging Face answered with an error ({status}); try again later"
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
