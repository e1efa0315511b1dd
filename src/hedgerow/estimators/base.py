"""What every estimator with a public tree shares: leaves, importances and drawings."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.public_model import (
    PublicModelClassifier,
    PublicModelEstimator,
    PublicModelRegressor,
    normalised,
)
from hedgerow.trees import Tree, impurity_decrease, to_svg, to_text


class TreeEstimator(PublicModelEstimator):
    """A scikit-learn estimator whose fitted state is a public `Tree` in ``tree_``."""

    _model_name = "tree_"

    # Drawings say so where counts are noisy.
    _noisy_counts: ClassVar[bool] = False

    # By which criterion importances are measured.
    _importance_criterion: str

    tree_: Tree

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row reaches.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)

        Returns
        -------
        NDArray[int32], shape (n_rows,)
        """
        query = self._encode_query(X)
        return self.tree_.apply(query.bins)

    def get_depth(self) -> int:
        """Return the depth of the fitted tree."""
        check_is_fitted(self, "tree_")
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves of the fitted tree."""
        check_is_fitted(self, "tree_")
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the counts in the tree, (d,)."""
        check_is_fitted(self, "tree_")
        tree, inner = self.tree_, self.tree_.feature >= 0
        total: NDArray[np.float64] = np.bincount(
            tree.feature[inner],
            weights=impurity_decrease(tree, self._importance_criterion)[inner],
            minlength=len(tree.domain.attributes),
        ).astype(np.float64)
        return normalised(total)

    def to_text(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as indented text."""
        check_is_fitted(self, "tree_")
        return to_text(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)

    def to_svg(self, max_depth: int | None = None) -> str:
        """Draw the fitted tree as a self-contained SVG picture."""
        check_is_fitted(self, "tree_")
        return to_svg(self.tree_, max_depth=max_depth, noisy=self._noisy_counts)


class TreeClassifier(PublicModelClassifier, TreeEstimator):
    """A classifier over a public tree."""


class TreeRegressor(PublicModelRegressor, TreeEstimator):
    """A regressor over a public tree."""
