"""The table [plan] of a job says what `plan_hidden` is told."""

from inspect import signature

from upload_servers import DOMAIN

from hedgerow.parties.job_plans import PlanOptions
from hedgerow.protocols.plan import plan_hidden


def test_every_option_of_a_plan_can_be_set() -> None:
    known = set(signature(plan_hidden).parameters) - {"domain", "depth"} | {"max_depth"}
    assert set(PlanOptions.model_fields) == known


def test_defaults_are_those_of_the_plan() -> None:
    assert PlanOptions(epsilon=1.0).plan(DOMAIN) == plan_hidden(DOMAIN, epsilon=1.0)
    exact = PlanOptions(noise="none", max_depth=2).plan(DOMAIN)
    assert exact == plan_hidden(DOMAIN, noise="none", depth=2)


def test_options_reach_the_plan() -> None:
    options = PlanOptions(
        epsilon=2.0,
        noise="votes",
        max_depth=1,
        criterion="gini",
        n_trees=3,
        queries=7,
        delta=1e-6,
        capacity=90,
    )
    wanted = plan_hidden(
        DOMAIN,
        epsilon=2.0,
        noise="votes",
        depth=1,
        criterion="gini",
        n_trees=3,
        queries=7,
        delta=1e-6,
        capacity=90,
    )
    assert options.plan(DOMAIN) == wanted
