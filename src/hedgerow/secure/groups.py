"""Sums over secret groups: by one-hot membership, or by flags on rows in the order of groups."""

from __future__ import annotations

import numpy as np

from hedgerow.secure.cost import Cost
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Ring
from hedgerow.secure.scan import prefix_sum, suffix_sum
from hedgerow.secure.secret import Secret, SecretBits, concatenate
from hedgerow.secure.sort import (
    SHUFFLED,
    cost_destinations,
    cost_permute,
    destinations,
    permute,
    unpermute,
)

OPENINGS = 2
"""How often `group_sum` opens shuffled destinations."""


def group_sums(x: Secret, member: Secret) -> Secret:
    """Add up rows by secret membership in groups.

    1. The product of the membership matrix with the rows.

    Reveals: nothing.
    Cost: `cost_group_sums`; one `Engine.matmul`.

    Parameters
    ----------
    x : Secret, shape (n, columns)
    member : Secret, shape (..., n_groups, n)
        1 where the row is in the group, else 0; a row may be in no group or in several.

    Returns
    -------
    Secret, shape (..., n_groups, columns)
    """
    return member @ x


def group_sum(x: Secret, first: SecretBits, *, name: str = SHUFFLED) -> Secret:
    """Give every row the sum over its group, where rows stand in the order of groups.

    Paper: hamada2021efficient. Its sums over hidden groups, in a constant number of rounds.

    1. Row i gets s_i, the sum of all rows from i on, times its flag.
    2. Flagged rows move to the front, in order: their differences of neighbours are the sums of
       the groups, and the differences of those say how the sum changes at each first row.
    3. Changes move back, and prefix sums carry each to all rows of its group.

    Reveals: to the servers, two uniformly random permutations.
    Cost: `cost_group_sum`.

    Parameters
    ----------
    x : Secret, shape (n, ...)
    first : SecretBits, shape (n,)
        Set on the first row of each group; the first of all is taken as set.
    name : str
        Of the declared opening; it takes place `OPENINGS` times.

    Returns
    -------
    Secret, shape of x
    """
    n, lead = len(x), (len(x), *(1,) * (x.ndim - 1))
    flags = first | (np.arange(n) == 0)
    f = x.engine.b2a(flags, x.ring).reshape(*lead)
    d = destinations((~flags)[None], name=name)
    sums = permute(suffix_sum(x) * f, d, name=name)
    sums = sums - _below(sums)
    changes = unpermute(sums - _above(sums), d, name=name)
    # The row after the last group's has a change too, back to zero, that belongs to no group.
    return prefix_sum(changes * f)


def cost_group_sums(engine: Engine, shape: tuple[int, ...], ring: Ring) -> Cost:
    """State the cost of `group_sums` for a result of a shape."""
    return engine.cost("matmul", shape=shape, ring=ring)


def cost_group_sum(engine: Engine, shape: tuple[int, ...], ring: Ring) -> Cost:
    """State the cost of `group_sum` for rows of a shape."""
    n = shape[0]
    return (
        engine.cost("b2a", shape=(n,), ring=ring)
        + cost_destinations(engine, 1, n)
        + 2 * engine.cost("mul", shape=shape, ring=ring)
        + 2 * cost_permute(engine, shape, ring)
    )


def _below(x: Secret) -> Secret:
    """Move every row up by one; the last becomes zero."""
    return concatenate([x[1:], _zero_row(x)])


def _above(x: Secret) -> Secret:
    """Move every row down by one; the first becomes zero."""
    return concatenate([_zero_row(x), x[:-1]])


def _zero_row(x: Secret) -> Secret:
    return x[:0].sum(0, keepdims=True)
