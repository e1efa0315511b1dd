"""Plans in words: every release with its cost, and the total; not the domain."""

import pytest

from hedgerow import (
    Attribute,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPClassifier,
    DPRegressor,
    DPTreeClassifier,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
)
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.planned import cost, planned, planned_total
from tests.privacy.release_strategies import release

ATTRIBUTES = tuple(
    Attribute(name=f"attribute {i}", kind="numeric", bounds=(0, 100), bins=20) for i in range(300)
)
CLASSES = Domain(attributes=ATTRIBUTES, target=Target(name="ill", classes=(0, 1)), capacity=5_000)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 9)), capacity=5_000)
MODELS = [
    (DPTreeClassifier(1.5, CLASSES, max_depth=3), ("classification", "1 tree", "depth 3")),
    (
        MedianForestClassifier(1.5, CLASSES, n_estimators=3, max_depth=2, max_features=5),
        ("classification", "3 trees", "depth 2", "K = 5"),
    ),
    (MedianForestRegressor(1.5, NUMBERS, n_estimators=1), ("regression", "1 tree,")),
    (
        DPBoostingClassifier(1.5, CLASSES, n_estimators=77, max_leaves=5),
        ("classification", "77 rounds", "5 leaves"),
    ),
    (DPBoostingRegressor(1.5, NUMBERS), ("regression", "70% of them on two attributes")),
    (DPClassifier(1.5, CLASSES), ("classification", "rounds")),
    (DPClassifier(1.5, CLASSES, model="tree"), ("classification", "1 tree")),
    (DPRegressor(1.5, NUMBERS, model="median-forest"), ("regression", "4 trees")),
]


@pytest.mark.parametrize(("model", "said"), MODELS, ids=lambda value: type(value).__name__)
def test_plans_are_short_and_say_what_they_cost(model, said) -> None:
    plan = model.plan()
    for text in (str(plan), repr(plan)):
        assert all(word in text for word in said), text
        assert "epsilon 1.5" in text
        assert "attribute 7" not in text
    assert len(repr(plan)) < 200
    assert "\n" not in repr(plan)
    for each in plan.releases():
        assert each.reason in str(plan)
        figure = each.epsilon if each.rho is None else each.rho
        assert f"{figure:.6g}" in str(plan)


@pytest.mark.parametrize("model", [model for model, _ in MODELS], ids=lambda m: type(m).__name__)
def test_a_plan_is_for_the_domain_of_the_estimator_unless_another_is_given(model) -> None:
    assert model.plan().domain is model.domain
    other = Domain(attributes=ATTRIBUTES[:6], target=model.domain.target, capacity=900)
    assert model.plan(other).domain is other
    without = type(model)(1.0)
    assert without.plan(other).domain is other
    for given, code in ((None, Code.MISSING_DOMAIN), ("domain.toml", Code.BAD_PARAMETER)):
        with pytest.raises(HedgerowError) as caught:
            without.plan(given)
        assert caught.value.code is code


def test_totals_of_plans() -> None:
    releases = [release(0.25, times=2), release(0.5)]
    assert planned_total(releases).epsilon == 1.0
    assert planned("a model", releases).splitlines()[0] == "a model"
    assert "total: epsilon 1," in planned("a model", releases)
    assert cost(planned_total(releases)) == "epsilon 1"
