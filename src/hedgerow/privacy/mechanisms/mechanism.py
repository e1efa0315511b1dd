"""What every mechanism offers, and the checks that all of them share."""

from __future__ import annotations

import math
from contextlib import suppress
from numbers import Real
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.coins import MAX_DIGITS
from hedgerow.privacy.source import NoiseSource

# Values beyond this are clamped. A clamp moves no two values further apart, so it costs no
# privacy, where an error that depends on the data would.
LIMIT = 2**MAX_DIGITS

LEAST_EPSILON, MOST_EPSILON = 2.0**-100, 2.0**100


@runtime_checkable
class Mechanism(Protocol):
    """A random function of integers with a privacy guarantee; a frozen dataclass."""

    @property
    def name(self) -> str:
        """The name that a ledger records."""

    @property
    def epsilon(self) -> float:
        """What one release costs."""

    @property
    def sensitivity(self) -> int:
        """How far one record moves the input."""

    def delta(self, m: int) -> float:
        """Price of finite precision for one release of m values, or of one choice among m."""

    def __call__(self, values: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Draw, for a whole array at once."""

    def law(self, values: Any) -> NDArray[np.float64]:
        """Exact probabilities."""


def check_epsilon(epsilon: object) -> float:
    """Return epsilon as a float, or raise H201."""
    if isinstance(epsilon, Real) and not isinstance(epsilon, bool):
        with suppress(OverflowError):  # integers beyond the range of floats
            value = float(epsilon)
            if math.isfinite(value) and value > 0:
                return value
    raise Code.BAD_EPSILON.error(found=f"epsilon={epsilon!r}")


def check_whole_epsilon(epsilon: object) -> float:
    """Return the epsilon of a whole plan as a float, or raise H201 or H212.

    Plans divide it, square it and count with its inverse: within this reach nothing of that
    overflows or ends at 0.
    """
    value = check_epsilon(epsilon)
    if not LEAST_EPSILON <= value <= MOST_EPSILON:
        raise Code.EPSILON_BEYOND_REACH.error(found=f"epsilon={epsilon!r}")
    return value


def check_sensitivity(sensitivity: object) -> int:
    """Return the sensitivity as an int, or raise H209."""
    if isinstance(sensitivity, (int, np.integer)) and not isinstance(sensitivity, bool):
        value = int(sensitivity)
        if value >= 1:
            return value
    raise Code.BAD_MECHANISM_INPUT.error(
        expected="an integer sensitivity >= 1", found=f"sensitivity={sensitivity!r}"
    )


def check_count(m: int) -> int:
    """Return the number of variables of a release, or raise H209."""
    if m < 1:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected="at least one variable in a release", found=f"m={m}"
        )
    return m


def check_integers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """Return values as int64; unsigned ones beyond the limit are clamped.

    Signed values are clamped by the kernels, which read them anyway.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"{what} of an integer type", found=f"type {array.dtype}"
        )
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(LIMIT))
    return cast("NDArray[np.int64]", array.astype(np.int64, copy=False))
