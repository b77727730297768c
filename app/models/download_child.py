"""The process that downloads a checkpoint: says on stdout, a line of JSON each, how far it is and what came of it.

Started by ``app.models.downloads``, and ended by it at a cancel: a server that stalls holds up this process alone.
SIGTERM, which also says that whoever started it is gone, ends it as Ctrl+C would, so that the library takes its
unfinished file away. If it cannot, it is killed a second after the end of stdin.
"""

from __future__ import annotations

import fnmatch
import hashlib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ropewalk.model.child_process import fork_watcher
from ropewalk.model.codec import stored, to_json
from ropewalk.model.errors import CheckpointError

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

PART = 1 << 22
"""Bytes that are hashed at a time."""
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


@stored("done total what place why details")
@dataclass(frozen=True)
class Report:
    """One line: how many bytes have come; at the end ``place``, or ``why`` there is none with the ``details``."""

    done: int = 0
    total: int = 0
    what: str = ""
    place: str = ""
    why: str = ""
    details: str = ""


Say = Callable[[Report], None]


def main() -> None:
    """Download the checkpoint that the command line names."""
    fork_watcher(sys.stdin.fileno())
    signal.signal(signal.SIGTERM, _end)
    name = sys.argv[-1]
    try:
        _say(Report(place=download(name, _say)))
    except CheckpointError as error:
        _say(Report(why=error.sentence, details=error.details))
    except Exception as error:  # noqa: BLE001 - whatever the network and its library raise becomes a sentence
        _say(Report(why=f"{name} could not be downloaded: {reason(error)}.", details=repr(error)))


def download(name: str, say: Say) -> str:
    """Download what is needed of ``org/name``, a file after another; returns the folder or file to open."""
    import huggingface_hub as hub

    info = hub.HfApi().model_info(name, files_metadata=True)
    sizes: dict[str, int] = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    sums: dict[str, str] = {file.rfilename: file.lfs.sha256 for file in info.siblings or () if file.lfs is not None}
    files = needed(name, list(sizes))
    total, done, place = sum(sizes[file] for file in files), 0, ""
    for file in files:
        what = f"Downloading {file}"
        say(Report(done, total, what))
        was_there = isinstance(hub.try_to_load_from_cache(name, file, revision=info.sha), str)
        place = hub.hf_hub_download(name, file, revision=info.sha, tqdm_class=_counting(what, done, total, say))
        if file in sums and not was_there:
            check_sum(Path(place), sums[file], partial(say, Report(done, total, f"Checking {file}")))
        done += sizes[file]  # also where it was there already
    say(Report(done, total, what))
    return place if place.endswith(".gguf") else str(Path(place).parent)


def check_sum(path: Path, wanted: str, pulse: Callable[[], None]) -> None:
    """Compare what has come with what the hub says of it, and take it away where it is something else.

    Raises
    ------
    CheckpointError
        With both sums.
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(PART):
            found.update(part)
            pulse()
    if found.hexdigest() != wanted:
        path.resolve().unlink()  # a link in the cache leads to it
        path.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path.name} is not what Hugging Face says it is, so it was taken away; download it again.",
            f"its SHA-256 is {found.hexdigest()}, not {wanted}",
        )


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


def reason(error: Exception) -> str:
    """What went wrong, as a clause."""
    named = next((REASONS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in REASONS), "")
    if named:
        return named
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return f"Hugging Face answered with an error ({status}); try again later"
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def _counting(what: str, before: int, total: int, say: Say) -> Any:
    """A class of progress bars that shows nothing and says how much of all files has come."""
    from huggingface_hub.utils import tqdm

    class Counting(tqdm):  # type: ignore[misc]
        """A silent bar."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **(options | {"disable": True}))
            self.come = before

        def update(self, n: float | None = 1) -> None:
            """Count."""
            self.come += int(n or 0)
            say(Report(min(self.come, total), total, what))

    return Counting


def _say(report: Report) -> None:
    print(to_json(report), flush=True)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: a second must not disturb the tidying
    raise KeyboardInterrupt
