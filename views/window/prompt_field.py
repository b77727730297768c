"""The field of the prompt: one line, which shows where there is more of it than can be seen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF
from PySide6.QtGui import QColor, QFocusEvent, QHelpEvent, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QToolTip

from ropewalk.views import keys
from ropewalk.views.style import ink, theme, wording

MORE = "…"


class PromptField(QLineEdit):
    """Text to run. Without the keys it shows its beginning, and all of it in a tooltip."""

    @property
    def is_cut(self) -> bool:
        """Whether there is more than can be seen."""
        room = self.contentsRect().width() - 2 * theme.GRID
        return self.fontMetrics().horizontalAdvance(self.text()) > room

    def setText(self, text: str | None) -> None:
        """Take another text, and show its beginning."""
        super().setText(text)
        self.setCursorPosition(0)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Go back to the beginning."""
        super().focusOutEvent(event)
        if not self.hasSelectedText():
            self.setCursorPosition(0)

    def event(self, event: QEvent) -> bool:
        """Say all of what cannot be seen."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            tip = keys.tip("focus_prompt")
            QToolTip.showText(
                event.globalPos(), wording.tooltip(f"{self.text()}\n\n{tip}" if self.is_cut else tip), self
            )
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Let the end fade where the text goes on."""
        super().paintEvent(event)
        if self.hasFocus() or not self.is_cut:
            return
        now, box = theme.current(), QRectF(self.contentsRect()).adjusted(2, 2, -2, -2)
        dots = ink.text_width(now.font("body"), MORE) + now.grid(1)
        fade = QRectF(box.right() - dots - now.grid(4), box.top(), dots + now.grid(4), box.height())
        clear, ground = QColor(now.field), QLinearGradient(fade.topLeft(), fade.topRight())
        clear.setAlpha(0)
        ground.setColorAt(0, clear)
        ground.setColorAt(now.grid(4) / fade.width(), now.field)
        painter = QPainter(self)
        painter.fillRect(fade, ground)
        ink.draw_text(painter, fade.adjusted(0, 0, -now.grid(0.5), 0), MORE, now.font("body"), now.text, ink.RIGHT)
        painter.end()
