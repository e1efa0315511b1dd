"""Export of public models to ONNX.

Trees and forests become the classic tree ensembles of ``ai.onnx.ml`` 3, which runtimes have read
for years, with thresholds and inputs in double precision: unlike scikit-learn's, the exported
model compares cut points as Hedgerow does. (That is also why the graph is written here and not
derived from the scikit-learn object, whose converter imitates its rounding to float32.)

Models with subsets, and boosted trees, become ``TreeEnsemble`` of ``ai.onnx.ml`` 5, which knows
sets and sums in double precision (`ensemble`), with the link as plain operators
behind it. The classic operators could apply a logistic link themselves, but onnxruntime finds the
label of two classes before the link, at one half instead of zero if all values are positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, install_of
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.export.expand import expand
from hedgerow.trees.export.sklearn import On, class_labels, thresholds
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

ML_OPSET = 3
OPSET = 17
IR_VERSION = 8
SETS_ML_OPSET = 5
LEQ, EQ, MEMBER = 0, 4, 6
"""Codes of the operator for how a node compares; true goes to the first child."""
_SUM, _NO_TRANSFORM = 1, 0
_TRUE, _FALSE = 3, 4


class Structure(NamedTuple):
    """Inner nodes and leaves of one tree, in depth-first order.

    `feature`, `mode`: int64 (m,). `split`: float64 (m,); what the feature is compared with; not
    read by `MEMBER`. `true`, `false`: int64 (m,); number of an inner node, or ``~`` the number of a
    leaf. `members`: bins of the `MEMBER` nodes, in their order, with NaN after each set. `leaves`:
    node of the original tree that stands behind each leaf.
    """

    feature: NDArray[np.int64]
    mode: NDArray[np.int64]
    split: NDArray[np.float64]
    true: NDArray[np.int64]
    false: NDArray[np.int64]
    members: NDArray[np.float64]
    leaves: NDArray[np.int64]


class TreeColumn(NamedTuple):
    """A tree, the number that each of its nodes (n,) adds, and the column it is added to."""

    tree: Tree
    values: NDArray[np.float64]
    column: int


def to_onnx(model: Model, on: On = "values") -> Any:
    """Build the ONNX model that predicts like a tree, a forest or boosted trees.

    Its input ``X`` is a float64 tensor of shape (rows, attributes). A classifier has the outputs
    ``label`` (rows,) and ``probabilities`` (rows, classes), a regressor ``variable`` (rows, 1);
    the latter are float32, as the classic operators have it, and float64 for boosted trees.

    `on`: what the input holds. "values": raw numbers, NaN for missing; needs threshold splits on
    numeric attributes. "bins": encoded bins; every model can be exported so. Labels are strings or
    int64; classes of any other type are given as their index. Raises `Code.MISSING_EXTRA` without
    the extra ``hedgerow[onnx]``, `Code.CANNOT_EXPORT` if the operators cannot express the model.
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise Code.MISSING_EXTRA.error(found="no module 'onnx'", fix=install_of("onnx")) from error
    if model.is_classifier and model.n_outputs < 2:
        raise Code.CANNOT_EXPORT.error(
            found="a classifier of one class",
            expected="at least two classes",
            fix="use the JSON export",
        )
    helper, numbers = onnx.helper, onnx.TensorProto
    if isinstance(model, Boosted) or _has_subsets(model):
        nodes, ml_opset = _newer(onnx, model, on), SETS_ML_OPSET
    else:
        nodes, ml_opset = [_classic(onnx, model, on)], ML_OPSET
    outputs: list[tuple[str, Any, list[int | None]]] = []
    if model.is_classifier:
        strings = _labels(model).dtype.kind == "U"
        outputs.append(("label", numbers.STRING if strings else numbers.INT64, [None]))
    name = "probabilities" if model.is_classifier else "variable"
    precision = numbers.DOUBLE if isinstance(model, Boosted) else numbers.FLOAT
    outputs.append((name, precision, [None, model.n_outputs]))
    d = len(model.domain.attributes)
    graph = helper.make_graph(
        nodes,
        "hedgerow",
        [helper.make_tensor_value_info("X", numbers.DOUBLE, [None, d])],
        [helper.make_tensor_value_info(*output) for output in outputs],
    )
    made = helper.make_model(
        graph,
        producer_name="hedgerow",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ml_opset)],
    )
    onnx.checker.check_model(made)
    return made


