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
    epsilon : float, default=1.0
        The whole budget of one fit, add/remove neighbours. Finite and greater than 0; not used
        with ``noise="none"``.
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
    noise : {"splits+leaves", "leaves", "none"}, default="splits+leaves"
        "splits+leaves": answers to any number of queries cost epsilon together. "leaves" is the
        paper's: every answer depends on splits without noise, so no finite epsilon holds against
        the analyst, and the ledger has the paper's figure beside it. "none": no noise.
    max_depth : int or "auto", default="auto"
        Levels of splits, by a public rule if "auto".
    criterion : {"auto", "max", "gini"}, default="auto"
        Score of a split.
    branching : {"binary", "wary"}, default="binary"
        Thresholds and single values against the rest, or one branch per bin.
    mechanism : {"discrete", "laplace", "exponential"}, default="discrete"
        Exact discrete noise, or the paper's approximate mechanisms, which have no finite epsilon.
    leaf_release : {"counts", "labels"}, default="counts"
        Noisy counts, which answer with probabilities too, or noisy labels alone.
    split_share : float, default=0.7
        Share of epsilon for the splits.
    grower : {"auto", "masks", "grouped"}, default="auto"
        How rows are kept: a mask per node, or in the order of nodes, which is cheaper when deep.
    engine : {"simulate", "processes", "clear"}, default="simulate"
        The three servers in this process, on real shares; a process for each of them, over mutual
        TLS on this machine; or plain arrays, to study accuracy. Laws and ledger are the same. From
        this process, which is handed all rows, nothing is hidden in any of them.
    n_owners : int, default=1
        Owners to whom `fit` deals the table.
    partition : {"horizontal", "vertical"}, default="horizontal"
        Whether owners hold rows or columns.
    account : Account or str, optional
        Adds up the fits on the same people, all answers to queries included; a fit beyond its
        budget is refused before a row is read. `Account.new` makes one in a file.
    bad_rows : {"auto", "error", "absorb"}, default="auto"
        What is done with rows that do not fit the domain or its capacity. "error" refuses them, by
        name, for whoever holds the rows. "absorb" refuses none: they are clipped, moved or left out
        by public rules, and ``owner_only_`` counts them. "auto" absorbs where there is an account.
    random_state : int or None, default=None
        None draws keys and noise from the operating system. A number makes them repeatable, which
        is for tests only: the ledger then records that the model is NOT private.
    insecure_domain_from_data : bool, default=False
        Read the domain from the data if none is given. The ledger then records that the model is
        NOT private.

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
