"""The prediction kernels, on plans of one and of several trees."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from hedgerow import threads
from hedgerow.trees import predict
from hedgerow.trees.layout import SplitKind
from tests.trees.tree_strategies import (
    domains,
    quick,
    random_bins,
    random_domain,
    random_tree,
    trees_with_bins,
    walk,
)


@quick
@given(trees_with_bins(rows=30))
def test_leaves_follow_the_definition(case):
    tree, bins = case
    assert predict.leaves(tree.plan, bins).tolist() == [walk(tree, row) for row in bins]


@pytest.mark.parametrize("n", [0, 1, predict.BLOCK, predict.BLOCK + 1, 2 * predict.CHUNK + 17])
def test_blocks_and_chunks_have_no_seams(n):
    rng = np.random.default_rng(n)
    tree = random_tree(rng, max_splits=20)
    bins = random_bins(rng, tree.domain, n)
    whole = predict.leaves(tree.plan, bins)
    some = np.unique(np.linspace(0, n - 1, 50).astype(int)) if n else []
    assert whole.shape == (n,)
    assert whole[some].tolist() == [walk(tree, bins[i]) for i in some]
    parts = [predict.leaves(tree.plan, bins[i : i + 1000]) for i in range(0, n, 1000)]
    assert np.array_equal(whole, np.concatenate([np.empty(0, np.int32), *parts]))


def test_chunks_stay_within_the_affinity(monkeypatch):
    monkeypatch.setattr(threads, "available", lambda: 1)
    seen = []
    predict._in_chunks(
        lambda lo, hi: seen.append((lo, hi, threading.current_thread())), 2 * predict.CHUNK + 1
    )
    here = threading.current_thread()
    edges = [0, predict.CHUNK, 2 * predict.CHUNK, 2 * predict.CHUNK + 1]
    assert seen == [(lo, hi, here) for lo, hi in pairwise(edges)]


def test_layout_and_type_of_the_bins_do_not_matter():
    rng = np.random.default_rng(5)
    tree = random_tree(rng, max_splits=20)
    bins = random_bins(rng, tree.domain, 300)
    expected = predict.leaves(tree.plan, bins)
    frozen = bins.copy(order="F")
    frozen.setflags(write=False)
    for same in (np.ascontiguousarray(bins), bins.astype(np.uint16), frozen, bins[::-1][::-1]):
        assert np.array_equal(predict.leaves(tree.plan, same), expected)


def test_bins_of_two_bytes():
    rng = np.random.default_rng(6)
    domain = random_domain(rng, max_bins=5_000, numeric_only=True)
    assert domain.dtype == np.uint16
    tree = random_tree(rng, domain, max_splits=30, kinds=[SplitKind.THRESHOLD, SplitKind.SUBSET])
    bins = random_bins(rng, domain, 200)
    assert predict.leaves(tree.plan, bins).tolist() == [walk(tree, row) for row in bins]


@quick
@given(domains())
def test_total_adds_the_trees_in_their_order(domain):
    rng = np.random.default_rng(len(domain.attributes))
    grown = [random_tree(rng, domain) for _ in range(4)]
    bins = random_bins(rng, domain, 100)
    values = [rng.normal(size=(tree.n_nodes, 3)) for tree in grown]
    expected = np.zeros((100, 3))
    for tree, value in zip(grown, values, strict=True):
        expected += value[tree.apply(bins)]
    plan = predict.join([tree.plan for tree in grown])
    assert np.array_equal(predict.total(plan, np.concatenate(values), bins), expected)


def test_depths_come_from_parents():
    assert predict.depths(np.array([-1, 0, 0, 2, 3], dtype=np.int32)).tolist() == [0, 1, 1, 2, 3]
