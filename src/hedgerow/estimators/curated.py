"""What models of one curator's table share: a plan, then rows in memory or in pieces."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from hedgerow.errors import Code
from hedgerow.estimators.accounted import PlannedEstimator
from hedgerow.estimators.parameters import warn_of_domain_from_data
from hedgerow.estimators.public_model import PublicModelEstimator
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.contract import Plan
from hedgerow.tables import Batches, Domain, Encoded
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.forest import Batch


class CountingPlan(Plan, Protocol):
    """A plan that says how rows are counted."""

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Return encoded rows as they are counted."""


Counted = TypeVar("Counted", bound=CountingPlan)
Counts = TypeVar("Counts")


class CuratedEstimator(PlannedEstimator[Counted], PublicModelEstimator, Generic[Counted, Counts]):
    """A private estimator that counts over rows in memory, or over a table that comes in pieces."""

    # Counts over a Dask collection: of it, its target, the domain, how batches are made, and where
    # absorbed rows are counted.
    _dask_counts: ClassVar[Callable[..., Any]]

    plan_: Counted
    # Told after every round, for the command line.
    _tell: Callable[[int, int], None] | None = None

    @abstractmethod
    def _counts_of(self, batch: Batch) -> Counts:
        """Return the counts over rows in memory."""

    @abstractmethod
    def _counts_over(self, batches: Batches, make: MakeBatch) -> Counts:
        """Return the counts over a table that is not read whole."""

    def _capacity_for(self, rows: int) -> int:
        """Return the capacity where no domain was declared: nothing is claimed then."""
        return rows

    def _read_rows(self, ledger: Ledger, X: Any, y: Any) -> tuple[Counts, Counted, NoiseSource]:
        """Read the table of a fit, after all that must not depend on it was refused."""
        self._check_before_rows(ledger, lambda domain: self._plan(domain, domain.capacity))
        source = self._source()
        counts, plan = self._read_pieces(X, y) if is_large(X) else self._read_whole(X, y)
        return counts, plan, source

    def _read_whole(self, X: Any, y: Any) -> tuple[Counts, Counted]:
        if self.domain is None:
            warn_of_domain_from_data()
        encoded = self._encode_training(
            X, y, self.domain, max_bins=64, spacing="uniform", missing="error"
        )
        capacity = encoded.domain.capacity
        if self.domain is None:
            capacity = self._capacity_for(len(encoded.bins))
        plan = self._plan(encoded.domain, capacity)
        return self._counts_of(plan.batch(encoded)), plan

    def _read_pieces(self, X: Any, y: Any) -> tuple[Counts, Counted]:
        """Find the rows of `Batches` or of a Dask collection, with a target cut like it.

        Of absorbed rows the first records up to the capacity are kept. H117 for batches of another
        domain, H109 for a target in memory beside a table that is not.
        """
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(
                found="domain=None, and a table that is not read whole",
                fix="declare a Domain; Domain.suggest can draft one from some of the rows",
            )
        self._take_domain(self.domain)
        plan, absorbed = self._plan(self.domain, self.domain.capacity), self._absorbed()
        named = isinstance(X, Batches) or hasattr(X, "columns")
        if isinstance(X, Batches):
            _check_batches(X, y, self.domain)
            if absorbed is not None:
                X.absorb(absorbed, self.domain.capacity)
            counts = self._counts_over(X, plan.batch)
        else:
            if y is None and named and self.domain.target is not None:
                y = self.domain.target.name
            counts = type(self)._dask_counts(X, y, self.domain, plan.batch, absorbed)
        self.n_features_in_ = len(self.domain.attributes)
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.array(self.domain.names, dtype=object)
        return counts, plan


def is_large(X: Any) -> bool:
    """Whether a table comes in pieces: `Batches`, or a Dask collection."""
    if isinstance(X, Batches):
        return True
    # Whoever has a Dask collection has imported Dask; another thread may be doing so just now.
    asks = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    # The type first: a fit that is refused must not have read anything of the rows.
    return asks is not None and hasattr(type(X), "__dask_graph__") and bool(asks(X))


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
