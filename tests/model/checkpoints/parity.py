"""Measures how far Ropewalk is from transformers, case by case.

``python -m tests.model.checkpoints.parity`` prints the table of families with the worst differences, as Markdown.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.checkpoints.families.table import BY_TYPE
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.costs import parameters
from ropewalk.model.decoder.hooks import capture
from tests.model.checkpoints import reference
from tests.model.checkpoints.reference import CASES, PROMPT, VOCABULARY, Case

STEPS = 8
PADDED = 4


@dataclass(frozen=True)
class Differences:
    """The largest absolute differences from the reference, in float32.

    Attributes
    ----------
    logits
        Over plain, left-padded and right-padded batches, both branches and a cached decode of eight steps; rows of
        padding left out.
    weights
        Attention weights of every layer and head on the explicit branch.
    spread
        Standard deviation of the reference's logits, so that a small difference means something.
    uncounted
        Parameters of the model less those that :mod:`model.decoder.costs` counts from the config.
    """

    logits: float
    weights: float
    spread: float
    uncounted: int


@dataclass(frozen=True)
class HalfDifferences:
    """What bfloat16 does to a model of two layers; all errors are root mean squares in units of the logits' spread.

    Two correct bfloat16 programs differ by about as much as each differs from float32: transformers' own eager and
    fused attention are 0.005 to 0.012 apart here, at worst 0.11 in a single logit. So what can be asked of a third is
    that it errs no more than transformers does.

    Attributes
    ----------
    ours, theirs
        Of our worse branch and of transformers' eager path, against float32 with the same (rounded) weights.
    apart
        Between our worse branch and transformers' eager path.
    largest
        The same, but of the single worst logit.
    row_sums
        How far a row of weights is from 1 before it is stored; 0 where an attention sink takes a share.
    """

    ours: float
    theirs: float
    apart: float
    largest: float
    row_sums: float


def prompt(seed: int = 1) -> Tensor:
    """Two rows of ids."""
    return torch.randint(1, VOCABULARY, (2, PROMPT), generator=torch.Generator().manual_seed(seed))


def paddings(ids: Tensor) -> list[Tensor | None]:
    """No padding; the second row padded on the left; on the right."""
    left, right = torch.ones_like(ids), torch.ones_like(ids)
    left[1, :PADDED] = 0
    right[1, -PADDED:] = 0
    return [None, left, right]


def read(checkpoint: Checkpoint, ids: Tensor, mask: Tensor | None, branch: Any) -> tuple[Tensor, list[Tensor]]:
    """Our logits and, on the explicit branch, attention weights of each layer."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(checkpoint.config.layers)]
    device = checkpoint.model.embed.weight.device
    padding = None if mask is None else mask.bool().to(device)
    with torch.no_grad(), capture(checkpoint.model, names if branch == "explicit" else []) as record:
        logits = checkpoint.model(ids.to(device), padding=padding, branch=branch)
    return logits.cpu(), [record[name].cpu() for name in names if name in record]


def decode(checkpoint: Checkpoint, ids: Tensor, prefill: int) -> list[Tensor]:
    """Our logits of the last row after a prefill and after each further token, through our own cache."""
    cache = KvCache(checkpoint.config.layers)
    ids = ids.to(checkpoint.model.embed.weight.device)
    steps = [(0, prefill), *((step, step + 1) for step in range(prefill, ids.shape[1]))]
    with torch.no_grad():
        return [checkpoint.model(ids[:, start:stop], cache=cache)[:, -1].cpu() for start, stop in steps]


