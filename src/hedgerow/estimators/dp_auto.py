"""`DPClassifier`, `DPRegressor`: one curator, a private model that public numbers choose."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.estimators.choice import PrivateKind
from hedgerow.estimators.dp_auto_base import DPAutoEstimator
from hedgerow.estimators.dp_boosting import DPBoostingClassifier, DPBoostingRegressor
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
from hedgerow.estimators.public_model import PublicModelClassifier, PublicModelRegressor
from hedgerow.tables import Batches

_CLASSIFIERS = {
    PrivateKind.tree: DPTreeClassifier,
    PrivateKind.median_forest: MedianForestClassifier,
    PrivateKind.boosting: DPBoostingClassifier,
}
_REGRESSORS = {
    PrivateKind.median_forest: MedianForestRegressor,
    PrivateKind.boosting: DPBoostingRegressor,
}


class DPClassifier(PublicModelClassifier, DPAutoEstimator):
    """Differentially private classifier of one table: boosting, or one tree where rows are few.

    Which of them it trains follows from the capacity and epsilon alone, so that the choice tells
    nothing about a row; ``choice_`` says which and why. ``privacy_`` lists every release.
    Neighbours are tables that differ by one added or removed row, so one person has to be one row.

    Parameters
    ----------
    epsilon : float, default=1.0
        The whole budget of one fit, at `delta` where boosting is chosen. Finite and greater than 0.
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
    model : {"auto", "boosting", "tree", "median-forest"}, default="auto"
        A name trains that model, with its own rules for everything else.
    delta : float, default=1e-6
        Probability with which epsilon may not hold, below 0.5; choose it far below 1 / number of
        people. Boosting makes use of it, the others need none.
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

    Attributes
    ----------
    choice_ : Choice
        ``model``, what was trained, and ``reason``, the public numbers behind it.
    model_ : estimator
        `DPBoostingClassifier`, `DPTreeClassifier` or `MedianForestClassifier`, fitted.
    released_ : Boosted, Tree or Forest
        The public model.
    privacy_ : Ledger
        Every release with its cost and audience.
    classes_ : ndarray
        Classes of the domain.
    domain_ : Domain
        The domain used.
    feature_importances_ : ndarray
        Computed from what was released alone, so it costs nothing more.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=1000,
    ... )
    >>> rows, ill = [[age / 10] for age in range(1000)], [int(age > 600) for age in range(1000)]
    >>> model = DPClassifier(epsilon=2.0, domain=domain).fit(rows, ill)
    >>> print(model.choice_.model, "as", model.choice_.reason)
    boosting as capacity * epsilon = 2000, at least 200
    """

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy, pandas or Arrow; or `Batches`.
        y : array-like of shape (n_rows,)
            Class labels, all of them in the domain. With `Batches` it is left out.

        Returns
        -------
        self

        Notes
        -----
        Reveals: what the chosen model reveals, to the public; see its class.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged.
        """
        return self._fit(X, y)

    def _estimator(self, kind: PrivateKind, parameters: dict[str, Any]) -> Any:
        return _CLASSIFIERS[kind](**parameters)


class DPRegressor(PublicModelRegressor, DPAutoEstimator):
    """Differentially private regression of one table: boosting, or a forest where rows are few.

    Parameters and attributes are those of `DPClassifier`, but for the classes and for the single
    tree, which learns classes alone. The domain declares the bounds of the target; whether a
    target outside them is clipped or refused is the domain's rule.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=1000,
    ... )
    >>> rows, cost = [[age / 10] for age in range(1000)], [age / 5 for age in range(1000)]
    >>> model = DPRegressor(epsilon=2.0, domain=domain).fit(rows, cost)
    >>> bool(0 <= model.predict([[50]])[0] <= 200)
    True
    """

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon``.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy, pandas or Arrow; or `Batches`.
        y : array-like of shape (n_rows,)
            Numbers. With `Batches` it is left out.

        Returns
        -------
        self

        Notes
        -----
        Reveals: what the chosen model reveals, to the public; see its class.
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
        found = super().predict(X)
        assert self.domain_.target is not None
        assert self.domain_.target.bounds is not None
        return np.clip(found, *self.domain_.target.bounds)

    def _estimator(self, kind: PrivateKind, parameters: dict[str, Any]) -> Any:
        if kind not in _REGRESSORS:
            raise Code.BAD_TARGET.error(
                expected="a target with classes",
                found=f"numbers, and model={str(kind)!r}",
                fix="choose 'auto', 'median-forest' or 'boosting' for numbers",
            )
        return _REGRESSORS[kind](**parameters)
