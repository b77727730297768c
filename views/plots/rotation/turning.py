"""The rotation of one query and key: where each plane stands at other positions, and what the score is there.

The only arithmetic here is the model's own rotation, on the two features of each plane that a reading brings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ropewalk.model.readings.records import Doubles, Floats, PlaneReading, RopeRule


def rotated(before: Doubles, angles: Doubles, factor: float) -> Doubles:
    """Turn each plane's pair by its angle and stretch it by the attention factor.

    Parameters
    ----------
    before
        [F, 2] pairs (a, b).
    angles
        [F] radians, position · θ_i.
    factor
        What cos and sin are multiplied by (1 except for YaRN and longrope).

    Returns
    -------
    Doubles
        [F, 2] pairs factor · (a cos − b sin, a sin + b cos) (Su et al. 2021, arXiv:2104.09864).
    """
    cos, sin = factor * np.cos(angles), factor * np.sin(angles)
    a, b = before[:, 0], before[:, 1]
    return np.stack((a * cos - b * sin, a * sin + b * cos), axis=1)


Moves = Literal["query", "key", "both"]
"""What a person moves: the query alone, the key alone, or both by the same number of positions."""


@dataclass(frozen=True, eq=False)
class Turned:
    """The reading with the query, the key or both moved to other positions, which may be fractional while they turn.

    Attributes
    ----------
    shift
        How far the key is moved; 0 leaves it where it is in the run.
    """

    reading: PlaneReading
    position: float
    shift: float = 0.0

    @classmethod
    def moved_to(cls, reading: PlaneReading, moves: Moves, position: float) -> Turned:
        """The reading with what moves brought to a position; where both do, it is the query's."""
        m, n = reading.query_position, reading.key_position
        if moves == "key":
            return cls(reading, m, position - n)
        return cls(reading, position, position - m if moves == "both" else 0.0)

    @property
    def moved(self) -> bool:
        """Whether anything is elsewhere than in the run."""
        return bool(self.shift) or self.position != self.reading.query_position

    @property
    def key_position(self) -> float:
        """Where the key is."""
        return self.reading.key_position + self.shift

    @property
    def distance(self) -> float:
        """How far the key is behind the query, m − n."""
        return self.position - self.key_position

    @cached_property
    def k_after(self) -> Doubles:
        """[F, 2] the key after the rotation of its position."""
        r = self.reading
        return rotated(r.k_before, self.key_position * r.key_frequencies, r.factor) if self.shift else r.k_after

    @cached_property
    def q_after(self) -> Doubles:
        """[F, 2] the query after the rotation of this position; the run's own numbers where it was not moved."""
        r = self.reading
        if self.position == r.query_position:
            return r.q_after
        return rotated(r.q_before, self.position * r.query_frequencies, r.factor)

    @cached_property
    def between(self) -> Doubles:
        """[F] the angle from k to q after rotation, φ + mθ − nθ brought into (−π, π]."""
        return angles_between(self.q_after, self.k_after)

    @cached_property
    def from_distance(self) -> Doubles:
        """[F] what of that angle the positions add, mθ − nθ: (m − n)θ where query and key turn equally fast."""
        r = self.reading
        return self.position * r.query_frequencies - self.key_position * r.key_frequencies

    @cached_property
    def shares(self) -> Doubles:
        """[F] what each plane adds to the scaled score."""
        if not self.moved:
            return self.reading.shares
        shares: Doubles = self.reading.scale * np.sum(self.q_after * self.k_after, axis=1)
        return shares

    @cached_property
    def scaled(self) -> float:
        """The scaled score, before soft cap and mask."""
        return float(self.shares.sum() + self.reading.rest) if self.moved else self.reading.scaled


def angles_between(q: Doubles, k: Doubles) -> Doubles:
    """Return the angle [F] from each pair of k [F, 2] to that of q, in (−π, π]: before rotation it is the content's."""
    angles: Doubles = np.arctan2(q[:, 1] * k[:, 0] - q[:, 0] * k[:, 1], (q * k).sum(1))
    return angles


def lengths(pairs: Doubles, factor: float = 1.0) -> Doubles:
    """Return how long [F] each pair [F, 2] is once it is turned, which only stretches it by the attention factor."""
    long: Doubles = np.hypot(pairs[:, 0], pairs[:, 1]) * factor
    return long


