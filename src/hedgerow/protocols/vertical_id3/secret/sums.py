"""What the servers of a vertical ID3 compute on shares: sizes, the best site, equality of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import and_, mul

import numpy as np

from hedgerow.protocols.sharing.queries import one_hot_bits
from hedgerow.protocols.vertical_id3.plan import set_planes
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import equal
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import AnySecret, Secret, SecretBits, concatenate, stack


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

    Of `sets` (`set_planes` of its groups, n) there are two at least, in the order of the ring: of
    every record 1 + the number of its group, or 0 for none, from the highest bit on. `counter` is
    the place of the site that counts, `holder` that of another class site whose classes are counted
    apart. Returns (groups of the counter,) or (groups of the counter, groups of the holder).

    Reveals: nothing.
    Cost: for at most g groups, and s sets without, floor(log2 g) rounds for the groups, ceil(log2
    s) for the others and one more if s > 0, two for numbers, and one for the matrix product, which
    sends one number per pair of groups.
    """
    bits = _by_group(sets, groups)
    own, engine = bits[counter], bits[counter].engine
    plain = [one for at, one in enumerate(bits) if at not in (counter, holder)]
    everywhere = _fold(plain, and_) if plain else None
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
    """Return which site has the largest of the gains (1,) of `gain_number`; the first of equals.

    Reveals: nothing.
    Cost: one `argmax` over the sites.
    """
    first = argmax(concatenate(list(gains), axis=0))
    return (first * np.arange(len(gains))).sum(axis=0).reshape(1)


def all_same(prints: Sequence[Secret]) -> Secret:
    """Return 1 if all numbers are equal, else 0.

    Reveals: nothing.
    Cost: one `equal` with the first, and ceil(log2) rounds of products of the rest, (1,) each.
    """
    first, *others = prints
    alike = equal(concatenate(others, axis=0), first)
    return _fold([alike[i : i + 1] for i in range(len(others))], mul)


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


def _fold(
    factors: Sequence[AnySecret], join: Callable[[AnySecret, AnySecret], AnySecret]
) -> AnySecret:
    """Join arrays of shape (1, n) or (1,), two by two, all pairs of a round at once."""
    x = concatenate(list(factors), axis=0)
    while len(x) > 1:
        pairs = len(x) // 2
        x = concatenate([join(x[:pairs], x[pairs : 2 * pairs]), x[2 * pairs :]], axis=0)
    return x
