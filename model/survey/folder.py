"""The folder of a survey: what is committed there, and how nothing is lost or counted twice, whatever ends a process.

A shard's texts and their values are a file, written first. What all shards of a process add up to is a file that says
which those are; it is written anew with each of them, onto the one before.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.file_lock import held, lock_of
from ropewalk.model.limits import regular
from ropewalk.model.survey import texts
from ropewalk.model.survey.array_file import ENDING, Axes, read_arrays, write_arrays
from ropewalk.model.survey.tally import Tally
from ropewalk.model.survey.texts import SurveyTexts
from ropewalk.model.whole_file import UNFINISHED, whole_file

MANIFEST, SHARDS, TALLY, TEXTS = "manifest.json", "shards", "tally", f"texts{ENDING}"
SAID: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "model": {"name": (str,), "fingerprint": (str,)},
    "corpus": {"fingerprint": (str,), "texts": (int,), "chosen": (int,)},
    "settings": {
        "statistics": (list,),
        "column": (str,),
        "windows": (bool,),
        "limit": (int, NoneType),
        "seed": (int,),
        "tokens": (int,),
        "values": (bool,),
    },
}
"""What every manifest says, and of which types that is."""
AXES: Axes = {**texts.AXES, "values": ("N", "K", "L", "H")}


@dataclass(frozen=True, eq=False)
class Shard:
    """Texts that were committed together, and their values [N, K, L, H], which may have been left out."""

    texts: SurveyTexts
    values: NDArray[np.float32] | None


class ShardFiles(Mapping[int, Shard]):
    """Shards of a folder, each read when it is asked for."""

    def __init__(self, folder: Path, numbers: Set[int]) -> None:
        self._folder, self._numbers = folder, dict.fromkeys(sorted(numbers))

    def __getitem__(self, number: int) -> Shard:
        if number not in self._numbers:
            raise KeyError(number)
        return read_shard(self._folder, number)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def write_shard(folder: Path, number: int, shard: Shard) -> None:
    """Write a shard whole; it counts once a tally names it."""
    values = {} if shard.values is None else {"values": shard.values}
    write_arrays(_shard_file(folder, number), {**shard.texts.arrays, **values})


def read_shard(folder: Path, number: int) -> Shard:
    """Read a shard, mapped."""
    cure = "without it the single texts cannot be compared or shown, and a survey in another folder makes it again"
    arrays = read_arrays(_shard_file(folder, number), AXES, texts.AXES.keys(), cure, ["values"])
    values = arrays.pop("values", None)
    return Shard(SurveyTexts(**arrays), values)


def committed(folder: Path) -> dict[Path, tuple[Tally, frozenset[int]]]:
    """Tallies that together are of every committed shard once, and the shards of each.

    Where a process was ended between writing one and removing those that it contains, these are left out.
    """
    found, taken = dict[Path, tuple[Tally, frozenset[int]]](), set[int]()
    tallies = dict[Path, tuple[Tally, frozenset[int]]]()
    for path in sorted(folder.glob(f"{TALLY}*{ENDING}")):
        try:
            tallies[path] = Tally.load(path)
        except SurveyError:
            if path.exists():  # else a survey that runs has just made one of several
                raise
    for path, (tally, shards) in sorted(tallies.items(), key=lambda one: -len(one[1][1])):
        if taken.isdisjoint(shards):
            found[path] = tally, shards
            taken |= shards
    return found


def tally_file(folder: Path, rank: int = 0) -> Path:
    """Where a process of several keeps what it did; the first one keeps what is of all in the end."""
    return folder / f"{TALLY}{f'-{rank}' if rank else ''}{ENDING}"


def keep_one(folder: Path, tally: Tally, shards: Set[int]) -> None:
    """Write a tally that contains all others, and remove those."""
    tally.save(tally_file(folder), shards)
    for path in folder.glob(f"{TALLY}-*{ENDING}"):
        path.unlink()


def write_texts(folder: Path, kept: SurveyTexts) -> None:
    """Write the texts of the examples."""
    write_arrays(folder / TEXTS, kept.arrays)


def read_texts(folder: Path) -> SurveyTexts:
    """Read them, mapped."""
    return SurveyTexts(
        **read_arrays(folder / TEXTS, texts.AXES, texts.AXES.keys(), "examples cannot be shown without it")
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a survey's folder is of."""
    try:
        found = json.loads(regular(folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} cannot be read.", str(error)) from error
    for part, wanted in SAID.items():
        said = found.get(part) if isinstance(found, dict) else None
        wrong = [
            name
            for name, types in wanted.items()
            if not isinstance(said, dict) or type(said.get(name, said)) not in types
        ]
        if wrong:
            raise SurveyError(
                f"{folder} holds no survey that this version reads: its {MANIFEST} is that of something else, or of "
                f"another version.",
                f"{part}: {', '.join(wrong)}",
            )
    named = found["settings"]["statistics"]
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named) or len({*named}) != len(named):
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} does not say of which statistics it is.")
    own = found["settings"].get("own_statistics", {})
    for one in own.values() if isinstance(own, dict) else [None]:
        if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in ("title", "formula")):
            raise SurveyError(f"{folder} holds no survey: its {MANIFEST} does not say what its own statistics are.")
    return dict(found)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write it whole."""
    with whole_file(folder / MANIFEST) as part:
        part.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make a folder if need be, and hold it while a survey runs there: a second one would write over its tally.

    Raises
    ------
    SurveyError
        Where another process holds it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a name with NUL in it
        said = getattr(error, "strerror", None) or error
        raise SurveyError(f"{folder} cannot be a survey's folder: {said}.") from error
    with held(folder / MANIFEST) as is_ours:
        if not is_ours:
            raise SurveyError(f"A survey runs in {folder} already; let it finish or end it, or name another folder.")
        yield


def begin(folder: Path, manifest: dict[str, Any]) -> None:
    """Make a folder for a survey, or see that it is the one where this survey was begun.

    Raises
    ------
    SurveyError
        For a folder that holds another.
    """
    if (folder / MANIFEST).exists():
        found = read_manifest(folder)
        here, there = (_compared(one) for one in (json.loads(json.dumps(manifest)), found))
        differs = next((name for name in here if here[name] != there.get(name)), None)
        if differs is None:
            return
        if any((folder / SHARDS).glob(f"*{ENDING}")) or any(folder.glob(f"{TALLY}*{ENDING}")):
            raise SurveyError(f"{folder} holds another survey, which differs in its {differs}; name another folder.")
        # it failed before anything was committed, and what was wrong has been mended
    (folder / SHARDS).mkdir(exist_ok=True)
    if any((folder / SHARDS).iterdir()):
        raise SurveyError(f"{folder} holds shards of a survey without its {MANIFEST}; name another folder.")
    write_manifest(folder, manifest)


def check_there(folder: Path) -> None:
    """Refuse a folder that another process began and this one does not see.

    Raises
    ------
    SurveyError
        With what to do.
    """
    if not (folder / MANIFEST).exists():
        raise SurveyError(f"{folder} is not the same folder on every machine; name one that all of them share.")


def corpus_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a corpus another one: not where it lies."""
    return {name: one for name, one in manifest["corpus"].items() if name != "sources"}


def _compared(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a survey another one."""
    return {"model": manifest["model"], "corpus": corpus_of(manifest), **manifest["settings"]}


def tidy(folder: Path, *, values: bool) -> None:
    """Remove what a complete survey does not need: what killed processes were writing, and shards without values.

    Its lock last, for whoever comes now finds nothing to run.
    """
    for part in (*folder.glob(UNFINISHED), *(folder / SHARDS).glob(UNFINISHED)):
        part.unlink()
    if not values:
        shutil.rmtree(folder / SHARDS, ignore_errors=True)
    with suppress(OSError):  # some systems keep a file that is open, some folders every file
        lock_of(folder / MANIFEST).unlink()


def _shard_file(folder: Path, number: int) -> Path:
    return folder / SHARDS / f"{number:06}{ENDING}"
