"""What the servers of a vertical ID3 compute on shares: sizes, the best site, equality of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import and_, mul

import numpy as np

from hedgerow.protocols.sharing.queries import one_hot_bits
from hedgerow.protocols.vertical_id3.secret.session import NUMBERS, set_planes
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.compare import cost_equal, equal
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import AnySecret, Engine, Secret, SecretBits, concatenate, stack


def joint_counts(
    sets: Sequence[SecretBits],
    groups: Sequence[int],
    counter: int,
    holder: int | None,
    ring: Ring,
) -> Secret:
    """Count, for every choice of groups, the records that all sites have in them.

    1. The numbers of groups become one bit for each group, all sets at once. Any bits are some
       number, and one beyond the groups is the last of them, so no record is in two groups of a
       site, nor in one of them more than once.
    2. Sets without groups are conjoined with each other, two by two, record by record, and the
       result with one of the sets with groups, the one with fewer.
    3. Bits become numbers of the ring, and are summed over the records: with two sets of groups by
       one matrix product, for all pairs of groups at once.

    Reveals: nothing.
    Cost: `cost_joint_counts`; for at most g groups, and s sets without, floor(log2 g) rounds for
    the groups, ceil(log2 s) for the others and one more if s > 0, two for numbers, and one for the
    matrix product, which sends one number per pair of groups.

    Parameters
    ----------
    sets : sequence of SecretBits, shape (`set_planes` of its groups, n)
        One per site of the ring, two at least: of every record 1 + the number of its group, or 0
        for none, from the highest bit on.
    groups : sequence of int
        Of each set.
    counter : int
        Place in the ring of the site that counts.
    holder : int or None
        Place of the class site, if its classes are counted apart and it is not the counter.
    ring : Ring
        Of the sums.

    Returns
    -------
    Secret, shape (groups of the counter,) or (groups of the counter, groups of the holder)
    """
    bits = _by_group(sets, groups)
    own, engine = bits[counter], bits[counter].engine
    plain = [one for at, one in enumerate(bits) if at not in (counter, holder)]
    everywhere = _folded(plain, and_) if plain else None
    if holder is None:
        assert everywhere is not None
        return engine.b2a(own & everywhere, ring).sum(axis=1)
    other = bits[holder]
    if everywhere is not None:
        if len(own) <= len(other):
            own = own & everywhere
        else:
            other = other & everywhere
    numbers = engine.b2a(concatenate([own, other]), ring)
    return numbers[: len(own)] @ numbers[len(own) :].transpose(1, 0)


def best_site(gains: Sequence[Secret]) -> Secret:
    """Return which site has the largest gain; of equal ones the first, as in the clear.

    Reveals: nothing.
    Cost: `cost_best_site`.

    Parameters
    ----------
    gains : sequence of Secret, shape (1,)
        One per site, as `hedgerow.protocols.vertical_id3.secret.session.ordered` writes them.

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
    return _folded([alike[i : i + 1] for i in range(len(others))], mul)


def cost_joint_counts(
    engine: Engine, groups: Sequence[int], n: int, counter: int, holder: int | None, ring: Ring
) -> Cost:
    """State the cost of `joint_counts` for sets in so many groups over n records."""
    several = [g for g in groups if g > 1]
    total = NOTHING
    for level in range(1, set_planes(max(groups))):
        total += engine.cost("and_", shape=(len(several), 1 << level, n))
    rows, plain = groups[counter], len(groups) - (1 if holder is None else 2)
    total += _cost_folded(plain, lambda pairs: engine.cost("and_", shape=(pairs, n)))
    if holder is None:
        total += engine.cost("and_", shape=(rows, n))
        return total + engine.cost("b2a", shape=(rows, n), ring=ring)
    columns = groups[holder]
    if plain:
        total += engine.cost("and_", shape=(min(rows, columns), n))
    total += engine.cost("b2a", shape=(rows + columns, n), ring=ring)
    return total + engine.cost("matmul", shape=(rows, columns), ring=ring)


def cost_best_site(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `best_site`."""
    return cost_argmax(engine, (n_sites,), NUMBERS)


def cost_all_same(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `all_same`."""
    return cost_equal(engine, n_sites - 1, NUMBERS) + _cost_folded(
        n_sites - 1, lambda pairs: engine.cost("mul", shape=(pairs, 1), ring=NUMBERS)
    )


def _by_group(sets: Sequence[SecretBits], groups: Sequence[int]) -> list[SecretBits]:
    """Return sets as one row of bits for each group, (groups, n)."""
    several = [at for at, g in enumerate(groups) if g > 1]
    if not several:
        return list(sets)
    most, first = set_planes(max(groups)), sets[0]
    zeros = first.engine.public_bits(np.zeros((most, first.n), dtype=np.bool_))
    numbers = [concatenate([zeros[len(sets[at]) :], sets[at]]) for at in several]
    hot = one_hot_bits(stack(numbers, axis=1), [groups[at] + 1 for at in several])
    found = list(sets)
    for i, at in enumerate(several):
        start = (i << most) + 1
        found[at] = hot[start : start + groups[at]]
    return found


def _folded(
    factors: Sequence[AnySecret], join: Callable[[AnySecret, AnySecret], AnySecret]
) -> AnySecret:
    """Join arrays of shape (1, n) or (1,), two by two, all pairs of a round at once."""
    x = concatenate(list(factors), axis=0)
    while len(x) > 1:
        pairs = len(x) // 2
        x = concatenate([join(x[:pairs], x[pairs : 2 * pairs]), x[2 * pairs :]], axis=0)
    return x


def _cost_folded(m: int, cost: Callable[[int], Cost]) -> Cost:
    total = NOTHING
    while m > 1:
        total += cost(m // 2)
        m -= m // 2
    return total
