"""`OpenTreeClassifier`: several owners, three servers, one tree for everybody."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.hidden.tree import ServerTree
from hedgerow.estimators.public_model import PublicModelClassifier, TreeEstimator
from hedgerow.protocols.hidden.options import OpenTreeOptions, ServerOptions
from hedgerow.trees import Tree


class OpenTreeClassifier(PublicModelClassifier, TreeEstimator, ServerTree):
    """Decision tree that three servers train on shares and then open to everybody.

    Paper: hiddentrees, ``CDP+PMPC-ID3`` with noise and ``MPC-ID3`` without. With the discrete
    mechanisms it is the tree of `DPTreeClassifier`, trained without a curator: nobody sees rows,
    and the whole tree may be published.

    Parameters
    ----------
    noise
        "none" opens a tree that is a noiseless function of the data.
    mechanism
        With one of the last two splits are chosen by the paper's exponential mechanism, leaves
        labelled by its Laplace or exponential one, and epsilon is divided as there. The ledger has
        the paper's figure.

    Attributes
    ----------
    tree_ : Tree
        The opened tree. Where labels alone were opened, leaves have the count 1 in their class.
    feature_importances_ : ndarray
        From the opened counts; not there where labels alone were opened.
    privacy_, leakage_, meter_, runs_, plan_, classes_, domain_, n_features_in_, feature_names_in_
        As in `HiddenTreeClassifier`.
    """

    _protocol = "open-tree"
    _options_type: ClassVar[type[ServerOptions]] = OpenTreeOptions
    _importance_criterion = "gini"

    def _train(self, plan: Any, owners: Any, ledger: Any) -> Self:
        super()._train(plan, owners, ledger)
        self.tree_ = Tree.from_dict(self.model_.public)
        return self

    @property
    def _noisy_counts(self) -> bool:  # type: ignore[override]
        return self.noise != "none"

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the opened counts, (d,)."""
        check_is_fitted(self, "tree_")
        if np.isnan(self.tree_.value).any():
            raise AttributeError("importances need counts, and labels alone were opened")
        return super().feature_importances_
