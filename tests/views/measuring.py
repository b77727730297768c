"""What is cut off, squeezed or covered in a window, in words: measured on the widgets themselves, as they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from PySide6.QtCore import QRect
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QTabBar,
    QWidget,
)

from ropewalk.views.panels.panel import ElidedLabel, SparedLabel

SLACK = 1
"""Pixels that rounding may take."""


def faults(root: QWidget) -> list[str]:
    """Everything that is wrong with what can be seen of a widget, a line each."""
    found = []
    for widget in (root, *root.findChildren(QWidget)):
        if widget.isVisible():
            found += [f"{_name(widget)}: {fault}" for fault in (*_cut(widget), *_squeezed(widget), *_covered(widget))]
    return found


def _name(widget: QWidget) -> str:
    text = getattr(widget, "text", None)
    words = (text() if callable(text) else "") or widget.accessibleName() or widget.objectName()
    parents = []
    above: QWidget | None = widget
    while above is not None:
        parents.append(type(above).__name__)
        above = above.parentWidget()
    return f"{' < '.join(parents[:4])} {words[:40]!r}"


def _cut(widget: QWidget) -> Iterator[str]:
    """Text that needs more room than there is, and does not end in an ellipsis whose tooltip has all of it."""
    room, metrics = widget.contentsRect().size(), widget.fontMetrics()
    match widget:
        case ElidedLabel():
            if metrics.horizontalAdvance(widget.text()) > room.width() + SLACK and not widget.toolTip():
                yield "the text ends in an ellipsis, and no tooltip has all of it"
        case QLabel() if widget.text() and not isinstance(widget, SparedLabel):
            needed = widget.heightForWidth(widget.width()) if widget.wordWrap() else widget.sizeHint().height()
            if needed > widget.height() + SLACK:
                yield f"the text is {needed} high and has {widget.height()}"
            if not widget.wordWrap() and widget.sizeHint().width() > widget.width() + SLACK:
                yield f"the text is {widget.sizeHint().width()} wide and has {widget.width()}"
        case QAbstractButton():
            wanted = widget.sizeHint()
            if wanted.width() > widget.width() + SLACK or wanted.height() > widget.height() + SLACK:
                yield f"the button needs {wanted.toTuple()} and has {widget.size().toTuple()}"
        case QTabBar():
            yield from _cut_tabs(widget, metrics)
        case QComboBox():
            option = QStyleOptionComboBox()
            widget.initStyleOption(option)
            control, part = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
            field = widget.style().subControlRect(control, option, part, widget)
            yield from _too_large(metrics, widget.currentText(), field)
        case QLineEdit() if isinstance(widget.parentWidget(), QAbstractSpinBox):
            yield from _too_large(metrics, widget.text(), widget.rect())
        case QLineEdit():
            yield from _too_large(metrics, "", widget.rect())


def _cut_tabs(bar: QTabBar, metrics: QFontMetrics) -> Iterator[str]:
    for index in filter(bar.isTabVisible, range(bar.count())):
        box = bar.tabRect(index)
        if not bar.rect().contains(box):
            yield f"the tab {bar.tabText(index)!r} ends at {box.right()}, outside of {bar.width()}"
        yield from _too_large(metrics, bar.tabText(index), box)


def _too_large(metrics: QFontMetrics, text: str, box: QRect) -> Iterator[str]:
    if metrics.horizontalAdvance(text) > box.width() + SLACK:
        yield f"{text!r} is {metrics.horizontalAdvance(text)} wide and has {box.width()}"
    if metrics.height() > box.height() + SLACK:
        yield f"the type is {metrics.height()} high and has {box.height()}"


def _squeezed(widget: QWidget) -> Iterator[str]:
    """Less room than the widget says that it needs at least; of what scrolls, and of a field in a box, Qt says more."""
    if isinstance(widget, QAbstractScrollArea | QLineEdit | QTabBar):
        return
    least = widget.minimumSizeHint().boundedTo(widget.maximumSize())
    if widget.width() + SLACK < least.width() or widget.height() + SLACK < least.height():
        yield f"it needs {least.toTuple()} at least and has {widget.size().toTuple()}"


def _covered(widget: QWidget) -> Iterator[str]:
    """Children that lie over one another, or outside of the widget."""
    if isinstance(widget, QAbstractScrollArea):
        return
    children = [child for child in widget.children() if isinstance(child, QWidget) and not child.isHidden()]
    children = [child for child in children if not child.isWindow()]
    for one, other in combinations(children, 2):
        both = one.geometry() & other.geometry()
        if both.width() > SLACK and both.height() > SLACK:
            yield f"{_name(one)} and {_name(other)} share {both.size().toTuple()}"
    scrolled = widget.parentWidget() is not None and isinstance(widget.parentWidget(), QAbstractScrollArea)
    for child in children:
        if not scrolled and not widget.rect().adjusted(-SLACK, -SLACK, SLACK, SLACK).contains(child.geometry()):
            yield f"{_name(child)} at {child.geometry().getRect()} is outside of {widget.size().toTuple()}"
