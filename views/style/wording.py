"""How numbers, sizes and places are written, the same in every panel."""

from __future__ import annotations

import html
import math
from pathlib import PurePath

from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.options import ADAPTER, VIA, Options

MINUS = "\N{MINUS SIGN}"
LONGEST_TIP = 4_000
"""Letters of a tooltip: a note or a prompt may be a book, which no screen shows and which takes seconds to lay out."""
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))


def head_name(layer: int, head: int) -> str:
    """Write a head as ``L2H5``."""
    return f"L{layer}H{head}"


def number(value: float, digits: int = 3) -> str:
    """Write a value for reading: ``digits`` decimals below 10, fewer above, powers of ten for the very small."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size and (size < 0.5 * 10**-digits or size >= 1e7):
        mantissa, exponent = f"{size:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{size:.{_decimals(size, digits)}f}"
    return (f"-{text}" if value < 0 else text).replace("-", MINUS)


def significant(value: float, figures: int = 3) -> str:
    """Write an angle or a rate with so many figures whatever its size, as ``12.6`` or ``0.00316``."""
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return number(value, 0)
    digits = figures - 1 - int(f"{size:.{figures - 1}e}".split("e")[1])  # rounded first: 0.00999… is 0.0100
    if digits > figures + 2:
        return number(value, 1)
    return f"{value:.{max(digits, 0)}f}".replace("-", MINUS)


def _decimals(size: float, digits: int) -> int:
    whole = 0 if size < 10 else int(math.log10(size))
    return max(digits - whole, 0)


def byte_size(count: int) -> str:
    """Write a number of bytes in binary units, as ``24.75 KiB``: memory is, everywhere."""
    return format_bytes(count)


def count(value: int) -> str:
    """Write a large count with a decimal unit, as ``14.2 M``; exact below 10,000, empty for none."""
    if value == 0:
        return ""
    return f"{value:,}" if value < 10_000 else _scaled(value)


def counted(value: int, what: str) -> str:
    """Write how many things there are, as ``1 token`` or ``1,024 tokens``."""
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def amount(value: int, unit: str) -> str:
    """Write a large count of something, as ``268 FLOPs`` or ``14.4 MFLOPs``."""
    text = count(value) or "0"
    return f"{text}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def model_name(name: str) -> str:
    """Write the name of a model for somebody who did not choose its folder."""
    return name.replace("bundled", "built-in model", 1) if name.startswith("bundled") else name


def opened_as(name: str, options: Options) -> str:
    """Write what was opened with how: the adapter that is merged into it, and that transformers runs it."""
    adapter = options.get(ADAPTER)
    merged = f"{name} + {PurePath(str(adapter)).name}" if adapter else name
    return f"{merged}, via transformers" if VIA in options else merged


def _scaled(value: int) -> str:
    for size, unit in UNITS:
        if value >= size * 0.9995:
            part = value / size
            return f"{part:.{2 if part < 10 else 1 if part < 100 else 0}f} {unit}"
    return str(value)


def shape(sizes: tuple[int, ...]) -> str:
    """Write a shape as ``1×8×12×12``."""
    return "×".join(str(size) for size in sizes)


def tooltip(text: str) -> str:
    """Keep Qt from taking a tooltip for markup: text such as ``<s>`` is shown as it is, if it fits a screen."""
    if len(text) > LONGEST_TIP:
        text = f"{text[:LONGEST_TIP]}…"
    if "<" not in text and "&" not in text:
        return text
    return f"<p style='white-space:pre-wrap'>{html.escape(text)}</p>"
