"""Processes of our own: how they are started, and how they end with the one that started them."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

START = (
    "import sys; from importlib import import_module, util; "
    "spec = util.spec_from_file_location('ropewalk', sys.argv.pop(1)); "
    "sys.modules['ropewalk'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "import_module('ropewalk.model.child_process').end_with_parent(int(sys.argv.pop(1)), int(sys.argv.pop(1))); "
    "import_module(sys.argv.pop(1)).main()"
)
"""Takes the package from the file named first: neither the current folder nor the path can put another in its place."""

GRACE = 1.0
"""Seconds in which a process may end by itself when the one that started it is gone."""
LOOK = 0.5
"""Seconds between two looks at whether a process is still there, where nothing says so at once."""
MARK = "Passed a limit: "
"""Stands before the sentence of an engine's watcher, by which the window knows it."""
SAMPLE = 0.02
"""Seconds between two looks at a process that is held to a limit."""
PR_SET_PDEATHSIG = 1


def child_command(module: str, *arguments: str, tidies: bool = False) -> list[str]:
    """The command that calls ``main()`` of a module in a process of its own, which ends with this one.

    On Linux it ends with the thread that starts it, which has to be one that stays.

    Parameters
    ----------
    module
        Inside ``ropewalk``, such as ``model.tokens.chat_child``.
    arguments
        What it finds in ``sys.argv[1:]``.
    tidies
        Whether it is asked to end (SIGTERM), for it tidies up, and not killed.
    """
    package = sys.modules["ropewalk"].__file__
    assert package is not None
    ending = signal.SIGTERM if tidies or sys.platform == "win32" else signal.SIGKILL
    return [
        *(sys.executable, "-P", "-c", START, package),
        *(str(os.getpid()), str(int(ending)), f"ropewalk.{module}", *arguments),
    ]


def end_with_parent(parent: int, ending: int) -> None:
    """Have this process sent a signal as soon as the one that started it is gone: its first act.

    On Linux the system does so, whatever holds the interpreter; elsewhere a thread looks now and then.

    Parameters
    ----------
    parent
        The process that started this one.
    ending
        The signal's number.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ending)
        if os.getppid() != parent:  # it was gone before it could be named
            os.kill(os.getpid(), ending)
    else:
        import threading

        threading.Thread(target=_end_after, args=(parent, ending), daemon=True).start()


def _end_after(parent: int, ending: int) -> None:
    """Wait until a parent is gone; Windows goes on to name it, so it is looked for too."""
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(LOOK)
    os.kill(os.getpid(), ending)


def fork_watcher(reading: int | None, *, mark: str = "") -> None:
    """Fork a small process that ends this one when its input is hung up or a limit is passed, and what is of it then.

    It needs nothing of this process, so it acts too while native code holds the interpreter for ever. To be called
    before anything large is imported and before there is another thread. Where there is no ``fork``, nothing is done.

    Parameters
    ----------
    reading
        A descriptor of a pipe or socket, from which nothing is read. Once its other end is gone, this process has
        ``GRACE`` seconds to end by itself before its process group, which it leads, is killed. What cannot be hung up
        is never. None is for a process without a group of its own, of which nothing but a limit is watched.
    mark
        Stands before the sentence, on stderr, that says which limit was passed (``model.limits``).
    """
    if sys.platform == "win32":
        return
    hearing, telling = os.pipe()  # this process alone holds the writing end, and never closes it
    watched = os.getpid()
    if os.fork():
        os.close(hearing)
        os.set_blocking(telling, False)
        _TELLING.append(telling)
        return
    try:
        _keep_only(hearing, reading)
        _watch(watched, reading is not None, mark)
    finally:
        os._exit(0)


_TELLING: list[int] = []
"""Where the watcher of this process hears from it; nowhere, where there is none."""


def is_watched() -> bool:
    """Whether there is a watcher."""
    return bool(_TELLING)


def tell_watcher(line: str) -> None:
    """Say a line to the watcher, of less than what a pipe takes as a whole."""
    with suppress(OSError):  # it is gone, and holds nothing any more
        os.write(_TELLING[-1], f"{line}\n".encode("utf-8", "replace"))


def _keep_only(hearing: int, reading: int | None) -> None:
    """Keep stderr and what is heard, as 0 and 1; what else was open must not wait for this process."""
    kept = os.open(os.devnull, os.O_RDWR) if reading is None else os.dup(reading)
    hearing = os.dup(hearing)
    os.dup2(kept, 0)
    os.dup2(hearing, 1)
    os.closerange(3, 1 << 16)  # the limit itself may be without end


def _watch(watched: int, leads: bool, mark: str) -> None:
    """Wait for the end of the input (0), of the watched process (1) or of a limit, then leave nothing of its group."""
    import select

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ending = select.poll()
    ending.register(1, select.POLLHUP)
    either = select.poll()
    either.register(1, select.POLLHUP | select.POLLIN)
    if leads:
        # a socket is hung up when both directions are; half is enough here
        either.register(0, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    limits = Limits(watched)
    while os.getppid() == watched:  # a process forked from it may keep its end of the pipe
        found = dict(either.poll((SAMPLE if limits.are_set else LOOK) * 1000))
        if found.get(1, 0) & select.POLLIN:
            limits.hear(os.read(1, 1 << 16))
        elif 1 in found:
            break
        elif 0 in found:
            ending.poll(GRACE * 1000)
            break
        sentence = limits.passed()
        if sentence:
            os.write(2, f"{mark}{sentence}\n".encode())
            os.kill(watched, signal.SIGHUP)  # which ends it in any state (``model.limits``)
            if not ending.poll(GRACE * 1000):
                os.kill(watched, signal.SIGKILL)
            break
    if leads:
        os.killpg(watched, signal.SIGKILL)  # nobody else's number: this process is in the group, and ends with it


class Limits:
    """What the watcher was told to hold a process to.

    A line ``+number seconds bytes late large`` sets a limit from now on, with tabs between: ``late`` and ``large`` are
    the sentences for one that is passed. ``-number`` takes it away.
    """

    def __init__(self, watched: int) -> None:
        self._watched = watched
        self._rest = b""
        self._set: dict[str, tuple[float, int, str, str]] = {}

    @property
    def are_set(self) -> bool:
        """Whether there is a limit now."""
        return bool(self._set)

    def hear(self, data: bytes) -> None:
        """Take what the process says."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = line.decode("utf-8", "replace")
            if said.startswith("+"):
                number, seconds, grown, late, large = said[1:].split("\t")
                until = time.monotonic() + float(seconds)
                self._set[number] = (until, taken_bytes(self._watched) + int(grown), late, large)
            else:
                self._set.pop(said[1:], None)

    def passed(self) -> str:
        """What is said of a limit that was passed; empty while none was."""
        if not self._set:
            return ""
        now, taken = time.monotonic(), taken_bytes(self._watched)
        for until, most, late, large in self._set.values():
            if now > until or taken > most:
                return large if taken > most else late
        return ""


def taken_bytes(process: int) -> int:
    """Memory that a process has taken for itself: what it only maps of files counts for nothing."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{process}/statm", "rb") as file:
                _, resident, shared, *_ = map(int, file.read().split())
        except (OSError, ValueError):
            return 0
        return (resident - shared) * os.sysconf("SC_PAGESIZE")
    import psutil

    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0
