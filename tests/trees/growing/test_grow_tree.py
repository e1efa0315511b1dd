import heapq
import tracemalloc

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.trees.counts import rows as rows_module
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA
from hedgerow.trees.growing.grow_tree import grow_best_first, grow_cart, grow_id3, grow_levelwise
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.search import HighestScore, Search
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import children, encoded, random_table

OUTLOOK = ("sunny", "overcast", "rainy")
TEMPERATURE = ("hot", "mild", "cool")
HUMIDITY = ("high", "normal")
WINDY = (False, True)

# Quinlan 1986, table 1: outlook, temperature, humidity, windy, play.
WEATHER = [
    ("sunny", "hot", "high", False, "no"),
    ("sunny", "hot", "high", True, "no"),
    ("overcast", "hot", "high", False, "yes"),
    ("rainy", "mild", "high", False, "yes"),
    ("rainy", "cool", "normal", False, "yes"),
    ("rainy", "cool", "normal", True, "no"),
    ("overcast", "cool", "normal", True, "yes"),
    ("sunny", "mild", "high", False, "no"),
    ("sunny", "cool", "normal", False, "yes"),
    ("rainy", "mild", "normal", False, "yes"),
    ("sunny", "mild", "normal", True, "yes"),
    ("overcast", "mild", "high", True, "yes"),
    ("overcast", "hot", "normal", False, "yes"),
    ("rainy", "mild", "high", True, "no"),
]


def weather():
    attributes = tuple(
        Attribute(name=name, kind="categorical", categories=categories)
        for name, categories in (
            ("outlook", OUTLOOK),
            ("temperature", TEMPERATURE),
            ("humidity", HUMIDITY),
            ("windy", WINDY),
        )
    )
    domain = Domain(attributes=attributes, target=Target(name="play", classes=("no", "yes")))
    columns = dict(zip(domain.names, zip(*(row[:4] for row in WEATHER), strict=True), strict=True))
    return encode(
        {name: list(column) for name, column in columns.items()},
        domain,
        [row[4] for row in WEATHER],
    )


@pytest.mark.parametrize("criterion", ["entropy", "gain", "gini"])
def test_quinlans_weather_tree(criterion):
    """Outlook; sunny: humidity; overcast: yes; rainy: windy."""
    tree = grow_id3(weather(), criterion=criterion)
    assert tree.kind.tolist() == [4, 4, 0, 4, 0, 0, 0, 0]
    assert tree.feature.tolist() == [0, 2, -1, 3, -1, -1, -1, -1]
    assert tree.first_child.tolist() == [1, 4, -1, 6, -1, -1, -1, -1]
    no_yes = [[5, 9], [3, 2], [0, 4], [2, 3], [3, 0], [0, 2], [0, 3], [2, 0]]
    assert tree.value.tolist() == no_yes
    table = weather()
    np.testing.assert_array_equal(tree.predict_class(table.bins), table.target)


def test_id3_by_the_max_operator_fits_too():
    """Outlook and humidity both get 10 of 14 right: the first attribute wins the tie."""
    tree = grow_id3(weather(), criterion="max")
    table = weather()
    assert tree.feature[0] == 0
    np.testing.assert_array_equal(tree.predict_class(table.bins), table.target)


def test_id3_stops_at_the_depth_and_when_attributes_run_out():
    assert grow_id3(weather(), max_depth=1).n_leaves == 3
    noisy = encoded(np.zeros((9, 1), dtype=int), np.arange(9) % 2, n_bins=[2], ordered=False)
    tree = grow_id3(noisy)
    assert tree.depth == 1
    assert tree.weight.tolist() == [9, 9, 0]
    assert tree.value.tolist() == [[5, 4]] * 3


def test_cart_uses_thresholds_and_values():
    table = random_table(5, 800, [12, 5, 9], ordered=[True, False, True])
    tree = grow_cart(table, limits=Limits(max_depth=6))
    kinds = {
        int(f): set(tree.kind[tree.feature == f].tolist())
        for f in np.unique(tree.feature[tree.feature >= 0])
    }
    assert kinds[0] == {SplitKind.THRESHOLD}
    assert kinds.get(1, {SplitKind.VALUE}) == {SplitKind.VALUE}


