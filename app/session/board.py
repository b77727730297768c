"""The head board: heads that a person has pinned to see side by side, and notes to heads, of every model by itself.

It belongs to the window, so it outlives an engine. What stands on it is that of the model whose run is on screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ropewalk.app.session.selected import NOTHING_PINNED, HeadNote, PinnedHeads
from ropewalk.app.session.state import is_bundled

if TYPE_CHECKING:
    from ropewalk.app.session.context import SessionContext
    from ropewalk.model.readings.records import ModelCard


class Board(QObject):
    """What is pinned and noted.

    Signals
    -------
    changed()
        Something was pinned, taken off or noted.
    """

    changed = Signal()

    def __init__(self, session: SessionContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._kept: dict[str, PinnedHeads] = {}

    @property
    def now(self) -> PinnedHeads:
        """What is pinned and noted of the model whose run is on screen."""
        run = self._session.run
        return NOTHING_PINNED if run is None else self.of(run.model)

    def of(self, card: ModelCard) -> PinnedHeads:
        """What is pinned and noted of a model."""
        return self._kept.get(_key(card), NOTHING_PINNED)

    def note_of(self, layer: int, head: int) -> str:
        """The note to a head; empty where there is none."""
        return next((one.text for one in self.now.notes if (one.layer, one.head) == (layer, head)), "")

    def pin(self, layer: int, head: int) -> None:
        """Put a head at the end of the board, unless it is there."""
        if (layer, head) not in self.now.heads:
            self._put(replace(self.now, heads=(*self.now.heads, (layer, head))))

    def unpin(self, layer: int, head: int) -> None:
        """Take a head off the board; its note stays."""
        self._put(replace(self.now, heads=tuple(one for one in self.now.heads if one != (layer, head))))

    def toggle(self, layer: int, head: int) -> None:
        """Pin a head, or take it off."""
        (self.unpin if (layer, head) in self.now.heads else self.pin)(layer, head)

    def move(self, layer: int, head: int, to: int) -> None:
        """Put a pinned head at a place among the others; beyond the last, it stands there."""
        others = tuple(one for one in self.now.heads if one != (layer, head))
        if len(others) < len(self.now.heads):
            to = min(max(to, 0), len(others))
            self._put(replace(self.now, heads=(*others[:to], (layer, head), *others[to:])))

    def shift(self, layer: int, head: int, by: int) -> None:
        """Move a pinned head by so many places."""
        if (layer, head) in self.now.heads:
            self.move(layer, head, self.now.heads.index((layer, head)) + by)

    def clear(self) -> None:
        """Take every head off the board; notes stay."""
        self._put(replace(self.now, heads=()))

    def note(self, layer: int, head: int, text: str) -> None:
        """Write a note to a head in the place of the one before; an empty one takes it away."""
        self._put(replace(self.now, notes=_one_each((*self.now.notes, HeadNote(layer, head, text)))))

    def restore(self, card: ModelCard, pinned: PinnedHeads) -> None:
        """Have this on the board of a model, such as what a session file held; heads that it has not are left out."""
        layers, heads = card.config.layers, card.config.heads
        self._kept[_key(card)] = PinnedHeads(
            tuple(dict.fromkeys(one for one in pinned.heads if one[0] < layers and one[1] < heads)),
            _one_each(one for one in pinned.notes if one.layer < layers and one.head < heads),
        )
        self.changed.emit()

    def _put(self, pinned: PinnedHeads) -> None:
        run = self._session.run
        if run is not None and pinned != self.now:
            self._kept[_key(run.model)] = pinned
            self.changed.emit()


def _one_each(notes: Iterable[HeadNote]) -> tuple[HeadNote, ...]:
    """The last note to each head, unless that says nothing, by layer and head."""
    last = {(one.layer, one.head): replace(one, text=one.text.strip()) for one in notes}
    return tuple(last[at] for at in sorted(last) if last[at].text)


def _key(card: ModelCard) -> str:
    """What a model is known by, in whatever engine it is open and whatever its numbers are kept in."""
    return "" if is_bundled(card) else card.path or card.name
