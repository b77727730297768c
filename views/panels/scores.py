"""Scores, masked scores and weights of the selected head, side by side, and the selected row as bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskHead, AskRefined, AskRow, Question
from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import (
    Bools,
    HeadPatch,
    HeadPicture,
    RowReading,
    Run,
)
from ropewalk.views.panels.panel import Kept, Mark, Panel, plain_label
from ropewalk.views.panels.token_labels import TokenLabels
from ropewalk.views.panels.unchanged import WhyUnchanged, why_unchanged
from ropewalk.views.plots.arrow_keys import ArrowSlider
from ropewalk.views.plots.charts.row_bars import RowBars
from ropewalk.views.plots.maps.heatmap import Heatmap, reduction_note
from ropewalk.views.plots.maps.levels import Levels, robust, value_range
from ropewalk.views.plots.maps.token_axis import LEAST_NAMED
from ropewalk.views.style import theme, wording
from ropewalk.views.style.lettering import face

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

LOG_FLOOR = 1e-4
"""The smallest weight that the log scale tells apart from zero."""

STATES = ("before mask", "masked", "softmax")
"""What the one map shows, as the slider says it."""

BESIDE = 1.3
"""How much wider than high the panel is where the row stands beside the one map."""

SMALL = 160
"""Pixels of a map, in ordinary type, below which one stands by itself where it is larger then."""

NARROWEST = 160
"""Pixels, in ordinary type, of a row that says anything beside a map."""

LARGER = 1.2
"""How many times as wide it must be for that."""

UNBOUND = 16_777_215
"""Qt's largest size of a widget."""

_SIDES = (96, 128, 192, 256, 384, 512)


