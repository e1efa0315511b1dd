"""`ID3Classifier`: one branch per value, without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from hedgerow.errors import Code
from hedgerow.estimators.public_model import PublicModelClassifier, TreeEstimator
from hedgerow.protocols.contract import AtLeastOne, Options
from hedgerow.tables import Domain
from hedgerow.trees import grow_id3


class ID3Options(Options):
    """Trees with one branch per value, without privacy."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    criterion: Literal["entropy", "gini", "max"] = Field(
        "entropy",
        description="What a split has to reduce; 'entropy' is Quinlan's information gain.",
    )
    max_depth: AtLeastOne | None = Field(
        None,
        description="Largest depth; None grows until the leaves are pure or no attribute is left.",
    )


@dataclass(kw_only=True, eq=False, repr=False)
class ID3Classifier(PublicModelClassifier, TreeEstimator):
    """Multiway classification tree; each attribute is used at most once on a path.

    Paper: quinlan1986id3. Numeric attributes are split into their bins. Of equally good attributes
    the first wins; a branch that no row takes predicts what its parent predicts.

    Parameters
    ----------
    domain : Domain or None
        Public attributes and bins. None reads them from the data.
    max_bins : int
        Bins per numeric attribute if the domain is read from the data: each becomes a branch.
    missing : "error" or "own bin"
        What to do with missing values if the domain is read from the data.

    Attributes
    ----------
    tree_, domain_, feature_importances_, classes_, n_features_in_, feature_names_in_
        As in `CARTClassifier`.
    """

    _options_type = ID3Options

    criterion: str = "entropy"
    max_depth: int | None = None
    domain: Domain | None = None
    max_bins: int = 8
    missing: str = "error"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the tree of a table (NumPy, pandas or Arrow) and its class labels."""
        options = ID3Options.from_parameters(self.get_params(deep=False))
        encoded = self._encode_training(
            X, y, self.domain, max_bins=self.max_bins, missing=self.missing
        )
        self.tree_ = grow_id3(encoded, criterion=options.criterion, max_depth=options.max_depth)
        self._importance_criterion = options.criterion
        return self
