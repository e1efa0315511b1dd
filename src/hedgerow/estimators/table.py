"""What every estimator shares: reading tables the scikit-learn way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.parameters import check_domain
from hedgerow.estimators.reading import (
    declared_columns,
    declared_target,
    has_columns,
    is_sequence,
    labels_of,
    numbers_of,
    numbers_or_objects,
    objects,
    plain_words,
    read_domain,
    refuse_repeated_columns,
    reordered,
)
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows, within_capacity
from hedgerow.tables.column import listed

_DENSE = (
    "leave one-hot encoding out, since a domain lists categories as they are; or pass "
    "sparse_threshold=0 to ColumnTransformer, sparse_output=False to OneHotEncoder"
)


class TableEstimator(BaseEstimator):
    """A scikit-learn estimator that reads tables under a domain."""

    domain: Domain | None
    domain_: Domain

    def _absorbed(self) -> AbsorbedRows | None:
        """Return where a fit counts rows that it absorbs, if it refuses none."""
        return None

    def _encode_declared(self, table: Any, y: Any, domain: Domain) -> Encoded:
        """Encode training rows under a declared domain."""
        absorbed = self._absorbed()
        encoded = encode(table, domain, declared_target(y, len(table)), absorbed=absorbed)
        if absorbed is None:
            return encoded
        return within_capacity(encoded, domain.capacity, absorbed)

    def _tagged(self, tags: Tags) -> Tags:
        """Change scikit-learn's tags; called after its mixins have set theirs."""
        return tags

    def _read(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        """Check a table as scikit-learn does and return it in a form that `encode` reads.

        Tables with column names (pandas, Arrow, anything narwhals knows) keep their columns and
        types; everything else becomes a two-dimensional NumPy array. scikit-learn's own refusals
        come back with a number.
        """
        check_domain(self.domain)
        if self.domain is not None:
            X = declared_columns(X, self.domain)
        if self.domain is not None and is_sequence(X) and not isinstance(X, np.ndarray):
            # NumPy would choose one type for all cells, and one odd row would change the others.
            absorbed = self._absorbed() if reset else None
            X = objects(X, len(self.domain.attributes), absorbed)
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
            sparse = "sparse" in str(error).lower()
            raise Code.WRONG_TYPE.error(
                expected="a dense table" if sparse else None,
                found=str(error),
                fix=_DENSE if sparse else None,
            ) from error
        except ValueError as error:
            raise self._refusal(X, y, error, reset=reset) from error

    def _refusal(self, X: Any, y: Any, error: ValueError, *, reset: bool) -> HedgerowError:
        """Give a refusal of scikit-learn a number, and say what helps."""
        words = plain_words(error)
        if "feature names" in words:
            names = getattr(self, "feature_names_in_", ())
            if reordered(X, names):
                return Code.MISSING_COLUMN.error(
                    expected=f"the columns in the order of fit: {listed(names)}",
                    found=f"the same columns in another order. {words}",
                    fix="pass X[model.feature_names_in_], or fit with a domain, under which the "
                    "columns of a table are found by name",
                )
            return Code.MISSING_COLUMN.error(
                expected=f"the columns of fit: {listed(names)}",
                found=words,
                fix="pass exactly these columns, under these names",
            )
        if reset and y is None:
            return Code.WRONG_SHAPE.error(
                expected="one target for every row", found=words, fix="pass y"
            )
        if isinstance(X, Mapping):
            return Code.WRONG_SHAPE.error(
                expected="a table",
                found="a dict of columns",
                fix="pass pandas.DataFrame(X) or pyarrow.table(X)",
            )
        if "features" in words:
            return Code.WRONG_SHAPE.error(
                expected="the columns of fit", found=words, fix="pass as many columns as in fit"
            )
        return Code.WRONG_SHAPE.error(
            expected="a two-dimensional table, rows of one length",
            found=words,
            fix="pass one row per record with a value for every column",
        )

    def _table(self, X: Any, y: Any = None, *, reset: bool) -> Any:
        table = self._read(X, y, reset=reset)
        rows, columns = np.shape(table) if not hasattr(table, "shape") else table.shape
        may_be_empty = reset and self._absorbed() is not None
        if columns == 0 or (rows == 0 and not may_be_empty):
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


class TableClassifier(ClassifierMixin, TableEstimator):
    """Reads class labels with the table."""

    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Tags:
        return self._tagged(super().__sklearn_tags__())

    def _encode_training(self, X: Any, y: Any, domain: Domain | None, **suggest: Any) -> Encoded:
        """Encode rows and labels; without a domain, read one from the data."""
        table = self._table(X, y, reset=True)
        if domain is not None:
            self._take_domain(domain)
            return self._encode_declared(table, y, domain)
        y = labels_of(y, len(table))
        domain = read_domain(table, y, task="classification", **suggest)
        self._take_domain(domain, np.unique(y))
        return encode(table, domain, y)

    def _take_domain(self, domain: Domain, classes: NDArray[Any] | None = None) -> None:
        """Set what follows from the domain; `classes` have the caller's type if given."""
        if domain.target is None or domain.target.classes is None:
            raise Code.BAD_TARGET.error(found="a domain without target classes")
        classes = np.asarray(domain.target.classes) if classes is None else classes
        self.classes_ = classes
        if len(classes) < 2:
            raise Code.ONE_CLASS.error(found=f"the single class {classes.tolist()[0]!r}")
        self.domain_ = domain


class TableRegressor(RegressorMixin, TableEstimator):
    """Reads numbers as the target with the table."""

    def __sklearn_tags__(self) -> Tags:
        return self._tagged(super().__sklearn_tags__())

    def _encode_training(self, X: Any, y: Any, domain: Domain | None, **suggest: Any) -> Encoded:
        table = self._table(X, y, reset=True)
        if domain is not None:
            self._take_domain(domain)
            return self._encode_declared(table, y, domain)
        y = numbers_of(y, len(table))
        domain = read_domain(table, y, task="regression", **suggest)
        self._take_domain(domain)
        return encode(table, domain, y)

    def _take_domain(self, domain: Domain) -> None:
        """Set what follows from the domain."""
        if domain.target is None or domain.target.bounds is None:
            raise Code.BAD_TARGET.error(found="a domain without target bounds")
        self.domain_ = domain
