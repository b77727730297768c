"""Processes of our own: how they are started, and how they end with the one that started them."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

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
LONGEST_END = 5.0
"""Seconds for which what goes on starting others is ended again and again."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36


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
    import time

    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(LOOK)
    os.kill(os.getpid(), ending)


def adopt_orphans() -> None:
    """Have whatever a process that this one started leaves behind become a child of this one, where the system can."""
    _set(PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Keep other processes of this user from this one's memory and descriptors, where the system can."""
    _set(PR_SET_DUMPABLE, 0)


def _set(what: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def end_descendants(keep: int = 0) -> None:
    """End all that this process has started, directly or not, but for one; those that come meanwhile too."""
    import time

    import psutil

    until = time.monotonic() + LONGEST_END
    while time.monotonic() < until:
        left = [one for one in psutil.Process().children(recursive=True) if one.pid != keep and _lives(one)]
        if not left:
            return
        for one in left:
            with suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(left, timeout=LOOK / 10)


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def ending(status: int) -> str:
    """How a process ended, in words."""
    if status < 0:
        with suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"


def fork_watcher(reading: int) -> int:
    """Fork a small process that ends this one when its input is hung up, and its process group when it is gone.

    It needs nothing of this process, so it acts too while native code holds the interpreter for ever. To be called
    before anything large is imported and before there is another thread, by a process that leads its process group.
    Where there is no ``fork``, nothing is done.

    Parameters
    ----------
    reading
        A descriptor of a pipe or socket, from which nothing is read. Once its other end is gone, this process has
        ``GRACE`` seconds to end by itself before its group is killed. What cannot be hung up is never.

    Returns
    -------
    int
        The number of the small process; 0 where there is none.
    """
    if sys.platform == "win32":
        return 0
    gone, _ = os.pipe()  # this process alone holds the writing end, and never closes it
    watched = os.getpid()
    if watcher := os.fork():
        os.close(gone)
        return watcher
    try:
        _keep_only(reading, gone)
        _watch(watched)
    finally:
        os._exit(0)


def _keep_only(reading: int, gone: int) -> None:
    """Keep two descriptors, as 0 and 1; what else was open must not wait for this process."""
    os.dup2(reading, 0)
    os.dup2(gone, 1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    os.closerange(3, 1 << 16)  # the limit itself may be without end


def _watch(watched: int) -> None:
    """Wait for the end of the input (0) or of the watched process (1), then leave nothing of its group."""
    import select

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ending = select.poll()
    ending.register(1, select.POLLHUP)
    either = select.poll()
    either.register(1, select.POLLHUP)
    # a socket is hung up when both directions are; half is enough here
    either.register(0, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    ended: list[tuple[int, int]] = []
    while not ended and os.getppid() == watched:  # a process forked from it may keep its end of the pipe
        ended = either.poll(LOOK * 1000)
    if ended and all(descriptor == 0 for descriptor, _ in ended):
        ending.poll(GRACE * 1000)
    os.killpg(watched, signal.SIGKILL)  # nobody else's number: this process is in the group, and ends with it
