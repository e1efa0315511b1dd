"""Boosted models in words."""

from __future__ import annotations

import pytest

from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.boosted import Boosted, step_domain
from hedgerow.trees.export.describe import describe, function_caption
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

ATTRIBUTES = tuple(
    Attribute(name=name, kind="numeric", bounds=(0, 100), bins=4) for name in ("age", "dose", "bmi")
)
TWO = Domain(attributes=ATTRIBUTES, target=Target(name="ill", classes=("no", "yes")))
THREE = Domain(attributes=ATTRIBUTES, target=Target(name="ward", classes=("a", "b", "c")))
NUMBER = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 10)))


def splits(domain: Domain, *features: int) -> Tree:
    """Split by one attribute after the other, always the second of two children."""
    n = 2 * len(features) + 1
    feature, first, cut, kinds = [-1] * n, [-1] * n, [-1] * n, [SplitKind.LEAF] * n
    for i, one in enumerate(features):
        feature[2 * i], first[2 * i], cut[2 * i] = one, 2 * i + 1, 1
        kinds[2 * i] = SplitKind.THRESHOLD
    return Tree(
        step_domain(domain),
        kind=kinds,
        feature=feature,
        cut=cut,
        first_child=first,
        value=[[0.5]] * n,
        weight=[1] * n,
    )


@pytest.mark.parametrize(
    ("domain", "trees", "start", "link", "said"),
    [
        (
            TWO,
            [(0,), (0, 2), (2, 1, 0), ()],
            -0.25,
            "logistic",
            [
                "boosted model: base value and functions add up to the log-odds of 'ill' being "
                "'yes'",
                "base value: -0.25",
                "4 functions:",
                "  0: of age",
                "  1: of age and bmi",
                "  2: of age, dose and bmi",
                "  3: of no attribute, a constant",
            ],
        ),
        (
            NUMBER,
            [(1,)],
            4.0,
            "identity",
            [
                "boosted model: base value and functions add up to 'cost'",
                "base value: 4",
                "1 function:",
                "  0: of dose",
            ],
        ),
        (
            THREE,
            [(0,), (1,), (2,)],
            [0.5, 0.0, -1.0],
            "softmax",
            [
                "boosted model: base value and functions add up to one score for each class of "
                "'ward'; the probabilities are their softmax",
                "base values: 'a' 0.5, 'b' 0, 'c' -1",
                "3 functions:",
                "  0: of age, for class 'a'",
                "  1: of dose, for class 'b'",
                "  2: of bmi, for class 'c'",
            ],
        ),
    ],
    ids=["logistic", "identity", "softmax"],
)
def test_a_boosted_model_in_words(domain, trees, start, link, said) -> None:
    model = Boosted(domain, [splits(domain, *features) for features in trees], start, link)
    assert describe(model).splitlines() == said
    assert said[3] == f"  0: {function_caption(model, 0)}"
