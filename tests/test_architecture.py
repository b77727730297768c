"""The map of the house names every room, and no room that is gone."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def rooms_of_the_map() -> set[str]:
    """Files and folders of the table; a name without a folder lies where the one before it in its row does."""
    found = set()
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        folder = ""
        for name in re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("| `") else ():
            folder = name.rstrip("/").rpartition("/")[0] or folder
            found.add(name if "/" in name.rstrip("/") else f"{folder}/{name}")
    return found


def test_every_room_is_on_the_map_and_every_room_of_the_map_is_there() -> None:
    named = rooms_of_the_map()
    folders = tuple(name for name in named if name.endswith("/"))
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("app", "model", "views")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(name for name in files - named if not name.startswith(folders)) == []
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Which of the modules a file imports: at its top, in a function, or for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names} | {f"{node.module}"}
    return found & modules


def test_no_files_of_the_app_import_one_another_in_a_circle() -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "app").rglob("*.py")}
    TopologicalSorter({name: imports_of(path, set(files)) for name, path in files.items()}).prepare()
