"""The parts of a forest's epsilon add up to it, and the depth follows from public numbers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.median.options import candidates_for, depth_for
from hedgerow.protocols.median.plan import divide_tree
from hedgerow.tables import Attribute, Domain, Target
from tests.protocols.median.plans import median_plan

DOMAIN = Domain(
    attributes=(Attribute(name="x", kind="numeric", bounds=(0, 1), bins=4),),
    target=Target(classes=(0, 1)),
    capacity=5000,
)


@given(
    epsilon=st.floats(1e-3, 100),
    depth=st.integers(1, 12),
    share=st.floats(0.05, 0.95),
    times=st.integers(1, 20),
    chooses=st.booleans(),
    regression=st.booleans(),
    spread=st.sampled_from(["uniform", "rising", "falling"]),
)
def test_the_parts_never_exceed_the_whole(
    epsilon, depth, share, times, chooses, regression, spread
) -> None:
    found = divide_tree(
        epsilon,
        depth,
        split_share=share,
        times=times,
        chooses=chooses,
        regression=regression,
        depth_budget=spread,
    )
    parts = [*found.choices, found.counts, found.sums]
    exact = sum(map(Fraction, parts)) + times * sum(map(Fraction, found.medians))
    assert exact <= Fraction(epsilon)
    assert float(exact) == pytest.approx(epsilon, rel=1e-12)
    splits = times * sum(found.medians) + sum(found.choices)
    assert splits == pytest.approx(share * epsilon)
    assert len(found.medians) == depth
    assert len(found.choices) == (depth if chooses else 0)


def test_levels_follow_the_chosen_spread() -> None:
    for spread, ratio in (("uniform", 1.0), ("rising", 2**0.5), ("falling", 0.5**0.5)):
        found = divide_tree(
            1.0,
            3,
            split_share=0.5,
            times=2,
            chooses=True,
            regression=False,
            depth_budget=spread,
        )
        assert found.medians[1] / found.medians[0] == pytest.approx(ratio)
        assert found.choices[2] == pytest.approx(2 * found.medians[2])


def test_as_published_each_median_has_what_all_should_share() -> None:
    options = {"split_share": 0.5, "times": 5, "chooses": True, "regression": False}
    strict = divide_tree(1.0, 4, **options)
    paper = divide_tree(1.0, 4, **options, strict=False)
    assert paper.medians == pytest.approx([5 * m for m in strict.medians])
    assert (paper.choices, paper.counts) == (strict.choices, pytest.approx(strict.counts))


def test_random_splits_leave_everything_to_the_leaves() -> None:
    found = divide_tree(1.0, 4, split_share=0.0, times=1, chooses=False, regression=False)
    assert (found.medians, found.choices, found.counts) == ((), (), 1.0)


@given(epsilon=st.floats(1e-6, 1e3), n_trees=st.integers(1, 1000))
def test_trees_that_share_rows_share_epsilon(epsilon: float, n_trees: int) -> None:
    for partition, parts in ((False, n_trees), (True, 1)):
        options = {"n_trees": n_trees, "depth": 1, "partition": partition, "variant": "random"}
        counts = median_plan(DOMAIN, epsilon=epsilon, **options).spending.counts
        assert parts * Fraction(counts) <= Fraction(epsilon)
        assert parts * counts == pytest.approx(epsilon)


def test_what_cannot_be_divided_is_refused() -> None:
    for epsilon in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(HedgerowError) as caught:
            median_plan(DOMAIN, epsilon=epsilon)
        assert caught.value.code is Code.BAD_EPSILON
    with pytest.raises(HedgerowError) as caught:
        divide_tree(5e-324, 2, split_share=0.5, times=1, chooses=True, regression=False)
    assert caught.value.code is Code.BAD_EPSILON


def test_depth_by_the_papers_rule_and_by_noise() -> None:
    # Without noise, the deepest tree with 25 records in a leaf.
    assert depth_for(5000, float("inf"), 0.5) == 7
    assert [depth_for(5000, e, 0.5) for e in (0.01, 0.1, 1.0, 10.0)] == [2, 5, 7, 7]
    assert depth_for(3, 1.0, 0.5) == 1
    assert depth_for(1e12, 10.0, 0.5) == 12


def test_candidates_follow_records_times_epsilon() -> None:
    assert [candidates_for(40_000, e, 20) for e in (0.01, 0.1, 1.0, 10.0)] == [1, 5, 16, 16]
    assert candidates_for(40_000, 10.0, 3) == 3
    assert candidates_for(10, 0.1, 3) == 1
