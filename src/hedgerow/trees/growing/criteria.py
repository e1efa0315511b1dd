"""Split criteria as data: what is scored, and how far one record can move the score.

Every criterion is a score to **maximise**, weighted by the number of records, so that no private
count ever stands in a denominator of the noise. It is a sum over the branches of a split (`gain`
subtracts the same sum over the node itself), which is what makes it computable from counts.

Each score exists in two number formats. The learners without privacy use float64. The private ones
use int64 on a public grid of step ``2**-shift``, exact by construction:

``max``
    The sum of the largest class counts is an integer already; the grid is not used.
``gini``
    A branch with counts n_c, n = sum n_c, S = sum n_c^2 scores ``floor(2^s S / n) - 2^s n``, as
    ``q = S // n, r = S % n: (q << s) + ((r << s) // n) - (n << s)``. One more record of class c
    turns S/n - n into (S + 2 n_c + 1)/(n+1) - (n+1); the difference is
    ``(2 n_c + 1 - S/n)/(n+1) - 1``, at most 0 (because 2 n_c <= n_c^2/n + n <= S/n + n) and above
    -2 (n_c = 0 and S = n^2 is the worst, -2n/(n+1)). Floor keeps order, so the integer score is
    monotone; two reals less than the integer 2*2^s apart have floors at most 2*2^s apart. One
    record is in one branch: the integer sensitivity is 2*2^s.
``entropy``, ``gain``
    A branch scores ``sum_c F(n_c) - F(n)`` with a table F of n log2 n in fixed point. F is the
    running sum of D(i), the increments (i+1) log2(i+1) - i log2 i rounded to the grid and made
    non-decreasing, D(0) = 0. One more record of class c changes the branch by D(n_c) - D(n), and
    0 <= n_c <= n < N puts that in [-D(N-1), 0]: monotone, with integer sensitivity D(N-1), exactly,
    whatever the rounding was. The rounding costs accuracy only: abs(F(n)/2^s - n log2 n) is at
    most n * (2^-(s+1) + 2^-40).
``squared_error``
    With integer targets, a branch with sum S and sum of squares Q scores
    ``floor(2^s S^2 / n) - 2^s Q``. One more record costs n/(n+1) (y - S/n)^2 < (hi-lo)^2, then as
    for gini.

Under ``replace`` a record leaves (score change in [0, A]) and one comes (in [-A, 0]), so the
monotone scores keep their figure A; `gain` is not monotone and pays twice. That doubling is real
with three branches and three classes: cells (0,0) x 1, (0,1) x m, (1,0) x m, then the first record
becomes (2,2), and the gain moves by almost 2 log2 m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code

MAX: Final = 0
GINI: Final = 1
ENTROPY: Final = 2
GAIN: Final = 3
SQUARED: Final = 4

# Scores are sums over branches; this room keeps every partial sum inside int64.
_ROOM_BITS: Final = 62
_FLOAT_TABLE: Final = 1 << 12


@dataclass(frozen=True)
class Public:
    """The public numbers a sensitivity may depend on.

    `capacity` bounds the number of records, `bounds` the target of a regression: integers, in units
    of the target's grid, where integer scores are asked for.
    """

    capacity: int | None = None
    n_classes: int | None = None
    bounds: tuple[float, float] | None = None

    def records(self) -> int:
        """Return the capacity, or refuse."""
        if self.capacity is None:
            raise Code.MISSING_CAPACITY.error(found="capacity=None")
        return self.capacity

    def width(self) -> float:
        """Return hi - lo of the target, or refuse."""
        if self.bounds is None:
            raise Code.BAD_TARGET.error(found="a target without bounds")
        return self.bounds[1] - self.bounds[0]


class Sensitivity(NamedTuple):
    """How far one record moves an integer score, in steps of the grid."""

    add_remove: int
    replace: int
    monotone: bool


@dataclass(frozen=True)
class Criterion:
    """One score with its global sensitivities.

    It is computed from class counts (``"classes"``) or from (n, sum y, sum y^2) (``"sums"``).
    `monotone`: adding a record never raises the score of any split or never lowers any (``max``
    rises, the others fall); under add/remove only. `add_remove` and `replace` give the global
    sensitivity of the real-valued score.
    """

    name: str
    kernel: int
    channels: Literal["classes", "sums"]
    monotone: bool
    add_remove: Callable[[Public], float]
    replace: Callable[[Public], float]

    def __reduce__(self) -> tuple[object, ...]:
        # Estimators hold plans, and plans hold their criterion: a copy is found by its name.
        return criterion_named, (self.name, self.channels)

    def integer_sensitivity(self, public: Public, shift: int) -> Sensitivity:
        """Return the exact sensitivity on the grid ``2**-shift``; raise if it is out of reach."""
        self.check(public, shift)
        match self.kernel:
            case kernel if kernel == MAX:
                step = 1
            case kernel if kernel == GINI:
                step = 2 << shift
            case kernel if kernel == SQUARED:
                step = math.ceil(public.width()) ** 2 << shift
            case _:
                table = n_log_n(public.records(), shift)
                # One record alone changes nothing; a mechanism still wants a scale.
                step = max(1, int(table[-1] - table[-2]))
        return Sensitivity(step, step if self.monotone else 2 * step, self.monotone)

    def check(self, public: Public, shift: int) -> None:
        """Refuse a grid on which an exact score could leave int64."""
        if shift < 0:
            raise Code.BAD_PARAMETER.error(found=f"shift={shift}", expected="shift >= 0")
        capacity = public.records() if self.kernel != MAX else 1
        largest = capacity << shift
        if self.kernel in (ENTROPY, GAIN):
            largest *= 2 * max(1, capacity.bit_length())
        elif self.kernel == GINI:
            largest = max(largest, capacity * capacity)
        elif self.kernel == SQUARED:
            lo, hi = public.bounds or (0.0, public.width())
            if not (float(lo).is_integer() and float(hi).is_integer()):
                raise Code.BAD_PARAMETER.error(
                    found=f"bounds ({lo}, {hi})",
                    expected="integer bounds of a target on an integer grid",
                    fix="scale the target to integers before scoring it exactly",
                )
            reach = int(max(abs(lo), abs(hi)))
            largest = max(largest * reach * reach, (capacity * reach) ** 2)
        if largest.bit_length() > _ROOM_BITS:
            raise Code.BAD_PARAMETER.error(
                found=f"criterion {self.name!r}, capacity {capacity}, shift={shift}",
                expected=f"integer scores below 2**{_ROOM_BITS}",
                fix="choose a coarser grid (a smaller shift)",
            )

    def table(self, public: Public, shift: int) -> NDArray[np.int64]:
        """Return what the exact kernel looks up: `n_log_n` for entropy, else a single zero."""
        self.check(public, shift)
        if self.kernel in (ENTROPY, GAIN):
            return n_log_n(public.records(), shift)
        return np.zeros(1, dtype=np.int64)


@lru_cache(maxsize=2)
def n_log_n(capacity: int, shift: int) -> NDArray[np.int64]:
    """Tabulate n log2 n, n <= capacity, in fixed point: exactly convex, F(0) = F(1) = 0."""
    table = np.zeros(max(capacity, 1) + 1, dtype=np.int64)
    i = np.arange(1, table.size - 1, dtype=np.float64)
    increments = (np.log2(i + 1) + i * np.log1p(1 / i) / math.log(2)) * 2.0**shift
    # Two roundings of nearly equal increments may come out in the wrong order; convexity, on
    # which the sensitivity rests, must not depend on a floating-point library.
    table[2:] = np.cumsum(np.maximum.accumulate(np.rint(increments).astype(np.int64)))
    table.setflags(write=False)
    return table


def _float_table() -> NDArray[np.float64]:
    n = np.arange(_FLOAT_TABLE, dtype=np.float64)
    n[1:] *= np.log2(n[1:])
    n.setflags(write=False)
    return n


# Small counts are by far the most frequent ones; larger logarithms are computed.
FLOAT_TABLE: Final = _float_table()


def _constant(value: float) -> Callable[[Public], float]:
    return lambda public: value


def _entropy_step(public: Public) -> float:
    return math.log2(public.records() + 1) + 1 / math.log(2)


CRITERIA: Final[dict[str, Criterion]] = {
    criterion.name: criterion
    for criterion in (
        Criterion("max", MAX, "classes", True, _constant(1.0), _constant(1.0)),
        Criterion("gini", GINI, "classes", True, _constant(2.0), _constant(2.0)),
        Criterion("entropy", ENTROPY, "classes", True, _entropy_step, _entropy_step),
        Criterion(
            "gain", GAIN, "classes", False, _entropy_step, lambda public: 2 * _entropy_step(public)
        ),
        Criterion(
            "squared_error",
            SQUARED,
            "sums",
            True,
            lambda public: public.width() ** 2,
            lambda public: public.width() ** 2,
        ),
    )
}


def criterion_named(name: str, channels: Literal["classes", "sums"]) -> Criterion:
    """Return the criterion of that name, or refuse one of the other task."""
    criterion = CRITERIA.get(name)
    if criterion is None or criterion.channels != channels:
        allowed = sorted(c.name for c in CRITERIA.values() if c.channels == channels)
        raise Code.BAD_PARAMETER.error(
            found=f"criterion={name!r}", expected=f"one of {', '.join(allowed)}"
        )
    return criterion