class Triptych(QWidget):
    """Three maps whose cells have the same size, or one of them; the row labels stand left of the first.

    Attributes
    ----------
    alone
        The map that is shown without the others; None shows all three.
    """

    def __init__(self, maps: tuple[Heatmap, Heatmap, Heatmap], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.maps = maps
        self.alone: Heatmap | None = None
        for heatmap in maps:
            heatmap.setParent(self)
        self.show_alone(None)

    @property
    def shown(self) -> tuple[Heatmap, ...]:
        """The maps that can be seen."""
        return self.maps if self.alone is None else (self.alone,)

    def show_alone(self, heatmap: Heatmap | None) -> None:
        """Show one map without the others, or all three."""
        self.alone = heatmap
        for one in self.maps:
            one.form.row_labels = one is self.shown[0]
            one.titles = ("query" if one is heatmap else "", "key")
            one.setVisible(one in self.shown)
        self.theme_changed()

    def theme_changed(self) -> None:
        """Take the sizes of the theme in use."""
        least = self.maps[0].minimumSizeHint()
        self.setMinimumSize(len(self.shown) * least.width(), least.height())
        self.arrange()

    @property
    def side(self) -> float:
        """Width that each map has for its cells."""
        return self.side_in(self.width())

    def side_in(self, width: int) -> float:
        """Width that each map would have for its cells."""
        margins, count = sum(heatmap.form.left_margin(0) for heatmap in self.shown), len(self.shown)
        return max((width - margins - (count - 1) * theme.GRID) / count, 0)

    def cells_in(self, width: int, height: int, count: int) -> float:
        """Width of all cells of a map where so many maps share a size."""
        shown = self.maps[0]
        form, axes = shown.form, (shown.rows_axis, shown.columns_axis)
        before, titles = (form.size, form.gutter, form.aside), [axis.title for axis in axes]
        for axis in axes:
            axis.title = ""
        gutter = form.gutter = shown.rows_axis.room(0)
        form.aside = shown.form.aside_width()
        form.size = QSize((width - (count - 1) * theme.GRID - gutter) // count + gutter, height)
        cells = form.places().step * form.extent.width()
        form.size, form.gutter, form.aside = before
        for axis, title in zip(axes, titles, strict=True):
            axis.title = title
        return cells

    def width_for(self, height: int) -> int:
        """Width that one map alone can use at a height, whatever it had before; more than that stays empty."""
        form, axis = self.shown[0].form, self.shown[0].rows_axis
        size, title = form.size, axis.title
        form.size, axis.title = QSize(height, height), ""
        around = axis.room(height / max(form.extent.height(), 1)) + form.aside_width()
        form.size, axis.title = size, title
        return math.ceil(around + face(theme.current().font("label")).height + height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place the maps."""
        self.arrange()

    def arrange(self) -> None:
        """Give each map the same room for its cells."""
        aside = max(heatmap.form.aside_width() for heatmap in self.shown)
        for heatmap in self.maps:
            heatmap.form.gutter = None
        form, rows = self.shown[0].form, self.shown[0].rows_axis
        sizes: dict[int, float] = {}
        self.shown[0].fit_titles(QSize(math.floor(self.side), self.height()))
        for pitch in (LEAST_NAMED, 0):  # names of rows need more room than numbers, and are written only in large cells
            form.gutter = rows.room(pitch)
            form.size = QSize(math.floor(form.gutter + self.side), self.height())
            step = form.places().step
            if rows.room(step) <= form.gutter:
                sizes[form.gutter] = step
        form.gutter = max(sizes, key=lambda gutter: sizes[gutter])
        side, left = self.side, 0.0
        for heatmap in self.shown:
            heatmap.form.aside, heatmap.form.gutter = aside, heatmap.form.left_margin(0)
            width = heatmap.form.gutter + side
            heatmap.setGeometry(round(left), 0, math.floor(width), self.height())
            heatmap.arrange()
            left += width + theme.GRID


class ScoresPanel(Panel):
    """The selected head from scores to weights."""

    name: ClassVar[str] = "scores"
    title: ClassVar[str] = "Scores"
    legend: ClassVar[tuple[Mark, ...]] = (
        Mark("outline", "query", "selected query"),
        Mark("outline", "key", "selected key"),
        Mark("hatch", "masked", "masked"),
    )
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head"})
    marks: ClassVar[frozenset[str]] = frozenset({"query", "key"})
    picture = Kept[HeadPicture]()
    selected_row = Kept[RowReading]()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.raw, self.masked, self.weights = Heatmap("scaled scores"), Heatmap("masked"), Heatmap("weights (softmax)")
        self.maps = (self.raw, self.masked, self.weights)
        self.triptych = Triptych(self.maps)
        self.row = RowBars()
        self.mean = self._toggle("mean", "Let a pixel show the mean of its cells; the largest when off")
        self.mean.toggled.connect(self.refresh)
        self.mean.hide()
        self.log_scale = self._toggle("log", "Spread the weights over powers of ten")
        self.log_scale.toggled.connect(self._relevel)
        self.skip_first = self._toggle(
            "without first token", "Colour without the first token: many heads rest there, and the others would be dark"
        )
        self.skip_first.toggled.connect(self._relevel)
        self.one = self._toggle(
            "one map", "Show one large map instead of three: before the mask, masked, or the weights"
        )
        self.one.toggled.connect(self._show_state)
        self.state = self._slider()
        self.state_name = plain_label("", "subtitle")
        self.head_row.addWidget(self.state)
        self.head_row.addWidget(self.state_name)
        self._asked_pixels = 0
        self._asked_row: AskRow | None = None
        self._token_labels = TokenLabels()
        self._labels: tuple[str, ...] = ()
        self.unchanged = WhyUnchanged()
        self.crowded = False
        """Whether there is no room for three maps, and one stands by itself."""
        self._plots = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._plots.setSpacing(theme.GRID)
        self._plots.addWidget(self.triptych, 4)
        self._plots.addWidget(self.row, 1)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID)
        layout.addWidget(self.unchanged)
        layout.addLayout(self._plots, 1)
        for heatmap in self.maps:
            self.hear(heatmap.picked, self._pick)
            self.hear(heatmap.pointed, self._point)
            self.hear(heatmap.viewed, self._look)
        for heatmap in self.maps[1:]:
            heatmap.link(self.raw)
        for one, other in ((self.raw, self.masked), (self.masked, self.raw)):
            one.levelled.connect(other.choose_levels)  # one colour is one number in both
        self.hear(self.row.picked, lambda key: self.session.selection.update(key=key), ScoresPanel.selected_row)
        self.hear(self.row.pointed, self._point_in_row, ScoresPanel.selected_row)
        self._show_state()

    def _toggle(self, text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setCheckable(True)
        button.setProperty("toggle", "yes")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.head_row.addWidget(button)
        return button

    def _slider(self) -> ArrowSlider:
        """What chooses the state of the one map."""
        slider = ArrowSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, len(STATES) - 1)
        slider.setValue(len(STATES) - 1)
        slider.setPageStep(1)
        slider.setFixedWidth(8 * theme.GRID)
        slider.setAccessibleName("What the map shows: before the mask, masked, or softmax")
        slider.setToolTip("From the scores before the mask over the masked ones to the weights")
        slider.valueChanged.connect(self._show_state)
        return slider

    # The panel contract -------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question:
        """Ask for the head, in no more pixels than can be told apart here."""
        for part in ("refined", "zoom"):
            self.forget(part)
        self._labels = self._token_labels.of(run)
        self._asked_pixels = self._pixels()
        self._ask_row(selection)  # here: to ask once the picture is there would cost another way to the engine and back
        return self._asking(selection.layer, selection.head)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the three pictures."""
        self.picture = reading
        answer: HeadPicture = reading.value
        name, size = wording.head_name(answer.layer, answer.head), f"{run.length} × {run.length}"
        reduced = answer.weights.reduction != "exact"
        cost = f" · all cells would be {wording.byte_size(4 * run.length**2)}" if reduced else ""
        self.describe(f"{name} · {size} · kv head {answer.kv_head}{cost}")
        self.unchanged.say(why_unchanged(self.session.interventions.now, answer.layer, answer.head))
        self.mean.setVisible(reduced)
        for heatmap in self.maps:
            heatmap.set_labels(self._labels)
        self._show_picture(answer, run)
        self._relevel()
        view = self.weights.view
        if reduced and view.width() < run.length:
            self._look(view)
        else:
            self._refine(answer, self._asking(answer.layer, answer.head))
        self._share_room()
        self.triptych.arrange()

    def show_selection(self, selection: Selection) -> None:
        """Outline the row and the column, and ask for the row in full precision."""
        if not self.isVisible():
            self.refresh()
            return
        for heatmap in self.maps:
            heatmap.set_selection(selection.query, selection.key)
        self.row.mark(selection.key)
        self._ask_row(selection)

    def show_hover(self, hover: Hover) -> None:
        """Draw the crosshair of whatever is pointed at, here or elsewhere."""
        query = -1 if hover.query is None else hover.query
        key = -1 if hover.key is None else hover.key
        for heatmap in self.maps:
            heatmap.set_hover(query, key)
        self.row.point(key)
        self.row.heading.say(readout=self._readout(query, key))

    def show_highlights(self) -> None:
        """Ring the cells that are named."""
        for heatmap in self.maps:
            heatmap.set_highlighted(frozenset(self.highlighted.get("cells", frozenset())))

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        for heatmap in self.maps:
            heatmap.theme_changed()
        self.triptych.theme_changed()
        self.row.theme_changed()
        self._show_state()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Ask for a finer picture when there is room for one."""
        super().resizeEvent(event)
        self._share_room()
        self._ask_finer()

    def _ask_finer(self) -> None:
        """Ask for the picture again where there is room for more of its pixels."""
        shown = self.picture
        coarse = shown is None or shown.weights.reduction != "exact"  # or still to come, and asked for in fewer pixels
        if coarse and self._asked_pixels and self._pixels() != self._asked_pixels:
            self.refresh()

    # How it works -------------------------------------------------------------------------------------------------

    def _asking(
        self, layer: int, head: int, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None
    ) -> AskHead:
        return AskHead(layer, head, rows, columns, self._pixels(), "mean" if self.mean.isChecked() else "max")

    def _refine(self, picture: HeadPicture, asked: AskHead) -> None:
        """Ask for all of a picture that is only sampled; parts are shown as they come."""
        if picture.weights.reduction != "sampled":
            self.forget("refined")
            return

        def arrived(refined: Reading[HeadPicture]) -> None:
            if asked.rows is None:
                self.picture = refined
                self._relevel()
            self._show_picture(refined.value, refined.run)

        for heatmap in self.maps:
            heatmap.set_note(reduction_note("sampled", max(heatmap.block), asked.reduction))
        self.ask(AskRefined(asked), arrived, "refined", self._show_part)

    def _show_part(self, part: Reading[HeadPatch]) -> None:
        """Draw a part that has been refined."""
        patch = part.value
        raw = patch.scores if patch.raw is None else patch.raw
        self.raw.patch(patch.top, patch.left, raw, np.ones(raw.shape, np.bool_))
        self.masked.patch(patch.top, patch.left, patch.scores, patch.visible)
        self.weights.patch(patch.top, patch.left, patch.weights, patch.visible)

    def next_state(self) -> None:
        """Show one map, or the next of its states."""
        if self.triptych.alone is not None:
            self.state.setValue((self.state.value() + 1) % len(STATES))
        else:
            self.one.setChecked(True)

    def _show_state(self) -> None:
        """Show all maps, or the one that the slider says."""
        alone = self.one.isChecked() or self.crowded
        self.one.setVisible(not self.crowded)
        self.state.setVisible(alone)
        self.state_name.setVisible(alone and not theme.current().projector)  # the map's title says it too
        self.state_name.setText(STATES[self.state.value()])
        self.triptych.show_alone(self.maps[self.state.value()] if alone else None)
        self._share_room()
        self._ask_finer()

    def _share_room(self) -> None:
        """Leave what the maps cannot use to the row; where there is little of it, the maps go before the row."""
        now, triptych, body = theme.current(), self.triptych, self.body
        beside = triptych.alone is not None and body.width() > BESIDE * body.height()
        left = body.width() - triptych.width_for(body.height()) - theme.GRID if beside else body.width()
        self.row.setVisible(self._is_tall and left >= now.grid(NARROWEST / theme.GRID))  # else the map has all there is
        crowded = self._is_crowded()
        if crowded != self.crowded:
            self.crowded = crowded
            self._show_state()  # which comes back here
            return
        self._plots.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)
        tallest, widest = UNBOUND, UNBOUND
        if beside:
            used = max(triptych.width_for(body.height()), triptych.minimumWidth())
            widest = UNBOUND if self.row.isHidden() else used
        else:
            tallest = max(triptych.shown[0].form.height_for(triptych.side_in(body.width())), triptych.minimumHeight())
        triptych.setMaximumSize(widest, tallest)

    @property
    def _is_tall(self) -> bool:
        """Whether there is room for the row below the maps."""
        now = theme.current()
        return self.height() >= (28 if now.projector else 18) * now.size("label")

    def _is_crowded(self) -> bool:
        """Whether three maps would be small, and one by itself larger.

        It goes by the panel's own size, and one map stays where the two are nearly alike: the head row of the one is
        not as high as that of the others.
        """
        row, left, top = self.row, self.body.x(), self.body.y()
        width, height = self.width() - 2 * left, self.height() - top - left
        above = height - (max(row.minimumSizeHint().height(), height // 5) + theme.GRID if self._is_tall else 0)
        three = self.triptych.cells_in(width, above, 3)
        if not three or three >= theme.current().grid(SMALL / theme.GRID):
            return False
        beside = width > BESIDE * height
        room = (width - row.minimumSizeHint().width() - theme.GRID, height) if beside else (width, above)
        return self.triptych.cells_in(*room, 1) > (1 if self.crowded else LARGER) * three

    def _pixels(self) -> int:
        """Pixels to ask for: no more than there are, so that none of them is lost in drawing."""
        room = min(self.triptych.side, self.triptych.height())
        return max((side for side in _SIDES if side <= room), default=_SIDES[0])

    def _show_picture(self, picture: HeadPicture, run: Run) -> None:
        scores, weights, whole = picture.scores, picture.weights, (run.length, run.length)
        raw = scores.raw if scores.raw is not None else scores.values
        everything: Bools = np.ones(raw.shape, np.bool_)
        for heatmap, tile, values, visible in (
            (self.raw, scores, raw, everything),
            (self.masked, scores, scores.values, scores.visible),
            (self.weights, weights, weights.values, weights.visible),
        ):
            heatmap.set_data(values, visible, tile.rows, tile.columns, reduction=tile.reduction, whole=whole)

    def _relevel(self, *, detail: HeadPicture | None = None) -> None:
        """Set the levels. Both score maps share theirs, so that one colour is one number.

        A softmax does not change when all scores of a row grow alike, so zero means nothing special here and the
        scores use the sequential map. The largest of many cells says nothing of the others: a part seen closer may
        have lower scores than the whole picture, and widens the levels.
        """
        picture = self.picture
        if picture is None:
            return
        start = 1 if self.skip_first.isChecked() and picture.weights.columns[0] == 0 else 0
        raw = picture.scores.raw if picture.scores.raw is not None else picture.scores.values
        low, high = value_range(raw[:, start:])
        if detail is not None:
            lower, higher = value_range(detail.scores.values if detail.scores.raw is None else detail.scores.raw)
            low, high = min(low, lower), max(high, higher)
        self.raw.set_levels(Levels(low, high))
        self.masked.set_levels(Levels(low, high))
        top, weights = 1.0, picture.weights
        if start:
            shown = weights.visible[:, start:]
            top = max(value_range(weights.values[:, start:][shown])[1], 10 * LOG_FLOOR)
        if self.log_scale.isChecked():
            levels = Levels(LOG_FLOOR, top, "log")
        else:
            levels = robust(Levels(0.0, top), weights.values, weights.visible, weights.rows[1] - weights.rows[0])
        self.weights.set_levels(levels)
        self.row.set_scale("log" if self.log_scale.isChecked() else "linear", skip_first=bool(start))

    def _ask_row(self, selection: Selection) -> None:
        """Ask for the selected row, unless it is there or on its way."""
        shown, asked = self.selected_row, AskRow(selection.layer, selection.head, selection.query)
        there = shown is not None and (shown.layer, shown.head, shown.query) == (asked.layer, asked.head, asked.query)
        if not there and not (self.awaits("row") and asked == self._asked_row):
            self._asked_row = asked
            self.ask(asked, self._show_row, "row")

    def _show_row(self, reading: Reading[RowReading]) -> None:
        self.selected_row = reading
        self.row.set_row(reading.value, self._labels)

    def _pick(self, query: int, key: int) -> None:
        self.session.selection.update(query=query, key=key)

    def _point(self, query: int, key: int) -> None:
        now = self.session.selection.now
        if query < 0 or key < 0:
            self.session.selection.point_at(Hover())
        else:
            self.session.selection.point_at(Hover(query=query, key=key, layer=now.layer, head=now.head))

    def _point_in_row(self, key: int) -> None:
        self._point(self.session.selection.now.query if key >= 0 else -1, key)

    def _look(self, view: QRectF) -> None:
        """Ask for single cells where the picture is a reduced one."""
        picture, run = self.picture, self.session.run
        if picture is None or run is None or picture.weights.reduction == "exact":
            return
        self.forget("refined")
        if view.width() >= run.length:
            self.forget("zoom")
            self._relevel()
            self._show_picture(picture, run)
            self._refine(picture, self._asking(picture.layer, picture.head))
            return
        rows = max(math.floor(view.top() + 0.5), 0), min(math.ceil(view.bottom() + 0.5), run.length)
        columns = max(math.floor(view.left() + 0.5), 0), min(math.ceil(view.right() + 0.5), run.length)
        question = self._asking(picture.layer, picture.head, rows, columns)

        def arrived(detail: Reading[HeadPicture]) -> None:
            self._relevel(detail=detail.value)
            self._show_picture(detail.value, detail.run)
            self._refine(detail.value, question)

        self.ask(question, arrived, "zoom")

    def _readout(self, query: int, key: int) -> str:
        """The cell under the pointer in words, where the picture holds that very cell."""
        if self.picture is None or query < 0 or key < 0 or max(query, key) >= len(self._labels):
            return ""
        where = f"query {query} {isolated(self._labels[query])} → key {key} {isolated(self._labels[key])}"
        index = self.weights.pixel_of(query, key)
        if index is None or self.weights.block != (1, 1):
            return where
        if self.weights.is_masked(query, key):
            return f"{where} · masked"
        score, weight = self.masked.value(query, key), self.weights.value(query, key)
        return f"{where} · score {wording.number(score)} · weight {wording.number(weight)}"
