"""Exports as the command line asks for them: the window's own, waited for until the file is there.

How each is made is the exporter's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QSize, SignalInstance

from ropewalk.app.files import animation, numbers_file
from ropewalk.app.files.requests import WriteBytes
from ropewalk.app.files.session_file import SUFFIX
from ropewalk.app.files.shot import HeadsDrawn
from ropewalk.app.lessons.loading import load_shelf
from ropewalk.model.errors import RopewalkError
from ropewalk.views.files import pictures
from ropewalk.views.files.handout import handout_turns
from ropewalk.views.files.recordings import FILMS, Shooting, recording_turns
from ropewalk.views.pictures.snapshot import settle, wait_until_drawn

if TYPE_CHECKING:
    from ropewalk.app.files.shot import Export
    from ropewalk.views.main_window import MainWindow


def bring_back(window: MainWindow, path: Path) -> None:
    """Open a session file, and wait for it.

    Raises
    ------
    RopewalkError
        With what is said against it.
    """
    sessions = window.files.sessions
    try:
        _wait(lambda: sessions.open(str(path)), sessions.finished, sessions.failed)
    except RopewalkError as error:
        gone = window.session.engines.gone
        if gone is None:
            raise
        raise RopewalkError(gone.sentence, gone.details) from error  # nobody has said why
    wait_until_drawn(window)


def write_export(window: MainWindow, export: Export) -> None:
    """Make the file that was asked for.

    Raises
    ------
    RopewalkError
        With what is said against it.
    """
    window.resize(QSize(export.width, export.height))
    window.show()
    settle(window)
    if export.lesson:
        _open_lesson(window, export.lesson)
    exporter, sessions = window.files.exporter, window.files.sessions
    if export.ending == SUFFIX[1:]:
        _wait(lambda: sessions.save_to(str(export.out)), sessions.finished, sessions.failed)
    else:
        _wait(lambda: _begin(window, export), exporter.saved, exporter.failed)


def _open_lesson(window: MainWindow, name: str) -> None:
    lesson = load_shelf().lesson(name)
    window.reveal("lesson")
    window.lesson.open(lesson, 0)
    loop = QEventLoop()
    window.lesson.player.scene_changed.connect(loop.quit)
    window.lesson.player.failed.connect(loop.quit)
    if window.lesson_scenes.scene is None:
        loop.exec()
    settle(window)


def _begin(window: MainWindow, export: Export) -> None:
    exporter, kind = window.files.exporter, export.ending
    picture = {one.name: one for one in pictures.FORMATS}
    moving = {one.name: one for one in animation.FORMATS}
    numbers = {one.name: one for one in numbers_file.FORMATS}
    if kind == "pdf" and export.lesson:
        exporter.task.run(
            handout_turns(exporter), lambda data: exporter.make(WriteBytes(export.out, data)), exporter.failed.emit
        )
    elif kind in picture and export.heads:
        drawn = HeadsDrawn(export.map, export.labels)
        exporter.heads(export.heads, drawn, picture[kind], export.out, export.scale)
    elif kind in picture:
        exporter.picture(export.panel, picture[kind], export.out, export.scale, export.paper)
    elif kind in moving:
        film = next(one for one in FILMS if one.name == export.film)
        shooting = Shooting(export.panel or film.target, export.scale, export.paper, export.film_steps)
        exporter.animation(recording_turns(film, exporter, shooting), moving[kind], export.out, shooting.target)
    elif kind in numbers:
        now, run = window.session.selection.now, window.session.run
        every = (0, 0 if run is None else run.length)
        queries = export.queries or (now.query, now.query + 1)
        if export.panel == "lens":
            exporter.lens(numbers[kind], export.out, queries)
            return
        exporter.numbers(numbers[kind], export.out, queries, export.keys or every)
    else:
        exporter.trace(export.out)


def _wait(start: Callable[[], object], done: SignalInstance, failed: SignalInstance) -> None:
    """Begin something, and run the event loop until one of its two signals has come."""
    loop = QEventLoop()
    failures: list[str] = []
    arrived: list[object] = []

    def on_done(what: object) -> None:
        arrived.append(what)
        loop.quit()

    def on_failed(sentence: str) -> None:
        failures.append(sentence)
        loop.quit()

    done.connect(on_done)
    failed.connect(on_failed)
    start()
    if not failures and not arrived:
        loop.exec()
    if failures:
        raise RopewalkError(failures[0])
