"""The rotation of one query and key: where each plane stands at other positions, and what the score is there.

The only arithmetic here is the model's own rotation, on the two features of each plane that a reading brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class Turned:
    """The reading with the query, or both, moved to another position, which may be fractional while it plays.

    Attributes
    ----------
    shift
        How far the key is moved too; 0 leaves it where it is in the run.
    """

    reading: PlaneReading
    position: float
    shift: float = 0.0

    @property
    def moved(self) -> bool:
        """Whether the query is elsewhere than in the run."""
        return self.position != self.reading.query_position

    @property
    def key_position(self) -> float:
        """Where the key is."""
        return self.reading.key_position + self.shift

    @cached_property
    def k_after(self) -> Doubles:
        """[F, 2] the key after the rotation of its position."""
        r = self.reading
        return rotated(r.k_before, self.key_position * r.key_frequencies, r.factor) if self.shift else r.k_after

    @cached_property
    def q_after(self) -> Doubles:
        """[F, 2] the query after the rotation of this position; the run's own numbers where it was not moved."""
        r = self.reading
        return rotated(r.q_before, self.position * r.query_frequencies, r.factor) if self.moved else r.q_after

    @cached_property
    def between(self) -> Doubles:
        """[F] the angle from k to q after rotation, φ + (m − n)θ brought into (−π, π]."""
        q, k = self.q_after, self.k_after
        across = q[:, 1] * k[:, 0] - q[:, 0] * k[:, 1]
        angles: Doubles = np.arctan2(across, (q * k).sum(1))
        return angles

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


def scores_by_position(reading: PlaneReading, positions: Doubles) -> Doubles:
    """Return the scaled score [M] for the query at each of M positions, the key staying where it is."""
    r = reading
    (a, b), (x, y) = r.q_before.T, r.k_after.T
    angles = positions[:, None] * r.query_frequencies[None, :]  # [M, F]
    turned = np.cos(angles) @ (a * x + b * y) + np.sin(angles) @ (a * y - b * x)
    scores: Doubles = r.scale * r.factor * turned + r.rest
    scores[positions == r.query_position] = r.scaled
    return scores


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
    size = np.hypot(*r.q_before.T) * np.hypot(*r.k_before.T)  # [F]
    phase = np.arctan2(r.q_before[:, 1], r.q_before[:, 0]) - np.arctan2(r.k_before[:, 1], r.k_before[:, 0])
    turned = np.cos(phase[None, :] + distances[:, None] * theta[None, :])  # [M, F]
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
