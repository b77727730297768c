"""Maps of heads side by side: a card for each map, with its name and its note, and as many columns as make it large."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QHideEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from ropewalk.model.readings.records import Tile
from ropewalk.views.panels.panel import ElidedLabel, plain_label
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.token_axis import LEAST_NAMED
from ropewalk.views.style import icons, ink, theme

LEAST = 120
"""Pixels of all cells of a map, in ordinary type, below which there are fewer maps on a page; on a projector half as
many again."""


@dataclass(frozen=True, eq=False)
class CardMap:
    """What a card shows.

    Attributes
    ----------
    head
        (layer, head), None for a map of several.
    note
        What a person has written to the head.
    """

    name: str
    tile: Tile
    levels: Levels
    head: tuple[int, int] | None = None
    note: str = ""


class HeadCard(QWidget):
    """One map with its name above it.

    Signals
    -------
    chosen()
        The head is to be the selected one.
    removed(), note_wanted()
        It is to go; something is to be written to it.
    carried(at, dropped)
        It is dragged by its name, to a place in the parent's pixels, and let go there or not yet.
    """

    chosen = Signal()
    removed = Signal()
    note_wanted = Signal()
    carried = Signal(QPoint, bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._pressed: QPoint | None = None
        self._is_carried = False
        self.aimed_at = False
        """Whether what is carried would be put here."""
        self.shown: CardMap | None = None
        self.selected = False
        self.name, self.note, self.heatmap = plain_label("", "heading"), ElidedLabel(), Heatmap()
        self.note_button, self.close_button = self._button(self.note_wanted), self._button(self.removed)
        self._head = QHBoxLayout()
        for widget, stretch in ((self.name, 0), (self.note, 1), (self.note_button, 0), (self.close_button, 0)):
            self._head.addWidget(widget, stretch)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID // 2)
        layout.addLayout(self._head)
        layout.addWidget(self.heatmap, 1)
        self._say_what_they_do("this head")
        self.heatmap.setAccessibleName("Weights of a head")  # until it shows one
        self.theme_changed()

    def _button(self, wanted: SignalInstance) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("kind", "small")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(wanted)
        return button

    def show_map(self, shown: CardMap, labels: tuple[str, ...], whole: int) -> None:
        """Draw a map of a run of so many tokens."""
        if self.shown is not None and self.shown.head != shown.head:
            self._let_go()  # what was carried stands elsewhere now
        self.shown, name, heatmap = shown, shown.name, self.heatmap
        self.name.setText(name)
        self.say_note(shown.note)
        self._say_what_they_do(name)
        self.note_button.setVisible(shown.head is not None)
        heatmap.setAccessibleName(name)
        heatmap.set_labels(labels)
        tile = shown.tile
        heatmap.set_data(
            tile.values, tile.visible, tile.rows, tile.columns, reduction=tile.reduction, whole=(whole, whole)
        )
        heatmap.set_levels(shown.levels)

    def _say_what_they_do(self, name: str) -> None:
        for button, tip in (
            (self.note_button, f"Write a note to {name}; it is kept in the session"),
            (self.close_button, f"Take {name} off the board"),
        ):
            button.setToolTip(tip)
            button.setAccessibleName(tip)

    def say_note(self, note: str) -> None:
        """Show another note."""
        self.note.setText(" ".join(note.split()))

    def mark(self, selected: bool) -> None:
        """Underline the name of the selected head."""
        if selected != self.selected:
            self.selected = selected
            self.update()

    def theme_changed(self) -> None:
        """Take the colours and sizes of the theme in use."""
        for button, name in ((self.note_button, "note"), (self.close_button, "close")):
            button.setIcon(icons.icon(name))
            button.setIconSize(QSize(icons.side(), icons.side()))
        self.heatmap.theme_changed()

    def heading_width(self, name: float) -> int:
        """Width that the heading takes with a name of so many pixels."""
        return self._head.minimumSize().width() - self.name.minimumSizeHint().width() + math.ceil(name)

    @property
    def head_height(self) -> int:
        """Height of all that is not the map."""
        return self._head.sizeHint().height() + theme.GRID // 2

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line under the name."""
        if self.selected:
            painter = QPainter(self)
            line = QRect(0, self.name.geometry().bottom(), self.width(), 2)
            painter.fillRect(line, theme.current().accent)
            painter.end()
        if self.aimed_at:
            painter = QPainter(self)
            painter.fillRect(QRect(0, 0, theme.current().grid(0.5), self.height()), theme.current().accent)
            painter.end()

    def aim(self, at: bool) -> None:
        """Show that what is carried would be put here."""
        if at != self.aimed_at:
            self.aimed_at = at
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the head whose name is clicked."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position().toPoint()
            self.chosen.emit()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Carry the card by its name."""
        at = event.position().toPoint()
        if self._pressed is None or self.shown is None or self.shown.head is None:
            return
        if not self._is_carried and (at - self._pressed).manhattanLength() < QApplication.startDragDistance():
            return
        self._is_carried = True
        self.setCursor(Qt.CursorShape.ClosedHandCursor)
        self.carried.emit(self.mapToParent(at), False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Put it where it was carried."""
        if self._let_go():
            self.carried.emit(self.mapToParent(event.position().toPoint()), True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Carry nothing that cannot be seen."""
        super().hideEvent(event)
        self._let_go()

    def _let_go(self) -> bool:
        """Carry the card no further; says whether it was carried."""
        carried, self._pressed, self._is_carried = self._is_carried, None, False
        self.unsetCursor()
        return carried

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take the head off by key, while the focus is in its map."""
        if event.key() == Qt.Key.Key_Delete:
            self.removed.emit()
        else:
            super().keyPressEvent(event)


class CardGrid(QWidget):
    """Cards in rows, their cells all of one size; row labels stand in the first column.

    Signals
    -------
    picked(shown, query, key), pointed(shown, query, key)
        As of a :class:`Heatmap`, with the :class:`CardMap`; −1 and −1 where the pointer left.
    viewed(view)
        A person zoomed or moved one of them, and with it all.
    chosen(shown), removed(shown), note_wanted(shown)
        As of a :class:`HeadCard`.
    moved(shown, other)
        The first was carried to the place of the second.
    grown(card)
        A card was made.
    resized()
        There is room for more cards, larger ones, or fewer.
    """

    picked = Signal(object, int, int)
    pointed = Signal(object, int, int)
    viewed = Signal(object)
    chosen = Signal(object)
    removed = Signal(object)
    note_wanted = Signal(object)
    moved = Signal(object, object)
    grown = Signal(object)
    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._made: list[HeadCard] = []
        self._count = 0
        self._names: tuple[str, ...] = ()
        self._asked: tuple[object, ...] = ()
        self._capacity = 1
        self.columns = 1
        self._made.append(self._card())
        self._made[0].hide()

    @property
    def cards(self) -> list[HeadCard]:
        """Those that are shown."""
        return self._made[: self._count]

    def expect(self, labels: tuple[str, ...], whole: int, names: Sequence[str]) -> None:
        """Find room for maps of these names and of a run of so many tokens, before they are there."""
        self._names, first = tuple(names), self._made[0].heatmap
        first.set_labels(labels)
        first.form.extent = QRectF(-0.5, -0.5, whole, whole)

    def show_maps(self, maps: Sequence[CardMap], labels: tuple[str, ...], whole: int) -> None:
        """Show these maps of a run of so many tokens."""
        while len(self._made) < len(maps):
            self._made.append(self._card())
        self._count = len(maps)
        for card, shown in zip(self._made, maps, strict=False):
            card.show_map(shown, labels, whole)
        for place, card in enumerate(self._made):
            card.setVisible(place < self._count)
            card.aim(False)
        self.arrange()

    def _card(self) -> HeadCard:
        card = HeadCard(self)
        card.heatmap.picked.connect(lambda query, key: self.picked.emit(card.shown, query, key))
        card.heatmap.pointed.connect(lambda query, key: self.pointed.emit(card.shown, query, key))
        card.heatmap.viewed.connect(self.viewed)
        for heard, said in (
            (card.chosen, self.chosen),
            (card.removed, self.removed),
            (card.note_wanted, self.note_wanted),
        ):
            heard.connect(partial(self._say, said, card))
        card.carried.connect(partial(self._carry, card))
        if self._made:
            card.heatmap.link(self._made[0].heatmap)
        self.grown.emit(card)
        return card

    @staticmethod
    def _say(said: SignalInstance, card: HeadCard) -> None:
        if card.shown is not None:
            said.emit(card.shown)

    def _carry(self, card: HeadCard, at: QPoint, dropped: bool) -> None:
        """Show where a card would be put, and put it there."""
        heads = [one for one in self.cards if one.shown is not None and one.shown.head is not None]
        target = next((one for one in heads if one is not card and one.geometry().contains(at)), None)
        for one in self.cards:
            one.aim(one is target and not dropped)
        if dropped and target is not None:
            self.moved.emit(card.shown, target.shown)

    def capacity(self) -> int:
        """How many cards stand here without being small."""
        first, now = self._made[0], theme.current()
        cells = first.heatmap.form.extent.width()
        asked = (self.size(), cells, self._narrowest, first.heatmap.rows_axis.names, id(now), first.heatmap.note)
        if asked != self._asked:
            form, titles = first.heatmap.form, first.heatmap.titles
            before = (form.row_labels, form.aside, form.gutter, form.heading)
            self._asked, self._capacity = asked, self._counted(cells)
            form.row_labels, form.aside, form.gutter, form.heading = before
            first.heatmap.titles = titles
            first.heatmap.fit_titles(first.heatmap.size())
        return self._capacity

    def _counted(self, cells: float) -> int:
        """How many cards stand here whose cells together are at least so wide, or as wide as if there were but one."""
        most, now, above = 1, theme.current(), self._made[0].head_height
        large = LEAST * (1.5 if now.projector else 1.0)
        least = min(now.grid(large / theme.GRID), max(self._fitted(1, 1)[0] * cells, now.grid(3)))
        rows = 1
        while cells and self.height() / rows - above >= least:
            card = max(least + self._small, self._narrowest)
            columns = math.floor((self.width() + theme.GRID) / (card + theme.GRID))
            while rows * columns > most and self._fitted(rows, columns)[0] * cells < least:
                columns -= 1
            most, rows = max(most, rows * columns), rows + 1
        return most

    def minimumSizeHint(self) -> QSize:
        """Room for one card."""
        return self._made[0].minimumSizeHint()

    def theme_changed(self) -> None:
        """Take the colours and sizes of the theme in use."""
        for card in self._made:
            card.theme_changed()
        self.arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place the cards."""
        super().resizeEvent(event)
        self.arrange()
        self.resized.emit()

    def arrange(self) -> None:
        """Place the cards in as many columns as make the cells largest."""
        if not self._count:
            return
        most = max(math.floor((self.width() + theme.GRID) / (self._narrowest + theme.GRID)), 1)
        sizes = {
            columns: self._fitted(math.ceil(self._count / columns), columns)
            for columns in range(1, min(self._count, most) + 1)
        }
        self.columns = max(sizes, key=lambda columns: (sizes[columns][0], -(-self._count % columns), -columns))
        _, gutter = sizes[self.columns]
        rows, gap = math.ceil(self._count / self.columns), theme.GRID
        aside = max(card.heatmap.form.aside_width() for card in self.cards)
        side, height = self._side(self.columns, gutter), (self.height() - (rows - 1) * gap) / rows
        for place, card in enumerate(self.cards):
            row, column = divmod(place, self.columns)
            form = card.heatmap.form
            form.row_labels, form.aside, form.gutter = column == 0, aside, gutter if column == 0 else None
            card.heatmap.titles = ("query" if column == 0 else "", "key")
            width = side + (gutter if column == 0 else self._small)
            left = column * (self._small + side + gap) + (gutter - self._small if column else 0)
            card.setGeometry(round(left), round(row * (height + gap)), math.floor(width), math.floor(height))
            card.heatmap.arrange()

    @property
    def _narrowest(self) -> int:
        """Width that a card has at least, whatever its map is called."""
        first, font = self._made[0], theme.current().font("heading")
        widest = max((ink.text_width(font, name) for name in self._names), default=0.0)
        return max(first.heatmap.minimumSizeHint().width(), first.heading_width(widest))

    @property
    def _small(self) -> int:
        """Width left of the cells of a map without row labels."""
        return theme.current().size("number") // 2

    def _side(self, columns: int, gutter: int) -> float:
        """Width that each map has for its cells."""
        return (self.width() - gutter - (columns - 1) * (self._small + theme.GRID)) / columns

    def _fitted(self, rows: int, columns: int) -> tuple[float, int]:
        """Width of a cell in so many rows and columns of cards, and width of the row labels then."""
        first = self._made[0]
        heatmap, form = first.heatmap, first.heatmap.form
        form.row_labels, form.aside, form.heading = True, form.aside_width(), heatmap.heading
        heatmap.titles = ("query", "key")
        height = math.floor((self.height() - (rows - 1) * theme.GRID) / rows) - first.head_height
        best = (0.0, heatmap.rows_axis.room(0))
        for pitch in (LEAST_NAMED, 0):  # names of rows need more room than numbers, and are written only in large cells
            form.gutter = None
            heatmap.fit_titles(QSize(math.floor(self._side(columns, heatmap.rows_axis.room(pitch))), height))
            form.gutter = heatmap.rows_axis.room(pitch)
            form.size = QSize(math.floor(self._side(columns, form.gutter)) + form.gutter, height)
            step = form.places().step
            if heatmap.rows_axis.room(step) <= form.gutter:
                best = max(best, (step, form.gutter))
        return best

    def size_for(self, rows: int, columns: int, side: int) -> QSize:
        """The size in which so many rows and columns of cards have cells of a width of ``side`` together."""
        card, gap = self._made[0], theme.GRID
        heatmap = card.heatmap
        heatmap.form.row_labels, heatmap.form.gutter, heatmap.titles = True, None, ("query", "key")
        heatmap.fit_titles(QSize(side, side))
        gutter = heatmap.rows_axis.room(side / max(heatmap.form.extent.width(), 1))
        height = card.head_height + heatmap.form.height_for(side)
        return QSize(
            gutter + columns * side + (columns - 1) * (self._small + gap) + 1, rows * height + (rows - 1) * gap
        )

    # Marks --------------------------------------------------------------------------------------------------------

    def mark(self, head: tuple[int, int], query: int, key: int) -> None:
        """Outline the map of a head, and a row and a column of all."""
        for card in self.cards:
            card.mark(card.shown is not None and card.shown.head == head)
            card.heatmap.set_selection(query, key)

    def point(self, query: int, key: int) -> None:
        """Draw the crosshair of what is pointed at; −1 for none."""
        for card in self.cards:
            card.heatmap.set_hover(query, key)

    @property
    def view(self) -> QRectF:
        """What can be seen of the matrix."""
        return self._made[0].heatmap.view
