import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.growers.choices import split_reason
from hedgerow.protocols.growers.leaves import LEAF_COUNTS, LEAF_LABELS
from hedgerow.protocols.hidden.open_id3 import train_open
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import LEAF, OpenPlan, split_name
from hedgerow.secure.clear import ClearEngine
from hedgerow.tables import Attribute, Encoded
from hedgerow.trees import Limits, grow_cart, grow_id3
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.private import plan_private
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    domain,
    every_row,
    grow_reference,
    make_engine,
    make_rows,
    make_slots,
    shared,
)
from tests.secure.replicated.wires import Recorder

ChiSquare = Callable[..., float]
CAPACITY = 60

MODES: dict[str, dict[str, Any]] = {
    "exact w-ary": {"noise": "none", "branching": "wary"},
    "exact binary": {"noise": "none", "criterion": "gini"},
    "counts in leaves": {"noise": "leaves"},
    "noisy w-ary": {"branching": "wary"},
    "noisy binary": {},
    "noisy labels": {"leaf_release": "labels"},
    "Laplace": {"branching": "wary", "mechanism": "laplace"},
    "exponential": {"branching": "wary", "mechanism": "exponential"},
}


def planned(mode: str, **options: Any) -> OpenPlan:
    wanted = {"capacity": CAPACITY, "depth": 2, "epsilon": 1.3, **MODES[mode], **options}
    return plan_hidden(domain(), **wanted).opened()


def run_open(
    name: str, slots: Encoded, plan: OpenPlan, *, private: bool = False, network: Any = None
) -> tuple[Tree, Ledger, Leakage]:
    ledger = Ledger(domain=plan.domain)
    leakage = Leakage(plan.openings(), ledger=ledger)
    engine = make_engine(name, leakage, private=private, network=network)
    table = shared(engine, slots, plan.layout, plan.ring)
    return train_open(table, plan, ledger), ledger, leakage


@pytest.mark.parametrize("name", ENGINES)
@given(seed=st.integers(0, 2**20), k=st.integers(2, 4), depth=st.integers(1, 4))
@settings(max_examples=8)
def test_open_trees_without_noise_are_those_of_id3(
    name: str, seed: int, k: int, depth: int
) -> None:
    slots = make_slots(domain(k), seed, 40, filled=0.8)
    plan = plan_hidden(
        slots.domain, noise="none", branching="wary", depth=depth, capacity=40
    ).opened()
    tree, _, _ = run_open(name, slots, plan)
    # An attribute with one bin is decided from the start, so that it takes no level here.
    queries, several = every_row(slots.domain), (0, 2, 3)
    oracle = grow_id3(slots.select(several), criterion="max", max_depth=depth)
    np.testing.assert_array_equal(
        tree.predict_class(queries.bins), oracle.predict_class(queries.select(several).bins)
    )
    used: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    for node in range(tree.n_nodes):
        if tree.kind[node] == SplitKind.LEAF:
            continue
        feature, first = int(tree.feature[node]), int(tree.first_child[node])
        assert feature not in used[node] or depth == 4
        for child in range(first, first + int(slots.domain.n_bins[feature])):
            used[child] = used[node] | {feature}


@pytest.mark.parametrize("name", ENGINES)
@given(seed=st.integers(0, 2**20), depth=st.integers(1, 4))
@settings(max_examples=8)
def test_open_trees_without_noise_are_those_of_cart(name: str, seed: int, depth: int) -> None:
    slots = make_slots(domain(), seed, 40, filled=0.8)
    plan = plan_hidden(
        slots.domain, noise="none", criterion="gini", depth=depth, capacity=40
    ).opened()
    tree, _, _ = run_open(name, slots, plan)
    rows = slots.bins[slots.present]
    reference = grow_reference(slots, plan)
    np.testing.assert_array_equal(tree.predict_class(rows), reference.predict(rows))
    if reference.clear:
        oracle = grow_cart(slots, limits=Limits(max_depth=depth))
        np.testing.assert_array_equal(tree.predict_class(rows), oracle.predict_class(rows))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_charged_and_opened(name: str, mode: str) -> None:
    plan = planned(mode)
    slots = make_slots(domain(), 1, CAPACITY)
    tree, ledger, leakage = run_open(name, slots, plan, private=True)
    counts = plan.noise != "none" and mode not in ("noisy labels", "exponential")
    expected = [split_reason(0), split_reason(1), LEAF_COUNTS if counts else LEAF_LABELS]
    assert [release.reason for release in ledger.releases] == expected
    assert {release.audience for release in ledger.releases} == {"public"}
    total = ledger.total()
    if plan.noise == "splits+leaves" and plan.mechanism == "discrete":
        assert total.epsilon == pytest.approx(1.3, rel=1e-12)
        assert 0 < total.delta < 3 * 2**-60
    else:
        assert total.epsilon == math.inf
        assert ledger.claimed_total() == (
            pytest.approx(1.3) if plan.mechanism != "discrete" else None
        )
    # Everybody sees what is public.
    for audience in ("server", "analyst", "owner"):
        assert ledger.total(audience) == total
    assert all(row["equal"] for row in leakage.compare())
    assert [row["name"] for row in leakage.what_was_learned("server")] == [
        split_name(0),
        split_name(1),
        LEAF,
    ]
    arity = plan.layout.arity
    shapes = [opening.shape for opening in plan.openings()]
    assert shapes == [(1,), (arity,), (arity**2, 3)]
    if counts:
        # Inner nodes are sums of their leaves.
        inner = tree.kind != SplitKind.LEAF
        np.testing.assert_allclose(tree.value[0], tree.value[~inner].sum(axis=0))
    else:
        leaves = tree.kind == SplitKind.LEAF
        assert np.isnan(tree.value[~leaves]).all()
        assert np.isnan(tree.weight).all()
        np.testing.assert_array_equal(tree.value[leaves].sum(axis=1), 1.0)
        assert set(np.unique(tree.value[leaves])) == {0.0, 1.0}


