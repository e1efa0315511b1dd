import math

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.hidden.options import plan_regression
from hedgerow.protocols.hidden.regression_plan import RegressionPlan
from hedgerow.protocols.run import EngineName
from hedgerow.tables import Encoded, Target
from hedgerow.trees import Limits, grow_cart
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.grow_tree import grow_levelwise
from hedgerow.trees.growing.search import HighestScore, Search
from tests.protocols.hidden.number_runs import CAPACITY, ENGINES, domain, fit, numbers, transcript

TABLE = numbers()
# Half the bounds' width, 16, times what units (2^-20) and division (2^-24) round away.
TOLERANCE = 16 * 2.0**-19


def uncentred(table: Encoded, depth: int):
    """Grow in the clear without moving thresholds into the middle of gaps."""
    rows = Rows(table, Candidates.from_domain(table.domain))
    search = Search(criterion_named("squared_error", "sums"), HighestScore())
    return grow_levelwise(table.domain, rows, search, Limits(max_depth=depth), centre=False)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("grower", ["masks", "grouped"])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_without_noise_it_is_the_tree_of_the_clear_learner(
    engine: EngineName, grower: str, depth: int
) -> None:
    plan = plan_regression(TABLE.domain, noise="none", depth=depth, grower=grower)  # type: ignore[arg-type]
    model = fit("hidden-regression", plan, TABLE, engine)
    cart = grow_cart(TABLE, limits=Limits(max_depth=depth)).decide(TABLE.bins)[:, 0]
    assert np.abs(model.ask(TABLE.bins) - cart).max() < TOLERANCE
    fresh = numbers(seed=9, n=300).bins
    same = uncentred(TABLE, depth).decide(fresh)[:, 0]
    assert np.abs(model.ask(fresh) - same).max() < TOLERANCE


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_leaf_answers_as_the_node_above(engine: EngineName) -> None:
    few = numbers(seed=3, n=3)
    model = fit(
        "hidden-regression", plan_regression(few.domain, noise="none", depth=4), few, engine
    )
    asked = numbers(seed=4, n=200).bins
    expected = uncentred(few, 4).decide(asked)[:, 0]
    assert np.abs(model.ask(asked) - expected).max() < TOLERANCE


@pytest.mark.parametrize("noise", ["none", "splits+leaves"])
def test_a_table_without_records_answers_within_the_bounds(noise: str) -> None:
    table = numbers(n=1)
    none = Encoded(table.domain, table.bins, table.target, np.zeros(1, dtype=np.bool_))
    plan = plan_regression(table.domain, noise=noise, depth=2)  # type: ignore[arg-type]
    answers = fit("hidden-regression", plan, none, "clear").ask(TABLE.bins)
    assert answers.min() >= -10
    assert answers.max() <= 22
    if noise == "none":
        assert np.allclose(answers, 6.0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noise", ["leaves", "splits+leaves"])
def test_little_noise_changes_little(engine: EngineName, noise: str) -> None:
    plan = plan_regression(TABLE.domain, epsilon=100.0, noise=noise, depth=3)  # type: ignore[arg-type]
    answers = fit("hidden-regression", plan, TABLE, engine, seed=1).ask(TABLE.bins)
    cart = grow_cart(TABLE, limits=Limits(max_depth=3)).decide(TABLE.bins)[:, 0]
    if noise == "leaves":
        assert np.mean((answers - cart) ** 2) < 0.001 * np.var(TABLE.target)
    # Another split may win now and then, but never one that is much worse.
    error, least = (np.mean((found - TABLE.target) ** 2) for found in (answers, cart))
    assert error < 1.5 * least


def test_noise_follows_epsilon() -> None:
    error = []
    for epsilon in (0.05, 50.0):
        plan = plan_regression(TABLE.domain, epsilon=epsilon, depth=2)
        answers = fit("hidden-regression", plan, TABLE, "clear", seed=5).ask(TABLE.bins)
        error.append(np.mean((answers - TABLE.target) ** 2))
    assert error[1] < np.var(TABLE.target) < error[0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.pi])
@pytest.mark.parametrize("depth", [None, 1, 4])
def test_the_ledger_has_epsilon_for_the_analyst_and_nothing_for_a_server(
    epsilon: float, depth: int | None
) -> None:
    plan = plan_regression(TABLE.domain, epsilon=epsilon, depth=depth)
    ledger = fit("hidden-regression", plan, TABLE, "simulate").ledger
    total = ledger.total("analyst")
    assert total.epsilon <= epsilon
    assert total.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert 0 < total.delta < 2**-58
    assert ledger.total("server 0").epsilon == 0
    assert len(ledger.releases) == plan.depth + 2


@pytest.mark.parametrize("noise", ["none", "leaves"])
def test_without_noisy_splits_there_is_no_finite_epsilon(noise: str) -> None:
    plan = plan_regression(TABLE.domain, noise=noise, depth=2)  # type: ignore[arg-type]
    ledger = fit("hidden-regression", plan, TABLE, "clear").ledger
    assert ledger.total("analyst").epsilon == math.inf
    assert ledger.total("server 0").epsilon == 0


@pytest.mark.parametrize(
    ("noise", "grower"), [("none", "grouped"), ("none", "masks"), ("splits+leaves", "masks")]
)
def test_transcripts_have_one_shape_for_all_tables(noise: str, grower: str) -> None:
    plan = plan_regression(TABLE.domain, noise=noise, depth=3, grower=grower)  # type: ignore[arg-type]
    first = transcript("hidden-regression", plan, TABLE)
    assert first == transcript("hidden-regression", plan, numbers(seed=1, n=20))
    assert len(first) > 50


def test_plans_are_plain_data_and_refuse_what_does_not_fit() -> None:
    plan = plan_regression(TABLE.domain, epsilon=0.7)
    assert RegressionPlan.from_dict(plan.to_dict()) == plan
    assert plan.capacity == CAPACITY
    refused = [
        (Code.BAD_TARGET, domain(Target(name="y", classes=(0, 1))), {}),
        (Code.MISSING_CAPACITY, TABLE.domain.model_copy(update={"capacity": None}), {}),
        (Code.BAD_PARAMETER, TABLE.domain, {"noise": "votes"}),
        (Code.BAD_PARAMETER, TABLE.domain, {"depth": 40}),
        (Code.BAD_EPSILON, TABLE.domain, {"epsilon": 0.0, "depth": 2}),
    ]
    for code, public, more in refused:
        with pytest.raises(HedgerowError) as caught:
            plan_regression(public, **more)
        assert caught.value.code is code
