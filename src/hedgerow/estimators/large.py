"""Tables that are larger than memory, as `fit` takes them: `Batches` and Dask collections."""

from __future__ import annotations

import sys
from typing import Any

from hedgerow.errors import Code
from hedgerow.tables import Batches, Domain
from hedgerow.trees.batch_counts import BatchCounts, MakeBatch
from hedgerow.trees.dask_counts import DaskCounts
from hedgerow.trees.forest_counts import ForestCounts


def is_large(X: Any) -> bool:
    """Whether a table is one that is counted in pieces and never held whole."""
    return isinstance(X, Batches) or _is_dask(X)


def _is_dask(X: Any) -> bool:
    # Whoever has a Dask collection has imported Dask.
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X))


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
    return BatchCounts(X, make)
