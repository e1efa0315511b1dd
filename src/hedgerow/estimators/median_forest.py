"""`MedianForestClassifier`, `MedianForestRegressor`: one curator, a forest of private medians."""

from __future__ import annotations

import json
import numbers
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import Code
from hedgerow.estimators.account import Account
from hedgerow.estimators.accounted import AccountedEstimator
from hedgerow.estimators.large import counts_over, has_names, is_large
from hedgerow.estimators.parameters import (
    check_domain,
    check_epsilon,
    check_parameter,
    domain_to_plan,
    is_count,
    warn_of_domain_from_data,
)
from hedgerow.estimators.progress import shown
from hedgerow.estimators.table import TableClassifier, TableRegressor
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.median_budget import DepthBudget
from hedgerow.protocols.median_forest import grow_median_forest
from hedgerow.protocols.median_plan import Accounting, MedianPlan, Variant, plan_median
from hedgerow.tables import Batches, Domain, Encoded, encode
from hedgerow.trees import Forest, impurity_decrease, to_onnx, to_sklearn
from hedgerow.trees.forest_counts import ForestCounts, LocalCounts


class _MedianForest(AccountedEstimator):
    """Parameters, growth and export that both tasks share."""

    _importance_criterion: ClassVar[str]

    forest_: Forest
    plan_: MedianPlan
    privacy_: Ledger
    # Noise in place of the system's, for the auditor; a parameter could not be copied safely.
    _noise: NoiseSource | None = None

    def __init__(
        self,
        epsilon: float = 1.0,
        domain: Domain | None = None,
        *,
        n_estimators: int = 4,
        max_depth: int | str = "auto",
        variant: str = "flip",
        max_features: int | str = "auto",
        split_share: float = 0.6,
        partition: bool = False,
        accounting: str = "strict",
        depth_budget: str = "uniform",
        shrinkage: bool = True,
        public_seed: int = 0,
        account: Account | str | None = None,
        random_state: int | None = None,
        insecure_domain_from_data: bool = False,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.variant = variant
        self.max_features = max_features
        self.split_share = split_share
        self.partition = partition
        self.accounting = accounting
        self.depth_budget = depth_budget
        self.shrinkage = shrinkage
        self.public_seed = public_seed
        self.account = account
        self.random_state = random_state
        self.insecure_domain_from_data = insecure_domain_from_data
        self.verbose = verbose

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        # A refusal of the domain must not depend on the rows, so it comes before they are read.
        ledger = self._open_ledger()
        if self.domain is None:
            if not self.insecure_domain_from_data:
                raise Code.MISSING_DOMAIN.error(found="domain=None")
            ledger.mark_not_private("the domain was read from the data")
        elif not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {self.domain.provenance!r}")
        else:
            self._check_account(self._plan(self.domain, self.domain.capacity))
        source = self._source(stacklevel=4)
        counts, plan = self._large(X, y) if is_large(X) else self._in_memory(X, y)
        # What an interrupted fit has charged stays charged, and belongs to no earlier forest.
        self.__dict__.pop("forest_", None)
        self.plan_, self.privacy_ = plan, ledger
        try:
            with shown(counts, plan.depth, self.verbose) as watched:
                self.forest_ = grow_median_forest(watched, plan, ledger=ledger, source=source)
        except BaseException as error:
            if ledger.releases:
                spent = ledger.formal_total("public").epsilon
                error.add_note(
                    f"epsilon {spent:g} was charged before this and stays charged: see privacy_"
                )
            raise
        return self

    def _in_memory(self, X: Any, y: Any) -> tuple[ForestCounts, MedianPlan]:
        if self.domain is None:
            warn_of_domain_from_data(stacklevel=4)
        encoded = self._encode_training(
            X, y, self.domain, max_bins=64, spacing="uniform", missing="error"
        )
        capacity = encoded.domain.capacity
        if self.domain is None:
            # Nothing is claimed then, and the row count serves as capacity.
            capacity = max(len(encoded.bins), self.n_estimators)
        plan = self._plan(encoded.domain, capacity)
        return LocalCounts([plan.batch(encoded)]), plan

    def _large(self, X: Any, y: Any) -> tuple[ForestCounts, MedianPlan]:
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(
                found="domain=None, and a table that is not read whole",
                fix="declare a Domain; Domain.suggest can draft one from some of the rows",
            )
        self._take_domain(self.domain)
        plan = self._plan(self.domain, self.domain.capacity)
        counts = counts_over(X, y, self.domain, plan.batch)
        self.n_features_in_ = len(self.domain.attributes)
        self.__dict__.pop("feature_names_in_", None)
        if has_names(X):
            self.feature_names_in_ = np.array(self.domain.names, dtype=object)
        return counts, plan

    def _encode_query(self, X: Any) -> Encoded:
        check_is_fitted(self, "forest_")
        return encode(self._table(X, reset=False), self.domain_)

    def plan(self, domain: Domain | None = None) -> MedianPlan:
        """Return what a fit would do and charge: it follows from public numbers alone.

        Parameters
        ----------
        domain : Domain, optional
            Public; not the data. The estimator's own if not given.
        """
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        return self._plan(public, public.capacity)

    def _plan(self, domain: Domain, capacity: int | None) -> MedianPlan:
        return plan_median(
            domain,
            epsilon=float(self.epsilon),
            n_trees=int(self.n_estimators),
            depth=None if self.max_depth == "auto" else int(self.max_depth),
            variant=self.variant,  # type: ignore[arg-type]
            candidates=None if self.max_features == "auto" else int(self.max_features),
            split_share=float(self.split_share),
            partition=self.partition,
            accounting=self.accounting,  # type: ignore[arg-type]
            depth_budget=self.depth_budget,  # type: ignore[arg-type]
            shrinkage=self.shrinkage,
            public_seed=int(self.public_seed),
            capacity=capacity,
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the released leaves alone, (d,)."""
        check_is_fitted(self, "forest_")
        total = np.zeros(len(self.domain_.attributes))
        for tree in self.forest_.trees:
            decrease = np.nan_to_num(impurity_decrease(tree, self._importance_criterion))
            inner = tree.feature >= 0
            np.add.at(total, tree.feature[inner], decrease[inner])
        if total.sum() > 0:
            total /= total.sum()
        return total

    def to_json(self) -> str:
        """Write the public model with its domain and its ledger as JSON."""
        check_is_fitted(self, "forest_")
        return self.forest_.to_json(privacy=json.loads(self.privacy_.to_json()))

    def to_sklearn(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted forest as a scikit-learn estimator."""
        check_is_fitted(self, "forest_")
        return to_sklearn(self.forest_, on=on)

    def to_onnx(self, on: Literal["values", "bins"] = "values") -> Any:
        """Export the fitted forest as an ONNX model (extra ``hedgerow[onnx]``)."""
        check_is_fitted(self, "forest_")
        return to_onnx(self.forest_, on=on)

    def _check_parameters(self) -> None:
        check_domain(self.domain)
        check_epsilon(self.epsilon)
        check_option("variant", self.variant, Variant)
        check_option("accounting", self.accounting, Accounting)
        check_option("depth_budget", self.depth_budget, DepthBudget)
        for name, least, word in (
            ("n_estimators", 1, None),
            ("max_depth", 1, "auto"),
            ("max_features", 1, "auto"),
            ("public_seed", 0, None),
            ("verbose", 0, None),
        ):
            value = getattr(self, name)
            is_word = isinstance(value, str) and value == word
            allowed = f"must be {word!r} or" if word else "must be"
            check_parameter(
                name,
                value,
                is_word or is_count(value, least),
                f"{allowed} a whole number of at least {least}",
            )
        for name in ("partition", "shrinkage"):
            value = getattr(self, name)
            check_parameter(name, value, isinstance(value, bool), "must be True or False")
        check_parameter(
            "split_share",
            self.split_share,
            isinstance(self.split_share, numbers.Real) and 0 < self.split_share < 1,
            "must lie strictly between 0 and 1",
        )


class MedianForestClassifier(TableClassifier, _MedianForest):
    """Differentially private forest for classification whose splits are private medians.

    Paper: consul2021diprime (DiPriMe, DiPriMeExp, DiPriMeFlip). A node draws a private median of
    some attributes, which keeps the two sides balanced, and chooses one of these cuts privately.
    ``privacy_`` lists every release. Neighbours are tables that differ by one added or removed
    row, so one person has to be one row.

    Parameters
    ----------
    epsilon : float, default=1.0
        The whole budget of one fit. Finite and greater than 0.
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
        Numeric attributes are cut on their grid: up to 1,024 bins are recommended.
    n_estimators : int, default=4
        Trees.
    max_depth : int or "auto", default="auto"
        Levels of splits; "auto" chooses by a public rule from capacity, trees and epsilon.
    variant : {"flip", "exp", "max", "base", "random"}, default="flip"
        How medians and attributes are drawn: by permute-and-flip, the exponential mechanism or
        noisy max; "base" takes one attribute at random and pays for its median alone; "random"
        takes attribute and cut at random, so that the leaves have the whole budget.
    max_features : int or "auto", default="auto"
        Attributes of which a node draws a median (K); "auto" chooses by a public rule from capacity
        and epsilon. Not used by "base" and "random".
    split_share : float, default=0.6
        Share of epsilon for the splits; the rest is for the leaves.
    partition : bool, default=False
        Put each row into one tree, by a secret coin of its own, so that every tree has the whole
        epsilon; otherwise all trees see all rows and share it. Partitioned forests grow faster
        and do better with more trees.
    accounting : {"strict", "paper"}, default="strict"
        "paper" draws as published; the ledger shows what that costs beside what is claimed.
    depth_budget : {"uniform", "rising", "falling"}, default="uniform"
        How the splits' budget is spread over the levels.
    shrinkage : bool, default=True
        Draw leaves towards the nodes above them, by the known scale of the noise; costs nothing.
    public_seed : int, default=0
        Of the choices that depend on no row; public.
    account : Account or str, optional
        Adds up the fits on the same people; a fit beyond its budget is refused before a row is
        read. `Account.new` makes one in a file.
    random_state : int or None, default=None
        None draws noise keyed by the operating system. A number makes the noise repeatable, which
        is for tests only: the ledger then records that the model is NOT private.
    insecure_domain_from_data : bool, default=False
        Read the domain from the data if none is given. The ledger then records that the model is
        NOT private.
    verbose : int, default=0
        1 shows on the error stream how far the growth has come.

    Attributes
    ----------
    forest_ : Forest
        The released trees; their leaves are noisy.
    plan_ : MedianPlan
        What was public beforehand.
    privacy_ : Ledger
        Every release with its cost and audience.
    classes_ : ndarray
        Classes of the domain.
    domain_ : Domain
        The domain used.
    feature_importances_ : ndarray
        Computed from the released leaves alone, so it costs nothing more.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, MedianForestClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=1000,
    ... )
    >>> rows, ill = [[age / 10] for age in range(1000)], [int(age > 600) for age in range(1000)]
    >>> forest = MedianForestClassifier(epsilon=2.0, domain=domain, n_estimators=2).fit(rows, ill)
    >>> forest.privacy_.total("public").epsilon <= 2.0
    True
    """

    _importance_criterion = "gini"

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy, pandas or Arrow; or, if it is larger than memory, `Batches`, a Dask dataframe
            or a Dask array.
        y : array-like of shape (n_rows,)
            Class labels, all of them in the domain. With `Batches` it is left out; with Dask it
            is a Dask series or array cut like `X`, or the name of a column of `X`, by default
            the target's.

        Returns
        -------
        self

        Notes
        -----
        Reveals: the trees with noisy leaf counts, to the public, epsilon in total.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged.
        """
        return self._fit(X, y)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each row; the lowest class index wins ties.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray, shape (n_rows,)
        """
        query = self._encode_query(X)
        return self.classes_[self.forest_.predict_class(query.bins)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict class probabilities, columns in the order of ``classes_``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows, n_classes)
        """
        query = self._encode_query(X)
        return self.forest_.distribution(query.bins)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class MedianForestRegressor(TableRegressor, _MedianForest):
    """Differentially private forest for regression whose splits are private medians.

    Parameters and attributes are those of `MedianForestClassifier`, but for the classes. The
    domain declares the bounds of the target; whether a target outside them is clipped or refused
    is the domain's rule. A leaf releases a noisy count and a noisy sum, and answers with a mean
    within the bounds.
    Paper: consul2021diprime.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, MedianForestRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=1000,
    ... )
    >>> rows, cost = [[age / 10] for age in range(1000)], [age / 5 for age in range(1000)]
    >>> forest = MedianForestRegressor(epsilon=2.0, domain=domain, n_estimators=2).fit(rows, cost)
    >>> bool(0 <= forest.predict([[50]])[0] <= 200)
    True
    """

    _importance_criterion = "squared_error"

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy, pandas or Arrow; or, if it is larger than memory, `Batches`, a Dask dataframe
            or a Dask array.
        y : array-like of shape (n_rows,)
            Numbers. With `Batches` it is left out; with Dask it is a Dask series or array cut
            like `X`, or the name of a column of `X`, by default the target's.

        Returns
        -------
        self

        Notes
        -----
        Reveals: the trees with noisy leaves, to the public, epsilon in total.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged.
        """
        return self._fit(X, y)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row, within its bounds.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[float64], shape (n_rows,)
        """
        query = self._encode_query(X)
        return self.forest_.decide(query.bins)[:, 0]
