"""The processes that run one survey together, as torchrun starts them: what they tell each other.

Each runs its own shards and commits them by itself; they talk before the first, about progress, and after the last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import distributed

from ropewalk.model.errors import RopewalkError, SurveyError
from ropewalk.model.survey.tally import Tally

Made = TypeVar("Made")
PATIENCE = timedelta(days=30)
"""Processes wait for the slowest; torchrun ends all when one ends."""
PAUSE = timedelta(seconds=0.5)
LAST_WORDS = timedelta(seconds=10)
TEXTS, DONE, SAID = "texts", "done", "said"


class EndedElsewhere(SurveyError):
    """Another of the processes says why."""

    def __init__(self) -> None:
        super().__init__("Another process of this survey cannot go on; it says why.")


class Ranks:
    """One process of several, or of one.

    Attributes
    ----------
    rank, count
        Which it is, and of how many.
    """

    def __init__(self, rank: int = 0, count: int = 1, store: Any = None) -> None:
        self.rank, self.count, self._store, self._texts = rank, count, store, 0

    @property
    def first(self) -> bool:
        """Whether it is the one that shows progress and writes tables."""
        return self.rank == 0

    def device(self, asked: str) -> str:
        """Where this process computes: of several on a machine each has a GPU of its own."""
        return f"{asked}:{os.environ.get('LOCAL_RANK', '0')}" if asked == "cuda" and self.count > 1 else asked

    def each(self, make: Callable[[], Made]) -> Made:
        """Make something in every process, or in none: the first that cannot says why, and the others end too.

        Raises
        ------
        RopewalkError
            Where it cannot be made.
        """
        if self.count == 1:
            return make()
        made, error = _tried(make)
        failed: list[bool] = [False] * self.count
        distributed.all_gather_object(failed, error is not None)
        if any(failed):
            raise error if error is not None and failed.index(True) == self.rank else EndedElsewhere
        assert made is not None
        return made[0]

    def from_first(self, make: Callable[[], Made]) -> Made:
        """Make something in the first process, for all.

        Raises
        ------
        RopewalkError
            Where it cannot be made.
        """
        if self.count == 1:
            return make()
        made, error = _tried(make) if self.first else (None, None)
        told = [made]
        distributed.broadcast_object_list(told, src=0)
        if told[0] is None:
            raise EndedElsewhere if error is None else error
        return told[0][0]

    def said(self) -> None:
        """Say to the others that why it ends was told."""
        if self._store is not None:
            self._store.set(SAID, "")

    def hear(self) -> None:
        """Wait until another process has told why all end: the first one that ends takes the others with it."""
        if self._store is not None:
            self._store.wait([SAID], LAST_WORDS)

    def add_texts(self, count: int) -> int:
        """Say that texts were run; returns how many were, by all."""
        self._texts += count
        return self._texts if self._store is None else int(self._store.add(TEXTS, count))

    def done(self) -> Iterator[int]:
        """Wait for all to come here; the first process pauses meanwhile, with how many texts were run."""
        if self._store is None:
            return
        self._store.set(f"{DONE} {self.rank}", "")
        for other in range(1, self.count if self.first else 0):
            while not self._store.check([f"{DONE} {other}"]):
                try:
                    self._store.wait([f"{DONE} {other}"], PAUSE)
                except RuntimeError:  # it takes longer
                    yield self.add_texts(0)

    def total(self, tally: Tally) -> Tally:
        """What all counted, in the first process."""
        for other in range(1, self.count):
            if self.first:
                arrays = {name: np.empty_like(one) for name, one in tally.arrays.items()}
                for one in arrays.values():
                    distributed.recv(torch.from_numpy(one), other)
                tally.merge(Tally.of_arrays(arrays))
            elif self.rank == other:
                for one in tally.arrays.values():
                    distributed.send(torch.from_numpy(np.asarray(one, order="C")), 0)
        return tally


def started_together() -> bool:
    """Whether torchrun started this process beside others."""
    return distributed.is_available() and int(os.environ.get("WORLD_SIZE", "1")) > 1 and "MASTER_ADDR" in os.environ


@contextmanager
def as_started() -> Iterator[Ranks]:
    """The processes that torchrun started, or this one alone."""
    if not started_together():
        yield Ranks()
        return
    store, rank, count = next(distributed.rendezvous("env://"))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=PATIENCE)
    try:
        yield Ranks(rank, count, distributed.PrefixStore("ropewalk", store))
    finally:
        distributed.destroy_process_group()


def _tried(make: Callable[[], Made]) -> tuple[tuple[Made] | None, RopewalkError | None]:
    try:
        return (make(),), None
    except RopewalkError as error:
        return None, error
