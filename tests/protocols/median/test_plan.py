"""The plan of a median forest: what it charges and what it refuses."""

import math

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import By, ExponentialMechanism, Ledger, NoisyMax, PermuteAndFlip
from hedgerow.protocols.median.plan import CHOICES, COUNTS, MEDIANS, SUMS
from hedgerow.tables import Attribute, Domain, Target, encode
from tests.protocols.median.plans import median_plan

ATTRIBUTES = tuple(
    Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=16) for i in range(6)
)
CLASSES = Domain(attributes=ATTRIBUTES, target=Target(classes=(0, 1, 2)), capacity=4000)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(bounds=(0.0, 1.0)), capacity=4000)


def test_a_partitioned_forest_pays_for_one_tree() -> None:
    plan = median_plan(CLASSES, epsilon=1.0, n_trees=7, depth=3, variant="exp", candidates=5)
    releases = plan.releases()
    assert [r.reason for r in releases] == [MEDIANS, CHOICES] * 3 + [COUNTS]
    assert releases[0].times == 5
    assert releases[0].epsilon == pytest.approx(0.5 / 6 / 5)
    assert releases[1].epsilon == pytest.approx(0.5 / 6)
    assert releases[-1].epsilon == pytest.approx(0.5)
    assert {r.scope.segments[0].partition.by for r in releases} == {By.COIN}
    assert {r.scope.segments[-1].partition.by for r in releases} == {By.ATTRIBUTES}


def test_trees_that_share_rows_are_steps() -> None:
    plan = median_plan(CLASSES, epsilon=1.0, n_trees=4, depth=2, partition=False, candidates=2)
    releases = plan.releases()
    assert len(releases) == 4 * 5
    assert {r.scope.segments[0].label for r in releases} == {f"tree {t}" for t in range(4)}
    ledger = Ledger(domain=CLASSES)
    ledger.charge(*releases)
    assert ledger.total().epsilon == pytest.approx(1.0)
    assert ledger.total().epsilon <= 1.0


def test_mechanisms_of_the_variants() -> None:
    for variant, mechanism in (
        ("exp", ExponentialMechanism),
        ("flip", PermuteAndFlip),
        ("max", NoisyMax),
    ):
        plan = median_plan(CLASSES, epsilon=1.0, depth=2, variant=variant)
        assert type(plan.median_at(0)) is type(plan.choice_at(1)) is mechanism
        # Balance moves by 1 in either direction; gini by 2 records, always downwards.
        assert (plan.median_at(0).sensitivity, plan.median_at(0).monotone) == (1, False)
        assert (plan.choice_at(0).sensitivity, plan.choice_at(0).monotone) == (2 << 10, True)
    base = median_plan(CLASSES, epsilon=1.0, depth=2, variant="base")
    assert isinstance(base.median_at(0), ExponentialMechanism)
    assert [r.reason for r in base.releases()] == [MEDIANS, MEDIANS, COUNTS]
    random = median_plan(CLASSES, epsilon=1.0, depth=2, variant="random")
    assert [(r.reason, r.epsilon) for r in random.releases()] == [(COUNTS, 1.0)]


def test_regression_has_sums_and_the_sensitivity_of_the_bounds() -> None:
    plan = median_plan(NUMBERS, epsilon=1.0, depth=2, variant="exp")
    assert [r.reason for r in plan.releases()[-2:]] == [COUNTS, SUMS]
    u = plan.units.most
    assert plan.choice_at(0).sensitivity == (2 * u) ** 2
    assert plan.sum.sensitivity == u
    # B of the paper is 1 for a target in [0, 1], twice the half width that is u units.
    paper = median_plan(NUMBERS, epsilon=1.0, depth=2, variant="exp", accounting="paper")
    assert paper.choice_at(0).sensitivity == 4 * (2 * u) ** 2
    assert not paper.choice_at(0).monotone
    assert paper.releases()[-1].epsilon == math.inf
    assert paper.releases()[-1].claimed == pytest.approx(0.5)


def test_without_noise_nothing_is_claimed() -> None:
    plan = median_plan(CLASSES, epsilon=None, depth=3)
    (release,) = plan.releases()
    assert (release.mechanism, release.epsilon) == ("exact", math.inf)
    assert not plan.is_private
    assert median_plan(CLASSES, epsilon=None).depth == 4  # 4000 / 10 / 2^4 = 25


def test_batches_are_made_of_tables_of_the_domain_alone() -> None:
    rows = np.random.default_rng(0).random((9, 6))
    plan = median_plan(NUMBERS, epsilon=1.0)
    batch = plan.batch(encode(rows, NUMBERS, np.linspace(0, 1, 9)), 3)
    u = plan.units.most
    assert (batch.number, batch.target.dtype) == (3, np.int64)
    assert batch.target[[0, 4, 8]].tolist() == [-u, 0, u]
    for wrong, code in (
        (encode(rows, CLASSES, np.zeros(9)), Code.BAD_DOMAIN),
        (encode(rows, NUMBERS), Code.BAD_TARGET),
    ):
        with pytest.raises(HedgerowError) as caught:
            plan.batch(wrong)
        assert caught.value.code is code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_trees": 4001}, Code.BAD_PARAMETER),
        ({"n_trees": 0}, Code.BAD_PARAMETER),
        ({"candidates": 7}, Code.BAD_PARAMETER),
        ({"depth": 30}, Code.BAD_PARAMETER),
        ({"variant": "median"}, Code.BAD_PARAMETER),
        ({"epsilon": 0.0}, Code.BAD_EPSILON),
        ({"epsilon": math.inf}, Code.BAD_EPSILON),
        ({"domain": CLASSES.model_copy(update={"capacity": None})}, Code.MISSING_CAPACITY),
        ({"domain": CLASSES.model_copy(update={"target": None})}, Code.BAD_TARGET),
    ],
    ids=str,
)
def test_what_cannot_be_grown_is_refused(options: dict[str, object], code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        median_plan(**{"domain": CLASSES, "epsilon": 1.0} | options)
    assert caught.value.code is code
    # More trees than the capacity are fine where all of them see all rows.
    median_plan(CLASSES, epsilon=1.0, n_trees=4001, partition=False, depth=1)
