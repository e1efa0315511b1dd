"""DP-DF: what it costs, the law of its choices, pruning, and that it learns."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from hedgerow.errors import HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from hedgerow.trees.counts.rows import Rows
from reproduce.paper_001.dp_df import (
    LOCAL,
    DpDfPlan,
    _by_local_sensitivity,
    grow_dp_df,
    plan_dp_df,
    pruned,
)
from reproduce.paper_001.wary import grow_wary, tree_of, votes, wary_candidates

DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=(0, 1)) for name in ("a", "b", "c")
    ),
    target=Target(classes=(0, 1)),
    capacity=100,
)


def table(n: int = 40) -> Encoded:
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 2, (n, 3))
    return encode(bins, DOMAIN, (bins[:, 1] ^ (rng.random(n) < 0.1)).astype(int))


def grown(plan: DpDfPlan, seed: int, data: Encoded | None = None):
    ledger = Ledger(plan.domain)
    source = NoiseSource.insecure_seeded(seed)
    data = table() if data is None else data
    return grow_dp_df(data, plan, ledger=ledger, source=source), ledger


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_strictly_epsilon_holds(epsilon: float) -> None:
    forest, ledger = grown(plan_dp_df(DOMAIN, epsilon=epsilon, depth=2, n_trees=3), 0)
    assert ledger.formal_total().epsilon == pytest.approx(epsilon)
    assert ledger.formal_total().epsilon <= epsilon * (1 + 1e-12)
    assert ledger.claimed_total() is None
    assert len(forest.trees) == 3


def test_as_published_only_the_counts_have_an_epsilon() -> None:
    plan = plan_dp_df(DOMAIN, epsilon=4.0, depth=2, n_trees=3, accounting="paper")
    _, ledger = grown(plan, 0)
    assert ledger.claimed_total() == pytest.approx(4.0)
    total = ledger.formal_total()
    assert math.isinf(total.epsilon)
    finite = [r for r in ledger.releases if r.mechanism != LOCAL]
    assert len(finite) == 3
    assert sum(r.epsilon * r.times for r in finite) == pytest.approx(4.0 * 3 / 5)


def test_scores_are_gini_indices_in_units_of_their_local_sensitivity() -> None:
    data = table()
    plan = plan_dp_df(DOMAIN, epsilon=1.0, depth=1, n_trees=1, accounting="paper")
    rows = Rows(data, wary_candidates(DOMAIN))
    noisy = np.array([[20.0, -3.0]])
    found = _by_local_sensitivity(rows, np.zeros(1, dtype=np.int64), plan.score, noisy)[0]
    worst = 1 - (20 / 21) ** 2 - (1 / 21) ** 2
    expected = []
    for j in range(3):
        shares = [data.target[data.bins[:, j] == b] for b in (0, 1)]
        expected.append(-sum(2 * s.sum() * (1 - s.mean()) for s in shares) / 40 / worst)
    np.testing.assert_allclose(found / plan.choose.sensitivity, expected, atol=1e-6)
    law = plan.choose.law(found)
    weights = np.exp(plan.query * np.array(expected) / 2)
    np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-6)


def test_law_of_the_strict_choice(chi_square) -> None:
    data = table()
    plan = plan_dp_df(DOMAIN, epsilon=0.9, depth=1, n_trees=1)
    rows = Rows(data, wary_candidates(DOMAIN))
    weights = np.exp(plan.query * rows.scores([0], plan.score)[0] / 2.0)
    chosen = []
    for seed in range(200):
        forest, _ = grown(plan, seed, data)
        chosen.append(int(forest.trees[0].feature[0]))
    kept = np.array([c for c in chosen if c >= 0])  # a root of one class is a leaf
    assert kept.size > 130
    assert chi_square(np.bincount(kept, minlength=3), weights / weights.sum()) > 1e-3


def test_roots_differ_until_no_attribute_is_left() -> None:
    plan = plan_dp_df(DOMAIN, epsilon=500.0, depth=1, n_trees=6, accounting="paper")
    forest, _ = grown(plan, 0)
    roots = [int(tree.feature[0]) for tree in forest.trees]
    assert sorted(roots[:3]) == sorted(roots[3:]) == [0, 1, 2]
    assert roots[0] == roots[3] == 1  # the attribute that tells the class


def test_leaves_that_do_not_help_are_taken_back() -> None:
    data = table()
    rows = Rows(data, wary_candidates(DOMAIN))
    levels = grow_wary(rows, 2, lambda nodes, valid, level: valid.argmax(axis=1))
    counts = [
        np.array([[20.0, 20.0]]),
        np.array([[15.0, 5.0], [5.0, 15.0]]),
        # Below the first node nothing is gained, below the second all.
        np.array([[9.0, 3.0], [6.0, 2.0], [5.0, 0.0], [0.0, 15.0]]),
    ]
    smaller = pruned(tree_of(DOMAIN, levels, counts))
    assert smaller.n_nodes == 5
    assert list(smaller.first_child) == [1, -1, 3, -1, -1]
    np.testing.assert_array_equal(smaller.value[1:], [[15, 5], [5, 15], [5, 0], [0, 15]])
    # The root is never taken back.
    useless = [counts[0], np.array([[10.0, 10.0], [10.0, 10.0]])]
    assert pruned(tree_of(DOMAIN, levels[:1], useless)).n_nodes == 3


def test_it_learns() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    attributes = tuple(
        Attribute(name=f"x{j}", kind="numeric", bounds=(float(c.min()), float(c.max())), bins=5)
        for j, c in enumerate(x.T)
    )
    domain = Domain(attributes=attributes, target=Target(classes=(0, 1)), capacity=600)
    data = encode(x, domain, y)
    for accounting in ("strict", "paper"):
        plan = plan_dp_df(domain, epsilon=100.0, depth=2, n_trees=5, accounting=accounting)
        forest, _ = grown(plan, 0, data)
        assert np.mean(votes(forest, data.bins, confident=True).argmax(axis=1) == y) > 0.85


def test_what_cannot_be_planned_is_refused() -> None:
    numbers = Domain(attributes=DOMAIN.attributes, target=Target(bounds=(0, 1)), capacity=5)
    with pytest.raises(HedgerowError, match="H116"):
        plan_dp_df(numbers, epsilon=1.0, depth=1)
    for bad, code in (({"epsilon": -1.0}, "H201"), ({"epsilon": 1.0, "n_trees": 0}, "H501")):
        with pytest.raises(HedgerowError, match=code):
            plan_dp_df(DOMAIN, depth=1, **bad)
