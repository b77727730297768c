"""One row of the shape ledger, as plain data: an operation with its symbol, shape, price, and what must hold of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["plain", "query", "key", "value", "mask", "score"]
Stored = Literal["stored", "view", "not stored"]


@dataclass(frozen=True)
class Check:
    """A statement that may turn out false.

    Attributes
    ----------
    statement
        What must hold, with the numbers of this model.
    passed
        None until it is decided.
    found
        What was seen; empty until it is decided.
    """

    statement: str
    passed: bool | None = None
    found: str = ""


@dataclass(frozen=True)
class LedgerEntry:
    """One operation.

    Attributes
    ----------
    name, formula
        What a person calls it, and what it does in words and symbols.
    kind
        Which colour it takes.
    symbol, shape, dtype, device
        The result: ``[B, H, T, S]``, (1, 8, 12, 12), ``float32``, ``cpu``.
    bytes
        Bytes that the result takes; 0 for a view and for what is not stored.
    parameters
        Numbers learned for this row, biases included; all experts of a mixture.
    flops_full, flops_causal
        Over all of T × S, and over the visible cells alone; equal where no keys are involved.
    stored
        Whether the result is a tensor of its own, a view of another, or never made on this branch.
    would_cost_bytes
        What it would take if it were made: the bytes that a view or the fused branch saves; else 0.
    panel
        Name of the panel that shows it.
    key
        A stable name of the row, by which a measurement refers to it; unique in a ledger.
    product
        Whether the row is a matrix product, as FLOP counters count.
    weight
        Shape of the row's weight as stored, (outputs, inputs); empty where there is none.
    """

    name: str
    kind: Kind
    symbol: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int
    parameters: int
    flops_full: int
    flops_causal: int
    stored: Stored
    would_cost_bytes: int
    check: Check | None
    panel: str
    formula: str
    key: str
    product: bool = False
    weight: tuple[int, ...] = ()
