"""Sums that need no message: prefix sums and sums over public groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import Code
from hedgerow.secure.secret import Secret, concatenate


def prefix_sum(x: Secret, axis: int = 0) -> Secret:
    """Return the sums of all elements up to each one, itself included.

    1. Shares are added up, local.

    Reveals: nothing.
    Cost: nothing.

    Parameters
    ----------
    x : Secret
    axis : int

    Returns
    -------
    Secret, shape of x
    """
    return x.cumsum(axis)


def exclusive_sum(x: Secret, axis: int = 0) -> Secret:
    """Return the sums of all elements before each one.

    1. The prefix sum less the element, local.

    Reveals: nothing.
    Cost: nothing.

    Parameters
    ----------
    x : Secret
    axis : int

    Returns
    -------
    Secret, shape of x
    """
    return x.cumsum(axis) - x


def suffix_sum(x: Secret, axis: int = 0) -> Secret:
    """Return the sums of all elements from each one on, itself included.

    1. The total less the sum of those before, local.

    Reveals: nothing.
    Cost: nothing.

    Parameters
    ----------
    x : Secret
    axis : int

    Returns
    -------
    Secret, shape of x
    """
    return x.sum(axis, keepdims=True) - exclusive_sum(x, axis)


def public_group_sums(x: Secret, group: ArrayLike, n_groups: int) -> Secret:
    """Add up rows by a public group number.

    1. Rows are brought into the order of their groups, public.
    2. The sum of a group is the difference of two prefix sums, local.

    Reveals: nothing.
    Cost: nothing.

    Parameters
    ----------
    x : Secret, shape (n, ...)
    group : array of int, shape (n,)
        From 0 to `n_groups` - 1.
    n_groups : int

    Returns
    -------
    Secret, shape (n_groups, ...)
    """
    number = np.asarray(group)
    if number.shape != (len(x),) or np.any((number < 0) | (number >= n_groups)):
        raise Code.WRONG_SHAPE.error(
            expected=f"a group from 0 to {n_groups - 1} for each of {len(x)} rows",
            found=f"shape {number.shape}, values up to {number.max(initial=0)}",
        )
    running = x[np.argsort(number, kind="stable")].cumsum(0)
    sums = concatenate([running[:0].sum(0, keepdims=True), running])
    ends = np.cumsum(np.bincount(number, minlength=n_groups))
    return sums[ends] - sums[np.concatenate([[0], ends[:-1]])]
