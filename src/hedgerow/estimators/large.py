"""Tables that are larger than memory, as `fit` takes them: `Batches` and Dask collections."""

from __future__ import annotations

import sys
from typing import Any

from hedgerow.errors import Code
from hedgerow.tables import Batches, Domain
from hedgerow.trees.batch_counts import BatchCounts, MakeBatch
from hedgerow.trees.boost_counts import LocalBoostCounts
from hedgerow.trees.dask_counts import DaskCounts
from hedgerow.trees.forest_counts import ForestCounts


def is_large(X: Any) -> bool:
    """Whether a table comes in pieces."""
    return isinstance(X, Batches) or _is_dask(X)


def _is_dask(X: Any) -> bool:
    # Whoever has a Dask collection has imported Dask; another thread may be doing so just now.
    asks = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    return asks is not None and bool(asks(X))


def has_names(X: Any) -> bool:
    """Whether the columns of a large table have names."""
    return isinstance(X, Batches) or hasattr(X, "columns")


def counts_over(X: Any, y: Any, domain: Domain, make: MakeBatch) -> ForestCounts:
    """Return where the rows of a large table are.

    Parameters
    ----------
    X : Batches, dask DataFrame or dask Array
    y : str, dask Series or dask Array, optional
        Name of the target's column, by default the domain's; or the target, cut like `X`.
    domain : Domain
    make : callable
        From encoded rows and a number to a batch.

    Raises
    ------
    HedgerowError
        H117 for batches of another domain, H109 for a target in memory beside a table that is not.
    """
    assert domain.target is not None
    if not isinstance(X, Batches):
        return DaskCounts(X, domain.target.name if y is None and has_names(X) else y, domain, make)
    _check_batches(X, y, domain)
    return BatchCounts(X, make)


def boost_counts_over(X: Any, y: Any, domain: Domain, make: MakeBatch) -> LocalBoostCounts:
    """Return the rows of `Batches`, encoded and all in memory: every round asks for all of them.

    Parameters
    ----------
    X, y, domain, make
        As for `counts_over`.

    Raises
    ------
    HedgerowError
        H109 for Dask, H117 for batches of another domain, H109 for a target beside them, and what
        reading the batches raises.
    """
    if not isinstance(X, Batches):
        raise Code.WRONG_TYPE.error(
            expected="a table in memory, or Batches: boosting does not run on Dask",
            found=f"a Dask {type(X).__name__}",
            fix="write it to Parquet and pass Batches(path, domain), or fit a median forest",
        )
    _check_batches(X, y, domain)
    return LocalBoostCounts(list(X.each(lambda number, encoded: make(encoded, number))))


def _check_batches(X: Batches, y: Any, domain: Domain) -> None:
    if X.domain is not domain and X.domain != domain:
        raise Code.BAD_DOMAIN.error(
            expected="batches of the estimator's domain",
            found="another domain",
            fix="pass the same domain to both, domain=batches.domain",
        )
    if y is not None and (not isinstance(y, str) or y != X.target):
        raise Code.WRONG_TYPE.error(
            expected=f"no y, or the target's name {X.target!r}: batches have the target in them",
            found=repr(y) if isinstance(y, str) else f"y of type {type(y).__name__}",
            fix="call fit(batches)",
        )
