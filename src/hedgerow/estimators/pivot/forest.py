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
    """Parameters of forests."""

    _protocol: ClassVar[PeerProtocol] = PEER_FOREST
    _options_type: ClassVar[type[PeerOptions]] = PivotForestOptions
    _opened_name: ClassVar[str] = "forest_"

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

    Parameters
    ----------
    n_peers : int, default=3
        Peers to which `fit` deals the columns, in order; 2 to 10.
    groups : list of lists of str or int, optional
        Columns of each peer, in place of `n_peers`.
    target_at : int, default=-1
        The peer that holds the target in `fit`, the last by default; it also asks in `predict`.
    n_estimators : int, default=10
        Trees.
    max_features : {"sqrt"}, int or None, default="sqrt"
        Attributes among which a node chooses; None for all. A node where none of them has a valid
        split is a leaf, where scikit-learn would go on looking.
    bootstrap : bool, default=True
        Whether rows are drawn with replacement; else each is in a tree once at most.
    max_samples : float, default=1.0
        Rows of a tree, as a share of all.
    public_seed : int, default=0
        What the public coins are drawn from.
    max_depth : int, default=4
        Largest depth of a leaf.
    min_samples_split : int, default=2
        Rows that a node needs to be split.
    min_samples_leaf : int, default=1
        Rows that each child must have.
    min_impurity_decrease : float, default=0.0
        Decrease of impurity that a split must bring, weighted by the node's share of rows.
    hide : {"nothing", "thresholds", "features", "peers"}, default="nothing"
        What stays secret of the tree. "nothing": the basic protocol, in which all peers see the
        tree. "thresholds": the enhanced one, in which cuts and leaves stay shared. "features": the
        attributes too, "peers": even whose they are.
    noise : {"none", "splits+leaves", "as published"}, default="none"
        "splits+leaves": the choice of each split and what leaves hold have noise, drawn on the
        shares of the peers, and the ledger has a finite epsilon for them, unless rows are aligned
        by `ids`. All nodes are then split, unless `stop_share` has a part of epsilon; that a node
        is pure, `min_samples_leaf` and `min_impurity_decrease` decide nothing. "as published": the
        paper's noise, of classes alone, which has no finite epsilon. Both need a `domain`
        with a capacity, and ``bootstrap=False``: all trees have the same rows, and divide epsilon.
    epsilon : float, optional
        Budget of the whole model, where there is noise; add/remove neighbours.
    criterion : {"auto", "max", "gini"}, default="auto"
        Score of splits of classes: "gini"; with noise by a public rule, unless it is chosen.
    split_share : float, default=0.7
        Share of epsilon for the splits; the leaves have what is left.
    stop_share : float, default=0.0
        Share of epsilon for noisy counts: a node with fewer than `min_samples_split` is a leaf.
    sum_share : float, default=2/3
        Of a number, share of the leaves' epsilon for their sums; the rest is for their counts.
    engine : {"simulate", "processes"}, default="simulate"
        Where peers are while the tree grows: in this process, or each in one of its own, over TLS.
    domain : Domain or None, default=None
        Public attributes and bins, at most 256 each. None reads them from the data: bounds and
        edges of everybody's columns are then known to all peers, and the ledger says so.
    max_bins : int, default=8
        Bins per numeric attribute if the domain is read from the data.
    missing : {"error", "own bin"}, default="error"
        What to do with missing values if the domain is read from the data.
    account : Account or str, optional
        Adds up the fits on the same people. One with a budget refuses a forest without noise.
    random_state : int or None, default=None
        None draws masks and noise from the operating system. A number makes them repeatable, which
        is for tests only.

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

    Paper: wu2020pivot, section 6.1. Parameters and attributes are those of `PivotForestClassifier`,
    but for the classes; the answer is the mean over the trees, of which there are 127 at most. What
    `PivotTreeRegressor` says of its trees holds for these.
    """
