"""Export to ONNX: onnxruntime answers as the model does."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.boosted import Boosted, step_domain
from hedgerow.trees.export.onnx import EQ, LEQ, MEMBER, TreeColumn, ensemble, structure, to_onnx
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.trees.export.test_sklearn import encoded, one_cut, raw_values
from tests.trees.tree_strategies import (
    quick,
    random_bins,
    random_boosted,
    random_domain,
    random_tree,
    single_split,
    trees_with_bins,
    walk,
)

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra hedgerow[onnx]")


def run(made, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": np.asarray(X, dtype=np.float64)}), strict=True))


def assert_same(model, made, X, bins):
    out = run(made, X)
    if not model.is_classifier:
        assert np.allclose(out["variable"], model.decide(bins), rtol=1e-6, atol=1e-6)
        return
    p = model.distribution(bins)
    assert np.allclose(out["probabilities"], p, rtol=0, atol=1e-6)
    best = np.sort(p, axis=1)[:, -2:]
    # A forest's sums are rounded in another order, so that only exact ties may differ.
    rows = (best[:, 1] - best[:, 0] > 1e-9) | isinstance(model, Tree)
    expected = np.array(model.domain.target.classes)[model.predict_class(bins)]
    assert np.array_equal(out["label"][rows], expected[rows])


@pytest.mark.parametrize("classes", [0, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_every_model_on_bins(classes, seed):
    rng = np.random.default_rng([classes, seed])
    domain = random_domain(rng, classes=classes)
    bins = random_bins(rng, domain, 300)
    grown = [random_tree(rng, domain, max_splits=5 * i) for i in range(3)]
    for model in (*grown, Forest(grown)):
        assert_same(model, to_onnx(model, on="bins"), bins, bins)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("wide", [8, 300])
def test_subsets_are_one_node_each(classes, wide):
    rng = np.random.default_rng([classes, wide])
    target = random_domain(rng, classes=classes).target
    attributes = tuple(
        Attribute(name=f"c{j}", kind="categorical", categories=tuple(range(wide))) for j in range(3)
    )
    domain = Domain(attributes=attributes, target=target)
    grown = [random_tree(rng, domain, kinds=[SplitKind.SUBSET], max_splits=60) for _ in range(3)]
    bins = random_bins(rng, domain, 500)
    for model in (grown[0], Forest(grown)):
        made = to_onnx(model, on="bins")
        assert_same(model, made, bins, bins)
        modes = [a for a in made.graph.node[0].attribute if a.name == "nodes_modes"]
        splits = sum(t.n_nodes - t.n_leaves for t in getattr(model, "trees", (model,)))
        assert modes[0].t.dims[0] == splits * (classes if classes > 2 else 1)


def assert_same_boosted(model, made, X, bins):
    out = run(made, X)
    raw = model.raw(bins)
    if not model.is_classifier:
        assert out["variable"].dtype == np.float64
        assert np.allclose(out["variable"], raw, rtol=1e-14, atol=1e-14)
        return
    assert out["probabilities"].dtype == np.float64
    # A runtime may take small values of the logistic function from those near 1.
    off = 1e-15 if model.link == "one-vs-rest" else 0
    assert np.allclose(out["probabilities"], model.distribution(bins), rtol=1e-13, atol=off)
    scores = np.hstack([-raw, raw]) if model.link == "logistic" else raw
    best = np.sort(scores, axis=1)[:, -2:]
    # A runtime may add the trees in another order: only ties up to rounding may differ.
    rows = best[:, 1] - best[:, 0] > 1e-12
    assert rows.mean() > 0.5
    expected = np.array(model.domain.target.classes)[model.predict_class(bins)]
    assert np.array_equal(out["label"][rows], expected[rows])


@pytest.mark.parametrize(
    ("classes", "joint"), [(0, True), (2, True), (3, True), (3, False), (5, True), (5, False)]
)
@pytest.mark.parametrize("seed", range(4))
def test_boosted_trees_on_bins(classes, joint, seed):
    rng = np.random.default_rng([classes, seed, 2])
    domain = random_domain(rng, classes=classes)
    bins = random_bins(rng, domain, 300)
    # The first seed is a model of leaves alone.
    model = random_boosted(rng, domain, rounds=5, max_splits=10 * seed, joint=joint)
    assert_same_boosted(model, to_onnx(model, on="bins"), bins, bins)


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_boosted_thresholds_on_raw_values_cut_points_included(classes):
    rng = np.random.default_rng([classes, 3])
    domain = random_domain(rng, classes=classes, numeric_only=True)
    model = random_boosted(rng, domain, rounds=6, kinds=[SplitKind.THRESHOLD], max_splits=15)
    X = raw_values(rng, domain, 300)
    assert_same_boosted(model, to_onnx(model), X, encoded(domain, X))


@pytest.mark.parametrize("value", [0.1, 0.4, 2.0, -0.4, 1e-300])
def test_the_label_of_two_classes_is_the_sign_of_the_raw_score(value):
    # Positive values alone are what the classic operators would cut at one half.
    attribute = one_cut(0.5).domain.attributes[0]
    domain = Domain(attributes=(attribute,), target=Target(classes=("no", "yes")))
    tree = Tree(step_domain(domain), **(one_cut(0.5).arrays | {"value": [[0], [value], [0]]}))
    made = to_onnx(Boosted(domain, [tree], 0.0, "logistic"))
    expected = ["yes" if value > 0 else "no", "no"]
    assert run(made, [[0.0], [1.0]])["label"].tolist() == expected


def test_boosted_splits_without_a_form_on_values_are_refused():
    rng = np.random.default_rng(4)
    model = random_boosted(rng, kinds=[SplitKind.VALUE])
    with pytest.raises(HedgerowError) as caught:
        to_onnx(model)
    assert caught.value.code is Code.CANNOT_EXPORT


@pytest.mark.parametrize("classes", [0, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_thresholds_on_raw_values_cut_points_included(classes, seed):
    rng = np.random.default_rng([classes, seed, 1])
    domain = random_domain(rng, classes=classes, numeric_only=True)
    grown = [random_tree(rng, domain, kinds=[SplitKind.THRESHOLD], max_splits=15) for _ in range(3)]
    X = raw_values(rng, domain, 300)
    for model in (grown[0], Forest(grown)):
        assert_same(model, to_onnx(model), X, encoded(domain, X))


@pytest.mark.parametrize("cut", [0.1, 1 / 3, -0.7, 16_777_217.0, 3.9e38])
def test_values_are_compared_in_double_precision(cut):
    tree = one_cut(cut)
    X = np.array([[cut], [np.nextafter(cut, np.inf)], [np.nextafter(cut, -np.inf)]])
    assert run(to_onnx(tree), X)["label"].tolist() == ["left", "right", "left"]


def test_missing_values_go_right_and_can_be_split_off():
    tree = one_cut(0.5, missing="own bin")
    last = Tree(tree.domain, **(tree.arrays | {"cut": np.array([1, -1, -1])}))
    X = [[0.0], [1.0], [np.nan]]
    assert run(to_onnx(tree), X)["label"].tolist() == ["left", "right", "right"]
    assert run(to_onnx(last), X)["label"].tolist() == ["left", "left", "right"]


def test_ties_and_negative_counts():
    tree = one_cut(0.5)
    tree = Tree(tree.domain, **(tree.arrays | {"value": [[0, 0], [-4, -1], [-1, 3.0]]}))
    out = run(to_onnx(tree), [[0.0], [1.0]])
    assert out["label"].tolist() == ["left", "right"]
    assert out["probabilities"].tolist() == [[0.5, 0.5], [0, 1]]


def test_labels_are_strings_integers_or_an_index():
    for classes, expected in (
        (("a", "b"), ["a", "b"]),
        ((7, -3), [7, -3]),
        ((False, True), [0, 1]),
        ((0.5, 1.5), [0, 1]),
    ):
        tree = one_cut(0.5)
        domain = Domain(attributes=tree.domain.attributes, target=Target(classes=classes))
        made = to_onnx(Tree(domain, **tree.arrays))
        assert run(made, [[0.0], [1.0]])["label"].tolist() == expected


def test_refuses_what_it_cannot_express():
    rng = np.random.default_rng(0)
    domain = random_domain(rng, classes=1)
    with pytest.raises(HedgerowError, match="one class") as caught:
        to_onnx(random_tree(rng, domain), on="bins")
    assert caught.value.code is Code.CANNOT_EXPORT
    with pytest.raises(HedgerowError) as caught:
        to_onnx(one_cut(0.5), on="labels")
    assert caught.value.code is Code.BAD_PARAMETER


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(HedgerowError, match=r"'\.\[onnx\]'") as caught:
        to_onnx(one_cut(0.5))
    assert caught.value.code is Code.MISSING_EXTRA
    assert isinstance(caught.value, ImportError)


COLOURS = Attribute(name="c", kind="categorical", categories=tuple("abcdefgh"))


def sets(members):
    """The sets of the MEMBER nodes, which NaN ends."""
    found, now = [], set()
    for x in members:
        if np.isnan(x):
            found.append(now)
            now = set()
        else:
            now.add(x)
    assert not now
    return found


def follow(made, row):
    """Original leaf of one row of bins, node by node."""
    at, rank = 0, np.cumsum(made.mode == MEMBER) - 1
    members = sets(made.members)
    while at >= 0:
        b = float(row[made.feature[at]])
        true = {
            LEQ: lambda b, at: b <= made.split[at],
            EQ: lambda b, at: b == made.split[at],
            MEMBER: lambda b, at: b in members[rank[at]],
        }[int(made.mode[at])](b, at)
        at = int(made.true[at] if true else made.false[at])
    return int(made.leaves[~at])


@quick
@given(trees_with_bins(rows=40))
def test_every_row_arrives_at_its_leaf(case):
    tree, bins = case
    made = structure(tree, "bins")
    assert [follow(made, row) for row in bins] == [walk(tree, row) for row in bins]
    assert len(set(made.leaves.tolist())) == len(made.leaves)
    assert len(made.feature) == max(1, len(made.leaves) - 1)


@pytest.mark.parametrize(
    ("tree", "modes", "members"),
    [
        (single_split(COLOURS, SplitKind.SUBSET, 0, [1, 0, 0, 1, 0, 0, 0, 1]), [MEMBER], [0, 3, 7]),
        (single_split(COLOURS, SplitKind.SUBSET, 0, [0] * 8), [LEQ], []),
        (single_split(COLOURS, SplitKind.VALUE, 3), [EQ], []),
        (single_split(COLOURS, SplitKind.THRESHOLD, 3), [LEQ], []),
        (single_split(COLOURS, SplitKind.WARY), [LEQ] * 7, []),
    ],
)
def test_nodes_by_hand(tree, modes, members):
    made = structure(tree, "bins")
    assert made.mode.tolist() == modes
    assert made.members[~np.isnan(made.members)].tolist() == members


def test_trees_lie_behind_each_other():
    tree = single_split(COLOURS, SplitKind.SUBSET, 0, [1, 0, 0, 1, 0, 0, 0, 1])
    one, two = np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0, 4.0])
    made = ensemble([TreeColumn(tree, one, 0), TreeColumn(tree, two, 1)], 2, "bins")
    assert made["tree_roots"] == [0, 1]
    assert made["nodes_truenodeids"] == [0, 2]
    assert made["nodes_falsenodeids"] == [1, 3]
    assert made["nodes_trueleafs"] == made["nodes_falseleafs"] == [1, 1]
    assert made["leaf_targetids"] == [0, 0, 1, 1]
    assert made["leaf_weights"].tolist() == [1, 2, 3, 4]
    assert sets(made["membership_values"]) == [{0, 3, 7}] * 2
