"""What every estimator with a public model shares: asking the model, drawing it, and export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.table import TableClassifier, TableEstimator, TableRegressor
from hedgerow.privacy import Ledger
from hedgerow.reports.pictures import plot_model
from hedgerow.tables import Encoded, encode
from hedgerow.trees import Tree, to_onnx, to_sklearn, to_svg, to_text
from hedgerow.trees.importance import impurity_shares
from hedgerow.trees.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PublicModelEstimator(TableEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree`, `Forest` or `Boosted`."""

    # The attribute that holds the model.
    _model_name: ClassVar[str]

    # Drawings say so where counts are noisy.
    _noisy_counts: ClassVar[bool] = False

    def _fitted_model(self) -> Model:
        """Return the public model, or raise scikit-learn's `NotFittedError`."""
        check_is_fitted(self, self._model_name)
        model: Model = getattr(self, self._model_name)
        return model

    def _encode_query(self, X: Any) -> Encoded:
        check_is_fitted(self, self._model_name)
        return encode(self._table(X, reset=False), self.domain_)

    def to_json(self) -> str:
        """Write the public model as JSON, with its domain and the ledger of a private fit."""
        ledger: Ledger | None = getattr(self, "privacy_", None)
        privacy = None if ledger is None else json.loads(ledger.to_json())
        return self._fitted_model().to_json(privacy=privacy)

    def to_sklearn(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted model as a scikit-learn estimator."""
        return to_sklearn(self._fitted_model(), on=on)

    def to_onnx(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted model as an ONNX model (extra ``hedgerow[onnx]``)."""
        return to_onnx(self._fitted_model(), on=on)

    def plot(
        self,
        attribute: str | int | None = None,
        *,
        ax: Axes | None = None,
        max_depth: int | None = 5,
    ) -> Axes:
        """Draw the fitted model with matplotlib (extra ``hedgerow[plots]``).

        A tree is drawn itself, of a forest how much each attribute matters, of boosted trees what
        one attribute adds, with bands of the noise; see `plot_model`.
        """
        model = self._fitted_model()
        return plot_model(
            model,
            attribute,
            ax=ax,
            max_depth=max_depth,
            noisy=self._noisy_counts or hasattr(self, "privacy_"),
            criterion=getattr(self, "_importance_criterion", None),
        )


class PublicModelClassifier(TableClassifier, PublicModelEstimator):
    """A classifier over a public model."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each row; the lowest class index wins ties."""
        query = self._encode_query(X)
        return self.classes_[self._fitted_model().predict_class(query.bins)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict class probabilities, (n_rows, n_classes), in the order of ``classes_``."""
        query = self._encode_query(X)
        return self._fitted_model().distribution(query.bins)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict logarithms of class probabilities, (n_rows, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class PublicModelRegressor(TableRegressor, PublicModelEstimator):
    """A regressor over a public model."""

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row."""
        query = self._encode_query(X)
        return self._fitted_model().decide(query.bins)[:, 0]


class TreeEstimator(PublicModelEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree` in ``tree_``."""

    _model_name = "tree_"

    # By which criterion importances are measured.
    _importance_criterion: str

    tree_: Tree

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row reaches."""
        query = self._encode_query(X)
        return self.tree_.apply(query.bins)

    def get_depth(self) -> int:
        """Return the depth of the fitted tree."""
        check_is_fitted(self, "tree_")
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves of the fitted tree."""
        check_is_fitted(self, "tree_")
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the counts in the tree, (d,)."""
        check_is_fitted(self, "tree_")
        return impurity_shares([self.tree_], self._importance_criterion)

    def to_text(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as indented text."""
        check_is_fitted(self, "tree_")
        return to_text(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)

    def to_svg(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as a self-contained SVG picture."""
        check_is_fitted(self, "tree_")
        return to_svg(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)
