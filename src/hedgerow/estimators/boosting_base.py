"""What both boosting estimators of one curator share: parameters, plan and training."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import warn_caller
from hedgerow.estimators.account import Account
from hedgerow.estimators.curated import CuratedEstimator
from hedgerow.estimators.large import boost_counts_over
from hedgerow.estimators.parameters import (
    check_domain,
    check_epsilon,
    check_parameter,
    domain_to_plan,
    is_count,
)
from hedgerow.estimators.public_model import normalised
from hedgerow.protocols.boosting.plan import MOST_ROUNDS, BoostPlan, plan_boosting
from hedgerow.protocols.boosting.rounds import Tell, boost
from hedgerow.tables import Domain
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.boosting import BoostCounts, LocalBoostCounts
from hedgerow.trees.counts.forest import Batch


class DPBoostingEstimator(CuratedEstimator[BoostPlan, BoostCounts]):
    """Functions of private boosting in ``boosted_``, for either task."""

    _model_name = "boosted_"
    _large_table = "a table that is not read whole"

    boosted_: Boosted
    # Told after every round, for the command line.
    _tell: Tell | None = None

    def __init__(
        self,
        epsilon: float = 1.0,
        domain: Domain | None = None,
        *,
        delta: float = 1e-6,
        n_estimators: int | str = "auto",
        max_leaves: int | str = "auto",
        learning_rate: float | str = "auto",
        subsample: float = 1.0,
        public_seed: int = 0,
        account: Account | str | None = None,
        bad_rows: str = "auto",
        random_state: int | None = None,
        insecure_domain_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.delta = delta
        self.n_estimators = n_estimators
        self.max_leaves = max_leaves
        self.learning_rate = learning_rate
        self.subsample = subsample
        self.public_seed = public_seed
        self.account = account
        self.bad_rows = bad_rows
        self.random_state = random_state
        self.insecure_domain_from_data = insecure_domain_from_data

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        if self.domain is not None:
            self._warn_of_delta(self.domain)
        with self._fitting(float(self.delta)) as ledger:
            counts, self.plan_, source = self._rows(ledger, X, y)
            self.boosted_ = boost(
                counts,
                self.plan_,
                ledger=ledger,
                source=source,
                capacity=None if self.domain is None else self.plan_.domain.capacity,
                tell=self._tell or (lambda done, of: None),
            )
        return self

    def _counts_of(self, batch: Batch) -> BoostCounts:
        return LocalBoostCounts([batch])

    def _counts_over(
        self, X: Any, y: Any, domain: Domain, make: MakeBatch, absorbed: AbsorbedRows | None
    ) -> BoostCounts:
        return boost_counts_over(X, y, domain, make, absorbed)

    def plan(self, domain: Domain | None = None) -> BoostPlan:
        """Return what a fit would do and charge: it follows from public numbers alone.

        Parameters
        ----------
        domain : Domain, optional
            Public; not the data. The estimator's own if not given.
        """
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        self._warn_of_delta(public)
        return self._plan(public, public.capacity)

    def _warn_of_delta(self, domain: Domain) -> None:
        """Warn of a delta that a mechanism can keep which publishes somebody's row."""
        # The capacity, not the number of rows: whether there is a warning must not tell that one.
        most = domain.capacity
        if most is None or not 1 <= self.delta * most < most / 2:
            return
        warn_caller(
            f"delta={self.delta:g} is not below 1 / capacity = {1 / most:.2g}: such a delta allows "
            "a release that exposes one of the people entirely. Choose a delta far below, such as "
            f"{_below(most):.0e}",
        )

    def _plan(self, domain: Domain, capacity: int | None) -> BoostPlan:
        def given(value: Any) -> Any:
            return None if isinstance(value, str) else value

        return plan_boosting(
            domain,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            rounds=given(self.n_estimators),
            leaves=given(self.max_leaves),
            rate=given(self.learning_rate),
            sample_rate=float(self.subsample),
            public_seed=int(self.public_seed),
            capacity=capacity,
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How far each attribute moves the score, from the released functions alone, (d,).

        The standard deviation of its functions over their leaves; those of two attributes count
        half for each. Normalised.
        """
        check_is_fitted(self, "boosted_")
        total = np.zeros(len(self.domain_.attributes))
        for tree in self.boosted_.trees:
            features = np.unique(tree.feature[tree.feature >= 0])
            if features.size:
                total[features] += float(np.std(tree.value[tree.leaves])) / features.size
        return normalised(total)

    def _check_parameters(self) -> None:
        check_domain(self.domain)
        check_epsilon(self.epsilon)
        for name, least, most in (("n_estimators", 1, MOST_ROUNDS), ("max_leaves", 2, 256)):
            value = getattr(self, name)
            auto = isinstance(value, str) and value == "auto"
            check_parameter(
                name,
                value,
                auto or (is_count(value, least) and value <= most),
                f"must be 'auto' or a whole number from {least} to {most:,}",
            )
        for name, low, high, closed in (
            ("delta", 0, 0.5, False),
            ("subsample", 0, 1, True),
            ("learning_rate", 0, 1, True),
        ):
            value = getattr(self, name)
            auto = name == "learning_rate" and isinstance(value, str) and value == "auto"
            inside = (
                isinstance(value, numbers.Real)
                and not isinstance(value, bool)
                and (low < float(value) < high or (closed and value == high))
            )
            allowed = f"must lie strictly between {low} and {high}"
            if closed:
                allowed = f"must be above {low} and at most {high}"
            check_parameter(name, value, auto or inside, allowed)
        check_parameter(
            "public_seed",
            self.public_seed,
            is_count(self.public_seed, 0),
            "must be a whole number of at least 0",
        )


def _below(capacity: int) -> float:
    """Return the power of ten at or below a hundredth of 1 / capacity."""
    return float(10.0 ** -len(str(100 * capacity - 1)))