def _has_subsets(model: Tree | Forest) -> bool:
    trees = (model,) if isinstance(model, Tree) else model.trees
    return any(np.any(tree.kind == SplitKind.SUBSET) for tree in trees)


def _labels(model: Model) -> NDArray[Any]:
    """Class labels as ONNX can hold them: strings or int64, shape (k,)."""
    classes = class_labels(model)
    return classes if classes.dtype.kind in "Ui" else np.arange(len(classes))


def _newer(onnx: Any, model: Model, on: On) -> list[Any]:
    """List the nodes of a graph around ``TreeEnsemble``."""
    helper, constant = onnx.helper, onnx.numpy_helper.from_array
    if isinstance(model, Boosted):
        k, link = model.n_scores, model.link
        parts = [TreeColumn(tree, tree.value[:, 0], t % k) for t, tree in enumerate(model.trees)]
    else:
        parts, k = _answers(model)
        link = "identity"
    attributes = ensemble(parts, k, on)
    nodes = [
        helper.make_node(
            "TreeEnsemble", ["X"], ["sum"], domain="ai.onnx.ml", **_tensors(onnx, attributes)
        )
    ]

    def then(operator: str, inputs: list[str], output: str, **options: Any) -> None:
        nodes.append(helper.make_node(operator, inputs, [output], **options))

    def add_constant(output: str, value: NDArray[Any]) -> None:
        then("Constant", [], output, value=constant(value, output))

    last = "probabilities" if model.is_classifier else "variable"
    if isinstance(model, Boosted):
        add_constant("start", model.start)
        then("Add", ["sum", "start"], "raw" if model.is_classifier else last)
    if not model.is_classifier:
        if not isinstance(model, Boosted):
            then("Cast", ["sum"], last, to=onnx.TensorProto.FLOAT)
        return nodes
    if link == "softmax":
        then("Softmax", ["raw"], last, axis=1)
        best = "raw"
    elif link == "one-vs-rest":
        # As shares of their sum; the smallest number keeps it from being 0.
        add_constant("least", np.array([np.finfo(np.float64).tiny]))
        then("Sigmoid", ["raw"], "each")
        then("Max", ["each", "least"], "chances")
        add_constant("classes_axis", np.array([1]))
        then("ReduceSum", ["chances", "classes_axis"], "total")
        then("Div", ["chances", "total"], last)
        best = "raw"
    elif link == "logistic":
        # Two columns whose larger one is the class, and whose sigmoids are the probabilities.
        then("Neg", ["raw"], "against")
        then("Concat", ["against", "raw"], "both", axis=1)
        then("Sigmoid", ["both"], last)
        best = "both"
    else:
        best = "sum"
        if k == 1:
            add_constant("one", np.ones(1))
            then("Sub", ["one", "sum"], "first")
            then("Concat", ["first", "sum"], "both", axis=1)
            best = "both"
        then("Cast", [best], last, to=onnx.TensorProto.FLOAT)
    then("ArgMax", [best], "index", axis=1, keepdims=0)
    add_constant("classes", _labels(model))
    then("Gather", ["classes", "index"], "label")
    return nodes


def _answers(model: Tree | Forest) -> tuple[list[TreeColumn], int]:
    """List what the trees add to each column: shares of the mean, or of the probabilities."""
    trees = (model,) if isinstance(model, Tree) else model.trees
    parts = []
    for tree in trees:
        answers = tree.distributions if tree.is_classifier else tree.value
        # Of two classes the probability of the second says all.
        columns = (answers[:, 1:] if tree.n_outputs == 2 else answers).T / len(trees)
        parts += [TreeColumn(tree, column, c) for c, column in enumerate(columns)]
    return parts, len(parts) // len(trees)


