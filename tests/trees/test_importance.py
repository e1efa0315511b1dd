"""Impurity decrease from the counts in a tree."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.trees import Limits, SplitKind, Tree, grow_cart, impurity_decrease


def gini(counts: np.ndarray) -> float:
    n = counts.sum()
    return n - (counts**2).sum() / n


def test_each_split_against_the_definition() -> None:
    X, y = load_iris(return_X_y=True)
    domain = Domain.suggest(X, y, quiet=True, task="classification")
    tree = grow_cart(encode(X, domain, y), limits=Limits(max_depth=4))
    decrease = impurity_decrease(tree, "gini")
    for node in range(tree.n_nodes):
        first = tree.first_child[node]
        expected = 0.0
        if first >= 0:
            expected = gini(tree.value[node]) - sum(gini(tree.value[first + i]) for i in (0, 1))
        assert decrease[node] == pytest.approx(expected, abs=1e-9)


def test_squared_error_against_the_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    domain = Domain.suggest(X, y, quiet=True, task="regression")
    encoded = encode(X, domain, y)
    tree = grow_cart(encoded, limits=Limits(max_depth=1))
    leaf = tree.apply(encoded.bins)
    within = sum(((y[leaf == i] - y[leaf == i].mean()) ** 2).sum() for i in (1, 2))
    expected = ((y - y.mean()) ** 2).sum() - within
    assert impurity_decrease(tree, "squared_error")[0] == pytest.approx(expected, rel=1e-9)


def test_a_subset_counts_like_any_other_split() -> None:
    colour = Attribute(name="colour", kind="categorical", categories=("red", "green", "blue"))
    tree = Tree(
        Domain(attributes=(colour,), target=Target(classes=("no", "yes"))),
        kind=[SplitKind.SUBSET, 0, 0],
        feature=[0, -1, -1],
        cut=[0, -1, -1],
        first_child=[1, -1, -1],
        value=[[6, 4], [6, 1], [0, 3]],
        weight=[10, 7, 3],
        subsets=[[True, False, True]],
    )
    expected = gini(tree.value[0]) - gini(tree.value[1]) - gini(tree.value[2])
    assert impurity_decrease(tree, "gini").tolist() == pytest.approx([expected, 0, 0])