def test_leaf_budget_takes_the_best_first_learner():
    table = random_table(5, 800, [12, 5, 9])
    tree = grow_cart(table, limits=Limits(max_leaf_nodes=7))
    assert tree.n_leaves == 7


def test_default_criteria():
    classes, numbers = random_table(5, 300, [6, 5]), random_table(5, 300, [6, 5], regression=True)
    limits = Limits(max_depth=3)
    assert grow_cart(classes, limits=limits) == grow_cart(classes, limits=limits, criterion="gini")
    assert grow_cart(numbers, limits=limits) == grow_cart(
        numbers, limits=limits, criterion="squared_error"
    )


def test_random_splitter():
    """Its cuts are random, inside the occupied bins, and fit the rows all the same."""
    table = random_table(6, 600, [30, 30, 7], ordered=[True, True, False])
    trees = [
        grow_cart(table, splitter="random", rng=np.random.default_rng(seed)) for seed in range(8)
    ]
    assert len({int(tree.cut[0]) for tree in trees}) > 3
    best = grow_cart(table)
    for tree in trees:
        assert tree.weight.min() >= 1
        right = (tree.predict_class(table.bins) == table.target).mean()
        assert right == (best.predict_class(table.bins) == table.target).mean()
        assert tree.n_leaves > best.n_leaves
    again = grow_cart(table, splitter="random", rng=np.random.default_rng(3))
    assert again == trees[3]


def test_rows_can_be_chosen():
    table = random_table(6, 200, [6, 5])
    index = np.array([0, 0, 3, 5, 8, 8, 9], dtype=np.int32)
    tree = grow_cart(table, index=index)
    assert tree.weight[0] == 7
    np.testing.assert_array_equal(tree.value[0], np.bincount(table.target[index], minlength=3))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"criterion": "squared_error"}, Code.BAD_PARAMETER),
        ({"splitter": "random"}, Code.BAD_PARAMETER),
        ({"max_features": 1}, Code.BAD_PARAMETER),
        ({"max_features": 3.5}, Code.BAD_PARAMETER),
    ],
)
def test_refusals(options, code):
    with pytest.raises(HedgerowError) as caught:
        grow_cart(random_table(6, 20, [6, 5]), **options)
    assert caught.value.code is code


def test_id3_needs_classes():
    with pytest.raises(HedgerowError) as caught:
        grow_id3(random_table(6, 20, [6, 5], regression=True))
    assert caught.value.code is Code.BAD_TARGET


@pytest.mark.parametrize("splitter", ["Best", "worst", "", None, True])
def test_splitter_is_one_of_two(splitter):
    with pytest.raises(HedgerowError, match=r"splitter as one of 'best', 'random'") as caught:
        grow_cart(weather(), splitter=splitter, rng=np.random.default_rng(0))
    assert caught.value.code is Code.BAD_PARAMETER


N_BINS = [9, 4, 12, 2, 6]
ORDERED = [True, False, True, False, True]


def grow(table, limits=Limits(), name="gini", branching="binary", n_threads=None, **options):  # noqa: B008
    rows = Rows(table, Candidates.from_domain(table.domain, branching), n_threads=n_threads)
    search = Search(CRITERIA[name], HighestScore(), limits.min_samples_leaf)
    return grow_levelwise(table.domain, rows, search, limits, **options)


def check_against_rows(tree, table):
    """Every node holds exactly the rows that its way down selects."""
    members = [np.arange(table.n_slots)]
    for node in range(tree.n_nodes):
        rows = members[node]
        assert tree.weight[node] == rows.size
        if rows.size and tree.is_classifier:
            counts = np.bincount(table.target[rows], minlength=tree.n_outputs)
            np.testing.assert_array_equal(tree.value[node], counts)
        elif rows.size:
            assert tree.value[node, 0] == pytest.approx(table.target[rows].mean())
        if tree.kind[node] != SplitKind.LEAF:
            assert tree.first_child[node] == len(members)
            column = table.bins[rows, tree.feature[node]]
            child = children(column, tree.kind[node], tree.cut[node], 0)
            members += [rows[child == c] for c in range(tree.arity[node])]
    return members


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_nodes_hold_their_rows(branching, regression):
    table = random_table(8, 700, N_BINS, ordered=ORDERED, regression=regression)
    name = "squared_error" if regression else "entropy"
    tree = grow(table, Limits(max_depth=4), name, branching, once=branching == "wary")
    assert tree.depth == 4
    check_against_rows(tree, table)