def _tensors(onnx: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }


def _classic(onnx: Any, model: Tree | Forest, on: On) -> Any:
    """Make the one node of a graph with the classic operators."""
    attributes = _nodes(model, on)
    if model.is_classifier:
        labels = _labels(model)
        suffix = "strings" if labels.dtype.kind == "U" else "int64s"
        attributes[f"classlabels_{suffix}"] = labels.tolist()
    else:
        attributes["n_targets"] = 1
    return onnx.helper.make_node(
        "TreeEnsembleClassifier" if model.is_classifier else "TreeEnsembleRegressor",
        ["X"],
        ["label", "probabilities"] if model.is_classifier else ["variable"],
        domain="ai.onnx.ml",
        **_tensors(onnx, attributes),
    )


def _nodes(model: Tree | Forest, on: On) -> dict[str, Any]:
    """Attributes that describe all nodes and leaves; arrays are to be double tensors."""
    trees = (model,) if isinstance(model, Tree) else model.trees
    columns = [_tree(tree, t, on, len(trees)) for t, tree in enumerate(trees)]
    joined: dict[str, Any] = {}
    for name, first in columns[0].items():
        parts = [column[name] for column in columns]
        if isinstance(first, np.ndarray):
            joined[name] = np.concatenate(parts)
        else:
            joined[name] = [entry for part in parts for entry in part]
    if model.is_classifier:
        return joined
    return {name.replace("class_", "target_"): column for name, column in joined.items()}


def _tree(tree: Tree, t: int, on: On, n_trees: int) -> dict[str, list[Any] | NDArray[np.float64]]:
    parts = expand(tree)
    m = len(parts.feature)
    leaf = parts.left < 0
    leaves = np.flatnonzero(leaf)
    answers = (tree.distributions if tree.is_classifier else tree.value)[parts.source[leaves]]
    if tree.n_outputs == 2:
        # With two classes the operator takes one weight per leaf, the probability of the second.
        answers = answers[:, 1:]
    k = answers.shape[1]
    return {
        "nodes_treeids": [t] * m,
        "nodes_nodeids": list(range(m)),
        "nodes_featureids": np.where(leaf, 0, parts.feature).tolist(),
        "nodes_modes": ["LEAF" if end else "BRANCH_LEQ" for end in leaf.tolist()],
        "nodes_values_as_tensor": np.where(
            leaf, 0.0, thresholds(tree, parts.feature, parts.cut, on)
        ),
        "nodes_truenodeids": np.where(leaf, 0, parts.left).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, parts.right).tolist(),
        # The bin of missing values is the last one, which is never on the true side.
        "nodes_missing_value_tracks_true": [0] * m,
        "class_treeids": [t] * (len(leaves) * k),
        "class_nodeids": np.repeat(leaves, k).tolist(),
        "class_ids": np.tile(np.arange(k), len(leaves)).tolist(),
        "class_weights_as_tensor": answers.ravel() / n_trees,
    }


def ensemble(parts: Sequence[TreeColumn], n_columns: int, on: On) -> dict[str, Any]:
    """Return the operator's attributes; float64 and uint8 arrays are to be tensors."""
    written: dict[int, Structure] = {}
    for part in parts:
        if id(part.tree) not in written:
            written[id(part.tree)] = structure(part.tree, on)
    found = [written[id(part.tree)] for part in parts]
    nodes = _starts([len(s.feature) for s in found])
    leaves = _starts([len(s.leaves) for s in found])
    members = np.concatenate([s.members for s in found])
    made: dict[str, Any] = {
        "n_targets": n_columns,
        "aggregate_function": _SUM,
        "post_transform": _NO_TRANSFORM,
        "tree_roots": nodes,
        "nodes_featureids": np.concatenate([s.feature for s in found]).tolist(),
        "nodes_modes": np.concatenate([s.mode for s in found]).astype(np.uint8),
        "nodes_splits": np.concatenate([s.split for s in found]),
        # The bin of missing values is the last one, which is never on the true side.
        "nodes_missing_value_tracks_true": [0] * sum(len(s.feature) for s in found),
        "leaf_targetids": np.repeat(
            [part.column for part in parts], [len(s.leaves) for s in found]
        ).tolist(),
        "leaf_weights": np.concatenate(
            [part.values[s.leaves] for part, s in zip(parts, found, strict=True)]
        ),
    }
    for side in ("true", "false"):
        to = [getattr(s, side) for s in found]
        ends = np.concatenate(to) < 0
        moved = [np.where(t < 0, ~t + e, t + n) for t, n, e in zip(to, nodes, leaves, strict=True)]
        made[f"nodes_{side}leafs"] = ends.astype(np.int64).tolist()
        made[f"nodes_{side}nodeids"] = np.concatenate(moved).tolist()
    if len(members):
        made["membership_values"] = members
    return made


