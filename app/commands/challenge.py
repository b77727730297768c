"""`ropewalk challenge`: a learner's function against the engine."""

from __future__ import annotations

import argparse
from pathlib import Path

from ropewalk.app.commands.options import Commands
from ropewalk.model.challenges.challenge import CHALLENGES
from ropewalk.model.errors import ChallengeError


def declare(commands: Commands) -> None:
    """Add the command."""
    listed = "\n".join(f"  {name:18} {what}" for name, what in CHALLENGES.items())
    challenge = commands.add_parser(
        "challenge",
        help="run a function of yours against the engine",
        description="Run a function of yours against the engine, or write a file to begin with.",
        epilog=f"challenges:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    challenge.add_argument("name", metavar="NAME", help="one of the challenges below")
    challenge.add_argument("file", type=Path, nargs="?", metavar="FILE.py", help="your file (NAME.py)")
    challenge.add_argument("--start", action="store_true", help="write a file to begin with instead")
    challenge.set_defaults(act=take_challenge)


def take_challenge(parsed: argparse.Namespace) -> None:
    """Run a learner's file, or write one to begin with."""
    from ropewalk.app.lessons.challenges import check_name, run_challenge, write_starter
    from ropewalk.app.lessons.progress import ProgressStore

    check_name(parsed.name)
    file = parsed.file or Path(f"{parsed.name}.py")
    if parsed.start:
        write_starter(parsed.name, file)
        print(f"{file}: {CHALLENGES[parsed.name]}. Then: challenge {parsed.name} {file}")
        return
    verdict = run_challenge(parsed.name, file)
    if not verdict.passed:
        if verdict.details:
            print(verdict.details)
        raise ChallengeError(verdict.sentence)
    ProgressStore().pass_challenge(parsed.name)
    print(verdict.sentence)
