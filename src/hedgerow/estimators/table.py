"""What every estimator shares: reading tables and targets the scikit-learn way.

With a declared domain nothing is decided for all rows at once: what one row is read as must not
depend on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.parameters import check_domain
from hedgerow.reports.estimator import facts_of_estimator
from hedgerow.reports.page import write_report
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.column import name_list

_SHOWN_ROWS = 3
_DENSE = (
    "leave one-hot encoding out, since a domain lists categories as they are; or pass "
    "sparse_threshold=0 to ColumnTransformer, sparse_output=False to OneHotEncoder"
)


class TableEstimator(BaseEstimator):
    """A scikit-learn estimator that reads tables under a domain."""

    domain: Domain | None
    domain_: Domain

    def report(self, path: str | Path, *, force: bool = False) -> Path:
        """Write one HTML page about the fitted model, for people; return where.

        It says who may learn what, draws what may be seen of the model, and has ledger, openings
        and costs where the fit has kept them, and a model card. It needs no other file and no
        network. H902 for a file that is there, unless `force` lets it be replaced.
        """
        check_is_fitted(self)
        return write_report(facts_of_estimator(self), Path(path), force=force)

    def _absorbed(self) -> AbsorbedRows | None:
        """Return where a fit counts rows that it absorbs, if it refuses none."""
        return None

    def _encode_declared(self, table: Any, y: Any, domain: Domain) -> Encoded:
        """Encode training rows under a declared domain."""
        absorbed = self._absorbed()
        target = None if domain.target is None else declared_target(y, len(table))
        encoded = encode(table, domain, target, absorbed=absorbed)
        if absorbed is None:
            return encoded
        return encoded.within_capacity(domain.capacity, absorbed)

    def _tagged(self, tags: Tags) -> Tags:
        """Change scikit-learn's tags; called after its mixins have set theirs."""
        return tags

    def _read(
        self, X: Any, y: Any = None, *, reset: bool, absorbed: AbsorbedRows | None = None
    ) -> Any:
        """Check a table as scikit-learn does and return it in a form that `encode` reads.

        Tables with column names (pandas, Arrow, anything narwhals knows) keep their columns and
        types; everything else becomes a two-dimensional NumPy array. Refusals get a number.
        """
        check_domain(self.domain)
        if self.domain is not None:
            X = declared_columns(X, self.domain)
        if self.domain is not None and is_sequence(X) and not isinstance(X, np.ndarray):
            # NumPy would choose one type for all cells, and one odd row would change the others.
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
            if is_reordered(X, names):
                return Code.MISSING_COLUMN.error(
                    expected=f"the columns in the order of fit: {name_list(names)}",
                    found=f"the same columns in another order. {words}",
                    fix="pass X[model.feature_names_in_], or fit with a domain, under which the "
                    "columns of a table are found by name",
                )
            return Code.MISSING_COLUMN.error(
                expected=f"the columns of fit: {name_list(names)}",
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

    def _table(
        self, X: Any, y: Any = None, *, reset: bool, absorbed: AbsorbedRows | None = None
    ) -> Any:
        """Read a table; one to fit on absorbs rows where the fit does."""
        absorbed = self._absorbed() if reset else absorbed
        table = self._read(X, y, reset=reset, absorbed=absorbed)
        rows, columns = np.shape(table) if not hasattr(table, "shape") else table.shape
        if columns == 0 or (rows == 0 and absorbed is None):
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


def has_columns(X: Any) -> bool:
    """Whether a table has columns of its own, with or without names."""
    return hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__") or hasattr(X, "column_names")


def refuse_repeated_columns(X: Any) -> None:
    """Raise H106 if two columns of a table have one name."""
    # `columns` of an Arrow table are its arrays.
    names = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", [])
    repeated = [str(name) for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise Code.DUPLICATE_COLUMN.error(found=f"{', '.join(sorted(repeated))} more than once")


def declared_columns(X: Any, domain: Domain) -> Any:
    """Put the named columns of a declared domain into its order; others are left out.

    Rows without names are in that order too, so that it is ``feature_names_in_`` of both.
    """
    names = list(domain.names)
    if hasattr(X, "column_names"):
        known = list(X.column_names)
        return X.select(names) if known != names and _holds(known, names) else X
    columns = getattr(X, "columns", None)
    if columns is not None and hasattr(X, "loc"):
        known = list(columns)
        return X[names] if known != names and _holds(known, names) else X
    return X


def _holds(known: list[Any], names: list[str]) -> bool:
    """Whether all names are there, once each; repeated columns are refused elsewhere."""
    return all(known.count(name) == 1 for name in names)


def read_domain(
    table: Any, y: Any, *, missing: Any = "error", unseen: Any = "error", **suggest: Any
) -> Domain:
    """Read a domain from the data of an estimator that makes no claim of privacy.

    Every attribute has a bin for missing values if they are to have one, and with ``unseen="clip"``
    categories that no row has share a bin.
    """
    domain = Domain.suggest(table, y, quiet=True, missing=missing, **suggest)
    attributes = tuple(
        a.model_copy(
            update={"missing": missing, "outside": "clip" if a.kind == "numeric" else unseen}
        )
        for a in domain.attributes
    )
    return domain.model_copy(update={"attributes": attributes})


def plain_words(error: Exception) -> str:
    """Return what scikit-learn says in one line, without the values that it quotes."""
    text = str(error)
    quoted = text.find("array=")
    if quoted >= 0:
        # Rows are nobody's business but their owner's, and would fill the screen.
        advice = text.find("Reshape your data", quoted)
        text = text[:quoted] + (text[advice:] if advice >= 0 else "")
    return " ".join(text.split())


def is_reordered(X: Any, names: Any) -> bool:
    """Whether a table has exactly these columns, in another order."""
    found = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", ())
    return list(found) != list(names) and sorted(map(str, found)) == sorted(map(str, names))


def numbers_or_objects(table: NDArray[Any]) -> NDArray[Any]:
    """Numbers stored as objects become numbers; columns of text stay as they are."""
    try:
        return table.astype(np.float64)
    except TypeError as error:
        raise Code.WRONG_TYPE.error(found=str(error)) from error
    except ValueError:
        return table


def objects(rows: Sequence[Any], width: int, absorbed: AbsorbedRows | None) -> Any:
    """Keep the cells of a list of rows as they are; what is not a table stays for the refusal.

    Where rows are absorbed, one of another length than `width` is cut, or filled with None.
    """
    if absorbed is None:
        if not rows or not all(map(is_sequence, rows)):
            return rows
        found = [_row_cells(row, None) for row in rows]
        width = len(found[0])
        if any(len(row) != width for row in found):
            return rows
    else:
        found = []
        for row in rows:
            try:
                cells = _row_cells(row, width + 1) if is_sequence(row) else ()
            except Exception:
                # Methods of anybody's class: whatever they raise, this one row cannot be read.
                cells = ()
            found.append(cells)
        absorbed.count_rows(broken=sum(len(row) != width for row in found))
        found = [row if len(row) == width else [*row, *[None] * width][:width] for row in found]
    table = np.fromiter(chain.from_iterable(found), dtype=object, count=len(found) * width)
    return table.reshape(len(found), width)


def is_sequence(values: Any) -> bool:
    """Whether something is a sequence of values, each of a type of its own or not."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _row_cells(row: Any, most: int | None) -> Any:
    """Return the cells of one row, some of them at least where there are more than `most`."""
    # What another class says of its length, and gives, need not agree.
    return row if type(row) in (list, tuple, np.ndarray) else list(islice(iter(row), most))


def declared_target(y: Any, rows: int) -> Any:
    """Return a target (rows,) with every value as it came: the domain says what it is.

    What other rows hold must not decide about one; so nothing is converted here.
    """
    if is_sequence(y) and not isinstance(y, np.ndarray):
        values = np.fromiter(y, dtype=object, count=len(y))
        if len(y) != rows and any(map(is_sequence, y)):
            raise Code.WRONG_SHAPE.error(
                expected="one target per row, in one dimension",
                found="a list of lists",
                fix="pass one column as y",
            )
        return _of_length(values, rows)
    own_type = isinstance(y, pa.Array | pa.ChunkedArray | np.ma.MaskedArray)
    if own_type or (hasattr(y, "__len__") and not isinstance(y, np.ndarray) and _is_column(y)):
        return _of_length(y, rows)
    return _of_length(_flat(y), rows)


def _is_column(y: Any) -> bool:
    """Whether values of another library are one column, which `Column` takes from it."""
    if hasattr(y, "ndim"):
        return bool(y.ndim == 1)
    return hasattr(y, "__arrow_c_stream__") and not hasattr(y, "columns")


def labels_of(y: Any, rows: int) -> NDArray[Any]:
    """Return class labels (rows,) where no domain lists the classes."""
    labels = _one_dimensional(y, rows)
    if labels.dtype == object:
        missing = np.array([label is None or label != label for label in labels], dtype=np.bool_)
        if missing.any():
            raise Code.MISSING_VALUE.error(
                expected="a class in every row",
                found=f"none in {_rows_text(missing)}",
                fix="drop the rows without a class",
            )
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise Code.BAD_TARGET.error(
            expected="class labels",
            found=str(error),
            fix="cut the target into classes, or use an estimator for regression",
        ) from error
    return labels


def numbers_of(y: Any, rows: int) -> NDArray[np.float64]:
    """Return the target of a regression (rows,) where no domain has its bounds."""
    values = _one_dimensional(y, rows)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Code.BAD_TARGET.error(found=str(error)) from error


def _of_length(values: Any, rows: int) -> Any:
    if len(values) != rows:
        raise Code.WRONG_SHAPE.error(
            expected="one target for every row", found=f"{rows} rows and {len(values)} targets"
        )
    return values


def _flat(y: Any) -> NDArray[Any]:
    try:
        values: NDArray[Any] = column_or_1d(y, warn=True)
    except ValueError as error:
        raise Code.WRONG_SHAPE.error(
            expected="one target per row, in one dimension",
            found=str(error),
            fix="pass one column as y",
        ) from error
    return values


def _one_dimensional(y: Any, rows: int) -> NDArray[Any]:
    values: NDArray[Any] = _of_length(_flat(y), rows)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Code.MISSING_VALUE.error(
            expected="a finite target in every row",
            found=f"NaN or infinity in the target: {_rows_text(~np.isfinite(values))}",
            fix="drop the rows without a target",
        )
    return values


def _rows_text(mask: NDArray[np.bool_]) -> str:
    rows = np.flatnonzero(mask)
    first = ", ".join(f"row {row}" for row in rows[:_SHOWN_ROWS].tolist())
    many = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    return f"{many} ({first}{', ...' if len(rows) > _SHOWN_ROWS else ''}; rows counted from 0)"