def test_limits_hold_everywhere():
    table = random_table(9, 2000, N_BINS, ordered=ORDERED)
    tree = grow(table, Limits(max_depth=6, min_samples_split=60, min_samples_leaf=11))
    members = check_against_rows(tree, table)
    inner = tree.kind != SplitKind.LEAF
    assert tree.depth <= 6
    assert tree.weight[inner].min() >= 60
    assert tree.weight.min() >= 11
    # A leaf above the last level is pure, too small, or cannot be split within the limits.
    for node in np.flatnonzero(~inner & (tree.node_depths < 6)):
        rows = members[node]
        pure = np.unique(table.target[rows]).size == 1
        assert pure or rows.size < 60 or not _has_split(table, rows, 11)


def _has_split(table, rows, leaf):
    candidates = Candidates.from_domain(table.domain)
    for c in range(len(candidates)):
        column = table.bins[rows, candidates.feature[c]]
        right = children(column, candidates.kind[c], candidates.cut[c], 0).sum()
        if min(right, rows.size - right) >= leaf:
            return True
    return False


def test_a_full_tree_is_pure_or_inseparable():
    table = random_table(10, 300, [3, 3, 3])
    tree = grow(table)
    members = check_against_rows(tree, table)
    for node in tree.leaves:
        rows = members[node]
        pure = np.unique(table.target[rows]).size == 1
        assert pure or len(np.unique(table.bins[rows], axis=0)) == 1


def test_splits_without_any_decrease_are_made():
    """Exclusive or: no single attribute helps at the root, as in scikit-learn it is split."""
    bins = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    table = encoded(bins, bins[:, 0] ^ bins[:, 1], n_bins=[2, 2])
    tree = grow(table)
    assert tree.n_leaves == 4
    assert grow(table, Limits(min_impurity_decrease=1e-6)).n_leaves == 1


def test_thresholds_lie_in_the_middle_of_the_gap():
    """Occupied bins 1, 2, 8 and 15, the last of which is the missing bin."""
    bins = np.repeat([1, 2, 8, 15], 5)[:, None]
    table = encoded(bins, np.repeat([0, 0, 1, 2], 5), n_bins=[16])
    tree = grow(table)
    assert tree.cut[tree.kind == SplitKind.THRESHOLD].tolist() == [5, 11]
    plain = grow(table, centre=False)
    assert plain.cut[plain.kind == SplitKind.THRESHOLD].tolist() == [2, 8]


def test_the_lowest_attribute_and_cut_win_ties():
    column = np.repeat([0, 4], 10)
    table = encoded(np.stack([column % 3, column, column], axis=1), np.repeat([0, 1], 10))
    assert grow(table).feature[0] == 0
    table = encoded(np.stack([column * 0, column, column], axis=1), np.repeat([0, 1], 10))
    assert grow(table).feature[0] == 1


def test_an_attribute_is_used_once_on_a_path():
    table = random_table(12, 900, [3, 4, 3], ordered=False)
    tree = grow(table, branching="wary", once=True)
    assert tree.depth == 3
    used = [set()]
    for node in range(tree.n_nodes):
        feature = int(tree.feature[node])
        assert feature not in used[node]
        used += [used[node] | {feature} for _ in range(tree.arity[node])]


@pytest.mark.parametrize("regression", [False, True])
def test_threads_and_blocks_do_not_change_the_tree(monkeypatch, regression):
    table = random_table(13, 1500, N_BINS, ordered=ORDERED, regression=regression)
    name = "squared_error" if regression else "gini"
    alone = grow(table, Limits(max_depth=7), name, n_threads=1)
    monkeypatch.setattr(rows_module, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 2000)
    assert grow(table, Limits(max_depth=7), name, n_threads=3) == alone


@pytest.mark.parametrize("target", [np.zeros(6, dtype=np.uint8), np.full(6, 2.5)])
def test_one_class_or_one_number_is_one_leaf(target):
    table = encoded(np.arange(6)[:, None], target, n_classes=2)
    tree = grow(table, name="gini" if target.dtype.kind == "u" else "squared_error")
    assert tree.n_nodes == 1
    assert tree.weight.tolist() == [6]


