"""What a benchmark found, as plain data and as text. No torch here: the command line reads it without loading any.

A *figure* is one line of a table: how long or how much, for us and for what we are held to, their ratio, and the bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Unit = Literal["s", "ms", "B", "tokens/s", "x", ""]


@dataclass(frozen=True)
class Figure:
    """One thing that was measured.

    Attributes
    ----------
    section, what
        The table it belongs to, and what was measured.
    tokens
        T, 0 where it does not matter.
    ours, peer
        The two numbers, in ``unit``; None where there is none.
    peer_name
        What ours is held to.
    ratio
        Of the two, the way round that ``bar`` reads.
    bar
        What the ratio has to meet, such as ``<= 1.1`` or ``>= 5``; empty where nothing was promised.
    note
        How a peer failed, what limits physics sets, what was left out.
    """

    section: str
    what: str
    tokens: int = 0
    ours: float | None = None
    peer: float | None = None
    peer_name: str = ""
    unit: Unit = "s"
    ratio: float | None = None
    bar: str = ""
    note: str = ""

    @property
    def meets(self) -> bool | None:
        """Whether the ratio meets the bar; None where there is no ratio or no bar."""
        if self.ratio is None or not self.bar:
            return None
        sign, number = self.bar.split()
        return self.ratio <= float(number) if sign == "<=" else self.ratio >= float(number)


@dataclass
class Report:
    """Everything that was measured, and on what."""

    machine: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        figures = [{**asdict(figure), "meets": figure.meets} for figure in self.figures]
        return {**asdict(self), "figures": figures}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """What :meth:`to_dict` gave, as a report again.

        Raises
        ------
        KeyError, TypeError
            When the data are of another shape.
        """
        known = {one.name for one in fields(Figure)}
        figures = [Figure(**{key: value for key, value in one.items() if key in known}) for one in data["figures"]]
        return cls(**{**data, "figures": figures})

    def sections(self) -> list[str]:
        """The tables, in the order in which they were measured."""
        return list(dict.fromkeys(figure.section for figure in self.figures))

    def rows(self, section: str) -> list[tuple[str, ...]]:
        """A table as text: a heading and a line for each figure."""
        found = [figure for figure in self.figures if figure.section == section]
        lines: list[tuple[str, ...]] = [("what", "T", "ours", "peer", "ratio", "bar", "")]
        for figure in found:
            held_to = "" if figure.peer is None else f"{written(figure.peer, figure.unit)} {figure.peer_name}".rstrip()
            mark = {True: "met", False: "MISSED", None: ""}[figure.meets]
            lines.append(
                (
                    figure.what,
                    f"{figure.tokens:,}" if figure.tokens else "",
                    "" if figure.ours is None else written(figure.ours, figure.unit),
                    held_to or figure.peer_name,
                    "" if figure.ratio is None else f"{figure.ratio:.2f}",
                    f"{figure.bar} {mark}".strip(),
                    figure.note,
                )
            )
        return lines

    def markdown(self) -> str:
        """All tables of docs/performance.md, the machine described in words."""
        parts = [machine_in_words(self.machine), ""]
        for section in self.sections():
            head, *lines = self.rows(section)
            parts += [f"**{section}**", "", _line(head), _line(["---"] * len(head)), *(_line(one) for one in lines), ""]
        if self.skipped:
            parts += ["Left out: " + "; ".join(self.skipped) + ".", ""]
        return "\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def written(value: float, unit: Unit) -> str:
    """A number with its unit, three figures."""
    if unit == "B":
        return bytes_written(value)
    if unit == "s" and value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:,.3g} {unit}".rstrip() if value < 1000 else f"{value:,.0f} {unit}".rstrip()


def bytes_written(count: float) -> str:
    """Bytes in binary units, three figures."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def machine_in_words(machine: dict[str, Any]) -> str:
    """One sentence on what was measured on."""
    if not machine:
        return ""
    m = machine
    return (
        f"Measured with {m['threads']} threads on {m['cores']} cores ({m['processor']}) and "
        f"{bytes_written(m['memory'])} of memory, of which {bytes_written(m['copy_bandwidth'])} a second are copied; "
        f"{m['system']}, Python {m['python']}, torch {m['torch']}, OpenMP waiting policy {m['wait_policy']}; "
        f"{m['load']:.1f} other processes were busy at the start."
    )
