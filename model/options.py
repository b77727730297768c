"""How a checkpoint is opened beyond its path: options by name, which the window remembers and sessions keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Option: TypeAlias = int | str
Options: TypeAlias = Mapping[str, Option]
"""Answers to what a file leaves open, such as ``{"heads": 8}``, and what else a person asked for, by these names."""

ADAPTER: Final = "adapter"
"""The folder of a LoRA adapter that is merged into the weights."""
FAMILY: Final = "family"
"""The entry of the family table to take, whatever ``model_type`` the config has."""
IGNORE: Final = "ignore"
"""Fields of the config to leave out, with commas between."""
PRODUCTS: Final = "products"
"""What multiplies: one of ``CHOICES`` (``model.decoder.product_choice``)."""
AUTO: Final = "auto"
CHOICES: Final = (AUTO, "torch", "onednn", "numpy")
"""What was measured to be quickest, or a library by its name."""
VIA: Final = "via"
"""What runs the model in the place of Ropewalk's own decoder."""
TRANSFORMERS: Final = "transformers"
"""The one that there is."""


PROMPT: Final = "prompt"
"""Which prompt of a trace of several is shown, counted from 1."""


def with_asked(
    options: Options | None,
    *,
    adapter: object = None,
    family: str | None = None,
    ignore: str | Iterable[str] = (),
    products: str | None = None,
) -> dict[str, Option]:
    """Options, with what was asked for beside them; an adapter is a path, what to ignore names or one text."""
    ignore = (ignore,) if isinstance(ignore, str) else ignore
    asked = {
        ADAPTER: "" if adapter is None else str(adapter),
        FAMILY: family or "",
        IGNORE: ",".join(ignore),
        PRODUCTS: products or "",
    }
    return dict(options or {}) | {name: value for name, value in asked.items() if value}


def ignored(options: Options) -> tuple[str, ...]:
    """The fields that are to be left out."""
    return tuple(name for part in str(options.get(IGNORE, "")).split(",") if (name := part.strip()))
