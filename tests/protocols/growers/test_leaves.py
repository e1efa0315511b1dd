import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.privacy import EACH, Ledger, NoisyMax, TwoSidedGeometric
from hedgerow.protocols.growers.leaves import (
    LEAF_COUNTS,
    LEAF_LABELS,
    Majority,
    NoisyLabels,
    NoisyLeafCounts,
    PaperLeaves,
)
from hedgerow.protocols.hidden.id3 import GrownTrees
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.secure.secret import Engine
from tests.protocols.hidden.hidden_runs import ENGINES, look, make_engine

ChiSquare = Callable[..., float]
CERTAIN = 1e-4  # seeds are fixed
DRAWS = 60_000


def grown(engine: Engine, levels: list[NDArray[Any]], ring: Ring = Z16) -> GrownTrees:
    """Wrap the counts (trees, nodes, k) of all levels, the leaves last; children side by side."""
    hidden = [engine.input(level, 0, level.shape, ring) for level in levels]
    sizes = [level.shape[1] for level in levels]
    parents = [
        np.repeat(np.arange(above), below // above) for above, below in itertools.pairwise(sizes)
    ]
    return GrownTrees([], hidden[:-1], hidden[-1], parents)


def constant(engine: Engine, counts: list[int], n: int = DRAWS) -> GrownTrees:
    leaves = np.broadcast_to(counts, (1, n, len(counts)))
    return grown(engine, [leaves[:, :1], leaves])


def check_one_hot(labels: NDArray[Any]) -> NDArray[np.int64]:
    assert np.all((labels == 0) | (labels == 1))
    np.testing.assert_array_equal(labels.sum(axis=-1), 1)
    return labels.argmax(axis=-1)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("empty", [0.0, 0.6, 0.95, 1.0])
def test_an_empty_leaf_has_the_majority_of_its_nearest_ancestor_with_records(
    name: str, arity: int, empty: float
) -> None:
    rng, t, k, depth = np.random.default_rng(int(empty * 100) + arity), 3, 4, 3
    leaves = rng.integers(0, 3, (t, arity**depth, k))
    # Whole branches are empty, from every level downwards.
    for level in (1, 2, 3):
        gone = np.repeat(rng.random((t, arity**level)) < empty / 2, arity ** (3 - level), axis=1)
        leaves[gone] = 0
    if empty == 1.0:
        leaves[0] = 0
    levels = [leaves]
    for level in (2, 1, 0):
        levels.insert(0, levels[0].reshape(t, arity**level, arity, k).sum(axis=2))
    found = check_one_hot(look(Majority()(grown(make_engine(name), levels), 200).labels))
    inherited = 0
    for tree in range(t):
        for leaf in range(arity**depth):
            node, level = leaf, depth
            while level and not levels[level][tree, node].any():
                node, level = node // arity, level - 1
            inherited += level < depth - 1
            assert found[tree, leaf] == levels[level][tree, node].argmax()
    # More than the parent had to be asked somewhere.
    assert inherited > 0 or empty == 0.0


@pytest.mark.parametrize("name", ENGINES)
def test_labels_without_noise_come_without_counts(name: str) -> None:
    leaves = np.array([[[2, 2, 1], [0, 0, 0], [0, 1, 1], [0, 0, 5]]])
    found = Majority()(grown(make_engine(name), [leaves.sum(axis=1, keepdims=True), leaves]), 11)
    assert found.counts is None
    # The root has 2, 3 and 7 records of the classes.
    assert look(found.labels)[0].argmax(axis=-1).tolist() == [0, 2, 1, 2]


def test_counts_near_the_end_of_the_ring() -> None:
    capacity = 32_766
    leaves = np.array([[[capacity, 0], [0, 0], [0, 0], [0, 0]]])
    for name in ENGINES:
        engine = make_engine(name)
        every = grown(engine, [leaves.sum(axis=1, keepdims=True), leaves])
        assert look(Majority()(every, capacity).labels)[0].argmax(axis=-1).tolist() == [0] * 4
        # Epsilon is so large that there is no noise, and noise would not fit into 16 bits.
        noisy = NoisyLeafCounts(TwoSidedGeometric(90.0), Ledger())(every, capacity)
        assert noisy.labels.ring == Z32
        np.testing.assert_array_equal(look(noisy.counts), leaves)
        labels = NoisyLabels(NoisyMax(90.0, monotone=True), Ledger())(every, capacity)
        np.testing.assert_array_equal(look(labels.labels)[0, 0], [1, 0])


def test_noisy_counts_follow_the_two_sided_geometric_law(chi_square: ChiSquare) -> None:
    mechanism, truth = TwoSidedGeometric(0.7), np.array([3, 0, 1])
    found = NoisyLeafCounts(mechanism, Ledger())(constant(make_engine("clear"), [3, 0, 1]), 4)
    counts = look(found.counts)[0]
    noise = (counts - truth).reshape(-1)
    law = mechanism.law(np.arange(-40, 41))
    law[0], law[-1] = law[0] + (1 - law.sum()) / 2, law[-1] + (1 - law.sum()) / 2
    seen = np.bincount(np.clip(noise, -40, 40) + 40, minlength=81)
    assert chi_square(seen, law / law.sum()) > CERTAIN
    # Independent between the classes of a leaf.
    assert abs(np.corrcoef(counts.T)[np.triu_indices(3, 1)]).max() < 5 / math.sqrt(DRAWS)
    np.testing.assert_array_equal(check_one_hot(look(found.labels))[0], counts.argmax(axis=-1))


def test_noisy_labels_follow_the_law_of_noisy_max(chi_square: ChiSquare) -> None:
    mechanism = NoisyMax(0.8, 1, monotone=True)
    found = NoisyLabels(mechanism, Ledger())(constant(make_engine("clear"), [3, 0, 2]), 5)
    assert found.counts is None
    seen = np.bincount(check_one_hot(look(found.labels)).reshape(-1), minlength=3)
    assert chi_square(seen, mechanism.law([3, 0, 2])) > CERTAIN
    assert chi_square(seen, NoisyMax(0.8).law([3, 0, 2])) < 1e-12


def test_noise_on_three_servers(chi_square: ChiSquare) -> None:
    every = constant(make_engine("three servers"), [2, 0], 6000)
    mechanism = TwoSidedGeometric(1.0)
    noise = look(NoisyLeafCounts(mechanism, Ledger())(every, 2).counts)[0] - [2, 0]
    law = mechanism.law(np.arange(-30, 31))
    seen = np.bincount(np.clip(noise.reshape(-1), -30, 30) + 30, minlength=61)
    assert chi_square(seen, law / law.sum()) > CERTAIN
    choose = NoisyMax(1.0, 1, monotone=True)
    labels = check_one_hot(look(NoisyLabels(choose, Ledger())(every, 2).labels))
    assert chi_square(np.bincount(labels.reshape(-1)), choose.law([2, 0])) > CERTAIN


def test_the_paper_s_leaves_are_near_laplace_and_the_exponential_mechanism(
    chi_square: ChiSquare,
) -> None:
    every = constant(make_engine("clear"), [3, 0, 2], 20_000)
    found = PaperLeaves(0.8, False, Ledger())(every, 5)
    assert found.fraction == 16
    counts = look(found.counts)[0] / 2.0**16
    np.testing.assert_array_equal(check_one_hot(look(found.labels))[0], counts.argmax(axis=-1))
    noise = (counts - [3, 0, 2]).reshape(-1)
    assert abs(noise.mean()) < 0.05
    # Of the Laplace law: quartiles of |noise| at b ln(4/3), b ln 2 and b ln 4, b = 1 / 0.8.
    for share in (0.25, 0.5, 0.75):
        assert np.quantile(abs(noise), share) == pytest.approx(-math.log(1 - share) / 0.8, rel=0.02)
    labels = PaperLeaves(0.8, True, Ledger())(every, 5)
    assert labels.counts is None
    weights = np.exp(0.4 * np.array([3, 0, 2]))
    seen = np.bincount(check_one_hot(look(labels.labels)).reshape(-1), minlength=3)
    assert chi_square(seen, weights / weights.sum()) > CERTAIN


@pytest.mark.parametrize("name", ENGINES)
def test_leaves_are_charged_once_for_each(name: str) -> None:
    engine = make_engine(name, private=True)
    every = constant(engine, [1, 0, 1], 10)
    counts, labels = TwoSidedGeometric(0.3), NoisyMax(0.3, 1, monotone=True)
    expected = [
        (NoisyLeafCounts, counts, LEAF_COUNTS, precision(counts, 3).delta, 6),
        (NoisyLabels, labels, LEAF_LABELS, precision(labels, 3).delta, 3),
    ]
    for update, mechanism, reason, delta, variables in expected:
        ledger = Ledger()
        update(mechanism, ledger)(every, 3)
        (release,) = ledger.releases
        assert (release.reason, release.epsilon, release.delta) == (reason, 0.3, delta)
        assert (release.audience, release.times, release.variables) == ("analyst", 1, variables)
        assert 0 < delta < 2**-60
        last = release.scope.segments[-1]
        assert (last.partition.name, last.label) == ("leaves", EACH)
        assert ledger.total("analyst").epsilon == 0.3
        assert ledger.total("server").epsilon == 0
    for exponential, reason in ((False, LEAF_COUNTS), (True, LEAF_LABELS)):
        ledger = Ledger()
        PaperLeaves(0.3, exponential, ledger, "public")(every, 3)
        (release,) = ledger.releases
        assert (release.reason, release.epsilon, release.claimed) == (reason, math.inf, 0.3)
        assert ledger.total("public").epsilon == math.inf
        assert ledger.claimed_total("public") == 0.3
    ledger = Ledger()
    Majority()(every, 3)
    assert not ledger.releases
