"""Export of public models to ONNX.

Trees and forests become the classic tree ensembles of ``ai.onnx.ml`` 3, which runtimes have read
for years, with thresholds and inputs in double precision: unlike scikit-learn's, the exported
model compares cut points as Hedgerow does. (That is also why the graph is written here and not
derived from the scikit-learn object, whose converter imitates its rounding to float32.)

Models with subsets, and boosted trees, become ``TreeEnsemble`` of ``ai.onnx.ml`` 5, which knows
sets and sums in double precision (`export.onnx_trees`), with the link as plain operators
behind it. The classic operators could apply a logistic link themselves, but onnxruntime finds the
label of two classes before the link, at one half instead of zero if all values are positive.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.export import onnx_trees
from hedgerow.trees.export.expand import expand
from hedgerow.trees.export.sklearn import On, class_labels, thresholds
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

ML_OPSET = 3
OPSET = 17
IR_VERSION = 8


def to_onnx(model: Model, on: On = "values") -> Any:
    """Build the ONNX model that predicts like a tree, a forest or boosted trees.

    Its input ``X`` is a float64 tensor of shape (rows, attributes). A classifier has the outputs
    ``label`` (rows,) and ``probabilities`` (rows, classes), a regressor ``variable`` (rows, 1);
    the latter are float32, as the classic operators have it, and float64 for boosted trees.

    Parameters
    ----------
    model : Tree, Forest or Boosted
    on : {"values", "bins"}, default="values"
        What the input holds. "values": raw numbers, NaN for missing; needs threshold splits on
        numeric attributes. "bins": encoded bins; every model can be exported so.

    Returns
    -------
    onnx.ModelProto
        Labels are strings or int64; classes of any other type are given as their index.

    Raises
    ------
    HedgerowError
        `Code.MISSING_EXTRA` without the extra ``hedgerow[onnx]``, `Code.CANNOT_EXPORT` if
        the operators cannot express the model.
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise Code.MISSING_EXTRA.error(
            found="no module 'onnx'", fix='pip install "hedgerow[onnx]"'
        ) from error
    if model.is_classifier and model.n_outputs < 2:
        raise Code.CANNOT_EXPORT.error(
            found="a classifier of one class",
            expected="at least two classes",
            fix="use the JSON export",
        )
    helper, numbers = onnx.helper, onnx.TensorProto
    if isinstance(model, Boosted) or _has_subsets(model):
        nodes, ml_opset = _newer(onnx, model, on), onnx_trees.ML_OPSET
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
        parts = [
            onnx_trees.Part(tree, tree.value[:, 0], t % k) for t, tree in enumerate(model.trees)
        ]
    else:
        parts, k = _answers(model)
        link = "identity"
    attributes = onnx_trees.ensemble(parts, k, on)
    nodes = [
        helper.make_node(
            "TreeEnsemble", ["X"], ["sum"], domain="ai.onnx.ml", **_tensors(onnx, attributes)
        )
    ]

    def then(operator: str, inputs: list[str], output: str, **options: Any) -> None:
        nodes.append(helper.make_node(operator, inputs, [output], **options))

    def fixed(output: str, value: NDArray[Any]) -> None:
        then("Constant", [], output, value=constant(value, output))

    last = "probabilities" if model.is_classifier else "variable"
    if isinstance(model, Boosted):
        fixed("start", model.start)
        then("Add", ["sum", "start"], "raw" if model.is_classifier else last)
    if not model.is_classifier:
        if not isinstance(model, Boosted):
            then("Cast", ["sum"], last, to=onnx.TensorProto.FLOAT)
        return nodes
    if link == "softmax":
        then("Softmax", ["raw"], last, axis=1)
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
            fixed("one", np.ones(1))
            then("Sub", ["one", "sum"], "first")
            then("Concat", ["first", "sum"], "both", axis=1)
            best = "both"
        then("Cast", [best], last, to=onnx.TensorProto.FLOAT)
    then("ArgMax", [best], "index", axis=1, keepdims=0)
    fixed("classes", _labels(model))
    then("Gather", ["classes", "index"], "label")
    return nodes


def _answers(model: Tree | Forest) -> tuple[list[onnx_trees.Part], int]:
    """List what the trees add to each column: shares of the mean, or of the probabilities."""
    trees = (model,) if isinstance(model, Tree) else model.trees
    parts = []
    for tree in trees:
        answers = tree.distributions if tree.is_classifier else tree.value
        # Of two classes the probability of the second says all.
        columns = (answers[:, 1:] if tree.n_outputs == 2 else answers).T / len(trees)
        parts += [onnx_trees.Part(tree, column, c) for c, column in enumerate(columns)]
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