def measure(case: Case, folder: Path, device: str = "cpu") -> Differences:
    """Build, save, open on a device and compare one case; the reference runs on the CPU."""
    model = reference.build(case)
    checkpoint = open_checkpoint(reference.save(model, folder), device=device)
    ids = prompt()
    logits, weights, spread = 0.0, 0.0, 0.0
    for mask in paddings(ids):
        # a rule that looks at the length leaves its tables behind in the model
        model = reference.build(case) if case.stateful else model
        expected, patterns = reference.reference_logits(model, ids, mask)
        rows = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        explicit, ours = read(checkpoint, ids, mask, "explicit")
        fused, _ = read(checkpoint, ids, mask, "fused")
        logits = max(logits, _worst(explicit[rows], expected[rows]), _worst(fused[rows], expected[rows]))
        by_row = [(a - b).abs().amax((1, 3))[rows] for a, b in zip(ours, patterns, strict=True)]
        weights = max(weights, *(float(row.max()) for row in by_row))
        spread = float(expected.std())
    model = reference.build(case) if case.stateful else model
    expected_rows = reference.reference_decode(model, ids, PROMPT - STEPS)
    rows_of_ours = decode(checkpoint, ids, PROMPT - STEPS)
    steps = [_worst(a, b) for a, b in zip(rows_of_ours, expected_rows, strict=True)]
    uncounted = sum(value.numel() for value in checkpoint.model.parameters()) - parameters(checkpoint.config).total
    return Differences(max(logits, *steps), weights, spread, uncounted)


def shallow(case: Case) -> Case:
    """Two layers of a case, every expert visited: in half precision a near tie in the router may fall either way."""
    fields: dict[str, Any] = {
        name: value[:2] if isinstance(value, list) and name.endswith(("layers", "types")) else value
        for name, value in case.fields.items()
    }
    depth = "n_layer" if "n_layer" in fields else "num_hidden_layers"
    experts = [name for name in ("num_experts_per_tok", "moe_topk") if name in fields]
    return replace(case, fields=fields | {depth: 2} | dict.fromkeys(experts, 4))


def measure_half(case: Case, folder: Path) -> HalfDifferences:
    """Build two layers of a case in bfloat16, save, open and compare."""
    half = reference.build(shallow(case)).to(torch.bfloat16)
    checkpoint = open_checkpoint(reference.save(half, folder), dtype="bfloat16")
    ids = prompt()
    theirs, _ = reference.reference_logits(half, ids)
    exact, _ = reference.reference_logits(half.float(), ids)
    spread = float(exact.std())
    explicit, patterns = read(checkpoint, ids, None, "explicit")
    both = [explicit, read(checkpoint, ids, None, "fused")[0]]
    sums = [float((rows.sum(-1) - 1).abs().max()) for rows in patterns if not checkpoint.config.sink]
    return HalfDifferences(
        ours=max(_rms(logits, exact) for logits in both) / spread,
        theirs=_rms(theirs, exact) / spread,
        apart=max(_rms(logits, theirs) for logits in both) / spread,
        largest=max(_worst(logits, theirs) for logits in both) / spread,
        row_sums=max(sums, default=0.0),
    )


def _rms(ours: Tensor, expected: Tensor) -> float:
    return float((ours.float() - expected.float()).square().mean().sqrt())


def _worst(ours: Tensor, expected: Tensor) -> float:
    return float((ours.float() - expected.float()).abs().max())


def table(cases: Iterable[Case]) -> str:
    """The families with their worst differences, as Markdown."""
    found: dict[str, list[tuple[str, Differences]]] = defaultdict(list)
    halves: dict[str, HalfDifferences] = {}
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            found[case.family].append((case.variant, measure(case, Path(folder))))
        if case.family not in halves:
            with tempfile.TemporaryDirectory() as folder:
                halves[case.family] = measure_half(case, Path(folder))
    lines = [
        "| family | `model_type` | variants compared | logits | attention weights | bfloat16: ours, transformers' |",
        "|---|---|---|---|---|---|",
    ]
    for name, measured in found.items():
        variants = ", ".join(variant for variant, _ in measured)
        logits, weights = (max(getattr(one, what) for _, one in measured) for what in ("logits", "weights"))
        half = f"{halves[name].ours:.4f}, {halves[name].theirs:.4f}"
        lines.append(f"| {BY_TYPE[name].title} | `{name}` | {variants} | {logits:.1e} | {weights:.1e} | {half} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(CASES))
