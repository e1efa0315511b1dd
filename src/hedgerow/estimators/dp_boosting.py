"""`DPBoostingClassifier`, `DPBoostingRegressor`: one curator, boosting that may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import warn_caller
from hedgerow.estimators.curated import CuratedEstimator
from hedgerow.estimators.parameters import domain_to_plan
from hedgerow.estimators.public_model import PublicModelClassifier, PublicModelRegressor
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.boosting.plan import BoostPlan
from hedgerow.protocols.boosting.rounds import boost
from hedgerow.tables import Batches, Domain
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.boosting import BoostCounts, LocalBoostCounts
from hedgerow.trees.counts.dask import DaskBoostCounts
from hedgerow.trees.counts.forest import Batch
from hedgerow.trees.counts.spill import Spill
from hedgerow.trees.importance import importances


@dataclass(kw_only=True, eq=False, repr=False)
class _Boosting(CuratedEstimator[BoostPlan, BoostCounts]):
    """Functions of private boosting in ``boosted_``, for either task.

    Parameters
    ----------
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
        Skewed numbers do well on a grid of their own: declare its ``edges``.
    delta
        Choose it far below 1 / number of people. From 1 / capacity on there is a warning.
    subsample
        Fewer records cost less, but not as much less as they tell less: 1 was best wherever
        measured.
    """

    _options_type = BoostOptions
    _model_name = "boosted_"
    _dask_counts = DaskBoostCounts

    delta: float = 1e-6
    n_estimators: int | str = "auto"
    max_leaves: int | str = "auto"
    learning_rate: float | str = "auto"
    subsample: float = 1.0
    public_seed: int = 0

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon`` at ``delta``.

        One that is not read whole is `Batches`, without `y`, or a Dask collection, of which `y` may
        be the name of a column.

        Reveals: noisy marginals and noisy sums of gradients or residuals, to the public.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        if self.domain is not None:
            self._warn_of_delta(self.domain)
        with self._fitting(float(self.delta)) as ledger:
            counts, self.plan_, source = self._read_rows(ledger, X, y)
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

    def _counts_over(self, batches: Batches, make: MakeBatch) -> BoostCounts:
        # Hundreds of passes, so that batches are read once. What of their encoded rows and scores
        # is more than their cache_bytes goes to a temporary file, of which each round reads the
        # columns that it needs; H869 without room on the disk.
        spill = Spill(batches.cache_bytes)
        made = batches.each(lambda number, encoded: make(encoded, number))
        return LocalBoostCounts([spill.put_batch(batch) for batch in made], spill)

    def plan(self, domain: Domain | None = None) -> BoostPlan:
        """Return what a fit would do and charge, from a public domain, by default its own."""
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
        # The power of ten at or below a hundredth of 1 / capacity.
        advised = 10.0 ** -len(str(100 * most - 1))
        warn_caller(
            f"delta={self.delta:g} is not below 1 / capacity = {1 / most:.2g}: such a delta allows "
            "a release that exposes one of the people entirely. Choose a delta far below, such as "
            f"{advised:.0e}",
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How far each attribute moves the score, from the released functions alone, (d,).

        The standard deviation of its functions over their leaves; those of two attributes count
        half for each. Normalised.
        """
        check_is_fitted(self, "boosted_")
        return importances(self.boosted_).shares


class DPBoostingClassifier(PublicModelClassifier, _Boosting):
    """Differentially private gradient boosting for classification.

    Noisy histograms of the attributes, released once, say where cuts are worth while; then every
    round sums up the clipped gradients of the records in a few leaves, with noise, and takes a
    damped step. What comes out is one public function per attribute, and at large epsilon per pair
    of attributes, whose sum is the log-odds. ``privacy_`` lists every release. Neighbours are
    tables that differ by one added or removed row, so one person has to be one row.

    Attributes
    ----------
    boosted_ : Boosted
        The released functions, as trees.
    plan_ : BoostPlan
        What was public beforehand.
    privacy_, classes_, domain_, feature_importances_, n_features_in_, feature_names_in_
        As in `DPTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPBoostingClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=1000,
    ... )
    >>> rows, ill = [[age / 10] for age in range(1000)], [int(age > 600) for age in range(1000)]
    >>> model = DPBoostingClassifier(epsilon=2.0, domain=domain).fit(rows, ill)
    >>> model.privacy_.total("public").epsilon <= 2.0
    True
    """

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the raw score: log-odds of the second of two classes, or one column per class."""
        query = self._encode_query(X)
        raw = self.boosted_.raw(query.bins)
        return raw[:, 0] if raw.shape[1] == 1 else raw


class DPBoostingRegressor(PublicModelRegressor, _Boosting):
    """Differentially private gradient boosting for regression.

    Attributes are those of `DPBoostingClassifier`, but for the classes. The domain declares the
    bounds of the target; whether a target outside them is clipped or refused is the domain's rule.
    Residuals are clipped at 0.4 times half the range.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPBoostingRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=1000,
    ... )
    >>> rows, cost = [[age / 10] for age in range(1000)], [age / 5 for age in range(1000)]
    >>> model = DPBoostingRegressor(epsilon=2.0, domain=domain).fit(rows, cost)
    >>> bool(0 <= model.predict([[50]])[0] <= 200)
    True
    """

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row, within its bounds."""
        raw = super().predict(X)
        return np.clip(raw, self.plan_.units.low, self.plan_.units.high)
