"""How a head and a cell are written: ``L2H5``, and what else a person may type for them.

Counts from zero, as everywhere. It checks the form only; whether the model has such a head is for the selection.
"""

from __future__ import annotations

import re

from ropewalk.model.codec import short
from ropewalk.model.errors import RopewalkError

HEAD = re.compile(
    r"L\s*(?P<l1>\d{1,9})\s*H\s*(?P<h1>\d{1,9})"
    r"|(?:blocks?|layers?)[\s.]*(?P<l2>\d{1,9})[\s.,]*(?:attn\.)?(?:heads?)[\s.]*(?P<h2>\d{1,9})"
    r"|(?<![\d.=])(?P<l3>\d{1,9})\s*[./]\s*(?P<h3>\d{1,9})(?![\d.])",
    re.IGNORECASE,
)
FIELD = re.compile(r"\b(?P<name>query|key|plane|q|k|p)\s*=\s*(?P<value>\d{1,9})", re.IGNORECASE)
FIELDS = {"q": "query", "k": "key", "p": "plane", "query": "query", "key": "key", "plane": "plane"}


class AddressError(RopewalkError):
    """Text that names no head and no cell."""


def head_name(layer: int, head: int) -> str:
    """How a head is written everywhere: ``L2H5``."""
    return f"L{layer}H{head}"


def read_address(text: str) -> dict[str, int]:
    """Read what a person typed into fields of the selection.

    Parameters
    ----------
    text
        Such as ``L1H3 q=4 k=2``, ``2.5``, ``2/5``, ``blocks.2 head 5`` or ``q=4``.

    Returns
    -------
    dict
        Some of layer, head, query, key, plane.

    Raises
    ------
    AddressError
        When something in it is not understood.
    """
    fields: dict[str, int] = {}
    rest = text
    head = HEAD.search(rest)
    if head is not None:
        fields["layer"], fields["head"] = (int(group) for group in head.groups() if group is not None)
        rest = rest[: head.start()] + " " + rest[head.end() :]
    for match in FIELD.finditer(rest):
        fields[FIELDS[match["name"].lower()]] = int(match["value"])
    left = FIELD.sub(" ", rest).strip(" \t\n,;")
    if left or not fields:
        raise AddressError(
            f"{short(left or text)!r} names no head and no cell; "
            "write it like L1H3, 1.3, 'blocks.1 head 3' or 'L1H3 q=4 k=2'."
        )
    return fields


def read_head(text: str, layers: int, heads: int) -> tuple[int, int]:
    """Read the (layer, head) that a person typed, of a model that has so many.

    Raises
    ------
    AddressError
        When it names no head, or none of this model.
    """
    fields = read_address(text)
    if set(fields) != {"layer", "head"}:
        raise AddressError(f"{short(text.strip())!r} names no head; write it like L1H3.")
    check_head(fields["layer"], fields["head"], layers, heads)
    return fields["layer"], fields["head"]


def check_head(layer: int, head: int, layers: int, heads: int) -> None:
    """Refuse a head that a model of so many has not.

    Raises
    ------
    AddressError
        With what it has.
    """
    if layer >= layers or head >= heads:
        raise AddressError(
            f"There is no {head_name(layer, head)}: this model has {layers} layers of {heads} heads, from L0H0 to "
            f"{head_name(layers - 1, heads - 1)}."
        )
