"""What every estimator with a public model shares: asking the model, and export."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.table import TableClassifier, TableEstimator, TableRegressor
from hedgerow.privacy import Ledger
from hedgerow.tables import Encoded, encode
from hedgerow.trees import to_onnx, to_sklearn
from hedgerow.trees.model import Model


class PublicModelEstimator(TableEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree`, `Forest` or `Boosted`."""

    # The attribute that holds the model.
    _model_name: ClassVar[str]

    def _fitted_model(self) -> Model:
        """Return the public model, or raise scikit-learn's `NotFittedError`."""
        check_is_fitted(self, self._model_name)
        model: Model = getattr(self, self._model_name)
        return model

    def _encode_query(self, X: Any) -> Encoded:
        check_is_fitted(self, self._model_name)
        return encode(self._table(X, reset=False), self.domain_)

    def to_json(self) -> str:
        """Write the public model, with its domain, as JSON."""
        return self._fitted_model().to_json()

    def to_sklearn(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted model as a scikit-learn estimator."""
        return to_sklearn(self._fitted_model(), on=on)

    def to_onnx(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted model as an ONNX model (extra ``hedgerow[onnx]``)."""
        return to_onnx(self._fitted_model(), on=on)


class ReleasedModelEstimator(PublicModelEstimator):
    """An estimator whose public model goes out together with the ledger of its fit."""

    privacy_: Ledger

    def to_json(self) -> str:
        """Write the public model with its domain and its ledger as JSON."""
        model = self._fitted_model()
        return model.to_json(privacy=json.loads(self.privacy_.to_json()))


class PublicModelClassifier(TableClassifier, PublicModelEstimator):
    """A classifier over a public model."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each row; the lowest class index wins ties.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray, shape (n_rows,)
        """
        query = self._encode_query(X)
        return self.classes_[self._fitted_model().predict_class(query.bins)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict class probabilities, columns in the order of ``classes_``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows, n_classes)
        """
        query = self._encode_query(X)
        return self._fitted_model().distribution(query.bins)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class PublicModelRegressor(TableRegressor, PublicModelEstimator):
    """A regressor over a public model."""

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows,)
        """
        query = self._encode_query(X)
        return self._fitted_model().decide(query.bins)[:, 0]


def normalised(importances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide importances (d,) by their sum; where nothing matters they stay 0."""
    total = importances.sum()
    return importances / total if total > 0 else importances
