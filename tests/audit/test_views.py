import numpy as np
import pytest

from hedgerow.audit.views import View, joint_views, single_views, tally

ROWS = np.array([[3, 1, 2], [0, 5, 5], [-1, -2, -3]])


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (View("coordinate", (1,)), [1, 5, -2]),
        (View("sum", (0, 2)), [5, 5, -4]),
        (View("difference", (0, 1)), [2, -5, 1]),
        (View("largest"), [3, 5, -1]),
        (View("smallest"), [1, 0, -3]),
        (View("winner"), [0, 1, 0]),
        (View("total"), [6, 10, -6]),
    ],
)
def test_views(view: View, expected: list[int]) -> None:
    found = view(ROWS)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    assert view.ordered


def test_hash_of_rows_tells_rows_apart() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(-20, 20)] * 3), axis=-1).reshape(-1, 3)
    codes = View("row")(grid)
    assert np.unique(codes).size == grid.shape[0]
    np.testing.assert_array_equal(codes, View("row")(grid.copy()))


def test_hash_of_two_columns_ignores_the_others() -> None:
    together = View("together", (0, 2))
    changed = ROWS + np.array([0, 7, 0])
    np.testing.assert_array_equal(together(ROWS), together(changed))
    assert not together.ordered


def test_a_single_coordinate_needs_no_joint_view() -> None:
    assert list(single_views(1)) == [View("coordinate", (0,))]
    assert list(joint_views(1, np.array([0]))) == []


def test_joint_views_of_the_leading_coordinates() -> None:
    views = set(joint_views(4, np.array([3, 1])))
    assert {View("row"), View("largest"), View("winner"), View("difference", (1, 3))} <= views
    assert View("difference", (0, 1)) not in views


def test_views_have_names() -> None:
    assert str(View("difference", (1, 3))) == "outcome[1] - outcome[3]"
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
