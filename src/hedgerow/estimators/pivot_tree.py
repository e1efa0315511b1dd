"""`PivotTreeClassifier` and `PivotTreeRegressor`: trees over columns that lie at peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import Code, warn_caller
from hedgerow.estimators.account import Account, account_of
from hedgerow.estimators.accounted import AccountedEstimator
from hedgerow.estimators.parameters import check_parameter, is_count
from hedgerow.estimators.table import TableClassifier, TableRegressor
from hedgerow.estimators.vertical_sites import columns_of_sites, empty_site, parts_of_sites
from hedgerow.net.meter import Reading
from hedgerow.options import check_option
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.server_plan import STRUCTURE, exact_release
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import PeerTable, opened_tree
from hedgerow.protocols.pivot.run import PivotRun, Place, ask_peers, run_pivot
from hedgerow.secure.additive.core import EVERYONE, FEWEST, MOST
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.suggest import Task
from hedgerow.trees.tree import Tree


@dataclass(kw_only=True, eq=False, repr=False)
class PivotTree(AccountedEstimator):
    """Parameters and growth that both tasks share."""

    _model_name: ClassVar[str] = "run_"
    _task: ClassVar[Task]
    _options_type: ClassVar[type[PivotOptions]] = PivotOptions
    insecure_domain_from_data = False

    n_peers: int = 3
    groups: Sequence[Sequence[str | int]] | None = None
    target_at: int = -1
    max_depth: int = 4
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0
    hide: str = "nothing"
    linear: str = "transfers"
    insecure_dealer: bool = False
    engine: str = "simulate"
    domain: Domain | None = None
    max_bins: int = 8
    missing: str = "error"
    account: Account | str | None = None
    random_state: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Deal the columns of a table to the peers and grow the tree.

        Reveals: to each peer what ``what_was_learned_`` lists.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            encoded = self._encode_training(
                X, y, self.domain, max_bins=self.max_bins, missing=self.missing
            )
            self.columns_ = columns_of_sites(encoded.domain, self.groups, int(self.n_peers))
            peers = len(self.columns_)
            if not -peers <= int(self.target_at) < peers:
                raise Code.BAD_SITES.error(
                    expected=f"target_at from {-peers} to {peers - 1}",
                    found=f"target_at={self.target_at} for {peers} peers, which count from 0",
                    fix="correct target_at",
                )
            bins = [{j: encoded.bins[:, j] for j in group} for group in self.columns_]
            return self._grow(bins, encoded, int(self.target_at) % peers, ledger)

    def fit_peers(
        self, tables: Sequence[Any], ys: Sequence[Any], ids: Sequence[Any] | None = None
    ) -> Self:
        """Grow the tree on the tables of several peers, with names for the columns.

        The table is None at a peer that holds the target alone; `ys` have the target at one peer
        and None at the others. Rows are matched by their place; with `ids`, of all peers, by
        these: the rows that all of them have are found in a ring first.

        Reveals: to each peer what ``what_was_learned_`` lists.
        H106 for a column at two peers, H755 for a target at none or several.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            domain, parts, target_at = parts_of_sites(
                tables,
                ys,
                ids,
                self.domain,
                task=self._task,
                max_bins=self.max_bins,
                missing=self.missing,
            )
            if target_at is None:
                raise Code.BAD_SITES.error(
                    expected="the target at one peer",
                    found="the target at all of them",
                    fix="pass the target in ys at one peer and None at the others",
                )
            self._take_domain(domain)
            self.n_features_in_ = len(domain.attributes)
            self.feature_names_in_ = np.array(domain.names, dtype=object)
            self.columns_ = [columns for columns, _ in parts]
            bins = [
                {j: table.bins[:, at] for at, j in enumerate(columns)} for columns, table in parts
            ]
            target = parts[target_at][1].labels
            assert target is not None
            n = len(target)
            every = np.zeros((n, len(domain.names)), dtype=domain.dtype)
            encoded = Encoded(domain, every, target, np.ones(n, dtype=np.bool_))
            names = None if ids is None else [table.ids for _, table in parts]
            return self._grow(bins, encoded, target_at, ledger, names)

    def _grow(
        self,
        bins: Sequence[dict[int, NDArray[Any]]],
        encoded: Encoded,
        target_at: int,
        ledger: Ledger,
        ids: Sequence[NDArray[Any]] | None = None,
    ) -> Self:
        for i, columns in enumerate(bins):
            if not columns and i != target_at:
                raise empty_site(i)
        n, peers = encoded.n_slots, len(bins)
        if n < 2:
            raise Code.EMPTY_TABLE.error(expected="at least two rows", found=f"{n} sample")
        owners = np.zeros(len(encoded.domain.names), dtype=np.int64)
        for i, columns in enumerate(bins):
            owners[list(columns)] = i
        plan = self._options().plan(
            encoded.domain,
            n if ids is None else min(map(len, ids)),
            owners=owners.tolist(),
            n_peers=peers,
            target_at=target_at,
            align="given" if ids is None else "ring",
        )
        target = encoded.target if plan.classes else plan.units.count(encoded).target
        tables = [
            PeerTable(
                own,
                n if ids is None else len(ids[i]),
                target if i == target_at else None,
                ids=None if ids is None else ids[i],
            )
            for i, own in enumerate(bins)
        ]
        self._charge(plan, ledger)
        place: Any = self.engine
        self.run_: PivotRun = run_pivot(plan, tables, ledger, place, seed=self.random_state)
        self.plan_ = plan
        if plan.hide == "nothing":
            self.tree_: Tree = opened_tree(plan, self.run_.tree)
        return self

    def _charge(self, plan: PivotPlan, ledger: Ledger) -> None:
        ledger.parties = tuple(f"peer {i}" for i in range(plan.n_peers))
        if self.random_state is not None:
            warn_caller(
                "random_state makes masks repeatable: the ledger records this model as not private",
            )
            ledger.mark_not_private("masks were seeded")
        if self.domain is None:
            ledger.mark_not_private("the domain, known to all peers, was read from their data")
        if plan.linear != "transfers":
            ledger.mark_not_private("peer 0 drew the key of all", ["peer 0"])
        plan.charge(ledger)

    def _answers(self, X: Any) -> NDArray[np.int64]:
        """Have the peers answer rows for the one with the target."""
        check_is_fitted(self, "run_")
        query = encode(self._table(X, reset=False), self.domain_)
        bins = {j: query.bins[:, j] for j in range(query.bins.shape[1])}
        return ask_peers(
            self.plan_,
            self.run_.tree,
            bins,
            query.n_slots,
            self.privacy_,
            asker=self.plan_.target_at,
            seed=self.random_state,
        )

    @property
    def offline_(self) -> Reading:
        """What peers sent that needs no target, and could be sent ahead."""
        check_is_fitted(self, "run_")
        return self.run_.offline

    @property
    def online_(self) -> Reading:
        """What peers sent besides."""
        check_is_fitted(self, "run_")
        return self.run_.online

    @property
    def what_was_learned_(self) -> dict[str, list[dict[str, Any]]]:
        """What every peer learned of the tree: name, times, values, why."""
        check_is_fitted(self, "run_")
        return {
            f"peer {i}": leakage.what_was_learned(f"peer {i}")
            for i, leakage in enumerate(self.run_.leakages)
        }

    def _options(self) -> PivotOptions:
        return self._options_type.from_parameters(self.get_params(deep=False))

    def _promises(self) -> bool:
        return False

    def _has_noise(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        self._options()
        check_option("engine", self.engine, Place)
        check_parameter(
            "n_peers",
            self.n_peers,
            is_count(self.n_peers, FEWEST) and self.n_peers <= MOST,
            f"must be from {FEWEST} to {MOST}",
        )
        check_parameter(
            "target_at",
            self.target_at,
            isinstance(self.target_at, int | np.integer),
            "must be the number of a peer",
        )
        check_parameter(
            "random_state",
            self.random_state,
            self.random_state is None or is_count(self.random_state, 0),
            "must be None or >= 0",
        )
        account = account_of(self.account)
        if account is not None and account.ledger.budget is not None:
            # No noise: an account with a budget cannot pay for it.
            account.check([exact_release(STRUCTURE, EVERYONE)])


class PivotTreeClassifier(TableClassifier, PivotTree):
    """A classification tree over columns at several peers; no peer sees another's.

    Paper: wu2020pivot. There are no servers: the peers compute among themselves, and all but one
    of them may put together what they see without learning more than ``what_was_learned_`` says.
    The tree is that of `CARTClassifier` on the same bins, but for ties. The peers of this estimator
    live in one process, or in a process each, and exchange the real messages.

    Parameters
    ----------
    n_peers : int, default=3
        Peers to which `fit` deals the columns, in order; 2 to 10.
    groups : list of lists of str or int, optional
        Columns of each peer, in place of `n_peers`.
    target_at : int, default=-1
        The peer that holds the target in `fit`, the last by default; it also asks in `predict`.
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
    linear : {"transfers", "paillier", "paillier unpacked"}, default="transfers"
        How histograms are made: by oblivious transfer, or as published under threshold Paillier,
        which is slower and needs `insecure_dealer` and the extra ``paillier``.
    insecure_dealer : bool, default=False
        Whether peer 0 may draw the key of Paillier, with which it can decrypt everything.
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
        Adds up the fits on the same people. The tree is exact, so one with a budget refuses it.
    random_state : int or None, default=None
        None draws masks from the operating system. A number makes them repeatable, which is for
        tests only.

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
        What holds for whom. There is no noise: nothing, once somebody sees the tree or its answers.
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

    _task = "classification"

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Have the peers answer rows, each looking at its own columns; one of them learns them."""
        found = self._answers(X)
        labels: NDArray[Any] = self.classes_[found]
        return labels


class PivotTreeRegressor(TableRegressor, PivotTree):
    """A regression tree over columns at several peers; no peer sees another's.

    Paper: wu2020pivot. Parameters and attributes are those of `PivotTreeClassifier`, but for the
    classes. A split that decreases nothing is not made, as `CARTRegressor` does in a node that is
    not pure. The target is rounded to whole units of its bounds (`growers.units`), and means are
    within 2^-24 of half their width.
    """

    _task = "regression"

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the peers answer rows, each looking at its own columns; one of them learns them."""
        found = self._answers(X)
        return self.plan_.means(found)
