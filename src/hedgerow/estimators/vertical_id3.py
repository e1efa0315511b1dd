"""`VerticalID3Classifier`: an ID3 tree over columns that lie at several sites."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code, HedgerowWarning
from hedgerow.estimators.parameters import check_epsilon, check_parameter, is_count
from hedgerow.estimators.table import TableClassifier
from hedgerow.estimators.vertical_sites import columns_of_sites, parts_of_sites
from hedgerow.net.meter import Reading
from hedgerow.options import check_option
from hedgerow.privacy import Ledger
from hedgerow.protocols.ppid3_job import AnswersTo, Ring, SiteJob
from hedgerow.protocols.ppid3_leakage import OF_QUESTIONS, exact, summary_releases
from hedgerow.protocols.ppid3_local import LocalSites, joined_tree
from hedgerow.protocols.ppid3_messages import Token
from hedgerow.protocols.ppid3_noise import CountNoise
from hedgerow.protocols.ppid3_secret_leakage import mark_secret, summary_of_secret
from hedgerow.protocols.ppid3_secret_parts import session_of_tables
from hedgerow.protocols.ppid3_secret_run import run_secret, sites_of
from hedgerow.protocols.ppid3_site import Site
from hedgerow.protocols.ppid3_table import SiteTable
from hedgerow.protocols.run import EngineName
from hedgerow.tables import Domain, encode
from hedgerow.trees.tree import Tree

Cardinality = Literal["commutative", "secret"]


class VerticalID3Classifier(TableClassifier):
    """ID3 over columns at several sites: no site sees another's columns, the class lies at one.

    Paper: vaidya2005vertical. The sites of this estimator live in one process and exchange the real
    messages, encrypted sets among them. The tree is the one of `ID3Classifier` with its columns in
    the order of the sites; its nodes stay at the sites.

    Parameters
    ----------
    n_sites : int, default=2
        Sites to which `fit` deals the columns, in order; at least 2.
    groups : list of lists of str or int, optional
        Columns of each site, in place of `n_sites`.
    class_at : int or "all", default=-1
        The site that holds the class in `fit`, the last by default; "all": every site does.
    max_depth : int or None, default=None
        Largest depth; None grows until the leaves are pure or no attribute is left.
    epsilon : float or None, default=None
        Noise on all counts for the public's sake, with this budget; needs `domain` and
        `max_depth`. With the commutative cipher it protects nobody from the sites; on secret counts
        it also hides from each site what records say at the others, as long as the sites are not
        asked to classify them. ``privacy_`` says so.
    cardinality : {"commutative", "secret"}, default="commutative"
        How sizes of intersections are found. "commutative": sets encrypted by all sites, as
        published, which gives away sizes of sub-intersections and the best gain of each site.
        "secret": on shares of three servers, which gives away neither.
    engine : {"simulate", "processes", "clear"}, default="simulate"
        With secret counts, where the servers are: in this process, in processes of their own over
        TLS, or nowhere, that is one process computes on plain numbers.
    domain : Domain or None, default=None
        Public attributes and bins. None reads them from the data, where there is no epsilon.
    max_bins : int, default=8
        Bins per numeric attribute if the domain is read from the data: each becomes a branch.
    missing : {"error", "own bin"}, default="error"
        What to do with missing values if the domain is read from the data.
    ring : {"needed", "all"}, default="needed"
        Whether sites without a constraint on a node take part in its intersections, as published.
    answers_to : {"asker", "class site"}, default="asker"
        Who learns the class of an instance; with "class site" see `answers_of_class_site`.
    random_state : int or None, default=None
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

    sites_: list[Site]
    root_: Token
    columns_: list[list[int]]
    privacy_: Ledger
    server_traffic_: Reading | None
    _server_learned: list[dict[str, Any]] | None

    def __init__(
        self,
        *,
        n_sites: int = 2,
        groups: Sequence[Sequence[str | int]] | None = None,
        class_at: int | str = -1,
        max_depth: int | None = None,
        epsilon: float | None = None,
        cardinality: str = "commutative",
        engine: str = "simulate",
        domain: Domain | None = None,
        max_bins: int = 8,
        missing: str = "error",
        ring: str = "needed",
        answers_to: str = "asker",
        random_state: int | None = None,
    ) -> None:
        self.n_sites = n_sites
        self.groups = groups
        self.class_at = class_at
        self.max_depth = max_depth
        self.epsilon = epsilon
        self.cardinality = cardinality
        self.engine = engine
        self.domain = domain
        self.max_bins = max_bins
        self.missing = missing
        self.ring = ring
        self.answers_to = answers_to
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Deal the columns of a table to the sites and grow the tree.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy, pandas or Arrow.
        y : array-like of shape (n_rows,)
            Class labels.

        Returns
        -------
        self

        Notes
        -----
        Reveals: to each site what ``what_was_learned_`` lists.
        """
        self._check_parameters()
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
        return self._grow(job, tables)

    def fit_sites(
        self, tables: Sequence[Any], ys: Sequence[Any], ids: Sequence[Any] | None = None
    ) -> Self:
        """Grow the tree on the tables of several sites.

        Parameters
        ----------
        tables : sequence of tables
            One per site, with names for the columns; None at a site that holds the class alone.
        ys : sequence of array-likes
            One per site: the class at one of them and None at the others, or at all of them.
        ids : sequence of array-likes, optional
            Row ids of every site, in any order: records that not all sites have are left out, after
            a private intersection of the ids. Without, rows are matched by their place.

        Returns
        -------
        self

        Raises
        ------
        HedgerowError
            H110 for a repeated id, H111 for no id in common, H106 for a column at two sites, H755
            for a class at some sites but not at all, or at all of them but not the same.
        """
        self._check_parameters()
        domain, parts, class_at = parts_of_sites(
            tables, ys, ids, self.domain, max_bins=self.max_bins, missing=self.missing
        )
        self._take_domain(domain)
        self.n_features_in_ = len(domain.attributes)
        self.feature_names_in_ = np.array(domain.names, dtype=object)
        self.columns_ = [columns for columns, _ in parts]
        job = self._job(len(parts), class_at, align=ids is not None)
        return self._grow(job, [table for _, table in parts])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Have the sites classify instances; class probabilities for the site that asks.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Each site looks at its own columns only.

        Returns
        -------
        NDArray[float64], shape (n_rows, n_classes)
        """
        counts = self._classify(X)
        if counts is None:
            raise Code.BAD_PARAMETER.error(
                expected="answers_to='asker'",
                found="answers_to='class site': the class site keeps what it finds",
                fix="call answers_of_class_site, at the class site",
            )
        return _shares(counts)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Have the sites classify instances; the lowest class index wins ties.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray, shape (n_rows,)
        """
        shares = self.predict_proba(X)
        return _most(self.classes_, shares)

    def answers_of_class_site(self, X: ArrayLike) -> NDArray[Any]:
        """Have the sites classify instances for the class site alone, and look there.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray, shape (n_rows,)
            Labels that the class site keeps; no message carried them.
        """
        check_is_fitted(self, "root_")
        holder = self.sites_[self.sites_[0].job.starter]
        before = len(holder.kept)
        if self._classify(X) is not None:
            raise Code.BAD_PARAMETER.error(
                expected="answers_to='class site'", found=f"answers_to={self.answers_to!r}"
            )
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

    def _classify(self, X: Any) -> NDArray[np.int64] | None:
        check_is_fitted(self, "root_")
        query = encode(self._table(X, reset=False), self.domain_)
        bins = [query.bins[:, group] for group in self.columns_]
        found = LocalSites(self.sites_).classify(self.root_, np.arange(query.n_slots), bins)
        self._charge_questions()
        return found

    def _charge_questions(self) -> None:
        """Charge, once for each site, that it has seen exact branches or leaves of instances."""
        for who, rows in self.what_was_learned_.items():
            for name in sorted({row["name"] for row in rows} & set(OF_QUESTIONS)):
                if not self.privacy_.charged(name, who):
                    self.privacy_.charge(exact(who, name))

    def _grow(self, job: SiteJob, tables: Sequence[SiteTable]) -> Self:
        for i, table in enumerate(tables):
            if not table.bins.shape[1] and table.labels is None:
                raise Code.BAD_SITES.error(
                    expected="an attribute or the class at every site",
                    found=f"neither at site {i}",
                    fix="use fewer sites, or give each of them a column",
                )
        ledger = self._charged(job, tables)
        seeds = None if self.random_state is None else [self._seeds(i) for i in range(job.n_sites)]
        self.server_traffic_, self._server_learned = None, None
        if self.cardinality == "secret":
            run = run_secret(job, tables, self.engine, seed=self.random_state, seeds=seeds)  # type: ignore[arg-type]
            self.server_traffic_, self._server_learned = run.meter, run.learned
            self.root_, self.sites_ = run.root, run.sites
        else:
            self.sites_ = sites_of(job, tables, seeds)
            self.root_ = LocalSites(self.sites_).grow()
        self.privacy_ = ledger
        return self

    def _charged(self, job: SiteJob, tables: Sequence[SiteTable]) -> Ledger:
        """Return the ledger of the run, charged with all of it."""
        ledger = Ledger(self.domain_ if job.epsilon is not None else None)
        if self.cardinality == "secret":
            session = session_of_tables(job, tables)
            ledger.charge(*summary_of_secret(session))
            mark_secret(ledger, job)
        else:
            ledger.charge(*summary_releases(job))
        if self.cardinality != "secret" and job.epsilon is not None and job.max_depth is not None:
            widths = self.domain_.n_bins
            ledger.charge(
                *CountNoise(
                    job.epsilon, job.max_depth, len(widths), job.n_classes, int(widths.max())
                ).releases()
            )
        if self.random_state is not None:
            warnings.warn(
                "random_state makes keys and noise repeatable: the ledger records this model as "
                "not private",
                HedgerowWarning,
                stacklevel=4,
            )
            ledger.mark_not_private("keys and noise were seeded")
        return ledger

    def _job(self, n_sites: int, class_at: int | None, *, align: bool) -> SiteJob:
        return SiteJob(
            n_sites=n_sites,
            class_at=class_at,
            n_classes=len(self.classes_),
            max_depth=None if self.max_depth is None else int(self.max_depth),
            ring=self.ring,  # type: ignore[arg-type]
            align=align,
            answers_to=self.answers_to,  # type: ignore[arg-type]
            epsilon=None if self.epsilon is None else float(self.epsilon),
        )

    def _class_site(self, n_sites: int) -> int | None:
        if self.class_at == "all":
            return None
        at = int(self.class_at)
        return at + n_sites if at < 0 else at

    def _seeds(self, site: int) -> tuple[bytes, int]:
        return self._key(site, KEY_BYTES), int.from_bytes(self._key(site, 8), "little")

    def _key(self, site: int, size: int) -> bytes:
        text = f"hedgerow site {site} seed {self.random_state}".encode()
        return hashlib.blake2b(text, digest_size=size).digest()

    def _check_parameters(self) -> None:
        check_option("ring", self.ring, Ring)
        check_option("answers_to", self.answers_to, AnswersTo)
        check_option("cardinality", self.cardinality, Cardinality)
        check_option("engine", self.engine, EngineName)
        check_parameter(
            "engine",
            self.engine,
            self.engine == "simulate" or self.cardinality == "secret",
            "must be 'simulate' without cardinality='secret': there are no servers",
        )
        check_parameter("n_sites", self.n_sites, is_count(self.n_sites, 2), "must be at least 2")
        check_parameter(
            "class_at",
            self.class_at,
            self.class_at == "all" or (isinstance(self.class_at, int | np.integer)),
            "must be the number of a site, or 'all'",
        )
        check_parameter(
            "max_depth",
            self.max_depth,
            self.max_depth is None or is_count(self.max_depth),
            "must be None or a whole number of at least 1",
        )
        check_parameter(
            "random_state",
            self.random_state,
            self.random_state is None or is_count(self.random_state, 0),
            "must be None or >= 0",
        )
        if self.epsilon is None:
            return
        check_epsilon(self.epsilon)
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(found="domain=None")
        if not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {self.domain.provenance!r}")

    def _tagged(self, tags: Tags) -> Tags:
        tags.non_deterministic = self.epsilon is not None
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = self.epsilon is not None
        return tags


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
