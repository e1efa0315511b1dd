"""DP-RF: what it costs, the laws of its choices and leaves, and that it learns."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from hedgerow.errors import HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from reproduce.paper_001.bootstrap import bootstrapped
from reproduce.paper_001.dp_rf import DpRfPlan, grow_dp_rf, plan_dp_rf
from reproduce.paper_001.wary import votes

CLASSES = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=(0, 1)) for name in ("a", "b")
    ),
    target=Target(classes=(0, 1)),
    capacity=50,
)
NUMBERS = Domain(attributes=CLASSES.attributes, target=Target(bounds=(0, 1)), capacity=50)
EPSILONS = {CLASSES: 1.0, NUMBERS: 12.0}
# Attribute a tells the target in 14 of 16 rows, b in 10.
ROWS = [(0, 0, 0)] * 5 + [(0, 1, 0)] * 2 + [(0, 1, 1)] + [(1, 1, 1)] * 5 + [(1, 0, 1)] * 3


def table(domain: Domain) -> Encoded:
    rows = np.array(ROWS)
    return encode(
        rows[:, :2], domain, rows[:, 2].astype(float) if domain is NUMBERS else rows[:, 2]
    )


def grown(plan: DpRfPlan, seed: int, data: Encoded | None = None):
    ledger = Ledger(plan.domain)
    source = NoiseSource.insecure_seeded(seed)
    forest = grow_dp_rf(
        table(plan.domain) if data is None else data, plan, ledger=ledger, source=source
    )
    return forest, ledger


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
def test_strictly_epsilon_holds(domain: Domain, epsilon: float) -> None:
    plan = plan_dp_rf(domain, epsilon=epsilon, depth=2, n_trees=3)
    forest, ledger = grown(plan, 0)
    total = ledger.formal_total()
    assert total.epsilon == pytest.approx(epsilon)
    assert total.epsilon <= epsilon * (1 + 1e-12)
    assert 0 < total.delta < 2.0**-55
    assert ledger.claimed_total() is None
    assert math.isinf(ledger.total().epsilon)  # the noise was seeded
    assert len(forest.trees) == 3


def test_as_published_a_bootstrap_sample_costs_more_than_is_claimed() -> None:
    plan = plan_dp_rf(CLASSES, epsilon=2.0, depth=2, n_trees=4, accounting="paper")
    _, ledger = grown(plan, 0)
    # Of 2 (depth + 1) parts of a tree's half, the choice of a leaf is not drawn.
    inner = 2.0 / 4 * 5 / 6
    assert ledger.claimed_total() == pytest.approx(2.0)
    assert ledger.formal_total().epsilon == pytest.approx(4 * bootstrapped(inner)[0], rel=1e-9)
    assert ledger.formal_total().epsilon > 3.0


def test_as_published_means_have_no_epsilon() -> None:
    plan = plan_dp_rf(NUMBERS, epsilon=2.0, depth=2, n_trees=4, accounting="paper")
    _, ledger = grown(plan, 0)
    assert ledger.claimed_total() == pytest.approx(2.0)
    assert math.isinf(ledger.formal_total().epsilon)


@pytest.fixture(scope="module")
def many() -> dict[Domain, list]:
    """Single trees on all rows: strictly, one tree is dealt everything."""
    plans = {d: plan_dp_rf(d, epsilon=e, depth=1, n_trees=1) for d, e in EPSILONS.items()}
    return {
        d: [grown(plan, seed, table(d))[0].trees[0] for seed in range(200)]
        for d, plan in plans.items()
    }


@pytest.mark.parametrize("accounting", ["strict", "paper"])
@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
def test_law_of_the_choice(domain, accounting, many, chi_square) -> None:
    plan = plan_dp_rf(domain, epsilon=EPSILONS[domain], depth=1, n_trees=1, accounting=accounting)
    ones = np.array([[1, 8], [3, 6]])  # of 8 records in each branch of a and of b
    within = (ones * (8 - ones) / 8).sum(axis=1)  # squares around the means
    scores = -within if domain is NUMBERS else -2 * within
    # Global and monotone; as published 4 B^2 for numbers, and twice as much noise.
    sensitivity = {
        (CLASSES, "strict"): 2.0,
        (CLASSES, "paper"): 2 * 2.0,
        (NUMBERS, "strict"): 1.0,
        (NUMBERS, "paper"): 2 * 4.0,
    }[domain, accounting]
    expected = np.exp(plan.parts[0] * scores / sensitivity)
    grid = (plan.units.most * 2) ** 2 if plan.units else 2**plan.shift
    law = plan.choose.law(np.rint(scores * grid).astype(np.int64))
    np.testing.assert_allclose(law, expected / expected.sum(), rtol=1e-4)
    if accounting == "strict":
        chosen = [tree.feature[0] for tree in many[domain]]
        assert chi_square(np.bincount(chosen, minlength=2), law) > 1e-3


def test_law_of_the_leaves(many, chi_square) -> None:
    exact = {0: [[7, 1], [0, 8]], 1: [[5, 3], [2, 6]]}
    noise = [tree.value[1:] - exact[int(tree.feature[0])] for tree in many[CLASSES]]
    assert all(np.isnan(tree.value[0]).all() for tree in many[CLASSES])  # not released
    cells = np.clip(np.ravel(noise), -12, 12).astype(int) + 12
    plan = plan_dp_rf(CLASSES, epsilon=EPSILONS[CLASSES], depth=1, n_trees=1)
    law = plan.count.law(np.arange(-12, 13))
    law[[0, -1]] += (1 - law.sum()) / 2
    assert chi_square(np.bincount(cells, minlength=25), law) > 1e-3


def test_means_are_noisy_sums_over_noisy_counts(many) -> None:
    means = np.array([tree.value[1:, 0] for tree in many[NUMBERS] if tree.feature[0] == 0])
    assert len(means) > 100
    np.testing.assert_allclose(means.mean(axis=0), [1 / 8, 1.0], atol=0.03)
    # The sum has two thirds of a half of epsilon: noise of scale 1/2 over that, over 8 records.
    scale = 0.5 / (EPSILONS[NUMBERS] / 3) / 8
    assert 0.5 * scale < np.abs(means[:, 0] - 1 / 8).mean() < 3 * scale
    assert 0.0 <= means.min() < means.max() <= 1.0


def test_means_as_published_have_the_noise_of_their_node() -> None:
    plan = plan_dp_rf(NUMBERS, epsilon=40.0, depth=1, n_trees=300, accounting="paper")
    trees = grown(plan, 1)[0].trees
    values = np.concatenate([tree.value[tree.leaves, 0] for tree in trees])
    # Scale 1 / (8 epsilon) with epsilon 40 / 300 / 4: several times the bounds, and not clipped.
    assert values.min() < -1
    assert values.max() > 2
    scale = np.abs(values - np.median(values)).mean()
    assert scale == pytest.approx(1 / (8 * 40 / 300 / 4), rel=0.3)


def test_a_node_of_one_class_is_a_leaf_as_published() -> None:
    pure = encode(np.array([[0, 0], [1, 1]] * 10), CLASSES, np.zeros(20, dtype=int))
    plan = plan_dp_rf(CLASSES, epsilon=600.0, depth=2, n_trees=2, accounting="paper")
    forest, _ = grown(plan, 0, pure)
    assert [tree.n_nodes for tree in forest.trees] == [1, 1]


def test_it_learns_classes_and_numbers() -> None:
    def domain_of(x, target: Target) -> Domain:
        attributes = tuple(
            Attribute(name=f"x{j}", kind="numeric", bounds=(float(c.min()), float(c.max())), bins=5)
            for j, c in enumerate(x.T)
        )
        return Domain(attributes=attributes, target=target, capacity=600)

    x, y = load_breast_cancer(return_X_y=True)
    data = encode(x, domain_of(x, Target(classes=(0, 1))), y)
    for accounting in ("strict", "paper"):
        plan = plan_dp_rf(data.domain, epsilon=100.0, depth=2, n_trees=5, accounting=accounting)
        forest, _ = grown(plan, 0, data)
        assert np.mean(votes(forest, data.bins).argmax(axis=1) == y) > 0.85
    x, y = load_diabetes(return_X_y=True)
    data = encode(x, domain_of(x, Target(bounds=(25, 346))), y)
    plan = plan_dp_rf(data.domain, epsilon=200.0, depth=2, n_trees=3)
    forest, _ = grown(plan, 0, data)
    assert np.mean((forest.decide(data.bins)[:, 0] - y) ** 2) < 0.9 * y.var()


def test_what_must_not_be_charged_is_refused() -> None:
    plan = plan_dp_rf(CLASSES, epsilon=1.0, depth=1, capacity=10)
    ledger = Ledger()
    for given, code in ((CLASSES, "H112"), (NUMBERS, "H112")):
        with pytest.raises(HedgerowError, match=code):
            grow_dp_rf(table(given), plan, ledger=ledger, source=NoiseSource.system())
    wide = plan_dp_rf(CLASSES, epsilon=1.0, depth=1)
    with pytest.raises(HedgerowError, match="H117"):
        grow_dp_rf(table(NUMBERS), wide, ledger=ledger, source=NoiseSource.system())
    assert ledger.entries == ()
    for bad, code in (
        ({"epsilon": 0.0}, "H201"),
        ({"epsilon": 1.0, "n_trees": 0}, "H501"),
        ({"epsilon": 1.0, "accounting": "loose"}, "H501"),
    ):
        with pytest.raises(HedgerowError, match=code):
            plan_dp_rf(CLASSES, depth=1, **bad)
