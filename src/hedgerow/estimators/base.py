"""What every tree estimator shares: reading tables the scikit-learn way, and predicting."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees import Tree, impurity_decrease, to_onnx, to_sklearn, to_svg, to_text


class TreeEstimator(BaseEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree` in ``tree_``."""

    # Drawings say so where counts are noisy.
    _noisy_counts: ClassVar[bool] = False

    domain: Domain | None
    tree_: Tree
    domain_: Domain

    def _read(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        """Check a table as scikit-learn does and return it in a form that `encode` reads.

        Tables with column names (pandas, Arrow, anything narwhals knows) keep their columns and
        types; everything else becomes a two-dimensional NumPy array. scikit-learn's own refusals
        come back with a number.
        """
        if self.domain is not None and isinstance(X, list | tuple):
            # NumPy would choose one type for all cells, and one odd row would change the others.
            X = _objects(X)
        # scikit-learn's refusal of a missing y; otherwise y is read apart from the table.
        y_rule: dict[str, Any] = {"y": None} if reset and y is None else {}
        try:
            if _has_columns(X):
                _refuse_repeated_columns(X)
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
            raise Code.WRONG_SHAPE.error(found=str(error)) from error

    def _table(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        table = self._read(X, y, reset=reset)
        rows, columns = np.shape(table) if not hasattr(table, "shape") else table.shape
        if columns == 0 or rows == 0:
            missing = "feature" if columns == 0 else "sample"
            raise Code.EMPTY_TABLE.error(
                found=f"0 {missing}(s) (shape=({rows}, {columns})) while a minimum of 1 is required"
            )
        if self.domain is None and isinstance(table, np.ndarray) and table.dtype == object:
            table = _numbers_or_objects(table)
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
        y = _labels(y, len(table), declared=domain is not None)
        if domain is None:
            domain = Domain.suggest(table, y, quiet=True, **suggest)
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
        y = _numbers(y, len(table))
        if domain is None:
            domain = Domain.suggest(table, y, quiet=True, task="regression", **suggest)
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


def importances(tree: Tree, criterion: str) -> NDArray[np.float64]:
    """Normalised total impurity decrease per feature, as scikit-learn defines it.

    Returns
    -------
    NDArray[float64], shape (n_features,)
    """
    inner = tree.feature >= 0
    total: NDArray[np.float64] = np.bincount(
        tree.feature[inner],
        weights=impurity_decrease(tree, criterion)[inner],
        minlength=len(tree.domain.attributes),
    ).astype(np.float64)
    if total.sum() > 0:
        total /= total.sum()
    return total


def generator(random_state: Any) -> np.random.Generator:
    """Turn scikit-learn's `random_state` into a generator for choices that nothing secret needs."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def check_parameter(name: str, value: Any, ok: bool, expected: str) -> None:
    """Refuse a parameter with a numbered error."""
    if not ok:
        raise Code.BAD_PARAMETER.error(
            expected=f"{name} {expected}", found=f"{name}={value!r}", fix=f"correct {name}"
        )


def is_count(value: Any, least: int = 1) -> bool:
    """Whether `value` is a whole number of at least `least`."""
    return (
        isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
    )


def _has_columns(X: Any) -> bool:
    return hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__") or hasattr(X, "column_names")


def _refuse_repeated_columns(X: Any) -> None:
    # `columns` of an Arrow table are its arrays.
    names = list(X.column_names if hasattr(X, "column_names") else getattr(X, "columns", []))
    repeated = {str(name) for name in names if names.count(name) > 1}
    if repeated:
        raise Code.DUPLICATE_COLUMN.error(found=f"{', '.join(sorted(repeated))} more than once")


def _numbers_or_objects(table: NDArray[Any]) -> NDArray[Any]:
    """Numbers stored as objects become numbers; columns of text stay as they are."""
    try:
        return table.astype(np.float64)
    except TypeError as error:
        raise Code.WRONG_TYPE.error(found=str(error)) from error
    except ValueError:
        return table


def _objects(rows: Any) -> Any:
    """Keep the cells of a list of rows as they are; what is not a table stays for the refusal."""
    try:
        table = np.array(rows, dtype=object)
    except ValueError:
        return rows
    return table if table.ndim == 2 else rows


def _labels(y: Any, rows: int, *, declared: bool) -> NDArray[Any]:
    if declared and isinstance(y, list | tuple):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
        return _of_length(labels, rows)
    labels = _one_dimensional(y, rows)
    if declared:
        # The domain lists the classes; what other rows hold must not decide about this one.
        return labels
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise Code.BAD_TARGET.error(found=str(error)) from error
    return labels


def _numbers(y: Any, rows: int) -> NDArray[np.float64]:
    values = _one_dimensional(y, rows)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Code.BAD_TARGET.error(found=str(error)) from error


def _of_length(values: NDArray[Any], rows: int) -> NDArray[Any]:
    if len(values) != rows:
        raise Code.WRONG_SHAPE.error(found=f"{rows} rows and {len(values)} targets")
    return values


def _one_dimensional(y: Any, rows: int) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", DataConversionWarning)
            values: NDArray[Any] = column_or_1d(y, warn=True)
    except ValueError as error:
        raise Code.WRONG_SHAPE.error(found=str(error)) from error
    values = _of_length(values, rows)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Code.MISSING_VALUE.error(
            expected="a finite target in every row", found="NaN or infinity in the target"
        )
    return values
