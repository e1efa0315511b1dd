"""Views: integers computed from an outcome, in which an attacker looks for events.

An outcome is a row of integers (a noisy count, a winner's index, the leaf labels of a tree). A
view maps each row to one integer; events are sets of values of a view. Views are fixed functions
that no data enter, so any of them may be used with any outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal[
    "row", "coordinate", "sum", "difference", "together", "largest", "smallest", "winner", "total"
]

PAIRED = 8
"""Coordinates that are looked at in pairs; further ones would make the number of pairs explode."""

FOLDS = 2


@dataclass(frozen=True)
class View:
    """One integer of an outcome.

    Attributes
    ----------
    kind : str
        What is computed.
    columns : tuple of int
        The coordinates it is computed from; empty for all of them.
    """

    kind: Kind
    columns: tuple[int, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether a half-line of values means something: not for hashes."""
        return self.kind not in ("row", "together")

    def __call__(self, outcomes: Ints) -> Ints:
        """Map outcomes (runs, k) int64 to (runs,) int64; sums wrap around, which is harmless."""
        chosen = outcomes[:, self.columns] if self.columns else outcomes
        match self.kind:
            case "row" | "together":
                return _hash_rows(chosen)
            case "coordinate":
                return np.ascontiguousarray(chosen[:, 0])
            case "difference":
                return np.asarray(chosen[:, 0] - chosen[:, 1])
            case "largest":
                return np.asarray(chosen.max(axis=1))
            case "smallest":
                return np.asarray(chosen.min(axis=1))
            case "winner":
                return np.asarray(chosen.argmax(axis=1), np.int64)
            case "sum" | "total":
                return np.asarray(chosen.sum(axis=1))

    def __str__(self) -> str:
        names = [f"outcome[{column}]" for column in self.columns]
        match self.kind:
            case "coordinate":
                return names[0]
            case "sum":
                return " + ".join(names)
            case "difference":
                return " - ".join(names)
            case "together":
                return f"({', '.join(names)})"
            case "row":
                return "the whole outcome"
            case "winner":
                return "the position of the largest coordinate"
            case "total":
                return "the sum of all coordinates"
            case _:
                return f"the {self.kind} coordinate"


def single_views(width: int) -> Iterator[View]:
    """List the coordinates of outcomes of `width` coordinates."""
    return (View("coordinate", (column,)) for column in range(width))


def joint_views(width: int, leading: Ints) -> Iterator[View]:
    """List the views of several coordinates at once.

    Parameters
    ----------
    width : int
        Coordinates of an outcome.
    leading : int64 array
        Coordinates to look at in pairs.
    """
    if width == 1:
        return
    yield View("row")
    for kind in ("largest", "smallest", "winner", "total"):
        yield View(kind)
    for pair in combinations(sorted(leading.tolist()), 2):
        yield View("sum", pair)
        yield View("difference", pair)
        if width > 2:
            yield View("together", pair)


class Tally(NamedTuple):
    """How often each value of a view was seen.

    Attributes
    ----------
    values : (values,) int64, increasing
    counts : (inputs=2, folds=2, values) int64
        Run i belongs to fold i % 2.
    codes : (inputs=2, runs) int64
        Position in `values` of each run's value.
    """

    values: Ints
    counts: Ints
    codes: Ints


def tally(first: Ints, second: Ints) -> Tally:
    """Count the values of one view under the two inputs.

    Parameters
    ----------
    first, second : (runs,) int64
        The view of the outcomes under each input.
    """
    both = np.stack([first, second])
    low = int(both.min())
    span = int(both.max()) - low + 1
    if span <= 4 * both.size:
        # Most outcomes are small integers: counting them is much faster than sorting them.
        codes = both - low
        seen = np.flatnonzero(np.bincount(codes.ravel(), minlength=span))
        ranks = np.zeros(span, np.int64)
        ranks[seen] = np.arange(seen.size)
        values, codes = seen + low, ranks[codes]
    else:
        values, codes = np.unique(both, return_inverse=True)
        codes = codes.reshape(both.shape).astype(np.int64)
    counts = np.stack(
        [
            [np.bincount(row[fold::FOLDS], minlength=values.size) for fold in range(FOLDS)]
            for row in codes
        ]
    )
    return Tally(values.astype(np.int64), counts.astype(np.int64), codes)


def _hash_rows(rows: Ints) -> Ints:
    """Mix each row into 64 bits; a collision only merges two values of the view."""
    state = np.zeros(rows.shape[0], np.uint64)
    for column in rows.astype(np.uint64).T:
        # The finaliser of SplitMix64: every input bit reaches every output bit.
        state = (state + column + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(27)
        state *= np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state.view(np.int64)
