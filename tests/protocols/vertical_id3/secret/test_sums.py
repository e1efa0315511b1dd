"""What servers compute on shares equals what sets say, and costs what is declared."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from hedgerow.protocols.vertical_id3.plan import set_planes
from hedgerow.protocols.vertical_id3.secret.sums import (
    all_same,
    best_site,
    joint_counts,
)
from hedgerow.secure.argmax import cost_argmax
from hedgerow.secure.compare import cost_equal
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import ENGINES, metered, reveal, share, share_bits

CASES = [
    # groups of each site, who counts, who has the classes
    ((3, 2), 0, 1),
    ((2, 3), 1, 0),
    ((4, 1), 0, None),
    ((1, 5, 1), 1, None),
    ((3, 1, 2, 1), 0, 2),
    ((2, 1, 1, 1, 6), 4, 0),
    ((1, 1, 1, 1, 3), 4, None),
]


def shared_set(engine, labels: np.ndarray, groups: int):
    """Share the group of each record, -1 for none, as a site does."""
    shifts = np.arange(set_planes(groups))[::-1, None]
    return share_bits(engine, ((labels + 1) >> shifts) & 1 != 0)


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
    return total + engine.cost("matmul", shape=(rows, columns), ring=ring, inner=n)


def cost_best_site(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `best_site`."""
    return cost_argmax(engine, (n_sites,), Z64)


def cost_all_same(engine: Engine, n_sites: int) -> Cost:
    """State the cost of `all_same`."""
    return cost_equal(engine, n_sites - 1, Z64) + _cost_folded(
        n_sites - 1, lambda pairs: engine.cost("mul", shape=(pairs, 1), ring=Z64)
    )


def _cost_folded(m: int, cost: Callable[[int], Cost]) -> Cost:
    total = NOTHING
    while m > 1:
        total += cost(m // 2)
        m -= m // 2
    return total


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize(("groups", "counter", "holder"), CASES)
@pytest.mark.parametrize("ring", [Z16, Z32])
def test_sizes_of_intersections(name, groups, counter, holder, ring) -> None:
    engine, rng, n = ENGINES[name](), np.random.default_rng(sum(groups)), 50
    labels = [rng.integers(-1, g, n) if g > 1 else rng.integers(-1, 1, n) for g in groups]
    bits = [
        (label == np.arange(g)[:, None]).astype(ring.dtype)
        for g, label in zip(groups, labels, strict=True)
    ]
    sets = [shared_set(engine, label, g) for g, label in zip(groups, labels, strict=True)]
    found = reveal(joint_counts(sets, groups, counter, holder, ring))
    sizes = np.zeros(groups, dtype=int)
    for choice in itertools.product(*map(range, groups)):
        sizes[choice] = np.all([b[i] for b, i in zip(bits, choice, strict=True)], axis=0).sum()
    marked = (counter,) if holder is None else (counter, holder)
    expected = np.moveaxis(sizes, marked, range(len(marked))).reshape([groups[i] for i in marked])
    np.testing.assert_array_equal(found, expected)
    cost = metered(engine, lambda: joint_counts(sets, groups, counter, holder, ring))
    assert cost == cost_joint_counts(engine, groups, n, counter, holder, ring)


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize("groups", [1, 2, 3, 5, 8])
def test_whatever_bits_are_shared_put_a_record_into_one_group_or_none(name, groups) -> None:
    engine, rng, n = ENGINES[name](), np.random.default_rng(groups), 200
    planes = rng.integers(0, 2, (set_planes(groups), n)) != 0
    labels = np.minimum((planes * (1 << np.arange(len(planes))[::-1, None])).sum(axis=0), groups)
    everybody = shared_set(engine, np.zeros(n, dtype=int), 1)
    sets = [share_bits(engine, planes), everybody]
    found = reveal(joint_counts(sets, (groups, 1), 0, None, Z16))
    assert found.tolist() == np.bincount(labels, minlength=groups + 1)[1:].tolist()


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize(
    "gains", [[3, 9, 9], [9, 9, 2, 9], [0, 0], [0, 1], [2**62, 2**62 - 1, 2**62 + 1, 5, 0]]
)
def test_the_first_of_the_best_sites(name: str, gains: list[int]) -> None:
    engine = ENGINES[name]()
    shared = [share(engine, np.array([g], dtype=np.uint64), Z64) for g in gains]
    assert reveal(best_site(shared)).tolist() == [gains.index(max(gains))]
    assert metered(engine, lambda: best_site(shared)) == cost_best_site(engine, len(gains))


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_ids_are_the_same_or_not(name: str, n: int) -> None:
    engine, number = ENGINES[name](), 2**64 - 3
    for odd in (None, *range(n)):
        prints = [np.array([number ^ (1 << 63 if i == odd else 0)], np.uint64) for i in range(n)]
        shared = [share(engine, one, Z64) for one in prints]
        assert reveal(all_same(shared)).tolist() == [int(odd is None)]
    assert metered(engine, lambda: all_same(shared)) == cost_all_same(engine, n)
