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
    """Parameters of boosting."""

    _protocol: ClassVar[PeerProtocol] = PEER_BOOSTING
    _options_type: ClassVar[type[PeerOptions]] = PivotBoostingOptions
    _opened_name: ClassVar[str] = "boosted_"

    n_estimators: int = 20
    learning_rate: float = 0.1
    max_depth: int = 3
    loss: str = "softmax"
    hide: str = "nothing"
    subsample: float = 1.0
    max_features: Any = None
    public_seed: int = 0

    def _take(self, plan: PivotBoostingPlan, model: PeerTrees) -> None:
        if not plan.hides and (plan.joint == "softmax" or plan.numbers.n_scores == 1):
            self.boosted_: Boosted = opened_model(plan, model)


class PivotBoostingClassifier(PivotBoosting, PeersClassifier):
    """Gradient boosting over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.2. Trees are grown from gradients, which depend on the labels of
    all rows: gradients and scores of rows stay shared from the first round to the last. The trees
    are those of scikit-learn's `GradientBoostingClassifier` on the same bins, but for ties, that
    all of them are complete, and that probabilities are off while gradients are computed: by up to
    0.00075, and with the softmax of k classes by (k + 3) / 2048.

    Parameters
    ----------
    n_peers : int, default=3
        Peers to which `fit` deals the columns, in order; 2 to 10.
    groups : list of lists of str or int, optional
        Columns of each peer, in place of `n_peers`.
    target_at : int, default=-1
        The peer that holds the target in `fit`, the last by default; it also asks in `predict`.
    n_estimators : int, default=20
        Rounds; in each grows a tree, or one for every class if there are more than two.
    learning_rate : float, default=0.1
        Of what a tree adds to scores.
    max_depth : int, default=3
        Levels of splits of every tree.
    loss : {"softmax", "one-vs-rest"}, default="softmax"
        Of more than two classes: one loss of all scores, of 15 classes at most, or one booster for
        each class against the rest, which is cheaper. Two classes have the logistic loss.
    hide : {"nothing", "everything"}, default="nothing"
        What stays secret of the trees. "nothing": all peers see splits and leaves. "everything":
        nobody sees either.
    subsample : float, default=1.0
        Rows from which the trees of a round grow, as a share of all, by public coins.
    max_features : {"sqrt"}, int or None, default=None
        Attributes among which a node chooses, by public coins; None for all.
    public_seed : int, default=0
        What the public coins are drawn from.
    engine : {"simulate", "processes"}, default="simulate"
        Where peers are during training: in this process, or each in one of its own, over TLS.
    domain : Domain or None, default=None
        Public attributes and bins, at most 256 each. None reads them from the data: bounds and
        edges of everybody's columns are then known to all peers, and the ledger says so.
    max_bins : int, default=8
        Bins per numeric attribute if the domain is read from the data.
    missing : {"error", "own bin"}, default="error"
        What to do with missing values if the domain is read from the data.
    account : Account or str, optional
        Adds up the fits on the same people. The model is exact, so one with a budget refuses it.
    random_state : int or None, default=None
        None draws masks from the operating system. A number makes them repeatable, which is for
        tests only.

    Attributes
    ----------
    boosted_ : Boosted
        The model, where nothing is hidden of it; it answers by itself, too. Not of one booster for
        each of more than two classes, which is no model of one score or one loss.
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

    Paper: wu2020pivot, section 6.2. Parameters and attributes are those of
    `PivotBoostingClassifier`, but for the classes. Residuals are clipped to the width of the
    target's bounds, and rounded to units of 2^-13 of half of it, or coarser ones for more than
    65,535 rows.
    """
