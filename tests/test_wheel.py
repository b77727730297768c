"""What is installed: one name, ropewalk, that works in any folder, whatever else lies there.

The wheel is built from a copy of the tree and installed beside the packages of these tests, so nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PySide6.QtGui import QImage

from ropewalk import __version__

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("app", "model", "resources", "views")
"""Folders of a clone that are packages inside ropewalk."""
SETTINGS = ("LICENSE", "README.md", "main.py", "pyproject.toml", "setup.cfg")
INFO = f"ropewalk-{__version__}.dist-info"
OTHERS = ("app", "main", "model", "resources", "tests", "views")
"""Names that a learner's own files may well have."""
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")

SCRIPT = """
import json, sys
from importlib import import_module

import ropewalk
from ropewalk.model.progress import finished
from ropewalk.model.tokens.chat import ChatTemplate, conversation, rendered_steps

checkpoint = ropewalk.open_checkpoint(None)
trace = ropewalk.capture(checkpoint.model, checkpoint.tokenizer.encode("to be or not to be"))
said = {
    "layers": len(trace),
    "rendered": finished(rendered_steps(ChatTemplate("{{ messages[0].content }}"), conversation("hello"))),
    "files": [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "ropewalk"],
    "others": [],
}
for name in sys.argv[1:]:
    try:
        import_module(name)
    except ImportError as error:
        said["others"].append(str(error))
print(json.dumps(said))
"""
"""A run, a process of our own beside it, where all that came from, and what the names in the folder give."""


def output(*command: str | Path, cwd: Path) -> str:
    """What a command prints; it has to end well."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(clone: Path) -> Path:
    """A copy of the tree to build from, in which it has already been run; a build leaves files behind."""
    for folder in ("ropewalk", *FOLDERS):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in SETTINGS:
        shutil.copy(ROOT / name, clone / name)
    for folder in ("tests", "model/__pycache__", "resources/challenges/__pycache__"):
        (clone / folder).mkdir()
    (clone / "tests" / "__init__.py").touch()
    (clone / "model" / "__pycache__" / "errors.cpython-311.pyc").touch()
    (clone / "resources" / "challenges" / "__pycache__" / "apply_rope.cpython-311.pyc").touch()
    return clone


class Environment:
    """A new virtual environment that also sees the packages of these tests."""

    def __init__(self, folder: Path, *installed: str | Path) -> None:
        venv.create(folder, symlinks=os.name != "nt")
        places = {"base": str(folder), "platbase": str(folder)}
        scripts = Path(sysconfig.get_path("scripts", "venv", places))
        self.packages = Path(sysconfig.get_path("purelib", "venv", places))
        self.python = scripts / "python"
        self.program = scripts / "ropewalk"
        (self.packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        # ropewalk may be among the packages of these tests
        output(*PIP, "--python", self.python, "install", "--ignore-installed", *OFFLINE, *installed, cwd=folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    output(*PIP, "wheel", *OFFLINE, "--wheel-dir", folder, copied(folder / "clone"), cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A learner's folder, in which other files have the names of ours."""
    for name in OTHERS:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('the other {name}')\n", encoding="utf-8")
    return tmp_path


def test_the_wheel_holds_what_the_tree_holds_under_one_name(wheel: Path) -> None:
    tree = {f"ropewalk/{path.name}" for path in (ROOT / "ropewalk").glob("*.py")}
    for folder in FOLDERS:
        found = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        tree |= {f"ropewalk/{path.relative_to(ROOT).as_posix()}" for path in found}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith(f"{INFO}/")}
        assert archive.read(f"{INFO}/top_level.txt") == b"ropewalk\n"
        assert (
            archive.read(f"{INFO}/entry_points.txt").split()
            == b"[console_scripts] ropewalk = ropewalk.__main__:main".split()
        )
        assert f"\nVersion: {__version__}\n" in archive.read(f"{INFO}/METADATA").decode()
    assert held == tree


def test_every_version_that_is_tested_with_is_one_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in pinned.items()}
    extras = project["optional-dependencies"]
    for wanted in map(
        Requirement, [*project["dependencies"], *extras["test"], *extras["survey"], *extras["transformers"]]
    ):
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), wanted


@pytest.mark.slow
def test_the_program_runs_beside_files_of_the_same_names(environment: Environment, elsewhere: Path) -> None:
    version = f"Ropewalk {__version__}\n"
    assert output(environment.program, "--version", cwd=elsewhere) == version
    assert output(environment.python, "-m", "ropewalk", "--version", cwd=elsewhere) == version
    card = json.loads(output(environment.program, "info", "--json", cwd=elsewhere))
    assert Path(card["path"]).is_relative_to(environment.packages)


@pytest.mark.slow
def test_a_picture_of_the_window_is_drawn_by_what_was_installed(environment: Environment, elsewhere: Path) -> None:
    output(environment.program, "snapshot", "window.png", "--size", "1280x800", "--prompt", "to be", cwd=elsewhere)
    picture = QImage(str(elsewhere / "window.png"))
    assert (picture.width(), picture.height()) == (1280, 800)


@pytest.mark.slow
def test_a_script_captures_a_run_beside_files_of_the_same_names(environment: Environment, elsewhere: Path) -> None:
    (elsewhere / "script.py").write_text(SCRIPT, encoding="utf-8")
    said = json.loads(output(environment.python, "script.py", *OTHERS, cwd=elsewhere))
    assert (said["layers"], said["rendered"]) == (4, "hello")
    assert all(Path(file).is_relative_to(environment.packages / "ropewalk") for file in said["files"])
    assert len(set(said["files"])) == len(said["files"]) > 20
    assert said["others"] == [f"the other {name}" for name in OTHERS]


@pytest.mark.skipif(os.name == "nt", reason="links are a privilege there")
@pytest.mark.slow
def test_a_clone_is_installed_for_working_on_it_whatever_its_folder_is_called(tmp_path: Path) -> None:
    """Even beside the clone, where Python would take a folder ropewalk without an __init__.py for a namespace."""
    clone = copied(tmp_path / "ropewalk")
    environment = Environment(tmp_path / "environment", "--editable", clone)
    later = clone / "model" / "later.py"
    later.write_text("from ropewalk import __version__\nprint(__file__, __version__)\n", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "environment"):
        assert output(environment.python, "-c", "import ropewalk.model.later", cwd=folder) == f"{later} {__version__}\n"
    for program in (
        [environment.program],
        [environment.python, "-m", "ropewalk"],
        [environment.python, clone / "main.py"],
    ):
        assert output(*program, "--version", cwd=tmp_path) == f"Ropewalk {__version__}\n"
