"""`MedianForestClassifier`, `MedianForestRegressor`: one curator, a forest of private medians."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from hedgerow.estimators.median_base import MedianForestEstimator
from hedgerow.estimators.public_model import PublicModelClassifier, PublicModelRegressor
from hedgerow.tables import Batches


class MedianForestClassifier(PublicModelClassifier, MedianForestEstimator):
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
    bad_rows : {"auto", "error", "absorb"}, default="auto"
        What is done with rows that do not fit the domain or its capacity. "error" refuses them, by
        name, for whoever holds the rows. "absorb" refuses none: they are clipped, moved or left out
        by public rules, and ``owner_only_`` counts them. "auto" absorbs where there is an account.
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
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        return self._fit(X, y)


class MedianForestRegressor(PublicModelRegressor, MedianForestEstimator):
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
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        return self._fit(X, y)
