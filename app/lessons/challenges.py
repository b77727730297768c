"""Build challenges: writes starter files, runs a learner's file in a process of its own, and brings back the verdict.

The learner's code never runs in this process, nor in the one that judges it, whose child its process is. It is stopped
after some seconds, or when it takes too much memory; if it takes its whole process down, that is a verdict too. No
torch here: those load it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ropewalk.model.challenges.challenge import CHALLENGES, Verdict, read_verdict
from ropewalk.model.child_process import child_command
from ropewalk.model.descendants import LONGEST, ending, nothing_left
from ropewalk.model.errors import ChallengeError
from ropewalk.resources import resource

"""What the other process runs: our packages come before whatever lies beside the learner's file."""
STARTERS = resource("challenges")
LARGEST = 1_000_000
"""Bytes of a learner's file; a larger one is something else."""


@dataclass(frozen=True)
class Limits:
    """What a learner's code may take.

    Attributes
    ----------
    seconds
        From when torch is loaded.
    memory
        MiB beyond what torch itself takes.
    start_seconds
        How long loading torch may take before something is plainly wrong.
    """

    seconds: float = 20.0
    memory: int = 1024
    start_seconds: float = 120.0


def check_name(name: str) -> None:
    """Refuse a challenge that does not exist.

    Raises
    ------
    ChallengeError
        With those there are.
    """
    if name not in CHALLENGES:
        near = get_close_matches(name, CHALLENGES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CHALLENGES)}."
        raise ChallengeError(f"There is no challenge {name!r}; {hint}")


def starter(name: str) -> str:
    """The text of a starter file."""
    check_name(name)
    return (STARTERS / f"{name}.py").read_text(encoding="utf-8")


def write_starter(name: str, path: Path) -> None:
    """Write a starter file, never over a file that is there.

    Raises
    ------
    ChallengeError
        When there is a file of that name, or no such folder.
    """
    text, is_ours = starter(name), False
    try:
        with path.open("x", encoding="utf-8") as file:
            is_ours = True
            file.write(text)
    except FileExistsError as error:
        raise ChallengeError(f"{path} is there already; give another name, or run the challenge on it.") from error
    except OSError as error:
        if is_ours:  # of no use without all of it, and in the way of the next try
            with suppress(OSError):
                path.unlink()
        raise ChallengeError(f"{path} cannot be written: {error.strerror or error}.") from error


def run_challenge(name: str, path: Path, limits: Limits | None = None) -> Verdict:
    """Run a learner's file against the engine.

    Raises
    ------
    ChallengeError
        When there is no such challenge or no such file.
    """
    check_name(name)
    limits = limits or Limits()
    _check_file(path)
    # the code may end the process that judges it, and what that would have ended is then left to this one
    with tempfile.TemporaryDirectory(prefix="ropewalk-challenge-") as folder, nothing_left():
        stays, held = os.pipe()  # hung up when this process is gone, whatever ended it
        process = subprocess.Popen(
            child_command("model.challenges.judging", *_arguments(name, path, limits), tidies=True),
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=stays,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=limits.start_seconds + limits.seconds + LONGEST)
        except subprocess.TimeoutExpired:
            return Verdict(
                "limit", f"It ran for more than {limits.seconds:g} seconds and was stopped; is there a loop?"
            )
        finally:
            _end(process)
            os.close(stays)
            os.close(held)
        with suppress(ValueError):
            if not process.returncode:  # else whatever was said was not said by the process that judges
                return read_verdict(said.decode())
        return Verdict("error", f"{path.name} took the whole process down ({ending(process.returncode)}).")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the process that judges end all that the learner's code has started, then itself and its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST)
    process.kill()
    process.wait()
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):  # as a rule there is nothing left
            os.killpg(process.pid, signal.SIGKILL)


def _arguments(name: str, path: Path, limits: Limits) -> tuple[str, ...]:
    return name, str(path.resolve()), str(limits.seconds), str(limits.memory), str(limits.start_seconds)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ChallengeError(f"There is no file {path}; 'challenge NAME --start' writes one to begin with.")
    if path.stat().st_size > LARGEST:
        raise ChallengeError(f"{path.name} has {path.stat().st_size:,} bytes, too many for a challenge.")
