"""The stage: the middle of the window, which shows one workspace, its tokens above it.

Every card is its child and stays it: a workspace says which are shown and where, and nothing is made anew when another
one comes on. What stands where follows from the workspace, the stage's size and what a person has moved, and from
nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QWidget

from ropewalk.views.panels.panel_card import PanelCard
from ropewalk.views.stage import tree as trees
from ropewalk.views.stage.page_tabs import PageTabs
from ropewalk.views.stage.tree import Edge, Pages, Plan, Side, Tree
from ropewalk.views.stage.workspaces import NAMED, WORKSPACES, home_of
from ropewalk.views.style import theme

if TYPE_CHECKING:
    from ropewalk.views.panels.tokens import TokensPanel
    from ropewalk.views.plots.token_strip import TokenStrip

LEAST: Final = QSize(280, 150)
"""No card is smaller, at ordinary type, but one that is a single row: a panel shows itself whole, or stands behind."""

A_LINE: Final = 1.2
"""Widths of the stage up to which tokens stand in one line: another one would be nearly empty."""

LOW: Final = frozenset({"why"})
"""Panels that are whole in a few lines of text, unless those are large."""

ROWS: Final = frozenset({"timeline"})
"""Panels that are a single row."""

MOST_LINES: Final = 2
"""Lines of tokens that stand above the panels; more are scrolled."""

SHARE: Final = 4
"""They take at most one part in so many of the stage's height."""

STRIP: Final = "tokens"


