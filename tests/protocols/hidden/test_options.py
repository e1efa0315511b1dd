"""Options of the three servers' models: what a job's table [plan] and an estimator say."""

from typing import Any

import pytest

from hedgerow.errors import HedgerowError
from hedgerow.protocols.hidden.options import (
    BoostingOptions,
    ForestOptions,
    RegressionOptions,
    ServerOptions,
    TreesOptions,
    plan_boosting,
    plan_hidden,
    plan_regression,
)
from hedgerow.protocols.hidden.sampling import tree_epsilon_for
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN

NUMERIC = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0.0, 9.0))})
PLANS: list[tuple[type[ServerOptions], Any, Any]] = [
    (TreesOptions, plan_hidden, DOMAIN),
    (RegressionOptions, plan_regression, NUMERIC),
    (BoostingOptions, plan_boosting, DOMAIN),
    (BoostingOptions, plan_boosting, NUMERIC),
]
SET: dict[type[ServerOptions], dict[str, Any]] = {
    TreesOptions: {
        "noise": "votes",
        "criterion": "gini",
        "n_trees": 3,
        "queries": 7,
        "delta": 1e-6,
    },
    RegressionOptions: {"split_share": 0.5, "sum_share": 0.6, "grower": "grouped"},
    BoostingOptions: {
        "n_rounds": 4,
        "learning_rate": 0.3,
        "split_share": 0.5,
        "sum_share": 0.6,
        "random_splits": True,
        "public_seed": 5,
    },
}


def test_every_kind_reads_its_own_plans() -> None:
    for protocol in SERVER_PROTOCOLS.values():
        domain = NUMERIC if protocol.options_type is RegressionOptions else DOMAIN
        plan = protocol.options_type(epsilon=1.0).plan(domain)
        assert type(plan) is protocol.plan_type
        assert protocol.plan_type.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize(("options", "plan", "domain"), PLANS)
def test_options_reach_the_plan(options: Any, plan: Any, domain: Any) -> None:
    common = {"epsilon": 2.0, "capacity": 90}
    found = options(max_depth=1, **common, **SET[options]).plan(domain)
    assert found == plan(domain, depth=1, **common, **SET[options])
    assert found != plan(domain, depth=1, **common)
    # A capacity that is given to the plan counts before the table's.
    assert options(epsilon=2.0, capacity=90).plan(domain, 70).capacity == 70


def test_what_is_not_an_option_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="n_estimators"):
        plan_hidden(DOMAIN, n_estimators=3)


def test_a_sampled_forest_costs_its_epsilon_as_a_whole() -> None:
    options = TreesOptions(epsilon=1.0, sampling="poisson", n_trees=4, max_depth=1)
    assert options.rate == options.sample_rate == 0.25
    plan = options.plan(DOMAIN)
    inside = plan.split_epsilon + plan.leaf_epsilon
    assert inside == pytest.approx(tree_epsilon_for(1.0, 4, 0.25))
    assert plan.costs()["analyst"].epsilon == pytest.approx(1.0)
    # The estimator means the same.
    given = {"epsilon": 1.0, "sampling": "poisson", "n_estimators": 4, "max_depth": 1}
    forest = ForestOptions.from_parameters(given | {"leaf_release": "counts"})
    assert forest.plan(DOMAIN) == plan


def test_a_rate_is_written_as_what_it_comes_to() -> None:
    for given, rate in (
        ({}, 1.0),
        ({"rate": 1.0}, 1.0),
        ({"sampling": "poisson", "n_trees": 5}, 0.2),
        ({"sampling": "poisson", "rate": 0.5}, 0.5),
    ):
        options = TreesOptions(epsilon=1.0, **given)
        written = options.model_dump()
        assert written["rate"] == rate
        assert TreesOptions.from_table(written) == options
    with pytest.raises(HedgerowError, match=r"rate=0.5 with sampling='disjoint'"):
        TreesOptions(epsilon=1.0, rate=0.5)