def scores_at(reading: PlaneReading, queries: Doubles, keys: Doubles) -> Doubles:
    """Return the scaled score [M] of the same two contents with the query at m and the key at n, M times.

    scale · c² · Σ |q_i||k_i| cos(φ_i + mθ_i − nθ_i) and the features that do not turn; φ_i is the angle from the key to
    the query before rotation.
    """
    r = reading
    size = r.scale * r.factor**2 * lengths(r.q_before) * lengths(r.k_before)  # [F]
    angles = queries[:, None] * r.query_frequencies - keys[:, None] * r.key_frequencies  # [M, F]
    scores: Doubles = np.cos(angles_between(r.q_before, r.k_before) + angles) @ size + r.rest
    scores[(queries == r.query_position) & (keys == r.key_position)] = r.scaled
    return scores


def scores_by_position(reading: PlaneReading, moves: Moves, positions: Doubles) -> Doubles:
    """Return the scaled score [M] with what moves at each of M positions; where both do, they are the query's."""
    m, n = np.full_like(positions, reading.query_position), np.full_like(positions, reading.key_position)
    if moves == "key":
        return scores_at(reading, m, positions)
    return scores_at(reading, positions, n + (positions - m) if moves == "both" else n)


def common_decimals(turned: Turned) -> int:
    """How many decimals the score has in common with the run's, as far as numbers of the run's kind can tell.

    Angles are rounded in the run, more coarsely the further a position is from 0; that much its own score is off.
    """
    r = turned.reading
    reach = r.scale * float(lengths(r.q_before, r.factor) @ lengths(r.k_before, r.factor)) + abs(r.rest)
    far = 1 + max(r.query_position, r.key_position)
    exact = reach * float(np.finfo(np.float16 if r.approximate else np.float32).eps) * far
    most = max(min(math.floor(-math.log10(max(exact, 1e-12))), 6), 0)
    return next((n for n in range(most, -1, -1) if f"{turned.scaled:.{n}f}" == f"{r.scaled:.{n}f}"), 0)


def scores_by_distance(reading: PlaneReading, distances: Doubles, rule: RopeRule | None = None) -> Doubles:
    """Return the scaled score [M] of the same two contents at each of M relative distances m − n.

    scale · c² · Σ |q_i||k_i| cos(φ_i + (m − n)θ_i) and the features that do not turn; φ_i is the angle from the key to
    the query before rotation.

    Parameters
    ----------
    rule
        Another stretching rule's θ and c; None for those of the run.
    """
    r = reading
    theta, factor = (r.query_frequencies, r.factor) if rule is None else (rule.frequencies, rule.factor)
    size = lengths(r.q_before) * lengths(r.k_before)  # [F]
    turned = np.cos(angles_between(r.q_before, r.k_before) + distances[:, None] * theta)  # [M, F]
    scores: Doubles = r.scale * factor**2 * (turned @ size) + r.rest
    return scores


def drift(reading: PlaneReading, shift: float) -> float:
    """How far float32 is off when query and key are both moved by ``shift``: exact arithmetic would leave the score."""
    r = reading

    def single(pairs: Doubles, position: float, theta: Doubles) -> Floats:
        angles = (np.float32(position) * theta.astype(np.float32)).astype(np.float32)
        cos, sin = np.cos(angles) * np.float32(r.factor), np.sin(angles) * np.float32(r.factor)
        a, b = pairs.astype(np.float32).T
        return np.stack((a * cos - b * sin, a * sin + b * cos), axis=1).astype(np.float32)

    q = single(r.q_before, r.query_position + shift, r.query_frequencies)
    k = single(r.k_before, r.key_position + shift, r.key_frequencies)
    return float(np.float32(r.scale) * np.sum(q * k, dtype=np.float32) + np.float32(r.rest)) - r.scaled


def misread(reading: PlaneReading) -> float:
    """Return the score when the head is read in the other pairing: the same vectors, other features turned together."""
    r = reading
    count = len(r.features)
    adjacent = count > 1 and int(r.features[0, 1]) == 1
    other = [(i, i + count) if adjacent else (2 * i, 2 * i + 1) for i in range(count)]
    total = r.rest
    turned = []
    for pairs, position, theta in (
        (r.q_before, r.query_position, r.query_frequencies),
        (r.k_before, r.key_position, r.key_frequencies),
    ):
        vector = np.zeros(2 * count)
        vector[r.features.ravel()] = pairs.ravel()
        turned.append(rotated(vector[np.array(other)], position * theta, r.factor))
    return total + r.scale * float(np.sum(turned[0] * turned[1]))


def reexpressed(reading: PlaneReading) -> float:
    """Return the score when the features are put in the order of the other pairing, and read in it: the same."""
    r = reading
    q = rotated(r.q_before, r.query_position * r.query_frequencies, r.factor)
    k = rotated(r.k_before, r.key_position * r.key_frequencies, r.factor)
    return r.rest + r.scale * float(np.sum(q * k))
