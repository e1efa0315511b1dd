"""Export of public trees and forests to ONNX.

The operators are the classic tree ensembles of ``ai.onnx.ml`` 3, which runtimes have read for
years, with thresholds and inputs in double precision: unlike scikit-learn's, the exported model
compares cut points as Hedgerow does. (That is also why the graph is written here and not derived
from the scikit-learn object, whose converter imitates its rounding to float32.)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.trees.expand import expand
from hedgerow.trees.export_sklearn import On, class_labels, thresholds
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

ML_OPSET = 3
OPSET = 17
IR_VERSION = 8


def to_onnx(model: Model, on: On = "values") -> Any:
    """Build the ONNX model that predicts like the tree or forest.

    Its input ``X`` is a float64 tensor of shape (rows, attributes). A classifier has the outputs
    ``label`` (rows,) and ``probabilities`` (rows, classes), a regressor ``variable`` (rows, 1);
    the latter are float32, as the operators have it.

    Parameters
    ----------
    model : Tree or Forest
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
    labels, label_type = _labels(model)
    attributes = {
        name: helper.make_tensor(name, numbers.DOUBLE, [len(value)], value.tolist())
        if isinstance(value, np.ndarray)
        else value
        for name, value in (_nodes(model, on) | labels).items()
    }
    outputs: list[tuple[str, Any, list[int | None]]] = []
    if model.is_classifier:
        outputs.append(("label", getattr(numbers, label_type), [None]))
    name = "probabilities" if model.is_classifier else "variable"
    outputs.append((name, numbers.FLOAT, [None, model.n_outputs]))
    node = helper.make_node(
        "TreeEnsembleClassifier" if model.is_classifier else "TreeEnsembleRegressor",
        ["X"],
        [output[0] for output in outputs],
        domain="ai.onnx.ml",
        **attributes,
    )
    d = len(model.domain.attributes)
    graph = helper.make_graph(
        [node],
        "hedgerow",
        [helper.make_tensor_value_info("X", numbers.DOUBLE, [None, d])],
        [helper.make_tensor_value_info(*output) for output in outputs],
    )
    made = helper.make_model(
        graph,
        producer_name="hedgerow",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
    )
    onnx.checker.check_model(made)
    return made


def _labels(model: Model) -> tuple[dict[str, Any], str]:
    """Attribute that names the classes, and the type of a label."""
    if not model.is_classifier:
        return {"n_targets": 1}, ""
    classes = class_labels(model)
    if classes.dtype.kind == "U":
        return {"classlabels_strings": classes.tolist()}, "STRING"
    numbers = classes if classes.dtype.kind == "i" else np.arange(len(classes))
    return {"classlabels_int64s": numbers.tolist()}, "INT64"


def _nodes(model: Model, on: On) -> dict[str, Any]:
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
        "nodes_values_as_tensor": np.where(leaf, 0.0, thresholds(tree, parts, on)),
        "nodes_truenodeids": np.where(leaf, 0, parts.left).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, parts.right).tolist(),
        # The bin of missing values is the last one, which is never on the true side.
        "nodes_missing_value_tracks_true": [0] * m,
        "class_treeids": [t] * (len(leaves) * k),
        "class_nodeids": np.repeat(leaves, k).tolist(),
        "class_ids": np.tile(np.arange(k), len(leaves)).tolist(),
        "class_weights_as_tensor": answers.ravel() / n_trees,
    }
