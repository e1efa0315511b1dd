"""`PivotForestClassifier` and `PivotForestRegressor`: forests over columns that lie at peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hedgerow.estimators.pivot.peers import PeersClassifier, PeersRegressor
from hedgerow.estimators.pivot.tree import GrowthParameters
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PeerOptions, PivotForestOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.protocols.pivot.trees import PEER_FOREST, opened_trees
from hedgerow.trees.forest import Forest


@dataclass(kw_only=True, eq=False, repr=False)
class PivotForest(GrowthParameters):
    """Parameters of forests.

    Parameters
    ----------
    max_features
        A node where none of them has a valid split is a leaf, where scikit-learn would go on
        looking.
    bootstrap
        Otherwise each is in a tree once at most.
    """

    _protocol: ClassVar[PeerProtocol] = PEER_FOREST
    _options_type: ClassVar[type[PeerOptions]] = PivotForestOptions

    n_estimators: int = 10
    max_features: Any = "sqrt"
    bootstrap: bool = True
    max_samples: float = 1.0
    public_seed: int = 0

    def _take(self, plan: PivotPlan, model: PeerTrees) -> None:
        if not plan.hides:
            self.forest_: Forest = Forest(tuple(opened_trees(plan, model)))


class PivotForestClassifier(PivotForest, PeersClassifier):
    """A random forest over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.1. The trees are those of `PivotTreeClassifier`, each on rows of
    its own, and each node chooses among some attributes: public coins draw both, so that they say
    nothing about anybody. All trees grow side by side, in as many rounds as one. The class that
    most of them answer is the answer, and who asks learns it alone; the votes stay shared.

    Attributes
    ----------
    forest_ : Forest
        The trees, where nothing is hidden of them. They answer by themselves, too: with the mean of
        their answers, where peers are told what most of them say.
    run_, columns_, what_was_learned_, offline_, online_, privacy_
        As in `PivotTreeClassifier`.
    classes_, domain_, n_features_in_, feature_names_in_
        As in `CARTClassifier`.

    Examples
    --------
    >>> from hedgerow import PivotForestClassifier
    >>> rows, labels = [[0, 1], [1, 1], [0, 0], [1, 0]] * 5, ["no", "no", "no", "yes"] * 5
    >>> forest = PivotForestClassifier(n_peers=2, n_estimators=3, max_features=None)
    >>> model = forest.fit(rows, labels)
    >>> model.predict([[1, 0]])
    array(['yes'], dtype='<U3')
    """


class PivotForestRegressor(PivotForest, PeersRegressor):
    """A random forest of a number over columns at several peers; no peer sees another's.

    Paper: wu2020pivot, section 6.1. Attributes are those of `PivotForestClassifier`, but for the
    classes; the answer is the mean over the trees, of which there are 127 at most. What
    `PivotTreeRegressor` says of its trees holds for these.
    """
