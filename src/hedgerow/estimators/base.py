"""What every tree estimator shares: reading tables the scikit-learn way, and predicting."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.parameters import check_domain
from hedgerow.estimators.reading import (
    declared_columns,
    has_columns,
    labels_of,
    numbers_of,
    numbers_or_objects,
    objects,
    read_domain,
    refuse_repeated_columns,
)
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees import Tree, impurity_decrease, to_onnx, to_sklearn, to_svg, to_text


class TreeEstimator(BaseEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree` in ``tree_``."""

    # Drawings say so where counts are noisy.
    _noisy_counts: ClassVar[bool] = False

    # By which criterion importances are measured.
    _importance_criterion: str

    domain: Domain | None
    tree_: Tree
    domain_: Domain

    def _read(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        """Check a table as scikit-learn does and return it in a form that `encode` reads.

        Tables with column names (pandas, Arrow, anything narwhals knows) keep their columns and
        types; everything else becomes a two-dimensional NumPy array. scikit-learn's own refusals
        come back with a number.
        """
        check_domain(self.domain)
        if self.domain is not None:
            X = declared_columns(X, self.domain)
        if self.domain is not None and isinstance(X, list | tuple):
            # NumPy would choose one type for all cells, and one odd row would change the others.
            X = objects(X)
        # scikit-learn's refusal of a missing y; otherwise y is read apart from the table.
        y_rule: dict[str, Any] = {"y": None} if reset and y is None else {}
        try:
            if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "shape"):
                X = pa.table(X)
            if has_columns(X):
                refuse_repeated_columns(X)
                validate_data(self, X, reset=reset, skip_check_array=True, **y_rule)
                return X
            return validate_data(
                self,
                X,
                reset=reset,
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
                ensure_min_features=0,
                **y_rule,
            )
        except HedgerowError:
            raise
        except TypeError as error:
            raise Code.WRONG_TYPE.error(found=str(error)) from error
        except ValueError as error:
            if "feature names" in str(error):
                raise Code.MISSING_COLUMN.error(
                    expected="the columns of fit, in the same order",
                    found=" ".join(str(error).split()),
                    fix="pass the same columns in the same order",
                ) from error
            raise Code.WRONG_SHAPE.error(
                found=str(error), fix="pass rows of the same columns, two-dimensional"
            ) from error

    def _table(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        table = self._read(X, y, reset=reset)
        rows, columns = np.shape(table) if not hasattr(table, "shape") else table.shape
        if columns == 0 or rows == 0:
            missing = "feature" if columns == 0 else "sample"
            raise Code.EMPTY_TABLE.error(
                found=f"0 {missing}(s) (shape=({rows}, {columns})) while a minimum of 1 is required"
            )
        if self.domain is None and isinstance(table, np.ndarray) and table.dtype == object:
            table = numbers_or_objects(table)
        # A declared domain says what to do with a value beyond its bounds; without one, infinity
        # is refused as everywhere in scikit-learn.
        if self.domain is None and isinstance(table, np.ndarray) and table.dtype.kind == "f":
            rows_beyond = np.flatnonzero(np.isinf(table).any(axis=1))
            if rows_beyond.size:
                raise Code.OUTSIDE_BOUNDS.error(
                    found=f"inf or -inf in {rows_beyond.size} rows, the first is {rows_beyond[0]}"
                )
        return table

    def _encode_query(self, X: Any) -> Encoded:
        check_is_fitted(self, "tree_")
        return encode(self._table(X, reset=False), self.domain_)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row reaches.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[int32], shape (n_rows,)
        """
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
        tree, inner = self.tree_, self.tree_.feature >= 0
        total: NDArray[np.float64] = np.bincount(
            tree.feature[inner],
            weights=impurity_decrease(tree, self._importance_criterion)[inner],
            minlength=len(tree.domain.attributes),
        ).astype(np.float64)
        if total.sum() > 0:
            total /= total.sum()
        return total

    def to_text(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as indented text."""
        check_is_fitted(self, "tree_")
        return to_text(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)

    def to_svg(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as a self-contained SVG picture."""
        check_is_fitted(self, "tree_")
        return to_svg(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)

    def to_json(self) -> str:
        """Write the public model, with its domain, as JSON."""
        check_is_fitted(self, "tree_")
        return self.tree_.to_json()

    def to_sklearn(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted tree as a scikit-learn estimator."""
        check_is_fitted(self, "tree_")
        return to_sklearn(self.tree_, on=on)

    def to_onnx(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted tree as an ONNX model (extra ``hedgerow[onnx]``)."""
        check_is_fitted(self, "tree_")
        return to_onnx(self.tree_, on=on)


class TreeClassifier(ClassifierMixin, TreeEstimator):
    """A classifier over a public tree."""

    classes_: NDArray[Any]

    def _encode_training(self, X: Any, y: Any, domain: Domain | None, **suggest: Any) -> Encoded:
        """Encode rows and labels; without a domain, read one from the data."""
        table = self._table(X, y, reset=True)
        y = labels_of(y, len(table), declared=domain is not None)
        if domain is None:
            domain = read_domain(table, y, task="classification", **suggest)
            self.classes_ = np.unique(y)
        elif domain.target is None or domain.target.classes is None:
            raise Code.BAD_TARGET.error(found="a domain without target classes")
        else:
            self.classes_ = np.asarray(domain.target.classes)
        if len(self.classes_) < 2:
            raise Code.ONE_CLASS.error(found=f"the single class {self.classes_[0]!r}")
        self.domain_ = domain
        return encode(table, domain, y)

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
        return self.classes_[self.tree_.predict_class(query.bins)]

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
        return self.tree_.distribution(query.bins)

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


class TreeRegressor(RegressorMixin, TreeEstimator):
    """A regressor over a public tree."""

    def _encode_training(self, X: Any, y: Any, domain: Domain | None, **suggest: Any) -> Encoded:
        table = self._table(X, y, reset=True)
        y = numbers_of(y, len(table))
        if domain is None:
            domain = read_domain(table, y, task="regression", **suggest)
        elif domain.target is None or domain.target.bounds is None:
            raise Code.BAD_TARGET.error(found="a domain without target bounds")
        self.domain_ = domain
        return encode(table, domain, y)

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
        return self.tree_.decide(query.bins)[:, 0]
