"""What is exported through the window, by keys and clicks, is what was on screen; a failure is said and harmless."""

from __future__ import annotations

import csv
import errno
import io
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pypdf
import pypdfium2
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from PIL import Image
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ropewalk.model.errors import RopewalkError
from ropewalk.model.lessons.text import plain_text
from ropewalk.model.readings.readout import read_row
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.files import pictures
from ropewalk.views.files.export_dialog import PAGES, ExportDialog, FilmPage, LensPage, NumbersPage, Page, PicturePage
from ropewalk.views.files.handout import answer_spans
from ropewalk.views.files.recordings import FILMS, Shooting, recording_turns, walk_turns
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.training import TrainingPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.app.filled_lessons import SHELF
from tests.in_process import trace_of
from tests.views.driving import Shared, run_of
from tests.views.real_window import PROMPT, real_window


@pytest.fixture(scope="module")
def shared(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with real_window(tmp_path_factory.mktemp("window")) as opened:
        yield Shared(opened)


@pytest.fixture
def window(shared: Shared) -> Iterator[MainWindow]:
    yield shared.put_back()
    shared.clear()


Take = Callable[[Callable[[], object]], str]


@pytest.fixture
def take(qtbot: QtBot, window: MainWindow) -> Iterator[Take]:
    """Do something that makes a file, wait for its end, and return what was said against it."""
    saved: list[Path] = []
    failed: list[str] = []
    window.files.exporter.saved.connect(saved.append)
    window.files.exporter.failed.connect(failed.append)

    def run(start: Callable[[], object]) -> str:
        saved.clear()
        failed.clear()
        start()
        qtbot.waitUntil(lambda: bool(saved or failed), timeout=120_000)
        return "".join(failed)

    yield run
    window.files.exporter.saved.disconnect(saved.append)
    window.files.exporter.failed.disconnect(failed.append)


@pytest.fixture
def dialog(qtbot: QtBot, window: MainWindow) -> ExportDialog:
    """The dialog, opened by its key."""
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    found = window.findChild(ExportDialog)
    assert isinstance(found, ExportDialog)
    return found


def page_of(dialog: ExportDialog, title: str) -> Any:
    dialog.what.setCurrentText(title)
    return dialog.page


def choose(dialog: ExportDialog, suffix: str) -> None:
    dialog.kind.setCurrentIndex([one.name for one in dialog.page.formats()].index(suffix))


def cards_in_sight(window: MainWindow) -> dict[str, QImage]:
    return {name: pictures.to_image(card) for name, card in window.cards.items() if card.panel.on_screen}


def as_array(image: QImage) -> NDArray[np.uint8]:
    """[h, w, 3]"""
    flat = image.convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(flat.constBits(), np.uint8).reshape(flat.height(), -1)[:, : 3 * flat.width()]
    return rows.reshape(flat.height(), flat.width(), 3).copy()


def weights_panel(window: MainWindow) -> ScoresPanel:
    panel = window.panels["scores"]
    assert isinstance(panel, ScoresPanel)
    return panel


def test_the_key_opens_the_dialog_on_the_panel_in_focus(qtbot: QtBot, window: MainWindow) -> None:
    heads = window.panels["heads"]
    assert isinstance(heads, HeadsPanel)
    heads.view.setFocus()
    assert window.files.exporter.target() == "heads"
    QTest.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    found = window.findChild(ExportDialog)
    assert isinstance(found, ExportDialog)
    page = page_of(found, PicturePage.title)
    assert page.target.currentText() == "Heads"
    assert page.stem() == "heads"
    found.reject()


def test_a_picture_is_saved_as_chosen(window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path) -> None:
    page = page_of(dialog, PicturePage.title)
    page.target.setCurrentText("Scores")
    page.scale.setCurrentText("3 ×")
    choose(dialog, "png")
    assert take(lambda: dialog.save_to(str(tmp_path / "scores.png"))) == ""
    image = Image.open(tmp_path / "scores.png").convert("RGB")
    card = window.cards["scores"]
    figure = window.files.exporter.figure("scores")
    assert figure is not None
    assert image.size == (3 * card.width(), 3 * figure.size.height())
    heatmap = weights_panel(window).weights
    middle = heatmap.mapTo(card, heatmap.cell_rect(3, 1).center().toPoint())
    colour = heatmap.data.colour(3, 1)
    assert colour is not None
    assert image.getpixel((3 * middle.x(), 3 * middle.y())) == (colour.red(), colour.green(), colour.blue())
    assert window.status.what.text() == "Saved scores.png"


def test_the_ending_of_a_name_is_the_format_or_the_format_is_its_ending(
    window: MainWindow, take: Take, tmp_path: Path
) -> None:
    def saved(name: str) -> str:
        dialog = window.files.export()
        choose(dialog, "png")
        return take(lambda: dialog.save_to(str(tmp_path / name)))

    assert saved("a.unknown") == ""
    assert window.status.what.text() == "Saved a.unknown.png"
    assert (tmp_path / "a.unknown.png").read_bytes().startswith(b"\x89PNG")
    assert saved("b.SVG") == ""
    assert b"<svg" in (tmp_path / "b.SVG").read_bytes()
    before = (tmp_path / "a.unknown.png").read_bytes()
    assert saved("a.unknown") == "a.unknown.png is there already and was left as it is; choose another name."
    assert (tmp_path / "a.unknown.png").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir() if path.name[:2] in ("a.", "b.")} == {"a.unknown.png", "b.SVG"}


