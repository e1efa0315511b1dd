import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.privacy import NoisyMax, TwoSidedGeometric
from hedgerow.protocols.growers.frontier import DEEP
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import score_of
from hedgerow.secure.ring import Z16, Z32
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.growing.private import GRID_BITS, plan_private
from tests.protocols.hidden.hidden_runs import domain

BRANCHINGS = ("binary", "wary")


def binary_domain(m: int = 6, capacity: int | None = 1000) -> Domain:
    attributes = [Attribute(name=f"a{i}", kind="categorical", categories=(0, 1)) for i in range(m)]
    return domain(2, capacity, attributes)


@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 2.7, 10.0])
@pytest.mark.parametrize("depth", [None, 1, 3, 4])
@pytest.mark.parametrize("mechanism", ["discrete", "laplace", "exponential"])
@pytest.mark.parametrize("release", ["counts", "labels"])
def test_the_parts_of_epsilon_never_exceed_it(
    branching: Any, epsilon: float, depth: int | None, mechanism: Any, release: Any
) -> None:
    options = {"branching": branching, "mechanism": mechanism, "leaf_release": release}
    plan = plan_hidden(domain(), epsilon=epsilon, depth=depth, capacity=700, **options)
    spent = plan.depth * Fraction(plan.split_epsilon) + Fraction(plan.leaf_epsilon)
    assert spent <= Fraction(epsilon)
    assert float(spent) == pytest.approx(epsilon, rel=1e-12)
    assert plan.split_epsilon > 0
    assert plan.leaf_epsilon > 0
    if mechanism != "discrete":
        assert plan.split_epsilon == pytest.approx(epsilon / (plan.depth + 1), rel=1e-12)
    leaves = plan_hidden(domain(), noise="leaves", epsilon=epsilon, capacity=700, **options)
    assert (leaves.split_epsilon, leaves.leaf_epsilon) == (0.0, epsilon)
    drawn = plan_hidden(domain(), random_splits=True, epsilon=epsilon, capacity=700, **options)
    assert (drawn.split_epsilon, drawn.leaf_epsilon) == (0.0, epsilon)
    none = plan_hidden(domain(), noise="none", epsilon=epsilon, capacity=700, **options)
    assert (none.split_epsilon, none.leaf_epsilon) == (0.0, 0.0)


@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("capacity", [50, 3000, 1_000_000])
def test_noisy_splits_are_planned_as_those_of_the_private_tree(
    branching: Any, epsilon: float, capacity: int
) -> None:
    plan = plan_hidden(domain(), epsilon=epsilon, branching=branching, capacity=capacity)
    inner = plan_private(domain(), epsilon=epsilon, branching=branching, capacity=capacity)
    assert (plan.depth, plan.criterion) == (inner.spending.depth, inner.score.name)
    assert plan.split_mechanism == inner.choose
    assert plan.count_mechanism == inner.count == TwoSidedGeometric(plan.leaf_epsilon)
    assert plan.label_mechanism == NoisyMax(plan.leaf_epsilon, 1, monotone=True)
    assert plan.public == inner.public
    assert plan.shift == (0 if plan.criterion == "max" else GRID_BITS)
    assert not plan.prefers_nonempty
    # Noise is drawn for the sensitivity of the very scores that are computed.
    assert plan.split_mechanism.sensitivity == score_of(plan).sensitivity.add_remove


@pytest.mark.parametrize(
    ("noise", "epsilon", "capacity", "depth"),
    [
        # log2 of the records per 10, or per 3 / epsilon.
        ("none", 1.0, 5, 1),
        ("none", 1.0, 1000, 6),
        ("none", 0.001, 1000, 6),
        ("none", 1.0, 10**9, 12),
        ("leaves", 1.0, 1000, 6),
        ("leaves", 0.1, 1000, 5),
        ("leaves", 0.01, 1000, 1),
    ],
)
def test_depth_without_noisy_splits(noise: Any, epsilon: float, capacity: int, depth: int) -> None:
    public = binary_domain(20)
    assert plan_hidden(public, noise=noise, epsilon=epsilon, capacity=capacity).depth == depth
    wary = plan_hidden(public, noise=noise, epsilon=epsilon, capacity=capacity, branching="wary")
    assert wary.depth == depth
    few = binary_domain(3)
    found = plan_hidden(few, noise=noise, epsilon=epsilon, capacity=capacity, branching="wary")
    assert found.depth == min(depth, 3)


@pytest.mark.parametrize("noise", ["none", "leaves", "splits+leaves"])
def test_a_depth_that_nobody_chose_can_always_be_grown(noise: Any) -> None:
    # On average two branches per node; padded, a level has a hundred times the nodes of the last.
    wide = Attribute(name="w", kind="categorical", categories=tuple(range(100)))
    public = domain(2, 10**6, [wide, *binary_domain(9).attributes])
    plan = plan_hidden(public, noise=noise, epsilon=1.0, branching="wary")
    assert plan.depth == 3 == plan.layout.deepest
    spent = 3 * Fraction(plan.split_epsilon) + Fraction(plan.leaf_epsilon)
    assert spent <= 1
    assert float(spent) == (0.0 if noise == "none" else pytest.approx(1.0))


def test_nothing_but_public_numbers_decides() -> None:
    # The same domain by other objects, and defaults spelt out.
    one = plan_hidden(domain(3, 500), epsilon=1.5)
    other = plan_hidden(
        Domain.from_dict(domain(3, 77).to_dict(), source="a test"), epsilon=1.5, capacity=500
    )
    first, second = one.to_dict(), other.to_dict()
    assert first.pop("domain")["capacity"] == 500
    assert second.pop("domain")["capacity"] == 77
    assert first == second


