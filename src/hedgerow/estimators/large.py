"""Tables that are larger than memory, as `fit` takes them: `Batches` and Dask collections."""

from __future__ import annotations

import sys
from typing import Any

from hedgerow.errors import Code
from hedgerow.tables import Batches, Domain
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees.counts.batches import BatchCounts, MakeBatch
from hedgerow.trees.counts.boosting import BoostCounts, LocalBoostCounts
from hedgerow.trees.counts.dask import DaskBoostCounts, DaskCounts
from hedgerow.trees.counts.forest import ForestCounts
from hedgerow.trees.counts.spill import Spill


def is_large(X: Any) -> bool:
    """Whether a table comes in pieces."""
    return isinstance(X, Batches) or _is_dask(X)


def _is_dask(X: Any) -> bool:
    # Whoever has a Dask collection has imported Dask; another thread may be doing so just now.
    asks = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    # The type first: a fit that is refused must not have read anything of the rows.
    return asks is not None and hasattr(type(X), "__dask_graph__") and bool(asks(X))


def has_names(X: Any) -> bool:
    """Whether the columns of a large table have names."""
    return isinstance(X, Batches) or hasattr(X, "columns")


def counts_over(
    X: Any, y: Any, domain: Domain, make: MakeBatch, absorbed: AbsorbedRows | None = None
) -> ForestCounts:
    """Return where the rows of a large table are, for a forest: each level is a pass or two.

    Parameters
    ----------
    X : Batches, dask DataFrame or dask Array
    y : str, dask Series or dask Array, optional
        Name of the target's column, by default the domain's; or the target, cut like `X`.
    domain : Domain
    make : callable
        From encoded rows and a number to a batch.
    absorbed : AbsorbedRows, optional
        As for `hedgerow.tables.encode`; the first records up to the capacity are kept.

    Raises
    ------
    HedgerowError
        H117 for batches of another domain, H109 for a target in memory beside a table that is not.
    """
    if not isinstance(X, Batches):
        return DaskCounts(X, _target_of(X, y, domain), domain, make, absorbed)
    _check_batches(X, y, domain)
    if absorbed is not None:
        X.absorb(absorbed, domain.capacity)
    return BatchCounts(X, make)


def boost_counts_over(
    X: Any, y: Any, domain: Domain, make: MakeBatch, absorbed: AbsorbedRows | None = None
) -> BoostCounts:
    """Return where the rows of a large table are, for boosting: hundreds of passes.

    So `Batches` are read once. What of their encoded rows and scores is more than their
    ``cache_bytes`` goes to a temporary file, of which each round reads the columns that it needs.

    Parameters
    ----------
    X, y, domain, make, absorbed
        As for `counts_over`.

    Raises
    ------
    HedgerowError
        As `counts_over`; what reading the batches raises; H869 without room on the disk.
    """
    if not isinstance(X, Batches):
        return DaskBoostCounts(X, _target_of(X, y, domain), domain, make, absorbed)
    _check_batches(X, y, domain)
    if absorbed is not None:
        X.absorb(absorbed, domain.capacity)
    spill = Spill(X.cache_bytes)
    batches = X.each(lambda number, encoded: make(encoded, number))
    return LocalBoostCounts([spill.put_batch(batch) for batch in batches], spill)


def _target_of(X: Any, y: Any, domain: Domain) -> Any:
    assert domain.target is not None
    return domain.target.name if y is None and has_names(X) else y


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
