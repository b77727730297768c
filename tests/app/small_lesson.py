"""The smallest lesson and a check, as text, for tests to change and to break."""

from __future__ import annotations

from pathlib import Path

from ropewalk.app.lessons.plan import Lesson
from ropewalk.app.lessons.reader import read_lesson

SMALL = """title = "T"
about = "A."
minutes = 10

[model]
kind = "shapes"
config = "llama3_8b"

[[step]]
title = "One"
show = ["ledger"]
text = '''
Line one.

Line three has {size(main, "D")}.
'''
"""
CHECK = '\n[[step.check]]\nid = "c"\nkind = "{kind}"\nask = "A?"\nwhy = "B."\n'
NUMBER_CHECK = CHECK.format(kind="number")


def read(source: str) -> Lesson:
    return read_lesson(source, Path("mine.toml"))
