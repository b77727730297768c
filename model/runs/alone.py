"""One prompt of a run on its own, without the padding that came after it; nothing is computed again."""

from __future__ import annotations

from dataclasses import replace

from ropewalk.model.decoder.cache import Rows
from ropewalk.model.runs.trace import Trace


def alone(trace: Trace, prompt: int) -> Trace:
    """One prompt of a trace; padding before it stays, for the rows that it takes are numbered so.

    Raises
    ------
    TraceError
        When the trace has fewer.
    """
    one = slice(prompt, prompt + 1)
    rows, padding = slice(0, trace.length), None if trace.padding is None else trace.padding[one]
    if padding is not None:
        real = padding[0].nonzero().flatten()
        first, stop = (int(real[0]), int(real[-1]) + 1) if len(real) else (-1, trace.length)
        if first == 0 and bool(padding[0, :stop].all()):
            rows, padding = slice(0, stop), None
    own = trace.prompt(prompt)
    return replace(
        own,
        layers=tuple(replace(layer.at(rows.stop), padding=padding) for layer in own),
        ids=None if own.ids is None else own.ids[:, rows],
        positions=own.positions[:, rows],
        padding=padding,
        prefill=min(trace.prefill, rows.stop),
        logits=_logits_alone(trace, one, rows.stop),
        earlier=None,
    )


def _logits_alone(trace: Trace, one: slice, length: int) -> Rows | None:
    """The logits of one prompt, None where none of its rows was kept."""
    kept = max(length - trace.first_logit_row, 0)
    return None if trace.logits is None or not kept else Rows.of(trace.logits.tensor[one, :, :kept])
