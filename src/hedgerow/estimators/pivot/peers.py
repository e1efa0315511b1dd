"""What estimators over columns at peers share."""

from __future__ import annotations

import json
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
from hedgerow.protocols.pivot.options import PeerOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.programs import PeerTable, check_rows
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.protocols.pivot.run import PivotRun, Place, answers_due, ask_peers, run_pivot
from hedgerow.secure.additive.core import EVERYONE, FEWEST, MOST
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.suggest import Task
from hedgerow.trees import to_onnx, to_sklearn
from hedgerow.trees.export.sklearn import On
from hedgerow.trees.model import Model


@dataclass(kw_only=True, eq=False, repr=False)
class PeersModel(AccountedEstimator):
    """What all models over the columns of peers share: tables, training, answers, records.

    Parameters
    ----------
    n_peers : int
        Peers to which `fit` deals the columns, in order; 2 to 10.
    groups : list of lists of str or int
        Columns of each peer, in place of `n_peers`.
    target_at : int
        The peer that holds the target in `fit`, the last by default; it also asks in `predict`.
    engine : "simulate" or "processes"
        Where peers are while they train: in this process, or each in one of its own, over TLS.
    domain : Domain or None
        Public attributes and bins, at most 256 each. None reads them from the data: bounds and
        edges of everybody's columns are then known to all peers, and the ledger says so.
    max_bins : int
        Bins per numeric attribute if the domain is read from the data.
    missing : "error" or "own bin"
        What to do with missing values if the domain is read from the data.
    account : Account or str
        Adds up the fits on the same people. One with a budget refuses a model without noise.
    random_state : int or None
        None draws masks and noise from the operating system. A number makes them repeatable, which
        is for tests only.
    """

    _model_name: ClassVar[str] = "run_"
    _task: ClassVar[Task]
    _protocol: ClassVar[PeerProtocol]
    _options_type: ClassVar[type[PeerOptions]]
    insecure_domain_from_data = False

    n_peers: int = 3
    groups: Sequence[Sequence[str | int]] | None = None
    target_at: int = -1
    engine: str = "simulate"
    domain: Domain | None = None
    max_bins: int = 8
    missing: str = "error"
    account: Account | str | None = None
    random_state: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Deal the columns of a table to the peers and train.

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
            if (absorbed := self._absorbed()) is not None:
                # Peers know all places: a target that cannot be used changes none of them.
                places = encoded.rows(np.arange(encoded.n_slots)[: encoded.domain.capacity])
                absorbed.count_rows(over=encoded.present.sum() - places.present.sum())
                encoded = places
            bins = [{j: encoded.bins[:, j] for j in group} for group in self.columns_]
            return self._train(bins, encoded, int(self.target_at) % peers, ledger)

    def fit_peers(
        self, tables: Sequence[Any], ys: Sequence[Any], ids: Sequence[Any] | None = None
    ) -> Self:
        """Train on the tables of several peers, with names for the columns.

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
                absorbed=self._absorbed(),
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
            self.columns_ = [part.columns for part in parts]
            bins = [
                {j: part.table.bins[:, at] for at, j in enumerate(part.columns)} for part in parts
            ]
            target = parts[target_at].table.labels
            assert target is not None
            every = np.zeros((len(target), len(domain.names)), dtype=domain.dtype)
            encoded = Encoded(domain, every, target, parts[target_at].usable)
            names = None if ids is None else [part.table.ids for part in parts]
            return self._train(bins, encoded, target_at, ledger, names)

    def _train(
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
        if n < 2 and self._absorbed() is None:
            raise Code.EMPTY_TABLE.error(expected="at least two rows", found=f"{n} sample")
        owners = np.zeros(len(encoded.domain.names), dtype=np.int64)
        for i, columns in enumerate(bins):
            owners[list(columns)] = i
        # A neighbour changes the number of rows: with noise nothing may follow from it.
        rows = n if ids is None else min(map(len, ids))
        plan = self._options().plan(
            encoded.domain,
            None if self._has_noise() else rows,
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
                None if ids is None else ids[i],
                encoded.present if i == target_at else None,
            )
            for i, own in enumerate(bins)
        ]
        # Rows that are yet to be aligned are fewer then; their capacity is that of the fewest.
        for table in tables if ids is None else ():
            check_rows(plan, table)
        self._charge(plan, ledger)
        place: Any = self.engine
        self.run_: PivotRun = run_pivot(plan, tables, ledger, place, seed=self.random_state)
        self.plan_ = plan
        self._take(plan, self.run_.model)
        return self

    def _take(self, plan: Any, model: Any) -> None:
        """Set what is opened of a model as attributes."""

    def _charge(self, plan: PeerPlan, ledger: Ledger) -> None:
        ledger.parties = tuple(f"peer {i}" for i in range(plan.n_peers))
        if self.random_state is not None:
            warn_caller(
                "random_state makes masks repeatable, and noise: the ledger records this model as "
                "not private",
            )
            ledger.mark_not_private("masks were seeded")
        if self.domain is None:
            ledger.mark_not_private("the domain, known to all peers, was read from their data")
        plan.charge(ledger)

    def _answers(self, X: Any, *, proba: bool = False, what: str | None = None) -> NDArray[Any]:
        """Have the peers answer rows for the one with the target, which is charged for it."""
        check_is_fitted(self, "run_")
        query = encode(self._table(X, reset=False), self.domain_)
        bins = {j: query.bins[:, j] for j in range(query.bins.shape[1])}
        account = account_of(self.account)
        due = answers_due(self.plan_, self.privacy_, self.plan_.target_at)
        if account is not None and due:
            # Refused before it is asked, by one with a budget.
            account.charge(due, what=f"answers of {type(self).__name__}")
        return ask_peers(
            self.plan_,
            self.run_.model,
            bins,
            query.n_slots,
            self.privacy_,
            asker=self.plan_.target_at,
            proba=proba,
            what=what,
            seed=self.random_state,
        )

    @property
    def offline_(self) -> Reading | None:
        """What peers sent that needs no target, and could be sent ahead.

        It follows from the number of rows. Where the model has an epsilon, it is for the owner's
        eyes only, and None in copies.
        """
        check_is_fitted(self, "run_")
        return self.run_.offline

    @property
    def online_(self) -> Reading | None:
        """What peers sent besides; as `offline_`."""
        check_is_fitted(self, "run_")
        return self.run_.online

    def __getstate__(self) -> dict[str, Any]:
        # A copy may go to others.
        state: dict[str, Any] = super().__getstate__()
        if "run_" in state and self.plan_.is_private:
            state["run_"] = self.run_.without_sizes(self.plan_)
        return state

    @property
    def what_was_learned_(self) -> dict[str, list[dict[str, Any]]]:
        """What every peer learned of the model: name, times, values, why.

        Where the model has an epsilon, copies have nothing of how rows were aligned, which tells
        their number.
        """
        check_is_fitted(self, "run_")
        return {
            f"peer {i}": leakage.what_was_learned(f"peer {i}")
            for i, leakage in enumerate(self.run_.leakages)
        }

    def to_json(self) -> str:
        """Write a model that the peers see as JSON, with its domain and ledger; H501 if hidden."""
        return self._opened().to_json(privacy=json.loads(self.privacy_.to_json()))

    def to_onnx(self, on: On = "values") -> Any:
        """Export a model that the peers see as an ONNX model (extra ``hedgerow[onnx]``); H501."""
        return to_onnx(self._opened(), on=on)

    def _opened(self) -> Model:
        check_is_fitted(self, "run_")
        model = self._protocol.opened(self.plan_, self.run_.model)
        if model is None:
            raise Code.BAD_PARAMETER.error(
                expected="a model that the peers see", found="one that is hidden", fix="ask it"
            )
        return model

    def _options(self) -> PeerOptions:
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
        if account is not None and account.ledger.budget is not None and not self._promises():
            # No noise: an account with a budget cannot pay for it.
            account.check([exact_release(STRUCTURE, EVERYONE)])


class PeersEstimator(PeersModel):
    """Trees over the columns of peers, which are exported like any others where peers see them."""

    def to_sklearn(self, on: On = "values") -> Any:
        """Export a model that the peers see as a scikit-learn estimator; H501 if it is hidden."""
        return to_sklearn(self._opened(), on=on)


class PeersClassifier(TableClassifier, PeersModel):
    """Classes of rows, each peer looking at its own columns."""

    _task = "classification"

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Have the peers answer rows, each looking at its own columns; one of them learns them."""
        found = self._answers(X)
        labels: NDArray[Any] = self.classes_[found]
        return labels


class PeersRegressor(TableRegressor, PeersModel):
    """Values of rows, each peer looking at its own columns."""

    _task = "regression"

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the peers answer rows, each looking at its own columns; one of them learns them."""
        return self._answers(X)
