"""Words for splits and leaves, and for boosted models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.boosted import Boosted, step_domain
from hedgerow.trees.export import text as words
from hedgerow.trees.export.text import describe, function_caption
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import quick, single_split, trees

AGE = Attribute(name="age", kind="numeric", bounds=(0, 100), edges=(25, 37.5, 70))
AGE_OR_NOT = Attribute(name="age", kind="numeric", bounds=(0, 100), edges=(25,), missing="own bin")
COLOUR = Attribute(name="colour", kind="categorical", categories=("red", "green", "blue"))
SHADE = Attribute(name="shade", kind="categorical", categories=("red", "green", "blue", "grey"))
ANY_COLOUR = Attribute(
    name="colour",
    kind="categorical",
    categories=("red", "blue"),
    missing="own bin",
    outside="clip",
)


@pytest.mark.parametrize(
    ("attribute", "kind", "cut", "subsets", "expected"),
    [
        (AGE, SplitKind.THRESHOLD, 1, (), ["<= 37.5", "> 37.5"]),
        (AGE_OR_NOT, SplitKind.THRESHOLD, 0, (), ["<= 25", "> 25 or missing"]),
        (AGE_OR_NOT, SplitKind.THRESHOLD, 1, (), ["is not missing", "is missing"]),
        (COLOUR, SplitKind.THRESHOLD, 0, (), ["= red", "!= red"]),
        (COLOUR, SplitKind.THRESHOLD, 1, (), ["!= blue", "= blue"]),
        (COLOUR, SplitKind.VALUE, 0, (), ["= red", "!= red"]),
        (ANY_COLOUR, SplitKind.VALUE, 2, (), ["= other", "!= other"]),
        (ANY_COLOUR, SplitKind.VALUE, 3, (), ["is missing", "is not missing"]),
        (AGE, SplitKind.VALUE, 0, (), ["<= 25", "> 25"]),
        (AGE, SplitKind.VALUE, 1, (), ["in (25, 37.5]", "not in (25, 37.5]"]),
        (AGE, SplitKind.VALUE, 3, (), ["> 70", "<= 70"]),
        (AGE_OR_NOT, SplitKind.VALUE, 0, (), ["<= 25", "not <= 25"]),
        (COLOUR, SplitKind.SUBSET, 0, (1, 0, 1), ["!= green", "= green"]),
        (
            ANY_COLOUR,
            SplitKind.SUBSET,
            0,
            (1, 1, 0, 0),
            ["in {red, blue}", "in {other, missing}"],
        ),
        (SHADE, SplitKind.SUBSET, 0, (1, 1, 0, 0), ["in {red, green}", "in {blue, grey}"]),
        (SHADE, SplitKind.SUBSET, 0, (0, 0, 0, 1), ["= grey", "!= grey"]),
        (COLOUR, SplitKind.SUBSET, 0, (0, 0, 0), ["never", "in {red, green, blue}"]),
        (COLOUR, SplitKind.WARY, -1, (), ["= red", "= green", "= blue"]),
        (AGE, SplitKind.WARY, -1, (), ["<= 25", "in (25, 37.5]", "in (37.5, 70]", "> 70"]),
        (AGE_OR_NOT, SplitKind.WARY, -1, (), ["<= 25", "> 25", "is missing"]),
    ],
)
def test_branches(attribute, kind, cut, subsets, expected):
    tree = single_split(attribute, kind, cut, subsets)
    assert words.branch_conditions(tree, 0) == expected
    assert words.attribute_name(tree, 0) == attribute.name


def test_a_single_bin_has_words_too():
    one = Attribute(name="x", kind="numeric", bounds=(0, 1), edges=())
    assert words.branch_conditions(single_split(one, SplitKind.WARY), 0) == ["has any value"]
    either = Attribute(name="x", kind="numeric", bounds=(0, 1), edges=(), missing="own bin")
    expected = ["is not missing", "is missing"]
    assert words.branch_conditions(single_split(either, SplitKind.WARY), 0) == expected
    assert words.branch_conditions(single_split(either, SplitKind.THRESHOLD, 0), 0) == expected


def test_long_lists_are_cut():
    many = Attribute(name="x", kind="categorical", categories=tuple("abcdefghij"))
    assert words.branch_conditions(single_split(many, SplitKind.THRESHOLD, 7), 0) == [
        "in {a, b, c, d, e, 3 more}",
        "in {i, j}",
    ]


def test_neighbouring_cut_points_read_differently():
    close = Attribute(name="x", kind="numeric", bounds=(0, 2), edges=(1, 1.0000001, 1.0000002))
    said = [
        words.branch_conditions(single_split(close, SplitKind.THRESHOLD, c), 0)[0] for c in range(3)
    ]
    assert said == ["<= 1", "<= 1.0000001", "<= 1.0000002"]


def test_evidence_and_leaves():
    tree = single_split(COLOUR, SplitKind.VALUE, 0)
    tree = Tree(tree.domain, **(tree.arrays | {"value": [[np.nan] * 2, [3, 9.25], [-1, 2]]}))
    assert words.leaf_answer(tree, 1) == "yes"
    assert words.evidence(tree, 1) == "no: 3, yes: 9.25"
    assert words.evidence(tree, 2, noisy=True) == "noisy; no: -1, yes: 2"
    assert words.evidence(tree, 0) == "1 record"
    unknown = Tree(tree.domain, **(tree.arrays | {"weight": [np.nan] * 3}))
    assert words.evidence(unknown, 0, noisy=True) == ""


def test_evidence_of_many_classes_names_the_largest():
    domain = Domain(attributes=(COLOUR,), target=Target(classes=tuple("abcdefgh")))
    leaf = Tree(domain, [0], [-1], [-1], [-1], [[1, 2, 3, 4, 5, 6, 7, 8]], [36])
    assert words.evidence(leaf, 0) == "h: 8, g: 7, f: 6, e: 5, d: 4, 3 more"


@quick
@given(st.text())
def test_printable_is_one_harmless_line(text):
    shown = words.printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


@quick
@given(trees())
def test_every_branch_of_every_tree_is_described(tree):
    for v in np.flatnonzero(tree.arity):
        said = words.branch_conditions(tree, v)
        assert len(said) == tree.arity[v]
        assert all(said)


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
        (
            THREE,
            [(0,), (1,), ()],
            [0.5, 0.0, -1.0],
            "one-vs-rest",
            [
                "boosted model: base value and functions add up to the log-odds of each class of "
                "'ward' against the rest; the probabilities are shares of their sum",
                "base values: 'a' 0.5, 'b' 0, 'c' -1",
                "3 functions:",
                "  0: of age, for class 'a'",
                "  1: of dose, for class 'b'",
                "  2: of no attribute, a constant, for class 'c'",
            ],
        ),
    ],
    ids=["logistic", "identity", "softmax", "one-vs-rest"],
)
def test_a_boosted_model_in_words(domain, trees, start, link, said) -> None:
    model = Boosted(domain, [splits(domain, *features) for features in trees], start, link)
    assert describe(model).splitlines() == said
    assert said[3] == f"  0: {function_caption(model, 0)}"
