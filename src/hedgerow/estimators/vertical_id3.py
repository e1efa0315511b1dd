"""`VerticalID3Classifier`: an ID3 tree over columns that lie at several sites."""

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
from hedgerow.estimators.table import TableClassifier
from hedgerow.estimators.vertical_sites import columns_of_sites, empty_site, parts_of_sites
from hedgerow.net.meter import Reading
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, Relation
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.contract import check_epsilon
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.run import EngineName
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import OF_QUESTIONS, THEOREM_2, exact, parties_of
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.protocols.vertical_id3.plan import VerticalPlan, mark_members
from hedgerow.protocols.vertical_id3.run import ask_sites, joined_tree, run_vertical
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables import Domain, encode
from hedgerow.trees.tree import Tree


@dataclass(kw_only=True, eq=False, repr=False)
class VerticalID3Classifier(TableClassifier, AccountedEstimator):
    """ID3 over columns at several sites: no site sees another's columns, the class lies at one.

    Paper: vaidya2005vertical. The sites of this estimator live in one process and exchange the real
    messages, encrypted sets among them. The tree is the one of `ID3Classifier` with its columns in
    the order of the sites; its nodes stay at the sites.

    Parameters
    ----------
    n_sites : int
        Sites to which `fit` deals the columns, in order; at least 2.
    groups : list of lists of str or int
        Columns of each site, in place of `n_sites`.
    class_at : int or "all"
        The site that holds the class in `fit`, the last by default; "all": every site does.
    epsilon
        It needs `domain`, too. With the commutative cipher it protects nobody from the sites; on
        secret counts it also hides from each site what records say at the others, as long as the
        sites are not asked to classify them. ``privacy_`` says so.
    cardinality
        The cipher gives away sizes of sub-intersections and the best gain of each site, and to a
        site that does not keep to the protocol the class of every record; shares give away none of
        this.
    engine : "simulate", "processes" or "clear"
        Where sites and servers are while the tree grows: in this process, or each in a process of
        its own over TLS. With "clear", which needs secret counts, one process computes on plain
        numbers in the place of the servers.
    domain : Domain or None
        Public attributes and bins. None reads them from the data, where there is no epsilon.
    max_bins : int
        Bins per numeric attribute if the domain is read from the data: each becomes a branch.
    missing : "error" or "own bin"
        What to do with missing values if the domain is read from the data.
    answers_to
        With "class site" see `answers_of_class_site`.
    account : Account or str
        Adds up the fits on the same people, and questions, which are exact. One with a budget pays
        for noise on secret counts alone: all else tells the sites exact numbers.
    random_state : int or None
        None draws keys, shuffles and noise from the operating system. A number makes them
        repeatable, which is for tests only.

    Attributes
    ----------
    sites_ : list of Site
        The sites, each with its own nodes.
    root_ : Token
        Where the tree begins.
    columns_ : list of lists of int
        Columns of the domain at each site.
    n_records_ : int
        Records that the tree was grown on: with ids, those that all sites have. Exact, so not to
        be published where whether somebody is among them has to stay hidden.
    intersections_, encryptions_ : int
        Set intersections that were counted, and elements that were encrypted for them.
    what_was_learned_ : dict of str to list of dict
        For each site, and for the servers of secret counts, what it learned: name, times, values,
        why.
    server_traffic_ : Reading or None
        Rounds and bytes among the servers of secret counts.
    privacy_ : Ledger
        What holds for whom. Without noise that is nothing, for the public neither: the tree and
        its answers are exact.
    classes_, domain_, n_features_in_, feature_names_in_
        As in `ID3Classifier`.

    Examples
    --------
    >>> from hedgerow import VerticalID3Classifier
    >>> rows, labels = [[0, 1], [1, 1], [0, 0], [1, 0]], ["no", "no", "no", "yes"]
    >>> model = VerticalID3Classifier(n_sites=2).fit(rows, labels)
    >>> model.predict([[1, 0]])
    array(['yes'], dtype='<U3')
    >>> str(model.root_)
    'S1L1'
    """

    _model_name: ClassVar[str] = "root_"
    _options_type: ClassVar[type[VerticalOptions]] = VerticalOptions
    insecure_domain_from_data = False

    n_sites: int = 2
    groups: Sequence[Sequence[str | int]] | None = None
    class_at: int | str = -1
    max_depth: int | None = None
    epsilon: float | None = None  # type: ignore[assignment]
    cardinality: str = "commutative"
    engine: str = "simulate"
    domain: Domain | None = None
    max_bins: int = 8
    missing: str = "error"
    ring: str = "needed"
    answers_to: str = "asker"
    account: Account | str | None = None
    random_state: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Deal the columns of a table to the sites and grow the tree.

        Reveals: to each site what ``what_was_learned_`` lists.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            encoded = self._encode_training(
                X, y, self.domain, max_bins=self.max_bins, missing=self.missing
            )
            self.columns_ = columns_of_sites(encoded.domain, self.groups, int(self.n_sites))
            job = self._job(len(self.columns_), self._class_site(len(self.columns_)), align=False)
            ids = np.arange(encoded.n_slots)
            assert encoded.target is not None
            tables = [
                SiteTable(
                    encoded.bins[:, group],
                    encoded.domain.n_bins[group].astype(np.int64),
                    encoded.target if job.knows_class(i) else None,
                    ids,
                )
                for i, group in enumerate(self.columns_)
            ]
            return self._grow(job, tables, ledger)

    def fit_sites(
        self, tables: Sequence[Any], ys: Sequence[Any], ids: Sequence[Any] | None = None
    ) -> Self:
        """Grow the tree on the tables of several sites, with names for the columns.

        The table is None at a site that holds the class alone; `ys` have the class at one site and
        None at the others, or at all of them. Row ids are whole numbers at all sites or text at
        all, in any order: records that not all sites have are left out, after a private
        intersection of the ids; ``n_records_`` says how many are left. Without ids, rows are
        matched by their place.

        H109 for ids that are neither whole numbers nor text, H110 for a repeated id, H111 for no id
        in common or ids of two types, H106 for a column at two sites, H755 for a class at some
        sites but not at all, or at all of them but not the same.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            domain, parts, class_at = parts_of_sites(
                tables, ys, ids, self.domain, max_bins=self.max_bins, missing=self.missing
            )
            self._take_domain(domain)
            self.n_features_in_ = len(domain.attributes)
            self.feature_names_in_ = np.array(domain.names, dtype=object)
            self.columns_ = [part.columns for part in parts]
            job = self._job(len(parts), class_at, align=ids is not None)
            return self._grow(job, [part.table for part in parts], ledger)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the sites classify instances; probabilities (n_rows, n_classes) for who asks.

        Each site looks at its own columns only.
        """
        # Before the question: one that is refused must not have been asked.
        if self._answered_to() != "asker":
            raise Code.BAD_PARAMETER.error(
                expected="answers_to='asker'",
                found="answers_to='class site': the class site keeps what it finds",
                fix="call answers_of_class_site, at the class site",
            )
        counts = self._classify(X)
        assert counts is not None
        return _shares(counts)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Have the sites classify instances; the lowest class index wins ties."""
        shares = self.predict_proba(X)
        return _most(self.classes_, shares)

    def answers_of_class_site(self, X: ArrayLike) -> NDArray[Any]:
        """Have the sites classify instances for the class site alone; return the labels it keeps.

        No message carried them.
        """
        if self._answered_to() != "class site":
            raise Code.BAD_PARAMETER.error(
                expected="answers_to='class site'",
                found=f"answers_to={self._answered_to()!r}: the asker learns the classes",
                fix="call predict, or fit with answers_to='class site'",
            )
        holder = self.sites_[self.sites_[0].job.starter]
        before = len(holder.kept)
        self._classify(X)
        # Instances are named by their place.
        kept = [
            (int.from_bytes(name[1:], "little"), counts)
            for names, counts in holder.kept[before:]
            for name in names
        ]
        counts = np.array([own for _, own in sorted(kept)], dtype=np.int64)
        return _most(self.classes_, _shares(counts))

    def joined_tree(self) -> Tree:
        """Put the parts of all sites together: what no site sees, for checks or publication."""
        check_is_fitted(self, "root_")
        return joined_tree(self.sites_, self.root_, self.domain_, self.columns_)

    @property
    def intersections_(self) -> int:
        """Set intersections that were counted."""
        check_is_fitted(self, "root_")
        return sum(site.meter.intersections for site in self.sites_)

    @property
    def encryptions_(self) -> int:
        """Elements that were encrypted for set intersections."""
        check_is_fitted(self, "root_")
        return sum(site.meter.encryptions for site in self.sites_)

    @property
    def what_was_learned_(self) -> dict[str, list[dict[str, Any]]]:
        """What each site learned, in training and from questions since; and the servers."""
        check_is_fitted(self, "root_")
        sites = {f"site {site.index}": site.what_was_learned() for site in self.sites_}
        return sites if self._server_learned is None else sites | {"server": self._server_learned}

    def _grow(self, job: SiteJob, tables: Sequence[SiteTable], ledger: Ledger) -> Self:
        for i, table in enumerate(tables):
            if not table.bins.shape[1] and table.labels is None:
                raise empty_site(i)
        secret = self.cardinality == "secret"
        announced = {i: table.announced(job, i) for i, table in enumerate(tables)}
        plan = VerticalPlan(job, announced, secret, self.domain_)
        self._charge_growth(plan, ledger)
        run = run_vertical(plan, tables, self.engine, seed=self.random_state)  # type: ignore[arg-type]
        # None where no servers took part.
        self.server_traffic_: Reading | None = run.meter if secret else None
        self._server_learned: list[dict[str, Any]] | None = run.learned
        self.root_, self.sites_ = run.root, run.sites
        self.n_records_ = self.sites_[0].table.n_records
        return self

    def _charge_growth(self, plan: VerticalPlan, ledger: Ledger) -> None:
        """Charge all of a run, as one call."""
        job = plan.job
        ledger.parties = tuple(parties_of(job, servers=SERVERS if plan.secret else 0))
        if self.random_state is not None:
            warn_caller(
                "random_state makes keys and noise repeatable: the ledger records this model as "
                "not private",
            )
            ledger.mark_not_private("keys and noise were seeded")
        if plan.secret:
            # Before the charge, with which an account is told. No row is refused or left out for
            # what it says: replace holds.
            mark_members(ledger, job, Relation.ADD_REMOVE)
        ledger.charge(*plan.releases())
        if plan.secret:
            mark_collusion(ledger)

    def _promises(self) -> bool:
        return super()._promises() and self._has_noise()

    def _job(self, n_sites: int, class_at: int | None, *, align: bool) -> SiteJob:
        return self._options().job(n_sites, class_at, len(self.classes_), align=align)

    def _options(self) -> VerticalOptions:
        return self._options_type.from_parameters(self.get_params(deep=False))

    def _class_site(self, n_sites: int) -> int | None:
        if self.class_at == "all":
            return None
        at = int(self.class_at)
        if not -n_sites <= at < n_sites:
            raise Code.BAD_SITES.error(
                expected=f"class_at from {-n_sites} to {n_sites - 1}, or 'all'",
                found=f"class_at={at} for {n_sites} sites, which count from 0",
                fix="correct class_at",
            )
        return at % n_sites

    def _check_parameters(self) -> None:
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
            check_whole_epsilon(float(self.epsilon))
            if self.domain is None:
                raise Code.MISSING_DOMAIN.error(found="domain=None")
            if not self.domain.is_public:
                found = f"provenance {self.domain.provenance!r}"
                raise Code.DOMAIN_READ_FROM_DATA.error(found=found)
        self._options()
        check_option("engine", self.engine, EngineName)
        check_parameter(
            "engine",
            self.engine,
            self.engine != "clear" or self.cardinality == "secret",
            "must not be 'clear' without cardinality='secret': there are no servers",
        )
        check_parameter("n_sites", self.n_sites, is_count(self.n_sites, 2), "must be at least 2")
        check_parameter(
            "class_at",
            self.class_at,
            self.class_at == "all" or (isinstance(self.class_at, int | np.integer)),
            "must be the number of a site, or 'all'",
        )
        check_parameter(
            "random_state",
            self.random_state,
            self.random_state is None or is_count(self.random_state, 0),
            "must be None or >= 0",
        )

    def _has_noise(self) -> bool:
        return self.epsilon is not None

    def _answered_to(self) -> str:
        """Return whom the sites agreed to tell the class of an instance."""
        check_is_fitted(self, "root_")
        return self.sites_[0].job.answers_to

    def _classify(self, X: Any) -> NDArray[np.int64] | None:
        check_is_fitted(self, "root_")
        query = encode(self._table(X, reset=False), self.domain_)
        account = account_of(self.account)
        if account is not None:
            # Refused before it is asked: a question shows the sites exact branches.
            account.check([exact("site", THEOREM_2)])
        bins = [query.bins[:, group] for group in self.columns_]
        found = ask_sites(self.sites_, np.arange(query.n_slots), bins)
        self._charge_questions()
        return found

    def _charge_questions(self) -> None:
        """Charge, once for each site, that it has seen exact branches or leaves of instances."""
        due = [
            exact(who, THEOREM_2)
            for who, rows in self.what_was_learned_.items()
            if {row["name"] for row in rows} & set(OF_QUESTIONS)
            and not self.privacy_.charged(THEOREM_2, who)
        ]
        if not due:
            return
        self.privacy_.charge(*due)
        account = account_of(self.account)
        if account is not None:
            account.charge(due)


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return counts (n, c) as probabilities; without any count, all classes alike."""
    total = counts.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.where(
        total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1]
    )
    return shares


def _most(classes: NDArray[Any], shares: NDArray[np.float64]) -> NDArray[Any]:
    labels: NDArray[Any] = classes[np.argmax(shares, axis=1)]
    return labels
