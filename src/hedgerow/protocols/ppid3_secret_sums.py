"""What the servers of a vertical ID3 compute on shares: sizes, the best site, equality of ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.compare import cost_equal, equal
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Secret, concatenate


def joint_counts(sets: Sequence[Secret], counter: int, holder: int | None) -> Secret:
    """Count, for every choice of groups, the records that all sites have in them.

    1. Sets without groups are multiplied with each other, two by two, record by record.
    2. The product is multiplied into one of the sets with groups, the one with fewer.
    3. One matrix product sums over the records, for all pairs of groups at once.

    Reveals: nothing.
    Cost: `cost_joint_counts`; ceil(log2 s) rounds for s sets without groups, one more where there
    are two with groups and s > 0, and one for the sums, which send one number per pair of groups.

    Parameters
    ----------
    sets : sequence of Secret, shape (groups, n)
        One per site of the ring, two at least, of zeros and ones; groups are disjoint.
    counter : int
        Place in the ring of the site that counts.
    holder : int or None
        Place of the class site, if its classes are counted apart and it is not the counter.

    Returns
    -------
    Secret, shape (groups of the counter,) or (groups of the counter, groups of the holder)
    """
    own, n = sets[counter], sets[counter].shape[-1]
    plain = [one for at, one in enumerate(sets) if at not in (counter, holder)]
    if holder is None:
        return (own @ _product(plain).reshape(n, 1)).reshape(own.shape[0])
    other = sets[holder]
    if plain:
        all_of_them = _product(plain)
        if own.shape[0] <= other.shape[0]:
            own = own * all_of_them
        else:
            other = other * all_of_them
    return own @ other.transpose(1, 0)


def best_site(gains: Sequence[Secret]) -> Secret:
    """Return which site has the largest gain; of equal ones the first, as in the clear.

    Reveals: nothing.
    Cost: `cost_best_site`.

    Parameters
    ----------
    gains : sequence of Secret, shape (1,)
        One per site, as `hedgerow.protocols.ppid3_secret_parts.ordered` writes them.

    Returns
    -------
    Secret, shape (1,)
    """
    first = argmax(concatenate(list(gains), axis=0))
    return (first * np.arange(len(gains))).sum(axis=0).reshape(1)


def all_same(prints: Sequence[Secret]) -> Secret:
    """Return 1 if all numbers are equal, else 0.

    Reveals: nothing.
    Cost: `cost_all_same`.

    Parameters
    ----------
    prints : sequence of Secret, shape (1,)
        Two at least.

    Returns
    -------
    Secret, shape (1,)
    """
    first, *others = prints
    alike = equal(concatenate(others, axis=0), first)
    return _product([alike[i : i + 1] for i in range(len(others))])


def cost_joint_counts(
    engine: Engine, groups: Sequence[int], n: int, counter: int, holder: int | None, ring: Ring
) -> Cost:
    """State the cost of `joint_counts` for sets in so many groups over n records."""
    rows, plain = groups[counter], len(groups) - (1 if holder is None else 2)
    columns = 1 if holder is None else groups[holder]
    total = _cost_product(engine, plain, n, ring)
    if holder is not None and plain:
        total += engine.cost("mul", shape=(min(rows, columns), n), ring=ring)
    return total + engine.cost("matmul", shape=(rows, columns), ring=ring)


def cost_best_site(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `best_site`."""
    return cost_argmax(engine, (n_sites,), Z64)


def cost_all_same(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `all_same`."""
    return cost_equal(engine, n_sites - 1, Z64) + _cost_product(engine, n_sites - 1, 1, Z64)


def _product(factors: Sequence[Secret]) -> Secret:
    """Multiply arrays of shape (1, n) or (1,), two by two, all pairs of a round at once."""
    x = concatenate(list(factors), axis=0)
    while len(x) > 1:
        pairs = len(x) // 2
        x = concatenate([x[:pairs] * x[pairs : 2 * pairs], x[2 * pairs :]], axis=0)
    return x


def _cost_product(engine: Engine, m: int, n: int, ring: Ring) -> Cost:
    total = NOTHING
    while m > 1:
        total += engine.cost("mul", shape=(m // 2, n), ring=ring)
        m -= m // 2
    return total
