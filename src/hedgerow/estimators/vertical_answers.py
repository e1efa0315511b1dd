"""Asking the sites of a vertical tree, and what each of them learned."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import Code
from hedgerow.estimators.account import account_of
from hedgerow.estimators.accounted import AccountedEstimator
from hedgerow.estimators.table import TableClassifier
from hedgerow.protocols.vertical_id3.leakage import INSTANCES, OF_QUESTIONS, exact
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.programs import LocalSites, joined_tree
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.tables import encode
from hedgerow.trees.tree import Tree


class SitesClassifier(TableClassifier, AccountedEstimator):
    """A classifier whose tree lies in parts at several sites, which answer together."""

    _model_name: ClassVar[str] = "root_"

    answers_to: str

    sites_: list[Site]
    root_: Token
    columns_: list[list[int]]
    # None where no servers took part.
    _server_learned: list[dict[str, Any]] | None

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
            account.check([exact("site", INSTANCES)])
        bins = [query.bins[:, group] for group in self.columns_]
        found = LocalSites(self.sites_).classify(self.root_, np.arange(query.n_slots), bins)
        self._charge_questions()
        return found

    def _charge_questions(self) -> None:
        """Charge, once for each site, that it has seen exact branches or leaves of instances."""
        due = [
            exact(who, name)
            for who, rows in self.what_was_learned_.items()
            for name in sorted({row["name"] for row in rows} & set(OF_QUESTIONS))
            if not self.privacy_.charged(name, who)
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
