"""Processes of our own: how they are started, and how they end with the one that started them."""

from __future__ import annotations

import os
import signal
import sys

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
    import time

    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(LOOK)
    os.kill(os.getpid(), ending)


def fork_watcher(reading: int) -> None:
    """Fork a small process that ends this one when its input is hung up, and its process group when it is gone.

    It needs nothing of this process, so it acts too while native code holds the interpreter for ever. To be called
    before anything large is imported and before there is another thread, by a process that leads its process group.
    Where there is no ``fork``, nothing is done.

    Parameters
    ----------
    reading
        A descriptor of a pipe or socket, from which nothing is read. Once its other end is gone, this process has
        ``GRACE`` seconds to end by itself before its group is killed. What cannot be hung up is never.
    """
    if sys.platform == "win32":
        return
    gone, _ = os.pipe()  # this process alone holds the writing end, and never closes it
    watched = os.getpid()
    if os.fork():
        os.close(gone)
        return
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
