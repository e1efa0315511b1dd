"""`DPTreeClassifier`: one curator, one tree that may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from numpy.typing import ArrayLike

from hedgerow.estimators.accounted import PlannedEstimator
from hedgerow.estimators.public_model import PublicModelClassifier, TreeEstimator
from hedgerow.protocols.private_tree import PrivateTreeOptions
from hedgerow.trees import grow_private
from hedgerow.trees.growing.private import PrivatePlan


@dataclass(kw_only=True, eq=False, repr=False)
class DPTreeClassifier(PlannedEstimator[PrivatePlan], PublicModelClassifier, TreeEstimator):
    """Differentially private decision tree: splits by noisy max, leaves by noisy counts.

    Every level of splits and the leaf counts are one release each; epsilon is their sum, and
    ``privacy_`` lists them. Neighbours are tables that differ by one added or removed row, so one
    person has to be one row.

    Parameters
    ----------
    max_depth
        The rule counts candidates and classes, too.
    branching
        Single values are compared with the rest.
    split_share
        The rest is for the leaves.

    Attributes
    ----------
    tree_ : Tree
        The released tree; leaf counts are noisy.
    privacy_ : Ledger
        Every release with its cost and audience.
    classes_ : ndarray
        Classes of the domain.
    domain_ : Domain
        The domain used.
    feature_importances_ : ndarray
        Computed from what was released alone, so it costs nothing more.
    criterion_ : str
        The criterion used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPTreeClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=100,
    ... )
    >>> rows, ill = [[age] for age in range(100)], [int(age > 60) for age in range(100)]
    >>> tree = DPTreeClassifier(epsilon=2.0, domain=domain).fit(rows, ill)
    >>> tree.privacy_.total("public").epsilon <= 2.0
    True
    """

    _options_type = PrivateTreeOptions
    _noisy_counts = True
    _importance_criterion = "gini"

    max_depth: int | str = "auto"
    criterion: str = "auto"
    branching: str = "binary"
    split_share: float = 0.7

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on a table (NumPy, pandas or Arrow) and its class labels; spends ``epsilon``.

        Reveals: the tree with noisy leaf counts, to the public, epsilon in total.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            source = self._before_rows(ledger, lambda domain: self._plan(domain, domain.capacity))
            encoded = self._encode_training(
                X, y, self.domain, max_bins=32, spacing="uniform", missing="error"
            )
            # Without a declared domain nothing is claimed, and the row count serves as capacity.
            capacity = len(encoded.bins) if self.domain is None else self.domain.capacity
            plan = self._plan(encoded.domain, capacity)
            self.tree_ = grow_private(encoded, plan, ledger=ledger, source=source)
            self.criterion_ = plan.score.name
        return self
