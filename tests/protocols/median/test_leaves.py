"""Leaves: sums of nodes, shrinkage and the paper's means."""

import math

import numpy as np
import pytest

from hedgerow.privacy import NoiseSource, TwoSidedGeometric
from hedgerow.protocols.median.leaves import (
    ForestNodes,
    draw_leaves,
    node_totals,
    node_values,
)
from hedgerow.tables import Attribute, Domain, Target
from tests.protocols.median.plans import median_plan

X = (Attribute(name="x", kind="numeric", bounds=(0, 1), bins=4),)
CLASSES = Domain(attributes=X, target=Target(classes=(0, 1)), capacity=1000)
NUMBERS = Domain(attributes=X, target=Target(bounds=(10.0, 30.0)), capacity=1000)
# Two trees: one of depth 2 with three leaves, one that is a leaf.
NODES = ForestNodes(
    parent=np.array([-1, -1, 0, 0, 2, 2]),
    depth=np.array([0, 0, 1, 1, 2, 2]),
    leaves=np.array([4, 5, 3, 1]),
)
COUNTS = np.array([[30.0, 10.0], [2.0, 50.0], [0.0, 0.0], [7.0, 3.0]])


def plan(domain: Domain, epsilon: float | None, **options):
    options = {"n_trees": 2, "depth": 2, "variant": "base", "shrinkage": False} | options
    return median_plan(domain, epsilon=epsilon, **options)


def test_inner_nodes_are_sums_of_their_leaves() -> None:
    totals = node_totals(COUNTS, NODES)
    assert totals.tolist() == [[32, 60], [7, 3], [32, 60], [0, 0], [30, 10], [2, 50]]


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 4.0])
def test_variance_of_the_noise(epsilon: float) -> None:
    mechanism = TwoSidedGeometric(epsilon)
    k = np.arange(-20_000, 20_001)
    assert mechanism.variance == pytest.approx((k**2 * mechanism.law(k)).sum(), rel=1e-6)


def test_without_noise_a_node_holds_its_counts_and_an_empty_leaf_answers_as_its_parent() -> None:
    value, weight = node_values(COUNTS, NODES, plan(CLASSES, None))
    assert weight.tolist() == [92, 10, 92, 0, 40, 52]
    np.testing.assert_allclose(value[[0, 1, 2, 4, 5]], node_totals(COUNTS, NODES)[[0, 1, 2, 4, 5]])
    np.testing.assert_allclose(value[3], [32 / 92, 60 / 92])


def test_means_without_noise() -> None:
    clear = plan(NUMBERS, None)
    u = clear.units.most
    drawn = np.array([[4.0, 4 * u], [4.0, -2 * u], [0.0, 0.0], [5.0, 0.0]])
    value, weight = node_values(drawn, NODES, clear)
    np.testing.assert_allclose(value[:, 0], [22.5, 20, 22.5, 22.5, 30, 15])
    assert weight.tolist() == [8, 5, 8, 0, 4, 4]


def test_unshrunk_private_counts_are_released_as_they_are() -> None:
    value, weight = node_values(COUNTS - 5, NODES, plan(CLASSES, 1.0))
    np.testing.assert_array_equal(value, node_totals(COUNTS - 5, NODES))
    np.testing.assert_array_equal(weight, value.sum(axis=1))


def test_shrinkage_trusts_large_leaves_and_not_small_ones() -> None:
    shrunk = plan(CLASSES, 1.0, shrinkage=True)
    large = np.array([[3000.0, 1000.0], [200.0, 5000.0], [6.0, -5.0], [700.0, 300.0]])
    value, weight = node_values(large, NODES, shrunk)
    shares = value / value.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares[4], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(shares[5], [0.0385, 0.9615], atol=0.01)
    # A leaf of one record, as far as noise lets see, stays near the share above it.
    assert abs(shares[3, 0] - shares[0, 0]) < 0.1
    assert (value >= 0).all()
    assert (weight >= 0).all()


def test_shrinkage_has_a_smaller_error_than_the_released_counts() -> None:
    rng = np.random.default_rng(5)
    leaves = 256
    parent, depth = [-1], [0]
    for level in range(8):
        above = np.flatnonzero(np.array(depth) == level)
        parent += np.repeat(above, 2).tolist()
        depth += [level + 1] * (2 * above.size)
    nodes = ForestNodes(np.array(parent), np.array(depth), np.flatnonzero(np.array(depth) == 8))
    truth = np.clip(0.3 + 0.25 * np.sin(np.arange(leaves) / 20), 0, 1)
    n = rng.integers(1, 40, leaves)
    ones = rng.binomial(n, truth)
    exact = np.column_stack([n - ones, ones]).astype(np.int64)
    errors = []
    for shrinkage in (True, False):
        shrunk = plan(CLASSES, 0.4, n_trees=1, depth=8, shrinkage=shrinkage)
        drawn = draw_leaves(exact, shrunk, NoiseSource.insecure_seeded(3))
        value = np.maximum(node_values(drawn, nodes, shrunk).value[nodes.leaves], 0)
        total = value.sum(axis=1)
        share = np.where(total > 0, value[:, 1] / np.maximum(total, 1e-9), 0.5)
        errors.append(np.average((share - truth) ** 2, weights=n))
    assert errors[0] < 0.3 * errors[1]


def test_private_leaves_have_the_law_of_their_mechanisms() -> None:
    noisy = plan(NUMBERS, 1.0, split_share=0.4)
    channels = np.zeros((40_000, 3), dtype=np.int64)
    channels[:, 0], channels[:, 1] = 7, 1234
    drawn = draw_leaves(channels, noisy, NoiseSource.insecure_seeded(1))
    for column, mechanism, centre in ((0, noisy.count, 7), (1, noisy.sum, 1234)):
        spread = mechanism.variance
        assert drawn[:, column].mean() == pytest.approx(centre, abs=5 * math.sqrt(spread / 40_000))
        assert drawn[:, column].var() == pytest.approx(spread, rel=0.06)


def test_the_papers_means_have_noise_that_shrinks_with_the_leaf() -> None:
    paper = plan(NUMBERS, 1.0, accounting="paper")
    u = paper.units.most
    for n in (10, 1000):
        channels = np.tile([n, n * u // 2, 0], (40_000, 1)).astype(np.int64)
        drawn = draw_leaves(channels, paper, NoiseSource.insecure_seeded(2))
        # B is the largest magnitude of the target, 30, and half the bounds' width, 10, is u.
        scale = 2 * 3 * u / (n * paper.spending.counts)
        assert np.abs(drawn - u / 2).mean() == pytest.approx(scale, rel=0.03)
    value, weight = node_values(drawn[:4], NODES, paper)
    assert np.isnan(value[[0, 2]]).all()
    assert np.isnan(weight).all()
    assert ((value[NODES.leaves] >= 10) & (value[NODES.leaves] <= 30)).all()
