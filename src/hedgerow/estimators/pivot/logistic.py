"""`PivotLogisticRegression`: logistic regression over columns that lie at peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.pivot.peers import PeersClassifier
from hedgerow.protocols.pivot.logistic.features import Features
from hedgerow.protocols.pivot.logistic.options import LogisticOptions
from hedgerow.protocols.pivot.logistic.plan import LogisticPlan
from hedgerow.protocols.pivot.logistic.protocol import PEER_LOGISTIC
from hedgerow.protocols.pivot.logistic.training import LinearModel
from hedgerow.protocols.pivot.options import PeerOptions
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.tables import encode


@dataclass(kw_only=True, eq=False, repr=False)
class PivotLogisticRegression(PeersClassifier):
    """Logistic regression over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.3. There are no servers: the peers train in mini-batches among
    themselves, and all but one of them may put together what they see without learning more than
    ``what_was_learned_`` says. Weights stay shared while they are trained; in the end they are
    opened, or stay shared for good. Of several classes, each has weights against the rest.

    A model that the peers see is a sum of one function of each attribute: as such `to_json` and
    `to_onnx` write it, for rows as they are.

    A category has a weight of its own. A number stands for the middle of its bin, standardised as
    if all bins held equally many rows, in steps of 1/32 and cut at 4 deviations: public numbers
    (`features`).

    Parameters
    ----------
    fit_intercept
        No penalty is on it.
    learning_rate
        With many passes, a large rate or momentum scores might not fit their ring, whatever the
        rows: that is refused beforehand.

    Attributes
    ----------
    coef_ : ndarray of shape (1 or classes, features)
        Weights of what `features` returns, in the order of ``features_``, where they are opened.
    features_ : ndarray of str
        Names of the features: those of numbers, and one for each category.
    intercept_ : ndarray of shape (1 or classes,)
        Weights of the constant feature, where they are opened.
    n_iter_ : ndarray of shape (1,)
        Passes over the rows.
    run_ : PivotRun
        The model as the peers have it, with the shares of all of them: a hidden one cannot be
        pickled.
    columns_ : list of lists of int
        Columns of the domain at each peer.
    what_was_learned_ : dict of str to list of dict
        For each peer what it learned of the model: name, times, values, why. Answers are the
        asker's.
    offline_, online_ : Reading
        Rounds and bytes of what could have been sent ahead of the target, and of the rest.
    privacy_ : Ledger
        What holds for whom. There is no noise: nothing, once somebody sees weights or answers.
    classes_, domain_, n_features_in_, feature_names_in_
        As in `CARTClassifier`.

    Examples
    --------
    >>> from hedgerow import PivotLogisticRegression
    >>> rows, labels = [[0, 1], [1, 1], [0, 0], [1, 0]] * 8, ["no", "no", "no", "yes"] * 8
    >>> model = PivotLogisticRegression(n_peers=2, learning_rate=4.0).fit(rows, labels)
    >>> model.predict([[1, 0]])
    array(['yes'], dtype='<U3')
    """

    _protocol: ClassVar[PeerProtocol] = PEER_LOGISTIC
    _options_type: ClassVar[type[PeerOptions]] = LogisticOptions

    C: float = 1.0
    fit_intercept: bool = True
    max_iter: int = 10
    batch_size: int | None = None
    learning_rate: float | None = None
    momentum: float = 0.95
    hide: str = "nothing"
    public_seed: int = 0
    max_bins: int = 64

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the peers answer probabilities (n, classes), as `predict` does classes."""
        return self._answers(X, proba=True)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the peers answer scores, (n,) of two classes, else (n, classes)."""
        found = self._answers(X, what="scores")
        return found[:, 0] if found.shape[1] == 1 else found

    def features(self, X: Any) -> NDArray[np.float64]:
        """Return the features of rows whose columns are all known here, (n, features)."""
        check_is_fitted(self, "run_")
        query = encode(self._table(X, reset=False), self.domain_)
        return Features.of(self.domain_).rows(query.bins)

    def to_sklearn(self) -> LogisticRegression | OneVsRestClassifier:
        """Return a model that the peers see as one of scikit-learn, which takes `features`.

        H501 for one that is hidden.
        """
        self._opened()
        if len(self.classes_) == 2:
            return _fitted(self, self.coef_, self.intercept_, self.classes_)
        several = OneVsRestClassifier(LogisticRegression())
        several.estimators_ = [
            _fitted(self, self.coef_[i : i + 1], self.intercept_[i : i + 1], np.array([0, 1]))
            for i in range(len(self.classes_))
        ]
        several.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(self.classes_)
        several.classes_, several.n_features_in_ = self.classes_, self.coef_.shape[1]
        return several

    def _take(self, plan: LogisticPlan, model: LinearModel) -> None:
        self.features_ = np.array(plan.features.names, dtype=object)
        # Whether it has converged is not opened: as many passes as were asked for.
        self.n_iter_ = np.array([self.max_iter])
        if plan.hides:
            return
        weights = model.values
        self.coef_: NDArray[np.float64] = weights[:, : len(plan.features)]
        self.intercept_: NDArray[np.float64] = (
            weights[:, -1] if plan.intercept else np.zeros(len(weights))
        )


def _fitted(
    model: PivotLogisticRegression,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    classes: NDArray[Any],
) -> LogisticRegression:
    found = LogisticRegression(C=model.C, fit_intercept=model.fit_intercept)
    found.coef_, found.intercept_, found.classes_ = coef, intercept, classes
    found.n_features_in_, found.n_iter_ = coef.shape[1], model.n_iter_
    return found
