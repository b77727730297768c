"""The walk: one block as coloured matrices that flow into each other, a key press a step.

The matrices are painted by ``views.plots.block_view`` and told of in ``views.panels.walk_words``; which step is on is
kept by the session, since the ledger lights it and a lesson moves it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QHideEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QToolButton, QToolTip, QVBoxLayout, QWidget

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskWalk, Question
from ropewalk.model.ledger.walk import WalkStep
from ropewalk.model.readings.records import Run, WalkReading
from ropewalk.views import keys
from ropewalk.views.panels.panel import NOTHING_YET, Kept, Mark, Panel, plain_label
from ropewalk.views.panels.walk_words import Told, sentence
from ropewalk.views.plots.block_view import BlockView, Marked, Spot
from ropewalk.views.style import icons, ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

BUTTONS = {"walk_start": "to_start", "walk_back": "step_back", "walk_on": "step", "walk_end": "to_end"}
"""Actions, and the icons that their buttons share with the steps of a decoder."""

KINDS = {
    **dict.fromkeys(("q", "rope_q"), "query"),
    "k": "key",
    **dict.fromkeys(("v", "blend"), "value"),
}
"""Steps whose segment has the colour of what they make."""


class StepRail(QWidget):
    """All steps in a row: those that are done, the one that is on, and those to come."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.steps: tuple[WalkStep, ...] = ()
        self.place = 0
        self.setMouseTracking(True)
        self.setAccessibleName("Steps of the walk")

    def show_steps(self, steps: tuple[WalkStep, ...], place: int) -> None:
        """Show which of the steps is on."""
        self.steps, self.place = steps, place
        self.setAccessibleDescription(self.text(place) if steps else "")
        self.update()

    def text(self, place: int) -> str:
        """A step by its number and name."""
        return f"{place + 1} of {len(self.steps)}: {self.steps[place].title}"

    def box(self, place: int) -> QRectF:
        """The segment of a step."""
        width, gap = self.width() / max(len(self.steps), 1), theme.current().grid(0.25)
        return QRectF(place * width + gap / 2, 0, width - gap, self.height())

    def sizeHint(self) -> QSize:
        """A thin line."""
        return QSize(100, theme.current().grid(1.25))

    def minimumSizeHint(self) -> QSize:
        """As thin, and as narrow as it must."""
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a segment for each step."""
        painter, look = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for place, step in enumerate(self.steps):
            colour = ink.kind_colour(KINDS.get(step.key, ""), look) if step.key in KINDS else look.faint
            if place > self.place:
                colour = ink.mixed(look.panel, colour, 0.3)
            painter.setBrush(look.accent if place == self.place else colour)
            thin = 0.0 if place == self.place else self.height() * 0.25
            box = self.box(place).adjusted(0, thin, 0, -thin)
            painter.drawRoundedRect(box, 2, 2)
        painter.end()

    def at(self, x: float) -> int:
        """The step at a place from the left; −1 where there is none."""
        place = int(x / max(self.width(), 1) * len(self.steps))
        return place if x >= 0 and place < len(self.steps) else -1

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go to the step that is clicked."""
        place = self.at(event.position().x())
        if place >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.chosen.emit(place)

    def event(self, event: QEvent) -> bool:
        """Name the step under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            place = self.at(event.pos().x())
            QToolTip.showText(event.globalPos(), self.text(place) if place >= 0 else "", self)
            return True
        return super().event(event)


class WalkPanel(Panel):
    """Shows one block for the selected head, step by step."""

    name: ClassVar[str] = "walk"
    title: ClassVar[str] = "Walk"
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query"})
    marks: ClassVar[frozenset[str]] = frozenset({"key"})
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "query", "selected token's row"),
        Mark("outline", "key", "selected key's column"),
        Mark("outline", "accent", "the number that is explained"),
        Mark("hatch", "masked", "masked"),
    )
    walked = Kept[WalkReading]()

    LOW = 17
    """Lines of type below which there is no room for the sentence."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._shown = ("", -1)
        """The step that is painted, by its key and place."""
        self._feature = 0
        self.view, self.rail = BlockView(), StepRail()
        self.words = plain_label("", "body")
        self.words.setWordWrap(True)
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons: dict[str, QToolButton] = {}
        moves = {
            "walk_start": partial(session.walk.go_to, 0),
            "walk_back": partial(session.walk.move, -1),
            "walk_on": partial(session.walk.move, 1),
            "walk_end": lambda: session.walk.go_to(len(session.walk.steps) - 1),
        }
        for name, move in moves.items():
            button = self.buttons[name] = QToolButton()
            button.setToolTip(wording.tooltip(keys.tip(name)))
            button.setAccessibleName(keys.action(name).text)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setAutoRaise(True)
            button.clicked.connect(move)
            self.head_row.addWidget(button)
        self.with_body = tuple(self.buttons.values())
        self.explain(NOTHING_YET)
        self.rail.chosen.connect(session.walk.go_to)
        self.hear(self.view.spot_clicked, self._select)
        self.hear(self.view.spot_pointed, self._point)
        self.hear(self.view.moved, self._move)
        session.walk.moved.connect(self._on_moved)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID)
        layout.addWidget(self.rail)
        layout.addWidget(self.words)
        layout.addWidget(self.view, 1)
        self.theme_changed()

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the whole block of the selected head, so that no step has to wait; not for a token that is there."""
        known = self.walked
        if known is not None and (known.layer, known.head) == (selection.layer, selection.head):
            every = known.rows == (0, run.length)
            if every or known.query == selection.query:
                return None
        return AskWalk(selection.layer, selection.head, selection.query)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Show the step that is on with other numbers; nothing flows, since nothing was walked."""
        if reading is None:
            return
        self.walked = reading
        self.view.show_reading(reading.value, run.tokens, run.specs[selection.layer].head_width)
        steps = self.session.walk.steps
        if self.view.progress < 1.0 and self.view.step == steps[self.session.walk.place]:
            self.view.lay_out()  # what flows goes on, with other numbers
        else:
            self._show_step(flows=False)

    def show_selection(self, selection: Selection) -> None:
        """Mark the selected row and column, and tell of them."""
        self.view.mark(Marked(selection.query, selection.key, self._feature))
        self._tell()

    def show_hover(self, hover: Hover) -> None:
        """Leave what other panels point at to them."""

    def theme_changed(self) -> None:
        """Take new icons and colours."""
        for name, button in self.buttons.items():
            button.setIcon(icons.icon(BUTTONS[name]))
            button.setIconSize(QSize(icons.side(), icons.side()))
        self._make_room()
        self.view.theme_changed()
        self.rail.updateGeometry()
        self.rail.update()

    def close_down(self) -> None:
        """Stop what flows."""
        super().close_down()
        self.view.timer.stop()

    def showEvent(self, event: QShowEvent) -> None:
        """Let the ledger light the step."""
        super().showEvent(event)
        self.session.walk.show(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Put the light out."""
        super().hideEvent(event)
        self.session.walk.show(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the room to the matrices where there is little of it."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        self.words.setVisible(self.height() >= self.LOW * theme.current().size("label"))

    # Steps --------------------------------------------------------------------------------------------------------

    def _on_moved(self) -> None:
        walk, reading = self.session.walk, self.walked
        steps = walk.steps
        if reading is None or reading.layer != self.session.selection.now.layer:
            return  # the block is still to come, and with it the step
        if self._shown != (steps[walk.place].key, walk.place):
            self._show_step(flows=walk.place > self._shown[1])
            self._tell()

    def _show_step(self, *, flows: bool) -> None:
        walk = self.session.walk
        steps, place = walk.steps, walk.place
        if not steps:
            return
        self._shown = steps[place].key, place
        self.view.show_step(steps[place], flows=flows)
        self.rail.show_steps(steps, place)
        for name, button in self.buttons.items():
            button.setEnabled(place > 0 if name in ("walk_start", "walk_back") else place < len(steps) - 1)
        selection = self.session.selection.now
        head = wording.head_name(selection.layer, selection.head)
        self.describe(f"{head} · step {self.rail.text(place)}")

    def _tell(self) -> None:
        """Say what happens to the number that is marked."""
        reading, run, focus = self.walked, self.session.run, self.view.focus
        if reading is None or run is None or focus is None or self.view.step is None:
            return
        now = self.session.selection.now
        told = Told(
            reading,
            self.view.step,
            run.config,
            run.specs[reading.layer],
            run.tokens,
            now.query,
            now.key,
            focus,
        )
        text = sentence(told)
        self.words.setText(text)
        self.view.setAccessibleDescription(text)

    # Hands --------------------------------------------------------------------------------------------------------

    def _select(self, spot: Spot) -> None:
        """Select the token, the key or the feature that is clicked."""
        reading = self.walked
        if reading is None:
            return
        matrix, changes = reading.matrices[spot.key], dict[str, int]()
        for axis, at, first in ((0, spot.row, matrix.rows[0]), (1, spot.column, matrix.columns[0])):
            what = matrix.axes[axis]
            if what == "token" and reading.rows[1] - reading.rows[0] > 1:
                changes["query"] = first + at
            elif what == "key":
                changes["key"] = first + at
            elif axis == 1 and what not in ("one", "plane"):
                self._feature = at if what != "heads" else at % self.view.width_of_head
                if what == "heads" and matrix.kind == "query":
                    changes["head"] = (first + at) // self.view.width_of_head
        self.session.selection.update(**changes)
        self.show_selection(self.session.selection.now)

    def _move(self, across: int, down: int) -> None:
        """Go to another token, key or feature."""
        reading, now, focus = self.walked, self.session.selection.now, self.view.focus
        if reading is None or focus is None:
            return
        matrix = reading.matrices[focus.key]
        if down:
            self.session.selection.update(query=now.query + down)
        if across and matrix.axes[1] == "key":
            self.session.selection.update(key=now.key + across)
        elif across:
            self._feature = min(max(self._feature + across, 0), matrix.values.shape[1] - 1)
            self.show_selection(self.session.selection.now)

    def _point(self, spot: Spot | None) -> None:
        """Explain what is pointed at, here and in the other panels."""
        reading, hover = self.walked, Hover()
        if spot is not None and reading is not None:
            matrix = reading.matrices[spot.key]
            if matrix.axes == ("token", "key"):
                hover = Hover(query=matrix.rows[0] + spot.row, key=spot.column)
        self.session.selection.point_at(hover)
        self._tell()