@pytest.mark.parametrize("name", ENGINES)
def test_counts_without_noise_to_speak_of(name: str) -> None:
    plan = planned("counts in leaves", epsilon=90.0)
    slots = make_slots(domain(), 2, CAPACITY)
    tree, _, _ = run_open(name, slots, plan)
    kept = slots.rows(np.flatnonzero(slots.present))
    leaf = tree.apply(kept.bins)
    expected = np.zeros_like(tree.value)
    np.add.at(expected, (leaf, kept.target), 1)
    leaves = tree.kind == SplitKind.LEAF
    np.testing.assert_array_equal(tree.value[leaves], expected[leaves])


def tiny() -> tuple[Encoded, OpenPlan]:
    """Return a table of five candidates, some of them about equally good."""
    attributes = [
        Attribute(name="a", kind="numeric", bounds=(0, 3), bins=3),
        Attribute(name="b", kind="categorical", categories=(0, 1, 2)),
    ]
    public = domain(2, 12, attributes)
    bins = [[0, 0], [0, 1], [0, 1], [1, 0], [1, 2], [1, 0], [2, 1], [2, 1], [2, 2], [2, 2]]
    slots = make_rows(public, np.array(bins), np.array([0, 0, 1, 0, 0, 1, 1, 1, 1, 0]))
    # Two slots stay empty.
    padded = Encoded(
        public,
        np.asfortranarray(np.concatenate([slots.bins, np.zeros((2, 2), public.dtype)])),
        np.concatenate([slots.target, [0, 0]]).astype(np.uint8),
        np.arange(12) < 10,
    )
    return padded, plan_hidden(public, epsilon=3.0, depth=1, criterion="max").opened()


@pytest.mark.slow
def test_opened_splits_and_counts_follow_the_law_of_the_private_tree(chi_square: ChiSquare) -> None:
    slots, plan = tiny()
    inner = plan_private(slots.domain, epsilon=3.0, depth=1, criterion="max", capacity=12)
    rows = Rows(slots, inner.candidates)
    scores = rows.integer_scores([0], inner.score, inner.public, 0)[0]
    law = inner.choose.law(scores)
    assert law.min() > 0.01
    splits: Counter[int] = Counter()
    noise = []
    for run in range(1500):
        ledger = Ledger(domain=plan.domain)
        leakage = Leakage(plan.openings(), ledger=ledger)
        engine = ClearEngine(leakage, NoiseSource.insecure_seeded(run))
        tree = train_open(shared(engine, slots, plan.layout, plan.ring), plan, ledger)
        splits[int(inner.candidates.first[tree.feature[0]] + tree.cut[0])] += 1
        truth = np.zeros((tree.n_nodes, 2))
        np.add.at(truth, (tree.apply(slots.bins[:10]), slots.target[:10]), 1)
        noise.append((tree.value - truth)[1:])
    counts = np.array([splits[c] for c in range(len(law))])
    assert chi_square(counts, law) > 1e-4
    # Another epsilon would be noticed.
    assert (
        chi_square(
            counts,
            plan_private(
                slots.domain, epsilon=5.0, depth=1, criterion="max", capacity=12
            ).choose.law(scores),
        )
        < 1e-6
    )
    drawn = np.array(noise).astype(np.int64).reshape(-1)
    expected = inner.count.law(np.arange(-25, 26))
    seen = np.bincount(np.clip(drawn, -25, 25) + 25, minlength=51)
    assert chi_square(seen, expected / expected.sum()) > 1e-4


@pytest.mark.parametrize("mode", ["noisy binary", "noisy labels", "exact binary"])
def test_traffic_of_binary_trees_does_not_depend_on_the_data(mode: str) -> None:
    plan, seen = planned(mode), []
    for seed in (0, 1):
        network = Recorder(5)
        slots = make_slots(domain(), seed, CAPACITY, filled=0.9 - 0.9 * seed)
        run_open("three servers", slots, plan, network=network)
        seen.append(network.plans)
    assert len(seen[0]) > 20
    assert seen[0] == seen[1]


def test_traffic_of_w_ary_trees_depends_on_opened_splits_alone() -> None:
    plan, seen = planned("exact w-ary"), []
    slots = make_slots(domain(), 0, CAPACITY)
    # Other labels for the classes: other data, and by symmetry the same splits.
    swapped = Encoded(slots.domain, slots.bins, (slots.target + 1) % 3, slots.present)
    other = make_slots(domain(), 5, CAPACITY)
    for table in (slots, swapped, other):
        network = Recorder(5)
        tree, _, _ = run_open("three servers", table, plan, network=network)
        seen.append((network.plans, tree.feature.tolist()))
    assert seen[0] == seen[1]
    # Whatever is chosen, everything up to the first opening is the same.
    assert seen[0][1] != seen[2][1]
    first = next(i for i, (step, _) in enumerate(seen[0][0]) if "open" in step)
    assert first > 20
    assert seen[0][0][: first + 1] == seen[2][0][: first + 1]


@pytest.mark.parametrize(
    "options",
    [
        {"n_trees": 2},
        {"noise": "votes", "n_trees": 2, "queries": 3},
        {"random_splits": True},
        {"sampling": "poisson", "rate": 0.5},
    ],
)
def test_forests_and_drawn_splits_are_refused(options: Any) -> None:
    with pytest.raises(HedgerowError, match="one tree of all records"):
        planned("noisy binary", **options)
