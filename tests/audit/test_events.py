"""Views of outcomes, and the events that an attacker bets on."""

import numpy as np
import pytest

from hedgerow.audit.bounds import epsilon_lower
from hedgerow.audit.events import (
    HalfLine,
    LikelyHere,
    OutcomeView,
    Ratios,
    Single,
    choose,
    joint_views,
    single_views,
    tally,
)

FIRST = OutcomeView("coordinate", (0,))


def column(*values: int) -> np.ndarray:
    return np.array(values).reshape(-1, 1)


def attacked(choice, first, second) -> float:
    """Bound of a choice on fresh runs."""
    hits = [np.count_nonzero(choice.event.contains(rows)) for rows in (first, second)]
    here, there = hits if choice.likelier == 0 else hits[::-1]
    return float(epsilon_lower(here, len(first), there, len(second)))


def test_single_value() -> None:
    np.testing.assert_array_equal(Single(FIRST, 3).contains(column(3, 2, 3)), [1, 0, 1])
    assert str(Single(FIRST, 3)) == "outcome[0] is 3"
    assert "given value" in str(Single(OutcomeView("row"), 123))


def test_half_lines() -> None:
    rows = column(1, 2, 3)
    np.testing.assert_array_equal(HalfLine(FIRST, 2, at_least=True).contains(rows), [0, 1, 1])
    np.testing.assert_array_equal(HalfLine(FIRST, 2, at_least=False).contains(rows), [1, 1, 0])
    assert str(HalfLine(FIRST, 2, at_least=True)) == "outcome[0] >= 2"


def test_likelihood_set_holds_what_exceeds_the_threshold() -> None:
    table = Ratios(FIRST, np.array([1, 4, 6]), np.array([2.0, 0.5, -1.0]))
    event = LikelyHere((table,), 0.5)
    # 4 is at the threshold and not above it; 5 was never seen; 7 lies beyond the table.
    np.testing.assert_array_equal(event.contains(column(1, 4, 5, 6, 7, 0)), [1, 0, 0, 0, 0, 0])
    assert "1 values" in str(event)


def test_likelihoods_of_several_views_multiply() -> None:
    tables = tuple(
        Ratios(OutcomeView("coordinate", (i,)), np.array([0, 1]), np.array([-0.4, 0.4]))
        for i in range(3)
    )
    event = LikelyHere(tables, 1.0)
    np.testing.assert_array_equal(event.contains(np.array([[1, 1, 1], [1, 1, 0]])), [1, 0])
    assert "3 coordinates" in str(event)


@pytest.mark.parametrize("swapped", [False, True])
def test_direction(swapped: bool) -> None:
    rng = np.random.default_rng(0)
    pair = [rng.binomial(1, p, (5000, 1)) for p in (0.9, 0.1)]
    choice = choose(*(pair[::-1] if swapped else pair))
    hit = choice.event.contains(column(0, 1))
    assert hit[1 - int(choice.likelier == int(swapped))] == 0
    assert hit.sum() == 1


def test_values_seen_under_one_input_only() -> None:
    """Even values under one input, odd ones under the other: only a union of values is good."""
    rng = np.random.default_rng(1)
    draw = lambda: (2 * rng.integers(0, 100, (4000, 1)), 2 * rng.integers(0, 100, (4000, 1)) + 1)  # noqa: E731
    choice = choose(*draw())
    assert isinstance(choice.event, LikelyHere)
    assert attacked(choice, *draw()) > 6.0


def test_a_relation_between_coordinates() -> None:
    """Two answers that always agree or are independent, with the same marginals."""
    rng = np.random.default_rng(2)

    def draw():
        first, second = rng.integers(0, 2, (2, 4000, 6))
        first[:, 4] = first[:, 1]
        # With this column no row is ever seen twice.
        first[:, 0], second[:, 0] = rng.integers(0, 2**60, (2, 4000))
        return first, second

    choice = choose(*draw())
    assert "outcome[1]" in str(choice.event)
    assert "outcome[4]" in str(choice.event)
    assert attacked(choice, *draw()) > 4.0


def test_a_loss_spread_over_many_coordinates() -> None:
    """No coordinate gives away more than ln 1.5, and the sum over all of them nothing."""
    rng = np.random.default_rng(3)
    rates = np.tile([0.4, 0.6], 15)

    def draw():
        return rng.binomial(1, rates, (20_000, 30)), rng.binomial(1, 1 - rates, (20_000, 30))

    choice = choose(*draw())
    assert isinstance(choice.event, LikelyHere)
    assert attacked(choice, *draw()) > 3.0


