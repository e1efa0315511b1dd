"""`PivotBoostingClassifier` and `PivotBoostingRegressor`: boosting over columns at peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.estimators.pivot.peers import PeersClassifier, PeersEstimator, PeersRegressor
from hedgerow.protocols.pivot.boosting import PEER_BOOSTING, opened_model
from hedgerow.protocols.pivot.boosting_plan import PivotBoostingPlan
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PeerOptions, PivotBoostingOptions
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.trees.boosted import Boosted


@dataclass(kw_only=True, eq=False, repr=False)
class PivotBoosting(PeersEstimator):
    """Parameters of boosting.

    Parameters
    ----------
    loss
        One against the rest is cheaper.
    """

    _protocol: ClassVar[PeerProtocol] = PEER_BOOSTING
    _options_type: ClassVar[type[PeerOptions]] = PivotBoostingOptions

    n_estimators: int = 20
    learning_rate: float = 0.1
    max_depth: int = 3
    loss: str = "softmax"
    hide: str = "nothing"
    subsample: float = 1.0
    max_features: Any = None
    public_seed: int = 0

    def _take(self, plan: PivotBoostingPlan, model: PeerTrees) -> None:
        if not plan.hides:
            self.boosted_: Boosted = opened_model(plan, model)


class PivotBoostingClassifier(PivotBoosting, PeersClassifier):
    """Gradient boosting over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.2. Trees are grown from gradients, which depend on the labels of
    all rows: gradients and scores of rows stay shared from the first round to the last. The trees
    are those of scikit-learn's `GradientBoostingClassifier` on the same bins, but for ties, that
    all of them are complete, and that probabilities are off while gradients are computed: by up to
    0.00075 and a unit of the gradients, and with the softmax of k classes by (k + 3) / 2048 and two
    units. A unit is 2^-14, and from 65,536 rows on coarser: 2^-9 for a million.

    Attributes
    ----------
    boosted_ : Boosted
        The model, where nothing is hidden of it; it answers by itself, too.
    run_, columns_, what_was_learned_, offline_, online_, privacy_
        As in `PivotTreeClassifier`.
    classes_, domain_, n_features_in_, feature_names_in_
        As in `CARTClassifier`.

    Examples
    --------
    >>> from hedgerow import PivotBoostingClassifier
    >>> rows, labels = [[0, 1], [1, 1], [0, 0], [1, 0]] * 5, ["no", "no", "no", "yes"] * 5
    >>> model = PivotBoostingClassifier(n_peers=2, n_estimators=2, max_depth=2).fit(rows, labels)
    >>> model.predict_proba([[1, 0]]).round(2)
    array([[0.6, 0.4]])
    """

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the peers answer rows with scores; one of them learns these, and probabilities."""
        return self._answers(X, proba=True)


class PivotBoostingRegressor(PivotBoosting, PeersRegressor):
    """Gradient boosting of a number over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.2. Attributes are those of `PivotBoostingClassifier`, but for the
    classes. Residuals are clipped to the width of the target's bounds, and rounded to units of
    2^-13 of half of it, or coarser ones for more than 65,535 rows.
    """
