"""`HiddenTreeClassifier`: several owners, three servers, one tree that nobody ever sees."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from hedgerow.estimators.hidden.base import HiddenEstimator
from hedgerow.estimators.table import TableClassifier
from hedgerow.protocols.hidden.answers import distribution
from hedgerow.protocols.hidden.options import ServerOptions, TreeOptions
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.trees.growing.budget import SPLIT_SHARE


def _shows_distributions(model: HiddenClassifier) -> bool:
    return model._answers_distributions()


class HiddenClassifier(TableClassifier, HiddenEstimator):
    """A classifier over a hidden model."""

    @abstractmethod
    def _answers_distributions(self) -> bool:
        """Whether answers can be distributions, known before the fit."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Ask the servers for the class of each row; they see neither rows nor answers."""
        index = self._ask(X, "class")
        labels: NDArray[Any] = self.classes_[index]
        return labels

    @available_if(_shows_distributions)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Ask for class probabilities, from what was released with noise; columns as `classes_`."""
        return distribution(self._ask(X, "distribution"))

    @available_if(_shows_distributions)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return logarithms of class probabilities, (n_rows, n_classes)."""
        with np.errstate(divide="ignore"):
            logs: NDArray[np.float64] = np.log(self.predict_proba(X))
        return logs


@dataclass(kw_only=True, eq=False, repr=False)
class ServerTree(HiddenClassifier):
    """One classification tree of three servers, hidden or opened."""

    noise: str = "splits+leaves"
    max_depth: int | str = "auto"
    criterion: str = "auto"
    branching: str = "binary"
    mechanism: str = "discrete"
    leaf_release: str = "counts"
    split_share: float = SPLIT_SHARE

    plan_: HiddenPlan = field(init=False)

    def _answers_distributions(self) -> bool:
        if hasattr(self, "plan_"):
            return self.plan_.shows_counts
        counts = self.mechanism == "discrete" and self.leaf_release == "counts"
        return counts and self.noise in ("leaves", "splits+leaves")


@dataclass(kw_only=True, eq=False, repr=False)
class HiddenTreeClassifier(ServerTree):
    """Decision tree that is trained and asked on three servers without being seen by anybody.

    Paper: hiddentrees. Owners share their rows or columns with three servers, of which at most one
    is curious; the servers train a complete tree whose splits and leaves stay secret, and answer
    secret queries. The servers learn public numbers alone. What the analyst learns from answers is
    in ``privacy_``.

    Parameters
    ----------
    noise
        "splits+leaves": answers to any number of queries cost epsilon together. "leaves" is the
        paper's: every answer depends on splits without noise, so no finite epsilon holds against
        the analyst, and the ledger has the paper's figure beside it. "none": no noise.
    branching
        Of two branches, one is below a threshold, or a single value against the rest.

    Attributes
    ----------
    model_ : Trained
        The shares of every server; never opened.
    plan_ : HiddenPlan
        What was public beforehand.
    privacy_ : Ledger
        Every release with its cost and audience.
    leakage_ : Leakage
        What training may open and what it opened; see also `what_was_learned`.
    meter_ : Reading
        Rounds and bytes of the training.
    runs_ : list of Run
        Training and all predictions: leakage, meter and seconds of each.
    classes_ : ndarray
        Classes of the domain.
    domain_ : Domain
        The domain used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, HiddenTreeClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=100,
    ... )
    >>> rows, ill = [[age] for age in range(100)], [int(age > 60) for age in range(100)]
    >>> model = HiddenTreeClassifier(epsilon=2.0, domain=domain).fit(rows, ill)
    >>> round(model.privacy_.total("analyst").epsilon, 6)
    2.0
    >>> model.privacy_.total("server 0").epsilon
    0.0
    """

    _options_type: ClassVar[type[ServerOptions]] = TreeOptions

    grower: str = "auto"
