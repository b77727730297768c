"""What is printed: a terminal obeys some characters, so those of a stranger's file are shown as their escapes.

Everything that a command prints goes through :class:`Shown`, whoever prints it: a checkpoint's name, a token, a path, a
library's warning, a traceback. JSON escapes them by itself.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO, cast

OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for the end of a line and the tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f]"  # other ends of lines, and what is never seen
)
"""Characters that a terminal does something at, or that make a line look like another one."""


def shown(text: str) -> str:
    """A text with the escapes of what a terminal would obey."""
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def in_line(text: str) -> str:
    """The same for what stands in a line with something else."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


class Shown:
    """A stream that writes texts to another one as they can be shown.

    Parameters
    ----------
    bare
        Where they go.
    """

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    def write(self, text: str) -> int:
        """Write a text."""
        self.bare.write(shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


@contextlib.contextmanager
def shown_streams() -> Iterator[None]:
    """Let what is printed meanwhile be shown, never obeyed; a stream that is closed stays so."""
    with contextlib.ExitStack() as streams:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream is not None:
                streams.enter_context(redirect(cast("TextIO", Shown(stream))))
        yield


def bare(stream: TextIO) -> TextIO:
    """Where a stream goes in the end: for what a terminal is to obey, which is never a stranger's text."""
    while isinstance(stream, Shown):
        stream = stream.bare
    return stream
