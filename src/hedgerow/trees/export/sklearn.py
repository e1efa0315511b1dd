"""Export of public models to fitted scikit-learn estimators.

scikit-learn's trees and forests cast inputs to float32 before they compare. A threshold is
therefore the cut point rounded to float32: since rounding keeps the order, every x <= cut goes
left as it should, and an x > cut goes right unless it rounds to the same float32 as the cut.
Values that float32 cannot tell from a cut point above which they lie are the only ones on which
the two can differ. Its histogram boosting, which boosted trees become, compares and adds up in
double precision.

scikit-learn is loaded on first use: it takes seconds, and servers need none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.attribute import Target
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.export.expand import Thresholds, expand
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree

On = Literal["values", "bins"]


def to_sklearn(model: Model, on: On = "values") -> Any:
    """Build the fitted scikit-learn estimator that predicts like the model.

    `on`: what the estimator takes. "values": raw numbers, NaN for missing; needs threshold splits
    on numeric attributes. "bins": encoded bins; every model can be exported so. Splits that earlier
    ones have decided are left out, other kinds of splits are written as thresholds, so that node
    numbers may differ. The domain's rules for values outside the bounds and for missing values are
    not checked. Impurities are 0, hence so are the feature importances; numbers that were not
    released are NaN, or 1 for the numbers of samples. Raises `Code.CANNOT_EXPORT` if scikit-learn
    cannot express the model.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if isinstance(model, Tree):
        made = _estimator(model, on)
    elif isinstance(model, Boosted):
        made = (_each_class if model.link == "one-vs-rest" else _boosting)(model, on)
    else:
        ensemble = RandomForestClassifier if model.is_classifier else RandomForestRegressor
        made = ensemble(n_estimators=len(model.trees))
        made.estimators_ = [_estimator(tree, on) for tree in model.trees]
        made.estimator_ = type(made.estimators_[0])()
        made.n_outputs_ = 1
        made.n_features_in_ = len(model.domain.attributes)
    if model.is_classifier:
        made.classes_ = class_labels(model)
        if not isinstance(model, Boosted):
            made.n_classes_ = len(made.classes_)
    if on == "values":
        # Refuses tables whose columns stand in another order.
        made.feature_names_in_ = np.array(model.domain.names, dtype=object)
    return made


def class_labels(model: Model) -> NDArray[Any]:
    """Class labels as scikit-learn keeps them, shape (k,)."""
    target = model.domain.target
    return np.array(target.classes if target is not None else ())


def thresholds(
    tree: Tree, feature: NDArray[np.int32], cut: NDArray[np.int32], on: On
) -> NDArray[np.float64]:
    """Thresholds on raw numbers or on bins for cuts (m,) that stand for splits of the tree.

    The cut before the bin of missing values lies at infinity; where `feature` is below 0 the
    threshold is -2.
    """
    if on not in ("values", "bins"):
        raise Code.BAD_PARAMETER.error(found=f"on={on!r}", expected="on='values' or on='bins'")
    threshold = np.where(feature >= 0, cut + 0.5, -2.0)
    if on == "bins":
        return threshold
    for j in np.unique(feature[feature >= 0]).tolist():
        attribute = tree.domain.attributes[j]
        kinds = tree.kind[tree.feature == j]
        if attribute.kind != "numeric" or np.any(kinds != SplitKind.THRESHOLD):
            raise Code.CANNOT_EXPORT.error(
                found=f"a split on attribute {attribute.name!r} that is no numeric threshold",
                fix="export with on='bins', or use the JSON export",
            )
        at = feature == j
        threshold[at] = np.append(attribute.cuts, np.inf)[cut[at]]
    return threshold


def _estimator(tree: Tree, on: On) -> Any:
    """Build one tree whose classes are their indices."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    parts = expand(tree)
    made = (DecisionTreeClassifier if tree.is_classifier else DecisionTreeRegressor)()
    made.n_features_in_ = len(tree.domain.attributes)
    made.max_features_ = made.n_features_in_
    made.n_outputs_ = 1
    if tree.is_classifier:
        made.classes_ = np.arange(tree.n_outputs)
        made.n_classes_ = tree.n_outputs
    threshold = thresholds(tree, parts.feature, parts.cut, on)
    if on == "values":
        threshold = _to_float32(tree, parts, threshold)
    made.tree_ = _cython_tree(tree, parts, threshold)
    return made


def _cython_tree(tree: Tree, parts: Thresholds, threshold: NDArray[np.float64]) -> Any:
    """Fill scikit-learn's own tree through the state that it also restores copies from."""
    from sklearn.tree._tree import NODE_DTYPE
    from sklearn.tree._tree import Tree as CythonTree

    m = len(parts.feature)
    leaf = parts.left < 0
    known = parts.source >= 0
    nodes = np.zeros(m, dtype=NODE_DTYPE)
    nodes["left_child"], nodes["right_child"] = parts.left, parts.right
    nodes["feature"] = np.where(leaf, -2, parts.feature)
    nodes["threshold"] = threshold
    weight = np.where(known, tree.weight[parts.source], np.nan)
    samples = np.maximum(1.0, np.nan_to_num(weight, nan=1.0))
    nodes["weighted_n_node_samples"] = samples
    nodes["n_node_samples"] = np.minimum(np.rint(samples), 2**53)
    # The bin of missing values is the last one, which is never on the left.
    nodes["missing_go_to_left"] = 0
    answers = tree.distributions if tree.is_classifier else tree.value
    values = np.where(known[:, None], answers[parts.source], np.nan)
    made = CythonTree(len(tree.domain.attributes), np.array([tree.n_outputs], dtype=np.intp), 1)
    made.__setstate__(
        {
            "max_depth": parts.depth,
            "node_count": m,
            "nodes": nodes,
            "values": np.ascontiguousarray(values[:, None, :]),
        }
    )
    return made


