"""`HiddenTreeRegressor`: several owners, three servers, one regression tree that nobody sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.estimators.hidden.base import HiddenEstimator
from hedgerow.estimators.table import TableRegressor
from hedgerow.protocols.hidden.options import RegressionOptions, ServerOptions
from hedgerow.trees.growing.budget import SPLIT_SHARE


class HiddenRegressor(TableRegressor, HiddenEstimator):
    """A regressor over a hidden model."""

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Ask the servers for the target of each row; they see neither rows nor answers."""
        return self._ask(X, "value")


@dataclass(kw_only=True, eq=False, repr=False)
class HiddenTreeRegressor(HiddenRegressor):
    """Regression tree that is trained and asked on three servers without being seen by anybody.

    Paper: hiddentrees. Squared error takes the place of class counts, and splits are binary.
    Without noise the splits are those of `CARTRegressor`, and predictions on training rows differ
    in the sixth digit. Servers learn public numbers alone. What the analyst learns from answers is
    in ``privacy_``.

    Parameters
    ----------
    noise
        "splits+leaves": answers to any number of queries cost epsilon together. With "leaves" and
        "none" answers depend on numbers without noise: no finite epsilon against the analyst.
    split_share
        Of the rest, two thirds are for the sums of the leaves and one third for their counts.

    Attributes
    ----------
    model_, plan_, privacy_, leakage_, meter_, runs_, domain_, n_features_in_, feature_names_in_
        As in `HiddenTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, HiddenTreeRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=100,
    ... )
    >>> rows, cost = [[age] for age in range(100)], [2 * age for age in range(100)]
    >>> model = HiddenTreeRegressor(domain=domain, noise="none", max_depth=1).fit(rows, cost)
    >>> model.predict([[20], [90]]).round(2).tolist()
    [50.0, 150.0]
    """

    _protocol: ClassVar[str] = "hidden-regression"
    _options_type: ClassVar[type[ServerOptions]] = RegressionOptions

    noise: str = "splits+leaves"
    max_depth: int | str = "auto"
    split_share: float = SPLIT_SHARE
    grower: str = "auto"
