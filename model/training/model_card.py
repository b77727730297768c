"""The card beside a trained model: what it is, what was measured, and the command that measures it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ropewalk.model.decoder.costs import format_count, parameters
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.training.grading import Bar, Grades, bars

CARD = "MODEL_CARD.md"
COMMAND = "python main.py train --grade DIR --text FILE"
"""Measures a checkpoint on the end of a text, the part that training keeps for measuring."""


def write_card(folder: Path, model: Decoder, grades: Grades, recipe: Mapping[str, object]) -> None:
    """Write the card into the folder of the checkpoint.

    Parameters
    ----------
    recipe
        How the model came to be, name → value, the text among it.
    """
    (folder / CARD).write_text(model_card(folder.name, model, grades, recipe), encoding="utf-8")


def model_card(name: str, model: Decoder, grades: Grades, recipe: Mapping[str, object]) -> str:
    """The card's text, in Markdown."""
    c = model.config
    lines = [
        f"# Model card: {name}",
        "",
        f"A decoder small enough to look at every number of: {c.layers} layers, width {c.width}, {c.heads} query heads "
        f"that share {c.kv_heads} key and value heads, head width {c.head_width} ({c.head_width // 2} planes), "
        f"gated MLP of {c.mlp_width}, QK-norm, half-split RoPE with base {c.rope.base if c.rope else 0:,.0f}, "
        f"{c.vocabulary} byte-level BPE tokens, {c.max_position} positions, embedding and last matrix tied: "
        f"{format_count(parameters(c).total)} parameters in float32. The folder is an ordinary Hugging Face checkpoint "
        "in Qwen3's layout.",
        "",
        "It was trained to show attention at work (a head that looks back by one, a head that finds what followed the "
        "last time), not to write: it knows one text, and half of what it read was random tokens that repeat.",
        "",
        "## Measured",
        "",
        "On text and random sequences that it was not trained on:",
        "",
        "| what | found | wanted | |",
        "|---|---|---|---|",
        *(_row(bar) for bar in bars(grades)),
        "",
    ]
    if grades.text is not None:
        places = _stretches(c.max_position, len(grades.text.by_position))
        lines += [
            f"Validation loss by position ({grades.text.tokens:,} tokens, every stretch on the same ones), nats:",
            "",
            "| " + " | ".join(places) + " |",
            "|" + "---|" * len(places),
            "| " + " | ".join(f"{loss:.3f}" for loss in grades.text.by_position) + " |",
            "",
        ]
    lines += [
        "Measure again with",
        "",
        f"    {COMMAND}",
        "",
        "where DIR is this folder and FILE the text named below; make one like it, in a new folder, with",
        "`python main.py train --text FILE --out DIR`.",
        "",
        "## Recipe",
        "",
        *(f"- {key}: {value}" for key, value in recipe.items() if value is not None),
    ]
    return "\n".join(lines) + "\n"


def _row(bar: Bar) -> str:
    found = f"{bar.found:.3f}" + (f" ({bar.where})" if bar.where else "")
    return f"| {bar.name} | {found} | {'≥' if bar.at_least else '≤'} {bar.limit:g} | {'✓' if bar.holds else 'missed'} |"


def _stretches(context: int, count: int) -> list[str]:
    stretch = context // count
    return [f"{first}–{first + stretch - 1}" for first in range(0, count * stretch, stretch)]
