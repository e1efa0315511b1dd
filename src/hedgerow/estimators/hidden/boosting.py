"""`HiddenBoostingClassifier` and `HiddenBoostingRegressor`: boosted trees that nobody sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.estimators.hidden.base import HiddenEstimator
from hedgerow.estimators.hidden.regressor import HiddenRegressor
from hedgerow.estimators.hidden.tree import HiddenClassifier
from hedgerow.protocols.hidden.options import BoosterOptions, ServerOptions
from hedgerow.trees.boosted import probabilities
from hedgerow.trees.growing.budget import SPLIT_SHARE


@dataclass(kw_only=True, eq=False, repr=False)
class _Boosting(HiddenEstimator):
    """Parameters and plan that both tasks share.

    Parameters
    ----------
    epsilon
        It is divided equally among the trees. Not used with ``noise="none"``.
    noise
        "splits+leaves": answers to any number of queries cost epsilon together. "none": no noise,
        and no finite epsilon against the analyst.
    n_estimators
        With noise, few rounds and a larger learning rate are better: every tree has its share of
        epsilon.
    """

    _protocol: ClassVar[str] = "hidden-boosting"
    _options_type: ClassVar[type[ServerOptions]] = BoosterOptions

    noise: str = "splits+leaves"
    n_estimators: int = 20
    learning_rate: float = 0.1
    max_depth: int = 3
    splitter: str = "best"
    public_seed: int = 0
    split_share: float = SPLIT_SHARE


class HiddenBoostingClassifier(HiddenClassifier, _Boosting):
    """Gradient boosting with logistic loss, trained and asked on three servers without being seen.

    Paper: friedman2001greedy. Without noise, predictions are those of scikit-learn's
    ``GradientBoostingClassifier`` on the same bins, ties and roundings apart. More than two
    classes are boosted one against the rest. Servers learn public numbers alone.

    Attributes
    ----------
    model_, plan_, privacy_, leakage_, meter_, runs_, classes_, domain_, n_features_in_,
    feature_names_in_
        As in `HiddenTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, HiddenBoostingClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=100,
    ... )
    >>> rows, ill = [[age] for age in range(100)], [int(age > 60) for age in range(100)]
    >>> model = HiddenBoostingClassifier(domain=domain, noise="none", n_estimators=2)
    >>> model.fit(rows, ill).predict([[20], [90]]).tolist()
    [0, 1]
    """

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Ask for the scores of each row: log-odds of the second class, or of each class."""
        scores = self._ask(X, "score")
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class probabilities, computed from the scores; columns as `classes_`."""
        return probabilities(self._ask(X, "score"), joint=False)

    def _answers_distributions(self) -> bool:
        return True


class HiddenBoostingRegressor(HiddenRegressor, _Boosting):
    """Gradient boosting with squared loss, trained and asked on three servers without being seen.

    Paper: friedman2001greedy. Without noise, predictions on the training rows are those of
    scikit-learn's ``GradientBoostingRegressor`` on the same bins, ties and roundings apart.

    Attributes are those of `HiddenBoostingClassifier`, but for the classes; the domain declares
    bounds of the target, and predictions lie within them.
    """