def test_nothing_to_split_by():
    table = encoded(np.zeros((6, 1), dtype=int), np.arange(6) % 2, n_bins=[1], ordered=False)
    assert grow(table).n_nodes == 1


def test_working_memory_stays_below_the_table():
    """Rows in tens of bytes, scores in blocks: on 41 columns well below the encoded table."""
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 48, (300_000, 41), dtype=np.uint8)
    table = encoded(bins, rng.integers(0, 23, 300_000, dtype=np.uint8), n_bins=[48] * 41)
    del bins
    tracemalloc.start()
    tree = grow(table, Limits(max_depth=6))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tree.n_leaves == 64
    assert peak < 0.6 * table.bins.nbytes


BEST_FIRST_BINS = [9, 4, 12, 6]


def grow_best(table, limits, learner=grow_best_first, name="gini"):
    rows = Rows(table, Candidates.from_domain(table.domain))
    search = Search(CRITERIA[name], HighestScore(), limits.min_samples_leaf)
    return learner(table.domain, rows, search, limits)


def total_decrease(tree):
    """Decrease of n * Gini at each inner node, NaN at leaves."""
    n = tree.value.sum(axis=1)
    impurity = n - (tree.value**2).sum(axis=1) / n
    out = np.full(tree.n_nodes, np.nan)
    inner = np.flatnonzero(tree.kind != SplitKind.LEAF)
    first = tree.first_child[inner]
    out[inner] = impurity[inner] - impurity[first] - impurity[first + 1]
    return out


@pytest.mark.parametrize("leaves", [2, 3, 8, 30])
def test_the_best_splits_of_the_full_tree_in_order(leaves):
    """Best-first on the full tree's decreases picks exactly the splits that were made."""
    table = random_table(21, 1200, BEST_FIRST_BINS)
    full = grow_best(table, Limits(), grow_levelwise)
    decrease = total_decrease(full)
    frontier, kept = [(-decrease[0], 0)], 0.0
    for _ in range(leaves - 1):
        value, node = heapq.heappop(frontier)
        kept -= value
        for child in (full.first_child[node], full.first_child[node] + 1):
            if full.kind[child] != SplitKind.LEAF:
                heapq.heappush(frontier, (-decrease[child], child))
    tree = grow_best(table, Limits(max_leaf_nodes=leaves))
    assert tree.n_leaves == leaves
    assert np.nansum(total_decrease(tree)) == pytest.approx(kept)


def test_with_room_for_all_leaves_it_is_the_full_tree():
    table = random_table(22, 300, BEST_FIRST_BINS)
    full = grow_best(table, Limits(max_depth=5), grow_levelwise)
    tree = grow_best(table, Limits(max_depth=5, max_leaf_nodes=10_000))
    assert tree.n_leaves == full.n_leaves
    np.testing.assert_array_equal(tree.decide(table.bins), full.decide(table.bins))


def test_limits_hold():
    table = random_table(23, 900, BEST_FIRST_BINS)
    limits = Limits(max_leaf_nodes=25, max_depth=4, min_samples_leaf=20, min_samples_split=90)
    tree = grow_best(table, limits)
    assert tree.n_leaves <= 25
    assert tree.depth <= 4
    assert tree.weight.min() >= 20
    assert tree.weight[tree.kind != SplitKind.LEAF].min() >= 90
    least = 0.004
    strict = grow_best(table, Limits(max_leaf_nodes=25, min_impurity_decrease=least))
    assert np.nanmin(total_decrease(strict)) / 900 >= least


def test_regression_and_pure_tables():
    table = random_table(24, 400, BEST_FIRST_BINS, regression=True)
    tree = grow_best(table, Limits(max_leaf_nodes=12), name="squared_error")
    assert tree.n_leaves == 12
    mean = ((tree.decide(table.bins)[:, 0] - table.target) ** 2).mean()
    assert mean < 0.6 * table.target.var()


def test_a_number_of_leaves_is_needed():
    with pytest.raises(HedgerowError) as caught:
        grow_best(random_table(0, 20, BEST_FIRST_BINS), Limits())
    assert caught.value.code is Code.BAD_PARAMETER