def structure(tree: Tree, on: On) -> Structure:
    """Rewrite one tree; every row arrives at the same leaf.

    A split with one branch per bin becomes a balanced search; nothing is repeated.
    """
    split = thresholds(tree, tree.feature, tree.cut, on)
    rows: list[list[float]] = []
    members: list[float] = []
    leaves: list[int] = []
    # Each entry: where it hangs (row and column), the node, and the bins that are left to tell
    # apart if the node has one branch per bin.
    stack: list[tuple[int, int, int, tuple[int, int] | None]] = [(-1, _TRUE, 0, None)]
    while stack:
        parent, side, v, span = stack.pop()
        span = span or _span(tree, v)
        while span is not None and span[0] == span[1]:
            v = int(tree.first_child[v]) + span[0]
            span = _span(tree, v)
        leaf = tree.kind[v] == SplitKind.LEAF
        here = ~len(leaves) if leaf else len(rows)
        if parent >= 0:
            rows[parent][side] = here
        if leaf:
            leaves.append(v)
            continue
        feature, first = int(tree.feature[v]), int(tree.first_child[v])
        if span is not None:
            middle = sum(span) // 2
            rows.append([feature, LEQ, middle + 0.5, 0, 0])
            stack.append((here, _FALSE, v, (middle + 1, span[1])))
            stack.append((here, _TRUE, v, (span[0], middle)))
            continue
        mode, at, bins = _comparison(tree, v, float(split[v]))
        members += bins
        rows.append([feature, mode, at, 0, 0])
        stack += [(here, _FALSE, first + 1, None), (here, _TRUE, first, None)]
    if not rows:
        # The operator has no tree without an inner node.
        rows.append([0, LEQ, 0.0, ~0, ~0])
    columns = np.array(rows, dtype=np.float64).T
    feature_, mode_, true, false = columns[[0, 1, _TRUE, _FALSE]].astype(np.int64)
    return Structure(
        feature_, mode_, columns[2], true, false, np.array(members, dtype=np.float64),
        np.array(leaves, dtype=np.int64),
    )  # fmt: skip


def _span(tree: Tree, v: int) -> tuple[int, int] | None:
    """First and last bin of a node with one branch per bin."""
    return (0, int(tree.arity[v]) - 1) if tree.kind[v] == SplitKind.WARY else None


def _comparison(tree: Tree, v: int, split: float) -> tuple[int, float, list[float]]:
    """How a node with two branches compares, with what number, or with which bins and NaN."""
    if tree.kind[v] == SplitKind.THRESHOLD:
        return LEQ, split, []
    if tree.kind[v] == SplitKind.VALUE:
        return EQ, float(tree.cut[v]), []
    row = tree.subsets[tree.cut[v], : tree.domain.n_bins[tree.feature[v]]]
    if not row.any():
        return LEQ, -0.5, []
    return MEMBER, 0.0, [*np.flatnonzero(row).astype(np.float64).tolist(), np.nan]


def _starts(sizes: list[int]) -> list[int]:
    return list(accumulate(sizes[:-1], initial=0))