class Stage(QWidget):
    """Shows the cards of one workspace.

    Parameters
    ----------
    cards
        Every card by its name, in reading order; the stage takes them.

    Attributes
    ----------
    workspace
        The name of the workspace that is on.
    scene
        What a lesson's step shows beside the lesson, in the place of what the workspace of lessons shows else.
    alone
        The panel that has the stage to itself; empty where none has.

    Signals
    -------
    changed()
        Another workspace is on.
    """

    changed = Signal()

    def __init__(self, cards: Mapping[str, PanelCard], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.workspace = WORKSPACES[0].name
        self.scene: Tree | None = None
        self.alone = ""
        self._cards = cards
        self._absent: frozenset[str] = frozenset()
        self._moved: dict[str, Tree] = {}
        """The trees that a person has changed, by workspace and variant."""
        self._turned: list[str] = []
        """The panels that were turned to, the last one last: it is in front of those that share its place."""
        self._turned_before: list[str] = []
        """The same before a lesson."""
        self._floated: QRect | None = None
        """Where the panel that is alone floated before."""
        self._tree: Tree = ()
        self._plan = Plan((), QRect(), self._least, 0)
        self._opened = False
        self._edges: list[_Edge] = []
        self._tabs: list[PageTabs] = []
        self._target = QFrame(self)
        self._target.setProperty("target", "yes")
        self._target.hide()
        for card in cards.values():
            card.setParent(self)
            card.hide()
            card.dragged.connect(self._show_target)
            card.dropped.connect(self._drop)
            card.float_wanted.connect(self.toggle_floating)
        cards[STRIP].when_made(lambda panel: cast("TokensPanel", panel).strip.placed.connect(self._follow_strip))

    # What a person can ask of it ----------------------------------------------------------------------------------

    def show_workspace(self, name: str) -> None:
        """Put a workspace on in the place of the one that is on; a panel that is alone stays so."""
        differs = name != self.workspace
        self.workspace = name
        self.arrange()
        if differs:
            self.changed.emit()

    def show_alone(self, name: str) -> None:
        """Give the whole stage to one panel, or with an empty name to the workspace again."""
        before, self.alone = self.alone, name
        if name and self._cards[name].is_floating:
            self._floated = self._cards[name].geometry()
            self._cards[name].put_in(self)
        elif before and self._floated is not None:
            self._cards[before].float_out(self)
            self._cards[before].setGeometry(self._floated)
            self._floated = None
        self.arrange()

    def show_scene(self, scene: Tree | None, first: Sequence[str] = ()) -> None:
        """Put the panels of a lesson's step on, those named first in front; or take them off again."""
        if scene is None:
            self._turned = self._turned_before
        elif self.scene is None:
            self._turned_before = self._turned
        self.scene = scene
        for name in reversed(first):
            self._turn_to(name)
        if scene is not None:
            self.show_workspace("lesson")

    def reveal(self, name: str) -> None:
        """Bring a panel in sight: where it stands now, else in the workspace where it has its place."""
        card = self._cards[name]
        if card.is_floating:
            card.raise_()
            card.activateWindow()
            return
        self._turn_to(name)
        if not self._has(name):
            self.show_workspace(home_of(name))
        self.arrange()
        if self._opened and card.isHidden():  # a person has moved it away, or there is no room for it above the others
            self._keep(trees.behind(self._wanted(), name))
            self.arrange()

    def _turn_to(self, name: str) -> None:
        self._turned = [*(other for other in self._turned if other != name), name]

    def toggle_floating(self, card: PanelCard) -> None:
        """Make a card a window of its own, or put it back."""
        if card.is_floating:
            card.put_in(self)
        else:
            card.make_panel()
            card.fold_heading(False)
            if card.name == STRIP:
                self._strip.wrap(True)
            card.float_out(self)
        self.arrange()

    def reset(self) -> None:
        """Put every panel back in its place, in every workspace."""
        self._moved.clear()
        self._turned = []
        self.put_all_in()
        self.arrange()

    def put_all_in(self) -> None:
        """Let no card be a window of its own."""
        for card in self._cards.values():
            if card.is_floating:
                card.put_in(self)

    def leave_out(self, names: Iterable[str]) -> None:
        """Give no place to panels that have nothing to show for the model that is open."""
        if frozenset(names) != self._absent:
            self._absent = frozenset(names)
            self.arrange()

    @property
    def first(self) -> str:
        """The panel that the workspace is about; of all at once, the scores."""
        about = NAMED[self.workspace].variants[0].tree
        return "scores" if self.workspace == WORKSPACES[0].name else trees.names(about)[0]

    @property
    def in_sight(self) -> list[str]:
        """The panels that can be seen, in reading order."""
        return [name for name, card in self._cards.items() if not card.isHidden()]

    # What comes back ----------------------------------------------------------------------------------------------

    def kept(self) -> bytes:
        """The workspace that is on and what has been moved, for a file."""
        moved = {key: trees.written(tree) for key, tree in self._moved.items()}
        return json.dumps({"workspace": self.workspace, "moved": moved}).encode()

    def bring_back(self, kept: bytes) -> bool:
        """Put on what was kept; says whether it could be read."""
        known = frozenset(self._cards)
        try:
            match json.loads(kept):
                case {"workspace": str(name), "moved": dict(moved)} if name in NAMED:
                    read = {key: trees.read(plain, known) for key, plain in moved.items()}
                case _:
                    return False
        except (ValueError, RecursionError):
            return False
        self._moved = read
        self.show_workspace(name)
        return True

    # Where everything stands --------------------------------------------------------------------------------------

    @property
    def _box(self) -> QRect:
        """What the panels have."""
        return self.rect().adjusted(theme.GRID, 0, -theme.GRID, 0)

    @property
    def _key(self) -> str:
        scale = _scale()
        size = QSize(round(self.width() / scale), round(self.height() / scale))
        return f"{self.workspace} {NAMED[self.workspace].variant(size)}"

    def _wanted(self) -> Tree:
        """The tree that is on, before what cannot be shown is left out."""
        if self.workspace == "lesson" and self.scene is not None:
            return self.scene
        name, variant = self._key.split()
        return self._moved.get(self._key, NAMED[name].variants[int(variant)].tree)

    def _keep(self, tree: Tree) -> None:
        """Take a tree that a person has changed."""
        if self.workspace == "lesson" and self.scene is not None:
            self.scene = tree
        else:
            self._moved[self._key] = tree

    def _has(self, name: str) -> bool:
        if self.alone:
            return name == self.alone
        return name in trees.names(self._wanted()) or (name == STRIP and self._strip_lines(self._wanted()) > 0)

    def arrange(self) -> None:
        """Show what is to be seen, each where it belongs; only what has to move is moved."""
        if not self._opened:
            return
        cast("TokensPanel", self._cards[STRIP].panel).offer_arcs(NAMED[self.workspace].strip == "arcs")
        floating = frozenset(name for name, card in self._cards.items() if card.is_floating)
        tree: Tree = (self.alone,) if self.alone else trees.without(self._wanted(), self._absent | floating)
        places = self._placed(tree, 0 if STRIP in floating else self._strip_lines(tree))
        for leaf, place in self._plan.boxes.items():
            top = self._tab_height() if len(leaf) > 1 else 0
            places |= {self._front(leaf): place.adjusted(0, top, 0, 0)} if leaf else {}
        self._show(places, floating)

    def _placed(self, tree: Tree, lines: int) -> dict[str, QRect]:
        """Plan so that everything is whole, and say where the tokens above stand.

        What has too little room shares the place of its neighbour; where one place is still too small, the tokens go.
        """
        places, box = {}, self._box
        if STRIP in trees.names(tree):
            self._cards[STRIP].fold_heading(False)
            self._strip.wrap(True)
        elif lines:
            self._cards[STRIP].fold_heading(lines == 1)
            places[STRIP] = QRect(box.topLeft(), QSize(box.width(), self._strip_height(lines)))
            box.setTop(places[STRIP].bottom() + 1 + theme.GRID)
        while not (fits := self._fits(tree, box)) and isinstance(tree, trees.Split):
            tree = trees.folded(tree)
        if lines and not fits:  # nothing of the tokens changes: that would call for another plan
            return self._placed(tree, 0)
        self._tree, self._plan = tree, Plan(tree, box, self._least, theme.GRID)
        return places

    def _fits(self, tree: Tree, box: QRect) -> bool:
        least = trees.least_of(tree, self._least, theme.GRID)
        return least.width() <= box.width() and least.height() <= box.height()

    def _show(self, places: Mapping[str, QRect], floating: frozenset[str]) -> None:
        for name, card in self._cards.items():
            if name not in places and name not in floating:
                self._leave(card)
                card.hide()
        self._show_tabs()
        for name, place in places.items():
            card = self._cards[name]
            card.make_panel()
            if card.geometry() != place:
                card.setGeometry(place)
            card.show()
        self._show_edges()

    def _leave(self, widget: QWidget) -> None:
        """Give the keys to the window before what has them is hidden: Qt would give them to some button of the bar."""
        window = self.window()
        focused = window.focusWidget()
        if focused is not None and (focused is widget or widget.isAncestorOf(focused)):
            window.setFocus(Qt.FocusReason.OtherFocusReason)

    def _front(self, leaf: Pages) -> str:
        """Which of the panels that share a place is in front: the one turned to last, else the first."""
        return max(leaf, key=lambda name: self._turned.index(name) if name in self._turned else -1)

    def _least(self, leaf: Pages) -> QSize:
        """How small a place may be: large enough for the panel in front, and for its tabs."""
        if not leaf:
            return QSize(0, 0)
        name = self._front(leaf)
        card = self._cards[name]
        card.make_panel()
        least = card.minimumSizeHint()
        if name == STRIP:
            lines = max(min(self._strip.lines, MOST_LINES), 1)
            least.setHeight(max(card.around + self._strip.height_of(lines), least.height()))
        elif name not in ROWS:
            scale, doubled = _scale(), theme.current().size("body") / theme.themed("dark").size("body")
            height = LEAST.height() * (2 / 3 if name in LOW and doubled == 1 else 1)
            least = least.expandedTo(QSize(round(LEAST.width() * scale), round(height * doubled)))
        return least + QSize(0, self._tab_height() if len(leaf) > 1 else 0)

    # The tokens above ---------------------------------------------------------------------------------------------

    def _strip_lines(self, tree: Tree) -> int:
        """How many lines of tokens stand above a tree."""
        lesson = self.workspace == "lesson" and self.scene is not None
        if self.alone or lesson or STRIP in trees.names(tree) or NAMED[self.workspace].strip == "none":
            return 0
        return 1 if self._is_line() else MOST_LINES

    def _is_line(self) -> bool:
        return NAMED[self.workspace].strip == "line"

    def _strip_height(self, most: int) -> int:
        """As high as the tokens need, up to so many lines; where there is room for one, they stand in one."""
        card, strip = self._cards[STRIP], self._strip
        room = self.height() // SHARE - card.around
        lines = next((count for count in range(most, 1, -1) if strip.height_of(count) <= room), 1)
        if strip.length <= A_LINE * (self._box.width() - 2 * theme.current().grid(1)):
            lines = 1
        strip.wrap(lines > 1)
        return card.around + strip.height_of(max(min(lines, strip.lines), 1))

    @property
    def _strip(self) -> TokenStrip:
        return cast("TokensPanel", self._cards[STRIP].panel).strip

    def _follow_strip(self) -> None:
        """Give the tokens their lines, once they have theirs."""
        if self._cards[STRIP].isVisible():
            QApplication.postEvent(self, QEvent(QEvent.Type.LayoutRequest))

    # Tabs and edges -----------------------------------------------------------------------------------------------

    def _tab_height(self) -> int:
        return self.fontMetrics().height() + theme.current().grid(1) + 2

    def _show_tabs(self) -> None:
        """A row of tabs above every place that panels share."""
        shared = [(leaf, box) for leaf, box in self._plan.boxes.items() if len(leaf) > 1]
        while len(self._tabs) < len(shared):
            tabs = PageTabs(self)
            tabs.turned.connect(self._turn)
            self._tabs.append(tabs)
        for tabs in self._tabs[len(shared) :]:
            self._leave(tabs)
            tabs.hide()
        for tabs, (leaf, box) in zip(self._tabs, shared, strict=False):
            titles = {name: self._cards[name].title for name in leaf}
            tabs.show_pages(titles, self._front(leaf), QRect(box.x(), box.y(), box.width(), self._tab_height()))

    def _turn(self, name: str) -> None:
        """Bring a panel in front of the others of its place."""
        self._turn_to(name)
        self.arrange()

    def _show_edges(self) -> None:
        while len(self._edges) < len(self._plan.edges):
            self._edges.append(_Edge(self))
        for widget in self._edges[len(self._plan.edges) :]:
            widget.hide()
        for widget, edge in zip(self._edges, self._plan.edges, strict=False):
            widget.take(edge)

    @property
    def edges(self) -> list[Edge]:
        """The gaps between the panels that are on."""
        return self._plan.edges

    def move_edge(self, edge: Edge, by: int) -> None:
        """Give the part before an edge so many pixels of the part after it, as far as that has them to give."""
        sizes, wanted = list(self._plan.sizes[edge.path]), self._wanted()
        split, place = trees.at(self._tree, edge.path), edge.place
        if not isinstance(split, trees.Split):
            return
        least = [trees.least_of(part, self._least, theme.GRID) for part in split.parts]
        lengths = [size.width() if edge.across else size.height() for size in least]
        by = max(min(by, sizes[place + 1] - lengths[place + 1]), lengths[place] - sizes[place])
        sizes[place] += by
        sizes[place + 1] -= by
        its = trees.at(wanted, edge.path)
        if by and isinstance(its, trees.Split) and len(its.parts) == len(sizes):  # else one of them floats
            self._keep(trees.resized(wanted, edge.path, [max(size, 1) for size in sizes]))
            self.arrange()

    # Moving a card ------------------------------------------------------------------------------------------------

    def _goal(self, card: PanelCard, where: QPoint) -> tuple[str, Side | None, QRect]:
        """Which card is at a point of the screen, and whether its side is meant or its place."""
        point = self.mapFromGlobal(where)
        for name in self.in_sight:
            other = self._cards[name]
            box = other.geometry()
            if other.is_floating or not box.contains(point) or (name == STRIP and STRIP not in trees.names(self._tree)):
                continue
            if name == card.name:
                break
            left, top = (point.x() - box.x()) / box.width(), (point.y() - box.y()) / box.height()
            nearest = min(left, 1 - left, top, 1 - top)
            half = QSize(box.width() // 2, box.height()), QSize(box.width(), box.height() // 2)
            if nearest > 0.25:
                return name, None, box
            if nearest in (left, 1 - left):
                x = box.x() if nearest == left else box.right() - half[0].width() + 1
                return name, "left" if nearest == left else "right", QRect(QPoint(x, box.y()), half[0])
            y = box.y() if nearest == top else box.bottom() - half[1].height() + 1
            return name, "above" if nearest == top else "below", QRect(QPoint(box.x(), y), half[1])
        return "", None, QRect()

    def _show_target(self, card: PanelCard, where: QPoint) -> None:
        _, _, box = self._goal(card, where)
        self._target.setGeometry(box)
        self._target.setVisible(not box.isEmpty())
        self._target.raise_()

    def _drop(self, card: PanelCard, where: QPoint) -> None:
        """Let a card change places with another one, or stand beside it."""
        self._target.hide()
        name, side, _ = self._goal(card, where)
        if not name:
            return
        wanted = self._wanted()
        if side is None and card.name in trees.names(wanted):
            self._keep(trees.swapped(wanted, card.name, name))
        else:
            self._keep(trees.beside(wanted, card.name, name, side or "above"))
        self.arrange()

    # How it works -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make what is to be seen, and show it; until then nothing is made."""
        for _ in self.opening():
            pass

    def opening(self) -> Iterator[None]:
        """The same, one panel after the other."""
        for name in (STRIP, *map(self._front, trees.leaves(self._wanted()))):
            self._cards[name].make_panel()
            yield
        self._opened = True
        self.arrange()

    def minimumSizeHint(self) -> QSize:
        """Room for one card under a line of tokens."""
        return QSize(round(480 * _scale()), round(240 * _scale()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the room anew."""
        super().resizeEvent(event)
        self.arrange()

    def event(self, event: QEvent) -> bool:
        """Divide it anew where a card has become larger than it can be small."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.arrange()
        return super().event(event)


class _Edge(QWidget):
    """The gap between two cards, which can be pulled."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._stage = stage
        self._edge: Edge | None = None
        self._pressed = QPoint()

    def take(self, edge: Edge) -> None:
        """Be this gap."""
        self._edge = edge
        self.setCursor(Qt.CursorShape.SplitHCursor if edge.across else Qt.CursorShape.SplitVCursor)
        self.setGeometry(edge.box)
        self.show()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember where the button went down."""
        self._pressed = event.position().toPoint()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pull the edge."""
        if self._edge is not None and event.buttons() & Qt.MouseButton.LeftButton:
            way = event.position().toPoint() - self._pressed
            self._stage.move_edge(self._edge, way.x() if self._edge.across else way.y())


def _scale() -> float:
    """How much larger than usual things have to be."""
    return theme.current().grid(1) / theme.GRID
