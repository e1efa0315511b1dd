"""Plans: what is charged follows from public numbers, and never exceeds epsilon."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger
from hedgerow.protocols.topdown.options import TopDownOptions, read_plan
from hedgerow.protocols.topdown.plan import TopDownPlan, divide, shares_of_depths
from tests.protocols.topdown.topdown_cases import METHODS, domain, plan

_BAD_BUDGETS = ("other", 3, (), (1, 1), (1, 1, 0), (1, 1, math.inf), (1, 1, -1), (1, 1, "a"))


@given(
    st.floats(1e-3, 1e3),
    st.integers(1, 40),
    st.sampled_from(["uniform", "decay"]),
    st.floats(0.01, 0.99),
)
def test_the_parts_never_exceed_epsilon(
    epsilon: float, depth: int, budget: str, leaf: float
) -> None:
    nodes, leaves = divide(epsilon, shares_of_depths(budget, depth), leaf, (0.1, 0.6, 0.3))
    total = sum(Fraction(x) for node in nodes for x in (node.weight, node.choice, node.value))
    assert total + Fraction(leaves) <= Fraction(epsilon)
    assert float(total + Fraction(leaves)) == pytest.approx(epsilon, rel=1e-12)


def test_budgets_over_depth() -> None:
    assert shares_of_depths("uniform", 4) == (Fraction(1, 4),) * 4
    decay = shares_of_depths("decay", 3)
    assert decay[0] == 2 * decay[1] == 4 * decay[2]
    assert shares_of_depths((3, 1), 2) == (Fraction(3, 4), Fraction(1, 4))


@pytest.mark.parametrize("method", [*METHODS, "secure-counts"])
@pytest.mark.parametrize("budget", ["uniform", "decay", (4.0, 2.0, 1.0, 1.0)])
def test_all_depths_are_charged(method: str, budget: object) -> None:
    made = plan(method, budget=budget, epsilon=0.7)
    ledger = Ledger(domain=domain())
    ledger.charge(*made.releases())
    total = ledger.total("public")
    assert total.epsilon <= 0.7
    assert total.epsilon == pytest.approx(0.7, rel=1e-9)
    assert total.delta < 2.0**-50


def test_plans_travel_and_differ() -> None:
    made = plan("local-rnm", budget=(2.0, 1.0, 1.0, 1.0))
    read = read_plan(made.to_dict())
    assert read.digest == made.digest
    assert read.releases() == made.releases()
    others = [
        plan("local-rnm"),
        plan("local-rnm", epsilon=2.5),
        plan("noisy-counts"),
        plan("local-rnm", owners=4),
        plan("local-rnm", n_splits=13),
    ]
    assert len({made.digest, *(other.digest for other in others)}) == 6
    for bad in ({}, {**made.to_dict(), "version": 2}, {**made.to_dict(), "extra": 1}):
        with pytest.raises(HedgerowError):
            read_plan(bad)


def planned(parameters: dict[str, Any]) -> TopDownPlan:
    n_owners = parameters.pop("n_owners", 1)
    return TopDownOptions.from_parameters(parameters).plan(domain(), n_owners=n_owners)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"method": "other"}, Code.BAD_PARAMETER),
        ({"histograms": "none"}, Code.BAD_PARAMETER),
        ({"criterion": "gain"}, Code.BAD_PARAMETER),
        ({"n_splits": 0}, Code.BAD_PARAMETER),
        ({"n_splits": True}, Code.BAD_PARAMETER),
        ({"max_depth": 0}, Code.BAD_PARAMETER),
        ({"leaf_share": 1.0}, Code.BAD_PARAMETER),
        ({"min_gain": math.nan}, Code.BAD_PARAMETER),
        ({"error": -1.0}, Code.BAD_PARAMETER),
        ({"lookahead": 0}, Code.BAD_PARAMETER),
        ({"node_shares": (1.0, 1.0)}, Code.BAD_PARAMETER),
        ({"node_shares": (0.0, 0.0, 0.0)}, Code.BAD_PARAMETER),
        *(({"budget": bad}, Code.BAD_PARAMETER) for bad in _BAD_BUDGETS),
        ({"method": "secure-counts", "criterion": "entropy"}, Code.BAD_PARAMETER),
        ({"method": "secure-counts", "accounting": "paper"}, Code.BAD_PARAMETER),
        ({"method": "single-machine", "n_owners": 2}, Code.BAD_PARAMETER),
        ({"capacity": -5}, Code.BAD_PARAMETER),
        ({"capacity": True}, Code.BAD_PARAMETER),
        ({"epsilon": "1"}, Code.BAD_EPSILON),
        ({"epsilon": 0.0}, Code.BAD_EPSILON),
        ({"epsilon": math.inf}, Code.BAD_EPSILON),
        ({"epsilon": 1e-320}, Code.EPSILON_BEYOND_REACH),
    ],
)
def test_numbers_without_a_tree_are_refused(options: dict[str, Any], code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        planned({"epsilon": 1.0, "max_depth": 3} | options)
    assert caught.value.code is code


def test_entropy_needs_a_capacity() -> None:
    with pytest.raises(HedgerowError) as caught:
        TopDownOptions(criterion="entropy", max_depth=2).plan(domain(capacity=None))
    assert caught.value.code is Code.MISSING_CAPACITY


def test_a_whole_epsilon_is_the_same_plan() -> None:
    assert plan("noisy-counts", epsilon=2).digest == plan("noisy-counts", epsilon=2.0).digest


def test_depth_by_rule_needs_a_capacity_and_grows_with_epsilon() -> None:
    with pytest.raises(HedgerowError) as caught:
        TopDownOptions().plan(domain(capacity=None))
    assert caught.value.code is Code.MISSING_CAPACITY
    for method in (*METHODS, "secure-counts"):
        made = [TopDownOptions(epsilon=e, method=method).plan(domain()) for e in (0.1, 1, 10)]
        depths = [each.max_depth for each in made]
        assert 1 <= depths[0] <= depths[1] <= depths[2]
        assert depths[0] < depths[2]


def test_the_papers_accounting_says_what_holds() -> None:
    for method, holds in (("single-machine", False), ("local-rnm", False), ("noisy-counts", True)):
        made = plan(method, accounting="paper", histograms="split", epsilon=1.0)
        ledger = Ledger(domain=domain())
        ledger.charge(*made.releases())
        assert math.isfinite(ledger.total("public").epsilon) is holds
        claimed = [release.claimed for release in made.releases() if release.claimed is not None]
        assert bool(claimed) is not holds


def test_noise_of_the_papers_histograms_is_the_larger() -> None:
    paper, ours = plan("noisy-counts", histograms="split"), plan("noisy-counts")
    assert paper.n_histograms == len(paper.candidates) == 24
    assert ours.n_histograms == 4
    assert paper.counts(1).variance > 30 * ours.counts(1).variance
