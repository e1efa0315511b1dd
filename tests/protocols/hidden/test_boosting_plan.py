import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan, tree_epsilon
from hedgerow.protocols.hidden.options import plan_boosting
from hedgerow.tables import Target
from tests.protocols.hidden.number_runs import classes, domain, numbers

CLASSES, NUMBERS = classes().domain, numbers().domain


@pytest.mark.parametrize("capacity", [1, 200, 1 << 15, 1 << 20, (1 << 26) - 1])
@pytest.mark.parametrize("noise", ["none", "splits+leaves"])
def test_everything_fits_its_ring_at_every_capacity(capacity: int, noise: str) -> None:
    for public in (CLASSES, NUMBERS):
        plan = plan_boosting(public, noise=noise, capacity=capacity)  # type: ignore[arg-type]
        Scores(plan.layout.candidates, plan.score, plan.public)
        assert 2 * capacity << plan.unit_bits < 1 << 31
        assert plan.largest_score << plan.fraction < 1 << 30
        assert plan.fraction >= plan.unit_bits


def test_plans_are_plain_data() -> None:
    plan = plan_boosting(CLASSES, epsilon=0.3, n_rounds=7, random_splits=True, public_seed=4)
    assert BoostingPlan.from_dict(plan.to_dict()) == plan
    assert plan.split_epsilon == 0
    assert plan.n_trees == 7
    assert plan_boosting(classes(k=3).domain, n_rounds=7).n_trees == 21


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.3])
@pytest.mark.parametrize("trees", [1, 3, 7, 100])
def test_the_parts_of_epsilon_never_exceed_it(epsilon: float, trees: int) -> None:
    from fractions import Fraction

    part = tree_epsilon(epsilon, trees)
    assert Fraction(part) * trees <= Fraction(epsilon)
    assert part == pytest.approx(epsilon / trees, rel=1e-15)


def test_what_does_not_fit_is_refused() -> None:
    refused = [
        (Code.BAD_TARGET, domain(Target(name="y", classes=(0,))), {}),
        (Code.MISSING_CAPACITY, CLASSES.model_copy(update={"capacity": None}), {}),
        (Code.BAD_PARAMETER, CLASSES, {"noise": "leaves"}),
        (Code.BAD_PARAMETER, CLASSES, {"learning_rate": 0.0}),
        (Code.BAD_PARAMETER, CLASSES, {"learning_rate": 1.5}),
        (Code.BAD_PARAMETER, CLASSES, {"n_rounds": 0}),
        (Code.BAD_PARAMETER, CLASSES, {"depth": 0}),
        (Code.BAD_PARAMETER, CLASSES, {"n_rounds": 10_000, "noise": "none", "learning_rate": 1.0}),
        (Code.BAD_PARAMETER, CLASSES, {"capacity": 1 << 27}),
        (Code.BAD_EPSILON, CLASSES, {"epsilon": 0.0}),
        (Code.EPSILON_BEYOND_REACH, CLASSES, {"epsilon": 5e-324}),
    ]
    for code, public, more in refused:
        with pytest.raises(HedgerowError) as caught:
            plan_boosting(public, **more)
        assert caught.value.code is code, more
