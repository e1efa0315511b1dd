"""`VerticalID3Classifier`: an ID3 tree over columns that lie at several sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from hedgerow.errors import Code
from hedgerow.estimators.account import Account
from hedgerow.estimators.parameters import check_epsilon, check_parameter, is_count
from hedgerow.estimators.vertical_growth import GrownAtSites
from hedgerow.estimators.vertical_sites import columns_of_sites, parts_of_sites
from hedgerow.options import check_option
from hedgerow.protocols.run import EngineName
from hedgerow.protocols.vertical_id3.job import AnswersTo, Ring
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Domain

Cardinality = Literal["commutative", "secret"]


class VerticalID3Classifier(GrownAtSites):
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
        published, which gives away sizes of sub-intersections and the best gain of each site, and
        to a site that does not keep to the protocol the class of every record. "secret": on shares
        of three servers, which gives away none of this.
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
    account : Account or str, optional
        Adds up the fits on the same people, and questions, which are exact. One with a budget pays
        for noise on secret counts alone: all else tells the sites exact numbers.
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
        account: Account | str | None = None,
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
        self.account = account
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
        """Grow the tree on the tables of several sites.

        Parameters
        ----------
        tables : sequence of tables
            One per site, with names for the columns; None at a site that holds the class alone.
        ys : sequence of array-likes
            One per site: the class at one of them and None at the others, or at all of them.
        ids : sequence of array-likes, optional
            Row ids of every site, in any order: records that not all sites have are left out, after
            a private intersection of the ids; ``n_records_`` says how many are left. All are whole
            numbers or all are text. Without ids, rows are matched by their place.

        Returns
        -------
        self

        Raises
        ------
        HedgerowError
            H109 for ids that are neither whole numbers nor text, H110 for a repeated id, H111 for
            no id in common or ids of two types, H106 for a column at two sites, H755 for a class at
            some sites but not at all, or at all of them but not the same.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            domain, parts, class_at = parts_of_sites(
                tables, ys, ids, self.domain, max_bins=self.max_bins, missing=self.missing
            )
            self._take_domain(domain)
            self.n_features_in_ = len(domain.attributes)
            self.feature_names_in_ = np.array(domain.names, dtype=object)
            self.columns_ = [columns for columns, _ in parts]
            job = self._job(len(parts), class_at, align=ids is not None)
            return self._grow(job, [table for _, table in parts], ledger)

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
