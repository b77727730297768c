"""What is selected, and the one place that changes it.

Panels read the selection and send intent; only :class:`SelectionStore` writes it, clamps it to the run, and tells
everybody once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from ropewalk.app.session.selected import Bounds, Hover, Selection

__all__ = ["Bounds", "Hover", "Selection", "SelectionStore"]


class SelectionStore(QObject):
    """The only writer of the selection.

    Parameters
    ----------
    is_held
        Whether nobody could answer what a person moves it to, so that :meth:`update`, :meth:`back` and
        :meth:`forward` leave it where it is.

    Signals
    -------
    changed(before, after)
        Emitted once for an update that changes something.
    hovered(hover)
        The pointer moved to another cell; carries a :class:`Hover`.
    """

    changed = Signal(object, object)
    hovered = Signal(object)

    HISTORY = 200

    def __init__(self, parent: QObject | None = None, is_held: Callable[[], bool] = lambda: False) -> None:
        super().__init__(parent)
        self._is_held = is_held
        self._now = Selection()
        self._bounds = Bounds()
        self._hover = Hover()
        self._back: list[Selection] = []
        self._forward: list[Selection] = []
        self._emitting = False

    @property
    def now(self) -> Selection:
        """The selection."""
        return self._now

    @property
    def hover(self) -> Hover:
        """What is under the pointer."""
        return self._hover

    def update(self, **changes: int) -> None:
        """Change some fields as a person wants, clamped to the run; does nothing when the result is equal.

        Raises
        ------
        RuntimeError
            When called while a change is being announced: no handler writes the selection.
        """
        if not self._is_held():
            self.put(**changes)

    def put(self, **changes: int) -> None:
        """Change some fields, also where that is to be shown once there is somebody to answer.

        Raises
        ------
        RuntimeError
            When called while a change is being announced: no handler writes the selection.
        """
        if self._emitting:
            raise RuntimeError("The selection was written while a change was being announced.")
        after = self._clamped(replace(self._now, **changes))
        if after == self._now:
            return
        self._back = [*self._back[-self.HISTORY + 1 :], self._now]
        self._forward.clear()
        self._set(after)

    def bind(self, bounds: Bounds, **changes: int) -> None:
        """Say how far a new run reaches, and change fields in the same announcement.

        Raises
        ------
        RuntimeError
            When called while a change is being announced.
        """
        if self._emitting:
            raise RuntimeError("The selection was bound to a run while a change was being announced.")
        self._bounds = bounds
        after = self._clamped(replace(self._now, **changes))
        if after != self._now:
            self._set(after)

    def back(self) -> None:
        """Go to the selection before this one."""
        self._walk(self._back, self._forward)

    def forward(self) -> None:
        """Undo :meth:`back`."""
        self._walk(self._forward, self._back)

    def point_at(self, hover: Hover) -> None:
        """Say what is under the pointer."""
        if hover != self._hover:
            self._hover = hover
            self.hovered.emit(hover)

    def _walk(self, source: list[Selection], target: list[Selection]) -> None:
        if self._emitting:
            raise RuntimeError("The selection was written while a change was being announced.")
        while source and not self._is_held():
            # the length in view belongs to the session's timeline, so walking back does not bring an older one
            after = self._clamped(replace(source.pop(), step=self._now.step))
            if after != self._now:
                target.append(self._now)
                self._set(after)
                return

    def _set(self, after: Selection) -> None:
        before, self._now = self._now, after
        self._emitting = True
        try:
            self.changed.emit(before, after)
        finally:
            self._emitting = False

    def _clamped(self, wanted: Selection) -> Selection:
        b = self._bounds

        def inside(value: int, end: int) -> int:
            return min(max(value, 0), max(end - 1, 0))

        return Selection(
            prompt=inside(wanted.prompt, b.prompts),
            layer=inside(wanted.layer, b.layers),
            head=inside(wanted.head, b.heads),
            query=inside(wanted.query, b.rows),
            key=inside(wanted.key, b.rows),
            plane=inside(wanted.plane, b.planes),
            step=min(max(wanted.step, 0), b.rows),
        )