def test_unique_outcomes_do_not_deceive_the_choice() -> None:
    """Every row is seen once, so any set of rows looks perfect on the runs it was read from."""
    rng = np.random.default_rng(4)

    def draw():
        noise = rng.integers(0, 2**50, (4000, 2))
        return np.column_stack([noise[:, 0], rng.binomial(1, 0.8, 4000)]), np.column_stack(
            [noise[:, 1], rng.binomial(1, 0.2, 4000)]
        )

    choice = choose(*draw())
    assert attacked(choice, *draw()) > 1.1  # ln(0.8 / 0.2) = 1.386


def test_promise_is_the_bound_and_not_the_ratio() -> None:
    """One hit against none has an infinite ratio; a solid factor 3 must be preferred."""
    first = np.repeat([0, 1, 2], [1, 600, 399]).reshape(-1, 1)
    second = np.repeat([1, 2], [200, 800]).reshape(-1, 1)
    rng = np.random.default_rng(5)
    choice = choose(rng.permutation(first), rng.permutation(second))
    np.testing.assert_array_equal(choice.event.contains(column(1, 2)), [True, False])
    assert np.log(choice.promise) == pytest.approx(
        max(float(epsilon_lower(k, 1000, 200, 1000)) for k in (600, 601)), abs=1e-9
    )


def test_delta_turns_away_from_rare_events() -> None:
    """A value of probability 0.01 is worth nothing once delta forgives it."""
    rng = np.random.default_rng(6)
    first = rng.choice(3, (20_000, 1), p=[0.01, 0.55, 0.44])
    second = rng.choice(3, (20_000, 1), p=[0.0, 0.35, 0.65])
    assert choose(first, second).event.contains(column(0, 1)).tolist() == [True, False]
    assert choose(first, second, delta=0.02).event.contains(column(1, 2)).tolist() == [True, False]


ROWS = np.array([[3, 1, 2], [0, 5, 5], [-1, -2, -3]])


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (OutcomeView("coordinate", (1,)), [1, 5, -2]),
        (OutcomeView("sum", (0, 2)), [5, 5, -4]),
        (OutcomeView("difference", (0, 1)), [2, -5, 1]),
        (OutcomeView("largest"), [3, 5, -1]),
        (OutcomeView("smallest"), [1, 0, -3]),
        (OutcomeView("winner"), [0, 1, 0]),
        (OutcomeView("total"), [6, 10, -6]),
    ],
)
def test_views(view: OutcomeView, expected: list[int]) -> None:
    found = view(ROWS)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    assert view.ordered


def test_hash_of_rows_tells_rows_apart() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(-20, 20)] * 3), axis=-1).reshape(-1, 3)
    codes = OutcomeView("row")(grid)
    assert np.unique(codes).size == grid.shape[0]
    np.testing.assert_array_equal(codes, OutcomeView("row")(grid.copy()))


def test_hash_of_two_columns_ignores_the_others() -> None:
    together = OutcomeView("together", (0, 2))
    changed = ROWS + np.array([0, 7, 0])
    np.testing.assert_array_equal(together(ROWS), together(changed))
    assert not together.ordered


def test_a_single_coordinate_needs_no_joint_view() -> None:
    assert list(single_views(1)) == [OutcomeView("coordinate", (0,))]
    assert list(joint_views(1, np.array([0]))) == []


def test_joint_views_of_the_leading_coordinates() -> None:
    views = set(joint_views(4, np.array([3, 1])))
    assert {
        OutcomeView("row"),
        OutcomeView("largest"),
        OutcomeView("winner"),
        OutcomeView("difference", (1, 3)),
    } <= views
    assert OutcomeView("difference", (0, 1)) not in views


def test_views_have_names() -> None:
    assert str(OutcomeView("difference", (1, 3))) == "outcome[1] - outcome[3]"
    assert len({str(view) for view in joint_views(3, np.arange(3))}) == 5 + 9


@pytest.mark.parametrize("spread", [1, 10**15])
def test_tally(spread: int) -> None:
    """Small integers are counted, widely spread ones sorted: the result is the same."""
    first = np.array([2, 2, 5, 2, 2, 2]) * spread
    second = np.array([5, 9, 5, 5, 9, 2]) * spread
    seen = tally(first, second)
    np.testing.assert_array_equal(seen.values, np.array([2, 5, 9]) * spread)
    np.testing.assert_array_equal(seen.values[seen.codes], [first, second])
    # Runs 0, 2, 4 are fold 0 and runs 1, 3, 5 are fold 1.
    np.testing.assert_array_equal(seen.counts[0], [[2, 1, 0], [3, 0, 0]])
    np.testing.assert_array_equal(seen.counts[1], [[0, 2, 1], [1, 1, 1]])


def test_tally_of_the_whole_range_of_integers() -> None:
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    np.testing.assert_array_equal(tally(ends, ends).values, ends)
