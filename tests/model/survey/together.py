"""Processes of a survey as threads of this one, with what torch.distributed gives them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest
from torch import Tensor
from torch.distributed import HashStore

from ropewalk.model.errors import RopewalkError
from ropewalk.model.survey import ranks
from ropewalk.model.survey.ranks import Ranks

Made = TypeVar("Made")


class Collectives:
    """The functions of torch.distributed that ranks call, between threads."""

    def __init__(self, count: int) -> None:
        self._barrier, self._here = threading.Barrier(count, timeout=60), threading.local()
        self._told: list[Any] = [None] * count
        self._sent = [SimpleQueue[Tensor]() for _ in range(count)]

    def be(self, rank: int) -> None:
        """Be a rank in this thread."""
        self._here.rank = rank

    def abort(self) -> None:
        """End whoever waits, as torchrun ends all when one ends."""
        self._barrier.abort()

    def all_gather_object(self, found: list[Any], one: Any) -> None:
        self._told[self._here.rank] = one
        self._barrier.wait()
        found[:] = self._told
        self._barrier.wait()

    def broadcast_object_list(self, told: list[Any], src: int) -> None:
        found: list[Any] = [None] * len(self._told)
        self.all_gather_object(found, told[0])
        told[0] = found[src]

    def send(self, tensor: Tensor, to: int) -> None:
        assert to == 0
        self._sent[self._here.rank].put(tensor.clone())

    def recv(self, tensor: Tensor, of: int) -> None:
        tensor.copy_(self._sent[of].get(timeout=60))


def together(count: int, run: Callable[[Ranks], Made], monkeypatch: pytest.MonkeyPatch) -> list[Made | RopewalkError]:
    """What each of some ranks makes, or what ended it."""
    collectives, store = Collectives(count), HashStore()
    monkeypatch.setattr(ranks, "distributed", collectives)

    def one(rank: int) -> Made | RopewalkError:
        collectives.be(rank)
        try:
            return run(Ranks(rank, count, store))
        except RopewalkError as error:
            return error
        except BaseException:
            collectives.abort()
            raise

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))