def _each_class(model: Boosted, on: On) -> Any:
    """Build one classifier against the rest for each class."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    domain = model.domain.model_copy(update={"target": Target(classes=(0, 1))})
    made = OneVsRestClassifier(HistGradientBoostingClassifier())
    made.estimators_ = []
    for column, start in enumerate(model.start):
        trees = model.trees[column :: model.n_scores]
        made.estimators_.append(to_sklearn(Boosted(domain, trees, start, "logistic"), on))
    made.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(class_labels(model))
    made.n_features_in_ = len(model.domain.attributes)
    return made


def _boosting(model: Boosted, on: On) -> Any:
    """Build histogram boosting, which starts from a number and adds the trees in their order."""
    from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss, HalfSquaredError
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

    made: Any
    if model.is_classifier:
        made = HistGradientBoostingClassifier(max_iter=model.n_rounds, learning_rate=1.0)
    else:
        made = HistGradientBoostingRegressor(max_iter=model.n_rounds, learning_rate=1.0)
    losses: dict[str, Callable[[], Any]] = {
        "identity": HalfSquaredError,
        "logistic": HalfBinomialLoss,
        "softmax": lambda: HalfMultinomialLoss(n_classes=model.n_scores),
    }
    d = len(model.domain.attributes)
    made._loss = losses[model.link]()
    made._preprocessor = None
    made._baseline_prediction = model.start.reshape(1, -1).copy()
    made._bin_mapper = _BinMapper()
    # Categories are split by thresholds on their bins, so that it knows of numbers only.
    made._bin_mapper.is_categorical_ = np.zeros(d, dtype=np.uint8)
    made._bin_mapper.bin_thresholds_ = [np.empty(0)] * d
    made.is_categorical_ = None
    made.n_features_in_ = made._n_features = d
    made.n_trees_per_iteration_ = model.n_scores
    made.do_early_stopping_ = False
    made.train_score_ = made.validation_score_ = np.empty(0)
    made._predictors = [
        [_predictor(model.tree(i, column), on) for column in range(model.n_scores)]
        for i in range(model.n_rounds)
    ]
    return made


def _predictor(tree: Tree, on: On) -> Any:
    """Build one tree of histogram boosting."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    parts = expand(tree)
    leaf = parts.left < 0
    nodes = np.zeros(len(leaf), dtype=PREDICTOR_RECORD_DTYPE)
    nodes["is_leaf"] = leaf
    # Read in leaves only; the steps of a search have no node behind them.
    nodes["value"] = np.where(leaf, tree.value[parts.source, 0], 0.0)
    weight = np.where(parts.source >= 0, np.nan_to_num(tree.weight[parts.source]), 0.0)
    nodes["count"] = np.clip(np.rint(weight), 0, 2**32 - 1)
    nodes["feature_idx"] = np.where(leaf, 0, parts.feature)
    nodes["num_threshold"] = thresholds(tree, parts.feature, parts.cut, on)
    # The bin of missing values is the last one, which is never on the left.
    nodes["missing_go_to_left"] = 0
    nodes["left"], nodes["right"] = np.where(leaf, 0, (parts.left, parts.right))
    for v in np.flatnonzero(~leaf).tolist():
        nodes["depth"][[parts.left[v], parts.right[v]]] = nodes["depth"][v] + 1
    no_sets = np.zeros((0, 8), dtype=np.uint32)
    return TreePredictor(nodes, no_sets, no_sets)


def _to_float32(
    tree: Tree, parts: Thresholds, threshold: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Round thresholds to float32; refuse those that become equal or infinite by it."""
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32).astype(np.float64)
    for j in np.unique(parts.feature[parts.feature >= 0]).tolist():
        at = parts.feature == j
        overflow = np.isinf(rounded[at]) & np.isfinite(threshold[at])
        if overflow.any() or len(np.unique(rounded[at])) < len(np.unique(threshold[at])):
            raise Code.CANNOT_EXPORT.error(
                found=f"cut points of {tree.domain.names[j]!r} that float32 cannot tell apart",
                expected="cut points that differ in float32, which scikit-learn computes in",
                fix="export with on='bins' or to ONNX, or shift and scale the attribute",
            )
    return rounded