def test_what_was_just_written_has_its_room_in_a_picture(window: MainWindow) -> None:
    panel = window.panels["heads"]
    assert isinstance(panel, HeadsPanel)
    panel.reading.setText("L0H3")
    QApplication.processEvents()
    panel.reading.setText("L0H3 · kv0 · previous 0.657")
    window.files.exporter.be_quiet()
    assert panel.reading.width() >= panel.reading.sizeHint().width()


def test_no_page_is_without_what_a_page_must_have() -> None:
    wanted = [name for name, one in vars(Page).items() if getattr(one, "__isabstractmethod__", False)]
    assert wanted == ["formats", "stem", "save"]
    for page in PAGES:
        assert not [name for name in wanted if getattr(getattr(page, name), "__isabstractmethod__", False)], page


def test_paper_is_white_and_the_window_stays_dark(qtbot: QtBot, window: MainWindow, take: Take, tmp_path: Path) -> None:
    for name in ("", "rope"):
        check_paper(qtbot, window, take, tmp_path / f"paper-{name}.png", name)


def check_paper(qtbot: QtBot, window: MainWindow, take: Take, path: Path, name: str) -> None:
    window.reveal(name or "rope")
    qtbot.waitUntil(window.files.exporter.drawn)
    before = cards_in_sight(window)
    assert take(lambda: window.files.exporter.picture(name, pictures.FORMATS[0], path, 1, paper=True)) == ""
    pixels = np.asarray(Image.open(path).convert("L"))
    assert np.median(pixels) > 225
    assert (pixels < 90).mean() < 0.2  # what is dark is ink, not ground
    assert pixels.min() < 60
    assert theme.current().name == "dark"
    after = cards_in_sight(window)
    for card, image in before.items():
        changed = np.abs(as_array(image).astype(int) - as_array(after[card]).astype(int))
        assert np.median(changed) == 0, card
        if name not in ("", card):  # what was dressed may fit a heading anew, by a pixel
            assert not changed.any(), card


@pytest.mark.slow
def test_a_panel_behind_another_is_brought_forward_and_drawn(window: MainWindow, take: Take, tmp_path: Path) -> None:
    window.reveal("scores")
    assert not window.panels["needs"].on_screen
    path = tmp_path / "experiments.pdf"
    window.reveal("ledger")
    assert take(lambda: window.files.exporter.picture("experiments", pictures.FORMATS[2], path)) == ""
    assert "Experiments" in pypdf.PdfReader(path).pages[0].extract_text()


