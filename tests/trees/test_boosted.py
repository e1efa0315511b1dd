"""`Boosted`: start and trees add up, and the link reads the sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit, softmax

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.boosted import Boosted, step_domain
from hedgerow.trees.export.svg import to_svg
from hedgerow.trees.export.text import to_text
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.predict import CHUNK
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import (
    boosteds,
    quick,
    random_bins,
    random_boosted,
    random_domain,
    random_tree,
    single_split,
    walk,
)

COLOUR = Attribute(name="colour", kind="categorical", categories=("red", "green", "blue"))
LEAF = {"kind": [0], "feature": [-1], "cut": [-1], "first_child": [-1], "weight": [1]}


def colours(target):
    return Domain(attributes=(COLOUR,), target=target)


def constant(domain, value):
    return Tree(step_domain(domain), value=[[value]], **LEAF)


@quick
@given(boosteds())
def test_raw_is_the_start_and_the_values_in_the_order_of_the_rounds(model):
    bins = random_bins(np.random.default_rng(0), model.domain, 20)
    expected = np.tile(model.start, (20, 1))
    for i, tree in enumerate(model.trees):
        leaf = [walk(tree, row) for row in bins]
        expected[:, i % model.n_scores] += tree.value[leaf, 0]
    assert np.array_equal(model.raw(bins), expected)


@quick
@given(boosteds())
def test_answers_are_the_link_of_the_raw_score(model):
    bins = random_bins(np.random.default_rng(1), model.domain, 20)
    raw = model.raw(bins)
    assert model.decide(bins).shape == (20, model.n_outputs)
    if model.link == "identity":
        assert np.array_equal(model.decide(bins), raw)
        return
    expected = np.hstack([expit(-raw), expit(raw)])
    if model.link == "softmax":
        expected = softmax(raw, axis=1)
    elif model.link == "one-vs-rest":
        expected = expit(raw) / expit(raw).sum(axis=1, keepdims=True)
    assert np.allclose(model.distribution(bins), expected, rtol=1e-13, atol=0)
    assert np.array_equal(model.decide(bins), model.distribution(bins))
    best = raw.argmax(axis=1) if model.n_scores > 1 else raw[:, 0] > 0
    assert model.predict_class(bins).dtype == np.int32
    assert np.array_equal(model.predict_class(bins), best)


@quick
@given(boosteds())
def test_json_round_trip(model):
    again = Boosted.from_json(model.to_json())
    assert again == model
    assert hash(again) == hash(model)
    assert again.start.tobytes() == model.start.tobytes()
    assert Boosted.from_dict(model.to_dict(privacy={"epsilon": 1})) == model


def test_by_hand():
    domain = colours(Target(name="buys", classes=("no", "yes")))
    step = step_domain(domain)
    first = single_split(
        COLOUR, SplitKind.SUBSET, 0, [1, 0, 1], target=step.target, value=[[0.0], [1.0], [-3.0]]
    )
    second = single_split(
        COLOUR, SplitKind.VALUE, 2, target=step.target, value=[[0.0], [-0.5], [0.25]]
    )
    model = Boosted(domain, [first, second], 0.5, "logistic")
    bins = np.array([[0], [1], [2]], dtype=np.uint8)
    assert model.raw(bins).tolist() == [[1.75], [-2.25], [1.0]]
    assert model.predict_class(bins).tolist() == [1, 0, 1]
    p = 1 / (1 + np.exp(-np.array([1.75, -2.25, 1.0])))
    assert np.allclose(model.distribution(bins), np.stack([1 - p, p], axis=1), rtol=1e-14)
    assert repr(model) == "Boosted(classification, logistic, 2 rounds, 6 nodes)"
    assert (model.n_scores, model.n_outputs, model.n_rounds) == (1, 2, 2)
    assert to_text(model.tree(0)) == (
        "Decision tree for buys\n"
        "├── colour != green → 1  (1 record)\n"
        "└── colour = green → -3  (1 record)"
    )
    assert to_svg(model.tree(1)).count("<g ") == 3


def test_rounds_may_be_nested_or_in_a_row():
    rng = np.random.default_rng(0)
    domain = random_domain(rng, classes=3)
    row = [random_tree(rng, step_domain(domain)) for _ in range(6)]
    nested = Boosted(domain, [row[:3], tuple(row[3:])], [0.0, 1.0, 2.0], "softmax")
    assert nested == Boosted(domain, row, np.arange(3), "softmax")
    assert nested.trees == tuple(row)
    assert nested.tree(1, 2) is row[5]
    assert nested != Boosted(domain, row[::-1], np.arange(3), "softmax")
    assert nested != Boosted(domain, row, [0.0, 1.0, 2.5], "softmax")
    assert nested != "boosted trees"
    for at in ((2, 0), (0, 3), (-1, 0)):
        with pytest.raises(HedgerowError) as caught:
            nested.tree(*at)
        assert caught.value.code is Code.BAD_PARAMETER


def test_trees_of_other_bounds_are_moved_to_the_step_domain():
    domain = colours(Target(name="buys", classes=("no", "yes")))
    other = colours(Target(name="gradient", bounds=(-7.0, 7.0)))
    model = Boosted(domain, [Tree(other, value=[[5.0]], **LEAF)], 0, "logistic")
    assert model.trees[0].domain == step_domain(domain)
    assert model.raw(np.zeros((1, 1), dtype=np.uint8)).tolist() == [[5.0]]
    regression = colours(Target(name="price", bounds=(0.0, 1.0)))
    assert step_domain(regression) is regression


def test_small_probabilities_are_not_lost():
    two = colours(Target(classes=("no", "yes")))
    bins = np.zeros((1, 1), dtype=np.uint8)
    for raw in (-700.0, 700.0):
        p = Boosted(two, [constant(two, raw)], 0.0, "logistic").distribution(bins)[0]
        assert p.max() == 1.0
        assert p.min() == pytest.approx(np.exp(-700.0), rel=1e-12)
    three = colours(Target(classes=("a", "b", "c")))
    with np.errstate(all="raise", under="ignore"):
        huge = Boosted(three, [constant(three, 0.0)] * 3, [1e308, -1e308, 0.0], "softmax")
        assert huge.distribution(bins).tolist() == [[1.0, 0.0, 0.0]]
    tiny = Boosted(two, [constant(two, 1e-30)], 0.0, "logistic")
    assert tiny.distribution(bins).tolist() == [[0.5, 0.5]]
    assert tiny.predict_class(bins).tolist() == [1]


def test_equal_scores_go_to_the_lowest_class():
    bins = np.zeros((2, 1), dtype=np.uint8)
    two = colours(Target(classes=("no", "yes")))
    even = Boosted(two, [constant(two, 1.0)], -1.0, "logistic")
    assert even.predict_class(bins).tolist() == [0, 0]
    three = colours(Target(classes=("a", "b", "c")))
    tied = Boosted(three, [[constant(three, x) for x in (0.0, 2.0, 2.0)]], [0, 0, 0], "softmax")
    assert tied.predict_class(bins).tolist() == [1, 1]


def test_chunks_do_not_change_the_sum():
    rng = np.random.default_rng(2)
    model = random_boosted(rng, random_domain(rng, classes=3), rounds=4)
    bins = random_bins(rng, model.domain, CHUNK + 500)
    assert np.array_equal(model.raw(bins)[-500:], model.raw(bins[-500:]))


def test_unreleased_inner_values_are_not_read():
    rng = np.random.default_rng(3)
    domain = random_domain(rng, classes=2)
    tree = random_tree(rng, step_domain(domain), released=False)
    assert np.isnan(tree.value).any()
    model = Boosted(domain, [tree] * 2, 0.0, "logistic")
    assert np.isfinite(model.raw(random_bins(rng, domain, 50))).all()


THREE = colours(Target(classes=("a", "b", "c")))
TWO = colours(Target(classes=("a", "b")))
NUMBER = colours(Target(bounds=(0.0, 1.0)))


@pytest.mark.parametrize(
    ("domain", "trees", "start", "link", "code"),
    [
        (TWO, [constant(TWO, 1)], 0.0, "softmax", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], 0.0, "identity", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], 0.0, "probit", Code.BAD_PARAMETER),
        (THREE, [constant(THREE, 1)] * 3, [0.0] * 3, "logistic", Code.BAD_PARAMETER),
        (NUMBER, [constant(NUMBER, 1)], 0.0, "logistic", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], [0.0, 0.0], "logistic", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], np.nan, "logistic", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], np.inf, "logistic", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], "0", "logistic", Code.BAD_PARAMETER),
        (TWO, [constant(TWO, 1)], True, "logistic", Code.BAD_PARAMETER),
        (THREE, [constant(THREE, 1)] * 3, 0.0, "softmax", Code.BAD_PARAMETER),
        (colours(None), [constant(TWO, 1)], 0.0, "logistic", Code.BAD_TARGET),
        (colours(Target(classes=("a",))), [constant(TWO, 1)], 0.0, "logistic", Code.BAD_TARGET),
        (TWO, [], 0.0, "logistic", Code.BAD_TREE),
        (TWO, ["tree"], 0.0, "logistic", Code.BAD_TREE),
        (TWO, [["tree"]], 0.0, "logistic", Code.BAD_TREE),
        (TWO, [Tree(TWO, value=[[1, 2]], **LEAF)], 0.0, "logistic", Code.BAD_TREE),
        (THREE, [constant(THREE, 1)] * 4, [0.0] * 3, "softmax", Code.BAD_TREE),
        (THREE, [[constant(THREE, 1)] * 2], [0.0] * 3, "softmax", Code.BAD_TREE),
        (THREE, [constant(THREE, 1), [constant(THREE, 1)] * 3], [0] * 3, "softmax", Code.BAD_TREE),
        (TWO, [constant(TWO, 1.7e308)] * 2, 0.0, "logistic", Code.BAD_TREE),
        (TWO, [constant(TWO, 1.7e308)], -1.7e308, "logistic", Code.BAD_TREE),
    ],
)
def test_refuses_what_does_not_fit(domain, trees, start, link, code):
    with pytest.raises(HedgerowError) as caught:
        Boosted(domain, trees, start, link)
    assert caught.value.code is code


def test_refuses_trees_over_other_attributes():
    rng = np.random.default_rng(4)
    other = random_tree(rng, random_domain(rng, classes=0))
    with pytest.raises(HedgerowError, match="other attributes") as caught:
        Boosted(TWO, [other], 0.0, "logistic")
    assert caught.value.code is Code.BAD_TREE


def test_regression_has_no_classes_and_bins_are_checked():
    model = Boosted(NUMBER, [constant(NUMBER, 0.25)], 0.5, "identity")
    bins = np.zeros((2, 1), dtype=np.uint8)
    assert model.decide(bins).tolist() == [[0.75]] * 2
    for ask in (model.distribution, model.predict_class):
        with pytest.raises(HedgerowError) as caught:
            ask(bins)
        assert caught.value.code is Code.BAD_TARGET
    tree = single_split(COLOUR, SplitKind.VALUE, 0, target=NUMBER.target, value=[[0], [1], [2.0]])
    model = Boosted(NUMBER, [tree], 0.0, "identity")
    with pytest.raises(HedgerowError) as caught:
        model.raw(np.full((1, 1), 3, dtype=np.uint8))
    assert caught.value.code is Code.OUTSIDE_BOUNDS


def test_a_model_is_read_only_and_is_not_drawn_as_one_tree():
    model = random_boosted(np.random.default_rng(5))
    with pytest.raises(ValueError, match="read-only"):
        model.start[0] = 1.0
    with pytest.raises(AttributeError):
        model.link = "identity"
    for draw in (to_text, to_svg):
        with pytest.raises(HedgerowError, match="Boosted") as caught:
            draw(model)
        assert caught.value.code is Code.WRONG_TYPE
