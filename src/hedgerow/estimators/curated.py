"""What models of one curator's table share: a plan, then rows in memory or in pieces."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from hedgerow.errors import Code
from hedgerow.estimators.accounted import HasReleases, PlannedEstimator
from hedgerow.estimators.large import has_names, is_large
from hedgerow.estimators.parameters import warn_of_domain_from_data
from hedgerow.estimators.public_model import ReleasedModelEstimator
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.tables import Domain, Encoded
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.forest import Batch


class CountingPlan(HasReleases, Protocol):
    """A plan that says how rows are counted."""

    def batch(self, encoded: Encoded, number: int = 0) -> Batch:
        """Return encoded rows as they are counted."""


Plan = TypeVar("Plan", bound=CountingPlan)
Counts = TypeVar("Counts")


class CuratedEstimator(PlannedEstimator[Plan], ReleasedModelEstimator, Generic[Plan, Counts]):
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