def test_a_picture_goes_to_the_clipboard_by_key(qtbot: QtBot, window: MainWindow) -> None:
    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    window.setFocus()
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(window, Qt.Key.Key_C, modifiers)
    qtbot.waitUntil(lambda: not clipboard.image().isNull(), timeout=30_000)
    assert clipboard.image().size() == window.size() * 2
    assert b"<svg" in clipboard.mimeData().data("image/svg+xml").data()
    clipboard.clear()


def test_a_right_click_on_a_heading_offers_its_picture(qtbot: QtBot, window: MainWindow) -> None:
    bar = window.cards["scores"].handle
    at = QPoint(5, 5)
    QApplication.sendEvent(bar, QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, bar.mapToGlobal(at)))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    names = ["A window of its own", "", "Export…", "Copy picture", "Copy picture of the window"]
    assert [action.text() for action in menu.actions()] == names
    menu.actions()[2].trigger()
    menu.close()
    found = window.findChild(ExportDialog)
    assert isinstance(found, ExportDialog)
    assert page_of(found, PicturePage.title).target.currentText() == "Scores"
    found.reject()


def test_the_file_menu_lists_its_actions_with_their_keys(window: MainWindow) -> None:
    menu = window.bar.checkpoint.menu()
    menu.aboutToShow.emit()
    texts = [action.text() for action in menu.actions() if action.text()]
    assert "Export…\tCtrl+E" in texts
    assert "Save the session\tCtrl+S" in texts
    assert "Open a session…\tCtrl+Shift+O" in texts


# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_range_are_the_engines(window: MainWindow, take: Take, tmp_path: Path) -> None:
    Ends = tuple[int, int | None]
    ranges: tuple[tuple[Ends, Ends], ...] = (
        ((5, 6), (0, None)), ((0, None), (2, 3)), ((0, None), (0, None)), ((1, 4), (0, 3))
    )  # fmt: skip
    for place, (queries, keys) in enumerate(ranges):
        check_numbers(window, take, tmp_path / f"numbers-{place}.csv", place, queries, keys)


def check_numbers(
    window: MainWindow,
    take: Take,
    path: Path,
    place: int,
    queries: tuple[int, int | None],
    keys: tuple[int, int | None],
) -> None:
    dialog = window.files.export()
    window.session.selection.update(layer=1, head=6, query=5, key=2)
    page: NumbersPage = page_of(dialog, NumbersPage.title)
    page.range.setCurrentIndex(place)
    for box, value in zip(page.corners, (1, 3, 0, 2), strict=True):
        box.setValue(value)
    choose(dialog, "csv")
    assert take(lambda: dialog.save_to(str(path))) == ""
    lines = path.read_text().splitlines()
    cells = list(csv.DictReader(line for line in lines if not line.startswith("# ")))
    handle = window.session.handle
    assert handle is not None
    rows = handle.run.length
    wanted = [(q, k) for q in range(*(n or rows for n in queries) if queries[0] else (0, queries[1] or rows))
              for k in range(keys[0], keys[1] or rows)]  # fmt: skip
    assert [(int(cell["query"]), int(cell["key"])) for cell in cells] == wanted
    for cell in cells:
        row = read_row(trace_of(handle)[1], 6, int(cell["query"]))
        # float64 sums of Dh products, added in two orders
        assert float(cell["weight"]) == pytest.approx(row.weights[int(cell["key"])], rel=1e-12)


def test_the_logit_lens_is_saved_of_a_position_or_of_all(window: MainWindow, take: Take, tmp_path: Path) -> None:
    for place, wanted in ((0, [3]), (1, list(range(run_of(window).length)))):
        dialog, path = window.files.export(), tmp_path / f"lens-{place}.npz"
        window.session.selection.update(query=3)
        page: LensPage = page_of(dialog, LensPage.title)
        page.range.setCurrentIndex(place)
        choose(dialog, "npz")
        assert take(partial(dialog.save_to, str(path))) == ""
        with np.load(path) as arrays:
            assert arrays["positions"].tolist() == wanted


