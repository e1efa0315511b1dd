import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.trees.growing.grow_tree import grow_cart, grow_id3
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import encoded, random_table

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
