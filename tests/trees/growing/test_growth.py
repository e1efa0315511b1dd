import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA
from hedgerow.trees.growing.growth import GrowingTree, Limits
from tests.trees.small_tables import encoded, random_table


def growth_of(table, limits=Limits(), criterion="gini", branching="binary"):  # noqa: B008
    rows = Rows(table, Candidates.from_domain(table.domain, branching))
    return GrowingTree(table.domain, rows, CRITERIA[criterion], limits)


@pytest.mark.parametrize(
    ("limits", "depth", "expected"),
    [
        (Limits(), 0, [True, False, False, True]),
        (Limits(max_depth=3), 2, [True, False, False, True]),
        (Limits(max_depth=3), 3, [False] * 4),
        (Limits(min_samples_split=8), 0, [True, False, False, False]),
        (Limits(min_samples_leaf=4), 0, [True, False, False, False]),
        (Limits(min_samples_leaf=5), 0, [False] * 4),
    ],
)
def test_splittable_classes(limits, depth, expected):
    """Nodes with 8 mixed records, 9 pure ones, none, and 2 mixed ones."""
    growth = growth_of(random_table(0, 30, [3, 3]), limits)
    counts = np.array([[5, 3, 0], [0, 9, 0], [0, 0, 0], [1, 0, 1]])
    assert growth.splittable(counts, depth).tolist() == expected


def test_splittable_numbers():
    table = random_table(0, 30, [3, 3], regression=True)
    growth = growth_of(table, criterion="squared_error")

    def channels(y):
        y = np.asarray(y, dtype=float)
        return [y.size, y.sum(), (y * y).sum()]

    # Equal targets are pure even where rounding leaves a rest.
    pure = [1234.567] * 11
    n, total, squares = channels(pure)
    assert squares / n - (total / n) ** 2 > np.finfo(float).eps
    counts = [channels(y) for y in ([1.0, 2.0], pure, [1e6 + 0.1] * 9, [3.0], [0.0, 1e-6])]
    assert growth.splittable(np.array(counts), 0).tolist() == [True, False, False, False, True]


def test_decrease_is_scikit_learns():
    """40 records, 30:10; the split makes 20:0 and 10:10."""
    bins = np.repeat([0, 1], 20)[:, None]
    table = encoded(bins, np.repeat([0, 0, 1], [20, 10, 10]), n_bins=[2])
    growth = growth_of(table)
    score = growth.rows.scores([0], CRITERIA["gini"])[:, 0]
    decrease = growth.decrease(np.array([0]), score)
    assert decrease[0] == pytest.approx((1 - 0.75**2 - 0.25**2) - 0.5 * 0.5)


def test_worth():
    choice, decrease = np.array([-1, 2, 3, 4]), np.array([-np.inf, 0.0, 0.05, 0.2])
    table = random_table(0, 30, [3, 3])
    assert growth_of(table).worth(choice, decrease).tolist() == [False, True, True, True]
    strict = growth_of(table, Limits(min_impurity_decrease=0.05))
    assert strict.worth(choice, decrease).tolist() == [False, False, True, True]


def test_an_empty_leaf_has_its_parents_distribution():
    bins = np.array([[0], [0], [2], [2], [2]])
    table = encoded(bins, np.array([0, 1, 1, 1, 1]), n_bins=[3], ordered=False)
    growth = growth_of(table, branching="wary")
    worth_a_look = growth.make(growth.rows.tally([0], [0]), 0)
    assert worth_a_look.tolist() == [1]
    tree = growth.tree()
    assert tree.value.tolist() == [[1, 4], [1, 1], [1, 4], [0, 3]]
    assert tree.weight.tolist() == [5, 2, 0, 3]


def test_numbers_become_means():
    table = encoded([[0], [0], [1]], np.array([1.0, 2.0, 9.0]), n_bins=[2])
    growth = growth_of(table, criterion="squared_error")
    growth.make(growth.rows.tally([0], [0]), 0)
    tree = growth.tree()
    assert tree.value[:, 0].tolist() == [4.0, 1.5, 9.0]
    assert tree.weight.tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_depth": -1},
        {"max_depth": 0},
        {"max_depth": 2.5},
        {"max_depth": 2.0},
        {"max_depth": True},
        {"max_depth": np.True_},
        {"max_depth": "3"},
        {"max_depth": [3]},
        {"max_depth": np.array([3])},
        {"max_depth": float("nan")},
        {"min_samples_split": None},
        {"min_samples_split": 0.5},
        {"min_samples_leaf": True},
        {"min_samples_leaf": "1"},
        {"min_impurity_decrease": True},
        {"min_impurity_decrease": None},
        {"min_impurity_decrease": "0"},
        {"min_impurity_decrease": 1j},
        {"min_impurity_decrease": float("inf")},
        {"max_leaf_nodes": 2.0},
        {"max_leaf_nodes": True},
        {"min_samples_split": 1},
        {"min_samples_leaf": 0},
        {"min_impurity_decrease": -0.1},
        {"min_impurity_decrease": float("nan")},
        {"max_leaf_nodes": 1},
    ],
)
def test_limits_are_checked(wrong):
    with pytest.raises(HedgerowError) as caught:
        Limits(**wrong)
    assert caught.value.code is Code.BAD_PARAMETER
    assert next(iter(wrong)) in caught.value.found


def test_limits_of_numpy_are_numbers_too():
    limits = Limits(np.int64(3), np.uint8(2), np.int32(1), np.float32(0.5), np.int64(2))
    assert limits == Limits(3, 2, 1, 0.5, 2)
    assert Limits(min_impurity_decrease=1).min_impurity_decrease == 1