def test_the_run_is_saved_as_a_trace(window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path) -> None:
    dialog.what.setCurrentText("The run, to be computed with")
    assert take(lambda: dialog.save_to(str(tmp_path / "run.safetensors"))) == ""
    run = window.session.run
    assert run is not None
    assert safetensors.numpy.load_file(tmp_path / "run.safetensors")["tokens"].shape == (1, run.length)


# Films ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_rotation_is_filmed_and_put_back_while_the_window_lives(
    window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path
) -> None:
    seen: list[str] = []
    window.session.progress_changed.connect(lambda progress: seen.append("" if progress is None else progress.what))
    window.session.selection.update(query=6, key=2)
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(0)
    choose(dialog, "webp")
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    assert take(lambda: dialog.save_to(str(tmp_path / "turn.webp"))) == ""
    assert panel.position == 6
    assert sum("Filming" in what for what in seen) > 50  # a turn of the event loop for each frame
    assert "Encoding" in " ".join(seen)
    with Image.open(tmp_path / "turn.webp") as film:
        span = panel.slider.maximum() - panel.slider.minimum()
        assert 60 <= film.n_frames <= 121  # type: ignore[attr-defined]
        card = window.cards["rope"]
        scale = max(1280 / card.width(), 1)
        assert film.size == (math.ceil(card.width() * scale), math.ceil(card.height() * scale))
        stride = -(-span // 120)
        film.seek(10)
        shown = np.asarray(film.convert("RGB"))
    panel.slider.setValue(panel.slider.minimum() + 10 * max(stride, 4))
    QApplication.processEvents()  # a longer sentence takes another line
    now = as_array(pictures.to_image(card, scale, window.files.exporter.figure("rope", moving=True)))
    assert np.mean(now == shown) > 0.995  # the tenth frame is what the slider shows there


def test_the_decode_is_filmed_and_the_view_put_back(
    window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path
) -> None:
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(1)
    page.steps.setValue(3)
    page.target.setCurrentText("Next token")
    choose(dialog, "gif")
    before = window.session.run
    assert before is not None
    assert take(lambda: dialog.save_to(str(tmp_path / "decode.gif"))) == ""
    with Image.open(tmp_path / "decode.gif") as film:
        assert film.n_frames == 4  # type: ignore[attr-defined]
        assert film.width >= 1280, "wide enough for a room"
    after = window.session.run
    assert after is not None
    assert (after.length, after.newest) == (before.length, before.length + 3)


def test_another_prompt_ends_a_film_of_the_decode(
    qtbot: QtBot, window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path
) -> None:
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(1)
    page.steps.setValue(50)

    def start() -> None:
        dialog.save_to(str(tmp_path / "decode.gif"))
        qtbot.waitUntil(lambda: "Filming" in window.status.what.text(), timeout=30_000)
        window.session.start(Prompt("something else"))

    assert take(start) == "Another prompt was run meanwhile, so there is no film of the decode."
    qtbot.waitUntil(lambda: not window.session.busy, timeout=30_000)
    assert window.session.run is not None
    assert window.session.run.prompt == "something else"


def test_another_cell_ends_a_film_of_the_rotation(
    qtbot: QtBot, window: MainWindow, dialog: ExportDialog, take: Take, tmp_path: Path
) -> None:
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(0)

    def start() -> None:
        dialog.save_to(str(tmp_path / "turn.gif"))
        qtbot.waitUntil(lambda: "Filming" in window.status.what.text(), timeout=30_000)
        window.session.selection.update(query=6, key=2)

    meanwhile = "Another prompt was run or another cell selected meanwhile"
    assert take(start) == f"{meanwhile}, so there is no film of the rotation."
    qtbot.waitUntil(lambda: not window.session.busy, timeout=30_000)
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    assert panel.position == 6


@pytest.mark.slow
def test_the_last_frame_is_not_of_a_cell_that_was_selected_in_the_turn_before(qtbot: QtBot, window: MainWindow) -> None:
    """Nobody would look at it again."""
    rotation, panel = FILMS[0], window.panels["rope"]
    turns = recording_turns(rotation, window.files.exporter, Shooting("rope", 1, False, 1))

    def film() -> None:
        for turn in turns:
            if callable(turn):
                qtbot.waitUntil(turn, timeout=30_000)
            elif turn.total > 2 and turn.done == turn.total - 1:
                window.session.selection.update(query=6, key=2)
                qtbot.waitUntil(lambda: panel.settled, timeout=30_000)

    with pytest.raises(RopewalkError, match="another cell selected meanwhile"):
        film()


def test_nothing_is_filmed_without_an_engine_and_again_with_another(
    qtbot: QtBot, window: MainWindow, take: Take, tmp_path: Path
) -> None:
    session = window.session

    def chosen() -> ExportDialog:
        dialog = window.files.export()
        page = page_of(dialog, FilmPage.title)
        page.film.setCurrentIndex(1)
        page.steps.setValue(1)
        page.target.setCurrentText("Tokens")
        choose(dialog, "gif")
        return dialog

    def die_meanwhile() -> None:
        chosen().save_to(str(tmp_path / "decode.gif"))
        session.engines.current.kill()

    assert take(die_meanwhile) == "Nothing was exported: the engine has ended meanwhile; start it again."
    dialog = chosen()
    assert dialog.why.text() == "There is no engine to film with; start it again."
    assert not dialog.save_button.isEnabled()
    dialog.reject()
    with qtbot.waitSignal(session.recovery.engine_back, timeout=30_000):
        session.recovery.restart()
    assert take(lambda: chosen().save_to(str(tmp_path / "decode.gif"))) == ""


def test_leaving_a_lesson_ends_its_film(qtbot: QtBot, lesson: MainWindow, take: Take, tmp_path: Path) -> None:
    dialog = lesson.files.export()
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(2)

    def start() -> None:
        dialog.save_to(str(tmp_path / "walk.gif"))
        qtbot.waitUntil(lambda: "Filming" in lesson.status.what.text(), timeout=30_000)
        lesson.lesson.leave()

    assert take(start) == "The lesson was walked or left meanwhile, so its own walk was ended."


def test_cancel_ends_a_film_and_puts_everything_back(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    window.session.selection.update(query=6, key=2)
    page_dialog = window.files.export()
    page_of(page_dialog, FilmPage.title)
    path = tmp_path / "turn.gif"
    page_dialog.save_to(str(path))
    task = window.files.exporter.task
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    qtbot.waitUntil(lambda: "Filming" in window.status.what.text() and panel.position > 1, timeout=30_000)
    assert window.status.cancel.isVisible()
    QTest.mouseClick(window.status.cancel, Qt.MouseButton.LeftButton)
    assert not task.busy
    assert panel.position == 6
    assert not path.exists()
    assert window.status.what.text() == "idle"


def test_an_mp4_without_ffmpeg_is_refused_before_anything_is_filmed(
    window: MainWindow, dialog: ExportDialog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    page_of(dialog, FilmPage.title)
    choose(dialog, "mp4")
    assert dialog.why.text().startswith("An MP4 needs ffmpeg")
    assert not dialog.save_button.isEnabled()
    choose(dialog, "gif")
    assert dialog.save_button.isEnabled()
    dialog.reject()


# Lessons ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lesson(qtbot: QtBot, window: MainWindow) -> MainWindow:
    """The window with a short lesson open."""
    window.resize(QSize(1600, 960))
    window.reveal("lesson")
    window.lesson.open(SHELF.lesson("1"), 1)
    qtbot.waitUntil(lambda: window.lesson_scenes.scene is not None, timeout=60_000)
    return window


@pytest.mark.slow
def test_a_lesson_becomes_a_handout(qtbot: QtBot, lesson: MainWindow, take: Take, tmp_path: Path) -> None:
    dialog = lesson.files.export()
    dialog.what.setCurrentText("The open lesson, to be printed")
    path = tmp_path / "lesson.pdf"
    assert take(lambda: dialog.save_to(str(path))) == ""
    with pypdfium2.PdfDocument(path) as pages:  # many of them, and pypdf is slow
        texts = [page.get_textpage().get_text_range() for page in pages]
    whole, answers = plain("".join(texts)), plain(texts[-1])
    opened, player = lesson.lesson.lesson, lesson.lesson.player
    assert opened is not None
    assert plain(f"{opened.number}  {opened.title}") in whole
    assert player.step == 1
    assert theme.current().name == "dark"
    number = 0
    for place in range(len(opened.steps)):
        filled = player._filled[place]
        assert plain(plain_text(filled.title)) in whole
        for paragraph in filled.text:
            for span in paragraph.spans:
                if span.kind == "value":
                    assert plain(span.text) in whole, span
        for asked in filled.checks:
            number += 1
            assert f"Question{number}" in whole
            answer = "".join(plain(span.text) for span in answer_spans(asked) if span.kind != "formula")
            assert answer in answers, answer
    assert plain("weights (softmax)") in whole  # a figure's own words
    about = pypdf.PdfReader(path).attachments["about.json"][0]
    assert b"Lesson" in about


def test_a_rotation_that_a_step_sets_going_rests_in_its_picture(qtbot: QtBot, lesson: MainWindow) -> None:
    opened, exporter = lesson.lesson.lesson, lesson.files.exporter
    assert opened is not None
    step = next(place for place, one in enumerate(opened.steps) if one.scene.play == "rotation")
    there: list[object] = []
    failed: list[str] = []
    exporter.task.run(walk_turns(lesson, exporter, step), there.append, failed.append)
    qtbot.waitUntil(lambda: bool(there or failed), timeout=60_000)
    assert failed == []
    panel = lesson.panels["rope"]
    assert isinstance(panel, RopePanel)
    assert panel.reading is not None
    assert panel.position == panel.reading.query_position
    assert not panel.timer.isActive()


def test_a_training_that_a_step_plays_has_ended_in_its_picture(qtbot: QtBot, window: MainWindow) -> None:
    opened, exporter = SHELF.lesson("17"), window.files.exporter
    step = next(place for place, one in enumerate(opened.steps) if one.scene.play == "training")
    window.reveal("lesson")
    window.lesson.open(opened, step)
    there: list[object] = []
    failed: list[str] = []
    exporter.task.run(walk_turns(window, exporter, step), there.append, failed.append)
    qtbot.waitUntil(lambda: bool(there or failed), timeout=60_000)
    assert failed == []
    panel = window.panels["training"]
    assert isinstance(panel, TrainingPanel)
    assert panel.film.slider.value() == panel.film.slider.maximum() > 0
    assert not panel.film.timer.isActive()
    assert "after 3,500 steps" in panel.subtitle.text()


@pytest.mark.slow
def test_a_lesson_walk_is_filmed(qtbot: QtBot, lesson: MainWindow, take: Take, tmp_path: Path) -> None:
    dialog = lesson.files.export()
    page: FilmPage = page_of(dialog, FilmPage.title)
    page.film.setCurrentIndex(2)
    choose(dialog, "gif")
    assert take(lambda: dialog.save_to(str(tmp_path / "walk.gif"))) == ""
    opened = lesson.lesson.lesson
    assert opened is not None
    with Image.open(tmp_path / "walk.gif") as film:
        assert film.n_frames == len(opened.steps)  # type: ignore[attr-defined]
    assert lesson.lesson.player.step == 1


def plain(text: str) -> str:
    """A text without the blanks that a PDF's lines put in or leave out."""
    return "".join(text.replace("−", "-").split())


# Failing ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_picture_and_is_reported(window: MainWindow, take: Take, tmp_path: Path) -> None:
    for kind in pictures.FORMATS:
        check_full_disk(window, take, tmp_path / kind.name, kind)


def check_full_disk(window: MainWindow, take: Take, folder: Path, kind: pictures.PictureFormat) -> None:
    folder.mkdir()
    path = folder / f"picture.{kind.name}"
    path.write_bytes(b"old")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", full)
        messages = take(lambda: window.files.exporter.picture("scores", kind, path))
    assert messages == f"picture.{kind.name} could not be written to {folder}: No space left on device."
    assert window.failure.sentence.text() == messages
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


def test_pictures_carry_the_prompt_of_the_window(window: MainWindow, take: Take, tmp_path: Path) -> None:
    path = tmp_path / "window.png"
    assert take(lambda: window.files.exporter.picture("", pictures.FORMATS[0], path)) == ""
    with Image.open(io.BytesIO(path.read_bytes())) as image:
        assert image.text["Prompt"] == PROMPT  # type: ignore[attr-defined]
        assert image.size == (window.width(), window.height())
        shown = np.asarray(image.convert("RGB"))
    status = window.status
    status.show_message("idle")
    QApplication.processEvents()
    idle = as_array(pictures.to_image(status))
    at = status.mapTo(window, QPoint(0, 0))
    found = shown[at.y() : at.y() + idle.shape[0], at.x() : at.x() + idle.shape[1]]
    assert np.mean(found == idle) > 0.99  # no progress of its own is in the picture


def test_a_panels_picture_is_a_figure(window: MainWindow, take: Take, tmp_path: Path) -> None:
    """No control in it, a line that says what it is of, and what its marks mean."""
    exporter = window.files.exporter
    window.reveal("scores")
    out = tmp_path / "scores.svg"
    svg_format = next(one for one in pictures.FORMATS if one.name == "svg")
    assert take(lambda: exporter.picture("scores", svg_format, out)) == ""
    text = " ".join("".join(one.itertext()) for one in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}text"))
    assert "weights (softmax)" in text
    for words in ("selected query", "selected key", "masked", "built-in model", "Ropewalk"):
        assert words in text
    panel = weights_panel(window)
    assert panel.log_scale.text() not in text.split()
    assert panel.skip_first.text() not in text
    figure, card = exporter.figure("scores"), exporter.widget("scores")
    assert figure is not None
    assert figure.size.width() == card.width()
    plain, drawn = as_array(pictures.to_image(card)), as_array(pictures.to_image(card, 1, figure))
    at = panel.log_scale.mapTo(card, panel.log_scale.rect().topLeft())
    box = np.s_[at.y() : at.y() + panel.log_scale.height(), at.x() : at.x() + panel.log_scale.width()]
    assert len(np.unique(plain[box].reshape(-1, 3), axis=0)) > 1
    assert len(np.unique(drawn[box].reshape(-1, 3), axis=0)) == 1, "there is nothing where the button was"


def test_rows_of_controls_are_cut_off_a_figure(window: MainWindow) -> None:
    window.reveal("rope")
    snapshot.wait_until_drawn(window)
    figure, card = window.files.exporter.figure("rope"), window.files.exporter.widget("rope")
    assert figure is not None
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    assert panel.both.isVisible()
    assert figure.hides(panel.position_label), "it belongs to the slider"
    assert panel.position_label.text() in figure.caption
    film = window.files.exporter.figure("rope", moving=True)
    assert film is not None
    assert not film.hides(panel.position_label), "in a film it is what changes"
    assert figure._bottom() < panel.both.mapTo(card, panel.both.rect().center()).y()
    assert figure._bottom() >= panel.sum_label.mapTo(card, panel.sum_label.rect().bottomLeft()).y()


def test_the_dial_is_in_a_drawing_with_its_words(window: MainWindow, take: Take, tmp_path: Path) -> None:
    window.reveal("rope")
    out = tmp_path / "rope.svg"
    svg_format = next(one for one in pictures.FORMATS if one.name == "svg")
    assert take(lambda: window.files.exporter.picture("rope", svg_format, out)) == ""
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    text = {"".join(one.itertext()) for one in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}text")}
    hand, degrees = panel.dial.names()[0], panel.dial.texts()[0][0].removeprefix("angle ")
    assert {hand, degrees, panel.score.number()} <= text
    assert panel.both.text() not in text


def test_what_is_for_reading_is_taken_whole(window: MainWindow) -> None:
    exporter = window.files.exporter
    assert exporter.figure("") is None
    assert exporter.figure("lesson") is None