@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize(
    "options",
    [
        {"noise": "none", "criterion": "gini"},
        {"noise": "leaves", "mechanism": "laplace"},
        {"leaf_release": "labels", "epsilon": 0.3},
        {"n_trees": 7, "public_seed": 5, "random_splits": True},
        {"n_trees": 4, "noise": "votes", "queries": 10},
    ],
)
def test_a_plan_is_plain_data_and_comes_back_the_same(branching: Any, options: Any) -> None:
    plan = plan_hidden(domain(), branching=branching, capacity=300, depth=2, **options)
    text = json.dumps(plan.to_dict())
    again = HiddenPlan.from_dict(json.loads(text))
    assert again == plan
    assert json.dumps(again.to_dict()) == text
    assert again.layout.n_columns == plan.layout.n_columns


def test_slots_and_rings_have_room_for_every_tree() -> None:
    plan = plan_hidden(domain(), capacity=1000, n_trees=7, depth=2)
    assert (plan.n_slots, plan.tree_rows, plan.ring) == (1001, 143, Z16)
    assert plan.public.capacity == 143
    sampled = plan_hidden(domain(), capacity=1000, n_trees=7, depth=2, sampling="poisson", rate=0.5)
    assert (sampled.n_slots, sampled.tree_rows) == (1000, 1000)
    for criterion, largest in (("max", 2**15 - 4), ("gini", 2**15 - 2)):
        options = {"noise": "none", "criterion": criterion, "depth": 1}
        for capacity, ring in ((largest, Z16), (largest + 1, Z32)):
            found = plan_hidden(domain(), capacity=capacity, **options)
            assert found.ring == ring
            assert np.iinfo(ring.dtype).max // 2 > (found.capacity + 2 * (criterion == "max"))


def test_the_grid_of_trees_without_noise_is_as_fine_as_fits() -> None:
    for capacity, bits in ((9, 36), (1000, 24), (33_000, 12), (10**7, 0)):
        plan = plan_hidden(domain(), noise="none", criterion="gini", depth=1, capacity=capacity)
        assert plan.shift == bits
        assert plan.prefers_nonempty
        assert score_of(plan).bound <= (capacity << bits) + 2 < 2**63


@pytest.mark.parametrize(
    ("options", "shows"),
    [
        ({"noise": "none"}, False),
        ({"noise": "leaves"}, True),
        ({}, True),
        ({"leaf_release": "labels"}, False),
        ({"mechanism": "laplace"}, False),
        ({"mechanism": "exponential"}, False),
        ({"noise": "none", "n_trees": 3}, True),
        ({"n_trees": 3, "leaf_release": "labels"}, True),
        ({"n_trees": 3, "noise": "votes", "queries": 5}, False),
    ],
)
def test_who_answers_with_distributions(options: Any, shows: bool) -> None:
    assert plan_hidden(domain(), capacity=300, depth=2, **options).shows_counts is shows


def test_the_grower_follows_from_public_numbers() -> None:
    def grower(**options: Any) -> str:
        return plan_hidden(domain(), noise="none", capacity=10**5, **options).grower

    assert grower(depth=DEEP) == "grouped"
    assert grower(depth=DEEP - 1) == "masks"
    assert grower(depth=DEEP, n_trees=2) == "masks"
    assert grower(depth=2, grower="grouped") == "grouped"
    assert grower(depth=DEEP, grower="masks") == "masks"
    for options in ({"n_trees": 2}, {"branching": "wary"}, {"sampling": "poisson", "rate": 0.1}):
        with pytest.raises(HedgerowError, match="H501"):
            grower(depth=2, grower="grouped", **options)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capacity": None}, "H208"),
        ({"capacity": 0}, "H501"),
        ({"capacity": -3}, "H501"),
        ({"n_trees": 0}, "H501"),
        ({"depth": 0}, "H501"),
        ({"depth": 21}, "H501"),
        ({"depth": 2.0}, "H501"),
        ({"depth": 6, "branching": "wary"}, "H501"),
        ({"depth": 6, "branching": "wary", "noise": "none"}, "H501"),
        ({"noise": "None"}, "H501"),
        ({"noise": None}, "H501"),
        ({"branching": "ternary"}, "H501"),
        ({"mechanism": "gaussian"}, "H501"),
        ({"leaf_release": "both"}, "H501"),
        ({"sampling": "bootstrap"}, "H501"),
        ({"grower": "fast"}, "H501"),
        ({"criterion": "entropy"}, "H501"),
        ({"criterion": "squared_error", "noise": "none"}, "H501"),
        ({"epsilon": 0.0}, "H201"),
        ({"epsilon": math.inf}, "H201"),
        ({"epsilon": -1.0, "noise": "leaves"}, "H201"),
        ({"epsilon": math.nan, "noise": "leaves"}, "H201"),
        ({"epsilon": math.inf, "noise": "leaves", "mechanism": "laplace"}, "H201"),
        ({"epsilon": 0.0, "random_splits": True}, "H201"),
        ({"split_share": 1.0}, "H501"),
        ({"split_share": 0.0}, "H501"),
    ],
)
def test_what_cannot_be_grown_is_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(HedgerowError, match=code):
        plan_hidden(domain(), **{"capacity": 300, **options})


def test_a_target_without_classes_is_refused() -> None:
    for target in (None, Target(bounds=(0, 1))):
        with pytest.raises(HedgerowError, match="H116"):
            plan_hidden(Domain(attributes=domain().attributes, target=target), capacity=300)
