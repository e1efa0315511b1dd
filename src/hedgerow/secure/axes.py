"""Axes of share arrays: the axes of a value stand behind the share axes.

NumPy aligns shapes from the right and counts negative axes from the right, so an operation on a
value must not reach into the share axes on its left. These helpers see to it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray


def data_axis(axis: int, ndim: int, lead: int) -> int:
    """Return the axis of the data for an axis of a value with `ndim` axes behind `lead`."""
    return lead + normalize_axis_index(axis, ndim)


def lift(data: NDArray[Any], ndim: int, wanted: int) -> NDArray[Any]:
    """Insert axes of length 1 behind the share axes, so that values broadcast as NumPy's do.

    `ndim` is that of the value, `wanted` what it shall be; fewer changes nothing.
    """
    lead = data.ndim - ndim
    return data.reshape((*data.shape[:lead], *(1,) * max(0, wanted - ndim), *data.shape[lead:]))


def take(data: NDArray[Any], lead: int, index: Any) -> NDArray[Any]:
    """Index the axes behind the share axes as NumPy would index the value alone."""
    where = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in where if not _is_basic(part)]
    found: NDArray[Any]
    if not arrays:
        found = data[(slice(None),) * lead + where]
    elif len(where) == 1 and np.ndim(index) == 1 and np.asarray(index).dtype.kind in "iu":
        found = np.take(data, index, axis=lead)
    else:
        # Arrays that slices keep apart put their axes in front of everything, the share axes too;
        # so such an index picks positions of the flat value.
        shape = data.shape[lead:]
        size = math.prod(shape)
        found = data.reshape((*data.shape[:lead], size))[..., np.arange(size).reshape(shape)[where]]
    return found


def axes_used(index: Any) -> float:
    """Return how many axes an index uses up; infinitely many with an ellipsis."""
    where = index if isinstance(index, tuple) else (index,)
    return sum(_axes_used(part) for part in where)


def _axes_used(part: Any) -> float:
    if part is None:
        return 0
    if part is Ellipsis:
        return np.inf
    if _is_basic(part) or np.asarray(part).dtype != np.bool_:
        return 1
    return np.ndim(part)


def _is_basic(part: Any) -> bool:
    if isinstance(part, (bool, np.bool_)):
        return False
    return part is None or part is Ellipsis or isinstance(part, (int, slice, np.integer))
