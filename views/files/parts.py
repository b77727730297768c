"""A widget and all in it one after another, each with what of it can be seen: for devices without a widget's clip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QPaintDevice, QPainter, QPicture, QRegion
from PySide6.QtWidgets import QAbstractScrollArea, QWidget


@dataclass(frozen=True, eq=False)
class Part:
    """One widget by itself.

    Attributes
    ----------
    at
        Its upper left corner in the whole.
    clip
        What of it can be seen, in the whole; None where it paints nowhere else by itself.
    """

    widget: QWidget
    at: QPoint
    clip: QRect | None
    is_whole: bool

    def render(self, painter: QPainter, at: QPoint) -> None:
        """Paint it without what is in it."""
        whole, nothing = QWidget.RenderFlag.DrawWindowBackground, QWidget.RenderFlag(0)
        # QWidget's own: a view of a scene has another one of that name, which draws the scene without its place
        QWidget.render(self.widget, painter, at, QRegion(), whole if self.is_whole else nothing)


def parts_of(whole: QWidget, hidden: Callable[[QWidget], bool] | None = None) -> Iterator[Part]:
    """Everything that can be seen of a widget, from below to above, but for what is hidden."""
    return _parts(whole, whole, QRect(QPoint(), whole.size()), hidden or (lambda part: False))


def _parts(whole: QWidget, widget: QWidget, seen: QRect, hidden: Callable[[QWidget], bool]) -> Iterator[Part]:
    at = widget.mapTo(whole, QPoint())
    inside = seen.intersected(QRect(at, widget.size()))
    if inside.isEmpty():
        return
    yield Part(widget, at, None if _keeps_inside(widget, inside) else inside, widget is whole)
    for child in widget.children():
        if isinstance(child, QWidget) and not child.isWindow() and child.isVisibleTo(widget) and not hidden(child):
            yield from _parts(whole, child, inside, hidden)


def _keeps_inside(widget: QWidget, seen: QRect) -> bool:
    """Whether a widget needs no clip: all of it can be seen, and Qt's own widgets paint nowhere else.

    What scrolls does, and so does what paints itself here.
    """
    own = type(widget).__module__.startswith("PySide6") and not isinstance(widget.parentWidget(), QAbstractScrollArea)
    return own and seen.size() == widget.size()


@contextmanager
def painting(device: QPaintDevice) -> Iterator[QPainter]:
    """Paint on something, and end that whatever comes: Qt ends the process where a device goes before its painter."""
    painter = QPainter(device)
    try:
        yield painter
    finally:
        painter.end()


def paint_parts(painter: QPainter, whole: QWidget, hidden: Callable[[QWidget], bool] | None = None) -> None:
    """Paint a widget with every part clipped to what can be seen of it.

    Each is recorded first: a widget that is painted straight away begins with a clip of its own, which is none.
    """
    for part in parts_of(whole, hidden):
        picture = QPicture()
        with painting(picture) as recorder:
            part.render(recorder, QPoint())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)  # a recorded picture does not ask for it
        if part.clip is not None:
            painter.setClipRect(part.clip)
        painter.translate(part.at)
        painter.drawPicture(0, 0, picture)
        painter.restore()
