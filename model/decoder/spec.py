"""What a layer's attention was told to do, as plain immutable data that travels with every trace.

A reader of a trace applies exactly this: scale, soft cap, window, causality, sink and rotation. No torch here, so that
the window can read it too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ropewalk.model.codec import stored
from ropewalk.model.decoder.config import Pairing


@stored("start stop frequencies factor")
@dataclass(frozen=True)
class RotationSegment:
    """Positions that were rotated with the same frequencies.

    Attributes
    ----------
    start, stop
        Rows of the run (not position ids) that the segment covers, ``stop`` exclusive.
    frequencies
        θ_i in radians per position, d_rot/2 of them.
    factor
        What cos and sin were multiplied by (YaRN's attention factor; 1 elsewhere). It enters a score squared.
    """

    start: int
    stop: int
    frequencies: tuple[float, ...]
    factor: float = 1.0


@stored("head rows")
@dataclass(frozen=True)
class WrittenPattern:
    """Weights that were written for a head in the place of its own.

    Attributes
    ----------
    rows
        For each row from the first on, the weights of the keys from the first on; no key after the row's own has one.
    """

    head: int
    rows: tuple[tuple[float, ...], ...]


@stored(
    "layer heads kv_heads head_width scale cap window causal sinks rotary_width pairing segments kv_map experiments "
    "written"
)
@dataclass(frozen=True)
class AttentionSpec:
    """One layer's attention, as it was run.

    Attributes
    ----------
    scale, cap, window, causal
        What q·k is multiplied by; the soft cap c of c·tanh(s/c) or None; how many keys a query sees, itself
        included, or None; whether later keys are hidden.
    sinks
        One logit per query head that takes part in the softmax without a key, or None.
    rotary_width, pairing, segments
        d_rot (0 where the layer does not rotate), which features make a plane, and the frequencies used.
    kv_map
        The kv head that each query head was made to read, None for the grouping of the model.
    interventions
        Names of the interventions that were active.
    written
        Patterns that heads were given; rows after a pattern's own attend as they would.
    """

    layer: int
    heads: int
    kv_heads: int
    head_width: int
    scale: float
    cap: float | None = None
    window: int | None = None
    causal: bool = True
    sinks: tuple[float, ...] | None = None
    rotary_width: int = 0
    pairing: Pairing = "half"
    segments: tuple[RotationSegment, ...] = ()
    kv_map: tuple[int, ...] | None = None
    interventions: tuple[str, ...] = ()
    written: tuple[WrittenPattern, ...] = ()

    def kv_head_of(self, head: int) -> int:
        """The kv head that query head ``head`` reads."""
        return head // (self.heads // self.kv_heads) if self.kv_map is None else self.kv_map[head]

    def segment_of(self, row: int) -> RotationSegment | None:
        """The rotation that row ``row`` of the run was given, None where the layer does not rotate."""
        for segment in self.segments:
            if segment.start <= row < segment.stop:
                return segment
        return None


def reaching(specs: tuple[AttentionSpec, ...], rows: int) -> tuple[AttentionSpec, ...]:
    """The same specs for a run that was gone on with to so many rows by the rotation of its last ones."""
    return tuple(
        replace(spec, segments=(*spec.segments[:-1], replace(spec.segments[-1], stop=rows))) if spec.segments else spec
        for spec in specs
    )
