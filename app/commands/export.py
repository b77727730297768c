"""`ropewalk export`: pictures, animations, numbers, runs, handouts and sessions, told apart by the file's ending.

What makes them is handed in, as for `snapshot`: commands never import views.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ropewalk.app.commands.options import Commands, head_address
from ropewalk.app.commands.output import check_folder
from ropewalk.app.commands.snapshot import window_fields, window_options
from ropewalk.app.files import animation, numbers_file
from ropewalk.app.files.session_file import SUFFIX
from ropewalk.app.files.shot import Export, Range, TakeShot
from ropewalk.model.errors import RopewalkError

PICTURES: Final = ("png", "svg", "pdf")
ANIMATIONS: Final = tuple(one.name for one in animation.FORMATS)
NUMBERS: Final = tuple(one.name for one in numbers_file.FORMATS)
TRACE: Final = "safetensors"
SESSION: Final = SUFFIX[1:]
ENDINGS: Final = (*PICTURES, *ANIMATIONS, *NUMBERS, TRACE, SESSION)
FILMS: Final = ("rotation", "decode", "lesson")
DRAWN: Final = (*PICTURES, *ANIMATIONS)
LENS: Final = "lens"
"""The panel that has numbers of its own."""
FITS: Final = {
    "panel": DRAWN,
    "scale": ("png", *ANIMATIONS),
    "paper": DRAWN,
    "film": ANIMATIONS,
    "film_steps": ANIMATIONS,
    "queries": NUMBERS,
    "keys": NUMBERS,
    "heads": PICTURES,
    "map": PICTURES,
    "labels": PICTURES,
}
"""Which files an option can change."""


def declare(commands: Commands) -> None:
    """Add the command."""
    export = commands.add_parser(
        "export",
        help="take home a picture, an animation, numbers, a run, a handout or a session",
        description="Take something home; what it is follows from the ending of the file.",
    )
    export.add_argument("out", type=ending, metavar="OUT", help=f"a file that ends in one of {', '.join(ENDINGS)}")
    window_options(export)
    export.add_argument("--session", type=Path, metavar="FILE", help="begin from a session file")
    export.add_argument("--scale", type=int, choices=(1, 2, 3, 4), default=1, help="pixels for each one (1)")
    export.add_argument("--paper", action="store_true", help="dark on white")
    export.add_argument("--film", choices=FILMS, default="rotation", help="what moves in an animation (rotation)")
    export.add_argument("--film-steps", type=int, default=12, metavar="N", help="tokens decoded in a film (12)")
    export.add_argument("--lesson", default="", metavar="NAME", help="open a lesson; a PDF is then its handout")
    export.add_argument("--queries", type=rows, metavar="A:B", help="rows of the numbers, B left out (the selected)")
    export.add_argument("--keys", type=rows, metavar="A:B", help="columns of the numbers, B left out (all)")
    export.add_argument(
        "--heads", type=head_list, default=(), metavar="L8H1,L2H4", help="draw the maps of these heads side by side"
    )
    export.add_argument("--map", choices=("weights", "scores"), default="weights", help="of --heads (weights)")
    export.add_argument("--labels", choices=("tokens", "positions"), default="tokens", help="of --heads (tokens)")
    export.set_defaults(act=take)


def take(parsed: argparse.Namespace) -> None:
    """Make the file."""
    check_folder(parsed.out)
    own = ("scale", "paper", "film", "film_steps", "lesson", "queries", "keys", "session", "heads", "map", "labels")
    export = Export(**window_fields(parsed), **{name: getattr(parsed, name) for name in own})
    _check_options(export)
    take_shot: TakeShot = parsed.take_shot
    take_shot(export)
    print(parsed.out)


def _check_options(export: Export) -> None:
    """Refuse what would change nothing of such a file."""
    of_lens = export.panel == LENS and export.ending in NUMBERS
    fits = FITS | ({"panel": NUMBERS, "keys": ()} if of_lens else {})
    for name, endings in fits.items():
        if getattr(export, name) != getattr(Export, name) and export.ending not in endings:
            instead = f", or write one of {', '.join(endings)}" if endings else "; the logit lens has no keys"
            raise RopewalkError(
                f"--{name.replace('_', '-')} changes nothing in a file that ends in {export.ending}; leave it out"
                f"{instead}."
            )
    for name in ("map", "labels"):
        if not export.heads and getattr(export, name) != getattr(Export, name):
            raise RopewalkError(f"--{name} says how heads are drawn; name some, such as --heads L1H3,L0H2.")
    for name in ("panel", "lesson", "paper"):
        if export.heads and getattr(export, name):
            raise RopewalkError(f"--heads draws maps on paper, without the window; leave --{name} out.")
    if export.ending == "pdf" and export.lesson and export.panel:
        raise RopewalkError(
            "A PDF of a lesson is its handout, which has the panels of its steps; leave --panel out, or write an svg."
        )


def ending(text: str) -> Path:
    """A file of a kind that can be made."""
    path = Path(text)
    if path.suffix[1:].lower() not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in one of {', '.join(ENDINGS)}")
    return path


def head_list(text: str) -> tuple[tuple[int, int], ...]:
    """Heads between commas, such as ``L8H1,L2H4``."""
    heads = []
    for one in text.split(","):
        fields = dict(head_address(one))
        if set(fields) != {"layer", "head"}:
            raise argparse.ArgumentTypeError(f"{one.strip()!r} names no head; write them like L8H1,L2H4")
        heads.append((fields["layer"], fields["head"]))
    return tuple(heads)


def rows(text: str) -> Range:
    """A half-open range such as ``0:5``."""
    start, colon, stop = text.partition(":")
    if not (colon and start.isdecimal() and stop.isdecimal() and int(start) < int(stop)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0:5")
    return int(start), int(stop)
