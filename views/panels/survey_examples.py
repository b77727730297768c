"""Where the chosen head of a survey looks hardest: texts with their query and key; a click opens one at that cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ropewalk.model.readings.records import TokenText
from ropewalk.views.panels.panel import Mark
from ropewalk.views.panels.survey_panel import SurveyPanel
from ropewalk.views.plots.survey.example_list import ExampleList, ExampleText
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


def running(tokens: Sequence[TokenText]) -> tuple[str, ...]:
    """Tokens as running text: spaces are spaces, and a character of several tokens stands at the first of them."""
    return tuple(
        token.text.replace("·", " ") if token.group < 0 or token.kind != "bytes" else token.character
        for token in tokens
    )


class SurveyExamplesPanel(SurveyPanel):
    """The texts with the largest values of the chosen statistic."""

    name: ClassVar[str] = "survey_examples"
    title: ClassVar[str] = "Examples"
    legend: ClassVar[tuple[Mark, ...]] = (Mark("outline", "query", "query"), Mark("line", "key", "key"))

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.list = ExampleList()
        self.hear(self.list.opened, self._open)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list)

    def show_read(self) -> None:
        """Say whose examples these are, and list what has come."""
        read = self.surveys.read
        name, statistic = wording.head_name(*self.surveys.head), self.surveys.titled(self.surveys.statistic)
        texts = wording.counted(statistic.count, "text")
        self.describe(f"{name} · largest {statistic.title} in {texts} · a click opens the text at that cell")
        self.list.show_examples(
            ()
            if read is None
            else [
                ExampleText(running(one.tokens), one.query, one.key, one.value, f"text {one.text}")
                for one in read.examples
            ]
        )

    def show_choice(self) -> None:
        """Show those of another head as soon as they have been read; until then those before stay, with its name."""
        if self.surveys.read is not None:
            self.show_read()

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.list.theme_changed()

    def _open(self, place: int) -> None:
        read = self.surveys.read
        if read is not None and place < len(read.examples):
            self.surveys.open_example(read.examples[place])
