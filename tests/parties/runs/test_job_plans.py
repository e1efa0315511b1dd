"""The table [plan] of a job says what the plan of its kind is told."""

from inspect import signature
from typing import Any

import pytest

from hedgerow.parties.runs.job_plans import (
    OPTIONS,
    BoostingOptions,
    Options,
    PlanOptions,
    RegressionOptions,
)
from hedgerow.protocols.hidden.boosting_plan import plan_boosting
from hedgerow.protocols.hidden.plan import plan_hidden
from hedgerow.protocols.hidden.regression_plan import plan_regression
from hedgerow.protocols.kinds import KINDS
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN

NUMERIC = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0.0, 9.0))})
PLANS: list[tuple[type[Options], Any, Any]] = [
    (PlanOptions, plan_hidden, DOMAIN),
    (RegressionOptions, plan_regression, NUMERIC),
    (BoostingOptions, plan_boosting, DOMAIN),
    (BoostingOptions, plan_boosting, NUMERIC),
]


def test_every_kind_has_its_options() -> None:
    assert set(OPTIONS) == set(KINDS)


@pytest.mark.parametrize(("options", "plan", "domain"), PLANS)
def test_every_option_of_a_plan_can_be_set(options, plan, domain) -> None:
    known = set(signature(plan).parameters) - {"domain", "depth"} | {"max_depth"}
    assert set(options.model_fields) == known


@pytest.mark.parametrize(("options", "plan", "domain"), PLANS)
def test_defaults_are_those_of_the_plan(options, plan, domain) -> None:
    assert options(epsilon=1.0).plan(domain) == plan(domain, epsilon=1.0)
    exact = options(noise="none", max_depth=2).plan(domain)
    assert exact == plan(domain, noise="none", depth=2)


def _trees() -> dict[str, Any]:
    more = {"noise": "votes", "criterion": "gini", "n_trees": 3, "queries": 7, "delta": 1e-6}
    return {"epsilon": 2.0, "capacity": 90, **more}


SET = {
    PlanOptions: _trees(),
    RegressionOptions: {
        "epsilon": 2.0,
        "capacity": 90,
        "split_share": 0.5,
        "sum_share": 0.6,
        "grower": "grouped",
    },
    BoostingOptions: {
        "epsilon": 2.0,
        "capacity": 90,
        "n_rounds": 4,
        "learning_rate": 0.3,
        "split_share": 0.5,
        "sum_share": 0.6,
        "random_splits": True,
        "public_seed": 5,
    },
}


@pytest.mark.parametrize(("options", "plan", "domain"), PLANS)
def test_options_reach_the_plan(options, plan, domain) -> None:
    found = options(max_depth=1, **SET[options]).plan(domain)
    assert found == plan(domain, depth=1, **SET[options])
    assert found != plan(domain, depth=1, epsilon=2.0, capacity=90)
