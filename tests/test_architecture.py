"""The page that describes the project names every folder of it, and none that is gone; every folder is packaged.

Every file has one name, whatever the folder of the clone is called.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("app", "model", "views", "resources")


def folders() -> set[str]:
    """Every folder of the product with Python files in it."""
    found = {path.parent.relative_to(ROOT).as_posix() for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    return found - {"resources/challenges"}  # starters for learners: data


def test_the_page_names_every_folder_and_none_that_is_gone() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {name.rstrip("/") for name in re.findall(r"^\| `([\w/]+/)` \|", page, flags=re.MULTILINE)}
    assert named == folders() | {"ropewalk"}


def test_every_folder_is_packaged_under_one_name() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert set(settings["packages"]) == {"ropewalk"} | {f"ropewalk.{name.replace('/', '.')}" for name in folders()}


def test_no_file_has_two_names() -> None:
    """One that is imported as ``model.errors`` too has each of its classes twice."""
    import_module("ropewalk.app.commands.line")
    import_module("ropewalk.views.main_window")
    files = {name: vars(module).get("__file__") for name, module in list(sys.modules.items()) if module}
    names = [name for name, file in files.items() if file and is_ours(Path(file))]
    assert len({files[name] for name in names}) == len(names) > 100
    assert {name.partition(".")[0] for name in names} == {"ropewalk", "tests"}


def is_ours(file: Path) -> bool:
    """Whether a file belongs to the clone, and not to what is installed inside it."""
    return file.is_relative_to(ROOT) and not file.is_relative_to(sys.prefix)


def test_every_file_and_folder_says_what_it_is_about() -> None:
    for name in folders():
        for path in (ROOT / name).glob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_every_module_that_a_text_names_is_there() -> None:
    named = re.compile(r"(?:``|:\w+:`~?)((?:app|model|views)(?:\.\w+)+)")
    for name in folders() | {"tests"}:
        for path in (ROOT / name).rglob("*.py") if name == "tests" else (ROOT / name).glob("*.py"):
            for found in named.findall(path.read_text(encoding="utf-8")):
                assert is_there(found), f"{path}: {found}"


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module, or a word in one."""
    words, at = dotted.split("."), ROOT
    while words and (at / words[0]).is_dir():
        at /= words.pop(0)
    if words and (at / f"{words[0]}.py").is_file():
        source = (at / f"{words.pop(0)}.py").read_text(encoding="utf-8")
        return not words or re.search(rf"\b{words[0]}\b", source) is not None
    return not words
