"""The head board: pinned heads side by side, with the mean of all of them and the difference of two.

What is pinned is the session's; every number is the model's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QLineEdit, QMenu, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.address import read_head
from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskBoard, AskRefinedBoard, Question
from ropewalk.model.errors import RopewalkError
from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import BoardReading, HeadPicture, Run, Tile, token_strings
from ropewalk.views.panels.head_cards import CardGrid, CardMap
from ropewalk.views.panels.panel import ElidedLabel, Kept, Mark, Panel, plain_label
from ropewalk.views.plots.maps.levels import Levels, largest_magnitude, robust, value_range
from ropewalk.views.style import theme, wording
from ropewalk.views.style.flow import flowing

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

Place = tuple[int, int]

EMPTY = (
    "No head is pinned yet: H pins the selected one, Alt+B those that share its keys and values, a right click in "
    "Heads any other, or type one above: L1H3."
)
AVERAGE, DIFFERENCE = "average", "difference"
SIDES = (96, 128, 192, 256, 384, 512)
"""Pixels that a picture is asked for in, along a side."""


class BoardPanel(Panel):
    """Large maps of the heads that a person has chosen."""

    name: ClassVar[str] = "board"
    title: ClassVar[str] = "Head board"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("line", "accent", "selected head"),
        Mark("outline", "query", "selected query"),
        Mark("outline", "key", "selected key"),
        Mark("hatch", "masked", "masked"),
    )
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query", "key"})
    picture = Kept[BoardReading]()
    panel_requested = Signal(str)
    note_wanted = Signal(int, int)
    """A person wants to write a note to a head."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._asked: AskBoard | None = None
        self._labels: tuple[str, ...] = ()
        self._pair: tuple[Place, Place] | None = None
        """Which two are subtracted, once somebody has chosen."""
        self._first = 0
        """The first map of the page."""
        self.grid = CardGrid()
        self.grid.grown.connect(self.plotted)
        self.grid.resized.connect(self._on_resized)
        self.field = QLineEdit()
        self.field.setPlaceholderText("L1H3")
        self.field.setToolTip("Type a head and press Return to pin it")
        self.field.setAccessibleName("Head to pin, such as L1H3")
        self.field.returnPressed.connect(self._pin_typed)
        self.pin_button = self._tool("", "Pin the selected head, or take it off the board (H)", self._toggle_selected)
        self.scores = self._toggle("scores", "Show the scores after the mask in the place of the weights")
        self.scores.toggled.connect(self._show_again)
        self.average = self._toggle(AVERAGE, "Show the mean of all pinned heads, cell by cell, as a map of its own")
        self.difference = self._toggle(DIFFERENCE, "Show one of two heads less the other as a map of its own")
        for toggle in (self.average, self.difference):
            toggle.setChecked(True)
            toggle.toggled.connect(self._turn_to_first)
        self.boxes = (self._box("Head to subtract from"), self._box("Head that is subtracted"))
        self.before = self._tool("‹", "The maps before these", partial(self._turn, -1))
        self.after = self._tool("›", "The maps after these", partial(self._turn, 1))
        self.page = plain_label("", "subtitle")
        self.notes = self._tool("", "What was written to heads; choose one to go there", lambda: None)
        self.notes.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.notes.setMenu(QMenu(self.notes))
        self.clear = self._tool("unpin all", "Take every head off the board; notes stay", session.board.clear)
        self.readout = ElidedLabel()
        self._lay_out()
        self.hear(self.grid.picked, self._pick)
        self.hear(self.grid.pointed, self._point)
        self.hear(self.grid.viewed, self._look)
        self.hear(self.grid.chosen, self._choose)
        self.hear(self.grid.removed, self._remove)
        self.hear(self.grid.note_wanted, self._note)
        self.hear(self.grid.moved, self._move)
        session.board.changed.connect(self._on_board)
        session.run_changed.connect(self._on_run_changed)
        session.selection.changed.connect(self._name_pin)
        self._on_board()
        self.theme_changed()

    def _lay_out(self) -> None:
        for widget in (self.notes, self.before, self.page, self.after):
            self.head_row.addWidget(widget)
        self.tools = flowing(
            *(self.field, self.pin_button, self.scores, self.average, self.difference, *self.boxes, self.clear)
        )
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID)
        layout.addWidget(self.grid, 1)
        layout.addWidget(self.readout)
        outer = self.layout()
        assert isinstance(outer, QVBoxLayout)
        outer.insertWidget(1, self.tools)  # above the body, which is hidden while nothing is pinned

    def _tool(self, text: str, tip: str, act: object) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(act)
        return button

    def _toggle(self, text: str, tip: str) -> QToolButton:
        button = self._tool(text, tip, lambda: None)
        button.setCheckable(True)
        button.setProperty("toggle", "yes")
        return button

    def _box(self, name: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        box.setToolTip(name)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        box.activated.connect(self._choose_pair)
        return box

    # What stands on it --------------------------------------------------------------------------------------------

    @property
    def heads(self) -> tuple[Place, ...]:
        """The pinned heads."""
        return self.session.board.now.heads

    @property
    def pair(self) -> tuple[Place, Place] | None:
        """The two heads of which the first less the second is shown; None where there are not two."""
        heads = self.heads
        if len(heads) < 2:
            return None
        chosen = self._pair
        return chosen if chosen is not None and set(chosen) <= set(heads) else (heads[0], heads[1])

    def maps(self) -> tuple[Place | str, ...]:
        """Every map that there is to see, on all pages."""
        several = len(self.heads) > 1
        extra = [toggle.text() for toggle in (self.average, self.difference) if several and toggle.isChecked()]
        return (*self.heads, *extra)

    def _name_of(self, one: Place | str) -> str:
        if not isinstance(one, str):
            return wording.head_name(*one)
        pair = () if self.pair is None else self.pair
        of = f" {wording.MINUS} ".join(wording.head_name(*head) for head in pair)
        return f"average of {len(self.heads)}" if one == AVERAGE else of

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the maps of this page, in no more pixels than can be told apart."""
        for part in ("zoom", "refined"):
            self.forget(part)
        texts = token_strings(run.tokens[: run.length])
        drawable = {text: theme.drawable(text) for text in set(texts)}  # a long prompt says most of them many times
        self._labels = tuple(drawable[text] for text in texts)
        self.grid.expect(self._labels, run.length, [self._name_of(one) for one in self.maps()])
        self._asked = self._asking()
        return self._asked

    def _asking(self, rows: Place | None = None, columns: Place | None = None) -> AskBoard | None:
        heads, shown, pair = self.heads, self._page(), self.pair
        if not heads:
            return None
        difference = (heads.index(pair[0]), heads.index(pair[1])) if pair is not None and DIFFERENCE in shown else None
        places = [place for place, head in enumerate(heads) if head in shown]
        several = (places[0], places[-1] + 1) if places else (0, 0)
        room = min(self.grid.width(), self.grid.height()) / math.ceil(math.sqrt(max(len(shown), 1)))
        pixels = max((side for side in SIDES if side <= room), default=SIDES[0])
        return AskBoard(heads, several, AVERAGE in shown, difference, rows, columns, pixels)

    def _page(self) -> tuple[Place | str, ...]:
        """The maps of this page."""
        maps, count = self.maps(), self.grid.capacity()
        self._first = min(self._first, max(len(maps) - 1, 0)) // count * count
        return maps[self._first : self._first + count]

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the maps."""
        self.picture = reading
        if reading is None:
            self.describe("")
            self.explain(EMPTY)
            return
        self._show(reading.value, run)
        self._look(self.grid.view)
        if self.grid.view.width() >= run.length:
            self._refine(reading.value, self._asked)

    def _refine(self, board: BoardReading, asked: AskBoard | None) -> None:
        """Ask for all of what is only sampled."""
        every = (*board.pictures, board.average, board.difference)
        if asked is None or not any(one is not None and one.weights.reduction == "sampled" for one in every):
            self.forget("refined")
            return

        def arrived(reading: Reading[BoardReading]) -> None:
            if asked.rows is None:
                self.picture = reading
            self._show(reading.value, reading.run)

        self.ask(AskRefinedBoard(asked), arrived, "refined")

    def show_selection(self, selection: Selection) -> None:
        """Outline the selected head, row and column."""
        self.grid.mark((selection.layer, selection.head), selection.query, selection.key)
        self._say(selection.query, selection.key)

    def show_hover(self, hover: Hover) -> None:
        """Draw the crosshair of whatever is pointed at, here or elsewhere, in every map."""
        here = hover.query is not None and hover.key is not None
        query, key = (hover.query, hover.key) if here else (-1, -1)
        self.grid.point(-1 if query is None else query, -1 if key is None else key)
        now = self.session.selection.now
        self._say(*((query, key) if query is not None and key is not None and here else (now.query, now.key)))

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.field.setFixedWidth(round(5.5 * theme.current().size("body")))
        self._spare()
        self.grid.theme_changed()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave low rooms to the maps."""
        super().resizeEvent(event)
        self._spare()

    def _spare(self) -> None:
        """Show what stands around the maps where there is room for it; a board without heads is all tools.

        On a projector what keys do as well makes room for the maps, once there are some.
        """
        for tool in (self.field, self.pin_button, self.clear):
            keyed = bool(self.heads) and theme.current().projector
            tool.setVisible(not keyed and (tool is not self.clear or bool(self.heads)))
        box = self.contentsRect().marginsRemoved(self.layout().contentsMargins())  # type: ignore[union-attr]
        around = self.tools.heightForWidth(box.width()) + self.readout.sizeHint().height() + 3 * theme.GRID
        roomy = not self.heads or box.height() >= around + self.grid.minimumSizeHint().height()
        self.tools.setVisible(roomy)
        self.readout.setVisible(roomy)

    def _on_resized(self) -> None:
        """Ask for other maps, or finer ones, where there is room for them."""
        if self._asked is not None and self._asking() != self._asked:
            self.refresh()
            self._name_page()

    @property
    def figure_caption(self) -> str:
        """What stands under the board as a figure."""
        names = ", ".join(card.shown.name for card in self.grid.cards if card.shown is not None)
        return f"{'Scores' if self.scores.isChecked() else 'Weights'} of {names}"

    # How it works -------------------------------------------------------------------------------------------------

    def _show(self, board: BoardReading, run: Run) -> None:
        """Draw pictures, all heads by the same levels: one colour is one number."""
        maps: list[CardMap] = []

        def tile(picture: HeadPicture) -> Tile:
            return picture.scores if self.scores.isChecked() else picture.weights

        whole = self.picture or board  # a part that is seen closer keeps the colours of the whole
        shared = [tile(one) for one in (*whole.pictures, whole.average) if one is not None]
        if self.scores.isChecked():  # the largest of many says nothing of the others
            shared += [tile(one) for one in (*board.pictures, board.average) if one is not None]
        levels = shared_levels(shared, run.length)
        note_of = self.session.board.note_of
        for picture in board.pictures:
            head = (picture.layer, picture.head)
            maps.append(CardMap(wording.head_name(*head), tile(picture), levels, head, note_of(*head)))
        if board.average is not None:
            maps.append(CardMap(self._name_of(AVERAGE), tile(board.average), levels))
        if board.difference is not None and self.pair is not None:
            of, signed = tile(board.difference), signed_levels(tile(whole.difference or board.difference), run.length)
            maps.append(CardMap(self._name_of(DIFFERENCE), of, signed))
        self.grid.show_maps(maps, self._labels, run.length)
        count = wording.counted(len(self.heads), "head")
        said = "scores after the mask" if self.scores.isChecked() else "weights (softmax)"
        self.describe(f"{count} · {said} · {run.length} × {run.length}")
        now = self.session.selection.now
        self.grid.mark((now.layer, now.head), now.query, now.key)
        self._name_page()

    def _show_again(self) -> None:
        """Draw the same pictures, as weights or as scores."""
        run, picture = self.session.run, self.picture
        if run is not None and picture is not None:
            self._show(picture, run)
            self.show_hover(self.session.selection.hover)  # which writes the number below them
            self._look(self.grid.view)

    def _look(self, view: QRectF) -> None:
        """Ask for single cells where the pictures are reduced ones and only a part of them is seen."""
        picture, run = self.picture, self.session.run
        if picture is None or run is None or not self.grid.cards:
            return
        shown = self.grid.cards[0].shown
        if shown is None or (shown.tile.reduction == "exact" and shown.tile.rows == (0, run.length)):
            return
        for part in ("zoom", "refined"):
            self.forget(part)
        if view.width() >= run.length:
            self._show(picture, run)
            self._refine(picture, self._asked)
            return
        rows = max(math.floor(view.top() + 0.5), 0), min(math.ceil(view.bottom() + 0.5), run.length)
        columns = max(math.floor(view.left() + 0.5), 0), min(math.ceil(view.right() + 0.5), run.length)
        question = self._asking(rows, columns)
        if question is not None:
            self.ask(question, partial(self._show_part, question), "zoom")

    def _show_part(self, question: AskBoard, reading: Reading[BoardReading]) -> None:
        self._show(reading.value, reading.run)
        self._refine(reading.value, question)

    def _say(self, query: int, key: int) -> None:
        """Say the number of one cell in every map."""
        if not 0 <= max(query, key) < len(self._labels) or min(query, key) < 0:
            self.readout.setText("")
            return
        parts = [f"query {query} {isolated(self._labels[query])} → key {key} {isolated(self._labels[key])}"]
        for card in self.grid.cards:
            if card.shown is not None and card.heatmap.block == (1, 1):
                masked = card.heatmap.is_masked(query, key)
                number = "masked" if masked else wording.number(card.heatmap.value(query, key))
                parts.append(f"{card.shown.name} {number}")
        self.readout.setText(" · ".join(parts))

    def _on_run_changed(self, before: Run | None, after: Run | None) -> None:
        """Every model has a board of its own."""
        if before is None or after is None or before.model is not after.model:
            self._on_board()

    def _on_board(self) -> None:
        """Bring the tools up to date, and ask where other maps are wanted."""
        board = self.session.board.now
        several = len(board.heads) > 1
        for widget in (self.average, self.difference):
            widget.setVisible(several)
        for box, head in zip(self.boxes, self.pair or ((0, 0), (0, 0)), strict=True):
            box.setVisible(several and self.difference.isChecked())
            names = [wording.head_name(*one) for one in board.heads]
            if [box.itemText(place) for place in range(box.count())] != names:
                box.clear()
                box.addItems(names)
            box.setCurrentText(wording.head_name(*head))
        self.scores.setVisible(bool(board.heads))
        self.notes.setText(wording.counted(len(board.notes), "note"))
        self.notes.setVisible(bool(board.notes))
        menu = self.notes.menu()
        menu.clear()
        for note in board.notes:
            action = menu.addAction(f"{wording.head_name(note.layer, note.head)}   {_brief(note.text)}")
            action.setToolTip(wording.tooltip(note.text))
            go = partial(self.session.selection.update, layer=note.layer, head=note.head)
            action.triggered.connect(lambda _=False, go=go: go())
        self._name_pin()
        self._name_page()
        self._spare()
        for card in self.grid.cards:
            if card.shown is not None and card.shown.head is not None:
                card.say_note(self.session.board.note_of(*card.shown.head))
        if self._asking() != self._asked:
            self.refresh()

    def _name_pin(self, *change: object) -> None:
        """Say what the button does to the selected head."""
        now = self.session.selection.now
        pinned = (now.layer, now.head) in self.heads
        self.pin_button.setText(f"{'unpin' if pinned else 'pin'} {wording.head_name(now.layer, now.head)}")
        self.pin_button.setEnabled(self.session.run is not None)

    def _name_page(self) -> None:
        count, page = len(self.maps()), self._page()
        paged = len(page) < count
        for button in (self.before, self.page, self.after):
            button.setVisible(paged)
        last = self._first + len(page)
        self.page.setText(f"{self._first + 1}–{last} of {count}" if len(page) > 1 else f"{last} of {count}")
        self.before.setEnabled(self._first > 0)
        self.after.setEnabled(last < count)

    def _turn(self, by: int) -> None:
        self._first = max(self._first + by * self.grid.capacity(), 0)
        self._on_board()

    def _turn_to_first(self) -> None:
        self._first = 0
        self._on_board()

    def _pin_typed(self) -> None:
        run = self.session.run
        if run is None:
            return
        try:
            head = read_head(self.field.text(), run.config.layers, run.config.heads)
        except RopewalkError as error:
            self.session.failed.emit(error.sentence, "")
            return
        self.field.clear()
        self.session.board.pin(*head)

    def _toggle_selected(self) -> None:
        now = self.session.selection.now
        self.session.board.toggle(now.layer, now.head)

    def _choose_pair(self) -> None:
        places = [box.currentIndex() for box in self.boxes]
        if all(0 <= place < len(self.heads) for place in places):
            self._pair = (self.heads[places[0]], self.heads[places[1]])
            self._on_board()

    def _remove(self, shown: CardMap) -> None:
        if shown.head is not None:
            self.session.board.unpin(*shown.head)
        else:
            (self.average if shown.levels.scale != "diverging" else self.difference).setChecked(False)

    def _move(self, shown: CardMap, other: CardMap) -> None:
        if shown.head is not None and other.head in self.heads:  # the maps of another board are still to come
            self.session.board.move(*shown.head, self.heads.index(other.head))

    def _note(self, shown: CardMap) -> None:
        if shown.head is not None:
            self.note_wanted.emit(*shown.head)

    def _choose(self, shown: CardMap) -> None:
        if shown.head is not None:
            self.session.selection.update(layer=shown.head[0], head=shown.head[1])

    def _pick(self, shown: CardMap, query: int, key: int) -> None:
        where = {} if shown.head is None else {"layer": shown.head[0], "head": shown.head[1]}
        self.session.selection.update(query=query, key=key, **where)

    def _point(self, shown: CardMap, query: int, key: int) -> None:
        layer, head = shown.head or (None, None)
        hover = Hover() if query < 0 or key < 0 else Hover(query=query, key=key, layer=layer, head=head)
        self.session.selection.point_at(hover)


def shared_levels(tiles: Sequence[Tile], rows: int) -> Levels:
    """Levels by which one colour is one number in several maps of a run of so many rows."""
    values = np.concatenate([tile.values.ravel() for tile in tiles]) if tiles else np.zeros(0, np.float32)
    visible = np.concatenate([tile.visible.ravel() for tile in tiles]) if tiles else np.zeros(0, np.bool_)
    if tiles and tiles[0].kind == "scores":
        return Levels(*value_range(values[visible]))
    return robust(Levels(0.0, 1.0), values, visible, rows)


def signed_levels(tile: Tile, rows: int) -> Levels:
    """Levels of a difference, 0 in their middle."""
    largest = largest_magnitude(tile.values[tile.visible])
    return robust(Levels(-largest, largest, "diverging"), tile.values, tile.visible, rows)


def _brief(text: str) -> str:
    """The beginning of a note, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59].rstrip()}…"
