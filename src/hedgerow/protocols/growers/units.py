"""`Units`: a numeric target as whole numbers of a public size, so that sums of it are exact.

A target within public bounds is centred and divided by half their width: a number from -1 to 1.
Owners round it to a public grid, the same for everything that will ever be computed from it; a plan
counts in whole units of 1/U, with U a power of two that follows from the capacity alone, and rounds
the grid to them. So a table that was shared before anybody knew the plan is the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.secure.ring import Z32
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.forest import Batch

FINE = 20
"""Bits of U at most: below them rounding changes no split but ties."""
COARSE = 10
"""Bits of U where noise is far larger than what they round away; fewer bits make noise cheaper."""
GRID_BITS = FINE
"""Half the width of the bounds is 2 to this power steps of the grid: no units are finer."""
_LEAST = 4
_SUM_BITS = 30


def batch_of(encoded: Encoded, domain: Domain, units: Units | None, number: int) -> Batch:
    """Return a batch of a table of a domain, its target in units if it is a number; H117, H116."""
    encoded.check_domain(domain)
    if encoded.target is None:
        raise Code.BAD_TARGET.error(found="a table without a target")
    if units is None:
        return Batch(encoded.bins, encoded.target, encoded.present, number)
    counted = units.count(encoded).target
    assert counted is not None
    return Batch(encoded.bins, counted.astype(np.int64), encoded.present, number)


@dataclass(frozen=True)
class Units:
    """Scale of a numeric target; public. U = 2**bits units are half the width of its bounds."""

    low: float
    high: float
    bits: int

    @property
    def most(self) -> int:
        """U: the largest number of units, of either sign."""
        return 1 << self.bits

    @property
    def counts(self) -> range:
        """All numbers of units that a target may have."""
        return range(-self.most, self.most + 1)

    @property
    def centre(self) -> float:
        """Target of 0 units."""
        return self.low + self.half

    @property
    def half(self) -> float:
        """Half the width of the bounds."""
        return self.high / 2 - self.low / 2

    def count(self, encoded: Encoded) -> Encoded:
        """Return a table whose target is in whole units; done by its owner."""
        if encoded.target is None or encoded.target.dtype.kind != "f":
            raise Code.BAD_TARGET.error(
                expected="a numeric target", found="a table without a numeric target"
            )
        # Empty slots may hold anything, also what is no number.
        target = np.where(encoded.present, encoded.target, self.low)
        steps = grid_steps(target, (self.low, self.high))
        finer = GRID_BITS - self.bits
        units = ((steps + (1 << finer >> 1)) >> finer) - self.most
        return replace(encoded, target=units.astype(np.float64))

    def values(self, shares: ArrayLike, fraction: int) -> NDArray[np.float64]:
        """Return targets of fixed-point numbers, in which 1 is half the width of the bounds."""
        found: NDArray[Any] = np.asarray(shares, dtype=np.float64)
        return self.centre + self.half * (found / 2.0**fraction)


def grid_steps(target: NDArray[np.float64], bounds: tuple[float, float]) -> NDArray[np.int64]:
    """Return the nearest steps of the grid, from 0 for the lower bound to 2^(`GRID_BITS` + 1)."""
    scale, most = Units(*bounds, GRID_BITS), 1 << GRID_BITS
    found = np.rint((target - scale.centre) / scale.half * most)
    steps: NDArray[np.int64] = np.clip(found, -most, most).astype(np.int64) + most
    return steps


def bits_for(capacity: int, wanted: int = FINE) -> int:
    """Return the bits of U: so many that sums of 2 N U units fit into 31 bits.

    Then squares of sums, with which splits are scored, fit into 61 bits. H501 for a capacity that
    leaves fewer than 4 bits.
    """
    bits = min(wanted, _SUM_BITS - capacity.bit_length())
    if capacity < 1 or bits < _LEAST:
        raise Code.BAD_PARAMETER.error(
            expected=f"a capacity from 1 to {(1 << (_SUM_BITS - _LEAST)) - 1:,}, for sums of the "
            f"target in Z_2^{Z32.bits}",
            found=f"{capacity:,}",
        )
    return bits


def units_for(domain: Domain, capacity: int, wanted: int = FINE) -> Units:
    """Return the units of a domain's target; H116 if it has no bounds."""
    if domain.target is None or domain.target.bounds is None:
        raise Code.BAD_TARGET.error(found="a domain without target bounds")
    low, high = domain.target.bounds
    return Units(float(low), float(high), bits_for(capacity, wanted))


def cut(epsilon: float, share: float) -> tuple[float, float]:
    """Cut epsilon into two parts of which the first is about `share`; their sum is no larger."""
    first = epsilon * share
    rest = rounded_down(Fraction(epsilon) - Fraction(first))
    if not (first > 0 and rest > 0):
        raise Code.BAD_EPSILON.error(found=f"epsilon={epsilon!r}, too small to be cut in two")
    return first, rest


def rounded_down(exact: Fraction) -> float:
    """Return the largest float that is no larger."""
    near = float(exact)
    return float(np.nextafter(near, -np.inf)) if Fraction(near) > exact else near
