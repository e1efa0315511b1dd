"""`PivotTreeClassifier` and `PivotTreeRegressor`: trees over columns that lie at peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hedgerow.errors import Code
from hedgerow.estimators.pivot.peers import PeersClassifier, PeersEstimator, PeersRegressor
from hedgerow.privacy import Ledger, Relation
from hedgerow.protocols.hidden.options import SUM_SHARE
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PeerOptions, PivotOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.protocols.pivot.trees import PEER_TREE, opened_trees
from hedgerow.trees.growing.budget import SPLIT_SHARE
from hedgerow.trees.tree import Tree

MEMBERS = (
    "peers hold the records and know which there are; replace holds, for what the others hold of a "
    "record"
)


@dataclass(kw_only=True, eq=False, repr=False)
class GrowthParameters(PeersEstimator):
    """Parameters of every tree, alone or in a forest; with noise they may promise an epsilon.

    Parameters
    ----------
    noise
        "splits+leaves": the choice of each split and what leaves hold have noise, drawn on the
        shares of the peers, and the ledger has a finite epsilon for whoever is shown the tree; for
        the peers, who know the records, that of replace, unless rows are aligned by `ids`. All
        nodes are then split, unless `stop_share` has a part of epsilon; that a node is pure,
        `min_samples_leaf` and `min_impurity_decrease` decide nothing. "as published": the paper's
        noise, of classes alone, which has no finite epsilon. Both need a `domain` with a capacity;
        a forest needs ``bootstrap=False``: all trees have the same rows, and divide epsilon.
    stop_share
        By such a count a node with fewer rows than `min_samples_split` is a leaf.
    bad_rows : "auto", "error" or "absorb"
        What is done, beside noise that promises an epsilon, with rows that do not fit the domain or
        its capacity: "error" refuses them, "absorb" clips, moves or leaves them out by public
        rules, and ``owner_only_`` counts them. "auto" absorbs where there is an account.
    """

    max_depth: int = 4
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0
    hide: str = "nothing"
    noise: str = "none"
    epsilon: float | None = None  # type: ignore[assignment]
    criterion: str = "auto"
    split_share: float = SPLIT_SHARE
    stop_share: float = 0.0
    sum_share: float = SUM_SHARE
    bad_rows: str = "auto"

    def _absorbs(self, account: object = None) -> bool:
        return super()._absorbs(account) and self._promises()

    def _promises(self) -> bool:
        return self.noise == "splits+leaves" and self.domain is not None

    def _has_noise(self) -> bool:
        return self.noise != "none"

    def _charge(self, plan: PeerPlan, ledger: Ledger) -> None:
        if self._promises() and not self._foreseen_marks():
            self._warn_of_noise(plan)
        if self._promises() and plan.align == "given":
            ledger.parties = tuple(f"peer {i}" for i in range(plan.n_peers))
            ledger.mark_not_private(MEMBERS, [plan.audience], Relation.ADD_REMOVE)
        super()._charge(plan, ledger)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self._has_noise():
            return
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(found="domain=None")
        if not self.domain.is_public:
            found = f"provenance {self.domain.provenance!r}"
            raise Code.DOMAIN_READ_FROM_DATA.error(found=found)
        if self.domain.capacity is None:
            raise Code.MISSING_CAPACITY.error(
                found="a domain without one, beside noise",
                fix="declare capacity in the domain: a public bound on the rows, not their number",
            )


@dataclass(kw_only=True, eq=False, repr=False)
class PivotTree(GrowthParameters):
    """Parameters of trees.

    Parameters
    ----------
    linear
        Paillier is slower, and needs `insecure_dealer` and the extra ``paillier``.
    """

    _protocol: ClassVar[PeerProtocol] = PEER_TREE
    _options_type: ClassVar[type[PeerOptions]] = PivotOptions

    linear: str = "transfers"
    insecure_dealer: bool = False

    def _charge(self, plan: PeerPlan, ledger: Ledger) -> None:
        if self.insecure_dealer:
            ledger.parties = tuple(f"peer {i}" for i in range(plan.n_peers))
            ledger.mark_not_private("peer 0 drew the key of all", ["peer 0"])
        super()._charge(plan, ledger)

    def _take(self, plan: PivotPlan, model: PeerTrees) -> None:
        if not plan.hides:
            self.tree_: Tree = opened_trees(plan, model)[0]


class PivotTreeClassifier(PivotTree, PeersClassifier):
    """A classification tree over columns at several peers; no peer sees another's.

    Paper: wu2020pivot. There are no servers: the peers compute among themselves, and all but one
    of them may put together what they see without learning more than ``what_was_learned_`` says.
    The tree is that of `CARTClassifier` on the same bins, but for ties. The peers of this estimator
    live in one process, or in a process each, and exchange the real messages.

    Attributes
    ----------
    tree_ : Tree
        The tree, where nothing is hidden of it.
    run_ : PivotRun
        The tree as the peers have it, with the shares of all of them: a hidden one cannot be
        pickled.
    columns_ : list of lists of int
        Columns of the domain at each peer.
    what_was_learned_ : dict of str to list of dict
        For each peer what it learned of the tree: name, times, values (with room for all nodes that
        a level can have), why. Answers are the asker's.
    offline_, online_ : Reading
        Rounds and bytes of what could have been sent ahead of the target, and of the rest.
    privacy_ : Ledger
        What holds for whom. Without noise nothing, once somebody sees the tree or its answers.
    classes_, domain_, n_features_in_, feature_names_in_
        As in `CARTClassifier`.

    Examples
    --------
    >>> from hedgerow import PivotTreeClassifier
    >>> rows, labels = [[0, 1], [1, 1], [0, 0], [1, 0]], ["no", "no", "no", "yes"]
    >>> model = PivotTreeClassifier(n_peers=2).fit(rows, labels)
    >>> model.predict([[1, 0]])
    array(['yes'], dtype='<U3')
    """


class PivotTreeRegressor(PivotTree, PeersRegressor):
    """A regression tree over columns at several peers; no peer sees another's.

    Paper: wu2020pivot. Attributes are those of `PivotTreeClassifier`, but for the classes. A split
    that decreases nothing is not made, as `CARTRegressor` does in a node that is not pure. The
    target is rounded to whole units of its bounds (`growers.units`), and means are within 2^-24 of
    half their width.
    """
