"""What models of one curator's table share: a plan, then rows in memory or in pieces."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from hedgerow.errors import Code
from hedgerow.estimators.accounted import AccountedEstimator, HasReleases
from hedgerow.estimators.parameters import check_domain, domain_to_plan, warn_of_domain_from_data
from hedgerow.estimators.public_model import PublicModelEstimator
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.contract import Options
from hedgerow.tables import Batches, Domain, Encoded
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees.counts.batches import BatchCounts, MakeBatch
from hedgerow.trees.counts.boosting import BoostCounts, LocalBoostCounts
from hedgerow.trees.counts.dask import DaskBoostCounts, DaskCounts
from hedgerow.trees.counts.forest import Batch, ForestCounts
from hedgerow.trees.counts.spill import Spill

AnyPlan = TypeVar("AnyPlan", bound=HasReleases)


class PlannedEstimator(AccountedEstimator, Generic[AnyPlan]):
    """A private estimator of one table, whose fit follows a plan of public numbers."""

    # Declares the parameters that a plan follows from, and checks them.
    _options_type: ClassVar[type[Options]]

    def _options(self) -> Options:
        return self._options_type.from_parameters(self.get_params(deep=False))

    def _check_parameters(self) -> None:
        """Refuse parameters out of range."""
        check_domain(self.domain)
        self._options()

    def _plan(self, domain: Domain, capacity: int | None) -> AnyPlan:
        """Return the plan of a fit, from public numbers alone."""
        plan: Any = self._options().plan(domain, capacity)
        return plan  # type: ignore[no-any-return]

    def plan(self, domain: Domain | None = None) -> AnyPlan:
        """Return what a fit would do and charge: it follows from public numbers alone.

        Parameters
        ----------
        domain : Domain, optional
            Public; not the data. The estimator's own if not given.
        """
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        return self._plan(public, public.capacity)


class CountingPlan(HasReleases, Protocol):
    """A plan that says how rows are counted."""

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Return encoded rows as they are counted."""


Plan = TypeVar("Plan", bound=CountingPlan)
Counts = TypeVar("Counts")


class CuratedEstimator(PlannedEstimator[Plan], PublicModelEstimator, Generic[Plan, Counts]):
    """A private estimator that counts over rows in memory, or over a table that is large.

    A subclass says where batches are counted, and its `fit` calls a method which calls `_rows`:
    warnings are counted back from there to the line that called `fit`.
    """

    # What a large table is called where no domain was declared for it.
    _large_table: ClassVar[str]

    plan_: Plan
    privacy_: Ledger

    @abstractmethod
    def _counts_of(self, batch: Batch) -> Counts:
        """Return the counts over rows in memory."""

    @abstractmethod
    def _counts_over(
        self, X: Any, y: Any, domain: Domain, make: MakeBatch, absorbed: AbsorbedRows | None
    ) -> Counts:
        """Return the counts over a large table."""

    def _capacity_for(self, rows: int) -> int:
        """Return the capacity where no domain was declared: nothing is claimed then."""
        return rows

    def _rows(self, ledger: Ledger, X: Any, y: Any) -> tuple[Counts, Plan, NoiseSource]:
        """Read the table of a fit, after all that must not depend on it was refused."""
        self._check_before_rows(ledger, lambda domain: self._plan(domain, domain.capacity))
        source = self._source()
        counts, plan = self._large(X, y) if is_large(X) else self._in_memory(X, y)
        return counts, plan, source

    def _in_memory(self, X: Any, y: Any) -> tuple[Counts, Plan]:
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

    def _large(self, X: Any, y: Any) -> tuple[Counts, Plan]:
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(
                found=f"domain=None, and {self._large_table}",
                fix="declare a Domain; Domain.suggest can draft one from some of the rows",
            )
        self._take_domain(self.domain)
        plan = self._plan(self.domain, self.domain.capacity)
        counts = self._counts_over(X, y, self.domain, plan.batch, self._absorbed())
        self.n_features_in_ = len(self.domain.attributes)
        self.__dict__.pop("feature_names_in_", None)
        if has_names(X):
            self.feature_names_in_ = np.array(self.domain.names, dtype=object)
        return counts, plan


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


def forest_counts_over(
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
        As for `forest_counts_over`.

    Raises
    ------
    HedgerowError
        As `forest_counts_over`; what reading the batches raises; H869 without room on the disk.
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
